"""Typed fields of a row: labels by name, hidden labels, and the sentence for each thing that is wrong."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.sources.rows import Row

NAMES = ("entailment", "neutral", "contradiction")


def row(split="dev", **values):
    return Row(values, "'f.tsv', line 7", 0, split)


def test_labels_are_matched_by_name_not_by_place():
    assert row(label="contradiction").label("label", NAMES) == 2
    assert row(label=0).label("label", NAMES, {"0": "neutral"}) == 1
    assert row(label=True).label("label", ("False", "True")) == 1
    assert row(label="entailment").label("label", NAMES, {"0": "neutral"}) == 0  # a name needs no spelling


@pytest.mark.parametrize("hidden", ["", None, -1, "-1"])
def test_a_hidden_label_is_none_in_test_and_an_error_elsewhere(hidden):
    assert row("test", label=hidden).label("label", NAMES) is None
    assert row("test").label("label", NAMES) is None
    for split in ("train", "dev"):
        with pytest.raises(InputError, match=rf"'f.tsv', line 7, field 'label', must hold the label.* a {split} row"):
            row(split, label=hidden).label("label", NAMES)


def test_no_agreement_is_no_label_only_where_the_set_says_so():
    assert row(label="-").label("label", NAMES, none=("-",)) is None
    with pytest.raises(InputError, match="must be one of entailment, neutral, contradiction, but is '-'"):
        row(label="-").label("label", NAMES)
    with pytest.raises(InputError, match=r"must be one of e, n, contradiction, but is 'x'"):
        row(label="x").label("label", NAMES, {"e": "entailment", "n": "neutral"})


def test_scores_within_their_bounds():
    assert row(s="3.8").number_within("s", 0, 5) == 3.8
    assert row("test", s="").number_within("s", 0, 5) is None and row("test", s=-1.0).number_within("s", 0, 5) is None
    for bad in ("nan", "5.1", "-0.1", "x", [1]):
        with pytest.raises(InputError, match=r"line 7, field 's', must be a number from 0 to 5, but is"):
            row(s=bad).number_within("s", 0, 5)


def test_texts_names_and_whole_numbers():
    good = row(t="", n=3, w="12", l=["a"], b=True)
    assert (good.text("t"), good.name("n"), good.whole("w"), good.texts("l")) == ("", "3", 12, ["a"])
    for method, field, sentence in (
        ("text", "n", "field 'n', must be a text, but is 3"),
        ("text", "missing", "lacks the field 'missing'; it has 't', 'n', 'w', 'l', 'b'"),
        ("name", "t", "must be a name or a number, but is ''"),
        ("name", "b", "must be a name or a number, but is True"),
        ("whole", "t", "must be a whole number from 0, but is ''"),
        ("texts", "t", "must be a list of texts, but is ''"),
    ):
        with pytest.raises(InputError, match=sentence):
            getattr(good, method)(field)
