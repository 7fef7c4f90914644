"""What a preflight runs on the nodes, one process for each GPU as training has it: `slurm.preflight` submits it.

    srun python -m slurm.preflight_node output=FOLDER

Each node writes `node-<number>.json` into the folder, the ranks together `network.json`; `slurm.preflight_checks`
judges them. What cannot be measured is missing there, and is a failure by that. Must not import `pipeline` or
`pretrain`.
"""

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from conf.files import atomic_write_text

SEEN_SECONDS = 60.0
RENAMING_SECONDS = 2.0
NETWORK_SECONDS = 120.0
CLOCK_ROUNDS = 5
LINES_OF_RENAMED = 2048  # of 32 bytes
MEGABYTES = {"cuda": 256, "cpu": 16}
PACKAGES = ("conf", "pipeline", "pretrain", "slurm")


def main() -> None:
    """Measure, and write what was found."""
    folder = Path(sys.argv[1].removeprefix("output="))
    rank, node = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NODEID"])
    nodes, world = int(os.environ["SLURM_STEP_NUM_NODES"]), int(os.environ["SLURM_STEP_NUM_TASKS"])
    if os.environ["SLURM_LOCALID"] == "0":
        report = measure(folder)
        _write(folder / f"node-{node}.json", report)  # before all that may wait for other nodes
        report["unseen"] = unseen(folder, nodes, SEEN_SECONDS)
        report["renaming"] = renaming(folder / "renamed", node, RENAMING_SECONDS)
        _write(folder / f"node-{node}.json", report)
    try:
        found = network(rank, world, int(os.environ["SLURM_LOCALID"]))
    except Exception as error:
        words = " ".join(str(error).split())[:300]
        _write(folder / f"network-failed-{rank}.json", {"rank": rank, "error": f"{type(error).__name__}: {words}"})
        raise
    if rank == 0:
        _write(folder / "network.json", found)


def measure(folder: Path) -> dict[str, Any]:
    """What one node has: name, versions, GPUs that torch sees, and what is free where the run and where /tmp lies."""
    import torch

    space, scratch = os.statvfs(folder), os.statvfs(tempfile.gettempdir())
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "node": platform.node(),
        "versions": versions(),
        "gpus": gpus,
        "gpu_names": sorted({torch.cuda.get_device_name(gpu) for gpu in range(gpus)}),
        "free_bytes": space.f_bavail * space.f_frsize,
        # A file system that does not count them says 0 of 0.
        "free_inodes": space.f_favail if space.f_files else None,
        "scratch_free_bytes": scratch.f_bavail * scratch.f_frsize,
    }


def versions() -> dict[str, str]:
    """What must be alike on all nodes."""
    found = {"python": platform.python_version(), "code": code_hash()}
    for package in ("torch", "deepspeed"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def code_hash() -> str:
    """A short hash over the project's own files on this machine."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def unseen(folder: Path, nodes: int, seconds: float) -> list[int]:
    """The numbers of the nodes whose reports are not seen here after so many seconds."""
    until = time.monotonic() + seconds
    while True:
        os.listdir(folder)  # noqa: PTH208  asks a network file system anew
        left = [node for node in range(nodes) if not (folder / f"node-{node}.json").is_file()]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def renaming(path: Path, node: int, seconds: float) -> str | None:
    """Rename files onto one name, again and again, as all nodes do at once, and read what is there.

    Returns:
        What was read that no node had written so; None when every reading was one whole file.
    """
    own = path.with_name(f".renamed-{node}")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        own.write_text(f"{node:031d}\n" * LINES_OF_RENAMED)
        own.replace(path)
        try:
            lines = path.read_text().splitlines()
        except FileNotFoundError:
            return "the name was gone for a moment"
        except OSError as error:
            if error.errno == errno.ESTALE:  # the file read was replaced: a network file system may say so
                continue
            raise
        if len(lines) != LINES_OF_RENAMED:
            return f"a file was seen with {len(lines)} of its {LINES_OF_RENAMED} lines"
        if len(set(lines)) > 1:
            return "parts of two files were seen as one"
    return None


def network(rank: int, world: int, local_rank: int) -> dict[str, Any]:
    """Join all ranks, compare clocks and add up numbers over all of them.

    Returns:
        `backend`, `ranks`, `right` (whether the sums are), `megabytes` and `seconds` of one all-reduce, and `clocks`:
        by node, how far ahead of rank 0's its clock is, in seconds.
    """
    import torch
    import torch.distributed as dist

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device("cuda", local_rank % torch.cuda.device_count()) if kind == "cuda" else torch.device("cpu")
    backend = "nccl" if kind == "cuda" else "gloo"
    meeting = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    timeout = timedelta(seconds=NETWORK_SECONDS)
    dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=world, timeout=timeout)
    try:
        objects = dist.new_group(backend="gloo", timeout=timeout)
        ahead: dict[str, list[float]] = {}
        for _ in range(CLOCK_ROUNDS):
            dist.barrier(objects)
            times: list[Any] = [None] * world
            dist.all_gather_object(times, (platform.node(), time.time()), group=objects)
            for node, clock in times:
                ahead.setdefault(node, []).append(clock - times[0][1])
        numbers = torch.ones(MEGABYTES[kind] << 18, device=device)
        seconds = []
        for _ in range(4):
            numbers.fill_(1.0)
            dist.barrier(objects)
            begun = time.perf_counter()
            dist.all_reduce(numbers)
            if kind == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - begun)
        right = bool((numbers == world).all())
        verdicts: list[Any] = [None] * world
        dist.all_gather_object(verdicts, right, group=objects)
    finally:
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
    return {
        "backend": backend,
        "ranks": world,
        "right": all(verdicts),
        "megabytes": MEGABYTES[kind],
        "seconds": statistics.median(seconds[1:]),  # the first connects
        "clocks": {node: statistics.median(values) for node, values in ahead.items()},
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    atomic_write_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
