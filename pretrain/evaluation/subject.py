"""What is evaluated: a checkpoint, and models of the same shape with fresh weights to compare it with."""

import functools
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import tokenizer_hash
from pretrain.evaluation.encoder_folder import with_pooler
from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import ModelName
from pretrain.models.encoder import Encoder
from pretrain.models.language_model import LanguageModel
from pretrain.models.load import LoadedModel, load_model, random_like, require_masked_language_model
from pretrain.models.masked_lm import MaskedLanguageModel


@dataclass(frozen=True)
class ModelChoice:
    """One model of an evaluation: the checkpoint's weights, or fresh ones of seed `initialisation`.

    `fingerprint` is all that its results depend on: weights (or shape and seed) and tokenizer.
    """

    checkpoint: str
    initialisation: int | None
    fingerprint: str

    @property
    def model_name(self) -> ModelName:
        """The name of its column in the table of scores."""
        return "pretrained" if self.initialisation is None else "random"

    def load(self) -> tuple[MaskedLanguageModel, Tokenizer]:
        """The encoder with its head, and its tokenizer; files are read once in a process.

        Raises:
            InputError: the checkpoint is an encoder-decoder.
        """
        loaded = _loaded(self.checkpoint)
        if self.initialisation is None:
            return loaded.model, loaded.tokenizer
        return random_like(loaded, self.initialisation), loaded.tokenizer

    def load_encoder(self) -> tuple[Encoder, Tokenizer]:
        """The encoder, with the pooler that the checkpoint has for classifiers, and its tokenizer."""
        model, tokenizer = self.load()
        if self.initialisation is None:
            return _encoder(self.checkpoint), tokenizer
        return model.encoder, tokenizer

    def origin(self) -> LoadedModel[MaskedLanguageModel]:
        """The checkpoint that gives the shape and the tokenizer."""
        return _loaded(self.checkpoint)

    def load_any(self) -> tuple[LanguageModel, Tokenizer]:
        """As `load`, for tasks that score encoders and encoder-decoders alike."""
        loaded = _any_loaded(self.checkpoint)
        if self.initialisation is None:
            return loaded.model, loaded.tokenizer
        return random_like(loaded, self.initialisation), loaded.tokenizer


@dataclass(frozen=True)
class Subject:
    """A checkpoint with the seeds it is fine-tuned with and the initialisations it is compared with."""

    checkpoint: str
    source: str
    fingerprint: str
    shape_fingerprint: str
    seeds: tuple[int, ...]
    initialisations: tuple[int, ...]

    def pretrained(self) -> ModelChoice:
        """The checkpoint's weights."""
        return ModelChoice(self.checkpoint, None, self.fingerprint)

    def random(self, initialisation: int) -> ModelChoice:
        """Fresh weights. The fingerprint holds no trained weight, so these runs serve every checkpoint of the shape."""
        return ModelChoice(self.checkpoint, initialisation, self.shape_fingerprint)


def read_subject(checkpoint: str, seeds: list[int], initialisations: list[int]) -> Subject:
    """Load a checkpoint once, to refuse what cannot be evaluated before any work, and fingerprint it.

    Raises:
        InputError: no checkpoint there, a causal model, no seed, or a seed twice.
    """
    for name, values in (("seeds", seeds), ("initialisations", initialisations)):
        if len(set(values)) != len(values):
            raise InputError(f"'{name}' must be distinct, but is {values}: equal runs would count twice")
    if not seeds:
        raise InputError("'seeds' must name at least one seed, but is empty")
    if len(initialisations) == 1:
        raise InputError("'initialisations' must be empty or name at least two seeds: one has no interval")
    loaded = _any_loaded(str(Path(checkpoint).resolve()))
    if isinstance(loaded.model, MaskedLanguageModel):
        require_masked_language_model(loaded, checkpoint)
    tokenizer = tokenizer_hash(loaded.tokenizer_path)
    shape = {"model": asdict(loaded.model.config), "vocab_size": loaded.model.vocab_size, "tokenizer": tokenizer}
    return Subject(
        checkpoint=str(Path(checkpoint).resolve()),
        source=loaded.source,
        fingerprint=hash_of({"weights": loaded.fingerprint, "tokenizer": tokenizer}),
        shape_fingerprint=hash_of(shape),
        seeds=tuple(seeds),
        initialisations=tuple(initialisations),
    )


def _loaded(checkpoint: str) -> LoadedModel[MaskedLanguageModel]:
    return require_masked_language_model(_any_loaded(checkpoint), checkpoint)


@functools.lru_cache(maxsize=1)
def _encoder(checkpoint: str) -> Encoder:
    return with_pooler(_loaded(checkpoint).model.encoder, Path(checkpoint))


@functools.lru_cache(maxsize=1)
def _any_loaded(checkpoint: str) -> LoadedModel[LanguageModel]:
    return load_model(checkpoint)
