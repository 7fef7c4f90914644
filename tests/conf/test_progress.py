import logging

import pytest

from conf.progress import ProgressLine, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.6, "1:00"), (725, "12:05"), (3600, "1:00:00"), (86399, "23:59:59"), (187200, "2 d 4 h")],
)
def test_durations_read_as_people_write_them(seconds, text):
    assert duration(seconds) == text


def test_the_last_plain_line_has_the_note_and_the_time_left(caplog):
    caplog.set_level(logging.INFO)
    line = ProgressLine("training", 10, None, None)
    line.update(5, "loss 2.0", left=30)  # too soon after the start to be written
    line.update(10, "loss 1.5", left=0)
    assert [record.getMessage() for record in caplog.records] == ["training: 100% (10 of 10) loss 1.5, 0:00 left"]
