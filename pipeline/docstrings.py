r"""The docstrings of a Python source text, found without parsing it.

A corpus made of installed packages reads hundreds of megabytes of source; parsing it to syntax trees costs ten times
more than all that follows. A docstring is a string that is the first statement of a module, class or function, and that
can be told from the tokens alone: `scan` jumps from one `def` or `class` to the next, over strings and comments, with a
few regular expressions. Checked against `ast` in the tests. Pure; must import nothing of the project.
"""

import inspect
import re
import unicodedata

# Python's string literals. The backslash guards a quote in raw strings too, so one pattern finds the end of all kinds.
_TRIPLE = r'''"""[^"\\]*+(?:(?:\\.|"{1,2}(?!"))[^"\\]*+)*+"""|\'\'\'[^'\\]*+(?:(?:\\.|'{1,2}(?!'))[^'\\]*+)*+\'\'\''''
_SINGLE = r""""(?!"")[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'(?!'')[^'\\\n]*+(?:\\.[^'\\\n]*+)*+\'"""
_COMMENT = r"\#[^\n]*+"
_HEADER = r"[ \t\f]*+(?:async[ \t]++)?(?:def|class)[ \t]"

_TO_HEADER = re.compile(rf"(?:[^\"'\#\n]++|{_TRIPLE}|{_SINGLE}|{_COMMENT}|\n(?!{_HEADER}))*+", re.DOTALL)
_SIMPLE_SIGNATURE = re.compile(
    rf"\n{_HEADER}[ \t]*+\w++[ \t]*+(?:\([^()\"'\#]*+\))?+[ \t]*+(?:->[^:\"'\#\n]*+)?+:", re.DOTALL
)
_TO_BRACKET = re.compile(rf"(?:[^\"'\#:()\[\]{{}}]++|{_TRIPLE}|{_SINGLE}|{_COMMENT})*+", re.DOTALL)
_TO_STATEMENT = re.compile(rf"(?:[ \t\f\n]++|\\\n|{_COMMENT})*+")
_LITERAL = re.compile(rf"([a-zA-Z]{{0,2}})({_TRIPLE}|{_SINGLE})(?:[ \t\f]++|\\\n)*+", re.DOTALL)
_STATEMENT_END = re.compile(r"[ \t\f]*+(?:[;\n\#]|\Z)")

_ESCAPE = re.compile(
    r"\\(?:(\n)|([\\'\"abfnrtv])|([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^}]+)\})"
)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class MalformedSource(ValueError):
    """The text is not Python: a string or bracket does not end."""


def docstrings(source: str) -> list[str]:
    """The docstrings of a source text, in order of appearance, dedented as `inspect.cleandoc` does.

    Those of the module and of every class and function at any depth. Docstrings of nothing but white space are left
    out.

    Args:
        source: the decoded text of a .py file. It need not be valid for the running Python.

    Raises:
        MalformedSource: a string or bracket does not end.
    """
    text = "\n" + source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = []
    position = 0
    literal, position = _docstring_at(text, position)
    while True:
        if literal is not None:
            cleaned = inspect.cleandoc(literal)
            if cleaned.strip():
                found.append(cleaned)
        position = _match_end(_TO_HEADER, text, position)
        if position == len(text):
            return found
        if text[position] != "\n":
            raise MalformedSource(f"the string that starts in line {text.count(chr(10), 0, position)} does not end")
        literal, position = _docstring_at(text, _signature_end(text, position))


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    assert match is not None  # every such pattern matches the empty string
    return match.end()


def _signature_end(text: str, position: int) -> int:
    """The byte after the colon that ends the `def` or `class` line that starts at `position`."""
    simple = _SIMPLE_SIGNATURE.match(text, position)
    if simple is not None:
        return simple.end()
    depth = 0
    start = position
    while True:
        position = _match_end(_TO_BRACKET, text, position)
        if position == len(text) or text[position] in "\"'":
            raise MalformedSource(f"the def or class in line {text.count(chr(10), 0, start + 1)} does not end")
        character = text[position]
        position += 1
        if character == ":" and depth == 0:
            return position
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1


def _docstring_at(text: str, position: int) -> tuple[str | None, int]:
    """The docstring that follows a position, or None, and where to go on.

    Literals side by side are one string, as in Python, over several lines if brackets hold them; a bytes or f-string
    among them, or anything else in the statement, makes it no docstring.
    """
    end = _match_end(_TO_STATEMENT, text, position)
    brackets = 0
    while text.startswith("(", end):
        brackets += 1
        end = _match_end(_TO_STATEMENT, text, end + 1)
    parts = []
    while literal := _LITERAL.match(text, end):
        prefix = literal.group(1).lower()
        if prefix not in ("", "r", "u"):
            return None, position
        parts.append(_value(literal.group(2), raw=prefix == "r"))
        end = _match_end(_TO_STATEMENT, text, literal.end()) if brackets else literal.end()
    for _ in range(brackets):
        end = _match_end(_TO_STATEMENT, text, end)
        if not text.startswith(")", end):
            return None, position
        end += 1
    if not parts or not _STATEMENT_END.match(text, end):
        return None, position
    return "".join(parts), end


def _value(literal: str, raw: bool) -> str:
    content = literal[3:-3] if literal[:3] in ('"""', "'''") else literal[1:-1]
    return content if raw or "\\" not in content else _ESCAPE.sub(_unescape, content)


def _unescape(match: re.Match[str]) -> str:
    newline, simple, octal, *hexadecimal, name = match.groups()
    if newline:
        return ""
    if simple:
        return _SIMPLE_ESCAPES.get(simple, simple)
    if octal:
        return chr(int(octal, 8))
    if name:
        try:
            return unicodedata.lookup(name)
        except KeyError:
            return match.group()
    code = int(next(digits for digits in hexadecimal if digits), 16)
    return chr(code) if code < 0x110000 else match.group()
