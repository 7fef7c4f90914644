"""What a user can get wrong in an evaluation is one clear sentence, before any work where that is possible."""

import shutil

import pytest
import torch

from conf.errors import InputError
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.scoring import Scoring
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.suite import evaluate_tasks, in_a_pool
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.minimal_pairs import MinimalPairs
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.sst2 import sst2
from pretrain.evaluation.tasks.zero_shot import ZeroShot
from pretrain.models.huggingface import export_folder

from ..conftest import make_model
from .original_layouts import table, write

RECIPE = Recipe(epochs=1, batch_size=4, max_length=32, too_long="cut")
RTE = [(n, "the dog is new", "the key is old", ("entailment", "not_entailment")[n % 2]) for n in range(8)]
COPA = {"premise": "The dog is new.", "choice1": "It is old.", "choice2": "It is new.", "question": "cause"}


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1, 2], [])


@pytest.fixture
def data(tmp_path):
    rte_rows = table(("index", "sentence1", "sentence2", "label"), *RTE)
    sst2_rows = table(("sentence", "label"), *((row[1], row[0] % 2) for row in RTE))
    sets = {
        f"{name}/{split}.tsv": rows
        for name, rows in (("RTE", rte_rows), ("SST-2", sst2_rows))
        for split in ("train", "dev")
    }
    copa_rows = [{**COPA, "idx": n, "label": n % 2} for n in range(4)]
    write(tmp_path, **sets, **{f"COPA/{split}.jsonl": copa_rows for split in ("train", "val")})
    return tmp_path


def one_sentence(error) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 500
    return text


def test_a_head_of_other_labels_names_both_sets_of_labels(subject, data):
    with pytest.raises(InputError) as error:
        Finetuned(rte(), recipe=RECIPE, train_on=sst2()).prepare(subject, data)
    assert one_sentence(error).startswith(
        "the head has the labels negative, positive (task sst2), but task rte has entailment, not_entailment: it has no"
    )


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_missing_split_names_its_file_the_place_and_where_it_can_be_had(subject, data, split):
    (data / "RTE" / f"{split}.tsv").unlink()
    with pytest.raises(TaskMissing) as error:
        Finetuned(rte(), recipe=RECIPE).prepare(subject, data)
    sentence = one_sentence(error)
    assert f"task rte lacks its {split} split: expected RTE/{split}.tsv" in sentence
    assert str(data) in sentence and "https://" in sentence


def test_a_split_that_a_task_does_not_have_is_named(subject, data):
    with pytest.raises(TaskMissing, match=r"task copa lacks its test split: expected COPA/test\.jsonl"):
        ZeroShot(copa(), split="test").prepare(subject, data)


def test_a_checkpoint_without_a_tokenizer_says_which_file_it_lacks(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.json").unlink()
    with pytest.raises(InputError) as error:
        read_subject(str(tmp_path / "bare"), [1], [])
    assert "bare' has no tokenizer.json; save its tokenizer there" in one_sentence(error)


def test_an_option_longer_than_the_model_is_refused_or_counted_and_never_cut(subject, data):
    row = {**COPA, "idx": 9, "label": 0, "choice1": "It is " + "new " * 90}
    write(data, **{"COPA/val.jsonl": [row, {**row, "idx": 10, "choice1": "It is old."}]})
    for too_long, words in (("refuse", "set too_long to cut or count"), ("cut", "what is scored is never cut")):
        with pytest.raises(InputError) as error:
            ZeroShot(copa(), scoring=Scoring(too_long=too_long)).prepare(subject, data)
        assert "but the model has 64 positions" in one_sentence(error) and words in one_sentence(error)
    prepared = ZeroShot(copa(), scoring=Scoring(too_long="count")).prepare(subject, data)
    assert prepared.unscored == 1 and "1 of 2 items are too long" in prepared.notes[0]
    with pytest.raises(InputError) as error:
        Finetuned(copa(), recipe=RECIPE).prepare(subject, data)
    assert "which does not fit into max_length 32, and options are never cut" in one_sentence(error)


@pytest.fixture(scope="module")
def broken(tmp_path_factory, tokenizer, tokenizer_folder):
    """A checkpoint whose last layer gives no numbers."""
    model = make_model(tokenizer)
    with torch.no_grad():
        model.encoder.embeddings.token.weight[:, 0] = float("nan")
    folder = tmp_path_factory.mktemp("broken") / "model"
    export_folder(model, tokenizer_folder / "tokenizer.json", folder)
    return read_subject(str(folder), [1], [])


def test_scores_that_are_no_numbers_end_the_evaluation(broken, data):
    tasks = {
        "the score of": ZeroShot(copa()),
        "is nan: the checkpoint's weights give no": MinimalPairs(pairs_per_phenomenon=2, phenomena=["word_order"]),
        "the fine-tuning loss is nan at step 0": Finetuned(rte(), recipe=RECIPE),
    }
    for words, task in tasks.items():
        with pytest.raises(InputError) as error:
            evaluate_tasks({"task": task}, broken, data, data, in_a_pool(1))
        assert words in one_sentence(error)


def test_fewer_items_than_the_seeds_or_an_interval_need(subject, data):
    with pytest.raises(InputError) as error:
        Finetuned(rte(), recipe=RECIPE, sizes=[4, 16]).prepare(subject, data)
    assert one_sentence(error) == "task.sizes asks for 16 training items, but task rte has 8: leave that size out"
    with pytest.raises(InputError) as error:
        Finetuned(rte(), recipe=RECIPE, max_dev=1).prepare(subject, data)
    assert "task rte has 1 dev items with a label, but a score with an interval needs at least 2" in one_sentence(error)


def test_in_a_suite_the_sentence_says_how_to_go_on_without_the_task(subject, data):
    tasks = {"small": Finetuned(rte(), recipe=RECIPE, max_dev=1), "other": ZeroShot(copa())}
    with pytest.raises(InputError) as error:
        evaluate_tasks(tasks, subject, data, data, in_a_pool(1))
    assert one_sentence(error).endswith("; or leave the task out (suite.tasks.small=null)")
