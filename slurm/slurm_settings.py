"""What `conf/cluster/slurm.yaml` and files like it may say of a Slurm cluster.

Must not import `pipeline` or `pretrain`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from conf.checks import as_yaml
from conf.errors import InputError

# Slurm's own forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on.
_TIME = re.compile(r"\d+(:\d\d){0,2}|\d+-\d+(:\d\d){0,2}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"(KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)


@dataclass(frozen=True)
class Variable:
    """An environment variable of a job: its value, in which bash replaces `$NAME`, and why it is set."""

    name: str
    value: str
    why: str | None


@dataclass(frozen=True)
class SlurmSettings:
    """A Slurm cluster: what sbatch is given, and how a job comes to its python. See `conf/cluster/slurm.yaml`."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    nodes: int = 1
    gpus_per_node: int = 1
    cpus_per_task: int = 8
    time: str = "24:00:00"
    extra: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    venv: str | None = None
    container: str | None = None
    container_runtime: Literal["apptainer", "pyxis"] = "apptainer"
    container_mounts: list[str] = field(default_factory=list)
    network_interface: str | None = None
    environment: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("gpus_per_node", 0), ("cpus_per_task", 1)):
            if getattr(self, name) < least:
                raise InputError(f"cluster.{name} must be at least {least}, but is {getattr(self, name)}")
        if not _TIME.fullmatch(self.time):
            raise InputError(
                f"cluster.time must be a time as Slurm reads it (90 minutes are 90, 1:30:00 or 0-1:30), but is "
                f"'{self.time}'"
            )
        for option in self.extra:
            if not option.startswith("-"):
                raise InputError(
                    f"cluster.extra must hold options of sbatch, such as --constraint=a100, but has '{option}'"
                )
        self.variables()

    def variables(self) -> list[Variable]:
        """The environment variables of a job.

        Raises:
            InputError: a name that is none, a value that is no text or number, or what seems to be a secret.
        """
        return [_variable(str(name), entry) for name, entry in self.environment.items()]


def _variable(name: str, entry: Any) -> Variable:
    option = f"cluster.environment.{name}"
    if not _VARIABLE.fullmatch(name):
        raise InputError(f"{option} must be named by letters, digits and _, as environment variables are")
    if _SECRET.search(name):
        raise InputError(
            f"{option} seems to be a secret, which a configuration file and its rendered copy must not hold: set it in "
            "the shell that submits (sbatch hands it on), or in the file where its tool looks for it"
        )
    described = hasattr(entry, "items")
    if described and not {"value"} <= set(entry) <= {"value", "why"}:
        raise InputError(f"{option} must have a value and may have a why, but has {', '.join(map(str, entry))}")
    value = entry["value"] if described else entry
    why = entry.get("why") if described else None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\n" in str(value):
        raise InputError(f"{option} must be a number or text of one line, but is {as_yaml(value)}")
    return Variable(name, str(value), None if why is None else " ".join(str(why).split()))
