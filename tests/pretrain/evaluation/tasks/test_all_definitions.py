"""What every task definition must hold to, whatever its data."""

import inspect
import subprocess
import sys
from dataclasses import FrozenInstanceError
from functools import partial

import pytest

from pretrain.evaluation.metrics import EXACT_MATCH, METRICS, PAIR_ACCURACY
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.tasks.afqmc import afqmc
from pretrain.evaluation.tasks.anli import anli
from pretrain.evaluation.tasks.blimp import blimp
from pretrain.evaluation.tasks.boolq import boolq
from pretrain.evaluation.tasks.cb import cb
from pretrain.evaluation.tasks.cluewsc import cluewsc
from pretrain.evaluation.tasks.cola import cola
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.csl import csl
from pretrain.evaluation.tasks.definition import SPLITS, TaskDefinition
from pretrain.evaluation.tasks.dpr import dpr
from pretrain.evaluation.tasks.hans import hans
from pretrain.evaluation.tasks.hellaswag import hellaswag
from pretrain.evaluation.tasks.mnli import mnli
from pretrain.evaluation.tasks.mrpc import mrpc
from pretrain.evaluation.tasks.multirc import multirc
from pretrain.evaluation.tasks.ocnli import ocnli
from pretrain.evaluation.tasks.pairs_jsonl import pairs_jsonl
from pretrain.evaluation.tasks.paws import paws
from pretrain.evaluation.tasks.piqa import piqa
from pretrain.evaluation.tasks.qnli import qnli
from pretrain.evaluation.tasks.qqp import qqp
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.sst2 import sst2
from pretrain.evaluation.tasks.stsb import stsb
from pretrain.evaluation.tasks.swag import swag
from pretrain.evaluation.tasks.wic import wic
from pretrain.evaluation.tasks.winobias import winobias
from pretrain.evaluation.tasks.winogender import winogender
from pretrain.evaluation.tasks.winogrande import SIZES, winogrande
from pretrain.evaluation.tasks.wnli import wnli
from pretrain.evaluation.tasks.wsc import wsc
from pretrain.evaluation.tasks.wsc273 import wsc273
from pretrain.evaluation.tasks.xcopa import xcopa
from pretrain.evaluation.tasks.xnli import xnli
from pretrain.evaluation.tasks.xwinograd import xwinograd

TASKS = [
    *(afqmc, blimp, boolq, cb, cluewsc, cola, copa, csl, dpr, hans, hellaswag, mnli, mrpc, multirc, ocnli, piqa, qnli),
    *(qqp, rte, sst2, stsb, swag, wic, winogender, wnli, wsc, wsc273, partial(pairs_jsonl, "mine")),
    *(partial(stsb, "zh"), partial(mnli, "mismatched"), partial(wsc273, 285)),
    *(partial(winogrande, size) for size in SIZES),
    *(partial(anli, number) for number in (1, 2, 3)),
    *(partial(paws, part) for part in ("final", "swap", "unlabeled")),
    *(partial(winobias, kind) for kind in ("type1", "type2")),
    *(partial(task, language) for task in (xcopa, xnli, xwinograd) for language in ("zh",)),
]
DEFINITIONS = [task() for task in TASKS]
SLOW = {"torch", "datasets", "sklearn", "scipy", "pandas"}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_a_definition_is_whole(definition, tmp_path):
    assert definition.metrics and set(definition.metrics) <= {*METRICS, EXACT_MATCH, PAIR_ACCURACY}
    assert (definition.kind == "minimal_pair") == (definition.metrics == (PAIR_ACCURACY,))
    has_names = definition.kind in ("classification", "span")
    assert len(definition.labels) == len(set(definition.labels)) and bool(definition.labels) == has_names
    assert any(definition.scored in layout.files for layout in definition.layouts)
    assert definition.hub is None or definition.scored in definition.hub.splits
    assert definition.version >= 1 and set(definition.folds.values()) <= set(definition.labels)
    for anchor in definition.anchors:
        assert anchor.metric in definition.metrics and 0 < anchor.value <= 1 and anchor.split in SPLITS
        assert len(anchor.source) > 10
    assert "http" in definition.missing(TaskFiles(tmp_path), definition.scored) or definition.name == "mine"


def test_names_are_distinct_and_definitions_do_not_change():
    assert len({definition.name for definition in DEFINITIONS}) == len(DEFINITIONS)
    with pytest.raises(FrozenInstanceError):
        DEFINITIONS[0].name = "other"


def test_every_task_is_a_function_that_a_configuration_can_name():
    for task in TASKS:
        function = task.func if isinstance(task, partial) else task
        assert inspect.signature(function).return_annotation is TaskDefinition
        assert function.__module__ == f"pretrain.evaluation.tasks.{function.__name__}" and function.__doc__


def test_human_levels_stand_above_the_models():
    for definition in DEFINITIONS:
        for metric in definition.metrics:
            human = [
                anchor.value for anchor in definition.anchors if "human" in anchor.system and anchor.metric == metric
            ]
            models = [a.value for a in definition.anchors if "human" not in a.system and a.metric == metric]
            # QQP and SWAG are known for systems above people's first guess.
            assert definition.name in ("qqp", "swag", "mrpc") or not human or not models or min(human) > max(models)


def test_definitions_import_neither_torch_nor_anything_slow():
    names = sorted({(task.func if isinstance(task, partial) else task).__module__ for task in TASKS})
    code = f"import sys, pretrain.evaluation.metrics, {', '.join(names)}\nprint(sorted({SLOW!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
