import logging
import time

from pipeline.jobs import following
from pipeline.jobs.following import follow


def test_that_all_is_done_is_said_once_however_long_the_block_goes_on(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.02)
    marks = [tmp_path / str(number) for number in range(3)]
    with caplog.at_level(logging.INFO), follow("work", marks):
        for mark in marks:
            mark.touch()
        time.sleep(0.3)
    assert [record.message.strip() for record in caplog.records] == ["work: 100% (3 of 3)"]


def test_what_appears_just_before_the_end_is_counted(tmp_path, caplog):
    with caplog.at_level(logging.INFO), follow("work", [tmp_path / "a"]):
        (tmp_path / "a").touch()
    assert "100% (1 of 1)" in caplog.text
