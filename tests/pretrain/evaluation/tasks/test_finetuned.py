"""Fine-tuned tasks: jobs and their keys, scores by hand from given outputs, curves, heads of other tasks, bad input."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score

from conf.errors import InputError
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.runs import run_all
from pretrain.evaluation.statistics import exact_interval
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.blimp import blimp
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.finetuning_job import map_labels
from pretrain.evaluation.tasks.hans import hans
from pretrain.evaluation.tasks.mnli import mnli
from pretrain.evaluation.tasks.mrpc import mrpc
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.stsb import stsb
from pretrain.evaluation.tasks.winogrande import winogrande

from ..conftest import write_task

RECIPE = Recipe(epochs=1, batch_size=8, max_length=32)


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1, 2], [1, 2])


@pytest.fixture
def folder(tmp_path):
    return write_task(tmp_path / "task", train=16, dev=8)


def write_tsv(path, rows, header):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [header, *rows]))


def write_winogrande(folder, sizes):
    def rows(count):
        return [
            {
                "qID": f"q{n // 2}-{n % 2 + 1}",
                "sentence": "the _ is new",
                "option1": "dog",
                "option2": "key",
                "answer": str(n % 2 + 1),
            }
            for n in range(count)
        ]

    folder.mkdir(parents=True)
    for name, count in {**{f"train_{size}": count for size, count in sizes.items()}, "dev": 8}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(count)))


def prepare(subject, folder, **options):
    return Finetuned(data=str(folder), **{"recipe": RECIPE, **options}).prepare(subject, None)


def outputs(name, rows):
    return {"outputs": {name: rows}}


def test_one_job_per_model_and_seed_with_keys_that_follow_what_matters(subject, folder):
    jobs = prepare(subject, folder).jobs
    assert [job.name for job in jobs] == [
        "parity/pretrained-1",
        "parity/pretrained-2",
        "parity/random-1",
        "parity/random-2",
    ]
    assert len({str(job.identity()) for job in jobs}) == 4
    others = [
        prepare(subject, folder, recipe=Recipe(epochs=2, max_length=32)),
        prepare(subject, folder, max_train=8),
        prepare(subject, folder, max_dev=4),
        prepare(subject, folder, sizes=[4, 8]),
        prepare(subject, folder, save_to=str(folder)),
    ]
    write_task(folder, train=16, dev=8, seed=5)
    others.append(prepare(subject, folder))
    keys = {str(jobs[0].identity()), *(str(other.jobs[0].identity()) for other in others)}
    assert len(keys) == 7
    assert str(prepare(subject, folder).jobs[0].identity()) in keys  # the same twice


def test_accuracy_by_hand_from_given_outputs(subject, folder):
    prepared = prepare(subject, folder)
    labels = [item.label for item in prepared.sets[0].items]
    assert len(labels) == 8 and 0 < sum(labels) < 8
    right = [[1.0 - label, float(label)] for label in labels]
    always = [[0.0, 1.0]] * 8
    outcome = prepared.collect([outputs("parity", rows) for rows in (right, right, right, always)])
    share = sum(labels) / 8
    values = {score.model: score.value for score in outcome.scores}
    assert values == {"pretrained": 1.0, "random": pytest.approx((1.0 + share) / 2)}
    assert outcome.comparisons[0].difference == pytest.approx(1.0 - (1.0 + share) / 2)
    assert [(score.runs, score.failed) for score in outcome.scores] == [((1.0, 1.0), 0), ((1.0, share), 1)]
    assert any("1 of 2 runs of the random model are no better" in note for note in outcome.notes)
    assert outcome.items[0]["predictions"]["random-2"] == 1
    assert outcome.items[0]["label_probabilities"]["pretrained-1"] == 1.0
    signature = outcome.scores[0].signature
    for part in ("task=parity.1.2|split=dev|items=", "|train=", "|metric=accuracy.1|recipe=", "|model=", "|seeds=1,2"):
        assert part in signature
    item = prepared.sets[0].items[0]
    assert outcome.items[0]["item"] == {"text_a": item.text_a, "text_b": None}
    assert outcome.items[0]["label_names"] == ["no", "yes"]
    assert outcome.curves == [] and outcome.anchors == []
    assert "interval=t(seeds+groups)" in outcome.scores[0].signature
    assert "confidences_where_wrong" not in next(row for row in outcome.items if row["label"] == 1)
    sure, mixed = outcome.calibration
    assert (sure.task, sure.model, sure.runs, sure.n, sure.ece, sure.brier) == ("parity", "pretrained", 2, 8, 0.0, 0.0)
    assert (mixed.model, mixed.ece, mixed.brier) == ("random", pytest.approx((1 - share) / 2), pytest.approx(1 - share))
    assert [(one.confidence, one.count) for one in mixed.bins] == [(1.0, 16)]


def test_one_run_has_an_interval_for_its_items_only_and_says_so(checkpoint, folder):
    one = read_subject(str(checkpoint), [1], [])
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]
    labels = [row["label"] for row in rows]
    given = outputs("parity", [[1.0, 0.0]] * 8)
    (score,) = prepare(one, folder).collect([given]).scores
    assert "interval=t(groups)" in score.signature  # four rows to a document
    alone = "".join(json.dumps({**row, "group": str(at)}) + "\n" for at, row in enumerate(rows))
    (folder / "dev.jsonl").write_text(alone)
    (score,) = prepare(one, folder).collect([given]).scores
    exact = exact_interval(8 - sum(labels), 8)
    assert "interval=exact(items)" in score.signature and score.interval == (exact.low, exact.high)


def test_an_accuracy_of_exactly_nothing_or_everything_is_not_certain(subject, folder):
    prepared = prepare(subject, folder)
    labels = [item.label for item in prepared.sets[0].items]
    right = [[1.0 - label, float(label)] for label in labels]
    wrong = [[float(label), 1.0 - label] for label in labels]
    outcome = prepared.collect([outputs("parity", rows) for rows in (right, right, wrong, wrong)])
    whole, none = outcome.scores
    bound = 0.025 ** (1 / 2)  # of two documents
    assert (whole.value, whole.interval) == (1.0, (pytest.approx(bound), 1.0))
    assert (none.value, none.interval) == (0.0, (0.0, pytest.approx(1 - bound)))


def test_a_signature_tells_the_items_from_the_training_set(subject, folder):
    def parts(**options):
        prepared = prepare(subject, folder, **options)
        results = [job.execute() for job in prepared.jobs]
        return dict(part.split("=", 1) for part in prepared.collect(results).scores[0].signature.split("|"))

    whole, fewer_trained, fewer_scored = parts(), parts(max_train=8), parts(max_dev=4)
    assert whole["items"] == fewer_trained["items"] != fewer_scored["items"]
    assert whole["train"] == fewer_scored["train"] != fewer_trained["train"]


def test_a_task_of_two_metrics_has_two_scores_and_the_given_outputs_fix_both(checkpoint, tmp_path):
    rows = [(n % 2, f"i{n}", f"j{n}", "the dog", "the key") for n in range(8)]
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    for split in ("train", "dev"):
        write_tsv(tmp_path / "MRPC" / f"{split}.tsv", rows, header)
    prepared = Finetuned(mrpc(), recipe=RECIPE).prepare(read_subject(str(checkpoint), [1, 2], []), tmp_path)
    assert prepared.name == "mrpc"
    labels = np.array([item.label for item in prepared.sets[0].items])
    found = np.array([[1, 1, 0, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]])
    outcome = prepared.collect([outputs("mrpc", np.eye(2)[row].tolist()) for row in found])
    values = {score.metric: score for score in outcome.scores}
    assert values["accuracy"].value == pytest.approx(np.mean(found == labels))
    assert values["f1"].runs == pytest.approx([f1_score(labels, row) for row in found])
    assert values["f1"].value == pytest.approx(np.mean(values["f1"].runs))
    assert 0.0 <= values["f1"].interval[0] < values["f1"].value < values["f1"].interval[1] <= 1.0
    assert values["f1"].failed == 1  # the second run is right on half of the items, though its F1 is the same


def test_a_regression_run_fails_that_is_no_better_than_the_mean(checkpoint, tmp_path):
    for split in ("train", "dev"):
        lines = [f"the dog,the key,{score}" for score in (0.0, 1.0, 4.0, 5.0)]
        (tmp_path / f"stsb-en-{split}.csv").write_text("\n".join(lines) + "\n")
    prepared = Finetuned(stsb(), recipe=RECIPE).prepare(read_subject(str(checkpoint), [1, 2, 3], []), tmp_path)
    near, far, flat = [[0.5], [1.0], [4.0], [4.5]], [[90.0], [91.0], [94.0], [95.0]], [[2.5]] * 4
    outcome = prepared.collect([outputs("stsb", rows) for rows in (near, far, flat)])
    assert {score.metric: score.runs for score in outcome.scores} == {
        "spearman": pytest.approx((1.0, 1.0, 0.0)),
        "pearson": pytest.approx((np.corrcoef([0, 1, 4, 5], [0.5, 1, 4, 4.5])[0, 1], 1.0, 0.0)),
    }
    # Shifted by 90 the correlation is perfect, but the mean would be a better guess.
    assert [score.failed for score in outcome.scores] == [2, 2]
    assert outcome.items[0]["predictions"]["pretrained-1"] == 0.5 and "label_probabilities" not in outcome.items[0]
    assert outcome.calibration == []


def test_a_curve_has_a_score_a_size_and_its_area_by_hand(checkpoint, folder):
    prepared = prepare(read_subject(str(checkpoint), [1, 2], []), folder, sizes=[4, 8, 16])
    assert [job.name for job in prepared.jobs][:3] == [
        "parity/4/pretrained-1",
        "parity/4/pretrained-2",
        "parity/8/pretrained-1",
    ]
    labels = np.array([item.label for item in prepared.sets[0].items])

    def run(right):
        rows = np.where(np.arange(8) < right, labels, 1 - labels)
        return outputs("parity", np.eye(2)[rows].tolist())

    outcome = prepared.collect([run(4), run(2), run(6), run(4), run(8), run(6)])
    values = {score.task: score.value for score in outcome.scores}
    # log2 of the sizes is 2, 3, 4: the area is (first + 2 middle + last) / 4.
    assert values == pytest.approx(
        {
            "parity/4": 3 / 8,
            "parity/8": 5 / 8,
            "parity/16": 7 / 8,
            "parity/area": 5 / 8,
        }
    )
    assert [(one.task, one.runs) for one in outcome.calibration] == [(f"parity/{size}", 2) for size in (4, 8, 16)]
    area = outcome.scores[-1]
    assert area.runs == pytest.approx((6 / 8, 4 / 8))
    assert "rows=4,8,16+8" in area.signature
    (curve,) = outcome.curves
    assert (curve.task, curve.sizes, curve.area) == (
        "parity",
        {"parity/4": 4, "parity/8": 8, "parity/16": 16},
        "parity/area",
    )
    assert set(outcome.items[0]["predictions"]) == {f"{n}/pretrained-{s}" for n in (4, 8, 16) for s in (1, 2)}


def test_winograndes_own_sizes_are_each_a_definition(checkpoint, tmp_path):
    write_winogrande(tmp_path / "winogrande", {"xs": 4, "s": 8, "m": 12})
    subject = read_subject(str(checkpoint), [1], [])
    sized = {size: winogrande(size) for size in ("xs", "s", "m", "l")}
    task = Finetuned(winogrande("xl"), name="winogrande", recipe=RECIPE, sizes=["xs", "m"], sized=sized)
    prepared = task.prepare(subject, tmp_path)
    assert [(job.name, len(job.train)) for job in prepared.jobs] == [
        ("winogrande/xs/pretrained-1", 4),
        ("winogrande/m/pretrained-1", 12),
    ]
    result = prepared.jobs[0].execute()
    assert np.array(result["outputs"]["winogrande"]).shape == (8, 2)
    assert prepared.sets[0].groups == [f"q{n // 2}" for n in range(8)]
    outcome = prepared.collect(
        [job.execute() if job.name.startswith("winogrande/m") else result for job in prepared.jobs]
    )
    # What others reached with all rows is no measure for fewer, people are.
    assert [(row.task, row.system, row.scored) for row in outcome.anchors] == [
        ("winogrande/xs", "human", "dev"),
        ("winogrande/m", "human", "dev"),
    ]
    assert outcome.items[0]["item"]["options"] == ("dog", "key") and "label_names" not in outcome.items[0]
    with pytest.raises(TaskMissing, match="task winogrande_l lacks its train split"):
        Finetuned(winogrande("xl"), recipe=RECIPE, sizes=["xs", "l"], sized=sized).prepare(subject, tmp_path)
    with pytest.raises(InputError, match=r"must rise from at least 1, but are \[12, 4\]"):
        Finetuned(winogrande("xl"), recipe=RECIPE, sizes=["m", "xs"], sized=sized).prepare(subject, tmp_path)


def test_a_head_of_three_labels_is_folded_onto_two(checkpoint, tmp_path):
    header = ("index", "gold_label", "sentence1", "sentence2", "pairID", "promptID", "genre")
    names = ("entailment", "neutral", "contradiction")
    rows = [(n, names[n % 3], "the dog", "the key", f"p{n}", f"r{n}", "fiction") for n in range(6)]
    for name in ("train", "dev_matched"):
        write_tsv(tmp_path / "MNLI" / f"{name}.tsv", rows, header)
    facts = ("gold_label", "sentence1", "sentence2", "pairID", "heuristic", "subcase", "template")
    tested = [
        ("entailment" if n % 2 else "non-entailment", "the dog", "the key", f"h{n}", "lexical", "s", f"t{n}")
        for n in range(4)
    ]
    write_tsv(tmp_path / "heuristics_evaluation_set.txt", tested, facts)
    task = Finetuned(hans(), recipe=RECIPE, train_on=mnli())
    prepared = task.prepare(read_subject(str(checkpoint), [1], []), tmp_path)
    assert [one.judged.name for one in prepared.sets] == ["mnli_matched dev", "hans"]
    assert prepared.num_labels == 3 and prepared.sets[1].judged.mapped == (0, 1, 1)
    (result,) = (job.execute() for job in prepared.jobs)
    assert np.array(result["outputs"]["hans"]).shape == (4, 3)
    # Items 0 and 2 are no entailment: of (.4, .3, .3) the decision is entailment, though the other two sum to more.
    given = [[0.4, 0.3, 0.3], [0.4, 0.3, 0.3], [0.1, 0.1, 0.8], [0.2, 0.8, 0.0]]
    outcome = prepared.collect([{"outputs": {"hans": given}}])
    assert [score.task for score in outcome.scores] == ["hans"]
    assert outcome.scores[0].value == 0.5
    assert outcome.items[0]["label_probabilities"]["pretrained-1"] == pytest.approx(0.6)
    assert outcome.items[0]["confidences_where_wrong"] == {"pretrained-1": pytest.approx(0.4)}
    assert "confidences_where_wrong" not in outcome.items[1]
    (found,) = outcome.calibration
    assert found.brier == pytest.approx((0.32 + 0.72 + 0.02 + 1.28) / 4)
    assert [(one.confidence, one.accuracy, one.count) for one in found.bins] == [
        (pytest.approx(0.4), 0.5, 2),
        (pytest.approx(0.8), 0.0, 1),
        (pytest.approx(0.9), 1.0, 1),
    ]
    assert outcome.items[0]["facts"]["heuristic"] == "lexical"
    # All items have one heuristic: its two labels are parts, the only subcase is none.
    assert [(row.test, row.value, row.n) for row in outcome.behaviour] == [
        ("heuristic=lexical, label=entailment", 0.5, 2),
        ("heuristic=lexical, label=non-entailment", 0.5, 2),
        ("label: entailment - non-entailment", 0.0, 4),
    ]


def test_labels_that_do_not_match_are_refused_by_name():
    assert map_labels(rte(), rte()) == (0, 1)
    with pytest.raises(InputError, match="but task hans has entailment, non-entailment: it has no 'not_entailment'"):
        map_labels(rte(), hans())
    with pytest.raises(InputError, match=r"the head was trained for choice .* but task rte is classification"):
        map_labels(winogrande(), rte())


def test_several_sets_are_scored_by_the_same_runs(checkpoint, tmp_path):
    header = ("index", "gold_label", "sentence1", "sentence2", "pairID", "promptID", "genre")
    rows = [
        (n, ("entailment", "neutral", "contradiction")[n % 3], "the dog", "the key", f"p{n}", f"r{n}", "x")
        for n in range(6)
    ]
    for name in ("train", "dev_matched", "dev_mismatched"):
        write_tsv(tmp_path / "MNLI" / f"{name}.tsv", rows, header)
    task = Finetuned(mnli(), recipe=RECIPE, also=[mnli("mismatched")])
    prepared = task.prepare(read_subject(str(checkpoint), [1], []), tmp_path)
    outcome = prepared.collect([job.execute() for job in prepared.jobs])
    assert [score.task for score in outcome.scores] == ["mnli_matched", "mnli_mismatched"]
    assert {row["set"] for row in outcome.items} == {"mnli_matched", "mnli_mismatched"}
    assert {(row.task, row.system, row.value) for row in outcome.anchors} == {
        ("mnli_matched", "BERT-base cased", 0.839),
        ("mnli_matched", "human", 0.92),
        ("mnli_mismatched", "BERT-base cased", 0.841),
        ("mnli_mismatched", "human", 0.928),
    }


def test_a_saved_encoder_is_made_again_when_it_is_gone(checkpoint, folder, tmp_path):
    subject = read_subject(str(checkpoint), [1], [])
    (job,) = prepare(subject, folder, save_to=str(tmp_path / "encoders")).jobs
    before = job.identity()
    job.execute()
    saved = tmp_path / "encoders" / "parity" / "pretrained-1"
    assert (saved / "model.safetensors").is_file()
    assert job.identity() != before  # so that a result without its folder is no result
    second = prepare(read_subject(str(saved), [1], []), folder)
    assert second.jobs[0].identity()["model"] != before["model"]


def test_an_encoder_that_another_recipe_left_is_never_taken_for_ones_own(checkpoint, folder, tmp_path):
    subject = read_subject(str(checkpoint), [1], [])
    saved, results = tmp_path / "encoders" / "parity" / "pretrained-1", tmp_path / "runs"
    one, other = (
        prepare(subject, folder, recipe=recipe, save_to=str(tmp_path / "encoders")).jobs[0]
        for recipe in (RECIPE, replace(RECIPE, learning_rate=1e-3))
    )

    def weights():
        return (saved / "model.safetensors").read_bytes()

    run_all([one], results, 1, "one")
    mine = weights()
    other.execute()  # killed after the encoder was written, before its result was
    assert weights() != mine
    run_all([one], results, 1, "one")
    assert weights() == mine
    written = (saved / "model.safetensors").stat().st_mtime_ns
    run_all([one], results, 1, "one")
    assert (saved / "model.safetensors").stat().st_mtime_ns == written  # its own is found again
    run_all([other], results, 1, "other")
    theirs = weights()
    assert theirs != mine
    one.execute()
    run_all([other], results, 1, "other")
    assert weights() == theirs


def test_dev_rows_of_one_document_still_get_a_score_and_a_note_that_says_so(subject, folder):
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**row, "group": "one"}) + "\n" for row in rows)
    (folder / "dev.jsonl").write_text(text)
    outcome = prepare(subject, folder).collect([outputs("parity", [[0.0, 1.0]] * 8)] * 4)
    assert all(low < score.value < high for score in outcome.scores for low, high in [score.interval])
    assert any("all dev rows come from one document" in note for note in outcome.notes)


def test_cut_items_are_counted_in_a_note_and_refused_by_default(subject, folder):
    with pytest.raises(InputError, match="max_length is 6"):
        prepare(subject, folder, recipe=Recipe(max_length=6))
    prepared = prepare(subject, folder, recipe=Recipe(max_length=6, too_long="cut"))
    outcome = prepared.collect([outputs("parity", [[0.5, 0.5]] * 8)] * 4)
    assert "parity: 16 of 16 training items were cut to 6 tokens" in outcome.notes
    assert "parity: 8 of 8 dev items were cut to 6 tokens" in outcome.notes


def test_choosing_the_epoch_by_what_is_scored_is_said(subject, folder):
    prepared = prepare(subject, folder, recipe=Recipe(max_length=32, patience=1))
    outcome = prepared.collect([outputs("parity", [[0.5, 0.5]] * 8)] * 4)
    assert any("chosen by the items that the score is of" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"recipe": Recipe()}, "recipe.max_length must be at most 64, the model's positions, but is 128"),
        ({"sizes": [4, 17]}, "task.sizes asks for 17 training items, but task parity has 16"),
        ({"max_dev": 1}, "a score with an interval needs at least 2"),
        ({"definition": blimp()}, "task blimp has minimal pairs, which are scored without training"),
        ({"definition": stsb()}, "task stsb lacks its train split"),
        ({"also": [rte()]}, r"needs its data: give tasks=DIR"),
    ],
)
def test_what_cannot_be_trained_or_scored_is_one_sentence(subject, folder, options, sentence):
    with pytest.raises(InputError, match=sentence):
        prepare(subject, folder, **options)


def test_a_missing_split_is_named(subject, folder):
    (folder / "train.jsonl").unlink()
    with pytest.raises(TaskMissing, match=r"task parity lacks its train split: expected train\.jsonl"):
        prepare(subject, folder)


def test_a_relative_path_begins_at_the_tasks_directory(subject, folder):
    prepared = Finetuned(data="task", recipe=RECIPE).prepare(subject, folder.parent)
    assert len(prepared.sets[0].items) == 8
    assert Finetuned(data="task", only_with_tasks=True).prepare(subject, None) is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_dev": 0}, r"task.max_dev must be at least 1 or null, but is 0"),
        ({"sizes": [5]}, r"task.sizes must name at least 2 sizes or be null, but is \[5\]"),
        ({"sizes": ["xs", "s"]}, "task.sizes must hold numbers of items, but has 'xs'"),
        ({"sizes": ["s", 5], "sized": {"s": winogrande("s")}}, "either names or numbers"),
    ],
)
def test_options_out_of_range_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Finetuned(data="x", **options)
