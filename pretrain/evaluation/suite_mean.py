"""The mean over a suite's tasks, such as GLUE's: a score of its own with an interval over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import ModelName, Outcome, Runs, Score, short, signature
from pretrain.evaluation.statistics import CONFIDENCE, Estimate

MEAN = "mean"
MEAN_VERSION = 1


@dataclass(frozen=True)
class SuiteMean:
    """Which scores make the mean, as configured.

    `tasks` gives for each task the names of its scores: several sets of one task (MNLI's two) are averaged first, as
    are several metrics of one set. `remark` says what the mean is and what it leaves out. There is a mean only where
    every task has a score, for a part of them is another number; else a note says which lack.
    """

    name: str
    tasks: dict[str, list[str]]
    remark: str

    def over(self, outcomes: Sequence[Outcome]) -> Outcome:
        """The mean over tasks and seeds, with a t interval over seeds, or a note on why there is none."""
        scores = [score for outcome in outcomes for score in outcome.scores]
        found = Outcome()
        estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
        behind: dict[ModelName, Runs] = {}
        items = 0
        models: list[ModelName] = ["pretrained", "random"]
        for model in models:
            mine = [score for score in scores if score.model == model]
            if model == "random" and not mine:
                continue
            by_task = {
                task: {part: [score for score in mine if score.task == part] for part in parts}
                for task, parts in self.tasks.items()
            }
            lacking = [task for task, parts in by_task.items() if not all(parts.values())]
            if lacking:
                count = f"{len(lacking)} of its {len(self.tasks)} tasks"
                found.notes.append(
                    f"{self.name} of the {model} model is not given, as {count} lack: {', '.join(lacking)}"
                )
                continue
            used = [score for parts in by_task.values() for group in parts.values() for score in group]
            seeds = used[0].seeds
            if any(score.seeds != seeds or len(score.runs) != len(seeds) for score in used):
                found.notes.append(f"{self.name} of the {model} model is not given, as its tasks have different seeds")
                continue
            runs = np.mean([_mean_of_parts(list(parts.values())) for parts in by_task.values()], axis=0)
            if len(seeds) < 2:
                found.notes.append(
                    f"{self.name} of the {model} model is {float(runs[0]):.4f} with one seed, which has no interval: "
                    "it is no score (give at least two seeds)"
                )
                continue
            value, spread = float(runs.mean()), float(runs.std(ddof=1))
            half = float(stdtrit(len(runs) - 1, 0.5 + CONFIDENCE / 2)) * spread / len(runs) ** 0.5
            estimate = Estimate(value, max(-1.0, value - half), min(1.0, value + half))
            estimates[model] = (estimate, seeds, self._signature(used))
            behind[model] = Runs(tuple(runs.tolist()), sum(score.failed for score in used))
            items = sum(group[0].n for parts in by_task.values() for group in parts.values())
        if estimates:
            found.add(self.name, MEAN, items, estimates, behind)
            found.notes.append(f"{self.name}: {self.remark}; its interval is over seeds, on the same items")
        return found

    def _signature(self, used: Sequence[Score]) -> str:
        """Of the mean: that of all the scores behind it."""
        model = next(part for part in used[0].signature.split("|") if part.startswith("model="))
        return signature(
            task=f"{self.name}.{MEAN_VERSION}",
            scores=short(hash_of([score.signature for score in used])),
            metric=f"{MEAN}.{MEAN_VERSION}",
            interval="t(seeds)",
            model=model.removeprefix("model="),
            seeds=",".join(map(str, used[0].seeds)),
        )


def _mean_of_parts(parts: Sequence[Sequence[Score]]) -> NDArray[np.float64]:
    """Per seed: the mean over a task's sets of the mean over a set's metrics."""
    return np.asarray(np.mean([np.mean([score.runs for score in group], axis=0) for group in parts], axis=0))
