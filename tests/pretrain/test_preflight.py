import json
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.shards import read_manifest
from pipeline.tokenizer import load_tokenizer, save_tokenizer
from pretrain.models.config import EncoderConfig
from pretrain.optim.adamw import adamw
from pretrain.preflight import check_all_reduce, check_space, check_tokenizer, checkpoint_bytes, optimizer_states
from tests.helpers.ranks import run_on_ranks
from tests.helpers.shard_directory import sentences, write_shards


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("preflight") / "shards", sentences(100))


def test_the_tokenizer_that_made_the_shards_passes(shards):
    manifest = read_manifest(shards)
    check_tokenizer(shards, manifest, manifest.vocab_size)
    with pytest.raises(InputError, match=r"must have the vocabulary of the model, \d+ tokens, but has \d+"):
        check_tokenizer(shards, manifest, manifest.vocab_size + 1)


def test_a_tokenizer_with_another_vocabulary_or_other_special_ids_is_named(shards, tmp_path):
    copy = shutil.copytree(shards, tmp_path / "copy")
    manifest = read_manifest(copy)
    tokenizer = load_tokenizer(copy)
    tokenizer.add_tokens(["entirely-new"])
    save_tokenizer(tokenizer, copy)
    with pytest.raises(InputError, match=r"tokenizer.json' must be the tokenizer of the shards"):
        check_tokenizer(copy, manifest, manifest.vocab_size)
    moved = json.loads((shards / "tokenizer.json").read_text())
    from dataclasses import replace

    ids = manifest.special_ids | {"mask": manifest.special_ids["sep"]}
    (copy / "tokenizer.json").write_text(json.dumps(moved))
    with pytest.raises(InputError, match=r"must give the mask token the id of manifest\.json"):
        check_tokenizer(copy, replace(manifest, special_ids=ids), manifest.vocab_size)


@given(size=st.integers(1, 10**12), last=st.integers(1, 5), best=st.integers(0, 5), forever=st.integers(0, 3))
def test_exactly_what_fits_passes_and_a_byte_less_does_not(tmp_path_factory, size, last, best, forever):
    folder = tmp_path_factory.getbasetemp()
    enough = (last + best + forever + 1) * size
    check_space(folder, size, last, best, forever, free_bytes=enough)
    with pytest.raises(InputError, match=f"needs room for {last + best + forever + 1} checkpoints"):
        check_space(folder, size, last, best, forever, free_bytes=enough - 1)


def test_checkpoints_that_are_there_count_among_those_kept(tmp_path):
    (tmp_path / "checkpoints" / "step-00000001").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-00000001" / "model.safetensors").write_bytes(b"x" * 1000)
    check_space(tmp_path, 1000, keep_last=2, keep_best=0, free_bytes=2000)
    with pytest.raises(
        InputError, match=r"needs room for 3 checkpoints of 1000 bytes .* 2\.9 KiB, of which 1000 bytes "
    ):
        check_space(tmp_path, 1000, keep_last=2, keep_best=0, free_bytes=1999)


def test_a_small_disk_is_refused_with_the_sizes(small_disk):
    with pytest.raises(InputError, match=r"needs room for 3 checkpoints of 1\.0 MiB .* 3\.0 MiB, but only .* are free"):
        check_space(small_disk, 1 << 20, keep_last=2, keep_best=0)


def test_an_optimizers_states_are_counted_without_touching_the_generator():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert optimizer_states(lambda model: adamw(model, lr=1e-3, betas=[0.9, 0.999], layer_decay=0.9)) == 2.0
    assert optimizer_states(lambda model: torch.optim.SGD(model.parameters(), lr=0.1)) == 0.0
    assert optimizer_states(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)) == 1.0
    assert torch.equal(torch.rand(1), expected)


def test_the_estimate_of_a_checkpoint_is_what_is_written(shards, tmp_path):
    from pretrain.models.masked_lm import MaskedLanguageModel

    config = EncoderConfig(hidden_size=32, num_layers=1, num_heads=2, intermediate_size=64)
    model = MaskedLanguageModel(config, 100)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert checkpoint_bytes(parameters, 2.0) == 3 * sum(p.numel() * p.element_size() for p in model.parameters())


def reduce(group):
    """The bandwidth of an honest all-reduce, and what is said of one that sums wrong on rank 1."""
    from pretrain import preflight

    bandwidth = check_all_reduce(group, torch.device("cpu"), probe_bytes=1 << 20)
    if group.ranks.rank == 1:
        honest = torch.distributed.all_reduce

        def faulty(tensor, *arguments, **options):
            honest(tensor, *arguments, **options)
            if tensor.dtype == torch.float32:
                tensor[5] += 1  # a bit that flips on this rank's way to memory

        preflight.dist.all_reduce = faulty
    with pytest.raises(InputError) as caught:
        check_all_reduce(group, torch.device("cpu"), probe_bytes=1 << 20)
    return bandwidth, str(caught.value)


@pytest.fixture(scope="module")
def reduced():
    return run_on_ranks("tests.pretrain.test_preflight:reduce", ranks=2)


def test_an_all_reduce_that_sums_right_gives_a_bandwidth_the_ranks_agree_on(reduced):
    first, second = (bandwidth for bandwidth, _ in reduced)
    assert first == second and 1e6 < first < 1e12


def test_a_rank_whose_all_reduce_sums_wrong_is_named_on_all_ranks(reduced):
    first, second = (said for _, said in reduced)
    assert first == second
    assert "on rank 1 (" in first and "an all-reduce over gloo must sum to 11 at place 5, but gave 12" in first
