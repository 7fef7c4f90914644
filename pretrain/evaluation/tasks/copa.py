"""COPA: which of two sentences is the cause, or the effect? (Roemmele et al. 2011.)

SuperGLUE's jsonl (400 train rows, 100 dev rows), or the authors' XML (500 dev and 500 test questions with answers;
SuperGLUE's train and dev rows are the authors' dev questions).
"""

from collections.abc import Iterator, Sequence

from pretrain.evaluation.sources import jsonl, xml
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.causes import CHOICES, Causes, make_item
from pretrain.evaluation.tasks.definition import HubSource, Item, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue

ELEMENTS = {"premise": "p", "choice1": "a1", "choice2": "a2"}
XML = "the authors' XML"


def _read_xml(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
    for file in files:
        for row in xml.rows(file, split, "item"):
            texts = {field: "".join(row.texts(element)) for field, element in ELEMENTS.items()}
            question = Row({**texts, "question": row.text("@asks-for")}, row.where, row.number, split)
            yield make_item(question, "en", row.name("@id"), row.label("@most-plausible-alternative", CHOICES))


def copa() -> TaskDefinition:
    """Accuracy; the jsonl counts the choices from 0, the XML from 1."""
    return TaskDefinition(
        name="copa",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(
            Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, Causes("en")), ("COPA",)),
            Layout(XML, {"dev": ("copa-dev.xml",), "test": ("copa-test.xml",)}, _read_xml),
        ),
        home=f"{SUPERGLUE_HOME} or https://people.ict.usc.edu/~gordon/copa.html",
        hub=HubSource("aps/super_glue", "copa", HUB_SPLITS, Causes("en")),
        anchors=(human_on_superglue(1.0, "accuracy"),),
    )
