"""The contestants of `mlm_step`: our command, transformers' Trainer, and a plain padded loop.

Each is measured by one function that does its work once and returns real tokens per second; the padding of each is
noted. Must not import a part of the trainer: ours is run as its users run it.
"""

import itertools
import statistics
from dataclasses import dataclass

import torch

from benchmarks import mlm_data, transformers_trainer
from benchmarks.contest import POOL, WARMUP, ShardContest
from benchmarks.mlm_data import VOCABULARY
from benchmarks.plain_loop import PaddedBatch, PlainLoop, batches_of_sequences, bert_config
from benchmarks.timing import CLOCKS, timed
from benchmarks.transformers_trainer import Shape


@dataclass(frozen=True, kw_only=True)
class Contest(ShardContest):
    """A BERT of one shape."""

    shape: Shape

    @property
    def batch(self) -> int:
        """Sequences in a batch of the peers."""
        return self.batch_of(mlm_data.sequences(self.shards, 256))

    def ours(self, label: str) -> float:
        """`python -m pretrain`: the median rate of the steps after the warm-up."""
        self.fills[label] = self.manifest.fill
        lines = self.train(f"model={self.shape.name}")
        return statistics.median(line["tokens_per_second"] for line in lines if line["step"] > WARMUP)

    def trainer(self, label: str, by_length: bool) -> float:
        """transformers' Trainer."""
        rate, self.fills[label] = transformers_trainer.measure(
            self.sequences(),
            str(self.shards / "tokenizer.json"),
            self.shape,
            self.batch,
            self.steps,
            WARMUP,
            self.precision == "bf16",
            by_length,
            CLOCKS[self.clock],
        )
        return rate

    def plain(self, label: str, by_length: bool) -> float:
        """A plain loop over batches made beforehand."""
        batches = self.plain_batches(by_length)
        shape = self.shape
        config = bert_config(
            VOCABULARY,
            layers=shape.layers,
            hidden=shape.hidden,
            heads=shape.heads,
            width=4 * shape.hidden,
            dropout=0.1,
            attention_dropout=0.1,
        )
        loop = PlainLoop(config, batches, torch.device("cpu"), bf16=self.precision == "bf16")
        self.fills[label] = loop.fill
        for _ in range(WARMUP):
            loop.step()
        return timed(loop, len(batches), self.clock)

    def plain_batches(self, by_length: bool) -> list[PaddedBatch]:
        """The timed batches: drawn from a pool of `POOL` if those of like lengths are together."""
        special_ids = self.manifest.special_ids
        pool = self.sequences()[: POOL * self.batch]
        made = batches_of_sequences(pool, min(self.batch, len(pool)), special_ids, VOCABULARY, by_length)
        return list(itertools.islice(made, self.steps))
