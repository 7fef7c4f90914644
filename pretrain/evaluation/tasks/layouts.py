"""Names of files and splits that several sets share. Must not import torch."""

from collections.abc import Mapping

from pretrain.evaluation.sources.rows import Split

GLUE_HOME = "https://gluebenchmark.com/tasks"
GLUE_TSV: Mapping[Split, tuple[str, ...]] = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
SUPERGLUE_HOME = "https://super.gluebenchmark.com/tasks"
SUPERGLUE_JSONL: Mapping[Split, tuple[str, ...]] = {
    "train": ("train.jsonl",),
    "dev": ("val.jsonl",),
    "test": ("test.jsonl",),
}
NLI_CSV: Mapping[Split, tuple[str, ...]] = {"train": ("train.csv",), "dev": ("dev.csv",)}
NLI_CSV_NAME = "quoted csv of github.com/felipessalvatore/NLI_datasets"
HUB_SPLITS: Mapping[Split, str] = {"train": "train", "dev": "validation", "test": "test"}
CLUE_HOME = "https://github.com/CLUEbenchmark/CLUE"
CLUE_JSON: Mapping[Split, tuple[str, ...]] = {"train": ("train.json",), "dev": ("dev.json",), "test": ("test.json",)}
