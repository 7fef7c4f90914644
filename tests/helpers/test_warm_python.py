"""What a forked command says, returns and sees is what it would if python were started for it."""

import os
import subprocess
import sys

import pytest

from tests.helpers.warm_python import run_module

PROGRAM = """
import os, sys, threading, atexit
print(__name__, sys.argv[1:], os.getcwd(), os.environ.get("WORD"), __spec__.name)
print("aside", file=sys.stderr)
atexit.register(print, "at the end")
threading.Timer(0.2, print, ["a thread was waited for"]).start()
exec(sys.argv[1])
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "toy.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize(
    "statement", ["pass", "sys.exit()", "sys.exit(3)", "sys.exit('a reason')", "1 / 0", "raise KeyboardInterrupt"]
)
def test_it_ends_as_python_does(folder, statement):
    words, environment = [sys.executable, "-m", "toy", statement, "b c"], {**os.environ, "WORD": "w"}
    warm = run_module(words, cwd=folder, env=environment)
    cold = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert warm.stdout == cold.stdout and "a thread was waited for\nat the end\n" in warm.stdout
    assert warm.stderr.splitlines()[0] == "aside" and warm.stderr.splitlines()[-1] == cold.stderr.splitlines()[-1]
    # Python sends itself the signal once more, for the shell to see.
    assert warm.returncode == (1 if statement == "raise KeyboardInterrupt" else cold.returncode)


def test_a_command_is_a_process_of_its_own_and_leaves_the_next_none_of_its_changes(folder):
    change = "import math; math.changed = 1; os.environ['WORD'] = 'x'; print(os.getpid())"
    first = run_module([sys.executable, "-m", "toy", change], cwd=folder).stdout.splitlines()[1]
    second = run_module([sys.executable, "-m", "toy", "import math; print(hasattr(math, 'changed'))"], cwd=folder)
    assert int(first) != os.getpid() and second.stdout.splitlines()[1] == "False"


def test_settings_that_are_read_at_import_start_python_anew(folder):
    look = [sys.executable, "-m", "toy", "print('torch' in sys.modules)"]
    assert run_module(look, cwd=folder).stdout.splitlines()[1] == "True"
    assert run_module(look, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "2"}).stdout.splitlines()[1] == "False"


def test_a_command_that_does_not_end_is_killed(folder):
    wait = [sys.executable, "-m", "toy", "import time; time.sleep(60)"]
    with pytest.raises(subprocess.TimeoutExpired):
        run_module(wait, cwd=folder, timeout=1.0)
    assert run_module([sys.executable, "-m", "toy", "pass"], cwd=folder).returncode == 0
