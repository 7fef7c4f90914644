"""Bitext and synthetic pairs in a mixture, and the tags that tell a model which is which: what seems to be mixed up.

Only manifests are looked at: `job=parallel` made bitext, `job=back_translation` synthetic pairs. Must not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pretrain.data.mixture import Mixture
from pretrain.data.pair_batches import PairBatches

_IS_SYNTHETIC = {"parallel": False, "back_translation": True}


@dataclass(frozen=True)
class _Origin:
    """What the manifest of a directory says: whether a model wrote the sources, and the tag before each."""

    directory: Path
    is_synthetic: bool
    tag: str | None
    swapped: bool


def doubts(mixtures: Sequence[Mixture]) -> list[str]:
    """What a run that reads these mixtures, one a stage, may not mean; a sentence for each, none where all is well."""
    stages = [_origins(mixture) for mixture in mixtures]
    found = [sentence for stage in stages for sentence in _of_stage(stage)]
    # A stage may well be of synthetic pairs alone, but not all of a run.
    everything = [one for stage in stages for one in stage]
    whole = sum(len(mixture.sources) for mixture in mixtures) == len(everything) > 0
    if whole and all(one.is_synthetic and one.tag is not None and not one.swapped for one in everything):
        found.append(
            f"all pairs have the tag {everything[0].tag} before their source, which no source to be translated will "
            "have: read bitext without a tag beside them, or make them with job.tag=null"
        )
    return list(dict.fromkeys(found))


def _origins(mixture: Mixture) -> list[_Origin]:
    """The directories whose manifest tells."""
    found = []
    for source in mixture.sources:
        job = source.reader.manifest.config.get("job")
        if not isinstance(source.reader, PairBatches) or not isinstance(job, dict):
            continue
        synthetic = _IS_SYNTHETIC.get(job.get("name", ""))
        if synthetic is not None:
            found.append(_Origin(source.directory, synthetic, job.get("tag"), source.reader.swapped))
    return found


def _of_stage(origins: Sequence[_Origin]) -> list[str]:
    """The doubts about one mixture."""
    synthetic = [one for one in origins if one.is_synthetic]
    bitext = [one for one in origins if not one.is_synthetic]
    found = [
        f"the pairs in '{one.directory}' are read with their sides swapped (objective.target_language), so that the "
        "synthetic text becomes the target: make them of real sentences of the target language"
        for one in synthetic
        if one.swapped
    ]
    for one in synthetic:
        if one.swapped:
            continue
        for other in bitext:
            if one.tag is None and other.tag is not None:
                found.append(
                    f"the bitext in '{other.directory}' has the tag {other.tag} before each source and the synthetic "
                    f"pairs in '{one.directory}' have none: make them with job.tag the other way round"
                )
            elif one.tag == other.tag:
                tag = "no tag" if one.tag is None else f"the same tag {one.tag}"
                found.append(
                    f"the synthetic pairs in '{one.directory}' and the bitext in '{other.directory}' have {tag} before "
                    "their sources, so the model cannot tell them apart: make the synthetic ones with a job.tag of "
                    "their own"
                )
    return found
