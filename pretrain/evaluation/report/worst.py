"""The items that the pretrained model gets wrong most surely: what a person reads to see what is wrong.

Works on the rows of `items/*.jsonl` and knows no file. Must not import torch.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]
PRETRAINED = "pretrained"
CLIP = 400  # characters of a text that a table shows


@dataclass(frozen=True)
class WrongItem:
    """An item with its right answer and the one that was given; `sureness` is in the unit of its list.

    `text` are pieces (name, text), in the order to read them.
    """

    id: str
    text: tuple[tuple[str, str], ...]
    right: str
    given: str
    sureness: float


@dataclass(frozen=True)
class WorstItems:
    """The worst items of one task: `wrong` of `total` are wrong at all; `unit` says what the numbers are."""

    task: str
    unit: str
    wrong: int
    total: int
    items: tuple[WrongItem, ...]


def worst_items(task: str, rows: Sequence[Row], count: int) -> list[WorstItems]:
    """The `count` worst items of each set among the rows of a task's file.

    Minimal pairs and choices without training are ranked by how far the best wrong option's score lies above the right
    one's; items of fine-tuned runs by the mean probability, over the runs of the pretrained model, that the right label
    has (of a regression by the mean distance from it), among those that most runs get wrong. Of several training sizes
    it is the last, the largest. Rows without the item's text (older files) are left out.
    """
    found = []
    for name in dict.fromkeys(str(row.get("set", task)) for row in rows):
        mine = [row for row in rows if str(row.get("set", task)) == name]
        ranked = [wrong for wrong in map(_wrong, mine) if wrong is not None]
        worst = heapq.nlargest(count, ranked, key=lambda item: item.sureness)
        if worst:
            found.append(WorstItems(name, _unit(mine[0]), len(ranked), len(mine), tuple(worst)))
    return found


def guessing(rows: Sequence[Row]) -> float | None:
    """Accuracy of guessing among the options of choices; None if the rows are none."""
    if not rows or "options" not in rows[0]:
        return None
    return fmean(1 / len(row["options"]) for row in rows)


def _unit(row: Row) -> str:
    if "scores" in row:
        return "log likelihood of the wrong above the right"
    return "probability of the wrong" if "label_probabilities" in row else "distance from the right score"


def _wrong(row: Row) -> WrongItem | None:
    """The item as a wrong one, None if it is right or not of a known form."""
    if "scores" in row:
        return _wrong_zero_shot(row)
    return _wrong_tuned(row) if "item" in row and "predictions" in row else None


def _wrong_zero_shot(row: Row) -> WrongItem | None:
    scores = row["scores"].get(PRETRAINED)
    if scores is None:
        return None
    pair = "good" in row
    options = [row["good"], row["bad"]] if pair else list(row["options"])
    label = 0 if pair else row["label"]
    others = [(score, index) for index, score in enumerate(scores) if index != label]
    score, index = max(others)
    if score <= scores[label]:
        return None
    text = () if pair else (("", _gap(row)),)
    return WrongItem(str(row["id"]), text, options[label], options[index], float(score - scores[label]))


def _wrong_tuned(row: Row) -> WrongItem | None:
    runs = _last_runs(row["predictions"])
    if not runs:
        return None
    predictions = [row["predictions"][run] for run in runs]
    text = _text(row["item"])
    if "label_probabilities" not in row:
        off = fmean(abs(value - row["label"]) for value in predictions)
        return WrongItem(str(row["id"]), text, f"{row['label']:g}", f"{fmean(predictions):.2f}", off)
    given, times = Counter(predictions).most_common(1)[0]
    if given == row["label"] or times * 2 < len(runs):
        return None
    names = row.get("label_names") or row["item"].get("options")
    right, wrong = (str(names[number]) if names else str(number) for number in (row["label"], given))
    sureness = 1 - fmean(row["label_probabilities"][run] for run in runs)
    return WrongItem(str(row["id"]), text, right, wrong, sureness)


def _last_runs(predictions: Mapping[str, Any]) -> list[str]:
    """Names of the pretrained model's runs, `pretrained-3` or `SIZE/pretrained-3`: of the last size."""
    mine = [name for name in predictions if name.rpartition("/")[2].startswith(PRETRAINED)]
    sizes = [name.rpartition("/")[0] for name in mine]
    return [name for name, size in zip(mine, sizes, strict=True) if size == sizes[-1]]


def _text(item: Row) -> tuple[tuple[str, str], ...]:
    if "options" in item:
        return (("", _gap(item)),)
    if "span_a" in item:
        spans = (item["text"][slice(*item[name])] for name in ("span_a", "span_b"))
        return ("", clipped(item["text"])), ("marked", ", ".join(spans))
    return tuple(("", clipped(item[name])) for name in ("text_a", "text_b") if item.get(name) is not None)


def _gap(item: Row) -> str:
    """A choice with a blank where its options go; of a long context what stands nearest to it."""
    before, after = str(item["prefix"]), str(item["suffix"])
    cut = f"... {before[-CLIP:]}" if len(before) > CLIP else before
    return f"{cut}__{after}"


def clipped(text: str) -> str:
    """A text of at most `CLIP` characters, with its start and its end."""
    half = CLIP // 2
    return text if len(text) <= CLIP else f"{text[:half]} ... {text[-half:]}"
