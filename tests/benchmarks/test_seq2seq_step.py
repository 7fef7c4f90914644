"""`benchmarks.seq2seq_step`: BART is fed the same task as ours in either way, is as large, and all contestants run."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BartForConditionalGeneration

from benchmarks.plain_loop import IGNORED, PlainLoop, bart_config
from benchmarks.seq2seq_peers import PaddedPairs, Seq2SeqContest, Seq2SeqShape, pair_batch
from benchmarks.seq2seq_step import SHAPES, measure
from pipeline.shards import Rows
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.objectives import DataFacts
from pretrain.objectives.mass import MASS
from tests.benchmarks.test_mlm_step import texts, write
from tests.helpers.shard_directory import sentences, write_shards

REPOSITORY = Path(__file__).resolve().parents[2]
SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
PAD, CLS, SEP, MASK = 0, 2, 3, 4
FACTS = DataFacts(100, SPECIAL_IDS, 96)
NARROW = Seq2SeqShape(
    "mass_tiny",
    200,
    {"hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 1, "num_heads": 2, "intermediate_size": 64},
)


@pytest.fixture(scope="module")
def pieces() -> list[list[int]]:
    """All ids of the text differ, so that each says where it stood. Lengths 4 to 90: one, and two blocks."""
    random = np.random.default_rng(0)
    return [[CLS, *(5 + random.permutation(95)[:size]).tolist(), SEP] for size in (2, 7, 30, 63, 64, 65, 88)]


def keys(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(2**63, size=count).astype(np.uint64)


@pytest.mark.parametrize("decoder_input", ["previous", "mask"])
def test_with_all_places_a_target_is_predicted_at_its_original_position(pieces, decoder_input) -> None:
    batch = pair_batch(pieces, keys(len(pieces)), MASS(FACTS, decoder_input=decoder_input), FACTS, "full")
    for row, piece in enumerate(pieces):
        places = (batch.labels[row] != IGNORED).nonzero().flatten().tolist()
        assert len(places) == sum(
            round((min(64, len(piece) - 2 - start)) * 0.5) for start in range(0, len(piece) - 2, 64)
        )
        for place in places:
            first = place == places[0] or place - 1 not in places
            if decoder_input == "previous":
                assert batch.decoder_input_ids[row, place] == piece[place]
            elif first:
                assert batch.decoder_input_ids[row, place] == MASK
            assert batch.labels[row, place] == piece[place + 1]
        # No other token of the text is seen, and what the encoder sees differs at most where a target is.
        others = np.setdiff1d(np.arange(min(len(piece), batch.labels.shape[1])), places)
        assert set(batch.decoder_input_ids[row, others].tolist()) <= {MASK}
        changed = (batch.input_ids[row, : len(piece)] != torch.tensor(piece)).nonzero().flatten() - 1
        assert set(changed.tolist()) <= set(places)


@pytest.mark.parametrize("decoder_input", ["previous", "mask"])
def test_compact_inputs_and_labels_are_ours(pieces, decoder_input) -> None:
    objective = MASS(FACTS, decoder_input=decoder_input)
    batch = pair_batch(pieces, keys(len(pieces)), objective, FACTS, "compact")
    ids = np.zeros((len(pieces), FACTS.row_length), dtype=np.uint16)
    segments = np.zeros(ids.shape, dtype=np.int32)
    for row, piece in enumerate(pieces):
        ids[row, : len(piece)], segments[row, : len(piece)] = piece, 1
    made = objective.make_batch(Rows(ids, segments), keys(len(pieces)), np.ones(len(pieces), bool), training=True).batch
    used = made.weights > 0
    inside = batch.labels != IGNORED
    assert torch.equal(batch.decoder_input_ids[inside], made.target.input_ids[used])
    assert torch.equal(batch.labels[inside], made.labels[used])
    encoder = made.source.input_ids.view(len(pieces), -1)[:, : batch.input_ids.shape[1]]
    assert torch.equal(encoder, batch.input_ids[:, : FACTS.row_length])
    # What pads the decoder comes last, where a causal decoder needs no mask for it.
    assert all(not (later & ~earlier).any() for earlier, later in pairwise(inside.T))


@pytest.mark.parametrize("feeding", ["full", "compact"])
def test_neither_side_is_longer_than_its_longest_needs(pieces, feeding) -> None:
    batch = pair_batch(pieces[:4], keys(4), MASS(FACTS), FACTS, feeding)
    for used in (batch.attention_mask, batch.labels != IGNORED):
        last = int((used * torch.arange(1, used.shape[1] + 1)).max())
        assert used.shape[1] % 8 == 0 and last <= used.shape[1] < last + 8
    assert (batch.tokens, batch.places) == (int((batch.labels != IGNORED).sum()), batch.labels.numel())
    one = pair_batch([[CLS, *range(5, 11), SEP]], keys(1), MASS(FACTS), FACTS, feeding)
    assert one.attention_mask is None


def test_bart_has_as_many_weights_as_ours() -> None:
    form = SHAPES["tiny"].architecture
    config = bart_config(
        200,
        SPECIAL_IDS,
        layers=(form.num_encoder_layers, form.num_decoder_layers),
        hidden=form.hidden_size,
        heads=form.num_heads,
        width=form.intermediate_size,
        positions=form.max_positions,
        dropout=form.dropout,
        attention_dropout=form.attention_dropout,
    )
    theirs = sum(one.numel() for one in BartForConditionalGeneration(config).parameters())
    # Two rows of each side's positions are never used; the output's bias is no parameter of theirs.
    assert theirs - 4 * form.hidden_size == Seq2SeqModel(form, 200).num_parameters() - 200
    # Unless something else is asked for.
    assert (config._attn_implementation, config.dropout, config.attention_dropout) == ("sdpa", 0.1, 0.1)


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Seq2SeqContest:
    words = sentences(400)
    lines = [" ".join(words[start : start + start % 3 + 1]) for start in range(0, 390)]
    shards = write_shards(tmp_path_factory.mktemp("shards") / "shards", lines, row_length=64)
    return Seq2SeqContest(
        key="narrow", shape=NARROW, shards=shards, rows=4, steps=6, precision="bf16", threads=1, row_length=64,
        clock="cpu",
    )  # fmt: skip


def share(batches: list[PaddedPairs]) -> float:
    return sum(one.tokens for one in batches) / sum(one.places for one in batches)


def test_a_step_of_the_peer_has_about_as_many_targets_as_ours(contest: Seq2SeqContest) -> None:
    ours = [contest._loader().step(number * contest.rows)[0].counts["mass"] for number in range(6)]
    for feeding in ("full", "compact"):
        random, sorted_ = (contest.peer_batches(feeding, by_length) for by_length in (False, True))
        assert len(random) == len(sorted_) == 6
        for batches in (random, sorted_):
            assert np.mean([one.tokens for one in batches]) == pytest.approx(np.mean(ours), rel=0.15)
        assert share(sorted_) > 1.3 * share(random)
    compact, full = (share(contest.peer_batches(feeding, True)) for feeding in ("compact", "full"))
    assert full < 0.55 and compact > 1.5 * full


def test_the_loop_learns(contest: Seq2SeqContest) -> None:
    batch = contest.peer_batches("compact", True)[3]
    form = NARROW.architecture
    config = bart_config(
        contest.facts.vocab_size, contest.facts.special_ids, layers=(1, 1), hidden=32, heads=2, width=64,
        positions=form.max_positions, dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    loop = PlainLoop(config, [batch], torch.device("cpu"), bf16=False)

    def loss() -> float:
        with torch.no_grad():
            return float(loop.model(**batch.inputs()).loss)

    before = loss()
    assert {loop.step() for _ in range(20)} == {batch.tokens}
    assert loss() < before - 0.01
    assert loop.fill == batch.tokens / batch.places


def test_all_contestants_run(contest: Seq2SeqContest) -> None:
    table, ratios = measure(contest, 1)
    assert len(table) == 7 and all(one.best > 0.0 for one in table)
    assert all("of the encoder's places are real tokens" in one.note for one in table)
    ours, *peers = (one.best for one in table)
    assert ratios.pop("compact_ceiling") > ratios["transformers_ratio_compact"]  # products are a part of a step
    assert ratios == {
        "transformers_ratio": ours / max(peers[:3]),
        "transformers_ratio_compact": ours / max(peers[3:]),
    }


# The wall's clock is that of the command of docs/benchmarks.md, which another test runs as well.
@pytest.mark.parametrize("clock", [pytest.param(clock, marks=pytest.mark.full) for clock in ("wall", "cpu")])
def test_runs_through_and_writes_its_ratios(tmp_path: Path, clock: str) -> None:
    file = write(tmp_path / "texts.jsonl.gz", texts(400))
    words = ["--quick", "--shape", "tiny", "--steps", "1", "--file", str(file), "--clock", clock]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.seq2seq_step", *words, "--json", str(tmp_path / "ratios.json")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    ratios = json.loads((tmp_path / "ratios.json").read_text())
    assert ratios.keys() == {"transformers_ratio", "transformers_ratio_compact", "compact_ceiling"}
    assert all(value > 0.0 for value in ratios.values())
