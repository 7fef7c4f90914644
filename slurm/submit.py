"""`python -m slurm.submit chain=... cluster=...`: run a chain of commands, skipping what is complete.

Must not import `pipeline` or `pretrain` to plan; a step that will run has its command imported to check its options.
"""

import importlib
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

from conf.checks import check_config, check_target, suggestion
from conf.command import CONFIG_DIRECTORY, EXIT_FAILURE, command, compose
from conf.command_line import override_name, quote, shell_line
from conf.composition import any_of, top_level
from conf.errors import InputError, cause
from conf.files import atomic_write_text, directory_lock
from conf.provenance import write_provenance
from slurm import schedule
from slurm.chain import Chain, Step, check_passed_groups, config_name_of, read_chain
from slurm.cluster import Cluster, StepFailed
from slurm.cluster_env import render
from slurm.cron import parse
from slurm.fingerprints import Fingerprints, matching
from slurm.keys import names_an_output
from slurm.plan import ChainState, Decision
from slurm.preflight import job_lines, preflight
from slurm.preflight_checks import table
from slurm.records import read_record, steps_directory
from slurm.run_step import duration
from slurm.slurm_cluster import SlurmCluster
from slurm.slurm_settings import SlurmSettings

logger = logging.getLogger(__name__)
# How long a job waits while a submission holds the run directory, and for what its predecessors wrote to be seen.
LOCK_SECONDS = 60.0
SHARED_FILES_SECONDS = 90.0
PASSED_GROUPS = ("corpus", "runner")
NOT_OF_THE_CHAIN = ("run_dir", "dry_run", "only_step", "render", "by_schedule", "notify", "preflight")


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
        only_step: run this step alone, here and now; the jobs of `cluster=slurm` do.
        render: instead of running a chain, write the environment of a Slurm cluster's jobs to this file.
        by_schedule: typed as schedule=: a cron expression by which the chain runs from now on; or list, or remove.
        notify: a command that is told when a scheduled chain fails.
        preflight: instead of running a chain, check a Slurm cluster.
    """

    chain: Any = None
    cluster: Any = MISSING
    corpus: Any = None
    runner: Any = None
    run_dir: str = MISSING
    dry_run: bool = False
    only_step: str | None = None
    render: str | None = None
    by_schedule: str | None = None
    notify: str | None = None
    preflight: bool = False


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
def submit(config: DictConfig) -> None:
    """Plan a chain, then show the plan or run it."""
    begun = time.monotonic()
    if config.render is not None:
        _render_environment(config)
        return
    if config.by_schedule in ("list", "remove"):
        listed = config.by_schedule == "list"
        print(schedule.listing(datetime.now()) if listed else schedule.remove(Path(config.run_dir)))
        return
    if config.by_schedule is not None:
        parse(config.by_schedule)  # before all else is looked at
    elif config.notify is not None:
        raise InputError("notify is for a schedule: add schedule='0 3 * * *', or leave notify out")
    if config.preflight:
        _preflight(config)
        return
    if config.get("chain") is None:
        choices = any_of(sorted(path.stem for path in (CONFIG_DIRECTORY / "chain").glob("*.yaml")))
        raise InputError(f"option 'chain' must be chosen: add chain=CHOICE to the command line ({choices})")
    overrides = [str(line) for line in HydraConfig.get().overrides.task]
    check_passed_groups(config.chain, _groups_on_the_command_line(overrides))
    chain = read_chain(config.chain, config.run_dir, overrides)
    chain = replace(chain, steps=tuple(_with_own_configuration(step) for step in chain.steps))
    if config.only_step is not None:
        _run_only(config.only_step, chain, hydra.utils.instantiate(config.cluster, _convert_="all"))
        return
    configs = _compose_all(chain.steps)
    _require_passed_groups(config, chain, configs)
    cluster: Cluster = hydra.utils.instantiate(config.cluster, _convert_="all")
    state = ChainState(chain, configs, _fingerprints(chain), _words(overrides, config.run_dir))
    decisions = state.plan()
    _check(decisions, state)  # before anything is written
    if config.dry_run:
        _show(chain, decisions)
        for name, line in cluster.lines(state, decisions):
            print(f"\n# {name}\n{line}")
        return
    if config.by_schedule is not None:
        plan = schedule.Schedule(config.by_schedule, tuple(state.words), config.notify)
        print(schedule.install(chain.run_dir, plan))
        return
    cluster.refuse_if_under_way(state)
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
            handed_over = cluster.run(state, decisions)
        except StepFailed as failure:
            _end(failure)
        all_done = f"done: all {len(decisions)} steps of {chain.run_dir} are complete"
        print(handed_over or f"{all_done} ({duration(time.monotonic() - begun)})")


def main() -> None:
    """Run the command. `schedule` is a group too (of rates, for pretrain), which Hydra would take it for."""
    sys.argv[1:] = [f"by_{word}" if word.startswith("schedule=") else word for word in sys.argv[1:]]
    submit()


def _run_only(name: str, chain: Chain, cluster: Cluster) -> None:
    """Run one step, beside others of the chain that may run elsewhere; nothing if it is complete.

    Raises:
        InputError: there is no such step, or one that it needs is not complete.
    """
    names = [step.name for step in chain.steps]
    if name not in names:
        raise InputError(f"only_step names '{name}', which is no step of the chain: {suggestion(name, names)}")
    step = chain.steps[names.index(name)]
    state = ChainState(chain, _compose_all([step]), _fingerprints(chain))
    with directory_lock(chain.run_dir, shared=True, wait_seconds=LOCK_SECONDS):
        _wait_for_needs(chain, step)
        decision = state.decide(step)
        if decision.action == "skip":
            print(f"nothing to do: step '{name}' is complete")
            return
        try:
            cluster.run_one(state, decision)
        except StepFailed as failure:
            _end(failure)


def _wait_for_needs(chain: Chain, step: Step) -> None:
    """Wait until the records of the steps that a step needs are seen here: a shared file system may show them late."""
    until = time.monotonic() + SHARED_FILES_SECONDS
    while lacking := [need for need in step.needs if read_record(chain.run_dir, need) is None]:
        # After a failure there are none to come.
        if time.monotonic() > until or not os.environ.get("SLURM_JOB_ID"):
            raise InputError(f"step '{step.name}' needs {any_of(lacking)}, of which no complete run is recorded")
        os.listdir(steps_directory(chain.run_dir))  # noqa: PTH208  asks a network file system anew
        time.sleep(1.0)


def _end(failure: StepFailed) -> NoReturn:
    print(f"error: {failure}", file=sys.stderr, flush=True)
    sys.exit(failure.exit_code)


def _words(overrides: Sequence[str], run_dir: str) -> list[str]:
    """The words after `python -m slurm.submit` that describe this chain, be it one job of a sweep."""
    folder = _own_configuration_folder()
    words = [] if folder is None else ["--config-dir", folder]
    words += [line for line in overrides if override_name(line) not in NOT_OF_THE_CHAIN]
    words += [line for line in HydraConfig.get().overrides.hydra if override_name(line) == "hydra.searchpath"]
    return [*words, f"run_dir={quote(run_dir)}"]


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


def _preflight(config: DictConfig) -> None:
    """Check a Slurm cluster and show what was found; exit code 1 where something is not as a run needs it."""
    cluster = hydra.utils.instantiate(config.cluster, _convert_="all")
    if not isinstance(cluster, SlurmCluster):
        raise InputError("preflight checks a Slurm cluster: add cluster=slurm, or your own of it")
    if config.get("chain") is not None:
        raise InputError("preflight checks the cluster alone: leave out the chain, and submit it afterwards")
    overrides = [str(line) for line in HydraConfig.get().overrides.task]
    given = any(override_name(line) == "run_dir" for line in overrides)
    folder = (Path(config.run_dir) if given else Path(config.run_dir).parent) / "preflight"
    if config.dry_run:
        print("\n".join(job_lines(cluster, folder)))
        return
    checks = preflight(cluster, folder, shell_line(["python", "-m", "slurm.submit", *overrides]))
    print(f"preflight of {cluster.nodes} nodes in {folder}:\n{table(checks)}", flush=True)
    failures = [check.failure for check in checks if check.failure is not None]
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr, flush=True)
    if failures:
        sys.exit(EXIT_FAILURE)


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


def _compose_all(steps: Sequence[Step]) -> dict[str, DictConfig]:
    """The configuration of the command of each of these steps, by step name."""
    folder = _own_configuration_folder()
    if folder is not None:

        class OwnConfiguration(SearchPathPlugin):
            """Stands for `--config-dir`, which Hydra's compose function has no argument for."""

            def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
                search_path.append("command-line", f"file://{folder}")

        Plugins.instance().register(OwnConfiguration)
    GlobalHydra.instance().clear()  # composing another command's options needs Hydra's one global place
    return {step.name: _compose(step) for step in steps}


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
                _check_inputs(config, schema, state.chain)
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


def _check_inputs(config: DictConfig, schema: type, chain: Chain) -> None:
    """Let a command compare the files it reads with each other, where it can: once all are there, on this machine.

    Raises:
        InputError: files that do not belong together, such as references for another test set.
    """
    check = getattr(schema, "check_inputs", None)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    values = [plain[option] for option in getattr(schema, "reads", ())]
    if check is not None and not names_an_output(chain, values) and "://" not in str(values):
        check(config)


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
