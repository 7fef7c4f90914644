"""The jobs of a fine-tuning one after the other, each by all ranks together under DeepSpeed.

Must not import Hydra.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.evaluation.finetuning.on_ranks import OnRanks, require_fitting
from pretrain.evaluation.runs import Job, run_together
from pretrain.evaluation.tasks.finetuning_job import FinetuningJob


@dataclass(frozen=True)
class FinetuningRanks:
    """The ranks and how DeepSpeed shares out the model."""

    group: Group
    options: DeepSpeedOptions

    def run(self, jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
        """Results of the jobs in their order, on every rank; kept in `folder`. A collective call.

        Raises:
            InputError: a job that is no fine-tuning, or whose recipe does not go with DeepSpeed's options.
        """
        count = self.group.ranks.world_size
        mine = [replace(job, ranks=count) for job in jobs if isinstance(job, FinetuningJob)]
        if len(mine) < len(jobs):
            raise InputError("only fine-tuning runs under DeepSpeed: leave deepspeed out for other tasks")
        for job in mine:
            require_fitting(self.options, job.recipe)
        updates = OnRanks(self.group, self.options)

        def execute(job: FinetuningJob) -> dict[str, Any]:
            return job.execute(updates, keeps=self.group.ranks.is_main)

        return run_together(mine, folder, self.group, execute, "fine-tuning")
