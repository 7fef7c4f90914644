"""`python -m pretrain.translate`: sentences -> translations with scores, by any number of ranks, killed or not.

Starts the ranks where no launcher has. What is finished is kept: the same command goes on.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from omegaconf import MISSING, DictConfig, OmegaConf

from conf.command import command
from conf.errors import InputError
from pretrain.rank_command import run_on_ranks, starts_ranks
from pretrain.ranks import Ranks


@dataclass
class TranslateOptions:
    """The options at the top level of `conf/translate.yaml`, where each is explained."""

    # Options that name what is there before the command begins; a chain looks for it before its first step.
    reads: ClassVar[tuple[str, ...]] = ("checkpoint", "input", "score_with", "reference")

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
    score_with: str | None = None
    reference: str | None = None
    long_sources: Literal["split", "refuse", "skip"] = "split"
    precision: Literal["fp32", "bf16"] = "fp32"
    batch_tokens: int = 4096
    chunk_bytes: int = 1 << 20
    ranks: int = 1
    decoding: Any = MISSING

    @staticmethod
    def check_inputs(config: DictConfig) -> None:
        """Compare what is read, before any work. Raises InputError for files that do not belong together."""
        from pretrain.translation.references import check_reference

        plain: Any = OmegaConf.to_container(config, resolve=True)
        if plain["reference"] is not None:
            check_reference(plain["reference"], plain["input"])


@command("translate", schema=TranslateOptions, directory="output", only_starts=starts_ranks)
def main(config: DictConfig) -> None:
    """Run as the rank that a launcher made of this process, or start the ranks; see `conf/translate.yaml`."""
    for name in ("ranks", "batch_tokens", "chunk_bytes"):
        if config[name] < 1:
            raise InputError(f"option '{name}' must be at least 1, but is {config[name]}")
    TranslateOptions.check_inputs(config)
    run_on_ranks(config, "pretrain.translate", "output", _work)


def _work(config: DictConfig, ranks: Ranks) -> str:
    from pretrain.translation.work import translate  # brings torch

    return translate(config, ranks)


if __name__ == "__main__":
    main()
