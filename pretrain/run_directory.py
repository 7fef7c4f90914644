"""The directory of a run as `python -m pretrain` finds and leaves it: never another thing's, never an empty trace.

Must not import torch.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from conf.errors import InputError
from conf.files import directory_lock
from conf.provenance import CONFIG
from pipeline.manifest import MANIFEST

_LOCK = ".lock"
_OF_A_RUN = {"checkpoints", "metrics.jsonl"}
_LOGS = ("logs", "*.log", "*.out", "*.err")  # what a launcher may have written before the run began


def require_run_directory(run_dir: Path) -> None:
    """Raise InputError if something lies in `run_dir` that no run left there, for a run writes files of its own over
    it. Logs and hidden files are nothing."""
    if not run_dir.is_dir():
        return
    found = sorted(
        path.name
        for path in run_dir.iterdir()
        if not path.name.startswith(".") and not any(path.match(pattern) for pattern in _LOGS)
    )
    is_run = not _OF_A_RUN.isdisjoint(found) or _is_config_of_a_run(run_dir / CONFIG)
    if found and (MANIFEST in found or not is_run):
        what = "shards or other data" if MANIFEST in found else f"what is no run ('{found[0]}')"
        raise InputError(
            f"run_dir must be a new folder or that of a run, but '{run_dir}' holds {what}: choose another."
        )


def _is_config_of_a_run(path: Path) -> bool:
    """Whether a command that trains wrote the options in the file: all there is of a run killed at its start."""
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(options, dict) and {"run_dir", "trainer"} <= options.keys()


@contextlib.contextmanager
def only_writer(run_dir: Path) -> Iterator[None]:
    """Hold the directory as its only writer. What an error ends before it wrote anything leaves nothing behind.

    Raises InputError if another process holds it or it is no run's.
    """
    require_run_directory(run_dir)
    made = [path for path in (run_dir / _LOCK, run_dir, *run_dir.parents) if not path.exists()]
    with directory_lock(run_dir):
        try:
            yield
        except BaseException:
            _remove_if_empty(run_dir, made)
            raise


def _remove_if_empty(run_dir: Path, made: list[Path]) -> None:
    with contextlib.suppress(OSError):
        if {path.name for path in run_dir.iterdir()} == {_LOCK} and made[:1] == [run_dir / _LOCK]:
            made[0].unlink()
            for directory in made[1:]:
                directory.rmdir()  # one that is not empty ends it
