"""What the engine refuses before DeepSpeed is asked; its steps are in tests/integration/test_engine_steps.py."""

import subprocess
import sys

import pytest
import torch

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.engine import TrainingEngine
from pretrain.ranks import Ranks
from tests.helpers.ranks import run_on_ranks
from tests.integration.engine_cases import Toy, adam, toy_loss, whole


def build(model, optimizer, **options):
    return TrainingEngine(
        model,
        toy_loss,
        optimizer,
        DeepSpeedOptions(**options),
        Ranks(0, 1, 0, 1),
        micro_batch_size=1,
        gradient_clipping=0.0,
    )


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_optimizer_that_needs_whole_parameters_is_refused_where_they_are_split(stage):
    model = Toy()
    with pytest.raises(InputError, match=rf"Whole needs whole parameters, but deepspeed.stage={stage}"):
        build(model, whole(model), stage=stage)


def test_activation_checkpointing_needs_a_model_that_does_it():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="Linear has no module that does"):
        build(model, adam(model), activation_checkpointing=True)


def test_compiling_on_a_cpu_without_a_compiler_is_refused_at_once(tmp_path):
    code = """if True:
        import tests.pretrain.test_engine as t
        from conf.errors import InputError
        model = t.Toy()
        try:
            t.build(model, t.adam(model), compile=True)
        except InputError as error:
            print(error)
    """
    environment = {"PATH": str(tmp_path), "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "deepspeed.compile=true needs a C++ compiler" in done.stdout, done.stderr[-2000:]


def test_misuse_is_told_and_the_engine_goes_on():
    found = run_on_ranks("tests.integration.engine_cases:misuse", 1)[0]
    assert found == [
        "a step needs at least one micro-batch on every rank, but got none",
        "counts must be given for ['length', 'square'], but are for ['square']",
        None,
    ]
