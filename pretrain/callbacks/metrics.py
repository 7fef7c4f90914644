"""What one sees of a run: metrics.jsonl, TensorBoard, whoever else wants the figures, and a progress line.

Losses of a line are means over the targets of all steps since the line before, steps that were skipped left out.
Reading them waits for the device and the other ranks, so that happens once a log interval only. Must not import
deepspeed.
"""

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch
from torch.utils.tensorboard.writer import SummaryWriter

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.progress import progress
from pretrain.callbacks.nonfinite import explain
from pretrain.callbacks.throughput import Throughput, TimeLeft
from pretrain.trainer import Callback, Ending, StepResult, Trainer

METRICS = "metrics.jsonl"
Listener = Callable[[int, Mapping[str, Any]], None]


class MetricsFile:
    """`metrics.jsonl` and TensorBoard of one run; only rank 0 has one. `listeners` are handed the same figures.

    A resumed run goes on at `step`: lines of later steps, which the run before wrote and then lost, are removed.
    """

    def __init__(self, run_dir: Path, step: int, listeners: Sequence[Listener] = ()) -> None:
        path = run_dir / METRICS
        if path.exists():
            atomic_write_text(path, "".join(_lines_up_to(path, step)))
        self._file = path.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(run_dir / "tensorboard"), purge_step=step + 1 if step else None)
        self._listeners = listeners

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append one line; a number also becomes a TensorBoard scalar."""
        self._file.write(json.dumps({"step": step, **values}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)
        for listener in self._listeners:
            listener(step, values)

    def close(self) -> None:
        """Flush and close both."""
        self._file.close()
        self._board.close()


def _lines_up_to(path: Path, step: int) -> list[str]:
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        with contextlib.suppress(ValueError, TypeError, KeyError):  # a line cut off by a kill, or none of ours
            if json.loads(line)["step"] <= step:
                kept.append(line)
    return kept


def memory_gib(device: torch.device) -> float:
    """Return the memory this rank needs, in GiB: the peak of its GPU, or what the process holds on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return float(psutil.Process().memory_info().rss / 2**30)


class Metrics(Callback):
    """Writes a line every `log_every` steps and keeps the progress line."""

    def __init__(self, file: MetricsFile | None) -> None:
        self._file = file
        self._logged_step = -1
        self._shown = contextlib.ExitStack()

    def on_start(self, trainer: Trainer) -> None:
        """Start the progress line."""
        self._logged_step = trainer.progress.step
        self._throughput = Throughput(trainer.clock, trainer.progress.tokens)
        total = trainer.budget.total
        self._left = TimeLeft(total, self._position(trainer), trainer.clock.elapsed())
        if self._file is not None:
            self._bar = self._shown.enter_context(progress("training", total))

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Add the step up; every `log_every` steps, write."""
        if result.skipped is None:
            trainer.losses.add(result.losses, result.counts)
        if trainer.progress.step % trainer.options.log_every == 0:
            self._log(trainer)
            trainer.losses.clear()

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Write what is left and end the progress line.

        The sums stay, for the checkpoint: the line that the next session writes is to be that of a run that did not
        stop here.
        """
        if trainer.progress.step != self._logged_step:
            self._log(trainer)
        self._shown.close()

    @staticmethod
    def _position(trainer: Trainer) -> float:
        return trainer.budget.schedule_position(trainer.progress, trainer.clock.elapsed())

    def _log(self, trainer: Trainer) -> None:
        means = trainer.losses.means(trainer.group.sum)
        for name, loss in means.items():
            if not math.isfinite(loss):  # known to all ranks, so all stop
                raise InputError(_nonfinite_sentence(trainer, name, loss))
        now = trainer.progress
        rate = self._throughput.measure(now.tokens)
        waited, memory = trainer.group.maximum(
            [trainer.loader.waited() / self._throughput.seconds, memory_gib(trainer.engine.device)]
        )
        self._logged_step = now.step
        if self._file is None:
            return
        values: dict[str, float] = {("loss" if i == 0 else name): loss for i, (name, loss) in enumerate(means.items())}
        values["learning_rate"] = trainer.engine.learning_rate()
        if math.isfinite(norm := trainer.engine.gradient_norm()):  # that of a skipped step may not be
            values["gradient_norm"] = norm
        if (scale := trainer.engine.loss_scale()) is not None:
            values["loss_scale"] = scale
        values |= {"tokens_per_second": rate, "tokens": now.tokens, "elapsed": trainer.clock.elapsed()}
        if trainer.peak_flops and trainer.flops_per_token:
            values["mfu"] = trainer.flops_per_token * rate / trainer.peak_flops
        values |= {"data_wait": min(waited, 1.0), "memory_gib": memory, "skipped": now.skipped}
        self._file.write(now.step, values)
        position = self._position(trainer)
        self._bar.update(position, describe(values), self._left.estimate(position, trainer.clock.elapsed()))


def describe(values: Mapping[str, float]) -> str:
    """Return the figures of a line in words, for people."""
    parts = []
    if "loss" in values:
        parts.append(f"loss {values['loss']:.3f}")
    parts.append(f"rate {values['learning_rate']:.2e}")
    parts.append(f"{values['tokens_per_second']:,.0f} tokens/s")
    if "mfu" in values:
        parts.append(f"MFU {values['mfu']:.1%}")
    parts.append(f"waits for data {values['data_wait']:.0%}")
    parts.append(f"{values['memory_gib']:.1f} GiB")
    if values["skipped"]:
        parts.append(f"{values['skipped']:,.0f} skipped")
    return ", ".join(parts)


def _nonfinite_sentence(trainer: Trainer, name: str, loss: float) -> str:
    if trainer.options.find_nonfinite:
        where = explain(trainer)
    else:
        where = "trainer.find_nonfinite=true names the module where it arises"
    return (
        f"the loss '{name}' became {loss} by step {trainer.progress.step}: lower optimizer.lr or lengthen the warm-up, "
        f"and start again from the last checkpoint or in another run_dir ({where})"
    )
