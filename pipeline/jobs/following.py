"""Progress of a job by the files that appear as ranges are done: that works with every runner.

Imports neither Beam nor torch.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from conf.progress import progress

POLL_SECONDS = 1.0


@contextlib.contextmanager
def follow(label: str, marks: Sequence[Path]) -> Iterator[None]:
    """Show, while the block runs, how many of the files `marks` are there."""
    stop = threading.Event()

    def watch() -> None:
        with progress(label, total=len(marks)) as line:
            done, ended = 0, False
            # The last file appears a while before the block ends; that all are there is said once.
            while done < len(marks) and not ended:
                ended = stop.wait(POLL_SECONDS)
                done = sum(mark.exists() for mark in marks)
                line.update(done)

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
