"""DPR: to which of two candidates does a pronoun refer? (Rahman and Ng 2012.) Blocks of four lines: sentence, pronoun,
candidates, answer.
"""

import re
from collections.abc import Iterator, Sequence

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import ChoiceItem, HubSource, Item, Layout, TaskDefinition
from pretrain.evaluation.tasks.wording import in_place_of

FIELDS = ("sentence", "pronoun", "candidates", "answer")


def _rows(file: DataFile, split: Split) -> Iterator[Row]:
    """The blocks between empty lines."""
    block: list[tuple[int, str]] = []
    number = 0
    for line_number, line in [*file.lines(), (0, "")]:
        if line.strip():
            block.append((line_number, line.strip()))
        elif block:
            where = f"'{file.name}', line {block[0][0]}"
            if len(block) != len(FIELDS):
                raise InputError(
                    f"{where}, must begin a block of {len(FIELDS)} lines ({', '.join(FIELDS)}), but the "
                    f"block has {len(block)}"
                )
            yield Row(dict(zip(FIELDS, (text for _, text in block), strict=True)), where, number, split)
            number += 1
            block = []


def _item(row: Row) -> ChoiceItem:
    candidates = [candidate.strip() for candidate in row.text("candidates").split(",")]
    answer = row.text("answer").strip().lower()
    matches = [number for number, candidate in enumerate(candidates) if candidate.lower() == answer]
    if len(candidates) != 2 or len(matches) != 1:
        raise row.error(
            f"the block must have two candidates, one of them the answer, but has {candidates} and {answer!r}"
        )
    return _made(row, candidates, matches[0])


def _made(row: Row, candidates: Sequence[str], label: int | None) -> ChoiceItem:
    sentence, pronoun = row.text("sentence"), row.text("pronoun").strip()
    start = pronoun_start(sentence, pronoun, candidates)
    if start is None:
        raise row.error(f"the sentence must hold the pronoun {pronoun!r}, but does not")
    prefix, suffix = sentence[:start], sentence[start + len(pronoun) :]
    options = tuple(in_place_of(pronoun, candidate, prefix, suffix) for candidate in candidates)
    group = "|".join(sorted(candidate.lower() for candidate in candidates))
    return ChoiceItem(str(row.number), prefix, options, suffix, label, group, {"pronoun": pronoun})


def pronoun_start(sentence: str, pronoun: str, candidates: Sequence[str]) -> int | None:
    """Where the pronoun meant stands: its first occurrence after both candidates were named, else its last one."""
    found = [match.start() for match in re.finditer(rf"\b{re.escape(pronoun)}\b", sentence, re.IGNORECASE)]
    lower = sentence.lower()
    named = [lower.find(candidate.lower()) + len(candidate) for candidate in candidates if candidate.lower() in lower]
    after = [start for start in found if start >= max(named, default=0)]
    return after[0] if after else found[-1] if found else None


def _hub_item(row: Row) -> ChoiceItem:
    candidates = row.texts("candidates")
    return _made(row, candidates, row.label("label", ("0", "1")))


def dpr() -> TaskDefinition:
    """Accuracy."""

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        return map(_item, _rows(files[0], split))

    return TaskDefinition(
        name="dpr",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the authors' text files", {"train": ("train.c.txt",), "test": ("test.c.txt",)}, read),),
        home="https://www.hlt.utdallas.edu/~vince/data/emnlp12",
        scored="test",
        hub=HubSource(
            "community-datasets/definite_pronoun_resolution",
            "plain_text",
            {"train": "train", "test": "test"},
            _hub_item,
        ),
    )
