"""What the ranks of `test_parity` run: a few steps of a tiny encoder, under DeepSpeed or in a plain torch loop.

fp32 unless said, dropout 0, Adam's eps 1e-6, an encoder without biases (the gradient of a key bias is zero in truth,
and Adam makes something of its rounding noise).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from pipeline.shards import Rows
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.engine_state import FullState
from pretrain.models.encoder import EncoderConfig
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.masked_lm import MaskedLM

BATCH, ROW_LENGTH, VOCABULARY = 8, 32, 200
CLIP, RATE = 1.0, 5e-4
BETAS, EPS, DECAY = (0.9, 0.98), 1e-6, 0.01
SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


class Case(NamedTuple):
    """One cell of the matrix, for a given number of ranks."""

    stage: int
    accumulation: int = 1
    precision: str = "fp32"
    offload: bool = False


def objective() -> MaskedLM:
    return MaskedLM(DataFacts(VOCABULARY, SPECIAL_IDS, ROW_LENGTH))


def fresh_model() -> torch.nn.Module:
    torch.manual_seed(0)
    config = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)
    return objective().build_model(config, VOCABULARY)


def micro_batch(step: int, rows: Sequence[int]) -> MicroBatch:
    """Some of the rows of a step. Rows differ much in length, and so ranks and micro-batches in their target counts."""
    generator = np.random.default_rng(step)
    ids = generator.integers(5, VOCABULARY, (BATCH, ROW_LENGTH))
    ids = np.minimum(ids, generator.integers(5, VOCABULARY, ids.shape)).astype(np.uint16)  # something to learn
    segments = np.zeros((BATCH, ROW_LENGTH), np.int32)
    for row, length in enumerate(generator.integers(8, ROW_LENGTH + 1, BATCH)):
        segments[row, :length] = 1
        segments[row, length // 3 : length] = 2
    keys = generator.integers(2**63, size=BATCH, dtype=np.uint64)
    picked = list(rows)
    return objective().make_batch(
        Rows(ids[picked], segments[picked]), keys[picked], np.ones(len(picked), bool), training=True
    )


def adamw(model: torch.nn.Module) -> torch.optim.AdamW:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS)


def build(group: Group, case: Case, weights: dict[str, Any] | None = None) -> TrainingEngine:
    model = fresh_model()
    if weights is not None:
        model.load_state_dict(weights, strict=False)
    return TrainingEngine(
        model,
        objective().loss,
        adamw(model),
        DeepSpeedOptions(stage=case.stage, precision=case.precision, offload_optimizer=case.offload),
        group.ranks,
        micro_batch_size=BATCH // (case.accumulation * group.ranks.world_size),
        gradient_clipping=CLIP,
    )


def take_step(group: Group, engine: TrainingEngine, accumulation: int, step: int) -> dict[str, float]:
    parts = np.arange(BATCH).reshape(accumulation, group.ranks.world_size, -1)[:, group.ranks.rank]
    made = [micro_batch(step, rows) for rows in parts]
    (count,) = group.sum([sum(part.counts["masked_lm"] for part in made)])
    outcome = engine.train_step(
        [part.batch for part in made], counts={"masked_lm": count}, rate_factor=1.0, seeds=[0] * len(made)
    )
    assert outcome.skipped is None
    (total,) = group.sum([float(outcome.losses["masked_lm"])])
    return {"loss": total / count, "norm": engine.gradient_norm()}


def run_case(group: Group, case: Case, steps: int) -> dict[str, Any]:
    """Return the steps' losses and norms, and the state after the first and the last step."""
    engine = build(group, case)
    figures = [take_step(group, engine, case.accumulation, 0)]
    first = engine.full_state()
    figures += [take_step(group, engine, case.accumulation, step) for step in range(1, steps)]
    last = engine.full_state()
    engine.close()
    return {"figures": figures, "first": first, "last": last}


def run_cases(group: Group, cases: list[Case], steps: int) -> list[dict[str, Any]]:
    return [run_case(group, case, steps) for case in cases]


def load_and_go_on(
    group: Group, states: list[FullState], pairs: list[tuple[int, Case]], step: int
) -> list[dict[str, Any]]:
    """For each pair load a state, by its number, in a case; return it as it comes out again, and one further step."""
    results = []
    for number, case in pairs:
        engine = build(group, case, states[number].weights)
        engine.load_optimizer_state(states[number])
        loaded = engine.full_state()
        figures = take_step(group, engine, case.accumulation, step)
        results.append({"loaded": loaded, "figures": figures, "next": engine.full_state()})
        engine.close()
    return results


def plain_torch(steps: int) -> dict[str, Any]:
    """The same training without the engine: whole batches, torch's own loss, clipping and AdamW."""
    torch.set_num_threads(1)
    model = fresh_model()
    optimizer = adamw(model)
    figures, gradients = [], {}
    for step in range(steps):
        batch = micro_batch(step, range(BATCH)).batch
        used = batch.weights > 0
        logits = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions[used])
        loss = torch.nn.functional.cross_entropy(logits, batch.labels[used])
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        if step == 0:
            gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        figures.append({"loss": loss.item(), "norm": float(norm)})
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    return {"figures": figures, "gradients": gradients, "weights": weights}


def distance(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    """Relative distance of two sets of tensors, taken as one vector."""
    assert ours.keys() == theirs.keys()
    difference = sum(float((ours[name].double() - theirs[name].double()).square().sum()) for name in theirs)
    return (difference / sum(float(theirs[name].double().square().sum()) for name in theirs)) ** 0.5


def clipped_gradients(state: FullState) -> dict[str, torch.Tensor]:
    """Adam's first moment after one step is (1 - beta_1) times the clipped gradient."""
    return {
        name.removeprefix("exp_avg/"): moment / (1 - BETAS[0])
        for name, moment in state.optimizer.items()
        if name.startswith("exp_avg/")
    }


class Parity(NamedTuple):
    """How far a run is from the plain loop: relative in loss (the worst step) and first gradient, and the largest
    absolute difference of a weight at the end."""

    loss: float
    gradient: float
    weights: float


def compare(run: dict[str, Any], reference: dict[str, Any]) -> Parity:
    losses = [
        abs(ours["loss"] - theirs["loss"]) / abs(theirs["loss"])
        for ours, theirs in zip(run["figures"], reference["figures"], strict=True)
    ]
    weights = run["last"].weights
    return Parity(
        max(losses),
        distance(clipped_gradients(run["first"]), reference["gradients"]),
        max(float((weights[name] - reference["weights"][name]).abs().max()) for name in reference["weights"]),
    )
