"""Options of a recipe: each that is out of range is named."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.finetuning.recipe import Recipe


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("patience", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("max_gradient_norm", -1.0),
        ("warmup", 1.0),
        ("dropout", -0.1),
        ("max_length", 3),
        ("layer_factor", 0.5),
        ("too_long", "x"),
        ("pooling", "max"),
        ("precision", "fp16"),
        ("schedule", "cosine"),
    ],
)
def test_an_option_out_of_range_is_named(option, value):
    with pytest.raises(InputError, match=f"recipe.{option} must be"):
        Recipe(**{option: value})


def test_two_rises_are_one_too_many():
    with pytest.raises(InputError, match=r"has its own rise, but recipe\.warmup is 0\.1: set it to 0"):
        Recipe(schedule="slanted_triangular")
    Recipe(schedule="slanted_triangular", warmup=0.0)
