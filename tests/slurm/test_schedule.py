"""Cron expressions, blocks in a crontab, and the very line of an entry in cron's bare environment."""

import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from conf.errors import InputError
from slurm.cron import blocks, parse, with_block
from slurm.schedule import firings, last_firing, log_firing
from tests.helpers.toy_chain import Toy


@pytest.mark.parametrize(
    ("expression", "due"),
    [
        ("* * * * *", "2026-03-01 12:31"),
        ("*/15 3 * * *", "2026-03-02 03:00"),
        ("30 12 * * *", "2026-03-02 12:30"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 9 * * mon-fri", "2026-03-02 09:00"),
        ("0 9 13 * 5", "2026-03-06 09:00"),  # either of the two days
        ("5,7 12-13 * * 7", "2026-03-01 13:05"),
    ],
)
def test_when_an_expression_comes_due(expression: str, due: str) -> None:
    assert str(parse(expression).next_after(datetime(2026, 3, 1, 12, 30, 10)))[:16] == due


def test_a_day_that_never_comes() -> None:
    assert parse("0 0 31 2 *").next_after(datetime(2026, 3, 1)) is None


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 3 * *", "five fields"),
        ("61 * * * *", "the minute must be .* but is '61'"),
        ("0 24 * * *", "the hour"),
        ("0 0 0 * *", "the day of the month"),
        ("0 0 * 5-2 *", "the month"),
        ("0 0 * * someday", "the day of the week"),
        ("*/0 * * * *", "the minute"),
    ],
)
def test_a_bad_expression_is_refused_with_its_field(expression: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(expression)


def test_other_lines_of_a_crontab_stay_as_they_are() -> None:
    own = "MAILTO=me\n# mine\n5 4 * * * backup  --all\n"
    both = with_block(with_block(own, "/runs/a", ["1 * * * * a"]), "/runs/ab", ["2 * * * * b"])
    assert both.startswith(own) and blocks(both) == ["/runs/a", "/runs/ab"]
    changed = with_block(both, "/runs/a", ["3 * * * * a"])
    assert "1 * * * * a" not in changed and "3 * * * * a" in changed and "2 * * * * b" in changed
    assert with_block(with_block(changed, "/runs/a", []), "/runs/ab", []) == own


def test_a_line_of_the_log_that_was_cut_off_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "schedule").mkdir()
    log_firing(tmp_path, "complete")
    with (tmp_path / "schedule/log.jsonl").open("a") as log:
        log.write('{"time": "2026-0\n')
    assert [line["outcome"] for line in firings(tmp_path)] == ["complete"]
    log_firing(tmp_path, "failed", "why")
    assert (last_firing(tmp_path) or {})["outcome"] == "failed"


class ScheduledToy(Toy):
    """The toy chain with a crontab that lies in a file, in the place of the user's own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.table = folder / "table"
        program = folder / "bin/crontab"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/bash\nif [ "$1" = -l ]; then cat {self.table} 2>/dev/null || '
            f'{{ echo "no crontab for me" >&2; exit 1; }}; else cat >{self.table}; fi\n'
        )
        program.chmod(0o755)

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return found | {"PATH": f"{self.folder / 'bin'}:{found['PATH']}", "WANDB_API_KEY": "no-one-may-read-it"}

    def fire(self) -> subprocess.Popen[bytes]:
        """Run the very line of the entry as cron does."""
        (line,) = [line for line in self.table.read_text().splitlines() if not line.startswith("#")]
        bare = {
            "HOME": "/",
            "PATH": "/usr/bin:/bin",
            "SHELL": "/bin/sh",
            "TOY_GO": str(self.go),
            "TOY_FAIL": str(self.fail),
        }
        return subprocess.Popen(["/bin/sh", "-c", line.split(maxsplit=5)[5]], env=bare, cwd="/")


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ScheduledToy]:
    yield ScheduledToy(tmp_path)


def test_an_entry_fires_skips_an_overlap_tells_of_a_failure_and_is_removed(toy: ScheduledToy) -> None:
    toy.fail.touch()
    notify = f"cat >{toy.folder}/told; echo $PALIMPSEST_RUN $PALIMPSEST_STATE >>{toy.folder}/told; exit 3"
    done = toy.submit("schedule='* * * * *'", f"notify='{notify}'")
    assert done.returncode == 0 and "runs by schedule" in done.stdout, done.stderr
    assert not (toy.run_dir / "first").exists()
    assert toy.fire().wait(60) == 1
    told = (toy.folder / "told").read_text()
    assert "step 'middle' failed" in told and told.endswith(f"{toy.run_dir} failed\n")
    assert "the command of notify failed: exit code 3" in (toy.run_dir / "schedule/output.log").read_text()
    toy.fail.unlink()
    toy.go.unlink()
    running = toy.fire()
    toy.wait_for(toy.run_dir / "middle/waiting")
    assert toy.fire().wait(60) == 0
    toy.go.touch()
    assert running.wait(60) == 0
    assert [line["outcome"] for line in firings(toy.run_dir)] == ["failed", "skipped", "complete"]
    listed = toy.submit("schedule=list").stdout
    assert str(toy.run_dir) in listed and "complete" in listed and "next: " in listed
    assert "removed" in toy.submit("schedule=remove").stdout and toy.table.read_text() == ""
    again = toy.submit("schedule=remove")
    assert again.returncode == 2 and "has no schedule" in again.stderr
    for path in toy.run_dir.rglob("*"):
        assert path.is_dir() or b"no-one-may-read-it" not in path.read_bytes(), path
