"""STS-B: how alike are two sentences, from 0 to 5? (Cer et al. 2017.)

GLUE's tsv (English, test scores hidden), or the csv of stsb-multi-mt, which has no header row, all scores, and German,
French and Chinese by machine translation.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from pretrain.evaluation.sources import csv, tsv
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Scores
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

HIGHEST = 5.0
MULTILINGUAL_HOME = "https://github.com/PhilipMay/stsb-multi-mt"
COLUMNS = ("sentence1", "sentence2", "score")


def stsb(language: Literal["en", "de", "fr", "zh"] = "en") -> TaskDefinition:
    """Pearson and Spearman correlation."""
    csv_files: Mapping[Split, tuple[str, ...]] = {
        "train": (f"stsb-{language}-train.csv",),
        "dev": (f"stsb-{language}-dev.csv",),
        "test": (f"stsb-{language}-test.csv",),
    }
    plain = Scores(*COLUMNS, 0.0, HIGHEST)
    multilingual = Layout("stsb-multi-mt csv", csv_files, each(partial(csv.rows, columns=COLUMNS), plain))
    # Some copies of GLUE's set spell the folder SST-B.
    glue_item = Scores(*COLUMNS, 0.0, HIGHEST, id=("index",), facts=("genre", "filename", "year"))
    glue = Layout("GLUE", GLUE_TSV, each(tsv.rows, glue_item), ("STS-B", "SST-B"))
    english = language == "en"
    return TaskDefinition(
        name="stsb" if english else f"stsb_{language}",
        version=1,
        kind="regression",
        labels=(),
        metrics=("spearman", "pearson"),
        layouts=(glue, multilingual) if english else (multilingual,),
        home=f"{GLUE_HOME} or {MULTILINGUAL_HOME}" if english else MULTILINGUAL_HOME,
        hub=HubSource("nyu-mll/glue", "stsb", HUB_SPLITS, Scores("sentence1", "sentence2", "label", 0.0, HIGHEST))
        if english
        else HubSource(
            "PhilipMay/stsb_multi_mt",
            language,
            {"train": "train", "dev": "dev", "test": "test"},
            Scores("sentence1", "sentence2", "similarity_score", 0.0, HIGHEST),
        ),
        anchors=(
            bert_base_on_glue(0.886, "pearson"),
            bert_base_on_glue(0.885, "spearman"),
            human_on_glue(0.927, "pearson"),
            human_on_glue(0.926, "spearman"),
        )
        if english
        else (),
    )
