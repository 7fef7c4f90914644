"""XML with one element per row. Expat is used directly, because it alone says on which line an element stands.

No external entity is ever fetched: expat does so only through a handler, and none is set.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split


@dataclass
class _Reader:
    """Collects the elements named `tag`: attributes as `@name`, text of elements inside by their path."""

    tag: str
    found: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    path: list[str] | None = None
    text: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        self.text = []
        if self.path is not None:
            self.path.append(name)
        elif name == self.tag:
            self.path = []
            self.found.append((line, {f"@{key}": value for key, value in attributes.items()}))

    def end(self, name: str) -> None:
        if self.path is None:
            return
        if not self.path:
            self.path = None
            return
        self.found[-1][1].setdefault("/".join(self.path), []).append("".join(self.text))
        self.path.pop()
        self.text = []


def rows(file: DataFile, split: Split, tag: str) -> Iterator[Row]:
    """A row per element `tag`: its attributes as texts `@name`, the elements inside as LISTS of texts by their path.

    `<item id="1"><a><b>x</b><b>y</b></a></item>` gives `{"@id": "1", "a/b": ["x", "y"], "a": [""]}`.

    Raises:
        InputError: not well-formed, or without such an element.
    """
    reader = _Reader(tag)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = lambda name, attributes: reader.start(name, attributes, parser.CurrentLineNumber)
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = lambda data: reader.text.append(data)
    try:
        parser.Parse(file.read(), True)
    except expat.ExpatError as error:
        raise InputError(
            f"'{file.name}', line {error.lineno}, is not XML: {expat.errors.messages[error.code]}"
        ) from error
    if not reader.found:
        raise InputError(f"'{file.name}' must hold elements <{tag}>, but has none")
    for number, (line, values) in enumerate(reader.found):
        yield Row(values, f"'{file.name}', line {line}", number, split)
