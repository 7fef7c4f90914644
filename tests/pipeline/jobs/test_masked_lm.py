import json
import re
from collections import defaultdict

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning
from pipeline.cleaning.length import Length
from pipeline.held_out import is_held_out
from pipeline.jobs.masked_lm import MaskedLMJob, build_pipeline
from pipeline.records import split_document_key, text_hash
from pipeline.runners import LocalRunner
from pipeline.shards import ShardReader, read_manifest, verify
from pipeline.sources import TextCorpus
from pipeline.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece

SHARE = 0.25


def text_of(number: int) -> str:
    generator = np.random.default_rng(number)
    words = generator.choice(
        ["reader", "reads", "naïve", "books", "unread", "中文", "re-reading", "[MASK]", "it's"], 80
    )
    return f"document {number} " + " ".join(words[: generator.integers(1, 80)])


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece([text_of(n) for n in range(300)], 200), path)
    return str(path)


@pytest.fixture
def corpus(tmp_path):
    """Two files with duplicates within and across them, failures, and texts to drop."""
    first = [{"id": n, "text": text_of(n)} for n in range(120)] + [{"text": text_of(3)}, {"text": "short"}, {"no": 1}]
    second = [{"text": text_of(n)} for n in range(100, 180)] + [{"text": " "}, {"text": "\x00\x01\x02 ok" * 5}]
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, records in (("a.jsonl", first), ("b.jsonl", second)):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "b.jsonl").open("a").write("not json\n")
    return TextCorpus([str(folder / "*.jsonl")], range_bytes=20_000)


def job(**options):
    return MaskedLMJob(
        **{"cleaning": Cleaning(length=Length(minimum=10)), "row_length": 32, "held_out_share": SHARE} | options
    )


def build(corpus, output, tokenizer, workers=1, **options):
    output.mkdir(exist_ok=True)
    job(**options).run(corpus, output, tokenizer, LocalRunner(workers))
    return read_manifest(output)


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def documents_in(directory, split):
    """(file, offset) -> the ids of the document, put together from its pieces in all rows."""
    reader = ShardReader(directory, split)
    specials, capacity = reader.manifest.special_ids, reader.row_length - 2
    full, tail = defaultdict(list), {}
    for index in range(len(reader)):
        row = reader.rows([index])
        for number, key in enumerate(reader.documents(index).tolist(), start=1):
            piece = row.input_ids[0][row.segments[0] == number].tolist()
            assert piece[0] == specials["cls"] and piece[-1] == specials["sep"]
            if len(piece) - 2 == capacity:
                full[key].extend(piece[1:-1])
            else:
                assert key not in tail
                tail[key] = piece[1:-1]
    return {split_document_key(key): full[key] + tail.get(key, []) for key in {*full, *tail}}


def test_rows_hold_the_tokens_of_every_kept_document_once_in_the_right_split(corpus, tmp_path, tokenizer):
    manifest = build(corpus, tmp_path / "out", tokenizer)
    library = load_tokenizer(tokenizer)
    expected = {"train": {}, "validation": {}}
    seen = set()
    for range_ in corpus.plan().ranges:
        for record in corpus.read(range_):
            text = getattr(record, "text", "")
            if len(text) < 10 or text.isspace() or text in seen:
                continue
            seen.add(text)
            ids = library.encode(text, add_special_tokens=False).ids
            split = "validation" if is_held_out(text_hash(text), SHARE) else "train"
            expected[split][(record.file, record.offset)] = ids
    assert len(expected["train"]) > 100 and len(expected["validation"]) > 20
    for split in ("train", "validation"):
        assert documents_in(tmp_path / "out", split) == expected[split]
    assert manifest.counts.kept == len(expected["train"]) + len(expected["validation"])


def test_every_record_is_counted_with_its_reason(corpus, tmp_path, tokenizer):
    counts = build(corpus, tmp_path / "out", tokenizer).counts
    assert counts.read == 123 + 83
    assert counts.dropped == {"duplicate": 21, "empty": 1, "too_short": 1}
    assert counts.failed == 2
    assert counts.read == counts.kept + sum(counts.dropped.values()) + counts.failed


class TopTransforms(PipelineVisitor):
    """The transforms that a job itself applies, and which collections they make and use."""

    def __init__(self):
        self.kinds, self.made, self.used = set(), set(), set()

    def enter_composite_transform(self, node):
        self.visit_transform(node)

    def visit_transform(self, node):
        if node.parent is not None and node.parent.full_label == "":
            self.kinds.add(type(node.transform).__name__)
            self.made |= set(node.outputs.values())
            self.used |= {*node.inputs, *(side.pvalue for side in node.side_inputs)}


@pytest.mark.parametrize("partitions", [0, 3])
def test_the_pipeline_keeps_to_what_every_beam_runner_does_alike_and_has_one_leaf(partitions):
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    build_pipeline(pipeline, tasks=[1, 2], settings=None, partitions=partitions)
    found = TopTransforms()
    pipeline.visit(found)
    assert found.kinds <= {"Create", "Reshuffle", "ParDo", "GroupByKey"}
    assert len(found.made - found.used) == 1


def test_documents_without_a_token_are_dropped_and_counted(tmp_path, tokenizer):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "\u200b\u200b\u200b"}) + "\n" + json.dumps({"text": text_of(0)}) + "\n")
    counts = build(TextCorpus([str(path)]), tmp_path / "out", tokenizer, cleaning=Cleaning(), held_out_share=0.0).counts
    assert (counts.kept, counts.dropped) == (1, {"no_tokens": 1})


def test_duplicates_stay_where_they_are_not_wanted_out(corpus, tmp_path, tokenizer):
    counts = build(corpus, tmp_path / "out", tokenizer, deduplicate=False).counts
    assert "duplicate" not in counts.dropped and counts.kept == 123 + 83 - 4


def test_one_and_two_workers_and_other_folders_give_the_same_bytes(corpus, tmp_path, tokenizer):
    build(corpus, tmp_path / "one", tokenizer, workers=1)
    build(corpus, tmp_path / "two", tokenizer, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    verify(tmp_path / "two")


def test_a_second_run_touches_nothing(corpus, tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    output = tmp_path / "out"
    build(corpus, output, tokenizer)
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    build(corpus, output, tokenizer)
    assert "nothing to do" in caplog.text
    assert before == {path: path.stat().st_mtime_ns for path in output.rglob("*")}


@pytest.mark.parametrize("damage", ["changed byte", "lost shard", "lost sidecar", "lost manifest", "lost report"])
def test_only_what_is_damaged_is_written_again(corpus, tmp_path, tokenizer, damage):
    output = tmp_path / "out"
    build(corpus, output, tokenizer)
    before = contents(output)
    shards = sorted((output / "shards/0000").glob("*.train.arrow"))
    assert len(shards) >= 3
    hurt = {
        "changed byte": shards[1],
        "lost shard": shards[1],
        "lost sidecar": shards[1].with_name(shards[1].name.replace(".train.arrow", ".json")),
        "lost manifest": output / "manifest.json",
        "lost report": output / "report.html",
    }[damage]
    if damage == "changed byte":
        content = bytearray(hurt.read_bytes())
        content[len(content) // 2] ^= 1
        hurt.write_bytes(content)
    else:
        hurt.unlink()
    stamps = {path: path.stat().st_mtime_ns for path in shards if path != shards[1]}
    build(corpus, output, tokenizer)
    assert contents(output) == before
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_what_other_options_and_killed_runs_left_behind_goes(corpus, tmp_path, tokenizer):
    build(corpus, tmp_path / "fresh", tokenizer, row_length=16)
    output = tmp_path / "out"
    build(corpus, output, tokenizer)
    folder = output / "shards/0000"
    (folder / "99999-00000000.train.arrow").write_bytes(b"")
    (folder / ".00000-00000000.train.arrow.77.tmp").write_bytes(b"half")
    build(corpus, output, tokenizer, row_length=16)
    assert contents(output) == contents(tmp_path / "fresh")


def test_a_changed_document_changes_its_range_and_those_that_had_its_copy(corpus, tmp_path, tokenizer):
    output = tmp_path / "out"
    first = build(corpus, output, tokenizer)
    path = tmp_path / "corpus/a.jsonl"
    # Same length, so that no cut moves; document 100 is the first of two copies, the other one is in the other file.
    path.write_text(path.read_text().replace('"document 100 ', '"document XYZ '))
    second = build(corpus, output, tokenizer)
    assert first.content_hash != second.content_hash
    assert second.counts.kept == first.counts.kept + 1
    build(corpus, tmp_path / "fresh", tokenizer)
    assert contents(output) == contents(tmp_path / "fresh")


def test_the_report_is_one_page_with_the_counts_and_decoded_rows(corpus, tmp_path, tokenizer):
    manifest = build(corpus, tmp_path / "out", tokenizer)
    page = (tmp_path / "out/report.html").read_text()
    for words in ("dropped: duplicate", "failed: not_json", "<svg", manifest.content_hash, "a.jsonl", "document"):
        assert words in page
    assert not {"http", "<script", "src=", "href="} & set(re.findall(r"https?|<script|src=|href=", page))


def test_text_in_the_report_cannot_become_markup(tmp_path, tokenizer):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "<script>alert(1)</script> & reader"}) + "\n")
    build(TextCorpus([str(path)]), tmp_path / "out", tokenizer, held_out_share=0.0)
    assert "<script" not in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("lines", "words"),
    [(["short"], r"the corpus is empty: of 1 documents read none is left \(1 too_short\)"), (["\t"], "is empty: of 0")],
)
def test_a_corpus_of_which_nothing_is_left_is_an_error(tmp_path, tokenizer, lines, words):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=words):
        build(TextCorpus([str(path)]), tmp_path / "out", tokenizer)
    assert not (tmp_path / "out/manifest.json").exists()


def test_all_documents_held_out_is_an_error_that_names_the_option(tmp_path, tokenizer):
    path = tmp_path / "a.txt"
    held_out = next(text_of(n) for n in range(100) if is_held_out(text_hash(text_of(n)), SHARE))
    path.write_text(held_out + "\n")
    with pytest.raises(InputError, match=r"lower job\.held_out_share"):
        build(TextCorpus([str(path)]), tmp_path / "out", tokenizer)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row_length": 7}, r"job\.row_length' must lie between 8"),
        ({"row_length": 65_536}, r"job\.row_length' must lie between 8"),
        ({"held_out_share": 1.0}, r"job\.held_out_share"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        job(**options)


def test_a_tokenizer_is_needed_and_must_have_the_special_tokens(corpus, tmp_path, tokenizer):
    with pytest.raises(InputError, match="option 'tokenizer' must name a directory"):
        build(corpus, tmp_path / "out", None)
    raw = json.loads(load_tokenizer(tokenizer).to_str())
    raw["added_tokens"] = raw["added_tokens"][:-1]
    del raw["model"]["vocab"]["[MASK]"]
    (tmp_path / "tokenizer.json").write_text(Tokenizer.from_str(json.dumps(raw)).to_str())
    with pytest.raises(InputError, match="no mask token"):
        build(corpus, tmp_path / "out", str(tmp_path))
