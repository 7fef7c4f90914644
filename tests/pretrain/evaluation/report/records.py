"""Records of the form that evaluations write, for the tests of their report."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pretrain.evaluation.compared import ComparedRow, Side, TwoCompared


def score(
    task: str,
    value: float,
    half: float = 0.05,
    model: str = "pretrained",
    metric: str = "accuracy",
    n: int = 200,
    seeds: tuple[int, ...] = (),
    runs: tuple[float, ...] = (),
    failed: int = 0,
) -> dict[str, Any]:
    return {
        "task": task,
        "metric": metric,
        "model": model,
        "value": value,
        "interval": [value - half, value + half],
        "n": n,
        "seeds": list(seeds),
        "signature": f"task={task}.1|items=3c45f021|metric={metric}.1|model={model}|seeds={len(seeds)}",
        "runs": list(runs),
        "failed": failed,
    }


def anchor(task: str, system: str, value: float, split: str = "test", tuned: bool = True, metric: str = "accuracy"):
    source = f"Someone 2020, about {task}"
    return {
        "task": task,
        "metric": metric,
        "system": system,
        "value": value,
        "split": split,
        "source": source,
        "tuned": tuned,
        "scored": "dev",
    }


def write_evaluation(folder: Path, **record: Any) -> Path:
    """An evaluation's folder with a scores.json of these lists, and no items."""
    (folder / "items").mkdir(parents=True, exist_ok=True)
    whole = {"format": 1, "scores": [], "comparisons": [], "notes": [], **record}
    (folder / "scores.json").write_text(json.dumps(whole))
    return folder


def write_items(folder: Path, task: str, rows: list[dict[str, Any]]) -> None:
    (folder / "items" / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


SEEDS = (1, 2, 3)
CURVE = [
    score(
        f"winogrande/{size}",
        0.5 + 0.04 * step,
        seeds=SEEDS,
        runs=tuple(0.5 + 0.04 * step + d for d in (-0.02, 0, 0.02)),
    )
    for step, size in enumerate(("xs", "s", "m"))
]
WHOLE: dict[str, list[Any]] = {
    "scores": [
        score("rte", 0.62, seeds=SEEDS, runs=(0.6, 0.61, 0.65), failed=1, n=277),
        score("rte", 0.53, 0.03, model="random", seeds=SEEDS, runs=(0.53, 0.52, 0.54), n=277),
        score("piqa_zero_shot", 0.66, 0.02),
        *CURVE,
        score("winogrande/area", 0.54, seeds=SEEDS, runs=(0.52, 0.54, 0.56)),
        *(score(f"blimp/{name}", value, 0.04, metric="pair_accuracy") for name, value in
          (("wh_island", 0.31), ("anaphor_gender", 0.93), ("npi", 0.52), ("ellipsis", 0.71))),
        *(score(f"blimp/field={name}", value, 0.02, metric="pair_accuracy") for name, value in
          (("syntax", 0.6), ("morphology", 0.9), ("semantics", 0.5))),
        score("blimp/overall", 0.62, 0.01, metric="pair_accuracy"),
    ],
    "comparisons": [{"task": "rte", "metric": "accuracy", "difference": 0.09, "verdict": "wins"}],
    "notes": ["rte: 1 of 3 runs of the pretrained model are no better than always giving the most frequent label"],
    "anchors": [
        anchor("rte", "BERT-base cased", 0.657, "dev"),
        anchor("rte", "human", 0.936, tuned=False),
        anchor("piqa_zero_shot", "BERT-large", 0.668),
        anchor("piqa_zero_shot", "a smaller <one>", 0.55, "dev"),
        anchor("nothing_of_ours", "human", 0.5),
    ],
    "curves": [
        {"task": "winogrande", "sizes": {f"winogrande/{name}": size for name, size in
                                         (("xs", 160), ("s", 640), ("m", 2558))}, "area": "winogrande/area"}
    ],
    "calibration": [
        {"task": "rte", "model": model, "runs": 3, "n": 277, "ece": ece, "brier": 0.24,
         "bins": [{"confidence": 0.55, "accuracy": 0.5, "count": 300},
                  {"confidence": 0.9, "accuracy": 0.7, "count": 90}]}
        for model, ece in (("pretrained", 0.111), ("random", 0.042))
    ],
    "behaviour": [
        {"task": "hans", "test": "lexical_overlap/entailment", "kind": "accuracy", "model": "pretrained", "value": 0.9,
         "interval": [0.85, 0.94], "n": 500, "note": ""},
        {"task": "sst2_checklist", "test": "INV: names", "kind": "failure", "model": "pretrained", "value": 0.2,
         "interval": [0.1, 0.3], "n": 60, "note": "a name was changed"},
        {"task": "sst2_checklist", "test": "INV: names", "kind": "failure", "model": "random", "value": 0.5,
         "interval": [0.4, 0.6], "n": 60, "note": ""},
        {"task": "winogender", "test": "female - male", "kind": "gap", "model": "pretrained", "value": -0.06,
         "interval": [-0.1, -0.02], "n": 240, "note": ""},
    ],
}  # fmt: skip
COMPARED = TwoCompared(
    first=Side("small", "a", "pretrained", "aa"),
    second=Side("large", "b", "pretrained", "bb"),
    margin=0.02,
    notes=("rte: the recipes <differ>",),
    rows=(
        ComparedRow(task="rte", metric="accuracy", n=277, groups=277, runs=(1, 1), first=0.6, second=0.68,
                    difference=0.08, low=0.03, high=0.13, test="mcnemar(items)", p=0.0004, p_corrected=0.0008,
                    detectable=0.061, equivalence_p=0.97, equivalence_p_corrected=0.98, verdict="better"),
        ComparedRow(task="stsb", metric="spearman", n=1500, groups=1500, runs=(1, 1), first=0.8, second=0.801,
                    difference=0.001, low=-0.01, high=0.012, test="randomisation(items)", p=0.8, p_corrected=0.8,
                    detectable=0.012, equivalence_p=0.001, equivalence_p_corrected=0.002, verdict="equivalent"),
    ),
)  # fmt: skip
COMPARISON = {"format": 1, **asdict(COMPARED), "level": 0.05, "power": 0.8}
