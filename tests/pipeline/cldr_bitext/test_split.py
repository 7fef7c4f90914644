"""What is held out of what: the rules of the package's docstring, on what was drawn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.cldr_bitext.frames import frame
from pipeline.cldr_bitext.names import NAMES, NEVER_HELD_OUT, keys_of, names_of_bitext
from pipeline.cldr_bitext.phrasebook import FRAMES
from pipeline.cldr_bitext.split import (
    SEEN,
    UNSEEN,
    Draw,
    Sentence,
    Sizes,
    combinations,
    normalised,
    shares,
    split,
)

SIZES = Sizes(bitext_pairs=600, monolingual_sentences=1500, validation_pairs=60, test_pairs=201, unseen_share=0.4)


@pytest.fixture(scope="module", params=["de", "zh"])
def parts(request):
    return split("en", request.param, SIZES, 0.6, seed=3)


def names_in(sentences):
    return frozenset().union(*(sentence.names() for sentence in sentences))


def texts_in_training(parts):
    both = [sentence.text(language) for sentence in parts.bitext for language in (parts.source, parts.target)]
    return both + [sentence.text(language) for language, part in parts.monolingual.items() for sentence in part]


def test_counts_are_as_asked(parts):
    assert len(parts.bitext) == 600
    assert {language: len(part) for language, part in parts.monolingual.items()} == {"en": 1500, parts.target: 1500}
    assert (len(parts.validation), len(parts.test)) == (60, 201)
    assert parts.tags["test"].count(UNSEEN) == round(0.4 * 201)
    assert parts.tags["validation"].count(UNSEEN) == 24
    assert len(parts.tags["test"]) == 201


def test_no_side_of_a_held_out_sentence_is_in_any_training_text(parts):
    training = {normalised(text) for text in texts_in_training(parts)}
    for sentence in parts.test + parts.validation:
        for language in (parts.source, parts.target):
            assert normalised(sentence.text(language)) not in training


def test_no_two_sentences_share_a_combination_whatever_their_file(parts):
    every = parts.bitext + parts.validation + parts.test + [s for part in parts.monolingual.values() for s in part]
    assert len({sentence.combination for sentence in every}) == len(every)


def test_tags_say_what_the_files_hold(parts):
    bitext, monolingual = names_in(parts.bitext), names_in(parts.monolingual[parts.target])
    for name, sentences in (("test", parts.test), ("validation", parts.validation)):
        for sentence, tag in zip(sentences, parts.tags[name], strict=True):
            assert (tag == SEEN) == (sentence.names() <= bitext)
            assert sentence.names() <= bitext | monolingual


def test_the_bitext_keeps_to_its_names_and_both_monolingual_sides_to_none(parts):
    known = keys_of(names_of_bitext(NAMES, 0.6, seed=3))
    assert names_in(parts.bitext) <= known < keys_of(NAMES)
    for part in parts.monolingual.values():
        assert len(names_in(part)) > len(known)


def test_every_frame_gives_its_share(parts):
    for part in (parts.bitext, parts.monolingual["en"]):
        counts = [sum(sentence.frame is frame for sentence in part) for frame in FRAMES]
        assert max(counts) - min(counts) <= 1


def test_texts_are_short_and_whole(parts):
    for sentence in parts.bitext:
        english, other = sentence.text("en"), sentence.text(parts.target)
        assert 4 <= len(english.split()) <= 22
        assert other
        assert not re.search("[{}\t\n\u00a0\u202f]|None|  ", english + other)


def test_the_same_seed_draws_the_same_and_another_draws_others(parts):
    again = split("en", parts.target, SIZES, 0.6, seed=3)
    assert again == parts
    other = split("en", parts.target, SIZES, 0.6, seed=4)
    mine = {sentence.combination for sentence in parts.bitext}
    assert len(mine & {sentence.combination for sentence in other.bitext}) < 60
    assert names_of_bitext(NAMES, 0.6, seed=3) != names_of_bitext(NAMES, 0.6, seed=4)


def test_sentences_by_hand():
    by_name = {frame.name: frame for frame in FRAMES}
    flew = Sentence(by_name["flew"], (("FR",), ("PE",), ("3", "day")))
    assert flew.text("en") == "She flew from France to Peru 3 days ago."
    assert flew.text("de") == "Sie ist vor 3 Tagen von Frankreich nach Peru geflogen."
    assert flew.text("zh") == "她3天前从法国飞到了秘鲁。"
    moves = Sentence(by_name["moves"], (("PE",), ("FR",), ("2", "week")))
    assert moves.text("en") == "In 2 weeks he will move from Peru to France."
    assert moves.text("de") == "Er zieht in 2 Wochen von Peru nach Frankreich."
    assert moves.text("zh") == "他2周后将从秘鲁搬到法国。"
    assert moves.names() == {"country/PE", "country/FR", "time_unit/week"}
    tower = Sentence(by_name["tower"], (("1250.5", "foot"), ("1999-03-01",)))
    assert tower.text("en") == "The tower was built in March 1999 and is 1,250.5 feet high."
    assert tower.text("de") == "Der Turm wurde im März 1999 gebaut und ist 1.250,5 Fuß hoch."
    assert tower.text("zh") == "这座塔建于1999年3月，高1,250.5英尺。"
    pay = Sentence(by_name["pay"], (("1250.95", "EUR"), ("2024-12-31",)))
    assert pay.text("en") == "Please pay €1,250.95 by 12/31/24."
    assert pay.text("de") == "Bitte zahlen Sie bis zum 31.12.24 1.250,95 €."
    assert pay.text("zh") == "请在2024/12/31之前支付€1,250.95。"


def test_combinations_by_hand():
    names = {group: codes[:4] for group, codes in NAMES.items()}
    assert combinations(frame("a", en="{country} {country2} {past}"), names) == 4 * 3 * (4 * 29)
    assert combinations(frame("b", en="{country} {country2}"), {**names, "country": ("FR",)}) == 0


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 100))
def test_shares_are_within_rooms_and_as_even_as_these_allow(rooms, count):
    if count > sum(rooms):
        with pytest.raises(ValueError, match="do not fit"):
            shares(count, rooms)
        return
    given_ = shares(count, rooms)
    assert sum(given_) == count
    assert all(0 <= share <= room for share, room in zip(given_, rooms, strict=True))
    unfilled = [share for share, room in zip(given_, rooms, strict=True) if share < room]
    assert not unfilled or max(given_) <= min(unfilled) + 1


@given(st.floats(0.01, 1), st.integers(0, 100))
def test_names_of_the_bitext_are_a_share_of_each_group(share, seed):
    chosen = names_of_bitext(NAMES, share, seed)
    for group, codes in NAMES.items():
        if group in NEVER_HELD_OUT:
            assert chosen[group] == codes
        else:
            assert set(chosen[group]) <= set(codes)
            assert share * len(codes) <= len(chosen[group]) + 1e-9 < share * len(codes) + 1


def test_texts_that_differ_in_case_signs_or_spaces_alone_are_one():
    assert normalised("Am  4. Juli, kostet es 3,50 €!") == normalised("am 4 juli kostet es 3.50 $")
    assert normalised("12.5") != normalised("125")
    assert normalised("去年我们去了秘鲁。") == "去年我们去了秘鲁"


def test_a_drawer_gives_every_combination_it_promises_and_no_more():
    small = [frame("a", en="{country} and {country2} and {count}", de="{country2}, {country}, {count}")]
    names = {**NAMES, "country": NAMES["country"][:3]}
    total = 3 * 2 * 98
    draw = Draw(0, small)
    assert len({s.combination for s in draw.part("x", "o", total // 2, names, ("en",), 1 / 2)}) == total // 2
    with pytest.raises(InputError, match=f"'job.o' asks for {total // 2 + 1} sentences .* only {total // 2} comb"):
        Draw(0, small).part("x", "o", total // 2 + 1, names, ("en",), 1 / 2)


def test_equal_texts_of_unequal_combinations_are_drawn_once():
    # In English both frames read alike, so that half of what they could give is refused.
    alike = [frame(name, en="{country} {count}") for name in ("a", "b")]
    names = {**NAMES, "country": NAMES["country"][:2]}
    found = Draw(0, alike).part("x", "o", 98, names, ("en",), 1 / 2)
    assert len({sentence.text("en") for sentence in found}) == 98


@pytest.mark.parametrize(
    ("source", "target", "changes", "said"),
    [
        ("en", "fr", {}, "'job.target' must be one of en, de, zh, but is 'fr'"),
        ("EN", "de", {}, "'job.source' must be one of en, de, zh, but is 'EN'"),
        ("de", "de", {}, "must be two languages, but both are 'de'"),
        ("en", "de", {"bitext_pairs": 10**14}, "'job.bitext_pairs' asks for 100000000000000 sentences of 'bitext'"),
        ("en", "de", {"monolingual_sentences": 10**14}, "'job.monolingual_sentences' asks for"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_sentence(source, target, changes, said):
    sizes = Sizes(**{**vars(SIZES), "bitext_pairs": 10, "monolingual_sentences": 10} | changes)
    with pytest.raises(InputError, match=re.escape(said)):
        split(source, target, sizes, 0.6, 0)


def test_tests_of_unseen_names_need_names_that_are_held_out():
    with pytest.raises(InputError, match="each with a name that the bitext does not have, but there are only 0"):
        split("en", "de", Sizes(3000, 100, 10, 10, 0.5), 1.0, 0)


def test_a_part_takes_at_most_an_eighth_of_a_frame_unless_told_otherwise():
    small = [frame("a", en="{country} in {month}")]
    total = len(NAMES["country"]) * 480
    assert len(Draw(0, small).part("x", "o", total // 8, NAMES, ("en",))) == total // 8
    with pytest.raises(InputError, match=f"only {total // 8} comb"):
        Draw(0, small).part("x", "o", total // 8 + 1, NAMES, ("en",))


def test_the_bitext_takes_at_most_a_quarter():
    known = names_of_bitext(NAMES, 0.6, seed=0)
    most = sum(combinations(each, known) // 4 for each in FRAMES)
    with pytest.raises(InputError, match=f"only {most} comb"):
        split("en", "de", Sizes(most + 1, 1, 1, 1, 0), 0.6, 0)
