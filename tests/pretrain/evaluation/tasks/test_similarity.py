"""Likeness without training: correlations of cosines with what people said."""

import json
import os
from pathlib import Path

import hydra
import pytest
from scipy.stats import pearsonr, spearmanr

from conf.errors import InputError
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.similarity import Similarity
from pretrain.evaluation.tasks.stsb import stsb
from tests.pretrain.evaluation.tasks.test_zero_shot_configs import composed
from tests.pretrain.models.test_huggingface import MINILM

DATA = Path(os.environ.get("SHARED_DATA", Path(__file__).resolve().parents[4].parent / "shared" / "data")) / "eval"


@pytest.fixture(scope="module")
def data(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("stsb")
    rows = [f'"{a}","{b}",{number % 6}' for number, (a, b) in enumerate(zip(texts[:12], texts[12:24], strict=True))]
    for split in ("dev", "test"):
        (folder / f"stsb-en-{split}.csv").write_text("\n".join(rows[: 12 if split == "dev" else 2]) + "\n")
    return folder


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1], [1, 2])


def collected(task, subject, data):
    prepared = task.prepare(subject, data)
    results = [json.loads(json.dumps(job.execute())) for job in prepared.jobs]
    return prepared, prepared.collect(results)


def test_the_scores_are_the_correlations_of_the_kept_cosines(subject, data):
    prepared, outcome = collected(Similarity(stsb(), max_length=64), subject, data)
    assert [job.name.rpartition("/")[2] for job in prepared.jobs] == ["pretrained", "random-1", "random-2"]
    found = {(score.metric, score.model): score for score in outcome.scores}
    labels = [row["label"] for row in outcome.items]
    for metric, oracle in (("spearman", spearmanr), ("pearson", pearsonr)):
        values = {
            model: oracle(labels, [row["predictions"][model] for row in outcome.items]).statistic
            for model in ("pretrained", "random-1", "random-2")
        }
        assert found[metric, "pretrained"].value == pytest.approx(values["pretrained"], abs=1e-9)
        assert found[metric, "random"].runs == pytest.approx((values["random-1"], values["random-2"]), abs=1e-9)
        low, high = found[metric, "pretrained"].interval
        assert -1 <= low < found[metric, "pretrained"].value < high <= 1
    assert len({score.signature for score in outcome.scores}) == 4
    assert {(row.task, row.split, row.scored) for row in outcome.anchors} == {
        (prepared.name, split, prepared.split) for split in ("dev", "test")
    }
    assert "score=mean_pooled_cosine.1|length=64.refuse" in found["spearman", "pretrained"].signature


def test_options_change_what_is_scored(subject, data):
    _, plain = collected(Similarity(stsb(), random_weights=False, max_length=64), subject, data)
    assert {score.model for score in plain.scores} == {"pretrained"} and plain.scores[0].task == "stsb_similarity"
    some = Similarity(stsb(), random_weights=False, max_length=5, too_long="cut", max_items=5, name="mine")
    _, cut = collected(some, subject, data)
    assert cut.scores[0].n == 5 and cut.scores[0].task == "mine"
    assert cut.notes == ["mine: 10 texts were cut to 5 tokens"]
    assert [row["predictions"] for row in cut.items] != [row["predictions"] for row in plain.items[:5]]


def test_wrong_options_and_data_are_refused_in_a_sentence(subject, data, tmp_path):
    with pytest.raises(InputError, match="task rte is a classification: only a regression"):
        Similarity(rte())
    with pytest.raises(InputError, match=r"task\.split must be one of train, dev, test or null, but is 'deb'"):
        Similarity(stsb(), split="deb")
    with pytest.raises(InputError, match=r"task\.max_items must be at least 3 or null, but is 2"):
        Similarity(stsb(), max_items=2)
    with pytest.raises(InputError, match=r"task\.max_length must be at least 3, but is 2"):
        Similarity(stsb(), max_length=2)
    with pytest.raises(InputError, match="at most 64, the model's positions, but is 65"):
        Similarity(stsb(), max_length=65).prepare(subject, data)
    with pytest.raises(InputError, match="at least 3 items with a score, but task stsb, split test, has 2"):
        Similarity(stsb(), split="test", max_length=64).prepare(subject, data)
    with pytest.raises(TaskMissing, match="lacks its dev split"):
        Similarity(stsb(), max_length=64).prepare(subject, tmp_path)


def test_the_configured_task_and_suite_are_this_class():
    suite = hydra.utils.instantiate(composed("suite=similarity").suite, _convert_="all")
    task = suite.tasks["stsb"]
    assert isinstance(task, Similarity) and task.definition.name == "stsb" and task.max_length == 128


@pytest.mark.full  # 2,758 sentences in one thread
@pytest.mark.skipif(not DATA.is_dir(), reason=f"needs the data sets in {DATA}")
def test_minilm_has_its_published_spearman_on_the_test_set_of_stsb():
    # 82.03 is what MTEB lists for all-MiniLM-L6-v2 on STSBenchmark (cosine, Spearman).
    subject = read_subject(str(MINILM), [1], [])
    _, outcome = collected(Similarity(stsb(), split="test", max_length=256), subject, DATA)
    found = next(score for score in outcome.scores if score.metric == "spearman")
    assert found.n == 1379 and found.value == pytest.approx(0.8203, abs=5e-5)
