import json

import pytest

from conf.errors import InputError
from pretrain.models.trained_languages import TrainedLanguages

ONE_WAY = TrainedLanguages.of([], [("de", "en"), ("de", "en")])
OPTIONS = "source_language and target_language"


def test_names_are_those_of_the_model_and_of_the_pairs_each_once():
    assert TrainedLanguages(("de", "en"), (("de", "en"),)) == ONE_WAY
    assert TrainedLanguages.of(["en", "fr"], [("de", "en")]).names == ("en", "fr", "de")


def test_what_is_recorded_is_read_again_and_without_a_record_nothing_is_known():
    for languages in (ONE_WAY, TrainedLanguages(("a", "b")), TrainedLanguages()):
        assert TrainedLanguages.from_record(json.loads(json.dumps(languages.record()))) == languages
    assert TrainedLanguages.from_record(None) == TrainedLanguages()


def test_they_are_said_in_words():
    assert str(ONE_WAY) == "trained to translate de into en"
    assert str(TrainedLanguages(("de", "en"))) == "trained on de, en" and str(TrainedLanguages()) == ""


def test_only_the_direction_that_was_learned_the_other_way_round_is_refused():
    with pytest.raises(InputError, match="'runs/a' was trained to translate de into en, but is asked to translate en"):
        ONE_WAY.require("en", "de", "runs/a", OPTIONS)
    both = TrainedLanguages.of([], [("de", "en"), ("en", "de")])
    for languages in (ONE_WAY, both, TrainedLanguages(("de", "en")), TrainedLanguages()):
        languages.require("de", "en", "runs/a", OPTIONS)
        languages.require("deu", "eng", "runs/a", OPTIONS)
        languages.require("en", None, "runs/a", OPTIONS)
    both.require("en", "de", "runs/a", OPTIONS)
