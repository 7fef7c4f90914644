"""`python -m pretrain.translate`: sentences -> translations with scores, by any number of ranks, killed or not.

Starts the ranks where no launcher has. What is finished is kept: the same command goes on.
"""

import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError
from pretrain.launch import EXIT_PREEMPTED, run_ranks
from pretrain.rank_command import rank_command
from pretrain.ranks import Ranks, from_environment


@dataclass
class TranslateOptions:
    """The options at the top level of `conf/translate.yaml`, where each is explained."""

    checkpoint: str = MISSING
    input: str | list[str] = MISSING
    output: str = MISSING
    format: Literal["auto", "text", "jsonl"] = "auto"
    text_key: str = "text"
    id_key: str = "id"
    side: Literal["source", "target"] = "source"
    split: Literal["train", "validation"] = "train"
    source_language: str | None = None
    target_language: str | None = None
    long_sources: Literal["split", "refuse", "skip"] = "split"
    precision: Literal["fp32", "bf16"] = "fp32"
    batch_tokens: int = 4096
    chunk_bytes: int = 1 << 20
    ranks: int = 1
    decoding: Any = MISSING


def starts_ranks(config: DictConfig) -> bool:
    """Return whether this process is to start the ranks and is none of them."""
    return isinstance(config.ranks, int) and config.ranks > 1 and from_environment(os.environ) is None


@command("translate", schema=TranslateOptions, directory="output", only_starts=starts_ranks)
def main(config: DictConfig) -> None:
    """Run as the rank that a launcher made of this process, or start the ranks; see `conf/translate.yaml`."""
    for name in ("ranks", "batch_tokens", "chunk_bytes"):
        if config[name] < 1:
            raise InputError(f"option '{name}' must be at least 1, but is {config[name]}")
    if starts_ranks(config):
        code = run_ranks([rank_command("pretrain.translate", "output", str(config.output))] * config.ranks)
        if code:
            sys.exit(code)
        return
    # torch is imported here: the parent of local ranks, and --help, do without.
    from pretrain.distributed import die_with_launcher
    from pretrain.translation.work import translate

    die_with_launcher()
    if translate(config, from_environment(os.environ) or Ranks(0, 1, 0, 1)) == "preempted":
        sys.exit(EXIT_PREEMPTED)


if __name__ == "__main__":
    main()
