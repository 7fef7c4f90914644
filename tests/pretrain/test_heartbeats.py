from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.heartbeats import ENDED_SECONDS, GONE_SECONDS, PATIENCE, Beat, Judge, read_beat

HANG, SILENCE = 100.0, 20.0
BEATS = st.builds(
    Beat,
    rank=st.integers(0, 9),
    host=st.text(min_size=1, max_size=9),
    number=st.integers(0, 99),
    step=st.integers(0, 10**9),
    phase=st.sampled_from(["waiting for data", "checkpointing", "agreeing"]),
    since=st.floats(0, 1e9),
    waits=st.booleans(),
    first=st.booleans(),
    ended=st.none() | st.text(max_size=9),
    failed=st.booleans(),
    done=st.booleans(),
)


def running(rank, step=7, phase="agreeing with the other ranks", waits=True, **changes):
    return Beat(rank, f"node{rank}", 1, step, phase, 0.0, waits=waits, first=False, **changes)


def judge(*beats):
    made = Judge(HANG, SILENCE)
    for beat in beats:
        made.expect(replace(beat, phase="starting"), 0.0)
        made.hear(beat, 0.0)
    return made


def beat_on(made, beats, until):
    """All keep their hearts beating to `until`, without progress."""
    for beat in beats:
        made.hear(beat, until)
    return made.verdict(until)


@given(BEATS)
def test_a_beat_reads_back_as_it_was_written(beat):
    line = beat.line()
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert read_beat(line) == beat


@given(st.integers(2, 8), st.data())
def test_the_rank_outside_a_collective_is_named_whatever_its_number(ranks, data):
    culprit = data.draw(st.integers(0, ranks - 1))
    beats = [running(rank) for rank in range(ranks)]
    beats[culprit] = running(culprit, phase="waiting for data", waits=False)
    made = judge(*beats)
    assert beat_on(made, beats, HANG) is None
    verdict = beat_on(made, beats, HANG + 1)
    assert verdict.culprits == (culprit,)
    assert verdict.sentence == (
        f"rank {culprit} on node{culprit} has been 'waiting for data' since step 7 for 101 s while the others wait for "
        "it: its data loader stalls"
    )


@given(st.integers(2, 8), st.data())
def test_of_ranks_in_the_same_state_the_one_furthest_behind_is_named(ranks, data):
    culprit = data.draw(st.integers(0, ranks - 1))
    beats = [running(rank, step=6 if rank == culprit else 7) for rank in range(ranks)]
    assert beat_on(judge(*beats), beats, HANG + 1).culprits == (culprit,)


@given(st.lists(st.floats(0.1, HANG), min_size=1, max_size=30))
def test_while_one_rank_makes_progress_within_the_limit_nobody_is_blamed(gaps):
    beats = [running(0), running(1)]
    made, now = judge(*beats), 0.0
    for number, gap in enumerate(gaps):
        now += gap
        beats[0] = replace(beats[0], since=float(number + 1))
        assert beat_on(made, beats, now) is None


@given(st.floats(0, 5 * HANG))
def test_a_save_a_validation_and_the_first_step_may_take_longer(seconds):
    for changes in ({"phase": "checkpointing"}, {"phase": "validation"}, {"first": True}):
        beats = [replace(running(0, waits=False), **changes), running(1)]
        made = judge(*beats)
        assert beat_on(made, beats, seconds) is None
        assert beat_on(made, beats, PATIENCE * HANG + 1).culprits == (0,)


def test_ranks_that_all_wait_for_data_or_for_each_other_are_named_together():
    starved = [running(rank, phase="waiting for data", waits=False) for rank in range(3)]
    assert beat_on(judge(*starved), starved, HANG + 1).sentence == (
        "ranks 0, 1, 2 (the first on node0) have been 'waiting for data' since step 7 for 101 s: their data "
        "loaders stall"
    )
    together = [running(rank) for rank in range(2)]
    assert "the network between them may be down" in beat_on(judge(*together), together, HANG + 1).sentence


def test_a_silent_rank_is_named_before_a_hang_is_judged():
    made = judge(running(0), running(1))
    made.hear(running(0), SILENCE + 0.5)
    assert made.verdict(SILENCE) is None
    verdict = made.verdict(SILENCE + 1)
    assert verdict.culprits == (1,)
    assert (
        "rank 1 on node1 has given no sign of life for 21 s; it was last seen at step 7 in 'agreeing"
        in verdict.sentence
    )


def test_a_lost_connection_is_a_death_after_a_moment_but_not_after_a_good_end():
    made = judge(running(0), running(1), running(2))
    made.hear(running(2, done=True), 1.0)
    made.lose(1, 1.0)
    made.lose(2, 1.0)
    assert made.verdict(1.0 + GONE_SECONDS) is None
    assert (
        made.verdict(1.1 + GONE_SECONDS).sentence
        == "rank 1 on node1 has died at step 7 in 'agreeing with the other ranks'"
    )
    assert made.reachable() == [0]


def test_a_rank_that_ends_with_an_error_is_named_if_the_others_do_not_end_likewise():
    made = judge(running(0), running(1))
    made.hear(running(1, ended="ValueError"), 1.0)
    made.lose(1, 1.1)
    assert made.verdict(1.0 + ENDED_SECONDS) is None
    assert "rank 1 on node1 ended at step 7" in made.verdict(1.1 + ENDED_SECONDS).sentence


def test_a_collective_that_broke_down_is_blamed_on_a_rank_that_did_not_notice():
    beats = [running(0, failed=True), running(1, phase="forward", waits=False), running(2, failed=True)]
    made = judge(*beats)
    assert beat_on(made, beats, SILENCE) is None
    assert beat_on(made, beats, SILENCE + 1).culprits == (1,)


@pytest.mark.parametrize("asleep", [50.0, 5000.0])
def test_time_in_which_the_judge_itself_was_suspended_does_not_count(asleep):
    beats = [running(0), running(1)]
    made = judge(*beats)
    made.forgive(asleep)
    assert made.verdict(asleep + SILENCE - 1) is None
