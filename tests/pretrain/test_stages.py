import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.stages import StageEntry, check_ranks, entries, place_of_step, plan, stage_at


def test_a_plain_run_is_one_stage_with_the_options_of_the_run():
    (only,) = plan(None, "shards", 64, 8)
    assert (only.end, only.data, only.global_batch_size, only.micro_batch_size) == (1.0, "shards", 64, 8)


def test_a_length_curriculum_takes_what_it_does_not_say_from_the_run():
    short, long = plan(
        {"short": {"share": 0.9}, "long": {"share": 0.1, "data": "512", "micro_batch_size": 2}}, "128", 64, 8
    )
    assert (short.end, short.data, short.micro_batch_size) == (0.9, "128", 8)
    assert (long.data, long.global_batch_size, long.micro_batch_size) == ("512", 64, 2)
    assert long.end == pytest.approx(1.0)


def test_each_stage_may_have_its_own_sampling_exponent():
    given = {"wide": {"share": 0.5, "sampling_exponent": 0}, "rest": {"share": 0.5}}
    assert [stage.sampling_exponent for stage in plan(given, ["a", "b"], 64, 8, 0.5)] == [0, 0.5]
    assert plan(None, ["a", "b"], 64, 8, 0.7)[0].sampling_exponent == 0.7
    assert plan(None, "a", 64, 8)[0].sampling_exponent is None


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        ({}, "must be null or name -> mapping"),
        ({"a": {"share": 0.5}, "b": {"share": 0.4}}, "add up to 0.9"),
        ({"a": {"shaer": 1.0}}, "stages.a has no option 'shaer': did you mean 'share'"),
        ({"a": {"share": 1.5}}, "stages.a.share must be a share of the budget"),
        ({"a": {"share": 1.0, "micro_batch_size": 0}}, "stages.a.micro_batch_size must be a whole number"),
        ({"a": {"share": 1.0, "sampling_exponent": "x"}}, "stages.a.sampling_exponent must be a number or null"),
        ({"a": 3}, "stages.a must be a mapping"),
    ],
)
def test_stages_that_make_none_are_refused(stages, sentence):
    with pytest.raises(InputError, match=sentence):
        plan(stages, "shards", 64, 8)


def test_a_batch_that_does_not_divide_among_ranks_names_its_stage():
    with pytest.raises(InputError, match=r"trainer.global_batch_size must be a multiple"):
        check_ranks(plan(None, "shards", 64, 8), 3)
    stages = plan({"a": {"share": 0.5}, "b": {"share": 0.5, "global_batch_size": 20}}, "shards", 64, 8)
    with pytest.raises(InputError, match=r"stages.b.global_batch_size must be a multiple of .* = 8 \* 2, but is 20"):
        check_ranks(stages, 2)


def test_ninety_per_cent_of_ten_steps_are_nine():
    assert [stage_at([0.9, 1.0], step, 10) for step in range(12)] == [0] * 9 + [1] * 3


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5))
def test_stages_follow_each_other_and_each_gets_its_share(shares):
    total = sum(shares)
    ends = [sum(shares[: i + 1]) / total for i in range(len(shares))]
    found = [stage_at(ends, step, total) for step in range(total)]
    assert found == [i for i, share in enumerate(shares) for _ in range(share)]


def test_the_place_of_a_step_follows_from_the_last_entry_before_it(tmp_path):
    lines = [
        {"step": 0, "stage": 0, "first_sample": 0},
        {"step": 5, "loss": 1.0},
        {"step": 6, "stage": 0, "first_sample": 24},  # resumed
        {"step": 9, "stage": 1, "first_sample": 0},
    ]
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 10, "first_s'
    )
    found = entries(tmp_path)
    assert found == [StageEntry(0, 0, 0), StageEntry(6, 0, 24), StageEntry(9, 1, 0)]
    places = [place_of_step(found, step, [4, 2]) for step in (1, 6, 7, 9, 10, 12)]
    assert [(entry.stage, first) for entry, first in places] == [
        (0, 0),
        (0, 20),
        (0, 24),
        (0, 32),
        (1, 0),
        (1, 4),
    ]
    with pytest.raises(InputError, match="from 1 on, but is 0"):
        place_of_step(found, 0, [4, 2])


def test_data_may_be_left_to_the_stages_if_each_has_its_own():
    stages = {"short": {"share": 0.9, "data": "s/128"}, "long": {"share": 0.1, "data": "s/512"}}
    assert [stage.data for stage in plan(stages, None, 8, 4)] == ["s/128", "s/512"]
    with pytest.raises(InputError, match=r"stages.long has no data: give stages.long.data, or data for all stages"):
        plan(stages | {"long": {"share": 0.1}}, None, 8, 4)
    with pytest.raises(InputError, match="option 'data' must be given: add data=SHARDS"):
        plan(None, None, 8, 4)
