"""What one sees of a run: metrics.jsonl, TensorBoard, and a progress line. Must not import deepspeed.

The loss of a line is the mean over the targets of all steps since the line before. Reading it waits for the device
and the other ranks, so that happens once a log interval only.
"""

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch.utils.tensorboard.writer import SummaryWriter

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.progress import progress
from pretrain.callbacks.throughput import Throughput
from pretrain.trainer import Callback, Ending, StepResult, Trainer

METRICS = "metrics.jsonl"


class MetricsFile:
    """`metrics.jsonl` and TensorBoard of one run; only rank 0 has one.

    A resumed run goes on at `step`: lines of later steps, which the run before wrote and then lost, are removed.
    """

    def __init__(self, run_dir: Path, step: int) -> None:
        path = run_dir / METRICS
        if path.exists():
            atomic_write_text(path, "".join(_lines_up_to(path, step)))
        self._file = path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=step + 1 if step else None)

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Append one line; a number also becomes a TensorBoard scalar."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close both."""
        self._file.close()
        self._board.close()


def _lines_up_to(path: Path, step: int) -> list[str]:
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        with contextlib.suppress(ValueError):  # a line cut off by a kill
            if json.loads(line)["step"] <= step:
                kept.append(line)
    return kept


class Metrics(Callback):
    """Writes a line every `log_every` steps and keeps the progress line."""

    def __init__(self, file: MetricsFile | None) -> None:
        self._file = file
        self._targets = 0.0
        self._loss_sum: torch.Tensor | None = None
        self._shown = contextlib.ExitStack()

    def on_start(self, trainer: Trainer) -> None:
        """Start the progress line."""
        self._throughput = Throughput(trainer.clock, trainer.progress.tokens)
        if self._file is not None:
            self._bar = self._shown.enter_context(progress("training", trainer.options.max_steps))

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Add the step up; every `log_every` steps, write."""
        self._targets += result.targets
        self._loss_sum = result.loss_sum if self._loss_sum is None else self._loss_sum + result.loss_sum
        if trainer.progress.step % trainer.options.log_every == 0:
            self._log(trainer)

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Write what is left and end the progress line."""
        if self._loss_sum is not None:
            self._log(trainer)
        self._shown.close()

    def _log(self, trainer: Trainer) -> None:
        assert self._loss_sum is not None
        (loss_sum,) = trainer.group.sum([float(self._loss_sum)])
        norm = trainer.engine.gradient_norm()
        loss = loss_sum / max(self._targets, 1.0)
        self._targets, self._loss_sum = 0.0, None
        if not math.isfinite(loss):  # known to all ranks, so all stop
            raise InputError(
                f"the loss became {loss} by step {trainer.progress.step}: lower optimizer.lr or lengthen the warm-up, "
                "and start again from the last checkpoint or in another run_dir"
            )
        if self._file is None:
            return
        now, last = trainer.progress, trainer.options.max_steps
        rate = self._throughput.measure(now.tokens)
        values = {
            "loss": loss,
            "learning_rate": trainer.engine.learning_rate(),
            "gradient_norm": norm,
            "tokens_per_second": rate,
            "tokens": now.tokens,
            "elapsed": trainer.clock.elapsed(),
        }
        self._file.write(now.step, values)
        left = (last - now.step) * now.tokens / max(now.step, 1) / max(rate, 1e-9)
        self._bar.update(
            now.step,
            f"loss {loss:.3f}, rate {values['learning_rate']:.2e}, {rate:,.0f} tokens/s, "
            f"{int(left) // 60}:{int(left) % 60:02d} left",
        )
