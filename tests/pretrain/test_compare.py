"""The command `compare` on real small evaluations of two checkpoints."""

import json
import subprocess
import sys

import pytest
from hydra.core.global_hydra import GlobalHydra

from pretrain import compare
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.suite import evaluate_tasks, in_a_pool
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.minimal_pairs import MinimalPairs
from pretrain.models.huggingface import export_folder

from .evaluation.conftest import (  # noqa: F401  (fixtures)
    BERT,
    bert_model,
    checkpoint,
    make_model,
    tasks_folder,
    texts,
    tokenizer,
    tokenizer_folder,
)


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory, checkpoint, tasks_folder, tokenizer, tokenizer_folder):  # noqa: F811
    """Two checkpoints, evaluated: minimal pairs, and a task fine-tuned over two seeds."""
    folder = tmp_path_factory.mktemp("compared")
    other = folder / "model"
    export_folder(make_model(tokenizer, seed=1, **BERT), tokenizer_folder / "tokenizer.json", other)
    tasks = {
        "pairs": MinimalPairs(pairs_per_phenomenon=20, phenomena=["agreement_auxiliary", "word_order"]),
        "order": Finetuned(data="word_order", recipe=Recipe(epochs=1, max_length=32), max_train=32, max_dev=24),
    }
    for name, path in (("one", checkpoint), ("two", other)):
        output = folder / name / "evaluate"
        output.mkdir(parents=True)
        evaluate_tasks(tasks, read_subject(str(path), [1, 2], []), tasks_folder, output, in_a_pool(1))
        (output / "config.yaml").write_text(f"checkpoint: {path}\n")
    return folder


def run(monkeypatch, *arguments):
    """The exit code of the command with these arguments."""
    monkeypatch.setattr("sys.argv", ["command", *arguments])
    GlobalHydra.instance().clear()
    try:
        compare.main()
    except SystemExit as ended:
        return ended.code
    return 0


def test_two_checkpoints_row_by_row(evaluations, tmp_path, monkeypatch, capsys):
    first, second = (evaluations / name / "evaluate" for name in ("one", "two"))
    output = tmp_path / "out"
    assert run(monkeypatch, f"first={first}", f"second={second}", f"output={output}", "margin=0.2") == 0
    text = capsys.readouterr().out
    record = json.loads((output / "comparison.json").read_text())
    assert {path.name for path in output.iterdir()} == {".lock", "comparison.json", "config.yaml", "provenance.json"}
    provenance = json.loads((output / "provenance.json").read_text())
    assert set(provenance["inputs"]) == {"first", "second"} and provenance["seeds"] == {"resampling": 0}
    rows = {row["task"]: row for row in record["rows"]}
    assert list(rows) == [
        "minimal_pairs/overall",
        "minimal_pairs/agreement_auxiliary",
        "minimal_pairs/word_order",
        "word_order",
    ]
    printed = [line.split()[0] for line in text.splitlines() if line.strip().startswith(tuple(rows))]
    assert printed == list(rows)
    assert rows["minimal_pairs/overall"]["test"] == "randomisation(groups)"
    assert rows["word_order"]["test"] == "t(runs+groups)" and rows["word_order"]["runs"] == [2, 2]
    for side, folder in (("first", first), ("second", second)):
        values = {one["task"]: one["value"] for one in json.loads((folder / "scores.json").read_text())["scores"]}
        assert {task: row[side] for task, row in rows.items()} == pytest.approx(values)
    for row in rows.values():
        assert row["low"] <= row["difference"] <= row["high"] and row["p"] <= row["p_corrected"] <= 1.0
        assert row["difference"] == pytest.approx(row["second"] - row["first"])
    assert record["first"]["name"] == "one/evaluate" and record["second"]["checkpoint"].endswith("model")
    assert "second: two/evaluate, first: one/evaluate" in text
    # The same command again finds its own output and gives the same.
    before = (output / "comparison.json").read_bytes()
    assert run(monkeypatch, f"first={first}", f"second={second}", f"output={output}", "margin=0.2") == 0
    assert (output / "comparison.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["second=nowhere"], "option 'second' must be a folder that `python -m pretrain.evaluate` or `finetune` wrote"),
        (["second={one}"], "options 'first' and 'second' must be two evaluations, but both are"),
        (["margin=0"], "option 'margin' must be a difference between 0 and 1"),
        (["margin=1"], "option 'margin' must be a difference between 0 and 1"),
        (["second_model=random"], "has no score of the random model (give the evaluation initialisations)"),
        (["output={one}"], "must be empty or an earlier comparison, but holds 'items'"),
        (["second={empty}"], "have no score of the same items: minimal_pairs/"),
        (["margins=0.1"], "did you mean 'margin'?"),
    ],
)
def test_bad_input_is_one_sentence(evaluations, arguments, sentence, tmp_path, monkeypatch, capsys):
    places = {"one": evaluations / "one" / "evaluate", "empty": tmp_path / "other"}
    places["empty"].mkdir()
    record = json.loads((places["one"] / "scores.json").read_text())
    for one in record["scores"]:
        one["task"] = f"other/{one['task']}"
    (places["empty"] / "scores.json").write_text(json.dumps(record))
    given = [f"first={places['one']}", f"second={evaluations / 'two' / 'evaluate'}", f"output={tmp_path / 'out'}"]
    assert run(monkeypatch, *given, *(word.format(**places) for word in arguments)) == 2
    err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert sentence in line and "Traceback" not in err
    assert not (tmp_path / "out" / "comparison.json").exists()


def test_it_needs_no_torch():
    code = "import sys; import pretrain.compare, pretrain.evaluation.comparison_table; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
