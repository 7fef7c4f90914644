"""Sentences and passages of a document, for the tasks that are built from it.

Documents of a corpus hold code, tables and lists beside sentences; what is found here is sentences only, in any
language that sets words apart by spaces. Pure; must import nothing of the project.
"""

import re
from collections.abc import Iterator, Sequence

LONG_LINE = 120
MINIMUM_WORDS = 8
MAXIMUM_WORDS = 24
MAXIMUM_CHARACTERS = 200
# Two passages of at most 220 characters fit 128 word pieces as a pair.
PASSAGE_MINIMUM_WORDS = 12
PASSAGE_MAXIMUM_WORDS = 32
PASSAGE_CHARACTERS = 220

PROSE_SHARE = 0.6

_SENTENCE_END = re.compile(r"[.!?।][\"”’)]*$")
_BULLET = re.compile(r"(?:[-*+•–]|\d+[.)]|:\w[^:]*:)(?:\s|$)")
_SENTENCE_BORDER = re.compile(r"(?<=[.!?।])[\"”’)]*\s+(?=[\"“‘(]?\w)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|St|Prof|Rev|Capt|Col|No|Fig|Eq|Sec|Ref|vs|cf|etc|resp|approx|e\.g|i\.e|et al|\w)\.$"
)
_WORD = re.compile(r"[\"“‘(]?[^\W\d_]+(?:['’-][^\W\d_]+)*[,;:]?[)\"”’]?[,;:]?")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?[,;:]?")
_LAST_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[.!?।][\"”’)]?")
_FIRST_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*,?")


def paragraphs(text: str) -> Iterator[list[str]]:
    """The paragraphs of a text, each as its words.

    Blank lines part them, as do a bullet, a change of indentation, and a line so long that it was not wrapped.
    """
    words: list[str] = []
    indentation: int | None = None
    for line in text.split("\n"):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        starts_anew = not stripped or _BULLET.match(stripped) or indent != indentation or len(line) > LONG_LINE
        if starts_anew and words:
            yield words
            words = []
        words.extend(stripped.split())
        if len(line) > LONG_LINE:
            yield words
            words = []
        indentation = indent
    if words:
        yield words


def sentences_of(paragraph: Sequence[str]) -> list[str]:
    """The sentences of a paragraph, prose or not; joined by single spaces they are the paragraph."""
    found: list[str] = []
    for part in _split(" ".join(paragraph)):
        if found and (_ABBREVIATION.search(found[-1][-8:]) or part[:1].islower()):
            found[-1] = f"{found[-1]} {part}"
        else:
            found.append(part)
    return found


def _split(text: str) -> Iterator[str]:
    start = 0
    for border in _SENTENCE_BORDER.finditer(text):
        yield text[start : border.end()].rstrip()
        start = border.end()
    yield text[start:]


def is_plain(sentence: str) -> bool:
    """Whether a sentence is plain prose: a first word that is not lower-case, words and numbers, and a full stop.

    Every word is letters, with at most a hyphen or apostrophe within and punctuation around; so code, markup, paths
    and identifiers are none.
    """
    words = sentence.split(" ")
    if len(words) < 2 or words[0][:1].islower():
        return False
    inner = words[1:-1]
    return bool(
        _FIRST_WORD.fullmatch(words[0])
        and _LAST_WORD.fullmatch(words[-1])
        and all(_WORD.fullmatch(word) or _NUMBER.fullmatch(word) for word in inner)
    )


def is_prose(sentence: str) -> bool:
    """Whether a sentence reads as one: it starts as sentences do, ends in a full stop, and 3 in 5 words are plain.

    Looser than `is_plain`: names of things in code are part of how documentation speaks.
    """
    words = sentence.split(" ")
    if words[0][:1].islower() or not _SENTENCE_END.search(sentence):
        return False
    plain = sum(1 for word in words if _WORD.fullmatch(word) or _NUMBER.fullmatch(word) or _LAST_WORD.fullmatch(word))
    return plain >= PROSE_SHARE * len(words)


def plain_sentences(text: str) -> Iterator[str]:
    """The plain sentences of a text that have 8 to 24 words and at most 200 characters, each once."""
    seen = set()
    for paragraph in paragraphs(text):
        for sentence in sentences_of(paragraph):
            words = sentence.count(" ") + 1
            if (
                MINIMUM_WORDS <= words <= MAXIMUM_WORDS
                and len(sentence) <= MAXIMUM_CHARACTERS
                and sentence not in seen
                and is_plain(sentence)
            ):
                seen.add(sentence)
                yield sentence


def runs_of_passages(text: str) -> Iterator[list[str]]:
    """Runs of passages that follow one another in the text without a word between them.

    A passage is one or more whole sentences that are prose, 12 to 32 words and at most 220 characters together,
    gathered in order, as few as make 12 words. A sentence that is no prose, or too long, ends a run; the end of a
    paragraph does not.
    """
    run: list[str] = []
    passage = ""
    for sentence in _sentences_and_breaks(text):
        candidate = f"{passage} {sentence}" if passage and sentence else sentence or ""
        if sentence is None or not _fits(candidate):
            if run:
                yield run
            run = []
            passage = sentence if sentence is not None and _fits(sentence) else ""
        else:
            passage = candidate
        if passage.count(" ") + 1 >= PASSAGE_MINIMUM_WORDS:
            run.append(passage)
            passage = ""
    if run:
        yield run


def _sentences_and_breaks(text: str) -> Iterator[str | None]:
    """The sentences that are prose, in order, and None for each that is not."""
    for paragraph in paragraphs(text):
        for sentence in sentences_of(paragraph):
            yield sentence if is_prose(sentence) else None


def _fits(passage: str) -> bool:
    return passage.count(" ") + 1 <= PASSAGE_MAXIMUM_WORDS and len(passage) <= PASSAGE_CHARACTERS
