"""The command line that runs a job again as one of its ranks. Must not import torch."""

import sys

from hydra.core.hydra_config import HydraConfig


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
