"""The way into decoding: order, batches, bounds on outputs, and what is refused; of every search."""

import pytest
import torch

from conf.command import compose
from conf.errors import InputError
from pipeline.tokenizer import train_wordpiece
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.constraints import Constraints
from pretrain.decoding.noised import NoisedBeam
from pretrain.decoding.sampling import Sampling
from pretrain.decoding.search import search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.decoding.walk import Greedy
from tests.helpers.lively import VOCABULARY, lively_model, random_sources

SEARCHES = {"greedy": Greedy, "beam": BeamSearch, "sample": Sampling}


@pytest.fixture(scope="module")
def model():
    return lively_model(end=3.0)


@pytest.mark.parametrize("name", SEARCHES)
def test_results_come_in_the_order_of_the_sources_whatever_the_batches(model, name):
    sources, options = random_sources(15), SEARCHES[name](maximum_length=10, maximum_ratio=0.5)
    alone = [search(model, [source], options, [n], VOCABULARY)[0] for n, source in enumerate(sources)]
    for batch_tokens in (200, 10**6) if name == "greedy" else (300,):
        together = search(model, sources, options, range(15), VOCABULARY, batch_tokens=batch_tokens)
        assert [[one.tokens for one in row] for row in together] == [[one.tokens for one in row] for row in alone]
    assert search(model, [], options, [], VOCABULARY) == []


def test_batches_are_of_like_lengths_and_within_the_budget(model, monkeypatch):
    seen = []
    begin = type(model).incremental_decoder

    def spy(self, ids, lengths, **languages):
        seen.append(lengths.tolist())
        return begin(self, ids, lengths, **languages)

    monkeypatch.setattr(type(model), "incremental_decoder", spy)
    told = []
    search(
        model, random_sources(60), BeamSearch(beams=3), range(60), VOCABULARY, batch_tokens=240,
        after_batch=told.append,
    )  # fmt: skip
    assert told == [len(batch) for batch in seen] and sum(told) == 60
    assert [length for batch in seen for length in batch] == sorted(
        (length for batch in seen for length in batch), reverse=True
    )
    assert all(3 * len(batch) * batch[0] <= 240 for batch in seen)
    assert all(3 * (len(batch) + 1) * batch[0] > 240 for batch in seen[:-1])


@pytest.mark.parametrize("name", SEARCHES)
def test_lengths_stay_within_a_plus_b_times_the_sources(model, name):
    sources = random_sources(40)
    options = SEARCHES[name](minimum_length=2, minimum_ratio=0.5, maximum_length=4, maximum_ratio=0.75)
    for source, (one,) in zip(sources, search(model, sources, options, range(40), VOCABULARY), strict=True):
        size = len(source) - 2
        most = int(4 + 0.75 * size)
        assert min(2 + size // 2, most) <= len(one.tokens) <= most - one.ended
        assert one.ended or len(one.tokens) == most


@pytest.mark.parametrize("name", SEARCHES)
def test_a_prefix_steers_the_output_and_is_no_part_of_it(model, name):
    sources = random_sources(10)
    vocabulary = Vocabulary(VOCABULARY.special, {"<de>": 17})
    plain = search(model, sources, SEARCHES[name](), range(10), vocabulary)
    forced = search(model, sources, SEARCHES[name](prefix=["<de>"]), range(10), vocabulary)
    assert [row[0].tokens for row in plain] != [row[0].tokens for row in forced]
    for source, (one,) in zip(sources, forced, strict=True):
        output = [2, 17, *one.tokens, 3] if one.ended else [2, 17, *one.tokens]
        decoder = model.incremental_decoder(torch.tensor([source]), torch.tensor([len(source)]))
        total = 0.0
        for place, token in enumerate(output[:-1]):
            logits = decoder.step(torch.tensor([[token]]))[0, 0].log_softmax(0)
            total += float(logits[output[place + 1]]) if place > 0 else 0.0
        assert one.score == pytest.approx(total / (len(output) - 2), abs=1e-3)


@pytest.mark.parametrize("name", SEARCHES)
def test_forbidden_tokens_are_in_no_output(model, name):
    sources = random_sources(30)
    found = search(model, sources, SEARCHES[name](), range(30), VOCABULARY)
    names = {f"w{token}": token for row in found for token in row[0].tokens[:1]}
    options = SEARCHES[name](forbid=[*names, "unk"])
    found = search(model, sources, options, range(30), Vocabulary(VOCABULARY.special, names))
    assert not any({1, *names.values()} & set(row[0].tokens) for row in found)


def test_an_output_never_leaves_the_models_positions():
    model = lively_model(max_positions=9, end=-50.0)
    for options in (Greedy(maximum_length=50), BeamSearch(maximum_length=50, prefix=["unk", "unk"])):
        ((one,),) = search(model, [[2, 9, 3]], options, [0], VOCABULARY)
        assert len(one.tokens) == 9 - len(options.prefix) and not one.ended


@pytest.mark.parametrize(
    ("sources", "options", "sentence"),
    [
        ([[2, 3], []], Greedy(), "a source must have from 1 to 48 tokens .*, but b has 0"),
        ([[2, 3], [5] * 49], Greedy(), "a source must have from 1 to 48 tokens .*, but b has 49"),
        ([[2, 3], [2, 3]], Greedy(prefix=["<xx>"]), "decoding.prefix names '<xx>', which is no token"),
        ([[2, 3], [2, 3]], Greedy(forbid=["sep"]), "must leave the token that ends an output"),
        ([[2, 3], [2, 3]], Greedy(prefix=["unk"] * 48), "has 48 tokens, but the model has 48 positions"),
    ],
)
def test_bad_input_is_one_sentence(model, sources, options, sentence):
    with pytest.raises(InputError, match=sentence):
        search(model, sources, options, ["a", "b"], VOCABULARY)


def test_a_vocabulary_is_read_from_a_tokenizer():
    tokenizer = train_wordpiece(["playing played player plays"] * 5, 60)
    vocabulary = Vocabulary.of(tokenizer)
    assert vocabulary.special == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    tokens = {name for name, number in tokenizer.get_vocab().items() if vocabulary.continues[number]}
    assert tokens and all(name.startswith("##") for name in tokens)
    assert vocabulary.ids(["p", "mask"], "x") == [tokenizer.token_to_id("p"), 4]


@pytest.mark.parametrize("name", ["greedy", "beam", "sample", "noised_beam"])
def test_every_node_has_all_options_of_its_search_and_their_defaults(name):
    import hydra

    config = compose("translate", ["checkpoint=a", "input=b", "output=c", f"decoding={name}"])
    options = hydra.utils.instantiate(config.decoding, _convert_="all")
    assert isinstance(options, Constraints) and options == type(options)(prefix=[], forbid=[])
    assert {*config.decoding} - {"_target_"} == set(type(options).__dataclass_fields__)
    assert isinstance(options, NoisedBeam) == (name == "noised_beam")
