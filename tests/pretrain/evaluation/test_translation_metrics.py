"""BLEU, chrF and exact match: sacrebleu's own figures, hand computation, and the differences of systems."""

import math
import os

import numpy as np
import pytest
import sacrebleu

from pretrain.evaluation.translation_metrics import (
    bleu_difference,
    corpus_bleu,
    corpus_chrf,
    exact_match,
    exact_matches,
    sentence_statistics,
    tokenizer_for,
)

REFERENCES = ["The cat sat on the mat today.", "He pays 3.50 euros.", "She flew from Peru to France 3 days ago."]
HYPOTHESES = ["The cat sat on a mat today.", "He pays 3.50 euros.", "She flew from Peru to Spain 4 days ago."]


def corpus(size, wrong, seed):
    """References of `size` sentences, and translations of which about a share `wrong` of the words is replaced."""
    generator = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(50)])
    references = [generator.choice(words, 8) for _ in range(size)]
    changed = [np.where(generator.random(8) < wrong, "x", sentence) for sentence in references]
    return [" ".join(sentence) for sentence in references], [" ".join(sentence) for sentence in changed]


def test_bleu_by_hand():
    # "a b c d e" against "a b c d f": precisions 4/5, 3/4, 2/3, 1/2, no brevity penalty.
    found = corpus_bleu(["a b c d e"], ["a b c d f"])
    assert found.value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    # All precisions 1, 5 tokens of 6: the brevity penalty alone.
    assert corpus_bleu(["a b c d e"], ["a b c d e f"]).value == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_chrf_by_hand():
    # 1-grams: 2 of 3 match on both sides, 2-grams 1 of 2, 3-grams none of 1; longer ones are not there. F2 of equal
    # precision and recall is their mean, and sacrebleu averages over the orders that are there.
    assert corpus_chrf(["abc"], ["abd"]).value == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_scores_are_sacrebleus_and_carry_their_signature():
    bleu, chrf = corpus_bleu(HYPOTHESES, REFERENCES), corpus_chrf(HYPOTHESES, REFERENCES)
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert bleu.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert chrf.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    assert bleu.low is None and bleu.high is None


def test_chinese_is_cut_into_characters():
    hypothesis, reference = ["她3天前从法国飞到了秘鲁。"], ["她3天前从德国飞到了秘鲁。"]
    found = corpus_bleu(hypothesis, reference, tokenizer_for("zh"))
    assert found.value == sacrebleu.corpus_bleu(hypothesis, [reference], tokenize="zh").score > 50
    assert "|tok:zh|" in found.signature
    assert corpus_bleu(hypothesis, reference, tokenizer_for("de")).value < 50
    assert {tokenizer_for(name) for name in ("zh-CN", "zho_Hans", "ZH", "cmn", "yue", "chi")} == {"zh"}
    assert {tokenizer_for(name) for name in ("zha", "en-ZH", "ja", "")} == {"13a"}


def test_an_interval_is_sacrebleus_bootstrap_and_depends_on_the_seed_alone():
    references, hypotheses = corpus(60, 0.2, seed=0)
    found = corpus_bleu(hypotheses, references, resamples=100, seed=7)
    assert found.low < found.value < found.high
    assert "|bs:100|seed:7|" in found.signature
    assert corpus_bleu(hypotheses, references, resamples=100, seed=7) == found
    assert corpus_bleu(hypotheses, references, resamples=100, seed=8).low != found.low
    assert "SACREBLEU_SEED" not in os.environ
    oracle = sacrebleu.BLEU().corpus_score(hypotheses, [references], n_bootstrap=100)  # its own seed, 12345
    ours = corpus_bleu(hypotheses, references, resamples=100)
    assert (ours.low + ours.high) / 2 == pytest.approx(oracle._mean)
    assert (ours.high - ours.low) / 2 == pytest.approx(oracle._ci)


def test_a_seed_of_the_users_own_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "3")
    corpus_bleu(HYPOTHESES, REFERENCES, resamples=10, seed=5)
    assert os.environ["SACREBLEU_SEED"] == "3"


def test_statistics_of_sentences_add_up_to_the_corpus():
    sums = sentence_statistics(HYPOTHESES, REFERENCES).sum(axis=0).tolist()
    total = sacrebleu.BLEU.compute_bleu(sums[2:6], sums[6:], sums[0], sums[1], smooth_method="exp")
    assert total.score == pytest.approx(corpus_bleu(HYPOTHESES, REFERENCES).value)
    assert sentence_statistics(["a b"], ["a c"]).tolist() == [[2, 2, 1, 0, 0, 0, 2, 1, 0, 0]]


def test_a_clear_gain_is_told_from_none():
    references, good = corpus(80, 0.1, seed=1)
    _, bad = corpus(80, 0.4, seed=1)
    gain = bleu_difference(bad, good, references, resamples=200)
    assert gain.value == pytest.approx(corpus_bleu(good, references).value - corpus_bleu(bad, references).value)
    assert 0 < gain.low < gain.value < gain.high
    assert gain.p_value < 0.01
    assert gain.signature == f"{corpus_bleu(good, references).signature}|bs:200|rs:0"
    assert bleu_difference(bad, good, references, resamples=200) == gain
    assert bleu_difference(bad, good, references, resamples=200, seed=1).low != gain.low
    loss = bleu_difference(good, bad, references, resamples=200)
    assert (loss.low, loss.high) == (pytest.approx(-gain.high), pytest.approx(-gain.low))
    same = bleu_difference(good, good, references, resamples=50)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert same.p_value == 1


def leave_one_out(sums, sentences):
    rows = (sums - sentences).tolist()
    return np.array(
        [sacrebleu.BLEU.compute_bleu(row[2:6], row[6:], row[0], row[1], smooth_method="exp").score for row in rows]
    )


def undecided():
    """Two systems with mistakes of their own, the second a little worse."""
    references, good = corpus(200, 0.2, seed=2)
    generator = np.random.default_rng(5)
    bad = [" ".join("x" if generator.random() < 0.23 else word for word in text.split()) for text in references]
    return references, good, bad


def test_the_interval_of_a_gain_is_as_wide_as_the_jackknife_says():
    references, good, bad = undecided()
    found = bleu_difference(bad, good, references, resamples=4000)
    one_less = [
        leave_one_out(statistics.sum(axis=0), statistics)
        for statistics in (sentence_statistics(good, references), sentence_statistics(bad, references))
    ]
    gains = one_less[0] - one_less[1]
    error = math.sqrt((len(gains) - 1) / len(gains) * ((gains - gains.mean()) ** 2).sum())
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_a_p_value_is_that_of_the_normal_distribution_where_this_holds():
    references, good, bad = undecided()
    found = bleu_difference(bad, good, references, resamples=4000)
    error = (found.high - found.low) / (2 * 1.96)
    assert 0.02 < found.p_value < 0.5
    assert found.p_value == pytest.approx(math.erfc(found.value / error / math.sqrt(2)), rel=0.1, abs=0.01)


def test_exact_match_is_of_words_not_of_spaces():
    assert exact_matches(["a  b ", "a b.", "A b"], ["a b", "a b", "a b"]).tolist() == [1, 0, 0]


def test_exact_match_has_an_interval_over_sentences_or_what_they_share():
    references = ["a"] * 40
    run = ["a"] * 20 + ["b"] * 20
    free = exact_match([run], references)
    assert free.value == 0.5
    assert free.low == pytest.approx(0.5 - 2.0227 * math.sqrt(40 / 39 * 40 * 0.25) / 40, abs=1e-4)  # t(39), .975
    frames = exact_match([run], references, clusters=[number // 10 for number in range(40)])
    assert frames.high - frames.low > 2 * (free.high - free.low)
    seeds = exact_match([run, ["b"] * 40], references)
    assert seeds.value == 0.25
    assert seeds.high - seeds.low > free.high - free.low


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: corpus_bleu(["a"], ["a", "b"]), "there are 1 translations, but 2 references"),
        (lambda: corpus_chrf([], []), "no sentence to score"),
        (lambda: corpus_bleu("text", ["text"]), "one is a single text"),
        (lambda: corpus_bleu(["a"], ["a"], "intl"), "must be one of 13a, zh, but is 'intl'"),
        (lambda: corpus_bleu(["a"], ["a"], resamples=1), "must be 0 or at least 2, but is 1"),
        (lambda: exact_matches(["a"], []), "no sentence to score"),
        (lambda: exact_match([], ["a"]), "at least one run"),
        (lambda: bleu_difference(["a"], ["a"], ["a"], resamples=1), "must be at least 2, but is 1"),
        (lambda: bleu_difference(["a"], ["a", "b"], ["a"]), "there are 2 translations, but 1 references"),
    ],
)
def test_what_cannot_be_scored_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
