"""What the training-speed benchmarks share: one shape on one shard directory, its texts singly, and our command.

Must not import a part of the trainer: ours is run as its users run it.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import mlm_data
from benchmarks.mlm_data import run_command
from pipeline.manifest import Manifest
from pipeline.shards import ShardReader

# Batches that like lengths are sought in: what transformers' sampler takes.
POOL = 50
WARMUP = 1


@dataclass(frozen=True, kw_only=True)
class ShardContest:
    """`rows` packed rows of `row_length` a step, `steps` timed steps. `fills` says of each contestant, by its label,
    which share of what it computes is what it is measured in."""

    key: str
    shards: Path
    rows: int
    steps: int
    precision: str
    threads: int
    row_length: int
    clock: str = "wall"
    fills: dict[str, float] = field(default_factory=dict)

    @property
    def manifest(self) -> Manifest:
        """That of the shards."""
        return ShardReader(self.shards, verify=False).manifest

    def sequences(self) -> list[list[int]]:
        """Pieces for a pool of batches, and for some more."""
        return mlm_data.sequences(self.shards, self.rows * (POOL + self.steps))

    def batch_of(self, sequences: Sequence[Sequence[int]]) -> int:
        """How many of these a batch of a peer has: as many tokens a step as ours, in more and shorter sequences."""
        mean = np.mean([len(ids) for ids in sequences])
        return max(1, round(self.rows * self.row_length * self.manifest.fill / float(mean)))

    def train(self, *options: str) -> list[dict[str, Any]]:
        """`python -m pretrain` with these options; its metrics, one step an item, those of the warm-up too."""
        with tempfile.TemporaryDirectory() as run_dir:
            run_command(
                "pretrain",
                *options,
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
        return [line for line in lines if "loss" in line]
