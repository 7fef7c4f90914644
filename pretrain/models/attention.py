"""One attention for all models: flat tokens, cut into sequences that never see each other.

A batch is T tokens without a batch dimension. `AttentionLayout` says where sequences begin and end; `attention`
computes it with one of several kernels, within one batch of tokens or from the tokens of one (a decoder's) to those of
another (its encoder's). It imports torch and nothing else of this project but dropout and the error class.

Which kernel is right where (milliseconds in fp32 / bf16 for forward + backward, one thread of a CPU with AVX-512,
16 rows of 128 packed with three sequences each, 4 heads of 64):

=========== ===================================================== ============ =================
kernel      what it is                                            CPU, ms      with dropout 0.1
=========== ===================================================== ============ =================
sdpa        torch's fused attention over rows with a block mask   16 / 29      42 / 27
matmul      two matrix products and a softmax over the same rows  18 / 8       22 / 12
varlen      flash attention on the flat tokens, CUDA only         -            it has none
reference   a loop over sequences, for tests                      much slower  much slower
=========== ===================================================== ============ =================

On CUDA, sdpa and matmul compute whole rows and hide the other documents by a mask, where varlen only computes the
documents (and of a window only the tokens in it): they are for what varlen lacks, fp32 and dropout on probabilities.
"""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from conf.errors import InputError
from pretrain.models.dropout import dropout

logger = logging.getLogger(__name__)

Kernel = Literal["auto", "sdpa", "matmul", "varlen", "reference"]


@dataclass(eq=False)
class AttentionLayout:
    """Where the sequences of a flat batch begin and end.

    `cu_seqlens` int32 [S + 1] are the cumulative lengths (0 first, T last). `max_seqlen` is at least the longest
    sequence. The T tokens form rows of `row_length`; no sequence crosses the border of a row, which lets kernels
    without variable lengths work row by row.
    """

    cu_seqlens: Tensor
    max_seqlen: int
    row_length: int
    _masks: dict[tuple[object, ...], Tensor | None] = field(default_factory=dict, repr=False)
    _crossings: list[CrossLayout] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Check the promise above where it costs nothing (on the CPU, where batches are built).

        Raises ValueError: a wrong layout is a programming error.
        """
        if self.cu_seqlens.device.type != "cpu":
            return  # reading values would wait for the device
        starts, ends = self.cu_seqlens[:-1], self.cu_seqlens[1:]
        lengths = ends - starts
        if self.cu_seqlens[0] != 0 or bool((lengths < 0).any()):
            raise ValueError("cu_seqlens must start at 0 and never decrease")
        if int(self.cu_seqlens[-1]) % self.row_length:
            raise ValueError(
                f"{int(self.cu_seqlens[-1])} tokens do not fill rows of {self.row_length}; pad the last row"
            )
        crosses = (starts // self.row_length != (ends - 1) // self.row_length) & (lengths > 0)
        if bool(crosses.any()):
            at = int(starts[crosses][0])
            raise ValueError(f"the sequence at token {at} crosses the border of a row of {self.row_length}")
        if lengths.numel() and int(lengths.max()) > self.max_seqlen:
            raise ValueError(f"max_seqlen is {self.max_seqlen}, but a sequence has {int(lengths.max())} tokens")

    def to(self, device: torch.device | str, non_blocking: bool = False) -> AttentionLayout:
        """The same layout on another device; masks are built there on first use."""
        return AttentionLayout(self.cu_seqlens.to(device, non_blocking=non_blocking), self.max_seqlen, self.row_length)

    def for_compiled_code(self) -> AttentionLayout:
        """This layout, of whose shape a compiled graph assumes nothing: rows hold another number of sequences in each
        batch, and torch.compile would otherwise find that out with a second compilation. What `attention` logs, it
        then logs once while the graph is captured."""
        global _announces_in_graphs
        torch._dynamo.maybe_mark_dynamic(self.cu_seqlens, 0)
        # Not as a decorator: that would import torch._dynamo, a second of every process that does without.
        torch.compiler.assume_constant_result(_announce)
        _announces_in_graphs = True
        return self

    def sequence_ids(self, num_tokens: int) -> Tensor:
        """int64 [T]: the number of the sequence that each token belongs to. T is passed in to avoid a device sync."""
        return _sequence_ids(self.cu_seqlens, num_tokens)

    def crossing_to(self, key_layout: AttentionLayout, hidden_keys: Tensor | None = None) -> CrossLayout:
        """What queries of this layout see of keys of another; made once, so that all layers of a step share its masks.

        Raises ValueError, on the CPU, if the two do not go together.
        """
        for known in self._crossings:
            if known.keys is key_layout and known.hidden_keys is hidden_keys:
                return known
        crossing = CrossLayout(self.cu_seqlens, self.row_length, key_layout, hidden_keys)
        self._crossings.append(crossing)
        return crossing

    def row_mask(self, num_tokens: int, causal: bool, window: int | None) -> Tensor | None:
        """bool [rows, 1, row_length, row_length], True where the query (third axis) may see the key (fourth).

        None means that every token sees its whole row. Built once per layout, then taken from a cache: all layers
        of a step share it.
        """
        key = ("bool", causal, window)
        if key not in self._masks:
            rows = self.sequence_ids(num_tokens).view(-1, self.row_length)
            mask = rows[:, None, :, None] == rows[:, None, None, :]
            if causal or window is not None:
                index = torch.arange(self.row_length, device=rows.device)
                distance = index[:, None] - index[None, :]
                if causal:
                    mask = mask & (distance >= 0)
                if window is not None:
                    mask = mask & (distance.abs() <= window)
            self._masks[key] = None if _may_look_at(mask) and bool(mask.all()) else mask
        return self._masks[key]

    def additive_mask(self, num_tokens: int, causal: bool, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """`row_mask` as 0 and -inf in `dtype`, cached likewise."""
        key = ("additive", causal, window, dtype)
        if key not in self._masks:
            self._masks[key] = _additive(self.row_mask(num_tokens, causal, window), dtype)
        return self._masks[key]


@dataclass(eq=False)
class CrossLayout:
    """Two layouts with as many sequences each: sequence i of the queries sees all of sequence i of the keys.

    Row r of the queries belongs to row r of the keys; rows and sequences of the two may be of different lengths. A
    sequence may have keys and no queries, but every query must have a key. `hidden_keys`, bool [T of the keys], takes
    single keys out: True gets no weight.
    """

    # Not the layout of the queries itself, which holds this: a cycle would keep masks in memory until it is collected.
    query_bounds: Tensor
    query_row_length: int
    keys: AttentionLayout
    hidden_keys: Tensor | None
    _masks: dict[object, Tensor | None] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Check the number of sequences, which costs nothing. Raises ValueError: it is a programming error."""
        queries, keys = len(self.query_bounds) - 1, len(self.keys.cu_seqlens) - 1
        if queries != keys:
            raise ValueError(f"queries and keys must have as many sequences, but have {queries} and {keys}")

    def row_mask(self, num_queries: int, num_keys: int) -> Tensor | None:
        """bool [rows, 1, queries of a row, keys of a row], True where the query may see the key; None: it sees all.

        Raises ValueError on the CPU for a query without a key.
        """
        if "bool" not in self._masks:
            query_rows = _sequence_ids(self.query_bounds, num_queries).view(-1, self.query_row_length)
            key_rows = self.keys.sequence_ids(num_keys).view(-1, self.keys.row_length)
            mask = query_rows[:, None, :, None] == key_rows[:, None, None, :]
            if self.hidden_keys is not None:
                mask = mask & ~self.hidden_keys.view(-1, 1, 1, self.keys.row_length)
            if _may_look_at(mask) and not bool(mask.any(-1).all()):
                at = int((~mask.any(-1)).flatten().nonzero()[0])
                raise ValueError(f"the query at token {at} has no key: its sequence has none in its row, or all hidden")
            self._masks["bool"] = None if _may_look_at(mask) and bool(mask.all()) else mask
        return self._masks["bool"]

    def additive_mask(self, num_queries: int, num_keys: int, dtype: torch.dtype) -> Tensor | None:
        """`row_mask` as 0 and -inf in `dtype`, cached likewise."""
        if dtype not in self._masks:
            self._masks[dtype] = _additive(self.row_mask(num_queries, num_keys), dtype)
        return self._masks[dtype]


def _sequence_ids(cu_seqlens: Tensor, num_tokens: int) -> Tensor:
    marks = torch.zeros(num_tokens + 1, dtype=torch.long, device=cu_seqlens.device)
    inner = cu_seqlens[1:-1].long()
    marks.index_add_(0, inner, torch.ones_like(inner))
    return marks[:num_tokens].cumsum(0)


def _may_look_at(mask: Tensor) -> bool:
    """Whether its values are free: the host would wait for another device, and a compiled graph would break."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling()


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if mask is None else torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -math.inf)


def check_dropout(kernel: Kernel, dropout_p: float) -> None:
    """Raise InputError if the named kernel has no dropout, but `dropout_p` is not 0."""
    if kernel == "varlen" and dropout_p:
        raise InputError(
            f"attention_kernel=varlen has no dropout, but attention_dropout is {dropout_p}; "
            "set attention_dropout=0 or attention_kernel=auto"
        )


def choose_kernel(
    kernel: Kernel, device: torch.device, dtype: torch.dtype, dropout_p: float = 0.0, hides_keys: bool = False
) -> Kernel:
    """The kernel that `auto` stands for: the fastest that can do it, by device, dtype, and whether dropout acts or
    single keys are hidden.

    CUDA: varlen in half precision; sdpa in fp32, which flash attention lacks, and with dropout or hidden keys, which
    varlen lacks. CPU: sdpa in fp32; matmul in bf16, where torch's fused kernel is three times slower than plain matrix
    products, and with dropout, for which torch has no fused kernel there.
    """
    if kernel != "auto":
        return kernel
    half = dtype in (torch.bfloat16, torch.float16)
    if device.type == "cuda":
        return "varlen" if half and not dropout_p and not hides_keys else "sdpa"
    return "matmul" if half or dropout_p else "sdpa"


_announced: set[tuple[str, str, torch.dtype, bool, bool]] = set()
_announces_in_graphs = False


def _announce(asked: str, kernel: str, device_type: str, dtype: torch.dtype, drops: bool, hides: bool = False) -> None:
    """Log the kernel in use, once for each kind of call."""
    key = (kernel, device_type, dtype, drops, hides)
    if key in _announced:
        return
    _announced.add(key)
    why = ""
    if asked == "auto" and kernel == "sdpa" and device_type == "cuda" and drops:
        why = "; varlen, which is faster, has no dropout: attention_dropout=0 makes it the choice"
    words = f"{device_type}, {str(dtype).removeprefix('torch.')}{', with dropout' if drops else ''}"
    words += ", with hidden keys" if hides else ""
    logger.info("attention kernel: %s (%s)%s", kernel, words, why)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout,
    kernel: Kernel = "auto",
    dropout_p: float = 0.0,
    causal: bool = False,
    window: int | None = None,
    key_layout: AttentionLayout | None = None,
    hidden_keys: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T / sqrt(head_dim)) v within each sequence of `layout`.

    `q`, `k`, `v` and the result are [T, heads, head_dim]. `dropout_p` is applied to the probabilities (0 in
    evaluation). `causal`: a token sees none after it. `window`: it sees at most so many tokens to each side.

    With `key_layout` (cross-attention) `q` and the result are cut by `layout`, `k` and `v` [T_k, heads, head_dim] by
    `key_layout`, and sequence i of the one sees all of sequence i of the other (`CrossLayout` has what must hold);
    `hidden_keys`, bool [T_k], True where a key gets no weight. `causal` and `window` have no meaning there.

    Raises InputError where the named kernel cannot do what is asked: nothing falls back in silence; ValueError for
    `causal` or `window` with a `key_layout`, for `hidden_keys` without one, and for layouts that do not go together.
    """
    if key_layout is None:
        if hidden_keys is not None:
            raise ValueError("hidden_keys need a key_layout")
        cross = None
    else:
        if causal or window is not None:
            raise ValueError("causal and window compare places in one sequence, so they cannot go with a key_layout")
        cross = layout.crossing_to(key_layout, hidden_keys)
    hides = hidden_keys is not None
    asked, kernel = kernel, choose_kernel(kernel, q.device, q.dtype, dropout_p, hides)
    if _announces_in_graphs or not torch.compiler.is_compiling():
        _announce(asked, kernel, q.device.type, q.dtype, dropout_p > 0.0, hides)
    window = _narrow(layout, window)
    if kernel == "varlen":
        return _varlen(q, k, v, layout, dropout_p, causal, window, cross)
    if kernel == "reference":
        return _reference(q, k, v, layout, dropout_p, causal, window, cross)
    if kernel not in ("sdpa", "matmul"):
        raise InputError(
            f"attention_kernel must be auto, sdpa, matmul, varlen or reference, but is {kernel!r}; choose one of these"
        )
    key_rows = (key_layout or layout).row_length
    query, key, value = _to_rows(q, layout.row_length), _to_rows(k, key_rows), _to_rows(v, key_rows)
    if kernel == "sdpa":
        mask = layout.row_mask(len(q), causal, window) if cross is None else cross.row_mask(len(q), len(k))
        return _from_rows(F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout_p))
    if cross is None:
        mask = layout.additive_mask(len(q), causal, window, q.dtype)
    else:
        mask = cross.additive_mask(len(q), len(k), q.dtype)
    return _from_rows(_matmul(query, key, value, mask, dropout_p))


def prepare_mask(
    layout: AttentionLayout, num_tokens: int, kernel: Kernel, dtype: torch.dtype, causal: bool, window: int | None
) -> None:
    """Build the mask that `kernel` (not auto) will take from `layout`, so that `attention` only reads there."""
    if kernel == "sdpa":
        layout.row_mask(num_tokens, causal, _narrow(layout, window))
    elif kernel == "matmul":
        layout.additive_mask(num_tokens, causal, _narrow(layout, window), dtype)


def prepare_cross_mask(
    layout: AttentionLayout,
    num_queries: int,
    key_layout: AttentionLayout,
    num_keys: int,
    hidden_keys: Tensor | None,
    kernel: Kernel,
    dtype: torch.dtype,
) -> None:
    """`prepare_mask` for cross-attention: the pair of layouts is known afterwards, whatever the kernel."""
    cross = layout.crossing_to(key_layout, hidden_keys)
    if kernel == "sdpa":
        cross.row_mask(num_queries, num_keys)
    elif kernel == "matmul":
        cross.additive_mask(num_queries, num_keys, dtype)


def _narrow(layout: AttentionLayout, window: int | None) -> int | None:
    """No window where it holds every sequence: local layers then share the mask of the global ones."""
    return None if window is None or window >= layout.max_seqlen - 1 else window


def _to_rows(x: Tensor, row_length: int) -> Tensor:
    """[T, heads, head_dim] -> [rows, heads, row_length, head_dim], a view."""
    return x.view(-1, row_length, *x.shape[1:]).transpose(1, 2)


def _from_rows(x: Tensor) -> Tensor:
    """[rows, heads, row_length, head_dim] -> [T, heads, head_dim]."""
    rows, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(rows * length, heads, size)


def _matmul(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> Tensor:
    """All are [rows, heads, row_length, head_dim]; `mask` is additive."""
    query, key, value = query.contiguous(), key.contiguous(), value.contiguous()
    # Scaling the query first touches row_length / head_dim times fewer numbers than scaling the scores.
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2))
    if mask is not None:
        scores = scores + mask
    probabilities = scores.softmax(-1)
    return torch.matmul(dropout(probabilities, dropout_p), value)


def _varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout,
    dropout_p: float,
    causal: bool,
    window: int | None,
    cross: CrossLayout | None,
) -> Tensor:
    if q.device.type != "cuda":
        raise InputError(
            f"attention_kernel=varlen needs a CUDA device, but the model is on {q.device.type}; "
            "use attention_kernel=auto"
        )
    if q.dtype not in (torch.bfloat16, torch.float16):
        raise InputError(
            f"attention_kernel=varlen needs bf16 or fp16, but got {q.dtype}; train in bf16 or use attention_kernel=sdpa"
        )
    check_dropout("varlen", dropout_p)
    if cross is not None and cross.hidden_keys is not None:
        raise InputError(
            "attention_kernel=varlen cannot hide single keys from cross-attention, but the objective hides some; "
            "let it hide none or set attention_kernel=auto"
        )
    from torch.nn.attention.varlen import varlen_attn  # absent from builds without CUDA in some versions

    # (left, right), -1 for no limit: (-1, 0) is what torch calls causal, (window, 0) causal within the window.
    side = -1 if window is None else window
    keys = layout if cross is None else cross.keys
    sides = (side, 0 if causal else side)
    result = varlen_attn(
        q, k, v, layout.cu_seqlens, keys.cu_seqlens, layout.max_seqlen, keys.max_seqlen, window_size=sides
    )
    assert isinstance(result, Tensor)  # a tuple only with return_aux
    return result


def _reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout,
    dropout_p: float,
    causal: bool,
    window: int | None,
    cross: CrossLayout | None,
) -> Tensor:
    """The definition, sequence by sequence: no rows, no shared mask, so it shares no mistake with the others."""
    pieces = []
    bounds = layout.cu_seqlens.tolist()
    key_bounds = bounds if cross is None else cross.keys.cu_seqlens.tolist()
    for (start, end), (key_start, key_end) in zip(
        itertools.pairwise(bounds), itertools.pairwise(key_bounds), strict=True
    ):
        query, key, value = (x.transpose(0, 1) for x in (q[start:end], k[key_start:key_end], v[key_start:key_end]))
        scores = query @ key.transpose(-1, -2) / math.sqrt(q.shape[-1])
        distance = torch.arange(end - start)[:, None] - torch.arange(key_end - key_start)[None, :]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if causal:
            hidden |= distance < 0
        if window is not None:
            hidden |= distance.abs() > window
        hidden = hidden.to(scores.device)
        if cross is not None and cross.hidden_keys is not None:
            hidden = hidden | cross.hidden_keys[key_start:key_end]
        scores = scores.masked_fill(hidden, -math.inf)
        pieces.append((dropout(scores.softmax(-1), dropout_p) @ value).transpose(0, 1))
    return torch.cat(pieces)
