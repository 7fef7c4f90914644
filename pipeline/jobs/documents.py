"""The documents job: a corpus -> cleaned documents as compressed jsonl, one file a range, and their manifest.

It makes of a corpus that is slow to read (source code, another store) one that every later job reads at disk speed:
`corpus=text corpus.paths='[OUTPUT/documents/*.jsonl.gz]'`. Never imports torch; Beam is imported when it runs.
"""

import functools
import gzip
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conf.files import atomic_write_text, atomic_writer, sha256_file
from pipeline.cleaning.chain import Cleaning, Dropped, Step
from pipeline.jobs import shard_directory
from pipeline.jobs.code_version import code_version
from pipeline.jobs.following import follow
from pipeline.jobs.reading import Task, fingerprint, refuse_nothing, tasks_of
from pipeline.manifest import Counts
from pipeline.ranges import Plan
from pipeline.records import ReadFailure
from pipeline.runners import Runner
from pipeline.sources import Corpus

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
KIND = "documents"
FOLDER = "documents"
MANIFEST = "manifest.json"
COMPRESSION_LEVEL = 4  # twice the speed of gzip's own default for 5 % more bytes
EXAMPLES = 10


@dataclass(frozen=True)
class Settings:
    """What every worker needs; picklable."""

    corpus: Corpus
    cleaning: Step
    directory: str

    def documents(self, task: Task) -> Path:
        """The file of a range's documents."""
        return Path(self.directory) / FOLDER / f"{task.range.id}.jsonl.gz"

    def sidecar(self, task: Task) -> Path:
        """The file that marks a range as complete, written after its documents."""
        return Path(self.directory) / FOLDER / f"{task.range.id}.json"


@dataclass(frozen=True)
class DocumentsJob:
    """Options of the job.

    Attributes:
        cleaning: the step that each document goes through.
    """

    cleaning: Any = field(default_factory=Cleaning)

    def run(self, corpus: Corpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write `output`/documents and the manifest; go on with what is there already.

        The tokenizer is not used: documents are text.

        Raises:
            InputError: a corpus of which nothing is left.
            RuntimeError: the runner did not do every range.
        """
        plan = corpus.plan()
        settings = Settings(corpus, self.cleaning, str(output))
        tasks = tasks_of(plan, corpus, self.cleaning)
        key = fingerprint(KIND, FORMAT_VERSION, [(task.range.id, task.inputs) for task in tasks])
        if _is_done(output, key, tasks, settings):
            logger.info("'%s' is complete for these inputs and options: nothing to do", output)
            return
        (output / MANIFEST).unlink(missing_ok=True)
        (output / FOLDER).mkdir(exist_ok=True)
        _remove_stale(tasks, settings)
        with follow("documents", [settings.sidecar(task) for task in tasks]):
            runner.run(functools.partial(build_pipeline, tasks=tasks, settings=settings), units=len(tasks))
        _write_manifest(plan, key, settings, _collect(tasks, settings))


def build_pipeline(pipeline: Any, tasks: Sequence[Task], settings: Settings) -> None:
    """Add the job's transforms to a Beam pipeline: Create, Reshuffle and one Map, which every runner does alike."""
    import apache_beam as beam

    ranges = pipeline | "ranges" >> beam.Create(list(tasks)) | "spread" >> beam.Reshuffle()
    _ = ranges | "write documents" >> beam.Map(write_range, settings=settings)


def write_range(task: Task, settings: Settings) -> str:
    """Read, clean and write one range; the sidecar last. Returns the range's id.

    The file's bytes depend on the documents alone: no time and no name goes into the gzip header. A range that is
    complete for the same inputs is left as it is.
    """
    if is_complete(task, settings, checksum=True):
        return task.range.id
    sidecar = settings.sidecar(task)
    sidecar.unlink(missing_ok=True)
    documents = settings.documents(task)
    documents.parent.mkdir(parents=True, exist_ok=True)
    read = kept = 0
    dropped: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    examples: list[str] = []
    content = hashlib.sha256()
    size = 0
    with (
        atomic_writer(documents) as handle,
        gzip.GzipFile("", "wb", COMPRESSION_LEVEL, fileobj=handle, mtime=0) as compressed,
    ):
        for record in settings.corpus.read(task.range):
            read += 1
            if isinstance(record, ReadFailure):
                failures[record.reason] += 1
                examples += [record.detail] if len(examples) < EXAMPLES else []
                continue
            try:
                text = settings.cleaning(record.text)
            except Exception as error:  # a step of the user's own: it costs the record, not the run
                failures["cleaning_error"] += 1
                detail = f"{record.id}: cleaning raised {type(error).__name__}: {error}"
                examples += [detail] if len(examples) < EXAMPLES else []
                continue
            if isinstance(text, Dropped):
                dropped[text.reason] += 1
                continue
            kept += 1
            line = json.dumps({"id": record.id, "text": text}, ensure_ascii=False).encode() + b"\n"
            content.update(line)
            size += len(line)
            compressed.write(line)
    summary = {
        "range": task.range.id,
        "inputs": task.inputs,
        "file": {
            "path": f"{FOLDER}/{documents.name}",
            "documents": kept,
            "bytes": documents.stat().st_size,
            "content_bytes": size,
            "content": f"sha256:{content.hexdigest()}",
            "checksum": f"sha256:{sha256_file(documents)}",
        },
        "counts": asdict(Counts(read, kept, dict(sorted(dropped.items())), failures.total())),
        "failures": dict(sorted(failures.items())),
        "examples": examples,
    }
    atomic_write_text(sidecar, json.dumps(summary, indent=1, sort_keys=True) + "\n")
    return task.range.id


def read_sidecar(task: Task, settings: Settings) -> dict[str, Any] | None:
    """A range's sidecar if it is there and for the same inputs, else None."""
    found = shard_directory.read_sidecar(settings.sidecar(task))
    return found if found is not None and found.get("inputs") == task.inputs else None


def is_complete(task: Task, settings: Settings, checksum: bool) -> bool:
    """Whether a range's sidecar is for the same inputs and its file is there as it states."""
    summary = read_sidecar(task, settings)
    path = settings.documents(task)
    if summary is None or not path.is_file() or path.stat().st_size != summary["file"]["bytes"]:
        return False
    return not checksum or f"sha256:{sha256_file(path)}" == summary["file"]["checksum"]


def _is_done(output: Path, key: str, tasks: Sequence[Task], settings: Settings) -> bool:
    try:
        manifest = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return manifest.get("key") == key and all(is_complete(task, settings, checksum=True) for task in tasks)


def _remove_stale(tasks: Sequence[Task], settings: Settings) -> None:
    """Remove what other inputs or a killed run have left, so that a pattern on the folder matches this run's alone."""
    wanted = {path for task in tasks for path in (settings.documents(task), settings.sidecar(task))}
    for path in (Path(settings.directory) / FOLDER).iterdir():
        if path not in wanted:
            path.unlink()
    for task in tasks:
        if read_sidecar(task, settings) is None:
            settings.sidecar(task).unlink(missing_ok=True)


def _collect(tasks: Sequence[Task], settings: Settings) -> list[dict[str, Any]]:
    """The sidecars of all ranges, in order, whatever the runner claims to have done."""
    summaries = []
    for task in tasks:
        summary = read_sidecar(task, settings)
        if summary is None or not is_complete(task, settings, checksum=False):
            raise RuntimeError(
                f"the runner ended, but range {task.range.id} was not written as planned: run the same command again"
            )
        summaries.append(summary)
    return summaries


def _write_manifest(plan: Plan, key: str, settings: Settings, summaries: Sequence[dict[str, Any]]) -> None:
    counts = sum((Counts(**summary["counts"]) for summary in summaries), Counts())
    refuse_nothing(counts, [example for summary in summaries for example in summary["examples"]])
    files = [summary["file"] for summary in summaries]
    failures = sum((Counter(summary["failures"]) for summary in summaries), Counter())
    manifest = {
        "format_version": FORMAT_VERSION,
        "kind": KIND,
        "key": key,
        "config": {"corpus": settings.corpus.reading_key(), "cleaning": repr(settings.cleaning)},
        "counts": asdict(counts),
        "failures": dict(sorted(failures.items())),
        "examples": [example for summary in summaries for example in summary["examples"]][:EXAMPLES],
        "files": files,
        # Over what the files hold, not over their bytes: another version of zlib packs the same text otherwise.
        "content_hash": f"sha256:{hashlib.sha256(json.dumps([f['content'] for f in files]).encode()).hexdigest()}",
        "sources": plan.sources(),
        "code_version": code_version(),
    }
    output = Path(settings.directory)
    atomic_write_text(output / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    logger.info(
        "%d records -> %d documents (%.1f MB), %d dropped (%s), %d failed, in '%s'",
        counts.read,
        counts.kept,
        sum(file["content_bytes"] for file in files) / 1e6,
        sum(counts.dropped.values()),
        ", ".join(f"{reason} {number}" for reason, number in counts.dropped.items()) or "none",
        counts.failed,
        output,
    )
