"""BLiMP: 67 paradigms of 1,000 English minimal pairs (Warstadt et al. 2020). One jsonl a paradigm, in one zip."""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.tasks.columns import Pairs
from pretrain.evaluation.tasks.definition import Anchor, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.published import human

SOURCE = "Warstadt et al. 2020, BLiMP, table 3"
SCORED = "Salazar et al. 2020, Masked Language Model Scoring (awslabs/mlm-scoring, examples/lingacc-blimp)"


def blimp() -> TaskDefinition:
    """Accuracy per paradigm and over all. A paradigm is a phenomenon and a group; facts name its field and term."""
    item = Pairs("sentence_good", "sentence_bad", "UID", id=("UID", "pairID"), facts=("field", "linguistics_term"))
    return TaskDefinition(
        name="blimp",
        version=1,
        kind="minimal_pair",
        labels=(),
        metrics=("pair_accuracy",),
        layouts=(Layout("BLiMP.zip", {"test": ("*.jsonl",)}, each(jsonl.rows, item), ("blimp/data", "blimp")),),
        home="https://github.com/alexwarstadt/blimp",
        scored="test",
        anchors=(
            Anchor("GPT-2 345M", 0.826, "pair_accuracy", "test", SCORED, tuned=False),
            Anchor("RoBERTa-large", 0.865, "pair_accuracy", "test", SCORED, tuned=False),
            human(0.886, "pair_accuracy", SOURCE),
        ),
    )
