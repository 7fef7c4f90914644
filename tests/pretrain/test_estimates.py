import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from conf.errors import InputError
from pretrain.batch_shape import BatchShape
from pretrain.estimates import (
    conv_seq2seq_forward_flops_per_token,
    forward_flops_per_token,
    memory_per_rank,
    seen_keys,
    seq2seq_forward_flops_per_token,
    tokens_per_second,
    training_flops,
    training_flops_per_token,
)
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.models.tokens import Tokens
from tests.helpers.ranks import run_on_ranks

BERT = {"norm": "post", "positions": "learned", "activation": "gelu", "biases": True, "token_types": 2}
ROWS, LENGTH, TARGETS = 4, 24, 18
WIDE = 9  # places of a decoder's row


def batch(rows=ROWS, length=LENGTH, targets=TARGETS):
    """Rows of one sequence each: then the matmul kernel computes no pair of tokens that may not see each other."""
    torch.manual_seed(0)
    tokens = rows * length
    bounds = torch.arange(0, tokens + 1, length, dtype=torch.int32)
    positions = torch.arange(tokens) % length
    chosen = torch.randperm(tokens)[:targets]
    return torch.randint(0, 90, (tokens,)), positions, AttentionLayout(bounds, length, length), chosen


@pytest.mark.parametrize("form", [{}, BERT, {"activation": "gelu"}], ids=["modern", "bert", "mixed"])
def test_flops_are_those_that_torch_counts_in_a_real_model_forward_and_backward(form):
    config = EncoderConfig(16, 3, 2, 40, attention_kernel="matmul", **form)
    model = MaskedLanguageModel(config, 90)
    with FlopCounterMode(display=False) as forward:
        logits = model(*batch())
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    shares = {"sequence_lengths": LENGTH, "target_share": TARGETS / (ROWS * LENGTH)}
    tokens = ROWS * LENGTH
    assert tokens * sum(forward_flops_per_token(config, 90, **shares).values()) == forward.get_total_flops()
    assert backward.get_total_flops() == 2 * forward.get_total_flops()
    assert tokens * training_flops_per_token(config, 90, **shares) == 3 * forward.get_total_flops()


def test_sentence_pairs_count_in_the_last_layer_and_their_head():
    config = EncoderConfig(16, 3, 2, 40, attention_kernel="matmul", pooler=True, **BERT)
    model = MaskedLanguageModel(config, 90, sentence_head=True)
    ids, positions, layout, targets = batch()
    first = torch.arange(0, ROWS * LENGTH, LENGTH)
    with FlopCounterMode(display=False) as forward:
        states, _ = model.forward_with_sentences(ids, positions, layout, targets, None, first)
        model.logits(states)
    found = forward_flops_per_token(
        config,
        90,
        sequence_lengths=LENGTH,
        target_share=TARGETS / (ROWS * LENGTH),
        sentence_share=ROWS / (ROWS * LENGTH),
    )
    assert ROWS * LENGTH * sum(found.values()) == pytest.approx(forward.get_total_flops(), rel=1e-12)


def counted_flops(model):
    """What torch counts of an encoder-decoder: forward, backward, and the share of targets in the encoder's tokens."""
    source, target, wanted = Tokens(*batch()[:3]), Tokens(*batch(length=WIDE)[:3]), torch.arange(0, ROWS * WIDE, 4)
    with FlopCounterMode(display=False) as forward:
        logits = model(source, target, wanted)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops(), len(wanted) / (ROWS * LENGTH)


@pytest.mark.parametrize("activation", ["gelu", "geglu"])
def test_flops_of_an_encoder_decoder_are_those_that_torch_counts(activation):
    config = Seq2SeqConfig(16, 3, 2, 2, 40, activation=activation, attention_kernel="matmul")
    model = Seq2SeqModel(config, 90)
    forward, backward, share = counted_flops(model)
    tokens = ROWS * LENGTH
    found = seq2seq_forward_flops_per_token(
        config,
        90,
        sequence_lengths=[LENGTH] * ROWS,
        decoder_lengths=[WIDE] * ROWS,
        target_share=share,
    )
    # The kernel computes the half of a causal decoder's pairs that are hidden as well.
    hidden_pairs = 4 * 16 * ROWS * WIDE * (WIDE - 1) / 2 * config.num_decoder_layers
    assert tokens * sum(found.values()) == pytest.approx(forward - hidden_pairs, rel=1e-12)
    assert backward == 2 * forward
    assert training_flops(found) == 3 * sum(found.values())


@pytest.mark.parametrize("shares", [False, True])
def test_flops_of_a_convolutional_encoder_decoder_are_those_that_torch_counts(shares):
    config = ConvSeq2SeqConfig(
        16,
        16 if shares else 12,
        [[2, 16, 3], [1, 24, 2]],
        [[1, 8, 3], [2, 20, 4]],
        share_embeddings=shares,
        attention_kernel="matmul",
    )
    model = ConvSeq2SeqModel(config, 90)
    forward, backward, share = counted_flops(model)
    lengths = {"sequence_lengths": [LENGTH] * ROWS, "decoder_lengths": [WIDE] * ROWS}
    tokens = ROWS * LENGTH
    found = conv_seq2seq_forward_flops_per_token(config, 90, **lengths, target_share=share)
    assert tokens * sum(found.values()) == pytest.approx(forward, rel=1e-12)
    assert backward == 2 * forward
    shape = BatchShape(lengths["sequence_lengths"], share, 0.0, lengths["decoder_lengths"])
    assert shape.forward_flops_per_token(config, 90) == found
    with pytest.raises(InputError, match="got 1 and 2 lengths"):
        conv_seq2seq_forward_flops_per_token(config, 90, sequence_lengths=[1], decoder_lengths=[1, 1], target_share=1)


def test_pairs_of_several_lengths_cost_what_each_costs_alone():
    config = Seq2SeqConfig(16, 3, 2, 2, 40)
    pairs = [(5, 3), (9, 0), (7, 11)]

    def total(chosen):
        sources, targets = zip(*chosen, strict=True)
        found = seq2seq_forward_flops_per_token(
            config, 90, sequence_lengths=sources, decoder_lengths=targets, target_share=sum(targets) / sum(sources)
        )
        return sum(found.values()) * sum(sources)

    assert total(pairs) == pytest.approx(
        total([(5, 3)]) + total([(7, 11)]) + total([(5, 3), (9, 0)]) - total([(5, 3)]), rel=1e-12
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target_share": -0.1}, "target_share is a share"),
        ({"decoder_lengths": [3]}, "got 2 and 1 lengths"),
        ({"decoder_lengths": [0, 0]}, "and a decoder token"),
    ],
)
def test_impossible_shapes_of_pairs_are_refused(wrong, message):
    options = {"sequence_lengths": [5, 6], "decoder_lengths": [2, 3], "target_share": 0.4, **wrong}
    with pytest.raises(InputError, match=message):
        seq2seq_forward_flops_per_token(Seq2SeqConfig(16, 3, 2, 2, 40), 90, **options)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    window=st.none() | st.integers(0, 15),
    causal=st.booleans(),
)
def test_seen_keys_are_the_ones_that_the_mask_lets_through(lengths, window, causal):
    row = sum(lengths)
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    mask = AttentionLayout(bounds, row, row).row_mask(row, causal, window)
    pairs = row * row if mask is None else int(mask.sum())
    assert seen_keys(lengths, window=window, causal=causal) == pytest.approx(pairs / row)


def test_local_layers_count_their_window_only():
    local = EncoderConfig(16, 6, 2, 40, max_positions=4096, local_window=64, global_every=3)
    everywhere = EncoderConfig(16, 6, 2, 40, max_positions=4096)
    parts = [
        forward_flops_per_token(config, 90, sequence_lengths=4096, target_share=0.3) for config in (local, everywhere)
    ]
    assert parts[0]["attention"] == pytest.approx(4 * 16 * (2 * 4096 + 4 * (129 - 64 * 65 / 4096)))
    assert parts[1]["attention"] == 4 * 16 * 6 * 4096
    assert {k: v for k, v in parts[0].items() if k != "attention"} == {
        k: v for k, v in parts[1].items() if k != "attention"
    }


def test_bert_base_by_hand():
    # 12 layers: 12 * 6 h^2 + 11.15 * 2 h^2, 12 * 4 * 128 h, 11.15 * 4 h * 3072, 0.15 * (2 h^2 + 2 h * 30528).
    config = EncoderConfig(768, 12, 12, 3072, **BERT)
    found = forward_flops_per_token(config, 30522, sequence_lengths=128, target_share=0.15)
    assert found == pytest.approx(
        {
            "projections": 55_620_403.2,
            "attention": 4_718_592.0,
            "mlp": 105_224_601.6,
            "head": 7_210_598.4,
            "sentences": 0.0,
        }
    )


def test_long_sequences_weigh_by_their_tokens():
    assert seen_keys([1, 3]) == 10 / 4
    assert seen_keys(2.5) == 2.5


@pytest.mark.parametrize("wrong", [{"target_share": 1.5}, {"sentence_share": -0.1}])
def test_a_share_out_of_range_is_named(wrong):
    options = {"sequence_lengths": 8, "target_share": 0.1, **wrong}
    with pytest.raises(InputError, match=next(iter(wrong))):
        forward_flops_per_token(EncoderConfig(8, 1, 1, 8), 10, **options)


@pytest.mark.parametrize("lengths", [[], [0], [3, 0.5]])
def test_impossible_lengths_are_refused(lengths):
    with pytest.raises(InputError, match="at least one token"):
        seen_keys(lengths)


def test_memory_by_stage_for_a_thousand_parameters_on_four_ranks():
    def at(stage, precision="fp32", **options):
        found = memory_per_rank(1000, stage=stage, world_size=4, precision=precision, **options)
        return tuple(found[key] for key in ("weights", "gradients", "optimizer", "host"))

    assert at(0) == (4000, 4000, 8000, 0)
    assert at(1) == (4000, 4000, 3000, 0)
    assert at(2) == (4000, 1000, 3000, 0)
    assert at(3) == (1000, 1000, 3000, 0)
    assert at(1, "bf16") == (6000, 4000, 3000, 0)
    assert at(2, offload=True) == (4000, 1000, 0, 4000)
    assert at(1, optimizer_states=1) == (4000, 4000, 2000, 0)


@given(parameters=st.integers(1, 10**9), world_size=st.integers(1, 1024), precision=st.sampled_from(["fp32", "bf16"]))
def test_a_higher_stage_never_needs_more_from_stage_1_on(parameters, world_size, precision):
    totals = [
        sum(memory_per_rank(parameters, stage=stage, world_size=world_size, precision=precision).values())
        for stage in (1, 2, 3)
    ]
    assert totals == sorted(totals, reverse=True)


def test_memory_of_impossible_runs_is_refused():
    with pytest.raises(InputError, match="offloaded at ZeRO stages 1, 2 and 3"):
        memory_per_rank(10, stage=0, world_size=1, precision="fp32", offload=True)
    with pytest.raises(InputError, match="stage must be"):
        memory_per_rank(10, stage=4, world_size=1, precision="fp32")
    with pytest.raises(InputError, match="at least one rank"):
        memory_per_rank(10, stage=1, world_size=0, precision="fp32")


def test_tokens_per_second_at_exact_points():
    assert tokens_per_second(1e9, 1e15, 0.5) == 500_000
    assert tokens_per_second(1e9, 1e15, 0.5, world_size=8) == 4_000_000
    with pytest.raises(InputError, match="mfu"):
        tokens_per_second(1e9, 1e15, 1.5)
    with pytest.raises(InputError, match="above 0"):
        tokens_per_second(0.0, 1e15, 0.5)


@pytest.mark.full  # the figures by hand above are what was measured
def test_memory_is_what_the_engine_holds_on_two_ranks():
    for stage, found in enumerate(
        run_on_ranks("tests.pretrain.memory_cases:training_memory", 2, stages=[0, 1, 2, 3])[0]
    ):
        guess = memory_per_rank(found["parameters"], stage=stage, world_size=2, precision="fp32")
        moments = 8 * found["parameters"] // (1 if stage == 0 else 2)  # made by the first update
        accumulating = guess["weights"] + guess["gradients"] + guess["optimizer"] - moments
        assert found["accumulating"] == pytest.approx(accumulating, rel=0.03), stage
        # Stage 3 keeps its pieces of the gradient for the next step.
        after = guess["weights"] + guess["optimizer"] + (guess["gradients"] if stage == 3 else 0)
        assert found["after"] == pytest.approx(after, rel=0.03), stage
