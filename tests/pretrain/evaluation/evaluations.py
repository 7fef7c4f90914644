"""Small evaluations on disk as the commands write them, for tests of what reads them."""

import json

import numpy as np

from pretrain.evaluation.metrics import METRICS, exact_match


def write_evaluation(folder, scores, items, checkpoint="runs/a"):
    """`scores` are records of scores.json, `items` rows by the name of their file."""
    (folder / "items").mkdir(parents=True)
    record = {"format": 1, "scores": scores, "comparisons": [], "calibration": [], "notes": []}
    (folder / "scores.json").write_text(json.dumps(record))
    for name, rows in items.items():
        (folder / "items" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.yaml").write_text(f"checkpoint: {checkpoint}\n")
    return folder


def score(task, metric, value, n, seeds=(), model="pretrained", failed=0, signed=None):
    parts = {"task": "t.1", "items": "aa", "metric": f"{metric}.1", "model": "cc", **(signed or {})}
    return {
        "task": task,
        "metric": metric,
        "model": model,
        "value": float(value),
        "interval": [0.0, 1.0],
        "n": n,
        "seeds": list(seeds),
        "signature": "|".join(f"{name}={part}" for name, part in parts.items()),
        "runs": [],
        "failed": failed,
    }


def finetuned(
    folder, labels, runs, metrics=("accuracy",), task="rte", groups=None, facts=None, sizes=("",), failed=0, signed=None
):
    """A fine-tuned task: `runs` [runs, items] of predictions, or [runs, sizes, items]."""
    table = np.asarray(runs, dtype=float)
    table = table[:, None, :] if table.ndim == 2 else table
    labels = np.asarray(labels, dtype=float)
    names = [str(number) for number in range(len(labels))]
    groups = names if groups is None else groups
    facts = [{}] * len(labels) if facts is None else facts
    rows = [
        {
            "set": task,
            "id": name,
            "group": groups[at],
            "label": labels[at],
            "facts": facts[at],
            "predictions": {
                "/".join(filter(None, (size, f"pretrained-{run + 1}"))): table[run, number, at]
                for number, size in enumerate(sizes)
                for run in range(len(table))
            },
        }
        for at, name in enumerate(names)
    ]
    questions = [fact.get("question", name) for fact, name in zip(facts, names, strict=True)]

    def value(metric, run):
        if metric == "exact_match":
            return exact_match(labels, run, questions)
        return METRICS[metric](labels, run)

    seeds = range(1, len(table) + 1)
    scores = [
        score(
            "/".join(filter(None, (task, size))),
            metric,
            np.mean([value(metric, run[number]) for run in table]),
            len(labels),
            seeds,
            failed=failed,
            signed=signed,
        )
        for number, size in enumerate(sizes)
        for metric in metrics
    ]
    return write_evaluation(folder, scores, {task: rows})


def pairs(folder, won, phenomena, groups=None, task="blimp", signed=None):
    """Minimal pairs: `won` [items], 1 where the good sentence scores higher."""
    won = np.asarray(won, dtype=float)
    names = [str(number) for number in range(len(won))]
    rows = [
        {
            "id": name,
            "good": f"good {name}",
            "bad": "bad",
            "phenomenon": phenomenon,
            "group": group,
            "facts": {"field": "syntax"},
            "scores": {"pretrained": [float(one), 0.5], "random-1": [1.0, 0.5], "random-2": [0.0, 0.5]},
        }
        for name, one, phenomenon, group in zip(names, won, phenomena, groups or names, strict=True)
    ]
    scores = []
    for name in dict.fromkeys(phenomena):
        mine = won[np.array(phenomena) == name]
        scores.append(score(f"{task}/{name}", "pair_accuracy", mine.mean(), len(mine), signed=signed))
    for part in ("field=syntax", "overall"):
        scores.append(score(f"{task}/{part}", "pair_accuracy", won.mean(), len(won), signed=signed))
    scores.append(score(f"{task}/overall", "pair_accuracy", 0.5, len(won), (1, 2), "random", signed=signed))
    return write_evaluation(folder, scores, {task: rows})
