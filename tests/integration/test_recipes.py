"""Every recipe of conf/experiment is trained for a few steps, shrunk in size and in nothing else."""

import json
import sys

import pytest

from pretrain.stages import entries
from tests.helpers.shard_directory import sentences
from tests.helpers.warm_python import run_module
from tests.integration.test_resume import REPOSITORY, environment, run

SHAPE = ["model.hidden_size=32", "model.num_layers=2", "model.num_heads=2", "model.intermediate_size=48"]
SMALL = [*SHAPE, "trainer.micro_batch_size=2", "trainer.log_every=1", "trainer.validation_rows=4"]


def pipeline(*words):
    done = run_module([sys.executable, "-m", "pipeline", *words], cwd=REPOSITORY, env=environment())
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Shard directories 128/ and 512/ as the real job writes them, with sentences."""
    folder = tmp_path_factory.mktemp("recipes")
    texts = sentences(1200)
    documents = [" ".join(text.capitalize() for text in texts[i : i + 6]) for i in range(0, len(texts), 6)]
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    corpus = ["corpus=text", f"corpus.paths=['{folder / 'text.jsonl'}']"]
    pipeline("job=tokenizer", *corpus, "job.vocab_size=200", f"output={folder / 'tokenizer'}")
    for length in (128, 512):
        pipeline(
            "job=masked_lm",
            *corpus,
            "cleaning=none",
            f"tokenizer={folder / 'tokenizer'}",
            f"job.row_length={length}",
            "job.sentence_lengths=true",
            "job.held_out_share=0.2",
            f"output={folder / 'shards' / str(length)}",
        )
    return folder / "shards"


def records(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def train(run_dir, *words):
    done = run([sys.executable, "-m", "pretrain", f"run_dir={run_dir}", *words, *SMALL])
    assert done.returncode == 0, done.stderr
    return [line for line in records(run_dir) if "loss" in line]


def test_bert_base_goes_through_both_lengths_with_both_losses_and_its_own_schedule(shards, tmp_path):
    lines = train(
        tmp_path / "run",
        "experiment=bert_base",
        f"data={shards}",
        "trainer.max_steps=10",
        "trainer.global_batch_size=4",
        "stages.long.micro_batch_size=1",
        "schedule.warmup=2",
        "trainer.validation_every=0",
    )
    assert [entry.step for entry in entries(tmp_path / "run")] == [0, 9]
    assert all("next_sentence" in line for line in lines)
    # BERT's own schedule: 0 first, then half the peak, then down the line that began at step 0.
    rates = [line["learning_rate"] for line in lines]
    assert rates == pytest.approx([0, 0.5e-4, *(1e-4 * (1 - step / 10) for step in range(2, 10))])


def test_bert_base_24h_trains_by_the_clock(shards, tmp_path):
    lines = train(
        tmp_path / "run",
        "experiment=bert_base_24h",
        f"data={shards / '128'}",
        "trainer.max_hours=0.0004",
        "trainer.global_batch_size=4",
        "schedule.warmup=0.0001",
    )
    rates = [line["learning_rate"] for line in lines]
    assert 0 < rates[-1] < max(rates) <= 1e-3


def test_modern_base_grows_its_batch_and_ends_with_its_decay(shards, tmp_path):
    lines = train(
        tmp_path / "run",
        "experiment=modern_base",
        f"data={shards / '512'}",
        "trainer.max_tokens=40000",
        "trainer.global_batch_size=8",
        *(f"stages.{name}.global_batch_size={2 * size}" for name, size in (("b768", 1), ("b1536", 2), ("b2304", 3))),
        *(f"stages.{name}.global_batch_size=8" for name in ("b3072", "b3840")),
        "stages.b768.share=0.1",
        "stages.b1536.share=0.1",
        "stages.full.share=0.78254",
        "schedule.warmup=4000",
        "schedule.decay=8000",
        "model.global_every=2",
    )
    steps = [entry.stage for entry in entries(tmp_path / "run")]
    assert steps[0] == 0 and steps == sorted(steps) and steps[-1] == 5
    rates = [line["learning_rate"] for line in lines]
    assert max(rates) == pytest.approx(8e-4) and rates[-1] < 8e-4 and rates[0] == 0
