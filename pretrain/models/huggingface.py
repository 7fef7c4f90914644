"""Hugging Face folders: write one from a masked language model, read one into it, compare the two.

transformers is imported only to verify an export; files of weights are read by `weights.py`.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from conf.errors import InputError
from conf.files import atomic_write_bytes, atomic_write_text, fsync_directory
from pipeline.tokenizer import load_tokenizer, save_tokenizer, special_ids
from pretrain.data.batching import pad_sequences
from pretrain.models.config import EncoderConfig
from pretrain.models.huggingface_config import check_exportable, config_from_huggingface, config_to_huggingface
from pretrain.models.huggingface_names import from_huggingface, has_sentence_head, to_huggingface
from pretrain.models.huggingface_roberta import roberta_as_bert
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.weights import SAFETENSORS, model_from_state, read_weights

logger = logging.getLogger(__name__)

TOKENIZER, CONFIG = "tokenizer.json", "config.json"


def export_folder(model: MaskedLanguageModel, tokenizer_path: str | Path, output: str | Path) -> None:
    """Write `config.json`, `model.safetensors`, `tokenizer.json`, `tokenizer_config.json` into a new folder.

    `tokenizer_path` is a tokenizer.json or a folder with one. `output` must not exist or be empty; the folder is
    written under a temporary name beside it and renamed when whole. `AutoModelForMaskedLM` and `AutoTokenizer` load
    it: the tokenizer there puts [CLS] and [SEP] around a text and between two. In BERT's form a sentence head goes
    along (`BertForPreTraining` loads it too); ModernBERT has no place for it, so there it is left out, with a warning.
    Raises InputError if no class holds the model, the tokenizer is not the model's, or `output` is taken.
    """
    check_exportable(model.config)
    output = Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"'{output}' exists and is not an empty folder; choose another output or remove it")
    tokenizer = load_tokenizer(tokenizer_path)
    if max(tokenizer.get_vocab(with_added_tokens=True).values()) >= model.vocab_size:
        raise InputError(
            f"the tokenizer '{tokenizer_path}' has {tokenizer.get_vocab_size()} entries, but the model was made for "
            f"{model.vocab_size}; give the tokenizer that the model was trained with"
        )
    if model.sentence_head is not None and model.config.architecture != "bert":
        logger.warning("ModernBERT's classes hold no sentence head: it and the pooler are left out of '%s'", output)
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        ids = special_ids(tokenizer)
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


def _write_tokenizer(tokenizer: Tokenizer, ids: dict[str, int], model: MaskedLanguageModel, directory: Path) -> None:
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
    if model.config.token_types > 1:
        inputs.insert(1, "token_type_ids")
    settings = {f"{role}_token": name for role, name in names.items()} | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config.max_positions,
        "model_input_names": inputs,
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", settings)


def import_folder(path: str | Path) -> tuple[MaskedLanguageModel, Tokenizer | None]:
    """Read a folder of BERT, RoBERTa or ModernBERT -> (model in evaluation mode, tokenizer; None without its file).

    BERT's sentence head is kept with its pooler; a pooler without one is not used. A folder of the bare encoder has no
    masked-LM head: it starts fresh from torch's global generator, and the log says so. Raises InputError, naming the
    file and field or tensor, for what is missing or cannot be imported.
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
    _config_of(raw, config_path)  # refuses a kind of model before its weights are read
    weights_path, tensors = read_weights(folder)
    if raw["model_type"] == "roberta":
        raw, tensors = roberta_as_bert(raw, tensors, str(weights_path))
    config, vocab_size = _config_of(raw, config_path)
    config = replace(config, pooler=config.architecture == "bert" and has_sentence_head(tensors))
    state, has_head, unused = from_huggingface(tensors, config, vocab_size, str(weights_path))
    model = model_from_state(config, vocab_size, state, str(weights_path), partial=not has_head)
    if not has_head:
        logger.warning("%s holds no masked-LM head: it starts from random weights", weights_path)
    if unused:
        logger.info("%s: not used: %s", weights_path, ", ".join(unused))
    tokenizer = load_tokenizer(folder) if (folder / TOKENIZER).is_file() else None
    return model.eval(), tokenizer


def _config_of(raw: dict[str, Any], path: Path) -> tuple[EncoderConfig, int]:
    try:
        return config_from_huggingface(raw, str(path))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"'{path}' has a field that is not of its kind ({error}): download it again") from error


@torch.no_grad()
def largest_difference(model: MaskedLanguageModel, folder: str | Path, seed: int = 0) -> float:
    """Load `folder` with transformers and return the largest difference of logits to `model`.

    Both read the same three random sequences (of up to 64 tokens, padded) in fp32 in evaluation mode.
    """
    from transformers import AutoModelForMaskedLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # its bar of loaded tensors would litter a log file
    theirs = AutoModelForMaskedLM.from_pretrained(str(folder), local_files_only=True, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    longest = min(64, model.config.max_positions)
    lengths = [longest, max(longest // 2, 1), max(longest // 5, 1)]
    sequences = [torch.randint(model.vocab_size, (n,), generator=generator).tolist() for n in lengths]
    input_ids, position_ids, layout, starts = pad_sequences(sequences, pad_id=0)
    real = torch.cat([int(start) + torch.arange(n) for start, n in zip(starts, lengths, strict=True)])
    was_training = model.training
    ours = model.eval()(input_ids, position_ids, layout, real)
    model.train(was_training)
    mask = torch.zeros_like(input_ids)
    mask[real] = 1
    shape = (len(lengths), longest)
    logits = theirs(input_ids=input_ids.view(shape), attention_mask=mask.view(shape)).logits
    return float((logits.flatten(0, 1)[real] - ours.to(torch.float32)).abs().max())
