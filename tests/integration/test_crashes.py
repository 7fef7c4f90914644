"""Killed with -9 at drawn moments, inside saves too, and resumed: the end is the undisturbed run's, to the bit."""

import pytest

from tests.integration.crash_run import EVERY, crash, table


def check(kills, seed, steps, folder):
    outcome = crash(kills, seed, steps, folder)
    shown = "\n" + table(outcome)
    assert not outcome.differences, (outcome.differences, shown)
    assert len(outcome.hits) == kills and 3 * sum(hit.in_save for hit in outcome.hits) >= kills, shown
    for hit in outcome.hits:  # one save under way, one step made since: no more is lost
        assert hit.resumed >= hit.step - 2 * EVERY, shown


@pytest.mark.full  # the command of docs/reliability.md is a run with two kills
@pytest.mark.timeout(1200)
def test_a_few_kills(tmp_path):
    check(3, seed=1, steps=60, folder=tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_25_kills(tmp_path):
    check(25, seed=2, steps=200, folder=tmp_path)
