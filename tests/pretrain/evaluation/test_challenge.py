"""The challenge builder: balance, seeds, counts, and the forms of its words."""

import math
import re
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.challenge.builder import MinimalPair, build, items_hash
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.challenge.english_words import ENGLISH_WORDS, past, s_form
from pretrain.evaluation.challenge.templates import TOKEN, Template, bag_differences, fill, slots_of

CLOSED_KINDS = {"pronoun"}
ORDER_PHENOMENA = {"word_order", "inversion", "adjective_position", "degree_position"}


@pytest.fixture(scope="module")
def items() -> list[MinimalPair]:
    return build(ENGLISH, 200, seed=1)


def by_phenomenon(items):
    groups = defaultdict(list)
    for item in items:
        groups[item.phenomenon].append(item)
    return groups


def test_at_least_eight_phenomena_of_two_hundred_pairs_over_many_templates(items):
    groups = by_phenomenon(items)
    assert len(groups) == 16
    for phenomenon, pairs in groups.items():
        assert len(pairs) >= 200, phenomenon
        assert len({pair.template for pair in pairs}) >= 10, phenomenon


def test_ids_and_sentences_are_distinct(items):
    assert len({item.id for item in items}) == len(items)
    assert len({(item.good, item.bad) for item in items}) == len(items)
    assert all(item.good != item.bad for item in items)


def test_open_kinds_have_thirty_distinct_words():
    for kind, words in ENGLISH_WORDS.items():
        forms = [tuple(word.values()) for word in words]
        assert len(forms) == len(set(forms)), kind
        if kind not in CLOSED_KINDS:
            assert len(words) >= 30, kind


def test_sentences_are_filled_and_well_formed(items):
    for item in items:
        for sentence in (item.good, item.bad):
            assert not re.search(r"[{}\[\]/]", sentence), sentence
            assert sentence[0].isupper() and sentence[-1] in ".?"
            assert "  " not in sentence


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_scorer_that_adds_up_word_weights_gets_exactly_one_half(seed, items):
    import random

    generator = random.Random(seed)
    weights: dict[str, float] = defaultdict(lambda: generator.uniform(-10, 10))
    for phenomenon, pairs in by_phenomenon(items).items():
        won = 0.0
        for pair in pairs:
            # fsum is rounded once, so that the same words in another order give the same sum
            good = math.fsum(weights[word] for word in TOKEN.findall(pair.good))
            bad = math.fsum(weights[word] for word in TOKEN.findall(pair.bad))
            # the same contrast has other words around it in its twin: compare up to rounding
            won += 0.5 if math.isclose(good, bad, abs_tol=1e-9) else float(good > bad)
        assert won == len(pairs) / 2, phenomenon


def test_every_contrast_appears_in_both_directions_within_every_group(items):
    groups = defaultdict(list)
    for item in items:
        groups[item.group].append((item.good, item.bad))
    for group, pairs in groups.items():
        found = bag_differences(pairs)
        for difference, count in found.items():
            opposite = tuple((word, -n) for word, n in difference)
            assert found[opposite] == count, (group, difference)


def test_only_the_order_phenomena_are_permutations(items):
    for item in items:
        same_words = Counter(TOKEN.findall(item.good)) == Counter(TOKEN.findall(item.bad))
        assert same_words == (item.phenomenon in ORDER_PHENOMENA), item


def test_in_word_order_every_moved_content_word_moves_left_as_often_as_right(items):
    moves: dict[tuple[str, str], int] = defaultdict(int)
    for item in items:
        if item.phenomenon != "word_order":
            continue
        good, bad = TOKEN.findall(item.good), TOKEN.findall(item.bad)
        moved = [place for place, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b]
        assert len(moved) == 2 and moved[1] == moved[0] + 1, item
        moves[item.group, good[moved[0]]] += 1
        moves[item.group, good[moved[1]]] -= 1
    function_words = {"the", "a", "this", "is", "can", "to", "in", "for", "of", "with", "on", "by", "from"}
    assert all(balance == 0 for (_, word), balance in moves.items() if word not in function_words)


@pytest.mark.parametrize("phenomenon", sorted(ORDER_PHENOMENA - {"word_order"}))
def test_each_order_is_good_in_one_twin_and_bad_in_the_other(phenomenon, items):
    kinds = {slot: kind for template in ENGLISH.templates for slot, kind in slots_of(template)}
    assert kinds
    for template in (t for t in ENGLISH.templates if t.phenomenon == phenomenon):
        first, second = template.patterns
        word = {"inversion": r"\[(\w+) the", "adjective_position": r"\[(\{\w+\})", "degree_position": None}[phenomenon]
        if word is None:  # the degree word stands first in one good order and last in the other
            assert "[{" not in first and re.search(r"\[\{\w+\} enough/", second)
        elif phenomenon == "inversion":  # the verb first, then the subject first
            verb = re.search(word, first)[1]
            assert f" {verb}/{verb} the" in second
        else:
            adjective = re.search(word, first)[1]
            assert f" {adjective}/{adjective} " in second


def test_the_same_seed_gives_the_same_items_and_another_seed_others(items):
    assert items_hash(build(ENGLISH, 200, seed=1)) == items_hash(items)
    assert items_hash(build(ENGLISH, 200, seed=2)) != items_hash(items)


def test_items_of_a_seed_never_change_unnoticed():
    # A change here means new items: raise the grammar's version.
    assert (ENGLISH.version, items_hash(build(ENGLISH, 20, seed=1))[:16]) == (1, "3c45f0216fecaf99")


def test_leaving_phenomena_out_does_not_change_the_others(items):
    alone = build(ENGLISH, 200, seed=1, phenomena=["a_an"])
    assert alone == [item for item in items if item.phenomenon == "a_an"]


def test_words_of_a_kind_are_used_about_equally(items):
    used = Counter(item.slots["thing"] for item in items if "thing" in item.slots)
    assert len(used) == len(ENGLISH_WORDS["thing"])
    assert max(used.values()) < 3 * min(used.values())


@pytest.mark.parametrize(
    ("word", "form"),
    [("class", "classes"), ("library", "libraries"), ("key", "keys"), ("box", "boxes"), ("dog", "dogs")],
)
def test_s_form(word, form):
    assert s_form(word) == form


@pytest.mark.parametrize(
    ("verb", "form"), [("move", "moved"), ("copy", "copied"), ("push", "pushed"), ("play", "played")]
)
def test_past(verb, form):
    assert past(verb) == form


def test_fill_by_hand():
    words = {"thing": {"one": "cup", "many": "cups"}, "thing2": {"one": "door", "many": "doors"}}
    assert fill("The {thing.one} near the {thing2.many} [is/are] {thing.many}.", words) == (
        "The cup near the doors is cups.",
        "The cup near the doors are cups.",
    )
    with pytest.raises(ValueError, match="exactly one"):
        fill("The {thing.one}.", words)


def test_slots_of_by_hand():
    template = Template("p", "t", ("A {thing.one} [x/y] {thing2.many}.", "A {thing.many} [y/x] {act.s}."))
    assert slots_of(template) == (("thing", "thing"), ("thing2", "thing"), ("act", "act"))


def test_bad_requests_are_one_sentence():
    with pytest.raises(InputError, match="must be at least 1"):
        build(ENGLISH, 0, seed=1)
    with pytest.raises(InputError, match="'agreement', which the english grammar does not have"):
        build(ENGLISH, 10, seed=1, phenomena=["agreement"])
    with pytest.raises(InputError, match="fewer pairs_per_phenomenon"):
        build(ENGLISH, 100_000, seed=1, phenomena=["a_an"])
