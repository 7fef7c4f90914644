"""The mode of a model is put back, whatever it was and however the work ends."""

import pytest
from torch import nn

from pretrain.models.evaluation_mode import evaluation_mode


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_put_back_also_where_the_work_fails(training):
    model = nn.Sequential(nn.Dropout(0.5)).train(training)
    with evaluation_mode(model):
        assert not model.training and not model[0].training
    assert model.training is model[0].training is training
    with pytest.raises(ZeroDivisionError), evaluation_mode(model):
        1 / 0  # noqa: B018
    assert model.training is training
