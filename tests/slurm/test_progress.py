"""What a step of a submitted chain is said to be, from Slurm's word, the records and the logs."""

import json
from pathlib import Path

import pytest

from conf.errors import InputError
from slurm.cancel import with_dependents
from slurm.logs import of_interest
from slurm.progress import progress_of, submission_in
from slurm.scheduler import JobState
from slurm.status import table
from slurm.submission import Submission, SubmittedJob, read_submission, write_submission


def submission(folder: Path) -> Submission:
    needs = {"a": (), "b": ("a",), "c": ("b",), "d": ()}
    jobs = {step: SubmittedJob(n, needs[step], str(folder / f"{step}.log"), "") for n, step in enumerate(needs, 1)}
    return Submission("tag", "toy", tuple(needs), "2026-01-01T00:00:00+00:00", True, jobs)


def said(folder: Path, **states: str) -> dict[str, tuple[str, str]]:
    numbers = {"a": 1, "b": 2, "c": 3, "d": 4}
    known = {numbers[step]: JobState(state, "Dependency", "1:00") for step, state in states.items()}
    return {one.step: (one.state, one.why) for one in progress_of(folder, submission(folder), known)}


def test_a_failure_is_told_by_the_steps_own_sentence_and_those_after_it_name_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("much\nerror: step 'a' failed: exit code 7\n    a line\n")
    found = said(tmp_path, a="FAILED", b="CANCELLED", c="CANCELLED", d="RUNNING")
    assert found == {
        "a": ("failed", "step 'a' failed: exit code 7"),
        "b": ("cancelled", "a, which it needs, failed"),
        "c": ("cancelled", "b, which it needs, has not run"),
        "d": ("running", ""),
    }


def test_a_job_that_slurm_ended_is_told_by_slurms_word(tmp_path: Path) -> None:
    found = said(tmp_path, a="OUT_OF_MEMORY", b="CANCELLED", c="CANCELLED", d="CANCELLED")
    assert found["a"][0] == "failed" and found["a"][1].startswith("OUT_OF_MEMORY")
    assert found["d"] == ("cancelled", "by its owner or the administrator")


def test_a_job_that_waits_names_what_for_and_one_that_slurm_has_forgotten_is_not_taken_for_done(tmp_path: Path) -> None:
    found = said(tmp_path, a="RUNNING", b="PENDING", c="PENDING")
    assert found["b"] == ("waiting", "waits for a") and found["c"] == ("waiting", "waits for b")
    assert found["d"][0] == "ended" and "forgotten" in found["d"][1]


def test_the_table_shows_how_far_training_is_and_no_empty_column(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    lines = [{"step": 10, "loss": 4.5, "tokens_per_second": 1234.5}, {"step": 12, "validation_loss": 4.0}]
    (tmp_path / "a/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 13, "lo')
    (tmp_path / "a/config.yaml").write_text("trainer: {max_steps: 50}\n")
    steps = progress_of(tmp_path, submission(tmp_path), {1: JobState("RUNNING", "", "1:00")})
    head, row, *_ = table(steps).splitlines()
    assert row.split() == ["a", "1", "running", "step", "10", "of", "50", "1,234", "4.500", "1:00"]
    assert head.split() == ["step", "job", "state", "progress", "tokens/s", "loss", "time", "left"]
    assert of_interest(steps) == "b", "it ended without a word"
    assert "tokens/s" not in table(steps[1:])


def test_cancelling_a_step_cancels_those_that_need_it(tmp_path: Path) -> None:
    jobs = submission(tmp_path).jobs
    assert with_dependents("b", jobs) == {"b", "c"}
    with pytest.raises(InputError, match="no job for step 'e'"):
        with_dependents("e", jobs)


def test_a_submission_is_read_as_it_was_written_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no jobs: no chain was submitted to it"):
        submission_in(tmp_path)
    write_submission(tmp_path, submission(tmp_path))
    assert read_submission(tmp_path) == submission(tmp_path)
    path = tmp_path / "steps/slurm/submission.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match="is damaged"):
        read_submission(tmp_path)
