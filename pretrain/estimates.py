"""What a run will cost, before it runs: FLOPs per token, memory of a rank, tokens per second. Pure arithmetic.

Knows the shape of our models and nothing of a device, a process group or DeepSpeed; `peak_flops.py` says what a
device can do. Must not import torch.distributed or deepspeed.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from conf.errors import InputError
from pretrain.models.config import ConvSeq2SeqConfig, EncoderConfig, Seq2SeqConfig
from pretrain.models.encoder import padded_vocab_size

FP32, HALF = 4, 2  # bytes


def seen_keys(sequence_lengths: float | Sequence[float], *, window: int | None = None, causal: bool = False) -> float:
    """Return how many keys a token sees on average, its own included, within its own sequence.

    `sequence_lengths`: the tokens of each sequence (a sample will do), or one number for all of them. In n tokens with
    w = `window` to each side all tokens together see n^2 keys, n (n + 1) / 2 if `causal`, and if w < n - 1
    n (2 w + 1) - w (w + 1), or n (w + 1) - w (w + 1) / 2. Long sequences hold more tokens, so a mean LENGTH in their
    place gives too little. Raises InputError for no sequence, or one of less than a token.
    """
    lengths = [sequence_lengths] if isinstance(sequence_lengths, int | float) else list(sequence_lengths)
    if not lengths or not min(lengths) >= 1:
        raise InputError(f"FLOPs need sequences of at least one token, but got the lengths {lengths[:5]}.")
    pairs = 0.0
    for n in lengths:
        if window is not None and window < n - 1:
            one_side = n * (window + 1) - window * (window + 1) / 2
        else:
            one_side = n * (n + 1) / 2
        pairs += one_side if causal else 2 * one_side - n
    return pairs / sum(lengths)


def forward_flops_per_token(
    config: EncoderConfig,
    vocab_size: int,
    *,
    sequence_lengths: float | Sequence[float],
    target_share: float,
    sentence_share: float = 0.0,
) -> dict[str, float]:
    """Return the FLOPs of matrix products in one forward pass, per token of the batch, by part of the model.

    A product of [a, b] with [b, c] counts 2 a b c. With h the hidden size, f the MLP's width, V the padded vocabulary,
    s the share of tokens whose output is wanted and k(i) the keys a token sees in layer i (`seen_keys`):

    - projections: every layer 6 h^2 (queries, keys, values) and 2 h^2 (output; the last layer: s times that);
    - attention: every layer 4 k(i) h (scores and their sum over values), within sequences only, whatever the kernel
      computes besides;
    - mlp: every layer 4 h f, or 6 h f where it is gated (the last layer: s times that);
    - head: (2 h^2 + 2 h V) at the `target_share` of tokens that are predicted;
    - sentences: pooler and two logits, (2 h^2 + 4 h) at `sentence_share` (sentence pairs per token).

    The model computes the last layer only where its output is wanted, so only that is counted. Left out: embedding
    look-ups, norms, activations, softmax, rotary positions, dropout, the loss, and the optimiser: together a few
    percent of the arithmetic, though not of the time. Raises InputError for a share outside [0, 1].
    """
    for name, share in (("target_share", target_share), ("sentence_share", sentence_share)):
        if not 0.0 <= share <= 1.0:
            raise InputError(f"{name} is a share of the tokens, between 0 and 1, but is {share}.")
    hidden, width, layers = config.hidden_size, config.intermediate_size, config.num_layers
    whole = layers - 1 + min(1.0, target_share + sentence_share)
    keys = sum(
        seen_keys(sequence_lengths, window=config.window(layer), causal=config.causal) for layer in range(layers)
    )
    gated = config.activation == "geglu"
    return {
        "projections": layers * 6.0 * hidden**2 + whole * 2.0 * hidden**2,
        "attention": 4.0 * keys * hidden,
        "mlp": whole * (6.0 if gated else 4.0) * hidden * width,
        "head": target_share * (2.0 * hidden**2 + 2.0 * hidden * padded_vocab_size(vocab_size)),
        "sentences": sentence_share * (2.0 * hidden**2 + 4.0 * hidden),
    }


def seq2seq_forward_flops_per_token(
    config: Seq2SeqConfig,
    vocab_size: int,
    *,
    sequence_lengths: Sequence[float],
    decoder_lengths: Sequence[float],
    target_share: float,
) -> dict[str, float]:
    """Return the FLOPs of matrix products in one forward pass, per token of the ENCODER, by part of the model.

    `sequence_lengths` and `decoder_lengths` are those of the same pairs; a decoder's may be 0. Counted as in
    `forward_flops_per_token`, with r decoder tokens per encoder token, of which `target_share` (of the encoder's
    tokens) are predicted:

    - encoder: every layer 8 h^2 (projections), 4 k h (attention; k the keys a token sees) and the MLP, 4 h f (gated 6);
    - decoder: the same at r tokens with the keys of a causal one; the MLP of the last layer at the predicted ones only;
    - cross-attention: every layer 2 r h^2 (queries), 4 h^2 (keys and values), 4 c h (c: encoder tokens that the decoder
      tokens of an encoder token see together) and 2 r h^2 (output; the last layer at the predicted tokens only);
    - head: 2 h V at the predicted tokens.

    Raises InputError for a share below 0 or lengths that are no pairs.
    """
    share, crossed = _pair_shares(sequence_lengths, decoder_lengths, target_share)
    hidden, width = config.hidden_size, config.intermediate_size
    mlp = (6.0 if config.activation == "geglu" else 4.0) * hidden * width
    layers = config.num_decoder_layers
    wanted = min(share, target_share)
    own = share * seen_keys([length for length in decoder_lengths if length], causal=True)
    encoder_layer = 8.0 * hidden**2 + 4.0 * seen_keys(sequence_lengths) * hidden + mlp
    whole = (layers - 1) * share + wanted
    return {
        "encoder": config.num_encoder_layers * encoder_layer,
        "decoder": layers * (8.0 * share * hidden**2 + 4.0 * own * hidden) + whole * mlp,
        "cross-attention": layers * ((2.0 * share + 4.0) * hidden**2 + 4.0 * crossed * hidden)
        + whole * 2.0 * hidden**2,
        "head": target_share * 2.0 * hidden * padded_vocab_size(vocab_size),
    }


def conv_seq2seq_forward_flops_per_token(
    config: ConvSeq2SeqConfig,
    vocab_size: int,
    *,
    sequence_lengths: Sequence[float],
    decoder_lengths: Sequence[float],
    target_share: float,
) -> dict[str, float]:
    """Return the FLOPs of matrix products in one forward pass, per token of the ENCODER, by part of the model.

    Counted as in `seq2seq_forward_flops_per_token`, with the same arguments, r decoder tokens per encoder token, e the
    embedding's width, o the output's, and for each layer w its width, v that of its input and k its kernel:

    - encoder: 2 e w of the first layer; every layer 4 k v w (the convolution has 2 w outputs), and 2 v w where the
      width changes; 2 e w of the last layer;
    - decoder: the same at r tokens, but for 2 o w of the last layer at the predicted tokens only;
    - cross-attention: every layer 4 r w e (query and output) and 4 c e (scores and their sum over values; c: encoder
      tokens that the decoder tokens of an encoder token see together). Keys and values have no projections;
    - head: 2 o V at the predicted tokens.

    Raises InputError for a share below 0 or lengths that are no pairs.
    """
    share, crossed = _pair_shares(sequence_lengths, decoder_lengths, target_share)
    size, out = config.embedding_size, config.output_size
    encoder, decoder = config.encoder_convolutions, config.decoder_convolutions
    attention = sum(4.0 * share * width * size + 4.0 * crossed * size for width, _ in decoder)
    return {
        "encoder": _convolutions(encoder, size) + 2.0 * encoder[-1][0] * size,
        "decoder": share * _convolutions(decoder, size) + min(share, target_share) * 2.0 * decoder[-1][0] * out,
        "cross-attention": attention,
        "head": target_share * 2.0 * out * padded_vocab_size(vocab_size),
    }


def _convolutions(layers: Sequence[tuple[int, int]], embedding_size: int) -> float:
    """FLOPs per token of the way into a stack of convolutions (width, kernel) and through it."""
    inputs = layers[0][0]
    total = 2.0 * embedding_size * inputs
    for width, kernel in layers:
        total += 4.0 * kernel * inputs * width + (2.0 * inputs * width if inputs != width else 0.0)
        inputs = width
    return total


def _pair_shares(
    sequence_lengths: Sequence[float], decoder_lengths: Sequence[float], target_share: float
) -> tuple[float, float]:
    """Per encoder token: decoder tokens, and pairs of a token of either side. Raises InputError for no pairs."""
    if target_share < 0.0:
        raise InputError(f"target_share is a share of the encoder's tokens, 0 or more, but is {target_share}.")
    if len(sequence_lengths) != len(decoder_lengths) or not any(decoder_lengths):
        raise InputError(
            "FLOPs of pairs need as many lengths on both sides and a decoder token, but got "
            f"{len(sequence_lengths)} and {len(decoder_lengths)} lengths."
        )
    tokens = sum(sequence_lengths)
    crossed = sum(n * m for n, m in zip(sequence_lengths, decoder_lengths, strict=True))
    return sum(decoder_lengths) / tokens, crossed / tokens


def training_flops(forward: Mapping[str, float]) -> float:
    """Return the FLOPs of forward and backward pass: three times those of the forward pass, given by part.

    The backward pass has two products for each one of the forward pass (for the input's and for the weight's
    gradient). What activation checkpointing or a kernel computes a second time is no progress and is not counted: this
    is the numerator of an MFU.
    """
    return 3.0 * sum(forward.values())


def training_flops_per_token(
    config: EncoderConfig,
    vocab_size: int,
    *,
    sequence_lengths: float | Sequence[float],
    target_share: float,
    sentence_share: float = 0.0,
) -> float:
    """Return the FLOPs of forward and backward pass per token of an encoder: its `training_flops`."""
    forward = forward_flops_per_token(
        config,
        vocab_size,
        sequence_lengths=sequence_lengths,
        target_share=target_share,
        sentence_share=sentence_share,
    )
    return training_flops(forward)


def memory_per_rank(
    parameters: int,
    *,
    stage: Literal[0, 1, 2, 3],
    world_size: int,
    precision: Literal["fp32", "bf16", "fp16"],
    offload: bool = False,
    optimizer_states: int = 2,
) -> dict[str, int]:
    """Return bytes of one rank's weights, gradients and optimiser state, and what of it is in the host's memory.

    `parameters` is their whole number, `optimizer_states` how many numbers the optimiser keeps for each (Adam: 2).
    Everything kept is fp32 at every precision; with bf16 and fp16 autocast holds a half-precision copy of the weights
    from the forward to the backward pass. ZeRO (Rajbhandari et al. 2020, section 5) splits over ranks the optimiser's
    state, to which at stages 1 to 3 DeepSpeed adds its own fp32 copy of the weights, from stage 2 the gradients, at
    stage 3 the weights too.

    Keys: "weights", "gradients" and "optimizer" on the device (with `offload` the last is 0), "host" for what was
    offloaded. Left out: activations, which micro-batch and row length decide, buckets of communication, what stage 3
    gathers for the layer at work, and the allocator's waste. Raises InputError for what does not go together.
    """
    if stage not in (0, 1, 2, 3):
        raise InputError(f"the ZeRO stage must be 0, 1, 2 or 3, but is {stage}.")
    if world_size < 1 or parameters < 1 or optimizer_states < 0:
        raise InputError(
            f"memory is estimated for at least one rank and one parameter and no negative number of states, but got "
            f"{world_size}, {parameters} and {optimizer_states}."
        )
    if offload and stage == 0:
        raise InputError("the optimiser can be offloaded at ZeRO stages 1, 2 and 3, but the stage is 0.")
    piece = -(-parameters // world_size)
    kept = piece if stage == 3 else parameters
    weights = FP32 * kept + (HALF * parameters if precision != "fp32" else 0)
    gradients = FP32 * (piece if stage >= 2 else parameters)
    state = FP32 * (optimizer_states * parameters if stage == 0 else (optimizer_states + 1) * piece)
    return {
        "weights": weights,
        "gradients": gradients,
        "optimizer": 0 if offload else state,
        "host": state + FP32 * piece if offload else 0,  # the update on the host needs its gradients there
    }


def tokens_per_second(flops_per_token: float, peak_flops: float, mfu: float, world_size: int = 1) -> float:
    """Return the rate of all ranks together, if each reaches the share `mfu` of a peak of `peak_flops` a second.

    Raises InputError for a share outside (0, 1] or anything else that is not above 0.
    """
    if not 0.0 < mfu <= 1.0:
        raise InputError(f"mfu is a share of the peak, above 0 and at most 1, but is {mfu}.")
    if not (flops_per_token > 0.0 and peak_flops > 0.0 and world_size > 0):
        raise InputError(
            f"FLOPs per token, peak and ranks must be above 0, but are {flops_per_token}, {peak_flops}, {world_size}."
        )
    return peak_flops * mfu * world_size / flops_per_token
