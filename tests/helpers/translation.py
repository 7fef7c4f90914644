"""A model in a folder that `translate` loads, a corpus for it, and the command."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from pipeline.tokenizer import save_tokenizer, train_wordpiece
from pretrain.models.huggingface import export_folder
from tests.helpers.lively import lively_model
from tests.helpers.ranks import REPOSITORY
from tests.helpers.warm_python import run_module

WORDS = [first + last for first in ("bal", "dor", "fim", "gan", "hul") for last in ("a", "ek", "io", "ul", "")]


def write_model(folder: Path, **changes: object) -> Path:
    """An exported encoder-decoder with a WordPiece tokenizer of made-up words; `changes` are those of the model."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train_wordpiece([" ".join(WORDS)] * 5, 90)
    save_tokenizer(tokenizer, folder)
    model = lively_model(vocab_size=tokenizer.get_vocab_size(), end=3.0, **changes)
    export_folder(model, folder / "tokenizer.json", folder / "model")
    return folder / "model"


def sentences(count: int, longest: int = 8, seed: int = 0) -> list[str]:
    """Sentences of 1 to `longest` words."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)]


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "pretrain.translate", *options]


def environment() -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE") and not k.startswith("SLURM")}
    return clean | {"OMP_NUM_THREADS": "1"}


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return run_module(command(*options), cwd=REPOSITORY, env=environment())


def lines(output: Path) -> list[dict]:
    """All translations of a directory, in order."""
    manifest = json.loads((output / "manifest.json").read_text())
    return [json.loads(line) for chunk in manifest["chunks"] for line in (output / chunk["path"]).open()]


def content(output: Path) -> dict[str, bytes]:
    """Every byte that must not depend on how the job ran."""
    files = [output / "manifest.json", *sorted((output / "translations").glob("*.jsonl"))]
    return {path.name: path.read_bytes() for path in files}
