"""XCOPA: COPA in eleven languages (Ponti et al. 2020)."""

from collections.abc import Mapping
from typing import Literal

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.causes import Causes
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each

Language = Literal["et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh"]


def xcopa(language: Language = "zh") -> TaskDefinition:
    """Accuracy; 100 dev and 500 test questions, all with answers."""
    files: Mapping[Split, tuple[str, ...]] = {"dev": (f"val.{language}.jsonl",), "test": (f"test.{language}.jsonl",)}
    item = Causes(language)
    # Not any folder: the authors' `data-gmt` holds files of the same names, translated to English.
    folders = (f"data/{language}", f"xcopa/{language}", f"{language}/*/*")
    return TaskDefinition(
        name=f"xcopa_{language}",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the authors' jsonl", files, each(jsonl.rows, item), folders),),
        home="https://github.com/cambridgeltl/xcopa/tree/master/data",
        scored="test",
        hub=HubSource("cambridgeltl/xcopa", language, {"dev": "validation", "test": "test"}, item),
    )
