"""The configured fine-tuned tasks and suites: each becomes the task that its file says, with a recipe that holds."""

from pathlib import Path

import hydra
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from conf.checks import check_config
from pretrain.evaluation.checklist_results import checked_list
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.finetuning_job import map_labels
from pretrain.finetune import FinetuneOptions

CONF = Path(__file__).resolve().parents[4] / "conf"
OF_FOLDERS = {"custom", "adjacent_passages", "word_order"}


def is_finetuned(path):
    written = yaml.safe_load(path.read_text())
    return path.stem != "finetuned" and bool({"finetuned", "custom"} & set(map(str, written.get("defaults", []))))


NAMES = sorted(path.stem for path in (CONF / "task").glob("*.yaml") if is_finetuned(path))


def composed(command, *overrides):
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose(command, ["checkpoint=c", "output=o", *overrides])


@pytest.mark.parametrize("name", NAMES)
def test_each_task_is_what_its_name_says_and_its_labels_fit(name):
    config = composed("finetune", f"task={name}", "task.data=d")
    check_config(config, FinetuneOptions)
    task = hydra.utils.instantiate(config.task, _convert_="all")
    assert isinstance(task, Finetuned)
    if name in OF_FOLDERS:
        assert task.definition is None
        return
    if task.definition.checks is not None:
        assert task.definition.name == name.replace("checklist_file", "my_checklist")
        assert (name == "checklist_file") == (task.definition.made is None)
        assert checked_list(
            task.train_on, task.definition, list(task.definition.made() if task.definition.made else ())
        ).names
        return
    assert task.definition.name.split("_")[0] == name
    for scored in (task.definition, *(task.also or ())):
        map_labels(task.train_on or task.definition, scored)


def test_every_option_is_in_the_file_that_others_begin_with():
    given = yaml.safe_load((CONF / "task" / "finetuned.yaml").read_text())
    # The command sets save_to; only_with_tasks is for the tasks that a pipeline makes.
    assert set(given) - {"_target_"} == set(Finetuned.__dataclass_fields__) - {"save_to", "only_with_tasks"}
    assert set(given["recipe"]) - {"_target_"} == set(Recipe.__dataclass_fields__)


def test_winogrande_has_the_published_recipe():
    config = composed("finetune", "task=winogrande", "sizes=[xs,s,m,l,xl]")
    task = hydra.utils.instantiate(config.task, _convert_="all")
    recipe = task.recipe
    assert (recipe.batch_size, recipe.learning_rate, recipe.epochs, recipe.warmup) == (16, 1e-5, 3, 0.1)
    assert recipe.max_length == 80 and list(task.sized) == list(config.sizes)


@pytest.mark.parametrize(("suite", "count"), [("glue", 9), ("superglue", 7), ("clue", 4)])
def test_suites_are_of_fine_tuned_tasks(suite, count):
    config = composed("evaluate", f"suite={suite}")
    tasks = hydra.utils.instantiate(config.suite, _convert_="all").tasks
    assert len(tasks) == count and all(isinstance(task, Finetuned) for task in tasks.values())
