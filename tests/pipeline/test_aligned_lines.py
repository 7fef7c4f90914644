import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import aligned_lines
from pipeline.aligned_lines import byte_of_lines, count_lines, first_lines, line_number

CONTENT = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", "é".encode()]), max_size=40).map(b"".join)


def starts_of(content: bytes) -> list[int]:
    """The bytes at which lines begin."""
    starts = [0, *(n + 1 for n, byte in enumerate(content) if byte == 10)]
    return starts if content and not content.endswith(b"\n") else starts[:-1]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(aligned_lines, "_BLOCK", 7)
    return tmp_path / "a.txt"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, cuts=st.lists(st.integers(0, 60)).map(sorted))
def test_lines_are_counted_as_they_are_read_and_found_from_any_byte(path, content, cuts):
    path.write_bytes(content)
    starts = starts_of(content)
    assert count_lines(str(path), {}) == len(starts)
    numbers, lines = first_lines(str(path), cuts, {})
    assert lines == len(starts)
    assert numbers == [sum(start < cut for start in starts) for cut in cuts]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, numbers=st.lists(st.integers(0, 30)).map(sorted))
def test_the_byte_of_each_line_is_found_and_leads_back_to_its_number(path, content, numbers):
    path.write_bytes(content)
    starts = starts_of(content)
    wanted = [number for number in numbers if number < len(starts)]
    found = byte_of_lines(str(path), wanted, {})
    assert found == [starts[number] for number in wanted]
    assert [line_number(str(path), place, {}) for place in found] == [number + 1 for number in wanted]


def test_a_line_behind_the_last_is_at_the_end_and_compressed_files_are_counted_by_content(path):
    path.write_bytes(gzip.compress(b"one\ntwo\nthree"))
    assert count_lines(str(path), {}) == 3
    assert byte_of_lines(str(path), [0, 2, 3, 9], {}) == [0, 8, 13, 13]
    assert line_number(str(path), 8, {}) == 3
