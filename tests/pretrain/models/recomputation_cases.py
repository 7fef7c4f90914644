"""What the ranks of `test_recomputation_ranks` run: steps of whole models under DeepSpeed, as is and recomputing.

Must not import pytest: a rank loads it alone.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pretrain.data.batching import Batch, from_rows
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.models.encoder import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel

SIZES = {"hidden_size": 32, "num_layers": 4, "num_heads": 2, "intermediate_size": 48, "dropout": 0.1}
FORMS: dict[str, dict[str, Any]] = {
    "bert": {
        "norm": "post",
        "positions": "learned",
        "activation": "gelu",
        "biases": True,
        "token_types": 2,
        "attention_dropout": 0.1,
        "pooler": True,
    },
    "modern": {"local_window": 3, "global_every": 2, "local_rope_base": 100.0},
}
TARGETS, STARTS = torch.tensor([1, 9, 17, 30]), torch.tensor([0, 12])


def batch(seed: int) -> Batch:
    ids = np.random.default_rng(seed).integers(5, 75, (2, 24))
    segments = np.repeat([[1] * 12 + [2] * 12], 2, axis=0)
    return Batch(*from_rows(ids, segments), TARGETS, torch.from_numpy(ids.reshape(-1)[TARGETS]), torch.ones(4))


def loss(model: MaskedLanguageModel, given: Batch) -> dict[str, Tensor]:
    inputs = (given.input_ids, given.position_ids, given.layout, given.target_positions)
    if model.sentence_head is None:
        return {"masked_lm": torch.nn.functional.cross_entropy(model(*inputs).float(), given.labels, reduction="sum")}
    states, sentences = model.forward_with_sentences(*inputs, None, STARTS.to(given.input_ids.device))
    masked = torch.nn.functional.cross_entropy(model.logits(states).float(), given.labels, reduction="sum")
    wanted = torch.tensor([0, 1], device=sentences.device)
    return {"masked_lm": masked + torch.nn.functional.cross_entropy(sentences.float(), wanted, reduction="sum")}


def differences(group: Group, cases: list[tuple[str, int, str]]) -> list[list[str]]:
    """For each (form, ZeRO stage, precision): the weights that recomputing makes different after two steps."""
    results = []
    for form, stage, precision in cases:
        states = []
        for recompute in (False, True):
            torch.manual_seed(0)
            config = EncoderConfig(**SIZES, **FORMS[form])
            model = MaskedLanguageModel(config, 75, sentence_head=config.pooler)
            engine = TrainingEngine(
                model,
                loss,
                torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-6),
                DeepSpeedOptions(stage=stage, precision=precision, activation_checkpointing=recompute),
                group.ranks,
                micro_batch_size=2,
                gradient_clipping=1.0,
            )
            for step in range(2):
                parts = [batch(100 * step + 10 * group.ranks.rank + part) for part in range(2)]
                outcome = engine.train_step(parts, counts={"masked_lm": 16.0}, rate_factor=1.0, seeds=[step, 7 + step])
                assert outcome.skipped is None
            assert model.encoder.activation_checkpointing is recompute
            states.append(engine.full_state().weights)
            engine.close()
        results.append([name for name in states[0] if not torch.equal(states[0][name], states[1][name])])
    return results
