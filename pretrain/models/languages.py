"""The languages of an encoder-decoder by name and by number: one rule for every architecture that has embeddings of
them. Imports the error class and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from conf.errors import InputError


def check_languages(languages: Sequence[str]) -> None:
    """Raise InputError unless the names are distinct."""
    if len(set(languages)) != len(languages):
        raise InputError(f"model.languages must be distinct names, but is {list(languages)}")


def language_id(languages: Sequence[str], name: str | None, side: str) -> int | None:
    """The id of a language by its name; None for a model without languages, which takes no name.

    Raises InputError, naming the option `side` that gave the name, for one that the model does not know.
    """
    if not languages:
        if name is None:
            return None
        raise InputError(f"{side} is '{name}', but the model has no language embeddings; leave it away")
    if name not in languages:
        known = ", ".join(languages)
        found = "is not given" if name is None else f"is '{name}'"
        raise InputError(f"{side} must be one of the model's languages ({known}), but {found}")
    return languages.index(name)
