"""Several ways to the same translations side by side: BLEU, chrF and exact match, with intervals, and what each gains.

Pure functions of texts. Must not import torch or read a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pretrain.evaluation.lookup_translation import lookup_translations
from pretrain.evaluation.run_variance import difference_over_runs, score_over_runs
from pretrain.evaluation.translation_metrics import (
    RESAMPLES,
    Difference,
    bleu_difference,
    corpus_bleu,
    corpus_chrf,
    exact_match,
    tokenizer_for,
)

LOOKUP = "lookup"
ALL = "all"


@dataclass(frozen=True)
class Item:
    """A sentence of the test set: `group` parts the set for the table, items of one `cluster` are alike."""

    id: str
    source: str
    reference: str
    group: str = ALL
    cluster: str | None = None


@dataclass(frozen=True)
class ArmScore:
    """One arm on one group of items. BLEU and chrF are of 0 to 100 with bootstrap intervals, exact match a share.

    With several runs (seeds) all three are means over them, and the intervals are for other sentences and seeds.
    """

    arm: str
    group: str
    items: int
    runs: int
    bleu: float
    bleu_interval: tuple[float, float]
    chrf: float
    chrf_interval: tuple[float, float]
    exact: float
    exact_interval: tuple[float, float]


@dataclass(frozen=True)
class Comparison:
    """All arms over all groups, and what each gains in BLEU over the first, on all items."""

    scores: list[ArmScore]
    gains: dict[str, Difference]
    signatures: dict[str, str]


def compare(
    items: Sequence[Item],
    arms: Mapping[str, Sequence[Sequence[str]]],
    language: str,
    bitext: Sequence[tuple[str, str]] = (),
    resamples: int = RESAMPLES,
) -> Comparison:
    """Score arms on the same items.

    Args:
        items: the test set, with at least two clusters of items.
        arms: name -> the translations of each of its runs, in the order of `items`; the first is the baseline.
        language: of the references, for BLEU's tokenizer.
        bitext: pairs of source and target; where there are some, looking up the most similar source is an arm too.
        resamples: of the bootstrap.

    Raises:
        ValueError: as the metrics do.
    """
    tokenizer = tokenizer_for(language)
    systems = {name: [list(run) for run in runs] for name, runs in arms.items()}
    if bitext:
        found = lookup_translations(bitext, [item.source for item in items])
        systems[LOOKUP] = [[one.text for one in found]]
    groups = sorted({item.group for item in items})
    scores, signatures = [], {}
    of_all: dict[str, list[float]] = {}
    for group in [ALL, *groups] if groups != [ALL] else groups:
        places = [place for place, item in enumerate(items) if group in (ALL, item.group)]
        references = [items[place].reference for place in places]
        clusters = [items[place].cluster or items[place].id for place in places]
        for arm, runs in systems.items():
            texts = [[run[place] for place in places] for run in runs]
            bleus = [corpus_bleu(run, references, tokenizer) for run in texts]
            chrfs = [corpus_chrf(run, references) for run in texts]
            first = corpus_bleu(texts[0], references, tokenizer, resamples)
            first_chrf = corpus_chrf(texts[0], references, resamples)
            bleu = score_over_runs([score.value for score in bleus], float(first.low or 0.0), float(first.high or 0.0))
            chrf = score_over_runs(
                [score.value for score in chrfs], float(first_chrf.low or 0.0), float(first_chrf.high or 0.0)
            )
            if group == ALL:
                of_all[arm] = [score.value for score in bleus]
            exact = exact_match(texts, references, clusters)
            scores.append(
                ArmScore(
                    arm,
                    group,
                    len(places),
                    len(runs),
                    bleu.value,
                    (bleu.low, bleu.high),
                    chrf.value,
                    (chrf.low, chrf.high),
                    exact.value,
                    (exact.low, exact.high),
                )
            )
            signatures = {"bleu": first.signature, "chrf": first_chrf.signature}
    baseline, *others = arms
    references = [item.reference for item in items]
    gains = {
        arm: difference_over_runs(
            of_all[baseline],
            of_all[arm],
            bleu_difference(systems[baseline][0], systems[arm][0], references, tokenizer, resamples),
        )
        for arm in others
    }
    return Comparison(scores, gains, signatures)
