"""Check lists (Ribeiro et al. 2020) as task definitions: a user's jsonl, or cases from templates. No torch here.

A case holds one or more texts (or pairs of texts) that are judged together, by its type:

- MFT, minimum functionality: each text must get the label (or one of the labels);
- INV, invariance: all texts must get the same label, whichever;
- DIR, directional expectation: the probability of the label must move `up` or `down` from the first text to each other
  one, or at least not by more than a tolerance against it.

A row of the jsonl is a case: `{"test": "names", "capability": "robustness", "type": "INV", "texts": ["Ann likes it.",
"Tom likes it."]}`; a pair is a list of two texts. `label` (a name, or a list of names) is for MFT and DIR, `direction`
for DIR; `group` names what cases have in common, such as their template, for the interval.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Literal, get_args

from pretrain.evaluation.challenge.probes import CheckType, Direction, Probes, build_cases
from pretrain.evaluation.challenge.probes_entailment import ENTAILMENT
from pretrain.evaluation.challenge.probes_paraphrase import PARAPHRASE
from pretrain.evaluation.challenge.probes_sentiment import SENTIMENT
from pretrain.evaluation.metrics import PASS_RATE
from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import Checks, Item, Layout, TaskDefinition, TextItem

HeadKind = Literal["sentiment", "paraphrase", "entailment"]
BUILT: Mapping[HeadKind, Probes] = {"sentiment": SENTIMENT, "paraphrase": PARAPHRASE, "entailment": ENTAILMENT}
# How other heads' labels stand for those of the built cases.
FOLDS: Mapping[HeadKind, Mapping[str, str]] = {
    "sentiment": {},
    "paraphrase": {
        "equivalent": "duplicate",
        "paraphrase": "duplicate",
        "not_equivalent": "not_duplicate",
        "not_paraphrase": "not_duplicate",
    },
    "entailment": {"neutral": "not_entailment", "contradiction": "not_entailment"},
}
TYPES: tuple[str, ...] = get_args(CheckType)
DIRECTIONS: tuple[str, ...] = get_args(Direction)
FIELDS = ("id", "test", "capability", "type", "texts", "label", "direction", "group")
BETWEEN = "|"  # of several accepted labels


def built_checklist(
    head: HeadKind = "sentiment", cases_per_test: int = 30, seed: int = 1, tolerance: float = 0.1
) -> TaskDefinition:
    """A check list of our own for heads of one kind.

    Args:
        head: what the head tells: positive from negative, questions that ask the same, texts that entail a sentence.
        cases_per_test: at least so many, spread over the test's templates.
        seed: of the words that fill the templates.
        tolerance: how far a probability may move against what a DIR case expects.
    """
    probes = BUILT[head]

    def made() -> Iterator[Item]:
        for case in build_cases(probes, cases_per_test, seed):
            probe = case.probe
            facts = _facts(case.id, probe.name, probe.capability, probe.type, probe.accepted, probe.direction)
            yield from _items(case.id, case.template, case.texts, facts)

    return _definition(f"checklist_{head}", probes.version, (), FOLDS[head], tolerance, made)


def checklist(
    name: str = "my_checklist",
    files: str = "*.jsonl",
    folds: dict[str, str] | None = None,
    tolerance: float = 0.1,
    version: int = 1,
) -> TaskDefinition:
    """Cases of one's own, for a head of any labels: those of the cases must be the head's, or what `folds` makes of it.

    Args:
        name: the task's name.
        files: pattern of the files, which may name folders; `*` stands for part of one name.
        folds: labels of the head -> labels of the cases, such as neutral -> not_entailment.
        tolerance: how far a probability may move against what a DIR case expects.
        version: of these cases.
    """

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        for file in files:
            stem = PurePath(file.name).stem
            for row in jsonl.rows(file, split):
                yield from _case(row, stem)

    layout = Layout("jsonl of cases", {"test": (files,)}, read)
    return _definition(name, version, (layout,), folds or {}, tolerance, None)


def _definition(
    name: str,
    version: int,
    layouts: tuple[Layout, ...],
    folds: Mapping[str, str],
    tolerance: float,
    made: Callable[[], Iterator[Item]] | None,
) -> TaskDefinition:
    return TaskDefinition(
        name=name,
        version=version,
        kind="classification",
        labels=(),
        metrics=(PASS_RATE,),
        layouts=layouts,
        home="whoever wrote the cases",
        scored="test",
        folds=folds,
        checks=Checks(tolerance),
        made=made,
    )


def _facts(
    case: str, test: str, capability: str, kind: str, accepted: Sequence[str], direction: str | None
) -> dict[str, str]:
    facts = {"case": case, "test": test, "capability": capability, "type": kind}
    if accepted:
        facts["accepted"] = BETWEEN.join(accepted)
    if direction is not None:
        facts["direction"] = direction
    return facts


def _items(name: str, group: str, texts: Sequence[tuple[str, ...]], facts: Mapping[str, str]) -> Iterator[TextItem]:
    for member, text in enumerate(texts):
        second = text[1] if len(text) > 1 else None
        yield TextItem(f"{name}/{member}", text[0], second, None, group, {**facts, "member": str(member)})


def _case(row: Row, stem: str) -> Iterator[TextItem]:
    """The items of a row.

    Raises:
        InputError: a field that no case has, one that is missing or not for its type, or an empty text.
    """
    for field in row.values:
        if field not in FIELDS:
            raise row.error(f"has the field '{field}', but a case has {', '.join(FIELDS)}")
    test = row.name("test")
    kind = _one_of(row, "type", TYPES)
    texts = _texts(row)
    if kind != "MFT" and len(texts) < 2:
        raise row.error(f"field 'texts', must hold at least 2 texts, as {kind} compares them, but holds {len(texts)}")
    accepted = _accepted(row) if kind != "INV" else ()
    direction = _one_of(row, "direction", DIRECTIONS) if kind == "DIR" else None
    for field, needed in (("label", kind != "INV"), ("direction", kind == "DIR")):
        if field in row.values and not needed:
            raise row.error(f"field '{field}', is not for a case of type {kind}: leave it out")
    capability = row.name("capability") if "capability" in row.values else "all"
    name = row.name("id") if "id" in row.values else f"{stem}-{row.number + 1}"
    group = row.name("group") if "group" in row.values else name
    return _items(name, group, texts, _facts(name, test, capability, kind, accepted, direction))


def _one_of(row: Row, field: str, known: Sequence[str]) -> str:
    value = row.value(field)
    if value not in known:
        raise row.error(f"field '{field}', must be one of {', '.join(known)}, but is {value!r}")
    return str(value)


def _texts(row: Row) -> list[tuple[str, ...]]:
    value = row.value("texts")
    if not isinstance(value, list) or not value:
        raise row.error(f"field 'texts', must be a list of texts or of pairs, but is {value!r}")
    texts = [(one,) if isinstance(one, str) else tuple(one) if isinstance(one, list) else () for one in value]
    lengths = {len(text) for text in texts}
    if lengths not in ({1}, {2}) or not all(isinstance(part, str) and part.strip() for text in texts for part in text):
        raise row.error(f"field 'texts', must hold texts only, or pairs of texts only, none empty, but is {value!r}")
    return texts


def _accepted(row: Row) -> tuple[str, ...]:
    value = row.value("label")
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name and BETWEEN not in name for name in names):
        raise row.error(f"field 'label', must be the name of a label or a list of names, but is {value!r}")
    return tuple(names)
