"""`python -m pretrain.rows run_dir=... step=1234`: which rows a step learned from, and the documents they came from.

Everything is computed anew from the run's configuration: nothing was recorded while it trained. Must not import torch
before a step is looked for: only the objective, which says how it reads shards, brings it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import hydra
import numpy as np
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from conf.command import command
from conf.errors import InputError
from pipeline.records import split_document_key
from pipeline.tokenizer import load_tokenizer
from pretrain.data.mixture import Mixture, Picked, Source, open_mixture
from pretrain.data.pair_batches import PairBatches, PairReading, PairsOfRows
from pretrain.stages import StagePlan, check_ranks, entries, place_of_step, plan

METRICS, PROVENANCE = "metrics.jsonl", "provenance.json"


@dataclass
class RowsOptions:
    """Options of `conf/rows.yaml`."""

    run_dir: str = MISSING
    step: int = MISSING
    format: Literal["table", "jsonl"] = "table"
    text: bool = False
    ranks: int | None = None


@dataclass(frozen=True)
class StepRow:
    """One row of a step: its place in the global batch, who got it, where it lies, and what is packed into it.

    `weight` is 0 for a row on the run's skip list. `documents` are the file and the byte offset (decompressed) of the
    document that each piece of the row is of; of a batch of pairs, the shards and each pair's number in their training
    split. `text` is the text of the pieces or pairs, None where it was not asked for.
    """

    step: int
    place: int
    rank: int
    micro_step: int
    data: str
    content_hash: str
    row: int
    visit: int
    weight: int
    documents: list[dict[str, str | int]]
    text: list[str] | None


@dataclass(frozen=True)
class Run:
    """What a run directory says of the order of its rows."""

    directory: Path
    plans: list[StagePlan]
    seed: int
    ranks: int
    skip_rows: str | None
    log_every: int
    max_steps: int | None
    objective: dict[str, Any]

    def pairs(self) -> PairReading | None:
        """How the run's objective reads pairs; None where it reads packed rows."""
        build = hydra.utils.instantiate(self.objective, _convert_="all")
        found: PairReading | None = build.func.reading(**build.keywords)
        return found


@command("rows", schema=RowsOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Print the rows of `config.step`; see `conf/rows.yaml`."""
    run = read_run(Path(config.run_dir))
    rows = rows_of_step(run, config.step, ranks=config.ranks, text=config.text)
    lines = (json.dumps(_record(row), ensure_ascii=False) for row in rows) if config.format == "jsonl" else table(rows)
    for line in lines:
        print(line)


def read_run(directory: Path) -> Run:
    """Read a run's options. Raises InputError if the directory is not that of a run."""
    path = directory / "config.yaml"
    if not path.is_file():
        raise InputError(f"run_dir must be the directory of a run of `python -m pretrain`, but '{path}' is not there.")
    try:
        options: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
        trainer = options["trainer"]
        sizes = trainer["global_batch_size"], trainer["micro_batch_size"]
        return Run(
            directory=directory,
            plans=plan(options.get("stages"), options["data"], *sizes, options.get("sampling_exponent")),
            seed=options["seed"],
            ranks=options["ranks"],
            skip_rows=options.get("skip_rows"),
            log_every=trainer["log_every"],
            max_steps=trainer["max_steps"],
            objective=options["objective"],
        )
    except (OmegaConfBaseException, YAMLError, KeyError, TypeError, OSError) as error:
        raise InputError(
            f"'{path}' must hold the options of a run of `python -m pretrain`, but something is wrong with it: {error}."
        ) from error


def rows_of_step(run: Run, step: int, *, ranks: int | None = None, text: bool = False) -> list[StepRow]:
    """Return the rows of step `step` (from 1) of a run, in the order of the global batch.

    Raises InputError for a step that the run has not had, for shards that are no longer what it read, and for `ranks`
    that its batches cannot be dealt to.
    """
    reached = min(_last_step_logged(run.directory) + run.log_every, run.max_steps or sys.maxsize)
    if step > reached:
        raise InputError(
            f"step must be one that the run in '{run.directory}' has made, at most {reached}, but is {step}."
        )
    found = entries(run.directory)
    if found and 1 <= step <= found[0].step:
        raise InputError(
            f"step must be one that the run in '{run.directory}' has made, after {found[0].step}, where it began as a "
            f"fork, but is {step}: ask the run it is a fork of."
        )
    entry, first_sample = place_of_step(found, step, [stage.global_batch_size for stage in run.plans])
    stage = run.plans[entry.stage]
    ranks = ranks if ranks is not None else entry.ranks or run.ranks
    if ranks < 1:
        raise InputError(f"ranks must be at least 1, but is {ranks}.")
    micro_batch_size = entry.micro_batch_size or stage.micro_batch_size
    check_ranks([replace(stage, micro_batch_size=micro_batch_size)], ranks)
    mixture = open_mixture(stage.data, skip=run.skip_rows, sampling_exponent=stage.sampling_exponent, pairs=run.pairs())
    _require_unchanged(run.directory, mixture)
    picked = mixture.pick(run.seed, first_sample, stage.global_batch_size)
    used = mixture.used(picked)
    texts = _texts(mixture, picked) if text else [None] * len(picked.rows)
    rows = []
    for place in range(stage.global_batch_size):
        micro_step, rank = divmod(place // micro_batch_size, ranks)
        source = mixture.sources[picked.source[place]]
        row = int(picked.rows[place])
        rows.append(
            StepRow(
                step=step,
                place=place,
                rank=rank,
                micro_step=micro_step,
                data=str(source.directory),
                content_hash=source.reader.content_hash,
                row=row,
                visit=int(picked.visits[place]),
                weight=int(used[place]),
                documents=_documents(source, row),
                text=texts[place],
            )
        )
    return rows


def _last_step_logged(directory: Path) -> int:
    """Return the last step in a run's metrics (a run may have made up to a log interval more)."""
    last = 0
    path = directory / METRICS
    if not path.is_file():
        raise InputError(f"the run in '{directory}' must have made a step, but has no {METRICS}.")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):  # the last may be cut off by a kill
                last = max(last, int(json.loads(line)["step"]))
    return last


def _require_unchanged(directory: Path, mixture: Mixture) -> None:
    """Raise InputError if the run did not read these very shards, by the hashes in its provenance."""
    path = directory / PROVENANCE
    if not path.is_file():
        return
    read = set(json.loads(path.read_text(encoding="utf-8"))["inputs"].values())
    for source in mixture.sources:
        if source.reader.manifest.content_hash not in read:
            raise InputError(
                f"the shards in '{source.directory}' must be those that the run in '{directory}' read, but their "
                "content hash is another: they were rebuilt since, and its rows are gone."
            )


def _documents(source: Source, row: int) -> list[dict[str, str | int]]:
    """Where the pieces of a row are from; of pairs, their numbers in the shards."""
    if isinstance(source.reader, PairBatches):
        return [{"file": str(source.directory), "offset": pair} for pair in source.reader.pairs_of(row).tolist()]
    sources = source.reader.manifest.sources
    found: list[dict[str, str | int]] = []
    for key in source.reader.documents(row).tolist():
        file, offset = split_document_key(key)
        found.append({"file": sources[file]["name"] if file < len(sources) else f"file {file}", "offset": offset})
    return found


def _texts(mixture: Mixture, picked: Picked) -> list[list[str] | None]:
    """Return the text of each piece of each row, without special tokens."""
    tokenizer = load_tokenizer(mixture.sources[0].directory)
    rows = mixture.read(picked)
    texts: list[list[str] | None] = []
    if isinstance(rows, PairsOfRows):
        pairs = rows.pairs
        sides = [
            tokenizer.decode_batch(
                [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])], skip_special_tokens=True
            )
            for ids, lengths in (
                (pairs.source_ids, pairs.source_lengths),
                (pairs.target_ids, pairs.target_lengths),
            )
        ]
        said = [f"{source} => {target}" for source, target in zip(*sides, strict=True)]
        return [[said[i] for i in np.flatnonzero(rows.row == row)] for row in range(len(picked.rows))]
    for ids, segments in zip(rows.input_ids, rows.segments, strict=True):
        pieces = [ids[segments == piece].tolist() for piece in range(1, int(np.max(segments, initial=0)) + 1)]
        texts.append(tokenizer.decode_batch(pieces, skip_special_tokens=True))
    return texts


def _record(row: StepRow) -> dict[str, Any]:
    record = asdict(row)
    if row.text is None:
        del record["text"]
    return record


def table(rows: Sequence[StepRow]) -> Iterator[str]:
    """Yield the lines of a table, each text on lines of its own below its row."""
    head = ("place", "rank", "micro-step", "data", "row", "visit", "weight")
    cells = [
        tuple(map(str, (row.place, row.rank, row.micro_step, row.data, row.row, row.visit, row.weight))) for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]

    def line(values: Sequence[str], documents: str) -> str:
        aligned = (v.ljust(w) if n == "data" else v.rjust(w) for n, v, w in zip(head, values, widths, strict=True))
        return "  ".join((*aligned, documents))

    yield line(head, "documents (file:offset)")
    for row, values in zip(rows, cells, strict=True):
        yield line(values, ", ".join(f"{document['file']}:{document['offset']}" for document in row.documents))
        for piece in row.text or ():
            yield f"    | {piece}"


if __name__ == "__main__":
    main()
