import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.shards import ShardReader
from pretrain.data.loader import Layout, Loader, validation_batches
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM
from tests.helpers.shard_directory import sentences, write_shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("loader") / "shards", sentences(300))


def parts(shards, split="train"):
    reader = ShardReader(shards, split, verify=False)
    manifest = reader.manifest
    facts = DataFacts(manifest.vocab_size, manifest.special_ids, reader.row_length, reader.content_hash, seed=0)
    return reader, MaskedLM(facts)


def inputs(micro_batches):
    return [made.batch.input_ids for made in micro_batches]


@pytest.mark.parametrize(("ranks", "micro"), [(2, 8), (1, 4), (2, 4), (4, 2)])
def test_every_layout_sees_the_same_rows_with_the_same_masks(shards, ranks, micro):
    reader, objective = parts(shards)
    whole = inputs(Loader(reader, objective, 0, Layout(16, 16, 0, 1)).step(320))[0]
    loaders = [Loader(reader, objective, 0, Layout(16, micro, rank, ranks)) for rank in range(ranks)]
    steps = [loader.step(320) for loader in loaders]
    pieces = [steps[rank][j].batch.input_ids for j in range(len(steps[0])) for rank in range(ranks)]
    assert torch.equal(torch.cat(pieces), whole)
    assert len(steps[0]) == 16 // (ranks * micro)


def test_the_thread_yields_what_step_makes_from_any_sample_on_and_ends(shards):
    reader, objective = parts(shards)
    loader = Loader(reader, objective, 3, Layout(8, 4, 0, 1))
    steps = loader.steps(first_sample=80)
    for number in range(4):
        made = next(steps)
        assert all(map(torch.equal, inputs(made), inputs(loader.step(80 + 8 * number))))
    steps.close()
    assert not any(thread.name == "loader" for thread in threading.enumerate())


def test_an_error_while_loading_reaches_the_training_loop(shards):
    reader, objective = parts(shards)
    loader = Loader(reader, objective, 0, Layout(8, 4, 0, 1))
    loader.step = lambda sample: 1 / 0
    with pytest.raises(ZeroDivisionError):
        next(loader.steps(0))


@given(rows=st.integers(1, 30), ranks=st.integers(1, 4), micro=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_validation_weighs_each_row_once_and_gives_all_ranks_as_many_batches(shards, rows, ranks, micro):
    reader, objective = parts(shards)
    one = list(validation_batches(reader, objective, rows, Layout(0, rows, 0, 1)))
    shares = [list(validation_batches(reader, objective, rows, Layout(0, micro, r, ranks))) for r in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    assert sum(made.targets for share in shares for made in share) == sum(made.targets for made in one)
    assert sum(made.tokens for share in shares for made in share) == sum(made.tokens for made in one)


def test_validation_rows_are_drawn_over_the_whole_split(shards):
    """The first rows of a split are the first files of the corpus, which stand for nothing but themselves."""
    reader, _ = parts(shards)
    seen = []

    class Recorder:
        def validation_batch(self, rows, row_numbers, used):
            seen.extend(row_numbers[:used].tolist())

    list(validation_batches(reader, Recorder(), len(reader) // 2, Layout(0, 4, 0, 1)))
    assert len(set(seen)) == len(reader) // 2
    assert max(seen) > len(reader) // 2
