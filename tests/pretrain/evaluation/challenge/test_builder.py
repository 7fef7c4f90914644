"""What holds of the items of every grammar: balance, directions, counts, words, seeds."""

import math
import random
import re
from collections import Counter, defaultdict

import pytest

from conf.errors import InputError
from pretrain.evaluation.challenge.builder import build, items_hash
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.challenge.templates import TOKEN, bag_differences, bag_of_words, fill, slots_of

ORDER_PHENOMENA = {
    "english": {"word_order", "inversion", "adjective_position", "degree_position"},
    "chinese": {"place_position", "time_position", "relative_clause"},
}
FEWEST_PHENOMENA = {"english": 20, "chinese": 8}
FEWEST_WORDS = 30
# What a scorer blind to context may look at in a sentence with spaces between its words: the words and signs, what
# `bag_of_words` counts of the sentence as it is written (of Chinese each character), or all characters.
UNITS = {
    "words": lambda sentence: re.findall(r"\w+|[^\w\s]", sentence),
    "tokens": TOKEN.findall,
    "characters": list,
}


def by_phenomenon(items):
    groups = defaultdict(list)
    for item in items:
        groups[item.phenomenon].append(item)
    return groups


def in_words(grammar, items) -> list[tuple[str, str]]:
    """The items' sentences with spaces between their words, whatever the language: filled in once more, by slots."""
    templates = {f"{template.phenomenon}/{template.name}": template for template in grammar.templates}
    named = {kind: {next(iter(word.values())): word for word in words} for kind, words in grammar.words.items()}
    found = []
    for item in items:
        template = templates[item.template]
        words = {slot: named[kind][item.slots[slot]] for slot, kind in slots_of(template)}
        found.append(fill(template.patterns[int(item.id.rpartition("/")[2])], words))
    return found


def test_enough_phenomena_of_two_hundred_pairs_over_ten_templates(grammar, items):
    groups = by_phenomenon(items)
    assert set(groups) == set(grammar.phenomena())
    assert len(groups) >= FEWEST_PHENOMENA[grammar.language]
    for phenomenon, pairs in groups.items():
        assert len(pairs) >= 200, phenomenon
        assert len({pair.template for pair in pairs}) >= 10, phenomenon


def test_ids_and_sentences_are_distinct(items):
    assert len({item.id for item in items}) == len(items)
    assert len({(item.good, item.bad) for item in items}) == len(items)
    assert all(item.good != item.bad for item in items)


def test_no_sentence_is_good_in_one_place_and_bad_in_another(items):
    assert {item.good for item in items}.isdisjoint(item.bad for item in items)


def test_every_slot_has_thirty_words_but_for_closed_classes_with_a_reason(grammar):
    used = {kind for template in grammar.templates for _, kind in slots_of(template)}
    assert used == set(grammar.words)
    assert set(grammar.closed) <= used
    for kind in used:
        named = {next(iter(word.values())) for word in grammar.words[kind]}
        assert len(named) == len(grammar.words[kind]), kind
        if kind in grammar.closed:
            assert len(named) < FEWEST_WORDS and len(grammar.closed[kind].split()) > 5, kind
        else:
            assert len(named) >= FEWEST_WORDS, kind
            forms = list(grammar.words[kind][0])
            assert all(list(word) == forms and all(word.values()) for word in grammar.words[kind]), kind


def test_every_form_that_a_template_asks_for_varies_over_thirty_words(grammar):
    asked = {
        (kind, form)
        for template in grammar.templates
        for pattern in template.patterns
        for kind, _, form in re.findall(r"\{([a-z_]+)(\d*)(?:\.([a-z]+))?\}", pattern)
    }
    parts = {("achieve", "verb"), ("achieve", "result"), ("verb_object", "verb"), ("verb_object", "object")}
    for kind, form in asked - parts:  # of a verb with its result, the pair is the word
        if kind not in grammar.closed:
            assert len({word[form] for word in grammar.words[kind]}) >= FEWEST_WORDS, (kind, form)


def test_each_item_names_its_template_and_the_words_in_its_slots(grammar, items):
    for item, (good, bad) in zip(items, in_words(grammar, items), strict=True):
        assert (grammar.sentence(good), grammar.sentence(bad)) == (item.good, item.bad)
        assert item.template.startswith(f"{item.phenomenon}/") and item.group.startswith(item.template)


def test_sentences_are_filled_and_well_formed(grammar, items):
    for item in items:
        for sentence in (item.good, item.bad):
            assert not re.search(r"[{}\[\]/]", sentence), sentence
            if grammar.spaced:
                assert sentence[0].isupper() and sentence[-1] in ".?" and "  " not in sentence
            else:
                assert re.fullmatch(r"[\u4e00-\u9fff]+(\uff0c[\u4e00-\u9fff]+)*[\u3002\uff1f]", sentence), sentence


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_scorer_that_adds_up_weights_of_words_or_characters_gets_exactly_one_half(seed, unit, grammar, items):
    generator = random.Random(seed)
    weights: dict[str, float] = defaultdict(lambda: generator.uniform(-10, 10))
    won: dict[str, float] = defaultdict(float)
    for item, sentences in zip(items, in_words(grammar, items), strict=True):
        # fsum is rounded once, so that the same words in another order give the same sum
        good, bad = (math.fsum(weights[part] for part in UNITS[unit](sentence)) for sentence in sentences)
        # the same contrast has other words around it in its twin: compare up to rounding
        won[item.phenomenon] += 0.5 if math.isclose(good, bad, abs_tol=1e-9) else float(good > bad)
    for phenomenon, pairs in by_phenomenon(items).items():
        assert won[phenomenon] == len(pairs) / 2, phenomenon


@pytest.mark.parametrize("unit", UNITS)
def test_every_contrast_appears_in_both_directions_within_every_group(unit, grammar, items):
    groups = defaultdict(list)
    for item, pair in zip(items, in_words(grammar, items), strict=True):
        groups[item.group].append(pair)
    for group, pairs in groups.items():
        found = bag_differences(pairs, lambda sentence: Counter(UNITS[unit](sentence)))
        for difference, count in found.items():
            opposite = tuple((word, -n) for word, n in difference)
            assert found[opposite] == count, (group, difference)


def test_only_the_order_phenomena_are_permutations(grammar, items):
    for item in items:
        same_words = bag_of_words(item.good) == bag_of_words(item.bad)
        assert same_words == (item.phenomenon in ORDER_PHENOMENA[grammar.language]), item


def test_the_same_seed_gives_the_same_items_and_another_seed_others(grammar, items):
    assert items_hash(build(grammar, 200, seed=1)) == items_hash(items)
    assert items_hash(build(grammar, 200, seed=2)) != items_hash(items)


def test_items_of_a_seed_never_change_unnoticed(grammar):
    # A change here means new items: raise the grammar's version.
    expected = {"english": (2, "573c43df50069e19"), "chinese": (1, "7808539f77ec45e0")}
    assert (grammar.version, items_hash(build(grammar, 20, seed=1))[:16]) == expected[grammar.language]


def test_leaving_phenomena_out_does_not_change_the_others(grammar, items):
    for phenomenon in grammar.phenomena()[::7]:
        alone = build(grammar, 200, seed=1, phenomena=[phenomenon])
        assert alone == [item for item in items if item.phenomenon == phenomenon]


def test_words_of_a_kind_are_used_about_equally(grammar, items):
    used = Counter(item.slots["thing"] for item in items if "thing" in item.slots)
    assert len(used) == len(grammar.words["thing"])
    assert max(used.values()) < 3 * min(used.values())


def test_bad_requests_are_one_sentence():
    with pytest.raises(InputError, match="must be at least 1"):
        build(ENGLISH, 0, seed=1)
    with pytest.raises(InputError, match="'agreement', which the english grammar does not have"):
        build(ENGLISH, 10, seed=1, phenomena=["agreement"])
    with pytest.raises(InputError, match="groups of words: ask for fewer of them"):
        build(ENGLISH, 100_000, seed=1, phenomena=["a_an"])
