import pytest
import torch

from conf.errors import InputError
from pretrain.engine import DeepSpeedOptions, persistent_buffers


def test_a_misspelt_key_of_deepspeed_is_an_error_that_names_the_nearest():
    with pytest.raises(InputError, match=r"wall_clock_breakdwn.*'wall_clock_breakdown'"):
        DeepSpeedOptions(other={"wall_clock_breakdwn": True})
    with pytest.raises(InputError, match=r"deepspeed.zero.overlap_com.*'overlap_comm'"):
        DeepSpeedOptions(zero={"overlap_com": True}).zero_optimization()


def test_what_the_trainer_decides_cannot_be_set_twice():
    with pytest.raises(InputError, match=r"use the option trainer.gradient_clipping"):
        DeepSpeedOptions(other={"gradient_clipping": 2.0})


@pytest.mark.parametrize("wrong", [{"stage": 4}, {"precision": "fp16"}, {"bucket_size": 0}])
def test_values_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"deepspeed.{next(iter(wrong))}"):
        DeepSpeedOptions(**wrong)


def test_the_zero_section_holds_stage_buckets_and_further_keys():
    section = DeepSpeedOptions(stage=2, bucket_size=123, zero={"overlap_comm": False}).zero_optimization()
    assert section == {
        "stage": 2,
        "reduce_bucket_size": 123,
        "allgather_bucket_size": 123,
        "overlap_comm": False,
    }
    assert DeepSpeedOptions(stage=0).zero_optimization() == {"stage": 0}


def test_persistent_buffers_are_neither_parameters_nor_tied_names():
    model = torch.nn.Module()
    model.a = torch.nn.Linear(2, 2)
    model.b = torch.nn.Linear(2, 2)
    model.b.weight = model.a.weight
    model.register_buffer("mean", torch.zeros(3))
    model.register_buffer("scratch", torch.zeros(3), persistent=False)
    assert [name for name, _ in persistent_buffers(model)] == ["mean"]
