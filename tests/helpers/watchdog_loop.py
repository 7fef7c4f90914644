"""A stand-in for the training loop under the watchdog, one rank: `python -m tests.helpers.watchdog_loop FAULT RANK`.

The rank RANK shows FAULT when it has made three steps. Prints "step N" as it goes on.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from pretrain.ranks import from_environment
from pretrain.watchdog import watch


class Group:
    """As much of the trainer's group as the watchdog and this loop need, without DeepSpeed, whose import takes long."""

    def __init__(self) -> None:
        dist.init_process_group("gloo", timeout=timedelta(seconds=120.0))

    def gather(self, value: str) -> list[str]:
        values = [value] * dist.get_world_size()
        dist.all_gather_object(values, value)
        return values

    def from_main(self, make: Callable[[], Any]) -> Any:
        box = [make() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def sum(self, value: float) -> None:
        dist.all_reduce(torch.tensor([value]))


def main(fault: str, culprit: int, hang_seconds: float) -> None:
    ranks = from_environment(os.environ)
    group = Group()
    status = SimpleNamespace(step=0, phase="starting", since=time.monotonic())

    def enter(phase: str) -> None:
        nonlocal status
        status = SimpleNamespace(step=status.step, phase=phase, since=time.monotonic())

    with watch(group, ranks.rank, lambda: status, hang_seconds):
        for step in range(1, 8 if fault == "none" else 10**6):
            faulty = step == 4 and ranks.rank == culprit
            enter("waiting for data")
            if faulty and fault == "loader":
                time.sleep(600)
            enter("agreeing with the other ranks")
            group.sum(1.0)
            enter("checkpointing" if step == 4 and fault == "slow save" else "forward, backward and update")
            if faulty and fault == "slow save":
                time.sleep(1.5 * hang_seconds)
                os._exit(0)
            if faulty and fault == "error":
                raise ValueError("a fault of the program")
            if faulty and fault == "hang":
                while True:
                    time.sleep(0.1)
            time.sleep(0.05)
            status = SimpleNamespace(step=step, phase=status.phase, since=time.monotonic())
            print(f"step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
