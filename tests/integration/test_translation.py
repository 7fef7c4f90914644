"""Translation by the whole command: it learns, is elastic, keeps its best by BLEU, and goes on from MASS by itself."""

import json
import sys

import pytest

from tests.helpers.pair_directory import toy_sentences, write_toy_pairs
from tests.helpers.shard_directory import write_shards
from tests.integration.test_mass import figures, run


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_toy_pairs(tmp_path_factory.mktemp("translation") / "pairs", 800)


def start(run_dir, *overrides):
    fixed = [
        "experiment=tiny",
        "model=mass_tiny",
        f"run_dir={run_dir}",
        "deepspeed.precision=fp32",
        "model.dropout=0",
        "model.attention_dropout=0",
        "trainer.micro_batch_size=1",
        "schedule.warmup=10",
        "optimizer.lr=2e-3",
    ]
    return run([sys.executable, "-m", "pretrain", *fixed, *overrides])


def translation(run_dir, pairs, *overrides):
    return start(
        run_dir,
        f"data={pairs}",
        "objective=translation",
        "objective.batch_tokens=256",
        "objective.scored_sentences=40",
        "trainer.global_batch_size=2",
        "trainer.max_steps=40",
        "trainer.validation_every=20",
        "trainer.checkpoint_every=20",
        "trainer.keep_last=1",
        "trainer.keep_best=1",
        "trainer.keep_best_by=bleu",
        *overrides,
    )


@pytest.fixture(scope="module")
def one_rank(pairs, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("one") / "run"
    done = translation(run_dir, pairs)
    assert done.returncode == 0, done.stderr
    return run_dir


def test_it_learns_to_translate(one_rank):
    losses, bleu, chrf = (figures(one_rank, f"validation_{name}") for name in ("loss", "bleu", "chrf"))
    assert losses[40] < losses[20] < figures(one_rank, "loss")[1]
    assert bleu.keys() == chrf.keys() == {20, 40} and 5 < chrf[40] < 100


def test_its_checkpoint_says_its_direction_and_translating_the_other_way_round_is_refused(one_rank, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("bal dor\n")
    words = [f"checkpoint={one_rank}", f"output={tmp_path / 'out'}"]
    both = ["source_language=en", "target_language=de"]
    for command in (["pretrain.translate", f"input={source}", *words], ["pretrain.export", *words]):
        done = run([sys.executable, "-m", *command, *both])
        sentence = f"'{one_rank}' was trained to translate de into en, but is asked to translate en into de: exchange"
        assert done.returncode == 2 and sentence in done.stderr, done.stderr
    done = run([sys.executable, "-m", "pretrain.translate", f"input={source}", *words, "decoding=greedy"])
    assert done.returncode == 0 and "step 40, trained to translate de into en" in done.stderr, done.stderr


def test_a_run_goes_on_with_other_ranks_and_workers_as_one_rank_would(pairs, one_rank, tmp_path):
    run_dir = tmp_path / "run"
    first = translation(run_dir, pairs, "ranks=2", "trainer.max_seconds=0.01", "trainer.loader_workers=1")
    assert first.returncode == 0, first.stderr
    stopped = max(figures(run_dir, "loss"), default=0)
    assert stopped < 40
    second = translation(run_dir, pairs, "trainer.max_seconds=null")
    assert second.returncode == 0, second.stderr
    ours, theirs = figures(run_dir, "loss"), figures(one_rank, "loss")
    assert {step: ours[step] for step in range(1, 41)} == pytest.approx(
        {step: theirs[step] for step in range(1, 41)}, rel=1e-4
    )


def test_scores_without_held_out_pairs_are_refused(pairs, tmp_path):
    done = translation(tmp_path / "run", pairs, "objective.scored_sentences=0")
    assert (
        done.returncode == 2 and "trainer.keep_best_by=bleu needs objective=translation, held-out pairs" in done.stderr
    )


def test_monolingual_rows_teach_it_to_get_its_own_translations_back(tmp_path):
    """MASS on both languages, then on-the-fly back-translation from its weights."""
    both = toy_sentences(300)
    texts = {name: [one[side] for one in both] for side, name in enumerate(("a", "b"))}
    shards = {
        name: write_shards(tmp_path / name, some, vocabulary_of=texts["a"] + texts["b"]) for name, some in texts.items()
    }
    languages = [
        f"data=[{shards['a']},{shards['b']}]",
        f"languages={{a: {shards['a']}, b: {shards['b']}}}",
        "model.languages=[a,b]",
    ]
    pretrained = start(
        tmp_path / "mass", "objective=mass", "trainer.max_steps=12", "trainer.validation_every=0", *languages
    )
    assert pretrained.returncode == 0, pretrained.stderr
    done = start(
        tmp_path / "unsupervised",
        "objective=online_back_translation",
        f"init_from={tmp_path / 'mass'}",
        "ranks=2",
        "trainer.max_steps=20",
        *languages,
    )
    assert done.returncode == 0, done.stderr
    (state,) = (tmp_path / "unsupervised" / "checkpoints").glob("*20/state.json")
    assert json.loads(state.read_text())["languages"] == {"names": ["a", "b"], "directions": []}
    losses = figures(tmp_path / "unsupervised", "validation_loss")
    assert losses[20] < losses[10]
    zero3 = ["deepspeed=zero3", "ranks=2"]  # on one rank nothing is split
    whole = start(tmp_path / "zero3", "objective=online_back_translation", *zero3, *languages)
    assert whole.returncode == 2 and "needs whole weights on every rank" in whole.stderr
    random = "starts from random weights, whose translations say nothing: set init_from"
    assert whole.stderr.count(random) == 1 and random not in done.stderr


@pytest.mark.parametrize("recipe", ["conv_s2s", pytest.param("translation", marks=pytest.mark.full)])
def test_recipes_on_pairs_make_their_model_batches_and_plan(recipe, pairs, tmp_path):
    words = [f"experiment={recipe}", f"data={pairs}", f"run_dir={tmp_path / 'run'}", "dry_run=true"]
    done = run([sys.executable, "-m", "pretrain", *words])
    assert done.returncode == 0, done.stderr
    assert "a budget of" in done.stdout and "FLOPs per token" in done.stdout and not (tmp_path / "run").exists()
