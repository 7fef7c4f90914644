"""When checkpoints are written, that training goes on meanwhile, and that all ranks hear of a failure: on two ranks."""

import pytest
import torch

from tests.helpers.ranks import run_on_ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    path = tmp_path_factory.mktemp("checkpointing")
    return run_on_ranks("tests.pretrain.callbacks.checkpointing_cases:run_cases", 2, path=str(path))


def test_training_goes_on_while_a_checkpoint_is_written_and_the_next_save_waits_for_it(ranks):
    main, other = (found["training_goes_on"] for found in ranks)
    assert main["while writing"] == other["while writing"] == (3, [])
    assert main["events"] == ["gather 2", "write 2", "written 2", "gather 4", "write 4", "written 4"]
    assert other["events"] == ["gather 2", "gather 4"]
    assert main["saved"] == [2, 4]


def test_a_checkpoint_says_how_far_the_run_is(ranks):
    state, weights, moments = ranks[0]["state_of_a_save"]
    assert (state.step, state.skipped, state.samples, state.tokens, state.updates) == (2, 1, 4, 70, 2)
    assert state.consumed == {"key": 4} and state.recent_norms == [1.5] and state.validation == 3.5
    assert state.config == {"seed": 0} and state.wandb_id == "w" and 0 < state.elapsed < 60
    assert torch.equal(weights, torch.full((2,), 2.0)) and torch.equal(moments, weights)


@pytest.mark.parametrize(
    ("case", "step"), [("told_at_a_log_step", 3), ("told_at_the_next_save", 4), ("told_at_the_end", 20)]
)
def test_a_failed_write_ends_the_run_on_all_ranks_at_the_same_step(ranks, case, step):
    main, other = (found[case] for found in ranks)
    assert main == other
    assert main[:2] == (step, "FileExistsError") and main[2].endswith("checkpoints")


def test_by_the_main_ranks_clock_at_log_steps(ranks):
    # 25 s a step, looked at every 2 steps: 50 s since the last save is too early, 100 s is due.
    assert ranks[0]["by_minutes"] == ranks[1]["by_minutes"] == ["gather 4", "gather 8", "gather 12"]


def test_a_validation_loss_among_the_best_is_saved_and_kept(ranks):
    for first, second, losses in (found["by_validation"] for found in ranks):
        assert first == [f"gather {step}" for step in (1, 2, 4, 7, 8, 10)]  # NaN, a tie and worse ones are not
        assert second == ["gather 12"]
        assert losses == {7: 3.0, 12: 3.2}


def test_every_so_many_steps_one_is_kept_for_good(ranks):
    assert ranks[0]["for_good"] == [3, 6, 8]


def test_what_is_due_at_a_skipped_step_waits_for_the_next_that_is_not(ranks):
    # Due after 2, 4, 6, 8 and 10; 2 and 8 to 10 were skipped.
    assert (
        ranks[0]["while_steps_are_skipped"]
        == ranks[1]["while_steps_are_skipped"]
        == [
            "gather 3",
            "gather 4",
            "gather 6",
        ]
    )


def test_the_last_step_is_saved_once_and_gets_the_loss_that_was_measured_after(ranks):
    for events, losses, nothing_new in (found["at_the_end"] for found in ranks):
        assert events == ["gather 2", "gather 4"]
        assert losses == {2: None, 4: 2.5}
        assert nothing_new == []


def test_what_a_run_goes_on_from_outlives_the_next_write_even_if_latest_names_a_damaged_one(ranks):
    # 2 is the damaged one, to be replaced.
    assert ranks[0]["after_stepping_over_a_damaged_one"] == ([[1, 2]], [2])


def test_a_fork_lies_in_its_own_folder_before_its_first_step(ranks):
    for steps, events in (found["at_the_start"] for found in ranks):
        assert steps == [0] and events == ["gather 0"]


def test_a_run_that_ends_by_an_error_finishes_its_write(ranks):
    events, steps = ranks[0]["closed_in_the_middle"]
    assert events == ["gather 1", "write 1", "written 1"] and steps == [1]
