"""Every yaml of the two groups names options that exist, with values that work."""

from pathlib import Path

import hydra
import pytest
import torch
from omegaconf import OmegaConf

import conf
from conf.checks import check_target
from conf.errors import InputError

FOLDER = Path(conf.__file__).parent


def nodes(group):
    return [pytest.param(OmegaConf.load(path), id=path.stem) for path in sorted((FOLDER / group).glob("*.yaml"))]


@pytest.mark.parametrize("node", nodes("optimizer"))
def test_an_optimizer_yaml_makes_an_optimizer_of_a_model(node):
    check_target(node, "optimizer")
    optimizer = hydra.utils.instantiate(node, _convert_="all")(torch.nn.Linear(2, 2))
    assert optimizer.param_groups[0]["lr"] == node.lr


@pytest.mark.parametrize("node", nodes("schedule"))
def test_a_schedule_yaml_makes_a_function_of_position_size_and_total(node):
    check_target(node, "schedule")
    assert 0.0 < hydra.utils.instantiate(node, _convert_="all")(0, 1, 10_000) <= 1.0


def test_the_budget_is_no_option_of_a_schedule():
    node = OmegaConf.merge(OmegaConf.load(FOLDER / "schedule" / "linear.yaml"), {"total": 5})
    with pytest.raises(InputError, match=r"no option 'total'"):
        check_target(node, "schedule")
