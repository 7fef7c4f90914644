"""Worst items: which are wrong, in what order, with which text."""

import pytest

from pretrain.evaluation.report.worst import CLIP, clipped, guessing, worst_items


def pair(name, good, bad):
    return {"id": name, "good": f"good {name}", "bad": f"bad {name}", "scores": {"pretrained": [good, bad]}}


def tuned(name, label, shares, predictions, **item):
    runs = [f"pretrained-{seed}" for seed in range(1, len(predictions) + 1)]
    return {
        "set": "t",
        "id": name,
        "label": label,
        "item": item or {"text_a": f"text {name}", "text_b": None},
        "label_names": ["no", "yes"],
        "predictions": {**dict(zip(runs, predictions, strict=True)), "random-1": label},
        "label_probabilities": {**dict(zip(runs, shares, strict=True)), "random-1": 0.0},
    }


def test_pairs_are_ranked_by_how_far_the_bad_sentence_lies_above_the_good():
    rows = [pair("a", -2.0, -1.0), pair("b", -5.0, -1.0), pair("c", -1.0, -2.0), pair("d", -1.0, -1.0)]
    (found,) = worst_items("blimp", rows, 5)
    assert [(item.id, item.right, item.given, item.sureness) for item in found.items] == [
        ("b", "good b", "bad b", 4.0),
        ("a", "good a", "bad a", 1.0),
    ]
    assert (found.wrong, found.total) == (2, 4)
    assert len(worst_items("blimp", rows, 1)[0].items) == 1


def test_of_choices_the_best_wrong_option_counts_and_an_item_without_scores_is_no_sure_mistake():
    item = {"id": "a", "prefix": "He ", "suffix": " it.", "options": ["has", "had", "will"], "label": 1}
    rows = [{**item, "scores": {"pretrained": [-1.0, -4.0, -2.0]}}, {**item, "id": "b", "scores": {"pretrained": None}}]
    (found,) = worst_items("x", rows, 5)
    (wrong,) = found.items
    assert (wrong.right, wrong.given, wrong.sureness) == ("had", "has", 3.0)
    assert wrong.text == (("", "He __ it."),)


def test_fine_tuned_items_are_ranked_by_the_right_labels_probability_over_seeds():
    rows = [
        tuned("a", 1, [0.2, 0.4, 0.6], [0, 0, 1]),
        tuned("b", 1, [0.1, 0.1, 0.1], [0, 0, 0]),
        tuned("c", 0, [0.4, 0.6, 0.7], [1, 0, 0]),  # most runs are right
    ]
    (found,) = worst_items("t", rows, 5)
    assert [(item.id, item.right, item.given, item.sureness) for item in found.items] == [
        ("b", "yes", "no", pytest.approx(0.9)),
        ("a", "yes", "no", pytest.approx(0.6)),
    ]
    assert found.items[0].text == (("", "text b"),)


def test_of_several_sizes_the_last_counts_and_each_set_has_a_list():
    row = tuned("a", 1, [0.9], [1])
    row["predictions"] = {"s/pretrained-1": 0, "m/pretrained-1": 1}
    row["label_probabilities"] = {"s/pretrained-1": 0.1, "m/pretrained-1": 0.9}
    other = {**tuned("b", 1, [0.1], [0]), "set": "u"}
    assert [(found.task, found.items[0].id) for found in worst_items("t", [row, other], 5)] == [("u", "b")]


def test_a_regression_is_ranked_by_distance():
    rows = [
        {"set": "stsb", "id": n, "label": 2.0, "item": {"text_a": "a", "text_b": "b"}, "predictions": {
            "pretrained-1": value, "pretrained-2": value + 1}}
        for n, value in (("near", 2.0), ("far", 4.0))
    ]  # fmt: skip
    (found,) = worst_items("stsb", rows, 1)
    (item,) = found.items
    assert (item.id, item.right, item.given, item.sureness) == ("far", "2", "4.50", 2.5)
    assert item.text == (("", "a"), ("", "b"))


def test_marked_spans_and_options_are_shown():
    spans = tuned("a", 1, [0.1], [0], text="The dog saw it.", span_a=[4, 7], span_b=[12, 14])
    assert worst_items("t", [spans], 1)[0].items[0].text == (("", "The dog saw it."), ("marked", "dog, it"))
    choice = tuned("a", 1, [0.1], [0], prefix="the ", options=["dog", "key"], suffix=" is")
    del choice["label_names"]
    item = worst_items("t", [choice], 1)[0].items[0]
    assert (item.right, item.given, item.text) == ("key", "dog", (("", "the __ is"),))


def test_rows_of_other_forms_give_no_list():
    assert worst_items("t", [{"id": 1, "predictions": {"pretrained-1": 0}, "label": 1}], 3) == []


def test_a_long_text_keeps_its_ends():
    text = "a" * CLIP + "b" * CLIP
    assert clipped(text) == "a" * (CLIP // 2) + " ... " + "b" * (CLIP // 2)
    assert clipped("short") == "short"


def test_guessing_is_the_mean_share_of_one_option():
    assert guessing([{"options": ["a", "b"]}, {"options": ["a", "b", "c", "d"]}]) == pytest.approx(0.375)
    assert guessing([{"good": "x"}]) is None and guessing([]) is None
