"""What Hydra says against a command line, as one sentence that names the nearest option or choice.

Must not import the project's other packages.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
from hydra.errors import MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.checks import nearest, suggestion
from conf.errors import InputError

# (an option that the command lacks, the command's configuration as far as it composes) -> where the option belongs, as
# a clause, or None.
Elsewhere = Callable[[str, DictConfig], str | None]


@dataclass(frozen=True)
class Composition:
    """A command line that did not compose: the folder of configurations, the primary one, and the overrides."""

    directory: Path
    config_name: str
    overrides: Sequence[str]
    elsewhere: Elsewhere | None = None

    @cached_property
    def groups(self) -> list[str]:
        """The groups that the command's own defaults list names; all there are for a command of the user's own."""
        try:
            return top_level(self.directory, self.config_name)[1]
        except InputError:
            return sorted(path.name for path in self.directory.iterdir() if path.is_dir() and path.name[0] != "_")

    @cached_property
    def config(self) -> DictConfig:
        """The configuration with the choices of groups that the command line made; empty if that fails, too."""
        choices = [line for line in self.overrides if line.partition("=")[0] in self.groups]
        try:
            with hydra.initialize_config_dir(str(self.directory), version_base="1.3"):
                return hydra.compose(self.config_name, overrides=choices)
        except Exception:  # the bare configuration may itself need an option; then only the groups are known
            return OmegaConf.create({})

    @cached_property
    def options(self) -> list[str]:
        """Dotted names of all options."""
        names: list[str] = []

        def walk(node: Any, prefix: str) -> None:
            for key in node:
                option = f"{prefix}{key}"
                if str(key) in ("_target_", "_partial_", "_convert_"):
                    continue
                names.append(option)
                if not OmegaConf.is_missing(node, key) and not OmegaConf.is_interpolation(node, key):
                    child = node[key]
                    if isinstance(child, DictConfig):
                        walk(child, f"{option}.")

        walk(self.config, "")
        return names

    def choices(self, group: str) -> list[str]:
        """The choices of a group."""
        return sorted(path.stem for path in (self.directory / group).glob("*.yaml"))

    def nearest_to(self, option: str) -> str:
        """A clause on an option that there is not: where it belongs, the nearest, or what stands where it would be."""
        names, group = self.options, option.split(".", 1)[0]
        if group in self.groups and "." in option and not any(name.startswith(f"{group}.") for name in names):
            return f"choose a {group} first, add {group}=CHOICE to the command line ({any_of(self.choices(group))})"
        place = self.elsewhere(option, self.config) if self.elsewhere is not None and group not in names else None
        if place is not None:
            return place
        close = nearest(option, names + self.groups)
        if close is not None:
            return f"did you mean '{close}'?"
        parent = option
        while parent := parent.rpartition(".")[0]:
            if parent in names:
                listed = ", ".join(name for name in names if name.rpartition(".")[0] == parent)
                # What has a target takes what the target takes: that is listed, and there is no more.
                closed = "_target_" in (OmegaConf.select(self.config, parent) or ())
                return f"'{parent}' has {listed}" + ("" if closed else f"; ++{option} sets what is not listed there")
        top = ", ".join(name for name in names or self.groups if "." not in name)
        return f"--cfg job shows all; the top level has {top}"


def top_level(directory: Path, config_name: str) -> tuple[DictConfig, list[str]]:
    """The primary configuration of a command as its file has it, and the groups that its defaults list names.

    Raises:
        InputError: there is no such configuration.
    """
    path = directory / f"{config_name}.yaml"
    if not path.is_file():
        raise InputError(f"there is no configuration '{path}'")
    content = OmegaConf.load(path)
    assert isinstance(content, DictConfig)
    entries = [entry for entry in content.setdefault("defaults", []) if isinstance(entry, DictConfig)]
    groups = [str(key).split(" ")[-1].split("@")[0] for entry in entries for key in entry]
    del content["defaults"]
    return content, groups


def any_of(choices: Sequence[str]) -> str:
    """`a, b or c`."""
    if not choices:
        return "a file of that group"
    return " or ".join([", ".join(choices[:-1]), choices[-1]] if len(choices) > 1 else choices)


def composition_sentence(error: Exception, composition: Composition) -> str:
    """Hydra's complaint about a command line as one sentence with the nearest option."""
    text = str(error)
    inner = error.__cause__
    if isinstance(error, OverrideParseException):
        if "=" not in error.override:
            return f"'{error.override}' is not of the form option=value"
        return (
            f"'{error.override}' cannot be read as option=value: quote a value that holds = , ( ) [ ] {{ }} < > or "
            "spaces, twice on a shell's command line (job.tag='\"<bt>\"')"
        )
    if isinstance(error, MissingConfigException):
        return _missing_choice(text, composition)
    unchosen = re.search(r"You must specify '([^']+)', e\.g", text)
    if unchosen:
        group = unchosen.group(1)
        choices = any_of(composition.choices(group))
        return f"option '{group}' must be chosen: add {group}=CHOICE to the command line ({choices})"
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        name = unknown.group(1)
        if name in composition.options:
            return f"option '{name}' cannot be set to that: give it once, and if it stands there once, another value"
        return f"there is no option '{name}': {composition.nearest_to(name)}"
    if isinstance(inner, OmegaConfBaseException):
        return f"{' '.join(text.split())}: {' '.join(str(inner).split())}"
    return " ".join(text.split())


def _missing_choice(text: str, composition: Composition) -> str:
    found = re.search(r"Could not find '([^']+)'", text) or re.search(r"Could not load '([^']+)'", text)
    if not found:
        return " ".join(text.split())
    group, _, choice = found.group(1).rpartition("/")
    choices = composition.choices(group)
    if not choices:
        name = group or choice
        return f"there is no option '{name}': {composition.nearest_to(name)}"
    return f"option '{group}' has no choice '{choice}': {suggestion(choice, choices)}"
