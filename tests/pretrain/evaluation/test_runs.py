"""The pool of runs: order, keys, what is kept, and what is said when a worker dies."""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from conf.errors import InputError
from pretrain.evaluation.runs import hash_of, run_all


@dataclass(frozen=True)
class Square:
    """A job that leaves a mark each time it runs."""

    number: int
    marks: str
    version: int = 1
    fail: str = ""

    @property
    def name(self) -> str:
        return f"square/{self.number}"

    @property
    def cost(self) -> float:
        return self.number

    def identity(self) -> dict[str, Any]:
        return {"number": self.number, "version": self.version}

    def execute(self) -> dict[str, Any]:
        if self.fail == "input":
            raise InputError(f"{self.number} cannot be squared")
        if self.fail == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        with Path(self.marks).open("a") as handle:
            handle.write(f"{self.number}\n")
        return {"square": self.number**2, "threads": torch.get_num_threads(), "process": os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_asked_from_one_thread_each(workers, tmp_path):
    jobs = [Square(number, str(tmp_path / "marks")) for number in (2, 5, 3)]
    results = run_all(jobs, tmp_path / "runs", workers, "squares")
    assert [result["square"] for result in results] == [4, 25, 9]
    assert all(result["threads"] == 1 for result in results)
    assert (os.getpid() in {result["process"] for result in results}) == (workers == 1)


def test_costly_jobs_start_first(tmp_path):
    run_all([Square(number, str(tmp_path / "marks")) for number in (2, 5, 3)], tmp_path / "runs", 1, "squares")
    assert (tmp_path / "marks").read_text().split() == ["5", "3", "2"]


def test_an_interrupted_evaluation_goes_on_with_what_is_missing(tmp_path):
    marks = tmp_path / "marks"
    with pytest.raises(InputError, match="3 cannot be squared"):
        run_all([Square(5, str(marks)), Square(3, str(marks), fail="input")], tmp_path / "runs", 1, "squares")
    results = run_all([Square(5, str(marks)), Square(3, str(marks))], tmp_path / "runs", 1, "squares")
    assert [result["square"] for result in results] == [25, 9]
    assert marks.read_text().split() == ["5", "3"]  # 5 was kept


def test_another_key_or_a_damaged_file_runs_again(tmp_path):
    marks = tmp_path / "marks"
    run_all([Square(4, str(marks))], tmp_path / "runs", 1, "squares")
    run_all([Square(4, str(marks), version=2)], tmp_path / "runs", 1, "squares")
    (kept,) = (tmp_path / "runs").glob("*.json")
    assert json.loads(kept.read_text())["key"] == hash_of({"number": 4, "version": 2})
    kept.write_text(kept.read_text()[:20])
    run_all([Square(4, str(marks), version=2)], tmp_path / "runs", 1, "squares")
    assert marks.read_text().split() == ["4", "4", "4"]


def test_a_killed_worker_is_one_sentence(tmp_path):
    jobs = [Square(1, str(tmp_path / "marks")), Square(2, str(tmp_path / "marks"), fail="kill")]
    with pytest.raises(InputError, match="worker process of the evaluation was killed"):
        run_all(jobs, tmp_path / "runs", 2, "squares")


def test_requests_that_make_no_sense(tmp_path):
    with pytest.raises(InputError, match="'workers' must be at least 1, but is 0"):
        run_all([Square(1, "x")], tmp_path, 0, "squares")
    with pytest.raises(InputError, match="have the same name: square/1"):
        run_all([Square(1, "x"), Square(1, "y")], tmp_path, 1, "squares")
