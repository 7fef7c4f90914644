import json
from pathlib import Path

import pytest

from pipeline.manifest import MANIFEST
from pretrain.data.mixture import open_mixture
from pretrain.data.pair_batches import PairReading
from pretrain.data.pair_origins import doubts
from tests.helpers.pair_directory import write_toy_pairs


@pytest.fixture
def mixed(tmp_path):
    """Mixtures of directories given as (job, tag), and the directories."""
    made: list[Path] = []

    def directory(job, tag):
        path = write_toy_pairs(tmp_path / f"{len(made)}", 20, seed=len(made))
        manifest = json.loads((path / MANIFEST).read_text())
        manifest["config"] = {} if job is None else {"job": {"name": job, "tag": tag}}
        (path / MANIFEST).write_text(json.dumps(manifest))
        made.append(path)
        return str(path)

    def build(*stages, into=None):
        return doubts(
            [open_mixture([directory(*one) for one in stage], pairs=PairReading(256, into)) for stage in stages]
        )

    return build


BITEXT, TAGGED = ("parallel", None), ("back_translation", "<bt>")


def test_bitext_without_and_synthetic_pairs_with_a_tag_raise_no_doubt(mixed):
    assert mixed([BITEXT, TAGGED]) == mixed([BITEXT]) == mixed([("back_translation", None)]) == []
    assert mixed([TAGGED], [BITEXT]) == []  # a stage of synthetic pairs alone
    assert mixed([("parallel", "<2de>"), TAGGED]) == []


def test_what_no_manifest_tells_is_not_doubted(mixed):
    assert mixed([(None, None), TAGGED]) == mixed([(None, None), ("back_translation", None)]) == []


@pytest.mark.parametrize(
    ("bitext_tag", "synthetic_tag", "words"),
    [
        (None, None, "have no tag before their sources"),
        ("<bt>", "<bt>", "have the same tag <bt> before their sources"),
        ("<bt>", None, "job.tag the other way round"),
    ],
)
def test_tags_that_do_not_tell_synthetic_pairs_from_bitext_are_told_in_one_line(
    mixed, bitext_tag, synthetic_tag, words
):
    (sentence,) = mixed([("parallel", bitext_tag), ("back_translation", synthetic_tag)])
    assert words in sentence and "\n" not in sentence


def test_synthetic_text_that_swapping_makes_the_target_is_told(mixed):
    (sentence,) = mixed([BITEXT, TAGGED], into="de")
    assert "the synthetic text becomes the target" in sentence
    assert mixed([BITEXT, TAGGED], into="en") == []


def test_a_run_that_sees_the_tag_before_every_source_is_told(mixed):
    (sentence,) = mixed([TAGGED, TAGGED])
    assert "all pairs have the tag <bt>" in sentence


def test_packed_rows_are_no_pairs(directories):
    assert doubts([open_mixture(str(directories[0]))]) == []
