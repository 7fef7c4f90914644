import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.passages import (
    ADJACENT_PASSAGES,
    WORD_ORDER,
    HeldOutDocument,
    build_task,
    keyed,
    shuffle_words,
    split_documents,
)
from pipeline.prose import runs_of_passages
from pipeline.records import text_hash

NOUNS = ["reader", "printer", "cluster", "village", "river", "letter", "garden", "window", "signal", "engine", "author"]
VERBS = ["finds", "carries", "follows", "repairs", "opens", "describes", "measures", "forgets", "paints", "watches"]


def word_order_items(documents, size, seed):
    return build_task(WORD_ORDER, {"dev": (documents, size)}, seed)["dev"]


def adjacent_passages_items(documents, size, seed):
    return build_task(ADJACENT_PASSAGES, {"dev": (documents, size)}, seed)["dev"]


def sentence(generator, numbers=10_000):
    one, two, three, four = generator.choices(NOUNS, k=4)
    verb, other = generator.choices(VERBS, k=2)
    number = generator.randrange(numbers)
    if numbers == 1:  # few different sentences, so that many occur twice
        one = two = three = four = NOUNS[generator.randrange(3)]
        verb = other = VERBS[generator.randrange(3)]
    return f"The {one} of {number} {verb} a {two} near the {three}, and then {other} every {four} again."


def document(number, sentences, numbers=10_000):
    generator = random.Random(number)
    text = "\n\n".join(sentence(generator, numbers) for _ in range(sentences))
    return HeldOutDocument(f"d{number}", text_hash(text), text)


sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8)


def documents_of(sizes, numbers=10_000):
    return [document(number, size, numbers) for number, size in enumerate(sizes)]


@given(sizes, st.integers(2, 60), st.integers(0, 5))
def test_word_order_every_sentence_has_a_shuffled_twin_of_the_same_words_and_ends(sizes, size, seed):
    documents = documents_of(sizes)
    items = word_order_items(documents, size, seed)
    assert len(items) <= size
    intact = [item for item in items if item.label == 1]
    shuffled = {tuple(sorted(item.text_a.split())): item for item in items if item.label == 0}
    assert len(intact) == len(shuffled) == len(items) // 2
    texts = {document.id: document.text for document in documents}
    for item in intact:
        twin = shuffled[tuple(sorted(item.text_a.split()))]
        assert item.text_a in texts[item.group]
        assert twin.text_a != item.text_a
        assert twin.group == item.group
        assert twin.text_a.split()[0] == item.text_a.split()[0]
        assert twin.text_a.split()[-1] == item.text_a.split()[-1]


@given(sizes, st.integers(2, 60), st.integers(0, 5), st.sampled_from([1, 10_000]))
def test_adjacent_passages_labels_are_true_and_no_passage_tells_its_label(sizes, size, seed, numbers):
    documents = documents_of(sizes, numbers)
    items = adjacent_passages_items(documents, size, seed)
    assert len(items) <= size
    follows = {
        pair for document in documents for run in runs_of_passages(document.text) for pair in itertools.pairwise(run)
    }
    for item in items:
        assert ((item.text_a, item.text_b) in follows) == (item.label == 1)
        assert (item.text_b, item.text_a) not in follows
    for side in ("text_a", "text_b"):
        assert Counter(getattr(item, side) for item in items if item.label == 1) == Counter(
            getattr(item, side) for item in items if item.label == 0
        )
        assert max(Counter(getattr(item, side) for item in items).values(), default=2) == 2


def test_about_half_of_the_negatives_are_of_the_same_document():
    documents = documents_of([40] * 20)
    items = adjacent_passages_items(documents, 200, 0)
    texts = {document.id: document.text for document in documents}
    same = sum(item.text_b in texts[item.group] for item in items if item.label == 0)
    assert 40 <= same <= 60
    assert len(items) == 200


def test_one_document_is_enough_for_negatives():
    items = adjacent_passages_items([document(1, 40)], 100, 0)
    assert len(items) >= 20
    assert Counter(item.label for item in items)[0] * 2 == len(items)


@pytest.mark.parametrize("kind", [WORD_ORDER, ADJACENT_PASSAGES])
def test_a_text_of_two_documents_is_in_no_part_of_a_task(kind):
    first, second = document(1, 40), document(2, 40)
    half = first.text[: len(first.text) // 2]
    shared = HeldOutDocument("both", text_hash("x"), f"{half}\n\n{second.text}")
    parts = build_task(kind, {"train": ([first], 1000), "dev": ([shared], 1000)}, 0)
    texts = {
        name: {text for item in items for text in (item.text_a, item.text_b) if text and item.label}
        for name, items in parts.items()
    }
    assert texts["train"] and texts["dev"]
    assert not [text for text in texts["train"] | texts["dev"] if text in half]


def test_items_come_from_many_documents_before_many_come_from_one():
    items = word_order_items(documents_of([40] * 10), 160, 0)
    assert max(Counter(item.group for item in items).values()) <= 16
    items = word_order_items(documents_of([40] + [2] * 9), 96, 0)
    assert len(items) == 96


@pytest.mark.parametrize("build", [word_order_items, adjacent_passages_items])
def test_the_seed_decides_and_the_order_of_the_documents_does_not(build):
    documents = documents_of([30] * 8)
    assert build(documents, 60, 0) == build(documents, 60, 0)
    assert build(documents, 60, 0) != build(documents, 60, 1)
    assert {item.text_a for item in build(documents, 60, 0)} == {item.text_a for item in build(documents[::-1], 60, 0)}


@given(st.integers(2, 50), st.floats(0.01, 0.99), st.integers(0, 3))
def test_the_split_parts_all_documents_and_leaves_neither_side_empty(number, share, seed):
    documents = [HeldOutDocument(str(n), text_hash(str(n)), "") for n in range(number)]
    train, dev = split_documents(documents, share, seed)
    assert sorted(document.id for document in train + dev) == sorted(document.id for document in documents)
    assert train and dev
    assert split_documents(documents[::-1], share, seed) == (train, dev)


def test_choices_are_the_same_on_every_machine_and_python():
    # Written down once: tasks made elsewhere, or by a later version, must be the same ones.
    assert keyed(0, "split", "a") == 11633381220720815165
    assert shuffle_words("The cat sat on the mat and slept there.", 0) == "The sat cat on mat slept and the there."
