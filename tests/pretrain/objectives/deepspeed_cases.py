"""What the ranks of `test_under_deepspeed` run: two updates of a tiny model with every objective and kind of loss."""

from typing import Any

import numpy as np
import torch

from pipeline.shards import Rows
from pretrain.data.batching import PairBatch
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.causal_lm import CausalLM
from pretrain.objectives.masked_lm import MaskedLM
from pretrain.objectives.masked_lm_sentences import MaskedLMWithSentences
from pretrain.objectives.mass import MASS
from tests.helpers.rows import part_of
from tests.pretrain.objectives.sentence_rows import rows_of_two

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
VOCAB, LENGTH, COUNT, STEPS, RATE = 100, 64, 4, 2, 0.1
FACTS = DataFacts(VOCAB, SPECIAL, LENGTH)
SMALL = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "intermediate_size": 16}
OBJECTIVES: dict[str, Any] = {
    "masked_lm": MaskedLM(FACTS, unit="word"),
    "next_sentence": MaskedLMWithSentences(FACTS, sentence_task="next_sentence", unit="span"),
    "sentence_order": MaskedLMWithSentences(FACTS, sentence_task="sentence_order"),
    "causal_lm": CausalLM(FACTS),
    "mass": MASS(FACTS, cross_attention_to_masks=False),
}


def model_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if name == "mass":
        return OBJECTIVES[name].build_model(Seq2SeqConfig(16, 2, 2, 2, 16), VOCAB)
    options = {"causal": name == "causal_lm", "token_types": 2, "pooler": name not in ("masked_lm", "causal_lm")}
    return OBJECTIVES[name].build_model(EncoderConfig(**SMALL, **options), VOCAB)


def some_rows(seed: int) -> Rows:
    return rows_of_two(seed, COUNT, LENGTH, VOCAB, SPECIAL)


def batch_of(name: str, step: int, part: slice) -> MicroBatch:
    rows, partners = (part_of(some_rows(2 * step + number), part) for number in range(2))
    keys = hash_coordinates(derive_key("rows", step), np.arange(COUNT))[part]
    return OBJECTIVES[name].make_batch(rows, keys, np.ones(len(keys), bool), training=True, partners=partners)


def train(group: Group, stage: int, precision: str) -> dict[str, dict[str, torch.Tensor]]:
    """Return the weights of each objective's model after STEPS updates by plain gradient descent."""
    share = COUNT // group.ranks.world_size
    mine = slice(group.ranks.rank * share, (group.ranks.rank + 1) * share)
    found = {}
    for name, objective in OBJECTIVES.items():
        model = model_of(name)
        engine = TrainingEngine(
            model,
            objective.loss,
            torch.optim.SGD(model.parameters(), lr=RATE),
            DeepSpeedOptions(stage=stage, precision=precision),  # type: ignore[arg-type]
            group.ranks,
            micro_batch_size=share,
            gradient_clipping=0.0,
        )
        for step in range(STEPS):
            made = batch_of(name, step, mine)
            counts = dict(zip(made.counts, group.sum(list(made.counts.values())), strict=True))
            engine.train_step([made.batch], counts=counts, rate_factor=1.0, seeds=[0])
        found[name] = engine.full_state().weights
        engine.close()
    return found


def train_cases(group: Group, cases: list[tuple[int, str]]) -> list[dict[str, dict[str, torch.Tensor]]]:
    """`train` for each (stage, precision), in one start of the ranks."""
    return [train(group, *case) for case in cases]


def logits_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    if isinstance(batch, PairBatch):
        return model(batch.source, batch.target, batch.target_positions, hidden_keys=batch.hidden_keys)
    return model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions, batch.token_type_ids)


def train_plainly(name: str) -> dict[str, torch.Tensor]:
    """The same by torch alone, with logits and torch's own loss."""
    model = model_of(name)
    for step in range(STEPS):
        made = batch_of(name, step, slice(None))
        batch = made.batch
        logits = logits_of(model, batch)
        losses = [(torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none") * batch.weights).sum()]
        if name in ("next_sentence", "sentence_order"):
            _, sentences = model.forward_with_sentences(
                batch.input_ids,
                batch.position_ids,
                batch.layout,
                batch.target_positions,
                batch.token_type_ids,
                batch.sentence_positions,
            )
            each = torch.nn.functional.cross_entropy(sentences, batch.sentence_labels, reduction="none")
            losses.append((each * batch.sentence_weights).sum())
        model.zero_grad()
        sum(loss / max(count, 1.0) for loss, count in zip(losses, made.counts.values(), strict=True)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= RATE * parameter.grad
    return {key: parameter.detach() for key, parameter in model.named_parameters()}
