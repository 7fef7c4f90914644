"""Pretrained weights into a model that is about to be trained: what fits is taken over, what does not is said.

The two models are of one shape; they may differ in the sentence head (the objectives differ) and the new one may know
more tokens. No file is read here (`load.py`), and no optimiser state is touched.
"""

from __future__ import annotations

from dataclasses import asdict

import torch

from conf.errors import InputError
from pretrain.models.config import adopted_differences
from pretrain.models.language_model import LanguageModel
from pretrain.models.resize import resize_weights

# The parts that only a sentence loss trains: a model has them or not by its objective.
_SENTENCE_PARTS = ("encoder.pooler.", "sentence_head.")


@torch.no_grad()
def adopt_weights(model: LanguageModel, source: LanguageModel, where: str, seed: int) -> list[str]:
    """Copy the weights of `source` (loaded from `where`) into `model`; return sentences for the log on what differs.

    A sentence head that only `model` has keeps its fresh weights, one that only `source` has is not used. Where the
    vocabulary of `model` is larger, new tokens start from the published distribution, drawn from `seed`.
    Raises InputError, naming the tensor, if the models are of different shapes, for a smaller vocabulary, and for an
    option without which the weights mean nothing (`adopted_differences`).
    """
    notes = adopted_differences(asdict(source.config), asdict(model.config), where)
    theirs = source.state_dict()
    added = model.vocab_size - source.vocab_size
    if added:
        generator = torch.Generator().manual_seed(seed)
        theirs = resize_weights(theirs, source.config, source.vocab_size, model.vocab_size, generator)
        notes.append(f"{added} tokens that '{where}' does not know start from fresh embeddings")
    mine = model.state_dict()
    lacking, unused = set(mine) - set(theirs), set(theirs) - set(mine)
    if lacking and all(name.startswith(_SENTENCE_PARTS) for name in lacking):
        notes.append(f"'{where}' holds no sentence head: it and the pooler start from fresh weights")
        theirs = {**theirs, **{name: mine[name] for name in lacking}}
    if unused and all(name.startswith(_SENTENCE_PARTS) for name in unused):
        notes.append(f"the sentence head of '{where}' and its pooler are not used: this objective has no sentence loss")
        theirs = {name: tensor for name, tensor in theirs.items() if name not in unused}
    for name in sorted({*mine, *theirs}):
        shapes = [list(state[name].shape) if name in state else "missing" for state in (mine, theirs)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"the model in '{where}' must have the shape that the model options describe, but its '{name}' is "
                f"{shapes[1]} instead of {shapes[0]}; choose the model options it was made with"
            )
    model.load_state_dict(theirs)
    return notes
