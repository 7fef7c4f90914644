import pickle
from pathlib import Path

import hydra
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import conf
from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning, Dropped, clean
from pipeline.cleaning.length import Length
from pipeline.cleaning.normalise import Normalise

GROUP = Path(conf.__file__).parent / "cleaning"


def group_entry(name):
    return hydra.utils.instantiate(OmegaConf.load(GROUP / f"{name}.yaml"))


def test_steps_run_in_order_and_the_first_reason_counts():
    assert clean("a\r\nb ", [Normalise(), Length(1, 3)]) == "a\nb"
    assert clean("a\r\nb ", [Length(1, 3), Normalise()]) == Dropped("too_long")


@pytest.mark.parametrize("text", ["", " \n", "\u200b"])
def test_nothing_left_is_empty_whatever_the_steps(text):
    assert clean(text, [Normalise(), Length(10)]) == Dropped("empty")
    assert text == "\u200b" or clean(text, []) == Dropped("empty")


def test_the_default_cleaning_is_built_from_its_configuration_and_travels_to_workers():
    cleaning = pickle.loads(pickle.dumps(group_entry("default")))
    assert list(cleaning.steps) == ["normalise", "separators", "length", "letters", "repetition"]
    prose = "Words of a sentence that is long enough to keep.\n====\nAnd more.\n"
    assert cleaning(prose) == "Words of a sentence that is long enough to keep.\nAnd more."
    assert cleaning("short") == Dropped("too_short")


blocks = st.sampled_from(
    ["a", "words of a line", " ", "  ", "\n", "\n\n", "====", "| - |", "\r\n", "\u200b", "\u2029", "é", "1"]
)


@given(st.lists(blocks, max_size=30).map("".join))
def test_cleaning_what_is_clean_changes_nothing(text):
    # Documents are held out by their cleaned text: cleaned once or twice, the same ones must be.
    cleaning = Cleaning(**{**group_entry("default").steps, "length": Length(1)})
    once = cleaning(text)
    assert isinstance(once, Dropped) or cleaning(once) == once


def test_no_cleaning_only_drops_what_is_empty():
    assert group_entry("none")(" a ") == " a "
    assert group_entry("none")(" ") == Dropped("empty")


def test_its_printed_form_tells_options_apart_and_nothing_else():
    base = repr(Cleaning(length=Length(1)))
    assert base == repr(Cleaning(length=Length(1), normalise=None))
    assert base != repr(Cleaning(length=Length(2)))


def test_what_is_no_step_is_bad_input():
    with pytest.raises(InputError, match=r"cleaning\.length"):
        Cleaning(length=3)
