"""The chain files that come with the project, and the smallest of them run whole."""

import email
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.warm_python import run_module

# Packages of the standard library with much documentation and little code: text that every machine has.
ROOTS = ",".join(str(Path(email.__file__).parents[1] / name) for name in ("asyncio", "email", "http"))
TINY = ("chain=tiny", "corpus=python_docs", f"corpus.roots=[{ROOTS}]")


def submit(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "slurm.submit", *arguments]
    return run_module(command, cwd=folder, timeout=550)


def planned(done: subprocess.CompletedProcess) -> dict[str, str]:
    """What is to be done with each step, in the order shown."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.split("\n\n")[0].splitlines()[1:]
    return {line.split()[0]: line.split()[1] for line in lines if line.startswith("  ")}


def recorded_commands(run: Path) -> list[list[str]]:
    """The command line of each step as its record has it, in the order they ran."""
    records = [json.loads(path.read_text()) for path in (run / "steps").glob("*.json") if path.stem != "fingerprints"]
    return [record["command"] for record in sorted(records, key=lambda record: record["started"])]


@pytest.mark.full  # the commands of the documentation plan or run each of them
@pytest.mark.parametrize(
    ("chain", "steps"),
    [
        (["chain=demo"], "corpus tokenizer shards tasks pretrain export evaluate report"),
        (["chain=demo_full"], "corpus tokenizer shards tasks pretrain export evaluate report"),
        (
            ["chain=encoder", "corpus=text", f"corpus.paths=[{__file__}]"],
            "tokenizer shards tasks pretrain export evaluate report",
        ),
        (list(TINY), "tokenizer shards tasks pretrain export evaluate report"),
    ],
)
def test_every_step_of_a_chain_fits_its_command(tmp_path: Path, chain: list[str], steps: str) -> None:
    done = submit(tmp_path, *chain, "dry_run=true")
    assert list(planned(done)) == steps.split()
    assert list(tmp_path.iterdir()) == []


def test_any_option_of_a_step_can_be_set_and_a_typo_is_found_before_anything_runs(tmp_path: Path) -> None:
    done = submit(tmp_path, *TINY, "+chain.steps.pretrain.options.trainer.max_steps=50", "dry_run=true")
    assert "trainer.max_steps=50" in done.stdout
    done = submit(tmp_path, *TINY, "+chain.steps.pretrain.options.trainer.max_stepz=50")
    assert done.returncode == 2
    assert "step 'pretrain': there is no option 'trainer.max_stepz': did you mean 'trainer.max_steps'" in done.stderr
    done = submit(tmp_path, "chain=demo", "corpus=text", "corpus.paths=[a.txt]")
    assert done.returncode == 2
    assert "no step of the chain 'demo' takes 'corpus' from the command line" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full  # test_submit.py has the rules, and a command of the documentation the whole chain
def test_the_tiny_chain_runs_whole_then_does_nothing_then_only_what_a_change_touches(tmp_path: Path) -> None:
    done = submit(tmp_path, *TINY)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "runs/tiny"
    scores = json.loads((run / "scores.json").read_text())["scores"]
    assert {score["model"] for score in scores} == {"pretrained", "random"}
    page = (run / "report.html").read_text()
    assert all(score["task"].rpartition("/")[2].replace("_", " ") in page for score in scores)

    done = submit(tmp_path, *TINY)
    assert done.stdout.startswith("nothing to do: all 7 steps"), done.stdout
    for command in recorded_commands(run):
        again = run_module(command, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
    done = submit(tmp_path, *TINY)
    assert done.stdout.startswith("nothing to do: all 7 steps"), done.stdout
    assert (run / "report.html").read_text() == page
    done = submit(tmp_path, *TINY, "chain.steps.report.options.examples=1", "dry_run=true")
    assert done.returncode == 2  # the chain file does not list it: Hydra asks for a +
    done = submit(tmp_path, *TINY, "+chain.steps.evaluate.options.suite.seeds=[1,2,3]", "dry_run=true")
    actions = planned(done)
    assert [name for name, action in actions.items() if action == "run"] == ["evaluate", "report"]
    assert "option suite.seeds changed [1, 2] -> [1, 2, 3]" in done.stdout

    shard = next((run / "shards/shards").rglob("*.arrow"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    done = submit(tmp_path, *TINY, "dry_run=true")
    assert [name for name, action in planned(done).items() if action == "complete"] == ["tokenizer", "tasks"]
    assert f"output {shard.relative_to(run)} has changed" in done.stdout
