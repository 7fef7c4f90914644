"""What a sweep has tried and found: the jobs of one `--multirun`, side by side, with the space they were drawn from.

Results of two methods that were tuned over different spaces are not comparable (Choi et al. 2019), so the space is part
of the result. Must not import torch.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text
from pretrain.evaluation.runs import hash_of

SWEEP = "sweep.json"
_KEPT = ("task", "metric", "model", "value", "interval", "n", "runs", "failed", "signature")


def write_sweep(folder: Path) -> dict[str, Any]:
    """Write `sweep.json` beside the jobs' folders, from those that have finished, and return what it holds.

    `space` has every option that differs between jobs with the values tried, `space_hash` its hash, `jobs` what each
    chose and its scores, `best` for each task and its first metric the job of the highest score. That one is the best
    of many by the very items it is scored on: its value flatters it.

    Raises:
        InputError: a job's file that is no JSON.
    """
    jobs: list[dict[str, Any]] = []
    folders = [path for path in folder.iterdir() if path.name.isdigit() and (path / "scores.json").is_file()]
    for path in sorted(folders, key=lambda path: int(path.name)):
        record, options = _read(path / "scores.json"), _options(_read(path / "provenance.json")["command"])
        scores = [{name: score.get(name) for name in _KEPT} for score in record["scores"]]
        jobs.append({"job": path.name, "chosen": options, "scores": scores})
    names = {name for job in jobs for name in job["chosen"]}
    tried = {name: sorted({job["chosen"].get(name, "") for job in jobs}) for name in sorted(names)}
    space = {name: values for name, values in tried.items() if len(values) > 1}
    for job in jobs:
        job["chosen"] = {name: job["chosen"].get(name, "") for name in space}
    found = {
        "space": space,
        "space_hash": hash_of(space)[:12],
        "jobs": jobs,
        "best": _best(jobs),
    }
    atomic_write_text(folder / SWEEP, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found


def best_sentences(sweep: dict[str, Any]) -> list[str]:
    """One sentence for each task: the best job so far, its value, and out of how many."""
    count = len(sweep["jobs"])
    return [
        f"{row['task']}: best {row['metric']} {row['value']:.3f} of {count} jobs so far, job {row['job']} with "
        f"{' '.join(f'{name}={value}' for name, value in row['chosen'].items()) or 'the same options as all'}"
        for row in sweep["best"]
    ]


def _best(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    best: dict[str, dict[str, Any]] = {}
    metrics: dict[str, str] = {}
    for job in jobs:
        for score in job["scores"]:
            if score["model"] != "pretrained" or metrics.setdefault(score["task"], score["metric"]) != score["metric"]:
                continue
            known = best.get(score["task"])
            if known is None or score["value"] > known["value"]:
                best[score["task"]] = {
                    "task": score["task"],
                    "metric": score["metric"],
                    "value": score["value"],
                    "job": job["job"],
                    "chosen": job["chosen"],
                }
    return list(best.values())


def _options(command: str) -> dict[str, str]:
    """The overrides of a command line by name, but for where its results go."""
    found = {}
    for word in shlex.split(command):
        name, separator, value = word.partition("=")
        if separator and not name.startswith("-"):
            found[name.lstrip("+")] = value
    found.pop("output", None)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"'{path}' of this sweep cannot be read ({error}): remove its folder") from error
