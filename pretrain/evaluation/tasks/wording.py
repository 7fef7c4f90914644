"""Putting a noun phrase where a pronoun stood, in English: capital letters and possessives. Pure."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s*$")
# A word with a capital that is no name: its capital belongs to the place at the start of a sentence.
_FUNCTION_WORDS = _words(
    "a an the this that these those my your his her its our their he she it we you they one some someone somebody "
    "something no nobody nothing any all each every both many most there what who when where if as in on at for from "
    "to with by of after before because although while and but or so then"
)
_POSSESSIVES = frozenset(("his", "its", "their", "my", "your", "our", "whose"))
# Words after "her" that show it to be the object: "told her that ...".
_NOT_POSSESSED = _words(
    "a an the this that these those to in on at for from with by of off up down out into over about after before "
    "because although while until when where if as and but or so then than is was were had has did does could would "
    "should will might must not again away back very too"
)


def without_capital(text: str) -> str:
    """The text as it reads inside a sentence: a first word that is no name and not "I" loses its capital."""
    first = re.match(r"[A-Za-z]+", text)
    if first is None or first.group().lower() not in _FUNCTION_WORDS:
        return text
    return text[0].lower() + text[1:]


def with_capital(text: str) -> str:
    """The text as it reads at the start of a sentence."""
    return text[:1].upper() + text[1:]


def in_place_of(pronoun: str, candidate: str, before: str, after: str) -> str:
    """The candidate as it must be written to stand where the pronoun does.

    Args:
        pronoun: the pronoun, in any case.
        candidate: a noun phrase, such as `The city councilmen`.
        before: the text before the pronoun.
        after: the text after it.

    Returns:
        The candidate with the capital that its place wants, and with `'s` for a possessive pronoun.
    """
    candidate = candidate.strip().rstrip(".")
    starts_sentence = not before.strip() or _SENTENCE_END.search(before) is not None
    candidate = with_capital(candidate) if starts_sentence else without_capital(candidate)
    if not is_possessive(pronoun, after) or candidate.endswith(("'s", "'")):
        return candidate
    # Only a plural noun takes the bare apostrophe; a name in -s takes 's.
    plural = candidate.endswith("s") and candidate.split()[-1][0].islower()
    return candidate + ("'" if plural else "'s")


def is_possessive(pronoun: str, after: str) -> bool:
    """Whether a pronoun stands before what it owns; "her" does if the next word can be a noun or an adjective."""
    pronoun = pronoun.strip().lower()
    if pronoun != "her":
        return pronoun in _POSSESSIVES
    following = re.match(r"\s+([A-Za-z-]+)", after)
    return following is not None and following.group(1).lower() not in _NOT_POSSESSED
