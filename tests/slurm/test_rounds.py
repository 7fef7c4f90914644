import pytest
from omegaconf import OmegaConf

from conf.errors import InputError
from slurm.chain import read_chain
from slurm.rounds import in_round, needs_in_round, rounds_of


def chain_of(rounds, **steps):
    return read_chain(OmegaConf.create({"name": "test", "rounds": rounds, "steps": steps}), "runs/t", [])


STEPS = {
    "data": {"command": "pipeline"},
    "first": {
        "command": "pretrain",
        "needs": ["data"],
        "round": "first",
        "outputs": ["back_{round}"],
    },
    "again": {
        "command": "pretrain",
        "needs": ["data", "forward:previous"],
        "round": "later",
        "options": {"data=": {"x/forward_{previous}": 1.0}},
        "outputs": ["back_{round}"],
    },
    "forward": {
        "command": "pretrain",
        "needs": ["first", "again"],
        "round": "each",
        "options": {"checkpoint": "x/back_{round}"},
    },
    "score": {"command": "pretrain.evaluate", "needs": ["forward"]},
}


def test_steps_are_repeated_in_their_rounds_and_need_those_of_the_same_or_the_previous_one():
    chain = chain_of(3, **STEPS)
    assert [(step.name, step.needs) for step in chain.steps] == [
        ("data", ()),
        ("first_1", ("data",)),
        ("forward_1", ("first_1",)),
        ("again_2", ("data", "forward_1")),
        ("forward_2", ("again_2",)),
        ("again_3", ("data", "forward_2")),
        ("forward_3", ("again_3",)),
        ("score", ("forward_3",)),
    ]
    by_name = {step.name: step for step in chain.steps}
    assert by_name["first_1"].outputs == ("back_1",) and by_name["again_3"].outputs == ("back_3",)
    assert by_name["forward_2"].outputs == ("forward_2",)
    assert by_name["forward_2"].overrides == ("checkpoint=x/back_2",)
    assert by_name["again_2"].overrides == ("data={x/forward_1:1.0}",)


def test_one_round_has_no_later_steps():
    assert [step.name for step in chain_of(1, **STEPS).steps] == ["data", "first_1", "forward_1", "score"]


@pytest.mark.parametrize("rounds", [0, True, "2"])
def test_rounds_that_are_no_count_are_refused(rounds):
    with pytest.raises(InputError, match=r"chain\.rounds must be a whole number from 1 on"):
        chain_of(rounds, **STEPS)


def test_an_option_that_only_later_rounds_need_is_asked_for_by_its_name_in_the_chain():
    def chain_with(rounds, source):
        config = {"rounds": rounds, "later_rounds_need": ["text.source"], "text": {"source": source}, "steps": STEPS}
        return read_chain(OmegaConf.create(config), "runs/t", [])

    for lacking in (None, "???"):
        with pytest.raises(InputError, match=r"chain\.rounds is 2, .* needs chain\.text\.source, which is not given"):
            chain_with(2, lacking)
    assert len(chain_with(2, "news.de").steps) > len(chain_with(1, None).steps)


def test_mistyped_rounds_and_needs_are_refused():
    with pytest.raises(InputError, match=r"'chain\.steps\.a\.round' must be one of first, later, each"):
        rounds_of("every", 2, "chain.steps.a")
    with pytest.raises(InputError, match=r"step 'data' is not repeated"):
        needs_in_round(["data:previous"], 2, {"data": None}, 2, "chain.steps.a")
    with pytest.raises(InputError, match=r"runs once, so it has no previous round"):
        needs_in_round(["forward:previous"], None, {"forward": "each"}, 2, "chain.steps.a")


def test_numbers_are_filled_in_at_any_depth_and_only_in_repeated_steps():
    value = {"a_{round}": ["{previous}", {"b": "{round}{round}"}], "c": 1.5}
    assert in_round(value, 2) == {"a_2": ["1", {"b": "22"}], "c": 1.5}
    assert in_round(value, None) == value
