import json

import pytest

from conf.errors import InputError
from pipeline.jobs import tokenizer as module
from pipeline.jobs.tokenizer import Sampler, TokenizerJob, choose_ranges
from pipeline.planned import PlannedCorpus
from pipeline.runners import LocalRunner
from pipeline.sources import TextCorpus
from pipeline.tokenizer import load_tokenizer, special_ids
from pipeline.tsv import TsvCorpus


def text_of(number: int) -> str:
    return f"document {number} holds the number {number * 7919} and nothing else of note"


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(text_of(n // 2) + "\n" for n in range(2000)))
    return PlannedCorpus(TextCorpus([str(path)], range_bytes=10_000))


def train(corpus, output, **options):
    output.mkdir(exist_ok=True)
    TokenizerJob(**{"vocab_size": 120} | options).run(corpus, output, None, LocalRunner(1))
    return json.loads((output / "manifest.json").read_text())


def test_the_tokenizer_is_as_large_as_asked_and_its_manifest_tells_of_the_sample(corpus, tmp_path):
    manifest = train(corpus, tmp_path / "out")
    tokenizer = load_tokenizer(tmp_path / "out")
    assert tokenizer.get_vocab_size() == manifest["vocab_size"] == 120
    assert special_ids(tokenizer)["mask"] == 4
    assert manifest["counts"]["read"] == 2000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["manifest.json", "tokenizer.json"]


def test_the_same_seed_gives_the_same_files_and_another_draws_otherwise(corpus, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(corpus, tmp_path / name, seed=seed, sample_bytes=4000)
    files = {
        name: [(tmp_path / name / file).read_bytes() for file in ("tokenizer.json", "manifest.json")] for name in "abc"
    }
    assert files["a"] == files["b"] and files["a"][0] != files["c"][0]


def test_a_finished_output_is_left_alone_and_a_changed_option_trains_anew(corpus, tmp_path):
    train(corpus, tmp_path / "out")
    stamp = (tmp_path / "out/tokenizer.json").stat().st_mtime_ns
    train(corpus, tmp_path / "out")
    assert (tmp_path / "out/tokenizer.json").stat().st_mtime_ns == stamp
    assert train(corpus, tmp_path / "out", vocab_size=100)["vocab_size"] == 100


def test_a_sample_too_small_for_the_vocabulary_is_told(corpus, tmp_path, caplog):
    manifest = train(corpus, tmp_path / "out", vocab_size=9000)
    assert manifest["vocab_size"] < 9000
    assert f"fills only {manifest['vocab_size']} of 9000" in caplog.text


def test_the_sample_is_bounded_spread_over_the_range_and_without_repeats(corpus, tmp_path):
    whole = PlannedCorpus(TextCorpus(corpus._corpus.paths))
    (range_,) = whole.plan().ranges
    Sampler(whole, module.Cleaning(), str(tmp_path), 3000, 0).draw(range_)
    texts = json.loads((tmp_path / f"{range_.id}.json").read_text())["texts"]
    sizes = [len(text.encode()) for text in texts]
    assert 3000 <= sum(sizes) < 3000 + max(sizes)
    assert len(set(texts)) == len(texts)
    numbers = [int(text.split()[1]) for text in texts]
    # The share is drawn from the first 8 x 3,000 bytes, each text twice there: numbers up to about 190.
    assert min(numbers) < 30 and 130 < max(numbers) < 220


def test_a_document_longer_than_the_share_is_cut(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("word " * 10_000 + "\n")
    corpus = PlannedCorpus(TextCorpus([str(path)]))
    (range_,) = corpus.plan().ranges
    Sampler(corpus, module.Cleaning(), str(tmp_path), 500, 0).draw(range_)
    (text,) = json.loads((tmp_path / f"{range_.id}.json").read_text())["texts"]
    assert len(text) == 500


def test_a_large_corpus_is_read_in_a_seeded_choice_of_its_ranges(corpus):
    ranges = list(corpus.plan().ranges) * 10
    chosen = choose_ranges(ranges, 3)
    assert len(chosen) == module.RANGES_READ < len(ranges)
    assert chosen == choose_ranges(ranges, 3) != choose_ranges(ranges, 4)
    assert choose_ranges(ranges[:5], 3) == ranges[:5]


def test_an_empty_corpus_and_a_given_tokenizer_are_errors(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\t\n \n")
    corpus = PlannedCorpus(TextCorpus([str(path)]))
    with pytest.raises(InputError, match="the corpus is empty"):
        train(corpus, tmp_path / "out")
    with pytest.raises(InputError, match="option 'tokenizer' has no meaning"):
        TokenizerJob().run(corpus, tmp_path, str(tmp_path), LocalRunner(1))


def test_a_corpus_of_pairs_gives_one_vocabulary_for_both_sides_and_reserved_tokens_for_neither(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"quark {n}\tzebra {n}\n" for n in range(200)))
    corpus = PlannedCorpus(TsvCorpus([str(tmp_path / "a.tsv")]))
    manifest = train(corpus, tmp_path / "out", added_tokens=["<bt>"], vocab_size=60)
    tokenizer = load_tokenizer(tmp_path / "out")
    assert tokenizer.encode("quark zebra", add_special_tokens=False).tokens == ["quark", "zebra"]
    assert manifest["counts"]["read"] == 400 and manifest["options"]["added_tokens"] == ["<bt>"]
    assert tokenizer.token_to_id("<bt>") == tokenizer.get_vocab_size() - 1
    with pytest.raises(InputError, match=r"job\.added_tokens' must hold different names"):
        TokenizerJob(added_tokens=["[MASK]"])


@pytest.mark.parametrize("option", ["vocab_size", "min_frequency", "alphabet_size", "sample_bytes"])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(InputError, match=rf"job\.{option}' must be at least"):
        TokenizerJob(**{option: 0})
