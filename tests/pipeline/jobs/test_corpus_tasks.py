import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning
from pipeline.held_out import is_held_out
from pipeline.jobs.corpus_tasks import CorpusTasksJob, HashSample
from pipeline.passages import HeldOutDocument
from pipeline.records import text_hash
from pipeline.runners import LocalRunner
from pipeline.sources import TextCorpus

SHARE = 0.3
WORDS = ["reader", "printer", "cluster", "village", "river", "letter", "garden", "window", "signal", "engine"]
TASKS = ["adjacent_passages", "word_order"]


def text_of(number):
    generator = random.Random(number)
    return "\n\n".join(
        "The {} of {} finds a {} near the {}, and then follows every {} again.".format(
            generator.choice(WORDS), generator.randrange(10**6), *generator.choices(WORDS, k=3)
        )
        for _ in range(12)
    )


@pytest.fixture
def corpus(tmp_path):
    texts = [text_of(number) for number in range(60)]
    texts += texts[:5]  # copies
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return TextCorpus([str(path)], range_bytes=10_000)


def run(corpus, output, workers=1, **options):
    output.mkdir(exist_ok=True)
    job = CorpusTasksJob(**{"held_out_share": SHARE, "train": 60, "dev": 24, "minimum": 10} | options)
    job.run(corpus, output, None, LocalRunner(workers))
    return json.loads((output / "manifest.json").read_text())


def rows(output, task, part):
    return [json.loads(line) for line in (output / task / f"{part}.jsonl").read_text().splitlines()]


def contents(output):
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}


def test_tasks_are_balanced_described_and_built_from_held_out_documents_alone(corpus, tmp_path):
    output = tmp_path / "out"
    manifest = run(corpus, output)
    held_out = [text_of(n) for n in range(60) if is_held_out(text_hash(text_of(n)), SHARE)]
    assert manifest["held_out_documents"] == len(held_out)
    assert manifest["counts"] == {"read": 65, "kept": 65, "dropped": {}, "failed": 0}
    for name in TASKS:
        task = json.loads((output / name / "task.json").read_text())
        assert (task["name"], task["metric"], len(task["labels"])) == (name, "accuracy", 2)
        assert manifest["tasks"][name] == task["content_hash"]
        for part, size in (("train", 60), ("dev", 24)):
            found = rows(output, name, part)
            assert len(found) == task["counts"][part]["items"] == size
            assert sum(row["label"] for row in found) == size / 2
            assert all(("text_b" in row) == (task["kind"] == "pair") for row in found)
        train, dev = ({row["group"] for row in rows(output, name, part)} for part in ("train", "dev"))
        assert not train & dev
    for row in rows(output, "word_order", "train"):
        if row["label"]:
            assert any(row["text_a"] in text for text in held_out)
    for row in rows(output, "adjacent_passages", "train"):
        together = f"{row['text_a']}\n\n{row['text_b']}"
        assert (row["label"] == 1) == any(together in text for text in held_out)


def test_no_document_is_in_the_train_part_of_one_task_and_the_dev_part_of_the_other(corpus, tmp_path):
    run(corpus, tmp_path / "out")
    parts = {
        part: {row["group"] for name in TASKS for row in rows(tmp_path / "out", name, part)}
        for part in ("train", "dev")
    }
    assert not parts["train"] & parts["dev"]


def test_the_tasks_do_not_depend_on_the_workers(corpus, tmp_path):
    run(corpus, tmp_path / "one", workers=1)
    run(corpus, tmp_path / "two", workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_second_run_does_nothing_and_a_changed_part_or_seed_is_built_again(corpus, tmp_path):
    output = tmp_path / "out"
    run(corpus, output)
    before = contents(output)
    times = {path: path.stat().st_mtime_ns for path in output.rglob("*.json*")}
    run(corpus, output)
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*.json*")} == times
    (output / "word_order" / "dev.jsonl").write_text("")
    run(corpus, output)
    assert contents(output) == before
    run(corpus, output, seed=1)
    assert contents(output)["word_order/dev.jsonl"] != before["word_order/dev.jsonl"]


def test_a_small_corpus_gives_what_it_has_and_says_how_much(corpus, tmp_path):
    run(corpus, tmp_path / "out", train=10_000, dev=4_000)
    task = json.loads((tmp_path / "out" / "word_order" / "task.json").read_text())
    assert 60 < task["counts"]["train"]["items"] < 10_000
    assert len(rows(tmp_path / "out", "word_order", "train")) == task["counts"]["train"]["items"]


def test_too_few_held_out_documents_or_too_little_prose_is_bad_input(corpus, tmp_path):
    with pytest.raises(InputError, match=r"0 of 65 documents are held out at job\.held_out_share=1e-06"):
        run(corpus, tmp_path / "a", held_out_share=1e-6)
    with pytest.raises(InputError, match=r"fewer than job\.minimum=1000.*chain\.held_out_share=\.\.\. in a chain"):
        run(corpus, tmp_path / "b", minimum=1000, train=2000, dev=2000)
    assert not (tmp_path / "b" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"held_out_share": 0}, "above 0"),
        ({"held_out_share": 2}, "below 1"),
        ({"train": 1}, "job.train"),
        ({"dev": 0}, "job.dev"),
    ],
)
def test_options_out_of_range_are_bad_input(options, said):
    with pytest.raises(InputError, match=said):
        CorpusTasksJob(**options)


def test_documents_are_held_out_by_their_cleaned_text(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text_of(n) + "  "}) + "\n" for n in range(60)))
    corpus = TextCorpus([str(tmp_path / "a.jsonl")])
    manifest = run(corpus, tmp_path / "out", cleaning=Cleaning(strip=str.rstrip))
    assert manifest["held_out_documents"] == sum(is_held_out(text_hash(text_of(n)), SHARE) for n in range(60))


@given(
    st.lists(st.text(alphabet="abc", min_size=1, max_size=30), min_size=1, max_size=30),
    st.integers(1, 60),
    st.randoms(),
)
def test_the_sample_is_the_smallest_hashes_that_fit_in_any_order(texts, maximum, shuffler):
    documents = [HeldOutDocument(text, text_hash(text), text) for text in texts]
    expected, size = [], 0
    for document in sorted(set(documents), key=lambda document: document.hash):
        size += len(document.text)
        if size > maximum and expected:
            break
        expected.append(document)
    shuffler.shuffle(documents)
    sample = HashSample(maximum)
    for document in documents:
        sample.add(document)
    assert sample.documents() == expected
