"""What is checked before the first step, so that a run does not fail hours later: each failure is one sentence.

Must not import deepspeed or the trainer.
"""

import logging
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from conf.errors import InputError
from pipeline.shards import Manifest
from pipeline.tokenizer import load_tokenizer, special_ids, tokenizer_hash
from pretrain.distributed import Group

logger = logging.getLogger(__name__)
_BYTES_OF_FP32 = 4
_PROBE_BYTES = 64 << 20
_REPEATS = 3
_MODULUS = 1021


def check_tokenizer(directory: Path, manifest: Manifest, vocab_size: int) -> None:
    """Check that the tokenizer of a shard directory is the vocabulary of its manifest and of the model.

    `vocab_size` is the model's. Raises InputError naming the file and what differs.
    """
    file, way_out = directory / "tokenizer.json", "copy the tokenizer that the shards were made with there"
    tokenizer = load_tokenizer(directory)
    if (found := tokenizer_hash(directory)) != manifest.tokenizer_hash:
        raise InputError(
            f"'{file}' must be the tokenizer of the shards ({manifest.tokenizer_hash}), but is another one ({found}): "
            f"{way_out}"
        )
    size = tokenizer.get_vocab_size()
    for name, other in (("manifest.json", manifest.vocab_size), ("the model", vocab_size)):
        if size != other:
            raise InputError(
                f"'{file}' must have the vocabulary of {name}, {other:,} tokens, but has {size:,}: {way_out}"
            )
    ids = special_ids(tokenizer)
    for role in sorted({*ids, *manifest.special_ids}):
        if ids.get(role) != manifest.special_ids.get(role):
            raise InputError(
                f"'{file}' must give the {role} token the id of manifest.json, {manifest.special_ids.get(role)}, but "
                f"gives it {ids.get(role)}: {way_out}"
            )


class _Sample(nn.Module):
    """Two matrices under the names that a decay by layer looks for."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Linear(16, 16, bias=False)
        self.layers = nn.ModuleList([nn.Linear(16, 16, bias=False)])


def optimizer_states(make: Callable[[nn.Module], torch.optim.Optimizer]) -> float:
    """Return how many numbers an optimiser keeps for each number of a matrix (Adam: 2), seen from one step of it.

    `make` builds it for a model, as the `optimizer` group does. Draws nothing from torch's generator.
    """
    with torch.random.fork_rng(devices=[]):
        model = _Sample()
    optimizer = make(model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    kept = sum(
        value.numel()
        for slot in optimizer.state.values()
        for value in slot.values()
        if torch.is_tensor(value) and value.numel() > 1
    )
    return kept / sum(parameter.numel() for parameter in model.parameters())


def checkpoint_bytes(parameters: int, optimizer_states: float) -> int:
    """Return how large a checkpoint will be: weights and `optimizer_states` numbers for each of them, in fp32."""
    return round(_BYTES_OF_FP32 * parameters * (1 + optimizer_states))


def check_space(
    run_dir: Path,
    bytes_of_one: int,
    keep_last: int,
    keep_best: int,
    kept_for_good: int = 0,
    free_bytes: int | None = None,
) -> None:
    """Check that the run directory has room for the checkpoints it will hold at once.

    These are keep_last + keep_best + `kept_for_good` (what `keep_every` will add up to), and one that is being written.
    Checkpoints that lie there already count among them. `free_bytes`: instead of what the file system says is free.

    Raises:
        InputError: it does not fit; exactly what fits does.
    """
    held = keep_last + keep_best + kept_for_good + 1
    there = sum(file.stat().st_size for file in (run_dir / "checkpoints").glob("*/*") if file.is_file())
    free = shutil.disk_usage(run_dir).free if free_bytes is None else free_bytes
    if free + there < held * bytes_of_one:
        besides = f", of which {_size(there)} are there already" if there else ""
        raise InputError(
            f"'{run_dir}' needs room for {held} checkpoints of {_size(bytes_of_one)} (trainer.keep_last={keep_last}, "
            f"keep_best={keep_best}{f', {kept_for_good} by keep_every' if kept_for_good else ''}, one being written), "
            f"{_size(held * bytes_of_one)}{besides}, but only {_size(free)} are free: free some space, keep fewer, or "
            "choose another run_dir"
        )


def _size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def check_all_reduce(group: Group, device: torch.device, probe_bytes: int = _PROBE_BYTES) -> float | None:
    """Check that an all-reduce of the training backend gives the right sum on every rank, and measure it.

    A collective call. Returns the bus bandwidth in bytes per second, the median of a few repeats: 2 (n - 1) / n times
    the size divided by the time, what each of n ranks sends and receives in a ring (as in nccl-tests); None for one
    rank.

    Raises:
        InputError: on every rank, naming the lowest rank where the call failed or the sum was wrong.
    """
    ranks = group.ranks
    if ranks.world_size == 1:
        return None
    count = max(1, probe_bytes // _BYTES_OF_FP32)
    seconds: list[float] = []

    def reduce() -> None:
        backend = dist.get_backend()
        numbers = torch.arange(count, device=device).remainder_(_MODULUS).to(torch.float32)
        expected = numbers * ranks.world_size + ranks.world_size * (ranks.world_size - 1) // 2
        try:
            for _ in range(_REPEATS + 1):
                probe = numbers + ranks.rank
                _wait(device)
                start = time.perf_counter()
                dist.all_reduce(probe)
                _wait(device)
                seconds.append(time.perf_counter() - start)
        except RuntimeError as error:
            raise InputError(
                f"an all-reduce over {backend} failed ({str(error).splitlines()[0]}): check the network between the "
                f"nodes and {'NCCL' if backend == 'nccl' else 'GLOO'}_SOCKET_IFNAME"
            ) from error
        if not torch.equal(probe, expected):
            wrong = int((probe != expected).nonzero()[0])
            raise InputError(
                f"an all-reduce over {backend} must sum to {float(expected[wrong]):g} at place {wrong}, but gave "
                f"{float(probe[wrong]):g}: the device or the network of this rank is faulty, leave it out"
            )

    group.together(reduce)
    median = statistics.median(seconds[1:])  # the first one set up the connections
    slowest = group.maximum([median])[0]
    return 2 * (ranks.world_size - 1) / ranks.world_size * count * _BYTES_OF_FP32 / slowest


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check(
    group: Group,
    device: torch.device,
    shards: Iterable[tuple[Path, Manifest]],
    vocab_size: int,
    space: Callable[[], None],
) -> None:
    """Check all of this, on all ranks together, and log what the ranks reach. A collective call.

    `shards` are the directories in use, `vocab_size` is the model's; `space` calls `check_space`, on rank 0 alone,
    which is the one to write. (That the shards are whole and the ranks agree on options and data is checked where they
    are opened.) Raises InputError on every rank.
    """
    for directory, manifest in shards:
        group.together(lambda directory=directory, manifest=manifest: check_tokenizer(directory, manifest, vocab_size))  # type: ignore[misc]
    group.from_main(space)
    bandwidth = check_all_reduce(group, device)
    if bandwidth is not None and group.ranks.is_main:
        logger.info(
            "all-reduce over %s on %d ranks: right, %.2f GB/s",
            dist.get_backend(),
            group.ranks.world_size,
            bandwidth / 1e9,
        )
