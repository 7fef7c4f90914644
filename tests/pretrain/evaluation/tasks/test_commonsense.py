"""Commonsense tasks as choices: each text as it reads with each option, groups of twins, labels of second files."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.tasks.dpr import dpr, pronoun_start
from pretrain.evaluation.tasks.hellaswag import hellaswag
from pretrain.evaluation.tasks.piqa import piqa
from pretrain.evaluation.tasks.swag import swag
from pretrain.evaluation.tasks.winogrande import winogrande
from pretrain.evaluation.tasks.wsc273 import wsc273
from pretrain.evaluation.tasks.xcopa import xcopa
from pretrain.evaluation.tasks.xwinograd import xwinograd

from .original_layouts import table, write


def readings(item):
    return [item.prefix + option + item.suffix for option in item.options]


def grande(name, sentence, **more):
    return {"qID": name, "sentence": sentence, "option1": "Ann", "option2": "Eve", **more}


@pytest.mark.parametrize("folder", ["winogrande_1.1", "winogrande"])
def test_winogrande_fills_the_blank_and_twins_are_a_group(tmp_path, folder):
    files = write(
        tmp_path,
        **{
            f"{folder}/train_xs.jsonl": [grande("AB-C-1", "Ann hid and _ won.", answer="1")],
            f"{folder}/train_s.jsonl": [grande("AB-C-1", "Ann hid and _ won.", answer="2")],
            f"{folder}/dev.jsonl": [
                grande("AB-C-1", "Ann hid from Eve as _ was shy.", answer="1"),
                grande("AB-C-2", "Ann hid from Eve as _ was mean.", answer="2"),
                grande("odd", "_ left.", answer="1"),
            ],
            f"{folder}/test.jsonl": [grande("x-2", "It is _.")],
        },
    )
    items = winogrande("xs").read(files, "dev")
    assert readings(items[0]) == ["Ann hid from Eve as Ann was shy.", "Ann hid from Eve as Eve was shy."]
    assert [item.label for item in items] == [0, 1, 0] and [item.group for item in items] == ["AB-C", "AB-C", "odd"]
    assert winogrande("xs").read(files, "train")[0].label == 0 and winogrande("s").read(files, "train")[0].label == 1
    assert winogrande("xs").read(files, "test")[0].label is None
    with pytest.raises(InputError, match=r"train_xl.jsonl"):
        winogrande().read(files, "train")


@pytest.mark.parametrize("sentence", ["no blank", "_ and _"])
def test_winogrande_needs_one_blank(tmp_path, sentence):
    files = write(tmp_path, **{"winogrande/dev.jsonl": [grande("a-1", sentence, answer="1")]})
    with pytest.raises(InputError, match=r"dev.jsonl', line 1, field 'sentence', must have one blank '_'"):
        winogrande().read(files, "dev")


PIQA = [{"goal": "To open", "sol1": "push", "sol2": "eat"}, {"goal": "To close", "sol1": "eat", "sol2": "pull"}]


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ("piqa/data/valid.jsonl", "piqa/data/valid-labels.lst"),
        ("physicaliqa-train-dev.zip/physicaliqa-train-dev/dev.jsonl", "physicaliqa-train-dev/dev-labels.lst"),
    ],
)
def test_piqa_labels_are_lines_of_a_second_file(tmp_path, rows, labels):
    tests = rows.split("/")[0].replace("physicaliqa-train-dev.zip", "").rstrip("/") or "."
    tests = "piqa/data/tests.jsonl" if "piqa/" in rows else f"{tests}/tests.jsonl"
    files = write(tmp_path, **{rows: PIQA, labels: "0\n1\n", tests: PIQA[:1]})
    first, second = piqa().read(files, "dev")
    assert readings(first) == ["To open push", "To open eat"] and [first.label, second.label] == [0, 1]
    assert piqa().read(files, "test")[0].label is None
    files = write(tmp_path / "x", **{rows: PIQA, labels: "0\n", tests: PIQA})
    with pytest.raises(InputError, match=r"labels.lst' must have a label for each of the 2 rows"):
        piqa().read(files, "dev")


def swagged(**more):
    endings = ["[title] Sit [step] now.", ", then sits.", "runs.", "eats."]
    row = {"ind": 7, "activity_label": "Sitting", "ctx": "A man  [header] stands. he", "source_id": "wikihow~12"}
    return {**row, "split_type": "zeroshot", "endings": endings, **more}


def test_hellaswag_without_marks_and_with_the_activity_first(tmp_path):
    files = write(tmp_path, **{"hellaswag_val.jsonl": [swagged(label=3)], "hellaswag_test.jsonl": [swagged()]})
    (item,) = hellaswag().read(files, "dev")
    assert readings(item)[:3] == [
        "Sitting: A man stands. he Sit now.",
        "Sitting: A man stands. he, then sits.",
        "Sitting: A man stands. he runs.",
    ]
    assert (item.label, item.group) == (3, "wikihow~12")
    assert item.facts == {"source": "wikihow", "activity_label": "Sitting", "split_type": "zeroshot"}
    assert hellaswag().read(files, "test")[0].label is None
    with pytest.raises(InputError, match="line 1, field 'endings', must hold 4 texts, but holds 3"):
        hellaswag().read(
            write(tmp_path / "x", **{"hellaswag_val.jsonl": [swagged(label=0, endings=["a", "b", "c"])]}), "dev"
        )


def test_swag_of_four_endings_and_of_up_to_five(tmp_path):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
    row = '0,v1,5,"He sat. He",He sat.,He,gold,"rose, then fell.",ran.,ate.,hid.'
    files = write(
        tmp_path, **{"swag/data/val.csv": f"{header},label\n{row},2\n", "swag/data/test.csv": f"{header}\n{row}\n"}
    )
    (item,) = swag().read(files, "dev")
    assert readings(item)[0] == "He sat. He rose, then fell." and (item.label, item.group, item.id) == (2, "v1", "v1-5")
    assert swag().read(files, "test")[0].label is None
    columns = (
        "video-id,fold-ind,startphrase,gold-ending,distractor-0,distractor-1,distractor-2,distractor-3,gold-source"
    )
    rows = "".join(f"v,{number},He,gold,a,b,c,{'d' if number % 2 else ''},gold0-orig\n" for number in range(40))
    items = swag().read(write(tmp_path / "full", **{"val_full.csv": f"{columns}\n{rows}"}), "dev")
    assert all(item.options[item.label] == " gold" for item in items)
    assert [sorted(item.options) for item in items[:2]] == [
        [" a", " b", " c", " gold"],
        [" a", " b", " c", " d", " gold"],
    ]
    assert {item.label for item in items} == {0, 1, 2, 3, 4}  # no place is always right


def schema(before, pronoun, after, answers, correct):
    found = "".join(f"<answer>{answer} </answer>" for answer in answers)
    return (
        f"<schema>\n<text>\n<txt1>\n{before}</txt1>\n<pron> {pronoun} </pron>\n<txt2> {after}\n</txt2></text>\n"
        f"<quote><quote1 /><pron>{pronoun}</pron></quote><answers>{found}</answers>\n"
        f"<correctAnswer>{correct}</correctAnswer></schema>\n"
    )


def test_wsc273_puts_answers_where_the_pronoun_stood(tmp_path):
    answers = ["The guards", "Ann"]
    text = "<collection>" + "".join(
        [
            schema("The guards saw Ann because", "they", "were near.", answers, " A  "),
            schema("The guards saw Ann; then", "her", "bag fell.", answers, "B."),
            schema("The guards saw Ann.", "They", ", alas, left.", answers, "A"),
            schema("Ann met the guards and took", "their", "bags.", ["Ann", "The guards"], " B"),
        ]
    )
    files = write(tmp_path, **{"WSCollection.xml": text + "</collection>"})
    items = wsc273().read(files, "test")
    assert [readings(item)[item.label] for item in items] == [
        "The guards saw Ann because the guards were near.",
        "The guards saw Ann; then Ann's bag fell.",
        "The guards saw Ann. The guards, alas, left.",
        "Ann met the guards and took the guards' bags.",
    ]
    assert len({item.group for item in items}) == 1 and items[0].facts == {"pronoun": "they"}
    assert len(wsc273(2).read(files, "test")) == 2
    whole = write(
        tmp_path / "w", **{"WSCollection.xml": f"<c>{schema('Ann said', 'she', 'ran.', answers, 'B') * 285}</c>"}
    )
    assert [len(wsc273(*count).read(whole, "test")) for count in ((), (285,))] == [273, 285]
    bad = write(tmp_path / "x", **{"WSCollection.xml": text.replace(" A  ", " C ") + "</collection>"})
    with pytest.raises(
        InputError, match=r"WSCollection.xml', line 1, element <correctAnswer>, must be a letter up to B"
    ):
        wsc273().read(bad, "test")


def test_dpr_blocks_of_four_lines(tmp_path):
    second = "It hit the cup and it broke. \nit\nThe ball, the cup\nthe cup"
    text = f"He met Tom because he was late.\nhe\nBob,Tom\nTom\n\n\n{second}"
    first, second = dpr().read(write(tmp_path, **{"test.c.txt": text}), "test")
    assert readings(first)[1] == "He met Tom because Tom was late." and first.label == 1
    assert readings(second) == ["It hit the cup and the ball broke.", "It hit the cup and the cup broke."]
    for changed, sentence in (
        (text.replace("\nTom\n\n", "\n\n"), r"line 1, must begin a block of 4 lines .* but the block has 3"),
        (text.replace("\nit\n", "\nshe\n"), r"line 7, the sentence must hold the pronoun 'she'"),
        (
            text.replace("Bob,Tom\nTom", "Bob,Tom\nAnn"),
            r"line 1, the block must have two candidates, one of them the answer",
        ),
    ):
        with pytest.raises(InputError, match=sentence):
            dpr().read(write(tmp_path / "x", **{"test.c.txt": changed}), "test")


def test_the_pronoun_meant_is_the_one_after_both_candidates():
    assert pronoun_start("He saw that Tom met Bob and he left.", "he", ["Tom", "Bob"]) == 28
    assert pronoun_start("he saw Tom.", "he", ["Tom"]) == 0  # none after: the last one
    assert pronoun_start("The theatre.", "he", []) is None  # a part of a word is no pronoun


CAUSE = {"premise": "Il cadde.", "choice1": "Era tardi.", "choice2": "Pioveva.", "question": "cause", "idx": 0}


def test_xcopa_joins_as_its_language_does_and_ignores_the_copy_in_english(tmp_path):
    chinese = {
        "premise": "他走了。",
        "choice1": "下雨了。",
        "choice2": "他累了。",
        "question": "effect",
        "idx": 1,
        "label": 1,
    }
    files = write(
        tmp_path,
        **{
            "xcopa/data/it/val.it.jsonl": [{**CAUSE, "label": 0, "changed": True}],
            "xcopa/data/it/test.it.jsonl": [{**CAUSE, "label": 1}],
            "xcopa/data-gmt/it/val.it.jsonl": [{**CAUSE, "premise": "He fell.", "label": 0}],
            "xcopa/data/zh/val.zh.jsonl": [chinese],
        },
    )
    (item,) = xcopa("it").read(files, "dev")
    assert readings(item)[0] == "Il cadde perché Era tardi." and (item.label, item.facts["changed"]) == (0, "True")
    assert xcopa("it").read(files, "test")[0].label == 1
    assert readings(xcopa("zh").read(files, "dev")[0])[1] == "他走了，所以他累了。"


def winograd(language, sentence, tokens, pronoun, first, candidates):
    quoted = ", ".join(f'"{token}"' for token in tokens)
    options = ", ".join(f'["{text}", [0, 1], ["{text}"], {str(right).lower()}]' for text, right in candidates)
    return (
        language,
        "original",
        "?",
        sentence,
        f"[{quoted}]",
        f'["{pronoun}", [{first}, {first + 1}], ["{pronoun}"]]',
        f"[{options}]",
    )


def test_xwinograd_of_the_authors_and_of_the_hub(tmp_path):
    english = ["Ann", "'s", "cat", "saw", "it", "as", "it", "ran", "."]
    french = ["Il", "dit", "qu'", "elle", "part", "."]
    rows = [
        winograd("en", "Ann's cat saw it as it ran.", english, "it", 6, [("The cat", False), ("Ann", True)]),
        winograd("fr", "Il dit qu'elle part.", french, "elle", 3, [("Eva", True), ("Lia", False)]),
    ]
    files = write(tmp_path, **{"crosslingual_winograd/dataset.tsv": table(*rows)})
    (english,) = xwinograd().read(files, "test")
    assert (
        readings(english) == ["Ann's cat saw it as the cat ran.", "Ann's cat saw it as Ann ran."] and english.label == 1
    )
    (french,) = xwinograd("fr").read(files, "test")
    assert readings(french)[0] == "Il dit qu'Eva part." and french.label == 0
    with pytest.raises(InputError, match="the test split has no row"):
        xwinograd("pt").read(files, "test")
    both = winograd("en", "It ran.", ["It", "ran"], "It", 0, [("a", True), ("b", True)])
    with pytest.raises(InputError, match=r"line 1, field 'candidates', must be a right and a wrong one"):
        xwinograd().read(write(tmp_path / "x", **{"crosslingual_winograd/dataset.tsv": table(both)}), "test")
    hub = [{"sentence": "猫看见_跑了。", "option1": "狗", "option2": "鼠", "answer": "2"}]
    (item,) = xwinograd("zh").read(write(tmp_path / "h", **{"xwinograd/test/zh.jsonl": hub}), "test")
    assert readings(item)[item.label] == "猫看见鼠跑了。"
