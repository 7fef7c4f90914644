"""The documentation of the installed Python as a corpus: real English (and code) that every machine has after install.

One document a file: the docstrings of a .py file, a documentation file (.rst, .md, .txt), or the long description in a
package's METADATA. Which documents there are depends on what is installed, and on nothing else. Must not import
apache_beam or torch.
"""

import email.parser
import email.policy
import os
import re
import sysconfig
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from conf.errors import InputError
from pipeline.docstrings import MalformedSource, docstrings
from pipeline.files import local_file
from pipeline.ranges import Piece, Plan, Range, plan_ranges
from pipeline.records import Document, ReadFailure, without_lone_surrogates

# Directories whose documentation files are data for tests, or another interpreter's packages.
_NOT_ENTERED = frozenset({"__pycache__", "site-packages", "dist-packages", "node_modules"})
_NO_DOCUMENTS_IN = frozenset({"test", "tests", "testing", "testdata", "data", "vendor", "_vendor"})
_DOCUMENT_SUFFIXES = frozenset({".rst", ".md", ".txt"})
_NO_DOCUMENT = re.compile(r"(?i)(licen[cs]e|copying|notice|authors|requirements|vocab|grammar|cmakelists)")
_METADATA = "METADATA"
_INFO_SUFFIXES = (".dist-info", ".egg-info")
# A line of prose: three words of letters in a row. Tables of numbers, certificates and word lists have few of them.
_PROSE_LINE = re.compile(r"[^\W\d_]{2,}[,;:]? [^\W\d_]+[,;:]? [^\W\d_]{2,}")
_PROSE_SHARE = 0.4


@dataclass(frozen=True)
class PythonDocsCorpus:
    """Docstrings, documentation files and long descriptions of Python packages.

    Left out: licence texts, everything in *.dist-info and *.egg-info but METADATA, documentation files in directories
    of tests and test data, and .txt files of which fewer than 2 in 5 lines hold three words in a row (data, word
    lists). A file with no docstring, or no description, is no document.

    Attributes:
        roots: directories that hold packages; null stands for the standard library and the site-packages of the
            interpreter that runs.
        exclude: packages (as imported, or as installed) to leave out. This project itself is, by default, so that the
            corpus does not change with its README.
        range_bytes: source that one worker reads at a time.
        max_file_bytes: a larger file counts as failed; it bounds a worker's memory.
    """

    roots: list[str] | None = None
    exclude: list[str] = field(default_factory=lambda: ["palimpsest"])
    range_bytes: int = 4 << 20
    max_file_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        # Hydra hands over its own list types; workers get plain ones.
        object.__setattr__(self, "roots", None if self.roots is None else [str(root) for root in self.roots])
        object.__setattr__(self, "exclude", [str(name) for name in self.exclude])
        for option in ("range_bytes", "max_file_bytes"):
            if getattr(self, option) < 1:
                raise InputError(f"option 'corpus.{option}' must be at least 1, but is {getattr(self, option)}")

    def check_paths(self) -> None:
        """Make sure that the roots are there.

        Raises:
            InputError: a root that is no directory.
        """
        self._labelled_roots()

    def plan(self) -> Plan:
        """All files, root by root in the order given and by name in each, grouped into ranges.

        Raises:
            InputError: a root that is no directory, or nothing to read in any of them.
        """
        excluded = {_package_name(name) for name in self.exclude}
        files = []
        for label, root in self._labelled_roots():
            for relative in sorted(_walk(root)):
                if _package_name(relative.split("/", 1)[0]) not in excluded:
                    files.append(local_file(root / relative, f"{label}/{relative}"))
        if not files:
            raise InputError(f"the corpus is empty: no Python documentation in {', '.join(self.roots or [])}")
        return plan_ranges(files, [False] * len(files), self.range_bytes)

    def read(self, range_: Range) -> Iterator[Document | ReadFailure]:
        """The documents of one range, in order; a file that is no Python, or in no known encoding, is a failure."""
        for piece in range_.pieces:
            try:
                text = self._text(Path(piece.path))
            except (OSError, UnicodeDecodeError, SyntaxError, LookupError) as error:
                yield _failure(piece, "undecodable", error)
            except MalformedSource as error:
                yield _failure(piece, "malformed_source", error)
            except _TooLong as error:
                yield _failure(piece, "record_too_long", error)
            else:
                if text:
                    yield Document(text, piece.name, piece.file, 0)

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields."""
        return f"{type(self).__name__},max_file_bytes={self.max_file_bytes}"

    def _labelled_roots(self) -> list[tuple[str, Path]]:
        if self.roots is None:
            paths = sysconfig.get_paths()
            labelled = [("stdlib", paths["stdlib"]), ("packages", paths["purelib"]), ("packages", paths["platlib"])]
        else:
            labelled = [(Path(root).name, root) for root in self.roots]
        found: dict[Path, str] = {}
        for label, root in labelled:
            path = Path(root).expanduser().resolve()
            if not path.is_dir():
                raise InputError(f"option 'corpus.roots' names '{root}', which is not a directory")
            found.setdefault(path, label)
        return [(label, path) for path, label in found.items()]

    def _text(self, path: Path) -> str:
        content = path.read_bytes()
        if len(content) > self.max_file_bytes:
            raise _TooLong(f"{len(content)} bytes, more than corpus.max_file_bytes={self.max_file_bytes}")
        if path.suffix == ".py":
            encoding, _ = tokenize.detect_encoding(iter(content[:4096].splitlines(keepends=True)).__next__)
            return without_lone_surrogates("\n\n".join(docstrings(content.decode(encoding))))
        text = content.decode("utf-8-sig")
        if path.name == _METADATA:
            return _description(text)
        return text if path.suffix != ".txt" or is_prose(text) else ""


class _TooLong(ValueError):
    """A file has more bytes than a worker may hold."""


def _failure(piece: Piece, reason: str, error: Exception) -> ReadFailure:
    return ReadFailure(piece.file, 0, reason, f"{piece.name}: {error}")


def _package_name(entry: str) -> str:
    """The package an entry of site-packages belongs to: `Foo_Bar-1.0.dist-info`, `foo_bar.py`, `foo_bar` are one."""
    for suffix in _INFO_SUFFIXES:
        if entry.endswith(suffix):
            entry = entry.removesuffix(suffix).split("-", 1)[0]
    return entry.removesuffix(".py").lower().replace("-", "_")


def _walk(root: Path) -> Iterator[str]:
    """Relative paths (with /) of all files below a root that may be documents."""
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if name not in _NOT_ENTERED]
        relative = Path(directory).relative_to(root).as_posix()
        parts = relative.split("/")
        if parts[-1].endswith(_INFO_SUFFIXES):
            subdirectories.clear()
            names = [name for name in names if name == _METADATA]
        documented = _NO_DOCUMENTS_IN.isdisjoint(parts)
        for name in names:
            if name == _METADATA or name.endswith(".py") or (documented and _is_documentation(name)):
                yield name if relative == "." else f"{relative}/{name}"


def _is_documentation(name: str) -> bool:
    return Path(name).suffix in _DOCUMENT_SUFFIXES and not _NO_DOCUMENT.search(name)


def is_prose(text: str) -> bool:
    """Whether at least 2 in 5 of a text's non-blank lines hold three words in a row."""
    lines = [line for line in text.splitlines() if line.strip()]
    prose = sum(1 for line in lines if _PROSE_LINE.search(line))
    return prose >= _PROSE_SHARE * len(lines) > 0


def _description(metadata: str) -> str:
    """The long description of a METADATA file: its body, or in old versions of the format its Description field."""
    message = email.parser.Parser(policy=email.policy.compat32).parsestr(metadata)
    body = message.get_payload()
    text = body if isinstance(body, str) and body.strip() else str(message.get("Description", ""))
    return "" if text.strip() == "UNKNOWN" else text
