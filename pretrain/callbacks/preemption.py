"""Signals that ask a run to save and stop, and the marker file that asks for a requeue. Must not import deepspeed.

The handler only notes the signal; the ranks agree on it before the next step (`Trainer._agree`), whichever rank got
it. A second signal ends the process at once.
"""

import logging
import signal
from pathlib import Path
from types import FrameType

from conf.files import atomic_write_text
from pretrain.trainer import Callback, Ending, Trainer

logger = logging.getLogger(__name__)
MARKER = "requeue"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)


class Preemption(Callback):
    """Notes signals from its construction on; must come after `Checkpointing`, so that the marker means "saved"."""

    def __init__(self, run_dir: Path) -> None:
        self._marker = run_dir / MARKER
        self._received: int | None = None
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received = number
        self.restore()

    def restore(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def requested(self) -> bool:
        """Whether this rank was asked to stop."""
        return self._received is not None

    def on_start(self, trainer: Trainer) -> None:
        """Remove the marker of an earlier session."""
        if trainer.group.ranks.is_main:
            self._marker.unlink(missing_ok=True)

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Write the marker once the checkpoint lies on disk."""
        self.restore()
        if ending == "preempted" and trainer.group.ranks.is_main:
            atomic_write_text(self._marker, f"step {trainer.progress.step}\n")
            logger.info("stopped by a signal at step %d; the same command goes on from there", trainer.progress.step)
