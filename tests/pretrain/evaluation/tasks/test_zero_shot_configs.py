"""The configured zero-shot tasks: each one becomes the task that its file says."""

from pathlib import Path

import hydra
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from pretrain.evaluation.tasks.zero_shot import ZeroShot

CONF = Path(__file__).resolve().parents[4] / "conf"
PARTS = {"winogrande_zero_shot": "suffix", "wsc273_zero_shot": "suffix", "xwinograd_zero_shot": "suffix"}
NAMES = sorted(
    path.stem
    for path in (CONF / "task").glob("*.yaml")
    if path.stem == "blimp" or path.stem == "minimal_pairs_file" or path.stem.endswith("_zero_shot")
)


def composed(*overrides):
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("evaluate", ["checkpoint=c", "output=o", *overrides])


@pytest.mark.parametrize("name", NAMES)
def test_each_task_is_what_its_name_says(name):
    config = composed("suite=challenge", f"+task@suite.tasks.added={name}", "+suite.tasks.added.data=d")
    task = hydra.utils.instantiate(config.suite.tasks.added, _convert_="all")
    assert isinstance(task, ZeroShot) and task.data == "d"
    assert task.definition.name.partition("_")[0] in ("my", *name.partition("_")[:1])
    assert (task.scoring.part or "option") == PARTS.get(name, "suffix" if name == "dpr_zero_shot" else "option")


def test_every_option_of_a_task_is_in_the_file_that_others_begin_with():
    given = yaml.safe_load((CONF / "task" / "zero_shot.yaml").read_text())
    for node, default in ((given, ZeroShot), (given["scoring"], None), (given["scoring"]["decoder"], None)):
        target = default or hydra.utils.get_class(node["_target_"])
        assert set(node) - {"_target_"} == set(target.__dataclass_fields__)


@pytest.mark.parametrize(("suite", "tasks"), [("blimp", ["blimp"]), ("zero_shot", ["piqa", "winogrande", "copa"])])
def test_the_suites_name_their_tasks(suite, tasks):
    config = composed(f"suite={suite}")
    assert list(OmegaConf.to_container(config.suite.tasks)) == tasks
