"""Fine-tuning of one model on one classification task with one seed. Knows no file, no configuration, no other run.

Sequences are `[CLS] a [SEP]`, pairs `[CLS] a [SEP] b [SEP]` with token types 0 and 1 where the model has them. Batches
hold sequences of like length, so that little is padding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.data.batching import pad_sequences
from pretrain.evaluation.mean_classifier import MeanClassifier
from pretrain.models.attention import AttentionLayout
from pretrain.models.encoder import Encoder
from pretrain.models.heads import SequenceClassifier
from pretrain.optim.adamw import adamw
from pretrain.optim.schedules import linear

BUCKET_BATCHES = 16
EVALUATION_BATCH = 64
ADAM_BETAS = (0.9, 0.999)
ADAM_EPS = 1e-6


@dataclass(frozen=True)
class Recipe:
    """How a model is fine-tuned: AdamW, linear warm-up and decay to zero, clipping (Devlin et al. 2019, appendix A.3).

    `pooling` says what the classifier reads: the "first" token, as BERT's does, or the "mean" of all tokens;
    `warmup` is a share of all steps; `max_length` counts tokens with [CLS] and [SEP]; `too_long` says what happens to
    a longer example: "refuse" is an error, "cut" shortens the longer of its texts, token by token, at its end, and is
    counted in the result.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-4
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    max_gradient_norm: float = 1.0
    pooling: Literal["first", "mean"] = "first"
    max_length: int = 128
    too_long: Literal["refuse", "cut"] = "refuse"

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"recipe.{name} must be at least 1, but is {getattr(self, name)}")
        for name in ("learning_rate", "max_gradient_norm"):
            if getattr(self, name) <= 0:
                raise InputError(f"recipe.{name} must be above 0, but is {getattr(self, name)}")
        for name in ("warmup", "weight_decay", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"recipe.{name} must be in [0, 1), but is {getattr(self, name)}")
        if self.max_length < 4:
            raise InputError(f"recipe.max_length must be at least 4, but is {self.max_length}")
        for name, allowed in (("too_long", ("refuse", "cut")), ("pooling", ("first", "mean"))):
            if getattr(self, name) not in allowed:
                raise InputError(f"recipe.{name} must be {' or '.join(allowed)}, but is '{getattr(self, name)}'")


@dataclass(frozen=True)
class Example:
    """One labelled text or pair of texts. `group` names what examples have in common (their document)."""

    text_a: str
    text_b: str | None
    label: int
    group: str


@dataclass(frozen=True)
class EncodedExample:
    """Token ids with special tokens, and the token type of each: 0 in the first text, 1 in the second."""

    ids: list[int]
    types: list[int]
    label: int


@dataclass(frozen=True)
class FinetuneResult:
    """What a run gives: probabilities [dev examples, labels] and the mean training loss of each epoch."""

    probabilities: NDArray[np.float64]
    losses: list[float]
    steps: int


def cut_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """How many tokens of each text are kept when both must fit into `room`: the longer one gives way first."""
    excess = length_a + length_b - room
    if excess <= 0:
        return length_a, length_b
    from_longer = min(excess, abs(length_a - length_b))
    rest = excess - from_longer
    if length_a >= length_b:
        return length_a - from_longer - rest // 2, length_b - (rest + 1) // 2
    return length_a - rest // 2, length_b - from_longer - (rest + 1) // 2


def encode(
    examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, too_long: Literal["refuse", "cut"]
) -> tuple[list[EncodedExample], int]:
    """Examples as token ids, and how many were cut.

    Raises:
        InputError: an example has no token, or is too long and `too_long` is "refuse".
    """
    special = special_ids(tokenizer)
    first = tokenizer.encode_batch([example.text_a for example in examples], add_special_tokens=False)
    second = tokenizer.encode_batch([example.text_b or "" for example in examples], add_special_tokens=False)
    encoded, cut = [], 0
    for number, (example, a, b) in enumerate(zip(examples, first, second, strict=True)):
        pair = example.text_b is not None
        ids_a, ids_b = list(a.ids), list(b.ids)
        if not ids_a or (pair and not ids_b):
            raise InputError(f"example {number} has a text without any token ({example.text_a[:60]!r}): remove it")
        room = max_length - (3 if pair else 2)
        if len(ids_a) + len(ids_b) > room:
            if too_long == "refuse":
                raise InputError(
                    f"example {number} has {len(ids_a) + len(ids_b) + max_length - room} tokens, but max_length is "
                    f"{max_length} ({example.text_a[:60]!r}): raise recipe.max_length, or set recipe.too_long=cut to "
                    "cut and count such examples"
                )
            keep_a, keep_b = cut_lengths(len(ids_a), len(ids_b), room)
            ids_a, ids_b = ids_a[:keep_a], ids_b[:keep_b]
            cut += 1
        ids = [special["cls"], *ids_a, special["sep"]]
        types = [0] * len(ids)
        if pair:
            ids += [*ids_b, special["sep"]]
            types += [1] * (len(ids_b) + 1)
        encoded.append(EncodedExample(ids, types, example.label))
    return encoded, cut


def bucketed_batches(lengths: Sequence[int], batch_size: int, generator: np.random.Generator) -> list[list[int]]:
    """One epoch's batches: every index once, sequences of like length together, batches in random order.

    Indices are shuffled, cut into buckets of 16 batches, sorted by length within the bucket and cut into batches; so
    batches differ from epoch to epoch, and their order says nothing of their length.
    """
    order = generator.permutation(len(lengths))
    bucket = batch_size * BUCKET_BATCHES
    batches = []
    for start in range(0, len(order), bucket):
        members = sorted(order[start : start + bucket].tolist(), key=lambda index: lengths[index])
        batches += [members[at : at + batch_size] for at in range(0, len(members), batch_size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def finetune(
    encoder: Encoder,
    train: Sequence[EncodedExample],
    dev: Sequence[EncodedExample],
    num_labels: int,
    pad_id: int,
    recipe: Recipe,
    seed: int,
) -> FinetuneResult:
    """Fine-tune a copy of an encoder and predict the dev examples at the end.

    Deterministic: the same arguments, torch and thread count give the same result. `encoder` is not changed; the
    global generator of torch is seeded.

    Raises:
        InputError: no examples, or the loss is no number (the run diverged).
    """
    if not train or not dev:
        raise InputError("fine-tuning needs at least one training and one dev example, but a set is empty")
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    kind = MeanClassifier if recipe.pooling == "mean" else SequenceClassifier
    model = kind(encoder, num_labels, recipe.dropout).float().train()
    optimizer = adamw(
        model, lr=recipe.learning_rate, betas=list(ADAM_BETAS), eps=ADAM_EPS, weight_decay=recipe.weight_decay
    )
    lengths = [len(example.ids) for example in train]
    per_epoch = math.ceil(len(train) / recipe.batch_size)
    total = recipe.epochs * per_epoch
    warmup = round(recipe.warmup * total)
    losses, step = [], 0
    for _ in range(recipe.epochs):
        summed = 0.0
        for batch in bucketed_batches(lengths, recipe.batch_size, generator):
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * linear(step, 1, total, warmup=warmup)
            members = [train[index] for index in batch]
            labels = torch.tensor([example.label for example in members])
            loss = F.cross_entropy(_logits(model, members, pad_id), labels)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise InputError(
                    f"the fine-tuning loss is {value} at step {step} of {total}: lower recipe.learning_rate, or "
                    "choose another checkpoint if its weights are broken"
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_gradient_norm)
            optimizer.step()
            summed += value * len(members)
            step += 1
        losses.append(summed / len(train))
    return FinetuneResult(predict(model, dev, pad_id), losses, step)


@torch.inference_mode()
def predict(model: SequenceClassifier, examples: Sequence[EncodedExample], pad_id: int) -> NDArray[np.float64]:
    """Probabilities [examples, labels], in the order of the examples; batched by length."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda index: len(examples[index].ids))
    out = np.zeros((len(examples), model.num_labels), dtype=np.float64)
    for start in range(0, len(order), EVALUATION_BATCH):
        batch = order[start : start + EVALUATION_BATCH]
        logits = _logits(model, [examples[index] for index in batch], pad_id)
        out[batch] = torch.softmax(logits.double(), dim=-1).numpy()
    return out


def _logits(model: SequenceClassifier, members: Sequence[EncodedExample], pad_id: int) -> Tensor:
    ids, positions, layout, starts = pad_sequences([example.ids for example in members], pad_id)
    types = _token_types(model.encoder, members, layout)
    return model(ids, positions, layout, starts, types)


def _token_types(encoder: Encoder, members: Sequence[EncodedExample], layout: AttentionLayout) -> Tensor | None:
    """Token types in the flat layout of `pad_sequences`; None for a model without a second type."""
    if encoder.config.token_types < 2:
        return None
    rows = [example.types + [0] * (layout.row_length - len(example.types)) for example in members]
    return torch.tensor(rows, dtype=torch.long).reshape(-1)
