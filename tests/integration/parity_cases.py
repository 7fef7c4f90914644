"""What the ranks of `test_parity` run: a few steps of a tiny encoder, under DeepSpeed or in a plain torch loop."""

from pathlib import Path
from typing import Any

import torch

from pipeline.shards import ShardReader
from pretrain.data.loader import Layout, Loader
from pretrain.distributed import Group
from pretrain.engine import DeepSpeedOptions, FullState, TrainingEngine
from pretrain.models.encoder import EncoderConfig
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM
from pretrain.optim.optimizers import adamw

BATCH, CLIP, RATE = 8, 1.0, 5e-4
BETAS, EPS, DECAY = [0.9, 0.98], 1e-6, 0.01


def objective_and_reader(shards: str) -> tuple[MaskedLM, ShardReader]:
    reader = ShardReader(shards, verify=False)
    manifest = reader.manifest
    facts = DataFacts(manifest.vocab_size, manifest.special_ids, reader.row_length, reader.content_hash, seed=0)
    return MaskedLM(facts), reader


def fresh_model(objective: MaskedLM, vocab_size: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)
    return objective.build_model(config, vocab_size)


def build(
    group: Group, shards: str, stage: int, precision: str, accumulation: int, weights: dict[str, Any] | None = None
) -> tuple[TrainingEngine, Loader]:
    objective, reader = objective_and_reader(shards)
    model = fresh_model(objective, reader.manifest.vocab_size)
    if weights is not None:
        model.load_state_dict(weights, strict=False)
    ranks = group.ranks
    micro = BATCH // (accumulation * ranks.world_size)
    layout = Layout(BATCH, micro, ranks.rank, ranks.world_size)
    engine = TrainingEngine(
        model,
        objective.loss,
        adamw(model, lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY),
        DeepSpeedOptions(stage=stage, precision=precision),
        ranks,
        micro_batch_size=micro,
        accumulation=accumulation,
        gradient_clipping=CLIP,
    )
    return engine, Loader(reader, objective, 0, layout)


def take_step(group: Group, engine: TrainingEngine, loader: Loader, step: int) -> dict[str, float]:
    micro_batches = loader.step(step * BATCH)
    (targets,) = group.sum([sum(made.targets for made in micro_batches)])
    loss = engine.train_step(
        [made.batch for made in micro_batches], targets=targets, rate_factor=1.0, seeds=[0] * len(micro_batches)
    )
    (total,) = group.sum([float(loss)])
    return {"loss": total / targets, "norm": engine.gradient_norm()}


def run_case(group: Group, shards: str, stage: int, precision: str, accumulation: int, steps: int) -> dict[str, Any]:
    """Return the steps' losses and norms, and the state after the first and the last step."""
    engine, loader = build(group, shards, stage, precision, accumulation)
    figures = [take_step(group, engine, loader, 0)]
    first = engine.full_state()
    figures += [take_step(group, engine, loader, step) for step in range(1, steps)]
    last = engine.full_state()
    engine.close()
    return {"figures": figures, "first": first, "last": last}


def run_cases(group: Group, shards: str, cases: list[tuple[int, str, int]], steps: int) -> list[dict[str, Any]]:
    return [run_case(group, shards, *case, steps) for case in cases]


def load_and_go_on(group: Group, shards: str, state: FullState, stages: list[int], step: int) -> list[dict[str, Any]]:
    """Load a state at each stage; return it as it comes out again, and one further step."""
    results = []
    for stage in stages:
        engine, loader = build(group, shards, stage, "fp32", 1, state.weights)
        engine.load_optimizer_state(state, [made.batch for made in loader.step(0)])
        loaded = engine.full_state()
        figures = take_step(group, engine, loader, step)
        results.append({"loaded": loaded, "figures": figures, "next": engine.full_state()})
        engine.close()
    return results


def plain_torch(shards: Path, steps: int) -> dict[str, Any]:
    """The same training without the engine: whole batches, torch's own loss, clipping and AdamW."""
    objective, reader = objective_and_reader(str(shards))
    model = fresh_model(objective, reader.manifest.vocab_size)
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=RATE,
        betas=(BETAS[0], BETAS[1]),
        eps=EPS,
    )
    loader, figures, gradients = Loader(reader, objective, 0, Layout(BATCH, BATCH, 0, 1)), [], {}
    for step in range(steps):
        batch = loader.step(step * BATCH)[0].batch
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
