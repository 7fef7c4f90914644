"""The peer of `benchmarks.finetune`: transformers' own classes under its Trainer, with dynamic padding.

Must not import the project's fine-tuning: the two share the items, the recipe's numbers and the checkpoint.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

Text = tuple[str, str | None]


def finetune(
    checkpoint: Path,
    kind: str,
    num_labels: int,
    train: Sequence[tuple[Sequence[Text], float]],
    dev: Sequence[tuple[Sequence[Text], float]],
    recipe: Mapping[str, Any],
    seed: int,
    by_length: bool,
    judge: Callable[[np.ndarray, np.ndarray], float],
    clock: Callable[[], float],
) -> tuple[float, float]:
    """Tokenize, train and evaluate after each epoch.

    Args:
        checkpoint: a Hugging Face folder.
        kind: classification, regression or choice.
        num_labels: labels of a classification.
        train: the texts of each item (of a choice one an option, else one) and its label.
        dev: likewise.
        recipe: epochs, batch_size, learning_rate, warmup, weight_decay, max_gradient_norm, max_length, precision.
        seed: of the head, dropout and the order.
        by_length: batches of like lengths (the Trainer's `group_by_length` sampling) instead of random ones.
        judge: the metric of labels [items] and predictions [items] (label numbers, or scores), in the order in which
            the Trainer evaluates: with batches of like lengths that is not the order of the items.
        clock: in seconds.

    Returns:
        Seconds from texts to the last epoch's metric, without the loading of the model; and that metric.
    """
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(str(checkpoint))
    if kind == "choice":
        model = AutoModelForMultipleChoice.from_pretrained(str(checkpoint))
    elif kind == "regression":
        model = AutoModelForSequenceClassification.from_pretrained(str(checkpoint), num_labels=1)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(str(checkpoint), num_labels=num_labels)
    begin = clock()
    label_type = float if kind == "regression" else int
    sets = [_encode(tokenizer, rows, int(recipe["max_length"]), kind == "choice", label_type) for rows in (train, dev)]
    collator = DataCollatorForMultipleChoice(tokenizer) if kind == "choice" else DataCollatorWithPadding(tokenizer)
    # The lengths are given: of a multiple choice the Trainer would take the number of options.
    sampling: dict[str, Any] = {"train_sampling_strategy": "group_by_length"} if by_length else {}

    def metrics(prediction: Any) -> dict[str, float]:
        logits = np.asarray(prediction.predictions, dtype=np.float64)
        found = logits[:, 0] if kind == "regression" else logits.argmax(axis=1).astype(np.float64)
        return {"metric": judge(np.asarray(prediction.label_ids, dtype=np.float64), found)}

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                num_train_epochs=recipe["epochs"],
                per_device_train_batch_size=recipe["batch_size"],
                per_device_eval_batch_size=64,
                learning_rate=recipe["learning_rate"],
                warmup_steps=recipe["warmup"],  # below 1 it is a share of all steps
                weight_decay=recipe["weight_decay"],
                adam_epsilon=1e-6,
                max_grad_norm=recipe["max_gradient_norm"],
                optim="adamw_torch_fused",
                bf16=recipe["precision"] == "bf16",
                use_cpu=True,
                seed=seed,
                eval_strategy="epoch",
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
                dataloader_pin_memory=False,
                length_column_name="length",
                remove_unused_columns=False,
                **sampling,
            ),
            train_dataset=sets[0],
            eval_dataset=sets[1],
            data_collator=_WithoutLength(collator),
            compute_metrics=metrics,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        found = [entry["eval_metric"] for entry in trainer.state.log_history if "eval_metric" in entry]
    return clock() - begin, float(found[-1])


class _WithoutLength:
    """The collator, without the column that is for the sampler."""

    def __init__(self, collate: Callable[[list[dict[str, Any]]], Any]) -> None:
        self.collate = collate

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        return self.collate([{name: value for name, value in row.items() if name != "length"} for row in rows])


def _encode(
    tokenizer: Any, rows: Sequence[tuple[Sequence[Text], float]], max_length: int, choice: bool, label_type: type
) -> Any:
    from datasets import Dataset

    texts = [text for options, _ in rows for text in options]
    second = [text[1] for text in texts]
    pairs = second if second[0] is not None else None
    encoded = tokenizer([text[0] for text in texts], pairs, truncation=True, max_length=max_length)
    names = [name for name in ("input_ids", "token_type_ids", "attention_mask") if name in encoded]
    found: dict[str, list[Any]] = {name: [] for name in (*names, "labels", "length")}
    at = 0
    for options, label in rows:
        here = slice(at, at + len(options))
        at += len(options)
        for name in names:
            found[name].append(encoded[name][here] if choice else encoded[name][here.start])
        found["labels"].append(label_type(label))
        found["length"].append(max(len(ids) for ids in encoded["input_ids"][here]))
    return Dataset.from_dict(found)
