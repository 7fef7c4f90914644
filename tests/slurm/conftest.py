"""The toy chain as a fixture."""

from pathlib import Path

import pytest

from tests.helpers.toy_chain import Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)
