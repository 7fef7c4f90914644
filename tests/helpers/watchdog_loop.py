"""A stand-in for the training loop under the watchdog, one rank: `python -m tests.helpers.watchdog_loop FAULT RANK`.

The rank RANK shows FAULT when it has made three steps. Prints "step N" as it goes on.
"""

import os
import sys
import time
from types import SimpleNamespace

from pretrain.distributed import Group
from pretrain.ranks import from_environment
from pretrain.watchdog import watch


def main(fault: str, culprit: int, hang_seconds: float) -> None:
    ranks = from_environment(os.environ)
    group = Group(ranks, timeout_seconds=120.0)
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
            group.sum([1.0])
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
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
