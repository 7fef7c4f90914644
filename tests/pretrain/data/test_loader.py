"""The same batches from any layout, a thread or processes; what stalls, fails or dies is named and never a hang."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.data.loader import Layout, Loader, validation_batches
from pretrain.data.mixture import Mixture, Source, open_mixture
from pretrain.objectives import MicroBatch
from tests.helpers.ranks import REPOSITORY
from tests.pretrain.data.test_mixture import Huge, huge_mixture

WHOLE = Layout(16, 16, 0, 1)


class Recorder:
    """An objective whose batch is what it was given; it can be told to misbehave from a row on."""

    loss_names, columns, needs_partners = ("x",), (), False

    def __init__(self, act=None):
        self.act = act

    def make_batch(self, rows, row_keys, used, *, training, partners=None):
        if self.act is not None:
            self.act()
        ids = None if partners is None else partners.input_ids
        return MicroBatch((rows.input_ids, row_keys, used, training, ids), {"x": float(used.sum())}, 0)


class Paired(Recorder):
    needs_partners = True


def fail():
    raise InputError("this row cannot be masked")


def fault():
    raise ZeroDivisionError("a fault of the objective")


def inputs(micro_batches):
    return [made.batch.input_ids for made in micro_batches]


def same(one, other):
    """Whether two steps hold the same tensors and counts."""
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.counts, a.tokens) == (b.counts, b.tokens)
        assert a.batch.layout.row_length == b.batch.layout.row_length
        assert torch.equal(a.batch.layout.cu_seqlens, b.batch.layout.cu_seqlens)
        for name in ("input_ids", "position_ids", "target_positions", "labels", "weights"):
            mine, theirs = getattr(a.batch, name), getattr(b.batch, name)
            assert mine.dtype == theirs.dtype and torch.equal(mine, theirs), name
    return True


def loader_processes():
    return [process for process in psutil.Process().children() if "spawn_main" in " ".join(process.cmdline())]


def is_alive(process):
    """Whether it runs: an orphan that has ended may stay as a zombie until init looks."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("first_sample", [320, 65_536 - 7])
@pytest.mark.parametrize(("ranks", "micro"), [(1, 4), (2, 8), (2, 4), (4, 4), (4, 2)])
def test_every_layout_sees_the_same_rows_with_the_same_masks(mixture, objective, ranks, micro, first_sample):
    whole = inputs(Loader(mixture, objective, 0, WHOLE).step(first_sample))[0]
    loaders = [Loader(mixture, objective, 0, Layout(16, micro, rank, ranks)) for rank in range(ranks)]
    steps = [loader.step(first_sample) for loader in loaders]
    pieces = [steps[rank][j].batch.input_ids for j in range(len(steps[0])) for rank in range(ranks)]
    assert torch.equal(torch.cat(pieces), whole)
    assert len(steps[0]) == 16 // (ranks * micro)


def test_the_thread_yields_what_step_makes_from_any_sample_on_and_ends(mixture, objective):
    loader = Loader(mixture, objective, 3, Layout(8, 4, 0, 1))
    steps = loader.steps(first_sample=80)
    for number in range(4):
        assert same(next(steps), loader.step(80 + 8 * number))
    steps.close()
    assert not any(thread.name == "loader" for thread in threading.enumerate())


def test_two_processes_yield_what_the_thread_does_and_end_when_closed(mixture, objective):
    layout = Layout(16, 4, 1, 2)
    loader = Loader(mixture, objective, 3, layout, workers=2)
    steps = loader.steps(first_sample=65_536 - 40)  # into the next block of the mixture
    for number in range(7):
        made = next(steps)
        assert same(made, loader.step(65_536 - 40 + 16 * number))
        made[0].batch.input_ids += 1  # the tensors are the consumer's own
    assert len(loader_processes()) == 2
    start = time.monotonic()
    steps.close()
    assert time.monotonic() - start < 5
    assert not loader_processes()
    assert not any(thread.name == "loader" for thread in threading.enumerate())


def test_rows_on_the_skip_list_keep_their_place_without_weight(directories, objective, tmp_path):
    data = str(directories[0])
    plain = open_mixture(data)
    rows = plain.pick(0, 0, 16).rows
    skip = tmp_path / "skip.jsonl"
    skip.write_text("".join(f'{{"data": "{data}", "row": {row}}}\n' for row in rows[[2, 5]]))
    layout = Layout(16, 8, 0, 1)
    before = Loader(plain, objective, 0, layout).step(0)
    after = Loader(open_mixture(data, skip=skip), objective, 0, layout).step(0)
    assert all(map(torch.equal, inputs(before), inputs(after)))
    assert same(before[1:], after[1:])
    length = before[0].batch.layout.row_length
    lost = before[0].batch.weights - after[0].batch.weights
    assert set((before[0].batch.target_positions[lost > 0] // length).tolist()) == {2, 5}
    assert after[0].counts["masked_lm"] == before[0].counts["masked_lm"] - lost.sum() > 0


def test_partners_are_handed_over_where_the_objective_needs_them(mixture):
    (made,) = Loader(mixture, Paired(), 0, WHOLE).step(0)
    rows, keys, used, training, partners = made.batch
    assert partners.shape == rows.shape and (partners != rows).any(axis=1).all()
    assert training and used.all() and len(set(keys.tolist())) == 16
    assert Loader(mixture, Recorder(), 0, WHOLE).step(0)[0].batch[4] is None
    parts = [Loader(mixture, Paired(), 0, Layout(16, 8, rank, 2)).step(0)[0].batch[4] for rank in range(2)]
    assert np.array_equal(np.concatenate(parts), partners)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_making_a_step_raises_reaches_the_training_loop(mixture, workers):
    with pytest.raises(InputError) as refused:
        next(Loader(mixture, Recorder(fail), 0, WHOLE, workers=workers).steps(0))
    assert str(refused.value).endswith("this row cannot be masked")
    with pytest.raises((ZeroDivisionError, RuntimeError)) as failed:
        next(Loader(mixture, Recorder(fault), 0, WHOLE, workers=workers).steps(0))
    assert "a fault of the objective" in str(failed.value)
    if workers:
        assert str(refused.value).startswith("loader worker 0 of 1 (process ")
        assert failed.type is RuntimeError and "line" in str(failed.value)
    assert not loader_processes()


def test_a_worker_that_is_killed_is_an_error_that_names_it(mixture, objective):
    loader = Loader(mixture, objective, 0, WHOLE, workers=2)
    steps = loader.steps(0)
    next(steps)
    victim = sorted(loader_processes(), key=lambda process: process.pid)[1]
    victim.kill()
    with pytest.raises(InputError) as refused:
        for _ in range(100):
            next(steps)
    assert f"loader worker 1 of 2 (process {victim.pid}) was killed by signal 9 (SIGKILL)" in str(refused.value)
    assert "memory" in str(refused.value)
    assert not loader_processes()


def test_signals_to_the_whole_job_step_do_not_end_the_workers(mixture, objective):
    """Slurm tells every process of a step that its time ends: the training process must live to save."""
    loader = Loader(mixture, objective, 0, WHOLE, workers=1)
    steps = loader.steps(0)

    def signal_all():
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not loader_processes():
            time.sleep(0.001)
        for process in loader_processes():  # in the middle of its start, before it runs a line of ours
            for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT):
                process.send_signal(number)

    sender = threading.Thread(target=signal_all)
    sender.start()
    assert same(next(steps), loader.step(0))
    sender.join()
    signal_all()
    for number in range(1, 5):
        assert same(next(steps), loader.step(16 * number))
    steps.close()


def test_a_stall_is_named_again_and_again_at_growing_intervals(mixture, caplog):
    """A worker that the system has stopped, as a disk that hangs would."""
    steps = Loader(mixture, Recorder(), 0, WHOLE, workers=2, prefetch=1, stall_seconds=0.2).steps(0)
    next(steps)
    stopped = sorted(loader_processes(), key=lambda process: process.pid)[1]
    stopped.suspend()
    caplog.clear()
    threading.Timer(2.5, stopped.resume).start()
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            next(steps)
    steps.close()
    who = f" s for its next batch: loader worker 1 of 2 (process {stopped.pid}) is "
    named = [record for record in caplog.records if who in record.getMessage()]
    assert all(record.getMessage().startswith("data loader stall: rank 0 has waited ") for record in named)
    times = [record.created for record in named][:3]
    assert len(times) == 3
    assert times[2] - times[1] > 1.2 * (times[1] - times[0])


def test_a_stall_in_reading_names_the_directory(directories, objective, caplog):
    """A disk that does not answer for a while."""
    answered = threading.Event()
    answered.set()

    class Slow(Huge):
        def rows(self, indices, columns=()):
            answered.wait(60)
            return super().rows(indices, columns)

    slow = Mixture([Source(directories[1], 1.0, Slow(directories[1], 1000, "slow"))])
    steps = Loader(slow, objective, 0, WHOLE, stall_seconds=0.1).steps(0)
    answered.clear()
    with caplog.at_level(logging.WARNING):
        timer = threading.Timer(0.5, answered.set)
        timer.start()
        next(steps)
    assert f"the loader's thread is reading '{directories[1]}'" in caplog.text
    steps.close()


def test_waiting_is_counted_once_and_a_batch_in_time_costs_none(mixture):
    naps = Recorder(lambda: time.sleep(0.1))
    loader = Loader(mixture, naps, 0, WHOLE)
    steps = loader.steps(0)
    next(steps)
    assert 0.08 < loader.waited() < 5
    assert loader.waited() == 0.0
    time.sleep(0.5)
    next(steps)
    assert loader.waited() < 0.09
    steps.close()


def test_no_more_steps_than_asked_for_are_made_ahead(mixture):
    made = []
    steps = Loader(mixture, Recorder(lambda: made.append(1)), 0, WHOLE, prefetch=3).steps(0)
    next(steps)
    time.sleep(0.3)
    assert len(made) == 5  # one taken, three ready, one in the hand of the thread
    steps.close()


def test_an_objective_that_no_other_process_can_have_is_one_sentence(mixture):
    with pytest.raises(InputError, match="needs an objective that can be sent to another process"):
        next(Loader(mixture, Recorder(lambda: None), 0, WHOLE, workers=1).steps(0))
    with pytest.raises(InputError, match="0 or more workers"):
        Loader(mixture, Recorder(), 0, WHOLE, workers=-1)


TRAINING = """
import os, signal, sys, time
from pretrain.data.loader import Layout, Loader
from pretrain.data.mixture import open_mixture
from tests.pretrain.data.test_loader import Recorder

if __name__ == "__main__":
    steps = Loader(open_mixture(sys.argv[1]), Recorder(), 0, Layout(16, 16, 0, 1), workers=2).steps(0)
    next(steps)
    print("ready", flush=True)
    if sys.argv[2] == "wait":
        time.sleep(100)
    raise SystemExit(3)
"""


def training(tmp_path, directory, how):
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(script), str(directory), how], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_a_training_process_killed_with_9_leaves_no_worker_behind(directories, tmp_path):
    process = training(tmp_path, directories[0], "wait")
    assert process.stdout.readline() == "ready\n"
    family = psutil.Process(process.pid).children(recursive=True)
    assert sum("spawn_main" in " ".join(child.cmdline()) for child in family) == 2
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while (alive := [child for child in family if is_alive(child)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive


def test_a_training_process_that_fails_without_closing_its_loader_ends_at_once(directories, tmp_path):
    process = training(tmp_path, directories[0], "leave")
    assert process.stdout.readline() == "ready\n"
    assert process.wait(timeout=60) == 3


def test_a_billion_samples_into_a_huge_mixture_the_first_batch_comes_in_under_a_second(directories, objective):
    mixture = huge_mixture(directories)
    start = time.perf_counter()
    steps = Loader(mixture, objective, 11, Layout(4096, 32, 3, 64)).steps(first_sample=10**9)
    made = next(steps)
    seconds = time.perf_counter() - start
    steps.close()
    assert seconds < 1.0
    assert made[0].counts["masked_lm"] > 0


@given(rows=st.integers(1, 30), ranks=st.integers(1, 4), micro=st.integers(1, 8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_validation_weighs_each_row_once_and_gives_all_ranks_as_many_batches(
    directories, objective, rows, ranks, micro
):
    held_out = open_mixture({str(directory): 1 for directory in directories}, "validation")
    rows = min(rows, len(held_out))
    one = list(validation_batches(held_out, objective, rows, Layout(0, rows, 0, 1)))
    shares = [list(validation_batches(held_out, objective, rows, Layout(0, micro, r, ranks))) for r in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    assert sum(m.counts["masked_lm"] for share in shares for m in share) == sum(m.counts["masked_lm"] for m in one)
    assert sum(made.tokens for share in shares for made in share) == sum(made.tokens for made in one)


def test_validation_is_the_same_in_every_run_and_not_for_training(directories):
    held_out = open_mixture({str(directory): 1 for directory in directories}, "validation")
    first, again = (list(validation_batches(held_out, Paired(), 10, Layout(0, 4, 0, 1))) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert all(map(np.array_equal, one.batch, other.batch))
        assert one.batch[3] is False and one.batch[4] is not None
    used = np.concatenate([made.batch[2] for made in first])
    assert used.tolist() == [True] * 10 + [False] * 2
    keys = np.concatenate([made.batch[1] for made in first])[:10]
    assert len(set(keys.tolist())) == 10
    assert not set(keys.tolist()) & set(Loader(held_out, Recorder(), 0, WHOLE).step(0)[0].batch[1].tolist())
