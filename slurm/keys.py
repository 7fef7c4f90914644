"""The key of a step: what its result depends on, and in words what of that has changed.

The key covers the resolved configuration, the content of the files it reads, the runs of the steps it needs, and the
version of its code. It does not cover where the run directory lies, so a run may be moved or copied. Must not import
`pipeline` or `pretrain`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.errors import InputError
from slurm.chain import Chain, Step
from slurm.code_version import code_version
from slurm.fingerprints import Fingerprints, files_below, matching

RUN_DIR = "$run_dir"
# A folder is taken as an input only where the option or the text looks like a path: "text" or "docs" may be the name
# of a choice and, by chance, of a folder in the working directory.
PATH_OPTIONS = ("path", "paths", "file", "files", "directory", "data", "checkpoint", "tokenizer", "tasks")


@dataclass(frozen=True)
class Parts:
    """What a step's result depends on; every part maps a name to a value or hash.

    Attributes:
        command: the module that `python -m` runs.
        config: dotted option -> value, the run directory written as `$run_dir`.
        inputs: file -> fingerprint of its content.
        packages: installed package -> version, for a step that reads the installed packages.
        needs: step -> which run of it left the outputs that this step reads.
        code: source file -> hash.
    """

    command: str
    config: dict[str, Any]
    inputs: dict[str, str]
    packages: dict[str, str]
    needs: dict[str, str]
    code: dict[str, str]

    def key(self) -> str:
        """SHA-256 over all parts, as hex."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def compute_parts(
    chain: Chain, step: Step, config: DictConfig, needs: Mapping[str, str], fingerprints: Fingerprints
) -> Parts:
    """The parts of a step's key, as things are now.

    Args:
        chain: the chain the step belongs to.
        step: the step.
        config: the composed configuration of its command.
        needs: for each step it needs, the identity of that step's last run.
        fingerprints: hashes of files, which are looked up and remembered here.

    Raises:
        InputError: an option without a value, an input that does not exist, or a path of another step's outputs that
            the step does not say it needs.
    """
    plain = _plain(config, step)
    return Parts(
        command=step.module,
        config={name: _relocatable(value, chain.run_dir) for name, value in _leaves(plain, "")},
        inputs=_inputs(chain, step, plain, fingerprints),
        packages=installed_packages() if step.reads_installed_packages else {},
        needs=dict(needs),
        code=code_version(step.module, _targets(plain)),
    )


def names_an_output(chain: Chain, value: Any) -> bool:
    """Whether a configuration, as plain values, names a path that a step of the chain writes."""
    paths = (_inside(text, chain.run_dir) for _, text in _strings(value, ""))
    return any(path is not None and _owner(chain, path) is not None for path in paths)


def differences(old: Parts, new: Parts) -> list[str]:
    """In words, what differs between two sets of parts; empty exactly when their keys are equal."""
    found = []
    if old.command != new.command:
        found.append(f"command changed {old.command} -> {new.command}")
    for name in _names(old.config, new.config):
        if name not in old.config:
            found.append(f"option {name} is new: {_short(new.config[name])}")
        elif name not in new.config:
            found.append(f"option {name} is gone")
        elif json.dumps(old.config[name], sort_keys=True) != json.dumps(new.config[name], sort_keys=True):
            found.append(f"option {name} changed {_short(old.config[name])} -> {_short(new.config[name])}")
    for name in _names(old.packages, new.packages):
        if old.packages.get(name) != new.packages.get(name):
            before, after = old.packages.get(name, "absent"), new.packages.get(name, "absent")
            found.append(f"installed package {name} changed {before} -> {after}")
    for noun, before_all, after_all in (
        ("input", old.inputs, new.inputs),
        ("step", old.needs, new.needs),
        ("code of", old.code, new.code),
    ):
        for name in _names(before_all, after_all):
            if before_all.get(name) != after_all.get(name):
                found.append(_difference(noun, name, before_all, after_all))
    return found


def installed_packages() -> dict[str, str]:
    """Version of every installed package."""
    found = {item.metadata["Name"]: item.version for item in metadata.distributions() if item.metadata["Name"]}
    return dict(sorted(found.items()))


def _difference(noun: str, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    what = "is new" if name not in before else "is gone" if name not in after else "changed"
    if noun == "step":
        return (
            f"step {name}, which it needs, has run again" if what == "changed" else f"step {name} {what} in its needs"
        )
    return f"{noun} {name} {what}"


def _plain(config: DictConfig, step: Step) -> dict[str, Any]:
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        option = getattr(error, "full_key", None)
        what = f"option '{option}'" if option else "its configuration"
        raise InputError(f"step '{step.name}': {what} has no usable value: {str(error).splitlines()[0]}") from error
    assert isinstance(plain, dict)
    return {str(name): value for name, value in plain.items()}


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Dotted name and value of everything that is not a non-empty mapping; lists count as one value, and so does a
    mapping by path."""
    if isinstance(value, dict) and value and not _is_by_path(value):
        for key, child in value.items():
            yield from _leaves(child, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _is_by_path(value: dict[Any, Any]) -> bool:
    """Whether the keys of a mapping are paths, as in `data`: no option's name has a slash."""
    return any("/" in str(key) for key in value)


def _strings(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, child in value.items():
            if "/" in str(key):
                yield name, str(key)
            yield from _strings(child, str(key))
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child, name)


def _targets(value: Any) -> list[str]:
    return [text for name, text in _strings(value, "") if name == "_target_"]


def _relocatable(value: Any, run_dir: Path) -> Any:
    if isinstance(value, list):
        return [_relocatable(item, run_dir) for item in value]
    if isinstance(value, dict):
        return {str(_relocatable(str(key), run_dir)): _relocatable(item, run_dir) for key, item in value.items()}
    if isinstance(value, str):
        inside = _inside(value, run_dir)
        return value if inside is None else f"{RUN_DIR}/{inside.as_posix()}"
    return value


def _inside(text: str, run_dir: Path) -> Path | None:
    """The path relative to the run directory, or None when `text` is no path in it."""
    if not text or len(text) > 4096 or "\n" in text:
        return None
    try:
        return Path(text).absolute().relative_to(run_dir.absolute())
    except ValueError:
        return None


def _inputs(chain: Chain, step: Step, plain: dict[str, Any], fingerprints: Fingerprints) -> dict[str, str]:
    needed = chain.all_needs(step) | {step.name}
    found: dict[str, str] = {}
    for option, text, declared in [
        *((name, text, False) for name, text in _strings(plain, "") if name != "_target_"),
        *(("inputs", text, True) for text in step.inputs),
    ]:
        inside = _inside(text, chain.run_dir)
        if inside is not None:
            owner = _owner(chain, inside)
            if owner is not None and owner not in needed:
                raise InputError(
                    f"step '{step.name}' names '{text}', an output of step '{owner}', which it does not need: "
                    f"add {owner} to chain.steps.{step.name}.needs"
                )
            if owner is not None or inside == Path():
                continue
        paths = matching(text) if 0 < len(text) < 4096 and "\0" not in text else []
        if declared and not paths:
            raise InputError(f"step '{step.name}': its input '{text}' does not exist")
        for path in paths:
            if path.is_dir() and not declared and "/" not in text and option not in PATH_OPTIONS:
                continue
            for file in files_below(path):
                found[str(_relocatable(str(file), chain.run_dir))] = fingerprints.of(file)
    return dict(sorted(found.items()))


def _owner(chain: Chain, inside: Path) -> str | None:
    for step in chain.steps:
        for output in step.outputs:
            if Path(output) == inside or Path(output) in inside.parents:
                return step.name
    return None


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return sorted({*old, *new})


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
