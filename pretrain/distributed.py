"""How the ranks meet, and how they agree before and during a run.

Whatever must not differ between ranks is compared here, on the host, over gloo. Must not import the trainer or a
model.
"""

import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

from conf.errors import InputError
from pretrain.launch import LAUNCHER_PID, free_port, usable_cores
from pretrain.ranks import Ranks

Result = TypeVar("Result")
_PR_SET_PDEATHSIG = 1


def threads_of_a_rank(environment: Mapping[str, str], local_world_size: int) -> int:
    """Return how many CPU threads a rank should use: what was asked for, or an even share of the cores."""
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK"):
        if environment.get(name, "").isdigit():
            return max(1, int(environment[name]))
    return max(1, usable_cores() // local_world_size)


def rendezvous(ranks: Ranks) -> None:
    """Set the variables through which torch and DeepSpeed find the other ranks, where a launcher has not."""
    os.environ.setdefault("RANK", str(ranks.rank))
    os.environ.setdefault("WORLD_SIZE", str(ranks.world_size))
    os.environ.setdefault("LOCAL_RANK", str(ranks.local_rank))
    if "MASTER_ADDR" not in os.environ:
        nodes = os.environ.get("SLURM_STEP_NODELIST") if ranks.world_size > 1 else None
        os.environ["MASTER_ADDR"] = _first_host(nodes) if nodes else "127.0.0.1"
    if "MASTER_PORT" not in os.environ:
        job = os.environ.get("SLURM_JOB_ID") if ranks.world_size > 1 else None
        # Two jobs on one node must not join each other: a port of the job's own (and `agree` compares the job id).
        os.environ["MASTER_PORT"] = str(20000 + int(job) % 10000 if job else free_port())


def _first_host(nodes: str) -> str:
    done = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise InputError(
            f"the first of the nodes '{nodes}' must be known to every rank, but `scontrol show hostnames` failed: "
            "set MASTER_ADDR"
        )
    return done.stdout.split()[0]


def die_with_launcher() -> None:
    """Have the kernel kill this process when our launcher dies, however it dies (Linux; else nothing to do)."""
    launcher = os.environ.get(LAUNCHER_PID)
    if launcher is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(launcher):  # it died before the line above
        os._exit(1)


def import_deepspeed() -> Any:
    """Import DeepSpeed so that it builds no C++ op on a CPU and stays quiet.

    On a CPU `init_distributed` would compile a communication op for a minute that training does not need, and fail
    without a compiler: an empty table of compatible ops keeps it on torch's gloo.
    """
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # DeepSpeed calls collectives under their old names; torch would say so at every step.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
    import deepspeed
    import deepspeed.ops
    from deepspeed.utils.logging import set_log_level_from_string

    if not torch.cuda.is_available():
        deepspeed.ops.__compatible_ops__ = {}
    set_log_level_from_string("error")
    _import_muon_uncompiled()
    return deepspeed


def _import_muon_uncompiled() -> None:
    """Import DeepSpeed's Muon, about which `initialize` asks, without the compiled functions that it is made of.

    Their decorators import all of torch's compiler: more than a second of every start, for what is never called here.
    """
    from deepspeed.runtime import compiler

    compile_function = compiler.compile
    compiler.compile = lambda *_, **__: lambda function: function
    try:
        importlib.import_module("deepspeed.runtime.zero.muon.original_muon")
    finally:
        compiler.compile = compile_function


class Group:
    """The ranks as a group that exchanges small values on the host, besides the tensors DeepSpeed moves."""

    def __init__(self, ranks: Ranks, timeout_seconds: float) -> None:
        self.ranks = ranks
        rendezvous(ranks)
        timeout = timedelta(seconds=timeout_seconds)
        self._deepspeed = import_deepspeed()
        self._deepspeed.init_distributed(
            dist_backend="nccl" if torch.cuda.is_available() else "gloo",
            auto_mpi_discovery=False,
            verbose=False,
            timeout=timeout,
        )
        # Host-side exchange never waits for the device, so a step's counts and votes cost no device sync.
        self._host = dist.new_group(backend="gloo", timeout=timeout)

    def close(self) -> None:
        """Leave the group, so that another run may follow in this process."""
        self._deepspeed.comm.destroy_process_group()

    def sum(self, values: list[float]) -> list[float]:
        """Sum a few numbers over all ranks, in double precision. A collective call."""
        tensor = torch.tensor(values, dtype=torch.float64)
        if self.ranks.world_size > 1:
            dist.all_reduce(tensor, group=self._host)
        return [float(value) for value in tensor.tolist()]

    def maximum(self, values: list[float]) -> list[float]:
        """Return the largest over all ranks of each of a few numbers, in double precision. A collective call."""
        tensor = torch.tensor(values, dtype=torch.float64)
        if self.ranks.world_size > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._host)
        return [float(value) for value in tensor.tolist()]

    def gather(self, value: Result) -> list[Result]:
        """Return the (picklable) values of all ranks, by rank, on every rank. A collective call."""
        gathered: list[Any] = [value] * self.ranks.world_size
        if self.ranks.world_size > 1:
            dist.all_gather_object(gathered, value, group=self._host)
        return gathered

    def together(self, check: Callable[[], Result]) -> Result:
        """Run `check` on every rank and return this rank's result, if it holds on all of them. A collective call.

        Raises:
            InputError: on every rank, with the sentence of the lowest rank whose check raised an InputError or
                OSError, and which rank on which host that was.
        """
        result, sentence = None, None
        try:
            result = check()
        except (InputError, OSError) as error:
            sentence = str(error)
        for rank, (host, said) in enumerate(self.gather((socket.gethostname(), sentence))):
            if said is not None:
                where = f"on rank {rank} ({host}): " if self.ranks.world_size > 1 else ""
                raise InputError(f"{where}{said}")
        return cast(Result, result)

    def from_main(self, make: Callable[[], Result]) -> Result:
        """Run `make` on rank 0 and hand its (picklable) result to every rank; so too an InputError or OSError.

        A collective call: all ranks raise what rank 0 raised, so none is left waiting.
        """
        box: list[Any] = [None, None]
        if self.ranks.is_main:
            try:
                box[0] = make()
            except (InputError, OSError) as error:
                box[1] = error
        if self.ranks.world_size > 1:
            dist.broadcast_object_list(box, src=0, group=self._host)
        if box[1] is not None:
            raise box[1]
        result: Result = box[0]
        return result

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Compare the ranks' facts (option or property -> value). A collective call.

        Raises:
            InputError: on every rank, naming the two ranks and the first fact that differs.
        """
        gathered = self.gather(dict(facts))
        for rank, other in enumerate(gathered[1:], start=1):
            for name in sorted({*gathered[0], *other}):
                mine, theirs = gathered[0].get(name, "(not set)"), other.get(name, "(not set)")
                if mine != theirs:
                    raise InputError(
                        f"all ranks must be started alike, but '{name}' is {mine!r} on rank 0 and {theirs!r} on rank "
                        f"{rank}: give every rank the same command"
                    )
