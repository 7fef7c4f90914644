"""The shapes that `gpu` measures, and the contestants of each: ours and transformers', over the same documents.

Must not import Hydra: the machine with the GPU may have torch and transformers alone.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import yaml

import conf
from benchmarks import synthetic
from benchmarks.own_step import Alone, OwnStep, Settings
from benchmarks.plain_loop import PaddedBatch, PlainLoop, batches_of_full_rows, batches_of_sequences, bert_config
from benchmarks.timing import wait
from pretrain.estimates import training_flops_per_token
from pretrain.models.config import EncoderConfig
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.masked_lm import MaskedLM

BATCHES = 8
TINY = EncoderConfig(
    hidden_size=64,
    num_layers=2,
    num_heads=2,
    intermediate_size=128,
    norm="post",
    positions="learned",
    activation="gelu",
    biases=True,
    token_types=2,
    max_positions=64,
    dropout=0.1,
)


def published(name: str) -> EncoderConfig:
    """The shape of `conf/model/NAME.yaml`, without dropout on the attention's probabilities, which varlen lacks."""
    options = yaml.safe_load((Path(conf.__file__).parent / "model" / f"{name}.yaml").read_text(encoding="utf-8"))
    del options["_target_"]
    return EncoderConfig(**{**options, "attention_dropout": 0.0, "pooler": False})


@dataclass(frozen=True)
class Case:
    """One shape at one row length; `rows` packed rows are a step of ours, and as many tokens a step of the peer's."""

    key: str
    architecture: EncoderConfig
    row_length: int
    rows: int
    kind: synthetic.Kind
    vocab_size: int = synthetic.VOCABULARY
    alone: Alone = field(default_factory=Alone)

    @cached_property
    def data(self) -> synthetic.Synthetic:
        """Documents for `BATCHES` steps."""
        return synthetic.make(self.kind, BATCHES * self.rows * self.row_length, self.row_length, self.vocab_size)

    @cached_property
    def objective(self) -> MaskedLM:
        """Masked LM at 15 %."""
        return MaskedLM(DataFacts(self.vocab_size, synthetic.SPECIAL_IDS, self.row_length))

    @cached_property
    def micro_batches(self) -> list[MicroBatch]:
        """Our batches."""
        return synthetic.micro_batches(self.data.rows, self.objective, self.rows)

    def padded(self, divisor: int = 1) -> list[PaddedBatch]:
        """The peer's batches of single documents of like lengths, with about as many real tokens each as ours."""
        mean = np.mean([len(one) for one in self.data.sequences])
        count = max(1, round(self.rows * self.row_length / mean / divisor))
        return batches_of_sequences(self.data.sequences, count, synthetic.SPECIAL_IDS, self.vocab_size, by_length=True)

    def full_rows(self, divisor: int = 1) -> list[PaddedBatch]:
        """The peer's batches of rows without padding, in which documents see each other."""
        return batches_of_full_rows(
            self.data.sequences, self.rows // divisor, self.row_length, synthetic.SPECIAL_IDS, self.vocab_size
        )

    def flops_per_token(self) -> float:
        """FLOPs of forward and backward pass for each real token, as the trainer's MFU counts them."""
        lengths = [len(one) for one in self.data.sequences]
        tokens = sum(one.tokens for one in self.micro_batches)
        targets = sum(one.counts["masked_lm"] for one in self.micro_batches)
        return training_flops_per_token(
            self.architecture, self.vocab_size, sequence_lengths=lengths, target_share=targets / tokens
        )

    def product_rate(self, device: torch.device, seconds: float) -> float:
        """FLOPs a second of the MLP's first product at this shape, in bf16: a ceiling nearer than the square one's."""
        form, tokens = self.architecture, self.rows * self.row_length
        left = torch.randn(tokens, form.hidden_size, device=device, dtype=torch.bfloat16)
        right = torch.randn(form.intermediate_size, form.hidden_size, device=device, dtype=torch.bfloat16)
        out = torch.empty(tokens, form.intermediate_size, device=device, dtype=torch.bfloat16)
        best, begin = math.inf, time.perf_counter()
        while best == math.inf or time.perf_counter() - begin < seconds:
            wait(device)
            start = time.perf_counter()
            for _ in range(8):
                torch.mm(left, right.t(), out=out)
            wait(device)
            best = min(best, (time.perf_counter() - start) / 8)
        return 2.0 * tokens * form.hidden_size * form.intermediate_size / best

    def ours(self, settings: Settings, device: torch.device, attention_dropout: float, divisor: int) -> OwnStep:
        """Our step, on batches of a `divisor`-th of the rows."""
        architecture = replace(self.architecture, attention_dropout=attention_dropout)
        batches = self.micro_batches
        if divisor > 1:
            batches = synthetic.micro_batches(self.data.rows, self.objective, self.rows // divisor)
        return OwnStep(
            architecture, self.objective, self.vocab_size, itertools.cycle(batches), settings, device, self.alone
        )

    def peer(
        self,
        batches: Callable[[int], list[PaddedBatch]],
        device: torch.device,
        compiled: bool | None,
        divisor: int,
    ) -> PlainLoop:
        """transformers' BertForMaskedLM in bf16, with our dropout; `compiled` as in PlainLoop."""
        form = self.architecture
        config = bert_config(
            self.vocab_size,
            layers=form.num_layers,
            hidden=form.hidden_size,
            heads=form.num_heads,
            width=form.intermediate_size,
            dropout=form.dropout,
            attention_dropout=0.0,
        )
        return PlainLoop(config, batches(divisor), device, bf16=True, compiled=compiled)


def cases(device: torch.device, alone: Alone) -> list[Case]:
    """BERT-base at 512 and 128 and BERT-large at 512 on a GPU, most important first; one tiny shape on a CPU."""
    if device.type != "cuda":
        return [Case("tiny_64", TINY, 64, 16, "paragraphs", vocab_size=1000, alone=alone)]
    # 65,536 tokens a step fill an 80 GB GPU well with BERT-base; a smaller one gets a quarter.
    tokens = 65_536 if torch.cuda.get_device_properties(device).total_memory > 70e9 else 16_384
    base, large = published("bert_base"), published("bert_large")
    return [
        Case("base_512", base, 512, tokens // 512, "documents", alone=alone),
        Case("base_128", base, 128, tokens // 128, "paragraphs", alone=alone),
        Case("large_512", large, 512, tokens // 1024, "documents", alone=alone),
    ]
