"""`benchmarks.finetune` at a tiny size: all contestants run, results are kept, what is missing is one sentence."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.finetune import BY_LENGTH, MARGINS, OURS, _some, equivalence_sentence
from benchmarks.finetune_peer import finetune as peer
from pipeline.tokenizer import save_tokenizer, train_wordpiece
from pretrain.evaluation.metrics import METRICS
from pretrain.models.config import EncoderConfig
from pretrain.models.huggingface import export_folder
from pretrain.models.masked_lm import MaskedLanguageModel
from tests.helpers.warm_python import run_module

REPOSITORY = Path(__file__).resolve().parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return run_module([sys.executable, "-m", "benchmarks.finetune", *options], cwd=REPOSITORY, timeout=550)


def write_data(folder: Path) -> Path:
    rte = [f"{n}\tthe key is {n % 7} old\ta key\t{'not_' * (n % 2)}entailment" for n in range(20)]
    stsb = [f"a key is old,the key is {n % 7},{n % 6}.0" for n in range(20)]
    winogrande = [
        {"qID": f"{n}-1", "sentence": "the _ is old", "option1": "a key", "option2": "it", "answer": str(n % 2 + 1)}
        for n in range(20)
    ]
    (folder / "RTE").mkdir(parents=True)
    (folder / "winogrande").mkdir()
    for split in ("train", "dev"):
        text = "\n".join(["index\tsentence1\tsentence2\tlabel", *rte]) + "\n"
        (folder / "RTE" / f"{split}.tsv").write_text(text)
        (folder / f"stsb-en-{split}.csv").write_text("\n".join(stsb) + "\n")
    for name in ("train_s", "dev"):
        lines = "".join(json.dumps(row) + "\n" for row in winogrande)
        (folder / "winogrande" / f"{name}.jsonl").write_text(lines)
    return folder


def write_checkpoint(folder: Path) -> Path:
    tokenizer = train_wordpiece(["the key is old", "a key is 0 1 2 3 4 5 6"] * 4, 80, min_frequency=1)
    (folder / "tokenizer").mkdir()
    save_tokenizer(tokenizer, folder / "tokenizer")
    torch.manual_seed(0)
    config = EncoderConfig(
        32, 2, 2, 64, norm="post", positions="learned", activation="gelu", biases=True, token_types=2, max_positions=256
    )
    model = MaskedLanguageModel(config, tokenizer.get_vocab_size())
    export_folder(model, folder / "tokenizer", folder / "model")
    return folder / "model"


def test_the_peers_metric_is_of_each_items_own_label_in_whatever_order_the_trainer_evaluates(tmp_path: Path) -> None:
    recipe = {"epochs": 1, "batch_size": 4, "learning_rate": 0.0, "warmup": 0.0, "weight_decay": 0.0}
    recipe |= {"max_gradient_norm": 1.0, "max_length": 64, "precision": "fp32"}
    # Lengths that are not in order, and a label that goes with none of them.
    items = [([("the key is old " * (1 + 7 * n % 11), "a key")], float(n % 5)) for n in range(150)]
    checkpoint = write_checkpoint(tmp_path)

    def metric(by_length: bool) -> float:
        clock = time.perf_counter
        return peer(checkpoint, "regression", 1, items, items, recipe, 1, by_length, METRICS["pearson"], clock)[1]

    assert metric(by_length=True) == pytest.approx(metric(by_length=False), abs=1e-5)


@pytest.mark.full
def test_runs_through_writes_its_ratios_and_keeps_its_runs(tmp_path: Path) -> None:
    data, checkpoint = write_data(tmp_path / "data"), write_checkpoint(tmp_path)
    options = ["--data", str(data), "--checkpoint", str(checkpoint), "--quick", "--seeds", "1", "2"]
    options += [
        "--keep",
        str(tmp_path / "kept"),
        "--json",
        str(tmp_path / "r.json"),
        "--scores",
        str(tmp_path / "s.json"),
    ]
    done = run(*options)
    assert done.returncode == 0, done.stderr
    tasks = ("rte", "stsb", "winogrande")
    ratios = json.loads((tmp_path / "r.json").read_text())
    assert set(ratios) == {f"transformers_{kind}ratio_{task}" for task in tasks for kind in ("", "by_length_")}
    assert all(ratio > 0 for ratio in ratios.values())
    scores = json.loads((tmp_path / "s.json").read_text())
    assert set(scores) == set(tasks) and all(len(values) == 2 for values in scores["rte"].values())
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").iterdir()}
    assert len(kept) == 3 * 3 * 2
    assert run(*options).returncode == 0
    assert kept == {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").iterdir()}
    assert json.loads((tmp_path / "s.json").read_text()) == scores


@pytest.mark.full
def test_a_place_without_data_is_one_sentence(tmp_path: Path) -> None:
    done = run("--data", str(tmp_path), "--tasks", "rte", "--quick")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: task rte lacks its train split")


def test_a_part_is_drawn_evenly_and_keeps_its_order() -> None:
    items = list(range(100))
    part = _some(items, 10)
    assert part == sorted(part) and len(set(part)) == 10 and max(part) > 50
    assert _some(items, None) == _some(items, 100) == items


def test_equivalence_needs_an_interval_within_the_margin() -> None:
    """Scores of a hundredth's spread: 5 seeds around one mean are equivalent, a mean a margin away is not."""
    spread = [-0.01, -0.005, 0.0, 0.005, 0.01]
    ours = [0.60 + by for by in spread]
    assert ": equivalent (TOST" in equivalence_sentence("rte", {OURS: ours, BY_LENGTH: ours})
    apart = {OURS: ours, BY_LENGTH: [value + MARGINS["rte"] for value in ours]}
    sentence = equivalence_sentence("rte", apart)
    assert "not shown to be equivalent (TOST, p = 0.500)" in sentence and "-0.0300" in sentence
    assert MARGINS == {"rte": 0.03, "stsb": 0.01, "winogrande": 0.03}
