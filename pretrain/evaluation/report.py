"""The facts of a run that its report shows, gathered from the files that the run's steps left.

Reads only; a part that is not there becomes a line in `Facts.missing`, a part that cannot be read an error sentence.
Must not import torch, nor `slurm`: the records of a chain are read as the JSON they are.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.report_pairs import PairExample, PhenomenonPairs, first_pairs, pairs_to_audit

PAGE = "report.html"


@dataclass(frozen=True)
class Places:
    """Where the parts of a run lie."""

    run_dir: Path
    corpus: Path
    tokenizer: Path
    shards: Path
    tasks: Path
    pretrain: Path
    evaluate: Path


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


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % interval."""

    value: float
    low: float
    high: float
    seeds: int
    signature: str


@dataclass(frozen=True)
class ScoreRow:
    """One task: the pretrained model's score, that of random weights if it was measured, and which wins."""

    task: str
    metric: str
    n: int
    pretrained: Interval | None
    random: Interval | None
    verdict: str | None

    @property
    def group(self) -> str:
        """What stands before the slash of the task's name."""
        return self.task.split("/", 1)[0] if "/" in self.task else ""


@dataclass
class Facts:
    """All that a report shows."""

    title: str
    steps: list[StepFact] = field(default_factory=list)
    data: list[DataFact] = field(default_factory=list)
    training: TrainingFact | None = None
    model: dict[str, Any] = field(default_factory=dict)
    scores: list[ScoreRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    examples: list[PairExample] = field(default_factory=list)
    audit: list[PhenomenonPairs] = field(default_factory=list)
    provenance: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def tasks_that(self, verdict: str) -> list[str]:
        """Names of the tasks with this verdict."""
        return [row.task for row in self.scores if row.verdict == verdict]


def collect(places: Places, title: str, examples: int, audited: int) -> Facts:
    """Gather the facts of a run.

    Args:
        places: where its parts lie.
        title: the report's title.
        examples: how many minimal pairs of each phenomenon to show with their scores.
        audited: how many of each to list for a person to audit.

    Raises:
        InputError: a file that cannot be read as what it should be, or a folder in which there is no part of a run.
    """
    facts = Facts(title)
    _steps(places, facts)
    _data(places, facts)
    _training(places, facts)
    _scores(places, facts)
    _pairs(places, facts, examples, audited)
    _provenance(places, facts)
    if not (facts.steps or facts.data or facts.training or facts.scores):
        raise InputError(
            f"there is nothing to report in '{places.run_dir}': it holds no steps/, shards/, pretrain/ or evaluate/ of "
            "a run; give the folder that a chain wrote, or say where the parts lie (shards=..., pretrain=...)"
        )
    return facts


def _steps(places: Places, facts: Facts) -> None:
    records = [
        _json(path)
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
    corpus = places.corpus / "manifest.json"
    if corpus.is_file():  # a chain on the user's own files has no such step, so nothing is missing without it
        manifest = _json(corpus)
        facts.data.append(_stage("corpus", manifest, {}, manifest.get("failures", {})))
    tokenizer = places.tokenizer / "tokenizer.json"
    if tokenizer.is_file():
        entries = len(_json(tokenizer).get("model", {}).get("vocab", {}))
        facts.data.append(DataFact("tokenizer", figures={"entries": f"{entries:,}"}))
    manifest_path = places.shards / "manifest.json"
    if manifest_path.is_file():
        manifest = _json(manifest_path)
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
        task = _json(path)
        figures = {str(name): f"{number:,}" for name, number in _numbers(task.get("counts", {})).items()}
        facts.data.append(DataFact(f"task {task.get('name', path.parent.name)}", figures=figures))
        facts.provenance[f"task {task.get('name', path.parent.name)}"] = str(task.get("content_hash"))


def percent(share: float) -> str:
    """A share in percent with two decimals, rounded down, so that only what is whole is called 100 %."""
    return f"{math.floor(round(share * 1e4, 6)) / 100:.2f} %"


def _failures_of_ranges(shards: Path) -> dict[str, int]:
    """Reasons of the records that failed, with their numbers: the manifest has their sum only, each range its own."""
    found: Counter[str] = Counter()
    for path in sorted((shards / "shards").glob("*/*.json")):
        found.update({str(reason): int(number) for reason, number in _json(path).get("failures", {}).items()})
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
    lines = _json_lines(path)
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


def _scores(places: Places, facts: Facts) -> None:
    path = places.evaluate / "scores.json"
    if not path.is_file():
        facts.missing.append(f"scores: there is no {path}")
        return
    record = _json(path)
    tasks: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    try:
        for score in record["scores"]:
            tasks.setdefault((score["task"], score["metric"]), {})[score["model"]] = score
        verdicts = {(row["task"], row["metric"]): row["verdict"] for row in record.get("comparisons", [])}
        for (task, metric), models in tasks.items():
            pretrained, random = _interval(models.get("pretrained")), _interval(models.get("random"))
            n = max(int(score["n"]) for score in models.values())
            verdict = verdicts.get((task, metric), compare(pretrained, random))
            facts.scores.append(ScoreRow(task, metric, n, pretrained, random, verdict))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"'{path}' is no file of scores (field {error}): run python -m pretrain.evaluate again"
        ) from error
    facts.notes = [str(note) for note in record.get("notes", [])]


def compare(pretrained: Interval | None, random: Interval | None) -> str | None:
    """What two scores say: "wins" or "loses" if the intervals do not meet, else "undecided"; None if one is missing."""
    if pretrained is None or random is None:
        return None
    if pretrained.low > random.high:
        return "wins"
    return "loses" if pretrained.high < random.low else "undecided"


def _interval(score: Mapping[str, Any] | None) -> Interval | None:
    if score is None:
        return None
    low, high = score["interval"]
    return Interval(float(score["value"]), float(low), float(high), len(score["seeds"]), str(score["signature"]))


def _pairs(places: Places, facts: Facts, examples: int, audited: int) -> None:
    for path in sorted((places.evaluate / "items").glob("*.jsonl")):
        items = _json_lines(path)
        if items and {"phenomenon", "good", "bad", "scores"} <= items[0].keys():
            facts.examples.extend(first_pairs(items, examples))
            facts.audit.extend(pairs_to_audit(path.stem, items, audited) if audited else ())


def _provenance(places: Places, facts: Facts) -> None:
    for name, folder in (("chain", places.run_dir), ("pretrain", places.pretrain), ("evaluate", places.evaluate)):
        if (folder / "config.yaml").is_file():
            facts.configs[name] = (folder / "config.yaml").read_text(encoding="utf-8")
        if not (folder / "provenance.json").is_file():
            continue
        record = _json(folder / "provenance.json")
        git = record.get("git", {})
        commit = str(git.get("commit") or "not a git checkout")
        facts.provenance[f"code of {name} (git)"] = commit + (" with local changes" if git.get("dirty") else "")
        facts.provenance[f"configuration of {name}"] = str(record.get("config_hash"))
        if name == "evaluate" and "checkpoint" in record.get("inputs", {}):
            facts.provenance["checkpoint"] = str(record["inputs"]["checkpoint"])
        facts.versions |= {str(package): str(version) for package, version in record.get("versions", {}).items()}
        if platform := record.get("machine", {}).get("platform"):
            facts.versions["platform"] = str(platform)
    latest = places.pretrain / "checkpoints" / "latest"
    if latest.exists():
        state = (
            latest / "state.json"
            if latest.is_dir()
            else latest.parent / latest.read_text(errors="replace").strip() / "state.json"
        )
        if state.is_file():
            facts.model = _model(_json(state))


def _model(state: Mapping[str, Any]) -> dict[str, Any]:
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


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"'{path}' must hold one JSON object, but holds a {type(found).__name__}")
    return found


def _json_lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break  # a run that is writing it, or was killed while it did
            raise InputError(f"line {number} of '{path}' cannot be read as JSON: {error}") from error
    return found
