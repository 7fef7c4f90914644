"""BERT's sentence head, ModernBERT's alternating attention and what has no class of its own, against transformers."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
)

from conf.errors import InputError
from pretrain.data.batching import from_rows, pad_sequences
from pretrain.models.huggingface import export_folder, import_folder, largest_difference

BERT = {
    "vocab_size": 75,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
    "initializer_range": 0.2,
}
# Two parts each: the tokens after the first [SEP] are of the second type.
PAIRS = [[2, 11, 12, 3, 40, 41, 42, 3], [2, 21, 22, 23, 3, 50, 3]]
TYPES = [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1]]


def ours_of_pairs(model):
    input_ids, position_ids, layout, starts = pad_sequences(PAIRS, 0)
    types, *_ = pad_sequences(TYPES, 0)
    real = torch.cat([int(start) + torch.arange(len(s)) for start, s in zip(starts, PAIRS, strict=True)])
    with torch.no_grad():
        states, sentences = model.forward_with_sentences(input_ids, position_ids, layout, real, types, starts)
        return model.logits(states), sentences


def theirs_of_pairs(theirs):
    width = max(map(len, PAIRS))
    ids, types = (torch.tensor([[*s, *[0] * (width - len(s))] for s in rows]) for rows in (PAIRS, TYPES))
    mask = torch.tensor([[1] * len(s) + [0] * (width - len(s)) for s in PAIRS])
    with torch.no_grad():
        return theirs(input_ids=ids, token_type_ids=types, attention_mask=mask), mask.bool()


def save(theirs, folder):
    """As transformers saves it."""
    theirs.save_pretrained(folder)
    return folder


def test_a_pretraining_checkpoint_comes_in_with_its_sentence_head(tmp_path):
    torch.manual_seed(0)
    theirs = BertForPreTraining(BertConfig(**BERT)).eval()
    model, _ = import_folder(save(theirs, tmp_path / "bert"))
    assert model.config.pooler
    logits, sentences = ours_of_pairs(model)
    expected, real = theirs_of_pairs(theirs)
    torch.testing.assert_close(logits, expected.prediction_logits[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(sentences, expected.seq_relationship_logits, atol=1e-5, rtol=0)
    assert sentences.std() > 0.01


def test_an_exported_sentence_head_is_loaded_by_every_class_of_bert(forms, build, tokenizer_folder, tmp_path):
    model = build(replace(forms["bert"], pooler=True), sentence_head=True)
    export_folder(model, tokenizer_folder, tmp_path / "out")
    logits, sentences = ours_of_pairs(model)
    pretraining, report = BertForPreTraining.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    expected, real = theirs_of_pairs(pretraining.eval())
    torch.testing.assert_close(expected.prediction_logits[real], logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(expected.seq_relationship_logits, sentences, atol=1e-5, rtol=0)
    masked, _ = theirs_of_pairs(AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval())
    torch.testing.assert_close(masked.logits[real], logits, atol=1e-5, rtol=0)
    assert largest_difference(model, tmp_path / "out") <= 1e-5
    pooled, _ = theirs_of_pairs(BertModel.from_pretrained(tmp_path / "out").eval())
    input_ids, position_ids, layout, starts = pad_sequences(PAIRS, 0)
    types, *_ = pad_sequences(TYPES, 0)
    with torch.no_grad():
        first = model.encoder(input_ids, position_ids, layout, types, output_positions=starts)
        torch.testing.assert_close(model.encoder.pool(first), pooled.pooler_output, atol=1e-5, rtol=0)


def test_a_sentence_head_survives_export_and_import(forms, build, tokenizer_folder, tmp_path):
    model = build(replace(forms["bert"], pooler=True), sentence_head=True)
    export_folder(model, tokenizer_folder, tmp_path / "out")
    back, _ = import_folder(tmp_path / "out")
    assert back.config.pooler
    for ours, again in zip(ours_of_pairs(model), ours_of_pairs(back), strict=True):
        assert torch.equal(ours, again)


def test_a_pooler_without_a_sentence_head_is_not_used_and_the_log_says_so(tmp_path, caplog):
    with caplog.at_level("INFO"):
        model, _ = import_folder(save(BertModel(BertConfig(**BERT)), tmp_path / "bert"))
    assert model.encoder.pooler is None and model.sentence_head is None
    assert "not used: bert.pooler.dense.bias, bert.pooler.dense.weight" in caplog.text


@pytest.mark.parametrize("tied", [True, False])
def test_the_output_matrix_may_be_written_or_left_out_if_it_is_the_embedding(tmp_path, tied):
    torch.manual_seed(0)
    theirs = BertForMaskedLM(BertConfig(**BERT)).eval()
    folder = save(theirs, tmp_path / "bert")
    tensors = load_file(folder / "model.safetensors")
    matrix = "cls.predictions.decoder.weight"
    tensors.pop(matrix, None)
    if not tied:
        tensors[matrix] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    save_file(tensors, folder / "model.safetensors")
    model, _ = import_folder(folder)
    input_ids, position_ids, layout, _ = pad_sequences([PAIRS[0]], 0)
    with torch.no_grad():
        ours = model(input_ids, position_ids, layout, torch.arange(8))
        torch.testing.assert_close(ours, theirs(input_ids=input_ids[None]).logits[0], atol=1e-5, rtol=0)


def test_modernbert_has_no_place_for_a_sentence_head_and_the_log_says_so(
    forms, build, tokenizer_folder, tmp_path, caplog
):
    model = build(replace(forms["modern"], pooler=True), sentence_head=True)
    export_folder(model, tokenizer_folder, tmp_path / "out")
    assert "hold no sentence head: it and the pooler are left out" in caplog.text
    assert largest_difference(model, tmp_path / "out") <= 1e-5


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [
        ("bert", {"causal": True}, "a causal model cannot be exported"),
        ("modern", {"causal": True}, "a causal model cannot be exported"),
        ("bert", {"local_window": 2, "global_every": 2}, "local attention can be exported only in ModernBERT's form"),
    ],
)
def test_what_no_class_computes_is_refused_in_one_sentence(
    forms, build, tokenizer_folder, tmp_path, form, change, message
):
    with pytest.raises(InputError, match=message) as error:
        export_folder(build(replace(forms[form], **change)), tokenizer_folder, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


# --- ModernBERT with its own window of 64 to each side and its two rotary bases ---


@pytest.fixture
def modernbert():
    """ModernBERT in small, all that is not a size as published; sequences go beyond its window."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 75, "hidden_size": 32, "num_hidden_layers": 5, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    config = ModernBertConfig(**sizes, **ids, intermediate_size=40, max_position_embeddings=256)
    config.initializer_range = 0.2
    return ModernBertForMaskedLM(config).eval()


LONG = [torch.randint(5, 75, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (200, 31, 150)]


def expected_logits(theirs):
    with torch.no_grad():
        return [theirs(input_ids=torch.tensor([sequence])).logits[0] for sequence in LONG]


def test_modernberts_alternating_attention_gives_its_logits_packed_and_padded(modernbert, tmp_path):
    model, _ = import_folder(save(modernbert, tmp_path / "modern"))
    config = model.config
    assert (config.local_window, config.global_every) == (64, 3)
    assert (config.rope_base, config.local_rope_base) == (160000.0, 10000.0)
    expected = expected_logits(modernbert)
    assert min(logits.std() for logits in expected) > 0.1
    ids, segments = np.zeros((2, 256), dtype=np.int64), np.zeros((2, 256), dtype=np.int32)
    ids[0, :231] = LONG[0] + LONG[1]
    segments[0, :200], segments[0, 200:231] = 1, 2
    ids[1, 100:250] = LONG[2]
    segments[1, 100:250] = 7
    packed = from_rows(ids, segments)
    padded = pad_sequences(LONG, 0)
    places = {
        "packed": (packed, [torch.arange(200), 200 + torch.arange(31), 356 + torch.arange(150)]),
        "padded": (padded[:3], [int(s) + torch.arange(len(x)) for s, x in zip(padded[3], LONG, strict=True)]),
    }
    for batch, positions in places.values():
        with torch.no_grad():
            logits = model(*batch, torch.cat(positions)).split([len(x) for x in LONG])
        for ours, theirs in zip(logits, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    wide = replace(config, local_window=None, global_every=1, local_rope_base=None)
    assert wide != config  # the window matters: without it the logits are others
    model.encoder.layers[1].attention.window = None
    with torch.no_grad():
        assert not torch.allclose(model(*padded[:3], places["padded"][1][0]), expected[0], atol=1e-3)


def test_the_fields_of_transformers_before_5_mean_the_same(modernbert, tmp_path):
    folder = save(modernbert, tmp_path / "modern")
    new, _ = import_folder(folder)
    raw = json.loads((folder / "config.json").read_text())
    del raw["layer_types"], raw["rope_parameters"]
    raw |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    (folder / "config.json").write_text(json.dumps(raw))
    old, _ = import_folder(folder)
    assert old.config == new.config
    (folder / "config.json").write_text(json.dumps(raw | {"local_rope_theta": None}))
    assert import_folder(folder)[0].config == replace(new.config, local_rope_base=None)
