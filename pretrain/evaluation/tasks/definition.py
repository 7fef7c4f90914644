"""What a task is as data: its items, where they are read from, labels, metrics and published scores.

Knows files and rows, no model: must not import torch. A task is one file that gives a `TaskDefinition`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile, TaskFiles, ends_with
from pretrain.evaluation.sources.hub import HubData, hub_rows
from pretrain.evaluation.sources.rows import Row, Split

SPLITS: tuple[Split, ...] = ("train", "dev", "test")
Kind = Literal["classification", "regression", "choice", "span", "minimal_pair"]


@dataclass(frozen=True)
class TextItem:
    """A text or a pair of texts to classify or to score. `label` is None where it is hidden."""

    id: str
    text_a: str
    text_b: str | None
    label: int | float | None
    group: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChoiceItem:
    """Multiple choice: with option i the text reads `prefix + options[i] + suffix`, spaces included."""

    id: str
    prefix: str
    options: tuple[str, ...]
    suffix: str
    label: int | None
    group: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SpanItem:
    """Does `span_b`, a pronoun, refer to `span_a`? Characters [start, end) of `text`."""

    id: str
    text: str
    span_a: tuple[int, int]
    span_b: tuple[int, int]
    label: int | None
    group: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PairItem:
    """A minimal pair: `good` should be more likely than `bad`."""

    id: str
    good: str
    bad: str
    phenomenon: str
    group: str
    facts: Mapping[str, str] = field(default_factory=dict)


Item: TypeAlias = TextItem | ChoiceItem | SpanItem | PairItem


@dataclass(frozen=True)
class Anchor:
    """A published score, as a fraction of 1 (a correlation as it is). `system` is "human" for the human level.

    `tuned` says that the system learnt from the set's training rows: beside a zero-shot score not like with like.
    """

    system: str
    value: float
    metric: str
    split: Split
    source: str
    tuned: bool = True


@dataclass(frozen=True)
class Gap:
    """A difference that a behavioural report shows: the accuracy where `fact` is `first` less that where it is
    `second`; with `within`, besides, for each value of that fact by itself. The fact `label` is the right label."""

    fact: str
    first: str
    second: str
    within: str | None = None


@dataclass(frozen=True)
class Trend:
    """A correlation that a behavioural report shows as `name`, over the values of the fact `unit` (occupations).

    A unit's lean is the share of its items answered with option number `option` where `fact` is `first`, less where it
    is `second`; it is correlated (Pearson) with the number that the fact `figure` gives for the unit.
    """

    name: str
    option: int
    fact: str
    first: str
    second: str
    unit: str
    figure: str


@dataclass(frozen=True)
class Checks:
    """A task's items are the texts of a check list (`checklist`): they have no labels and are judged case by case.

    `tolerance` is how far a probability may move against what a case expects of it.
    """

    tolerance: float

    def __post_init__(self) -> None:
        """Raise InputError for a tolerance that is none."""
        if not 0.0 <= self.tolerance < 1.0:
            raise InputError(f"'tolerance' must be at least 0 and below 1, but is {self.tolerance}")


@dataclass(frozen=True)
class Layout:
    """One way in which a set is found on disk.

    `files` gives the patterns of each split's files, all of which must be there, in the order `read` wants them;
    a wild card may stand for several. `folders` are the names of the folder around them (patterns of one or more
    folders); without any the file names speak for themselves.
    """

    name: str
    files: Mapping[Split, tuple[str, ...]]
    read: Callable[[Sequence[DataFile], Split], Iterator[Item]]
    folders: tuple[str, ...] = ()


@dataclass(frozen=True)
class HubSource:
    """The same set on the Hugging Face hub: data set, configuration, names of splits, and the item of a row."""

    path: str
    config: str | None
    splits: Mapping[Split, str]
    item: Callable[[Row], Item | Iterable[Item]]


@dataclass(frozen=True)
class Location:
    """A layout that was found: at which folder, and the files of each split that are all there."""

    layout: Layout
    folder: tuple[str, ...]
    files: Mapping[Split, tuple[DataFile, ...]]


@dataclass(frozen=True)
class TaskDefinition:
    """A task as data.

    `labels` are names by number, empty for regression, choices and minimal pairs. The first of `metrics` decides
    early stopping. `scored` is the split whose labels are public, the one a score is of. `home` says where the set can
    be had. `folds` maps labels of a richer label set onto this one's (a three-label NLI head scored on two labels).
    `slices` (each a tuple of facts, whose combinations of values get an accuracy each), `gaps` and `trends` are what a
    behavioural report shows of the set; the fact `label` is the right label. `made` gives the items of a set that is
    built here and read from nowhere; `checks` marks a check list.
    `version` changes whenever an item would: with other code the same files must not give other items in silence.
    """

    name: str
    version: int
    kind: Kind
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    layouts: tuple[Layout, ...]
    home: str
    scored: Split = "dev"
    hub: HubSource | None = None
    anchors: tuple[Anchor, ...] = ()
    folds: Mapping[str, str] = field(default_factory=dict)
    slices: tuple[tuple[str, ...], ...] = ()
    gaps: tuple[Gap, ...] = ()
    trends: tuple[Trend, ...] = ()
    checks: Checks | None = None
    made: Callable[[], Iterator[Item]] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for a name that cannot be a file's and part of a signature, or for a label named twice."""
        if not self.name or self.name.startswith(".") or any(sign in "/\\|" or sign < " " for sign in self.name):
            raise InputError(
                f"the name of a task is part of file names and signatures: it must not be empty, begin with a dot or "
                f"hold a slash, a backslash, '|' or a line break, but is {self.name!r}"
            )
        if len(set(self.labels)) < len(self.labels):
            raise InputError(
                f"the labels of task {self.name} must have different names, but are {', '.join(self.labels)}"
            )

    def read(self, files: TaskFiles | HubData, split: Split) -> list[Item]:
        """The items of a split, in the order of the files.

        All splits come from one place, the nearest that has the scored split: a copy found elsewhere is never mixed
        in. `files.used` then names what was read.

        Raises:
            InputError: the split is not there (what was looked for, where, and where it can be had), or a row cannot
                be read.
        """
        if isinstance(files, HubData):
            if self.hub is None:
                raise InputError(f"task {self.name} is not read from the hub: get it from {self.home}")
            if split not in self.hub.splits:
                raise InputError(
                    f"task {self.name} has no {split} split on the hub: it has {', '.join(self.hub.splits)}"
                )
            hub = self.hub
            rows = hub_rows(hub.path, hub.config, hub.splits[split], split, files, self.name)
            found = _flat(map(hub.item, rows))
        else:
            location = self.locate(files)
            if location is None or split not in location.files:
                raise InputError(self.missing(files, split))
            files.used.extend(file.name for file in location.files[split])
            found = location.layout.read(location.files[split], split)
        items = list(_distinct(found))
        if not items:
            raise InputError(f"task {self.name}: the {split} split has no row in {', '.join(files.used[-3:])}")
        return items

    def locate(self, files: TaskFiles) -> Location | None:
        """Where the set lies: the nearest folder that has the scored split, else the nearest with any; None if none.

        Raises:
            InputError: two such folders are equally near and differ, so that either could be meant.
        """
        locations = [location for layout in self.layouts for location in _locations(layout, files, named=True)]
        if files.own and not locations:
            locations = [location for layout in self.layouts for location in _locations(layout, files, named=False)]
        complete = [location for location in locations if self.scored in location.files] or locations
        if not complete:
            return None
        # Of places equally near, the one with more splits; then the layout named first: RTE is the same set in GLUE and
        # in SuperGLUE.
        chosen = min(complete, key=lambda location: (len(location.folder), -len(location.files)))
        for other in complete:
            near = len(other.folder) == len(chosen.folder) and other.folder != chosen.folder
            if near and other.layout is chosen.layout and _differ(chosen, other):
                names = " and ".join(f"'{_first_name(location)}'" for location in (chosen, other))
                raise InputError(f"task {self.name} was found twice, {names} differ: give the folder of one of them")
        return chosen

    def missing(self, files: TaskFiles, split: Split) -> str:
        """One sentence: which files of a split were looked for, where, and where they can be had."""
        location = self.locate(files)
        layouts = self._layouts_with(split, location)
        if not layouts:
            known = [name for name in SPLITS if any(name in layout.files for layout in self.layouts)]
            return f"task {self.name} has no {split} split: it has {', '.join(known)}"
        wanted = " or ".join(f"{_shown(layout, split)} ({layout.name})" for layout in layouts)
        beside = f" beside '{_first_name(location)}'" if location is not None else ""
        place = f"below '{files.root}'{beside}"
        return f"task {self.name} lacks its {split} split: expected {wanted} {place}, from {self.home}"

    def wanted(self, files: TaskFiles, split: Split) -> str:
        """`missing` in short, for a list of tasks: the files of the layout named first, and where they can be had."""
        layouts = self._layouts_with(split, self.locate(files))
        if not layouts:
            return f"has no {split} split"
        count = len(layouts) - 1
        others = f", or {count} other layout{'s' * (count > 1)}" if count else ""
        return f"{_shown(layouts[0], split)} ({layouts[0].name}{others}), from {self.home}"

    def _layouts_with(self, split: Split, location: Location | None) -> list[Layout]:
        """The layouts that have a split; only that of `location` if it is one of them."""
        layouts = [layout for layout in self.layouts if split in layout.files]
        if location is None:
            return layouts
        return [layout for layout in layouts if layout is location.layout] or layouts


def format_hash(definition: TaskDefinition, items: Iterable[Item]) -> str:
    """SHA-256 over the task's name and version and all of its items in their order: what was read, as it was read."""
    digest = hashlib.sha256(f"{definition.name}.{definition.version}\n".encode())
    for item in items:
        digest.update(json.dumps(asdict(item), ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def each(
    reader: Callable[[DataFile, Split], Iterator[Row]], item: Callable[[Row], Item | Iterable[Item]]
) -> Callable[[Sequence[DataFile], Split], Iterator[Item]]:
    """A layout's `read`: every row of every file becomes an item, or several."""

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        for file in files:
            yield from _flat(map(item, reader(file, split)))

    return read


def _flat(items: Iterable[Item | Iterable[Item]]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, TextItem | ChoiceItem | SpanItem | PairItem):
            yield item
        else:
            yield from item


def _distinct(items: Iterable[Item]) -> Iterator[Item]:
    """Items whose id was there before get `#2`, `#3` ...: results are kept by id."""
    seen: dict[str, int] = {}
    for item in items:
        seen[item.id] = seen.get(item.id, 0) + 1
        yield item if seen[item.id] == 1 else replace(item, id=f"{item.id}#{seen[item.id]}")


def _locations(layout: Layout, files: TaskFiles, named: bool) -> list[Location]:
    """Every folder that has at least one split of the layout whole; with `named` only folders of the layout's names."""
    matches: dict[tuple[str, ...], dict[str, list[DataFile]]] = {}
    for pattern in {pattern for patterns in layout.files.values() for pattern in patterns}:
        depth = pattern.count("/") + 1
        for file in files.find(pattern):
            folder = file.place[:-depth]
            fits = any(ends_with(folder, name.lower().split("/")) for name in layout.folders)
            if fits or not named or not layout.folders:
                matches.setdefault(folder, {}).setdefault(pattern, []).append(file)
    locations = []
    for folder, by_pattern in sorted(matches.items(), key=lambda entry: (len(entry[0]), entry[0])):
        whole: dict[Split, tuple[DataFile, ...]] = {}
        for split, patterns in layout.files.items():
            if all(pattern in by_pattern for pattern in patterns):
                whole[split] = tuple(
                    file for pattern in patterns for file in _unambiguous(by_pattern[pattern], "*" in pattern)
                )
        if whole:
            locations.append(Location(layout, folder, whole))
    return locations


def _unambiguous(found: list[DataFile], several: bool) -> list[DataFile]:
    """One file per place: an archive beside the folder unpacked from it is one set, if the two agree."""
    by_place: dict[tuple[str, ...], DataFile] = {}
    for file in found:
        first = by_place.setdefault(file.place, file)
        if first is not file and first.read() != file.read():
            raise InputError(
                f"'{first.name}' and '{file.name}' should be the same file, but differ: remove one of them"
            )
    files = [by_place[place] for place in sorted(by_place)]
    return files if several else files[:1]


def _differ(one: Location, other: Location) -> bool:
    return any(
        [file.read() for file in one.files[split]] != [file.read() for file in other.files.get(split, ())]
        for split in one.files
    )


def _first_name(location: Location) -> str:
    return next(iter(location.files.values()))[0].name


def _shown(layout: Layout, split: Split) -> str:
    folder = f"{layout.folders[0]}/" if layout.folders else ""
    return " and ".join(folder + pattern for pattern in layout.files[split])
