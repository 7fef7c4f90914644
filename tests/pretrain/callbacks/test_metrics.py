import json

from pretrain.callbacks.metrics import MetricsFile


def lines(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_a_resumed_run_drops_the_lines_that_were_lost_with_the_kill(tmp_path):
    file = MetricsFile(tmp_path, step=0)
    for step in (1, 2, 3):
        file.write(step, {"loss": float(step)})
    file.close()
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 2, "lo')  # cut off by a kill
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
