"""The one exception that stands for bad input. Must not import anything of the project."""

from typing import TypeVar

Kind = TypeVar("Kind", bound=BaseException)


class InputError(Exception):
    """Something the user gave cannot be used.

    The message is one clear sentence: what was expected, what was found, where (file, line, field, option) and what to
    do. Every command prints it as `error: <sentence>` and exits with status 2, without a traceback.
    """


def cause(error: BaseException | None, kind: type[Kind]) -> Kind | None:
    """The exception of `kind` that `error` was raised from (Hydra wraps what a constructor raises)."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def sentence_of(error: BaseException) -> str:
    """What to say of an exception in one sentence: that of the bad input it was raised from, else its kind and text."""
    bad_input = cause(error, InputError)
    return str(bad_input) if bad_input is not None else f"{type(error).__name__}: {error}"
