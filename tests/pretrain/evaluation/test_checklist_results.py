"""Failures of a check list by hand: minimum functionality, invariance, direction with its tolerance, folded labels."""

import numpy as np
import pytest

from conf.errors import InputError
from pretrain.evaluation.checklist_results import checked_list, checked_rows, failure_report, whole_cases
from pretrain.evaluation.tasks.checklist import checklist
from pretrain.evaluation.tasks.definition import TextItem
from pretrain.evaluation.tasks.mnli import mnli
from pretrain.evaluation.tasks.sst2 import sst2
from pretrain.evaluation.tasks.stsb import stsb


def case(name, kind, members=1, accepted=None, direction=None, capability="c"):
    facts = {"case": name, "test": f"test {kind}", "capability": capability, "type": kind}
    facts |= {"accepted": accepted} if accepted else {}
    facts |= {"direction": direction} if direction else {}
    return [
        TextItem(f"{name}/{number}", f"{name} {number}", None, None, name, {**facts, "member": str(number)})
        for number in range(members)
    ]


def listed(*cases, head=None, **options):
    items = [item for one in cases for item in one]
    return checked_list(head or sst2(), checklist(**options), items), items


def test_minimum_functionality_fails_where_any_text_gets_another_label():
    checked, _ = listed(case("a", "MFT", accepted="positive"), case("b", "MFT", 2, accepted="positive"))
    fine, wrong = [0.2, 0.8], [0.6, 0.4]
    assert checked.failures(np.array([fine, fine, fine])).tolist() == [False, False]
    assert checked.failures(np.array([wrong, fine, wrong])).tolist() == [True, True]


def test_several_labels_may_be_right():
    checked, _ = listed(case("a", "MFT", accepted="neutral|contradiction"), head=mnli())
    found = [checked.failures(np.array([np.eye(3)[label]])).tolist() for label in range(3)]
    assert found == [[True], [False], [False]]


def test_invariance_fails_where_any_text_gets_another_label_than_the_first():
    checked, _ = listed(case("a", "INV", 3), case("b", "INV", 2))
    same = [[0.9, 0.1], [0.6, 0.4], [0.51, 0.49], [0.1, 0.9], [0.2, 0.8]]
    assert checked.failures(np.array(same)).tolist() == [False, False]
    assert checked.failures(np.array([*same[:2], [0.49, 0.51], [0.1, 0.9], [0.6, 0.4]])).tolist() == [True, True]


@pytest.mark.parametrize(
    ("direction", "after", "fails"),
    [
        ("up", [0.3], False),  # by exactly the tolerance against it
        ("up", [0.29], True),
        ("up", [0.9, 0.2], True),
        ("up", [0.9, 0.31], False),
        ("down", [0.5], False),
        ("down", [0.51], True),
        ("down", [0.0, 0.6], True),
    ],
)
def test_direction_fails_where_the_probability_moves_more_than_the_tolerance_against_it(direction, after, fails):
    checked, _ = listed(case("a", "DIR", 1 + len(after), "positive", direction))
    outputs = np.array([[1 - share, share] for share in (0.4, *after)])
    assert checked.failures(outputs).tolist() == [fails]


def test_folded_labels_are_one_prediction_and_one_probability():
    folds = {"neutral": "not_entailment", "contradiction": "not_entailment"}
    cases = (
        case("a", "INV", 2),
        case("b", "MFT", accepted="not_entailment"),
        case("c", "DIR", 2, "not_entailment", "up"),
    )
    checked, _ = listed(*cases, head=mnli(), folds=folds)
    outputs = [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3], [0.1, 0.9, 0.0], [0.2, 0.0, 0.8]]
    # Of (.4, .3, .3) the head decides for entailment, though the others sum to more.
    assert checked.failures(np.array(outputs)).tolist() == [False, True, False]


def test_a_label_that_the_head_does_not_have_is_one_sentence():
    with pytest.raises(InputError, match=r"case 'a' of test 'test MFT' expects the label 'good', but the head has neg"):
        listed(case("a", "MFT", accepted="good"))
    with pytest.raises(InputError, match="a check list for heads of labels, but task stsb is regression"):
        listed(case("a", "INV", 2), head=stsb())


def test_no_case_is_cut_in_two():
    items = [*case("a", "INV", 3), *case("b", "INV", 2), *case("c", "INV", 2)]
    assert [len(whole_cases(items, limit)) for limit in (None, 99, 7, 6, 5, 1)] == [7, 7, 7, 5, 5, 5]


def test_the_report_has_a_line_a_test_a_capability_and_a_type_with_an_example():
    checked, items = listed(
        case("a", "MFT", accepted="positive"),
        case("b", "MFT", accepted="positive"),
        case("c", "INV", 2, capability="d"),
        case("d", "INV", 2, capability="d"),
    )
    fine, wrong = [0.2, 0.8], [0.6, 0.4]
    outputs = np.array([[wrong, fine, fine, wrong, fine, fine], [wrong, wrong, fine, fine, fine, fine]])
    failed = np.stack([checked.failures(run) for run in outputs])
    found = failure_report("t", "pretrained", checked, items, failed, outputs[0])
    assert [(row.test, row.value, row.n) for row in found] == [
        ("c: test MFT (MFT)", 0.75, 2),
        ("d: test INV (INV)", 0.25, 2),
        ("all of c", 0.75, 2),
        ("all of d", 0.25, 2),
        ("all MFT", 0.75, 2),
        ("all INV", 0.25, 2),
    ]
    assert found[0].note == 'e.g. "a 0" [negative]'
    assert found[1].note == 'e.g. "c 0" [positive], "c 1" [negative]'
    assert all(row.kind == "failure" and row.interval[0] <= row.value <= row.interval[1] for row in found)


def test_a_row_has_what_every_run_said_of_a_text_and_whether_its_case_failed():
    checked, items = listed(case("a", "INV", 2), case("b", "MFT", accepted="positive"))
    outputs = {"16/pretrained-1": np.array([[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]), "16/random-1": np.eye(2)[[0, 0, 0]]}
    failures = {run: checked.failures(given) for run, given in outputs.items()}
    rows = checked_rows("mine", checked, items, outputs, failures)
    assert [(row["set"], row["id"], row["group"], row["texts"]) for row in rows] == [
        ("mine", "a/0", "a", ["a 0"]),
        ("mine", "a/1", "a", ["a 1"]),
        ("mine", "b/0", "b", ["b 0"]),
    ]
    assert [row["predictions"]["16/pretrained-1"] for row in rows] == ["negative", "positive", "positive"]
    assert [row["failed"] for row in rows] == [
        {"16/pretrained-1": True, "16/random-1": False},
        {"16/pretrained-1": True, "16/random-1": False},
        {"16/pretrained-1": False, "16/random-1": True},
    ]
