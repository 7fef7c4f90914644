import pytest

from conf.errors import InputError
from pretrain.trainer import TrainerOptions


def options(**changes):
    return TrainerOptions(**({"max_steps": 10, "global_batch_size": 8, "micro_batch_size": 2} | changes))


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"keep_last": 0}, {"log_every": 0}, {"gradient_clipping": -1.0}])
def test_numbers_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"trainer.{next(iter(wrong))} must be at least"):
        options(**wrong)


def test_a_batch_that_the_ranks_cannot_share_evenly_is_refused():
    options().check_ranks(4)
    with pytest.raises(InputError, match=r"multiple of trainer.micro_batch_size \* ranks = 2 \* 3, but is 8"):
        options().check_ranks(3)
