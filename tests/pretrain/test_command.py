"""`python -m pretrain` as the process that starts local ranks."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.helpers.ranks import REPOSITORY

# As the command, but that it says what it would start and whether it has imported torch so far.
SHOWS = """
import json, sys
import pretrain.__main__, pretrain.rank_command

def show(commands):
    print(json.dumps([*commands, "torch" in sys.modules]))
    return 0

pretrain.rank_command.run_ranks = show
pretrain.__main__.main()
"""


def start(*overrides):
    line = [sys.executable, "-c", SHOWS, *overrides, "data=none", "run_dir=none"]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)


def composed(line):
    done = subprocess.run([*line, "--cfg", "job"], cwd=REPOSITORY, capture_output=True, text=True)
    return yaml.safe_load(done.stdout)


def test_the_process_that_starts_ranks_hands_on_its_options_and_does_without_torch():
    done = start("ranks=2", "trainer.max_steps=3")
    first, second, imported_torch = json.loads(done.stdout)
    assert first == second and not imported_torch
    options = composed(first)
    assert (options["ranks"], options["trainer"]["max_steps"], options["run_dir"]) == (2, 3, "none")


def test_ranks_are_given_the_configuration_that_the_command_line_chose(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [pretrain, _self_]\nseed: 3\n")
    done = start("--config-dir", str(tmp_path), "--config-name", "mine", "ranks=2")
    assert composed(json.loads(done.stdout)[0])["seed"] == 3
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 7\n")
    done = start(f"hydra.searchpath=[file://{tmp_path}]", "experiment=mine", "ranks=2")
    assert composed(json.loads(done.stdout)[0])["seed"] == 7, done.stderr


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("ranks=0", "ranks must be at least 1, but is 0"),
        ("ranks=two", "'ranks' must be a whole number"),
        ("seed=9223372036854775808", "seed must be from 0 to 2^63 - 1, but is 9223372036854775808"),
        ("seed=-1", "seed must be from 0 to 2^63 - 1, but is -1"),
    ],
)
def test_a_wrong_number_is_one_sentence(override, sentence):
    done = start(override)
    assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("error:") == 1
