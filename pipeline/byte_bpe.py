"""Training a byte-level BPE tokenizer: every text comes back from its ids to the byte. Imports neither Beam nor torch.

What WordPiece behind BERT's pre-tokenizer loses (white space around signs, characters it has not seen) translations
need.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from conf.errors import InputError
from pipeline.tokenizer import SPECIAL_NAMES, check_added_tokens

BYTES = 256


def train_byte_bpe(
    texts: Sequence[str],
    vocab_size: int,
    lowercase: bool = False,
    min_frequency: int = 2,
    split_digits: bool = False,
    added_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Train byte-pair encoding over UTF-8 bytes (Radford et al. 2019, section 2.2) behind GPT-2's pre-tokenizer.

    The same texts give the same tokenizer, on any number of threads: the alphabet is the 256 bytes, in a fixed order.

    Args:
        texts: the sample.
        vocab_size: entries, special tokens included; a small sample may not fill it.
        lowercase: fold case, which alone a text does not come back from.
        min_frequency: pairs seen less often are not merged.
        split_digits: each digit is a token, so that any number is spelled and none is a word.
        added_tokens: reserved tokens, which no text becomes; they take the ids after the special tokens.

    Raises:
        InputError: the vocabulary cannot hold the special tokens and the bytes, or a name cannot be reserved.
    """
    check_added_tokens(added_tokens)
    specials = [names[0] for names in SPECIAL_NAMES.values()] + list(added_tokens)
    if vocab_size < len(specials) + BYTES:
        raise InputError(
            f"option 'job.vocab_size' must be at least {len(specials) + BYTES} to hold the special tokens and all "
            f"bytes, but is {vocab_size}"
        )
    tokenizer = Tokenizer(models.BPE())
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if split_digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, level]) if digits else level
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in specials],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    cls, sep = (SPECIAL_NAMES[role][0] for role in ("cls", "sep"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (cls, sep)],
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.encode_special_tokens = True
    return tokenizer
