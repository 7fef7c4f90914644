"""`python -m pretrain.compare_translations`: which of several models translates a test set best, and how sure that is.

Writes `scores.json`, `table.txt` and `provenance.json` into `output`, and prints the table. Must not import torch.
"""

import glob
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import MISSING, DictConfig, OmegaConf

from conf.command import command
from conf.errors import InputError

# What a comparison writes: a folder that holds anything else is not overwritten.
_WRITTEN = ("table.txt", "scores.json", "provenance.json", "config.yaml")


@dataclass
class CompareOptions:
    """Options of `conf/compare_translations.yaml`."""

    # Options that name what is there before the command begins; a chain looks for it before its first step.
    reads: ClassVar[tuple[str, ...]] = ("reference", "sources", "bitext")

    arms: dict[str, Any] = MISSING
    reference: str = MISSING
    sources: str | list[str] | None = None
    language: str = MISSING
    group_key: str | None = None
    cluster_key: str | None = None
    bitext: str | None = None
    resamples: int = 1000
    output: str = MISSING

    @staticmethod
    def check_inputs(config: DictConfig) -> None:
        """Compare what is read, before any work. Raises InputError for files that do not belong together."""
        from pretrain.translation.references import check_reference

        plain: Any = OmegaConf.to_container(config, resolve=True)
        if plain["sources"] is not None:
            check_reference(plain["reference"], plain["sources"])


@command("compare_translations", schema=CompareOptions, directory="output")
def main(config: DictConfig) -> None:
    """Compare the arms of `config`; see `conf/compare_translations.yaml`."""
    from conf.files import atomic_write_text, prepare_own_directory, sha256_file
    from conf.provenance import write_provenance
    from pretrain.evaluation.translation_arms import LOOKUP, compare
    from pretrain.evaluation.translation_table import as_text

    arms = _arms(OmegaConf.to_container(config.arms, resolve=True))
    if config.resamples < 2:
        raise InputError(f"option 'resamples' must be at least 2, but is {config.resamples}")
    CompareOptions.check_inputs(config)
    read = {name: [read_translations(Path(folder)) for folder in folders] for name, folders in arms.items()}
    first = next(iter(read.values()))[0]
    items = read_items(Path(config.reference), first, config.group_key, config.cluster_key)
    texts = {
        name: [_in_order(run, items, folder) for run, folder in zip(runs, arms[name], strict=True)]
        for name, runs in read.items()
    }
    bitext = [] if config.bitext is None else read_bitext(Path(config.bitext))
    _check_items(items, config.reference)
    if bitext and LOOKUP in arms:
        raise InputError(
            f"an arm cannot have the name '{LOOKUP}' beside bitext, which has its own: choose another name"
        )
    output = prepare_own_directory(config.output, _WRITTEN, "an earlier comparison")
    found = compare(items, texts, config.language, bitext, config.resamples)
    table = as_text(found)
    inputs = {"reference": f"sha256:{sha256_file(Path(config.reference))}"}
    write_provenance(output, config, inputs, {})
    atomic_write_text(output / "table.txt", table)
    atomic_write_text(output / "scores.json", json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n")
    print(table, end="")


@dataclass(frozen=True)
class Translation:
    """The best translation of a source, and the source."""

    source: str
    text: str


def _arms(given: Any) -> dict[str, list[str]]:
    """The folders of each arm. Raises InputError unless they are names with a folder or a list of folders each."""
    arms: dict[str, list[str]] = {}
    for name, value in (given if isinstance(given, Mapping) else {}).items():
        folders = [value] if isinstance(value, str) else value
        if not isinstance(folders, list) or not folders or not all(isinstance(folder, str) for folder in folders):
            arms = {}
            break
        arms[str(name)] = [found for folder in folders for found in _matching(folder)]
    if not arms:
        raise InputError(
            "option 'arms' must give each name a folder of translations, a pattern, or a list of them, but is "
            f"{given!r}"
        )
    return arms


def _matching(pattern: str) -> list[str]:
    """The folders that a pattern stands for; one without a wildcard stands for itself."""
    if not glob.has_magic(pattern):
        return [pattern]
    found = sorted(glob.glob(pattern))  # noqa: PTH207, Path.glob takes no absolute pattern
    if not found:
        raise InputError(f"option 'arms' names '{pattern}', which matches no folder")
    return found


def read_translations(directory: Path) -> dict[str, Translation]:
    """The best translation of each source by its id, in the order of the input.

    Raises InputError for a folder that is not finished or was changed, or in which an id stands twice.
    """
    from pretrain.translation.output import verified_lines

    found = {}
    for line in verified_lines(directory):
        best = line["translations"][0]["text"] if line["translations"] else ""
        name = str(line["id"])
        if name in found:
            raise InputError(
                f"each source of '{directory}' must have an id of its own, but '{name}' stands twice: give the input "
                "ids that differ (id_key), and translate anew"
            )
        found[name] = Translation(line["source"], best)
    return found


def read_items(
    path: Path, translations: Mapping[str, Translation], group_key: str | None, cluster_key: str | None
) -> list[Any]:
    """The test set, in the order of its file: sources are those of the translations.

    Raises InputError for a line without what is asked for, an id that was not translated, or another number of lines
    than there are translations.
    """
    from pipeline.compression import strip_suffix
    from pipeline.sources import JSONL_SUFFIXES
    from pretrain.evaluation.translation_arms import ALL, Item

    lines = _lines(path, "reference")
    if len(lines) != len(translations):
        raise InputError(
            f"'{path}' must have a reference for each of the {len(translations)} translations, but has {len(lines)} "
            "lines"
        )
    if not strip_suffix(path.name).lower().endswith(JSONL_SUFFIXES):
        if group_key or cluster_key:
            raise InputError("group_key and cluster_key are keys of a jsonl reference; leave them out for a text file")
        known = zip(translations.items(), lines, strict=True)
        return [Item(name, one.source, reference) for (name, one), reference in known]
    items = []
    keys = [key for key in ("id", "reference", group_key, cluster_key) if key is not None]
    seen = set()
    for number, line in enumerate(lines, start=1):
        wanted = {key: str(value) for key, value in _values(line, keys, f"'{path}', line {number}").items()}
        if wanted["id"] in seen:
            raise InputError(f"'{path}', line {number}: the id '{wanted['id']}' stands in an earlier line already")
        seen.add(wanted["id"])
        if wanted["id"] not in translations:
            raise InputError(f"'{path}', line {number}: there is no translation with the id '{wanted['id']}'")
        items.append(
            Item(
                wanted["id"],
                translations[wanted["id"]].source,
                wanted["reference"],
                wanted[group_key] if group_key else ALL,
                wanted[cluster_key] if cluster_key else None,
            )
        )
    return items


def read_bitext(path: Path) -> list[tuple[str, str]]:
    """Pairs of a tsv. Raises InputError for a line that is no pair, and a file without one."""
    pairs = []
    for number, line in enumerate(_lines(path, "bitext"), start=1):
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError(f"'{path}', line {number}: expected source, a tab and target, but found no tab")
        pairs.append((columns[0], columns[1]))
    if not pairs:
        raise InputError(f"option 'bitext': '{path}' must hold a pair a line, but is empty")
    return pairs


def _lines(path: Path, option: str) -> list[str]:
    """The lines of a text file, plain or compressed, which end at LF or CRLF, the last one also at the file's end."""
    from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed

    try:
        with path.open("rb") as handle:
            compression = compression_of(handle.read(MAGIC_BYTES))
            handle.seek(0)
            data = decompressed(handle, compression, 1 << 16).read()
    except DAMAGE as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"option '{option}': the file '{path}' cannot be read: {why}") from error
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"option '{option}': '{path}', line {number} is no UTF-8: mend the line, or the file"
        ) from error
    lines = lines[:-1] if lines[-1] == "" else lines
    return [line.removesuffix("\r") for line in lines]


def _values(line: str, keys: Sequence[str], place: str) -> dict[str, Any]:
    """What a JSON object has under each of the keys."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: expected a JSON object, but found what is no JSON: {error}") from error
    missing = [key for key in keys if not isinstance(record, dict) or key not in record]
    if missing:
        found = ", ".join(record) if isinstance(record, dict) else repr(record)
        raise InputError(f"{place}: expected an object with the key '{missing[0]}', but found {found}")
    return {key: record[key] for key in keys}


def _check_items(items: Sequence[Any], reference: str) -> None:
    """Refuse a test set, or a part of it, of which no interval can be told."""
    clusters: dict[str, set[str]] = {}
    for item in items:
        clusters.setdefault(item.group, set()).add(item.cluster or item.id)
    if not items:
        raise InputError(f"the test set is empty: '{reference}' has no reference, and there is no translation")
    for group, found in clusters.items():
        if len(found) < 2:
            raise InputError(
                f"an interval needs at least two sentences (of two clusters, where cluster_key is given), but the part "
                f"'{group}' of '{reference}' has one: leave group_key away, or give more"
            )


def _in_order(run: Mapping[str, Translation], items: Sequence[Any], folder: str) -> list[str]:
    missing = [item.id for item in items if item.id not in run]
    if missing or len(run) != len(items):
        what = f"lacks '{missing[0]}'" if missing else f"has {len(run)} sentences, not {len(items)}"
        raise InputError(f"all arms must have translated the same test set, but '{folder}' {what}")
    return [run[item.id].text for item in items]


if __name__ == "__main__":
    main()
