"""GLUE's tasks from its files: header rows that are there or not, quotes, numbers and names of labels."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.tasks.cola import cola
from pretrain.evaluation.tasks.mnli import mnli
from pretrain.evaluation.tasks.mrpc import mrpc
from pretrain.evaluation.tasks.qnli import qnli
from pretrain.evaluation.tasks.qqp import qqp
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.sst2 import sst2
from pretrain.evaluation.tasks.stsb import stsb
from pretrain.evaluation.tasks.wnli import wnli

from .original_layouts import named, table, write


def test_cola_has_a_header_in_its_test_file_only(tmp_path):
    rows = table(("gj04", 1, "", 'He said "yes.'), ("cj99", 0, "*", "Him said."))
    files = write(tmp_path, **{"CoLA/dev.tsv": rows, "CoLA/test.tsv": table(("index", "sentence"), (0, "A cat."))})
    dev, test = cola().read(files, "dev"), cola().read(files, "test")
    assert [item.text_a for item in dev] == ['He said "yes.', "Him said."]
    assert named(cola(), dev) == ["acceptable", "unacceptable"] and dev[1].facts == {"source": "cj99"}
    assert (test[0].text_a, test[0].label, test[0].text_b) == ("A cat.", None, None)


def test_sst2(tmp_path):
    files = write(
        tmp_path,
        **{
            "SST-2/dev.tsv": table(("sentence", "label"), ("dull ", 0), ("a joy ", 1)),
            "SST-2/test.tsv": table(("index", "sentence"), (0, "so ")),
        },
    )
    assert named(sst2(), sst2().read(files, "dev")) == ["negative", "positive"]
    assert sst2().read(files, "test")[0].label is None


MRPC = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")


@pytest.mark.parametrize(
    ("train", "ids", "test"),
    [
        ("x/msr_paraphrase_train.txt", "x/dev_ids.tsv", "x/msr_paraphrase_test.txt"),
        ("MRPC/msr_paraphrase_train.txt", "MRPC/mrpc_dev_ids.tsv", "MRPC/msr_paraphrase_test.txt"),
        ("MRPC/train", "MRPC/dev_ids", "MRPC/test"),
    ],
)
@pytest.mark.parametrize("mark", ["\ufeff", "BOM", ""])
def test_mrpc_dev_rows_are_those_of_the_list(tmp_path, train, ids, test, mark):
    rows = [(1, 11, 12, 'a "quote', "b"), (0, 21, 22, "c", "d"), (1, 31, 32, "e", "f")]
    windows = table(MRPC, *rows).replace("\n", "\r\n")
    files = write(
        tmp_path, **{train: mark + windows, ids: table((21, 22)), test: mark + table(MRPC, (0, 41, 42, "g", "h"))}
    )
    read = {split: mrpc().read(files, split) for split in ("train", "dev", "test")}
    assert [item.id for item in read["train"]] == ["11-12", "31-32"]
    assert [item.id for item in read["dev"]] == ["21-22"] and named(mrpc(), read["dev"]) == ["not_equivalent"]
    assert read["train"][0].text_a == 'a "quote' and read["train"][0].text_b == "b"
    assert named(mrpc(), read["test"]) == ["not_equivalent"]  # Microsoft's test labels are public


def test_mrpc_of_glue_s_script_and_a_listed_id_that_is_not_there(tmp_path):
    files = write(
        tmp_path / "a",
        **{
            "MRPC/dev.tsv": "\ufeff" + table(MRPC, (1, 1, 2, "a", "b")),
            "MRPC/test.tsv": table(("index", *MRPC[1:]), (0, 3, 4, "a", "b")),
        },
    )
    assert named(mrpc(), mrpc().read(files, "dev")) == ["equivalent"]
    assert mrpc().read(files, "test")[0].label is None
    files = write(
        tmp_path / "b", **{"MRPC/train": table(MRPC, (1, 1, 2, "a", "b")), "MRPC/dev_ids": table((1, 2), (5, 6))}
    )
    with pytest.raises(InputError, match=r"dev_ids', line 2, must be the two ids of a row of .*train', but 5-6 is not"):
        mrpc().read(files, "dev")


STSB = ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score")


def test_stsb_of_glue_and_of_the_multilingual_csv(tmp_path):
    row = (0, "main", "MSRvid", "2012", 1, "none", "none", 'a "b', "c", "3.800")
    for folder in ("STS-B", "SST-B"):
        files = write(
            tmp_path / folder,
            **{f"{folder}/dev.tsv": table(STSB, row), f"{folder}/test.tsv": table(STSB[:-1], row[:-1])},
        )
        (item,) = stsb().read(files, "dev")
        assert (item.text_a, item.label, item.facts["genre"]) == ('a "b', 3.8, "main")
        assert stsb().read(files, "test")[0].label is None
    files = write(
        tmp_path / "m", **{"stsb-de-dev.csv": '"Ein, Mann","Er sagt ""ja""",5.0\n', "stsb-de-test.csv": "a,b,0\n"}
    )
    (item,) = stsb("de").read(files, "dev")
    assert (item.text_a, item.text_b, item.label) == ("Ein, Mann", 'Er sagt "ja"', 5.0)
    assert stsb("de").read(files, "test")[0].label == 0.0
    with pytest.raises(InputError, match="task stsb lacks its dev split"):
        stsb().read(files, "dev")
    with pytest.raises(InputError, match=r"field 'score', must be a number from 0 to 5, but is '5.5'"):
        stsb("de").read(write(tmp_path / "x", **{"stsb-de-dev.csv": "a,b,5.5\n"}), "dev")


QQP = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def test_qqp_leaves_out_rows_cut_in_two_and_says_so(tmp_path):
    rows = table(QQP, (7, 1, 2, 'Why "so?', "How?", 1), (8, 3, 4, "cut off"), (9, 5, 6, "a", "", 0))
    files = write(tmp_path, **{"QQP/dev.tsv": rows, "QQP/test.tsv": table(("id", *QQP[3:5]), (0, "a", "b"))})
    items = qqp().read(files, "dev")
    assert [item.id for item in items] == ["7", "9"] and named(qqp(), items) == ["duplicate", "not_duplicate"]
    assert files.notes == [f"'{tmp_path}/QQP/dev.tsv': 1 rows with too few cells are left out (lines 3)"]
    assert qqp().read(files, "test")[0].label is None
    own = write(
        tmp_path / "own",
        **{"quora_duplicate_questions.tsv": '"id"\t' + "\t".join(QQP[1:]) + '\n1\t2\t3\t"a\nb"\tc\t0\n'},
    )
    assert [item.text_a for item in qqp().read(own, "train")] == ["a\nb"]


GOLD = ("pairID", "promptID", "genre", "sentence1", "sentence2", "gold_label")


@pytest.mark.parametrize("genres", ["matched", "mismatched"])
def test_mnli_in_its_three_layouts(tmp_path, genres):
    rows = [("1n", 1, "slate", 'a "b', "c", "neutral"), ("1c", 1, "slate", "a", "d", "contradiction"),
            ("2x", 2, "fiction", "a", "e", "-")]  # fmt: skip
    objects = [dict(zip(GOLD, row, strict=True)) for row in rows]
    for number, files in enumerate(
        (
            {f"MNLI/dev_{genres}.tsv": table(GOLD, *rows), f"MNLI/test_{genres}.tsv": table(GOLD[:-1], rows[0][:-1])},
            {f"multinli_1.0/multinli_1.0_dev_{genres}.jsonl": objects},
            {f"multinli_1.0.zip/multinli_1.0/multinli_1.0_dev_{genres}.txt": table(GOLD, *rows)},
        )
    ):
        found = write(tmp_path / str(number), **files)
        items = mnli(genres).read(found, "dev")
        assert named(mnli(genres), items) == ["neutral", "contradiction", None]
        assert [item.group for item in items] == ["1", "1", "2"] and items[0].facts == {"genre": "slate"}
        assert items[0].text_a == 'a "b'
        if number == 0:
            assert mnli(genres).read(found, "test")[0].label is None
    other = "mismatched" if genres == "matched" else "matched"
    with pytest.raises(InputError, match=f"dev_{other}.tsv"):
        mnli(other).read(found, "dev")


PAIR = ("index", "sentence1", "sentence2", "label")


def test_qnli_rte_and_wnli_have_their_label_orders(tmp_path):
    files = write(
        tmp_path,
        **{
            "QNLI/dev.tsv": table(("index", "question", "sentence", "label"), (0, "q", "s", "not_entailment")),
            "RTE/dev.tsv": table(PAIR, (0, "a", "b", "not_entailment"), (1, "c", "d", "entailment")),
            "RTE/test.tsv": table(PAIR[:-1], (0, "a", "b")),
            "WNLI/dev.tsv": table(PAIR, (0, "a", "b", 0), (1, "c", "d", 1)),
        },
    )
    assert named(qnli(), qnli().read(files, "dev")) == ["not_entailment"]
    assert [item.label for item in rte().read(files, "dev")] == [1, 0]
    assert rte().read(files, "test")[0].label is None
    items = wnli().read(files, "dev")
    assert [item.label for item in items] == [0, 1] and named(wnli(), items) == ["not_entailment", "entailment"]


def test_the_other_layouts_of_rte_and_wnli(tmp_path):
    csv = 'premise,hypothesis,label\n"a, ""b""\nc",d,not_entailment\n'
    files = write(
        tmp_path / "csv", **{"rte/dev.csv": csv, "wnli/dev.csv": csv, "mnli/dev.csv": csv, "qnli/dev.csv": csv}
    )
    assert rte().read(files, "dev")[0].text_a == 'a, "b"\nc' and rte().read(files, "dev")[0].label == 1
    assert wnli().read(files, "dev")[0].label == 0
    for definition in (mnli(), qnli()):  # one annotator's labels; an old version
        with pytest.raises(InputError, match="lacks its dev split"):
            definition.read(files, "dev")
    files = write(
        tmp_path / "s", **{"RTE/val.jsonl": [{"premise": "a", "hypothesis": "b", "label": "entailment", "idx": 0}]}
    )
    assert named(rte(), rte().read(files, "dev")) == ["entailment"]


def test_a_misspelt_label_is_an_error_at_its_line(tmp_path):
    files = write(tmp_path, **{"RTE/dev.tsv": table(PAIR, (0, "a", "b", "entailment"), (1, "a", "b", "entails"))})
    with pytest.raises(InputError, match=r"RTE/dev.tsv', line 3, field 'label', must be one of .* but is 'entails'"):
        rte().read(files, "dev")
