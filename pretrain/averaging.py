"""The mean of several checkpoints' weights: often better than the last ones alone, and free.

Which ones and how; that a model is made of it is for who asks. Must not import a model, deepspeed or Hydra.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from conf.errors import InputError
from pretrain.checkpoints import STATE, Checkpoint, CheckpointFolder, name_of, verify


def checkpoints_to_average(checkpoint: str | Path, average: int | Sequence[str]) -> list[Checkpoint]:
    """Return the verified checkpoints that the option `average` names, oldest first.

    `checkpoint` is a run directory or one of its checkpoints. A number k means the last k up to it (of a run
    directory: the last k there are); a list names checkpoints of the run (step-00000200, or best: that
    of the best validation) or folders anywhere.

    Raises InputError if there are fewer, one is damaged, or they are not of one architecture and tokenizer.
    """
    path = Path(checkpoint)
    is_checkpoint = (path / STATE).is_file()
    folder = CheckpointFolder(path.parent.parent if is_checkpoint else path)
    if isinstance(average, int):
        if average < 1:
            raise InputError(f"option 'average' must be at least 1, but is {average}")
        there = [found for found in folder.steps() if not is_checkpoint or found.name <= path.name]
        if len(there) < average:
            names = f" ({', '.join(found.name for found in there)})" if there else ""
            raise InputError(
                f"average={average} needs {average} checkpoints, but '{checkpoint}' has {len(there)}{names}: give a "
                "smaller number, or train with trainer.keep_last as large"
            )
        chosen = there[-average:]
    else:
        chosen = [_named(folder, name) for name in average]
        if not chosen:
            raise InputError("option 'average' must name at least one checkpoint, but is an empty list")
    found = sorted((Checkpoint(place, verify(place)) for place in chosen), key=lambda one: one.state.step)
    for other in found[1:]:
        for what in ("model", "vocab_size", "tokenizer_hash"):
            if getattr(other.state, what) != getattr(found[0].state, what):
                raise InputError(
                    f"only checkpoints of one model can be averaged, but '{found[0].path}' and '{other.path}' differ "
                    f"in {what}"
                )
    return found


def average_weights(checkpoints: Sequence[Checkpoint]) -> dict[str, torch.Tensor]:
    """Return the mean of the weights, summed in fp64 and rounded once; what is not a float must be the same in all.

    Holds one checkpoint and the fp64 sum in memory, however many there are.
    """
    first = checkpoints[0].weights()
    sums = {name: value.double() if value.is_floating_point() else value for name, value in first.items()}
    for checkpoint in checkpoints[1:]:
        for name, value in checkpoint.weights().items():
            if value.is_floating_point():
                sums[name] += value.double()
            elif not torch.equal(sums[name], value):
                raise InputError(f"'{name}' is no floating-point tensor and differs in '{checkpoint.path}'")
    return {
        name: (total / len(checkpoints)).to(first[name].dtype) if first[name].is_floating_point() else total
        for name, total in sums.items()
    }


def _named(folder: CheckpointFolder, name: str) -> Path:
    if name == "best":
        return folder.best().path
    places = (folder.path / name, Path(name))
    found = next((place for place in places if (place / STATE).is_file()), None)
    if found is None:
        raise InputError(
            f"option 'average' names '{name}', but neither '{places[0]}' nor '{name}' is a checkpoint (as "
            f"{name_of(200)} would be, or best)"
        )
    return found
