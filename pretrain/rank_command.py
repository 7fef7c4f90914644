"""A job on several ranks: this process is one that a launcher has made, or starts them. Must not import torch.

What a rank does is imported when it is called: the parent of local ranks, and --help, do without torch.
"""

import os
import sys
from collections.abc import Callable

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from pretrain.launch import EXIT_PREEMPTED, run_ranks
from pretrain.ranks import Ranks, from_environment


def starts_ranks(config: DictConfig) -> bool:
    """Return whether this process is to start the `config.ranks` ranks and is none of them."""
    return isinstance(config.ranks, int) and config.ranks > 1 and from_environment(os.environ) is None


def run_on_ranks(
    config: DictConfig, module: str, directory_option: str, work: Callable[[DictConfig, Ranks], str]
) -> None:
    """Do `work` as the rank that a launcher made of this process (or as the only one), or start the ranks.

    `module` and `directory_option` are those of `rank_command`. Ends the process where `work` returns "preempted", or
    a rank that was started fails or was preempted.
    """
    if starts_ranks(config):
        command = rank_command(module, directory_option, str(config[directory_option]))
        code = run_ranks([command] * config.ranks)
        if code:
            sys.exit(code)
        return
    from pretrain.distributed import die_with_launcher  # brings torch

    die_with_launcher()
    if work(config, from_environment(os.environ) or Ranks(0, 1, 0, 1)) == "preempted":
        sys.exit(EXIT_PREEMPTED)


def rank_command(module: str, directory_option: str, directory: str) -> list[str]:
    """Return the words that run this very job as one rank (of a sweep, only this job of it).

    `module` is what `python -m` runs; `directory_option` is where the job writes, which a sweep gives each of its jobs.
    """
    hydra_config = HydraConfig.get()
    paths = {source.provider: source.path for source in hydra_config.runtime.config_sources}
    where = ["--config-name", str(hydra_config.job.config_name), "--config-path", paths["main"]]
    where += ["--config-dir", paths["command-line"]] if "command-line" in paths else []
    # Of a sweep, each job starts its own ranks.
    where += [word for word in hydra_config.overrides.hydra if not word.startswith(("hydra.mode", "hydra.sweep"))]
    quoted = directory.replace("\\", "\\\\").replace("'", "\\'")
    return [
        sys.executable, "-m", module, *where, *hydra_config.overrides.task, f"{directory_option}='{quoted}'"
    ]  # fmt: skip
