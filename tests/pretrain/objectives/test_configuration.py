"""Every entry of the `objective` group builds the objective that it names, with options that fit its signature."""

import inspect
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

import conf
from conf.checks import check_target
from conf.errors import InputError
from pretrain.data.pair_batches import PairReading
from pretrain.objectives import DataFacts
from pretrain.objectives.mass import MASS

FACTS = DataFacts(60, {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}, 32)
EXPECTED = {
    "masked_lm": (("masked_lm",), (), False),
    "masked_lm_nsp": (("masked_lm", "next_sentence"), ("sentence_lengths",), True),
    "masked_lm_sop": (("masked_lm", "sentence_order"), ("sentence_lengths",), False),
    "causal_lm": (("causal_lm",), (), False),
    "mass": (("mass",), (), False),
    "translation": (("translation",), (), False),
    "online_back_translation": (("back_translation",), (), False),
}


def entry(name):
    return OmegaConf.load(Path(conf.__file__).parent / "objective" / f"{name}.yaml")


@pytest.mark.parametrize("name", EXPECTED)
def test_entries_build_their_objectives(name):
    node = entry(name)
    check_target(node, "objective")
    objective = instantiate(node, _convert_="all")(FACTS)
    assert (objective.loss_names, objective.columns, objective.needs_partners) == EXPECTED[name]


def test_each_objective_says_how_it_reads_shards():
    reading = {}
    for name in EXPECTED:
        build = instantiate(OmegaConf.merge(entry(name), {"batch_tokens": 96} if name == "translation" else {}))
        reading[name] = build.func.reading(**build.keywords)
    assert reading == dict.fromkeys(EXPECTED) | {"translation": PairReading(96, None)}
    into = instantiate(OmegaConf.merge(entry("translation"), {"target_language": "de"}))
    assert into.func.reading(**into.keywords) == PairReading(4096, "de")


def test_the_group_of_mass_has_the_defaults_of_the_class():
    node = {key: value for key, value in entry("mass").items() if not key.startswith("_")}
    defaults = {name: p.default for name, p in inspect.signature(MASS).parameters.items() if name != "facts"}
    assert node == defaults


@pytest.mark.parametrize("change", [{"unit": "phrase"}, {"exclude": "7"}, {"mask_probabilty": 0.3}])
def test_options_that_do_not_fit_are_found_before_anything_runs(change):
    node = OmegaConf.merge(entry("masked_lm"), change)
    with pytest.raises(InputError, match=next(iter(change))):
        check_target(node, "objective")
