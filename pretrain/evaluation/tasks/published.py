"""Published scores that several tasks share a source for. Figures only: must not import anything but the definition."""

from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.definition import Anchor

HUMAN = "human"


def human(value: float, metric: str, source: str, split: Split = "test", who: str = HUMAN) -> Anchor:
    """The human level on a set; `who` begins with "human"."""
    return Anchor(who, value, metric, split, source, tuned=False)


def human_on_glue(value: float, metric: str) -> Anchor:
    """The human level on a GLUE test set (Nangia and Bowman 2019, table 1)."""
    return human(value, metric, "Nangia and Bowman 2019, Human vs. Muppet, table 1")


def human_on_superglue(value: float, metric: str) -> Anchor:
    """The human level on a SuperGLUE test set (Wang et al. 2019, table 3)."""
    return human(value, metric, "Wang et al. 2019, SuperGLUE, table 3")


def bert_base_on_glue(value: float, metric: str) -> Anchor:
    """BERT-base cased on a GLUE dev set, one public run."""
    source = "Hugging Face transformers, examples/pytorch/text-classification, README (bert-base-cased)"
    return Anchor("BERT-base cased", value, metric, "dev", source)
