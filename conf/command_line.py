"""How a command is typed: values in Hydra's grammar, words for a shell, and the line that started this process.

Must not import the project's other packages.
"""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

# What Hydra's override grammar reads as one plain word; everything else is quoted.
PLAIN_WORD = re.compile(r"[A-Za-z0-9_/.\-]*[A-Za-z_/][A-Za-z0-9_/.\-]*")
READ_AS_ANOTHER_TYPE = re.compile(r"(?i:true|false|null|nan|[+-]?inf|[+-]?[0-9][0-9_.]*(e[+-]?[0-9]+)?)")
OVERRIDE = re.compile(r"(\+{0,2}[A-Za-z_][\w./@:-]*)=.*", re.DOTALL)

_sweep_job: list[str] = []
_sweep_program: list[str] = []


def quote(value: Any) -> str:
    """A value in Hydra's override grammar, such that Hydra reads back exactly this value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quote_key(key)}:{quote(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(quote(item) for item in value) + "]"
    text = str(value)
    if PLAIN_WORD.fullmatch(text) and not READ_AS_ANOTHER_TYPE.fullmatch(text):
        return text
    # In the grammar a backslash escapes only before a quote (or at the end), so only those are doubled.
    escaped = re.sub(r"(\\*)'", lambda match: match.group(1) * 2 + "\\'", text)
    escaped = re.sub(r"(\\+)$", lambda match: match.group(1) * 2, escaped)
    return f"'{escaped}'"


def _quote_key(key: Any) -> str:
    """A key of a mapping: the grammar has no quotes there, but lets special characters be escaped."""
    return re.sub(r"([\\()\[\]{}:=,\s])", r"\\\1", str(key))


def override_name(override: str) -> str:
    """The option or group an override sets, without Hydra's prefixes: `++a.b=1` -> `a.b`."""
    return override.split("=", 1)[0].lstrip("+~").split("@", 1)[0]


def shell_line(words: Sequence[str]) -> str:
    """Words as one line to paste into a shell; quoted by the kind of quotes that keeps them readable."""
    return " ".join(
        f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word) for word in words
    )


def typed_command() -> list[str]:
    """The words that start what this process does: `python -m MODULE` or the console script, and each override once.

    An override may come twice, for a launcher repeats some; it stands where it came first, with the value that counts.
    Of a job of a sweep these are the words that run this job alone.
    """
    return [*(_sweep_program or program_words()), *each_once(_sweep_job or sys.argv[1:])]


def is_sweep_job(program: Sequence[str], words: Sequence[str]) -> None:
    """Say that this process is at one job of a sweep, which these words after the program would run alone."""
    _sweep_program[:], _sweep_job[:] = program, words


def each_once(words: Sequence[str]) -> list[str]:
    """The words of a command line with every override once; what is no override (a flag, a deletion) stays as it is."""
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        match = OVERRIDE.fullmatch(word)
        key = match.group(1) if match else f"word {number}"
        if key not in found or _value(found[key]) != _value(word):  # of two spellings of a value, the typed one stays
            found[key] = word
    return list(found.values())


def program_words() -> list[str]:
    """What started this process, without its options: `python -m MODULE`, or the console script."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        return ["python", "-m", spec.name.removesuffix(".__main__")]
    program = Path(sys.argv[0])
    return ["python", str(program)] if program.suffix == ".py" else [program.name]


def _value(override: str) -> Any:
    try:
        value = OverridesParser.create().parse_override(override).value()
    except HydraException:
        return override
    return getattr(value, "text", value)
