"""The mean of checkpoints' weights, and which checkpoints it is of."""

import pytest
import torch

from conf.errors import InputError
from pretrain.averaging import average_weights, checkpoints_to_average
from pretrain.checkpoints import CheckpointFolder, Keep, RunState


def save(run, step, weights, **changes):
    values = {"model": {"hidden_size": 2}, "vocab_size": 5, "tokenizer_hash": "t", "data_hash": "d", "config": {}}
    state = RunState(step=step, samples=0, tokens=0, elapsed=0.0, updates=step, **(values | changes))
    return CheckpointFolder(run).save(state, weights, {}, Keep(last=9))


@pytest.fixture
def run(tmp_path):
    for step, values in ((1, [1.0, 2.0]), (2, [4.0, 8.0]), (3, [10.0, -7.0])):
        save(tmp_path / "run", step, {"w": torch.tensor(values), "ids": torch.tensor([3, 4])})
    return tmp_path / "run"


def test_the_mean_is_what_a_hand_computes(run):
    mean = average_weights(checkpoints_to_average(run, 3))
    assert torch.equal(mean["w"], torch.tensor([5.0, 1.0]))
    assert torch.equal(mean["ids"], torch.tensor([3, 4])) and mean["w"].dtype == torch.float32


def test_sums_are_in_fp64(tmp_path):
    # In fp32 the small term is lost beside the large one, and the mean would be 0.
    for step, value in enumerate((1e8, 1.0, -1e8), start=1):
        save(tmp_path, step, {"w": torch.tensor([value])})
    assert torch.equal(average_weights(checkpoints_to_average(tmp_path, 3))["w"], torch.tensor([1 / 3]))


def test_of_one_checkpoint_it_is_that_one(run):
    (only,) = checkpoints_to_average(run, 1)
    assert only.state.step == 3 and torch.equal(average_weights([only])["w"], only.weights()["w"])


def test_a_number_counts_back_from_the_checkpoint_and_a_list_names_them(run, tmp_path):
    def steps(checkpoint, average):
        return [one.state.step for one in checkpoints_to_average(checkpoint, average)]

    assert steps(run, 2) == [2, 3]
    assert steps(run / "checkpoints" / "step-00000002", 2) == [1, 2]
    assert steps(run, ["step-00000003", "step-00000001"]) == [1, 3]
    elsewhere = save(tmp_path / "other", 7, {"w": torch.zeros(2)})
    assert steps(run, ["step-00000003", str(elsewhere)]) == [3, 7]


@pytest.mark.parametrize(
    ("average", "sentence"),
    [
        (4, r"average=4 needs 4 checkpoints, but '.*run' has 3 \(step-00000001, .*\): give a smaller number"),
        (0, "must be at least 1, but is 0"),
        ([], "is an empty list"),
        (["step-00000009"], "names 'step-00000009', but neither"),
    ],
)
def test_what_cannot_be_averaged_is_one_sentence(run, average, sentence):
    with pytest.raises(InputError, match=sentence):
        checkpoints_to_average(run, average)


def test_what_is_no_run_has_none(tmp_path):
    with pytest.raises(InputError, match=r"needs 1 checkpoints, but '.*nowhere' has 0:"):
        checkpoints_to_average(tmp_path / "nowhere", 1)


def test_a_damaged_one_or_one_of_another_model_is_refused(run):
    odd = save(run, 4, {"w": torch.zeros(2)}, tokenizer_hash="u")
    with pytest.raises(InputError, match=r"'.*step-00000003' and '.*step-00000004' differ in tokenizer_hash"):
        checkpoints_to_average(run, 2)
    (odd / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"step-00000004/model\.safetensors must have"):
        checkpoints_to_average(run, 2)


def test_integers_that_differ_have_no_mean(tmp_path):
    for step in (1, 2):
        save(tmp_path, step, {"ids": torch.tensor([step])})
    with pytest.raises(InputError, match="'ids' is no floating-point tensor and differs in"):
        average_weights(checkpoints_to_average(tmp_path, 2))


def test_best_is_that_of_the_lowest_validation_loss(run):
    with pytest.raises(InputError, match="has a validation loss to choose the best one by"):
        checkpoints_to_average(run, ["best"])
    for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0)):
        CheckpointFolder(run).note_validation(step, loss)
    assert [one.state.step for one in checkpoints_to_average(run, ["best"])] == [2]
