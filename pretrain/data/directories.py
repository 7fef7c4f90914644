"""What the options `data`, `sampling_exponent` and `languages` say: which shard directories are read, how often each,
and which language each is in. Pure functions on plain values; must not open a shard or import torch.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.checks import as_yaml
from conf.errors import InputError

Data = str | Sequence[str] | Mapping[str, float]
Languages = Mapping[str, str | Sequence[str]]


def directories_of(data: Data) -> list[str]:
    """Return the directories of the option `data`: one path, a list of paths, or paths with their weights.

    Raises InputError for none at all, or for one that is named twice.
    """
    if isinstance(data, str):
        return [data]
    if not isinstance(data, Mapping | Sequence) or not data or not all(isinstance(name, str) for name in data):
        raise InputError(
            f"data must be a shard directory, or several with their weights such as {{shards/a: 0.7, shards/b: 0.3}} "
            f"or without as in [shards/a, shards/b], but is {as_yaml(data)}."
        )
    for name in data:
        if list(data).count(name) > 1:
            raise InputError(f"data must name each shard directory once, but names '{name}' twice: leave one out.")
    return list(data)


def sampling_weights(sizes: Sequence[int], exponent: float) -> list[float]:
    """Return how often sources of `sizes` (all above 0) are to be read, as shares that add up to 1.

    p_l = (n_l / sum n)^a / sum_k (n_k / sum n)^a, with a the `exponent`: 1 reads every row equally often, 0 every
    source, and what is between gives small ones more than their part. Source: Conneau and Lample (2019), section 3.1,
    with n_l the sentences of language l and a = 0.5; `lg_sampling_factor` in their code (XLM).
    """
    total = sum(sizes)
    powers = [(size / total) ** exponent for size in sizes]
    return [power / math.fsum(powers) for power in powers]


def weights_of(data: Data, sizes: Sequence[int], sampling_exponent: float | None = None) -> list[float]:
    """Return the weight of each of the `directories_of` data, which hold `sizes` rows.

    They are those that `data` gives, or without any those of `sampling_weights`; an exponent of None means 1. Raises
    InputError for a weight that is not a number above 0, an exponent out of its range, or one beside weights.
    """
    if sampling_exponent is not None and not 0.0 <= sampling_exponent <= 1.0:
        raise InputError(
            f"sampling_exponent must be between 0 (all directories equally often) and 1 (all rows), but is "
            f"{sampling_exponent}."
        )
    if sampling_exponent is not None and len(sizes) == 1:
        raise InputError(
            f"sampling_exponent={sampling_exponent:g} mixes several directories, but data names one, "
            f"'{directories_of(data)[0]}': set it to null, or give it in the stages that mix (stages.NAME)."
        )
    if not isinstance(data, Mapping):
        return sampling_weights(sizes, 1.0 if sampling_exponent is None else sampling_exponent)
    if sampling_exponent is not None:
        raise InputError(
            f"sampling_exponent={sampling_exponent:g} makes weights of the directories' sizes, but data gives weights "
            f"of its own: write data='[{','.join(data)}]', or sampling_exponent=null."
        )
    for directory, weight in data.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise InputError(f"the weight of '{directory}' in data must be a number above 0, but is {as_yaml(weight)}.")
    return [float(weight) for weight in data.values()]


def languages_of(
    directories: Sequence[str], languages: Languages | None, known: Sequence[str]
) -> dict[str, int] | None:
    """Return the number of each directory's language: its place in `known`, the languages that the model names.

    `languages` gives each language its directory or directories; None, and what is returned is None. Raises InputError
    for a directory without a language or with two, for a language that is not known, or for no such mapping.
    """
    if languages is None:
        return None
    number_of: dict[Path, int] = {}
    for name, value in _checked(languages).items():
        if name not in known:
            named = f"model.languages is {list(known)}" if known else "the model has no language embeddings"
            raise InputError(
                f"languages must name languages of the model, but names '{name}' where {named}: set model.languages, "
                "or leave it out."
            )
        for directory in [value] if isinstance(value, str) else value:
            number = number_of.setdefault(Path(directory).resolve(), known.index(name))
            if known[number] != name:
                raise InputError(
                    f"languages must name each shard directory under one language, but '{directory}' is under "
                    f"'{known[number]}' and '{name}': leave one out."
                )
    for directory in directories:
        if Path(directory).resolve() not in number_of:
            raise InputError(
                f"languages must name every shard directory in data, but '{directory}' is under none of "
                f"{', '.join(languages)}: add it to its language."
            )
    return {directory: number_of[Path(directory).resolve()] for directory in directories}


def _checked(languages: Any) -> Languages:
    def is_value(value: Any) -> bool:
        return isinstance(value, str) or (
            isinstance(value, Sequence) and len(value) > 0 and all(isinstance(item, str) for item in value)
        )

    if not isinstance(languages, Mapping) or not languages or not all(map(is_value, languages.values())):
        raise InputError(
            f"languages must be null, or give each language its shard directory, or a list of them, such as "
            f"{{en: shards/en, de: shards/de}}, but is {as_yaml(languages)}."
        )
    return languages
