"""Where our speed comes from: our own step with one part at a time switched off, all in turn in one process.

A part is put back to what a plain loop does: one document a row instead of packed rows, logits of all tokens, torch's
fused attention, torch's dropout, fp32, and so on. `PART_factor` is the rate with everything on over the rate without
PART: what the part brings, given all the others. The factors do not multiply up to the whole, since parts overlap (with
logits of all tokens packing saves more). Must not import Hydra.
"""

import contextlib
import gc
import itertools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn

import conf
from benchmarks.contest import WARMUP
from benchmarks.harness import Measurement, alternate
from benchmarks.mlm_peers import Contest
from benchmarks.own_step import Alone, OwnStep, Settings
from benchmarks.timing import timed
from pipeline.shards import Rows, ShardReader
from pretrain.data.batching import Batch
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.data.loader import Layout, Loader
from pretrain.data.mixture import open_mixture
from pretrain.models import attention, layers
from pretrain.models.config import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer
from pretrain.objectives.masked_lm import MaskedLM

Batches = Literal["loader", "no thread", "made before", "padded"]


class WholeLastLayer(MaskedLM):
    """The last layer for all tokens; logits at the masked ones."""

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """As MaskedLM."""
        assert isinstance(model, MaskedLanguageModel)
        hidden = model.encoder(batch.input_ids, batch.position_ids, batch.layout)
        states = model.head(hidden.index_select(0, batch.target_positions))
        return {"masked_lm": linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights)}


class PlainCrossEntropy(MaskedLM):
    """Logits at the masked tokens as one tensor, torch's cross-entropy on it."""

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """As MaskedLM."""
        logits = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions)
        losses = F.cross_entropy(logits.float(), batch.labels, reduction="none")
        return {"masked_lm": (losses * batch.weights).sum()}


class AllLogits(MaskedLM):
    """Head, logits and torch's cross-entropy for all tokens, as in a plain loop."""

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """As MaskedLM."""
        assert isinstance(model, MaskedLanguageModel)
        logits = model.logits(model.head(model.encoder(batch.input_ids, batch.position_ids, batch.layout)))
        used = batch.weights > 0
        labels = torch.full_like(batch.input_ids, -100)
        labels[batch.target_positions[used]] = batch.labels[used]
        return {"masked_lm": F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")}


COMMANDS, PLAIN = Settings(), Settings(loop="plain")


@dataclass(frozen=True)
class Variant:
    """Our step with something put back; the defaults are ours."""

    key: str
    note: str
    batches: Batches = "loader"
    objective: type[MaskedLM] = MaskedLM
    kernel: attention.Kernel = "auto"
    own_dropout: bool = True
    settings: Settings = COMMANDS


OURS = Variant("ours", "everything on, in this process")
VARIANTS = (
    Variant("packing", "one document a row, padded to the longest, random order", batches="padded"),
    Variant("masked_logits", "head, logits and loss of all tokens", objective=AllLogits),
    Variant("last_layer", "last layer for all tokens, logits of the masked ones", objective=WholeLastLayer),
    Variant("chunked_loss", "logits of the masked tokens as one tensor", objective=PlainCrossEntropy),
    Variant("kernel", "torch's fused attention with a mask", kernel="sdpa"),
    Variant("dropout", "torch's dropout", own_dropout=False),
    Variant("precision", "fp32", settings=Settings("fp32")),
    Variant("optimizer", "AdamW not fused", settings=Settings(fused_optimizer=False)),
    Variant("loader_thread", "batches made between the steps", batches="no thread"),
    Variant("loader", "batches made before the clock starts (below 1: what the loader costs)", batches="made before"),
    Variant("engine", "a plain torch loop (below 1: what DeepSpeed costs)", settings=PLAIN),
    Variant(
        "all",
        "padded, all logits, torch's attention and dropout, batches made before, plain loop: the peer's way, our model",
        batches="padded",
        objective=AllLogits,
        kernel="sdpa",
        own_dropout=False,
        settings=PLAIN,
    ),
)


def measure(contest: Contest, runs: int) -> tuple[list[Measurement], dict[str, float]]:
    """Measure all variants in turn; the rows of the table and the factors."""
    fills = dict[str, float]()
    chosen = [one for one in VARIANTS if not (contest.precision == "fp32" and one.key in ("precision", "kernel"))]
    with contextlib.closing(Alone()) as alone:
        found = alternate({one.key: partial(_rate, contest, one, alone, fills) for one in (OURS, *chosen)}, runs)
    ours = found[OURS.key].best
    rows = [
        Measurement(
            f"{contest.key}: {'ours' if one is OURS else f'ours without {one.key}'}",
            found[one.key].rates,
            f"{one.note}; {fills[one.key]:.1%} real tokens",
        )
        for one in (OURS, *chosen)
    ]
    return rows, {f"{one.key}_factor_{contest.key}": ours / found[one.key].best for one in chosen}


def ours_here(contest: Contest, label: str) -> float:
    """Our step with its loader and engine in this process, where its CPU time can be told."""
    fills = dict[str, float]()
    with contextlib.closing(Alone()) as alone:
        rate = _rate(contest, OURS, alone, fills)
    contest.fills[label] = fills[OURS.key]
    return rate


def _rate(contest: Contest, variant: Variant, alone: Alone, fills: dict[str, float]) -> float:
    settings = variant.settings
    if contest.precision == "fp32":
        settings = replace(settings, precision="fp32")
    manifest = ShardReader(contest.shards, verify=False).manifest
    facts = DataFacts(manifest.vocab_size, manifest.special_ids, manifest.row_length)
    cpu = torch.device("cpu")
    gc.collect()  # the model before this one
    with contextlib.ExitStack() as stack:
        batches = stack.enter_context(contextlib.closing(_batches(contest, variant, facts)))
        if not variant.own_dropout:
            stack.enter_context(_dropout_of_torch())
        loop = OwnStep(
            replace(_architecture(contest.shape.name), attention_kernel=variant.kernel),
            variant.objective(facts),
            manifest.vocab_size,
            batches,
            settings,
            cpu,
            alone,
        )
        stack.callback(loop.close)
        for _ in range(WARMUP):
            loop.step()
        rate = timed(loop, contest.steps, contest.clock)
        fills[variant.key] = loop.fill
        return rate


def _architecture(name: str) -> EncoderConfig:
    options = yaml.safe_load((Path(conf.__file__).parent / "model" / f"{name}.yaml").read_text(encoding="utf-8"))
    del options["_target_"]
    return EncoderConfig(**options)


def _batches(contest: Contest, variant: Variant, facts: DataFacts) -> Generator[MicroBatch, None, None]:
    objective = variant.objective(facts)
    if variant.batches == "padded":
        yield from itertools.cycle(_padded(contest, objective, facts))
    layout = Layout(contest.rows, contest.rows, rank=0, world_size=1)
    loader = Loader(open_mixture(str(contest.shards)), objective, 0, layout)
    if variant.batches == "loader":
        with contextlib.closing(loader.steps(0)) as steps:
            for step in steps:
                yield step[0]
    made: Iterator[MicroBatch] = (loader.step(number * contest.rows)[0] for number in itertools.count())
    if variant.batches == "made before":
        made = itertools.cycle([next(made) for _ in range(contest.steps + WARMUP)])
    yield from made


def _padded(contest: Contest, objective: MaskedLM, facts: DataFacts) -> list[MicroBatch]:
    """The documents one a row, in random order, as the peers get them; no slot for targets is left unused."""
    batches = []
    sequences = contest.sequences()
    order = np.random.default_rng(0).permutation(len(sequences))
    size = min(contest.batch, len(sequences))
    for number in range(min(contest.steps + WARMUP, len(order) // size)):
        chosen = order[number * size : (number + 1) * size]
        lengths = np.array([len(sequences[i]) for i in chosen])
        length = -(-int(lengths.max()) // 8) * 8
        inside = np.arange(length) < lengths[:, None]
        ids = np.full(inside.shape, facts.special_ids["pad"], dtype=np.uint32)
        ids[inside] = np.concatenate([sequences[i] for i in chosen])
        keys = hash_coordinates(derive_key("padded"), chosen)
        rows = Rows(ids, inside.astype(np.int32))
        made = objective.make_batch(rows, keys, np.ones(size, dtype=bool), training=True)
        used = made.batch.weights > 0
        parts = {name: getattr(made.batch, name)[used] for name in ("target_positions", "labels", "weights")}
        batches.append(replace(made, batch=replace(made.batch, **parts)))
    return batches


@contextlib.contextmanager
def _dropout_of_torch() -> Iterator[None]:
    """Put torch's dropout in the place of `pretrain.models.dropout`."""

    def plain(x: Tensor, probability: float, training: bool = True) -> Tensor:
        return F.dropout(x, probability, training)

    ours: Callable[..., Tensor] = layers.dropout
    users = (layers, attention)
    try:
        for module in users:
            module.dropout = plain  # type: ignore[attr-defined]
        yield
    finally:
        for module in users:
            module.dropout = ours  # type: ignore[attr-defined]
