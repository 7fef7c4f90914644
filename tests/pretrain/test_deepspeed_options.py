from pathlib import Path

import pytest
from omegaconf import OmegaConf

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions

CONF = Path(__file__).resolve().parents[2] / "conf" / "deepspeed"


def test_a_misspelt_key_of_deepspeed_is_an_error_that_names_the_nearest():
    with pytest.raises(InputError, match=r"wall_clock_breakdwn.*'wall_clock_breakdown'"):
        DeepSpeedOptions(other={"wall_clock_breakdwn": True})
    with pytest.raises(InputError, match=r"deepspeed.zero.overlap_com.*'overlap_comm'"):
        DeepSpeedOptions(zero={"overlap_com": True}).zero_optimization()


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ({"other": {"gradient_clipping": 2.0}}, "trainer.gradient_clipping"),
        ({"other": {"fp16": {"enabled": True}}}, "deepspeed.precision"),
        ({"other": {"activation_checkpointing": {}}}, "deepspeed.activation_checkpointing"),
        ({"zero": {"stage": 2}}, "deepspeed.stage"),
        ({"zero": {"offload_optimizer": {"device": "cpu"}}}, "deepspeed.offload_optimizer"),
    ],
)
def test_what_has_an_option_of_its_own_cannot_be_set_twice(options, instead):
    with pytest.raises(InputError, match=f"use the option {instead}"):
        DeepSpeedOptions(**options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stage": 4},
        {"precision": "fp8"},
        {"bucket_size": 0},
        {"loss_scale_window": 0},
        {"initial_loss_scale": 1000, "loss_scaling": True},
        {"initial_loss_scale": 0.5, "loss_scaling": True},
        {"initial_loss_scale": float("inf"), "loss_scaling": True},
        {"initial_loss_scale": 1024.0, "precision": "fp32"},  # no loss is scaled
        {"loss_scale_window": 10, "precision": "bf16"},
        {"compile": "yes"},
        {"loss_scaling": False, "precision": "fp16"},
        {"offload_optimizer": True, "stage": 0},
        {"zero": {"compute_grad_norm": False}},
        {"zero": {"reduce_scatter": "auto"}},
    ],
    ids=str,
)
def test_values_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"deepspeed.{next(iter(wrong))}"):
        DeepSpeedOptions(**wrong)


def test_the_zero_section_holds_stage_buckets_offload_and_further_keys():
    section = DeepSpeedOptions(
        stage=2, bucket_size=123, offload_optimizer=True, zero={"overlap_comm": False}
    ).zero_optimization()
    assert section == {
        "stage": 2,
        "reduce_bucket_size": 123,
        "allgather_bucket_size": 123,
        "offload_optimizer": {"device": "cpu"},
        "overlap_comm": False,
    }
    assert DeepSpeedOptions(stage=0).zero_optimization() == {"stage": 0}
    assert DeepSpeedOptions(stage=3, bucket_size=5).zero_optimization() == {"stage": 3, "reduce_bucket_size": 5}


def test_options_from_omegaconf_become_plain_values():
    node = OmegaConf.create({"zero": {"offload_param": {"device": "none"}}, "other": {"flops_profiler": {"top": [1]}}})
    options = DeepSpeedOptions(zero=node.zero, other=node.other)
    assert type(options.zero["offload_param"]) is dict
    assert type(options.other["flops_profiler"]["top"]) is list


def test_fp16_is_refused_without_cuda():
    options = DeepSpeedOptions(precision="fp16")
    options.require_device("cuda")
    with pytest.raises(InputError, match=r"precision=fp16 needs a CUDA device.*'cpu'"):
        options.require_device("cpu")


def test_auto_compiles_on_cuda_and_scales_the_loss_in_fp16_only():
    assert [DeepSpeedOptions(compile=value).compiles("cpu") for value in ("auto", True, False)] == [False, True, False]
    assert [DeepSpeedOptions(compile=value).compiles("cuda") for value in ("auto", True, False)] == [True, True, False]
    assert [DeepSpeedOptions(precision=p).scales_loss for p in ("fp32", "bf16", "fp16")] == [False, False, True]
    assert DeepSpeedOptions(precision="fp32", loss_scaling=True).scales_loss


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_groups_hold_every_option_at_its_default(stage):
    """Stage 0 has no buckets."""
    group = OmegaConf.to_container(OmegaConf.load(CONF / f"zero{stage}.yaml"))
    assert isinstance(group, dict)
    assert group.pop("_target_") == "pretrain.deepspeed_options.DeepSpeedOptions"
    assert DeepSpeedOptions(**group) == DeepSpeedOptions(stage=stage)
    assert set(DeepSpeedOptions.__dataclass_fields__) - set(group) == ({"bucket_size"} if stage == 0 else set())


def test_on_one_rank_nothing_is_split_unless_zero_was_asked_for_more_than_that():
    assert [DeepSpeedOptions(stage=stage).on_ranks(1).stage for stage in (0, 1, 2, 3)] == [0, 0, 0, 0]
    assert [DeepSpeedOptions(stage=stage).on_ranks(2).stage for stage in (0, 1, 2, 3)] == [0, 1, 2, 3]
    assert DeepSpeedOptions(stage=2, offload_optimizer=True).on_ranks(1).stage == 2
    assert DeepSpeedOptions(stage=3, zero={"offload_param": {"device": "cpu"}}).on_ranks(1).stage == 3


def test_the_precision_is_known_on_a_device_only():
    with pytest.raises(ValueError, match="call on_device first"):
        DeepSpeedOptions().resolved_precision  # noqa: B018
    assert DeepSpeedOptions(precision="fp32").on_device("cpu").resolved_precision == "fp32"
