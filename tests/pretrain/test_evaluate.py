"""The commands `evaluate` and `finetune` from end to end, at a tiny size."""

import json
import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

from pretrain import evaluate, finetune
from tests.helpers.warm_python import run_module

from .evaluation.conftest import (  # noqa: F401  (fixtures)
    bert_model,
    checkpoint,
    tasks_folder,
    texts,
    tokenizer,
    tokenizer_folder,
    write_task,
)

SHORT = ["suite.tasks.adjacent_passages.recipe.max_length=32", "suite.tasks.word_order.recipe.max_length=32"]


def run(module, *arguments, cwd=None):
    done = run_module([sys.executable, "-m", module, *arguments], cwd=cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory, checkpoint, tasks_folder):  # noqa: F811
    output = tmp_path_factory.mktemp("evaluated") / "out"
    arguments = [f"checkpoint={checkpoint}", f"output={output}", f"tasks={tasks_folder}", "suite=tiny", *SHORT]
    return output, arguments, run("pretrain.evaluate", *arguments)


def test_writes_scores_items_and_provenance_and_prints_the_table(evaluated):
    output, _, (code, out, err) = evaluated
    assert code == 0, err
    record = json.loads((output / "scores.json").read_text())
    tasks = {score["task"] for score in record["scores"]}
    assert tasks == {
        "minimal_pairs/agreement_auxiliary",
        "minimal_pairs/word_order",
        "minimal_pairs/overall",
        "adjacent_passages",
        "word_order",
    }
    assert len(record["scores"]) == 10 and len(record["comparisons"]) == 5
    for score in record["scores"]:
        assert score["interval"][0] <= score["value"] <= score["interval"][1]
        assert score["n"] > 0 and "metric=" in score["signature"]
    counts = {path.stem: len(path.read_text().splitlines()) for path in (output / "items").iterdir()}
    assert counts == {"minimal_pairs": 46, "adjacent_passages": 48, "word_order": 48}
    assert (output / "provenance.json").is_file()
    page = (output / "report.html").read_text()
    assert "word order (fine-tuned)" in page and "No training yet" not in page
    for word in ("minimal_pairs/overall", "random weights", "95 % intervals"):
        assert word in out


def test_a_second_run_does_no_work_and_gives_the_same_scores(evaluated):
    output, arguments, _ = evaluated
    before = (output / "scores.json").read_bytes()
    times = {path: path.stat().st_mtime_ns for path in (output / "runs").iterdir()}
    assert len(times) == 3 + 4 + 4
    code, _, err = run("pretrain.evaluate", *arguments, "workers=1")
    assert code == 0, err
    assert "11 of 11 runs are there already" in err
    assert times == {path: path.stat().st_mtime_ns for path in (output / "runs").iterdir()}
    assert (output / "scores.json").read_bytes() == before


def test_results_do_not_depend_on_the_number_of_workers(evaluated, tmp_path):
    output, arguments, _ = evaluated
    code, _, err = run("pretrain.evaluate", *arguments, f"output={tmp_path / 'one'}", "workers=1")
    assert code == 0, err
    assert (tmp_path / "one" / "scores.json").read_bytes() == (output / "scores.json").read_bytes()


def test_finetune_on_a_task_of_ones_own(checkpoint, tmp_path):  # noqa: F811
    folder = write_task(tmp_path / "mine", name="mine")
    code, out, err = run(
        "pretrain.finetune",
        "task=custom",
        "task.data=mine",
        "task.recipe.max_length=32",
        f"checkpoint={checkpoint}",
        "seeds=[1,2]",
        "workers=1",
        f"output={tmp_path / 'out'}",
        cwd=tmp_path,
    )
    assert code == 0, err
    assert folder.is_dir() and "mine" in out
    (score,) = json.loads((tmp_path / "out" / "scores.json").read_text())["scores"]
    assert (score["task"], score["model"], score["seeds"], score["n"]) == ("mine", "pretrained", [1, 2], 48)


@pytest.mark.full
def test_a_sweep_says_what_was_tried_and_what_was_best(checkpoint, tmp_path):  # noqa: F811
    write_task(tmp_path / "mine", name="mine", train=32)
    code, out, err = run(
        "pretrain.finetune",
        "--multirun",
        "task=custom",
        f"task.data={tmp_path / 'mine'}",
        "task.recipe.max_length=32",
        "task.recipe.epochs=1,2",
        f"checkpoint={checkpoint}",
        "seeds=[1]",
        "workers=1",
        f"output={tmp_path / 'out'}",
        cwd=tmp_path,
    )
    assert code == 0, err
    sweep = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert sweep["space"] == {"task.recipe.epochs": ["1", "2"]}
    assert len(sweep["jobs"]) == 2 and "mine: best accuracy" in out


@pytest.mark.parametrize(
    ("main", "arguments", "sentence"),
    [
        (evaluate.main, ["checkpoint=nowhere"], "there is no folder '"),
        (evaluate.main, ["tasks=nowhere"], "option 'tasks' must be a folder"),
        (evaluate.main, ["tasks={empty}"], "empty' holds no file"),
        (evaluate.main, ["suite.seed=1"], "did you mean 'suite.seeds'?"),
        (evaluate.main, ["suite.tasks.minimal_pairs.variant=left"], "must be one of 'original', 'within_word'"),
        (evaluate.main, ["workers=0"], "'workers' must be at least 1, but is 0"),
        (evaluate.main, ["suite=challenge", "suite.tasks.minimal_pairs=null"], "no task is left to run"),
        (evaluate.main, ["suite=challenge_zh"], "chinese pairs of task 'minimal_pairs_zh' as equal, good and bad"),
        (finetune.main, [], "option 'task.data' must be given"),
        (finetune.main, ["task.data={empty}"], "there is no task at '"),
    ],
)
def test_bad_input_is_one_sentence_and_not_exit_code_0(
    main,
    arguments,
    sentence,
    checkpoint,  # noqa: F811
    tmp_path,
    monkeypatch,
    capsys,
):
    (tmp_path / "empty").mkdir()
    filled = [argument.format(empty=tmp_path / "empty") for argument in arguments]
    overrides = [f"checkpoint={checkpoint}", f"output={tmp_path / 'out'}", *filled]
    monkeypatch.setattr("sys.argv", ["command", *overrides])
    GlobalHydra.instance().clear()
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert sentence in line
    assert "Traceback" not in err


def test_finetune_on_two_ranks_writes_once_and_finds_its_runs_again(checkpoint, tmp_path):  # noqa: F811
    write_task(tmp_path / "mine", name="mine", train=32)
    arguments = [
        f"checkpoint={checkpoint}",
        f"output={tmp_path / 'out'}",
        f"task.data={tmp_path / 'mine'}",
        "task.recipe.epochs=1",
        "task.recipe.max_length=32",
        "seeds=[1,2]",
        "deepspeed=zero1",
        "ranks=2",
    ]
    code, _, err = run("pretrain.finetune", *arguments, "deepspeed.precision=bf16")
    assert code == 2 and "deepspeed.precision is bf16: leave that at auto" in err
    code, out, err = run("pretrain.finetune", *arguments, "save=true")
    assert code == 0 and out.count("written after") == 1, err
    (score,) = json.loads((tmp_path / "out" / "scores.json").read_text())["scores"]
    assert len(score["runs"]) == 2
    (folder,) = (tmp_path / "out" / "encoders").iterdir()
    assert len(list(folder.iterdir())) == 2
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").iterdir()}
    code, _, err = run("pretrain.finetune", *arguments, "save=true")
    assert code == 0, err
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    # Dropout on two ranks is another than in one process: those runs are others.
    alone = [word for word in arguments if not word.startswith(("deepspeed", "ranks"))]
    code, _, err = run("pretrain.finetune", *alone)
    assert code == 0 and "runs are there already" not in err, err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["ranks=0"], "option 'ranks' must be at least 1, but is 0"),
        (["ranks=2"], "2 ranks fine-tune one model together, under DeepSpeed: add deepspeed=zero1, or give workers=2"),
        (["deepspeed=zero1", "workers=2"], "workers runs side by side and deepspeed all ranks together"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(options, sentence, checkpoint, tmp_path):  # noqa: F811
    code, _, err = run("pretrain.finetune", f"checkpoint={checkpoint}", f"output={tmp_path}", "task.data=x", *options)
    assert code == 2 and sentence in err, err
