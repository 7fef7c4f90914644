"""What is known of a step on disk: the record of its last complete run, the mark of one that has begun, its outputs.

Everything lies in `<run_dir>/steps/` and is written whole or not at all. A step is complete when its record's key is
the key of now and every output in the record still has its content. The two files in which a command says who ran it
when and how are no outputs: typing the step's own command again changes nothing that a later step reads. Must not
import `pipeline` or `pretrain`.
"""

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.provenance import CONFIG, PROVENANCE
from slurm.chain import Step
from slurm.fingerprints import Fingerprints, files_below
from slurm.keys import Parts

FORMAT = 1
# Where outputs of an earlier run go that a new one must not meet, below the run directory.
REPLACED = "replaced"


@dataclass(frozen=True)
class Record:
    """One complete run of a step.

    Attributes:
        run: identity of this run; the keys of the steps that need it hold it, so they run again when it has.
        key: the step's key when the run began.
        parts: what the key was made of.
        outputs: file relative to the run directory -> `{"bytes", "fingerprint"}`; without those that only say who ran
            the command.
        started: when it began, ISO 8601, UTC.
        seconds: wall-clock time of the last attempt (a resumed step's earlier attempts are not counted).
        command: the command line.
    """

    run: str
    key: str
    parts: Parts
    outputs: dict[str, dict[str, Any]]
    started: str
    seconds: float
    command: list[str]


def steps_directory(run_dir: Path) -> Path:
    """Where the records lie."""
    return run_dir / "steps"


def read_record(run_dir: Path, step: str) -> Record | None:
    """The record of a step's last complete run; None when there is none that this version can read."""
    found = _read(steps_directory(run_dir) / f"{step}.json")
    try:
        if found is None or found.pop("format") != FORMAT or found.pop("step") != step:
            return None
        return Record(**{**found, "parts": Parts(**found["parts"])})
    except (KeyError, TypeError):
        return None


def begun_parts(run_dir: Path, step: str) -> Parts | None:
    """The parts of the key under which a run of the step began that has not completed; None when there is none."""
    found = _read(steps_directory(run_dir) / f"{step}.started.json")
    try:
        return None if found is None else Parts(**found["parts"])
    except (KeyError, TypeError):
        return None


def begin(run_dir: Path, step: Step, parts: Parts, resume: bool) -> bool:
    """Get a step's place ready for a run, and mark that it has begun.

    Outputs of a run with another key would be refused by the command or, worse, mixed with its own. They are moved to
    `<run_dir>/replaced/` (one generation is kept), not deleted: a week of training is worth its space.

    Args:
        run_dir: the run directory.
        step: the step.
        parts: the parts of its key now.
        resume: keep the outputs of an interrupted run with this same key.

    Returns:
        Whether old outputs were moved away.
    """
    steps_directory(run_dir).mkdir(parents=True, exist_ok=True)
    (steps_directory(run_dir) / f"{step.name}.json").unlink(missing_ok=True)
    moved = False
    if not resume:
        (steps_directory(run_dir) / f"{step.name}.started.json").unlink(missing_ok=True)
        moved = _move_away(run_dir, step)
    mark = {"parts": asdict(parts), "started": datetime.now(UTC).isoformat(timespec="seconds"), "pid": os.getpid()}
    atomic_write_text(steps_directory(run_dir) / f"{step.name}.started.json", json.dumps(mark, indent=1) + "\n")
    return moved


def complete(
    run_dir: Path,
    step: Step,
    parts: Parts,
    command: list[str],
    started: datetime,
    seconds: float,
    fingerprints: Fingerprints,
) -> Record:
    """Record that a step's command has ended well, with the hashes of what it wrote.

    Raises:
        InputError: an output that the chain file promises was not written.
    """
    outputs: dict[str, dict[str, Any]] = {}
    for output in step.outputs:
        files = list(files_below(run_dir / output))
        if not files:
            raise InputError(
                f"step '{step.name}' ended well but wrote no '{run_dir / output}', which its chain file lists under "
                "outputs: correct the list, or the options that say where the command writes"
            )
        for file in files:
            if _says_who_ran_it(file):
                continue
            outputs[file.relative_to(run_dir).as_posix()] = {
                "bytes": file.stat().st_size,
                "fingerprint": fingerprints.of(file),
            }
    record = Record(
        run=uuid.uuid4().hex,
        key=parts.key(),
        parts=parts,
        outputs=outputs,
        started=started.astimezone(UTC).isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        command=command,
    )
    text = json.dumps({"format": FORMAT, "step": step.name, **asdict(record)}, indent=1, sort_keys=True)
    atomic_write_text(steps_directory(run_dir) / f"{step.name}.json", text + "\n")
    (steps_directory(run_dir) / f"{step.name}.started.json").unlink(missing_ok=True)
    return record


def broken_outputs(run_dir: Path, record: Record, fingerprints: Fingerprints) -> list[str]:
    """In words, which outputs of a record are not what they were; empty when all verify."""
    found = []
    for name, expected in record.outputs.items():
        path = run_dir / name
        try:
            if not path.is_file():
                found.append(f"output {name} is missing")
            elif path.stat().st_size != expected["bytes"] or fingerprints.of(path) != expected["fingerprint"]:
                found.append(f"output {name} has changed")
        except OSError as error:
            found.append(f"output {name} cannot be read ({error.strerror})")
    return found


def _says_who_ran_it(file: Path) -> bool:
    """Whether a file is one of the pair that `conf.provenance` writes; one alone is an output like any other."""
    return file.name in (CONFIG, PROVENANCE) and all((file.parent / name).is_file() for name in (CONFIG, PROVENANCE))


def _move_away(run_dir: Path, step: Step) -> bool:
    moved = False
    for output in step.outputs:
        source, place = run_dir / output, run_dir / REPLACED / output
        if not source.exists():
            continue
        if place.is_dir():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        source.rename(place)
        moved = True
    return moved


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
