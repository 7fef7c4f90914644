"""`python -m slurm.submit chain=... cluster=...`: run a chain of commands, skipping what is complete.

Must not import `pipeline` or `pretrain` to plan; a step that will run has its command imported to check its options.
"""

import importlib
import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig

from conf.checks import check_config, check_target
from conf.command import command, compose
from conf.command_line import override_name, shell_line
from conf.errors import InputError
from conf.files import directory_lock
from conf.provenance import write_provenance
from slurm.chain import Chain, Step, check_passed_groups, read_chain
from slurm.cluster import Cluster, StepFailed
from slurm.fingerprints import Fingerprints
from slurm.local import duration
from slurm.plan import ChainState, Decision
from slurm.records import steps_directory

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
    """

    chain: Any = MISSING
    cluster: Any = MISSING
    corpus: Any = None
    runner: Any = None
    run_dir: str = MISSING
    dry_run: bool = False


@command("submit", schema=SubmitOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Plan a chain, then show the plan or run it."""
    begun = time.monotonic()
    overrides = [str(line) for line in HydraConfig.get().overrides.task]
    check_passed_groups(config.chain, _groups_on_the_command_line(overrides))
    chain = read_chain(config.chain, config.run_dir, overrides)
    chain = replace(chain, steps=tuple(_with_own_configuration(step) for step in chain.steps))
    configs = _compose_all(chain)
    cluster: Cluster = hydra.utils.instantiate(config.cluster)
    if config.dry_run:
        state = ChainState(chain, configs, _fingerprints(chain))
        decisions = state.plan()
        _check(decisions, state)
        _show(chain, decisions)
        for decision in decisions:
            print(f"\n# {decision.step.name}\n{shell_line(cluster.command_line(decision.step))}")
        return
    with directory_lock(chain.run_dir):
        state = ChainState(chain, configs, _fingerprints(chain))
        decisions = state.plan()
        state.fingerprints.save()
        if all(decision.action == "skip" for decision in decisions):
            seconds = duration(time.monotonic() - begun)
            print(f"nothing to do: all {len(decisions)} steps of {chain.run_dir} are complete (checked in {seconds})")
            return
        _check(decisions, state)
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


def _check(decisions: Sequence[Decision], state: ChainState) -> None:
    """Check the options of every step that will run, before any does: types, and what each target takes.

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
            else:
                for name in config:
                    if isinstance(config[name], DictConfig) and "_target_" in config[name]:
                        check_target(config[name], str(name))
        except InputError as error:
            raise InputError(f"step '{step.name}': {error}") from error


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
