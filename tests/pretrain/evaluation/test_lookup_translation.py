import difflib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.lookup_translation import Lookup, edit_distances, lookup_translations, tokens

BITEXT = [
    ("She flew from Peru to France.", "Sie ist von Peru nach Frankreich geflogen."),
    ("The train leaves at 3:45 PM.", "Der Zug fährt um 15:45 Uhr ab."),
    ("She flew from Peru to Spain.", "Sie ist von Peru nach Spanien geflogen."),
    ("She flew from Peru to Spain.", "Eine zweite Übersetzung."),
]


def levenshtein(left, right):
    """The recursion as the textbook has it."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        former, row = row, [i]
        for j, b in enumerate(right, start=1):
            row.append(min(former[j] + 1, row[-1] + 1, former[j - 1] + (a != b)))
    return row[-1]


def test_a_known_source_gets_its_target_and_of_two_the_first():
    assert lookup_translations(BITEXT, ["She flew from  Peru to Spain. "]) == [
        Lookup("Sie ist von Peru nach Spanien geflogen.", "She flew from Peru to Spain.", 1.0, True)
    ]


def test_any_other_gets_the_target_of_the_source_most_like_it():
    found = lookup_translations(BITEXT, ["He flew from Peru to Spain.", "The train leaves at 4:45 PM.", "Ω"])
    assert [item.text for item in found[:2]] == [BITEXT[2][1], BITEXT[1][1]]
    assert [item.similarity for item in found] == [pytest.approx(1 - 1 / 7), pytest.approx(1 - 1 / 9), 0]
    assert not any(item.exact for item in found)
    assert found[2].text == BITEXT[0][1]  # nothing is alike: the first of all


def test_an_empty_source_is_like_nothing():
    assert lookup_translations(BITEXT, [""])[0].similarity == 0
    assert lookup_translations([("", "leer"), *BITEXT], [""])[0].exact


def test_tokens_are_words_numbers_signs_and_single_chinese_characters():
    assert tokens("Pay €1,250.95 by 12/31!") == ["Pay", "€", "1", ",", "250", ".", "95", "by", "12", "/", "31", "!"]
    assert tokens("她3天前飞到了Peru。") == ["她", "3", "天", "前", "飞", "到", "了", "Peru", "。"]
    assert tokens("Übersetzung_neu") == ["Übersetzung", "_", "neu"]


@given(
    st.lists(st.integers(0, 4), max_size=7), st.lists(st.lists(st.integers(0, 4), max_size=7), min_size=1, max_size=5)
)
def test_distances_are_levenshteins_whatever_the_padding(query, rows):
    lengths = np.array([len(row) for row in rows])
    for padding in (-1, 2):
        table = np.full((len(rows), int(lengths.max())), padding, dtype=np.int32)
        for place, row in enumerate(rows):
            table[place, : len(row)] = row
        found = edit_distances(np.array(query, dtype=np.int32), table, lengths)
        assert found.tolist() == [levenshtein(query, row) for row in rows]


def test_the_most_similar_is_found_among_many():
    generator = np.random.default_rng(0)
    words = [f"w{number}" for number in range(30)]
    bitext = [(" ".join(generator.choice(words, generator.integers(3, 12))), str(number)) for number in range(200)]
    sources = [" ".join(generator.choice(words, generator.integers(3, 12))) for _ in range(20)]
    for source, found in zip(sources, lookup_translations(bitext, sources), strict=True):
        left = source.split()
        best = max(1 - levenshtein(left, right.split()) / max(len(left), len(right.split())) for right, _ in bitext)
        assert found.similarity == pytest.approx(best)
        assert bitext[int(found.text)][0] == found.source
        # An outside measure of likeness agrees that the found one is not worse than a random one.
        likeness = [difflib.SequenceMatcher(None, left, right.split()).ratio() for right, _ in bitext]
        assert difflib.SequenceMatcher(None, left, found.source.split()).ratio() >= np.median(likeness)


def test_no_bitext_is_refused():
    with pytest.raises(ValueError, match="at least one pair"):
        lookup_translations([], ["a"])


def test_distances_of_long_rows_do_not_overflow():
    table = np.zeros((1, 40_000), dtype=np.int32)
    assert edit_distances(np.array([0, 1], dtype=np.int32), table, np.array([40_000])).tolist() == [39_999]
