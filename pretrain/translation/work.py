"""The work of one rank: load the model, take chunk after chunk, write each once, stop cleanly when asked to.

Ranks share nothing but the output directory. Must not import the trainer or deepspeed.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, Literal

import hydra
import torch
from omegaconf import DictConfig, OmegaConf

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.progress import ProgressLine, progress
from conf.provenance import write_provenance
from pipeline.tokenizer import tokenizer_hash
from pretrain.decoding.search import SearchOptions
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.distributed import threads_of_a_rank
from pretrain.freed_memory import keep_freed_memory
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.load import LoadedModel, load_model
from pretrain.precision import warn_of_slow_bf16
from pretrain.ranks import Ranks
from pretrain.translation.dual_scores import UNSCORED, DualScorer, Side
from pretrain.translation.inputs import Chunk, Input, Sentence, TextInput
from pretrain.translation.output import OutputDirectory
from pretrain.translation.shard_input import is_shard_directory, open_shards
from pretrain.translation.translator import NOTES, OUTCOMES, Translator

logger = logging.getLogger(__name__)

MARKER = "requeue"  # as that of a training run: asked to stop, and the same command goes on
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
_WAIT_SECONDS = 0.2
Ending = Literal["done", "preempted"]


class _Asked(Exception):
    """A signal has asked this rank to stop."""


def translate(config: DictConfig, ranks: Ranks) -> Ending:
    """Translate what of `config.input` is not translated yet; see `conf/translate.yaml`.

    Raises InputError for an input, checkpoint or option that does not fit, and for an output directory that was begun
    with other ones.
    """
    keep_freed_memory()
    torch.set_num_threads(threads_of_a_rank(os.environ, ranks.local_world_size))
    if ranks.is_main:
        warn_of_slow_bf16(config.precision, "cuda" if torch.cuda.is_available() else "cpu")
    loaded = load_model(config.checkpoint)
    source = _input(config, loaded)
    scoring = None if config.score_with is None else load_model(config.score_with)
    translator = _translator(config, loaded, scoring, ranks)
    output = OutputDirectory(config.output, _settings(config, source, loaded, scoring))
    if ranks.is_main:
        (output.path / MARKER).unlink(missing_ok=True)
        models = {"checkpoint": loaded} | ({} if scoring is None else {"score_with": scoring})
        inputs = {name: model.fingerprint for name, model in models.items()} | source.fingerprints()
        write_provenance(output.path, config, inputs=inputs, seeds={"decoding": config.decoding.get("seed", 0)})
        logger.info("translating with %s", ", ".join(filter(None, (loaded.source, str(loaded.languages)))))
    worker = _Worker(source, translator, output, ranks)
    before = {number: signal.signal(number, worker.note) for number in SIGNALS}
    try:
        chunks = worker.run()
        if not ranks.is_main:
            return "done"
        while not worker.wait(chunks):
            chunks = worker.run()  # whose rank was lost
    except _Asked:
        if ranks.is_main:
            atomic_write_text(output.path / MARKER, "asked to stop\n")
            logger.info("asked to stop: finished chunks are kept, and the same command goes on from there")
        return "preempted"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    counts = output.finish(chunks, (*OUTCOMES, *NOTES, *([] if scoring is None else [UNSCORED])))
    words = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items() if number)
    logger.info("%s: complete: %s", output.path, words or "nothing to translate")
    return "done"


def _input(config: DictConfig, loaded: LoadedModel[Any]) -> Input:
    """Files, or a shard directory."""
    paths = [str(path) for path in config.input] if OmegaConf.is_list(config.input) else [str(config.input)]
    shards = [path for path in paths if is_shard_directory(path)]
    if not shards:
        return TextInput(paths, config.format, config.text_key, config.id_key, config.chunk_bytes)
    if len(paths) > 1:
        raise InputError(f"input must be files or one shard directory, but names '{shards[0]}' beside others")
    own = tokenizer_hash(loaded.tokenizer_path)
    return open_shards(shards[0], config.side, config.split, config.chunk_bytes, config.source_language, own)


def _translator(
    config: DictConfig, loaded: LoadedModel[Any], scoring: LoadedModel[Any] | None, ranks: Ranks
) -> Translator:
    source, target, options = config.source_language, config.target_language, "source_language and target_language"
    loaded.languages.require(source, target, config.checkpoint, options)
    names = [("source_language", source), ("target_language", target)]
    reverse = _side(config.checkpoint, loaded, names, config.precision, ranks)
    search = hydra.utils.instantiate(config.decoding, _convert_="all")
    scorer = None
    if scoring is not None:
        scoring.languages.require(target, source, config.score_with, options)
        forward = _side(config.score_with, scoring, names[::-1], config.precision, ranks)
        _check_scoring(config, loaded, scoring, search)
        scorer = DualScorer(reverse, forward, loaded.tokenizer, Vocabulary.of(loaded.tokenizer), config.batch_tokens)
    return Translator(
        reverse.model,
        reverse.max_positions,
        loaded.tokenizer,
        search,
        reverse.languages,
        config.long_sources,
        config.batch_tokens,
        scorer,
    )


def _side(
    folder: str, loaded: LoadedModel[Any], names: Sequence[tuple[str, str | None]], precision: str, ranks: Ranks
) -> Side:
    """A model where this rank computes; `names` are the options that name the language it reads and the one it writes,
    and their values."""
    model = loaded.model
    if not isinstance(model, EncoderDecoder):
        raise InputError(f"'{folder}' must hold a model with a decoder, but holds an encoder")
    has_languages = bool(getattr(model.config, "languages", ()))
    source, target = (model.config.language_id(name, option) if has_languages else None for option, name in names)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", ranks.local_rank % torch.cuda.device_count())
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return Side(model.to(device, dtype), model.config.max_positions, (source, target))


def _check_scoring(
    config: DictConfig, loaded: LoadedModel[Any], scoring: LoadedModel[Any], options: SearchOptions
) -> None:
    """Refuse models whose scores would not be those of one pair in two directions. Raises InputError."""
    if tokenizer_hash(scoring.tokenizer_path) != tokenizer_hash(loaded.tokenizer_path):
        raise InputError(
            f"the tokenizer of score_with '{config.score_with}' must be that of '{config.checkpoint}', for scores are "
            "compared token by token, but is another: train both directions with one"
        )
    if scoring.fingerprint == loaded.fingerprint and not getattr(scoring.model.config, "languages", ()):
        raise InputError(
            f"score_with must be a model of the other direction, but '{config.score_with}' has the weights of "
            "`checkpoint`, which knows no languages"
        )
    if getattr(options, "prefix", []):
        raise InputError(
            "score_with does not go with decoding.prefix: what the other direction's outputs begin with is not known"
        )


def _settings(
    config: DictConfig, source: Input, loaded: LoadedModel[Any], scoring: LoadedModel[Any] | None
) -> dict[str, Any]:
    """All that the translations depend on, of which a directory has one."""
    return {
        **({} if scoring is None else {"score_with": scoring.fingerprint}),
        "checkpoint": loaded.fingerprint,
        "tokenizer_hash": tokenizer_hash(loaded.tokenizer_path),
        "direction": {"source_language": config.source_language, "target_language": config.target_language},
        "search": OmegaConf.to_container(config.decoding, resolve=True),
        "input": source.facts(),
        "long_sources": config.long_sources,
        "batch_tokens": config.batch_tokens,
        "precision": config.precision,
    }


class _Worker:
    """One rank at its chunks; `note` is its handler of signals, which stops it between two batches."""

    def __init__(self, source: Input, translator: Translator, output: OutputDirectory, ranks: Ranks) -> None:
        self._source, self._translator, self._output, self._ranks = source, translator, output, ranks
        self._asked = False
        self._start = time.monotonic()
        self._sentences = self._tokens = 0
        self._first: float | None = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self._asked = True

    def run(self) -> Sequence[str]:
        """Translate every chunk that nobody has and nobody is at -> the ids of all chunks of the input.

        Raises _Asked once a signal has come.
        """
        seen = []
        with progress("translating", self._source.total) as line:
            for chunk in self._source.chunks():
                seen.append(chunk.id)
                self._check()
                if self._output.finished(chunk.id) is not None:
                    continue
                with self._output.claim(chunk.id) as ours:
                    if ours:
                        self._translate(chunk, line)
            line.update(self._source.total, self._speed())
        return seen

    def wait(self, chunks: Sequence[str]) -> bool:
        """Wait for other ranks -> True once all chunks are finished, False as soon as one is free to be taken.

        Raises _Asked once a signal has come.
        """
        missing = list(chunks)
        while True:
            missing = [chunk for chunk in missing if self._output.finished(chunk) is None]
            if not missing:
                return True
            for chunk in missing:
                with self._output.claim(chunk) as free:
                    if free:
                        return False
            self._check()
            time.sleep(_WAIT_SECONDS)

    def _check(self) -> None:
        if self._asked:
            raise _Asked

    def _translate(self, chunk: Chunk, line: ProgressLine) -> None:
        sentences: list[Sentence] = self._source.sentences(chunk)
        done = 0

        def after_batch(count: int) -> None:
            nonlocal done
            self._check()
            done += count
            self._sentences += count
            position = self._source.position(chunk, min(1.0, done / max(1, len(sentences))))
            line.update(position, self._speed(), self._left(position))

        if self._first is None:
            self._first = self._source.position(chunk, 0.0)
            self._start = time.monotonic()
        found = self._translator.translate(sentences, after_batch)
        self._tokens += found.tokens
        self._output.write(chunk.id, found.lines, found.counts)

    def _speed(self) -> str:
        """What this rank does; tokens are those put out, of finished chunks."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        where = f" on rank {self._ranks.rank} of {self._ranks.world_size}" if self._ranks.world_size > 1 else ""
        tokens = f", {self._tokens / seconds:,.0f} tokens/s" if self._tokens else ""
        return f"{self._sentences / seconds:,.1f} sentences/s{tokens}{where}"

    def _left(self, position: float) -> float | None:
        """Seconds until the end of the input, at which all ranks together have come as far as this one."""
        done = position - (self._first or 0.0)
        seconds = time.monotonic() - self._start
        return None if done <= 0 else (self._source.total - position) * seconds / done
