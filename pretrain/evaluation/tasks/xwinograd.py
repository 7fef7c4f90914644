"""XWinograd: Winograd schemas in six languages (Tikhonov and Ryabinin 2021; Chinese by Muennighoff et al. 2022).

The authors' tsv has no header row and holds all languages; the hub's jsonl has one file a language.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pretrain.evaluation.sources import jsonl, tsv
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import ChoiceItem, HubSource, Item, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.wording import in_place_of

COLUMNS = ("language", "source", "reference", "sentence", "tokens", "pronoun", "candidates")
OPTIONS = ("1", "2")
BLANK = "_"
Language = Literal["en", "fr", "jp", "pt", "ru", "zh"]


def _read_tsv(files: Sequence[DataFile], split: Split, language: str) -> Iterator[Item]:
    rows = (row for file in files for row in tsv.rows(file, split, COLUMNS))
    return (_tsv_item(row) for row in rows if row.text("language") == language)


def _tsv_item(row: Row) -> ChoiceItem:
    """Pronoun and candidates are JSON: `[text, [first, last) token, tokens]`, a candidate with true or false."""
    tokens, pronoun, candidates = (_json(row, field) for field in ("tokens", "pronoun", "candidates"))
    if len(candidates) != 2 or sorted(candidate[-1] for candidate in candidates) != [False, True]:
        raise row.error(f"field 'candidates', must be a right and a wrong one, but is {row.text('candidates')[:80]!r}")
    sentence = row.text("sentence")
    start = _character(row, sentence, tokens[: pronoun[1][0]], pronoun[0])
    prefix, suffix = sentence[:start], sentence[start + len(pronoun[0]) :]
    texts = [str(candidate[0]) for candidate in candidates]
    if row.text("language") == "en":
        texts = [in_place_of(pronoun[0], text, prefix, suffix) for text in texts]
    label = [candidate[-1] for candidate in candidates].index(True)
    facts = {"language": row.text("language"), "pronoun": str(pronoun[0])}
    return ChoiceItem(str(row.number), prefix, tuple(texts), suffix, label, "|".join(sorted(texts)).lower(), facts)


def _json(row: Row, field: str) -> Any:
    try:
        value = json.loads(row.text(field))
    except ValueError as error:
        raise row.error(f"field '{field}', must be JSON, but is {row.text(field)[:60]!r} ({error})") from error
    if not isinstance(value, list) or not value:
        raise row.error(f"field '{field}', must be a list, but is {row.text(field)[:60]!r}")
    return value


def _character(row: Row, sentence: str, before: Sequence[str], pronoun: str) -> int:
    """Where the pronoun starts: after the tokens before it, which are found one after the other."""
    place = 0
    for token in before:
        found = sentence.find(token, place)
        place = found + len(token) if found >= 0 else place  # a token may be written otherwise, such as a quote
    start = sentence.find(pronoun, place)
    if start < 0:
        raise row.error(f"the sentence must hold the pronoun {pronoun!r} after its {len(before)} tokens, but does not")
    return start


def _blank_item(row: Row) -> ChoiceItem:
    sentence = row.text("sentence")
    if sentence.count(BLANK) != 1:
        raise row.error(f"field 'sentence', must have one blank '{BLANK}', but has {sentence.count(BLANK)}")
    prefix, _, suffix = sentence.partition(BLANK)
    options = (row.text("option1"), row.text("option2"))
    group = "|".join(sorted(options)).lower()
    return ChoiceItem(str(row.number), prefix, options, suffix, row.label("answer", OPTIONS), group)


def xwinograd(language: Language = "en") -> TaskDefinition:
    """Accuracy. Japanese is `jp`, as the authors write it."""

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        return _read_tsv(files, split, language)

    hub = Layout(
        "the hub's jsonl", {"test": (f"{language}.jsonl",)}, each(jsonl.rows, _blank_item), ("xwinograd/test",)
    )
    authors = Layout("the authors' tsv", {"test": ("dataset.tsv",)}, read, ("crosslingual_winograd*",))
    return TaskDefinition(
        name=f"xwinograd_{language}",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(authors, hub) if language != "zh" else (hub,),
        home="https://github.com/yandex-research/crosslingual_winograd or https://huggingface.co/datasets/Muennighoff/xwinograd",
        scored="test",
        hub=HubSource("Muennighoff/xwinograd", language, {"test": "test"}, _blank_item),
    )
