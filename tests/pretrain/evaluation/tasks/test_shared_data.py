"""Row-for-row checks on real data sets beside the repository (`../shared/data`), where they are.

`SHARED_DATA` may name another place. The expected labels of the small samples were taken from the files by eye.
"""

import csv
import importlib
import json
import os
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest

from conf.errors import InputError
from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.files import TaskFiles

DATA = Path(os.environ.get("SHARED_DATA", Path(__file__).resolve().parents[4].parent / "shared" / "data")) / "eval"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"needs the data sets in {DATA}")


def definition(name, *arguments):
    return getattr(importlib.import_module(f"pretrain.evaluation.tasks.{name}"), name)(*arguments)


@pytest.fixture(scope="module")
def files():
    return TaskFiles(DATA)


def rows_of(path):
    with path.open(encoding="utf-8") as handle:
        return [json.loads(line) for line in handle if line.strip()]


def labels_of(path):
    return [int(line) for line in path.read_text().split()]


E, N, C = 0, 1, 2
# Set in hf_dummy, its archive, task and arguments, labels of train, dev and test (None: hidden).
SAMPLES = [
    ("glue", "cola", "cola", (), [1, 1, 1], [1, 1], [None]),
    ("glue", "sst2", "sst2", (), [0, 0, 1], [1, 0], [None]),
    ("glue", "mrpc", "mrpc", (), [0, 1, 0, 0, 0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 1, 0, 1], 15),
    ("glue", "stsb", "stsb", (), [5.0, 3.8, 3.8], [5.0, 4.75], [None]),
    ("glue", "qqp", "qqp", (), [0, 1, 0], [0, 0], [None]),
    ("glue", "mnli", "mnli", (), [N, E, E], [N, C], [None]),
    ("glue", "mnli", "mnli", ("mismatched",), [N, E, E], [C, C], [None]),
    ("glue", "qnli", "qnli", (), [1, 1, 0], [0, 1], [None]),
    ("glue", "rte", "rte", (), [1, 0, 0], [1, 0], [None]),
    ("glue", "wnli", "wnli", (), [1, 1, 1], [0, 1], [None]),
    ("super_glue", "rte", "rte", (), [1, 0, 0], [1, 0], [None]),
    ("super_glue", "boolq", "boolq", (), [1, 1, 1], [0, 1], [None]),
    ("super_glue", "boolq", "cb", (), [0, 0, 0], [1, 2], [None]),
    ("super_glue", "boolq", "copa", (), [0, 0, 1], [1, 1], [None]),
    ("super_glue", "wic", "wic", (), [0, 0, 0], [0, 0], [None]),
    ("super_glue", "wsc", "wsc", (), [0, 0, 0], [0, 1], [None]),
    ("super_glue", "boolq", "multirc", (), 58, 62, 58),
    ("winogrande", "winogrande_xs", "winogrande", ("xs",), [0, 1, 1, 0], [1, 0], [None, None]),
    ("winogrande", "winogrande_xl", "winogrande", ("xl",), [0, 1, 1, 0], [1, 0], [None, None]),
    ("piqa", "plain_text", "piqa", (), [1, 0, 0, 0, 1], [0, 1, 1, 1, 0], [None] * 5),
    ("hellaswag", "0.1.0", "hellaswag", (), [3, 3], [3, 3], [None, None]),
    ("swag", "regular", "swag", (), [0, 3, 1, 3], [2, 2, 2, 2], [None] * 4),
    ("swag", "full", "swag", (), 4, 4, None),
    ("winograd_wsc", "wsc273", "wsc273", (), None, None, [0, 1, 0, 1, 0]),
    ("winograd_wsc", "wsc285", "wsc273", (285,), None, None, [0, 1, 0, 1, 0]),
    ("definite_pronoun_resolution", "plain_text", "dpr", (), [0, 1, 1, 0], None, [1, 1, 0]),
    ("hans", "plain_text", "hans", (), [1, 1, 1, 1], None, [1, 1, 1, 1]),
    ("anli", "plain_text", "anli", (1,), [E, N, N], [C, E, C], [E, E, E]),
    ("anli", "plain_text", "anli", (2,), [E, E, E], [N, N, C], [E, N, E]),
    ("anli", "plain_text", "anli", (3,), [E, E, E], [E, E, E], [E, E, E]),
    ("paws", "labeled_final", "paws", (), [0, 1, 0, 1], [0, 1, 1, 1], [0, 0, 1, 0]),
    ("paws", "labeled_swap", "paws", ("swap",), [0, 0, 0, 0], None, None),
    ("paws", "unlabeled_final", "paws", ("unlabeled",), [1, 1, 1, 1], [1, 0, 1, 0], None),
    ("xnli", "de", "xnli", ("de",), [N, E, E, E], [N], [C]),
    ("xnli", "zh", "xnli", ("zh",), [N, E, E, E], [N], [C]),
    ("multi_nli", "0.0.0", "mnli", (), [N, E, E, E, N], [N, C, E, C, C], None),
    ("multi_nli", "0.0.0", "mnli", ("mismatched",), [N, E, E, E, N], [C, C, E, C, E], None),
    ("quora", "0.0.0", "qqp", (), [1, 0], None, None),
    ("wino_bias", "type1_pro", "winobias", ("type1", "pro"), None, [0], [1]),
    ("wino_bias", "type1_anti", "winobias", ("type1", "anti"), None, [0], [1]),
    ("wino_bias", "type2_pro", "winobias", ("type2", "pro"), None, [1], None),
    ("wino_bias", "type2_anti", "winobias", ("type2", "anti"), None, [1], None),
    *(("xcopa", language, "xcopa", (language,), None, [1, 1, 0, 1, 1], [0, 0, 1, 0, 0])
      for language in ("et", "ht", "id", "it", "qu", "sw", "ta", "th", "tr", "vi", "zh")),
    ("clue", "afqmc", "afqmc", (), [0], [0], [None]),
    ("clue", "ocnli", "ocnli", (), [E], [E], [None]),
    ("clue", "cluewsc2020", "cluewsc", (), [0], [1], [None]),
    ("clue", "csl", "csl", (), [0], [1], [None]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "archive", "task", "arguments", "train", "dev", "test"),
    SAMPLES,
    ids=[f"{sample[0]}-{sample[1]}-{'_'.join(map(str, (sample[2], *sample[3])))}" for sample in SAMPLES],
)
def test_samples_in_original_layouts_read_row_for_row(name, archive, task, arguments, train, dev, test):
    (path,) = (DATA / "hf_dummy" / name / "dummy").glob(f"**/{archive}/**/dummy_data.zip")
    for split, expected in (("train", train), ("dev", dev), ("test", test)):
        if expected is None:
            continue
        items = definition(task, *arguments).read(TaskFiles(path, own=True), split)
        if isinstance(expected, int):
            assert len(items) == expected
        else:
            assert [item.label for item in items] == expected


def test_what_was_cut_or_made_up_is_refused_at_its_line():
    folder = DATA / "hf_dummy"
    for kind in ("pro", "anti"):
        (path,) = (folder / "wino_bias").glob(f"**/type2_{kind}/**/dummy_data.zip")
        with pytest.raises(InputError, match=r"test_type2_.*', line 14, the sentence must mark"):
            definition("winobias", "type2", kind).read(TaskFiles(path, own=True), "test")
    with pytest.raises(InputError, match=r"multinli_1.0_dev_mismatched.txt', line 2, must have 1 tab-separated cells"):
        definition("mnli", "mismatched").read(TaskFiles(folder / "multi_nli_mismatch"), "dev")


def test_winogrande_agrees_with_the_label_files(files):
    for size, count in (("xs", 160), ("s", 640), ("m", 2558), ("l", 10234)):
        items = definition("winogrande", size).read(files, "train")
        assert [item.label + 1 for item in items] == labels_of(DATA / "winogrande" / f"train_{size}-labels.lst")
        assert len(items) == count
    items = definition("winogrande").read(files, "dev")
    rows = rows_of(DATA / "winogrande" / "dev.jsonl")
    for item, row in zip(items, rows, strict=True):
        filled = [row["sentence"].replace("_", row[f"option{number}"]) for number in (1, 2)]
        assert [item.prefix + option + item.suffix for option in item.options] == filled
        assert item.label == int(row["answer"]) - 1 and row["qID"].startswith(item.group)
    sizes = [sum(item.group == group for item in items) for group in {item.group for item in items}]
    assert max(sizes) == 2  # twins
    assert len(definition("winogrande").read(files, "test")) == 1767


def test_piqa_agrees_with_its_files(files):
    items = definition("piqa").read(files, "dev")
    assert [item.label for item in items] == labels_of(DATA / "piqa" / "data" / "valid-labels.lst")
    for item, row in zip(items, rows_of(DATA / "piqa" / "data" / "valid.jsonl"), strict=True):
        assert (item.prefix, item.options) == (row["goal"] + " ", (row["sol1"], row["sol2"]))
    assert len(definition("piqa").read(files, "test")) == 3084


def test_copa_and_xcopa_agree_with_their_files(files):
    for split in ("dev", "test"):
        elements = ElementTree.parse(DATA / "copa" / "datasets" / f"copa-{split}.xml").getroot().findall("item")
        items = definition("copa").read(files, split)
        assert [item.label + 1 for item in items] == [int(item.get("most-plausible-alternative")) for item in elements]
        for item, element in zip(items, elements, strict=True):
            texts = [element.findtext(name).strip() for name in ("p", "a1", "a2")]
            assert item.prefix.startswith(texts[0].rstrip(".!?"))
            assert [option[1:] for option in item.options] == [text[1:] for text in texts[1:]]
    for language in ("it", "zh", "qu"):
        rows = rows_of(DATA / "xcopa" / "data" / language / f"test.{language}.jsonl")
        items = definition("xcopa", language).read(files, "test")
        assert [(item.label, item.options) for item in items] == [
            (row["label"], (row["choice1"].strip(), row["choice2"].strip())) for row in rows
        ]


def test_stsb_agrees_with_the_csv(files):
    for language in ("en", "zh"):
        for split, count in (("train", 5749), ("dev", 1500), ("test", 1379)):
            path = DATA / "glue" / "STS-B" / "data" / f"stsb-{language}-{split}.csv"
            with path.open(encoding="utf-8", newline="") as handle:
                rows = [(a, b, float(score)) for a, b, score in csv.reader(handle)]
            items = definition("stsb", language).read(files, split)
            assert [(item.text_a, item.text_b, item.label) for item in items] == rows and len(rows) == count


def test_quoted_csv_of_nli_sets(files):
    for task, folder, counts in (
        ("rte", "rte", (2490, 277)),
        ("wnli", "wnli", (635, 71)),
        ("cb", "commitment_bank", (250, 56)),
    ):
        for split, count in zip(("train", "dev"), counts, strict=True):
            with (DATA / "glue" / "nli_csv" / folder / f"{split}.csv").open(encoding="utf-8", newline="") as handle:
                rows = [tuple(row.values()) for row in csv.DictReader(handle)]
            items, names = definition(task).read(files, split), definition(task).labels
            assert [(item.text_a, item.text_b, names[item.label]) for item in items] == rows and len(rows) == count


def test_blimp_agrees_with_its_zip(files):
    items = iter(definition("blimp").read(files, "test"))
    with zipfile.ZipFile(DATA / "blimp" / "BLiMP.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jsonl") and "MACOSX" not in name)
        assert len(names) == 67
        for name in names:
            for line in archive.read(name).decode().split("\n"):
                if line:
                    row, item = json.loads(line), next(items)
                    assert (item.good, item.bad) == (row["sentence_good"], row["sentence_bad"])
                    assert item.id == f"{row['UID']}-{row['pairID']}" and item.facts["field"] == row["field"]
    assert next(items, None) is None


def test_winogender_gives_the_authors_sentences(files):
    lines = (DATA / "winogender" / "data" / "all_sentences.tsv").read_text().splitlines()[1:]
    expected = dict(line.split("\t") for line in lines)
    items = definition("winogender").read(files, "test")
    assert len(items) == len(expected) == 720
    for item in items:
        parts = item.id.split(".")
        name = f"{parts[0]}.{'someone' if 'someone' in parts else parts[1]}.{parts[2]}.{parts[-1]}.txt"
        assert item.prefix.rpartition(' "')[0] == expected[name]
        assert set(item.facts) >= {"bergsma_pct_female", "bls_pct_female"}
    gotchas = [item.facts.get("gotcha") for item in items]
    assert [gotchas.count(value) for value in ("yes", "no", None)] == [240, 240, 240]  # half of those of a gender each


def test_a_folder_of_everything_says_what_it_has(files):
    found = {name: definition(name).locate(files) for name in ("rte", "piqa", "cola", "xwinograd")}
    assert "train" in found["rte"].files and "train" not in found["piqa"].files
    assert definition("cola").scored in found["cola"].files and found["xwinograd"] is None
    assert "crosslingual_winograd" in definition("xwinograd").missing(files, "test")


def test_files_after_public_bug_reports(tmp_path):
    """What `messy/MANIFEST.tsv` expects of the rows of QQP, HANS and WSC, and of a quote that never ends."""
    messy = DATA.parent / "messy"
    names = {
        "18_qqp_rows.tsv": "QQP/dev.tsv",
        "21_hans_two_labels.tsv": "heuristics_evaluation_set.txt",
        "22_wsc_span.jsonl": "WSC/val.jsonl",
        "19_unbalanced_quote.tsv": "quote.tsv",
    }
    for source, target in names.items():
        (tmp_path / target).parent.mkdir(exist_ok=True)
        (tmp_path / target).write_bytes((messy / source).read_bytes())
    files = TaskFiles(tmp_path)
    items = definition("qqp").read(files, "dev")
    assert [(item.id, item.text_b) for item in items] == [("1", "Why so?"), ("2", ""), ("4", "B?")]
    assert files.notes[0].endswith("2 rows with too few cells are left out (lines 4, 5)")
    assert [item.label for item in definition("hans").read(files, "test")] == [1, 0]
    items = definition("wsc").read(files, "dev")
    spans = [[item.text[slice(*span)] for span in (item.span_a, item.span_b)] for item in items]
    assert spans == [["trophy", "it"], ["The trophy", "it"], ["x", "it"]] and [item.label for item in items] == [
        1,
        1,
        1,
    ]
    assert len(list(tsv.rows(files.find("quote.tsv")[0], "dev"))) == 3
