import json

import psutil
import torch

from pretrain.callbacks.metrics import MetricsFile, describe, memory_gib


def lines(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_drops_the_lines_that_were_lost_with_the_kill(tmp_path):
    file = MetricsFile(tmp_path, step=0)
    for step in (1, 2, 3):
        file.write(step, {"loss": float(step)})
    file.close()
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write('7\n[]\n{"loss": 1}\n{"step": 2, "lo')  # none of ours, and one cut off by a kill
    resumed = MetricsFile(tmp_path, step=2)
    resumed.write(3, {"loss": 30.0})
    resumed.close()
    assert lines(tmp_path) == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}, {"step": 3, "loss": 30.0}]


def test_each_figure_is_a_tensorboard_scalar(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    file = MetricsFile(tmp_path, step=0)
    file.write(10, {"loss": 2.5})
    file.close()
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(10, 2.5)]


def test_listeners_are_handed_each_line(tmp_path):
    heard = []
    file = MetricsFile(tmp_path, step=0, listeners=[lambda step, values: heard.append((step, dict(values)))])
    file.write(3, {"loss": 1.5})
    file.close()
    assert heard == [(3, {"loss": 1.5})]


def test_the_memory_on_a_cpu_is_what_the_process_holds():
    expected = psutil.Process().memory_info().rss / 2**30
    assert abs(memory_gib(torch.device("cpu")) - expected) < 0.05


def test_the_line_for_people_has_what_is_known():
    values = {"learning_rate": 1e-4, "tokens_per_second": 12345.6, "data_wait": 0.02, "memory_gib": 1.25, "skipped": 0}
    assert describe(values) == "rate 1.00e-04, 12,346 tokens/s, waits for data 2%, 1.2 GiB"
    more = values | {"loss": 2.5, "mfu": 0.413, "skipped": 3}
    assert describe(more).startswith("loss 2.500, rate") and "MFU 41.3%" in describe(more)
    assert describe(more).endswith("3 skipped")
