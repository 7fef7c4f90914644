"""Models load from all three places; what is none of them, damaged or of another shape is one sentence."""

import hashlib
import json
import shutil
from dataclasses import asdict, replace

import pytest
import torch

from conf.errors import InputError
from pretrain.checkpoints import CheckpointFolder, Keep, RunState
from pretrain.data.batching import pad_sequences
from pretrain.models.huggingface import Direction, export_folder
from pretrain.models.load import load_masked_language_model, load_model, random_like
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.models.trained_languages import TrainedLanguages
from tests.pretrain.models.conftest import CONV, SEQ2SEQ_FORMS, make_conv, make_seq2seq
from tests.pretrain.models.pairs import one_a_row


def write_checkpoint(run, model, tokenizer_folder, step=200):
    """A checkpoint as the trainer writes it."""
    state = RunState(
        step=step,
        samples=0,
        tokens=0,
        elapsed=0.0,
        updates=step,
        model=asdict(model.config),
        vocab_size=model.vocab_size,
        tokenizer_hash="",
        data_hash="",
        config={},
        files={},
    )
    folder = CheckpointFolder(run).save(state, model.state_dict(), {}, Keep(last=3))
    shutil.copy(tokenizer_folder / "tokenizer.json", run / "tokenizer.json")
    return folder


def logits(model):
    with torch.no_grad():
        return model(*pad_sequences([[2, 11, 4, 3], [2, 4, 3]], 0)[:3], torch.tensor([2, 5]))


@pytest.fixture
def run(model, tokenizer_folder, tmp_path):
    write_checkpoint(tmp_path / "run", model, tokenizer_folder)
    return tmp_path / "run"


def test_a_run_its_checkpoint_and_its_export_are_the_same_model(run, model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "exported")
    checkpoint = run / "checkpoints" / "step-00000200"
    for path in (run, checkpoint, tmp_path / "exported"):
        loaded = load_model(path)
        assert torch.equal(logits(loaded.model), logits(model))
        assert not loaded.model.training
        assert loaded.tokenizer.token_to_id("word0") == 5
        assert loaded.tokenizer_path.is_file()
        weights = (path if path != run else checkpoint) / "model.safetensors"
        assert loaded.fingerprint == "sha256:" + hashlib.sha256(weights.read_bytes()).hexdigest()
    assert load_model(run).source == "run, step 200"
    assert load_model(tmp_path / "exported").source == "Hugging Face folder exported"


def test_a_sentence_head_comes_back_with_its_pooler_and_only_where_it_was_trained(
    forms, build, tokenizer_folder, tmp_path
):
    config = replace(forms["bert"], pooler=True)
    for sentence_head in (True, False):
        model = build(config, sentence_head=sentence_head)
        model.config = config  # the trainer writes down the architecture it was given
        write_checkpoint(tmp_path / f"run{sentence_head}", model, tokenizer_folder)
        loaded = load_model(tmp_path / f"run{sentence_head}")
        assert loaded.model.config.pooler == sentence_head
        assert set(loaded.model.state_dict()) == set(model.state_dict())
        assert torch.equal(logits(loaded.model), logits(model))
        assert set(random_like(loaded, 1).state_dict()) == set(model.state_dict())


def test_a_local_model_comes_back_with_its_windows(forms, build, tokenizer_folder, tmp_path):
    model = build(forms["modern_local"])
    write_checkpoint(tmp_path / "run", model, tokenizer_folder)
    assert load_model(tmp_path / "run").model.config == model.config


def test_latest_may_be_a_link(run):
    latest = run / "checkpoints" / "latest"
    latest.unlink()
    latest.symlink_to("step-00000200")
    assert load_model(run).source == "run, step 200"


def test_the_latest_of_several_checkpoints_is_taken(run, forms, build, tokenizer_folder):
    write_checkpoint(run, build(forms["modern"], seed=7), tokenizer_folder, step=300)
    assert load_model(run).source == "run, step 300"


def test_the_kernel_of_the_training_machine_is_not_kept(forms, build, tokenizer_folder, tmp_path):
    write_checkpoint(tmp_path / "run", build(replace(forms["modern"], attention_kernel="varlen")), tokenizer_folder)
    logits(load_model(tmp_path / "run").model)


def test_random_weights_are_of_the_seed_alone_and_the_same_shape(run):
    loaded = load_model(run)
    torch.manual_seed(11)
    before = torch.random.get_rng_state()
    first, again, other = random_like(loaded, 1), random_like(loaded, 1), random_like(loaded, 2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(logits(first), logits(again))
    assert not torch.equal(logits(first), logits(other))
    assert first.config == loaded.model.config
    assert not first.training


def test_what_is_no_model_is_said_to_be_none(run, tmp_path):
    with pytest.raises(InputError, match=r"there is no folder .* names of the hub are not downloaded"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither a run directory"):
        load_model(tmp_path / "empty")
    (run / "checkpoints" / "latest").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="does not exist"):
        load_model(run)
    (run / "checkpoints" / "latest").unlink()
    with pytest.raises(InputError, match="has no finished checkpoint"):
        load_model(run)


def edit_state(folder, **fields):
    path = folder / "state.json"
    state = json.loads(path.read_text())
    state["model"] |= fields.pop("model", {})
    path.write_text(json.dumps(state | fields))


def test_weights_of_another_shape_than_the_config_are_refused(run):
    folder = run / "checkpoints" / "step-00000200"
    edit_state(folder, model={"intermediate_size": 44})
    with pytest.raises(InputError, match="are of another model shape: 'encoder"):
        load_model(run)
    edit_state(folder, model={"num_layers": 2})
    with pytest.raises(InputError, match=r"hold 'encoder\.layers\.2"):
        load_model(run)
    edit_state(folder, model={"num_layers": 4})
    with pytest.raises(InputError, match=r"lack 'encoder\.layers\.3"):
        load_model(run)
    edit_state(folder, model={"colour": "red"})
    with pytest.raises(InputError, match=r"field 'model', is not of this version.*colour"):
        load_model(run)


def test_one_changed_byte_is_found(run):
    weights = run / "checkpoints" / "step-00000200" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(InputError, match="was changed or damaged"):
        load_model(run)


def test_missing_files_of_a_checkpoint_are_named(run):
    folder = run / "checkpoints" / "step-00000200"
    (run / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"there is no tokenizer at .*tokenizer\.json"):
        load_model(run)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"has no model\.safetensors"):
        load_model(folder)
    (folder / "state.json").write_text("{}")
    with pytest.raises(InputError, match="lacks the field 'step'"):
        load_model(folder)
    (folder / "state.json").unlink()
    with pytest.raises(InputError, match=r"names 'step-00000200', but .*state\.json' does not exist"):
        load_model(run)


def test_a_hugging_face_folder_needs_its_tokenizer(model, tokenizer_folder, tmp_path):
    export_folder(model, tokenizer_folder, tmp_path / "exported")
    (tmp_path / "exported" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        load_model(tmp_path / "exported")


@pytest.mark.parametrize("form", SEQ2SEQ_FORMS)
def test_an_encoder_decoder_loads_from_its_run_and_its_export(form, tokenizer_folder, tmp_path):
    config = replace(SEQ2SEQ_FORMS[form], languages=())
    model = make_seq2seq(config)
    write_checkpoint(tmp_path / "run", model, tokenizer_folder)
    export_folder(model, tokenizer_folder, tmp_path / "exported")
    source, target = one_a_row([([2, 11, 12, 3], [2, 13, 14]), ([2, 15, 3], [2, 16])])
    inputs = (source.tokens(), target.tokens(), target.real)
    for path in (tmp_path / "run", tmp_path / "exported"):
        loaded = load_model(path)
        assert isinstance(loaded.model, Seq2SeqModel) and not loaded.model.training
        assert torch.equal(loaded.model(*inputs), model(*inputs))
        with pytest.raises(InputError, match="holds an encoder-decoder, but a masked language model is needed here"):
            load_masked_language_model(path)
    assert load_model(tmp_path / "run").model.config == config


def test_an_encoder_decoder_keeps_its_languages_and_positions(tokenizer_folder, tmp_path):
    for form in ("bart_sinusoidal", "mbart_languages"):
        model = make_seq2seq(SEQ2SEQ_FORMS[form])
        write_checkpoint(tmp_path / form, model, tokenizer_folder)
        loaded = load_model(tmp_path / form).model
        assert loaded.config == model.config
        states = [one.state_dict() for one in (loaded, model)]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        edit_state(tmp_path / form / "checkpoints" / "step-00000200", model={"num_decoder_layers": 4})
        with pytest.raises(InputError, match=r"lack 'decoder\.layers\.[23]"):
            load_model(tmp_path / form)


def test_a_masked_language_model_is_one(run):
    assert load_masked_language_model(run).fingerprint == load_model(run).fingerprint


def test_a_convolutional_model_loads_from_its_run_and_is_refused_as_a_hugging_face_folder(tokenizer_folder, tmp_path):
    model = make_conv(replace(CONV, languages=("en", "fr")))
    write_checkpoint(tmp_path / "run", model, tokenizer_folder)
    loaded = load_model(tmp_path / "run").model
    assert loaded.config == model.config and type(loaded) is type(model) and not loaded.training
    state = loaded.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    with pytest.raises(InputError, match="no Hugging Face class holds a convolutional encoder-decoder"):
        export_folder(loaded, tokenizer_folder, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
    assert Direction("fr", "en").ids(loaded) == (1, 0)
    with pytest.raises(InputError, match="holds an encoder-decoder, but a masked language model"):
        load_masked_language_model(tmp_path / "run")


def test_a_checkpoint_older_than_its_languages_loads_and_one_with_them_says_them(run):
    assert load_model(run).languages == TrainedLanguages()
    path = run / "checkpoints" / "step-00000200" / "state.json"
    state = json.loads(path.read_text())
    del state["languages"]
    path.write_text(json.dumps(state))
    assert load_model(run).languages == TrainedLanguages()
    languages = TrainedLanguages.of(["fr"], [("de", "en")])
    path.write_text(json.dumps(state | {"languages": languages.record()}))
    assert load_model(run).languages == languages
    path.write_text(json.dumps(state | {"languages": {"names": ["de"]}}))
    with pytest.raises(InputError, match="field 'languages', is not of this version"):
        load_model(run)
