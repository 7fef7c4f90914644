"""`python -m pretrain.export` as a user runs it: what it writes, verifies, replaces and refuses."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoTokenizer

import conf
from conf.files import directory_lock
from pretrain.checkpoints import CheckpointFolder, Keep, RunState
from pretrain.models.config import EncoderConfig, ModelConfig, Seq2SeqConfig
from pretrain.models.language_model import make_model
from pretrain.models.masked_lm import MaskedLanguageModel
from tests.helpers.warm_python import run_module

ROOT = Path(conf.__file__).parent.parent
CONFIG = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48, max_positions=64)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(40))]


def write_run(run: Path, config: ModelConfig = CONFIG, seed: int = 0, bias: float = 0.0) -> Path:
    """A run directory with one checkpoint, as the trainer lays it out."""
    torch.manual_seed(seed)
    model = make_model(config, len(WORDS))
    torch.nn.init.constant_(model.head.bias, bias)
    folder = run / "checkpoints" / "step-00000030"
    folder.mkdir(parents=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    data = (folder / "model.safetensors").read_bytes()
    files = {"model.safetensors": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    state = {"format": 1, "step": 30, "model": asdict(config), "vocab_size": len(WORDS), "files": files}
    (folder / "state.json").write_text(json.dumps(state))
    (run / "checkpoints" / "latest").write_text(folder.name)
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(WORDS[:5])
    tokenizer.save(str(run / "tokenizer.json"))
    return folder


def export(*overrides: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_module([sys.executable, "-m", "pretrain.export", *overrides], cwd=cwd)


def test_a_run_becomes_a_folder_that_transformers_loads(tmp_path):
    write_run(tmp_path / "runs" / "x")
    done = export("checkpoint=runs/x", "output=folder", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("folder: logits in transformers differ by at most ")
    assert float(done.stdout.split()[-1]) <= 1e-5
    names = {path.name for path in (tmp_path / "folder").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert {"provenance.json", "config.yaml"} <= names
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "folder"}  # nothing half-made beside it
    weights = (tmp_path / "runs" / "x" / "checkpoints" / "step-00000030" / "model.safetensors").read_bytes()
    provenance = json.loads((tmp_path / "folder" / "provenance.json").read_text())
    assert provenance["inputs"] == {"checkpoint": "sha256:" + hashlib.sha256(weights).hexdigest()}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    batch = tokenizer(["word1 [MASK] word3", "word1"], padding=True, return_tensors="pt")
    logits = AutoModelForMaskedLM.from_pretrained(tmp_path / "folder")(**batch).logits
    assert logits.shape == (2, 5, len(WORDS))
    # The export of the export is the same model: a folder is a checkpoint too.
    again = export("checkpoint=folder", "output=second", "verify=false", cwd=tmp_path)
    assert again.stdout == "second: not verified\n", again.stderr
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("folder", "second"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_the_mean_of_the_last_checkpoints_is_exported_where_asked_for(tmp_path):
    models, run = [], tmp_path / "run"
    shutil.rmtree(write_run(run))  # the tokenizer stays
    for step in (10, 20, 30):
        torch.manual_seed(step)
        model = MaskedLanguageModel(CONFIG, len(WORDS))
        models.append({name: value.clone() for name, value in model.state_dict().items()})
        state = RunState(step, 0, 0, 0.0, step, asdict(CONFIG), len(WORDS), "t", "d", {})
        CheckpointFolder(run).save(state, models[-1], {}, Keep(last=3))
    done = export("checkpoint=run", "output=out", "average=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "averaged over step-00000020, step-00000030" in done.stderr
    found = load_file(tmp_path / "out" / "model.safetensors")["head.dense.weight"]
    expected = (models[1]["head.dense.weight"].double() + models[2]["head.dense.weight"].double()) / 2
    assert torch.equal(found, expected.float())
    inputs = json.loads((tmp_path / "out" / "provenance.json").read_text())["inputs"]
    assert list(inputs) == [f"checkpoint run/checkpoints/step-000000{step}" for step in (20, 30)]
    listed = export("checkpoint=run", "output=out", "average=[step-00000010]", "verify=false", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    found = load_file(tmp_path / "out" / "model.safetensors")["head.dense.weight"]
    assert torch.equal(found, models[0]["head.dense.weight"])
    fewer = export("checkpoint=run", "output=out", "average=4", cwd=tmp_path)
    assert fewer.returncode == 2 and "average=4 needs 4 checkpoints, but 'run' has 3 (step-00000010, " in fewer.stderr


def test_an_earlier_export_is_replaced_and_other_files_are_not(tmp_path):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1)
    assert export("checkpoint=a", "output=out", "verify=false", cwd=tmp_path).returncode == 0
    before = load_file(tmp_path / "out" / "model.safetensors")
    assert export("checkpoint=b", "output=out", "verify=false", cwd=tmp_path).returncode == 0
    after = load_file(tmp_path / "out" / "model.safetensors")
    assert not torch.equal(before["head.dense.weight"], after["head.dense.weight"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    refused = export("checkpoint=b", "output=mine", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: output 'mine' is not empty and no earlier export")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["checkpoint=nowhere", "output=out"], "there is no folder 'nowhere'"),
        (["checkpoint=x", "output=x"], "output 'x' is the checkpoint itself"),
        (["checkpoint=x", "output=file"], "output 'file' is a file"),
        (["checkpoint=x", "output=file/deeper"], "the output directory 'file' cannot be made, for 'file' is a file"),
        (["checkpoint=x", "output=out", "tolerance=0"], "option 'tolerance' must be above 0"),
        # A run that diverged: no difference to NaN is small.
        (["checkpoint=diverged", "output=out"], "transformers computes other logits from the export of 'diverged'"),
        (["checkpoint=odd", "output=out"], "no Hugging Face class holds a model with norm=post"),
        (["checkpiont=x", "output=out"], "there is no option 'checkpiont': did you mean 'checkpoint'?"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_leaves_nothing(tmp_path, overrides, sentence):
    write_run(tmp_path / "x")
    write_run(tmp_path / "odd", replace(CONFIG, norm="post"))
    write_run(tmp_path / "diverged", bias=float("nan"))
    (tmp_path / "file").write_text("")
    done = export(*overrides, cwd=tmp_path)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and errors[0].startswith(f"error: {sentence}")
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"x", "odd", "diverged", "file"}


def test_two_exports_to_one_output_do_not_mix(tmp_path):
    write_run(tmp_path / "x")
    with directory_lock(tmp_path / ".out.export"):
        done = export("checkpoint=x", "output=out", cwd=tmp_path)
    assert done.returncode == 2
    assert f"is in use by another run (process {os.getpid()} on " in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_encoder_decoder_is_exported_for_one_direction_of_its_languages(tmp_path):
    write_run(tmp_path / "run", Seq2SeqConfig(32, 2, 2, 2, 48, max_positions=64, languages=("en", "fr")))
    done = export("checkpoint=run", "output=out", "source_language=fr", "target_language=en", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) <= 1e-5
    weights = load_file(tmp_path / "run" / "checkpoints" / "step-00000030" / "model.safetensors")
    tables = load_file(tmp_path / "out" / "model.safetensors")
    for side, language in (("encoder", 1), ("decoder", 0)):
        expected = (
            weights[f"{side}.embeddings.position.weight"] + weights[f"{side}.embeddings.language.weight"][language]
        )
        assert torch.equal(tables[f"model.{side}.embed_positions.weight"][2:], expected)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    batch = tokenizer(["word1 word2 word3", "word1"], padding=True, return_tensors="pt")
    text = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").generate(**batch, max_new_tokens=4)
    assert text.shape == (2, 5) and text[:, 0].tolist() == [2, 2]
    done = export("checkpoint=run", "output=other", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "error: source_language must be one of the model's languages (en, fr), but is not given" in done.stderr
    assert not (tmp_path / "other").exists()
