"""From a step and the options of a cluster to the words of its sbatch line and the text of its job.

Pure functions: nothing here touches the disk or starts a process. Must not import `pipeline` or `pretrain`.
"""

import re
import shlex
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conf.checks import as_yaml, describe, matches, suggestion
from conf.command_line import shell_line
from conf.errors import InputError
from slurm.chain import Chain, Step

# The commands that run as one process for each GPU. Every other is one process, on one node.
ON_RANKS = ("pretrain", "pretrain.finetune", "pretrain.translate")
TIME = re.compile(r"(\d+|\d+:\d+|\d+:\d+:\d+|\d+-\d+|\d+-\d+:\d+|\d+-\d+:\d+:\d+|INFINITE|UNLIMITED)")
# Options of sbatch that the chain itself sets: with another value the jobs would not be found again, or not wait.
OWN_OPTIONS = ("array", "chdir", "comment", "dependency", "error", "hold", "job-name", "kill-on-invalid-dep",
               "open-mode", "output", "parsable", "requeue", "no-requeue", "wait", "wrap")  # fmt: skip
OWN_LETTERS = ("a", "D", "d", "e", "H", "J", "o", "W")


@dataclass(frozen=True)
class Resources:
    """What a job asks for; None leaves it to Slurm's own default.

    Attributes:
        partition: the partition.
        account: whom the time is charged to.
        qos: the quality of service.
        nodes: number of nodes.
        gpus_per_node: GPUs on each node; a command that runs on ranks has one process for each.
        cpus_per_task: CPUs of each process.
        time: the limit, as sbatch takes it: minutes, hours:minutes:seconds, days-hours.
        extra: further options of sbatch, each one word (`--mem=64G`).
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: int = 1
    gpus_per_node: int | None = None
    cpus_per_task: int | None = None
    time: str | None = None
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("gpus_per_node", 0), ("cpus_per_task", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, but is {value}")
        if self.time is not None and not TIME.fullmatch(self.time):
            raise InputError(f"time must be as sbatch takes it, such as 30, 2:00:00 or 1-12, but is '{self.time}'")
        for word in self.extra:
            _check_extra(word)

    @property
    def tasks_per_node(self) -> int:
        """Processes on each node."""
        return max(self.gpus_per_node or 1, 1)


@dataclass(frozen=True)
class Job:
    """One step as a job that is yet to be submitted.

    Attributes:
        step: the step.
        resources: what it asks for.
        needs: names of the steps among the jobs that it waits for.
        name: the job's name.
        comment: by what the jobs of one submission are found again.
        directory: the working directory.
        output: file of the job's own output; `%j` stands for its number.
        script: the text of the job.
        script_path: where the text lies when the job is submitted.
        signal_seconds: so long before the end of its time it is sent SIGUSR2; 0 for never.
    """

    step: Step
    resources: Resources
    needs: tuple[str, ...]
    name: str
    comment: str
    directory: str
    output: str
    script: str
    script_path: str
    signal_seconds: int = 0


def resources_of(
    step: Step, everyone: Resources, commands: Mapping[str, Mapping[str, Any]], steps: Mapping[str, Mapping[str, Any]]
) -> Resources:
    """What a step asks for: the cluster's options, over them those of its command, over them its own.

    `nodes` and `gpus_per_node` of the whole cluster are for the commands that run on ranks only.

    Args:
        step: the step.
        everyone: the options of the cluster.
        commands: options by command, such as `pretrain`.
        steps: options by step; `NAME` stands for every round `NAME_1`, `NAME_2` of a repeated step.

    Raises:
        InputError: an unknown option or one of another type, or several processes for a command that is one.
    """
    found = everyone if step.module in ON_RANKS else replace(everyone, nodes=1, gpus_per_node=None)
    repeated = re.sub(r"_\d+$", "", step.name)
    for where, options in (
        (f"cluster.commands.{step.module}", commands.get(step.module)),
        (f"cluster.steps.{repeated}", steps.get(repeated) if repeated != step.name else None),
        (f"cluster.steps.{step.name}", steps.get(step.name)),
    ):
        if options is not None:
            found = _over(found, options, where)
    if step.module not in ON_RANKS and found.nodes > 1:
        raise InputError(f"step '{step.name}' runs as one process, so its nodes must be 1, but are {found.nodes}")
    return found


def check_names(chain: Chain, steps: Mapping[str, Any]) -> None:
    """Refuse resources for a step that the chain does not have.

    Raises:
        InputError: the step and the nearest name.
    """
    names = {step.name for step in chain.steps} | {re.sub(r"_\d+$", "", step.name) for step in chain.steps}
    for name in steps:
        if name not in names:
            raise InputError(f"cluster.steps names '{name}', which is no step of the chain: {suggestion(name, names)}")


def sbatch_words(job: Job, dependencies: Sequence[str], held: bool = False) -> list[str]:
    """The words of the sbatch line.

    Args:
        job: the job.
        dependencies: the jobs that must end well before it starts, each a number or what stands for one in a shell.
        held: it is not to start before it is released.
    """
    asked = job.resources
    words = ["sbatch", "--parsable", f"--job-name={job.name}", f"--nodes={asked.nodes}"]
    words += [f"--ntasks-per-node={_tasks_per_node(job)}"]
    words += resource_words(asked)
    if dependencies:
        # Without the second, a job whose dependency has failed waits for ever.
        words += [f"--dependency=afterok:{':'.join(dependencies)}", "--kill-on-invalid-dep=yes"]
    if lead := _signal_lead(job):
        words.append(f"--signal=USR2@{lead}")  # to the step; `slurm/job.sh` sees to the rest
    if held:
        words.append("--hold")
    # A requeued job goes on in its log.
    words += ["--requeue", "--open-mode=append", f"--chdir={job.directory}", f"--output={job.output}"]
    return [*words, f"--comment={job.comment}", *asked.extra, job.script_path]


def line_to_paste(job: Job) -> str:
    """A line for a shell that submits the job without a file, and keeps its number for the lines after it."""
    words = sbatch_words(job, [f"$job_{name}" for name in job.needs])[:-1]
    # The numbers of other jobs are put in by the shell; everything else is quoted.
    line = " ".join(f'"{word}"' if word.startswith("--dependency=") else shlex.quote(word) for word in words)
    return f"job_{job.step.name}=$({line} --wrap={shlex.quote('; '.join(job.script.splitlines()[1:]))})"


def job_script(words: Sequence[str], step: str, python: str, environment: Mapping[str, str]) -> str:
    """The text of a job: it runs one step of the chain and records it.

    Args:
        words: what `python -m slurm.submit` was given.
        step: the step's name.
        python: the interpreter; the step has it too, unless the cluster's environment brings another.
        environment: variables for `slurm/job.sh`, by which the step is started.
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    lines.append(f"export PATH={shlex.quote(str(Path(python).parent))}:$PATH")
    # exec: signals that Slurm sends to the script reach the program.
    lines.append(f"exec {shell_line([python, '-m', 'slurm.submit', *words, f'only_step={step}'])}")
    return "\n".join(["#!/bin/bash", *lines]) + "\n"


def step_words(step: Step, scripts: Path) -> list[str]:
    """What starts a step inside its job, as the batch scripts do: one process for each GPU, or a single one.

    Args:
        step: the step.
        scripts: the folder of `job.sh`.
    """
    how = "run_job" if step.module in ON_RANKS else "run_alone"
    start = 'here=$1; shift; source "$here/job.sh" || exit 1; "$@"'
    return ["bash", "-c", start, "job", str(scripts), how, *step.arguments()[1:]]


def seconds_of(time: str) -> int | None:
    """A time limit as sbatch takes it (minutes, [hours:]minutes:seconds, days-hours[:minutes[:seconds]]) in seconds.

    None for one without end.
    """
    if not time[0].isdigit():
        return None
    days, dash, rest = time.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, minutes, seconds = 0, *[*numbers, 0][:2]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def resource_words(asked: Resources) -> list[str]:
    """The options of sbatch for what each node has, for how long, and where and on whose account."""
    values = {
        "gpus-per-node": asked.gpus_per_node or None,
        "cpus-per-task": asked.cpus_per_task,
        "time": asked.time,
        "partition": asked.partition,
        "account": asked.account,
        "qos": asked.qos,
    }
    return [f"--{option}={value}" for option, value in values.items() if value is not None]


def _tasks_per_node(job: Job) -> int:
    return job.resources.tasks_per_node if job.step.module in ON_RANKS else 1


def _signal_lead(job: Job) -> int:
    """How many seconds before its end a job is signalled: of a short one, not at once."""
    if job.resources.time is None:
        return job.signal_seconds
    seconds = seconds_of(job.resources.time)
    return job.signal_seconds if seconds is None else min(job.signal_seconds, seconds // 4)


def _over(below: Resources, options: Mapping[str, Any], where: str) -> Resources:
    """Resources with some options set anew."""
    hints = typing.get_type_hints(Resources) | {"extra": list[str]}
    values = dict(options)
    for name, value in values.items():
        if name not in hints:
            raise InputError(f"'{where}' has no option '{name}': {suggestion(name, hints)}")
        if not matches(value, hints[name]):
            raise InputError(f"option '{where}.{name}' must be {describe(hints[name])}, but is {as_yaml(value)}")
    if "extra" in values:
        values["extra"] = tuple(values["extra"])
    try:
        return replace(below, **values)
    except InputError as error:
        raise InputError(f"'{where}': {error}") from error


def _check_extra(word: str) -> None:
    name = word.lstrip("-").split("=", 1)[0]
    if not word.startswith("-") or name == "":
        raise InputError(f"extra must be options of sbatch, each one word such as --mem=64G, but one is '{word}'")
    own = name in OWN_OPTIONS if word.startswith("--") else word[1] in OWN_LETTERS
    if own:
        raise InputError(f"extra holds '{word}', which the chain sets by itself: leave it out")
