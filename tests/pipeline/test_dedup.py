from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup import (
    duplicates_of,
    find_duplicates,
    partition_of,
    partitions_for,
    write_duplicates,
    write_hashes,
)

# Few values, some that differ in one half only, and the extremes of the range.
hashes = st.sampled_from(
    [bytes(16), b"\xff" * 16, b"\x01" * 16, b"\x01" * 8 + b"\x02" * 8, b"\x80" + bytes(15), b"\x7f" + b"\xff" * 15]
)
corpora = st.lists(st.lists(hashes, max_size=8), min_size=1, max_size=5)


def expected(corpus):
    seen, dropped = set(), {}
    for number, documents in enumerate(corpus):
        dropped[number] = [i for i, value in enumerate(documents) if value in seen or seen.add(value)]
    return dropped


@settings(max_examples=150)
@given(corpora, st.integers(1, 7), st.randoms())
def test_the_first_of_equal_documents_stays_whatever_the_partitions_and_the_order(corpus, partitions, random):
    with TemporaryDirectory() as name:
        folder = Path(name)
        spilled = []
        for number, documents in enumerate(corpus):
            path = folder / f"{number}.npy"
            write_hashes(path, documents, [10 * i for i in range(len(documents))])
            spilled.append((number, path))
        random.shuffle(spilled)
        files = []
        for partition in range(partitions):
            files.append(folder / f"duplicates-{partition}.npy")
            write_duplicates(files[-1], find_duplicates(spilled, partition, partitions))
        found = {number: (duplicates_of(number, files) // 10).tolist() for number in range(len(corpus))}
        assert found == expected(corpus)


@given(st.lists(hashes, max_size=12), st.integers(1, 9))
def test_partitions_share_out_every_document_once(documents, partitions):
    with TemporaryDirectory() as name:
        path = Path(name) / "hashes.npy"
        write_hashes(path, documents, list(range(len(documents))))
        indices = [int(i) for p in range(partitions) for i in partition_of(path, p, partitions)["index"]]
        assert sorted(indices) == list(range(len(documents)))


@pytest.mark.parametrize(("size", "partitions"), [(0, 1), (1, 1), (4 << 30, 1), ((4 << 30) + 1, 2), (1 << 40, 256)])
def test_partitions_follow_the_size_of_the_corpus(size, partitions):
    assert partitions_for(size) == partitions


def test_nothing_spilled_means_nothing_to_drop():
    assert len(find_duplicates([], 0, 1)) == 0
    assert duplicates_of(0, []).tolist() == []
