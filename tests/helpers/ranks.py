"""Run a function on N gloo ranks, each its own process with real DeepSpeed, and get what each rank returns.

    results = run_on_ranks("tests.integration.parity_cases:losses", ranks=2, stage=1)

The function is named, not passed, so that a rank imports it by itself; it gets a `Group` and the keyword arguments.
"""

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pretrain.launch import free_port, rank_environment

REPOSITORY = Path(__file__).resolve().parents[2]


def run_on_ranks(function: str, ranks: int, timeout: float = 120.0, **arguments: Any) -> list[Any]:
    """Return the results by rank. A rank that fails or does not end in time fails the test with its output."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "arguments").write_bytes(pickle.dumps(arguments))
        port = free_port()
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.helpers.ranks", function, folder],
                cwd=REPOSITORY,
                env=rank_environment(os.environ, rank, ranks, port) | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for rank in range(ranks)
        ]
        try:
            outputs = [process.communicate(timeout=timeout)[0].decode(errors="replace") for process in processes]
        finally:
            for process in processes:
                process.kill()
        for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
            assert process.returncode == 0, f"rank {rank} ended with {process.returncode}:\n{output[-4000:]}"
        return [pickle.loads((Path(folder) / f"result{rank}").read_bytes()) for rank in range(ranks)]


def _main(function: str, folder: str) -> None:
    import torch

    from pretrain.distributed import Group
    from pretrain.ranks import from_environment

    torch.set_num_threads(1)
    ranks = from_environment(os.environ)
    assert ranks is not None
    group = Group(ranks, timeout_seconds=60.0)
    module, _, name = function.partition(":")
    arguments = pickle.loads((Path(folder) / "arguments").read_bytes())
    result = getattr(importlib.import_module(module), name)(group, **arguments)
    (Path(folder) / f"result{ranks.rank}").write_bytes(pickle.dumps(result))
    group.close()


if __name__ == "__main__":
    _main(*sys.argv[1:])
