"""How a context and its possible endings are put together. Pure."""

import re

# Marks of WikiHow's pages that are no part of the text: [header], [title], [step], [substeps].
_MARKUP = re.compile(r"\[(header|title|step|substeps)\]")
_SPACES = re.compile(r" {2,}")


def plain(text: str) -> str:
    """A text without WikiHow's marks; a title becomes a sentence."""
    text = _MARKUP.sub(lambda match: ". " if match.group(1) == "title" else "", text.strip())
    return _SPACES.sub(" ", text).replace("..", ".").removeprefix(". ").strip()


def continued(ending: str) -> str:
    """An ending as it follows its context: after a space, unless it begins with a mark such as a comma."""
    ending = plain(ending)
    return ending if ending[:1] in ",.;:!?" else f" {ending}"
