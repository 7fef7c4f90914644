"""The encoder-decoder as a function: packing, what a token sees, positions, languages, weights, and one graph."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml
from transformers import BartConfig, BartForConditionalGeneration

import conf
from conf.errors import InputError
from pretrain.models.config import Seq2SeqConfig, config_from_fields
from pretrain.models.seq2seq import Seq2SeqModel
from tests.pretrain.models.conftest import BART, SEQ2SEQ_FORMS, make_seq2seq
from tests.pretrain.models.pairs import one_a_row, sides

PAIRS = [
    ([2, 11, 12, 13, 3], [2, 21, 22, 23]),
    ([2, 31, 3], [2, 41]),
    ([2, 51, 52, 3], [2, 61, 62, 63, 64, 65]),
    ([2, 71, 3], [2, 72, 73]),
]
ROWS = [PAIRS[:2], PAIRS[2:]]
KERNELS = ["sdpa", "matmul", "reference"]


def tokens_of(model, source, target, names=("en", "fr")):
    """Both sides as the model takes them: where it has languages, in the ones of these names."""
    known = model.config.languages
    numbers = [known.index(name) for name in names] if known else (None, None)
    return [side.tokens(number) for side, number in zip((source, target), numbers, strict=True)]


def run(model, source, target, names=("en", "fr"), **options):
    """Logits at all real tokens of the decoder's side."""
    return model(*tokens_of(model, source, target, names), target.real, **options)


@pytest.fixture(params=SEQ2SEQ_FORMS)
def model(request):
    return make_seq2seq(SEQ2SEQ_FORMS[request.param])


# --- packing, and what a token sees ---


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", SEQ2SEQ_FORMS)
def test_packed_and_single_pairs_give_the_same_logits(form, kernel):
    model = make_seq2seq(replace(SEQ2SEQ_FORMS[form], attention_kernel=kernel))
    together = run(model, *sides(ROWS, 10, 11))
    alone = torch.cat([run(model, *one_a_row([pair])) for pair in PAIRS])
    assert together.std() > 0.1  # not equal for being all alike
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_another_pair_in_the_row_leaves_logits_to_the_bit(kernel):
    for form in SEQ2SEQ_FORMS.values():
        model = make_seq2seq(replace(form, attention_kernel=kernel))
        before = run(model, *sides(ROWS, 10, 11))
        for changed in (
            [([2, 14, 15, 16, 3], [2, 24, 25, 26]), PAIRS[1]],
            [([2, 14, 15, 16, 3], PAIRS[0][1]), PAIRS[1]],
        ):
            after = run(model, *sides([changed, ROWS[1]], 10, 11))
            assert torch.equal(before[4:], after[4:])
            assert not torch.equal(before[:4], after[:4])


def seen(model, position, hidden_keys=None):
    """Which tokens of source and target have an influence on the decoder's state at flat `position` of the target."""
    source, target = sides(ROWS, 10, 11)
    found = []
    hooks = [
        stack.embeddings.register_forward_hook(lambda _, __, out: found.append(out) or out)
        for stack in (model.encoder, model.decoder)
    ]
    tokens = tokens_of(model, source, target)
    states = model.target_states(*tokens, torch.tensor([position]), hidden_keys=hidden_keys)
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(states.square().sum(), found)
    return [gradient.abs().sum(1).nonzero().flatten().tolist() for gradient in gradients]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_decoder_token_sees_its_own_source_and_of_its_target_nothing_after_it(kernel):
    for form in SEQ2SEQ_FORMS.values():
        model = make_seq2seq(replace(form, attention_kernel=kernel))
        assert seen(model, 2) == [[0, 1, 2, 3, 4], [0, 1, 2]]
        assert seen(model, 5) == [[5, 6, 7], [4, 5]]
        assert seen(model, 11 + 3) == [[10, 11, 12, 13], [11, 12, 13, 14]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_hidden_encoder_tokens_reach_the_decoder_through_their_neighbours_only(kernel):
    model = make_seq2seq(replace(BART, attention_kernel=kernel))
    source, target = sides(ROWS, 10, 11)
    hidden = torch.zeros(20, dtype=torch.bool)
    hidden[[1, 2]] = True
    plain, hiding = run(model, source, target), run(model, source, target, hidden_keys=hidden)
    assert not torch.allclose(plain[:4], hiding[:4], atol=1e-3)
    torch.testing.assert_close(plain[4:], hiding[4:], atol=1e-6, rtol=1e-5)
    memory = model.encode(source.tokens()).detach().requires_grad_()
    states = model.decode(target.tokens(), memory, source.layout, hidden_keys=hidden)
    (gradient,) = torch.autograd.grad(states[target.real[:4]].square().sum(), memory)
    assert gradient.abs().sum(1).nonzero().flatten().tolist() == [0, 3, 4]


def test_a_source_without_a_target_is_passed_over(model):
    rows = [[PAIRS[0], (PAIRS[1][0], []), PAIRS[3]]]
    logits = run(model, *sides(rows, 13, 10))
    expected = torch.cat([run(model, *one_a_row([pair])) for pair in (PAIRS[0], PAIRS[3])])
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


# --- wanted positions, gradients, recomputation ---


def test_wanted_positions_are_computed_as_if_all_were(model):
    source, target = sides(ROWS, 10, 11)
    source, target = tokens_of(model, source, target)
    memory = model.encode(source)
    every = model.decode(target, memory, source.layout)
    wanted = torch.tensor([9, 1, 1, 3])
    some = model.decode(target, memory, source.layout, output_positions=wanted)
    torch.testing.assert_close(some, every[wanted], atol=1e-6, rtol=1e-5)
    states = model.target_states(source, target, wanted)
    torch.testing.assert_close(states, some)
    torch.testing.assert_close(model.logits(states), model(source, target, wanted))


def test_every_parameter_is_reached_by_a_gradient(model):
    source, target = sides(ROWS, 10, 11)
    run(model, source, target).logsumexp(1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


def gradients(model, recompute, autocast):
    model.train()
    model.encoder.activation_checkpointing = model.decoder.activation_checkpointing = recompute
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = run(model, *sides(ROWS, 10, 11)).float().square().mean()
    found = torch.autograd.grad(loss, list(model.parameters()))
    return [loss, torch.rand(1), *found]  # the generator must be where it would be without it


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("autocast", [False, True])
def test_recomputed_activations_give_the_same_gradients_to_the_bit(kernel, dropout, autocast):
    for form in SEQ2SEQ_FORMS.values():
        config = replace(form, attention_kernel=kernel, dropout=dropout, attention_dropout=dropout)
        model = make_seq2seq(config)
        plain, recomputed = gradients(model, False, autocast), gradients(model, True, autocast)
        assert all(torch.equal(a, b) for a, b in zip(plain, recomputed, strict=True))


def test_much_less_is_kept_where_activations_are_recomputed():
    model = make_seq2seq(replace(BART, num_encoder_layers=5, num_decoder_layers=5)).train()
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept = []
    for recompute in (False, True):
        model.encoder.activation_checkpointing = model.decoder.activation_checkpointing = recompute
        sizes = {}

        def pack(tensor, sizes=sizes):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        pairs = [([2, *range(5, 45)], [2, *range(5, 45)])] * 4
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = run(model, *one_a_row(pairs)).sum()
        loss.backward()
        kept.append(sum(sizes.values()))
    assert kept[1] < 0.4 * kept[0]


@pytest.mark.parametrize(
    ("form", "recompute", "kernel", "hides"),
    [
        ("bart", False, "sdpa", True),
        ("bart", True, "matmul", True),
        ("mbart_languages", True, "sdpa", False),
        ("bart_sinusoidal", False, "matmul", False),
    ],
)
def test_the_model_is_one_graph_whatever_the_batch_holds(form, recompute, kernel, hides):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = make_seq2seq(replace(SEQ2SEQ_FORMS[form], attention_kernel=kernel)).train()
    model.encoder.activation_checkpointing = model.decoder.activation_checkpointing = recompute
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for rows in (ROWS, [PAIRS[:1], PAIRS[1:]], [PAIRS[:3], PAIRS[3:]]):
        source, target = sides(rows, 14, 14)
        options = {"hidden_keys": source.ids == 12} if hides else {}
        source.layout.for_compiled_code()
        target.layout.for_compiled_code()
        inputs = (*tokens_of(model, source, target), torch.tensor([1, 2, 15]))
        results = [function(*inputs, **options) for function in (compiled, model)]
        torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
        found = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in results]
        torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


# --- positions and languages ---


def test_word_order_matters_by_positions_alone_on_both_sides(model):
    def last(source, target):
        return run(model, *one_a_row([(source, target)]))[-1]

    first = last([2, 11, 12, 3], [2, 21, 22, 23])
    assert (first - last([2, 12, 11, 3], [2, 21, 22, 23])).abs().max() > 1e-3
    assert (first - last([2, 11, 12, 3], [2, 22, 21, 23])).abs().max() > 1e-3


def test_a_decoder_may_keep_positions_from_elsewhere(model):
    source, target = one_a_row(PAIRS)
    here = run(model, source, target)
    target.positions = target.positions + 5
    there = run(model, source, target)
    assert (here - there).abs().max() > 1e-3
    target.positions = target.positions + 38
    with pytest.raises(IndexError):
        run(model, source, target)


def test_sinusoids_are_those_of_the_paper_and_no_part_of_a_checkpoint():
    model = make_seq2seq(SEQ2SEQ_FORMS["bart_sinusoidal"])
    assert not any("position" in name for name in model.state_dict())
    model = model.to(torch.bfloat16)
    table = model.decoder.embeddings.position(torch.tensor([0, 1, 47]))
    position = torch.tensor([0.0, 1.0, 47.0], dtype=torch.float64)
    for j in range(16):
        angle = position / 10000.0 ** (2 * j / 32)
        torch.testing.assert_close(table[:, 2 * j].double(), angle.sin(), atol=1e-5, rtol=0)
        torch.testing.assert_close(table[:, 2 * j + 1].double(), angle.cos(), atol=1e-5, rtol=0)


def test_scaled_embeddings_are_multiplied_by_the_root_of_the_width():
    plain = make_seq2seq(BART)
    scaled = Seq2SeqModel(replace(BART, scale_embeddings=True), 75).eval()
    state = plain.state_dict()
    scaled.load_state_dict(state)
    source, target = one_a_row(PAIRS)
    memory = scaled.encode(source.tokens())
    assert not torch.allclose(memory, plain.encode(source.tokens()), atol=1e-3)
    token = "encoder.embeddings.token.weight"
    plain.load_state_dict(state | {token: state[token] * 32**0.5})
    torch.testing.assert_close(memory, plain.encode(source.tokens()), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(
        scaled.decode(target.tokens(), memory, source.layout), plain.decode(target.tokens(), memory, source.layout)
    )


def test_each_side_has_its_own_language_at_every_token():
    model = make_seq2seq(SEQ2SEQ_FORMS["mbart_languages"])
    source, target = one_a_row(PAIRS)
    results = {names: run(model, source, target, names) for names in (("en", "fr"), ("de", "fr"), ("en", "de"))}
    assert not torch.allclose(results["en", "fr"], results["de", "fr"], atol=1e-3)
    assert not torch.allclose(results["en", "fr"], results["en", "de"], atol=1e-3)
    # The language is added at every token: as if it were part of the table of positions.
    without = Seq2SeqModel(replace(model.config, languages=()), 75).eval()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items() if "language" not in name}
    for stack, row in (("encoder", 2), ("decoder", 1)):
        state[f"{stack}.embeddings.position.weight"] += (
            model.get_submodule(stack).embeddings.language.weight[row].detach()
        )
    without.load_state_dict(state)
    torch.testing.assert_close(run(without, source, target), results["de", "fr"], atol=1e-5, rtol=1e-5)


def test_a_model_with_languages_needs_to_know_them_and_one_without_does_not_use_them():
    source, target = one_a_row(PAIRS)
    with_languages, without = make_seq2seq(SEQ2SEQ_FORMS["mbart_languages"]), make_seq2seq(BART)
    with pytest.raises(InputError, match=r"has language embeddings \(model.languages\), but the batch says no"):
        with_languages(source.tokens(), target.tokens(), target.real)
    told = without(source.tokens(1), target.tokens(1), target.real)
    assert torch.equal(run(without, source, target), told)


# --- options and sizes ---


def test_the_seed_alone_makes_the_model():
    for config in SEQ2SEQ_FORMS.values():
        states = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            states.append(Seq2SeqModel(config, 75).state_dict())
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        assert not torch.equal(*(s["decoder.layers.0.cross.query.weight"] for s in states[::2]))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_initial_weights_have_the_stated_spread(norm):
    torch.manual_seed(0)
    config = replace(
        BART, hidden_size=256, intermediate_size=512, num_encoder_layers=4, num_decoder_layers=3, norm=norm
    )
    model = Seq2SeqModel(config, 500)
    cut = 0.8796  # a normal cut at two deviations keeps this much of its own deviation
    encoder, decoder = model.encoder.layers[2], model.decoder.layers[2]
    expected = 0.02 * cut
    pre = norm == "pre"
    for weight, deviation in (
        (model.encoder.embeddings.token.weight[:500], expected),
        (model.decoder.embeddings.position.weight, expected),
        (decoder.cross.query.weight, expected),
        (decoder.cross.key_value.weight, expected),
        (encoder.attention.output.weight, expected / (8**0.5 if pre else 1)),
        (decoder.attention.output.weight, expected / (9**0.5 if pre else 1)),
        (decoder.cross.output.weight, expected / (9**0.5 if pre else 1)),
        (decoder.mlp.output.weight, expected / (9**0.5 if pre else 1)),
    ):
        assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.03)
    assert not model.encoder.embeddings.token.weight[500:].any() and not model.head.bias.any()


def test_dropout_acts_in_training_only_and_follows_the_seed():
    for options in ({"dropout": 0.2}, {"attention_dropout": 0.2}):
        model = make_seq2seq(replace(BART, **options))
        source, target = one_a_row(PAIRS)
        quiet = run(model, source, target)
        assert torch.equal(quiet, run(model, source, target))
        runs = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            runs.append(run(model.train(), source, target))
        assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_bf16_autocast_stays_near_fp32(model):
    source, target = one_a_row(PAIRS)
    exact = run(model, source, target)
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(model, source, target)
    assert 0 < (rough - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_decoder_layers": 0}, "model.num_decoder_layers must be at least 1, but is 0"),
        ({"num_heads": 3}, "num_heads must divide model.hidden_size, but 32 is not a multiple of 3"),
        ({"positions": "rope"}, "model.positions must be one of learned, sinusoidal, but is 'rope'"),
        ({"norm": "sandwich"}, "model.norm must be one of pre, post"),
        ({"dropout": 1.0}, r"model.dropout must be in \[0, 1\), but is 1.0"),
        ({"layer_norm_eps": 0.0}, "model.layer_norm_eps must be above 0"),
        ({"languages": ["en", "en"]}, r"model.languages must be distinct names, but is \['en', 'en'\]"),
        (
            {"hidden_size": 33, "num_heads": 3, "positions": "sinusoidal"},
            "needs an even model.hidden_size, but it is 33",
        ),
        ({"attention_kernel": "varlen", "attention_dropout": 0.1}, "varlen has no dropout"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(change, message):
    with pytest.raises(InputError, match=message):
        replace(BART, **change)


def test_a_sequence_beyond_the_positions_is_refused_on_either_side(model):
    for pair in (([2] * 48, [2]), ([2], [2] * 48)):  # and one place of padding
        source, target = one_a_row([pair])
        with pytest.raises(InputError, match=r"up to 49 tokens, but model\.max_positions is 48"):
            run(model, source, target)


def test_a_configuration_comes_back_from_its_fields():
    for config in SEQ2SEQ_FORMS.values():
        assert config_from_fields(asdict(config)) == config
    assert config_from_fields(asdict(BART) | {"languages": ["en", "fr"]}) == replace(BART, languages=("en", "fr"))


def read(name):
    options = yaml.safe_load((Path(conf.__file__).parent / "model" / f"{name}.yaml").read_text())
    assert options.pop("_target_") == "pretrain.models.config.Seq2SeqConfig"
    assert options.keys() == Seq2SeqConfig.__dataclass_fields__.keys()
    return Seq2SeqConfig(**options)


@pytest.mark.parametrize(
    ("name", "size", "layers", "heads", "width"),
    [("mass_tiny", 128, 2, 2, 512), ("mass_base", 768, 6, 12, 3072), ("mass_big", 1024, 6, 8, 4096)],
)
def test_the_yaml_files_have_the_sizes_of_their_names_and_the_parameters_of_bart(name, size, layers, heads, width):
    config = read(name)
    assert config.num_encoder_layers == config.num_decoder_layers == layers
    assert (config.hidden_size, config.num_heads, config.intermediate_size) == (size, heads, width)
    assert config.architecture == "bart" and config.dropout == config.attention_dropout == 0.1
    vocab_size = 60_000
    with torch.device("meta"):
        ours = Seq2SeqModel(config, vocab_size)
        theirs = BartForConditionalGeneration(
            BartConfig(
                vocab_size=vocab_size,
                d_model=size,
                encoder_layers=layers,
                decoder_layers=layers,
                encoder_attention_heads=heads,
                decoder_attention_heads=heads,
                encoder_ffn_dim=width,
                decoder_ffn_dim=width,
                max_position_embeddings=512,
            )
        )
    # Theirs has two more rows in each table of positions, and the output's bias is no parameter there.
    assert ours.num_parameters() - vocab_size == sum(p.numel() for p in theirs.parameters()) - 4 * size
    linear, norm = size * size + size, 2 * size
    mlp = 2 * size * width + width + size
    by_hand = vocab_size * (size + 1) + 2 * (512 * size + norm) + layers * (12 * linear + 2 * mlp + 5 * norm)
    assert ours.num_parameters() == by_hand
