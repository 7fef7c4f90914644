"""Hugging Face folders: write one from a language model, read one into it, compare the two.

transformers is imported only to verify an export; files of weights are read by `weights.py`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from conf.errors import InputError
from conf.files import atomic_write_bytes, atomic_write_text, fsync_directory
from pipeline.tokenizer import load_tokenizer, save_tokenizer, special_ids
from pretrain.data.batching import from_rows
from pretrain.models.attention import AttentionLayout
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.evaluation_mode import evaluation_mode
from pretrain.models.huggingface_config import check_exportable, config_from_huggingface, config_to_huggingface
from pretrain.models.huggingface_names import from_huggingface, has_sentence_head, to_huggingface
from pretrain.models.huggingface_roberta import roberta_as_bert
from pretrain.models.huggingface_seq2seq import (
    check_seq2seq_exportable,
    seq2seq_config_from_huggingface,
    seq2seq_config_to_huggingface,
    seq2seq_from_huggingface,
    seq2seq_to_huggingface,
)
from pretrain.models.language_model import LanguageModel
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.models.tokens import Tokens
from pretrain.models.weights import SAFETENSORS, model_from_state, read_weights

logger = logging.getLogger(__name__)

TOKENIZER, CONFIG = "tokenizer.json", "config.json"


@dataclass(frozen=True)
class Direction:
    """The languages of source and target by name, for an encoder-decoder with language embeddings."""

    source: str | None = None
    target: str | None = None

    def ids(self, model: LanguageModel) -> tuple[int | None, int | None]:
        """The model's ids of both, None where it has no languages.

        Raises InputError for a language that the model does not know or has no use for, and for one that it needs.
        """
        named = (("source_language", self.source), ("target_language", self.target))
        if isinstance(model, EncoderDecoder):
            source, target = (model.config.language_id(name, option) for option, name in named)
            return source, target
        for option, name in named:
            if name is not None:
                raise InputError(f"{option} is '{name}', but the model is no encoder-decoder; leave it away")
        return None, None


def export_folder(
    model: LanguageModel, tokenizer_path: str | Path, output: str | Path, direction: Direction = Direction()
) -> None:
    """Write `config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` into a new folder.

    `tokenizer_path` is a tokenizer.json or a folder with one. `output` must not exist or be empty; the folder is
    written under a temporary name beside it and renamed when whole. `AutoModelForMaskedLM`, of an encoder-decoder
    `AutoModelForSeq2SeqLM`, and `AutoTokenizer` load it: the tokenizer there puts [CLS] and [SEP] around a text and
    between two. In BERT's form a sentence head goes along (`BertForPreTraining` loads it too); ModernBERT has no place
    for it, so there it is left out, with a warning. An encoder-decoder with languages is exported for one `direction`.
    Raises InputError if no class holds the model, the tokenizer or the direction is not the model's, or `output` is
    taken.
    """
    if isinstance(model, ConvSeq2SeqModel):
        raise InputError(
            "no Hugging Face class holds a convolutional encoder-decoder (model=conv_s2s_...), so it cannot be "
            "exported; use it from its checkpoint"
        )
    if isinstance(model, Seq2SeqModel):
        check_seq2seq_exportable(model.config)
    else:
        check_exportable(model.config)
    languages = direction.ids(model)
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"'{output}' exists and is not an empty folder; choose another output or remove it")
    tokenizer = load_tokenizer(tokenizer_path)
    if max(tokenizer.get_vocab(with_added_tokens=True).values()) >= model.vocab_size:
        raise InputError(
            f"the tokenizer '{tokenizer_path}' has {tokenizer.get_vocab_size()} entries, but the model was made for "
            f"{model.vocab_size}; give the tokenizer that the model was trained with"
        )
    if isinstance(model, MaskedLanguageModel) and model.sentence_head and model.config.architecture != "bert":
        logger.warning("ModernBERT's classes hold no sentence head: it and the pooler are left out of '%s'", output)
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        ids = special_ids(tokenizer)
        if isinstance(model, Seq2SeqModel):
            config = seq2seq_config_to_huggingface(model.config, model.vocab_size, ids)
            tensors = seq2seq_to_huggingface(model.state_dict(), model.config, model.vocab_size, languages)
        else:
            config = config_to_huggingface(model.config, model.vocab_size, ids)
            tensors = to_huggingface(model.state_dict(), model.config, model.vocab_size)
        _write_json(temporary / CONFIG, config)
        # Not by save_file, which hides a full disk in an error of its own. "format" tells transformers the framework.
        atomic_write_bytes(temporary / SAFETENSORS, save(tensors, metadata={"format": "pt"}))
        _write_tokenizer(tokenizer, ids, model, temporary)
        fsync_directory(temporary)
        if output.exists():
            output.rmdir()
        temporary.rename(output)
        fsync_directory(output.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_json(path: Path, value: dict[str, Any]) -> None:
    atomic_write_text(path, json.dumps(value, indent=2) + "\n")


def _write_tokenizer(tokenizer: Tokenizer, ids: dict[str, int], model: LanguageModel, directory: Path) -> None:
    names = {role: tokenizer.id_to_token(number) for role, number in ids.items()}
    cls, sep = names["cls"], names["sep"]
    # Shards have the special tokens in place already, so the training tokenizer may not add them; this one must.
    tokenizer.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, ids["cls"]), (sep, ids["sep"])],
    )
    save_tokenizer(tokenizer, directory)
    inputs = ["input_ids", "attention_mask"]
    if isinstance(model, MaskedLanguageModel) and model.config.token_types > 1:
        inputs.insert(1, "token_type_ids")
    settings = {f"{role}_token": name for role, name in names.items()} | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_positions,
        "model_input_names": inputs,
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", settings)


def import_folder(path: str | Path) -> tuple[LanguageModel, Tokenizer | None]:
    """Read a folder of BERT, RoBERTa, ModernBERT, BART or mBART -> (model in evaluation mode, tokenizer or None).

    None is for a folder without a tokenizer's file. BERT's sentence head is kept with its pooler; a pooler without one
    is not used. A folder of the bare encoder has no masked-LM head: it starts fresh from torch's global generator, and
    the log says so. Raises InputError, naming the file and field or tensor, for what is missing or cannot be imported.
    """
    folder = Path(path)
    config_path = folder / CONFIG
    try:
        raw = json.loads(config_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"'{folder}' is no Hugging Face folder: it has no {CONFIG}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"'{config_path}' cannot be read as JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InputError(f"'{config_path}' must hold a JSON object, but holds {json.dumps(raw)[:40]}")
    if raw.get("model_type") in ("bart", "mbart"):
        model = _import_seq2seq(raw, folder)
    else:
        model = _import_masked(raw, folder)
    tokenizer = load_tokenizer(folder) if (folder / TOKENIZER).is_file() else None
    return model.eval(), tokenizer


def _import_seq2seq(raw: dict[str, Any], folder: Path) -> LanguageModel:
    with _one_sentence(folder / CONFIG):
        config, vocab_size = seq2seq_config_from_huggingface(raw, str(folder / CONFIG))
    weights_path, tensors = read_weights(folder)
    state = seq2seq_from_huggingface(tensors, config, vocab_size, str(weights_path))
    return model_from_state(config, vocab_size, state, str(weights_path))


def _import_masked(raw: dict[str, Any], folder: Path) -> LanguageModel:
    config_path = folder / CONFIG
    with _one_sentence(config_path):  # refuses a kind of model before its weights are read
        config_from_huggingface(raw, str(config_path))
    weights_path, tensors = read_weights(folder)
    if raw["model_type"] == "roberta":
        raw, tensors = roberta_as_bert(raw, tensors, str(weights_path))
    with _one_sentence(config_path):
        config, vocab_size = config_from_huggingface(raw, str(config_path))
    config = replace(config, pooler=config.architecture == "bert" and has_sentence_head(tensors))
    state, has_head, unused = from_huggingface(tensors, config, vocab_size, str(weights_path))
    model = model_from_state(config, vocab_size, state, str(weights_path), partial=not has_head)
    if not has_head:
        logger.warning("%s holds no masked-LM head: it starts from random weights", weights_path)
    if unused:
        logger.info("%s: not used: %s", weights_path, ", ".join(unused))
    return model


@contextlib.contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Turn what a field of the wrong kind runs into, anywhere while a configuration is read, into an InputError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"'{path}' has a field that is not of its kind ({error}): download it again") from error


@torch.no_grad()
def largest_difference(
    model: LanguageModel, folder: str | Path, direction: Direction = Direction(), seed: int = 0
) -> float:
    """Load `folder` with transformers and return the largest difference of logits to `model`.

    Both read the same three random sequences (of up to 64 tokens, padded) in fp32 in evaluation mode; an
    encoder-decoder, in `direction`, three pairs of them.
    """
    from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # its bar of loaded tensors would litter a log file
    auto = AutoModelForSeq2SeqLM if isinstance(model, Seq2SeqModel) else AutoModelForMaskedLM
    theirs = auto.from_pretrained(str(folder), local_files_only=True, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    longest = min(64, model.config.max_positions)
    lengths = [longest, max(longest // 2, 1), max(longest // 5, 1)]
    first = _RandomSide(lengths, model.vocab_size, generator)
    with evaluation_mode(model):
        if isinstance(model, Seq2SeqModel):
            second = _RandomSide(lengths[::-1], model.vocab_size, generator)
            source, target = direction.ids(model)
            ours = model(
                Tokens(*first.inputs, None if source is None else torch.full_like(first.inputs[0], source)),
                Tokens(*second.inputs, None if target is None else torch.full_like(second.inputs[0], target)),
                second.real,
            )
            logits = theirs(
                input_ids=first.ids,
                attention_mask=first.mask,
                decoder_input_ids=second.ids,
                decoder_attention_mask=second.mask,
            ).logits[second.mask.bool()]
        else:
            ours = model(*first.inputs, first.real)
            logits = theirs(input_ids=first.ids, attention_mask=first.mask).logits[first.mask.bool()]
    return float((logits - ours.to(torch.float32)).abs().max())


class _RandomSide:
    """Random sequences of these lengths, one a row: `inputs` for our models, `ids` and `mask` for transformers'.

    `real` int64 are the flat indices, among the inputs, of what is not padding.
    """

    def __init__(self, lengths: list[int], vocab_size: int, generator: torch.Generator) -> None:
        longest = max(lengths)
        # Ours have a place of padding in every row, so that sequence i of one side is of the same kind on the other.
        inside = torch.arange(longest + 1) < torch.tensor(lengths)[:, None]
        ids = torch.randint(vocab_size, inside.shape, generator=generator)
        input_ids, position_ids, layout = from_rows(ids, inside.int())
        layout = AttentionLayout(layout.cu_seqlens, max_seqlen=longest, row_length=longest + 1)
        self.inputs = (input_ids, position_ids, layout)
        self.real = inside.flatten().nonzero()[:, 0]
        self.ids, self.mask = ids[:, :longest], inside[:, :longest].long()
