"""Suites: what is missing is said once each, every configured task is in suite=all, means name scores that exist."""

import functools
from pathlib import Path

import hydra
import pytest
import yaml
from hydra.core.global_hydra import GlobalHydra

from conf.checks import check_config
from conf.errors import InputError
from pretrain.evaluate import EvaluateOptions
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.suite import Suite, chosen_tasks, evaluate_tasks, in_a_pool
from pretrain.evaluation.suite_mean import SuiteMean
from pretrain.evaluation.tasks.cola import cola
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.minimal_pairs import MinimalPairs
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.similarity import Similarity
from pretrain.evaluation.tasks.zero_shot import ZeroShot

CONF = Path(__file__).resolve().parents[3] / "conf"
# Bases, files of one's own, and pairs for a tokenizer that knows Chinese.
NOT_IN_ALL = {"finetuned", "zero_shot", "custom", "checklist_file", "minimal_pairs_file", "minimal_pairs_zh"}


@functools.cache
def suite(name) -> Suite:
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose("evaluate", ["checkpoint=c", "output=o", f"suite={name}"])
    check_config(config, EvaluateOptions)
    return hydra.utils.instantiate(config.suite, _convert_="all")


def test_every_task_is_in_the_suite_of_all():
    tasks = chosen_tasks(suite("all"))
    assert {path.stem for path in (CONF / "task").glob("*.yaml")} - NOT_IN_ALL == set(tasks) - {
        "winobias_type2_zero_shot"
    }
    labels = [
        getattr(task, "label", None) or task.name or task.definition.name
        for task in tasks.values()
        if not isinstance(task, Similarity)  # whose name has _similarity behind it
    ]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", ["glue", "all"])
def test_the_glue_mean_is_of_scores_that_the_suite_gives(name):
    found = suite(name)
    given = set()
    for task in found.tasks.values():
        if isinstance(task, Finetuned) and task.definition is not None:
            given |= {task.name or task.definition.name, *(other.name for other in task.also or ())}
    assert isinstance(found.mean, SuiteMean) and len(found.mean.tasks) == 8 and "wnli" not in found.mean.tasks
    assert {part for parts in found.mean.tasks.values() for part in parts} <= given
    assert (
        yaml.safe_load((CONF / "suite/glue.yaml").read_text())["mean"]
        == (yaml.safe_load((CONF / "suite/all.yaml").read_text())["mean"])
    )


@pytest.mark.parametrize("name", ["commonsense", "behaviour"])
def test_suites_of_both_kinds_of_tasks(name):
    tasks = chosen_tasks(suite(name))
    kinds = {key: isinstance(task, ZeroShot) for key, task in tasks.items()}
    assert all(
        zero == ("_zero_shot" in key or (key.startswith("wino") and name == "behaviour")) for key, zero in kinds.items()
    )
    assert True in kinds.values() and False in kinds.values()


def test_what_is_missing_is_one_line_each_in_the_notes(checkpoint, tmp_path):
    subject = read_subject(str(checkpoint), [1], [])
    tasks = {
        "pairs": MinimalPairs(pairs_per_phenomenon=2, phenomena=["word_order", "a_an"]),
        "cola": Finetuned(cola(), recipe=Recipe(max_length=32)),
        "rte": Finetuned(rte(), recipe=Recipe(max_length=32)),
        "mine": Finetuned(data="mine", recipe=Recipe(max_length=32)),
        "again": Finetuned(cola(), name="again", recipe=Recipe(max_length=32)),
    }
    (tmp_path / "data").mkdir()
    mean = SuiteMean("m", {"cola": ["cola"], "pairs": ["minimal_pairs/overall"]}, "r")
    outcomes = evaluate_tasks(tasks, subject, tmp_path / "data", tmp_path, in_a_pool(1), mean)
    notes = [note for outcome in outcomes for note in outcome.notes]
    assert notes[0] == "m of the pretrained model is not given, as 1 of its 2 tasks lack: cola"
    assert notes[1] == "4 of 5 tasks are left out, as their data are not there: cola, rte, mine, again"
    assert notes[2:] == [
        "missing for cola, again: CoLA/train.tsv (GLUE), from https://gluebenchmark.com/tasks",
        f"missing for rte: RTE/train.tsv (GLUE, or 2 other layouts), from {rte().home}",
        "missing for mine: mine/task.json, made by `python -m pipeline job=corpus_tasks`",
    ]


def test_a_suite_without_any_task_that_is_there_is_one_sentence(checkpoint, tmp_path):
    subject = read_subject(str(checkpoint), [1], [])
    tasks = {"cola": Finetuned(cola()), "rte": Finetuned(rte())}
    with pytest.raises(InputError, match=r"no task is left to run: task cola lacks .* \(and 1 more tasks: rte\)"):
        small = {name: Finetuned(task.definition, recipe=Recipe(max_length=32)) for name, task in tasks.items()}
        evaluate_tasks(small, subject, tmp_path, tmp_path, in_a_pool(1))
    with pytest.raises(InputError, match="no task is left to run: give tasks=DIR, or a suite"):
        evaluate_tasks(small, subject, None, tmp_path, in_a_pool(1))
