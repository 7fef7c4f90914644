"""Rows, batches and a small model for the tests of MASS."""

import numpy as np
import torch

from pipeline.shards import Rows
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.tokens import Tokens
from pretrain.objectives import DataFacts

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
PAD, CLS, SEP, MASK = 0, 2, 3, 4
VOCAB, LENGTH = 4000, 32
FACTS = DataFacts(VOCAB, SPECIAL, LENGTH)
MODEL = Seq2SeqConfig(
    hidden_size=16, num_encoder_layers=2, num_decoder_layers=2, num_heads=2, intermediate_size=16, max_positions=LENGTH
)
ALL_MASKED = {"mask_share": 1.0, "random_share": 0.0}


def row_keys(count, name="test"):
    return hash_coordinates(derive_key(name), np.arange(count))


def rows_of(pieces, length=LENGTH):
    """Rows of pieces [CLS] text [SEP] with so many tokens of text each; no ordinary token comes twice in the batch."""
    ids = np.full((len(pieces), length), PAD, dtype=np.uint16)
    segments = np.zeros((len(pieces), length), dtype=np.int32)
    token = 5
    for row, sizes in enumerate(pieces):
        place = 0
        for number, size in enumerate(sizes, start=1):
            ids[row, place : place + size + 2] = [CLS, *range(token, token + size), SEP]
            segments[row, place : place + size + 2] = number
            place, token = place + size + 2, token + size
    return Rows(ids, segments)


def batch_of(objective, rows, keys=None, used=None, training=True):
    count = len(rows.input_ids)
    return objective.make_batch(
        rows,
        row_keys(count) if keys is None else keys,
        np.ones(count, dtype=bool) if used is None else np.array(used),
        training=training,
    )


def tensors_of(batch):
    """All that a batch holds, by name, as lists; what a side holds by "source.name" or "target.name"."""
    parts = {name: part for name, part in vars(batch).items() if not isinstance(part, Tokens)}
    for side in ("source", "target"):
        parts |= {f"{side}.{name}": part for name, part in vars(getattr(batch, side)).items()}
    found = {}
    for name, part in parts.items():
        tensor = part.cu_seqlens if hasattr(part, "cu_seqlens") else part
        found[name] = None if tensor is None else tensor.tolist()
    return found


def model_of(objective, seed=0, config=MODEL):
    torch.manual_seed(seed)
    return objective.build_model(config, VOCAB).eval()
