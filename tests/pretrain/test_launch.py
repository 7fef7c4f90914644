import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from pretrain import launch
from pretrain.launch import EXIT_HANG, EXIT_PREEMPTED, STACK_OF, free_port, rank_environment, run_ranks


def python(code):
    return [sys.executable, "-c", code]


def test_ranks_see_the_variables_of_torchrun(tmp_path):
    code = f"""
import os
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS"]
open(os.path.join({str(tmp_path)!r}, os.environ["RANK"]), "w").write(" ".join(os.environ[n] for n in names))
"""
    assert run_ranks([python(code)] * 2) == 0
    first, second = ((tmp_path / rank).read_text().split() for rank in "01")
    assert first[:5] == ["0", "2", "0", "2", "127.0.0.1"] and second[:5] == ["1", "2", "1", "2", "127.0.0.1"]
    assert first[5] == second[5]


def test_what_the_user_set_is_kept():
    assert rank_environment({"OMP_NUM_THREADS": "7"}, 0, 2, 1)["OMP_NUM_THREADS"] == "7"


def test_the_first_rank_to_fail_is_named_with_its_last_lines_and_the_others_are_stopped(capfd):
    start = time.monotonic()
    waits = python("import time; time.sleep(60)")
    fails = python("import sys; print('the reason'); sys.exit(3)")
    assert run_ranks([waits, fails]) == 3
    assert time.monotonic() - start < 20
    errors = capfd.readouterr().err
    assert "rank 1 of 2 ended with exit code 3" in errors and "the reason" in errors


def test_a_rank_that_ignores_sigterm_is_killed():
    deaf = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    fails = python("import time, sys; time.sleep(0.3); sys.exit(1)")
    start = time.monotonic()
    assert run_ranks([deaf, fails]) == 1
    assert time.monotonic() - start < 30


def test_a_rank_killed_by_a_signal_gives_128_and_its_number(capfd):
    assert run_ranks([python("import os; os.kill(os.getpid(), 9)")]) == 137
    assert "killed by signal 9" in capfd.readouterr().err


def test_bad_input_on_all_ranks_is_said_once(capfd):
    code = "import sys; print('error: a sentence', file=sys.stderr); sys.exit(2)"
    assert run_ranks([python(code)] * 2) == 2
    assert capfd.readouterr().err.count("error:") == 1


def test_signals_are_forwarded_and_a_saved_run_ends_with_85():
    code = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit({EXIT_PREEMPTED}))
time.sleep(60)
"""
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert run_ranks([python(code)] * 2) == EXIT_PREEMPTED


def test_when_the_watchdogs_end_the_ranks_the_sentence_is_said_once_with_the_stack_of_the_culprit(capfd):
    rank = f"""
import os, sys, time
print("error: rank 1 on here hangs", file=sys.stderr)
if os.environ["RANK"] == "1":
    print("{STACK_OF} rank 1:\\n  File loader.py, line 7", file=sys.stderr)
sys.stderr.flush()
os._exit({EXIT_HANG})
"""
    assert run_ranks([python(rank)] * 2) == EXIT_HANG
    errors = capfd.readouterr().err
    assert errors.count("error:") == 1 and errors.count("loader.py, line 7") == 1


def test_a_rank_that_is_stopped_does_not_keep_what_the_others_say_of_it(capfd):
    rank = f"""
import os, signal, sys, time
if os.environ["RANK"] == "0":
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(0.5)
print("error: rank 0 on here is stopped", file=sys.stderr)
os._exit({EXIT_HANG})
"""
    start = time.monotonic()
    assert run_ranks([python(rank)] * 2) == EXIT_HANG
    assert time.monotonic() - start < 30
    assert capfd.readouterr().err.count("error: rank 0 on here is stopped") == 1


def test_the_others_may_say_who_was_killed_before_they_are_stopped(capfd):
    rank = f"""
import os, signal, sys, time
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(1.5)
print("error: rank 1 on here has died at step 3", file=sys.stderr)
os._exit({EXIT_HANG})
"""
    assert run_ranks([python(rank)] * 2) == 137
    errors = capfd.readouterr().err
    assert "rank 1 on here has died at step 3" in errors and "rank 1 of 2 was killed by signal 9" in errors


def test_a_second_ctrl_c_gives_up_on_ranks_that_are_still_saving():
    deaf = python("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)")
    for seconds in (1.5, 3.0):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_ranks([deaf] * 2)
    assert 2.5 < time.monotonic() - start < 20


def test_ranks_do_not_outlive_a_launcher_that_is_killed(tmp_path):
    rank = "from pretrain.distributed import die_with_launcher as d; d(); import os, time\n" + (
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    parent = subprocess.Popen(
        python(f"from pretrain.launch import run_ranks; run_ranks([[{sys.executable!r}, '-c', {rank!r}]])")
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    time.sleep(0.5)
    status = subprocess.run(["ps", "-o", "stat=", "-p", (tmp_path / "pid").read_text()], capture_output=True, text=True)
    assert status.stdout.strip() == "" or status.stdout.startswith("Z")


def test_a_free_port_is_one_that_the_system_gives_to_no_outgoing_connection(monkeypatch):
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 15 and all(10000 <= port < 20000 for port in ports)
    taken = min(ports)
    monkeypatch.setattr(launch, "_PORTS", range(taken, taken + 2))
    monkeypatch.setattr(launch, "_PORT_TRIES", 2)
    with socket.socket() as listening:
        listening.bind(("", taken))
        listening.listen()
        assert {free_port() for _ in range(5)} == {taken + 1}
