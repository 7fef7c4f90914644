"""Published scores that several tasks share a source for. Figures only: must not import anything but the definition."""

from pretrain.evaluation.tasks.definition import Anchor

HUMAN = "human"


def human_on_glue(value: float, metric: str) -> Anchor:
    """The human level on a GLUE test set (Nangia and Bowman 2019, table 1)."""
    return Anchor(HUMAN, value, metric, "test", "Nangia and Bowman 2019, Human vs. Muppet, table 1")


def human_on_superglue(value: float, metric: str) -> Anchor:
    """The human level on a SuperGLUE test set (Wang et al. 2019, table 3)."""
    return Anchor(HUMAN, value, metric, "test", "Wang et al. 2019, SuperGLUE, table 3")


def bert_base_on_glue(value: float, metric: str) -> Anchor:
    """BERT-base cased on a GLUE dev set, one public run."""
    source = "Hugging Face transformers, examples/pytorch/text-classification, README (bert-base-cased)"
    return Anchor("BERT-base cased", value, metric, "dev", source)
