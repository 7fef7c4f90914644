"""Masked language modelling: the choice of targets, what stands in their place, and the loss.

The choice is made when a row is read, by a counter-based generator and the row's own key (`make_batch`): the same on
every rank layout, another one at each visit. Rows are never changed in place. Must not import deepspeed.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.batching import Batch, from_rows
from pretrain.data.counter import UInt64Array, hash_coordinates, integers, uniform
from pretrain.models.encoder import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.cross_entropy import weighted_cross_entropy

_ORDER, _REPLACEMENT, _RANDOM_ID = (np.array([stream]) for stream in range(3))  # independent random streams


@dataclass(frozen=True)
class Masked:
    """Rows with their targets: `inputs` int64 [R, L], `chosen` bool [R, L] (the inputs to be predicted)."""

    inputs: NDArray[np.int64]
    chosen: NDArray[np.bool_]


def number_of_targets(maskable: NDArray[np.int64], probability: float) -> NDArray[np.int64]:
    """Return n = round(p * maskable tokens of the row), half to even, [R] (DEFINITIONS.md; Devlin et al., 2019)."""
    return np.rint(probability * maskable).astype(np.int64)


def choose_targets(maskable: NDArray[np.bool_], row_keys: UInt64Array, probability: float) -> NDArray[np.bool_]:
    """Choose exactly `number_of_targets` of the maskable places of each row, every subset being as likely.

    maskable [R, L], row_keys [R, 1] -> bool [R, L]: the n maskable places with the smallest random words.
    """
    positions = np.arange(maskable.shape[1])[None, :]
    words = hash_coordinates(row_keys, _ORDER, positions)
    words = np.where(maskable, words, np.uint64(2**64 - 1))
    wanted = number_of_targets(maskable.sum(axis=1), probability)
    order = np.argsort(words, axis=1, kind="stable")
    chosen = np.zeros_like(maskable)
    np.put_along_axis(chosen, order, positions < wanted[:, None], axis=1)
    return chosen & maskable


def mask_rows(
    input_ids: NDArray[np.int64],
    maskable: NDArray[np.bool_],
    row_keys: UInt64Array,
    *,
    probability: float,
    mask_share: float,
    random_share: float,
    mask_id: int,
    ordinary_ids: NDArray[np.int64],
) -> Masked:
    """Mask rows [R, L]: of the chosen places mask_share become `mask_id`, random_share one of `ordinary_ids`.

    The rest keep their token. `row_keys` [R, 1] hold all the randomness; `input_ids` is left as it is.
    """
    chosen = choose_targets(maskable, row_keys, probability)
    rows, positions = np.nonzero(chosen)
    keys = row_keys[rows, 0]
    draw = uniform(hash_coordinates(keys, _REPLACEMENT, positions))
    other = ordinary_ids[integers(hash_coordinates(keys, _RANDOM_ID, positions), len(ordinary_ids))]
    kept = input_ids[rows, positions]
    inputs = input_ids.copy()
    inputs[rows, positions] = np.where(
        draw < mask_share, mask_id, np.where(draw < mask_share + random_share, other, kept)
    )
    return Masked(inputs, chosen)


class MaskedLM:
    """The objective of BERT, with dynamic masking (RoBERTa) and a fixed capacity of target slots a micro-batch.

    Training masks `mask_probability` of a row's ordinary tokens, evaluation `evaluation_mask_probability` by masks
    that never change (MosaicBERT: 30 % and 15 %). `mask_share` / `random_share` / the rest: 80/10/10 in BERT.
    """

    loss_names: tuple[str, ...] = ("masked_lm",)
    columns: tuple[str, ...] = ()
    needs_partners = False

    def __init__(
        self,
        facts: DataFacts,
        *,
        mask_probability: float = 0.15,
        evaluation_mask_probability: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
    ) -> None:
        for name, value in (
            ("mask_probability", mask_probability),
            ("evaluation_mask_probability", evaluation_mask_probability),
            ("mask_share", mask_share),
            ("random_share", random_share),
        ):
            if not 0.0 <= value <= 1.0:
                raise InputError(f"objective.{name} must be between 0 and 1, but is {value}.")
        if mask_share + random_share > 1.0 + 1e-9:
            raise InputError(
                f"objective.mask_share + objective.random_share must be at most 1, "
                f"but is {mask_share + random_share:g}."
            )
        self.mask_probability = mask_probability
        self.evaluation_mask_probability = evaluation_mask_probability
        self.mask_share = mask_share
        self.random_share = random_share
        self._facts = facts
        specials = np.array(sorted(facts.special_ids.values()), dtype=np.int64)
        self._is_special = np.zeros(facts.vocab_size, dtype=bool)
        self._is_special[specials] = True
        self._ordinary_ids = np.setdiff1d(np.arange(facts.vocab_size, dtype=np.int64), specials)

    def build_model(self, architecture: EncoderConfig, vocab_size: int) -> nn.Module:
        """Return an encoder with the masked-LM head."""
        return MaskedLanguageModel(architecture, vocab_size)

    def make_batch(
        self,
        rows: Rows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Rows | None = None,
    ) -> MicroBatch:
        """Mask R rows as their keys [R] say; rows that are not `used` [R] get no weight."""
        probability = self.mask_probability if training else self.evaluation_mask_probability
        ids = rows.input_ids.astype(np.int64)
        real = rows.segments > 0
        masked = mask_rows(
            ids,
            real & ~self._is_special[ids],
            row_keys[:, None],
            probability=probability,
            mask_share=self.mask_share,
            random_share=self.random_share,
            mask_id=self._facts.special_ids["mask"],
            ordinary_ids=self._ordinary_ids,
        )
        targets = np.flatnonzero(masked.chosen)
        # Fixed shapes for compiled kernels: every batch has the slots that rows full of maskable tokens would need.
        capacity = max(1, len(ids) * int(np.rint(probability * self._facts.row_length)))
        positions, labels, weights = (np.zeros(capacity, dtype) for dtype in (np.int64, np.int64, np.float32))
        positions[: len(targets)] = targets
        labels[: len(targets)] = ids.reshape(-1)[targets]
        weights[: len(targets)] = used[targets // ids.shape[1]]
        input_ids, position_ids, layout = from_rows(torch.from_numpy(masked.inputs), torch.from_numpy(rows.segments))
        batch = Batch(
            input_ids=input_ids,
            position_ids=position_ids,
            layout=layout,
            target_positions=torch.from_numpy(positions),
            labels=torch.from_numpy(labels),
            weights=torch.from_numpy(weights),
        )
        return MicroBatch(batch, counts={"masked_lm": float(weights.sum())}, tokens=int(real[used].sum()))

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, torch.Tensor]:
        """Sum of weight * cross-entropy over the target slots, in fp32; 0 where no slot has a weight."""
        logits = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions)
        return {"masked_lm": weighted_cross_entropy(logits, batch.labels, batch.weights)}
