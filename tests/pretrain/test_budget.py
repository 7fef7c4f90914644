import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.budget import Budget, Progress


def test_the_data_counts_every_batch_and_the_schedule_only_what_changed_the_weights():
    progress = Progress(step=10, skipped=3, tokens=1000, skipped_tokens=300)
    steps, tokens, hours = Budget("steps", 100), Budget("tokens", 5000), Budget("hours", 2)
    assert (steps.data_position(progress, 0), steps.schedule_position(progress, 0)) == (10, 7)
    assert (tokens.data_position(progress, 0), tokens.schedule_position(progress, 0)) == (1000, 700)
    assert hours.data_position(progress, 1800) == hours.schedule_position(progress, 1800) == 0.5
    assert progress.updates == 7


def test_a_step_takes_one_its_tokens_or_the_mean_time_of_a_step():
    progress = Progress(step=4)
    assert Budget("steps", 100).size_of_step(512, progress, 8.0) == 1
    assert Budget("tokens", 100).size_of_step(512, progress, 8.0) == 512
    assert Budget("hours", 1).size_of_step(512, progress, 8.0) == pytest.approx(2 / 3600)
    assert Budget("hours", 1).size_of_step(512, Progress(), 0.0) == pytest.approx(1 / 3600)


@given(st.integers(1, 10**6), st.integers(0, 1000))
def test_steps_left_in_steps_is_exact_and_ends_at_0(total, made):
    progress = Progress(step=min(made, total))
    assert Budget("steps", total).steps_left(progress, 0.0) == total - progress.updates


def test_steps_left_in_tokens_goes_by_the_mean_step():
    assert Budget("tokens", 1000).steps_left(Progress(step=2, tokens=200), 0.0) == pytest.approx(8)
