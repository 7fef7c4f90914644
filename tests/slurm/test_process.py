import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm.process import PlainLines, run_logged


def run(code: str, log: Path, grace_seconds: float = 5.0, append: bool = False):
    return run_logged([sys.executable, "-c", code], log, append, grace_seconds, tail_lines=3)


@given(st.lists(st.integers(0, 60)))
def test_lines_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b"plain\r\n 10%\r 50%\r\x1b[2K\x1b[1;32m100%\x1b[0m\nend \xc3\xa9"
    found: list[str] = []
    lines = PlainLines(found.append)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for start, end in itertools.pairwise(places):
        lines.feed(data[start:end])
    lines.close()
    assert found == ["plain", "100%", "end é"]


def test_the_log_holds_the_command_line_and_both_streams_and_the_tail_its_end(tmp_path: Path) -> None:
    outcome = run(
        "import sys; print('out'); print('err', file=sys.stderr); print(3); print(4); sys.exit(5)", tmp_path / "l"
    )
    lines = (tmp_path / "l").read_text().splitlines()
    assert lines[0].startswith("# ") and "-c" in lines[0]
    assert lines[1:] == ["out", "err", "3", "4"]
    assert outcome.status == 5
    assert outcome.tail == ("err", "3", "4")


def test_a_resumed_step_goes_on_in_its_log(tmp_path: Path) -> None:
    run("print(1)", tmp_path / "l")
    run("print(2)", tmp_path / "l", append=True)
    assert [line for line in (tmp_path / "l").read_text().splitlines() if line[0] != "#"] == ["1", "2"]


def test_what_a_command_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, pathlib\nchild = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))"
    )
    begun = time.monotonic()
    assert run(code, tmp_path / "l").status == 0
    assert time.monotonic() - begun < 20
    assert not Path(f"/proc/{pid_file.read_text()}").exists() or _is_zombie(int(pid_file.read_text()))


def test_a_signal_reaches_the_command_which_may_save_and_end(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print('saved'), sys.exit(3)))\nprint('ready')\ntime.sleep(60)"
    )
    _signal_when_ready(tmp_path / "l")
    outcome = run(code, tmp_path / "l")
    assert outcome.stopped_by is signal.SIGTERM
    assert outcome.status == 3
    assert outcome.tail[-1] == "saved"


def test_a_command_that_does_not_end_in_its_grace_time_is_killed(tmp_path: Path) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready')\ntime.sleep(60)"
    _signal_when_ready(tmp_path / "l")
    outcome = run(code, tmp_path / "l", grace_seconds=0.5)
    assert outcome.status == -signal.SIGKILL
    assert outcome.seconds < 30


def test_a_command_sees_a_terminal_exactly_where_we_have_one(tmp_path: Path) -> None:
    ask = "import sys; print('terminal', sys.stderr.isatty()); print('\\x1b[31mred\\x1b[0m')"
    call = (
        "from slurm.process import run_logged; from pathlib import Path; import sys\n"
        f"run_logged([sys.executable, '-c', {ask!r}], Path({str(tmp_path / 'l')!r}), False, 5, 3)"
    )
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", call], stdout=theirs, stderr=theirs, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"\x1b[31mred" in shown
    assert (tmp_path / "l").read_text().splitlines()[1:] == ["terminal True", "red"]
    subprocess.run([sys.executable, "-c", call], capture_output=True, check=True, timeout=60)
    assert (tmp_path / "l").read_text().splitlines()[1] == "terminal False"


def _signal_when_ready(log: Path) -> None:
    def wait() -> None:
        for _ in range(600):
            time.sleep(0.05)
            if log.exists() and "ready" in log.read_text().splitlines()[1:]:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=wait, daemon=True).start()


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
