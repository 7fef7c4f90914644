"""A chain: its steps, the command line of each, and the order they run in.

Pure functions from the composed submit configuration to `Step`s. Nothing here touches the disk or starts a process.
Must not import `pipeline` or `pretrain`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.checks import nearest, suggestion
from conf.command_line import override_name, quote
from conf.errors import InputError
from slurm.rounds import in_round, name_in_round, needs_in_round, rounds_of

STEP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Step:
    """One command of a chain.

    Attributes:
        name: the step's name in the chain file.
        module: what `python -m` runs, such as `pretrain.evaluate`.
        config_name: the command's primary configuration, `conf/<config_name>.yaml`.
        overrides: its command line after the module: Hydra overrides.
        needs: names of the steps whose outputs it reads.
        inputs: files, folders and globs it reads that its configuration does not name.
        outputs: files and folders it writes, relative to the run directory.
        reads_installed_packages: the installed packages are an input of it (the demo's corpus is their documentation).
        passes: groups that the command line of `slurm.submit` hands on to it.
        config_dir: the user's own configuration folder, which the command is given too.
    """

    name: str
    module: str
    config_name: str
    overrides: tuple[str, ...]
    needs: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    reads_installed_packages: bool = False
    passes: tuple[str, ...] = ()
    config_dir: str | None = None

    def arguments(self) -> list[str]:
        """The command line after `python`."""
        folder = [] if self.config_dir is None else ["--config-dir", self.config_dir]
        return ["-m", self.module, *folder, *self.overrides]


@dataclass(frozen=True)
class Chain:
    """The steps of a chain in the order they run, and the directory they write to."""

    name: str
    run_dir: Path
    steps: tuple[Step, ...]

    def all_needs(self, step: Step) -> set[str]:
        """Names of the steps that `step` depends on, directly or through others."""
        by_name = {other.name: other for other in self.steps}
        found: set[str] = set()
        waiting = list(step.needs)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(by_name[name].needs)
        return found


@dataclass
class StepOptions:
    """One step as a chain file writes it (`chain.steps.<name>`).

    Attributes:
        command: the module to run: pipeline, pretrain, pretrain.export, pretrain.evaluate, pretrain.report.
        config: the command's primary configuration; the last part of `command` unless given.
        needs: steps that must have run before.
        groups: choices of Hydra groups, such as `job: masked_lm`.
        options: the command's options, nested as in its own configuration.
        passes: groups that the user's own command line of `slurm.submit` hands on to this step.
        inputs: files, folders, globs it reads that its options do not name.
        outputs: what it writes, relative to the run directory; `[<name>]` unless given.
        reads_installed_packages: see `Step`.
        round: first, later or each for a step that is repeated (`slurm.rounds`); None runs once.
    """

    command: str
    config: str | None = None
    needs: list[str] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] | None = None
    reads_installed_packages: bool = False
    round: str | None = None


def read_chain(config: DictConfig, run_dir: str, user_overrides: Sequence[str]) -> Chain:
    """The chain that a composed submit configuration describes.

    Args:
        config: the node `chain`: `name`, `steps`, and, where some of them are repeated, `rounds` and
            `later_rounds_need`, the chain's own options that more than one round needs.
        run_dir: the run directory, as the user wrote it.
        user_overrides: the overrides on the command line of `slurm.submit`; those of a group that a step `passes` are
            handed to that step.

    Raises:
        InputError: an unknown key, a step that needs an unknown step, steps that need each other in a circle, two steps
            with one output, or more rounds without an option that they need.
    """
    steps_node = config.get("steps")
    if not isinstance(steps_node, DictConfig) or not steps_node:
        raise InputError("a chain must have 'steps', a mapping of step names to steps, but this one has none")
    for name, node in steps_node.items():
        _refuse_mistyped_name(str(name), node, steps_node)
    rounds = config.get("rounds", 1)
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise InputError(f"chain.rounds must be a whole number from 1 on, but is {rounds!r}")
    if rounds > 1:
        _require_options_of_later_rounds(config, rounds)
    typed = {str(name): _read_options(str(name), node) for name, node in steps_node.items()}
    kinds = {name: options.round for name, options in typed.items()}
    steps = [
        _step(name, options, number, kinds, rounds, user_overrides)
        for name, options in typed.items()
        for number in rounds_of(options.round, rounds, f"chain.steps.{name}")
    ]
    _check_outputs(steps)
    return Chain(str(config.get("name", "chain")), Path(run_dir), tuple(in_dependency_order(steps)))


def check_passed_groups(config: DictConfig, groups: Iterable[str]) -> None:
    """Refuse a group on the command line (such as `corpus=text`) that no step of the chain would receive.

    Raises:
        InputError: the group and the chain are named.
    """
    taken = {str(group) for node in config.steps.values() for group in node.get("passes", [])}
    for group in groups:
        if group not in taken:
            raise InputError(
                f"no step of the chain '{config.get('name')}' takes '{group}' from the command line "
                f"(it takes {', '.join(sorted(taken)) or 'none'}); choose another chain, "
                f"or set it for one step with chain.steps.STEP.groups.{group}=..."
            )


def config_name_of(command: str, config: str | None) -> str:
    """The primary configuration of a step's command: the one the step names, or the last part of the command."""
    return config or command.rsplit(".", 1)[-1]


def in_dependency_order(steps: Sequence[Step]) -> list[Step]:
    """The steps, each after all it needs; otherwise in the order given.

    Raises:
        InputError: a step needs one that does not exist, or steps need each other in a circle.
    """
    names = [step.name for step in steps]
    for step in steps:
        for need in step.needs:
            if need not in names:
                raise InputError(f"step '{step.name}' needs '{need}', which is no step: {suggestion(need, names)}")
    ordered: list[Step] = []
    done: set[str] = set()
    waiting = list(steps)
    while waiting:
        ready = next((step for step in waiting if done.issuperset(step.needs)), None)
        if ready is None:
            circle = ", ".join(step.name for step in waiting)
            raise InputError(f"steps need each other in a circle, so none can run first: {circle}")
        ordered.append(ready)
        done.add(ready.name)
        waiting.remove(ready)
    return ordered


def override_lines(
    groups: Mapping[str, str], options: Mapping[str, Any], passed: Sequence[str] = ()
) -> tuple[str, ...]:
    """A step's Hydra overrides: group choices first, then options, then what the user's command line passes on.

    A choice or option that the user passes replaces the step's own, because Hydra takes one value for each.
    """
    own = [f"{group}={quote(choice)}" for group, choice in groups.items()]
    own += [f"{name}={quote(value)}" for name, value in flatten(options)]
    replaced = {override_name(line) for line in passed}
    return tuple([line for line in own if override_name(line) not in replaced] + list(passed))


def passed_overrides(user_overrides: Sequence[str], groups: Iterable[str]) -> list[str]:
    """Those of the user's overrides that choose one of `groups` or set an option below it."""
    wanted = set(groups)
    return [line for line in user_overrides if override_name(line).split(".", 1)[0] in wanted]


def flatten(options: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested options as `(dotted name, value)`; an empty mapping is a value.

    A `+` before a key (an option that the command's YAML does not list, but its `_target_` takes) moves to the front.
    `key=` takes a mapping for its value as it stands, or as a list of [name, value], whose names may have `${...}` in
    them, which no key of a YAML file may: `data=: [["${run_dir}/a", 0.5], ["${run_dir}/b", 1.0]]`.
    """
    flat: list[tuple[str, Any]] = []
    for key, value in options.items():
        name = f"{prefix}{key}"
        if key.endswith("=") and isinstance(value, Sequence) and not isinstance(value, str):
            value = dict(value)
        if isinstance(value, Mapping) and value and not key.endswith("="):
            flat += flatten(value, f"{name}.")
        else:
            plus = "+" if "+" in name else ""
            flat.append((plus + name.replace("+", "").removesuffix("="), value))
    return flat


def _refuse_mistyped_name(name: str, node: Any, steps: DictConfig) -> None:
    """Refuse a step without a command that is named much like another: `+chain.steps.NAME...` made it by a typo."""
    if not isinstance(node, DictConfig) or node.get("command"):
        return
    others = [str(other) for other, step in steps.items() if isinstance(step, DictConfig) and step.get("command")]
    close = nearest(name, others)
    if close is not None:
        raise InputError(f"the chain has no step '{name}': did you mean '{close}'?")


def _require_options_of_later_rounds(config: DictConfig, rounds: int) -> None:
    """Refuse rounds after the first without what they read, before a step's own options are looked at."""
    for option in config.get("later_rounds_need", []):
        if OmegaConf.select(config, option) is None:
            raise InputError(
                f"chain.rounds is {rounds}, and every round after the first needs chain.{option}, which is not given: "
                f"add chain.{option}=VALUE to the command line, or set chain.rounds=1"
            )


def _read_options(name: str, node: Any) -> StepOptions:
    where = f"chain.steps.{name}"
    if not STEP_NAME.fullmatch(name):
        raise InputError(f"a step's name must be a word of letters, digits and _, but is '{name}'")
    if not isinstance(node, DictConfig):
        raise InputError(f"'{where}' must be a mapping with at least 'command', but is {node!r}")
    known = list(StepOptions.__dataclass_fields__)
    for key in node:
        if key not in known:
            raise InputError(f"'{where}' has no option '{key!s}': {suggestion(str(key), known)}")
    if not node.get("command"):
        raise InputError(f"'{where}.command' must name the module to run, such as pretrain.evaluate")
    try:
        typed = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(StepOptions), _resolved(node, where)))
    except OmegaConfBaseException as error:
        raise InputError(f"'{where}' does not fit: {' '.join(str(error).split())}") from error
    assert isinstance(typed, StepOptions)
    dotted = next((key for key in _keys(typed.options) if "." in key), None)
    if dotted is not None:
        raise InputError(f"'{where}.options' must be nested, but has the dotted key '{dotted}': write a: {{b: 1}}")
    return typed


def _step(
    name: str,
    typed: StepOptions,
    number: int | None,
    kinds: Mapping[str, str | None],
    rounds: int,
    user_overrides: Sequence[str],
) -> Step:
    """The step of one round, or of none."""
    full_name, where = name_in_round(name, number), f"chain.steps.{name}"
    groups, options = in_round(typed.groups, number), in_round(typed.options, number)
    outputs = [full_name] if typed.outputs is None else in_round(typed.outputs, number)
    return Step(
        name=full_name,
        module=typed.command,
        config_name=config_name_of(typed.command, typed.config),
        overrides=override_lines(groups, options, passed_overrides(user_overrides, typed.passes)),
        needs=tuple(needs_in_round(typed.needs, number, kinds, rounds, where)),
        outputs=tuple(outputs),
        inputs=tuple(in_round(typed.inputs, number)),
        reads_installed_packages=typed.reads_installed_packages,
        passes=tuple(typed.passes),
    )


def _resolved(node: DictConfig, where: str) -> Any:
    try:
        return OmegaConf.create(OmegaConf.to_container(node, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise InputError(f"'{where}' cannot be resolved: {' '.join(str(error).split())}") from error


def _keys(options: Mapping[str, Any]) -> Iterable[str]:
    for key, value in options.items():
        yield str(key)
        if isinstance(value, Mapping) and not str(key).endswith("="):
            yield from _keys(value)


def _check_outputs(steps: Sequence[Step]) -> None:
    owners: dict[Path, str] = {}
    for step in steps:
        for output in step.outputs:
            path = Path(output)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise InputError(
                    f"step '{step.name}': an output must be a path inside the run directory, but is '{output}'"
                )
            for other, owner in owners.items():
                if owner != step.name and (path == other or path in other.parents or other in path.parents):
                    raise InputError(f"steps '{owner}' and '{step.name}' both write '{output}': give each its own")
            owners[path] = step.name
