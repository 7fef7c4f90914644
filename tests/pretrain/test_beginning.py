"""Where a run begins when its tokenizer has grown: through the command, from a fork and from weights alone."""

import json

import pytest
from safetensors.torch import load_file

from tests.helpers.shard_directory import sentences, write_shards
from tests.integration.test_resume import command, run

ADDED = tuple(f"<added{number}>" for number in range(70))  # more than the rows that pad a vocabulary
EMBEDDING, MOMENT = "encoder.embeddings.token.weight", "exp_avg/encoder.embeddings.token.weight"
SHORT = ("trainer.max_steps=2", "schedule.warmup=1", "trainer.global_batch_size=4", "trainer.validation_every=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beginning")
    texts = sentences(200)
    write_shards(folder / "old", texts)
    write_shards(folder / "grown", texts, added_tokens=ADDED)
    write_shards(folder / "other", sentences(200, seed=7), vocab_size=120)
    done = run(command(folder / "old", folder / "run", *SHORT))
    assert done.returncode == 0, done.stderr
    return folder


def checkpoint(run_dir, step):
    path = run_dir / "checkpoints" / f"step-{step:08d}"
    state = json.loads((path / "state.json").read_text())
    return load_file(path / "model.safetensors"), load_file(path / "optimizer.safetensors"), state


def test_a_fork_takes_over_what_the_old_tokens_learned_and_gives_added_ones_fresh_rows(folder, tmp_path):
    done = run(command(folder / "grown", tmp_path / "run", *SHORT, f"fork={folder / 'run'}", "trainer.max_steps=4"))
    assert done.returncode == 0, done.stderr
    old, old_moments, before = checkpoint(folder / "run", 2)
    known = before["vocab_size"]
    grown = known + len(ADDED)
    new, new_moments, state = checkpoint(tmp_path / "run", 2)  # saved at once, before a step of its own
    assert state["vocab_size"] == grown and state["fork"]["step"] == 2
    assert len(old[EMBEDDING]) < grown <= len(new[EMBEDDING])
    assert new[EMBEDDING][:known].equal(old[EMBEDDING][:known])
    added = new[EMBEDDING][known:grown]
    assert 0.015 < float(added.std()) < 0.025 and float(new[EMBEDDING][grown:].abs().max()) == 0.0
    assert new_moments[MOMENT][:known].equal(old_moments[MOMENT][:known])
    assert float(new_moments[MOMENT][known:].abs().max()) == 0.0
    assert checkpoint(tmp_path / "run", 4)[2]["updates"] == 4


def test_weights_alone_begin_a_run_with_a_grown_tokenizer(folder, tmp_path):
    words = (*SHORT, f"init_from={folder / 'run'}", "optimizer.lr=0")
    done = run(command(folder / "grown", tmp_path / "run", *words))
    assert done.returncode == 0, done.stderr
    assert "70 tokens that" in done.stderr
    old, _, before = checkpoint(folder / "run", 2)
    known = before["vocab_size"]
    assert checkpoint(tmp_path / "run", 2)[0][EMBEDDING][:known].equal(old[EMBEDDING][:known])


def test_another_tokenizer_is_refused_by_both_in_one_sentence(folder, tmp_path):
    for option in ("fork", "init_from"):
        words = (*SHORT, "trainer.max_steps=4", f"{option}={folder / 'run'}")
        done = run(command(folder / "other", tmp_path / option, *words))
        assert done.returncode == 2 and "it is not that one with tokens added" in done.stderr
        assert "Traceback" not in done.stderr
    both = run(
        command(folder / "old", tmp_path / "both", *SHORT, f"fork={folder / 'run'}", f"init_from={folder / 'run'}")
    )
    assert both.returncode == 2 and "leave one of them away" in both.stderr


def test_weights_are_not_split_into_other_heads(folder, tmp_path):
    done = run(
        command(
            folder / "old",
            tmp_path / "run",
            *SHORT,
            f"fork={folder / 'run'}",
            "trainer.max_steps=4",
            "model.num_heads=4",
        )
    )
    assert done.returncode == 2 and "has num_heads=2, without which" in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1


def test_a_fork_that_could_train_nothing_is_refused_before_it_is_said_to_have_begun(folder, tmp_path):
    done = run(command(folder / "old", tmp_path / "run", *SHORT, f"fork={folder / 'run'}", "schedule.warmup=3"))
    assert done.returncode == 2 and "warm" in done.stderr and "began as a fork" not in done.stderr, done.stderr
