"""What `pretrain.translate` wrote as synthetic pairs. A target of the Hydra group `corpus`.

A line of it has a real sentence as "source" and what a model made of it as "translations", best first. In a pair for
the other direction the real sentence is the target, and a translation is the source. Must not import apache_beam or
torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from conf.errors import InputError
from conf.files import sha256_file
from pipeline.blanks import from_spans, without_blanks
from pipeline.files import local_file
from pipeline.ranges import Plan, Range, plan_ranges
from pipeline.records import Document, Pair, ReadFailure, without_lone_surrogates
from pipeline.sources import TextCorpus

MANIFEST = "manifest.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class TranslationsCorpus:
    """Synthetic pairs of a directory of translations.

    Attributes:
        directory: what `pretrain.translate` wrote.
        use: of several translations of a sentence the `best` (the first), or `all`, each as a pair.
        range_bytes: text that one worker reads at a time and writes as one shard; a chunk is never cut.
        max_record_bytes: a longer line counts as failed.
    """

    holds: ClassVar[str] = "pairs"

    directory: str
    use: Literal["best", "all"] = "best"
    range_bytes: int = 64 << 20
    max_record_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        self._lines()  # refuses bounds that are none

    def manifest(self) -> dict[str, Any]:
        """The manifest of the translations.

        Raises:
            InputError: there is none, so that they are not complete; or it lacks what is needed, and the field is told.
        """
        path = Path(self.directory) / MANIFEST
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                f"'{self.directory}' (option 'corpus.directory') is not a finished directory of translations: there is "
                f"no {MANIFEST} in it; run `python -m pretrain.translate` to its end"
            ) from error
        except (OSError, ValueError) as error:
            raise InputError(f"'{path}' cannot be read as JSON: {error}") from error
        kinds = {"format_version": int, "tokenizer_hash": str, "direction": dict, "chunks": list, "content_hash": str}
        for name, kind in kinds.items():
            if not isinstance(raw, dict) or not isinstance(raw.get(name), kind):
                raise InputError(
                    f"'{path}' must be the manifest of translations, with '{name}' of type {kind.__name__}, but has "
                    f"{raw.get(name) if isinstance(raw, dict) else raw!r}; name the output of `python -m "
                    "pretrain.translate`"
                )
        if raw["format_version"] != FORMAT_VERSION:
            raise InputError(
                f"'{path}': field 'format_version' must be {FORMAT_VERSION}, but is {raw['format_version']}; "
                "translate anew"
            )
        for number, chunk in enumerate(raw["chunks"]):
            place = chunk.get("path") if isinstance(chunk, dict) else None
            if not isinstance(place, str) or Path(place).is_absolute() or ".." in Path(place).parts:
                raise InputError(
                    f"'{path}': field 'chunks[{number}].path' must be a path inside the directory, but is {place!r}"
                )
        return raw

    def plan(self) -> Plan:
        """The chunks, each verified by its checksum, and their ranges.

        Raises:
            InputError: the directory is not whole; the chunk is named.
        """
        base = Path(self.directory).absolute()
        files = []
        for chunk in self.manifest()["chunks"]:
            path = base / chunk["path"]
            if not path.is_file():
                raise InputError(f"the chunk '{path}' is named in {MANIFEST} but is not there; translate anew")
            found = f"sha256:{sha256_file(path)}"
            if found.removeprefix("sha256:") != str(chunk.get("checksum", "")).removeprefix("sha256:"):
                raise InputError(
                    f"the chunk '{path}' is damaged: its SHA-256 is {found}, but {MANIFEST} states "
                    f"{chunk.get('checksum')}; translate anew"
                )
            files.append(local_file(path, chunk["path"]))
        if sum(file.size for file in files) == 0:
            raise InputError(f"the corpus is empty: '{self.directory}' holds no translations")
        return plan_ranges(files, [False] * len(files), self.range_bytes)

    def read(self, range_: Range) -> Iterator[Pair | ReadFailure]:
        """The pairs of one range, in order, with a `ReadFailure` in the place of each line that is none.

        A sentence without a translation is a pair with an empty source.
        """
        for record in self._lines().read(range_):
            if isinstance(record, ReadFailure):
                yield record
                continue
            found = self._pairs(record)
            if isinstance(found, str):
                detail = f"{record.id.replace(':', ' at byte ')}: {found}"
                yield ReadFailure(record.file, record.offset, "not_a_translation", detail)
            else:
                yield from found

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields."""
        return f"{type(self).__name__},use={self.use!r},max_record_bytes={self.max_record_bytes!r}"

    def _lines(self) -> TextCorpus:
        return TextCorpus(paths=[], format="text", range_bytes=self.range_bytes, max_record_bytes=self.max_record_bytes)

    def _pairs(self, record: Document) -> list[Pair] | str:
        """The pairs of one line, or what is wrong with it."""
        try:
            value = json.loads(record.text)
        except (ValueError, RecursionError) as error:
            return f"expected a JSON object, found what is no JSON: {error}"
        if not isinstance(value, dict) or not isinstance(value.get("source"), str):
            return "expected an object with the key 'source'"
        outputs = value.get("translations")
        if not isinstance(outputs, list):
            return "expected a list under the key 'translations'"
        target, pairs = _outside_text(value["source"]), []
        name = str(value.get("id", record.id))
        for output in (outputs[:1] if self.use == "best" else outputs) or [{"text": "", "score": math.nan}]:
            found = output if isinstance(output, dict) else {}
            text, score = found.get("text"), _number(found.get("score"))
            if not isinstance(text, str) or score is None:
                return f"expected a translation with 'text' and 'score', found {output!r}"[:200]
            dual = math.nan if found.get("dual_score") is None else _number(found["dual_score"])
            if dual is None:
                return f"expected a number or null as 'dual_score', found {output!r}"[:200]
            try:
                source = from_spans(without_lone_surrogates(text), found.get("blanks", ()))
            except (TypeError, ValueError):
                return f"expected 'blanks' to be spans [start, end] of 'text', in order, found {output!r}"[:200]
            pairs.append(Pair(source, target, name, record.file, record.offset, score, dual))
        return pairs


def _outside_text(text: str) -> str:
    return without_blanks(without_lone_surrogates(text))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
