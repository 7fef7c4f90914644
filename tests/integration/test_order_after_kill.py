"""The same rows in the same order on any number of ranks and loader processes, after a kill in mid-epoch.

fp32 at dropout 0: the losses of all layouts agree to rounding, which they would not if a single row were another one or
masked otherwise.
"""

import subprocess
import time

import pytest

from tests.helpers.shard_directory import sentences, write_shards
from tests.integration.test_resume import REPOSITORY, TIMEOUT, command, environment, losses, run

STEPS, KILLED_AT = 12, 7


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    # About 100 rows: an epoch is six and a half steps of 16, so the kill hits the middle of the second.
    return write_shards(tmp_path_factory.mktemp("order") / "shards", sentences(230))


def words(shards, run_dir, ranks, workers):
    return command(
        shards,
        run_dir,
        f"ranks={ranks}",
        f"trainer.loader_workers={workers}",
        f"trainer.max_steps={STEPS}",
        "trainer.checkpoint_every=3",
        "trainer.validation_every=0",
        "model.dropout=0.0",
    )


@pytest.fixture(scope="module")
def undisturbed(shards, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run(words(shards, run_dir, ranks=1, workers=0))
    assert done.returncode == 0, done.stderr
    return losses(run_dir)


FEW = [(1, 2)]  # test_resume.py kills one with 2 ranks and no process
REST = [(1, 0), (2, 0), (2, 2), (4, 0), (4, 2)]


@pytest.mark.parametrize(("ranks", "workers"), [*FEW, *(pytest.param(*case, marks=pytest.mark.full) for case in REST)])
def test_a_killed_run_goes_on_with_the_rows_of_an_undisturbed_one(ranks, workers, shards, undisturbed, tmp_path):
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        words(shards, run_dir, ranks, workers), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    metrics, deadline = run_dir / "metrics.jsonl", time.monotonic() + TIMEOUT
    while not (metrics.exists() and f'"step": {KILLED_AT}, "loss"' in metrics.read_text()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.wait()
    again = run(words(shards, run_dir, ranks, workers))
    assert again.returncode == 0, again.stderr
    assert "resumed" in again.stderr
    found = losses(run_dir)
    assert list(found) == list(undisturbed) == list(range(1, STEPS + 1))
    for step, (loss, norm) in found.items():
        assert loss == pytest.approx(undisturbed[step][0], rel=1e-5)
        assert norm == pytest.approx(undisturbed[step][1], rel=1e-4)
