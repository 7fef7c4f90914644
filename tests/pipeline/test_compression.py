import bz2
import gzip
import io
import lzma

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.compression import DAMAGE, compression_of, decompressed, strip_suffix

COMPRESSORS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
kinds = st.sampled_from(sorted(COMPRESSORS))


@settings(deadline=None)
@given(kinds, st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 200))
def test_members_one_after_another_are_one_stream(kind, members, block_bytes):
    stored = b"".join(COMPRESSORS[kind](member) for member in members)
    assert compression_of(stored) == kind
    assert decompressed(io.BytesIO(stored), kind, block_bytes).read() == b"".join(members)


@settings(deadline=None)
@given(kinds, st.binary(min_size=1, max_size=300), st.data())
def test_a_stream_that_is_cut_short_never_ends_quietly(kind, content, data):
    stored = COMPRESSORS[kind](content)
    cut = data.draw(st.integers(6, len(stored) - 1))
    with pytest.raises(DAMAGE):
        decompressed(io.BytesIO(stored[:cut]), kind, 50).read()


def test_what_is_not_compressed_is_passed_through():
    assert compression_of(b"plain text") is None
    assert compression_of(b"") is None
    assert decompressed(io.BytesIO(b"plain"), None, 2).read() == b"plain"


def test_names_lose_the_suffix_of_compression_only():
    assert [strip_suffix(name) for name in ["a.jsonl.gz", "a.txt.ZST", "a.txt", "gz"]] == [
        "a.jsonl",
        "a.txt",
        "a.txt",
        "gz",
    ]
