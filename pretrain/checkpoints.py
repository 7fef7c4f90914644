"""Checkpoints on disk: whole or not there, checked when read, free of any trace of ranks and ZeRO stages.

    run_dir/checkpoints/step-00000200/{model.safetensors, optimizer.safetensors, state.json}
    run_dir/checkpoints/latest                 the name of the last verified folder

A folder is written under a temporary name, every file synced, then renamed; `state.json` holds a SHA-256 of each
file. Must not import deepspeed, Hydra or the trainer.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from conf.errors import InputError
from conf.files import atomic_write_text, fsync_directory, sha256_file

logger = logging.getLogger(__name__)

FORMAT = 1
WEIGHTS, OPTIMIZER, STATE, LATEST = "model.safetensors", "optimizer.safetensors", "state.json", "latest"
_SPARE_BYTES = 16 << 20


@dataclass(frozen=True)
class RunState:
    """What a checkpoint says of its run. `step` counts updates made, `samples` rows consumed, `tokens` real tokens.

    `model` holds the fields of the architecture, `config` the resolved options, `updates` the optimiser's counter,
    `elapsed` the seconds spent training, `files` name -> {bytes, sha256}.
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
    files: dict[str, dict[str, Any]]
    format: int = FORMAT


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    state: RunState

    def weights(self) -> dict[str, torch.Tensor]:
        """Read the weights (fp32), under the names of the model's `state_dict`."""
        return load((self.path / WEIGHTS).read_bytes())

    def optimizer(self) -> dict[str, torch.Tensor]:
        """Read the optimiser's state, "<state>/<parameter>" -> fp32 tensor."""
        return load((self.path / OPTIMIZER).read_bytes())


class CheckpointFolder:
    """The checkpoints of one run. Only rank 0 may write."""

    def __init__(self, run_dir: str | Path) -> None:
        self.path = Path(run_dir) / "checkpoints"

    def steps(self) -> list[Path]:
        """Return the checkpoint folders, oldest first (whole by construction, but not yet verified)."""
        return sorted(path for path in self.path.glob("step-*") if path.is_dir())

    def save(
        self,
        state: RunState,
        weights: Mapping[str, torch.Tensor],
        optimizer: Mapping[str, torch.Tensor],
        keep_last: int,
    ) -> Path:
        """Write a checkpoint, verify it, move `latest` to it, and remove all but the last `keep_last`.

        Old ones beyond what is kept go BEFORE the new one is written, but never the last. Raises InputError if the
        file system has too little room, before anything is written; OSError if writing fails nevertheless.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in self.path.glob(".*.tmp"):
            shutil.rmtree(leftover)
        self._prune(max(1, keep_last - 1))
        name = f"step-{state.step:08d}"
        self._require_space(sum(tensor.nbytes for part in (weights, optimizer) for tensor in part.values()), name)
        temporary, target = self.path / f".{name}.tmp", self.path / name
        temporary.mkdir()
        try:
            files = {}
            for file_name, tensors in ((WEIGHTS, weights), (OPTIMIZER, optimizer)):
                files[file_name] = _write(temporary / file_name, save(dict(tensors)))
            record = json.dumps(asdict(replace(state, files=files)), indent=1, default=str)
            _write(temporary / STATE, record.encode())
            fsync_directory(temporary)
            _verify(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        if target.exists():  # a damaged one that resuming stepped over
            shutil.rmtree(target)
        temporary.rename(target)
        fsync_directory(self.path)
        atomic_write_text(self.path / LATEST, name)
        self._prune(keep_last)
        return target

    def last_good(self) -> Checkpoint | None:
        """Return the newest checkpoint that verifies, None if there is none at all; log each one that does not.

        Raises InputError if checkpoints exist but none is good.
        """
        candidates = self.steps()
        for path in reversed(candidates):
            try:
                return Checkpoint(path, _verify(path))
            except (InputError, OSError) as error:
                logger.warning("the checkpoint %s is damaged (%s): trying the one before it", path, error)
        if candidates:
            raise InputError(
                f"none of the {len(candidates)} checkpoints in {self.path} is whole: restore one of them, or start "
                "anew in another run_dir"
            )
        return None

    def _prune(self, keep: int) -> None:
        for path in self.steps()[:-keep]:
            shutil.rmtree(path)

    def _require_space(self, needed: int, name: str) -> None:
        free = shutil.disk_usage(self.path).free
        if free < needed + _SPARE_BYTES:
            raise InputError(
                f"the checkpoint {name} needs {(needed + _SPARE_BYTES) / 2**20:.0f} MiB in {self.path}, but only "
                f"{free / 2**20:.0f} MiB are free: free some space and start again, the run goes on from its last "
                "checkpoint"
            )


def _write(path: Path, data: bytes) -> dict[str, Any]:
    with path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _verify(path: Path) -> RunState:
    """Return the state of a folder whose files match their checksums. Raises InputError naming what does not."""
    try:
        record = json.loads((path / STATE).read_text(encoding="utf-8"))
        if record.get("format") != FORMAT:
            raise InputError(f"{path / STATE} must be of format {FORMAT}, but is {record.get('format')}")
        state = RunState(**record)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path / STATE} cannot be read: {error}") from error
    for name in (WEIGHTS, OPTIMIZER):
        expected, file = state.files.get(name, {}), path / name
        if not file.is_file() or file.stat().st_size != expected.get("bytes"):
            found = f"{file.stat().st_size}" if file.is_file() else "no"
            raise InputError(f"{file} must have {expected.get('bytes')} bytes, but has {found}")
        if sha256_file(file) != expected.get("sha256"):
            raise InputError(f"{file} does not match its checksum")
    return state


def require_same_run(
    checkpoint: Checkpoint, model: Mapping[str, Any], vocab_size: int, tokenizer_hash: str, data_hash: str
) -> None:
    """Check that a checkpoint fits the run that is to go on from it. Raises InputError naming what differs."""
    state, way_out = checkpoint.state, "give the options the run was started with, or another run_dir"
    for name in sorted({*state.model, *model}):
        if state.model.get(name) != model.get(name):
            raise InputError(
                f"the checkpoint {checkpoint.path} holds a model with {name}={state.model.get(name)}, but model.{name} "
                f"is {model.get(name)}: {way_out}"
            )
    if state.tokenizer_hash != tokenizer_hash:
        raise InputError(
            f"the shards were made with another tokenizer ({tokenizer_hash}) than the model of the checkpoint "
            f"{checkpoint.path} ({state.tokenizer_hash}): {way_out}"
        )
    if state.vocab_size != vocab_size:
        raise InputError(
            f"the checkpoint {checkpoint.path} has a vocabulary of {state.vocab_size}, but the shards have "
            f"{vocab_size}: {way_out}"
        )
    if state.data_hash != data_hash:
        raise InputError(
            f"the checkpoint {checkpoint.path} was trained on shards with content hash {state.data_hash}, but the "
            f"shards now have {data_hash}: {way_out}"
        )
