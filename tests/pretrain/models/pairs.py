"""Pairs of sequences as the encoder-decoder takes them: one pair a row, or several."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.models.attention import AttentionLayout
from pretrain.models.tokens import Tokens

Pair = tuple[Sequence[int], Sequence[int]]


@dataclass
class Side:
    """One side's flat tokens, positions and layout; `spans` says where each pair's tokens are."""

    ids: Tensor
    positions: Tensor
    layout: AttentionLayout
    spans: list[tuple[int, int]]

    def tokens(self, language: int | None = None) -> Tokens:
        """As a model takes them, all in the language of this number."""
        languages = None if language is None else torch.full_like(self.ids, language)
        return Tokens(self.ids, self.positions, self.layout, languages)

    @property
    def real(self) -> Tensor:
        """The flat indices of all tokens that are not padding."""
        return torch.cat([torch.arange(*span) for span in self.spans])


def side(rows: Sequence[Sequence[Sequence[int]]], length: int, pad_id: int = 0) -> Side:
    """Rows of sequences, each padded to `length` by a sequence of its own (an empty one in a full row)."""
    ids, positions, bounds, spans = [], [], [0], []
    for row in rows:
        padding = length - sum(map(len, row))
        assert padding >= 0
        for number, sequence in enumerate([*row, [pad_id] * padding]):
            if number < len(row):
                spans.append((len(ids), len(ids) + len(sequence)))
            ids += sequence
            positions += range(len(sequence))
            bounds.append(len(ids))
    layout = AttentionLayout(torch.tensor(bounds, dtype=torch.int32), length, length)
    return Side(torch.tensor(ids), torch.tensor(positions), layout, spans)


def sides(rows: Sequence[Sequence[Pair]], source_length: int, target_length: int) -> tuple[Side, Side]:
    """Rows of pairs -> the encoder's side and the decoder's."""
    return (
        side([[source for source, _ in row] for row in rows], source_length),
        side([[target for _, target in row] for row in rows], target_length),
    )


def one_a_row(pairs: Sequence[Pair]) -> tuple[Side, Side]:
    """Each pair in a row of its own, one place longer than the longest: every row has some padding."""
    lengths = [1 + max(len(pair[number]) for pair in pairs) for number in range(2)]
    return sides([[pair] for pair in pairs], *lengths)
