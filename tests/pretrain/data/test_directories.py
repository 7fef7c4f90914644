"""What the options `data`, `sampling_exponent` and `languages` may say, and what it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from conf.command import compose
from conf.errors import InputError
from pretrain.__main__ import PretrainOptions
from pretrain.data.directories import directories_of, languages_of, sampling_weights, weights_of


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"x": 0}, "the weight of 'x' in data must be a number above 0, but is 0"),
        ({"x": 0.5, "y": -1}, "the weight of 'y'"),
        ({"x": "much"}, "but is 'much'"),
        ({"x": float("inf")}, "but is inf"),
        ({"x": True}, "but is true"),
        ({}, "data must be a shard directory, or several with their weights"),
        ([], "data must be a shard directory, or several with their weights"),
        (3, "data must be a shard directory, or several with their weights"),
        (["x", 3], "data must be a shard directory, or several with their weights"),
        (["x", "y", "x"], "data must name each shard directory once, but names 'x' twice"),
    ],
)
def test_data_that_cannot_be_is_one_sentence(data, sentence):
    with pytest.raises(InputError, match=sentence):
        weights_of(data, [1] * len(directories_of(data)))


def test_every_form_of_data_is_an_option_of_the_command_line():
    for given_, expected in (
        ("data={/shards/a-1.2/x: 0.7, shards/b: 0.3}", {"/shards/a-1.2/x": 0.7, "shards/b": 0.3}),
        ("data=[/shards/a-1.2/x,shards/b]", {"/shards/a-1.2/x": 0.75, "shards/b": 0.25}),
        ("data=shards/a", {"shards/a": 1.0}),
    ):
        data = compose("pretrain", ["run_dir=r", given_], PretrainOptions).data
        names = directories_of(data)
        assert dict(zip(names, weights_of(data, [3, 1][: len(names)]), strict=True)) == expected


def test_the_exponent_is_xlms_rule():
    """n = 900 and 100: p = 0.9 and 0.1; a = 0.5 gives sqrt(0.9) : sqrt(0.1) = 3 : 1."""
    assert sampling_weights([900, 100], 0.5) == pytest.approx([0.75, 0.25])
    assert sampling_weights([900, 100], 1.0) == pytest.approx([0.9, 0.1])
    assert sampling_weights([900, 100], 0.0) == pytest.approx([0.5, 0.5])
    assert sampling_weights([900, 100], 0.7) == pytest.approx([0.823182, 0.176818], abs=1e-6)
    assert sampling_weights([7], 0.3) == [1.0]


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=8), st.floats(0, 1))
def test_weights_add_up_and_small_sources_get_their_part_or_more(sizes, exponent):
    weights = sampling_weights(sizes, exponent)
    assert sum(weights) == pytest.approx(1.0)
    smallest = min(range(len(sizes)), key=sizes.__getitem__)
    assert weights[smallest] >= sizes[smallest] / sum(sizes) * (1 - 1e-9)
    assert weights[smallest] <= 1 / len(sizes) * (1 + 1e-9)
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    assert [weights[i] for i in order] == sorted(weights)


@pytest.mark.parametrize("exponent", [-0.1, 1.5])
def test_an_exponent_out_of_its_range_is_one_sentence(exponent):
    with pytest.raises(InputError, match=r"sampling_exponent must be between 0 .* and 1 .*, but is"):
        weights_of(["a", "b"], [1, 2], exponent)


def test_an_exponent_beside_weights_is_one_sentence_with_the_way_out():
    with pytest.raises(InputError, match=r"sampling_exponent=0.5 .* data='\[a,b\]', or sampling_exponent=null"):
        weights_of({"a": 0.5, "b": 0.5}, [1, 2], 0.5)


def test_a_directorys_language_has_the_number_that_the_model_gives_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = OmegaConf.create({"en": ["en_short", "en_long"], "de": str(tmp_path / "de")})
    found = languages_of(["de", "en_long", "en_short/"], names, ["de", "fr", "en"])
    assert found == {"de": 0, "en_long": 2, "en_short/": 2}
    assert languages_of(["anything"], None, ["de"]) is None


@pytest.mark.parametrize(
    ("languages", "known", "sentence"),
    [
        ({"en": "a"}, ["en"], "languages must name every shard directory in data, but 'b' is under none of en: add it"),
        ({"en": ["a", "b"], "de": "b"}, ["en", "de"], "'b' is under 'en' and 'de': leave one out"),
        ({"en": "a", "fr": "b"}, ["en", "de"], r"names 'fr' where model.languages is \['en', 'de'\]: set"),
        ({"en": ["a", "b"]}, [], "names 'en' where the model has no language embeddings: set model.languages"),
        ({}, ["en"], "languages must be null, or give each language"),
        ({"en": 3}, ["en"], "languages must be null, or give each language"),
        ({"en": []}, ["en"], "languages must be null, or give each language"),
        (["a", "b"], ["en"], "languages must be null, or give each language"),
    ],
)
def test_languages_that_cannot_be_are_one_sentence(languages, known, sentence):
    with pytest.raises(InputError, match=sentence):
        languages_of(["a", "b"], languages, known)


def test_an_exponent_needs_directories_to_mix():
    with pytest.raises(InputError, match=r"sampling_exponent=0.5 mixes several directories, but data names one, 'a'"):
        weights_of("a", [3], 0.5)
    with pytest.raises(InputError, match="data names one"):
        weights_of(["a"], [3], 0.5)
