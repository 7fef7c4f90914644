"""MASS: the encoder sees a text without a fragment, the decoder predicts the fragment (Song et al., 2019).

The choice is made when a row is read, from the row's own key (`Objective.make_batch`). Rows are never changed in place.
Must not import deepspeed.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.batching import PairBatch, from_rows
from pretrain.data.counter import UInt64Array
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderDecoderConfig
from pretrain.models.tokens import Tokens
from pretrain.objectives import DataFacts, MicroBatch, ReadsRows
from pretrain.objectives.fragments import BoolArray, FragmentRule, Int64Array, choose_fragments, most_targets
from pretrain.objectives.masking import Choice, replace_tokens
from pretrain.objectives.pairs import pair_states, require_decoder

DecoderInput = Literal["previous", "mask"]

ROW_MULTIPLE = 8  # of the decoder's rows: kernels read masks and half-precision numbers in groups of eight


@dataclass(frozen=True)
class Corrupted:
    """R rows as the encoder gets them, and what was done to them.

    `inputs` int64 [R, L]; bool [R, L]: `hidden`, which places lie in a fragment and so are targets; `begins`, which of
    these are the first of a fragment; `kept`, which of these hold their own token after all, so that the encoder sees
    the target (by the mix of replacements, or since the random token is the same).
    """

    inputs: Int64Array
    hidden: BoolArray
    begins: BoolArray
    kept: BoolArray


class MASS(ReadsRows):
    """Masked sequence to sequence pre-training, on packed rows, with fixed shapes for both sides.

    A fragment has `fragment_share` of the tokens of a piece (k = round(share * m), half to even; m does not count [CLS]
    and [SEP], which are never in a fragment; a piece with k = 0 has none). In a piece of more than `block_size` tokens
    each block of so many has its own; null: one a piece, however long. Of the fragments, `first_share` begin at the
    first token, `last_share` end at the last, the rest begin anywhere (0.2, 0.2 in the authors' code; 0, 0 in the
    paper).

    In the encoder's input a fragment's tokens become [MASK] (`mask_share`), a random ordinary token (`random_share`)
    or stay. The decoder works on fragments only: the token at place t - 1, at its original position t - 1, predicts
    the token at t. For the first token of a fragment that input is the token before the fragment
    (`decoder_input=previous`, as in the authors' code), or [MASK] (`mask`, as in the paper's figure 1). With
    `cross_attention_to_masks=false` the decoder does not see the encoder's states of [MASK] tokens (the authors' code;
    the paper says nothing of it).

    Training and validation do the same. Raises InputError for a value out of its range.
    """

    loss_names: tuple[str, ...] = ("mass",)
    columns: tuple[str, ...] = ()
    needs_partners = False

    def __init__(
        self,
        facts: DataFacts,
        *,
        fragment_share: float = 0.5,
        first_share: float = 0.2,
        last_share: float = 0.2,
        block_size: int | None = 64,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        decoder_input: DecoderInput = "previous",
        cross_attention_to_masks: bool = True,
    ) -> None:
        if not 0.0 < fragment_share <= 1.0:
            raise InputError(f"objective.fragment_share must be above 0 and at most 1, but is {fragment_share}.")
        for one, other, first, second in (
            ("first_share", "last_share", first_share, last_share),
            ("mask_share", "random_share", mask_share, random_share),
        ):
            for name, value in ((one, first), (other, second)):
                if not 0.0 <= value <= 1.0:
                    raise InputError(f"objective.{name} must be between 0 and 1, but is {value}.")
            if first + second > 1.0 + 1e-9:
                raise InputError(f"objective.{one} + objective.{other} must be at most 1, but is {first + second:g}.")
        if block_size is not None and block_size < 1:
            raise InputError(f"objective.block_size must be at least 1 or null, but is {block_size}.")
        if decoder_input not in ("previous", "mask"):
            raise InputError(f"objective.decoder_input must be previous or mask, but is '{decoder_input}'.")
        self.rule = FragmentRule(fragment_share, first_share, last_share, block_size)
        self.mask_share, self.random_share = mask_share, random_share
        self.decoder_input, self.cross_attention_to_masks = decoder_input, cross_attention_to_masks
        self._facts = facts
        self._mask_id, self._pad_id = facts.special_ids["mask"], facts.special_ids["pad"]
        self._random_ids = np.setdiff1d(np.arange(facts.vocab_size), list(facts.special_ids.values()))
        most = most_targets(facts.row_length, self.rule)
        self.decoder_row_length = max(1, -(-most // ROW_MULTIPLE)) * ROW_MULTIPLE

    def build_model(self, architecture: EncoderDecoderConfig, vocab_size: int) -> nn.Module:
        """Return an encoder with a decoder.

        Raises InputError for a model without a decoder, or one with languages where rows do not know theirs.
        """
        model = require_decoder(architecture, vocab_size, "mass")
        if architecture.languages and not self._facts.languages:
            raise InputError(
                f"the model has embeddings for the languages {', '.join(architecture.languages)}, but no shard "
                "directory is in one: give languages='{NAME: DIRECTORY, ...}', or set model.languages=[]."
            )
        return model

    def make_batch(
        self,
        rows: Rows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Rows | None = None,
    ) -> MicroBatch[PairBatch]:
        """Take the fragments out of R rows as their keys [R] say; rows that are not `used` [R] get no weight.

        All rows of the decoder have `decoder_row_length` places, and every place is a target slot. Raises ValueError
        for rows whose fragments do not fit into that: they are no packed pieces with a special token at either end.
        """
        ids = rows.input_ids.astype(np.int64)
        corrupted = self.corrupt(rows, row_keys)
        input_ids, position_ids, layout = from_rows(corrupted.inputs, rows.segments)
        targets = np.flatnonzero(corrupted.hidden)
        row = targets // ids.shape[1]
        slots, decoder_layout = self._decoder_layout(layout, targets, row, len(ids))
        before = ids.reshape(-1)[targets - 1]
        if self.decoder_input == "mask":
            before = np.where(corrupted.begins.reshape(-1)[targets], self._mask_id, before)
        places = len(ids) * self.decoder_row_length

        def filled(values: NDArray[np.generic], padding: float) -> Tensor:
            """A tensor [D] of the type of `values`, which lie in the slots of the targets."""
            whole = np.full(places, padding, dtype=values.dtype)
            whole[slots] = values
            return torch.from_numpy(whole)

        weights = filled(used[row].astype(np.float32), 0.0)
        hidden_keys = None
        if not self.cross_attention_to_masks:
            hidden_keys = torch.from_numpy((corrupted.hidden & (corrupted.inputs == self._mask_id)).reshape(-1))
        batch = PairBatch(
            source=Tokens(input_ids, position_ids, layout, _for_each_place(rows.language, ids.shape[1])),
            target=Tokens(
                input_ids=filled(before, self._pad_id),
                position_ids=filled(position_ids.numpy()[targets] - 1, 0),
                layout=decoder_layout,
                language_ids=_for_each_place(rows.language, self.decoder_row_length),
            ),
            target_positions=torch.arange(places),
            labels=filled(ids.reshape(-1)[targets], 0),
            weights=weights,
            hidden_keys=hidden_keys,
        )
        tokens = int((rows.segments > 0)[used].sum())
        return MicroBatch(batch, counts={"mass": float(weights.sum())}, tokens=tokens)

    def corrupt(self, rows: Rows, row_keys: UInt64Array) -> Corrupted:
        """Return R rows with their fragments replaced as their keys [R] say, and where."""
        ids = rows.input_ids.astype(np.int64)
        fragments = choose_fragments(rows.segments, row_keys, self.rule)
        hidden = fragments.places(ids.shape)
        inputs = replace_tokens(
            ids,
            Choice(hidden),
            row_keys,
            mask_share=self.mask_share,
            random_share=self.random_share,
            mask_id=self._mask_id,
            random_ids=self._random_ids,
        )
        return Corrupted(inputs, hidden, fragments.starts(ids.shape), hidden & (inputs == ids))

    def _decoder_layout(
        self, layout: AttentionLayout, targets: Int64Array, row: Int64Array, count: int
    ) -> tuple[Int64Array, AttentionLayout]:
        """Where in the decoder's flat tokens the targets go, int64 [targets], and the layout of these tokens.

        `targets` are places among the encoder's flat tokens, in order, `row` their rows, of which there are `count`.
        """
        length = self.decoder_row_length
        in_row = np.bincount(row, minlength=count)
        if in_row.max(initial=0) > length:
            raise ValueError(
                f"a row has {in_row.max()} targets, more than packed pieces [CLS] ... [SEP] can have: {length}"
            )
        slots = np.arange(len(targets)) - (np.cumsum(in_row) - in_row)[row] + row * length
        bounds = layout.cu_seqlens.numpy()
        sequence = np.searchsorted(bounds, targets, side="right") - 1
        sizes = np.bincount(sequence, minlength=len(bounds) - 1)
        # Each row's last sequence that has targets (where none has, its first) takes the rest of the row.
        last = np.searchsorted(bounds, np.arange(count) * layout.row_length)
        np.maximum.at(last, row, sequence)
        sizes[last] += length - in_row
        ends = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        return slots, AttentionLayout(torch.from_numpy(ends), max_seqlen=length, row_length=length)

    def loss(self, model: nn.Module, batch: PairBatch) -> dict[str, Tensor]:
        """Sum of the cross-entropies of the fragments' tokens, in fp32."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        states = pair_states(model, batch)
        return {"mass": linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights)}


def _for_each_place(language: Int64Array | None, row_length: int) -> Tensor | None:
    """The languages of rows [R] as one id a token [R * row_length]."""
    return None if language is None else torch.from_numpy(np.repeat(language, row_length))
