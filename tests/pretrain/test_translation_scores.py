import pytest
from sacrebleu import corpus_bleu, corpus_chrf

from pretrain.data.mixture import open_mixture
from pretrain.data.pair_batches import PairReading
from pretrain.translation_scores import corpus_scores, draw_sample
from tests.helpers.pair_directory import write_toy_pairs


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    a, b = (write_toy_pairs(folder / str(seed), 300, seed=seed) for seed in (0, 1))
    return open_mixture([str(a), str(b)], "validation", pairs=PairReading(128))


def test_a_sample_is_drawn_over_all_directories_each_pair_once(mixture):
    whole = draw_sample(mixture, 1000)
    assert len(whole.sources) == len(whole.targets) == 60
    pairs = [reader.pairs(range(30)) for reader in (source.reader for source in mixture.sources)]
    assert sorted(map(len, whole.sources)) == sorted(length for one in pairs for length in one.source_lengths.tolist())
    some = draw_sample(mixture, 20)
    assert len(some.sources) == 20 and all(source in whole.sources for source in some.sources)
    assert draw_sample(mixture, 20) == some


def test_scores_are_sacrebleus():
    hypotheses, references = ["a cat sat on the mat", "it rains"], ["the cat sat on the mat", "it rained today"]
    found = corpus_scores(hypotheses, references)
    assert found["bleu"] == corpus_bleu(hypotheses, [references]).score
    assert found["chrf"] == corpus_chrf(hypotheses, [references]).score
    assert corpus_scores(references, references) == pytest.approx({"bleu": 100.0, "chrf": 100.0})
