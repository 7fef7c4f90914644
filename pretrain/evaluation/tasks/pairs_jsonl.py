"""Any minimal pairs in jsonl: two sentences a row, under names that the configuration gives."""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.tasks.columns import Pairs
from pretrain.evaluation.tasks.definition import Layout, TaskDefinition, each


def pairs_jsonl(
    name: str,
    files: str = "*.jsonl",
    good: str = "sentence_good",
    bad: str = "sentence_bad",
    phenomenon: str | None = None,
    group: str | None = None,
    version: int = 1,
) -> TaskDefinition:
    """Accuracy per phenomenon and over all.

    Args:
        name: the task's name.
        files: pattern of the files, which may name folders; `*` stands for part of one name.
        good: field of the sentence that should be more likely.
        bad: field of the other.
        phenomenon: field that names what a pair is about; None makes one phenomenon of all.
        group: field that names what pairs have in common, such as their template; None takes the phenomenon.
        version: of these pairs.
    """
    return TaskDefinition(
        name=name,
        version=version,
        kind="minimal_pair",
        labels=(),
        metrics=("pair_accuracy",),
        layouts=(Layout("jsonl", {"test": (files,)}, each(jsonl.rows, Pairs(good, bad, phenomenon, group))),),
        home="whoever made the pairs",
        scored="test",
    )
