"""An inconsistent option is refused by name, and conf/model holds the published sizes."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml
from transformers import BertConfig, BertForPreTraining, BertModel, ModernBertConfig, ModernBertForMaskedLM

import conf
from conf.errors import InputError
from pretrain.models.config import adopted_differences
from pretrain.models.encoder import Encoder, EncoderConfig
from pretrain.models.huggingface_config import config_from_huggingface
from pretrain.models.masked_lm import MaskedLanguageModel

DIRECTORY = Path(conf.__file__).parent / "model"


def read(name: str) -> EncoderConfig:
    options = yaml.safe_load((DIRECTORY / f"{name}.yaml").read_text())
    assert options.pop("_target_") == "pretrain.models.encoder.EncoderConfig"
    return EncoderConfig(**options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 3}, "num_heads must divide model.hidden_size, but 32 is not a multiple of 3"),
        ({"hidden_size": 12, "num_heads": 4}, "positions=rope needs an even head size .* is 3"),
        ({"norm": "sandwich"}, "model.norm must be one of pre, post, but is 'sandwich'"),
        ({"activation": "relu"}, "model.activation must be one of gelu, geglu"),
        ({"positions": "alibi"}, "model.positions must be one of learned, rope"),
        ({"attention_kernel": "flash"}, "model.attention_kernel must be one of auto"),
        ({"dropout": 1.0}, r"model.dropout must be in \[0, 1\), but is 1.0"),
        ({"attention_dropout": -0.1}, "model.attention_dropout"),
        ({"num_layers": 0}, "model.num_layers must be at least 1"),
        ({"rope_base": 0.0}, "model.rope_base must be above 0"),
        ({"token_types": -1}, "model.token_types"),
        ({"attention_output_dropout": 1.5}, r"model.attention_output_dropout must be in \[0, 1\), but is 1.5"),
        (
            {"attention_kernel": "varlen", "attention_dropout": 0.1},
            "varlen has no dropout, but attention_dropout is 0.1",
        ),
        ({"global_every": 0}, "model.global_every must be at least 1"),
        ({"global_every": 3}, "model.global_every=3 makes the layers between local, which needs model.local_window"),
        ({"local_window": 64}, "model.local_window=64 has no layer to act in"),
        ({"local_window": 0, "global_every": 3}, "model.local_window must be at least 1 or null, but is 0"),
        ({"local_rope_base": 10.0}, "local_rope_base is for local layers, but model.local_window is null"),
        (
            {"local_rope_base": 0.0, "local_window": 64, "global_every": 3},
            "model.local_rope_base must be above 0, but is 0.0",
        ),
        (
            {"local_rope_base": 10.0, "local_window": 64, "global_every": 3, "positions": "learned"},
            "local_rope_base needs model.positions=rope",
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_named(forms, change, message):
    with pytest.raises(InputError, match=message):
        replace(forms["modern"], **change)


def test_the_architecture_follows_from_the_form(forms):
    assert forms["bert"].architecture == forms["bert_without_token_types"].architecture == "bert"
    assert forms["modern"].architecture == forms["modern_with_biases"].architecture == "modernbert"
    assert replace(forms["bert"], biases=False).architecture == "other"
    assert replace(forms["bert"], positions="rope").architecture == "other"
    assert replace(forms["modern"], token_types=2).architecture == "other"
    assert forms["modern_local"].architecture == "modernbert"
    assert replace(forms["bert"], local_window=2, global_every=2).architecture == "other"
    assert replace(forms["modern"], causal=True).architecture == "other"
    assert replace(forms["bert"], pooler=True).architecture == "bert"


def test_layers_are_global_at_multiples_of_global_every(forms):
    config = replace(forms["modern"], num_layers=7, local_window=2, global_every=3)
    assert [config.window(layer) for layer in range(7)] == [None, 2, 2, None, 2, 2, None]
    assert {forms["modern"].window(layer) for layer in range(7)} == {None}


def test_every_model_file_makes_a_configuration():
    names = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))
    assert {"bert_tiny", "bert_mini", "bert_small", "bert_medium", "bert_base", "bert_large"} <= set(names)
    assert {"encoder_tiny", "encoder_demo", "encoder_demo_full", "encoder_base", "encoder_large"} <= set(names)
    assert {"mass_tiny", "mass_base", "mass_big"} <= set(names)  # test_seq2seq.py reads these
    assert sum(name.startswith("conv_s2s_") for name in names) == 5  # test_conv_config.py reads these
    for name in names:
        if not name.startswith(("mass_", "conv_s2s_")):
            assert read(name).architecture == ("bert" if name.startswith("bert") else "modernbert")


SIZES = {  # as BertModel counts its parameters, and as table 1 of Turc et al. 2019 does (in millions, with the heads)
    "tiny": (4_385_920, 4.4),
    "mini": (11_170_560, 11.3),
    "small": (28_763_648, 29.1),
    "medium": (41_373_184, 41.7),
    "base": (109_482_240, 110.1),
    # Devlin et al. 2019 say "340M" of it.
    "large": (335_141_888, 336.2),
}


def bert_config(config: EncoderConfig) -> BertConfig:
    """Transformers' configuration of these sizes; whatever is not a size stands at its published default."""
    return BertConfig(
        vocab_size=30522,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_size,
    )


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", SIZES)
def test_bert_has_the_published_number_of_parameters_and_that_of_transformers(name):
    config = read(f"bert_{name}")
    with torch.device("meta"):
        encoder, theirs = Encoder(config, 30522), BertModel(bert_config(config))
        whole = MaskedLanguageModel(config, 30522, sentence_head=True)
        pretraining = BertForPreTraining(bert_config(config))
    assert encoder.num_parameters() == count(theirs) == SIZES[name][0]
    assert whole.num_parameters() == count(pretraining)
    assert round(whole.num_parameters() / 1e6, 1) == SIZES[name][1]


@pytest.mark.parametrize("name", SIZES)
def test_what_is_no_size_is_as_transformers_has_it_for_bert(name):
    config = read(f"bert_{name}")
    expected, vocab_size = config_from_huggingface(bert_config(config).to_dict(), "there")
    assert vocab_size == 30522
    assert replace(expected, pooler=True) == config


# The model cards and Warner et al. 2024 say 149 and 395 million.
@pytest.mark.parametrize(("name", "parameters"), [("base", 149_655_232), ("large", 395_881_664)])
def test_the_modern_encoders_are_modernbert_as_published(name, parameters):
    config = read(f"encoder_{name}")
    theirs_config = ModernBertConfig(
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_size,
    )
    with torch.device("meta"):
        ours, theirs = MaskedLanguageModel(config, 50368), ModernBertForMaskedLM(theirs_config)
    assert ours.num_parameters() == count(theirs) == parameters
    expected, vocab_size = config_from_huggingface(theirs_config.to_dict(), "there")
    assert vocab_size == 50368
    # Their class has no figure of its own for it; ModernBERT's training configuration says 0.1.
    assert replace(expected, attention_output_dropout=0.1) == config
    assert (config.local_window, config.global_every, config.local_rope_base) == (64, 3, 10000.0)


@pytest.mark.parametrize("change", [{"num_heads": 2}, {"norm": "pre"}, {"activation": "geglu"}, {"positions": "rope"}])
def test_weights_are_not_taken_over_by_a_model_in_which_they_mean_nothing(change):
    before = read("bert_mini")
    (name, value), *_ = change.items()
    with pytest.raises(InputError, match=f"'runs/a' has {name}=.*, but model.{name} is {value}: set model.{name}="):
        adopted_differences(asdict(before), asdict(before) | change, "runs/a")


def test_what_else_a_model_computes_with_weights_taken_over_is_said_and_what_training_alone_sees_is_not():
    before = asdict(read("encoder_base"))
    now = before | {"rope_base": 160000.0, "max_positions": 8192, "dropout": 0.1, "attention_kernel": "sdpa"}
    notes = adopted_differences(before | {"rope_base": 10000.0, "max_positions": 1024}, now, "runs/a")
    assert notes == [
        "the model in 'runs/a' has max_positions=1024; here it goes on with model.max_positions=8192",
        "the model in 'runs/a' has rope_base=10000.0; here it goes on with model.rope_base=160000.0",
    ]
