"""The contestants of `seq2seq_step`: our MASS step, and transformers' BART in a plain padded loop over the same texts.

A rate is of target tokens: those in fragments, which the loss is on. Fragments and their replacements are made by our
objective on both sides, so that both learn the same task; the peer's batches are ready before the clock starts.
"""

import contextlib
import gc
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor

import conf
from benchmarks.contest import POOL, WARMUP, ShardContest
from benchmarks.own_step import Alone, OwnStep, Settings
from benchmarks.plain_loop import IGNORED, Attention, PlainLoop, bart_config, groups_of, padded
from benchmarks.timing import products_share, timed
from pipeline.shards import Rows
from pretrain.data.batching import PairBatch
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.data.loader import Layout, Loader
from pretrain.data.mixture import open_mixture
from pretrain.models.config import Seq2SeqConfig
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.fragments import fragment_length
from pretrain.objectives.mass import MASS

Feeding = Literal["full", "compact"]
# The seed of `python -m pretrain`, which orders rows and chooses fragments.
SEED = 0


@dataclass(frozen=True)
class Seq2SeqShape:
    """A yaml of conf/model, what is changed of it, and a size of the vocabulary."""

    name: str
    vocabulary: int
    changes: dict[str, int] = field(default_factory=dict)

    @property
    def architecture(self) -> Seq2SeqConfig:
        """The model's configuration."""
        options = yaml.safe_load((Path(conf.__file__).parent / "model" / f"{self.name}.yaml").read_text("utf-8"))
        del options["_target_"]
        return Seq2SeqConfig(**{**options, **self.changes})

    def words(self) -> list[str]:
        """The same for the command line of `python -m pretrain`."""
        return [f"model={self.name}", *(f"model.{name}={value}" for name, value in self.changes.items())]


@dataclass(frozen=True)
class PaddedPairs:
    """`input_ids` int64 [R, S], `decoder_input_ids`, `labels` int64 [R, T], labels -100 where there is no target;
    `attention_mask` int64 [R, S] is the encoder's, None where none of its places is padding.

    The decoder needs no mask: it is causal, and what pads it comes last.
    """

    input_ids: Tensor
    attention_mask: Tensor | None
    decoder_input_ids: Tensor
    labels: Tensor

    @property
    def tokens(self) -> int:
        """Targets."""
        return int((self.labels != IGNORED).sum())

    @property
    def places(self) -> int:
        """All of the decoder's."""
        return self.labels.numel()

    def inputs(self) -> dict[str, Tensor | None]:
        """The arguments of BartForConditionalGeneration."""
        return dict(vars(self))

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        mask = None if self.attention_mask is None else self.attention_mask.to(device)
        return type(self)(self.input_ids.to(device), mask, self.decoder_input_ids.to(device), self.labels.to(device))


def pair_batch(
    sequences: Sequence[Sequence[int]], keys: NDArray[np.uint64], objective: MASS, facts: DataFacts, feeding: Feeding
) -> PaddedPairs:
    """MASS on `sequences` [CLS] ... [SEP], each with its key of randomness, as BART can be fed with it.

    "full": BART counts the decoder's positions from 0, so for a target to be predicted at its original position the
    decoder must have all places before it; those that predict no target hold [MASK] (Song et al. 2019, figure 1).
    "compact": the inputs of fragments alone, as ours has them, at whatever positions that gives. Either side is as
    long as the longest of the batch needs, a multiple of 8.
    """
    ids, inside = padded(sequences, facts.special_ids["pad"])
    corrupted = objective.corrupt(Rows(ids.astype(np.uint32), inside.astype(np.int32)), keys)
    # The place before a target predicts it.
    predicts = np.roll(corrupted.hidden, -1, axis=1)
    before = np.where(np.roll(corrupted.begins, -1, axis=1), facts.special_ids["mask"], ids)
    before = ids if objective.decoder_input == "previous" else before
    after = np.roll(ids, -1, axis=1)
    if feeding == "full":
        last = predicts.shape[1] - np.argmax(predicts[:, ::-1], axis=1)
        length = min(-(-int(last.max()) // 8) * 8, predicts.shape[1])
        decoder_inputs = np.where(predicts, before, np.where(inside, facts.special_ids["mask"], ids))[:, :length]
        labels = np.where(predicts, after, IGNORED)[:, :length]
    else:
        decoder_inputs, _ = padded(
            [row[used] for row, used in zip(before, predicts, strict=True)], facts.special_ids["pad"]
        )
        labels, _ = padded([row[used] for row, used in zip(after, predicts, strict=True)], IGNORED)
    mask = None if inside.all() else torch.from_numpy(inside.astype(np.int64))
    inputs, made = (torch.from_numpy(np.ascontiguousarray(part)) for part in (decoder_inputs, labels))
    return PaddedPairs(torch.from_numpy(corrupted.inputs), mask, inputs, made)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqContest(ShardContest):
    """MASS with a model of one shape; `fills` are the shares of targets among the decoder's places, `encoder_fills`
    those of real tokens among the encoder's."""

    shape: Seq2SeqShape
    encoder_fills: dict[str, float] = field(default_factory=dict)

    @cached_property
    def facts(self) -> DataFacts:
        """Of the shards."""
        manifest = self.manifest
        return DataFacts(manifest.vocab_size, manifest.special_ids, manifest.row_length)

    @cached_property
    def objective(self) -> MASS:
        """With its defaults."""
        return MASS(self.facts)

    def _loader(self) -> Loader:
        layout = Layout(self.rows, self.rows, rank=0, world_size=1)
        return Loader(open_mixture(str(self.shards)), self.objective, SEED, layout)

    def ours(self, label: str) -> float:
        """`python -m pretrain objective=mass`: the median rate of the steps after the warm-up.

        It reports all tokens of its rows; which of a step are targets is the objective's business, asked here again.
        """
        self.encoder_fills[label] = self.manifest.fill
        lines = self.train(*self.shape.words(), "objective=mass", f"seed={SEED}")
        loader, rates, targets = self._loader(), [], 0
        for number, line in enumerate(lines):
            step = loader.step(number * self.rows)[0]
            if line["tokens"] != step.tokens + (lines[number - 1]["tokens"] if number else 0):
                raise RuntimeError(f"step {number + 1} has {step.tokens} tokens here, but not in the command's run")
            targets += int(step.counts["mass"])
            rates.append(line["tokens_per_second"] * step.counts["mass"] / step.tokens)
        self.fills[label] = targets / (len(lines) * self.rows * self.objective.decoder_row_length)
        return statistics.median(rates[WARMUP:])

    def ours_here(self, label: str) -> float:
        """The same step, with its loader and engine, in this process, where its CPU time can be told."""
        self.encoder_fills[label] = self.manifest.fill
        with self._own_loop() as loop:
            rate = timed(loop, self.steps, self.clock)
            self.fills[label] = loop.fill
            return rate

    def products_share(self) -> float:
        """The share of matrix products in our step's CPU time."""
        with self._own_loop() as loop:
            return products_share(loop, self.steps)

    @contextlib.contextmanager
    def _own_loop(self) -> Generator[OwnStep, None, None]:
        gc.collect()  # the model before this one
        with contextlib.ExitStack() as stack:
            alone = stack.enter_context(contextlib.closing(Alone()))
            loop = OwnStep(
                self.shape.architecture,
                self.objective,
                self.facts.vocab_size,
                stack.enter_context(contextlib.closing(self._batches())),
                Settings("bf16" if self.precision == "bf16" else "fp32"),
                torch.device("cpu"),
                alone,
                counts="targets",
            )
            stack.callback(loop.close)
            for _ in range(WARMUP):
                loop.step()
            yield loop

    def _batches(self) -> Generator[MicroBatch[PairBatch], None, None]:
        with contextlib.closing(self._loader().steps(0)) as steps:
            for step in steps:
                yield step[0]

    def peer(self, label: str, feeding: Feeding, by_length: bool, attention: Attention) -> float:
        """BART in a plain loop."""
        batches = self.peer_batches(feeding, by_length)
        form = self.shape.architecture
        config = bart_config(
            self.facts.vocab_size,
            self.facts.special_ids,
            layers=(form.num_encoder_layers, form.num_decoder_layers),
            hidden=form.hidden_size,
            heads=form.num_heads,
            width=form.intermediate_size,
            positions=form.max_positions,
            dropout=form.dropout,
            attention_dropout=form.attention_dropout,
            attention=attention,
        )
        gc.collect()  # the model before this one
        loop = PlainLoop(config, batches, torch.device("cpu"), bf16=self.precision == "bf16")
        self.fills[label] = loop.fill
        places = sum(batch.input_ids.numel() for batch in batches)
        real = sum(
            batch.input_ids.numel() if batch.attention_mask is None else int(batch.attention_mask.sum())
            for batch in batches
        )
        self.encoder_fills[label] = real / places
        for _ in range(WARMUP):
            loop.step()
        return timed(loop, len(batches), self.clock)

    def peer_batches(self, feeding: Feeding, by_length: bool) -> list[PaddedPairs]:
        """The timed batches, with about as many tokens each as ours.

        With like lengths together they are of a pool of `POOL` batches, evenly spread over all lengths. Pieces too
        short for a fragment, from which there is nothing to learn, are spared the peer.
        """
        block = self.objective.rule.block_size or self.row_length
        pool = [
            ids
            for ids in self.sequences()
            if fragment_length(np.array(min(len(ids) - 2, block)), self.objective.rule.share) > 0
        ]
        size = min(self.batch_of(pool), len(pool))
        pool = pool[: POOL * size]
        groups = groups_of([len(ids) for ids in pool], size, by_length, np.random.default_rng(0))
        if by_length:
            count = min(self.steps, len(groups))
            groups = [groups[int((number + 0.5) * len(groups) / count)] for number in range(count)]
        keys = hash_coordinates(derive_key("peer"), np.arange(len(pool)))
        return [
            pair_batch([pool[i] for i in group], keys[group], self.objective, self.facts, feeding)
            for group in groups[: self.steps]
        ]
