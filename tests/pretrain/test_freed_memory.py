"""Large tensors that come and go cost no fresh pages once freed memory is kept."""

import subprocess
import sys

FAULTS = """
import resource
import torch
from pretrain.freed_memory import keep_freed_memory

if {keep}:
    assert keep_freed_memory()


def step():
    kept = [torch.ones(20_000_000) for _ in range(2)]


for _ in range(15):  # until the heap has found its form
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep):
    command = [sys.executable, "-c", FAULTS.format(keep=keep)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_step_finds_its_memory_where_the_last_one_left_it():
    # 195,000 pages of 4 KiB, or 400 of 2 MiB.
    assert faults(keep=False) > 100 > faults(keep=True)
