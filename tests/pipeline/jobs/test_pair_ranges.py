import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import excluded
from pipeline.cleaning.chain import Cleaning
from pipeline.cleaning.spaces import Spaces
from pipeline.jobs import range_work
from pipeline.jobs.pair_ranges import PairSettings, TextRules, hash_range, write_range
from pipeline.jobs.reading import Task
from pipeline.jobs.shard_directory import collect, spill_duplicates
from pipeline.pair_filters import TokenRules
from pipeline.pair_shards import PairRows
from pipeline.shards import Counts, ShardInfo
from pipeline.tokenizer import load_tokenizer, save_tokenizer, tokenizer_hash, train_wordpiece
from pipeline.tsv import TsvCorpus
from tests.helpers.pair_directory import write_pair_directory

WORDS = ["a", "b", "A", "c"]
SENTENCE = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
BARRED = {"a b", "c"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece(["a b c"] * 3, 30), path)
    return path


def oracle(pairs):
    """The pairs that stay, and how many go for which reason, by the rules in words."""
    kept, dropped, seen = [], {}, set()
    for source, target in pairs:
        reason = None
        if not source or not target:
            reason = "empty"
        elif source.lower() == target.lower():
            reason = "copy"
        elif source.lower() in BARRED or target.lower() in BARRED:
            reason = "excluded"
        elif (source, target) in seen:
            reason = "duplicate"
        elif min(len(source.split()), len(target.split())) < 2:
            reason = "too_short"
        elif max(len(source.split()), len(target.split())) > 4:
            reason = "too_long"
        elif max(len(source.split()), len(target.split())) > 1.5 * min(len(source.split()), len(target.split())):
            reason = "ratio"
        seen.add((source, target))
        if reason is None:
            kept.append((source, target))
        else:
            dropped[reason] = dropped.get(reason, 0) + 1
    return kept, dict(sorted(dropped.items()))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=40), size=st.integers(10, 200))
def test_whatever_the_pairs_and_the_ranges_the_kept_ones_and_the_counts_are_those_of_the_rules(
    monkeypatch, tokenizer, pairs, size
):
    monkeypatch.setattr(range_work, "BATCH_CHARACTERS", 30)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
        out = folder / "out"
        write_pair_directory(out, tokenizer, {})
        sentences = b"".join(sorted(map(excluded.sentence_hash, BARRED)))
        corpus = TsvCorpus([str(folder / "a.tsv")], range_bytes=size)
        shared = PairSettings(
            directory=str(out),
            generation=0,
            corpus=corpus,
            cleaning=Cleaning(spaces=Spaces()),
            text_rules=TextRules(excluded=excluded.name_of(sentences)),
            token_rules=TokenRules(minimum=2, maximum=6, ratio=1.5),
            source_language="x",
            target_language="y",
            language_confidence=None,
            tokenizer_hash=tokenizer_hash(tokenizer),
            held_out_share=0.0,
            tag=None,
            origin=0,
        )
        shared.work.mkdir()
        shared.excluded_file.write_bytes(sentences)
        tasks = [Task(number, range_, range_.id) for number, range_ in enumerate(corpus.plan().ranges)]
        spilled = [hash_range(task, shared) for task in tasks]
        files = [spill_duplicates((0, spilled), 1, shared)]
        for task in reversed(tasks):
            write_range(task, files, shared)
        summaries = collect(tasks, shared, 1)
        counts = sum((Counts(**summary["counts"]) for summary in summaries), Counts())
        # A line whose cells are all blank is no record at all.
        kept, dropped = oracle([pair for pair in pairs if "".join(pair)])
        assert (counts.kept, counts.dropped, counts.failed) == (len(kept), dropped, 0) and counts.balanced
        shards = [ShardInfo(**raw) for summary in summaries for raw in summary["shards"]]
        manifest = write_pair_directory(out / "read", tokenizer, {})
        rows = PairRows(out, type(manifest)(**{**vars(manifest), "shards": shards}), "train")
        found = rows.pairs(range(len(rows)))
        library = load_tokenizer(tokenizer)
        for ids, lengths, side in (
            (found.source_ids, found.source_lengths, 0),
            (found.target_ids, found.target_lengths, 1),
        ):
            # [CLS] and [SEP] are 2 and 3.
            expected = [[2, *library.encode(pair[side], add_special_tokens=False).ids, 3] for pair in kept]
            assert lengths.tolist() == [len(row) for row in expected]
            assert ids.tolist() == [i for row in expected for i in row]
