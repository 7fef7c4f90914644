"""SuperGLUE's tasks from its jsonl, and COPA from its authors' XML."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.tasks.boolq import boolq
from pretrain.evaluation.tasks.cb import cb
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.multirc import multirc
from pretrain.evaluation.tasks.wic import wic
from pretrain.evaluation.tasks.wsc import wsc

from .original_layouts import named, write


def test_boolq_and_cb(tmp_path):
    files = write(
        tmp_path,
        **{
            "BoolQ/val.jsonl": [{"question": "is it", "passage": "It is.", "idx": 4, "label": True}],
            "BoolQ/test.jsonl": [{"question": "is it", "passage": "It is.", "idx": 0}],
            "CB/val.jsonl": [{"premise": "a", "hypothesis": "b", "label": "neutral", "idx": 0}],
        },
    )
    (item,) = boolq().read(files, "dev")
    assert (item.id, item.text_a, item.text_b, item.label) == ("4", "is it", "It is.", 1)
    assert boolq().read(files, "test")[0].label is None
    assert named(cb(), cb().read(files, "dev")) == ["neutral"] and cb().labels[1] == "contradiction"
    files = write(tmp_path / "c", **{"commitment_bank/dev.csv": "premise,hypothesis,label\na,b,contradiction\n"})
    assert named(cb(), cb().read(files, "dev")) == ["contradiction"]


COPA = {"premise": "The man fell.", "choice1": "He slipped.", "choice2": "Ann pushed him.", "idx": 3}


def test_copa_reads_as_one_sentence(tmp_path):
    rows = [{**COPA, "question": "cause", "label": 1}, {**COPA, "question": "effect", "label": 0}]
    files = write(tmp_path, **{"COPA/val.jsonl": rows, "COPA/test.jsonl": [{**COPA, "question": "cause"}]})
    cause, effect = copa().read(files, "dev")
    assert [cause.prefix + option + cause.suffix for option in cause.options] == [
        "The man fell because he slipped.",
        "The man fell because Ann pushed him.",
    ]
    assert effect.prefix == "The man fell so " and [cause.label, effect.label] == [1, 0]
    assert cause.facts["question"] == "cause" and copa().read(files, "test")[0].label is None
    with pytest.raises(InputError, match=r"line 1, field 'question', must be cause or effect, but is 'why'"):
        copa().read(write(tmp_path / "x", **{"COPA/val.jsonl": [{**COPA, "question": "why", "label": 0}]}), "dev")


def test_copa_of_the_authors_counts_from_one(tmp_path):
    item = '<item id="{}" asks-for="{}" most-plausible-alternative="{}"><p>P &amp; q.</p>'
    item += "<a1>The a.</a1><a2>I b.</a2></item>\n"
    text = (
        '<?xml version="1.0"?>\n<copa-corpus>\n'
        + item.format(1, "cause", 1)
        + item.format(2, "effect", 2)
        + "</copa-corpus>"
    )
    first, second = copa().read(write(tmp_path, **{"copa-dev.xml": text}), "dev")
    assert (first.id, first.prefix, first.options, first.label) == ("1", "P & q because ", ("the a.", "I b."), 0)
    assert (second.prefix, second.label) == ("P & q so ", 1)
    bad = write(tmp_path / "x", **{"copa-dev.xml": text.replace('alternative="2"', 'alternative="0"')})
    with pytest.raises(
        InputError, match=r"copa-dev.xml', line 4, field '@most-plausible-alternative', must be one of 1, 2"
    ):
        copa().read(bad, "dev")


WIC = {"word": "run", "sentence1": "Run on.", "sentence2": "She ran.", "start1": 0, "end1": 3, "start2": 4, "end2": 7}


def test_wic_says_which_word_is_meant_and_where(tmp_path):
    files = write(
        tmp_path, **{"WiC/val.jsonl": [{**WIC, "idx": 0, "label": False}], "WiC/test.jsonl": [{**WIC, "idx": 1}]}
    )
    (item,) = wic().read(files, "dev")
    assert (item.text_a, item.text_b, item.label, item.group) == ("run: Run on.", "She ran.", 0, "run")
    assert item.facts == {"word": "run", "start1": "0", "end1": "3", "start2": "4", "end2": "7"}
    assert wic().read(files, "test")[0].label is None
    files = write(tmp_path / "x", **{"WiC/val.jsonl": [{**WIC, "idx": 0, "label": True, "end2": 9}]})
    with pytest.raises(InputError, match=r"line 1, fields 'start2' and 'end2', must be a part of a sentence of 8"):
        wic().read(files, "dev")


def wsc_row(text, span1, index1, span2, index2, **more):
    target = {"span1_text": span1, "span1_index": index1, "span2_text": span2, "span2_index": index2}
    return {"text": text, "target": target, "idx": 0, **more}


def test_wsc_spans_are_found_from_word_indices(tmp_path):
    text = 'He told Tom that  "he should thank Tom." So he did.'
    rows = [
        wsc_row(text, "Tom", 7, "He", 0, label=True),
        wsc_row(text, "tom.", 7, "he", 4, label=False),  # another case, and a quote before the word
        wsc_row(text, "Tom", 2, "he", 9, label=False),
    ]
    items = wsc().read(write(tmp_path, **{"WSC/val.jsonl": rows}), "dev")
    assert [[text[slice(*span)] for span in (item.span_a, item.span_b)] for item in items] == [
        ["Tom", "He"],
        ["Tom.", "he"],
        ["Tom", "he"],
    ]
    assert [item.span_a[0] for item in items] == [35, 35, 8]
    assert [item.span_b[0] for item in items] == [0, 19, 44]
    assert named(wsc(), items) == ["True", "False", "False"] and len({item.group for item in items}) == 1


def test_wsc_rows_may_be_flat_with_labels_as_numbers(tmp_path):
    row = wsc_row("Ann ran as she hid.", "Ann", 0, "she", 3)
    flat = {"text": row["text"], "idx": 4, "label": 1, **row["target"]}
    (item,) = wsc().read(write(tmp_path, **{"WSC/val.jsonl": [flat]}), "dev")
    assert (item.id, item.span_a, item.span_b, item.label) == ("4", (0, 3), (11, 14), 1)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (wsc_row("He ran.", "Ann", 1, "He", 0, label=True), "line 1, has the span 'Ann', which its text does not hold"),
        (
            wsc_row("He ran.", "ran", 2, "He", 0, label=True),
            "must name a word of a text of 2 words, but names number 2",
        ),
    ],
)
def test_a_wsc_row_without_its_span_is_refused(tmp_path, row, sentence):
    with pytest.raises(InputError, match=sentence):
        wsc().read(write(tmp_path, **{"WSC/val.jsonl": [row]}), "dev")


def test_multirc_has_an_item_per_answer_joined_by_question(tmp_path):
    def answer(text, idx, **label):
        return {"text": text, "idx": idx, **label}

    def row(**label):
        questions = [
            {"question": "Who?", "idx": 8, "answers": [answer("Ann", 1, **label), answer("Tom", 2, **label)]},
            {"question": "Why? ", "idx": 9, "answers": [answer("So", 3, **label)]},
        ]
        return {"idx": 5, "passage": {"text": "Text.", "questions": questions}}

    rows = row(label=1)
    rows["passage"]["questions"][0]["answers"][1]["label"] = 0
    files = write(tmp_path, **{"MultiRC/val.jsonl": [rows], "MultiRC/test.jsonl": [row()]})
    items = multirc().read(files, "dev")
    assert [item.id for item in items] == ["5-8-1", "5-8-2", "5-9-3"] and named(multirc(), items) == [
        "True",
        "False",
        "True",
    ]
    assert [item.facts["question"] for item in items] == ["5-8", "5-8", "5-9"] and items[0].group == "5"
    assert (items[2].text_a, items[2].text_b) == ("Text.", "Why? So")
    assert [item.label for item in multirc().read(files, "test")] == [None] * 3
    with pytest.raises(InputError, match="field 'passage', must be an object"):
        multirc().read(write(tmp_path / "x", **{"MultiRC/val.jsonl": [{"idx": 0, "passage": "text"}]}), "dev")
