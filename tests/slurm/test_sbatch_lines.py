"""The words of sbatch lines: resources of a step, dependencies, what may be asked for."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from slurm.chain import Chain, Step
from slurm.sbatch_lines import (
    Job,
    Resources,
    check_names,
    job_script,
    line_to_paste,
    resources_of,
    sbatch_words,
    seconds_of,
    step_words,
)


def step(name: str, module: str = "pipeline", needs: tuple[str, ...] = ()) -> Step:
    return Step(name, module, module, ("a=1",), needs, (name,))


def job(one: Step, resources: Resources, needs: tuple[str, ...] = (), signal_seconds: int = 180) -> Job:
    script = job_script(
        ["chain=toy", "corpus.paths=[it's here.txt]"], one.name, "/venv/bin/python", {"CLUSTER_ENV": "a b"}
    )
    return Job(one, resources, needs, f"toy.{one.name}", "tag", "/here", "/here/%j.log", script, "x.sh", signal_seconds)


def test_every_resource_is_an_option_and_what_is_not_given_is_left_to_slurm() -> None:
    asked = Resources("gpu", "lab", "high", 2, 8, 4, "1-12", ("--mem=64G",))
    words = sbatch_words(job(step("pretrain", "pretrain"), asked), ["7", "8"])
    assert set(words) >= {
        "--partition=gpu", "--account=lab", "--qos=high", "--nodes=2", "--gpus-per-node=8", "--ntasks-per-node=8",
        "--cpus-per-task=4", "--time=1-12", "--mem=64G", "--dependency=afterok:7:8", "--kill-on-invalid-dep=yes",
    }  # fmt: skip
    assert words[0] == "sbatch" and words[-1] == "x.sh"
    named = {word.split("=")[0] for word in sbatch_words(job(step("a"), Resources()), [])}
    assert not named & {"--partition", "--account", "--qos", "--gpus-per-node", "--cpus-per-task", "--time"}
    assert "--dependency" not in named and "--hold" not in named
    assert "--hold" in sbatch_words(job(step("a"), Resources()), [], held=True)


def test_nodes_and_gpus_of_the_cluster_are_for_the_commands_that_run_on_ranks() -> None:
    everyone = Resources(partition="gpu", nodes=4, gpus_per_node=8)
    found = resources_of(step("shards"), everyone, {}, {})
    assert (found.partition, found.nodes, found.gpus_per_node) == ("gpu", 1, None)
    found = resources_of(step("pretrain", "pretrain"), everyone, {}, {})
    assert (found.nodes, found.gpus_per_node) == (4, 8)
    with pytest.raises(InputError, match="step 'shards' runs as one process, so its nodes must be 1, but are 2"):
        resources_of(step("shards"), everyone, {}, {"shards": {"nodes": 2}})


def test_a_steps_own_resources_stand_over_those_of_its_command_and_these_over_the_clusters() -> None:
    commands, steps = {"pretrain": {"nodes": 2, "time": "60"}}, {"forward": {"time": "30"}, "forward_2": {"nodes": 3}}
    found = [resources_of(step(f"forward_{n}", "pretrain"), Resources(qos="q"), commands, steps) for n in (1, 2)]
    assert [(one.nodes, one.time, one.qos) for one in found] == [(2, "30", "q"), (3, "30", "q")]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"node": 2}, "'cluster.steps.a' has no option 'node': did you mean 'nodes'"),
        ({"nodes": "two"}, "option 'cluster.steps.a.nodes' must be a whole number, but is 'two'"),
        ({"cpus_per_task": 0}, "'cluster.steps.a': cpus_per_task must be at least 1, but is 0"),
        ({"time": "2 hours"}, "time must be as sbatch takes it, such as 30, 2:00:00 or 1-12, but is '2 hours'"),
        ({"extra": ["mem=4G"]}, "extra must be options of sbatch, each one word such as --mem=64G"),
        ({"extra": ["--dependency=singleton"]}, "extra holds '--dependency=singleton', which the chain sets by itself"),
        ({"extra": ["-d", "singleton"]}, "extra holds '-d', which the chain sets by itself"),
    ],
)
def test_resources_that_cannot_be_are_refused_in_one_sentence(options: dict, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        resources_of(step("a"), Resources(), {}, {"a": options})
    assert sentence in str(refused.value)


def test_resources_for_a_step_that_is_not_there_are_refused() -> None:
    chain = Chain("toy", Path("runs/toy"), (step("pretrain"), step("text_1"), step("text_2")))
    check_names(chain, {"pretrain": {}, "text": {}, "text_2": {}})
    with pytest.raises(InputError, match="names 'pretrian', which is no step of the chain: did you mean 'pretrain'"):
        check_names(chain, {"pretrian": {}})


def test_the_line_to_paste_names_the_jobs_before_it_and_runs_the_same_program() -> None:
    line = line_to_paste(job(step("b", needs=("a",)), Resources(), ("a",)))
    assert line.startswith("job_b=$(sbatch --parsable ") and '"--dependency=afterok:$job_a"' in line
    words = shlex.split(line.removeprefix("job_b=$(").removesuffix(")"))
    wrapped = next(word for word in words if word.startswith("--wrap=")).removeprefix("--wrap=")
    assert wrapped.startswith("export CLUSTER_ENV='a b'; export PATH=/venv/bin:$PATH; exec /venv/bin/python -m")
    assert shlex.split(wrapped)[-3:] == ["chain=toy", "corpus.paths=[it's here.txt]", "only_step=b"]


def test_a_command_that_runs_on_ranks_is_started_on_all_of_them_and_every_other_once() -> None:
    words = step_words(step("train", "pretrain"), Path("/scripts"))
    assert words[-4:] == ["/scripts", "run_job", "pretrain", "a=1"]
    assert step_words(step("shards"), Path("/scripts"))[-3:] == ["run_alone", "pipeline", "a=1"]


@given(st.integers(0, 6), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_is_read_as_sbatch_reads_it(days: int, hours: int, minutes: int, seconds: int) -> None:
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert seconds_of(f"{days}-{hours}:{minutes:02}:{seconds:02}") == whole
    assert seconds_of(f"{days * 24 + hours}:{minutes:02}:{seconds:02}") == whole
    assert seconds_of(f"{days}-{hours}") == (days * 24 + hours) * 3600
    assert seconds_of(f"{minutes}:{seconds:02}") == minutes * 60 + seconds
    assert seconds_of(f"{minutes}") == minutes * 60
    assert seconds_of("UNLIMITED") is None


@pytest.mark.parametrize(("time", "signal"), [(None, 180), ("60", 180), ("4", 60), ("0:02", None)])
def test_a_short_job_is_not_asked_to_save_as_soon_as_it_starts(time: str | None, signal: int | None) -> None:
    words = sbatch_words(job(step("a"), Resources(time=time)), [])
    sent = [word for word in words if word.startswith("--signal=")]
    assert sent == ([] if signal is None else [f"--signal=USR2@{signal}"])
