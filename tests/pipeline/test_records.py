import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import document_key, split_document_key, text_hash


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**40 - 1))
def test_a_document_key_leads_back_to_file_and_offset(file, offset):
    key = document_key(file, offset)
    assert 0 <= key < 2**64
    assert split_document_key(key) == (file, offset)


@pytest.mark.parametrize(("file", "offset"), [(2**24, 0), (0, 2**40), (-1, 0), (0, -1)])
def test_what_does_not_fit_a_key_is_an_error_not_another_key(file, offset):
    with pytest.raises(ValueError, match="does not fit"):
        document_key(file, offset)


def test_the_content_hash_is_blake2b_of_the_utf8_bytes():
    assert text_hash("é") == hashlib.blake2b(b"\xc3\xa9", digest_size=16).digest()
