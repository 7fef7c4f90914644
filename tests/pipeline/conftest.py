"""What several tests of the pipeline share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from pipeline.manifest import FORMAT_VERSION
from pipeline.packing import assemble, pack
from pipeline.shards import Counts, Manifest, ShardWriter, content_hash, id_dtype, write_manifest
from pipeline.tokenizer import save_tokenizer, special_ids, tokenizer_hash, train_wordpiece

# The machine may be busy: how long an example takes says nothing of whether it is right.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

TEXTS = [f"the quick brown fox {number} jumps over the lazy dog of {number * 7}" for number in range(200)]


def write_directory(
    directory: Path, documents: dict[str, Sequence[Sequence[int]]], row_length: int = 16, texts=TEXTS, vocab_size=200
) -> Manifest:
    """Write a complete shard directory with one shard per entry of `documents`; keys are "<range id>.<split>"."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_wordpiece(texts, vocab_size)
    save_tokenizer(tokenizer, directory)
    specials = special_ids(tokenizer)
    dtype = id_dtype(tokenizer.get_vocab_size())
    shards = []
    for number, (name, ids) in enumerate(documents.items()):
        lengths = np.array([len(document) for document in ids], dtype=np.int64)
        tokens = np.concatenate([np.array(document, dtype=dtype) for document in ids])
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        keys = (number << 40) + np.arange(len(ids), dtype=np.uint64)
        split = name.rpartition(".")[2]
        with ShardWriter(directory, f"shards/0000/{name}.arrow", split, row_length, dtype) as writer:
            for block in assemble(pack(lengths, row_length), tokens, offsets, keys, specials["cls"], specials["sep"]):
                writer.write(block)
        shards.append(writer.info)
    read = sum(map(len, documents.values()))
    identity = tokenizer_hash(directory)
    size = tokenizer.get_vocab_size()
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        kind="masked_lm",
        config={},
        tokenizer_hash=identity,
        vocab_size=size,
        special_ids=specials,
        dtype=dtype,
        row_length=row_length,
        shards=shards,
        counts=Counts(read=read, kept=read),
        sources=[],
        content_hash=content_hash("masked_lm", row_length, dtype, identity, size, shards),
        fill=sum(s.tokens for s in shards) / max(1, sum(s.rows for s in shards) * row_length),
        code_version="test",
    )
    write_manifest(directory, manifest)
    return manifest


@pytest.fixture(scope="session", name="write_directory")
def write_directory_fixture():
    """`write_directory` as a fixture: test modules cannot import each other."""
    return write_directory
