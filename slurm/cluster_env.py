"""`cluster.env`: what the batch scripts of this folder must know of a cluster before there is a python to ask.

Pure functions from the settings to a file of bash. Must not import `pipeline` or `pretrain`.
"""

import shlex

from slurm.slurm_settings import SlurmSettings, Variable


def render(settings: SlurmSettings, command: str) -> str:
    """The text of the file; `command` is what makes it anew.

    `slurm/job.sh` reads it with two arrays set, `srun_options` and `wrapper` (what stands before python), in the job's
    working directory.
    """
    parts = [
        "# The environment of this cluster's jobs, which the batch scripts of slurm/ read. Written by\n"
        f"#   {command}\n"
        "# from the configuration: make changes there.\n",
        _for_sbatch(settings),
        "# What follows is for jobs.\n"
        '[ -n "${SLURM_JOB_ID:-}" ] || return 0\n',
        _setup(settings),
        *[_export(variable) for variable in settings.variables()],
        *[_export(variable) for variable in _interface(settings)],
        _container(settings),
        "return 0\n",
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _for_sbatch(settings: SlurmSettings) -> str:
    values = {"PARTITION": settings.partition, "ACCOUNT": settings.account, "QOS": settings.qos}
    lines = [f"export SBATCH_{name}={shlex.quote(value)}" for name, value in values.items() if value is not None]
    if not lines:
        return ""
    return "\n".join(["# For sbatch, in a shell that has read this file: source cluster.env", *lines, ""])


def _setup(settings: SlurmSettings) -> str:
    lines = list(settings.setup)
    if settings.modules:
        lines.append(f"module load {shlex.join(settings.modules)} || return 1")
    if settings.venv is not None:
        lines.append(f"source {shlex.quote(settings.venv.rstrip('/') + '/bin/activate')} || return 1")
    return "".join(f"{line}\n" for line in lines)


def _interface(settings: SlurmSettings) -> list[Variable]:
    if settings.network_interface is None:
        return []
    why = "a node has several networks, and the one that its name leads to may be slow or closed to other nodes"
    return [Variable(name, settings.network_interface, why) for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")]


def _export(variable: Variable) -> str:
    escaped = "".join(f"\\{letter}" if letter in '\\"`' else letter for letter in variable.value)
    why = "" if variable.why is None else f"# {variable.why}\n"
    return f'{why}export {variable.name}="{escaped}"\n'


def _container(settings: SlurmSettings) -> str:
    if settings.container is None:
        return ""
    image = shlex.quote(settings.container)
    own = ['"$PWD"', '"$(dirname "$here")"', '"$(dirname "$PALIMPSEST_JOB_DIRECTORY")"']
    mounts = [*own, *map(shlex.quote, settings.container_mounts)]
    if settings.container_runtime == "apptainer":
        binds = " ".join(f"--bind {mount}" for mount in mounts)
        return f'wrapper=(apptainer exec --nv --pwd "$PWD" {binds} {image})\n'
    pairs = ",".join(f"{mount}:{mount}" for mount in mounts)
    return f'srun_options+=(--container-image={image} --container-mounts={pairs} --container-workdir="$PWD")\n'
