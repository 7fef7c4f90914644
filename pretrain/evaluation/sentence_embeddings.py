"""Sentences as vectors: the mean of an encoder's last states over all tokens, [CLS] and [SEP] among them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.tokenizer import special_ids
from pretrain.evaluation.finetuning.batches import collate
from pretrain.evaluation.finetuning.encoding import encode
from pretrain.evaluation.finetuning.heads import sequence_means
from pretrain.evaluation.finetuning.recipe import TooLong
from pretrain.evaluation.tasks.definition import TextItem
from pretrain.models.encoder import Encoder
from pretrain.models.evaluation_mode import evaluation_mode

BATCH = 64


@torch.inference_mode()
def mean_embeddings(
    encoder: Encoder, tokenizer: Tokenizer, items: Sequence[TextItem], max_length: int, too_long: TooLong
) -> tuple[NDArray[np.float32], int]:
    """One vector for each item's `text_a` (Reimers and Gurevych 2019, mean pooling), and how many texts were cut.

    Args:
        encoder: in any mode, which is put back.
        tokenizer: the encoder's.
        items: single texts; equal texts cost one forward pass together.
        max_length: tokens of a text with [CLS] and [SEP].
        too_long: what becomes of a longer one, as in `Recipe`.

    Returns:
        [items, hidden size], in the order of the items; a vector does not depend on the others in its batch.

    Raises:
        InputError: as `encode`.
    """
    distinct = {item.text_a: item for item in reversed(items)}  # of equal texts the first names itself in an error
    place = {text: number for number, text in enumerate(distinct)}
    encoded, cut = encode(list(distinct.values()), tokenizer, max_length, too_long)
    pad = special_ids(tokenizer)["pad"]
    found = np.zeros((len(encoded), encoder.config.hidden_size), dtype=np.float32)
    order = np.argsort(encoded.item_lengths, kind="stable")
    with evaluation_mode(encoder):
        for start in range(0, len(order), BATCH):
            members = order[start : start + BATCH]
            batch = collate(encoded, members.tolist(), pad)
            types = batch.token_type_ids if encoder.config.token_types >= 2 else None
            hidden = encoder(batch.input_ids, batch.position_ids, batch.layout, types)
            means = sequence_means(hidden.float(), batch.layout)
            found[members] = means[batch.layout.sequence_ids(len(hidden))[batch.starts]].numpy()
    return found[[place[item.text_a] for item in items]], cut


def cosines(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.float64]:
    """The cosine of each row of the one with the same row of the other; 0 where a row is all zeros."""
    one, other = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((one * other).sum(axis=1), lengths, out=np.zeros(len(one)), where=lengths > 0)
