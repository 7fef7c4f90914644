"""The convolutional encoder-decoder as a function: against a second one without packing, and what a token sees."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.conv_layers import AttendedSource
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from tests.pretrain.models import conv_reference
from tests.pretrain.models.conftest import CONV, CONV_FORMS, make_conv
from tests.pretrain.models.pairs import one_a_row, sides

PAIRS = [
    ([2, 11, 12, 13, 14, 15, 16, 3], [2, 21, 22, 23]),
    ([2, 31, 3], [2, 41]),
    ([2, 51, 52, 3], [2, 61, 62, 63, 64, 65]),
    ([2, 71, 3], [2, 72, 73]),
]
ROWS = [PAIRS[:2], PAIRS[2:]]
KERNELS = ["sdpa", "matmul", "reference"]
MODELS = {name: make_conv(config) for name, config in CONV_FORMS.items()}


def tokens_of(model, source, target):
    """Both sides as the model takes them: where it has languages, fr to en."""
    languages = (1, 0) if model.config.languages else (None, None)
    return [side.tokens(number) for side, number in zip((source, target), languages, strict=True)]


def run(model, source, target, **options):
    """Logits at all real tokens of the decoder's side."""
    return model(*tokens_of(model, source, target), target.real, **options)


def expected(model, pairs, state=None, **options):
    """The same by the second implementation."""
    state = model.state_dict() if state is None else state
    numbers = (1, 0) if model.config.languages else (None, None)
    found = [
        conv_reference.logits(state, model.config, *pair, languages=numbers, vocab_size=model.vocab_size, **options)
        for pair in pairs
    ]
    return torch.cat(found)


def with_kernel(model, kernel):
    other = ConvSeq2SeqModel(replace(model.config, attention_kernel=kernel), model.vocab_size).eval()
    other.load_state_dict(model.state_dict())
    return other


# --- the function ---


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", CONV_FORMS)
def test_packed_pairs_give_the_logits_of_a_plain_convolution_over_each_sentence(form, kernel):
    model = with_kernel(MODELS[form], kernel)
    wanted = expected(model, PAIRS)
    assert wanted.std() > 0.1
    torch.testing.assert_close(run(model, *sides(ROWS, 13, 11)), wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(run(model, *one_a_row(PAIRS)), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", CONV_FORMS)
def test_gradients_are_those_of_the_plain_form_with_the_encoders_divided_by_twice_the_attention_layers(form):
    model = MODELS[form]
    state = {name: tensor.clone().requires_grad_() for name, tensor in model.state_dict().items()}
    weights = torch.randn(15, model.vocab_size, generator=torch.Generator().manual_seed(0))
    factor = 1 / (2 * 3)  # three decoder layers
    gradients = []
    for given_factor in (factor, 1.0):
        total = (expected(model, PAIRS, state, gradient_factor=given_factor) * weights).sum()
        gradients.append(dict(zip(state, torch.autograd.grad(total, list(state.values())), strict=True)))
    ours = torch.autograd.grad((run(model, *sides(ROWS, 13, 11)) * weights).sum(), list(model.parameters()))
    for (name, _), gradient in zip(model.named_parameters(), ours, strict=True):
        torch.testing.assert_close(gradient, gradients[0][name], atol=5e-5, rtol=1e-4, msg=name)
        if name.startswith(("encoder.layers", "encoder.output", "encoder.embeddings.projection")):
            torch.testing.assert_close(gradient * 6, gradients[1][name], atol=1e-4, rtol=1e-3)
    position = "encoder.embeddings.position.weight"  # partly by the values, which are not divided
    assert (gradients[0][position] * 6 - gradients[1][position]).abs().max() > 0.01


def test_multi_step_attention_by_hand():
    config = replace(CONV, embedding_size=1, output_size=1, encoder_layers=[[1, 1, 1]], decoder_layers=[[1, 1, 1]])
    attention = ConvSeq2SeqModel(config, 9).decoder.layers[0].attention
    with torch.no_grad():
        for layer, weight, bias in ((attention.query, 2.0, 1.0), (attention.output, -1.0, 0.25)):
            layer.direction.fill_(math.copysign(3.0, weight))
            layer.gain.fill_(abs(weight))
            layer.bias.fill_(bias)
    keys, values = torch.tensor([[0.0], [0.2], [9.0]]), torch.tensor([[1.0], [2.0], [7.0]])
    layouts = [AttentionLayout(torch.tensor(b, dtype=torch.int32), 3, n) for b, n in (([0, 1, 1], 1), ([0, 2, 3], 3))]
    source = AttendedSource(keys, values, layouts[0], 1, layouts[1], None, "matmul")
    found = attention(torch.tensor([[0.5]]), torch.tensor([[3.0]]), source)
    # query (2 * 0.5 + 1 + 3) / sqrt(2) = 3.535534, scores 0 and 0.707107, weights 0.330239 and 0.669761, mean 1.669761,
    # times sqrt(2) for two tokens of source 2.361399; (-2.361399 + 0.25 + 0.5) / sqrt(2).
    assert found.item() == pytest.approx(-1.139431, abs=1e-6)


def test_the_mean_is_scaled_by_the_sources_true_length_whatever_pads_it():
    model = MODELS["separate"]
    alone = run(model, *sides([PAIRS[1:2]], 3, 2))
    for room in (4, 11):
        torch.testing.assert_close(run(model, *sides([PAIRS[1:2]], room, 5)), alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_hidden_keys_are_out_of_the_mean_and_of_its_length(kernel):
    model = with_kernel(MODELS["separate"], kernel)
    source, target = sides(ROWS, 13, 11)
    hidden_keys = torch.zeros(len(source.ids), dtype=torch.bool)
    hidden_keys[[1, 4, 13 + 2]] = True
    found = run(model, source, target, hidden_keys=hidden_keys)
    wanted = [expected(model, [pair], hidden=hidden) for pair, hidden in zip(PAIRS, ([1, 4], [], [2], []), strict=True)]
    torch.testing.assert_close(found, torch.cat(wanted), atol=1e-5, rtol=1e-5)


def test_decoder_tokens_keep_the_positions_they_are_given_and_are_convolved_as_given():
    model = MODELS["separate"]
    source, target = sides([PAIRS[:1]], 9, 5)
    target.positions[:4] = torch.tensor([3, 4, 5, 9])
    wanted = expected(model, PAIRS[:1], positions=[3, 4, 5, 9])
    torch.testing.assert_close(run(model, source, target), wanted, atol=1e-5, rtol=1e-5)
    assert (wanted - expected(model, PAIRS[:1])).abs().max() > 1e-2


# --- what a token sees ---


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_what_another_sequence_holds_leaves_logits_to_the_bit(data):
    model = MODELS[data.draw(st.sampled_from(sorted(MODELS)))]
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=2, max_size=4))
    pairs = [([5 + i] * n, [20 + i] * m) for i, (n, m) in enumerate(sizes)]
    victim = data.draw(st.integers(0, len(pairs) - 1))
    source, target = sides([pairs], 22, 18)
    before = run(model, source, target)
    begin, end = source.spans[victim]
    source.ids[begin:end] = 74
    begin, end = target.spans[victim]
    target.ids[begin:end] = 74
    after = run(model, source, target)
    others = torch.cat([torch.full((m,), i != victim) for i, (_, m) in enumerate(sizes)])
    assert torch.equal(after[others], before[others])
    assert (after[~others] != before[~others]).any(1).all()


def test_what_is_not_finite_in_another_sequence_stays_there():
    model = MODELS["separate"]
    source, _ = sides(ROWS, 13, 11)
    before = model.encode(source.tokens()).keys
    source.ids[8] = 74  # the first token of the second pair
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state["encoder.embeddings.token.weight"][74] = math.nan
    damaged = ConvSeq2SeqModel(model.config, model.vocab_size).eval()
    damaged.load_state_dict(state)
    after = damaged.encode(source.tokens()).keys
    broken = after.isnan().any(1)
    assert broken.nonzero().flatten().tolist() == [8, 9, 10]
    assert torch.equal(after[~broken], before[~broken])


def seen(model, position, length=30):
    """Which tokens of a source have an influence on its state `position`, and of a target on the decoder's."""
    source, target = one_a_row([([5] * length, [6] * length)])
    found = []
    hooks = [
        stack.embeddings.register_forward_hook(lambda _, __, out: found.append(out) or out)
        for stack in (model.encoder, model.decoder)
    ]
    memory = model.encode(source.tokens())
    states = model.decode(target.tokens(), memory, source.layout, output_positions=torch.tensor([position]))
    for hook in hooks:
        hook.remove()
    results = []
    for embedded, output in zip(found, (memory.keys[position], states), strict=True):
        (gradient,) = torch.autograd.grad(output.square().sum(), embedded, retain_graph=True)
        results.append(gradient.abs().sum(1).nonzero().flatten().tolist())
    (gradient,) = torch.autograd.grad(states.square().sum(), found[0])
    return *results, gradient.abs().sum(1).nonzero().flatten().tolist()


@pytest.mark.parametrize(
    ("encoder", "decoder"), [([[2, 8, 3]], [[1, 8, 3], [1, 8, 2]]), ([[1, 8, 4], [1, 8, 1]], [[3, 8, 5]])]
)
def test_a_state_depends_on_exactly_the_receptive_field_and_the_decoder_on_nothing_after_it(encoder, decoder):
    model = make_conv(replace(CONV, encoder_layers=encoder, decoder_layers=decoder))
    of_source, of_target = model.config.receptive_fields
    own, previous, source = seen(model, 14)
    before = sum((kernel - 1) // 2 for _, kernel in model.config.encoder_convolutions)
    assert own == list(range(14 - before, 14 - before + of_source))
    assert previous == list(range(15 - of_target, 15))
    assert source == list(range(30))


# --- training ---


@pytest.mark.parametrize("autocast", [False, True])
def test_recomputed_activations_give_the_same_gradients_to_the_bit(autocast):
    model = make_conv(replace(CONV, dropout=0.2)).train()
    found = []
    for recompute in (False, True):
        model.encoder.activation_checkpointing = model.decoder.activation_checkpointing = recompute
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = run(model, *sides(ROWS, 13, 11)).float().square().sum()
        found.append(torch.autograd.grad(loss, list(model.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("form", CONV_FORMS)
def test_bf16_autocast_stays_near_fp32(form):
    model = MODELS[form]
    exact = run(model, *sides(ROWS, 13, 11))
    with torch.autocast("cpu", torch.bfloat16):
        rough = run(model, *sides(ROWS, 13, 11))
    assert 0 < (rough - exact).abs().max() < 0.05 * exact.abs().max()


def test_dropout_is_on_embeddings_on_what_convolutions_read_and_on_the_last_states_in_training_only():
    model = make_conv(replace(CONV, dropout=0.5)).train()
    zeros = {}
    modules = {"embeddings": model.decoder.embeddings, "first": model.encoder.layers[0].convolution}
    modules["last"] = model.decoder.layers[2].convolution
    modules["decoder"] = model.decoder
    for name, module in modules.items():

        def look(_, inputs, output, name=name):
            values = inputs[0] if name in ("first", "last") else output
            zeros[name] = float((values == 0).float().mean())

        module.register_forward_hook(look)
    source, target = one_a_row([([5] * 40, [6] * 40)])
    run(model, source, target)
    assert zeros.keys() == modules.keys() and all(0.4 < share < 0.6 for share in zeros.values())
    quiet = run(model.eval(), source, target)
    assert not any(zeros.values()) and torch.equal(quiet, run(model, source, target))


@pytest.mark.full
def test_the_model_is_one_graph_whatever_the_batch_holds():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = make_conv(CONV).train()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for rows in (ROWS, [PAIRS[:1], PAIRS[1:]]):
        source, target = sides(rows, 14, 14)
        source.layout.for_compiled_code()
        target.layout.for_compiled_code()
        inputs = (source.tokens(), target.tokens(), torch.tensor([1, 2, 15]))
        results = [function(*inputs) for function in (compiled, model)]
        torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
        found = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in results]
        torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_sequence_beyond_the_positions_is_refused_on_either_side():
    for pair in (([2] * 48, [2]), ([2], [2] * 48)):  # and one place of padding
        with pytest.raises(InputError, match=r"up to 49 tokens, but model\.max_positions is 48"):
            run(MODELS["separate"], *one_a_row([pair]))


def test_a_model_with_languages_needs_to_know_them():
    source, target = one_a_row(PAIRS)
    with pytest.raises(InputError, match=r"has language embeddings \(model.languages\), but the batch says no"):
        MODELS["languages"](source.tokens(), target.tokens(), target.real)
    with pytest.raises(InputError, match="vocab_size must be at least 1, but is 0"):
        ConvSeq2SeqModel(CONV, 0)
