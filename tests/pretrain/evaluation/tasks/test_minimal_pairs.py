"""The minimal-pair task: jobs, scores by hand from given results, keys."""

import numpy as np
import pytest

from conf.errors import InputError
from pipeline.tokenizer import save_tokenizer, train_wordpiece
from pretrain.evaluation.challenge.builder import build
from pretrain.evaluation.challenge.chinese import CHINESE
from pretrain.evaluation.scoring import DecoderScoring
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.minimal_pairs import MinimalPairs
from pretrain.models.huggingface import export_folder
from tests.pretrain.evaluation.conftest import make_model

TASK = MinimalPairs(pairs_per_phenomenon=20, phenomena=["a_an", "inversion"])


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1], [1, 2])


def test_one_job_per_model_with_keys_that_differ(subject):
    jobs = TASK.prepare(subject, None).jobs
    assert [job.name for job in jobs] == [
        "minimal_pairs/pretrained",
        "minimal_pairs/random-1",
        "minimal_pairs/random-2",
    ]
    assert len({str(job.identity()) for job in jobs}) == 3


def test_scores_by_hand_from_given_results(subject):
    prepared = TASK.prepare(subject, None)
    count = len(prepared.items)
    assert count == 40
    first_half = [1.0 if item.phenomenon == "a_an" else 0.0 for item in prepared.items]
    results = [
        {"good": first_half, "bad": [0.0] * count},  # right on a_an, ties on inversion
        {"good": [0.0] * count, "bad": [0.0] * count},
        {"good": [0.0] * count, "bad": [1.0] * count},
    ]
    outcome = prepared.collect(results)
    values = {(score.task, score.model): score.value for score in outcome.scores}
    assert values == {
        ("minimal_pairs/a_an", "pretrained"): 1.0,
        ("minimal_pairs/a_an", "random"): 0.25,
        ("minimal_pairs/inversion", "pretrained"): 0.5,
        ("minimal_pairs/inversion", "random"): 0.25,
        ("minimal_pairs/overall", "pretrained"): 0.75,
        ("minimal_pairs/overall", "random"): 0.25,
    }
    assert outcome.items[0]["scores"] == {"pretrained": [1.0, 0.0], "random-1": [0.0, 0.0], "random-2": [0.0, 1.0]}
    overall = outcome.scores[-1]
    assert overall.seeds == (1, 2) and overall.n == 40
    assert overall.interval[0] <= 0.0 and overall.interval[1] >= 0.5  # the two initialisations differ that much
    for part in (
        "task=minimal_pairs.english.2",
        "metric=pair_accuracy.1",
        "score=pll.within_word.whole.none.1",
        "seeds=1,2",
    ):
        assert part in overall.signature


def test_real_scores_are_finite_and_random_weights_differ(subject):
    prepared = TASK.prepare(subject, None)
    results = [job.execute() for job in prepared.jobs]
    scores = np.array([result["good"] for result in results])
    assert np.isfinite(scores).all() and (scores < 0).all()
    assert np.abs(scores[1] - scores[2]).min() > 0


def test_another_variant_or_other_items_have_another_key(subject):
    def key(**changes):
        options = {"pairs_per_phenomenon": 20, "phenomena": ["a_an", "inversion"], **changes}
        return MinimalPairs(**options).prepare(subject, None).jobs[0].identity()

    keys = [key(), key(variant="original"), key(normalisation="per_token"), key(seed=2), key(phenomena=["a_an"])]
    assert len({str(found) for found in keys}) == 5


def test_without_initialisations_only_the_pretrained_model_is_scored(checkpoint):
    prepared = TASK.prepare(read_subject(str(checkpoint), [1], []), None)
    outcome = prepared.collect([job.execute() for job in prepared.jobs])
    assert {score.model for score in outcome.scores} == {"pretrained"}
    assert outcome.comparisons == []


def test_an_unknown_phenomenon_is_refused_before_any_work(subject):
    with pytest.raises(InputError, match="the english grammar does not have"):
        MinimalPairs(phenomena=["agreements"]).prepare(subject, None)


def chinese_subject(folder, texts):
    """A checkpoint whose tokenizer was trained on these Chinese sentences."""
    tokenizer = train_wordpiece(texts, 1500, min_frequency=1)
    (folder / "tokenizer").mkdir()
    save_tokenizer(tokenizer, folder / "tokenizer")
    export_folder(make_model(tokenizer), folder / "tokenizer" / "tokenizer.json", folder / "model")
    return read_subject(str(folder / "model"), [1], [])


@pytest.fixture(scope="module")
def chinese_texts():
    return [text for item in build(CHINESE, 40, seed=1) for text in (item.good, item.bad)]


def test_chinese_pairs_are_scored_with_a_tokenizer_that_knows_them(tmp_path, chinese_texts):
    task = MinimalPairs(name="zh", grammar="chinese", pairs_per_phenomenon=20, phenomena=["classifier", "ba_bei"])
    prepared = task.prepare(chinese_subject(tmp_path, chinese_texts), None)
    outcome = prepared.collect([job.execute() for job in prepared.jobs])
    assert [score.task for score in outcome.scores] == ["zh/classifier", "zh/ba_bei", "zh/overall"]
    assert "task=minimal_pairs.chinese.1" in outcome.scores[0].signature
    assert outcome.notes == [] and all(0 <= score.value <= 1 for score in outcome.scores)


def test_a_tokenizer_that_cannot_tell_most_pairs_apart_is_refused(subject):
    with pytest.raises(InputError, match="reads 40 of 40 chinese pairs of task 'zh' as equal"):
        MinimalPairs(name="zh", grammar="chinese", pairs_per_phenomenon=20, phenomena=["classifier", "ba_bei"]).prepare(
            subject, None
        )


def test_a_few_pairs_that_the_tokenizer_cannot_tell_apart_are_counted(tmp_path, chinese_texts):
    known = [text.replace("本", "").replace("辆", "") for text in chinese_texts]
    task = MinimalPairs(grammar="chinese", pairs_per_phenomenon=20, phenomena=["classifier", "ba_bei"])
    prepared = task.prepare(chinese_subject(tmp_path, known), None)
    # Four of ten templates have 本 or 辆 against a third sign; one sets them against each other.
    assert prepared.alike == 2
    count = len(prepared.items)
    (note,) = prepared.collect([{"good": [0.0] * count, "bad": [0.0] * count}]).notes
    assert "2 of 40 pairs are the same tokens" in note


def test_an_encoder_decoder_is_scored_by_its_decoder(pairs_checkpoint):
    prepared = TASK.prepare(read_subject(str(pairs_checkpoint), [1], []), None)
    (result,) = [job.execute() for job in prepared.jobs]
    assert np.isfinite(result["good"]).all() and (np.array(result["good"]) < 0).all()
    assert "|score=likelihood.masked.previous.whole.none.1|" in prepared.collect([result]).scores[0].signature
    removed = MinimalPairs(
        pairs_per_phenomenon=20, phenomena=["a_an", "inversion"], decoder=DecoderScoring(source="removed")
    )
    other = removed.prepare(prepared.subject, None).jobs[0]
    assert other.execute()["good"] != result["good"]
    assert other.identity() != prepared.jobs[0].identity()
