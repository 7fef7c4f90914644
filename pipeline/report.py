"""The data card of a shard directory: one self-contained HTML page. Imports neither Beam nor torch.

It holds no time, so a run that was interrupted ends with the same card as one that was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.files import atomic_write_text
from pipeline.manifest import Manifest
from pipeline.pair_shards import KIND as PAIRS
from pipeline.pair_shards import PairRows
from pipeline.shards import ShardRows
from pipeline.tokenizer import load_tokenizer

REPORT = "report.html"
SAMPLE_ROWS = 6
SHOWN_SOURCES = 40
BAR_WIDTH, BAR_GAP, CHART_HEIGHT = 34, 6, 140


@dataclass(frozen=True)
class Summary:
    """What the sidecars tell beyond the manifest: why records failed, and how long documents are.

    `lengths[b]` counts documents (or sources, where records are pairs) of 2^b to 2^(b + 1) - 1 tokens,
    `target_lengths[b]` such targets.
    """

    failures: dict[str, int]
    examples: list[str]
    lengths: list[int]
    target_lengths: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, sidecars: Iterable[Mapping[str, Any]]) -> Summary:
        """Add up the sidecars of all ranges."""
        failures: Counter[str] = Counter()
        examples: list[str] = []
        lengths: list[int] = []
        target_lengths: list[int] = []
        for sidecar in sidecars:
            failures.update(sidecar["failures"])
            examples.extend(sidecar["examples"])
            lengths = _added(lengths, sidecar["lengths"])
            target_lengths = _added(target_lengths, sidecar.get("target_lengths", []))
        return cls(dict(sorted(failures.items())), examples[:20], lengths, target_lengths)


def _added(some: list[int], more: list[int]) -> list[int]:
    return [a + b for a, b in zip_longest(some, more, fillvalue=0)]


def write_report(directory: str | Path, manifest: Manifest, summary: Summary) -> None:
    """Write `report.html` beside the shards of a manifest that is about to be written."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["size"] = readable_size
    template = environment.get_template("report.html.j2")
    pairs = manifest.kind == PAIRS
    sides = 2 if pairs else 1
    what = "pairs" if pairs else "documents"
    lengths = {"": summary.lengths}
    if pairs:
        lengths = {
            f"Sources ({manifest.languages['source']})": summary.lengths,
            f"Targets ({manifest.languages['target']})": summary.target_lengths,
        }
    splits = []
    for name in ("train", "validation"):
        shards = manifest.split(name)
        rows, tokens = manifest.rows(name), sum(shard.tokens for shard in shards)
        splits.append(
            {
                "name": name,
                "shards": len(shards),
                "rows": rows,
                "tokens": tokens,
                "bytes": sum(shard.bytes for shard in shards),
                "fill": tokens / (sides * rows * manifest.row_length) if rows else None,
            }
        )
    page = template.render(
        manifest=manifest,
        splits=splits,
        summary=summary,
        what=what,
        histograms={
            title: jinja2.utils.markupsafe.Markup(histogram(counts, what)) for title, counts in lengths.items()
        },
        samples=sample_rows(directory, manifest),
        sources=sorted(manifest.sources, key=lambda source: -source["size"])[:SHOWN_SOURCES],
        source_bytes=sum(max(source["size"], 0) for source in manifest.sources),
    )
    atomic_write_text(Path(directory) / REPORT, page)


def readable_size(size: int) -> str:
    """Bytes for a reader: 1,234 -> "1.2 kB"."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def histogram(lengths: list[int], what: str = "documents") -> str:
    """Counts per power of two of `what` as an inline SVG, from the first bin that is not empty to the last."""
    used = [b for b, count in enumerate(lengths) if count]
    if not used:
        return ""
    bins = range(used[0], used[-1] + 1)
    highest = max(lengths)
    width = len(bins) * (BAR_WIDTH + BAR_GAP) + BAR_GAP
    parts = [
        f'<svg viewBox="0 0 {width} {CHART_HEIGHT + 34}" width="{width}" role="img" '
        f'aria-label="{what.capitalize()} by length in tokens">'
    ]
    for place, b in enumerate(bins):
        height = max(1.0, CHART_HEIGHT * lengths[b] / highest) if lengths[b] else 0.0
        left = BAR_GAP + place * (BAR_WIDTH + BAR_GAP)
        label = f"{2**b}" if b < 10 else f"{2 ** (b - 10)}k" if b < 20 else f"{2 ** (b - 20)}M"
        title = escape(f"{2**b:,} to {2 ** (b + 1) - 1:,} tokens: {lengths[b]:,} {what}")
        parts.append(
            f'<rect x="{left}" y="{CHART_HEIGHT + 14 - height:.1f}" width="{BAR_WIDTH}" height="{height:.1f}">'
            f"<title>{title}</title></rect>"
            f'<text x="{left + BAR_WIDTH / 2}" y="{CHART_HEIGHT + 28}">{label}</text>'
        )
    return "".join(parts) + "</svg>"


def sample_rows(directory: str | Path, manifest: Manifest) -> list[list[str]]:
    """The pieces (of a pair: its sides), as text, of a few training rows spread evenly over the directory."""
    tokenizer = load_tokenizer(directory)
    if manifest.kind == PAIRS:
        pairs = PairRows(Path(directory), manifest, "train")
        some = pairs.pairs(_spread(len(pairs)))
        sides = [
            np.split(ids, np.cumsum(lengths)[:-1])
            for ids, lengths in ((some.source_ids, some.source_lengths), (some.target_ids, some.target_lengths))
        ]
        return [[_readable(tokenizer, side) for side in pair] for pair in zip(*sides, strict=True)]
    rows = ShardRows(Path(directory), manifest, "train")
    chosen = _spread(len(rows))
    found = rows.rows(chosen)
    return [
        [
            tokenizer.decode(ids[segments == number].tolist(), skip_special_tokens=True)
            for number in range(1, int(segments.max()) + 1)
        ]
        for ids, segments in zip(found.input_ids, found.segments, strict=True)
    ]


def _spread(rows: int) -> NDArray[np.int64]:
    """The numbers of a few of so many rows."""
    return np.unique(np.linspace(0, rows - 1, min(SAMPLE_ROWS, rows)).astype(np.int64))


def _readable(tokenizer: Tokenizer, ids: NDArray[np.unsignedinteger]) -> str:
    """A side of a pair as text; a tag, unlike [CLS] and [SEP], is shown."""
    begin = ids[1:-1].tolist()
    reserved = tokenizer.get_added_tokens_decoder()
    tags = [reserved[number].content for number in begin[:1] if number in reserved]
    return " ".join([*tags, tokenizer.decode(begin[len(tags) :], skip_special_tokens=True)])
