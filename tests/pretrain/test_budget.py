import pytest

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


def test_a_run_that_its_time_ends_says_so_and_again_when_there_is_none_left():
    steps, tokens = Budget("steps", 40000), Budget("tokens", 1e6)
    assert steps.sentence_of_the_end(3.0, 3.2, 33, 33) == "ended by trainer.max_seconds=3 at step 33 of 40000"
    assert tokens.sentence_of_the_end(0.5, 3.2, 33, 1) == "ended by trainer.max_seconds=0.5 at step 33"
    again = steps.sentence_of_the_end(3.0, 3.2, 33, 0)
    assert again == "already trained 3 s of trainer.max_seconds=3: raise it to go on"
