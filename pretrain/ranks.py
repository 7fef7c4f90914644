"""Who this process is among the ranks, by what torchrun, srun or our own launcher set in its environment.

Must not import torch: the command that starts local ranks asks here whether it is a rank itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Ranks:
    """The place of this process: `rank` of `world_size`, and `local_rank` of `local_world_size` on this machine."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files and talks to the user."""
        return self.rank == 0


def from_environment(environment: Mapping[str, str]) -> Ranks | None:
    """Read torchrun's variables, or else srun's; None where the process was started alone.

    A batch script's own SLURM_ variables do not count: only a step of `srun` has SLURM_STEP_ID and SLURM_PROCID.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        world = int(environment["WORLD_SIZE"])
        return Ranks(
            rank=int(environment["RANK"]),
            world_size=world,
            local_rank=int(environment.get("LOCAL_RANK", 0)),
            local_world_size=int(environment.get("LOCAL_WORLD_SIZE", world)),
        )
    if "SLURM_PROCID" in environment and environment.get("SLURM_STEP_NUM_TASKS"):
        world = int(environment["SLURM_STEP_NUM_TASKS"])
        tasks_here = re.match(r"\d+", environment.get("SLURM_STEP_TASKS_PER_NODE", str(world)))
        return Ranks(
            rank=int(environment["SLURM_PROCID"]),
            world_size=world,
            local_rank=int(environment.get("SLURM_LOCALID", 0)),
            local_world_size=int(tasks_here.group()) if tasks_here else world,
        )
    return None
