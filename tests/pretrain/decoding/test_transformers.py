"""The same text as transformers' `generate` gives with the exported model: 200 sentences, every token equal."""

import logging

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import AutoModelForSeq2SeqLM
from transformers.utils.logging import disable_progress_bar

from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.search import search
from pretrain.decoding.walk import Greedy
from pretrain.models.huggingface import export_folder
from tests.helpers.lively import VOCABULARY, lively_model, random_sources

SOURCES = random_sources(200)
LIMITS = {"maximum_length": 24, "maximum_ratio": 0.0}
STOPPING = {"full": True, "current_length": False, "maximum_length": "never"}


@pytest.fixture(scope="module", params=["bart", "mbart"])
def both(request, tmp_path_factory):
    """Our model, and transformers' with the weights exported to it."""
    return _both(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def barts(tmp_path_factory):
    """The first of `both`."""
    return _both("bart", tmp_path_factory)


def _both(form, tmp_path_factory):
    norm = "post" if form == "bart" else "pre"
    model = lively_model(norm=norm, seed={"bart": 0, "mbart": 1}[form], end=4.0)
    folder = tmp_path_factory.mktemp("export")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(70))]
    tokenizer = Tokenizer(models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.save(str(folder / "tokenizer.json"))
    export_folder(model, folder / "tokenizer.json", folder / "model")
    disable_progress_bar()
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder / "model", local_files_only=True).eval()
    return model, theirs


def generate(theirs, sources=SOURCES, **options):
    """Ids after [CLS] up to [SEP] or the end, and the scores, of the sentences in batches of 50."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found = []
    for start in range(0, len(sources), 50):
        batch = sources[start : start + 50]
        longest = max(map(len, batch))
        ids = torch.tensor([[*source, *[0] * (longest - len(source))] for source in batch])
        mask = torch.tensor([[1] * len(source) + [0] * (longest - len(source)) for source in batch])
        out = theirs.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=24, do_sample=False, return_dict_in_generate=True,
            output_scores=True, **options
        )  # fmt: skip
        scores = out.sequences_scores.tolist() if "sequences_scores" in out else [None] * len(out.sequences)
        for row, score in zip(out.sequences[:, 1:].tolist(), scores, strict=True):
            # Padding follows [SEP], or a cut at 24 tokens, which fills the row.
            found.append((row[: row.index(3)] if 3 in row else row[:24], score))
    return found


def test_greedy_search_is_theirs(both):
    model, theirs = both
    ours = search(model, SOURCES, Greedy(**LIMITS), range(200), VOCABULARY)
    assert [one[0].tokens for one in ours] == [tokens for tokens, _ in generate(theirs, num_beams=1)]
    assert len({tuple(one[0].tokens) for one in ours}) > 150 and 20 < sum(one[0].ended for one in ours) < 199


def test_beam_search_is_theirs(both):
    check(both, "current_length", 1.0, 5, 200)


@pytest.mark.parametrize(
    ("rule", "alpha", "beams"),
    [("full", 1.0, 4), ("current_length", 0.6, 3), ("maximum_length", 2.0, 2), ("maximum_length", -0.5, 4)],
)
def test_every_rule_of_stopping_early_is_theirs(barts, rule, alpha, beams):
    check(barts, rule, alpha, beams, 50)


def check(both, rule, alpha, beams, count):
    model, theirs = both
    options = BeamSearch(beams=beams, n_best=2, length_penalty=alpha, early_stopping=rule, **LIMITS)
    ours = search(model, SOURCES[:count], options, range(count), VOCABULARY, batch_tokens=3000)
    expected = generate(
        theirs,
        SOURCES[:count],
        num_beams=beams,
        num_return_sequences=2,
        length_penalty=alpha,
        early_stopping=STOPPING[rule],
    )
    assert len({tuple(one[0].tokens) for one in ours}) > 0.6 * count
    for number, hypotheses in enumerate(ours):
        pair = expected[2 * number : 2 * number + 2]
        assert [one.tokens for one in hypotheses] == [tokens for tokens, _ in pair][: len(hypotheses)]
        # What they give where fewer were finished has a score of -1e9.
        assert len(hypotheses) == sum(score > -1e8 for _, score in pair)
        assert [one.score for one in hypotheses] == pytest.approx(
            [score for _, score in pair][: len(hypotheses)], abs=1e-3, rel=1e-3
        )


def test_bounds_on_length_and_on_tokens_are_theirs(barts):
    model, theirs = barts
    options = BeamSearch(beams=3, minimum_length=4, forbid=["mask", "pad", "cls"], **LIMITS)
    ours = search(model, SOURCES[:60], options, range(60), VOCABULARY)
    expected = generate(theirs, SOURCES[:60], num_beams=3, min_new_tokens=4, suppress_tokens=[0, 2, 4])
    assert [one[0].tokens for one in ours] == [tokens for tokens, _ in expected]
    plain = search(model, SOURCES[:60], BeamSearch(beams=3, **LIMITS), range(60), VOCABULARY)
    assert min(len(one[0].tokens) for one in plain) < 4 <= min(len(one[0].tokens) for one in ours)
