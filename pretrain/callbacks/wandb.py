"""Weights & Biases, where it is installed and asked for: the figures of metrics.jsonl, under one run id for ever.

The id lies in the run directory, so a resumed session adds to the same run, with no network too (WANDB_MODE=offline,
then `wandb sync`). Must not import torch or deepspeed.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text

RUN_ID = "wandb_id"


def require_wandb(project: str | None, entity: str | None = None, name: str | None = None) -> None:
    """Raise InputError if W&B is asked for, but is not installed, or without a project. To be called before anything
    is written."""
    if project is None:
        for option, value in (("entity", entity), ("name", name)):
            if value is not None:
                raise InputError(f"wandb.{option}={value} needs wandb.project, but that is not set.")
        return
    try:
        import wandb  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"wandb.project={project} needs the package wandb, but it cannot be imported ({error}): "
            "`pip install wandb`, or set wandb.project=null"
        ) from error


class WandbRun:
    """One run at W&B, of rank 0. Figures are placed by their own step, so those that a resumed run repeats lie on the
    old ones."""

    def __init__(
        self,
        run_dir: Path,
        config: Mapping[str, Any],
        project: str,
        entity: str | None = None,
        name: str | None = None,
        run_id: str | None = None,
    ) -> None:
        """Begin, or go on with the run whose id the run directory (else `run_id`, of a checkpoint) has.

        Raises InputError if W&B refuses: no login, an unknown entity, no network.
        """
        require_wandb(project)
        import wandb

        file = run_dir / RUN_ID
        kept = file.read_text(encoding="utf-8").strip() if file.exists() else run_id
        self.run_id: str = kept or secrets.token_hex(4)
        try:
            self._run = wandb.init(
                project=project,
                entity=entity,
                name=name or run_dir.name,
                id=self.run_id,
                resume="allow",
                config=dict(config),
                dir=str(run_dir),
                settings=wandb.Settings(console="off"),  # our own lines stay as they are
            )
        except wandb.errors.Error as error:
            raise InputError(
                f"wandb.project={project} cannot be used: {error}; `wandb login`, set WANDB_MODE=offline, or "
                "wandb.project=null"
            ) from error
        atomic_write_text(file, self.run_id + "\n")
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Hand over one line of figures."""
        self._run.log({"step": step, **values})

    def close(self) -> None:
        """Send what is left and end this session of the run."""
        self._run.finish()
