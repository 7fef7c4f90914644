"""What travels between the pieces of the pipeline: plain records that know where they came from.

Must import nothing but the standard library: every other module of the pipeline imports this one.
"""

import codecs
import hashlib
import math
import re
from dataclasses import dataclass

OFFSET_BITS = 40
HASH_BYTES = 16
BOM = codecs.BOM_UTF8
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Document:
    """One document as it was read, before cleaning.

    Attributes:
        text: the document.
        id: a name that leads a reader back to it: the record's own id where it has one, else `<file name>:<offset>`.
        file: index of its file in the plan's list of files.
        offset: byte at which its record starts in the (decompressed) file.
    """

    text: str
    id: str
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences that say the same, as they were read, before cleaning.

    Attributes:
        source: what a model shall read.
        target: what it shall write.
        id, file, offset: as of a Document, of the source where the two are in different files.
        score: of the model that wrote one of them; NaN where people did.
        dual_score: of that model and one of the other direction together; NaN where there is none.
    """

    source: str
    target: str
    id: str
    file: int
    offset: int
    score: float = math.nan
    dual_score: float = math.nan


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """One record that could not be read; it counts as failed, and the rest of its file is read on.

    Attributes:
        file: index of its file in the plan's list of files.
        offset: byte at which the record starts in the (decompressed) file.
        reason: a short code for counting, such as "not_json".
        detail: one sentence for a reader: which file (by its name in the plan, for the path is another on another
            machine), which byte, what was expected and found.
    """

    file: int
    offset: int
    reason: str
    detail: str


def document_key(file: int, offset: int) -> int:
    """One unsigned 64-bit number for a document: 24 bits of file index above 40 bits of offset.

    Raises:
        ValueError: more than 2^24 files, or a file of 1 TiB (decompressed) or more.
    """
    if not 0 <= file < 1 << (64 - OFFSET_BITS) or not 0 <= offset < 1 << OFFSET_BITS:
        raise ValueError(f"file {file} at byte {offset} does not fit a document key (24 bits of file, 40 of offset)")
    return file << OFFSET_BITS | offset


def split_document_key(key: int) -> tuple[int, int]:
    """The (file, offset) that `document_key` was given."""
    return key >> OFFSET_BITS, key & ((1 << OFFSET_BITS) - 1)


def without_lone_surrogates(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair, which can be named in JSON but written in no encoding."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def text_hash(text: str) -> bytes:
    """The 128-bit content hash of a document's text (BLAKE2b of its UTF-8 bytes).

    It decides what is an exact duplicate and what is held out, so both must be given the same form of the text: the
    cleaned one.
    """
    return hashlib.blake2b(text.encode("utf-8"), digest_size=HASH_BYTES).digest()
