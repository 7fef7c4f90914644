"""The harness of every command: Hydra, structured checks, logging, error sentences, exit codes.

A command is a function of one configuration. This module gives it the command line (`--cfg job`, overrides,
`--multirun` as Hydra users know them), refuses what does not fit with one sentence, and maps how it ends to an exit
code: 0 done, 2 bad input, 1 a failure of ours (with its traceback), 130 interrupted. Must not import the project's
other packages.
"""

import contextlib
import errno
import functools
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.conf import HydraConf, RunDir, SweepDir
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from rich.logging import RichHandler

from conf import sweep_launcher
from conf.checks import check_config, suggestion
from conf.command_line import is_sweep_job, program_words, quote, shell_line
from conf.composition import Composition, Elsewhere, composition_sentence
from conf.errors import InputError, cause, sentence_of
from conf.sweep_record import in_submitit, sweep_job, tell_batch_script

CONFIG_DIRECTORY = Path(__file__).resolve().parent
EXIT_BAD_INPUT = 2
EXIT_FAILURE = 1
EXIT_INTERRUPTED = 130


class JobFailed(Exception):
    """A job of a sweep that ran elsewhere did not end well."""


Task = Callable[[DictConfig], None]


def command(
    config_name: str,
    schema: type,
    directory: str,
    elsewhere: Elsewhere | None = None,
    only_starts: Callable[[DictConfig], bool] = lambda config: False,
) -> Callable[[Task], Callable[[], None]]:
    """Make a function of a configuration into a command.

    Args:
        config_name: the primary configuration, `conf/<config_name>.yaml`.
        schema: dataclass of the options at the top level; groups are checked by their `_target_` signatures.
        directory: the option that names where the command writes. Under `--multirun` each job writes to
            `<directory>/<job number>`, so that jobs of one sweep never share a directory.
        elsewhere: for an option that this command lacks, where it belongs (see `conf.composition`).
        only_starts: whether this process only starts others that run this very command: they check their groups, for
            which a process must import all that it runs.

    Returns:
        A decorator; the decorated function takes no arguments, reads `sys.argv` and exits the process.
    """

    def decorate(function: Task) -> Callable[[], None]:
        program: list[str] = []  # the job takes it along, for a launcher may run it in a process of another name

        def job(config: DictConfig) -> None:
            _set_up_logging()
            sweeps = HydraConfig.get().mode == RunMode.MULTIRUN
            own = _make_room_for_job(config, directory, program) if sweeps else contextlib.nullcontext()
            try:
                with own:
                    check_config(config, schema, targets=not only_starts(config))
                    function(config)
            except Exception as error:
                # Said here and not by Hydra, whose report of a failed job is a traceback.
                if not (sweeps and in_submitit()):
                    _end(error)
                _hand_back(error)

        @functools.wraps(function)
        def main() -> None:
            program[:] = program_words()
            _quiet_hydra(directory, shell_line(program))
            _prepare_launcher(sys.argv[1:])
            os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, who know how to say them in one sentence
            _refuse_mistyped_flags(sys.argv[1:])
            try:
                hydra.main(config_path=str(CONFIG_DIRECTORY), config_name=config_name, version_base="1.3")(job)()
            except KeyboardInterrupt:
                _exit("interrupted", EXIT_INTERRUPTED)
            except JobFailed as error:
                _exit(str(error), EXIT_FAILURE)
            except (HydraException, OmegaConfBaseException) as error:
                _exit(
                    composition_sentence(error, Composition(CONFIG_DIRECTORY, config_name, sys.argv[1:], elsewhere)),
                    EXIT_BAD_INPUT,
                )

        main.schema = schema  # type: ignore[attr-defined]  # for who composes this command's options: slurm.submit
        return main

    return decorate


def compose(config_name: str, overrides: Sequence[str], schema: type | None = None) -> DictConfig:
    """The configuration a command would see for these overrides, checked, without running it.

    Raises:
        InputError: an override that does not fit; the sentence names the nearest option.
    """
    _quiet_hydra()
    try:
        with hydra.initialize_config_dir(str(CONFIG_DIRECTORY), version_base="1.3"):
            config = hydra.compose(config_name, overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(composition_sentence(error, Composition(CONFIG_DIRECTORY, config_name, overrides))) from error
    if schema is not None:
        check_config(config, schema)
    return config


def disk_full_sentence(error: OSError) -> str:
    """The sentence for a disk (or quota) that is full, naming the file where it is known."""
    where = f" while writing '{error.filename}'" if error.filename else ""
    return f"disk full{where}: free some space and run the same command again, finished work is kept"


def _make_room_for_job(config: DictConfig, directory: str, program: Sequence[str]) -> AbstractContextManager[None]:
    """Give a job of a sweep a directory of its own, and remember how it would be run alone.

    Returns what is to be held while it runs, to keep its record.
    """
    hydra_config = HydraConfig.get()
    words = overrides = [str(line) for line in hydra_config.overrides.task]
    record: AbstractContextManager[None] = contextlib.nullcontext()
    if not OmegaConf.is_missing(config, directory):
        record = sweep_job(Path(config[directory]), int(hydra_config.job.num), overrides)
        with open_dict(config):
            config[directory] = str(Path(config[directory]) / str(hydra_config.job.num))
        words = [*words, f"{directory}={quote(config[directory])}"]
    own = [source.path for source in hydra_config.runtime.config_sources if source.provider == "command-line"]
    is_sweep_job(program, [*(word for path in own for word in ("--config-dir", path)), *words])
    return record


def _hand_back(error: Exception) -> NoReturn:
    """End a job that a launcher runs elsewhere: said in its log, and raised for the launcher to carry home.

    Raises:
        JobFailed: always.
    """
    number, sentence = HydraConfig.get().job.num, sentence_of(error)
    if cause(error, InputError) is None:
        traceback.print_exception(error)
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    tell_batch_script()
    raise JobFailed(f"job {number} of the sweep failed: {sentence}") from None


def _refuse_mistyped_flags(words: Sequence[str]) -> None:
    """Say in one sentence what Hydra's own parser of flags would say under its usage."""
    parser = get_args_parser()
    flags = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]

    def refuse(message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (-[^ =]*)", message)
        if unknown:
            _exit(f"there is no flag '{unknown.group(1)}': {suggestion(unknown.group(1), flags)}", EXIT_BAD_INPUT)
        choice = re.match(r"argument (\S+?)(?:/-\S+)?: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice:
            flag, word, choices = choice.groups()
            close = suggestion(word, choices.replace("'", "").split(", "))
            _exit(f"{flag} has no choice '{word}': {close}", EXIT_BAD_INPUT)
        _exit(f"the command line does not fit: {message}", EXIT_BAD_INPUT)

    parser.error = refuse  # type: ignore[method-assign]
    parser.parse_args(list(words))


def _prepare_launcher(words: Sequence[str]) -> None:
    if sweep_launcher.is_installed():
        sweep_launcher.set_defaults()
    elif f"hydra/launcher={sweep_launcher.NAME}" in words:
        _exit(
            f"hydra/launcher={sweep_launcher.NAME} needs a package that is not installed: "
            "pip install hydra-submitit-launcher",
            EXIT_BAD_INPUT,
        )


def _quiet_hydra(directory: str | None = None, command: str = "") -> None:
    """Keep Hydra from creating folders and log files of its own: where a run writes is an option of the run.

    A sweep of a command that writes to the option `directory` leaves word of its jobs there.
    """
    node = HydraConf(
        run=RunDir("."), sweep=SweepDir(dir="multirun/${now:%Y-%m-%d}/${now:%H-%M-%S}", subdir="."), output_subdir=None
    )
    if directory is not None:
        plan = {"_target_": "conf.sweep_record.SweepPlan", "directory": directory, "command": command}
        node.callbacks = {"sweep": plan}
    # The installed defaults list is an untyped list of one-entry mappings; ours only silences the two log files.
    node.defaults = [
        {next(iter(entry)): "none"} if next(iter(entry)) in ("hydra_logging", "job_logging") else entry
        for entry in node.defaults
        if isinstance(entry, dict)
    ] + [entry for entry in node.defaults if not isinstance(entry, dict)]
    ConfigStore.instance().store(group="hydra", name="config", node=node, provider="hydra")


def _set_up_logging() -> None:
    """Rich lines on a terminal, plain ones elsewhere; to stderr, so that stdout carries results only."""
    root = logging.getLogger()
    if root.handlers:
        return
    root.setLevel(logging.INFO)
    if sys.stderr.isatty():
        from rich.console import Console

        handler: logging.Handler = RichHandler(
            console=Console(stderr=True), show_path=False, log_time_format="%H:%M:%S"
        )
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"))
    root.addHandler(handler)


def _end(error: Exception) -> NoReturn:
    """End the process for what a command raised: a sentence for what the user can mend, a traceback for the rest.

    Libraries wrap what our code raises (Hydra's instantiate, Beam's workers), so the chain of causes is searched.
    """
    if isinstance(error, BrokenPipeError):
        # `... | head` closed our stdout; point it elsewhere, or Python complains once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    bad_input = cause(error, InputError)
    if bad_input is not None:
        _exit(str(bad_input), EXIT_BAD_INPUT)
    system = cause(error, OSError)
    if isinstance(system, OSError) and system.errno in (errno.ENOSPC, errno.EDQUOT):
        _exit(disk_full_sentence(system), EXIT_FAILURE)
    if isinstance(system, IsADirectoryError | NotADirectoryError | PermissionError) and system.filename:
        place = system.filename2 or system.filename  # of a rename, the name that was meant
        _exit(f"'{place}' cannot be read or written: {system.strerror}", EXIT_BAD_INPUT)
    traceback.print_exception(error)
    _exit(f"{type(error).__name__}: {error} (this is a fault of the program: the lines above say where)", EXIT_FAILURE)


def _exit(sentence: str, code: int) -> NoReturn:
    sys.stdout.flush()
    print(f"error: {sentence}", file=sys.stderr, flush=True)
    sys.exit(code)
