"""Checkpoints on disk: whole or not there, checked when read, free of any trace of ranks and ZeRO stages.

    run_dir/checkpoints/step-00000200/{model.safetensors, optimizer.safetensors, state.json}
    run_dir/checkpoints/latest                 the name of the last verified folder

A folder is written under a temporary name (.step-00000200.tmp), every file synced and read back, then renamed;
`state.json` holds a SHA-256 of each file and one of itself. When and in which thread one is written is
`callbacks/checkpointing.py`; what may change when a run goes on from one is `resuming.py`. Must not import deepspeed,
Hydra or the trainer.
"""

import hashlib
import itertools
import json
import logging
import math
import os
import re
import shutil
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from conf.errors import InputError
from conf.files import atomic_write_text, fsync_directory, sha256_file
from pretrain.budget import Progress

logger = logging.getLogger(__name__)

FORMAT = 2
WEIGHTS, OPTIMIZER, STATE, LATEST = "model.safetensors", "optimizer.safetensors", "state.json", "latest"
_CHECKSUM = "checksum"
_NAME = re.compile(r"step-(\d+)")
_SPARE_BYTES = 16 << 20
_DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"} | {
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"
}  # fmt: skip


@dataclass(frozen=True)
class RunState:
    """What a checkpoint says of its run.

    `step` counts batches used, `skipped` those of them that changed nothing (of `skipped_tokens` real tokens),
    `samples` rows and `tokens` real tokens consumed, `consumed` rows of each mixture by its key, `elapsed` the seconds
    spent training, `updates` the optimiser's own counter. `recent_norms` is what the rule for skipped steps remembers.
    `model` holds the fields of the architecture, `data_hash` stands for the data of all stages, `config` for the
    resolved options. `validation` is the main validation loss at this very step, if it was measured (or the score of
    `trainer.keep_best_by`, times -1). `fork` says which
    checkpoint of another run this run began from. `languages` is the record of `models/trained_languages.py`, None in
    a checkpoint older than it. `files`: name -> {bytes, sha256}.
    `losses` holds for each rank the sums of the steps since the last line of metrics.jsonl (`LossSums.state`).
    """

    step: int
    samples: int
    tokens: int
    elapsed: float
    updates: int
    model: dict[str, Any]
    vocab_size: int
    tokenizer_hash: str
    data_hash: str
    config: dict[str, Any]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: int = 0
    skipped_tokens: int = 0
    consumed: dict[str, int] = field(default_factory=dict)
    recent_norms: list[float] = field(default_factory=list)
    losses: list[dict[str, list[float]]] = field(default_factory=list)
    wandb_id: str | None = None
    validation: float | None = None
    fork: dict[str, Any] | None = None
    languages: dict[str, Any] | None = None
    format: int = FORMAT

    @property
    def progress(self) -> Progress:
        """How far the run was, as a trainer counts on from it."""
        return Progress(
            self.step, self.skipped, self.samples, self.tokens, self.skipped_tokens, consumed=dict(self.consumed)
        )


@dataclass(frozen=True)
class Keep:
    """Which checkpoints of a run stay: the `last` ones, the `best` ones by validation loss, and one every `every`
    steps: the first at or after each multiple (a step that was skipped is not saved, but the next one)."""

    last: int = 2
    best: int = 0
    every: int | None = None

    def of(self, losses: Mapping[int, float | None]) -> set[int]:
        """Return the steps to keep, given the validation loss (None: not measured) of each step there is."""
        steps = sorted(losses)
        lasting = set()
        if self.every:
            lasting = {s for before, s in pairwise([0, *steps]) if s // self.every > before // self.every}
        return set(steps[-self.last :]) | set(by_loss(losses)[: self.best]) | lasting


def by_loss(losses: Mapping[int, float | None]) -> list[int]:
    """Return the steps that have a loss (NaN is none), best first; of two equal losses the earlier step is better."""
    return [s for _, s in sorted((loss, s) for s, loss in losses.items() if loss is not None and not math.isnan(loss))]


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    state: RunState

    def weights(self) -> dict[str, torch.Tensor]:
        """Read the weights (fp32), under the names of the model's `state_dict`."""
        return load_file(self.path / WEIGHTS)

    def optimizer(self) -> dict[str, torch.Tensor]:
        """Read the optimiser's state, "<state>/<parameter>" -> fp32 tensor; empty if it had made no update yet."""
        return load_file(self.path / OPTIMIZER)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Read the shapes of the weights, without the weights."""
        with safe_open(self.path / WEIGHTS, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118, it is no mapping


class CheckpointFolder:
    """The checkpoints of one run. Only rank 0 may write."""

    def __init__(self, run_dir: str | Path) -> None:
        self.path = Path(run_dir) / "checkpoints"
        self._good: Path | None = None  # known to be good, so never pruned before the next one is

    def steps(self) -> list[Path]:
        """Return the checkpoint folders, oldest first (whole by construction, but not yet verified)."""
        return sorted(path for path in self.path.glob("step-*") if _NAME.fullmatch(path.name) and path.is_dir())

    def losses(self) -> dict[int, float | None]:
        """Return step -> validation loss at that step, None where it was not measured or cannot be read."""
        return {_step_of(path): _validation_of(path) for path in self.steps()}

    def trust(self, step: int) -> None:
        """Take a step's checkpoint, which the run goes on from, for good: it stays until the next one is verified."""
        self._good = self.path / name_of(step)

    def save(
        self,
        state: RunState,
        weights: Mapping[str, torch.Tensor],
        optimizer: Mapping[str, torch.Tensor],
        keep: Keep,
    ) -> Path:
        """Write a checkpoint, verify it, move `latest` to it, and remove what `keep` does not keep.

        Removal comes BEFORE the writing, so that the disk never holds more than it must, but the last good one stays
        until the new one is verified. Tensors must be on the host; they are written as they lie, without a copy.
        Raises InputError if the file system has too little room, before anything is written; OSError if writing fails
        nevertheless.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in (*self.path.glob(".step-*.tmp"), *self.path.glob(".step-*.old")):
            shutil.rmtree(leftover)
        self._prune(keep, state)
        name = name_of(state.step)
        self._require_space(sum(tensor.nbytes for part in (weights, optimizer) for tensor in part.values()), name)
        temporary, target = self.path / f".{name}.tmp", self.path / name
        temporary.mkdir()
        try:
            files = {WEIGHTS: write_tensors(temporary / WEIGHTS, weights)}
            files[OPTIMIZER] = write_tensors(temporary / OPTIMIZER, optimizer)
            _write(temporary / STATE, [_state_text(replace(state, files=files)).encode()])
            fsync_directory(temporary)
            verify(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if target.exists():  # a damaged one that resuming stepped over
            _remove(target)
        temporary.rename(target)
        fsync_directory(self.path)
        atomic_write_text(self.path / LATEST, name)
        self._good = target
        self._prune(keep, state)
        return target

    def note_validation(self, step: int, loss: float) -> None:
        """Enter the validation loss of a step that was saved before it was measured. No checkpoint: nothing to do."""
        path = self.path / name_of(step) / STATE
        if path.is_file():
            atomic_write_text(path, _state_text(replace(_read_state(path), validation=loss)))

    def last_good(self) -> Checkpoint | None:
        """Return the newest checkpoint that verifies, None if there is none at all; log each one that does not.

        Raises InputError if checkpoints exist but none is good, or the newest is of another format.
        """
        found = self._first_good(reversed(self.steps()))
        self._good = found.path if found is not None else None
        return found

    def best(self) -> Checkpoint:
        """Return the good checkpoint of the lowest validation loss. Raises InputError if no checkpoint has a loss."""
        found = self._first_good(self.path / name_of(step) for step in by_loss(self.losses()))
        if found is None:
            raise InputError(
                f"no checkpoint in '{self.path}' has a validation loss to choose the best one by: name a checkpoint, "
                "or train with trainer.keep_best above 0"
            )
        return found

    def _first_good(self, candidates: Iterable[Path]) -> Checkpoint | None:
        paths = list(candidates)
        for number, path in enumerate(paths, start=1):
            try:
                return Checkpoint(path, verify(path))
            except OtherFormat:
                raise
            except (InputError, OSError) as error:
                further = "trying the one before it" if number < len(paths) else "and there is none before it"
                logger.warning("the checkpoint %s is damaged (%s): %s", path, error, further)
        if paths:
            raise InputError(
                f"none of the {len(paths)} checkpoints in {self.path} is whole: restore one of them, or start "
                "anew in another run_dir"
            )
        return None

    def _prune(self, keep: Keep, state: RunState) -> None:
        """Remove what will not be kept once `state` is saved too, and later ones, which resuming stepped over."""
        losses = {step: loss for step, loss in self.losses().items() if step < state.step}
        kept = keep.of(losses | {state.step: state.validation})
        good = self._good.name if self._good is not None else self._latest()
        for path in self.steps():
            if _step_of(path) not in kept and path.name != good:
                _remove(path)

    def _latest(self) -> str | None:
        pointer = self.path / LATEST
        return pointer.read_text(encoding="utf-8", errors="replace").strip() if pointer.is_file() else None

    def _require_space(self, needed: int, name: str) -> None:
        free = shutil.disk_usage(self.path).free
        if free < needed + _SPARE_BYTES:
            raise InputError(
                f"the checkpoint {name} needs {(needed + _SPARE_BYTES) / 2**20:.0f} MiB in {self.path}, but only "
                f"{free / 2**20:.0f} MiB are free: free some space and start again, the run goes on from its last "
                "checkpoint"
            )


class OtherFormat(InputError):
    """A checkpoint that is whole, but that another version of the program wrote."""


def verify(path: Path) -> RunState:
    """Return the state of a folder whose files match their checksums. Raises InputError naming what does not."""
    state = _read_state(path / STATE)
    for name in (WEIGHTS, OPTIMIZER):
        expected, file = state.files.get(name, {}), path / name
        if not file.is_file() or file.stat().st_size != expected.get("bytes"):
            found = f"{file.stat().st_size}" if file.is_file() else "no"
            raise InputError(f"{file} must have {expected.get('bytes')} bytes, but has {found}")
        if sha256_file(file) != expected.get("sha256"):
            raise InputError(f"{file} does not match its checksum")
    return state


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Return what `path` names, verified: a checkpoint folder, a run directory (its last good checkpoint), or `best`
    or `last` under a run directory.

    Raises InputError if it is none of these, or damaged.
    """
    folder = Path(path)
    if (folder / STATE).is_file():
        return Checkpoint(folder, verify(folder))
    chosen = folder.name in ("best", "last") and not folder.exists()
    place = folder.parent if chosen else folder
    checkpoints = CheckpointFolder(place.parent if place.name == "checkpoints" else place)
    if checkpoints.steps():
        found = checkpoints.best() if chosen and folder.name == "best" else checkpoints.last_good()
        assert found is not None  # there are some, and none being good raises
        return found
    raise InputError(
        f"'{path}' must be a checkpoint (a folder with {STATE}) or a run_dir that holds one, but there is none: check "
        "the path"
    )


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Write host tensors in the safetensors format (huggingface.co/docs/safetensors: length of the header, header,
    data), sync, and return {bytes, sha256} of what was meant to be written.

    Tensor by tensor: the hash is of the memory, not of the file, so that reading back finds what the disk lost, and
    no copy of the state is made.
    """
    # Wider elements first, so that each tensor is aligned to its own width.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {}, 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        shape = list(tensors[name].shape)
        header[name] = {"dtype": _DTYPES[tensors[name].dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = (_bytes_of(tensors[name]) for name in order if tensors[name].numel())
    return _write(path, itertools.chain((struct.pack("<Q", len(text)), text), data))


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("wb") as handle:
            for part in parts:
                digest.update(part)
                size += handle.write(part)
            handle.flush()
            os.fsync(handle.fileno())
            if hasattr(os, "posix_fadvise"):  # so that verification reads the disk rather than the memory
                os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk does not say which file
        raise
    return {"bytes": size, "sha256": digest.hexdigest()}


def _state_text(state: RunState) -> str:
    record = json.loads(json.dumps(asdict(state), default=str))
    return json.dumps({**record, _CHECKSUM: _checksum(record)}, indent=1)


def _checksum(record: Mapping[str, Any]) -> str:
    """Hash a record independently of how its JSON is laid out."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _read_state(path: Path) -> RunState:
    """Read a `state.json`. Raises InputError if it is damaged, OtherFormat if another version wrote it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it holds no JSON object")
        checksum, found = record.pop(_CHECKSUM, None), record.get("format")
        without_checksum = found == 1 and checksum is None and {"step", "files", "config"} <= record.keys()
        if not without_checksum and checksum != _checksum(record):
            raise InputError(f"{path} does not match its checksum")
        if found != FORMAT:
            raise OtherFormat(
                f"the checkpoint '{path.parent}' is of format {found}, but this version reads format {FORMAT}: go on "
                "with the version that wrote it, or start another run_dir from its weights with init_from"
            )
        return RunState(**record)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _validation_of(path: Path) -> float | None:
    try:
        return _read_state(path / STATE).validation
    except InputError:
        return None


def name_of(step: int) -> str:
    """Return the name of the folder of a step."""
    return f"step-{step:08d}"


def _step_of(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    assert found is not None, path
    return int(found.group(1))


def _remove(path: Path) -> None:
    """Remove a folder; a kill in the middle of it leaves no half of it under its own name."""
    aside = path.with_name(f".{path.name}.old")
    path.rename(aside)
    shutil.rmtree(aside)
