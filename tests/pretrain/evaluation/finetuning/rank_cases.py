"""What a rank does in the tests of fine-tuning on ranks; returns plain numbers."""

import torch

from pipeline.tokenizer import load_tokenizer
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.evaluation.finetuning.encoding import encode
from pretrain.evaluation.finetuning.on_ranks import OnRanks
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.training import finetune
from pretrain.evaluation.metrics import accuracy, pearson

from ..conftest import BERT
from ..conftest import make_model as tiny
from .items import choices, spans, texts

ITEMS = {
    "classification": lambda count: texts(count, pair=True),
    "regression": lambda count: texts(count, regression=True),
    "choice": choices,
    "span": spans,
}


def tuned(group, tokenizer, kind, stage=None, dropout=0.0, **recipe):
    """Outputs of both sets, losses and metrics of the epochs, the best one, and the weights; alone with stage None."""
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(tokenizer)
    model = tiny(tokenizer, **BERT, dropout=dropout)
    settings = {"epochs": 2, "batch_size": 8, "learning_rate": 3e-3, "max_length": 32, "dropout": dropout}
    recipe = Recipe(**{**settings, **recipe})
    # 21 items: the last batch of 5 is shared unevenly, and with a batch_size of 4 leaves a rank without any.
    learned, shown, more = (encode(ITEMS[kind](count), tokenizer, 32, "refuse")[0] for count in (21, 70, 9))

    def score(outputs):
        if kind == "regression":
            return pearson(shown.labels, outputs[:, 0])
        return accuracy(shown.labels, outputs.argmax(axis=1))

    sets = {"dev": shown, "more": more}
    alone = [] if stage is None else [OnRanks(group, DeepSpeedOptions(stage=stage, precision=recipe.precision))]
    result = finetune(model.encoder, kind, 2, learned, sets, score, recipe, 1, 0, *alone)
    weights = {name: value.numpy().copy() for name, value in result.model.state_dict().items()}
    return {
        "outputs": result.outputs,
        "losses": [epoch.loss for epoch in result.epochs],
        "metrics": [epoch.metric for epoch in result.epochs],
        "best": result.best,
        "weights": weights,
    }


def several(group, tokenizer, cases):
    """`tuned` for a list of arguments, so that one start of the ranks serves them all."""
    return [tuned(group, tokenizer, **case) for case in cases]
