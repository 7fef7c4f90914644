"""The contestants of `mlm_step`: our command, transformers' Trainer, and a plain padded loop.

Each is measured by one function that does its work once and returns real tokens per second; the padding of each is
noted. Must not import a part of the trainer: ours is run as its users run it.
"""

import itertools
import json
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from benchmarks import mlm_data, transformers_trainer
from benchmarks.mlm_data import VOCABULARY, run_command
from benchmarks.plain_loop import PaddedBatch, PlainLoop, batches_of_sequences, bert_config
from benchmarks.timing import CLOCKS, timed
from benchmarks.transformers_trainer import Shape
from pipeline.shards import ShardReader

# Batches that like lengths are sought in: what transformers' sampler takes.
POOL = 50
WARMUP = 1


@dataclass(frozen=True)
class Contest:
    """One shape on one shard directory: `rows` packed rows a step, `steps` timed steps."""

    key: str
    shape: Shape
    shards: Path
    rows: int
    steps: int
    precision: str
    threads: int
    row_length: int
    clock: str = "wall"
    fills: dict[str, float] = field(default_factory=dict)

    def sequences(self) -> list[list[int]]:
        """Pieces for a pool of batches, and for some more."""
        return mlm_data.sequences(self.shards, self.rows * (POOL + self.steps))

    @property
    def batch(self) -> int:
        """Sequences in a batch of the peers: as many tokens a step as ours, in more and shorter sequences."""
        mean = np.mean([len(ids) for ids in mlm_data.sequences(self.shards, 256)])
        fill = ShardReader(self.shards, verify=False).manifest.fill
        return max(1, round(self.rows * self.row_length * fill / float(mean)))

    def ours(self, label: str) -> float:
        """`python -m pretrain`: the median rate of the steps after the warm-up."""
        self.fills[label] = ShardReader(self.shards, verify=False).manifest.fill
        with tempfile.TemporaryDirectory() as run_dir:
            run_command(
                "pretrain",
                f"model={self.shape.name}",
                "ranks=1",
                f"data={self.shards}",
                f"run_dir={run_dir}",
                f"deepspeed.precision={self.precision}",
                f"trainer.threads={self.threads}",
                f"trainer.max_steps={WARMUP + self.steps}",
                f"trainer.global_batch_size={self.rows}",
                f"trainer.micro_batch_size={self.rows}",
                "trainer.log_every=1",
                "trainer.validation_every=0",
                "trainer.checkpoint_every=0",
                "schedule.warmup=1",
            )
            lines = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
        rates = [line["tokens_per_second"] for line in lines if "loss" in line and line["step"] > WARMUP]
        return statistics.median(rates)

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
        special_ids = ShardReader(self.shards, verify=False).manifest.special_ids
        pool = self.sequences()[: POOL * self.batch]
        made = batches_of_sequences(pool, min(self.batch, len(pool)), special_ids, VOCABULARY, by_length)
        return list(itertools.islice(made, self.steps))
