"""The attention kernels against the definition, and the promise that packed sequences never meet."""

import gc
import logging
import weakref
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from conf.errors import InputError
from pretrain.models import attention as module
from pretrain.models.attention import AttentionLayout, attention, choose_kernel


def layout_of(rows: list[list[int]], row_length: int, empty: int = 0) -> AttentionLayout:
    bounds = [0]
    for row in rows:
        assert sum(row) == row_length
        for length in row:
            bounds.append(bounds[-1] + length)
    bounds += [bounds[-1]] * empty
    return AttentionLayout(torch.tensor(bounds, dtype=torch.int32), row_length, row_length)


PACKED = layout_of([[3, 5, 4], [12], [1, 11]], 12)


def qkv(tokens: int, heads: int = 2, size: int = 8, dtype=torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, tokens, heads, size, generator=generator).to(dtype)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 2])
def test_kernel_equals_the_reference_with_its_gradients(kernel, causal, window):
    results = {}
    for name in (kernel, "reference"):
        x = qkv(36).requires_grad_()
        out = attention(*x, PACKED, name, causal=causal, window=window)
        weights = torch.linspace(-1, 1, out.numel()).view_as(out)
        results[name] = (out, torch.autograd.grad((out * weights).sum(), x)[0])
    torch.testing.assert_close(results[kernel], results["reference"], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
def test_kernel_in_bf16_is_within_bf16_of_the_reference(kernel):
    x = qkv(36, dtype=torch.bfloat16)
    expected = attention(*x.float(), PACKED, "reference")
    torch.testing.assert_close(attention(*x, PACKED, kernel).float(), expected, atol=2e-2, rtol=2e-2)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.integers(1, 9), min_size=1, max_size=5).map(lambda cuts: [*cuts, 48 - sum(cuts)]),
        min_size=1,
        max_size=3,
    ),
    kernel=st.sampled_from(["sdpa", "matmul", "reference"]),
    causal=st.booleans(),
    window=st.sampled_from([None, 1, 3, 100]),
    changed=st.integers(0, 10**6),
)
def test_changing_one_sequence_leaves_all_others_as_they_were(rows, kernel, causal, window, changed):
    layout = layout_of(rows, 48)
    x = qkv(48 * len(rows))
    before = attention(*x, layout, kernel, causal=causal, window=window)
    spans = list(pairwise(layout.cu_seqlens.tolist()))
    start, end = spans[changed % len(spans)]
    x[:, start:end] += 1.0
    x[:, start:end] *= -3.0
    after = attention(*x, layout, kernel, causal=causal, window=window)
    outside = torch.ones(len(before), dtype=torch.bool)
    outside[start:end] = False
    assert torch.equal(before[outside], after[outside])


@pytest.mark.parametrize("kernel", ["sdpa", "matmul", "reference"])
def test_empty_sequences_at_the_end_change_nothing(kernel):
    x = qkv(36)
    padded = layout_of([[3, 5, 4], [12], [1, 11]], 12, empty=4)
    assert torch.equal(attention(*x, PACKED, kernel), attention(*x, padded, kernel))


def test_rows_filled_by_one_sequence_need_no_mask_and_give_the_same():
    layout = layout_of([[12], [12]], 12)
    assert layout.row_mask(24, causal=False, window=None) is None
    x = qkv(24)
    torch.testing.assert_close(attention(*x, layout, "sdpa"), attention(*x, layout, "reference"), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
def test_a_window_as_wide_as_the_sequences_is_no_window(kernel):
    layout = layout_of([[5, 7], [12]], 12)
    x = qkv(24)
    assert torch.equal(attention(*x, layout, kernel, window=11), attention(*x, layout, kernel))
    assert {key[2] for key in layout._masks} == {None}  # so that local layers share the global layers' mask
    assert not torch.equal(attention(*x, layout, kernel, window=10), attention(*x, layout, kernel))


def test_masks_are_built_once_per_layout():
    layout = layout_of([[3, 9]], 12)
    assert layout.row_mask(12, False, None) is layout.row_mask(12, False, None)
    dtype = torch.bfloat16
    assert layout.additive_mask(12, False, None, dtype) is layout.additive_mask(12, False, None, dtype)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul", "reference"])
def test_dropout_follows_the_global_generator_and_keeps_the_mean(kernel):
    x = qkv(36)
    torch.manual_seed(5)
    first = attention(*x, PACKED, kernel, dropout_p=0.5)
    torch.manual_seed(5)
    again = attention(*x, PACKED, kernel, dropout_p=0.5)
    assert torch.equal(first, again)
    many = torch.stack([attention(*x, PACKED, kernel, dropout_p=0.5) for _ in range(3000)]).mean(0)
    torch.testing.assert_close(many, attention(*x, PACKED, kernel), atol=0.15, rtol=0)


# --- cross-attention: queries of one layout, keys of another ---

# Rows of 6 queries and of 10 keys; the second sequence and the last have keys only.
QUERIES = AttentionLayout(torch.tensor([0, 2, 2, 6, 12, 12], dtype=torch.int32), 6, 6)
KEYS = AttentionLayout(torch.tensor([0, 4, 7, 10, 18, 20], dtype=torch.int32), 10, 10)
HIDDEN = torch.zeros(20, dtype=torch.bool)
HIDDEN[[0, 1, 8, 17, 18]] = True


def pair(seed=0, dtype=torch.float32):
    return qkv(12, seed=seed, dtype=dtype)[0], *qkv(20, seed=seed + 1, dtype=dtype)[1:]


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
@pytest.mark.parametrize("hidden", [None, HIDDEN])
def test_cross_attention_equals_the_reference_with_its_gradients(kernel, hidden):
    results = {}
    for name in (kernel, "reference"):
        parts = [x.clone().requires_grad_() for x in pair()]
        out = attention(*parts, QUERIES, name, key_layout=KEYS, hidden_keys=hidden)
        assert out.shape == (12, 2, 8)
        weights = torch.linspace(-1, 1, out.numel()).view_as(out)
        results[name] = (out, torch.autograd.grad((out * weights).sum(), parts))
    torch.testing.assert_close(results[kernel], results["reference"], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["sdpa", "matmul", "reference"])
def test_a_query_sees_the_keys_of_its_own_sequence_but_not_those_that_are_hidden(kernel):
    q, k, v = (x.requires_grad_() for x in pair())
    spans = list(zip(pairwise(QUERIES.cu_seqlens.tolist()), pairwise(KEYS.cu_seqlens.tolist()), strict=True))
    for hidden in (None, HIDDEN):
        out = attention(q, k, v, QUERIES, kernel, key_layout=KEYS, hidden_keys=hidden)
        for (start, end), (first, last) in spans:
            for token in range(start, end):
                (gradient,) = torch.autograd.grad(out[token].square().sum(), v, retain_graph=True)
                seen = gradient.abs().sum((1, 2)).nonzero().flatten().tolist()
                assert seen == [key for key in range(first, last) if hidden is None or not hidden[key]]


@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
def test_cross_attention_in_bf16_is_within_bf16_of_the_reference(kernel):
    parts = pair(dtype=torch.bfloat16)
    expected = attention(*(x.float() for x in parts), QUERIES, "reference", key_layout=KEYS)
    found = attention(*parts, QUERIES, kernel, key_layout=KEYS)
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=2e-2)


@settings(max_examples=40, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), min_size=1, max_size=4),
    rows=st.integers(1, 3),
    kernel=st.sampled_from(["sdpa", "matmul", "reference"]),
    changed=st.integers(0, 10**6),
)
def test_changing_the_keys_of_one_sequence_leaves_all_other_queries_as_they_were(pairs, rows, kernel, changed):
    layouts = []
    for side in range(2):
        lengths = [pair[side] for pair in pairs]
        lengths[-1] += 24 - sum(lengths)
        bounds = torch.tensor([0, *(lengths * rows)]).cumsum(0).to(torch.int32)
        layouts.append(AttentionLayout(bounds, 24, 24))
    q, (_, k, v) = qkv(24 * rows)[0], qkv(24 * rows, seed=1)
    before = attention(q, k, v, layouts[0], kernel, key_layout=layouts[1])
    at = changed % (len(pairs) * rows)
    (start, end), (first, last) = ([int(x) for x in layout.cu_seqlens[at : at + 2]] for layout in layouts)
    k[first:last] *= -3.0
    v[first:last] += 1.0
    after = attention(q, k, v, layouts[0], kernel, key_layout=layouts[1])
    outside = torch.ones(len(before), dtype=torch.bool)
    outside[start:end] = False
    assert torch.equal(before[outside], after[outside])
    assert start == end or not torch.equal(before[start:end], after[start:end])


def test_masks_are_built_once_per_pair_of_layouts():
    queries, keys = (AttentionLayout(x.cu_seqlens, x.max_seqlen, x.row_length) for x in (QUERIES, KEYS))
    cross = queries.crossing_to(keys)
    assert queries.crossing_to(keys) is cross and cross.row_mask(12, 20) is cross.row_mask(12, 20)
    assert cross.additive_mask(12, 20, torch.bfloat16) is cross.additive_mask(12, 20, torch.bfloat16)
    assert queries.crossing_to(keys, HIDDEN) is queries.crossing_to(keys, HIDDEN)
    assert queries.crossing_to(keys, HIDDEN) is not cross
    assert queries.crossing_to(AttentionLayout(KEYS.cu_seqlens, 10, 10)) is not cross
    whole = AttentionLayout(torch.tensor([0, 6], dtype=torch.int32), 6, 6)
    assert whole.crossing_to(AttentionLayout(torch.tensor([0, 8], dtype=torch.int32), 8, 8)).row_mask(6, 8) is None


def test_the_masks_of_a_pair_go_when_the_layouts_do():
    queries, keys = (AttentionLayout(x.cu_seqlens, x.max_seqlen, x.row_length) for x in (QUERIES, KEYS))
    mask = weakref.ref(queries.crossing_to(keys).row_mask(12, 20))
    gc.disable()
    try:
        del queries, keys
        assert mask() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([0, 10, 20], "as many sequences, but have 5 and 2"),
        ([0, 0, 7, 10, 18, 20], "the query at token 0 has no key"),
        # The fourth sequence's keys lie in the first row, its queries in the second.
        ([0, 4, 7, 9, 10, 20], "the query at token 6 has no key"),
    ],
)
def test_layouts_that_do_not_go_together_are_refused(bounds, message):
    keys = AttentionLayout(torch.tensor(bounds, dtype=torch.int32), 10, 10)
    with pytest.raises(ValueError, match=message):
        attention(*pair(), QUERIES, "sdpa", key_layout=keys)


def test_what_has_no_meaning_in_cross_attention_is_refused():
    everything = torch.ones(20, dtype=torch.bool)
    with pytest.raises(ValueError, match="the query at token 0 has no key"):
        attention(*pair(), QUERIES, "matmul", key_layout=KEYS, hidden_keys=everything)
    for options in ({"causal": True}, {"window": 2}):
        with pytest.raises(ValueError, match="cannot go with a key_layout"):
            attention(*pair(), QUERIES, "sdpa", key_layout=KEYS, **options)
    with pytest.raises(ValueError, match="hidden_keys need a key_layout"):
        attention(*qkv(36), PACKED, "sdpa", hidden_keys=torch.zeros(36, dtype=torch.bool))


def test_hidden_keys_are_for_a_kernel_that_can_hide_them():
    cuda = torch.device("cuda")
    assert choose_kernel("auto", cuda, torch.bfloat16, hides_keys=True) == "sdpa"
    with FakeTensorMode():
        bounds = [torch.zeros(4, dtype=torch.int32, device="cuda") for _ in range(2)]
        queries, keys = AttentionLayout(bounds[0], 12, 12), AttentionLayout(bounds[1], 20, 20)
        q, k, v = (torch.zeros(n, 2, 64, dtype=torch.bfloat16, device="cuda") for n in (36, 60, 60))
        hidden = torch.zeros(60, dtype=torch.bool, device="cuda")
        # No GPU here: as torch declares it, on tensors without data.
        for kernel in ("varlen", "auto"):
            out = attention(q, k, v, queries, kernel, key_layout=keys)
            assert (out.shape, out.dtype, out.device.type) == (q.shape, q.dtype, "cuda")
        with pytest.raises(InputError, match="varlen cannot hide single keys"):
            attention(q, k, v, queries, "varlen", key_layout=keys, hidden_keys=hidden)


def test_auto_is_decided_by_device_and_dtype():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert choose_kernel("auto", cpu, torch.float32) == "sdpa"
    assert choose_kernel("auto", cpu, torch.bfloat16) == "matmul"
    assert choose_kernel("auto", cuda, torch.bfloat16) == "varlen"
    assert choose_kernel("auto", cuda, torch.float32) == "sdpa"
    assert choose_kernel("reference", cuda, torch.float32) == "reference"


@pytest.mark.parametrize(
    ("device", "dtype", "kernel"),
    [("cpu", torch.float32, "matmul"), ("cpu", torch.bfloat16, "matmul"), ("cuda", torch.bfloat16, "sdpa")],
)
def test_auto_with_dropout_is_a_kernel_that_has_it(device, dtype, kernel):
    assert choose_kernel("auto", torch.device(device), dtype, 0.1) == kernel


def test_the_kernel_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(module, "_announced", set())
    with caplog.at_level(logging.INFO, logger=module.__name__):
        for _ in range(2):
            attention(*qkv(36), PACKED, "auto")
            attention(*qkv(36), PACKED, "auto", dropout_p=0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "attention kernel: sdpa (cpu, float32)",
        "attention kernel: matmul (cpu, float32, with dropout)",
    ]


def test_a_slow_choice_on_cuda_is_explained(caplog, monkeypatch):
    monkeypatch.setattr(module, "_announced", set())
    with caplog.at_level(logging.INFO, logger=module.__name__):
        module._announce("auto", "sdpa", "cuda", torch.bfloat16, True)  # no GPU here: as attention() would say it
    assert caplog.records[0].getMessage() == (
        "attention kernel: sdpa (cuda, bfloat16, with dropout); varlen, which is faster, has no dropout: "
        "attention_dropout=0 makes it the choice"
    )


def test_the_kernel_is_logged_when_compiled(caplog, monkeypatch):
    monkeypatch.setattr(module, "_announced", set())
    layout = PACKED.for_compiled_code()
    compiled = torch.compile(lambda x: attention(*x, layout, "matmul"), backend="eager")
    with caplog.at_level(logging.INFO, logger=module.__name__):
        for _ in range(2):
            torch.testing.assert_close(compiled(qkv(36)), attention(*qkv(36), PACKED, "matmul"))
    messages = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert messages == ["attention kernel: matmul (cpu, float32)"]


def test_varlen_refuses_the_cpu_and_an_unknown_kernel_is_named():
    with pytest.raises(InputError, match="varlen needs a CUDA device"):
        attention(*qkv(36), PACKED, "varlen")
    with pytest.raises(InputError, match="'flash'"):
        attention(*qkv(36), PACKED, "flash")  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": 4}, {"window": 4, "causal": True}])
def test_varlen_is_called_as_torch_declares_it(options):
    # No GPU here: shapes, devices and arguments are checked on tensors without data.
    with FakeTensorMode():
        bounds = torch.zeros(4, dtype=torch.int32, device="cuda")
        q, k, v = (torch.zeros(36, 2, 64, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        out = attention(q, k, v, AttentionLayout(bounds, 12, 12), "auto", **options)
        assert (out.shape, out.dtype, out.device.type) == (q.shape, q.dtype, "cuda")
        with pytest.raises(InputError, match=r"has no dropout, but attention_dropout is 0\.1"):
            attention(q, k, v, AttentionLayout(bounds, 12, 12), "varlen", dropout_p=0.1)
        with pytest.raises(InputError, match="needs bf16 or fp16"):
            attention(q.float(), k.float(), v.float(), AttentionLayout(bounds, 12, 12), "varlen")


@pytest.mark.parametrize(
    ("bounds", "max_seqlen", "message"),
    [
        ([0, 8, 24], 12, "crosses the border"),
        ([0, 12, 20], 12, "do not fill rows"),
        ([0, 12, 6, 24], 12, "never decrease"),
        ([2, 12, 24], 12, "start at 0"),
        ([0, 12, 24], 8, "max_seqlen is 8"),
    ],
)
def test_a_layout_that_breaks_its_promise_is_refused(bounds, max_seqlen, message):
    with pytest.raises(ValueError, match=message):
        AttentionLayout(torch.tensor(bounds, dtype=torch.int32), max_seqlen, 12)
