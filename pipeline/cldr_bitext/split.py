"""Which sentences there are, and which file each stands in: drawn by a seed, no two alike, tests held out by it.

What the files hold of each other is told in the package's docstring. The draws of a frame are uniform over its
combinations of values; one that is taken already, or whose text is, is drawn again. To keep that cheap no part takes
more than a fixed fraction of a frame's combinations, and more sentences than that are refused.
"""

import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from conf.errors import InputError
from pipeline.cldr_bitext.frames import Frame
from pipeline.cldr_bitext.names import NAMES, Names, keys_of, names_among, names_of_bitext
from pipeline.cldr_bitext.phrasebook import FRAMES, LANGUAGES
from pipeline.cldr_bitext.slots import KINDS, Value, write

SEEN = "names seen in bitext"
UNSEEN = "only in monolingual"
TAGS = (SEEN, UNSEEN)

# Of a frame's combinations, what one part may take: together at most 3/4 of those that a draw can meet, so that a draw
# finds a free one after 4 tries on average at worst.
BITEXT_FRACTION = 1 / 4
OTHER_FRACTION = 1 / 8
MAXIMUM_TRIES = 1000
_NOT_A_WORD = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Sizes:
    """How many sentences each part has; `unseen_share` of validation and test have the tag UNSEEN."""

    bitext_pairs: int
    monolingual_sentences: int
    validation_pairs: int
    test_pairs: int
    unseen_share: float


@dataclass(frozen=True)
class Sentence:
    """A frame and its values, which a language makes into text."""

    frame: Frame
    values: tuple[Value, ...]

    def text(self, language: str) -> str:
        """The sentence in one language."""
        slots = zip(self.frame.slots, self.frame.kinds, self.values, strict=True)
        return self.frame.fill(language, {slot: write(kind, value, language) for slot, kind, value in slots})

    def names(self) -> frozenset[str]:
        """The keys of all names in it."""
        pairs = zip(self.frame.kinds, self.values, strict=True)
        return frozenset(key for kind, value in pairs for key in KINDS[kind].names(value))

    @property
    def combination(self) -> tuple[str, tuple[Value, ...]]:
        """What no two sentences may share."""
        return self.frame.name, self.values


@dataclass(frozen=True)
class Parts:
    """All sentences, each in one part.

    Attributes:
        source, target: the languages.
        bitext, validation, test: sentences to be written in both languages.
        monolingual: language -> sentences to be written in that language alone.
        tags: of validation and test, in their order.
    """

    source: str
    target: str
    bitext: list[Sentence]
    validation: list[Sentence]
    test: list[Sentence]
    monolingual: dict[str, list[Sentence]]
    tags: dict[str, list[str]]


def normalised(text: str) -> str:
    """A text without case, punctuation and spacing: what two sentences must differ in to be two."""
    return _NOT_A_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def combinations(frame: Frame, names: Names) -> int:
    """How many ways there are to fill a frame from these names, slots of the same kind with different values."""
    total = 1
    for place, kind in enumerate(frame.kinds):
        total *= max(0, KINDS[kind].size(names) - frame.kinds[:place].count(kind))
    return total


def shares(count: int, rooms: Sequence[int]) -> list[int]:
    """How many of `count` sentences each frame gives: as even as their rooms allow, first ones first.

    Raises:
        ValueError: there is not so much room.
    """
    if count > sum(rooms):
        raise ValueError(f"{count} sentences do not fit a room of {sum(rooms)}")
    given = [0] * len(rooms)
    while count:
        unfilled = [place for place, room in enumerate(rooms) if given[place] < room]
        even = count // len(unfilled)
        for place in unfilled if even else unfilled[:count]:
            more = min(max(even, 1), rooms[place] - given[place])
            given[place] += more
            count -= more
    return given


def split(source: str, target: str, sizes: Sizes, names_share: float, seed: int) -> Parts:
    """Draw all parts.

    Args:
        source, target: languages of LANGUAGES.
        sizes: how many sentences.
        names_share: share of each group of names that may stand in the bitext.
        seed: of every draw; each part has a stream of its own.

    Raises:
        InputError: a language that there is none of, or more sentences than there are combinations to draw from.
    """
    for option, language in (("source", source), ("target", target)):
        if language not in LANGUAGES:
            raise InputError(f"option 'job.{option}' must be one of {', '.join(LANGUAGES)}, but is '{language}'")
    if source == target:
        raise InputError(f"options 'job.source' and 'job.target' must be two languages, but both are '{source}'")
    draw = Draw(seed)
    both = (source, target)
    known = names_of_bitext(NAMES, names_share, seed)
    bitext = draw.part("bitext", "bitext_pairs", sizes.bitext_pairs, known, both, BITEXT_FRACTION)
    size = sizes.monolingual_sentences
    monolingual = {
        language: draw.part(f"monolingual.{language}", "monolingual_sentences", size, NAMES, (language,))
        for language in (target, source)
    }
    seen = _names_in(bitext)
    reachable = names_among(NAMES, seen | _names_in(monolingual[target]))
    parts: dict[str, list[Sentence]] = {}
    tags: dict[str, list[str]] = {}
    for name, size in (("validation", sizes.validation_pairs), ("test", sizes.test_pairs)):
        unseen = round(size * sizes.unseen_share)
        option = f"{name}_pairs"
        tagged = [
            (sentence, SEEN)
            for sentence in draw.part(f"{name}/seen", option, size - unseen, names_among(NAMES, seen), both)
        ]
        tagged += [
            (sentence, UNSEEN)
            for sentence in draw.part(f"{name}/unseen", option, unseen, reachable, both, without=seen)
        ]
        random.Random(f"{name}/order/{seed}").shuffle(tagged)
        parts[name] = [sentence for sentence, _ in tagged]
        tags[name] = [tag for _, tag in tagged]
    return Parts(source, target, bitext, parts["validation"], parts["test"], monolingual, tags)


def _names_in(sentences: Iterable[Sentence]) -> frozenset[str]:
    return frozenset().union(*(sentence.names() for sentence in sentences))


class Draw:
    """Draws sentences of which no two, over all parts, share a combination or a normalised text."""

    def __init__(self, seed: int, frames: Sequence[Frame] = FRAMES) -> None:
        self._seed = seed
        self._frames = frames
        self._combinations: set[tuple[str, tuple[Value, ...]]] = set()
        self._texts: set[str] = set()

    def part(
        self,
        part: str,
        option: str,
        count: int,
        names: Names,
        languages: Sequence[str],
        fraction: float = OTHER_FRACTION,
        without: frozenset[str] | None = None,
    ) -> list[Sentence]:
        """Draw the sentences of one part, frames as even as they have room, in a drawn order.

        Args:
            part: its name, which with the seed gives its stream.
            option: the option to name in an error.
            count: how many.
            names: from which the values are drawn.
            languages: in which the sentences will be written.
            fraction: of a frame's combinations, what may be taken at most.
            without: if given, each sentence has at least one name that is not among these.

        Raises:
            InputError: there is not room for so many.
        """
        rooms = [self._room(frame, names, fraction, without) for frame in self._frames]
        if count > sum(rooms):
            if without is None:
                raise InputError(
                    f"option 'job.{option}' asks for {count} sentences of '{part}', but there are only {sum(rooms)} "
                    "combinations of frames and values for them: ask for fewer"
                )
            raise InputError(
                f"options 'job.{option}' and 'job.unseen_share' ask for {count} sentences of '{part}', each with a "
                f"name that the bitext does not have, but there are only {sum(rooms)} combinations for them: lower "
                "job.unseen_share or job.names_in_bitext, or ask for fewer"
            )
        generator = random.Random(f"{part}/{self._seed}")
        wanted = (lambda keys: True) if without is None else (lambda keys: not keys <= without)
        sentences = [
            self._sentence(frame, names, languages, generator, wanted)
            for frame, share in zip(self._frames, shares(count, rooms), strict=True)
            for _ in range(share)
        ]
        generator.shuffle(sentences)
        return sentences

    def _room(self, frame: Frame, names: Names, fraction: float, without: frozenset[str] | None) -> int:
        total = combinations(frame, names)
        if without is not None:
            total -= combinations(frame, names_among(names, without & keys_of(names)))
        return int(total * fraction)

    def _sentence(
        self,
        frame: Frame,
        names: Names,
        languages: Sequence[str],
        generator: random.Random,
        wanted: Callable[[frozenset[str]], bool],
    ) -> Sentence:
        """One sentence that is free and wanted, which is taken from then on."""
        for _ in range(MAXIMUM_TRIES):
            values: list[Value] = []
            for place, kind in enumerate(frame.kinds):
                former = [value for value, other in zip(values, frame.kinds[:place], strict=True) if other == kind]
                values.append(_another(kind, former, names, generator))
            sentence = Sentence(frame, tuple(values))
            if sentence.combination in self._combinations or not wanted(sentence.names()):
                continue
            texts = {normalised(sentence.text(language)) for language in languages}
            if texts.isdisjoint(self._texts):
                self._combinations.add(sentence.combination)
                self._texts |= texts
                return sentence
        raise InputError(
            f"no new sentence of the frame '{frame.name}' was found in {MAXIMUM_TRIES} draws: ask for fewer sentences"
        )


def _another(kind: str, former: Sequence[Value], names: Names, generator: random.Random) -> Value:
    """A value that is none of the former ones."""
    while True:
        value = KINDS[kind].draw(names, generator)
        if value not in former:
            return value
