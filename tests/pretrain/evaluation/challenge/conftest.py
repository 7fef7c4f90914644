"""The two grammars with the items of one seed."""

import pytest

from pretrain.evaluation.challenge.builder import MinimalPair, build
from pretrain.evaluation.challenge.chinese import CHINESE
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.challenge.templates import Grammar

GRAMMARS = {"english": ENGLISH, "chinese": CHINESE}


@pytest.fixture(scope="session", params=sorted(GRAMMARS))
def grammar(request) -> Grammar:
    return GRAMMARS[request.param]


@pytest.fixture(scope="session")
def built() -> dict[str, list[MinimalPair]]:
    return {name: build(grammar, 200, seed=1) for name, grammar in GRAMMARS.items()}


@pytest.fixture(scope="session")
def items(grammar, built) -> list[MinimalPair]:
    return built[grammar.language]
