"""What the ranks of `test_seq2seq_ranks` run: two updates of small encoder-decoders under DeepSpeed.

Must not import pytest: a rank loads it alone.
"""

import torch
from torch import Tensor, nn

from pretrain.data.batching import PairBatch
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.language_model import EncoderDecoderModel, make_encoder_decoder
from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer
from pretrain.objectives.pairs import pair_states
from tests.pretrain.models.pairs import sides

SIZES = {"hidden_size": 16, "num_encoder_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "intermediate_size": 16}
FORMS: dict[str, Seq2SeqConfig | ConvSeq2SeqConfig] = {
    "bart": Seq2SeqConfig(**SIZES),
    "mbart": Seq2SeqConfig(**SIZES, norm="pre", languages=("en", "fr")),
    "conv": ConvSeq2SeqConfig(12, 8, [[2, 12, 3], [1, 16, 2]], [[2, 12, 3]]),
    "conv_shared": ConvSeq2SeqConfig(12, 12, [[1, 12, 3]], [[2, 12, 3]], share_embeddings=True, languages=("en", "fr")),
}
VOCAB, STEPS, RATE, RANKS = 100, 2, 0.1, 2


def batch(step: int, rank: int) -> PairBatch:
    """Three pairs in two rows, with every real token of the decoder's side a target."""
    generator = torch.Generator().manual_seed(10 * step + rank)
    draws = [torch.randint(5, VOCAB, (n,), generator=generator).tolist() for n in (7, 4, 5, 6, 9, 3)]
    source, target = sides([[(draws[0], draws[1]), (draws[2], draws[3])], [(draws[4], draws[5])]], 14, 12)
    labels = torch.randint(5, VOCAB, (len(target.real),), generator=generator)
    return PairBatch(source.tokens(1), target.tokens(0), target.real, labels, torch.ones(len(labels)))


def loss(model: nn.Module, given: PairBatch) -> dict[str, Tensor]:
    states = pair_states(model, given)
    return {"pairs": linear_cross_entropy(states, *output_layer(model), given.labels, given.weights)}


def model_of(form: str) -> EncoderDecoderModel:
    torch.manual_seed(0)
    return make_encoder_decoder(FORMS[form], VOCAB)


def train_cases(group: Group, cases: list[tuple[str, int, str, bool]]) -> list[dict[str, Tensor]]:
    """The weights after STEPS updates by plain gradient descent, for (form, ZeRO stage, precision, recomputing)."""
    found = []
    for form, stage, precision, recompute in cases:
        model = model_of(form)
        engine = TrainingEngine(
            model,
            loss,
            torch.optim.SGD(model.parameters(), lr=RATE),
            DeepSpeedOptions(stage=stage, precision=precision, activation_checkpointing=recompute),  # type: ignore[arg-type]
            group.ranks,
            micro_batch_size=2,
            gradient_clipping=0.0,
        )
        for step in range(STEPS):
            made = batch(step, group.ranks.rank)
            (count,) = group.sum([float(len(made.labels))])
            engine.train_step([made], counts={"pairs": count}, rate_factor=1.0, seeds=[0])
        assert model.encoder.activation_checkpointing is model.decoder.activation_checkpointing is recompute
        found.append(engine.full_state().weights)
        engine.close()
    return found


def train_plainly(form: str) -> dict[str, Tensor]:
    """The same by torch alone, with logits and torch's own loss."""
    model = model_of(form)
    for step in range(STEPS):
        batches = [batch(step, rank) for rank in range(RANKS)]
        total = torch.zeros(())
        for given in batches:
            logits = model.logits(pair_states(model, given))
            total = total + torch.nn.functional.cross_entropy(logits, given.labels, reduction="sum")
        model.zero_grad()
        (total / sum(len(given.labels) for given in batches)).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter -= RATE * parameter.grad
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
