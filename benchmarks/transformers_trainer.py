"""The peer of `benchmarks.mlm_step`: transformers' BertForMaskedLM under its Trainer, at its own best CPU settings.

Must not import the project's trainer: the two share nothing but the token ids.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


@dataclass(frozen=True)
class Shape:
    """Size of a BERT encoder."""

    name: str
    layers: int
    hidden: int
    heads: int
    vocabulary: int


class _Clock(TrainerCallback):
    """Starts after the warm-up steps, stops at the end: compilation and first allocations are not in the figure."""

    def __init__(self, warmup: int, now: Callable[[], float]) -> None:
        self.warmup, self.now = warmup, now
        self.begin = 0.0
        self.seconds = 0.0
        self.counting = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.warmup:
            self.begin = self.now()
            self.counting = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.seconds = self.now() - self.begin


class _CountingCollator:
    """transformers' own collator (dynamic padding to a multiple of 8), counting real and padded tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, clock: _Clock) -> None:
        self.collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15, pad_to_multiple_of=8)
        self.clock = clock
        self.real = 0
        self.padded = 0

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        batch = self.collate(examples)
        if self.clock.counting:
            self.real += int(batch["attention_mask"].sum())
            self.padded += batch["attention_mask"].numel()
        return batch


def measure(
    sequences: Sequence[Sequence[int]],
    tokenizer_path: str,
    shape: Shape,
    rows: int,
    steps: int,
    warmup: int,
    bf16: bool,
    by_length: bool,
    now: Callable[[], float],
) -> tuple[float, float]:
    """Train for `warmup + steps` steps and time the last `steps`.

    Args:
        sequences: token ids with their special tokens, at most 128 each.
        tokenizer_path: a `tokenizer.json`.
        shape: the model.
        rows: sequences in a batch.
        steps: timed optimiser steps.
        warmup: steps before the clock starts.
        bf16: autocast to bfloat16 (otherwise float32).
        by_length: batches of like lengths (the Trainer's `group_by_length` sampling), its best setting for padding.
        now: the clock, in seconds.

    Returns:
        Real tokens per second, and the share of real tokens in what was computed.
    """
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=tokenizer_path,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    # Its attention is SDPA by default, the fastest it has on a CPU.
    config = BertConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
    )
    clock = _Clock(warmup, now)
    collator = _CountingCollator(tokenizer, clock)
    sampling: dict[str, Any] = {"train_sampling_strategy": "group_by_length"} if by_length else {}
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=BertForMaskedLM(config),
            args=TrainingArguments(
                output_dir=folder,
                max_steps=warmup + steps,
                per_device_train_batch_size=rows,
                bf16=bf16,
                use_cpu=True,
                learning_rate=1e-4,
                optim="adamw_torch",
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                dataloader_pin_memory=False,
                **sampling,
            ),
            train_dataset=[{"input_ids": list(ids)} for ids in sequences],
            data_collator=collator,
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return collator.real / clock.seconds, collator.real / collator.padded
