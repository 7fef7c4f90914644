import gzip
import json
import shutil

import pytest

from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning
from pipeline.cleaning.length import Length
from pipeline.cleaning.normalise import Normalise
from pipeline.jobs.documents import DocumentsJob
from pipeline.runners import LocalRunner
from pipeline.sources import TextCorpus

CLEANING = Cleaning(normalise=Normalise(), length=Length(5))


def write_corpus(directory):
    directory.mkdir()
    lines = [json.dumps({"id": f"n{n}", "text": f"Document {n}\r\nof \u00fcber twenty. "}) for n in range(40)]
    lines[3] = '{"text": "tiny"}'
    lines[5] = '{"text": "\\u200b"}'
    lines[7] = "{broken"
    (directory / "a.jsonl").write_text("\n".join(lines) + "\n")
    (directory / "b.jsonl").write_text('{"text": "From the second file"}\n')
    return TextCorpus([str(directory / "*.jsonl")], range_bytes=500)


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus")


def run(corpus, output, workers=1, cleaning=CLEANING):
    output.mkdir(exist_ok=True)
    DocumentsJob(cleaning).run(corpus, output, None, LocalRunner(workers))
    return json.loads((output / "manifest.json").read_text())


def contents(output):
    return {path.name: path.read_bytes() for path in (output / "documents").iterdir()}


def test_documents_are_cleaned_and_every_record_is_accounted_for(corpus, tmp_path):
    manifest = run(corpus, tmp_path / "out")
    lines = [
        json.loads(line)
        for file in manifest["files"]
        for line in gzip.decompress((tmp_path / "out" / file["path"]).read_bytes()).decode().split("\n")
        if line
    ]
    kept = [n for n in range(40) if n not in (3, 5, 7)]
    assert [line["id"] for line in lines] == [f"n{n}" for n in kept] + ["b.jsonl:0"]
    assert lines[0] == {"id": "n0", "text": "Document 0\nof über twenty."}
    assert manifest["counts"] == {"read": 41, "kept": 38, "dropped": {"empty": 1, "too_short": 1}, "failed": 1}
    assert manifest["failures"] == {"not_json": 1}
    assert "a.jsonl at byte" in manifest["examples"][0]
    assert len(manifest["files"]) == len(corpus.plan().ranges) > 3


def test_its_output_is_a_corpus_that_reads_back_the_same_documents(corpus, tmp_path):
    run(corpus, tmp_path / "out")
    again = TextCorpus([f"{tmp_path}/out/documents/*.jsonl.gz"])
    found = [document for range_ in again.plan().ranges for document in again.read(range_)]
    assert [document.id for document in found][:2] == ["n0", "n1"]
    assert len(found) == 38


def test_the_bytes_do_not_depend_on_workers_place_or_time(corpus, tmp_path):
    one = run(corpus, tmp_path / "one", workers=1)
    moved = write_corpus(tmp_path / "moved")
    two = run(moved, tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert one == two


def test_a_second_run_does_nothing_and_a_broken_file_alone_is_written_again(corpus, tmp_path):
    output = tmp_path / "out"
    manifest = run(corpus, output)
    before = {path: path.stat().st_mtime_ns for path in (output / "documents").iterdir()}
    assert run(corpus, output) == manifest
    assert {path: path.stat().st_mtime_ns for path in (output / "documents").iterdir()} == before
    victim = output / manifest["files"][1]["path"]
    good = victim.read_bytes()
    victim.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert run(corpus, output) == manifest
    assert victim.read_bytes() == good
    changed = {path for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {victim, victim.with_name(victim.name.replace(".jsonl.gz", ".json"))}


def test_an_interrupted_run_is_completed_to_the_same_bytes(corpus, tmp_path):
    whole = run(corpus, tmp_path / "whole")
    output = tmp_path / "interrupted"
    shutil.copytree(tmp_path / "whole", output)
    (output / "manifest.json").unlink()
    victim = output / whole["files"][2]["path"]
    victim.with_name(victim.name.replace(".jsonl.gz", ".json")).unlink()
    victim.with_name(f".{victim.name}.123.tmp").write_bytes(b"half")
    assert run(corpus, output) == whole
    assert contents(output) == contents(tmp_path / "whole")


def test_other_options_or_inputs_replace_what_is_there(corpus, tmp_path):
    output = tmp_path / "out"
    first = run(corpus, output)
    second = run(corpus, output, cleaning=Cleaning(length=Length(1)))
    assert second["key"] != first["key"]
    assert second["counts"]["dropped"] == {}
    (tmp_path / "corpus" / "b.jsonl").unlink()
    run(corpus, output)
    assert {name.split(".")[0] for name in contents(output)} == {range_.id for range_ in corpus.plan().ranges}


def test_a_step_that_raises_costs_the_record_and_not_the_run(corpus, tmp_path):
    manifest = run(corpus, tmp_path / "out", cleaning=Cleaning(step=raise_at_document_9))
    assert manifest["failures"] == {"cleaning_error": 1, "not_json": 1}
    assert "n9: cleaning raised ZeroDivisionError" in " ".join(manifest["examples"])


def raise_at_document_9(text):
    return text if "Document 9\r" not in text else str(1 // 0)


def test_a_corpus_of_which_nothing_is_left_is_bad_input(corpus, tmp_path):
    with pytest.raises(
        InputError, match=r"the corpus is empty: of 41 documents read none is left \(.*too_short.*1 failed"
    ):
        run(corpus, tmp_path / "out", cleaning=Cleaning(length=Length(1000)))
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_bad_bytes_that_shall_end_the_job_end_it_with_one_sentence(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\nbad \xff\n")
    with pytest.raises(InputError, match=r"a\.txt at byte 5"):
        run(TextCorpus([str(tmp_path / "a.txt")], bad_bytes="fail"), tmp_path / "out")
