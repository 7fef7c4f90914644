"""Pseudo-log-likelihoods: the scores of texts, or of parts of them, under an encoder. Knows no task and no file.

The pseudo-log-likelihood of a text is the sum over its tokens of log p(token | the rest), with that token masked
(Salazar et al. 2020, "Masked Language Model Scoring", equation 2). The within-word left-to-right form masks, besides
the token, the later pieces of the same word, so that a rare word is not guessed from its own second half (Kauf and
Ivanova 2023, "A Better Way to Do Masked Language Model Scoring"). Of a part of a text only the part's tokens are
summed, each given all the rest.

Queries, that is masked texts, of all texts are pooled: each distinct one goes through the model once (two texts that
differ in one word share the query that hides it), in batches of one length without any padding. A query is two numbers
more than its text, and its row of tokens is made when its batch is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pretrain.data.batching import from_rows
from pretrain.evaluation.scoring_logits import chosen_log_probabilities
from pretrain.evaluation.scoring_texts import TokenizedText
from pretrain.models.evaluation_mode import evaluation_mode
from pretrain.models.masked_lm import MaskedLanguageModel

Variant = Literal["original", "within_word"]
VARIANTS: tuple[Variant, ...] = ("original", "within_word")
TOKENS_PER_BATCH = 2048  # more are no faster on a CPU: layers and logits then leave its caches

Int64Array = NDArray[np.int64]


def hidden_positions(words: Sequence[int | None], position: int, variant: Variant) -> list[int]:
    """Which positions are masked while the token at `position` is predicted."""
    if variant == "original":
        return [position]
    word = words[position]
    later = [p for p in range(position + 1, len(words)) if word is not None and words[p] == word]
    return [position, *later]


@dataclass(frozen=True)
class Queries:
    """The distinct masked texts of one length L, and who asks for which token's probability.

    `ids` int64 [N, L] are the texts; query q is text `text[q]` with positions `first[q]` to `last[q]` masked, and
    predicts the first of them. Asked for are `tokens` [A], by the queries `query` [A] (not decreasing), of the texts
    number `asker` [A] among all texts of the evaluation.
    """

    ids: Int64Array
    text: Int64Array
    first: Int64Array
    last: Int64Array
    query: Int64Array
    tokens: Int64Array
    asker: Int64Array

    @property
    def length(self) -> int:
        """Tokens of a masked text, [CLS] and [SEP] among them."""
        return int(self.ids.shape[1])

    def __len__(self) -> int:
        """How many go through the model."""
        return len(self.text)

    def rows(self, start: int, stop: int, mask_id: int) -> Int64Array:
        """The queries [start, stop) as rows of tokens, [stop - start, L]."""
        rows = self.ids[self.text[start:stop]]
        places = np.arange(self.length)
        hidden = (places >= self.first[start:stop, None]) & (places <= self.last[start:stop, None])
        rows[hidden] = mask_id
        return rows


def build_queries(texts: Sequence[TokenizedText], mask_id: int, variant: Variant) -> Iterator[Queries]:
    """The queries of all texts, one object for each length that occurs, short ones first."""
    lengths = np.array([len(text.ids) for text in texts], dtype=np.int64)
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        yield _queries([texts[index] for index in members.tolist()], members, mask_id, variant)


def _queries(texts: Sequence[TokenizedText], numbers: Int64Array, mask_id: int, variant: Variant) -> Queries:
    ids = np.array([text.ids for text in texts], dtype=np.int64)
    starts, ends = np.array([text.scored for text in texts], dtype=np.int64).T
    counts = ends - starts
    text = np.repeat(np.arange(len(texts)), counts)
    begins = np.cumsum(counts) - counts
    first = np.arange(len(text)) - begins[text] + starts[text]
    last = first if variant == "original" else _word_ends(texts)[text, first]
    keys = _keys(ids, text, first, last, mask_id)
    _, chosen, number = np.unique(keys, return_index=True, return_inverse=True)
    chosen, number = _verified(ids, text, first, last, mask_id, chosen, number)
    # In the order of the texts: rows that are read together lie together.
    order = np.argsort(chosen, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    number, chosen = place[number], chosen[order]
    asked = np.argsort(number, kind="stable")
    return Queries(
        ids=ids,
        text=text[chosen],
        first=first[chosen],
        last=last[chosen],
        query=number[asked],
        tokens=ids[text, first][asked],
        asker=numbers[text][asked],
    )


def _word_ends(texts: Sequence[TokenizedText]) -> Int64Array:
    """int64 [N, L]: the last position of the word that each position belongs to; its own for a special token."""
    words = np.array([[-1 if word is None else word for word in text.words] for text in texts], dtype=np.int64)
    length = words.shape[1]
    ends = np.broadcast_to(np.arange(length), words.shape).copy()
    for position in range(length - 2, -1, -1):
        same = (words[:, position] == words[:, position + 1]) & (words[:, position] >= 0)
        ends[same, position] = ends[same, position + 1]
    return ends


def _random_numbers(shape: tuple[int, ...], seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, 1 << 64, size=shape, dtype=np.uint64)


def _keys(ids: Int64Array, text: Int64Array, first: Int64Array, last: Int64Array, mask_id: int) -> NDArray[np.uint64]:
    """A 64-bit number for each query, equal for equal queries and hardly ever for others.

    It is a sum over places of (random number of the token) * (random number of the place), modulo 2^64, so that a
    masked text's follows from its text's and no row need be made.
    """
    values, inverse = np.unique(np.append(ids.reshape(-1), mask_id), return_inverse=True)
    of_token = _random_numbers(values.shape, 0)[inverse.reshape(-1)]
    of_place = _random_numbers((ids.shape[1],), 1) | np.uint64(1)
    own = of_token[:-1].reshape(ids.shape) * of_place
    masked = of_token[-1] * of_place
    zero = np.zeros((len(ids), 1), dtype=np.uint64)
    change = np.concatenate([zero, np.cumsum(masked - own, axis=1, dtype=np.uint64)], axis=1)
    keys: NDArray[np.uint64] = own.sum(axis=1, dtype=np.uint64)[text] + change[text, last + 1] - change[text, first]
    return keys + _random_numbers((ids.shape[1],), 2)[first]


def _verified(
    ids: Int64Array,
    text: Int64Array,
    first: Int64Array,
    last: Int64Array,
    mask_id: int,
    chosen: Int64Array,
    number: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Representatives and their numbers, after a look at every query that shares one: what differs gets its own."""
    everyone = np.arange(len(number))
    sharing = everyone[chosen[number] != everyone]
    different = []
    places = np.arange(ids.shape[1])
    for start in range(0, len(sharing), 1 << 16):
        mine = sharing[start : start + (1 << 16)]
        other = chosen[number[mine]]
        rows = []
        for query in (mine, other):
            row = ids[text[query]]
            row[(places >= first[query, None]) & (places <= last[query, None])] = mask_id
            rows.append(row)
        different.append(mine[(rows[0] != rows[1]).any(axis=1) | (first[mine] != first[other])])
    alone = np.concatenate(different) if different else np.zeros(0, dtype=np.int64)
    number = number.copy()
    number[alone] = len(chosen) + np.arange(len(alone))
    return np.concatenate([chosen, alone]), number


@torch.inference_mode()
def masked_sums(
    model: MaskedLanguageModel,
    texts: Sequence[TokenizedText],
    mask_id: int,
    variant: Variant,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> NDArray[np.float64]:
    """The pseudo-log-likelihood of each text's scored part, in nats.

    Args:
        model: put into evaluation mode meanwhile; its weights must be fp32.
        texts: of at most the model's positions.
        mask_id: of [MASK].
        variant: see the module.
        tokens_per_batch: about how many tokens go through the model at a time.
    """
    device = next(model.parameters()).device
    sums = np.zeros(len(texts), dtype=np.float64)
    with evaluation_mode(model):
        for queries in build_queries(texts, mask_id, variant):
            size = max(1, tokens_per_batch // queries.length)
            log_probabilities = [np.zeros(0)]
            for start in range(0, len(queries), size):
                stop = min(start + size, len(queries))
                if start == 0 or stop - start < size:  # positions and layout are those of the last batch otherwise
                    shape = (stop - start, queries.length)
                    _, positions, layout = from_rows(np.zeros(shape, dtype=np.int64), np.ones(shape, dtype=np.int64))
                    positions, layout = positions.to(device), layout.to(device)
                    row_starts = np.arange(stop - start) * queries.length
                flat = torch.from_numpy(queries.rows(start, stop, mask_id).reshape(-1)).to(device)
                targets = torch.from_numpy(row_starts + queries.first[start:stop]).to(device)
                states = model.target_states(flat, positions, layout, targets)
                first, last = np.searchsorted(queries.query, (start, stop))
                asked = queries.query[first:last] - start
                log_probabilities.append(chosen_log_probabilities(model, states, asked, queries.tokens[first:last]))
            sums += np.bincount(queries.asker, np.concatenate(log_probabilities), minlength=len(texts))
    return sums
