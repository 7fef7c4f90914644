import io

import pytest
import torch

from pretrain.batch_shape import BatchShape
from pretrain.dry_run import Plan, plain_table, report
from pretrain.estimates import memory_per_rank, training_flops_per_token
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.optim.adamw import adamw
from pretrain.optim.nesterov import nesterov

CONFIG = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)
SHAPE = BatchShape([20, 12], 0.15, 0.0)


def plan(**changes):
    model = MaskedLanguageModel(CONFIG, 200)
    stage = {"stage": "short", "until": "100 steps", "data": "shards/a", "row length": 32, "global batch": 8}
    values = {
        "architecture": CONFIG,
        "vocab_size": 200,
        "optimizer": adamw(model, lr=1e-3, betas=[0.9, 0.999], weight_decay=0.01),
        "optimizer_states": 2.0,
        "world_size": 4,
        "zero_stage": 2,
        "precision": "bf16",
        "offload_optimizer": False,
        "stages": [stage],
        "shapes": [SHAPE],
        "shares": [1.0],
        "budget": 100.0,
        "unit": "steps",
        "peak_flops": 1e12,
        "peak_source": "measured matrix product",
    }
    return Plan(**(values | changes))


def printed(made):
    stream = io.StringIO()
    report(made, stream)
    return stream.getvalue()


def test_the_report_names_every_parameter_once_with_its_decay():
    made = plan()
    text = printed(made)
    total = sum(parameter.numel() for group in made.optimizer.param_groups for parameter in group["params"])
    assert f"Parameters: {total:,} in 2 groups" in text
    assert "embeddings.tokens.weight" in text or "embeddings" in text
    assert "0.001" in text and "0.01" in text


def test_the_memory_of_every_stage_is_shown_and_the_chosen_one_marked():
    _, _, section = printed(plan()).partition("Memory per rank in MiB, 4 ranks, bf16")
    for stage, line in enumerate(section.splitlines()[2:6]):
        need = memory_per_rank(
            sum(p.numel() for p in MaskedLanguageModel(CONFIG, 200).parameters()),
            stage=stage,
            world_size=4,
            precision="bf16",
        )
        assert f"{need['weights'] / 2**20:,.2f}" in line
        assert ("(chosen)" in line) == (stage == 2)


def test_offload_at_stage_0_is_left_out_and_does_not_fail():
    assert "host" in printed(plan(offload_optimizer=True))


def test_speed_follows_from_peak_mfu_and_flops():
    cost = training_flops_per_token(CONFIG, 200, sequence_lengths=[20, 12], target_share=0.15)
    text = printed(plan())
    half = next(line for line in text.splitlines() if line.strip().startswith("50%"))
    assert f"{1e12 * 0.5 * 4 / cost:,.0f}" in half and f"{100 * 8 * 32:,}" in half


@pytest.mark.parametrize(("unit", "budget"), [("tokens", 1e6), ("hours", 2.0)])
def test_budgets_in_tokens_and_hours_give_the_other_two(unit, budget):
    text = printed(plan(unit=unit, budget=budget))
    assert ("1,000,000" if unit == "tokens" else "2:00:00") in text


def test_a_terminal_gets_tables_with_the_same_figures():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    report(plan(), stream)
    assert "Memory per rank" in stream.getvalue() and "┃" in stream.getvalue()


def test_plain_tables_are_aligned_figures_to_the_right():
    assert plain_table(("name", "n"), [["a", "5"], ["bbb", "1,000"]]).splitlines() == [
        "  name      n",
        "  a         5",
        "  bbb   1,000",
    ]


def test_nothing_of_the_generator_is_used():
    torch.manual_seed(0)
    made = plan()
    before = torch.get_rng_state()
    printed(made)
    assert torch.equal(before, torch.get_rng_state())


def test_an_encoder_decoder_is_reported_with_its_own_parts():
    config = Seq2SeqConfig(32, 2, 2, 2, 48)
    shape = BatchShape([20, 12], 0.3, 0.0, decoder_lengths=[8, 5])
    model = Seq2SeqModel(config, 200)
    text = printed(
        plan(architecture=config, shapes=[shape], optimizer=adamw(model, lr=1e-3, betas=[0.9, 0.98], weight_decay=0.01))
    )
    assert f"Parameters: {sum(p.numel() for p in model.parameters()):,} in 2 groups" in text
    assert "decoder.layers.0-1.cross.key_value.weight (2)" in text
    line = next(line for line in text.splitlines() if "cross-attention" in line)
    assert f"{shape.flops_per_token(config, 200):.4g}" in line
    assert all(f"{part} " in line for part in ("encoder", "decoder", "cross-attention", "head"))


def test_a_convolutional_model_is_reported_with_its_receptive_field():
    config = ConvSeq2SeqConfig(16, 12, [[4, 16, 3], [1, 24, 1]], [[3, 16, 5]])
    shape = BatchShape([20, 12], 0.3, 0.0, decoder_lengths=[8, 5])
    model = ConvSeq2SeqModel(config, 200)
    text = printed(plan(architecture=config, shapes=[shape], optimizer=nesterov(model, lr=0.25)))
    _, _, section = text.partition("Receptive field in tokens\n")
    assert [line.split() for line in section.splitlines()[1:3]] == [["encoder", "9"], ["decoder", "13"]]
    assert "decoder.layers.0-2.attention.query.gain (3)" in text
    assert "Receptive field" not in printed(plan())
