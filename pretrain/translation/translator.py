"""Sentences of one chunk -> the lines that are written of them, and counts of what happened to each.

Knows tokenizer, model and search; no file is known here. Must not import the trainer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.blanks import to_spans, without_blanks
from pretrain.decoding.constraints import Hypothesis
from pretrain.decoding.noised import NoisedBeam
from pretrain.decoding.search import SearchOptions, search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.translation.blanks import blank_name, text_with_blanks
from pretrain.translation.dual_scores import DualScorer
from pretrain.translation.inputs import Sentence

LongSources = Literal["split", "refuse", "skip"]

# What becomes of a source that is read: each is counted once among these.
OUTCOMES = ("translated", "empty_source", "unreadable", "skipped_long")
# What is counted besides: sources that were split, and how an output came to be.
NOTES = ("split_source", "empty_translation", "cut_translation")


@dataclass(frozen=True)
class Translated:
    """Lines of one chunk as JSON objects, in order; `counts` by OUTCOMES and NOTES, `tokens` put out."""

    lines: list[dict[str, Any]]
    counts: Counter[str]
    tokens: int


@dataclass(frozen=True)
class Translator:
    """A model with its tokenizer and a search.

    `languages` are the model's ids of source and target, where it has languages. `long_sources` says what becomes of a
    source with more tokens than the model has positions: it is split at words into pieces of like lengths, which are
    translated one by one, refused, or skipped (an empty translation). `scorer` adds scores of both directions.
    """

    model: torch.nn.Module
    max_positions: int
    tokenizer: Tokenizer
    options: SearchOptions
    languages: tuple[int | None, int | None]
    long_sources: LongSources
    batch_tokens: int
    scorer: DualScorer | None = None
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", Vocabulary.of(self.tokenizer))

    def translate(self, sentences: Sequence[Sentence], after_batch: Callable[[int], None]) -> Translated:
        """Translate the sentences of a chunk.

        `after_batch` is told how many pieces (a sentence is one, if it was not split) are done since the last call, 0
        after a batch that is scored; what it raises ends the work. Raises InputError for a long source with
        long_sources=refuse.
        """
        counts: Counter[str] = Counter()
        pieces: list[list[int]] = []
        names: list[str] = []
        spans: list[tuple[int, int]] = []
        # Encoded one by one it would be several times slower.
        encoded = self.tokenizer.encode_batch_fast(
            [sentence.text if sentence.readable and sentence.ids is None else "" for sentence in sentences],
            add_special_tokens=False,
        )
        tokens = [
            encoding.ids if sentence.ids is None else list(sentence.ids)
            for sentence, encoding in zip(sentences, encoded, strict=True)
        ]
        for sentence, ids in zip(sentences, tokens, strict=True):
            found = self._pieces(sentence, ids, counts)
            spans.append((len(pieces), len(pieces) + len(found)))
            pieces += [[self.vocabulary.cls_id, *piece, self.vocabulary.sep_id] for piece in found]
            names += [sentence.id] if len(found) == 1 else [f"{sentence.id}#{number}" for number in range(len(found))]
        source, target = self.languages
        hypotheses = search(
            self.model,
            pieces,
            self.options,
            names,
            self.vocabulary,
            source_language=source,
            target_language=target,
            batch_tokens=self.batch_tokens,
            after_batch=after_batch,
        )
        lines = []
        for sentence, (start, end) in zip(sentences, spans, strict=True):
            outputs = self._outputs(hypotheses[start:end], counts)
            lines.append({"id": sentence.id, "source": sentence.text, "translations": outputs})
        if self.scorer is not None:
            self.scorer.add_scores(lines, tokens, counts, lambda: after_batch(0))
        return Translated(lines, counts, sum(len(one.tokens) for found in hypotheses for one in found))

    def _pieces(self, sentence: Sentence, ids: list[int], counts: Counter[str]) -> list[list[int]]:
        """The parts to translate one by one, without special tokens; none where there is nothing to translate."""
        room = self.max_positions - 2
        outcome = "translated"
        pieces = [ids]
        if not sentence.readable:
            outcome, pieces = "unreadable", []
        elif not ids or not sentence.text.strip():
            outcome, pieces = "empty_source", []
        elif len(ids) > room:
            if self.long_sources == "refuse":
                raise InputError(
                    f"the source {sentence.id} must have at most {room} tokens (the model's positions without [CLS] "
                    f"and [SEP]), but has {len(ids)}: set long_sources=split or long_sources=skip, and another output"
                )
            if self.long_sources == "skip":
                outcome, pieces = "skipped_long", []
            else:
                counts["split_source"] += 1
                pieces = split_source(ids, room, self.vocabulary)
        counts[outcome] += 1
        return pieces

    def _outputs(self, pieces: list[list[Hypothesis]], counts: Counter[str]) -> list[dict[str, Any]]:
        """What is written of one sentence: its n best, best first; at least one, be it empty.

        "blanks" are where in "text" noise took a word away, [start, end] in characters: there the text shows [MASK].
        """
        if not pieces:
            return [{"text": "", "score": 0.0}]
        outputs = []
        for parts in zip(*pieces, strict=False):  # as many as the piece with the fewest has
            text = " ".join(filter(None, (self._text(one.tokens) for one in parts)))
            sizes = [len(one.tokens) + one.ended for one in parts]
            score = sum(one.score * size for one, size in zip(parts, sizes, strict=True)) / max(1, sum(sizes))
            text, blanks = to_spans(text, blank_name(self.tokenizer, self.vocabulary))
            outputs.append({"text": text, "score": round(score, 6)} | ({"blanks": blanks} if blanks else {}))
        best = [found[0] for found in pieces]
        counts["empty_translation"] += not outputs[0]["text"]
        counts["cut_translation"] += any(not one.ended for one in best)
        return outputs

    def _text(self, tokens: list[int]) -> str:
        """The text of an output, in which a word that noise blanked out is a BLANK."""
        if isinstance(self.options, NoisedBeam) and self.vocabulary.blank_id in tokens:
            return text_with_blanks(self.tokenizer, self.vocabulary, tokens).strip()
        return without_blanks(self.tokenizer.decode(tokens, skip_special_tokens=True)).strip()


def split_source(ids: list[int], room: int, vocabulary: Vocabulary) -> list[list[int]]:
    """Cut ids into as few pieces of at most `room` as there must be, of like lengths, none within a word.

    A word longer than `room` is cut all the same.
    """
    rest, pieces = ids, []
    while len(rest) > room:
        wanted = min(room, -(-len(rest) // -(-len(rest) // room)))
        cut = wanted
        while cut > 0 and vocabulary.continues is not None and vocabulary.continues[rest[cut]]:
            cut -= 1
        cut = cut or wanted
        pieces.append(rest[:cut])
        rest = rest[cut:]
    return [*pieces, rest]
