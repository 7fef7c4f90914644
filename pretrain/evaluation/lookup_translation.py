"""Translation without a model: the target of the most similar source of the bitext. The least a model must beat.

A source that stands in the bitext gets its target; any other that of the source with the highest token-level edit
similarity, 1 - Levenshtein distance / length of the longer one, in tokens. Pure functions; must not import torch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A word, a single sign, or a single character of a script without spaces.
TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]|_")
PADDING = -1


@dataclass(frozen=True)
class Lookup:
    """What was found for one source.

    Attributes:
        text: the target of the pair found.
        source: its source.
        similarity: of the two sources in tokens, 0 to 1.
        exact: whether they are the same text but for spacing.
    """

    text: str
    source: str
    similarity: float
    exact: bool


def tokens(text: str) -> list[str]:
    """Words, numbers without their signs, signs, and Chinese or Japanese characters one by one."""
    return TOKEN.findall(text)


def edit_distances(query: NDArray[np.int32], table: NDArray[np.int32], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """Levenshtein distance of one sequence to each of many (Wagner and Fischer 1974), all rows at once.

    The step "insert" along a row is a running minimum: D[i, j] = j + min over k <= j of (best of the two other steps at
    k, less k).

    Args:
        query: [Q].
        table: [N, L], each row padded at its end with anything.
        lengths: [N], the true lengths.

    Returns:
        [N].
    """
    count, width = table.shape
    # Columns of the textbook's matrices as rows: each step then runs along memory. Distances are small numbers.
    kind = np.int16 if width + len(query) < np.iinfo(np.int16).max // 2 else np.int32
    columns = np.ascontiguousarray(table.T)
    offsets = np.arange(width + 1, dtype=kind)[:, None]
    row = np.broadcast_to(offsets, (width + 1, count)).copy()
    steps = np.empty_like(row)
    for index, token in enumerate(query, start=1):
        steps[0] = index
        np.minimum(row[1:] + kind(1), row[:-1] + (columns != token), out=steps[1:])
        steps -= offsets
        np.minimum.accumulate(steps, axis=0, out=row)
        row += offsets
    return row[lengths, np.arange(count)].astype(np.int32)


def lookup_translations(bitext: Sequence[tuple[str, str]], sources: Sequence[str]) -> list[Lookup]:
    """Translate each source by the pair of the bitext whose source is most like it; of equal ones the first.

    Args:
        bitext: pairs of source and target.
        sources: texts to translate.

    Returns:
        One for each source, in order.

    Raises:
        ValueError: the bitext is empty.
    """
    if not bitext:
        raise ValueError("a lookup needs at least one pair of bitext, but there is none")
    known: dict[str, int] = {}
    for place, (source, _) in enumerate(bitext):
        known.setdefault(_spaced(source), place)
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokens(source)] for source, _ in bitext]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    table = np.full((len(rows), int(lengths.max())), PADDING, dtype=np.int32, order="F")
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    found = []
    for source in sources:
        place = known.get(_spaced(source), -1)
        if place >= 0:
            found.append(Lookup(bitext[place][1], bitext[place][0], 1.0, True))
            continue
        # A token that the bitext lacks is unlike all of its tokens and its padding.
        query = np.array([vocabulary.get(token, PADDING - 1) for token in tokens(source)], dtype=np.int32)
        longest = np.maximum(np.maximum(lengths, len(query)), 1)
        similarities = 1 - edit_distances(query, table, lengths) / longest
        place = int(similarities.argmax())
        found.append(Lookup(bitext[place][1], bitext[place][0], float(similarities[place]), False))
    return found


def _spaced(text: str) -> str:
    return " ".join(text.split())
