from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranges import COMPRESSION_RATIO, WHOLE, SourceFile, plan_ranges


def files(*sizes, prefix=""):
    return [SourceFile(f"{prefix}/f{i}", size, "x", f"f{i}") for i, size in enumerate(sizes)]


@given(st.lists(st.tuples(st.integers(0, 500), st.booleans()), max_size=12), st.integers(1, 200))
def test_every_byte_of_every_file_lies_in_exactly_one_piece(specification, range_bytes):
    sizes = [size for size, _ in specification]
    plan = plan_ranges(files(*sizes), [cuttable for _, cuttable in specification], range_bytes)
    reached = dict.fromkeys(range(len(sizes)), 0)
    for range_ in plan.ranges:
        for piece in range_.pieces:
            assert piece.start == reached[piece.file]
            reached[piece.file] = sizes[piece.file] if piece.end == WHOLE else piece.end
    assert reached == dict(enumerate(sizes))
    assert len({range_.id for range_ in plan.ranges}) == len(plan.ranges)
    order = [piece.file for range_ in plan.ranges for piece in range_.pieces]
    assert order == sorted(order)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20))
def test_small_files_are_grouped_until_the_range_is_full(sizes):
    plan = plan_ranges(files(*sizes), [True] * len(sizes), 100)
    weights = [sum(sizes[piece.file] for piece in range_.pieces) for range_ in plan.ranges]
    assert all(weight <= 100 for weight in weights)
    first_of_next = [sizes[range_.pieces[0].file] for range_ in plan.ranges[1:]]
    assert all(weight + following > 100 for weight, following in zip(weights, first_of_next, strict=False))


def test_a_large_plain_file_is_cut_at_multiples_and_a_compressed_one_is_not():
    plan = plan_ranges(files(250, 250), [True, False], 100)
    cuts = [[(piece.file, piece.start, piece.end) for piece in range_.pieces] for range_ in plan.ranges]
    assert cuts == [[(0, 0, 100)], [(0, 100, 200)], [(0, 200, WHOLE)], [(1, 0, WHOLE)]]


def test_a_compressed_file_weighs_what_its_text_does():
    assert len(plan_ranges(files(20, 20), [False, False], 100).ranges) == 1
    assert len(plan_ranges(files(20, 20), [False, False], 100, [COMPRESSION_RATIO] * 2).ranges) == 2


def test_a_file_of_unknown_size_is_a_range_of_its_own():
    assert len(plan_ranges(files(10, -1, 10), [True, False, True], 100).ranges) == 3


def test_range_ids_depend_on_names_and_cuts_and_on_nothing_else():
    plan = plan_ranges(files(250), [True], 100)
    assert [range_.id for range_ in plan.ranges] == [
        range_.id for range_ in plan_ranges(files(250, prefix="/elsewhere"), [True], 100).ranges
    ]
    longer = plan_ranges(files(299), [True], 100)
    assert [range_.id for range_ in longer.ranges] == [range_.id for range_ in plan.ranges]
    assert longer.ranges[0].id != plan_ranges(files(250), [True], 99).ranges[0].id


def test_a_range_id_is_the_one_written_down_here():
    # Shards are named by it: a change of the rule makes every shard directory stale and must be meant.
    assert plan_ranges(files(5), [True], 100).ranges[0].id == "00000-58186604"
