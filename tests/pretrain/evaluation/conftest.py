"""A tiny checkpoint with a real tokenizer, in the two forms of encoders, for the tests of evaluation."""

import json
import random

import pytest
import torch

from pipeline.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece
from pretrain.evaluation.challenge.builder import build
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.huggingface import export_folder
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel

BERT = {"norm": "post", "positions": "learned", "activation": "gelu", "biases": True, "token_types": 2}


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Real sentences of several lengths, some of whose words the small tokenizer cuts into pieces."""
    items = build(ENGLISH, 20, seed=7)
    return [text for item in items for text in (item.good, item.bad)]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece(texts, 400, min_frequency=1), folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder):
    return load_tokenizer(tokenizer_folder)


def make_model(tokenizer, seed: int = 0, **options) -> MaskedLanguageModel:
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 64, "max_positions": 64}
    # A wide initialisation, so that scores differ by more than rounding.
    config = EncoderConfig(**{**sizes, "initializer_range": 0.3, **options})
    return MaskedLanguageModel(config, tokenizer.get_vocab_size()).eval()


@pytest.fixture(scope="session")
def bert_model(tokenizer):
    return make_model(tokenizer, **BERT)


@pytest.fixture(scope="session")
def modern_model(tokenizer):
    return make_model(tokenizer)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, bert_model, tokenizer_folder):
    """A Hugging Face folder that the commands load."""
    folder = tmp_path_factory.mktemp("checkpoint") / "model"
    export_folder(bert_model, tokenizer_folder / "tokenizer.json", folder)
    return folder


def write_task(folder, name="parity", kind="single", train=96, dev=48, seed=0, **description):
    """A task that a tiny model can learn: does the text speak of a dog? With four rows to a document."""
    generator = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", train), ("dev", dev)):
        rows = []
        for number in range(count):
            label = generator.randrange(2)
            filler = generator.choice(["the table is new", "we use the file", "they wait for it"])
            text = f"{filler} {'dog' if label else 'key'}"
            row = {"text_a": text, "label": label, "group": f"{split}-{number // 4}"}
            if kind == "pair":
                row["text_b"] = filler
            rows.append(json.dumps(row))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    record = {"name": name, "kind": kind, "labels": ["no", "yes"], "metric": "accuracy", **description}
    (folder / "task.json").write_text(json.dumps(record))
    return folder


@pytest.fixture(scope="session")
def tasks_folder(tmp_path_factory):
    """What job=corpus_tasks leaves: one folder a task."""
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder / "word_order", name="word_order")
    write_task(folder / "adjacent_passages", name="adjacent_passages", kind="pair")
    return folder


@pytest.fixture(scope="session")
def pairs_model(tokenizer):
    """An encoder-decoder that transformers' BART can hold, with a wide initialisation."""
    torch.manual_seed(0)
    config = Seq2SeqConfig(32, 2, 2, 2, 64, max_positions=64, initializer_range=0.3)
    return Seq2SeqModel(config, tokenizer.get_vocab_size()).eval()


@pytest.fixture(scope="session")
def pairs_checkpoint(tmp_path_factory, pairs_model, tokenizer_folder):
    """A Hugging Face folder with that model."""
    folder = tmp_path_factory.mktemp("pairs") / "model"
    export_folder(pairs_model, tokenizer_folder / "tokenizer.json", folder)
    return folder
