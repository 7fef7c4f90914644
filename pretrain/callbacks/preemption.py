"""What asks a run to save and stop (a signal, or the end of its time coming near), and the marker for a requeue.

The handler only notes a signal; the ranks agree on it before the next step (`Trainer._agree`), whichever rank got it.
Must not import deepspeed.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

import psutil

from conf.errors import InputError
from conf.files import atomic_write_text
from pretrain.trainer import Callback, Ending, Trainer

logger = logging.getLogger(__name__)
MARKER = "requeue"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
STARTS = "starts"
END_OF_JOB = "SLURM_JOB_END_TIME"
# Set by the batch scripts of slurm/: a folder of the job, where rank 0 leaves word of its progress for them.
JOB_DIRECTORY = "PALIMPSEST_JOB_DIRECTORY"
_ONE_PRESS_SECONDS = 1.0


def end_of_time(
    time_limit_minutes: float | None, save_before_end_seconds: float, environment: Mapping[str, str], started: float
) -> float | None:
    """Return until when (seconds since 1970) this process may run: the earlier of the option and Slurm's end, or None.

    `started` is when the process began.

    Raises:
        InputError: no time would be left before the save.
    """
    ends = {}
    if time_limit_minutes is not None:
        ends[f"trainer.time_limit_minutes={time_limit_minutes:g}"] = started + 60 * time_limit_minutes
    if environment.get(END_OF_JOB):
        try:
            ends[f"{END_OF_JOB}={environment[END_OF_JOB]}"] = float(int(environment[END_OF_JOB]))
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"{END_OF_JOB} must be in seconds since 1970, but is '{environment[END_OF_JOB]}': unset it, or set "
                "trainer.time_limit_minutes"
            ) from error
    if not ends:
        return None
    name, end = min(ends.items(), key=lambda item: item[1])
    if end - started <= save_before_end_seconds:
        raise InputError(
            f"the time of this job must be longer than trainer.save_before_end_seconds={save_before_end_seconds:g}, "
            f"but by {name} it is {end - started:.0f} s: ask for more time, or lower that option"
        )
    return end


class Preemption(Callback):
    """Notes signals from its construction on; must come after `Checkpointing`, so that the marker means "saved".

    A signal that comes again changes nothing (Slurm, srun and a batch script may each send one), for the save that it
    asks for may be under way; only a second Ctrl-C, a second after the first or later, ends the process without
    saving. Checkpoints take their name when they are whole, so neither leaves half of one.

    `time_limit_minutes` counts from the start of the process. The ranks stop when the steps that are left before the
    save would not fit: the longest time between two steps so far (validation and saves included) is allowed for.
    """

    def __init__(
        self,
        run_dir: Path,
        time_limit_minutes: float | None = None,
        save_before_end_seconds: float = 120.0,
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.time,
    ) -> None:
        job = environment.get(JOB_DIRECTORY)
        self._job = Path(job) if job else None
        self._markers = [folder / MARKER for folder in (run_dir, self._job) if folder is not None]
        self._now = now
        started = psutil.Process().create_time()
        end = end_of_time(time_limit_minutes, save_before_end_seconds, environment, started)
        self._stop_at = None if end is None else end - save_before_end_seconds
        self._asked: float | None = None
        self._longest_step = 0.0
        self._steps = self._first_step = 0
        self._received: int | None = None
        self._interrupted: float | None = None
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received = self._received or number
        if number == signal.SIGINT:
            now = time.monotonic()
            if self._interrupted is not None and now - self._interrupted > _ONE_PRESS_SECONDS:
                raise KeyboardInterrupt
            self._interrupted = self._interrupted or now

    def restore(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        """Whether this rank was asked to stop, or its time is nearly over. To be called once before every step."""
        return self._received is not None or self._time_is_over()

    def _time_is_over(self) -> bool:
        now = self._now()
        if self._asked is not None:
            self._steps += 1
            if self._steps > 1:  # the first step may have compiled, which will not happen again
                self._longest_step = max(self._longest_step, now - self._asked)
        self._asked = now
        return self._stop_at is not None and now + self._longest_step >= self._stop_at

    def on_start(self, trainer: Trainer) -> None:
        """Remove the marker of an earlier session, and tell the batch script where this one begins."""
        self._first_step = trainer.progress.step
        if trainer.group.ranks.is_main:
            for marker in self._markers:
                marker.unlink(missing_ok=True)
            if self._job is not None:
                with (self._job / STARTS).open("a") as starts:
                    starts.write(f"step {self._first_step}\n")

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Write the marker once the checkpoint lies on disk."""
        if ending == "preempted":
            reasons = [reason for reason in trainer.group.gather(self._reason()) if reason is not None]
            if trainer.group.ranks.is_main:
                for marker in self._markers:
                    atomic_write_text(marker, f"step {trainer.progress.step}\n")
                step, reason = trainer.progress.step, next(iter(reasons), "asked to stop")
                logger.info("%s: saved and stopped at step %d; the same command goes on from there", reason, step)
                if step == self._first_step and self._stop_at is not None:
                    logger.warning("no step was made in the time of this job: another one needs more time")
        self.restore()

    def _reason(self) -> str | None:
        if self._received is not None:
            return f"received {signal.Signals(self._received).name}"
        return "the time of this job is nearly over" if self._time_is_over() else None
