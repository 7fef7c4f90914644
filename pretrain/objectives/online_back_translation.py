"""On-the-fly back-translation: the model translates a sentence, and learns to get it back from what it wrote.

Unsupervised translation after MASS (Song et al. 2019) and XLM (Lample and Conneau 2019): from monolingual rows of two
languages. Nothing is drawn; what is learned from depends on the model as it is. Must not import deepspeed.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.batching import PairBatch
from pretrain.data.counter import UInt64Array
from pretrain.data.pair_layout import lay_out_pairs, with_sources
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.search import search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.objectives import DataFacts, MicroBatch, ReadsRows
from pretrain.objectives.pairs import pair_states, require_decoder


class OnlineBackTranslation(ReadsRows):
    """Each piece of a row is a sentence y: the model, in evaluation mode and without gradient, translates it greedily
    into the other language, x; the loss is that of y given x.

    x has at most `maximum_ratio` * (tokens of y) + `maximum_length` tokens (1.3 and 5 in XLM), and no more than the
    model has positions. `label_smoothing` acts in training only. Raises InputError for a value out of its range.
    """

    loss_names: tuple[str, ...] = ("back_translation",)
    columns: tuple[str, ...] = ()
    needs_partners = False
    reads_whole_weights = True
    needs_trained_weights = True

    def __init__(
        self,
        facts: DataFacts,
        *,
        maximum_ratio: float = 1.3,
        maximum_length: int = 5,
        label_smoothing: float = 0.0,
    ) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise InputError(f"objective.label_smoothing must be in [0, 1), but is {label_smoothing}.")
        if maximum_ratio < 0 or maximum_length < 1:
            raise InputError(
                "objective.maximum_ratio must be at least 0 and objective.maximum_length at least 1, but they are "
                f"{maximum_ratio} and {maximum_length}."
            )
        self.label_smoothing = label_smoothing
        self._options = BeamSearch(beams=1, maximum_length=maximum_length, maximum_ratio=maximum_ratio)
        self._facts = facts
        self._vocabulary = Vocabulary(facts.special_ids)

    def build_model(self, architecture: Any, vocab_size: int) -> nn.Module:
        """Return an encoder with a decoder.

        Raises InputError for a model without a decoder or without two languages, or rows that do not know theirs.
        """
        model = require_decoder(architecture, vocab_size, "online_back_translation")
        languages = tuple(getattr(architecture, "languages", ()))
        if len(languages) != 2 or not self._facts.languages:
            found = ", ".join(languages) if languages else "none"
            raise InputError(
                "objective=online_back_translation needs a model with two languages and shards of both, but "
                f"model.languages is {found}: set model.languages='[A, B]' and languages='{{A: DIRECTORY, B: "
                "DIRECTORY}'."
            )
        return model

    def make_batch(
        self,
        rows: Rows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Any = None,
    ) -> MicroBatch[PairBatch]:
        """Take the sentences of R rows apart: each is its own source for now; `loss` puts a translation there."""
        assert rows.language is not None
        inside = rows.segments > 0
        row, _ = np.nonzero(inside)
        segments = rows.segments[inside].astype(np.int64)
        begins = np.flatnonzero(np.diff(row * (int(segments.max(initial=0)) + 1) + segments, prepend=-1))
        lengths = np.diff(begins, append=len(segments))
        ids, of = rows.input_ids[inside], row[begins]
        own = rows.language[of]
        batch = lay_out_pairs(
            ids,
            lengths,
            ids,
            lengths,
            used[of],
            pad_id=self._facts.special_ids["pad"],
            longest=self._facts.row_length,
            languages=(own, own),
        )
        tokens = int(inside[used].sum())
        return MicroBatch(batch, counts={"back_translation": float(batch.weights.sum())}, tokens=tokens)

    def loss(self, model: nn.Module, batch: PairBatch) -> dict[str, Tensor]:
        """Translate the batch's sentences, then sum the cross-entropies of getting them back, in fp32."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        training = model.training
        model.eval()
        try:
            with torch.autocast(batch.source.input_ids.device.type, enabled=False):
                batch = self._translated(cast(EncoderDecoder, model), batch)
        finally:
            model.train(training)
        states = pair_states(model, batch)
        smoothing = self.label_smoothing if training else 0.0
        loss = linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights, smoothing)
        return {"back_translation": loss}

    def _translated(self, model: EncoderDecoder, batch: PairBatch) -> PairBatch:
        """The batch with a translation of each sentence as its source."""
        sentences = batch.source
        assert sentences.language_ids is not None
        bounds = sentences.layout.cu_seqlens.cpu().numpy()
        # A sentence and its padding are two sequences.
        starts, ends = bounds[:-1:2], bounds[1::2]
        flat, own = sentences.input_ids.cpu().numpy(), sentences.language_ids.cpu().numpy()[starts]
        most = int(model.config.max_positions) - 2
        cls_id, sep_id = self._vocabulary.cls_id, self._vocabulary.sep_id
        sources: list[list[int]] = [[] for _ in starts]
        for language in (0, 1):
            numbers = np.flatnonzero(own == language).tolist()
            found = search(
                model,
                [flat[starts[i] : ends[i]].tolist() for i in numbers],
                self._options,
                numbers,
                self._vocabulary,
                source_language=language,
                target_language=1 - language,
            )
            for i, (best, *_) in zip(numbers, found, strict=True):
                sources[i] = [cls_id, *best.tokens[:most], sep_id]
        return with_sources(
            batch, sources, 1 - own, pad_id=self._facts.special_ids["pad"], longest=int(model.config.max_positions)
        ).to(sentences.input_ids.device)
