"""`python -m slurm.submit chain=... cluster=...`: run a chain of commands, skipping what is complete.

Must not import `pipeline` or `pretrain` to plan; a step that will run has its command imported to check its options.
"""

import importlib
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

from conf.checks import check_config, check_target
from conf.command import CONFIG_DIRECTORY, cause, command, compose
from conf.command_line import override_name, shell_line
from conf.composition import any_of, top_level
from conf.errors import InputError
from conf.files import atomic_write_text, directory_lock
from conf.provenance import write_provenance
from slurm.chain import Chain, Step, check_passed_groups, config_name_of, read_chain
from slurm.cluster import Cluster, StepFailed
from slurm.cluster_env import render
from slurm.fingerprints import Fingerprints, matching
from slurm.keys import names_an_output
from slurm.local import duration
from slurm.plan import ChainState, Decision
from slurm.records import steps_directory
from slurm.slurm_settings import SlurmSettings

logger = logging.getLogger(__name__)
PASSED_GROUPS = ("corpus", "runner")


@dataclass
class SubmitOptions:
    """Options of `python -m slurm.submit`.

    Attributes:
        chain: the steps; a file of conf/chain.
        cluster: where they run; a file of conf/cluster.
        corpus: handed on to the steps whose `passes` name it.
        runner: likewise.
        run_dir: everything the chain writes lies below it.
        dry_run: show each step, its command line, whether it would run and why, and do nothing.
        render: instead of running a chain, write the environment of a Slurm cluster's jobs to this file.
    """

    chain: Any = None
    cluster: Any = MISSING
    corpus: Any = None
    runner: Any = None
    run_dir: str = MISSING
    dry_run: bool = False
    render: str | None = None


def step_that_has(option: str, config: DictConfig) -> str | None:
    """For an option that is none of the chain but of one of its steps, how it is set there."""
    head, _, rest = option.partition(".")
    steps = OmegaConf.select(config, "chain.steps", default={})
    if head in steps and rest:
        return f"++chain.steps.{head}.options.{rest}=VALUE sets an option of the step {head}"
    found, node = [], "options"
    for name, step in steps.items():
        try:
            own, groups = top_level(CONFIG_DIRECTORY, config_name_of(str(step.get("command")), step.get("config")))
        except InputError:  # a command of the user's own
            continue
        if head in groups:
            node = "options" if rest else "groups"
        if head in groups or (head in own and (not rest or isinstance(own[head], DictConfig))):
            found.append(str(name))
    if not found:
        return None
    value = "CHOICE" if node == "groups" else "VALUE"
    return f"it belongs to the step {any_of(found)}, for which ++chain.steps.{found[0]}.{node}.{option}={value} sets it"


@command("submit", schema=SubmitOptions, directory="run_dir", elsewhere=step_that_has)
def main(config: DictConfig) -> None:
    """Plan a chain, then show the plan or run it."""
    begun = time.monotonic()
    if config.render is not None:
        _render_environment(config)
        return
    if config.get("chain") is None:
        choices = any_of(sorted(path.stem for path in (CONFIG_DIRECTORY / "chain").glob("*.yaml")))
        raise InputError(f"option 'chain' must be chosen: add chain=CHOICE to the command line ({choices})")
    overrides = [str(line) for line in HydraConfig.get().overrides.task]
    check_passed_groups(config.chain, _groups_on_the_command_line(overrides))
    chain = read_chain(config.chain, config.run_dir, overrides)
    chain = replace(chain, steps=tuple(_with_own_configuration(step) for step in chain.steps))
    configs = _compose_all(chain)
    _require_passed_groups(config, chain, configs)
    cluster: Cluster = hydra.utils.instantiate(config.cluster, _convert_="all")
    if isinstance(cluster, SlurmSettings):
        raise InputError(
            "a chain is not yet submitted to Slurm: add cluster=local, or submit its steps by slurm/*.sbatch"
        )
    state = ChainState(chain, configs, _fingerprints(chain))
    decisions = state.plan()
    _check(decisions, state)  # before anything is written
    if config.dry_run:
        _show(chain, decisions)
        for decision in decisions:
            print(f"\n# {decision.step.name}\n{shell_line(cluster.command_line(decision.step))}")
        return
    with directory_lock(chain.run_dir):
        decisions = state.plan()  # again, for another submit may just have ended
        state.fingerprints.save()
        if all(decision.action == "skip" for decision in decisions):
            seconds = duration(time.monotonic() - begun)
            print(f"nothing to do: all {len(decisions)} steps of {chain.run_dir} are complete (checked in {seconds})")
            return
        _show(chain, decisions)
        write_provenance(chain.run_dir, config, inputs={}, seeds={})
        try:
            cluster.run(state, decisions)
        except StepFailed as failure:
            print(f"error: {failure}", file=sys.stderr, flush=True)
            sys.exit(failure.exit_code)
        print(
            f"done: all {len(decisions)} steps of {chain.run_dir} are complete ({duration(time.monotonic() - begun)})"
        )


def _render_environment(config: DictConfig) -> None:
    """Write `cluster.env`, which the batch scripts read before there is a python."""
    settings = hydra.utils.instantiate(config.cluster, _convert_="all")
    if not isinstance(settings, SlurmSettings):
        raise InputError(
            "render writes the environment of a Slurm cluster's jobs: add cluster=slurm, or your own of it"
        )
    own = _own_configuration_folder()
    folder = [] if own is None else ["--config-dir", own]
    overrides = [str(line) for line in HydraConfig.get().overrides.task]
    atomic_write_text(
        config.render, render(settings, shell_line(["python", "-m", "slurm.submit", *folder, *overrides]))
    )
    print(f"written: {config.render}")


def _groups_on_the_command_line(overrides: Sequence[str]) -> list[str]:
    named = [override_name(line).split(".", 1)[0] for line in overrides]
    return [group for group in PASSED_GROUPS if group in named]


def _with_own_configuration(step: Step) -> Step:
    """Let a step find the user's own configuration folder, given here by `--config-dir` or `hydra.searchpath`."""
    passed = [line for line in HydraConfig.get().overrides.hydra if override_name(line) == "hydra.searchpath"]
    return replace(step, overrides=(*step.overrides, *passed), config_dir=_own_configuration_folder())


def _own_configuration_folder() -> str | None:
    sources = HydraConfig.get().runtime.config_sources
    return next((source.path for source in sources if source.provider == "command-line"), None)


def _compose_all(chain: Chain) -> dict[str, DictConfig]:
    """The configuration of each step's command, by step name."""
    folder = _own_configuration_folder()
    if folder is not None:

        class OwnConfiguration(SearchPathPlugin):
            """Stands for `--config-dir`, which Hydra's compose function has no argument for."""

            def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
                search_path.append("command-line", f"file://{folder}")

        Plugins.instance().register(OwnConfiguration)
    GlobalHydra.instance().clear()  # composing another command's options needs Hydra's one global place
    return {step.name: _compose(step) for step in chain.steps}


def _compose(step: Step) -> DictConfig:
    try:
        return compose(step.config_name, step.overrides)
    except InputError as error:
        raise InputError(f"step '{step.name}': {error}") from error


def _require_passed_groups(config: DictConfig, chain: Chain, configs: Mapping[str, DictConfig]) -> None:
    """Refuse a chain that reads a corpus of the user's when the command line gives none."""
    takes_corpus = {step.name for step in chain.steps if "corpus" in step.passes}
    for name, composed in configs.items():
        lacking = {key.split(".", 1)[0] for key in OmegaConf.missing_keys(composed)}
        if "corpus" in lacking and name in takes_corpus and config.get("corpus") is None:
            raise InputError(
                f"the chain '{config.chain.get('name')}' needs a corpus: add corpus=text "
                "corpus.paths='[/data/*.jsonl.gz]' with your own files to the command line, or corpus=python_docs "
                "for the documentation of the installed Python packages"
            )


def _check(decisions: Sequence[Decision], state: ChainState) -> None:
    """Check every step that will run, before any does: types, what each target takes, values, and corpus paths.

    Steps that are complete have run with these very options; leaving them out keeps a second run from importing torch.
    """
    for decision in decisions:
        if decision.action == "skip":
            continue
        step, config = decision.step, state.configs[decision.step.name]
        try:
            schema = _schema(step.module)
            if schema is not None:
                check_config(config, schema)
                _require_paths(config, getattr(schema, "reads", ()), state.chain)
            else:
                for name, node in _targets(config):
                    check_target(node, name)
            for _, node in _targets(config):
                _check_values(node, state.chain)
        except InputError as error:
            raise InputError(f"step '{step.name}': {error}") from error


def _require_paths(config: DictConfig, options: Sequence[str], chain: Chain) -> None:
    """Refuse an option among `options` that names a path on this machine which is not there, unless a step writes it.

    A URL is left to the step, and so is what the path holds.
    """
    for option in options:
        value = OmegaConf.to_container(config, resolve=True)[option]  # type: ignore[call-overload, index]
        for path in value if isinstance(value, list) else [] if value is None else [value]:
            if "://" not in path and not matching(path) and not names_an_output(chain, path):
                raise InputError(
                    f"option '{option}' names '{path}', which is not there (working directory {Path.cwd()}): give a "
                    "path that is, or one that a step of the chain writes"
                )


def _targets(config: DictConfig) -> list[tuple[str, DictConfig]]:
    nodes = {str(name): config[name] for name in config}
    return [(name, node) for name, node in nodes.items() if isinstance(node, DictConfig) and "_target_" in node]


def _check_values(node: DictConfig, chain: Chain) -> None:
    """Build a node as its command would, for a class checks its values when it is made, and let a corpus look for its
    files. What a step before it will write is not there yet, so a node that names such is left to the step.

    Raises:
        InputError: a value that the class refuses, or a corpus path that names nothing.
    """
    if names_an_output(chain, OmegaConf.to_container(node, resolve=True)):
        return
    try:
        built = hydra.utils.instantiate(node, _convert_="all")
    except Exception as error:
        refused = cause(error, InputError)
        if refused is not None:
            raise refused from error
        return  # nothing that an option could mend: the step will fail with its traceback
    check_paths = getattr(built, "check_paths", None)
    if callable(check_paths):
        check_paths()


def _schema(module: str) -> type | None:
    """The options of a command's top level, which `conf.command.command` leaves on its main function."""
    try:
        imported = importlib.import_module(module)
        if hasattr(imported, "__path__"):
            imported = importlib.import_module(f"{module}.__main__")
    except ImportError as error:
        raise InputError(f"the command 'python -m {module}' cannot be started: {error}") from error
    found = getattr(getattr(imported, "main", None), "schema", None)
    return found if isinstance(found, type) else None


def _fingerprints(chain: Chain) -> Fingerprints:
    return Fingerprints(steps_directory(chain.run_dir) / "fingerprints.json")


def _show(chain: Chain, decisions: Sequence[Decision]) -> None:
    width = max(len(decision.step.name) for decision in decisions)
    print(f"chain {chain.name} in {chain.run_dir}:")
    for decision in decisions:
        what = "complete" if decision.action == "skip" else decision.action
        print(f"  {decision.step.name:<{width}}  {what:<8}  {decision.why()}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
