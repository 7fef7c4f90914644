"""Shard directories that can be mixed: the same tokenizer, other rows and other sizes."""

import pytest

from pretrain.data.mixture import open_mixture
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM
from tests.helpers.shard_directory import sentences, write_shards


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    """Two directories of the same texts in another order, with other shares held out."""
    folder, texts = tmp_path_factory.mktemp("mixed"), sentences(500)
    return (
        write_shards(folder / "a", texts, held_out=0.1),
        write_shards(folder / "b", texts[::-1], held_out=0.4),
    )


@pytest.fixture
def mixture(directories):
    a, b = directories
    return open_mixture({str(a): 0.7, str(b): 0.3})


@pytest.fixture
def objective(mixture):
    manifest = mixture.manifest
    return MaskedLM(DataFacts(manifest.vocab_size, manifest.special_ids, manifest.row_length))
