"""Published scores laid beside a task's own: which of a definition's anchors belong to which score.

Knows definitions and scores, no model: must not import torch.
"""

from collections.abc import Iterable

from pretrain.evaluation.scores import Published
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.definition import Anchor


def published(task: str, anchors: Iterable[Anchor], scored: Split) -> list[Published]:
    """What is known of a task, as rows for `scores.json`.

    Args:
        task: the name that our score has in the table, which a configuration may choose.
        anchors: of the task's definition.
        scored: the split that our score is of.
    """
    return [
        Published(
            task=task,
            metric=anchor.metric,
            system=anchor.system,
            value=anchor.value,
            split=anchor.split,
            source=anchor.source,
            tuned=anchor.tuned,
            scored=scored,
        )
        for anchor in anchors
    ]


def human_only(anchors: Iterable[Anchor]) -> list[Anchor]:
    """The human levels: what does not depend on how many rows a system learnt from."""
    return [anchor for anchor in anchors if anchor.system.startswith("human")]
