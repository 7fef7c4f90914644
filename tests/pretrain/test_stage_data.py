import json
from types import SimpleNamespace

import pytest

from pretrain.budget import Budget, Progress
from pretrain.data.mixture import open_mixture
from pretrain.stage_data import content_hash, describe, skips_ahead
from pretrain.stages import plan
from tests.helpers.shard_directory import sentences, write_shards


def stages(*keys):
    return [SimpleNamespace(train=SimpleNamespace(key=key)) for key in keys]


def test_the_hash_of_one_directory_does_not_depend_on_the_number_of_stages_that_read_it():
    assert content_hash(stages("a")) == content_hash(stages("a", "a")) == "a"


@pytest.mark.parametrize("other", ["ab", "abb", "aab", "ba"])
def test_the_hash_says_which_stage_reads_which_directory(other):
    assert content_hash(stages(*"aba")) != content_hash(stages(*other))


def test_the_dry_run_shows_shares_of_a_mixture_and_how_often_each_row_is_visited(tmp_path):
    texts = sentences(60)
    a = write_shards(tmp_path / "a", texts)
    b = write_shards(tmp_path / "b", texts[::-1], held_out=0.5)
    mixed, alone = open_mixture({str(a): 3, str(b): 1}), open_mixture(str(a))
    plans = plan({"x": {"share": 0.25}, "y": {"share": 0.75, "global_batch_size": 4}}, "", 8, 4)
    opened = [
        SimpleNamespace(plan=plans[0], train=mixed, held_out=None),
        SimpleNamespace(plan=plans[1], train=alone, held_out=None),
    ]
    first, second = describe(opened, 1000, "steps")
    rows = {source.directory: len(source.reader) for source in mixed.sources}
    parts = first["data"].split(", ")
    assert sorted(parts) == [f"{a} 75.0%", f"{b} 25.0%"] and second["data"] == str(a)
    share = {f"{a} 75.0%": 0.75 / rows[a], f"{b} 25.0%": 0.25 / rows[b]}
    assert first["visits of a row"] == ", ".join(f"{250 * 8 * share[part]:.2f}" for part in parts)
    assert second["visits of a row"] == f"{750 * 4 / rows[a]:.2f}"
    assert describe(opened, 1e6, "tokens")[1]["visits of a row"] == f"{750_000 / 32 / rows[a]:.2f}"
    assert describe(opened, 2, "hours")[1]["visits of a row"] == "unknown"


def test_rows_to_skip_that_a_run_will_not_read_again_are_told(tmp_path):
    shards = write_shards(tmp_path / "a", sentences(60))
    rows = open_mixture(str(shards)).pick(3, 4, 2).rows.tolist()  # of the second step
    (tmp_path / "skip.jsonl").write_text("\n".join(json.dumps({"data": str(shards), "row": row}) for row in rows))
    mixture, (only,) = open_mixture(str(shards), skip=tmp_path / "skip.jsonl"), plan(None, "", 4, 4)
    opened = [SimpleNamespace(plan=only, train=mixture)]

    def said(step, unit="steps", total=3):
        progress = Progress(step=step, consumed={mixture.key: 4 * step})
        return skips_ahead(opened, progress, Budget(unit, total), 3)

    assert said(0) == said(1).replace("the 8", "the 12") == "2 rows are skipped, 2 times among the 12 that come next"
    assert said(2).startswith("none of the 2 rows of skip_rows is among the 4 that come next")
    assert said(0, "tokens").endswith(f"2 times among the {len(mixture):,} that come next")
    assert (
        skips_ahead([SimpleNamespace(plan=only, train=open_mixture(str(shards)))], Progress(), Budget("steps", 3), 3)
        is None
    )
