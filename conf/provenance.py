"""Where a result came from: resolved configuration, git state, versions, seeds and input hashes in one small file.

Must not import the project's other packages.
"""

import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from conf.command_line import shell_line, typed_command
from conf.files import atomic_write_text

RECORDED_PACKAGES = (
    "torch",
    "deepspeed",
    "transformers",
    "tokenizers",
    "datasets",
    "apache-beam",
    "pyarrow",
    "numpy",
    "hydra-core",
    "omegaconf",
    "safetensors",
    "palimpsest",
)
CONFIG, PROVENANCE = "config.yaml", "provenance.json"
# What tells one start of a command from the next, and nothing of what comes out.
OF_ONE_START = ("command", "started")


def config_hash(config: DictConfig | Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a resolved configuration, independent of the order of its keys."""
    plain = OmegaConf.to_container(config, resolve=True) if isinstance(config, DictConfig) else config
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def git_state(directory: Path | None = None) -> dict[str, Any]:
    """`{"commit": ..., "dirty": ...}` of the source tree, both None where it is not a git checkout."""
    where = directory or Path(__file__).resolve().parent.parent

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", "conf/__init__.py") is None:
        # An installed wheel may lie inside some other project's checkout, whose commit says nothing of this code.
        return {"commit": None, "dirty": None}
    status = git("status", "--porcelain", "--untracked-files=no")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape results; a package that is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_provenance(
    directory: str | Path, config: DictConfig, inputs: Mapping[str, str], seeds: Mapping[str, int]
) -> None:
    """Write `config.yaml` (resolved) and `provenance.json` into a run directory.

    Where they are there already and would differ in nothing but the command's words and the time, they are left as
    they are: the same command, typed again, is the same run.

    Args:
        directory: an existing directory.
        config: the command's configuration.
        inputs: name -> hash of what the command reads.
        seeds: name -> seed.
    """
    directory = Path(directory)
    record = {
        "command": shell_line(typed_command()),
        "config_hash": config_hash(config),
        "git": git_state(),
        "versions": versions(),
        "seeds": dict(seeds),
        "inputs": dict(inputs),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"platform": platform.platform(), "processor": platform.machine()},
    }
    resolved = OmegaConf.to_yaml(config, resolve=True)
    if _lasting(_read(directory / PROVENANCE)) == _lasting(record) and _text(directory / CONFIG) == resolved:
        return
    atomic_write_text(directory / CONFIG, resolved)
    atomic_write_text(directory / PROVENANCE, json.dumps(record, indent=2, sort_keys=True) + "\n")


def _lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in OF_ONE_START}


def _read(path: Path) -> dict[str, Any]:
    """The JSON object in a file; nothing where there is none."""
    try:
        found = json.loads(_text(path))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
