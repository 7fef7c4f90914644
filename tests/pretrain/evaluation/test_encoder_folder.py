"""Tuned encoders as folders: what is loaded again is what was tuned, pooler included, and no masked-LM head."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from conf.errors import InputError
from pretrain.evaluation.encoder_folder import holds_encoder, save_encoder, with_pooler
from pretrain.evaluation.finetuning.heads import make_model as make_task_model
from pretrain.evaluation.subject import read_subject
from pretrain.models.config import EncoderConfig
from pretrain.models.huggingface import export_folder
from pretrain.models.load import LoadedModel, load_masked_language_model
from pretrain.models.masked_lm import MaskedLanguageModel

from .conftest import make_model

IDENTITY = {"seed": 1, "recipe": {"epochs": 2}}


def tuned_from(loaded):
    torch.manual_seed(5)
    tuned = make_task_model("classification", loaded.model.encoder, 2, 0.1, "first")
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        padding = loaded.model.vocab_size
        tuned.encoder.embeddings.token.weight[padding:] = 0.0
    return tuned


def test_bert_goes_with_its_pooler_and_starts_the_next_task(checkpoint, tmp_path):
    loaded = load_masked_language_model(checkpoint)
    tuned = tuned_from(loaded)
    folder = tmp_path / "encoders" / "run"
    folder.parent.mkdir()
    for _ in range(2):  # the second replaces the first
        save_encoder(tuned, loaded, folder, IDENTITY)
    names = set(load_file(folder / "model.safetensors"))
    assert "bert.pooler.dense.weight" in names and not any(name.startswith("cls.") for name in names)
    encoder, _ = read_subject(str(folder), [1], []).pretrained().load_encoder()
    for name, value in tuned.encoder.state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value), name
    again = make_task_model("classification", encoder, 2, 0.1, "first")
    assert torch.equal(again.dense.weight, tuned.dense.weight)
    theirs = AutoModel.from_pretrained(folder)
    assert torch.equal(theirs.pooler.dense.bias, tuned.dense.bias)
    assert not list(tmp_path.glob("**/.*"))
    # It is known as that of this run, whatever the order of the keys, and as that of no other.
    assert holds_encoder(folder, {"recipe": {"epochs": 2}, "seed": 1})
    assert not holds_encoder(folder, {**IDENTITY, "recipe": {"epochs": 3}})
    for damaged in ("{", "[]", "{}"):
        (folder / "finetuning.json").write_text(damaged)
        assert not holds_encoder(folder, IDENTITY)
    assert not holds_encoder(tmp_path / "none", IDENTITY)


def test_modernbert_goes_without_a_head(tokenizer_folder, modern_model, tmp_path):
    export_folder(modern_model, tokenizer_folder / "tokenizer.json", tmp_path / "modern")
    loaded = load_masked_language_model(tmp_path / "modern")
    tuned = tuned_from(loaded)
    save_encoder(tuned, loaded, tmp_path / "run", IDENTITY)
    found = load_masked_language_model(tmp_path / "run").model.encoder.state_dict()
    for name, value in tuned.encoder.state_dict().items():
        assert torch.equal(found[name], value), name


def test_a_form_that_no_class_holds_is_refused_and_leaves_nothing(tokenizer, tokenizer_folder, tmp_path):
    config = EncoderConfig(32, 1, 2, 64, norm="pre", positions="learned", max_positions=64)
    model = MaskedLanguageModel(config, tokenizer.get_vocab_size()).eval()
    loaded = LoadedModel(model, tokenizer, tokenizer_folder / "tokenizer.json", "x", "x")
    with pytest.raises(InputError, match="export"):
        save_encoder(tuned_from(loaded), loaded, tmp_path / "run", IDENTITY)
    assert not list(tmp_path.iterdir())


def test_an_encoder_without_a_pooler_in_its_folder_stays_as_it_is(checkpoint, tokenizer):
    encoder = make_model(tokenizer).encoder
    assert with_pooler(encoder, checkpoint) is encoder
    loaded = load_masked_language_model(checkpoint).model.encoder
    assert with_pooler(loaded, checkpoint) is loaded
