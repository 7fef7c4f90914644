"""The corpus_tasks job: held-out documents -> fine-tuning tasks with labels that are true by construction.

Workers read, clean and pick the documents that training does not see; the driver builds the tasks of a bounded sample
of them (`pipeline.passages` says how). Never imports torch; Beam is imported when it runs.
"""

import functools
import hashlib
import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text
from pipeline.cleaning.chain import Cleaning, Step
from pipeline.held_out import check_share, is_held_out
from pipeline.jobs.code_version import code_version
from pipeline.jobs.following import follow
from pipeline.jobs.reading import Task, cleaned, fingerprint, refuse_nothing, tasks_of
from pipeline.manifest import Counts
from pipeline.passages import TASKS, HeldOutDocument, Item, TaskKind, build_task, split_documents
from pipeline.records import split_document_key, text_hash
from pipeline.runners import Runner
from pipeline.sources import Corpus

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
METRIC = "accuracy"
MORE_HELD_OUT = (
    "give more text, or hold more of it out: chain.held_out_share=... in a chain, job.held_out_share=... of both "
    "job=masked_lm and job=corpus_tasks by hand"
)


@dataclass(frozen=True)
class Settings:
    """What every worker needs; picklable."""

    corpus: Corpus
    cleaning: Step
    held_out_share: float
    sample_bytes: int
    directory: str

    def spill(self, task: Task) -> Path:
        """The file of a range's held-out documents and counts; its name says of which inputs."""
        return Path(self.directory) / "work" / f"{task.range.id}.{task.inputs}.json"


@dataclass(frozen=True)
class CorpusTasksJob:
    """Options of the job.

    Attributes:
        cleaning: the step that each document goes through; the same as for masked_lm, for which documents are held out
            is decided by the cleaned text.
        held_out_share: share of the documents that training does not see; the same as for masked_lm.
        train: items wanted in the train part of each task, half of them of each label.
        dev: items wanted in the dev part.
        minimum: fewer items than that in a part is an error; anything between is built and counted.
        sample_bytes: of the held-out documents, text that is used at most, those with the smallest content hashes. It
            bounds the memory of the driver and of each worker.
        seed: of the split into train and dev, and of all choices.
    """

    cleaning: Any = field(default_factory=Cleaning)
    held_out_share: float = 0.02
    train: int = 2000
    dev: int = 800
    minimum: int = 100
    sample_bytes: int = 32 << 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_share(self.held_out_share, "job.held_out_share")
        if self.held_out_share == 0:
            raise InputError("option 'job.held_out_share' must be above 0: the tasks are built from held-out documents")
        for option in ("train", "dev", "minimum", "sample_bytes"):
            if getattr(self, option) < 2:
                raise InputError(f"option 'job.{option}' must be at least 2, but is {getattr(self, option)}")

    def run(self, corpus: Corpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write `output`/<task>/{train.jsonl, dev.jsonl, task.json} for each task, then the manifest.

        The tokenizer is not used: tasks are text.

        Raises:
            InputError: too few held-out documents, or too little prose in them.
            RuntimeError: the runner did not do every range.
        """
        plan = corpus.plan()
        settings = Settings(corpus, self.cleaning, self.held_out_share, self.sample_bytes, str(output))
        options = {name: value for name, value in asdict(self).items() if name != "cleaning"}
        tasks = tasks_of(plan, corpus, self.cleaning, self.held_out_share, self.sample_bytes)
        key = fingerprint(FORMAT_VERSION, options, [task.inputs for task in tasks])
        if _is_done(output, key):
            logger.info("'%s' is complete for these inputs and options: nothing to do", output)
            return
        (output / MANIFEST).unlink(missing_ok=True)
        with follow("held-out documents", [settings.spill(task) for task in tasks]):
            runner.run(functools.partial(build_pipeline, tasks=tasks, settings=settings), units=len(tasks))
        counts, documents, examples = _collect(tasks, settings)
        refuse_nothing(counts, examples)
        built = self._build(documents, counts, output)
        shutil.rmtree(output / "work", ignore_errors=True)
        manifest = {
            "format_version": FORMAT_VERSION,
            "kind": "corpus_tasks",
            "key": key,
            "config": {**options, "corpus": corpus.reading_key(), "cleaning": repr(self.cleaning)},
            "counts": asdict(counts),
            "held_out_documents": len(documents),
            "tasks": built,
            "sources": plan.sources(),
            "code_version": code_version(),
        }
        atomic_write_text(output / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")

    def _build(self, documents: Sequence[HeldOutDocument], counts: Counts, output: Path) -> dict[str, str]:
        """Build and write every task; their content hashes by name."""
        if len(documents) < 2:
            raise InputError(
                f"{len(documents)} of {counts.kept} documents are held out at job.held_out_share="
                f"{self.held_out_share}, but tasks need at least 2 (one for train, one for dev): {MORE_HELD_OUT}"
            )
        train, dev = split_documents(documents, self.dev / (self.train + self.dev), self.seed)
        built = {}
        for kind in TASKS:
            parts = build_task(kind, {"train": (train, self.train), "dev": (dev, self.dev)}, self.seed)
            for name, items in parts.items():
                if len(items) < self.minimum:
                    raise InputError(
                        f"task {kind.name} has {len(items)} {name} items, fewer than job.minimum={self.minimum}: the "
                        f"{len(documents)} held-out documents hold too little prose in sentences (of a language that "
                        f"parts words by spaces); {MORE_HELD_OUT}"
                    )
            built[kind.name] = self._write(kind, parts, output / kind.name)
        return built

    def _write(self, kind: TaskKind, parts: dict[str, list[Item]], directory: Path) -> str:
        """Write one task; its description last. Returns its content hash."""
        directory.mkdir(exist_ok=True)
        (directory / "task.json").unlink(missing_ok=True)
        contents = {name: "".join(map(_line, items)) for name, items in parts.items()}
        for name, content in contents.items():
            atomic_write_text(directory / f"{name}.jsonl", content)
        content_hash = f"sha256:{hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()}"
        counts = {name: part_counts(kind, items) for name, items in parts.items()}
        task = {
            "name": kind.name,
            "kind": kind.kind,
            "labels": list(kind.labels),
            "metric": METRIC,
            "counts": counts,
            "seed": self.seed,
            "content_hash": content_hash,
        }
        atomic_write_text(directory / "task.json", json.dumps(task, indent=1, sort_keys=True) + "\n")
        for name, wanted in (("train", self.train), ("dev", self.dev)):
            logger.info(
                "%s: %d of %d %s items, from %d documents",
                kind.name,
                counts[name]["items"],
                wanted,
                name,
                counts[name]["documents"],
            )
        return content_hash


def part_counts(kind: TaskKind, items: Iterable[Item]) -> dict[str, Any]:
    """Items, documents and items by label of one part of a task."""
    items = list(items)
    labels = Counter(kind.labels[item.label] for item in items)
    return {
        "items": len(items),
        "documents": len({item.group for item in items}),
        "labels": dict(sorted(labels.items())),
    }


def _line(item: Item) -> str:
    row = {key: value for key, value in asdict(item).items() if value is not None}
    return json.dumps(row, ensure_ascii=False) + "\n"


def build_pipeline(pipeline: Any, tasks: Sequence[Task], settings: Settings) -> None:
    """Add the job's transforms to a Beam pipeline: Create, Reshuffle and one Map, which every runner does alike."""
    import apache_beam as beam

    ranges = pipeline | "ranges" >> beam.Create(list(tasks)) | "spread" >> beam.Reshuffle()
    _ = ranges | "pick held-out documents" >> beam.Map(pick_held_out, settings=settings)


def pick_held_out(task: Task, settings: Settings) -> str:
    """Write the held-out documents of one range, at most `sample_bytes` of them, and what became of all its records.

    Returns the range's id. A range that is done for the same inputs is left as it is.
    """
    path = settings.spill(task)
    if path.exists():
        return task.range.id
    names = {piece.file: piece.name for piece in task.range.pieces}
    fates: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    examples: list[str] = []
    sample = HashSample(settings.sample_bytes)
    for record in cleaned(settings.corpus, task.range, settings.cleaning):
        fates[record.fate] += 1
        if record.fate == "dropped":
            dropped[record.reason] += 1
        if record.fate == "failed" and not examples:
            examples.append(record.detail)
        if record.fate == "kept":
            digest = text_hash(record.text)
            if is_held_out(digest, settings.held_out_share):
                file, offset = split_document_key(record.key)
                sample.add(HeldOutDocument(f"{names[file]}:{offset}", digest, record.text))
    counts = Counts(fates.total(), fates["kept"], dict(sorted(dropped.items())), fates["failed"])
    rows = [{"id": found.id, "hash": found.hash.hex(), "text": found.text} for found in sample.documents()]
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_text(path, json.dumps({"counts": asdict(counts), "examples": examples, "documents": rows}))
    return task.range.id


class HashSample:
    """The documents with the smallest content hashes, each text once, as many as fit a number of bytes.

    Which they are does not depend on the order in which they come; of equal texts the first stays.
    """

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum = maximum_bytes
        self._found: dict[bytes, HeldOutDocument] = {}
        self._size = 0
        self._bound: bytes | None = None  # the smallest hash that was let go: it and all above are out for good

    def add(self, document: HeldOutDocument) -> None:
        """Add one document; those that no longer fit are let go when they make up as much again."""
        if document.hash not in self._found and (self._bound is None or document.hash < self._bound):
            self._found[document.hash] = document
            self._size += len(document.text.encode("utf-8"))
            if self._size > 2 * self._maximum:
                self._cut()

    def documents(self) -> list[HeldOutDocument]:
        """The sample, by hash; at least one document if any was added."""
        self._cut()
        return list(self._found.values())

    def _cut(self) -> None:
        kept: dict[bytes, HeldOutDocument] = {}
        size = 0
        for digest in sorted(self._found):
            more = len(self._found[digest].text.encode("utf-8"))
            if kept and size + more > self._maximum:
                self._bound = digest
                break
            kept[digest] = self._found[digest]
            size += more
        self._found, self._size = kept, size


def _collect(tasks: Sequence[Task], settings: Settings) -> tuple[Counts, list[HeldOutDocument], list[str]]:
    """Counts, held-out documents and examples of failures of all ranges, whatever the runner claims to have done."""
    counts = Counts()
    examples: list[str] = []
    sample = HashSample(settings.sample_bytes)
    for task in tasks:
        path = settings.spill(task)
        if not path.exists():
            raise RuntimeError(
                f"the runner ended, but range {task.range.id} was not read as planned: run the same command again"
            )
        found = json.loads(path.read_text(encoding="utf-8"))
        counts += Counts(**found["counts"])
        examples += found["examples"]
        for row in found["documents"]:
            sample.add(HeldOutDocument(row["id"], bytes.fromhex(row["hash"]), row["text"]))
    return counts, sample.documents(), examples


def _is_done(output: Path, key: str) -> bool:
    """Whether a finished output of the same key is there, every part as its description states."""
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        if manifest["key"] != key:
            return False
        for name, content_hash in manifest["tasks"].items():
            parts = {part: (output / name / f"{part}.jsonl").read_text(encoding="utf-8") for part in ("train", "dev")}
            digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
            if f"sha256:{digest}" != content_hash or not (output / name / "task.json").is_file():
                return False
    except (OSError, ValueError, KeyError):
        return False
    return True
