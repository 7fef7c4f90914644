"""`python -m pretrain` as the process that starts local ranks."""

import subprocess
import sys

import pytest

from tests.helpers.ranks import REPOSITORY

# As the command, but that it says what it would start and what it has imported so far.
SHOWS = """
import sys
import pretrain.__main__ as command

def show(commands):
    print(len(commands), commands[0][1:], "torch" in sys.modules)
    return 0

command.run_ranks = show
command.main()
"""


def start(*overrides):
    line = [sys.executable, "-c", SHOWS, "experiment=tiny", "data=none", "run_dir=none", *overrides]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)


def test_the_process_that_starts_ranks_hands_on_its_command_line_and_does_without_torch():
    overrides = ("ranks=2", "trainer.max_steps=3")
    done = start(*overrides)
    words = ["-m", "pretrain", "experiment=tiny", "data=none", "run_dir=none", *overrides, "run_dir='none'"]
    assert done.stdout.strip() == f"2 {words} False", done.stderr


@pytest.mark.parametrize(
    ("override", "sentence"),
    [("ranks=0", "ranks must be at least 1, but is 0"), ("ranks=two", "'ranks' must be a whole number")],
)
def test_a_wrong_number_of_ranks_is_one_sentence(override, sentence):
    done = start(override)
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("error:") == 1
