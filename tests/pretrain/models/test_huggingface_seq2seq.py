"""The encoder-decoder's export and import against transformers' BART and mBART: logits, greedy texts, positions."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BartModel,
    MBartConfig,
    MBartForConditionalGeneration,
)

from conf.errors import InputError
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.huggingface import Direction, export_folder, import_folder, largest_difference
from pretrain.models.seq2seq import Seq2SeqModel
from tests.pretrain.models.conftest import BART, FORMS, SEQ2SEQ_FORMS, VOCAB_SIZE, make_model, make_seq2seq
from tests.pretrain.models.pairs import one_a_row, sides

PAIRS = [
    ([2, 11, 12, 13, 60, 3], [2, 21, 22, 23]),
    ([2, 31, 3], [2, 41, 42]),
    ([2, 51, 52, 53, 54, 55, 56, 57, 3], [2, 61, 62, 63, 64, 65, 66]),
]
CLS, SEP, PAD = 2, 3, 0
NOWHERE = Direction()
DIRECTIONS = [("en", "fr"), ("fr", "en"), ("de", "de")]


def cases():
    """(form, direction): one for each form without languages, several with them."""
    for name, config in SEQ2SEQ_FORMS.items():
        for direction in DIRECTIONS if config.languages else [(None, None)]:
            yield pytest.param(name, Direction(*direction), id="-".join(filter(None, (name, *direction))))


def tokens_of(model, direction, source, target):
    """Both sides as our model takes them."""
    return [side.tokens(number) for side, number in zip((source, target), direction.ids(model), strict=True)]


@torch.no_grad()
def our_logits(model, direction=NOWHERE, rows=None):
    """Logits at all real decoder tokens of PAIRS: one pair a row, or packed as `rows` say."""
    source, target = one_a_row(PAIRS) if rows is None else sides(rows, 16, 16)
    return model(*tokens_of(model, direction, source, target), target.real)


def padded(sequences):
    length = max(map(len, sequences))
    ids = torch.tensor([[*s, *[PAD] * (length - len(s))] for s in sequences])
    return ids, torch.tensor([[1] * len(s) + [0] * (length - len(s)) for s in sequences])


@torch.no_grad()
def their_logits(theirs):
    (ids, mask), (decoder_ids, decoder_mask) = (padded([pair[side] for pair in PAIRS]) for side in range(2))
    logits = theirs(
        input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, decoder_attention_mask=decoder_mask
    ).logits
    return logits[decoder_mask.bool()]


@torch.no_grad()
def our_greedy(model, direction, steps):
    """The most probable token at each step, until [SEP]; the whole target is computed again at every step."""
    texts = [[CLS] for _ in PAIRS]
    for _ in range(steps):
        source, target = one_a_row([(pair[0], text) for pair, text in zip(PAIRS, texts, strict=True)])
        last = torch.tensor([end - 1 for _, end in target.spans])
        choices = model(*tokens_of(model, direction, source, target), last).argmax(1).tolist()
        for text, choice in zip(texts, choices, strict=True):
            if text[-1] != SEP:
                text.append(choice)
    return texts


def talkative(config):
    """A model whose greedy texts are varied: with its tied output matrix a random one would repeat its first token."""
    model = make_seq2seq(config)
    last = model.decoder.final_norm if config.norm == "pre" else model.decoder.layers[-1].mlp_norm
    with torch.no_grad():
        last.weight.copy_(2.0 * torch.randn_like(last.weight))
        for layer in model.decoder.layers:
            for part in (layer.cross.query, layer.cross.key_value, layer.cross.output):
                part.weight *= 3.0  # so that the source counts
    return model


def their_greedy(theirs, steps):
    ids, mask = padded([source for source, _ in PAIRS])
    with torch.no_grad():
        found = theirs.generate(input_ids=ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, num_beams=1)
    return [text[: text.index(SEP) + 1] if SEP in text else text for text in found.tolist()]


@pytest.mark.parametrize(("form", "direction"), cases())
def test_transformers_computes_the_same_logits_and_greedy_texts_from_an_export(
    form, direction, tokenizer_folder, tmp_path
):
    model = talkative(SEQ2SEQ_FORMS[form])
    export_folder(model, tokenizer_folder, tmp_path / "out", direction)
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    assert (
        type(theirs) is {"post": BartForConditionalGeneration, "pre": MBartForConditionalGeneration}[model.config.norm]
    )
    found = their_logits(theirs)
    ours = our_logits(model, direction)
    assert ours.std() > 0.1  # not equal for being all alike
    torch.testing.assert_close(found, ours, atol=1e-5, rtol=0)
    torch.testing.assert_close(found, our_logits(model, direction, [PAIRS[:2], PAIRS[2:]]), atol=1e-5, rtol=0)
    assert largest_difference(model, tmp_path / "out", direction) <= 1e-5
    texts = our_greedy(model, direction, 12)
    assert their_greedy(theirs, 12) == texts
    assert len({tuple(text) for text in texts}) == 3 and max(len(set(text)) for text in texts) > 2


def test_greedy_texts_end_at_sep_in_both(tokenizer_folder, tmp_path):
    model = talkative(BART)
    for _ in range(60):
        with torch.no_grad():
            model.head.bias[SEP] += 0.2  # until some text ends on its way
        texts = our_greedy(model, NOWHERE, 12)
        if any(text[-1] == SEP and 2 < len(text) < 13 for text in texts):
            break
    else:
        raise AssertionError(f"no text ends between its first and its last token: {texts}")
    export_folder(model, tokenizer_folder, tmp_path / "out")
    assert their_greedy(AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval(), 12) == texts


@pytest.mark.parametrize("form", SEQ2SEQ_FORMS)
def test_an_export_comes_back_as_the_model_of_its_direction(form, tokenizer_folder, tmp_path):
    config = SEQ2SEQ_FORMS[form]
    model = make_seq2seq(config)
    direction = Direction("fr", "de") if config.languages else NOWHERE
    export_folder(model, tokenizer_folder, tmp_path / "out", direction)
    back, tokenizer = import_folder(tmp_path / "out")
    # Sinusoids are a learned table afterwards, and the languages part of the positions.
    assert back.config == replace(config, positions="learned", languages=())
    assert not back.training and tokenizer.get_vocab_size() == VOCAB_SIZE
    torch.testing.assert_close(our_logits(back), our_logits(model, direction), atol=1e-5, rtol=0)
    same = {name for name in model.state_dict() if "position" not in name and "language" not in name}
    assert all(torch.equal(back.state_dict()[name], model.state_dict()[name]) for name in same)


def test_options_of_a_model_come_back_with_it(tokenizer_folder, tmp_path):
    config = replace(BART, dropout=0.2, attention_dropout=0.05, initializer_range=0.03, scale_embeddings=True)
    export_folder(make_seq2seq(config), tokenizer_folder, tmp_path / "out")
    assert import_folder(tmp_path / "out")[0].config == config
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").config
    assert (theirs.dropout, theirs.attention_dropout, theirs.activation_dropout) == (0.2, 0.05, 0.0)
    assert (theirs.encoder_layers, theirs.decoder_layers, theirs.scale_embedding) == (3, 2, True)
    assert (theirs.pad_token_id, theirs.eos_token_id, theirs.decoder_start_token_id) == (PAD, SEP, CLS)


def test_sinusoids_are_baked_into_the_table_behind_its_two_unused_rows(tokenizer_folder, tmp_path):
    export_folder(make_seq2seq(SEQ2SEQ_FORMS["bart_sinusoidal"]), tokenizer_folder, tmp_path / "out")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    position = torch.arange(48, dtype=torch.float64)
    for side in ("encoder", "decoder"):
        table = tensors[f"model.{side}.embed_positions.weight"]
        assert table.shape == (50, 32) and not table[:2].any()
        torch.testing.assert_close(table[2:, 0].double(), position.sin(), atol=1e-5, rtol=0)
        torch.testing.assert_close(table[2:, 3].double(), (position / 10000 ** (2 / 32)).cos(), atol=1e-5, rtol=0)


def test_an_export_holds_the_shared_matrix_once_and_no_padding_rows(tokenizer_folder, tmp_path):
    export_folder(make_seq2seq(SEQ2SEQ_FORMS["mbart"]), tokenizer_folder, tmp_path / "out")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    of_vocabulary = {name: tuple(tensor.shape) for name, tensor in tensors.items() if 75 in tensor.shape}
    assert of_vocabulary == {"model.shared.weight": (75, 32), "final_logits_bias": (1, 75)}
    assert not any(128 in tensor.shape for tensor in tensors.values())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("word0 word1")["input_ids"] == [CLS, 5, 6, SEP]
    assert "token_type_ids" not in tokenizer("word0")


@pytest.mark.parametrize(
    "part", ["encoder.layers.1.fc1", "decoder.layers.1.encoder_attn.k_proj", "encoder.layernorm_embedding"]
)
def test_verification_sees_weights_that_are_not_the_models(part, tokenizer_folder, tmp_path):
    model = make_seq2seq(SEQ2SEQ_FORMS["bart"])
    export_folder(model, tokenizer_folder, tmp_path / "out")
    weights = tmp_path / "out" / "model.safetensors"
    tensors = load_file(weights)
    tensors[f"model.{part}.weight"][0] += 0.5
    save_file(tensors, weights, metadata={"format": "pt"})
    assert largest_difference(model, tmp_path / "out") > 1e-4


# --- MASS: a fragment at its original positions, the tokens between left out ---


@torch.no_grad()
@pytest.mark.parametrize("form", ["bart", "bart_sinusoidal"])
def test_original_decoder_positions_are_those_of_bart_given_shifted_embeddings(form, tokenizer_folder, tmp_path):
    """BART's positions count from 0; adding P[t] - P[j] to the j-th input's embedding gives it the position t."""
    model = make_seq2seq(SEQ2SEQ_FORMS[form])
    export_folder(model, tokenizer_folder, tmp_path / "out")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    sentences = [[2, *range(10, 26), 3], [2, *range(30, 43), 3]]
    fragments = [(5, 12), (1, 7)]  # the tokens that are hidden and predicted
    hidden = [[4 if a <= t < b else x for t, x in enumerate(s)] for s, (a, b) in zip(sentences, fragments, strict=True)]
    inputs = [s[a - 1 : b - 1] for s, (a, b) in zip(sentences, fragments, strict=True)]
    # Both pairs in one row, with their padding: 18 + 15 of 36 encoder tokens, 7 + 6 of 16 decoder tokens.
    source, target = sides([list(zip(hidden, inputs, strict=True))], 36, 16)
    for (start, end), (a, _) in zip(target.spans, fragments, strict=True):
        target.positions[start:end] += a - 1
    ours = model(source.tokens(), target.tokens(), target.real).split([7, 6])
    for number, (a, b) in enumerate(fragments):
        table = theirs.model.decoder.embed_positions.weight[2:]
        embedded = theirs.model.decoder.embed_tokens(torch.tensor([inputs[number]]))
        embedded = embedded + table[a - 1 : b - 1] - table[: b - a]
        expected = theirs(input_ids=torch.tensor([hidden[number]]), decoder_inputs_embeds=embedded).logits[0]
        torch.testing.assert_close(ours[number], expected, atol=1e-5, rtol=0)
        plain = theirs(
            input_ids=torch.tensor([hidden[number]]), decoder_input_ids=torch.tensor([inputs[number]])
        ).logits[0]
        assert a == 1 or (plain - expected).abs().max() > 1e-3  # the positions are not beside the point


# --- import ---


SIZES = {
    "vocab_size": 75,
    "d_model": 32,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    "init_std": 0.2,
}
KINDS = {
    "bart": (BartConfig, BartForConditionalGeneration),
    "mbart": (MBartConfig, MBartForConditionalGeneration),
}


def their_model(kind, **options):
    torch.manual_seed(0)
    config, model = KINDS[kind]
    theirs = model(config(**(SIZES | options))).eval()
    with torch.no_grad():
        theirs.final_logits_bias.normal_()
        for name, parameter in theirs.named_parameters():
            if "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return theirs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [False, True])
def test_a_model_of_transformers_comes_in(kind, scale, tmp_path):
    theirs = their_model(kind, scale_embedding=scale, dropout=0.3, attention_dropout=0.2)
    theirs.save_pretrained(tmp_path / "theirs")
    model, tokenizer = import_folder(tmp_path / "theirs")
    assert tokenizer is None and isinstance(model, Seq2SeqModel)
    assert model.config == Seq2SeqConfig(
        32, 3, 2, 4, 40, norm="post" if kind == "bart" else "pre", scale_embeddings=scale, max_positions=48,
        dropout=0.3, attention_dropout=0.2, initializer_range=0.2,
    )  # fmt: skip
    expected = their_logits(theirs)
    assert expected.std() > 0.1
    torch.testing.assert_close(our_logits(model), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(our_logits(model, rows=[PAIRS[:2], PAIRS[2:]]), expected, atol=1e-5, rtol=0)
    assert their_greedy(theirs, 8) == our_greedy(model, NOWHERE, 8)


def write(folder, theirs, change=lambda tensors: None, **fields):
    """A folder of `theirs` with tensors changed in place and other fields in its config.json."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(theirs.config.to_dict() | fields))
    tensors = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_a_bare_model_comes_in_without_an_output_bias(tmp_path):
    torch.manual_seed(0)
    theirs = BartModel(BartConfig(**SIZES)).eval()
    model, _ = import_folder(write(tmp_path / "bare", theirs))
    assert not model.head.bias.any()
    source, target = one_a_row(PAIRS[:1])
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor([PAIRS[0][0]]), decoder_input_ids=torch.tensor([PAIRS[0][1]]))
        states = model.target_states(source.tokens(), target.tokens(), target.real)
        memory = model.encode(source.tokens())[source.real]
    torch.testing.assert_close(states, expected.last_hidden_state[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(memory, expected.encoder_last_hidden_state[0], atol=1e-5, rtol=0)


def rename_embedding(tensors):
    for name in ("model.shared.weight", "model.encoder.embed_tokens.weight", "lm_head.weight"):
        del tensors[name]


def untie(tensors):
    tensors["lm_head.weight"] += 1.0


def drop(name):
    return lambda tensors: tensors.pop(name)


def test_an_embedding_under_its_other_name_alone_is_understood(tmp_path):
    theirs = their_model("bart")
    model, _ = import_folder(write(tmp_path / "theirs", theirs, rename_embedding))
    torch.testing.assert_close(our_logits(model), their_logits(theirs), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("change", "fields", "message"),
    [
        (None, {"activation_function": "relu"}, "activation_function 'relu', but only 'gelu' can be imported"),
        (None, {"tie_word_embeddings": False}, "tie_word_embeddings False, but only True"),
        (None, {"decoder_ffn_dim": 44}, "encoder_ffn_dim 40 and decoder_ffn_dim 44, but only a model whose sides"),
        (None, {"decoder_attention_heads": 2}, "encoder_attention_heads 4 and decoder_attention_heads 2"),
        (None, {"decoder_layers": 3}, "lack 'model.decoder.layers.2"),
        (None, {"encoder_layers": 2}, "hold 'model.encoder.layers.2"),
        (None, {"vocab_size": 76}, "75 rows in 'model.shared.weight', but their config.json has vocab_size 76"),
        (
            None,
            {"max_position_embeddings": 50},
            "50 rows in 'model.encoder.embed_positions.weight', but .* 50, to which 2",
        ),
        (None, {"encoder_ffn_dim": 44, "decoder_ffn_dim": 44}, "are of another model shape: '.*mlp.input"),
        (untie, {}, "have a matrix 'lm_head.weight' of its own"),
        (
            drop("model.decoder.layers.1.encoder_attn.v_proj.bias"),
            {},
            "lack 'model.decoder.layers.1.encoder_attn.v_proj.bias'",
        ),
    ],
)
def test_what_is_not_such_a_model_is_refused(change, fields, message, tmp_path):
    folder = write(tmp_path / "theirs", their_model("bart"), change or (lambda tensors: None), **fields)
    with pytest.raises(InputError, match=message):
        import_folder(folder)


def test_a_config_without_a_size_is_refused(tmp_path):
    folder = write(tmp_path / "theirs", their_model("bart"))
    raw = json.loads((folder / "config.json").read_text())
    del raw["encoder_layers"]
    (folder / "config.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match="lacks the field 'encoder_layers'"):
        import_folder(folder)


# --- what neither class holds ---


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"activation": "geglu"}, "activation=geglu"),
        ({"biases": False}, "biases=false"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps=1e-06"),
    ],
)
@pytest.mark.parametrize("form", ["bart", "mbart"])
def test_a_form_that_neither_class_holds_is_refused_in_one_sentence(change, words, form, tokenizer_folder, tmp_path):
    model = make_seq2seq(replace(SEQ2SEQ_FORMS[form], **change))
    with pytest.raises(InputError, match=f"^no Hugging Face class holds an encoder-decoder with .*{words}") as caught:
        export_folder(model, tokenizer_folder, tmp_path / "out")
    assert ". " not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("form", "direction", "message"),
    [
        (
            "mbart_languages",
            Direction(),
            r"source_language must be one of the model's languages \(en, fr, de\), but is not",
        ),
        ("mbart_languages", Direction("en"), "target_language must be one of .* but is not given"),
        ("mbart_languages", Direction("en", "it"), "target_language must be one of .* but is 'it'"),
        ("bart", Direction("en", "fr"), "source_language is 'en', but the model has no language embeddings"),
    ],
)
def test_a_direction_that_is_not_the_models_is_refused(form, direction, message, tokenizer_folder, tmp_path):
    with pytest.raises(InputError, match=message):
        export_folder(make_seq2seq(SEQ2SEQ_FORMS[form]), tokenizer_folder, tmp_path / "out", direction)


def test_an_encoder_has_no_direction(tokenizer_folder, tmp_path):
    with pytest.raises(InputError, match="target_language is 'fr', but the model is no encoder-decoder"):
        export_folder(make_model(FORMS["bert"]), tokenizer_folder, tmp_path / "out", Direction(target="fr"))
