"""A small shard directory with learnable text, written through the pipeline's own functions (without Beam)."""

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from pipeline.packing import assemble, pack
from pipeline.shards import (
    Counts,
    Manifest,
    ShardWriter,
    content_hash,
    id_dtype,
    write_manifest,
)
from pipeline.tokenizer import save_tokenizer, special_ids, tokenizer_hash, train_wordpiece


def sentences(count: int, seed: int = 0) -> list[str]:
    """Short texts of a toy grammar, in which the verb repeats its subject's ending: there is something to learn."""
    generator = np.random.default_rng(seed)
    stems = ["bal", "dor", "fim", "gan", "hul", "jet", "kor", "lam", "mip", "nos", "pel", "rit"]
    endings = ["a", "ek", "io", "ul"]
    texts = []
    for _ in range(count):
        words = []
        for _ in range(int(generator.integers(2, 8))):
            ending = endings[int(generator.integers(len(endings)))]
            noun, verb = (stems[int(i)] for i in generator.integers(len(stems), size=2))
            words += ["the", f"{noun}{ending}", f"{verb}s{ending}", "."]
        texts.append(" ".join(words))
    return texts


def write_shards(
    directory: Path,
    texts: list[str],
    *,
    vocab_size: int = 200,
    row_length: int = 32,
    held_out: float = 0.1,
    added_tokens: tuple[str, ...] = (),
    vocabulary_of: list[str] | None = None,
    tokenizer: Tokenizer | None = None,
) -> Path:
    """Tokenize, pack and write `texts`; the last `held_out` of them become the validation split.

    The tokenizer is made of `vocabulary_of`, or else of `texts`, unless it is given.

    `added_tokens` are put behind the vocabulary of the tokenizer that the texts give without them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer or train_wordpiece(vocabulary_of or texts, vocab_size)
    tokenizer.add_tokens(list(added_tokens))
    save_tokenizer(tokenizer, directory)
    specials, size = special_ids(tokenizer), tokenizer.get_vocab_size()
    dtype = id_dtype(size)
    border = len(texts) - round(held_out * len(texts))
    shards, used, places = [], 0, 0
    for split, part in (("train", texts[:border]), ("validation", texts[border:])):
        if not part:
            continue
        encoded = [e.ids for e in tokenizer.encode_batch(part, add_special_tokens=False)]
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        packing = pack(lengths, row_length)
        tokens = np.concatenate([np.array(ids, dtype=dtype) for ids in encoded])
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        path = f"shards/0000/00000-abcdef01.{split}.arrow"
        with ShardWriter(directory, path, split, row_length, dtype) as writer:
            keys = np.arange(len(part), dtype=np.uint64)
            for block in assemble(packing, tokens, offsets, keys, specials["cls"], specials["sep"]):
                writer.write(block)
        shards.append(writer.info)
        used, places = used + packing.tokens, places + packing.rows * row_length
    found = tokenizer_hash(directory)
    manifest = Manifest(
        format_version=1,
        kind="masked_lm",
        config={},
        tokenizer_hash=found,
        vocab_size=size,
        special_ids=specials,
        dtype=dtype,
        row_length=row_length,
        shards=shards,
        counts=Counts(read=len(texts), kept=len(texts)),
        sources=[],
        content_hash=content_hash("masked_lm", row_length, dtype, found, size, shards),
        fill=used / places,
        code_version="test",
    )
    write_manifest(directory, manifest)
    return directory
