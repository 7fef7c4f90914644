"""Steps that a chain repeats: round after round of back-translation, each with the models of the round before.

A step with `round: first`, `later` or `each` stands for one step in each of its rounds, `NAME_1`, `NAME_2`, ...; in its
strings {round} and {previous} are the numbers. Pure functions; must not import `pipeline` or `pretrain`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from conf.errors import InputError

ROUNDS = ("first", "later", "each")
PREVIOUS = ":previous"


def rounds_of(kind: str | None, rounds: int, where: str) -> list[int | None]:
    """The rounds that a step of this kind runs in, from 1; [None] for a step that runs once.

    Raises InputError, naming `where`, for another kind.
    """
    if kind is None:
        return [None]
    if kind not in ROUNDS:
        raise InputError(f"'{where}.round' must be one of {', '.join(ROUNDS)}, or be left out, but is '{kind}'")
    numbers = {"first": range(1, 2), "later": range(2, rounds + 1), "each": range(1, rounds + 1)}
    return [*numbers[kind]]


def name_in_round(name: str, number: int | None) -> str:
    """The name of a step in a round; its own where it runs once."""
    return name if number is None else f"{name}_{number}"


def needs_in_round(
    needs: Sequence[str], number: int | None, kinds: Mapping[str, str | None], rounds: int, where: str
) -> list[str]:
    """The names of the steps that a step needs in a round.

    Of a repeated step the one of the same round is meant, with `NAME:previous` that of the round before, and where the
    step itself runs once, that of the last round; none where the step named has no such round. `kinds` are the `round`
    of all steps. Raises InputError for a `:previous` where there is no round before.
    """
    found = []
    for need in needs:
        name, before = need.removesuffix(PREVIOUS), need.endswith(PREVIOUS)
        if kinds.get(name) is None:
            if before:
                raise InputError(
                    f"'{where}' needs '{need}', but step '{name}' is not repeated: name it without :previous"
                )
            found.append(need)
            continue
        if number is None:
            if before:
                raise InputError(f"'{where}' runs once, so it has no previous round: it cannot need '{need}'")
            if rounds in rounds_of(kinds[name], rounds, where):
                found.append(name_in_round(name, rounds))
            continue
        wanted = number - 1 if before else number
        if wanted in rounds_of(kinds[name], rounds, where):
            found.append(name_in_round(name, wanted))
    return found


def in_round(value: Any, number: int | None) -> Any:
    """A value of a step's options (strings, lists and mappings of any depth) with {round} and {previous} filled in."""
    if number is None:
        return value
    if isinstance(value, str):
        return value.replace("{round}", str(number)).replace("{previous}", str(number - 1))
    if isinstance(value, list):
        return [in_round(item, number) for item in value]
    if isinstance(value, dict):
        return {in_round(key, number): in_round(item, number) for key, item in value.items()}
    return value
