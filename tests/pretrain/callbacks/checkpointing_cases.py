"""What the two ranks of `test_checkpointing` do: the real callback, group, clock and folder; only the engine, whose
state would take time to train, is a few numbers. Each case gets a folder and returns what this rank saw.
"""

import threading
from pathlib import Path
from typing import Any

import torch

from pretrain.callbacks.checkpointing import Checkpointing
from pretrain.checkpoints import CheckpointFolder, Keep, RunState
from pretrain.data.loader import Layout
from pretrain.distributed import Group
from pretrain.engine_state import FullState
from pretrain.options import TrainerOptions
from pretrain.spikes import SpikeRule
from pretrain.stages import plan
from pretrain.trainer import Stage, StepResult, Trainer

RUN = RunState(0, 0, 0, 0.0, 0, {"hidden_size": 4}, 9, "t", "d", {"seed": 0}, wandb_id="w")


class Engine:
    """Its weights are the number of the step."""

    def __init__(self, events: list[str]) -> None:
        self.events, self.trainer = events, None

    def full_state(self) -> FullState:
        step = self.trainer.progress.step
        self.events.append(f"gather {step}")
        tensors = {"w": torch.full((2,), float(step))} if self.trainer.group.ranks.is_main else {}
        return FullState(tensors, {f"exp_avg/{name}": value for name, value in tensors.items()}, step)


class Held(CheckpointFolder):
    """A disk so slow that a write takes until `free` is set."""

    def __init__(self, run_dir: Path, events: list[str]) -> None:
        super().__init__(run_dir)
        self.free, self._events = threading.Event(), events

    def save(self, state: RunState, weights: Any, optimizer: Any, keep: Keep) -> Path:
        self._events.append(f"write {state.step}")
        assert self.free.wait(30)
        path = super().save(state, weights, optimizer, keep)
        self._events.append(f"written {state.step}")
        return path


class Run:
    """A trainer whose steps cost nothing, and the callback under test."""

    def __init__(self, group: Group, folder: CheckpointFolder, events: list[str] | None = None, **options: Any) -> None:
        engine = Engine(events if events is not None else [])
        start = options.pop("start", {})
        options = {"checkpoint_every": 0, "log_every": 1, **options}
        (only,) = plan(None, "", 2, 1)
        self.trainer = Trainer(
            options=TrainerOptions(global_batch_size=2, micro_batch_size=1, max_steps=100, **options),
            engine=engine,
            stages=[Stage(only, Layout(2, 1, group.ranks.rank, group.ranks.world_size), None, "key")],
            loss_names=("masked_lm",),
            schedule=lambda *_: 1.0,
            group=group,
            seed=0,
            wants_stop=lambda: False,
        )
        engine.trainer = self.trainer
        self.callback = Checkpointing(folder, RUN, **{"saved_step": -1, **start})
        self.callback.on_start(self.trainer)

    def step(self, loss: float | None = None, skipped: str | None = None) -> None:
        progress = self.trainer.progress
        progress.step += 1
        progress.samples += 2
        progress.consumed["key"] = progress.samples
        if loss is not None:
            self.trainer.validation = (progress.step, loss)
        self.callback.on_step(self.trainer, StepResult({}, {}, 0, skipped))

    def end(self) -> None:
        self.callback.on_end(self.trainer, "finished")
        self.callback.close()


def steps_in(folder: CheckpointFolder) -> list[int]:
    return sorted(folder.losses())


def training_goes_on(group: Group, path: Path) -> Any:
    events: list[str] = []
    folder = Held(path, events)
    run = Run(group, folder, events, checkpoint_every=2)
    for _ in range(3):
        run.step()
    at_step_3 = run.trainer.progress.step, steps_in(folder)
    threading.Timer(0.2, folder.free.set).start()
    run.step()  # the next save, which waits for the one before
    run.end()
    return {"while writing": at_step_3, "events": events, "saved": steps_in(folder)}


def state_of_a_save(group: Group, path: Path) -> Any:
    run = Run(group, CheckpointFolder(path), checkpoint_every=2)
    run.trainer.spikes = SpikeRule(3.0, recent=[1.5])
    run.trainer.progress.skipped, run.trainer.progress.tokens = 1, 70
    run.step()
    run.step(loss=3.5)
    run.end()
    found = CheckpointFolder(path).last_good()
    return found.state, found.weights()["w"], found.optimizer()["exp_avg/w"]


def failing(group: Group, path: Path, **options: Any) -> Any:
    """The checkpoints' folder is a file: every write fails."""
    path.mkdir(exist_ok=True)
    if group.ranks.is_main:
        (path / "checkpoints").write_text("")
    group.sum([0.0])
    run = Run(group, CheckpointFolder(path), **options)
    try:
        for _ in range(20):
            run.step()
            if run.trainer.progress.step == 2:
                wait_for_write(run)
        run.end()
    except OSError as error:
        run.callback.close()
        return run.trainer.progress.step, type(error).__name__, error.filename
    return None


def wait_for_write(run: Run) -> None:
    """Let the write fail before the next step, so that when it is told does not depend on time."""
    run.callback._thread.submit(lambda: None).result()
    run.trainer.group.sum([0.0])


def told_at_a_log_step(group: Group, path: Path) -> Any:
    return failing(group, path, checkpoint_every=2, log_every=3)


def told_at_the_next_save(group: Group, path: Path) -> Any:
    return failing(group, path, checkpoint_every=2, log_every=50)


def told_at_the_end(group: Group, path: Path) -> Any:
    return failing(group, path, checkpoint_every=20, log_every=50)


def by_minutes(group: Group, path: Path) -> Any:
    time = [0.0]
    # Rank 1's clock runs otherwise, and does not matter.
    clock = (lambda: time[0]) if group.ranks.is_main else (lambda: 0.0)
    folder = CheckpointFolder(path)
    run = Run(group, folder, checkpoint_minutes=1.0, keep_last=9, log_every=2, start={"now": clock})
    gathered = run.trainer.engine.events
    for _ in range(12):
        time[0] += 25.0
        run.step()
    run.end()
    return gathered


def by_validation(group: Group, path: Path) -> Any:
    folder = CheckpointFolder(path)
    run = Run(group, folder, keep_best=2, keep_last=1)
    for loss in (5.0, 4.0, float("nan"), 4.5, 4.5, 6.0, 3.0, 3.5, 7.0):
        run.step(loss)
    run.step()
    run.end()
    # A session later the losses on disk still count.
    again = Run(group, folder, keep_best=2, keep_last=1)
    again.trainer.progress.step = 10
    again.callback.on_start(again.trainer)
    for loss in (3.6, 3.2):
        again.step(loss)
    again.end()
    return run.trainer.engine.events, again.trainer.engine.events, folder.losses()


def for_good(group: Group, path: Path) -> Any:
    folder = CheckpointFolder(path)
    run = Run(group, folder, keep_every=3, keep_last=1, checkpoint_every=2)
    for _ in range(8):
        run.step()
    run.end()
    return steps_in(folder)


def while_steps_are_skipped(group: Group, path: Path) -> Any:
    folder = CheckpointFolder(path)
    run = Run(group, folder, checkpoint_every=2, keep_last=9)
    for step in range(1, 11):
        run.step(skipped="non-finite gradient" if step in (2, 5, 8, 9, 10) else None)
    return run.trainer.engine.events


def at_the_end(group: Group, path: Path) -> Any:
    folder = CheckpointFolder(path)
    run = Run(group, folder, checkpoint_every=2, keep_last=9)
    for _ in range(4):
        run.step()
    run.trainer.validation = (4, 2.5)  # as Validation.on_end does, after the last step was saved
    run.end()
    odd = Run(group, CheckpointFolder(path / "odd"), start={"saved_step": 0})
    odd.end()
    odd.step()
    return run.trainer.engine.events, folder.losses(), odd.trainer.engine.events


def after_stepping_over_a_damaged_one(group: Group, path: Path) -> Any:
    """`latest` names the damaged one; what the run goes on from must outlive the next write."""
    folder, seen = CheckpointFolder(path), []
    if group.ranks.is_main:
        for step in (1, 2):
            saved = folder.save(RunState(step, 0, 0, 0.0, 0, {}, 0, "", "", {}), {}, {}, Keep())
        (saved / "state.json").unlink()
    group.sum([0.0])

    class Watched(CheckpointFolder):
        def _require_space(self, needed: int, name: str) -> None:
            seen.append(steps_in(self))

    run = Run(group, Watched(path), keep_last=1, start={"saved_step": 1})
    run.trainer.progress.step = 1
    run.step()
    run.end()
    return seen, steps_in(folder)


def at_the_start(group: Group, path: Path) -> Any:
    folder = CheckpointFolder(path)
    run = Run(group, folder, start={"save_at_start": True})
    run.end()
    return steps_in(folder), run.trainer.engine.events


def closed_in_the_middle(group: Group, path: Path) -> Any:
    events: list[str] = []
    folder = Held(path, events)
    run = Run(group, folder, events, checkpoint_every=1)
    run.step()
    threading.Timer(0.1, folder.free.set).start()
    run.callback.close()
    return events, steps_in(folder)


CASES = (
    training_goes_on,
    state_of_a_save,
    told_at_a_log_step,
    told_at_the_next_save,
    told_at_the_end,
    by_minutes,
    by_validation,
    for_good,
    while_steps_are_skipped,
    at_the_end,
    after_stepping_over_a_damaged_one,
    at_the_start,
    closed_in_the_middle,
)


def run_cases(group: Group, path: str) -> dict[str, Any]:
    found = {}
    for case in CASES:
        found[case.__name__] = case(group, Path(path) / case.__name__)
        group.sum([0.0])
    return found
