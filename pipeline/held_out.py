"""Which documents are kept out of training: a pure rule on a document's content hash.

The masked_lm job (which writes them to the validation shards) and the corpus_tasks job (which builds tasks from them)
must agree, and they do because both ask this module. Must import nothing of the project but `conf.errors`.
"""

from conf.errors import InputError

_SCALE = 1 << 64


def check_share(share: float, option: str = "held_out_share") -> None:
    """Refuse a share that is not one.

    Raises:
        InputError: not 0 <= share < 1.
    """
    if not 0.0 <= share < 1.0:
        raise InputError(f"option '{option}' must be at least 0 and below 1, but is {share}")


def is_held_out(text_hash: bytes, share: float) -> bool:
    """Whether the document with this 128-bit content hash is held out, at this share of all documents.

    A document is held out when the LAST 8 bytes of its hash, as a fraction of 2^64, lie below `share` (deduplication
    partitions by the first bytes; the two must not be tied). So copies of one text always fall on the same side, the
    choice does not depend on which other documents there are, and a larger share holds out a superset.
    """
    return int.from_bytes(text_hash[-8:], "big") < share * _SCALE
