import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.held_out import check_share, is_held_out


@given(st.binary(min_size=16, max_size=16), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_holds_out_a_superset(text_hash, a, b):
    small, large = sorted((a, b))
    assert not is_held_out(text_hash, small) or is_held_out(text_hash, large)


def test_bounds():
    assert not is_held_out(bytes(16), 0.0)
    assert is_held_out(bytes(16), 1e-9)
    assert is_held_out(b"\xff" * 8 + b"\x7f" + b"\xff" * 7, 0.5)
    assert not is_held_out(bytes(8) + b"\x80" + bytes(7), 0.5)


def test_the_share_of_many_documents_is_the_share_asked_for():
    hashes = [hashlib.blake2b(str(i).encode(), digest_size=16).digest() for i in range(20_000)]
    held = sum(is_held_out(h, 0.05) for h in hashes)
    assert 900 < held < 1100  # 1000 expected, standard deviation 31


@pytest.mark.parametrize("share", [-0.1, 1.0, 5])
def test_a_share_that_is_none_is_refused_by_name(share):
    with pytest.raises(InputError, match="held_out_share"):
        check_share(share)
