import gzip
import json
import subprocess
import sys

import pytest
from sacrebleu import corpus_bleu, corpus_chrf

from conf.command import compose
from conf.errors import InputError
from pretrain.compare_translations import CompareOptions, _arms, main, read_bitext, read_items, read_translations
from pretrain.evaluation.translation_arms import ALL, LOOKUP, Item, compare
from pretrain.evaluation.translation_table import as_text
from pretrain.translation.output import OutputDirectory
from tests.helpers.ranks import REPOSITORY
from tests.helpers.warm_python import run_module

ITEMS = [
    Item(str(n), f"source {n}", f"the reference number {n} of all", "even" if n % 2 == 0 else "odd", f"c{n % 7}")
    for n in range(40)
]
RIGHT = [item.reference for item in ITEMS]
HALF = [text if n % 2 == 0 else "something else" for n, text in enumerate(RIGHT)]
WRONG = [f"nothing like it {n}" for n in range(40)]


def score(found, arm, group=ALL):
    (one,) = [one for one in found.scores if (one.arm, one.group) == (arm, group)]
    return one


def test_scores_of_every_arm_and_group_are_sacrebleus():
    found = compare(ITEMS, {"base": [WRONG], "better": [HALF]}, "de", resamples=20)
    assert [(one.arm, one.group) for one in found.scores] == [
        (arm, group) for group in (ALL, "even", "odd") for arm in ("base", "better")
    ]
    assert score(found, "better").bleu == pytest.approx(corpus_bleu(HALF, [RIGHT]).score)
    assert score(found, "better").chrf == pytest.approx(corpus_chrf(HALF, [RIGHT]).score)
    assert (score(found, "better").exact, score(found, "better", "even").exact) == (0.5, 1.0)
    assert score(found, "better", "odd").items == 20 and score(found, "better", "odd").bleu < 5


def test_gains_are_over_the_first_arm_and_said_with_their_sign():
    found = compare(ITEMS, {"base": [HALF], "better": [RIGHT], "worse": [WRONG], "same": [HALF]}, "de", resamples=50)
    assert list(found.gains) == ["better", "worse", "same"]
    assert found.gains["better"].value == pytest.approx(100 - corpus_bleu(HALF, [RIGHT]).score)
    text = as_text(found)
    assert "better gains +" in text and "worse loses -" in text and "same differs, undecided, by +0.0" in text
    assert "tok:13a" in text and "nrefs:1" in text


def test_several_seeds_are_averaged_and_counted():
    found = compare(ITEMS, {"base": [RIGHT, WRONG]}, "de", resamples=20)
    one = score(found, "base")
    assert one.runs == 2 and one.exact == 0.5
    assert one.bleu == pytest.approx((100 + corpus_bleu(WRONG, [RIGHT]).score) / 2)
    assert one.bleu_interval[0] < one.bleu < one.bleu_interval[1]
    assert "base (2 seeds)" in as_text(found) and "over sentences and seeds" in as_text(found)


def test_a_gain_over_several_seeds_is_that_of_their_means():
    found = compare(ITEMS, {"base": [HALF, WRONG], "better": [RIGHT, HALF, RIGHT]}, "de", resamples=50)
    bleus = {name: corpus_bleu(texts, [RIGHT]).score for name, texts in (("half", HALF), ("wrong", WRONG))}
    gain = found.gains["better"]
    assert gain.value == pytest.approx((200 + bleus["half"]) / 3 - (bleus["half"] + bleus["wrong"]) / 2)
    assert gain.low < gain.value < gain.high and gain.signature.endswith("|seeds:2+3")


def test_looking_up_the_bitext_is_an_arm_where_there_is_one():
    found = compare(ITEMS, {"base": [WRONG]}, "de", bitext=[("source 3", RIGHT[3]), ("source 4", "x")], resamples=20)
    assert score(found, LOOKUP).exact == pytest.approx(1 / 40)


def write_translations(path, lines):
    settings = {"tokenizer_hash": "t", "checkpoint": "c", "direction": {}, "search": {}}
    output = OutputDirectory(path, settings)
    output.write("0", lines[:25], {})
    output.write("1", lines[25:], {})
    output.finish(["0", "1"], [])
    return path


def lines_of(texts):
    return [
        {"id": item.id, "source": item.source, "translations": [{"text": text, "score": -1.0}] if text else []}
        for item, text in zip(ITEMS, texts, strict=True)
    ]


def test_the_command_prints_and_writes_the_table(tmp_path):
    base, better = (write_translations(tmp_path / name, lines_of(t)) for name, t in (("base", WRONG), ("better", HALF)))
    reference = tmp_path / "test.jsonl"
    records = [
        {"id": item.id, "reference": item.reference, "names": item.group, "frame": item.cluster} for item in ITEMS[::-1]
    ]
    reference.write_text("".join(json.dumps(record) + "\n" for record in records))
    arguments = [
        f"arms={{base:{base},better:{better}}}",
        f"reference={reference}",
        "language=de",
        "group_key=names",
        "cluster_key=frame",
        "resamples=20",
        f"output={tmp_path / 'out'}",
    ]
    command = [sys.executable, "-m", "pretrain.compare_translations", *arguments]
    done = run_module(command, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "out" / "table.txt").read_text()
    scores = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert len(scores["scores"]) == 6 and scores["gains"]["better"]["low"] > 0
    assert (tmp_path / "out" / "provenance.json").exists()
    both = _arms({"a": f"{tmp_path}/b*", "b": [str(base), str(better)]})
    assert both == {"a": [str(base), str(better)], "b": [str(base), str(better)]}
    for wrong in ({}, "x", {"a": 1}, {"a": []}, {"a": [1]}):
        with pytest.raises(InputError, match="option 'arms' must give each name a folder"):
            _arms(wrong)
    with pytest.raises(InputError, match="matches no folder"):
        _arms({"a": f"{tmp_path}/z*"})
    again = subprocess.run(
        [*command[:3], *arguments, "arms={base:nowhere}"], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert again.returncode == 2 and "'nowhere' is no finished translation" in again.stderr, again.stderr


def test_a_text_reference_is_in_the_order_of_the_input(tmp_path):
    read = read_translations(write_translations(tmp_path / "base", lines_of(["", *WRONG[1:]])))
    assert list(read) == [item.id for item in ITEMS] and read["0"].text == ""
    (tmp_path / "reference.txt").write_text("\n".join(RIGHT) + "\n")
    items = read_items(tmp_path / "reference.txt", read, None, None)
    assert [(item.id, item.reference, item.source) for item in items] == [(i.id, i.reference, i.source) for i in ITEMS]
    (tmp_path / "short.txt").write_text("one\n")
    with pytest.raises(InputError, match="a reference for each of the 40 translations, but has 1 lines"):
        read_items(tmp_path / "short.txt", read, None, None)


def test_bad_lines_are_named(tmp_path):
    read = read_translations(write_translations(tmp_path / "base", lines_of(WRONG)))
    path = tmp_path / "reference.jsonl"
    path.write_text('{"id": "0"}\n' * 40)
    with pytest.raises(
        InputError, match=r"reference\.jsonl', line 1: expected an object with the key 'reference', but found id$"
    ):
        read_items(path, read, None, None)
    path.write_text('{"id": "x", "reference": "y"}\n' * 40)
    with pytest.raises(InputError, match=r"line 1: there is no translation with the id 'x'"):
        read_items(path, read, None, None)
    (tmp_path / "bitext.tsv").write_text("a\tb\nc\n")
    with pytest.raises(InputError, match=r"bitext\.tsv', line 2: expected source, a tab and target"):
        read_bitext(tmp_path / "bitext.tsv")


def test_files_may_be_compressed_have_crlf_and_lack_the_last_line_end(tmp_path):
    read = read_translations(write_translations(tmp_path / "base", lines_of(WRONG)))
    path = tmp_path / "reference.txt.gz"
    path.write_bytes(gzip.compress("\r\n".join(RIGHT).encode("utf-8-sig")))
    assert [item.reference for item in read_items(path, read, None, None)] == RIGHT
    objects = tmp_path / "reference.jsonl.gz"
    records = [json.dumps({"id": item.id, "reference": item.reference, "g": item.group}) for item in ITEMS]
    objects.write_bytes(gzip.compress("\n".join(records).encode()))
    assert [item.group for item in read_items(objects, read, "g", None)] == [item.group for item in ITEMS]
    (tmp_path / "bitext.tsv").write_bytes(b"a\tb\r\nc\td")
    assert read_bitext(tmp_path / "bitext.tsv") == [("a", "b"), ("c", "d")]


def test_files_that_cannot_be_read_are_refused_with_their_option(tmp_path):
    read = read_translations(write_translations(tmp_path / "base", lines_of(WRONG)))
    path = tmp_path / "file"
    for reading, option in ((read_bitext, "bitext"), (lambda given: read_items(given, read, None, None), "reference")):
        path.write_bytes(b"a\tb\n\xff\xfe\n")
        with pytest.raises(InputError, match=rf"option '{option}': '.*file', line 2 is no UTF-8: mend"):
            reading(path)
        with pytest.raises(
            InputError, match=rf"option '{option}': the file '.*none' cannot be read: No such file or d"
        ):
            reading(tmp_path / "none")
        with pytest.raises(InputError, match=r"cannot be read: Is a directory$"):
            reading(tmp_path)
        path.write_bytes(gzip.compress(b"a\tb\n" * 99)[:-9])
        with pytest.raises(InputError, match="cannot be read: Compressed file ended"):
            reading(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"option 'bitext': '.*file' must hold a pair a line, but is empty"):
        read_bitext(path)


def test_ids_that_stand_twice_are_refused(tmp_path):
    twice = lines_of(WRONG)
    twice[30]["id"] = twice[3]["id"]
    folder = write_translations(tmp_path / "twice", twice)
    with pytest.raises(InputError, match="must have an id of its own, but '3' stands twice"):
        read_translations(folder)
    read = read_translations(write_translations(tmp_path / "base", lines_of(WRONG)))
    path = tmp_path / "reference.jsonl"
    path.write_text('{"id": "0", "reference": "y"}\n' * 40)
    with pytest.raises(InputError, match=r"reference\.jsonl', line 2: the id '0' stands in an earlier line already"):
        read_items(path, read, None, None)
    path.write_text("{\n" * 40)
    with pytest.raises(InputError, match=r"line 1: expected a JSON object, but found what is no JSON"):
        read_items(path, read, None, None)


def test_what_cannot_be_compared_is_refused_before_anything_is_written(tmp_path):
    base = write_translations(tmp_path / "base", lines_of(WRONG))
    reference, out = tmp_path / "reference.txt", tmp_path / "out"
    reference.write_text("\n".join(RIGHT))
    (tmp_path / "bitext.tsv").write_text("a\tb")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "manifest.json").write_text('{"kind": "parallel"}')
    empty = OutputDirectory(tmp_path / "empty", {})
    empty.finish([], [])
    (tmp_path / "nothing.txt").touch()
    one = OutputDirectory(tmp_path / "one", {})
    one.write("0", lines_of(WRONG)[:1], {})
    one.finish(["0"], [])
    (tmp_path / "one.txt").write_text("x\n")

    def refused(*options):
        words = {"arms": f"{{a: {base}}}", "reference": reference, "language": "en", "output": out}
        words |= dict(option.split("=", 1) for option in options)
        words = [f"{name}={value}" for name, value in words.items()]
        with pytest.raises(InputError) as error:
            main.__wrapped__(compose("compare_translations", words, CompareOptions))
        assert not out.exists()
        return str(error.value)

    assert "holds no translations: name the output of" in refused(f"arms={{a: {tmp_path}/shards}}")
    assert "must be empty or an earlier comparison, but holds 'manifest.json'" in refused(f"output={base}")
    assert "cannot have the name 'lookup'" in refused(f"arms={{lookup: {base}}}", f"bitext={tmp_path}/bitext.tsv")
    assert "the test set is empty" in refused(f"arms={{a: {tmp_path}/empty}}", f"reference={tmp_path}/nothing.txt")
    assert "needs at least two sentences" in refused(f"arms={{a: {tmp_path}/one}}", f"reference={tmp_path}/one.txt")
