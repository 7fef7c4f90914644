"""Tokenizers: train, save, load and identify them. Imports neither Beam nor torch.

A tokenizer artefact is a directory with one `tokenizer.json`, the format of the `tokenizers` library. Loaded here, a
tokenizer never turns text into special tokens: "[MASK]" in a document is five characters and a word like any other.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from conf.errors import InputError
from conf.files import atomic_write_text

TOKENIZER = "tokenizer.json"
CONTINUATION = "##"
# Names by role, first those that we train: BERT's, then RoBERTa's.
SPECIAL_NAMES: dict[str, tuple[str, str]] = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}


def tokenizer_file(path: str | Path) -> Path:
    """The `tokenizer.json` that `path`, a directory or the file itself, stands for.

    Raises:
        InputError: there is none.
    """
    file = Path(path)
    file = file / TOKENIZER if file.is_dir() else file
    if not file.is_file():
        raise InputError(
            f"there is no tokenizer at '{path}': expected a directory with {TOKENIZER}; "
            "`python -m pipeline job=tokenizer output=DIR` trains one"
        )
    return file


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load a tokenizer from its directory or file, without truncation and padding.

    Raises:
        InputError: there is none, or the file is not one.
    """
    file = tokenizer_file(path)
    try:
        tokenizer = Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"'{file}' is not a tokenizer of the `tokenizers` library: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: str | Path) -> None:
    """Write `tokenizer.json` into an existing directory, whole or not at all."""
    atomic_write_text(Path(directory) / TOKENIZER, tokenizer.to_str(pretty=True) + "\n")


def tokenizer_hash(path: str | Path) -> str:
    """A hash of all that turns text into ids: model, vocabulary, normaliser, pre-tokenizer and added tokens.

    What differs between copies of one tokenizer without changing an id (layout of the JSON, post-processing, padding,
    decoder) is left out, so an export for another library keeps the hash.

    Raises:
        InputError: there is no tokenizer, or the file is not JSON.
    """
    file = tokenizer_file(path)
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        identity = {key: raw.get(key) for key in ("model", "normalizer", "pre_tokenizer", "added_tokens")}
    except (ValueError, AttributeError) as error:
        raise InputError(f"'{file}' is not a tokenizer of the `tokenizers` library: {error}") from error
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the special tokens: {"pad", "unk", "cls", "sep", "mask"}.

    Raises:
        InputError: the tokenizer lacks one of them under BERT's and RoBERTa's names.
    """
    found = {}
    for role, names in SPECIAL_NAMES.items():
        ids = [tokenizer.token_to_id(name) for name in names]
        known = [number for number in ids if number is not None]
        if not known:
            raise InputError(f"the tokenizer has no {role} token: expected {names[0]} or {names[1]} in its vocabulary")
        found[role] = known[0]
    return found


def added_token_id(tokenizer: Tokenizer, token: str, option: str) -> int:
    """The id of a reserved token such as "<bt>", which no text can become.

    Args:
        tokenizer: as `load_tokenizer` gives it.
        token: its name.
        option: what asked for it, for the sentence of the error.

    Raises:
        InputError: the tokenizer has no such token, or has it as a word that texts may hold.
    """
    number = tokenizer.token_to_id(token)
    if number is None:
        raise InputError(
            f"option '{option}' is '{token}', but the tokenizer has no such token: train it with "
            f"job.added_tokens='[\"{token}\"]' (python -m pipeline job=tokenizer)"
        )
    known = tokenizer.get_added_tokens_decoder().get(number)
    if known is None or not known.special:
        raise InputError(
            f"option '{option}' is '{token}', which is a word of the tokenizer that texts may hold, and no reserved "
            f"token: choose another name and train the tokenizer with job.added_tokens='[\"NAME\"]'"
        )
    return number


def check_added_tokens(names: Sequence[str]) -> None:
    """Refuse names that cannot be reserved tokens.

    Raises:
        InputError: a name that is empty, has white space, stands twice, or is that of another special token.
    """
    taken = {name for pair in SPECIAL_NAMES.values() for name in pair}
    for number, name in enumerate(names):
        if not name or name.split() != [name] or name in taken or name in names[:number]:
            raise InputError(
                "option 'job.added_tokens' must hold different names without white space, none of them that of a "
                f"special token such as [MASK], but has {name!r}"
            )


def train_wordpiece(
    texts: Sequence[str],
    vocab_size: int,
    lowercase: bool = True,
    min_frequency: int = 2,
    alphabet_size: int = 1000,
    added_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Train a WordPiece tokenizer behind BERT's normaliser and pre-tokenizer.

    The same texts give the same tokenizer, on any number of threads: the library numbers single characters in the
    order of a randomly seeded hash table and breaks ties by those numbers, so they are fixed here beforehand.

    Args:
        texts: the sample, read twice.
        vocab_size: entries, special tokens included; a small sample may not fill it.
        lowercase: fold case and strip accents (BERT "uncased").
        min_frequency: pairs seen less often are not merged.
        alphabet_size: at most so many single characters, the most frequent; others become [UNK].
        added_tokens: reserved tokens, such as "<bt>" or one for a language. They take the last ids, lie outside the
            model's own vocabulary, and no text becomes one.

    Raises:
        InputError: the vocabulary cannot even hold the special tokens and the alphabet, or a name cannot be reserved.
    """
    check_added_tokens(added_tokens)
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet, inner = _alphabet(texts, normalizer, pre_tokenizer, alphabet_size)
    specials = [names[0] for names in SPECIAL_NAMES.values()]
    fixed = [*specials, *alphabet, *(CONTINUATION + character for character in inner)]
    needed = len(fixed) + len(added_tokens)
    if needed > vocab_size:
        raise InputError(
            f"option 'job.vocab_size' must be at least {needed} to hold the special tokens and the {len(alphabet)} "
            f"characters of this corpus, but is {vocab_size}: raise it, or lower job.alphabet_size"
        )
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer, learner.pre_tokenizer = normalizer, pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size - len(added_tokens),
        min_frequency=min_frequency,
        special_tokens=fixed,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    vocabulary = learner.get_vocab(with_added_tokens=True)
    for name in added_tokens:
        if name in vocabulary:
            raise InputError(
                f"option 'job.added_tokens' has '{name}', which is a word of this corpus: choose a name that no text "
                "holds, such as one in < and >"
            )
    return _wordpiece(vocabulary, normalizer, pre_tokenizer, specials, added_tokens)


def _alphabet(texts: Iterable[str], normalizer: Any, pre_tokenizer: Any, size: int) -> tuple[list[str], list[str]]:
    """The most frequent characters of the normalised texts, and those of them that occur inside a word; both sorted."""
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(text.split())
    characters: Counter[str] = Counter()
    inner: set[str] = set()
    for chunk, count in chunks.items():
        for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(chunk)):
            for character in word:
                characters[character] += count
            inner.update(word[1:])
    kept = sorted(characters, key=lambda character: (-characters[character], character))[:size]
    return sorted(kept), sorted(inner.intersection(kept))


def _wordpiece(
    vocabulary: dict[str, int], normalizer: Any, pre_tokenizer: Any, specials: list[str], added: Sequence[str]
) -> Tokenizer:
    """A complete BERT-style tokenizer from a vocabulary: only true special tokens are special."""
    # The C++ map of the vocabulary keeps no order of its own; a dict in the order of ids makes equal files.
    ordered = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
    tokenizer = Tokenizer(models.WordPiece(ordered, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (*specials, *added)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ordered["[CLS]"]), ("[SEP]", ordered["[SEP]"])],
    )
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.encode_special_tokens = True
    return tokenizer
