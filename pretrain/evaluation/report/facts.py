"""The facts of a run that its report shows, gathered from the files that the run's steps left.

Reads only; a part that is not there becomes a line in `Facts.missing`, a part that cannot be read an error sentence.
Must not import torch, nor `slurm`: the records of a chain are read as the JSON they are.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from conf.errors import InputError
from pretrain.evaluation.compared import TwoCompared
from pretrain.evaluation.report.comparison import read_comparison
from pretrain.evaluation.report.files import read_json, read_json_lines
from pretrain.evaluation.report.pairs import PairExample, PhenomenonPairs, first_pairs, pairs_to_audit
from pretrain.evaluation.report.score_facts import Evaluation, read_scores
from pretrain.evaluation.report.words import percent
from pretrain.evaluation.report.worst import WorstItems, guessing, worst_items

PAGE = "report.html"


@dataclass(frozen=True)
class Places:
    """Where the parts of a run lie."""

    run_dir: Path
    documents: Path
    tokenizer: Path
    shards: Path
    tasks: Path
    pretrain: Path
    evaluate: Path


@dataclass(frozen=True)
class Shown:
    """How much of the items a page shows: minimal pairs of each phenomenon with their scores, and to audit; wrong items
    of each task."""

    examples: int = 2
    audited: int = 20
    worst: int = 5


@dataclass(frozen=True)
class StepFact:
    """One step of a chain: its name, its command line, when it began, and how long it took in seconds."""

    name: str
    command: tuple[str, ...]
    started: str
    seconds: float
    bytes_written: int


@dataclass(frozen=True)
class DataFact:
    """One stage of the data: what it is, and what became of its documents (None where the stage does not count).

    `dropped` and `failures` count by reason; `failed` counts all that failed, with a known reason or without.
    """

    name: str
    read: int | None = None
    kept: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """Points of one quantity over training: steps and values, equally long."""

    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class TrainingFact:
    """A training run: losses in nats per target token, tokens per second of all ranks together, seconds in the loop."""

    loss: Curve
    validation: Curve
    throughput: Curve
    tokens: int
    seconds: float


@dataclass
class Facts:
    """All that a report shows. Of an evaluation alone, `chain` is false, and what belongs to a chain is not missed."""

    title: str
    chain: bool = True
    checkpoint: str | None = None
    steps: list[StepFact] = field(default_factory=list)
    data: list[DataFact] = field(default_factory=list)
    training: TrainingFact | None = None
    model: dict[str, Any] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    comparison: TwoCompared | None = None
    worst: list[WorstItems] = field(default_factory=list)
    examples: list[PairExample] = field(default_factory=list)
    audit: list[PhenomenonPairs] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def collect(places: Places, title: str, shown: Shown, comparison: Path | None = None) -> Facts:
    """Gather the facts of a run.

    Args:
        places: where its parts lie.
        title: the report's title.
        shown: how much of the items.
        comparison: the output folder of `compare`, where there is one.

    Raises:
        InputError: a file that cannot be read as what it should be, or a folder in which there is no part of a run.
    """
    facts = Facts(title)
    _steps(places, facts)
    _data(places, facts)
    _training(places, facts)
    _evaluation(places.evaluate, facts, shown)
    _provenance({"chain": places.run_dir, "pretrain": places.pretrain, "evaluate": places.evaluate}, facts)
    facts.model = _model(places)
    if comparison is not None:
        facts.comparison = read_comparison(comparison)
    if not (facts.steps or facts.data or facts.training or facts.evaluation):
        raise InputError(
            f"there is nothing to report in '{places.run_dir}': it holds no steps/, shards/, pretrain/ or evaluate/ of "
            "a run; give the folder that a chain wrote, or say where the parts lie (shards=..., pretrain=...)"
        )
    return facts


def collect_evaluation(folder: Path, title: str, shown: Shown, comparison: Path | None = None) -> Facts:
    """Gather the facts of an evaluation by itself: the output folder of `evaluate` or `finetune`.

    Args:
        folder: holds scores.json and items/.
        title: the report's title.
        shown: how much of the items.
        comparison: the output folder of `compare`, where there is one.

    Raises:
        InputError: a file that cannot be read as what it should be.
    """
    facts = Facts(title, chain=False)
    _evaluation(folder, facts, shown)
    _provenance({"evaluation": folder}, facts)
    if "evaluation" in facts.configs:
        given = yaml.safe_load(facts.configs["evaluation"])
        facts.checkpoint = given.get("checkpoint") if isinstance(given, dict) else None
    if comparison is not None:
        facts.comparison = read_comparison(comparison)
    return facts


def _steps(places: Places, facts: Facts) -> None:
    records = [
        read_json(path)
        for path in sorted((places.run_dir / "steps").glob("*.json"))
        if not path.name.endswith(".started.json") and path.name != "fingerprints.json"
    ]
    for record in sorted(records, key=lambda record: str(record.get("started", ""))):
        outputs = record.get("outputs", {})
        if PAGE in outputs:  # the step that makes this page: it has no record yet when it does so first
            continue
        facts.steps.append(
            StepFact(
                name=str(record.get("step")),
                command=("python", *(str(word) for word in record.get("command", [])[1:])),
                started=str(record.get("started", "")),
                seconds=float(record.get("seconds", 0.0)),
                bytes_written=sum(int(item.get("bytes", 0)) for item in outputs.values()),
            )
        )


def _data(places: Places, facts: Facts) -> None:
    corpus = places.documents / "manifest.json"
    if corpus.is_file():  # a chain on the user's own files has no such step, so nothing is missing without it
        manifest = read_json(corpus)
        facts.data.append(_stage("corpus", manifest, {}, manifest.get("failures", {})))
    tokenizer = places.tokenizer / "tokenizer.json"
    if tokenizer.is_file():
        entries = len(read_json(tokenizer).get("model", {}).get("vocab", {}))
        facts.data.append(DataFact("tokenizer", figures={"entries": f"{entries:,}"}))
    manifest_path = places.shards / "manifest.json"
    if manifest_path.is_file():
        manifest = read_json(manifest_path)
        figures = {"places in a row": f"{manifest.get('row_length'):,}", "fill": percent(manifest.get("fill", 0.0))}
        for split in ("train", "validation"):
            shards = [shard for shard in manifest.get("shards", []) if shard.get("split") == split]
            rows, tokens = (sum(int(shard[key]) for shard in shards) for key in ("rows", "tokens"))
            figures[split] = f"{rows:,} rows, {tokens:,} tokens"
        failed = manifest.get("counts", {}).get("failed", 0)
        facts.data.append(_stage("shards", manifest, figures, _failures_of_ranges(places.shards) if failed else {}))
        facts.provenance["data (content of the shards)"] = str(manifest.get("content_hash"))
        facts.provenance["tokenizer"] = str(manifest.get("tokenizer_hash"))
    else:
        facts.missing.append(f"the data: there are no finished shards in {places.shards}")
    for path in sorted(places.tasks.glob("*/task.json")):
        task = read_json(path)
        figures = {str(name): f"{number:,}" for name, number in _numbers(task.get("counts", {})).items()}
        facts.data.append(DataFact(f"task {task.get('name', path.parent.name)}", figures=figures))
        facts.provenance[f"task {task.get('name', path.parent.name)}"] = str(task.get("content_hash"))


def _failures_of_ranges(shards: Path) -> dict[str, int]:
    """Reasons of the records that failed, with their numbers: the manifest has their sum only, each range its own."""
    found: Counter[str] = Counter()
    for path in sorted((shards / "shards").glob("*/*.json")):
        found.update({str(reason): int(number) for reason, number in read_json(path).get("failures", {}).items()})
    return dict(found)


def _stage(name: str, manifest: Mapping[str, Any], figures: dict[str, str], failures: Mapping[str, Any]) -> DataFact:
    counts = manifest.get("counts", {})
    return DataFact(
        name,
        read=counts.get("read"),
        kept=counts.get("kept"),
        dropped={str(reason): int(number) for reason, number in counts.get("dropped", {}).items()},
        failed=int(counts.get("failed", 0)),
        failures={str(reason): int(number) for reason, number in failures.items()},
        figures=figures,
    )


def _training(places: Places, facts: Facts) -> None:
    path = places.pretrain / "metrics.jsonl"
    if not path.is_file():
        facts.missing.append(f"training: there is no {path}")
        return
    lines = read_json_lines(path)
    trained = [line for line in lines if "loss" in line]
    if not trained:
        facts.missing.append(f"training: {path} holds no step yet")
        return
    measured = [line for line in lines if "validation_loss" in line]
    facts.training = TrainingFact(
        loss=_curve(trained, "loss"),
        validation=_curve(measured, "validation_loss"),
        throughput=_curve(trained, "tokens_per_second"),
        tokens=int(trained[-1].get("tokens", 0)),
        seconds=float(trained[-1].get("elapsed", 0.0)),
    )


def _curve(lines: list[dict[str, Any]], name: str) -> Curve:
    points = [(float(line["step"]), float(line[name])) for line in lines if line.get(name) is not None]
    return Curve(tuple(step for step, _ in points), tuple(value for _, value in points))


def _evaluation(folder: Path, facts: Facts, shown: Shown) -> None:
    path = folder / "scores.json"
    if not path.is_file():
        facts.missing.append(f"scores: there is no {path}")
        return
    evaluation = facts.evaluation = read_scores(path)
    tasks = {row.task.partition("/")[0] for row in evaluation.rows}
    chances: dict[str, float] = {}
    for file in sorted((folder / "items").glob("*.jsonl")):
        if file.stem not in tasks:  # what an earlier evaluation of other tasks left
            continue
        rows = read_json_lines(file)
        if rows and {"phenomenon", "good", "bad", "scores"} <= rows[0].keys():
            facts.examples.extend(first_pairs(rows, shown.examples))
            facts.audit.extend(pairs_to_audit(file.stem, rows, shown.audited) if shown.audited else ())
        chance = guessing(rows)
        if chance is not None:
            chances[file.stem] = chance
        facts.worst.extend(worst_items(file.stem, rows, shown.worst) if shown.worst else ())
    evaluation.parts = [replace(part, chance=chances.get(part.task, part.chance)) for part in evaluation.parts]


def _provenance(folders: Mapping[str, Path], facts: Facts) -> None:
    for name, folder in folders.items():
        if (folder / "config.yaml").is_file():
            facts.configs[name] = (folder / "config.yaml").read_text(encoding="utf-8")
        if not (folder / "provenance.json").is_file():
            continue
        record = read_json(folder / "provenance.json")
        git = record.get("git", {})
        commit = str(git.get("commit") or "not a git checkout")
        facts.provenance[f"code of {name} (git)"] = commit + (" with local changes" if git.get("dirty") else "")
        facts.provenance[f"configuration of {name}"] = str(record.get("config_hash"))
        if "checkpoint" in record.get("inputs", {}):
            facts.provenance["checkpoint"] = str(record["inputs"]["checkpoint"])
        facts.versions |= {str(package): str(version) for package, version in record.get("versions", {}).items()}
        if platform := record.get("machine", {}).get("platform"):
            facts.versions["platform"] = str(platform)


def _model(places: Places) -> dict[str, Any]:
    latest = places.pretrain / "checkpoints" / "latest"
    if not latest.exists():
        return {}
    folder = latest if latest.is_dir() else latest.parent / latest.read_text(errors="replace").strip()
    if not (folder / "state.json").is_file():
        return {}
    state = read_json(folder / "state.json")
    found = {str(name): value for name, value in state.get("model", {}).items() if not isinstance(value, dict | list)}
    return {**found, "vocab_size": state.get("vocab_size"), "trained_steps": state.get("step")}


def _numbers(counts: Any, prefix: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in counts.items() if isinstance(counts, dict) else ():
        if isinstance(value, dict):
            found |= _numbers(value, f"{prefix}{name} ")
        elif isinstance(value, int):
            found[f"{prefix}{name}"] = value
    return found
