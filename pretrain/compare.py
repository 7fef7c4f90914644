"""`python -m pretrain.compare`: which differences between two evaluations of the same items are real.

Reads what `python -m pretrain.evaluate` or `finetune` wrote, prints a table and writes `comparison.json`, `config.yaml`
and `provenance.json` into `output`. Must not import torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError

# What a comparison writes (and a page that may be made of it): a folder that holds anything else is not overwritten.
_WRITTEN = ("comparison.json", "provenance.json", "config.yaml", "report.html")


@dataclass
class CompareOptions:
    """Options of `conf/compare.yaml`."""

    # Options that name what is there before the command begins; a chain looks for it before its first step.
    reads: ClassVar[tuple[str, ...]] = ("first", "second")

    first: str = MISSING
    second: str = MISSING
    output: str = MISSING
    margin: float = 0.01
    first_model: Literal["pretrained", "random"] = "pretrained"
    second_model: Literal["pretrained", "random"] = "pretrained"


@command("compare", schema=CompareOptions, directory="output")
def main(config: DictConfig) -> None:
    """Compare `config.second` with `config.first`; see `conf/compare.yaml`."""
    from conf.files import directory_lock, fingerprint_file, prepare_own_directory
    from conf.provenance import write_provenance
    from pretrain.evaluation.comparison import SEED, compare_evaluations
    from pretrain.evaluation.comparison_table import print_comparison, write_comparison
    from pretrain.evaluation.evaluated import SCORES, read_evaluation

    if not 0.0 < config.margin < 1.0:
        raise InputError(
            f"option 'margin' must be a difference between 0 and 1 that counts as none (0.01 is one point), but is "
            f"{config.margin}"
        )
    paths = {name: Path(config[name]) for name in ("first", "second")}
    first, second = (read_evaluation(name, path, config[f"{name}_model"]) for name, path in paths.items())
    if paths["first"].resolve() == paths["second"].resolve() and first.model == second.model:
        raise InputError(f"options 'first' and 'second' must be two evaluations, but both are '{paths['first']}'")
    found = compare_evaluations(first, second, config.margin)
    if not found.rows:
        reasons = "; ".join(found.notes)
        raise InputError(f"'{first.path}' and '{second.path}' have no score of the same items: {reasons}")
    output = prepare_own_directory(config.output, _WRITTEN, "an earlier comparison")
    with directory_lock(output):
        inputs = {name: fingerprint_file(path / SCORES) for name, path in paths.items()}
        write_provenance(output, config, inputs, {"resampling": SEED})
        write_comparison(output / "comparison.json", found)
    print_comparison(found)
    print(f"{output / 'comparison.json'}: written")


if __name__ == "__main__":
    main()
