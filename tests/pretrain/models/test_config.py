"""An inconsistent option is refused by name, and conf/model holds the published sizes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

import conf
from conf.errors import InputError
from pretrain.models.encoder import Encoder, EncoderConfig
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


def test_every_model_file_makes_a_configuration():
    names = sorted(path.stem for path in DIRECTORY.glob("*.yaml"))
    assert {"bert_tiny", "bert_mini", "bert_small", "bert_medium", "bert_base", "bert_large"} <= set(names)
    assert {"encoder_tiny", "encoder_demo", "encoder_demo_full", "encoder_base", "encoder_large"} <= set(names)
    for name in names:
        assert read(name).architecture == ("bert" if name.startswith("bert") else "modernbert")


# In millions, encoder with pooler and masked-LM head: table 1 of "Well-Read Students Learn Better" (Turc et al. 2019).
@pytest.mark.parametrize(
    ("name", "millions"), [("tiny", 4.4), ("mini", 11.3), ("small", 29.1), ("medium", 41.7), ("base", 110.1)]
)
def test_bert_sizes_have_the_published_number_of_parameters(name, millions):
    config = read(f"bert_{name}")
    with torch.device("meta"):
        count = MaskedLanguageModel(config, 30522).num_parameters()
    assert round((count + pooler(config)) / 1e6, 1) == millions


def pooler(config: EncoderConfig) -> int:
    return config.hidden_size * (config.hidden_size + 1)


def test_bert_base_has_the_number_of_parameters_that_bertmodel_reports():
    config = read("bert_base")
    with torch.device("meta"):
        assert Encoder(config, 30522).num_parameters() + pooler(config) == 109_482_240


@pytest.mark.parametrize("name", ["bert_base", "bert_large", "encoder_base", "encoder_large"])
def test_large_sizes_count_as_transformers_counts_its_own(name):
    from transformers import AutoModelForMaskedLM, BertConfig, ModernBertConfig

    config = read(name)
    sizes = {
        "vocab_size": 30522 if name.startswith("bert") else 50368,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
    }
    # Whatever is not a size stands at the published default of transformers' own configuration.
    theirs_config = BertConfig(**sizes) if name.startswith("bert") else ModernBertConfig(**sizes)
    with torch.device("meta"):
        theirs = AutoModelForMaskedLM.from_config(theirs_config)
        ours = MaskedLanguageModel(config, sizes["vocab_size"])
    assert ours.num_parameters() == sum(parameter.numel() for parameter in theirs.parameters())
