import pytest

from conf.errors import InputError
from pretrain.options import TrainerOptions

SIZES = {"global_batch_size": 8, "micro_batch_size": 4}


def test_the_one_budget_that_is_given_counts():
    assert TrainerOptions(**SIZES, max_steps=5).budget.unit == "steps"
    assert TrainerOptions(**SIZES, max_tokens=1e9).budget.total == 1e9
    assert repr(TrainerOptions(**SIZES, max_steps=1e4).max_steps) == "10000"
    assert TrainerOptions(**SIZES, max_hours=0.5).budget.unit == "hours"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "found none: set one of them"),
        ({"max_steps": 5, "max_hours": 1.0}, "trainer.max_steps=5 and trainer.max_hours=1.0: set the others to null"),
        ({"max_steps": 2.5}, "trainer.max_steps must be a whole number, but is 2.5"),
        ({"max_steps": 0}, "trainer.max_steps must be at least 1, but is 0"),
        ({"max_hours": 0.0}, "trainer.max_hours must be above 0"),
        ({"max_steps": 5, "keep_last": 0}, "trainer.keep_last must be at least 1"),
        ({"max_steps": 5, "skip_sigmas": -1.0}, "trainer.skip_sigmas must be above 0"),
        ({"max_steps": 5, "micro_batch_size": 0}, "trainer.micro_batch_size must be at least 1"),
        ({"max_steps": 5, "threads": 10**9}, "trainer.threads must be at most the [0-9]+ cores"),
        ({"max_steps": 5, "collective_timeout_seconds": 0.001}, "collective_timeout_seconds must be from 1 to 2592000"),
        ({"max_steps": 5, "collective_timeout_seconds": 1e300}, "collective_timeout_seconds must be from 1 to 2592000"),
        ({"max_steps": 5, "keep_best": 1, "validation_every": 0}, "keep_best=1 needs validation"),
        ({"max_steps": 5, "keep_best": 1, "validation_rows": 0}, "keep_best=1 needs validation"),
    ],
)
def test_impossible_numbers_are_named(options, sentence):
    with pytest.raises(InputError, match=sentence):
        TrainerOptions(**(SIZES | options))
