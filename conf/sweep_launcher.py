"""What `hydra/launcher=submitit_slurm` means here: the jobs of a sweep get the environment of the cluster's other jobs,
save before their time ends, and are requeued.

Must not import the project's other packages.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

NAME = "submitit_slurm"
# Of all jobs of sweeps, by which the table of a sweep knows them.
COMMENT = "palimpsest-sweep"
# Where the batch scripts lie.
SCRIPTS = "PALIMPSEST_SCRIPTS"


def is_installed() -> bool:
    """Whether the launcher's package is there."""
    return find_spec("hydra_plugins") is not None and find_spec("hydra_plugins.hydra_submitit_launcher") is not None


def set_defaults() -> None:
    """Give the launcher's options the values that fit this project's commands."""
    Plugins.instance()  # first, for the launcher's package registers its own values when Hydra looks for plugins
    from hydra_plugins.hydra_submitit_launcher.config import SlurmQueueConf

    node = SlurmQueueConf(
        submitit_folder="${hydra.sweep.dir}/.submitit/%j",
        name="sweep",
        comment=COMMENT,
        timeout_min=1440,
        gpus_per_node=1,
        cpus_per_task=8,
        signal_delay_s=180,
        # Of a command that saves nothing: so often it begins again when its time was over.
        max_num_timeout=3,
        stderr_to_stdout=True,
        # submitit hands on the environment, and so the variable.
        setup=[f'source "${SCRIPTS}/sweep_job.sh" "${{hydra.sweep.dir}}/.submitit"'],
        additional_parameters={"requeue": True},
    )
    ConfigStore.instance().store(group="hydra/launcher", name=NAME, node=node, provider="palimpsest")
    os.environ[SCRIPTS] = str(Path(__file__).resolve().parents[1] / "slurm")
