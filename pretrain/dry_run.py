"""`dry_run=true`: what a run would train and cost, printed before anything is trained or written.

Every figure comes from `pretrain.estimates` and the pieces of the run; here they are only laid out. Must not import
deepspeed or the trainer.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TextIO

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conf.progress import duration
from pretrain.batch_shape import BatchShape
from pretrain.estimates import memory_per_rank, tokens_per_second
from pretrain.models.config import ConvSeq2SeqConfig, ModelConfig
from pretrain.optim.groups import describe_groups, folded_names

MFUS = (0.2, 0.3, 0.4, 0.5, 0.6)


@dataclass(frozen=True)
class Plan:
    """The pieces of a run that the report is about.

    `stages` are rows of words and figures by column (`stage_data.describe`), which hold "global batch" and "row
    length"; `shapes` and `shares` (of the budget) go with them. `peak_flops` is that of one rank.
    """

    architecture: ModelConfig
    vocab_size: int
    optimizer: torch.optim.Optimizer
    optimizer_states: float
    world_size: int
    zero_stage: int
    precision: Literal["fp32", "bf16", "fp16"]
    offload_optimizer: bool
    stages: Sequence[Mapping[str, Any]]
    shapes: Sequence[BatchShape]
    shares: Sequence[float]
    budget: float
    unit: Literal["steps", "tokens", "hours"]
    peak_flops: float
    peak_source: str


Rows = Sequence[Sequence[str]]


def report(plan: Plan, stream: TextIO = sys.stdout) -> None:
    """Print the report: rich tables on a terminal, plain aligned text elsewhere."""
    for title, head, rows in (
        _groups(plan),
        *_receptive_fields(plan.architecture),
        _memory(plan),
        _flops(plan),
        _speed(plan),
        _stages(plan),
    ):
        if stream.isatty():
            _print_rich(title, head, rows, stream)
        else:
            print(f"{title}\n{plain_table(head, rows)}\n", file=stream)


Section = tuple[str, Sequence[str], Rows]


def _groups(plan: Plan) -> Section:
    described = describe_groups(plan.optimizer)
    rows = []
    for group in described:
        names = folded_names(group.names)
        figures = [f"{group.lr:.3g}", f"{group.weight_decay:.3g}", f"{group.parameters:,}"]
        rows += [[*(figures if number == 0 else ["", "", ""]), name] for number, name in enumerate(names)]
    total = sum(group.parameters for group in described)
    return f"Parameters: {total:,} in {len(described)} groups", ("peak rate", "decay", "parameters", "names"), rows


def _receptive_fields(architecture: ModelConfig) -> list[Section]:
    """Of a convolutional model, how many tokens one state depends on; of others nothing: attention sees all."""
    if not isinstance(architecture, ConvSeq2SeqConfig):
        return []
    source, target = architecture.receptive_fields
    return [("Receptive field in tokens", ("side", "tokens"), [["encoder", f"{source:,}"], ["decoder", f"{target:,}"]])]


def _memory(plan: Plan) -> Section:
    parameters = sum(group.parameters for group in describe_groups(plan.optimizer))
    needs = []
    for stage in (0, 1, 2, 3):
        need = memory_per_rank(
            parameters,
            stage=stage,
            world_size=plan.world_size,
            precision=plan.precision,
            offload=plan.offload_optimizer and stage > 0,
            optimizer_states=round(plan.optimizer_states),
        )
        device = need["weights"] + need["gradients"] + need["optimizer"]
        needs.append([need["weights"], need["gradients"], need["optimizer"], device, need["host"]])
    unit, factor = ("GiB", 2**30) if max(map(max, needs)) >= 2**30 else ("MiB", 2**20)
    rows = [
        [f"{stage}{' (chosen)' if stage == plan.zero_stage else ''}", *(f"{count / factor:,.2f}" for count in need)]
        for stage, need in enumerate(needs)
    ]
    ranks = f"{plan.world_size} rank{'s' if plan.world_size > 1 else ''}"
    title = f"Memory per rank in {unit}, {ranks}, {plan.precision}; without activations and buffers"
    return title, ("ZeRO stage", "weights", "gradients", "optimizer", "device", "host"), rows


def _flops(plan: Plan) -> Section:
    rows = []
    for stage, shape in zip(plan.stages, plan.shapes, strict=True):
        forward = shape.forward_flops_per_token(plan.architecture, plan.vocab_size)
        parts = [f"{part} {share / sum(forward.values()):.0%}" for part, share in forward.items() if share]
        training = shape.flops_per_token(plan.architecture, plan.vocab_size)
        rows.append([str(stage.get("stage", "")), f"{sum(forward.values()):.4g}", f"{training:.4g}", ", ".join(parts)])
    return "FLOPs per token", ("stage", "forward", "forward + backward", "of which"), rows


def _tokens(plan: Plan) -> list[float]:
    """Tokens of each stage, as if every row were full; of a budget in hours unknown, so 0."""
    if plan.unit == "tokens":
        return [share * plan.budget for share in plan.shares]
    if plan.unit == "hours":
        return [0.0 for _ in plan.shares]
    return [
        share * plan.budget * stage["global batch"] * stage["row length"]
        for stage, share in zip(plan.stages, plan.shares, strict=True)
    ]


def _speed(plan: Plan) -> Section:
    costs = [shape.flops_per_token(plan.architecture, plan.vocab_size) for shape in plan.shapes]
    tokens = _tokens(plan)
    rows = []
    for mfu in MFUS:
        rates = [tokens_per_second(cost, plan.peak_flops, mfu, plan.world_size) for cost in costs]
        if plan.unit == "hours":
            seconds = plan.budget * 3600
            total = sum(rate * share * seconds for rate, share in zip(rates, plan.shares, strict=True))
        else:
            total = sum(tokens)
            seconds = sum(count / rate for count, rate in zip(tokens, rates, strict=True))
        rows.append([f"{mfu:.0%}", ", ".join(f"{rate:,.0f}" for rate in rates), f"{total:,.0f}", duration(seconds)])
    title = f"Speed of all ranks at a share (MFU) of {plan.peak_flops / 1e12:,.4g} TFLOPS a rank ({plan.peak_source})"
    return title, ("MFU", "tokens/s" + (" by stage" if len(costs) > 1 else ""), "tokens", "time"), rows


def _stages(plan: Plan) -> Section:
    head = list(plan.stages[0])
    rows = [
        [str(stage[key]) if isinstance(stage[key], str) else f"{stage[key]:,}" for key in head] for stage in plan.stages
    ]
    return f"Batches: a budget of {plan.budget:,.10g} {plan.unit}", head, rows


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("%", "").replace("e+", "").replace("e-", "").isdigit()


def plain_table(head: Sequence[str], rows: Rows) -> str:
    """Return rows as aligned text, figures to the right; each line is indented by two spaces."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    right = [all(_is_number(row[column]) or not row[column] for row in rows) for column in range(len(head))]
    lines = []
    for line in [head, *rows]:
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _print_rich(title: str, head: Sequence[str], rows: Rows, stream: TextIO) -> None:
    table = Table(title=title, title_justify="left")
    for column, name in enumerate(head):
        to_right = all(_is_number(row[column]) or not row[column] for row in rows)
        table.add_column(name, justify="right" if to_right else "left")
    for row in rows:
        table.add_row(*map(Text, row))  # as they are: a name may look like markup
    Console(file=stream).print(table)
