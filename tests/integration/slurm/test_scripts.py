"""Every batch script of slurm/, unchanged: its command, its options, and a stop by a signal where nothing is saved."""

import time
from pathlib import Path

import pytest

from tests.helpers.ranks import REPOSITORY
from tests.helpers.slurm_lab import SlurmLab

CPUS = {"pipeline": "--cpus-per-task=2"}
TEXT = "the cat sat on the mat , and the dog lay on the rug .\n\n"


def test_every_option_reaches_the_command_as_it_was_typed(lab: SlurmLab, folder: Path) -> None:
    odd = 'runs/it\'s a "place" $HOME'
    options = {
        "pipeline": ["job=masked_lm", 'output="runs/it\'s a \\"place\\" $HOME"'],
        "pretrain": ["experiment=tiny", 'run_dir="runs/it\'s a \\"place\\" $HOME"'],
        "finetune": ['output="runs/it\'s a \\"place\\" $HOME"'],
        "evaluate": ['output="runs/it\'s a \\"place\\" $HOME"'],
        "translate": ['output="runs/it\'s a \\"place\\" $HOME"'],
    }
    assert set(options) == {path.stem for path in (REPOSITORY / "slurm").glob("*.sbatch")}
    jobs = {}
    for name, words in options.items():
        cpus = CPUS.get(name, "--cpus-per-gpu=2")
        script = str(REPOSITORY / "slurm" / f"{name}.sbatch")
        jobs[name] = lab.sbatch("--job-name=odd", cpus, script, *words, "--cfg", "job", cwd=folder)
    for name, job in jobs.items():
        state, log = lab.wait(job), (folder / f"odd-{job}.log").read_text()
        assert state == "COMPLETED", log
        option = "run_dir" if name == "pretrain" else "output"
        assert f"{option}: {odd}\n" in log, log


def test_a_pipeline_that_is_asked_to_stop_is_requeued_and_completes(lab: SlurmLab, folder: Path) -> None:
    (folder / "raw.txt").write_text(TEXT * 200)
    script = str(REPOSITORY / "slurm" / "pipeline.sbatch")
    options = ["job=tokenizer", "corpus=text", "corpus.paths=[raw.txt]", "job.vocab_size=60", "output=tokenizer"]
    job = lab.sbatch("--cpus-per-task=1", script, *options, cwd=folder)
    deadline = time.monotonic() + 60
    while not (lab.state(job) == "RUNNING" and lab.ranks_on(lab.nodes[0], rank=0)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    lab.run("scancel", "--signal=USR2", str(job))
    lab.start_requeued(job)
    state, log = lab.wait(job), (folder / f"pipeline-{job}.log").read_text()
    assert state == "COMPLETED", log
    assert "requeued, to go on from there" in log and "start 2:" in log
    assert (folder / "tokenizer" / "tokenizer.json").is_file()


def test_a_command_of_one_process_refuses_several_nodes(lab: SlurmLab, folder: Path) -> None:
    script = str(REPOSITORY / "slurm" / "evaluate.sbatch")
    job = lab.sbatch("--nodes=2", "--cpus-per-gpu=1", script, "output=x", cwd=folder)
    assert lab.wait(job) == "FAILED"
    log = (folder / f"evaluate-{job}.log").read_text()
    assert "error: pretrain.evaluate runs on one node, but the job has 2: give --nodes=1" in log


@pytest.mark.parametrize(("given", "cpus"), [([], 1), (["--exclusive"], 4)])
def test_without_gpus_a_node_has_the_tasks_that_sbatch_was_given(
    lab: SlurmLab, folder: Path, given: list[str], cpus: int
) -> None:
    script = str(REPOSITORY / "slurm" / "pretrain.sbatch")
    tasks = "--gpus-per-node=0", "--ntasks-per-node=2", "--cpus-per-gpu=1"
    job = lab.sbatch(*tasks, *given, script, "experiment=tiny", "run_dir=run", "--cfg", "job", cwd=folder)
    assert lab.wait(job) == "COMPLETED"
    assert f"2 tasks with {cpus} CPUs each" in (folder / f"pretrain-{job}.log").read_text()
