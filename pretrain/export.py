"""`python -m pretrain.export`: a checkpoint -> a folder that Hugging Face's `transformers` loads.

The folder appears under its name only when it is whole and, unless told otherwise, transformers has computed the same
logits from it.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError
from conf.files import directory_lock, fsync_directory, prepare_output_directory
from conf.provenance import write_provenance

if TYPE_CHECKING:
    from pretrain.models.language_model import LanguageModel
    from pretrain.models.load import LoadedModel

logger = logging.getLogger(__name__)

PROVENANCE, WEIGHTS = "provenance.json", "model.safetensors"


@dataclass
class ExportOptions:
    """Options of `conf/export.yaml`."""

    checkpoint: str = MISSING
    output: str = MISSING
    average: int | list[str] | None = None
    source_language: str | None = None
    target_language: str | None = None
    verify: bool = True
    tolerance: float = 1e-5


@command("export", schema=ExportOptions, directory="output")
def main(config: DictConfig) -> None:
    """Export `config.checkpoint` to `config.output`; see `conf/export.yaml`."""
    difference = export(config)
    verified = "not verified" if difference is None else f"logits in transformers differ by at most {difference:.1e}"
    print(f"{config.output}: {verified}")


def export(config: DictConfig) -> float | None:
    """Write, verify and rename into place -> the largest difference of logits, None with verify=false.

    Raises InputError if the checkpoint (or one to average) cannot be loaded, no Hugging Face class holds it, `output`
    is taken, cannot be written or is being written by another run, or transformers does not compute the same.
    """
    from pretrain.models.huggingface import Direction, export_folder, largest_difference

    if config.tolerance <= 0:
        raise InputError(f"option 'tolerance' must be above 0, but is {config.tolerance}")
    output = Path(config.output)
    _check_free(output, Path(config.checkpoint))
    prepare_output_directory(output.parent)
    loaded, inputs = _load(config)
    logger.info("exporting %s", ", ".join(filter(None, (loaded.source, str(loaded.languages)))))
    options = "source_language and target_language"
    loaded.languages.require(config.source_language, config.target_language, config.checkpoint, options)
    workplace = output.with_name(f".{output.name}.export")
    # The lock is on the working folder beside the output, so that nothing of it is left in the export.
    with directory_lock(workplace):
        try:
            staging = workplace / "folder"
            shutil.rmtree(staging, ignore_errors=True)  # of a run that was killed
            direction = Direction(config.source_language, config.target_language)
            export_folder(loaded.model, loaded.tokenizer_path, staging, direction)
            difference = largest_difference(loaded.model, staging, direction) if config.verify else None
            # Written so that NaN, which is neither above nor below, does not pass.
            if difference is not None and not difference <= config.tolerance:
                raise InputError(
                    f"transformers computes other logits from the export of '{config.checkpoint}': they differ by "
                    f"{difference:.1e}, more than tolerance {config.tolerance:.1e}; nothing was written"
                )
            write_provenance(staging, config, inputs=inputs, seeds={})
            _take_place(staging, output)
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
    return difference


def _load(config: DictConfig) -> tuple[LoadedModel[LanguageModel], dict[str, str]]:
    """Load the model, averaged where asked for; return it and name -> hash of the weights it is made of."""
    from pretrain.averaging import average_weights, checkpoints_to_average
    from pretrain.checkpoints import WEIGHTS as WEIGHTS_OF_RUN
    from pretrain.models.load import load_model

    if config.average is None:
        loaded = load_model(config.checkpoint)
        return loaded, {"checkpoint": loaded.fingerprint}
    average = config.average if isinstance(config.average, int) else [str(name) for name in config.average]
    chosen = checkpoints_to_average(config.checkpoint, average)
    loaded = load_model(chosen[-1].path)
    loaded.model.load_state_dict(average_weights(chosen))
    names = ", ".join(one.path.name for one in chosen)
    inputs = {f"checkpoint {one.path}": f"sha256:{one.state.files[WEIGHTS_OF_RUN]['sha256']}" for one in chosen}
    return replace(loaded, source=f"{loaded.source}, averaged over {names}"), inputs


def _check_free(output: Path, checkpoint: Path) -> None:
    """Raise InputError if something lies at `output` that is neither empty nor an export of ours."""
    if output.resolve() == checkpoint.resolve():
        raise InputError(f"output '{output}' is the checkpoint itself; choose another folder")
    if not output.exists():
        return
    if not output.is_dir():
        raise InputError(f"output '{output}' is a file; choose a folder")
    empty = not any(output.iterdir())
    if not empty and not ((output / PROVENANCE).is_file() and (output / WEIGHTS).is_file()):
        raise InputError(
            f"output '{output}' is not empty and no earlier export; choose another folder or remove what is there"
        )


def _take_place(staging: Path, output: Path) -> None:
    """Rename `staging` to `output`; an earlier export there goes only once the new one is ready."""
    if output.exists():
        old = output.with_name(f".{output.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        output.rename(old)
        staging.rename(output)
        shutil.rmtree(old)
    else:
        staging.rename(output)
    fsync_directory(output.parent)


if __name__ == "__main__":
    main()
