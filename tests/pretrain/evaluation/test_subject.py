"""What is evaluated: fingerprints, and requests that make no sense."""

from dataclasses import replace

import pytest
import torch

from conf.errors import InputError
from pretrain.evaluation.subject import read_subject
from pretrain.models.seq2seq import Seq2SeqModel
from tests.pretrain.test_export import CONFIG, write_run


def test_random_models_share_the_shape_and_differ_by_seed(checkpoint):
    subject = read_subject(str(checkpoint), [1], [1, 2])
    pretrained, _ = subject.pretrained().load()
    first, _ = subject.random(1).load()
    again, _ = subject.random(1).load()
    second, _ = subject.random(2).load()
    weight = "encoder.embeddings.token.weight"
    assert first.config == pretrained.config
    assert torch.equal(first.state_dict()[weight], again.state_dict()[weight])
    assert not torch.equal(first.state_dict()[weight], second.state_dict()[weight])
    assert subject.fingerprint != subject.shape_fingerprint


@pytest.mark.parametrize(
    ("seeds", "initialisations", "sentence"),
    [
        ([1, 1], [], "'seeds' must be distinct"),
        ([], [], "'seeds' must name at least one"),
        ([1], [2], "at least two seeds"),
        ([1], [2, 2], "'initialisations' must be distinct"),
    ],
)
def test_seeds_that_make_no_sense_are_refused(checkpoint, seeds, initialisations, sentence):
    with pytest.raises(InputError, match=sentence):
        read_subject(str(checkpoint), seeds, initialisations)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InputError, match="is neither a run directory"):
        read_subject(str(tmp_path), [1], [])


def test_an_encoder_decoder_is_a_subject_but_no_encoder(pairs_checkpoint):
    subject = read_subject(str(pairs_checkpoint), [1], [1, 2])
    pretrained, _ = subject.pretrained().load_any()
    first, _ = subject.random(1).load_any()
    again, _ = subject.random(1).load_any()
    assert type(pretrained) is type(first) is Seq2SeqModel and first.config == pretrained.config
    weight = "encoder.embeddings.token.weight"
    assert torch.equal(first.state_dict()[weight], again.state_dict()[weight])
    assert not torch.equal(first.state_dict()[weight], pretrained.state_dict()[weight])
    for choice in (subject.pretrained(), subject.random(1)):
        with pytest.raises(InputError, match="holds an encoder-decoder, but a masked language model is needed here"):
            choice.load()


def test_a_causal_model_is_refused(tmp_path):
    write_run(tmp_path / "run", replace(CONFIG, causal=True))
    with pytest.raises(InputError, match="holds a causal model, but a masked language model is needed here"):
        read_subject(str(tmp_path / "run"), [1], [])
