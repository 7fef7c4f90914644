"""Zero-shot scores of sentences under a masked language model: the pseudo-log-likelihood. Knows no task and no file.

The pseudo-log-likelihood of a sentence is the sum over its tokens of log p(token | the rest), with that token masked
(Salazar et al. 2020, "Masked Language Model Scoring", equation 2). The within-word left-to-right form masks, besides
the token, the later pieces of the same word, so that a rare word is not guessed from its own second half (Kauf and
Ivanova 2023, "A Better Way to Do Masked Language Model Scoring").

Queries, that is masked sentences, of all texts are pooled: each distinct one goes through the model once (two
sentences that differ in one word share the query that hides it), in batches of one length without any padding.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.data.batching import from_rows
from pretrain.models.masked_lm import MaskedLanguageModel

Variant = Literal["original", "within_word"]
Normalisation = Literal["none", "per_token", "per_character"]
VARIANTS: tuple[Variant, ...] = ("original", "within_word")
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "per_token", "per_character")
SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model sees it: ids with [CLS] and [SEP], and for each position the word it belongs to.

    `words` is None where a position is special; positions of one word share a number.
    """

    text: str
    ids: tuple[int, ...]
    words: tuple[int | None, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens that are scored: all but [CLS] and [SEP]."""
        return len(self.ids) - 2


def tokenize(tokenizer: Tokenizer, texts: Sequence[str], max_positions: int) -> list[TokenizedText]:
    """Texts as [CLS] tokens [SEP].

    Raises:
        InputError: a text without any token, or longer than the model's positions (it is never cut: a score of a part
            would pass for a score of the whole).
    """
    special = special_ids(tokenizer)
    tokenized = []
    for text, encoding in zip(texts, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
        if not encoding.ids:
            raise InputError(f"the text {_shown(text)} has no token, so it has no score: remove it")
        length = len(encoding.ids) + 2
        if length > max_positions:
            raise InputError(
                f"a text to score must have at most {max_positions} tokens with [CLS] and [SEP] (the model's "
                f"positions), but {_shown(text)} has {length}: shorten it, or use a model with more positions"
            )
        tokenized.append(
            TokenizedText(
                text=text,
                ids=(special["cls"], *encoding.ids, special["sep"]),
                words=(None, *encoding.word_ids, None),
            )
        )
    return tokenized


def hidden_positions(words: Sequence[int | None], position: int, variant: Variant) -> list[int]:
    """Which positions are masked while the token at `position` is predicted."""
    if variant == "original":
        return [position]
    word = words[position]
    later = [p for p in range(position + 1, len(words)) if word is not None and words[p] == word]
    return [position, *later]


def pseudo_log_likelihoods(
    model: MaskedLanguageModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    variant: Variant = "within_word",
    normalisation: Normalisation = "none",
    tokens_per_batch: int = 4096,
) -> NDArray[np.float64]:
    """Pseudo-log-likelihood of each text, in nats.

    The result does not depend on `tokens_per_batch` or on the other texts, up to the rounding of fp32 (tested to 1e-5).

    Args:
        model: scored in fp32 and evaluation mode; its weights must be fp32.
        tokenizer: the model's own.
        texts: any number; equal ones are scored once.
        variant: "original" or "within_word" (see the module).
        normalisation: "none" is the sum, "per_token" divides by the number of tokens, "per_character" by the number
            of the text's characters.
        tokens_per_batch: about how many tokens go through the model at a time.

    Raises:
        InputError: an unknown variant or normalisation, a text that cannot be scored, or a score that is not finite.
    """
    for name, value, allowed in (
        ("variant", variant, VARIANTS),
        ("normalisation", normalisation, NORMALISATIONS),
    ):
        if value not in allowed:
            raise InputError(f"'{name}' must be one of {', '.join(allowed)}, but is '{value}'")
    distinct = list(dict.fromkeys(texts))
    tokenized = tokenize(tokenizer, distinct, model.config.max_positions)
    sums = _sums(model, tokenized, special_ids(tokenizer)["mask"], variant, tokens_per_batch)
    scores: dict[str, float] = {}
    for text, value in zip(tokenized, sums, strict=True):
        if not np.isfinite(value):
            raise InputError(
                f"the score of {_shown(text.text)} is {value}: the checkpoint's weights give no finite probabilities, "
                "so choose an earlier checkpoint"
            )
        divisor = {"none": 1, "per_token": text.num_tokens, "per_character": len(text.text)}[normalisation]
        scores[text.text] = float(value) / divisor
    return np.array([scores[text] for text in texts], dtype=np.float64)


@dataclass
class _Queries:
    """The distinct masked sentences of one length, and who asks for which token's probability.

    `rows` maps (masked ids, position) -> number; `asked` holds (query, token id, slot in the flat list of all tokens).
    """

    rows: dict[tuple[tuple[int, ...], int], int]
    asked: list[tuple[int, int, int]]


def _sums(
    model: MaskedLanguageModel,
    tokenized: Sequence[TokenizedText],
    mask_id: int,
    variant: Variant,
    tokens_per_batch: int,
) -> NDArray[np.float64]:
    by_length: dict[int, _Queries] = defaultdict(lambda: _Queries({}, []))
    starts = np.zeros(len(tokenized), dtype=np.int64)
    slot = 0
    for index, text in enumerate(tokenized):
        starts[index] = slot
        queries = by_length[len(text.ids)]
        for position in range(1, len(text.ids) - 1):
            masked = list(text.ids)
            for hidden in hidden_positions(text.words, position, variant):
                masked[hidden] = mask_id
            number = queries.rows.setdefault((tuple(masked), position), len(queries.rows))
            queries.asked.append((number, text.ids[position], slot))
            slot += 1
    log_probabilities = np.zeros(slot, dtype=np.float64)
    for length in sorted(by_length):
        _answer(model, by_length[length], length, max(1, tokens_per_batch // length), log_probabilities)
    return np.add.reduceat(log_probabilities, starts) if len(starts) else log_probabilities


@torch.inference_mode()
def _answer(
    model: MaskedLanguageModel, queries: _Queries, length: int, rows_per_batch: int, out: NDArray[np.float64]
) -> None:
    """Write the log-probabilities asked for into `out`."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    ids = np.array([row for row, _ in queries.rows], dtype=np.int64).reshape(-1, length)
    positions = np.array([position for _, position in queries.rows], dtype=np.int64)
    asked = np.array(sorted(queries.asked), dtype=np.int64).reshape(-1, 3)
    for start in range(0, len(ids), rows_per_batch):
        rows = ids[start : start + rows_per_batch]
        flat, position_ids, layout = from_rows(rows, np.ones_like(rows))
        targets = torch.from_numpy(np.arange(len(rows)) * length + positions[start : start + len(rows)])
        logits = model(flat.to(device), position_ids.to(device), layout.to(device), targets.to(device)).float()
        normaliser = torch.logsumexp(logits, dim=-1)
        first, last = np.searchsorted(asked[:, 0], [start, start + len(rows)])
        mine = torch.from_numpy(asked[first:last]).to(device)
        query = mine[:, 0] - start
        values = logits[query, mine[:, 1]] - normaliser[query]
        out[asked[first:last, 2]] = values.double().cpu().numpy()
    model.train(training)


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "...")
