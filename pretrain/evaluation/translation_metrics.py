"""Scores of translations: corpus BLEU and chrF by sacrebleu, each with its signature, and exact match.

Pure functions of texts. BLEU is not a mean over sentences: its interval comes from sacrebleu's resampling of sentences,
the difference of two systems from resampling the statistics that it makes of them. Must not import torch or know any
task.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from pretrain.evaluation.statistics import Estimate, seeds_and_items_interval

Tokenizer = Literal["13a", "zh"]
RESAMPLES = 1000
_SEED_VARIABLE = "SACREBLEU_SEED"


@dataclass(frozen=True)
class CorpusScore:
    """One figure of a whole corpus, from 0 to 100, and the signature that says how it was made.

    `low` and `high` bound the 95 % interval of sacrebleu's bootstrap over sentences; None where none was asked for.
    """

    value: float
    signature: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """BLEU of one system beside that of another on the same sentences.

    Attributes:
        baseline, system: the two scores, of 0 to 100.
        low, high: 95 % interval of system less baseline: percentiles over sentences resampled for both alike.
        p_value: of a paired bootstrap (Koehn 2004, "Statistical Significance Tests for Machine Translation
            Evaluation"), two-sided: how often a resampled difference lies as far from the one found as that from 0.
            sacrebleu's own test is not used: it calls two equal systems different, with p = 1 / (resamples + 1).
        signature: sacrebleu's of the scores, then number and seed of our resamples.
    """

    baseline: float
    system: float
    low: float
    high: float
    p_value: float
    signature: str

    @property
    def value(self) -> float:
        """What the system gains over the baseline, in points of BLEU."""
        return self.system - self.baseline


def tokenizer_for(language: str) -> Tokenizer:
    """sacrebleu's tokenizer for a target language: `zh` for Chinese, whose words have no spaces, else `13a`.

    Chinese is `zh`, `zho`, `chi`, `cmn` or `yue`, with or without a script or country (`zh-CN`, `zho_Hans`).
    """
    base = language.lower().replace("_", "-").split("-")[0]
    return "zh" if base in ("zh", "zho", "chi", "cmn", "yue") else "13a"


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenizer: Tokenizer = "13a",
    resamples: int = 0,
    seed: int = 12345,
) -> CorpusScore:
    """Corpus BLEU of up to 4-grams, cased, one reference (sacrebleu's defaults but for the tokenizer).

    Args:
        hypotheses: translations, plain text (not tokenized).
        references: what each should be.
        tokenizer: sacrebleu's name; see `tokenizer_for`.
        resamples: bootstrap resamples for the interval; 0 for none.
        seed: of the resampling.

    Raises:
        ValueError: no sentence, or not as many hypotheses as references; an unknown tokenizer.
    """
    return _score(_bleu(tokenizer), hypotheses, references, resamples, seed)


def corpus_chrf(
    hypotheses: Sequence[str], references: Sequence[str], resamples: int = 0, seed: int = 12345
) -> CorpusScore:
    """Corpus chrF: F2 of character 6-grams (Popovic 2015), sacrebleu's defaults. Arguments as of `corpus_bleu`."""
    return _score(CHRF(), hypotheses, references, resamples, seed)


def exact_matches(hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
    """1 where a translation is its reference but for spacing, else 0.

    Returns:
        [sentences].

    Raises:
        ValueError: no sentence, or not as many hypotheses as references.
    """
    _check(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return np.array([found.split() == expected.split() for found, expected in pairs], dtype=np.float64)


def exact_match(
    runs: Sequence[Sequence[str]], references: Sequence[str], clusters: ArrayLike | None = None
) -> Estimate:
    """Share of sentences translated exactly, with a 95 % interval for other sentences and other seeds.

    Args:
        runs: the translations of each trained model (seed) of one recipe.
        references: [sentences], the same for all runs.
        clusters: [sentences], names of what sentences share, such as their frame: they are not independent within it.
            None takes each sentence for itself.

    Raises:
        ValueError: no run, or a run with another number of sentences than there are references; a single cluster.
    """
    if not runs:
        raise ValueError("exact match needs the translations of at least one run, but there is none")
    table = np.stack([exact_matches(run, references) for run in runs])
    return seeds_and_items_interval(table, np.arange(len(references)) if clusters is None else clusters)


def bleu_difference(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[str],
    tokenizer: Tokenizer = "13a",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare two systems' translations of the same sentences by a paired bootstrap of sacrebleu's statistics.

    Args:
        baseline, system: their translations.
        references: what each should be.
        tokenizer: see `tokenizer_for`.
        resamples: of the sentences.
        seed: of the resampling.

    Raises:
        ValueError: numbers of sentences that differ, or none; an unknown tokenizer; too few resamples.
    """
    _check(baseline, references)
    _check(system, references)
    if resamples < 2:
        raise ValueError(f"the number of resamples must be at least 2, but is {resamples}")
    metric = _bleu(tokenizer)
    before, after = (metric.corpus_score(list(found), [list(references)]).score for found in (baseline, system))
    weights = np.random.default_rng(seed).multinomial(
        len(references), np.full(len(references), 1 / len(references)), size=resamples
    )
    gains = np.subtract(
        *(_resampled(weights @ sentence_statistics(found, references, tokenizer)) for found in (system, baseline))
    )
    low, high = np.quantile(gains, [0.025, 0.975])
    gain = after - before
    # A float's rounding must not decide whether equal systems differ.
    extreme = np.abs(gains - gain) >= abs(gain) - 1e-9
    p_value = (1 + int(extreme.sum())) / (1 + resamples)
    signature = f"{metric.get_signature().format()}|bs:{resamples}|rs:{seed}"
    return Difference(float(before), float(after), float(low), float(high), p_value, signature)


def sentence_statistics(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: Tokenizer = "13a"
) -> NDArray[np.int64]:
    """What BLEU is made of, for each sentence: its sum over a corpus gives the corpus's BLEU.

    Returns:
        [sentences, 10]: lengths of hypothesis and reference, matches of 1- to 4-grams, numbers of 1- to 4-grams.
    """
    metric = BLEU(tokenize=tokenizer, effective_order=True)  # alters the sentence's score, which is not used
    scores = [metric.sentence_score(found, [expected]) for found, expected in zip(hypotheses, references, strict=True)]
    return np.array([[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores], dtype=np.int64)


def _resampled(sums: NDArray[np.int64]) -> NDArray[np.float64]:
    """BLEU of each row of summed statistics."""
    return np.array(
        [
            BLEU.compute_bleu(list(row[2:6]), list(row[6:]), int(row[0]), int(row[1]), smooth_method="exp").score
            for row in sums.tolist()
        ]
    )


def _bleu(tokenizer: str) -> BLEU:
    if tokenizer not in get_args(Tokenizer):
        raise ValueError(f"the tokenizer of BLEU must be one of {', '.join(get_args(Tokenizer))}, but is '{tokenizer}'")
    return BLEU(tokenize=tokenizer)


def _score(
    metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str], resamples: int, seed: int
) -> CorpusScore:
    _check(hypotheses, references)
    if resamples < 0 or resamples == 1:
        raise ValueError(f"the number of resamples must be 0 or at least 2, but is {resamples}")
    with _seed(seed):
        score = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=resamples or 1)
        signature = metric.get_signature().format()
    if not resamples:
        return CorpusScore(float(score.score), signature)
    centre, half = float(score._mean), float(score._ci)
    return CorpusScore(float(score.score), signature, max(0.0, centre - half), min(100.0, centre + half))


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise ValueError("hypotheses and references must be lists of sentences, but one is a single text")
    if not references:
        raise ValueError("there is no sentence to score")
    if len(hypotheses) != len(references):
        raise ValueError(f"there are {len(hypotheses)} translations, but {len(references)} references")


@contextmanager
def _seed(seed: int) -> Iterator[None]:
    """sacrebleu takes the seed of its resampling from the environment alone."""
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SEED_VARIABLE]
        else:
            os.environ[_SEED_VARIABLE] = before
