"""Published scores beside our own."""

from pretrain.evaluation.anchors import human_only, published
from pretrain.evaluation.tasks.blimp import blimp
from pretrain.evaluation.tasks.piqa import piqa


def test_anchors_of_a_definition_become_rows_under_the_name_of_our_score():
    rows = published("mine", piqa().anchors, "dev")
    assert {(row.task, row.metric, row.split, row.scored) for row in rows} == {("mine", "accuracy", "test", "dev")}
    assert {row.system: (row.value, row.tuned) for row in rows} == {
        "BERT-large": (0.668, True),
        "RoBERTa-large": (0.771, True),
        "human": (0.949, False),
    }


def test_people_alone_can_be_taken():
    assert [(anchor.system, anchor.value) for anchor in human_only(blimp().anchors)] == [("human", 0.886)]
