"""A pretrained model from wherever it lies: a run directory, one of its checkpoints, or a Hugging Face folder.

Reads the files of a checkpoint, knows nothing of how training goes on from one (`pretrain/checkpoints.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch
from tokenizers import Tokenizer

from conf.errors import InputError
from conf.files import sha256_file
from pipeline.tokenizer import load_tokenizer
from pretrain.models.config import EncoderConfig, config_from_fields
from pretrain.models.huggingface import CONFIG, TOKENIZER, import_folder
from pretrain.models.language_model import LanguageModel, make_model
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.trained_languages import TrainedLanguages
from pretrain.models.weights import SAFETENSORS as WEIGHTS
from pretrain.models.weights import fingerprint_weights, model_from_state, read_safetensors

STATE, LATEST = "state.json", "latest"
M = TypeVar("M", bound=LanguageModel)


@dataclass(frozen=True)
class LoadedModel(Generic[M]):
    """A model in evaluation mode, fp32 on the CPU, with what belongs to it.

    `fingerprint` is "sha256:" and the hash of the weights file; `source` says in words what was loaded. `languages` are
    known of a checkpoint only, if it is not older than what says them.
    """

    model: M
    tokenizer: Tokenizer
    tokenizer_path: Path
    fingerprint: str
    source: str
    languages: TrainedLanguages = field(default_factory=TrainedLanguages)


def load_model(path: str | Path) -> LoadedModel[LanguageModel]:
    """Load a run directory (its latest checkpoint), a checkpoint folder, or a Hugging Face folder.

    Raises InputError in one sentence if `path` is none of these, or a file is missing, damaged, or of another shape
    than its configuration says.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(
            f"there is no folder '{folder}', and names of the hub are not downloaded: give a run directory, a "
            "checkpoint or a Hugging Face folder"
        )
    if (folder / STATE).is_file():
        return _load_checkpoint(folder)
    if (folder / "checkpoints").is_dir():
        return _load_checkpoint(_latest(folder))
    if (folder / CONFIG).is_file():
        return _load_huggingface(folder)
    raise InputError(
        f"'{folder}' is neither a run directory (checkpoints/{LATEST}), nor a checkpoint ({STATE}), nor a Hugging Face "
        f"folder ({CONFIG})"
    )


def load_masked_language_model(path: str | Path) -> LoadedModel[MaskedLanguageModel]:
    """`load_model`, which raises InputError for another kind of model too, one whose tokens see none after them among
    them: with a token masked it says nothing of it."""
    return require_masked_language_model(load_model(path), path)


def require_masked_language_model(
    loaded: LoadedModel[LanguageModel], path: str | Path
) -> LoadedModel[MaskedLanguageModel]:
    """`loaded`, which raises InputError as `load_masked_language_model` does; `path` is where it lay."""
    if not isinstance(loaded.model, MaskedLanguageModel):
        raise InputError(f"'{path}' holds an encoder-decoder, but a masked language model is needed here")
    if loaded.model.config.causal:
        raise InputError(
            f"'{path}' holds a causal model, but a masked language model is needed here: causal models cannot be "
            "evaluated or fine-tuned yet"
        )
    return cast(LoadedModel[MaskedLanguageModel], loaded)


def random_like(loaded: LoadedModel[M], seed: int) -> M:
    """A model of the same shape with freshly initialised weights, in evaluation mode: what training is compared with.

    A pure function of shape and seed; torch's global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = loaded.model.config
        pooler = isinstance(config, EncoderConfig) and config.pooler
        return cast(M, make_model(config, loaded.model.vocab_size, sentence_head=pooler).eval())


def _latest(run_directory: Path) -> Path:
    """The folder that `checkpoints/latest` names, be it a text file with the name or a link."""
    pointer = run_directory / "checkpoints" / LATEST
    if pointer.is_dir():
        return pointer.resolve()
    if not pointer.is_file():
        raise InputError(f"'{run_directory}' has no finished checkpoint: '{pointer}' does not exist")
    checkpoint = pointer.parent / pointer.read_text(encoding="utf-8", errors="replace").strip()
    if not (checkpoint / STATE).is_file():
        raise InputError(f"'{pointer}' names '{checkpoint.name}', but '{checkpoint / STATE}' does not exist")
    return checkpoint


def _load_checkpoint(folder: Path) -> LoadedModel[LanguageModel]:
    state = _read_state(folder / STATE)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise InputError(f"the checkpoint '{folder}' has no {WEIGHTS}")
    found = sha256_file(weights)
    expected = str(state["files"].get(WEIGHTS, {}).get("sha256", found)).removeprefix("sha256:")
    if found != expected:
        raise InputError(
            f"'{weights}' was changed or damaged: its sha256 is not the one in {STATE}; use an earlier one"
        )
    try:
        # The kernel is a choice for the machine that trained it, not a property of the weights.
        config = replace(config_from_fields(state["model"]), attention_kernel="auto")
    except TypeError as error:
        raise InputError(f"'{folder / STATE}', field 'model', is not of this version: {error}") from error
    model = model_from_state(config, state["vocab_size"], read_safetensors(weights), str(weights))
    tokenizer_path = folder.parent.parent / TOKENIZER
    source = f"{folder.parent.parent.name}, step {state['step']}"
    try:
        languages = TrainedLanguages.from_record(state.get("languages"))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"'{folder / STATE}', field 'languages', is not of this version: {error}") from error
    return LoadedModel(model, load_tokenizer(tokenizer_path), tokenizer_path, f"sha256:{found}", source, languages)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as JSON: {error}") from error
    for name in ("step", "model", "vocab_size", "files"):
        if not isinstance(state, dict) or name not in state:
            raise InputError(f"'{path}' lacks the field '{name}'; it is no checkpoint of this version")
    return dict(state)


def _load_huggingface(folder: Path) -> LoadedModel[LanguageModel]:
    with torch.random.fork_rng(devices=[]):
        # A head that the folder lacks is the same at every load.
        torch.manual_seed(0)
        model, tokenizer = import_folder(folder)
    if tokenizer is None:
        raise InputError(f"'{folder}' has no {TOKENIZER}; save its tokenizer there in the `tokenizers` format")
    source = f"Hugging Face folder {folder.name}"
    return LoadedModel(model, tokenizer, folder / TOKENIZER, fingerprint_weights(folder), source)
