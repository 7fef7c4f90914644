"""Where a Beam pipeline runs. Targets of the Hydra group `runner`.

A runner has `workers` and `run(build)`; a job hands it a function that adds the job's transforms to a pipeline. Must
not import torch.

`local` is Beam's FnApiRunner by name. Beam's own default is not used: it first tries to download another engine and
silently is that engine where the download works.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from conf.errors import InputError

Build = Callable[[Any], None]

# The last line of a formatted traceback, and what Beam puts behind it.
_STEP = r"(?: \[while running .*)?$"
INPUT_ERROR = re.compile(r"(?:^|\s)conf\.errors\.InputError: (.+?)" + _STEP, re.MULTILINE)
SYSTEM_ERROR = re.compile(r"(?:^|[\s.])\w+Error: \[Errno (\d+)\] (.+?)(?:: ['\"](.+?)['\"])?" + _STEP, re.MULTILINE)


class Runner(Protocol):
    """What a job needs of a runner."""

    workers: int

    def run(self, build: Build, units: int | None = None) -> None:
        """Build and run one pipeline to its end.

        Args:
            build: gets a `beam.Pipeline`; picklable, for it may be called in another process.
            units: how many pieces of work there are; no more workers than that are started.

        Raises:
            InputError, OSError: what a worker raised, as it was.
            RuntimeError: any other failure in a worker, with the worker's traceback.
        """


def usable_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class LocalRunner:
    """Beam on this machine: in this process with one worker, in processes of their own with more."""

    workers: int

    def run(self, build: Build, units: int | None = None) -> None:
        """See Runner."""
        workers = max(1, min(self.workers, self.workers if units is None else units))
        with _threads_per_worker(max(1, usable_cores() // workers)):
            if workers == 1:
                run_in_memory(build)
            else:
                from pipeline.worker_processes import run_in_processes

                run_in_processes(build, workers)


def local(workers: int | None = None) -> LocalRunner:
    """The runner of `runner=local`. `workers=null` takes one per usable core.

    Raises:
        InputError: workers below 1.
    """
    if workers is not None and workers < 1:
        raise InputError(f"option 'runner.workers' must be at least 1 or null, but is {workers}")
    return LocalRunner(workers or usable_cores())


def run_in_memory(build: Build) -> None:
    """Run a pipeline in this process, one worker."""
    with quiet_import():
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    # Options from [] and not, as is Beam's default, from the command line, which is Hydra's.
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    build(pipeline)
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:
        known = as_raised(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
        if known is None:
            raise
        raise known from error


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Import Beam and keep it quiet; its remark on Google clients would also set up the root logger."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    disabled = root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.removeHandler(handler)
        # Beam logs what it then raises, with the traceback of every layer.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)


def as_raised(text: str) -> InputError | OSError | None:
    """The InputError or OSError that a worker raised, from the text in which Beam reports it; None for other errors.

    Beam hands on neither type nor cause from another process, only the formatted traceback with a remark on the step.
    """
    sentences = INPUT_ERROR.findall(text)
    if sentences:
        return InputError(sentences[-1])
    system = SYSTEM_ERROR.findall(text)
    if system:
        number, words, path = system[-1]
        return OSError(int(number), words, path or None)
    return None


@contextlib.contextmanager
def _threads_per_worker(threads: int) -> Iterator[None]:
    """Keep workers x threads at the number of cores: each worker would start a thread per core of its own."""
    names = ("RAYON_NUM_THREADS", "OMP_NUM_THREADS")  # tokenizers; NumPy and Arrow
    before = {name: os.environ.get(name) for name in (*names, "TOKENIZERS_PARALLELISM")}
    for name in names:
        os.environ.setdefault(name, str(threads))
    # Also silences the library's warning on forks after use.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
