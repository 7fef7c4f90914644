import re

import pytest

from pipeline.cldr_bitext.frames import frame
from pipeline.cldr_bitext.phrasebook import FRAMES, LANGUAGES
from pipeline.cldr_bitext.slots import KINDS


def test_slots_stand_where_each_language_wants_them():
    greeting = frame("greeting", en="{future} {country} beats {country2}.", zh="{country}{future}胜{country2}。")
    assert greeting.slots == ("country", "country2", "future")
    assert greeting.kinds == ("country", "country", "future")
    words = {"country": "Peru", "country2": "Chile", "future": "in 3 days"}
    assert greeting.fill("en", words) == "In 3 days Peru beats Chile."
    assert greeting.fill("zh", words) == "Peruin 3 days胜Chile。"


def test_a_slot_without_words_is_an_error():
    with pytest.raises(KeyError):
        frame("f", en="To {country}.").fill("en", {})


@pytest.mark.parametrize("german", ["Nach {land}.", "Nach Hause.", "Von {country} nach {country}."])
def test_languages_with_other_slots_are_refused(german):
    with pytest.raises(ValueError, match="frame 'f' must have the slots"):
        frame("f", en="To {country}.", de=german)


def test_every_frame_is_there_in_every_language_with_known_slots():
    assert 20 <= len(FRAMES) <= 40
    assert len({frame.name for frame in FRAMES}) == len(FRAMES)
    for each in FRAMES:
        assert tuple(each.texts) == LANGUAGES
        assert set(each.kinds) <= set(KINDS), each.name
        assert len(each.slots) >= 1
    assert {kind for each in FRAMES for kind in each.kinds} == set(KINDS)


def test_sentences_end_as_their_language_ends_them_and_no_two_frames_read_alike():
    for language in LANGUAGES:
        texts = [each.texts[language] for each in FRAMES]
        assert len(set(texts)) == len(texts)
        assert all(text.endswith("。" if language == "zh" else ".") for text in texts)
    assert not [each.name for each in FRAMES if re.search("[A-Za-z]", re.sub(r"\{\w+\}", "", each.texts["zh"]))]
