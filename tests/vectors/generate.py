#!/usr/bin/env python3
"""Writes the frozen results in this folder; see README.md for what is in them.

    python generate.py [FOLDER [NAME...]]

Needs PyTorch, numpy and adam-mini, and transformers and safetensors for gpt2_tiny. Inputs are float32 drawn from a seed of their
own per case; results are computed in double by PyTorch and rounded to float32 at the end. Running it again with the
same versions gives the same files.
"""
import json
import sys
import zlib
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from adam_mini import Adam_mini

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class File:
    """One safetensors file of cases."""

    def __init__(self, folder, name):
        self.path = folder / f"{name}.safetensors"
        self.tensors = {}

    def case(self, name, **attributes):
        self.name = name
        for key, value in attributes.items():
            self.put(key, np.float64(value))
        # Another seed would draw other numbers.
        self.random = np.random.default_rng(zlib.crc32(f"{self.path.stem}.txt/{name}".encode()))

    def put(self, name, x):
        key = f"{self.name}/{name}"
        assert key not in self.tensors, key
        self.tensors[key] = x

    def tensor(self, name, x):
        """An int tensor as i32, anything else rounded to f32."""
        x = torch.as_tensor(x).detach()
        self.put(name, x.numpy().astype("<f4" if x.is_floating_point() else "<i4"))

    def doubles(self, name, values):
        self.put(name, np.array(values, "<f8"))

    def draw(self, *shape, low=-1.0, high=1.0):
        """A leaf in double with values of floats."""
        x = self.random.uniform(low, high, shape).astype(np.float32)
        return torch.tensor(x.astype(np.float64), requires_grad=True)

    def ids(self, limit, *shape):
        return torch.tensor(self.random.integers(0, limit, shape))

    def record(self, inputs, outputs, extra=()):
        """inputs, outputs[0]'s gradient for a random dy, and extra saved outputs."""
        dy = self.draw(*outputs.shape)
        outputs.backward(dy.detach())
        for i, x in enumerate(inputs):
            if x is not None:
                self.tensor(f"in{i}", x)
        self.tensor("out0", outputs)
        for j, x in enumerate(extra):
            self.tensor(f"out{j + 1}", x)
        self.tensor("dy", dy)
        for i, x in enumerate(inputs):
            if x is not None and x.requires_grad:
                self.tensor(f"grad{i}", x.grad)

    def close(self):
        """Writes the tensors in the order in which they came; the safetensors package would sort them."""
        header, end = {}, 0
        for name, x in self.tensors.items():
            header[name] = dict(dtype=f"{x.dtype.kind}{8 * x.itemsize}".upper(), shape=x.shape,
                                data_offsets=(end, end + x.nbytes))
            end += x.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(x.tobytes() for x in self.tensors.values()))


def linear(f):
    for layout in (0, 1):
        for bias in (True, False):
            f.case(f"{'in_out' if layout else 'out_in'}{'_bias' if bias else ''}", layout=layout)
            x = f.draw(2, 3, 19)
            w = f.draw(19, 11) if layout else f.draw(11, 19)
            b = f.draw(11) if bias else None
            f.record([x, w, b], F.linear(x, w.T if layout else w, b))


def matmul(f):
    for ta in (0, 1):
        for tb in (0, 1):
            f.case(f"transpose_{ta}{tb}", transpose_a=ta, transpose_b=tb)
            a = f.draw(2, 2, 9, 5) if ta else f.draw(2, 2, 5, 9)
            b = f.draw(2, 2, 7, 9) if tb else f.draw(2, 2, 9, 7)
            f.record([a, b], (a.mT if ta else a) @ (b.mT if tb else b))


def gather(f):
    f.case("repeated_ids")
    table, ids = f.draw(11, 9), f.ids(11, 5, 7)
    f.record([table, ids], F.embedding(ids, table))
    for axis, n in ((1, 4), (2, 7)):
        f.case(f"elements_{axis}", axis=axis, elements=axis < 2)
        x, shape = f.draw(2, 5, 3), [2, 5, 3]
        shape[axis] = n
        ids = f.ids(x.shape[axis], *shape)
        f.record([x, ids], x.gather(axis, ids))
    f.case("index_select", axis=1, shared=1)
    x, ids = f.draw(2, 5, 3), f.ids(5, 8)
    f.record([x, ids], x.index_select(1, ids))
    f.case("scatter_rows", axis=1, scatter=1)
    x, ids = f.draw(2, 8, 3), f.ids(5, 2, 8)
    f.record([ids, x], torch.zeros(2, 5, 3).scatter_add(1, ids[..., None].expand(2, 8, 3), x))
    f.case("scatter_elements", axis=1, scatter=1, elements=1)
    x, ids = f.draw(2, 8, 3), f.ids(5, 2, 8, 3)
    f.record([ids, x], torch.zeros(2, 5, 3).scatter_add(1, ids, x))


def pointwise(f):
    """Every function of the table, wide and at points where a derivative does not exist or something ends."""
    def wide(name, count, result, low=-4, high=4, **numbers):
        f.case(name, **numbers)
        x = [f.draw(5, 24, low=low, high=high) for _ in range(count)]
        f.record(x, result(*x))

    elementary = dict(
        add=(2, torch.add), subtract=(2, torch.sub), multiply=(2, torch.mul), maximum=(2, torch.maximum),
        minimum=(2, torch.minimum), negate=(1, torch.neg), square=(1, torch.square), abs=(1, torch.abs),
        exp=(1, torch.exp), expm1=(1, torch.expm1), sin=(1, torch.sin), cos=(1, torch.cos), erf=(1, torch.erf),
        tanh=(1, torch.tanh), sigmoid=(1, torch.sigmoid), softplus=(1, F.softplus), log_sigmoid=(1, F.logsigmoid),
        relu=(1, F.relu), relu6=(1, F.relu6), selu=(1, F.selu), gelu=(1, F.gelu), silu=(1, F.silu), mish=(1, F.mish),
        gelu_tanh=(1, lambda x: F.gelu(x, approximate="tanh")), hard_sigmoid=(1, F.hardsigmoid),
        hard_swish=(1, F.hardswish), softsign=(1, F.softsign))
    for name, (count, function) in elementary.items():
        wide(name, count, function, -8, 8)
    wide("divide", 2, torch.div, 0.25, 4)
    wide("power", 2, torch.pow, 0.25, 3)
    wide("sqrt", 1, torch.sqrt, 0.01, 9)
    wide("rsqrt", 1, torch.rsqrt, 0.1, 9)
    wide("reciprocal", 1, torch.reciprocal, 0.25, 4)
    wide("log", 1, torch.log, 0.1, 9)
    wide("log1p", 1, torch.log1p, -0.8, 9)
    wide("clamp", 1, lambda x: torch.clamp(x, -1, 2), b=-1, c=2)
    wide("leaky_relu", 1, lambda x: F.leaky_relu(x, 0.25), b=0.25)
    wide("elu", 1, lambda x: F.elu(x, 0.5), b=0.5)

    def at(name, function, *values, **numbers):
        f.case(f"{name}_points", **numbers)
        x = torch.tensor(np.array(values, np.float32).astype(np.float64), requires_grad=True)
        f.record([x], function(x))

    at("abs", torch.abs, 0, -0.0, 1, -1)
    at("relu", F.relu, 0, 1, -1, np.inf)
    at("relu6", F.relu6, 0, 6, 3, 7)
    at("leaky_relu", lambda x: F.leaky_relu(x, 0.25), 0, 1, -1, b=0.25)
    at("elu", lambda x: F.elu(x, 0.5), 0, 1, -1, -100, b=0.5)
    at("selu", F.selu, 0, 1, -1, -100)
    at("hard_sigmoid", F.hardsigmoid, -3, 3, 0, 4)
    at("hard_swish", F.hardswish, -3, 3, 0, 4)
    at("clamp", lambda x: torch.clamp(x, -1, 2), -1, 2, 0, 3, b=-1, c=2)
    at("sqrt", torch.sqrt, 0, 1)
    at("softplus", F.softplus, -80, 0, 15)
    at("log_sigmoid", F.logsigmoid, -80, 0, 15)
    for name, function in (("maximum", torch.maximum), ("minimum", torch.minimum)):
        f.case(f"{name}_points")
        a, b = (torch.tensor([1.0, 0, -1], requires_grad=True), torch.tensor([1.0, 2, -1], requires_grad=True))
        f.record([a, b], function(a, b))
    f.case("power_points")
    a = torch.tensor([0.0, 0, 2, 0, -2, -2], requires_grad=True)
    b = torch.tensor([0.0, 2, 0, 3, 2, 3], requires_grad=True).detach()
    f.record([a, b], torch.pow(a, b))
    f.case("where_points")
    condition = torch.tensor([1.0, 0, -2, 0])
    a, b = torch.tensor([1.0, 2, 3, 4], requires_grad=True), torch.tensor([5.0, 6, 7, 8], requires_grad=True)
    f.record([condition, a, b], torch.where(condition != 0, a, b))


def layer_norm(f):
    for name, low, high in (("plain", -1, 1), ("shifted", 4, 6)):
        for weight, bias in ((True, True), (True, False), (False, False)):
            f.case(name + ("" if bias else "_without_beta" if weight else "_bare"), epsilon=1e-5)
            x = f.draw(2, 3, 33, low=low, high=high)
            gamma = f.draw(33) if weight else None
            beta = f.draw(33) if bias else None
            mean, variance = x.mean(-1), x.var(-1, unbiased=False)
            statistics = torch.stack((mean, 1 / torch.sqrt(variance + 1e-5)), -1)
            f.record([x, gamma, beta], F.layer_norm(x, (33,), gamma, beta, 1e-5),
                     [statistics.reshape(6, 2)])


def rms_norm(f):
    for name, low, high in (("plain", -1, 1), ("shifted", 4, 6)):
        for weight in (True, False):
            f.case(name if weight else f"{name}_bare", epsilon=1e-5)
            x = f.draw(2, 3, 33, low=low, high=high)
            gamma = f.draw(33) if weight else None
            statistics = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
            f.record([x, gamma], F.rms_norm(x, (33,), gamma, 1e-5), [statistics.reshape(6, 1)])


def group_norm(f):
    for name, shape, groups, affine in (("plain", (3, 6, 5, 3), 3, True), ("bare", (2, 6, 7), 2, False),
                                        ("groups_of_one_channel", (3, 5, 3, 3), 5, True),
                                        ("one_group", (3, 5, 3, 3), 1, True), ("batch_of_one", (1, 4, 7, 1), 2, True),
                                        ("one_position", (3, 12), 4, True)):
        f.case(name, groups=groups, epsilon=1e-5)
        x = f.draw(*shape, low=-1, high=3)
        gamma, beta = (f.draw(shape[1]), f.draw(shape[1])) if affine else (None, None)
        rows = x.reshape(shape[0], groups, -1)
        statistics = torch.stack((rows.mean(-1), 1 / torch.sqrt(rows.var(-1, unbiased=False) + 1e-5)), -1)
        f.record([x, gamma, beta], F.group_norm(x, groups, gamma, beta, 1e-5), [statistics])


def batch_norm(f):
    for name, shape, affine, evaluation in (("plain", (3, 5, 5, 3), True, False), ("bare", (4, 3, 7), False, False),
                                            ("batch_of_one", (1, 3, 5, 1), True, False),
                                            ("one_position", (9, 7), True, False),
                                            ("evaluation", (3, 5, 3), True, True),
                                            ("frozen", (3, 5, 3), True, True),
                                            ("frozen_one_position", (6, 5), True, True)):
        frozen = name.startswith("frozen")
        f.case(name, epsilon=1e-5, evaluation=evaluation and not frozen, frozen=frozen)
        x = f.draw(*shape, low=-1, high=3)
        gamma, beta = (f.draw(shape[1]), f.draw(shape[1])) if affine else (None, None)
        mean, variance = f.draw(shape[1]).detach(), f.draw(shape[1], low=0.5, high=2).detach()
        y = F.batch_norm(x, mean.clone(), variance.clone(), gamma, beta, not evaluation, 0.1, 1e-5)
        rows = x.transpose(0, 1).reshape(shape[1], -1)
        used = (mean, variance) if evaluation else (rows.mean(-1), rows.var(-1, unbiased=False))
        f.record([x, gamma, beta, mean, variance], y, [torch.stack((used[0], 1 / torch.sqrt(used[1] + 1e-5)), -1)])


def weight_standardisation(f):
    for name, shape in (("convolution", (5, 3, 3, 3)), ("linear", (7, 19))):
        f.case(name, epsilon=1e-5)
        w = f.draw(*shape)
        rows = w.reshape(shape[0], -1)
        mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, unbiased=False, keepdim=True)
        y = ((rows - mean) / torch.sqrt(variance + 1e-5)).reshape(shape)
        f.record([w], y, [torch.cat((mean, 1 / torch.sqrt(variance + 1e-5)), -1)])


# Names of the table of functions; what is not here is what torch has by that name.
FUNCTIONS = dict(
    add=torch.add, subtract=torch.sub, multiply=torch.mul, divide=torch.div, negate=torch.neg, power=torch.pow,
    softplus=F.softplus, log_sigmoid=F.logsigmoid, relu6=F.relu6, gelu=F.gelu,
    gelu_tanh=lambda x: F.gelu(x, approximate="tanh"), silu=F.silu, mish=F.mish, hard_sigmoid=F.hardsigmoid,
    hard_swish=F.hardswish, softsign=F.softsign, selu=F.selu,
    leaky_relu=lambda a, b: torch.where(a > 0, a, b * a), elu=lambda a, b: torch.where(a > 0, a, b * torch.expm1(a)),
    where=lambda a, b, c: torch.where(a != 0, b, c))
# Operands, lowest and highest.
OPERANDS = dict(
    add=(2, -4, 4), subtract=(2, -4, 4), multiply=(2, -4, 4), divide=(2, 0.25, 4), negate=(1, -4, 4),
    maximum=(2, -4, 4), minimum=(2, -4, 4), power=(2, 0.25, 3), square=(1, -4, 4), sqrt=(1, 0.01, 9),
    rsqrt=(1, 0.1, 9), reciprocal=(1, 0.25, 4), abs=(1, -4, 4), clamp=(3, -4, 4), exp=(1, -6, 3), expm1=(1, -6, 3),
    log=(1, 0.1, 9), log1p=(1, -0.8, 9), sin=(1, -8, 8), cos=(1, -8, 8), erf=(1, -3, 3), tanh=(1, -4, 4),
    sigmoid=(1, -6, 6), softplus=(1, -6, 6), log_sigmoid=(1, -6, 6), relu=(1, -4, 4), relu6=(1, -4, 9),
    leaky_relu=(2, -4, 4), elu=(2, -4, 4), selu=(1, -4, 4), gelu=(1, -4, 4), gelu_tanh=(1, -4, 4), silu=(1, -6, 6),
    mish=(1, -6, 6), hard_sigmoid=(1, -6, 6), hard_swish=(1, -6, 6), softsign=(1, -4, 4), where=(3, -4, 4))
FORMULAS = {
    "a * tanh(softplus(b))": lambda a, b: a * torch.tanh(F.softplus(b)),
    "exp(-((a - b) / c)^2)": lambda a, b, c: torch.exp(-((a - b) / c) ** 2),
    "0.5 * (exp(b) + a^2 - 1 - b)": lambda a, b: 0.5 * (torch.exp(b) + a ** 2 - 1 - b),
    "where(a < b, a * c, sin(b) / 2)": lambda a, b, c: torch.where(a < b, a * c, torch.sin(b) / 2),
    "log(1 + a^2)^3": lambda a: torch.log(1 + a ** 2) ** 3,
}


def functions(f):
    for name, (count, low, high) in OPERANDS.items():
        f.case(name)
        operands = [f.draw(16, low=low, high=high) for _ in range(count)]
        if name == "where":
            operands[0] = operands[0].detach()
        f.record(operands, FUNCTIONS.get(name, getattr(torch, name, None))(*operands))
    for formula, function in FORMULAS.items():
        f.case(formula.replace("/", ":"))
        operands = [f.draw(16, low=0.5, high=2) for _ in range(function.__code__.co_argcount)]
        f.record(operands, function(*operands))


def softmax(f):
    f.case("rows")
    x = f.draw(7, 33, low=-5, high=5)
    f.record([x], F.softmax(x, -1))
    f.case("large")
    x = f.draw(3, 33, low=-500, high=500)
    f.record([x], F.softmax(x, -1))
    for name, function, logarithm in (("softmax", F.softmax, 0), ("logarithm", F.log_softmax, 1)):
        for axis in (1, 2):
            f.case(f"{name}_over_{axis}", axis=axis, logarithm=logarithm)
            x = f.draw(3, 7, 9, low=-5, high=5)
            f.record([x], function(x, axis))


def reduce(f):
    """Kinds as in src/ops/reduction/reduce.h."""
    def share(x, y, axes):
        return 1 / (x == y).sum(axes, keepdim=True).double()

    shape = (2, 4, 5, 3)
    for axes in ((3,), (1,), (1, 2), (1, 3), (1, 2, 3)):
        n = int(np.prod([shape[axis] for axis in axes]))
        for name, kind, function, divisor, power in (
                ("sum", 0, lambda x, **how: x.sum(**how), 1, 0),
                ("mean", 0, lambda x, **how: x.mean(**how), n, 0),
                ("norm_1", 1, lambda x, **how: torch.linalg.vector_norm(x, 1, **how), 1, 0),
                ("norm_2", 2, lambda x, **how: torch.linalg.vector_norm(x, 2, **how), 1, 0),
                ("norm_3", 3, lambda x, **how: torch.linalg.vector_norm(x, 3, **how), 1, 3),
                ("max", 4, lambda x, **how: x.amax(**how), 1, 0),
                ("min", 5, lambda x, **how: x.amin(**how), 1, 0),
                ("norm_infinity", 6, lambda x, **how: torch.linalg.vector_norm(x, np.inf, **how), 1, 0),
                ("logsumexp", 7, lambda x, **how: x.logsumexp(**how), 1, 0),
                ("variance", 8, lambda x, **how: x.var(correction=0, **how), n, 0),
                ("unbiased", 8, lambda x, **how: x.var(correction=1, **how), n - 1, 0)):
            f.case(f"{name}_{'_'.join(map(str, axes))}", kind=kind, axes=sum(1 << axis for axis in axes), divisor=divisor,
                   power=power)
            x = f.draw(*shape, low=-2, high=2)
            if kind == 4:  # two of the largest
                x.data[:, 0], x.data[:, 1] = 3, 3
            y = function(x, dim=axes, keepdim=True)
            kept = [share(x, y, axes)] if kind in (4, 5) else [share(x.abs(), y, axes)] if kind == 6 else \
                [x.mean(axes, keepdim=True)] if kind == 8 else []
            f.record([x], y, kept)


def cumulative_sum(f):
    for axis in (1, 2):
        f.case(f"along_{axis}", axis=axis)
        x = f.draw(3, 7, 9)
        f.record([x], x.cumsum(axis))


def argmax(f):
    for axis in (1, 2):
        f.case(f"over_{axis}", axis=axis)
        x = f.draw(3, 7, 9)
        f.tensor("in0", x)
        f.tensor("out0", x.argmax(axis))


def top_k(f):
    for k in (1, 4, 33):
        f.case(f"{k}_of_33")
        x = f.draw(3, 33)
        y, ids = x.topk(k)
        f.record([x], y, [ids])


def attention(f):
    for name, B, T, heads, d in (("small", 2, 7, 2, 3), ("one_position", 2, 1, 2, 3), ("longer", 1, 17, 2, 20)):
        C = heads * d
        factor = float(np.float32(1 / np.sqrt(d)))
        f.case(name, heads=heads, scale=factor)
        qkv = f.draw(B, T, 3 * C, low=-2, high=2)
        q, k, v = (part.reshape(B, T, heads, d).transpose(1, 2) for part in qkv.split(C, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=factor)
        scores = (q @ k.mT * factor).masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        f.record([qkv], y.transpose(1, 2).reshape(B, T, C), [torch.logsumexp(scores, -1)])
    for name, settings, H, Hkv, Tq, Tk, D, Dv in (
            ("crossed", {}, 2, 2, 5, 9, 3, 3),
            ("grouped_wider_values", dict(causal=1), 4, 2, 9, 9, 3, 5),
            ("window", dict(causal=1, window=3), 2, 1, 9, 9, 3, 3),
            ("window_both_ways", dict(window=2), 2, 2, 9, 8, 3, 3),
            ("at_end", dict(causal=1, at_end=1), 2, 2, 3, 9, 3, 3),
            ("capped", dict(soft_cap=1.5, bias_heads=2), 2, 2, 5, 6, 3, 3),
            ("bias_of_all_heads", dict(bias_heads=1), 3, 3, 5, 6, 3, 3),
            ("bias_of_samples", dict(bias_heads=2, bias_samples=1), 2, 2, 5, 6, 3, 3),
            ("lengths", dict(lengths=1), 2, 2, 5, 6, 3, 3),
            ("segments", dict(causal=1, segments=1), 2, 1, 9, 9, 3, 3),
            ("segments_of_keys", dict(segments=1, lengths=1, bias_heads=1), 2, 2, 5, 9, 3, 3)):
        masked_attention(f, name, settings, H, Hkv, Tq, Tk, D, Dv)


def masked_attention(f, name, settings, H, Hkv, Tq, Tk, D, Dv):
    """All of it by scaled_dot_product_attention with a mask, but for the cap, which it does not have."""
    B, factor, get = 2, float(np.float32(1 / np.sqrt(D))), lambda key: settings.get(key, 0)
    f.case(name, heads=H, key_heads=Hkv, scale=factor, causal=get("causal"),
           **{key: get(key) for key in ("window", "at_end", "soft_cap")})
    q, k, v = f.draw(B, Tq, H * D), f.draw(B, Tk, Hkv * D), f.draw(B, Tk, Hkv * Dv)
    shape = (B, get("bias_heads"), Tq, Tk)
    bias = f.draw(*shape[0 if get("bias_samples") else 1:]) if get("bias_heads") else None
    lengths = torch.tensor([Tk, Tk // 2]) if get("lengths") else None
    own = f.ids(2, B, Tq) if get("segments") else None
    other = own if own is None or Tq == Tk else f.ids(2, B, Tk)
    place, key = torch.arange(Tq)[:, None] + get("at_end") * (Tk - Tq), torch.arange(Tk)
    seen = torch.ones(B, 1, Tq, Tk, dtype=torch.bool)
    if get("causal"):
        seen &= key <= place
    if get("window"):
        seen &= (key - place).abs() < get("window")
    if lengths is not None:
        seen &= key < lengths[:, None, None, None]
    if own is not None:
        seen &= own[:, None, :, None] == other[:, None, None, :]
    heads = lambda x, n: x.reshape(B, x.shape[1], n, -1).transpose(1, 2)
    keys, values = (heads(x, Hkv).repeat_interleave(H // Hkv, 1) for x in (k, v))
    mask = torch.where(seen, 0.0 if bias is None else bias, -torch.inf)
    scores = heads(q, H) @ keys.mT * factor
    if get("soft_cap"):
        scores = get("soft_cap") * torch.tanh(scores / get("soft_cap"))
    scores = scores + mask
    if get("soft_cap"):
        y = scores.softmax(-1) @ values
    else:
        y = F.scaled_dot_product_attention(heads(q, H), keys, values, attn_mask=mask, scale=factor)
    # A query that sees nothing is ours to define, and PyTorch's softmax has NaN there.
    assert seen.any(-1).all(), name
    f.record([q, k, v, bias, lengths, own, None if other is own else other],
             y.transpose(1, 2).reshape(B, Tq, H * Dv), [torch.logsumexp(scores, -1)])


def rope(f):
    """transformers' inverse frequencies and rotations, in double."""
    def rotate(x, cos, sin, pairs, interleaved):
        turned, rest = x[..., :2 * pairs], x[..., 2 * pairs:]
        a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.split(pairs, -1)
        a, b = a * cos - b * sin, b * cos + a * sin
        return torch.cat([torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1), rest], -1)

    def llama3(inverse, factor, low_freq_factor, high_freq_factor, original_positions):
        wavelength = 2 * torch.pi / inverse
        low, high = original_positions / low_freq_factor, original_positions / high_freq_factor
        scaled = torch.where(wavelength > low, inverse / factor, inverse)
        smooth = (original_positions / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
        smoothed = (1 - smooth) * scaled / factor + smooth * scaled
        return torch.where((wavelength >= high) & (wavelength <= low), smoothed, scaled)

    for name, shape, dimensions, interleaved, limit, offset, base, scaling in (
            ("halves", (2, 5, 3, 8), 8, 0, 0, 0, 10000, {}), ("neighbours", (2, 5, 3, 8), 8, 1, 0, 0, 10000, {}),
            ("partial", (2, 5, 2, 10), 4, 0, 4096, 0, 10000, {}), ("far", (1, 3, 2, 64), 64, 0, 131072, 7, 1e6, {}),
            ("linear", (1, 5, 2, 16), 16, 0, 32768, 0, 10000, dict(scaling=1, factor=4)),
            ("llama3", (2, 5, 2, 64), 64, 0, 131072, 0, 5e5, dict(
                scaling=2, factor=8, low_freq_factor=1, high_freq_factor=4, original_positions=8192)),
            ("llama3_2", (1, 5, 2, 64), 64, 0, 131072, 0, 5e5, dict(
                scaling=2, factor=32, low_freq_factor=1, high_freq_factor=4, original_positions=8192))):
        f.case(name, dimensions=dimensions, interleaved=interleaved, offset=offset, base=base, **scaling)
        x = f.draw(*shape)
        positions = f.ids(limit, *shape[:2]) if limit else None
        inverse = 1 / base ** (torch.arange(0, dimensions, 2) / dimensions)
        if "low_freq_factor" in scaling:
            inverse = llama3(inverse, **{key: value for key, value in scaling.items() if key != "scaling"})
        elif scaling:
            inverse = inverse / scaling["factor"]
        at = offset + (torch.arange(shape[1]).expand(*shape[:2]) if positions is None else positions)
        angle = at[..., None, None] * inverse
        f.record([x, positions], rotate(x, angle.cos(), angle.sin(), dimensions // 2, interleaved))


def axes_of(axes):
    return {f"axis{d}": axis for d, axis in enumerate(axes)}


def permute(f):
    for name, axes in (("middle", (0, 2, 1, 3)), ("outer", (0, 3, 2, 1)), ("channels_last", (0, 2, 3, 1)), ("turn", (0, 3, 1, 2))):
        f.case(name, **axes_of(axes))
        x = f.draw(2, 3, 5, 7)
        f.record([x], x.permute(axes).contiguous())


def sums(loss, weight, right):
    return torch.tensor([loss, 0, weight, 0, right, 0, 0, 0], dtype=torch.float64)


def cross_entropy(f):
    for name, ignore, weighted, smoothing in (("plain", False, False, 0), ("ignore", True, False, 0),
                                              ("weights", True, True, 0), ("smoothing", True, True, 0.125)):
        f.case(name, ignore=ignore, ignore_index=-100, **({"smoothing": smoothing} if smoothing else {}))
        logits, targets = f.draw(3, 7, 19, low=-4, high=4), f.ids(19, 3, 7)
        if ignore:
            targets[0, 2:5] = targets[2, 6] = -100
        weights = f.draw(3, 7, low=0, high=2).detach() if weighted else None
        w = weights if weighted else torch.ones(3, 7)
        flat = F.cross_entropy(logits.reshape(21, 19), targets.reshape(21), reduction="none", ignore_index=-100,
                               label_smoothing=smoothing)
        loss = (flat.reshape(3, 7) * w).sum()
        loss.backward()
        counted = w * (targets != -100)
        right = counted[logits.argmax(-1) == targets].sum()
        f.tensor("in0", logits)
        f.tensor("in1", targets)
        if weighted:
            f.tensor("in2", weights)
        f.tensor("out0", sums(loss.item(), counted.sum().item(), right.item()))
        largest = logits.amax(-1)
        f.tensor("out1", torch.stack([largest, torch.logsumexp(logits - largest[..., None], -1)], -1))
        f.tensor("grad0", logits.grad)


def linear_cross_entropy(f):
    for name, layout, weighted, smoothing in (("out_in", 0, False, 0), ("in_out_weights", 1, True, 0),
                                              ("smoothing", 0, True, 0.125)):
        f.case(name, layout=layout, ignore=True, ignore_index=-100, **({"smoothing": smoothing} if smoothing else {}))
        x, w = f.draw(3, 7, 11), f.draw(11, 19) if layout else f.draw(19, 11)
        targets = f.ids(19, 3, 7)
        targets[0, 2:5] = targets[2, 6] = -100
        weights = f.draw(3, 7, low=0, high=2).detach() if weighted else None
        counted = (weights if weighted else torch.ones(3, 7)) * (targets != -100)
        logits = F.linear(x, w.T if layout else w)
        flat = F.cross_entropy(logits.reshape(21, 19), targets.reshape(21), reduction="none", ignore_index=-100,
                               label_smoothing=smoothing)
        loss = (flat.reshape(3, 7) * counted).sum()
        loss.backward()
        right = counted[logits.argmax(-1) == targets].sum()
        for i, t in enumerate([x, w, targets, weights]):
            if t is not None:
                f.tensor(f"in{i}", t)
        f.tensor("out0", sums(loss.item(), counted.sum().item(), right.item()))
        f.tensor("grad0", x.grad)
        f.tensor("grad1", w.grad)


def mean_squared_error(f):
    for weighted in (False, True):
        f.case("weights" if weighted else "plain")
        prediction, target = f.draw(5, 3, 7), f.draw(5, 3, 7).detach()
        weights = f.draw(5, low=0, high=2).detach() if weighted else None
        w = weights if weighted else torch.ones(5)
        loss = (F.mse_loss(prediction, target, reduction="none").mean((1, 2)) * w).sum()
        loss.backward()
        f.tensor("in0", prediction)
        f.tensor("in1", target)
        if weighted:
            f.tensor("in2", weights)
        f.tensor("out0", sums(loss.item(), w.sum().item(), 0))
        f.tensor("grad0", prediction.grad)


def binary_cross_entropy(f):
    for weighted in (False, True):
        f.case("weights" if weighted else "plain")
        logits, targets = f.draw(5, 2, low=-4, high=4), f.draw(5, 2, low=0, high=1).detach()
        targets[:3] = (logits[:3] > 0).double()
        weights = f.draw(5, low=0, high=2).detach() if weighted else None
        w = weights if weighted else torch.ones(5)
        losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        loss = (losses.mean(1) * w).sum()
        loss.backward()
        right = (((torch.sigmoid(logits) >= 0.5) == (targets >= 0.5)).all(1) * w).sum()
        f.tensor("in0", logits)
        f.tensor("in1", targets)
        if weighted:
            f.tensor("in2", weights)
        f.tensor("out0", sums(loss.item(), w.sum().item(), right.item()))
        f.tensor("grad0", logits.grad)
def row_loss(f):
    for name, shape in (("none", None), ("rows", (5, 3)), ("samples", (5,))):
        f.case(name)
        losses = f.draw(5, 3)
        w = None if shape is None else f.draw(*shape, low=0, high=2).detach()
        each = torch.ones(5, 3) if w is None else w.reshape(5, -1).expand(5, 3)
        loss = (each * losses).sum()
        loss.backward()
        f.tensor("in0", losses)
        if w is not None:
            f.tensor("in1", w)
        f.tensor("out0", sums(loss.item(), each.sum().item(), 0))
        f.tensor("grad0", losses.grad)


def class_hits(f):
    for name, kind, number, weighted in (("top_2", 0, 2, False), ("precision", 1, 1, True),
                                         ("recall", 2, 1, False), ("iou", 3, 3, True)):
        f.case(name, kind=kind, number=number)
        logits, targets = f.draw(40, 5).detach(), f.ids(5, 40)
        w = f.draw(40, low=0, high=2).detach() if weighted else torch.ones(40)
        if kind == 0:
            hit = (logits.topk(number, 1).indices == targets[:, None]).any(1)
            counts = torch.ones(40, dtype=torch.bool)
        else:
            said, true = logits.argmax(1) == number, targets == number
            hit, counts = said & true, (None, said, true, said | true)[kind]
        f.tensor("in0", logits)
        f.tensor("in1", targets)
        if weighted:
            f.tensor("in2", w)
        f.tensor("out0", sums((w * hit).sum().item(), (w * counts).sum().item(), 0))


def ctc_loss(f):
    """Of samples that a path exists for; of some that are too short for their targets, infinite or left out."""
    plain = dict(T=9, targets=[[1, 2, 2], [3, 3, 3], [4, 1, 2]], lengths=None, counts=None)
    ragged = dict(T=9, targets=[[1, 2, 2], [3, 3, 4], [4, 1, 2]], lengths=[9, 6, 4], counts=[3, 2, 0])
    short = dict(T=5, targets=[[1, 2, 2], [3, 3, 3], [4, 1, 2]], lengths=[5, 4, 2], counts=[3, 3, 3])
    for name, case, weighted, zero in (("plain", plain, False, 0), ("ragged", ragged, True, 0),
                                       ("infinite", short, False, 0), ("zero", short, True, 1)):
        for blank in (0, 5) if name == "ragged" else (0,):
            f.case(f"{name}_blank_{blank}" if blank else name, blank=blank, zero_infinity=zero)
            logits = f.draw(3, case["T"], 6, low=-3, high=3)
            targets = torch.tensor(case["targets"])
            lengths = torch.tensor(case["lengths"] or [case["T"]] * 3)
            counts = torch.tensor(case["counts"] or [3] * 3)
            w = f.draw(3, low=0.5, high=2).detach() if weighted else torch.ones(3)
            losses = F.ctc_loss(F.log_softmax(logits, -1).transpose(0, 1), targets, lengths, counts, blank=blank,
                                reduction="none", zero_infinity=bool(zero))
            loss = (losses * w).sum()
            loss.backward()
            f.tensor("in0", logits)
            f.tensor("in1", targets)
            if case["lengths"]:
                f.tensor("in2", lengths)
                f.tensor("in3", counts)
            if weighted:
                f.tensor("in4", w)
            f.tensor("out0", sums(loss.item(), w.sum().item(), 0))
            largest = logits.amax(-1)
            f.tensor("out1", torch.stack([largest, torch.logsumexp(logits - largest[..., None], -1)], -1))
            f.tensor("grad0", logits.grad)


def recurrent(f):
    """One direction of torch.nn's layers, with an identity in the place of the input's weights. What is kept for the
    backward pass follows from their results by the formulas."""
    kinds = [("lstm", torch.nn.LSTM, 4), ("gru", torch.nn.GRU, 3), ("tanh", torch.nn.RNN, 1), ("relu", torch.nn.RNN, 1)]
    cases = [(cell, reverse, ragged) for cell in range(4) for reverse in (0, 1) for ragged in (0, 1)]
    for cell, reverse, ragged in cases:
        kind, module, gates = kinds[cell]
        B, T, H = 3, 5, 4
        f.case(f"{kind}{'_reverse' if reverse else ''}{'_lengths' if ragged else ''}", cell=cell, reversed=reverse,
               positions=T)
        lengths = torch.tensor([3, 5, 1] if ragged else [T] * B)
        options = dict(nonlinearity=kind) if gates == 1 else {}
        layer = module(gates * H, H, batch_first=True, bidirectional=True, **options).double()
        x, w, b = f.draw(B, T, gates * H), f.draw(gates * H, H), f.draw(gates * H)
        state = f.draw(B, 2 if kind == "lstm" else 1, H) if ragged else None
        side = "_reverse" if reverse else ""
        own = {"weight_ih_l0" + side: torch.eye(gates * H), "weight_hh_l0" + side: w,
               "bias_ih_l0" + side: torch.zeros(gates * H), "bias_hh_l0" + side: b}
        own.update({n: p for n, p in layer.named_parameters() if n not in own})
        first = None
        if ragged:
            none = torch.zeros(B, H)
            first = [torch.stack([none, state[:, k]] if reverse else [state[:, k], none]) for k in range(state.shape[1])]
            first = tuple(first) if kind == "lstm" else first[0]
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, last = torch.func.functional_call(layer, own, (packed, first))
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=T)
        y = y[..., H:] if reverse else y[..., :H]
        last = torch.stack([l[reverse] for l in (last if kind == "lstm" else [last])], 1)
        dy, dlast = f.draw(*y.shape), f.draw(*last.shape)
        ((y * dy).sum() + (last * dlast).sum()).backward()
        f.tensor("in0", x)
        f.tensor("in1", w)
        f.tensor("in2", b)
        if ragged:
            f.tensor("in3", state)
            f.tensor("in4", lengths)
        f.tensor("out0", y)
        f.tensor("out1", last)
        if gates > 1:
            kept_gates, kept = torch.zeros(B, T, gates * H), torch.zeros(B, T, H)
            for n in range(B):
                h = state[n, 0] if ragged else torch.zeros(H)
                c = state[n, -1] if ragged else torch.zeros(H)
                count = lengths[n].item()
                for t in range(count - 1, -1, -1) if reverse else range(count):
                    s, a = w @ h + b, x[n, t]
                    if kind == "lstm":
                        a = a + s
                        i, g, forget, o = a[:H].sigmoid(), a[2 * H:3 * H].tanh(), a[H:2 * H].sigmoid(), a[3 * H:].sigmoid()
                        c = forget * c + i * g
                        kept_gates[n, t], kept[n, t] = torch.cat([i, forget, g, o]), c
                    else:
                        r, z = (a + s)[:2 * H].sigmoid().chunk(2)
                        kept_gates[n, t], kept[n, t] = torch.cat([r, z, (a[2 * H:] + r * s[2 * H:]).tanh()]), s[2 * H:]
                    h = y[n, t]
            f.tensor("out2", kept_gates)
            f.tensor("out3", kept)
        f.tensor("dy", torch.cat([dy.flatten(), dlast.flatten()]))
        f.tensor("grad0", x.grad)
        f.tensor("grad1", w.grad)
        f.tensor("grad2", b.grad)
        if ragged:
            f.tensor("grad3", state.grad)


def losses(f):
    """Losses that are made of other ops: their mean by weight, and its gradient for each operand."""

    def case(name, operands, rows, weights=None, **numbers):
        f.case(name, **numbers)
        operands = [f.draw(*shape, low=low, high=high) if isinstance(shape, tuple) else shape
                    for shape, low, high in operands]
        w = None if weights is None else f.draw(*weights, low=0, high=2).detach()
        each = rows(*operands)
        while w is not None and w.dim() < each.dim():
            w = w[..., None]
        loss = each.mean() if w is None else (each * w).sum() / w.expand_as(each).sum()
        loss.backward()
        for i, x in enumerate(operands):
            f.tensor(f"in{i}", x)
        if w is not None:
            f.tensor("weights", w)
        f.doubles("loss", [loss.item()])
        for i, x in enumerate(operands):
            if x.grad is not None:
                f.tensor(f"grad{i}", x.grad)

    def means(function):
        return lambda *x: function(*x).flatten(1).mean(1)

    def focal(alpha, gamma):  # torchvision.ops.sigmoid_focal_loss
        def function(z, t):
            p, ce = torch.sigmoid(z), F.binary_cross_entropy_with_logits(z, t, reduction="none")
            p_t = p * t + (1 - p) * (1 - t)
            return ce * (1 - p_t) ** gamma * (alpha * t + (1 - alpha) * (1 - t) if alpha >= 0 else 1)
        return function

    def signs(*shape):
        return torch.tensor(np.random.default_rng(7).choice([-1.0, 1.0], shape))

    def divergence(t):
        def function(x, y):
            # At -infinity the gradient is the limit, which is 0; PyTorch's is NaN.
            log_p, log_q = F.log_softmax(y.clamp(min=-1e5) / t, -1), F.log_softmax(x / t, -1)
            return t * t * F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
        return function

    def contrastive(t):
        def function(a, b):
            scores = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).mT / t
            ids = torch.arange(scores.shape[1]).expand(scores.shape[:2])
            return (F.cross_entropy(scores.mT, ids, reduction="none") +
                    F.cross_entropy(scores, ids, reduction="none")) / 2
        return function

    two = [((5, 3, 4), -2, 2), ((5, 3, 4), -2, 2)]
    bits = torch.tensor(np.random.default_rng(8).choice([0.0, 1.0, 0.25], (5, 3, 4)))
    for weights in (None, (5,)):
        end = "_weights" if weights else ""
        case("l1_loss" + end, two, means(lambda p, t: F.l1_loss(p, t, reduction="none")), weights)
        case("huber_loss" + end, two, means(lambda p, t: F.huber_loss(p, t, reduction="none", delta=0.75)), weights,
             delta=0.75)
        case("hinge_loss" + end, [two[0], (signs(5, 3, 4), 0, 0)], means(lambda p, t: F.relu(1.25 - p * t)), weights,
             margin=1.25)
        case("focal_loss" + end, [((5, 3, 4), -9, 9), (bits, 0, 0)], means(focal(0.25, 2)), weights, alpha=0.25,
             gamma=2)
        case("poisson_nll" + end, [two[0], ((5, 3, 4), 0, 6)],
             means(lambda x, t: F.poisson_nll_loss(x, t, reduction="none")), weights)
        case("gaussian_nll" + end, two + [((5, 3, 4), 0.1, 3)],
             means(lambda m, t, v: F.gaussian_nll_loss(m, t, v, reduction="none")), weights)
    case("gaussian_nll_limited", [((5, 3, 4), -1e-3, 1e-3)] * 2 + [((5, 3, 4), 0, 3e-6)],
         means(lambda m, t, v: F.gaussian_nll_loss(m, t, v, reduction="none")))
    case("focal_loss_without_alpha", [((5, 3, 4), -4, 4), (bits, 0, 0)], means(focal(-1, 1.5)), alpha=-1, gamma=1.5)
    for weights in (None, (5, 3), (5,)):
        end = f"_weights_{len(weights)}" if weights else ""
        rows = [((5, 3, 7), -1, 1)] * 3
        case("triplet_loss" + end, rows, lambda a, p, n: F.triplet_margin_loss(
            a, p, n, margin=0.5, eps=1e-6, reduction="none"), weights, margin=0.5)
        case("cosine_embedding_loss" + end, rows[:2] + [(signs(5, 3), 0, 0)],
             lambda a, b, y: F.cosine_embedding_loss(a.flatten(0, 1), b.flatten(0, 1), y.flatten(), margin=0.1,
                                                     reduction="none").unflatten(0, (5, 3)), weights, margin=0.1)
        p = torch.softmax(torch.tensor(np.random.default_rng(9).normal(size=(5, 3, 7)).astype(np.float32)).double(), -1)
        case("soft_cross_entropy" + end, [((5, 3, 7), -3, 3), (p.float().double().requires_grad_(), 0, 0)],
             lambda x, q: -(q * F.log_softmax(x, -1)).sum(-1), weights)
        case("kl_divergence" + end, [((5, 3, 7), -3, 3)] * 2, divergence(2), weights, temperature=2)
        if weights is None:
            y = np.random.default_rng(10).uniform(-3, 3, (5, 3, 7)).astype(np.float32)
            y[:, :, 2] = -np.inf
            case("kl_divergence_of_classes_without_probability",
                 [((5, 3, 7), -3, 3), (torch.tensor(y).double().requires_grad_(), 0, 0)], divergence(2), temperature=2)
        case("contrastive_loss" + end, [((5, 3, 7), -1, 1)] * 2, contrastive(0.25), weights, temperature=0.25)
    classes = torch.tensor(np.random.default_rng(1).integers(0, 5, (2, 3, 4)))
    case("image_cross_entropy", [((2, 5, 3, 4), -3, 3), (classes, 0, 0)],
         lambda x, t: F.cross_entropy(x, t, reduction="none"))


def conv2d(f):
    cases = {  # batch, in, height, width, out, kernel, bias and what differs from the defaults
        "plain": (2, 3, 5, 6, 4, (3, 3), True, {}),
        "padding": (2, 3, 5, 4, 4, (3, 3), True, dict(padding=(1, 1))),
        "stride": (2, 2, 7, 8, 3, (3, 3), True, dict(stride=(2, 2), padding=(1, 1))),
        "unequal": (1, 2, 9, 8, 3, (2, 4), False, dict(stride=(3, 1), padding=(1, 2), dilation=(2, 1))),
        "dilation": (1, 2, 9, 9, 2, (3, 3), True, dict(padding=(2, 2), dilation=(2, 2))),
        "stride_and_dilation": (1, 2, 9, 10, 2, (3, 3), False, dict(stride=(2, 2), padding=(2, 1), dilation=(2, 3))),
        "groups": (2, 4, 5, 5, 6, (3, 3), True, dict(padding=(1, 1), groups=2)),
        "depthwise": (2, 3, 7, 5, 3, (3, 3), True, dict(padding=(1, 1), groups=3)),
        "depthwise_stride": (1, 3, 7, 6, 6, (3, 3), False, dict(stride=(2, 2), padding=(1, 1), groups=3)),
        "pointwise": (2, 5, 4, 3, 7, (1, 1), True, {}),
        "pointwise_stride": (1, 4, 5, 5, 3, (1, 1), False, dict(stride=(2, 2))),
    }
    for name, (n, ci, h, w, co, kernel, bias, options) in cases.items():
        groups = options.get("groups", 1)
        attributes = dict(groups=groups)
        for key in ("stride", "padding", "dilation"):
            attributes[f"{key}_h"], attributes[f"{key}_w"] = options.get(key, (0, 0) if key == "padding" else (1, 1))
        f.case(name, **attributes)
        x, weight = f.draw(n, ci, h, w), f.draw(co, ci // groups, *kernel)
        b = f.draw(co) if bias else None
        f.record([x, weight, b], F.conv2d(x, weight, b, **options))
    # Another padding after the image than before it, top, left, bottom, right.
    for name, kernel, stride, (top, left, bottom, right) in (("same_even", (4, 2), (1, 1), (1, 0, 2, 1)),
                                                             ("after_only", (3, 3), (2, 1), (0, 0, 2, 1)),
                                                             ("cut", (3, 2), (1, 2), (2, 1, -2, -1))):
        f.case(name, groups=1, stride_h=stride[0], stride_w=stride[1], padding_h=top, padding_w=left)
        x, weight, b = f.draw(2, 3, 7, 6), f.draw(4, 3, *kernel), f.draw(4)
        padded = F.pad(x, (left, right, top, bottom))
        f.record([x, weight, b], F.conv2d(padded, weight, b, stride))
    transposed = {  # batch, in, height, width, out, kernel, bias and what differs from the defaults
        "plain": (2, 3, 5, 6, 4, (3, 3), True, {}),
        "doubled": (2, 4, 3, 4, 3, (2, 2), True, dict(stride=(2, 2))),
        "unequal": (1, 2, 4, 5, 3, (3, 4), True, dict(stride=(3, 2), padding=(1, 2), output_padding=(2, 1))),
        "dilated": (2, 2, 4, 3, 3, (2, 3), False, dict(stride=(3, 1), dilation=(3, 2), output_padding=(1, 1))),
        "groups": (2, 6, 4, 4, 9, (3, 3), True, dict(stride=(2, 2), padding=(1, 1), groups=3)),
        "depthwise": (2, 3, 4, 5, 3, (3, 3), True, dict(stride=(2, 2), padding=(1, 1), groups=3)),
    }
    for name, (n, ci, h, w, co, kernel, bias, options) in transposed.items():
        groups = options.get("groups", 1)
        attributes = dict(groups=groups, transposed=1)
        for key in ("stride", "padding", "dilation"):
            attributes[f"{key}_h"], attributes[f"{key}_w"] = options.get(key, (0, 0) if key == "padding" else (1, 1))
        f.case(f"transposed_{name}", **attributes)
        x, weight = f.draw(n, ci, h, w), f.draw(ci, co // groups, *kernel)
        b = f.draw(co) if bias else None
        f.record([x, weight, b], F.conv_transpose2d(x, weight, b, **options))
    volumes = {  # depth, height and width
        "plain": (2, 2, (4, 5, 3), 3, (3, 3, 2), True, {}),
        "unequal": (1, 4, (6, 5, 4), 6, (2, 3, 1), True, dict(stride=(2, 1, 1), padding=(1, 2, 0), dilation=(3, 1, 1), groups=2)),
    }
    for name, (n, ci, size, co, kernel, bias, options) in volumes.items():
        for transposed in (0, 1):
            groups = options.get("groups", 1)
            attributes = dict(groups=groups, transposed=transposed)
            for key in ("stride", "padding", "dilation"):
                for axis, value in zip("dhw", options.get(key, (0, 0, 0) if key == "padding" else (1, 1, 1))):
                    attributes[f"{key}_{axis}"] = value
            f.case(f"volume_{name}{'_transposed' if transposed else ''}", **attributes)
            x = f.draw(n, ci, *size)
            weight = f.draw(*((ci, co // groups) if transposed else (co, ci // groups)), *kernel)
            b = f.draw(co) if bias else None
            f.record([x, weight, b], (F.conv_transpose3d if transposed else F.conv3d)(x, weight, b, **options))


def pool2d(f):
    for name, kernel, stride, padding in (("pairs", (2, 2), (2, 2), (0, 0)), ("overlapping", (3, 3), (2, 2), (1, 1)),
                                          ("unequal", (2, 5), (3, 1), (1, 2))):
        for kind, pool in (("max", F.max_pool2d), ("average", F.avg_pool2d)):
            f.case(f"{kind}_{name}", max=kind == "max", kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0],
                   stride_w=stride[1], padding_h=padding[0], padding_w=padding[1])
            x = f.draw(2, 3, 8, 7)
            f.record([x], pool(x, kernel, stride, padding))
    f.case("max_of_equal_elements", max=1, kernel_h=3, kernel_w=3, stride_h=1, stride_w=2, padding_h=1, padding_w=1)
    x = torch.tensor(f.random.integers(0, 2, (2, 2, 6, 6)).astype(np.float64), requires_grad=True)
    f.record([x], F.max_pool2d(x, 3, (1, 2), 1))
    for name, kernel, stride, padding, size in (("ceil", (3, 3), (2, 2), (0, 0), (8, 7)), ("ceil_padded", (3, 4), (2, 3), (1, 1), (8, 10)),
                                                ("ceil_begins_inside", (2, 2), (3, 3), (1, 1), (5, 6))):
        for kind, pool in (("max", F.max_pool2d), ("average", F.avg_pool2d)):
            f.case(f"{kind}_{name}", max=kind == "max", kernel_h=kernel[0], kernel_w=kernel[1], stride_h=stride[0],
                   stride_w=stride[1], padding_h=padding[0], padding_w=padding[1])
            x = f.draw(2, 3, *size)
            f.record([x], pool(x, kernel, stride, padding, ceil_mode=True))
    for name, ceil in (("skipped", False), ("skipped_ceil", True)):
        f.case(f"average_{name}", kernel_h=3, kernel_w=3, stride_h=2, stride_w=2, padding_h=1, padding_w=1, skip_padding=1)
        x = f.draw(2, 3, 8, 7)
        f.record([x], F.avg_pool2d(x, 3, 2, 1, ceil_mode=ceil, count_include_pad=False))
    for kind, pool in (("max", F.adaptive_max_pool2d), ("average", F.adaptive_avg_pool2d)):
        f.case(f"{kind}_adaptive", max=kind == "max", kernel_h=0, kernel_w=0)
        x = f.draw(2, 3, 10, 7)
        f.record([x], pool(x, (3, 5)))


def concat(f):
    for axis, shapes in ((1, ((2, 3, 4, 5), (2, 2, 4, 5))), (3, ((2, 3, 2, 1), (2, 3, 2, 6)))):
        f.case(f"concat_axis_{axis}", axis=axis)
        parts = [f.draw(*shape) for shape in shapes]
        f.record(parts, torch.cat(parts, axis))


def slice_(f):
    def case(name, shape, make, first=(), step=(), **numbers):
        f.case(name, **{f"first{d}": n for d, n in enumerate(first)}, **{f"step{d}": n for d, n in enumerate(step)}, **numbers)
        x = f.draw(*shape)
        f.record([x], make(x).contiguous())

    case("part", (2, 3, 5, 4), lambda x: x[:, :, 1:4], (0, 0, 1))
    case("steps", (2, 7, 9), lambda x: x[:, 1::2, 2::3], (0, 1, 2), (1, 2, 3))
    case("flip", (2, 3, 5), lambda x: x.flip(1, 2), (0, 2, 4), (1, -1, -1))
    case("pad", (2, 3, 4), lambda x: F.pad(x, (2, 1, 0, 3), value=0.5), (0, 0, -2), value=0.5)
    case("reflect", (2, 3, 4, 5), lambda x: F.pad(x, (2, 4, 3, 1), "reflect"), (0, 0, -3, -2), outside=1)
    case("replicate", (2, 3, 4, 5), lambda x: F.pad(x, (2, 4, 3, 1), "replicate"), (0, 0, -3, -2), outside=2)


def resize2d(f):
    modes = ("nearest", "bilinear", "bicubic")
    for kind, mode in enumerate(modes):
        for align in (False, True) if kind else (None,):
            for name, size, factor in (("by_2", None, 2.0), ("by_2.6", None, 2.6), ("to_9x2", (9, 2), None),
                                       ("to_1x7", (1, 7), None)):
                x = torch.zeros(2, 3, 4, 5)
                scale = [0, 0]
                result = [int(n * factor) for n in (4, 5)] if factor else size
                for i, n in enumerate((4, 5)):
                    scale[i] = (n - 1) / (result[i] - 1) if align and result[i] > 1 else 0 if align else \
                        1 / factor if factor else n / result[i]
                f.case(f"{mode}{'_aligned' if align else ''}_{name}", kind=kind, align_corners=bool(align),
                       scale_h=scale[0], scale_w=scale[1])
                x = f.draw(2, 3, 4, 5)
                f.record([x], F.interpolate(x, size=size, scale_factor=factor, mode=mode, align_corners=align))


def optimizer(f):
    def steps(make, **attributes):
        n, count = 25, 5
        p = torch.nn.Parameter(f.draw(n).detach().clone())
        f.tensor("p0", p.clone())
        optimizer = make([p])
        gradients, results = [], []
        for _ in range(count):
            g = f.draw(n).detach()
            p.grad = g.clone()
            optimizer.step()
            gradients.append(g)
            results.append(p.detach().clone())
        f.tensor("g", torch.stack(gradients))
        f.tensor("p", torch.stack(results))

    for name, a in (("adamw", dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1)),
                    ("adamw_no_decay", dict(lr=1e-2, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0))):
        f.case(name, adamw=1, **a)
        steps(lambda p: torch.optim.AdamW(p, lr=a["lr"], betas=(a["beta1"], a["beta2"]), eps=a["eps"],
                                          weight_decay=a["weight_decay"]))
    for name, a in (("sgd", dict(lr=0.1, momentum=0, weight_decay=0, nesterov=0)),
                    ("sgd_decay", dict(lr=0.1, momentum=0, weight_decay=0.01, nesterov=0)),
                    ("sgd_momentum", dict(lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=0)),
                    ("sgd_nesterov", dict(lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=1))):
        f.case(name, **a)
        steps(lambda p: torch.optim.SGD(p, lr=a["lr"], momentum=a["momentum"], weight_decay=a["weight_decay"],
                                        nesterov=bool(a["nesterov"])))


def lion(f):
    """As in google/automl, lion/lion_pytorch.py."""
    for name, a in (("lion", dict(lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.1)),
                    ("lion_no_decay", dict(lr=1e-2, beta1=0.8, beta2=0.95, weight_decay=0))):
        f.case(name, **a)
        n, count = 25, 8
        p, m = f.draw(n).detach(), torch.zeros(n)
        f.tensor("p0", p)
        gradients, results = [], []
        for _ in range(count):
            g = f.draw(n).detach()
            p = p * (1 - a["lr"] * a["weight_decay"])
            p = p - a["lr"] * torch.sign(m * a["beta1"] + g * (1 - a["beta1"]))
            m = m * a["beta2"] + g * (1 - a["beta2"])
            gradients.append(g)
            results.append(p)
        f.tensor("g", torch.stack(gradients))
        f.tensor("p", torch.stack(results))


def adafactor(f):
    """torch.optim.Adafactor; in doubles its eps1 is not that of floats, so it is given."""
    for name, shape, scale, a in (("matrix", (7, 5), 1, dict(lr=1e-2, weight_decay=0)),
                                  ("matrix_decay", (3, 11), 1, dict(lr=0.3, weight_decay=0.1)),
                                  ("matrix_of_small_gradients", (4, 6), 1e-5, dict(lr=0.1, weight_decay=0)),
                                  ("row", (1, 9), 1, dict(lr=0.1, weight_decay=0)),
                                  ("vector", (25,), 1, dict(lr=0.5, weight_decay=0.01))):
        f.case(name, **a)
        p = torch.nn.Parameter(f.draw(*shape).detach().clone())
        f.tensor("p0", p.clone())
        optimizer = torch.optim.Adafactor([p], lr=a["lr"], eps=(2.0**-23, 1e-3), weight_decay=a["weight_decay"])
        gradients, results = [], []
        for _ in range(6):
            g = (scale * f.draw(*shape).detach()).float().double()
            p.grad = g.clone()
            optimizer.step()
            gradients.append(g)
            results.append(p.detach().clone())
        f.tensor("g", torch.stack(gradients))
        f.tensor("p", torch.stack(results))


def muon(f):
    """torch.optim.Muon, with products in double instead of bfloat16."""
    for name, shape, a in (("wide", (4, 9), dict(lr=0.02, momentum=0.95, nesterov=1, weight_decay=0.1, original=1)),
                           ("tall", (9, 4), dict(lr=0.02, momentum=0.95, nesterov=1, weight_decay=0, original=1)),
                           ("square_plain", (6, 6), dict(lr=0.1, momentum=0.8, nesterov=0, weight_decay=0.01, original=1)),
                           ("wide_as_adamw", (3, 11), dict(lr=1e-2, momentum=0.95, nesterov=1, weight_decay=0.1, original=0)),
                           ("row", (1, 7), dict(lr=0.1, momentum=0.9, nesterov=1, weight_decay=0, original=0))):
        kind = "original" if a.pop("original") else "match_rms_adamw"
        f.case(name, scale=torch.optim._muon._adjust_lr(1.0, kind, torch.Size(shape)), **a)
        p = torch.nn.Parameter(f.draw(*shape).detach().clone())
        f.tensor("p0", p.clone())
        optimizer = torch.optim.Muon([p], lr=a["lr"], weight_decay=a["weight_decay"], momentum=a["momentum"],
                                     nesterov=bool(a["nesterov"]), adjust_lr_fn=kind)
        gradients, results = [], []
        for _ in range(6):
            g = f.draw(*shape).detach()
            p.grad = g.clone()
            with mock.patch.object(torch, "bfloat16", torch.float64):
                optimizer.step()
            gradients.append(g)
            results.append(p.detach().clone())
        f.tensor("g", torch.stack(gradients))
        f.tensor("p", torch.stack(results))


def adam_mini(f):
    """The authors' own code, by the names of the blocks that it knows; columns are rows of the transpose."""
    for name, shape, block, a in (("rows", (5, 7), "mlp.weight", dict(lr=1e-2, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1)),
                                  ("columns", (6, 4), "mlp.weight", dict(lr=1e-2, beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0, by_column=1)),
                                  ("tokens", (9, 3), "wte.weight", dict(lr=1e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.01)),
                                  ("vector", (25,), "norm.weight", dict(lr=1e-2, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0))):
        f.case(name, **a)
        start = f.draw(*shape).detach().clone()
        f.tensor("p0", start)
        turn = (lambda x: x.T.contiguous()) if a.get("by_column") else (lambda x: x.clone())
        p = torch.nn.Parameter(turn(start))
        optimizer = Adam_mini([(block, p)], lr=a["lr"], betas=(a["beta1"], a["beta2"]), eps=a["eps"],
                              weight_decay=a["weight_decay"], verbose=False)
        gradients, results = [], []
        for _ in range(6):
            g = f.draw(*shape).detach()
            p.grad = turn(g)
            optimizer.step()
            gradients.append(g)
            results.append(turn(p.detach()))
        f.tensor("g", torch.stack(gradients))
        f.tensor("p", torch.stack(results))


def loss_scaler(f):
    """PyTorch's own GradScaler, driven by gradients that are infinite where a pattern says so."""
    def trace(name, pattern, **a):
        f.case(name, **a)
        scaler = torch.amp.GradScaler("cpu", init_scale=a["initial"], growth_factor=a["growth"],
                                      backoff_factor=a["backoff"], growth_interval=a["interval"])
        p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float32))
        optimizer = torch.optim.SGD([p], lr=1e-3)
        scales, clean = [], []
        for overflow in pattern:
            scaler.scale(p.sum())  # creates the scaler's state; the gradient is given below
            p.grad = torch.full((1,), np.inf if overflow else 1, dtype=torch.float32)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
            clean.append(scaler._get_growth_tracker())
        f.tensor("overflow", torch.tensor(pattern))
        f.tensor("scale", torch.tensor(scales))
        f.tensor("clean", torch.tensor(clean))

    def random(count, share, seed):
        return (np.random.default_rng(seed).uniform(size=count) < share).astype(np.int64).tolist()

    usual = dict(initial=65536, growth=2, backoff=0.5)
    trace("now_and_then", random(120, 0.1, 1), interval=5, **usual)
    trace("often", random(120, 0.4, 2), interval=2, **usual)
    trace("clean", [0] * 120, interval=50, **usual)
    trace("bursts", ([1] * 20 + [0] * 13) * 2 + [1, 0] * 10, interval=4, **usual)
    trace("every_update", random(60, 0.3, 3), interval=1, **usual)
    trace("odd_factors", random(120, 0.25, 4), initial=1000, growth=1.7, backoff=0.3, interval=3)
    trace("to_the_end_of_floats", [0] * 12 + [1] + [0] * 3, initial=2.0**120, growth=2, backoff=0.5, interval=1)
    trace("past_the_end_of_floats", [0] * 12 + [1] + [0] * 9, initial=3e37, growth=3, backoff=0.25, interval=2)


KINDS = ("constant cosine linear restarts one_cycle cyclic step multistep exponential stable_decay inverse_sqrt "
         "plateau").split()
CYCLES = dict(triangular=0, triangular2=1, exp_range=2)
ANNEALS = dict(cos=1, linear=2)


def moved(optimizer):
    group = optimizer.param_groups[0]
    return group["betas"][0] if "betas" in group else group["momentum"]


def optimizer_of(rule, lr, parameters):
    if rule == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=0.1)
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)


def schedules(f):
    """The names of attributes are those of ac_schedule's fields."""
    S = torch.optim.lr_scheduler

    def trace(name, make, count, moves=False, rule="adamw", **a):
        f.case(name, **(a | dict(kind=KINDS.index(a["kind"]))))
        optimizer = optimizer_of(rule, a["lr"], [torch.nn.Parameter(torch.zeros(1))])
        scheduler = make(optimizer)
        warmup = a.get("warmup", 0)
        if warmup:
            first = S.LinearLR(optimizer, start_factor=1 / (warmup + 1), end_factor=1, total_iters=warmup)
            scheduler = S.SequentialLR(optimizer, [first, scheduler], [warmup])
        rates, momenta = [], []
        for update in range(count):
            rates.append(optimizer.param_groups[0]["lr"])
            momenta.append(moved(optimizer))
            optimizer.step()
            if update + 1 < count:
                scheduler.step()
        f.doubles("rate", rates)
        if moves:
            f.doubles("momentum", momenta)

    trace("constant", lambda o: S.ConstantLR(o, factor=1), 40, kind="constant", lr=3e-4)
    trace("constant_warmup", lambda o: S.ConstantLR(o, factor=1), 40, kind="constant", lr=3e-4, warmup=7)
    trace("linear", lambda o: S.LinearLR(o, 1, 0.1, 60), 90, kind="linear", lr=0.02, min_lr=0.002, total=60)
    trace("linear_to_zero", lambda o: S.LinearLR(o, 1, 0, 50), 50, kind="linear", lr=0.02, total=50)
    trace("linear_warmup", lambda o: S.LinearLR(o, 1, 0.25, 50), 90, kind="linear", lr=0.02, min_lr=0.005,
          warmup=10, total=60)
    trace("cosine", lambda o: S.CosineAnnealingLR(o, 80, 1e-5), 81, kind="cosine", lr=1e-3, min_lr=1e-5, total=80)
    trace("cosine_warmup", lambda o: S.CosineAnnealingLR(o, 80, 1e-5), 86, kind="cosine", lr=1e-3, min_lr=1e-5,
          warmup=5, total=85)
    trace("restarts", lambda o: S.CosineAnnealingWarmRestarts(o, 13, 1, 1e-4), 90, kind="restarts", lr=0.1,
          min_lr=1e-4, period=13)
    trace("restarts_longer", lambda o: S.CosineAnnealingWarmRestarts(o, 5, 3), 220, kind="restarts", lr=0.1,
          period=5, period_factor=3)
    trace("restarts_of_one", lambda o: S.CosineAnnealingWarmRestarts(o, 1, 2, 1e-3), 70, kind="restarts", lr=0.1,
          min_lr=1e-3, period=1, period_factor=2)

    def one_cycle(name, count, rule="adamw", three=False, anneal="cos", rise=0.3, start=25, end=1e4, low=0.85, high=0.95):
        trace(name, lambda o: S.OneCycleLR(o, 0.05, total_steps=count, pct_start=rise, anneal_strategy=anneal,
                                           base_momentum=low, max_momentum=high, div_factor=start,
                                           final_div_factor=end, three_phase=three), count, True, rule,
              kind="one_cycle", lr=0.05, total=count, rise=rise, anneal=ANNEALS[anneal], three_phases=three,
              start_divisor=start, end_divisor=end, min_momentum=low, max_momentum=high)

    one_cycle("one_cycle", 100)
    one_cycle("one_cycle_of_sgd", 77, rule="sgd")
    one_cycle("one_cycle_linear", 83, anneal="linear", rise=0.45, start=10, end=100, low=0.7, high=0.99)
    one_cycle("one_cycle_three", 101, three=True, rise=0.4)
    one_cycle("one_cycle_three_linear", 64, three=True, anneal="linear")
    one_cycle("one_cycle_short", 3)

    def cyclic(name, count, up, down=None, mode="triangular", gamma=1.0, rule="adamw", low=0.8, high=0.9):
        trace(name, lambda o: S.CyclicLR(o, 1e-3, 6e-2, up, down, mode, gamma, base_momentum=low, max_momentum=high),
              count, True, rule, kind="cyclic", lr=6e-2, min_lr=1e-3, period=up, fall=down or 0, cycle=CYCLES[mode],
              gamma=gamma, min_momentum=low, max_momentum=high)

    cyclic("triangular", 100, 8)
    cyclic("triangular_of_sgd", 60, 7, rule="sgd", low=0.5, high=0.95)
    cyclic("triangular_steep", 100, 3, 14)
    cyclic("triangular2", 150, 11, mode="triangular2")
    cyclic("triangular2_steep", 150, 11, 4, mode="triangular2")
    cyclic("exp_range", 150, 10, mode="exp_range", gamma=0.994)
    trace("step", lambda o: S.StepLR(o, 7, 0.5), 90, kind="step", lr=0.1, period=7, gamma=0.5)
    trace("step_default", lambda o: S.StepLR(o, 10), 40, kind="step", lr=0.1, period=10)
    trace("multistep", lambda o: S.MultiStepLR(o, [6, 7, 40], 0.3), 60, kind="multistep", lr=0.1, gamma=0.3,
          milestone0=6, milestone1=7, milestone2=40)
    trace("exponential", lambda o: S.ExponentialLR(o, 0.97), 200, kind="exponential", lr=0.1, gamma=0.97)
    trace("exponential_warmup", lambda o: S.ExponentialLR(o, 0.97), 60, kind="exponential", lr=0.1, gamma=0.97,
          warmup=9)
    trace("exponential_up", lambda o: S.ExponentialLR(o, 1.2), 100, kind="exponential", lr=1e-7, gamma=1.2)

    def plateau(name, losses, absolute=False, factor=0.1, low=0, **a):
        f.case(name, kind=KINDS.index("plateau"), lr=0.1, gamma=factor, min_lr=low, threshold_absolute=absolute, **a)
        optimizer = optimizer_of("adamw", 0.1, [torch.nn.Parameter(torch.zeros(1))])
        scheduler = S.ReduceLROnPlateau(optimizer, factor=factor, patience=max(a["patience"], 0),
                                        cooldown=a.get("cooldown", 0), threshold=max(a["threshold"], 0),
                                        threshold_mode="abs" if absolute else "rel", min_lr=low)
        rates = []
        for loss in losses:
            scheduler.step(loss)
            rates.append(optimizer.param_groups[0]["lr"])
        f.doubles("loss", losses)
        f.doubles("rate", rates)

    def noisy(count, seed):
        noise = np.random.default_rng(seed).uniform(-0.05, 0.05, count)
        return [1 / (1 + 0.1 * i) + float(n) for i, n in enumerate(noise)]

    # A negative setting is ac_schedule's zero.
    plateau("plateau", noisy(200, 1), patience=5, threshold=1e-4, factor=0.5)
    plateau("plateau_cooldown", noisy(200, 2), patience=2, cooldown=4, threshold=0.01, factor=0.5)
    plateau("plateau_impatient", noisy(60, 3), patience=-1, threshold=-1, factor=0.9)
    plateau("plateau_absolute", noisy(200, 4), absolute=True, patience=3, cooldown=1, threshold=0.02, factor=0.3)
    plateau("plateau_floor", [1.0] * 80, patience=3, threshold=1e-4, factor=0.4, low=1e-3)
    plateau("plateau_to_the_end", [1.0] * 60, patience=1, threshold=1e-4)
    plateau("plateau_below_zero", [-1.0, -1.5, -1.5001, -1.6, -1.6, -1.6, -1.6, -2.0], patience=1, threshold=0.01)


def scheduled_updates(f):
    """A linear layer of two outputs, trained while a schedule moves rate and momentum."""
    S = torch.optim.lr_scheduler

    def train(name, rule, make, **a):
        f.case(name, adamw=rule == "adamw", **a)
        x, y = f.draw(4, 3).detach(), f.draw(4, 2).detach()
        w = torch.nn.Parameter(f.draw(2, 3).detach().clone())
        f.tensor("x", x)
        f.tensor("y", y)
        f.tensor("p0", w.clone())
        optimizer = optimizer_of(rule, a["lr"], [w])
        scheduler, results = make(optimizer), []
        for _ in range(a["updates"]):
            optimizer.zero_grad()
            F.mse_loss(x @ w.T, y).backward()
            optimizer.step()
            scheduler.step()
            results.append(w.detach().clone())
        f.tensor("p", torch.stack(results))

    train("one_cycle", "adamw", lambda o: S.OneCycleLR(o, 0.05, total_steps=30), kind=KINDS.index("one_cycle"), lr=0.05,
          total=30, updates=29)
    train("cyclic", "adamw", lambda o: S.CyclicLR(o, 1e-3, 0.05, 4, 7), kind=KINDS.index("cyclic"), lr=0.05,
          min_lr=1e-3, period=4, fall=7, updates=30)
    train("one_cycle_of_sgd", "sgd", lambda o: S.OneCycleLR(o, 0.1, total_steps=30), kind=KINDS.index("one_cycle"),
          lr=0.1, total=30, updates=29)


def practice(f):
    """Changes of gradients, rates and weights around the step: a convolution and two linear layers (the last is stored
    [in, out]), five updates on data of their own."""
    from timm.utils.agc import adaptive_clip_grad
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    updates, samples = 5, 4

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.mid, self.head = torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.Linear(27, 5), torch.nn.Linear(5, 4)

        def forward(self, x):
            return self.head(torch.tanh(self.mid(torch.tanh(self.conv(x)).flatten(1))))

    def flat(net):
        return torch.cat([(p.T if n == "head.weight" else p).detach().reshape(-1) for n, p in net.named_parameters()])

    def train(name, optimizer, between=lambda net, update: None, change=None, ema=None, **attributes):
        f.case(name, updates=updates, **attributes)
        net = Net()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(f.draw(*p.shape, low=-0.5, high=0.5))
        x, y = f.draw(updates, samples, 2, 3, 3).detach(), f.draw(updates, samples, 4, low=-2, high=2).detach()
        f.tensor("x", x.reshape(updates, -1))
        f.tensor("y", y.reshape(updates, -1))
        f.tensor("p0", flat(net))
        o, after, averages = optimizer(net), [], []
        average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(ema)) if ema else None
        for u in range(updates):
            if change:
                change(o, u)
            o.zero_grad()
            F.mse_loss(net(x[u]), y[u]).backward()
            between(net, u)
            o.step()
            after.append(flat(net))
            if ema:
                average.update_parameters(net)
                averages.append(flat(average.module))
        f.tensor("p", torch.stack(after))
        if ema:
            f.tensor("ema", torch.stack(averages))

    lr, eps, decay, clip = 0.02, 1e-2, 0.1, 0.3  # what floats lose of a gradient a small epsilon would make large
    own = dict(rate0=0.25, decay0=0.3, rate1=2, decay1=0.2, clip2=0.05, rate_then=0.75, decay_then=0)
    norm = torch.nn.utils.clip_grad_norm_

    def groups(rule):
        def make(net):
            p = dict(net.named_parameters())
            lists = [([p["conv.weight"]], own["rate0"], own["decay0"]),
                     ([v for n, v in p.items() if n.endswith("bias")], own["rate1"], own["decay1"]),
                     ([p["head.weight"]], 1, decay), ([p["mid.weight"]], 1, decay)]
            dicts = [dict(params=ps, lr=lr * rate, weight_decay=wd) for ps, rate, wd in lists]
            return (torch.optim.AdamW(dicts, lr=lr, eps=eps) if rule == "adamw" else
                    torch.optim.SGD(dicts, lr=lr, momentum=0.9))

        return make

    def clip_groups(net, update):
        norm([net.head.weight], own["clip2"])
        norm([p for n, p in net.named_parameters() if n != "head.weight"], clip)

    def change(o, update):  # of the first group, before the fourth update
        if update == 3:
            o.param_groups[0]["lr"] = lr * own["rate_then"]
            o.param_groups[0]["weight_decay"] = own["decay_then"]

    for rule in ("adamw", "sgd"):
        train(f"groups_{rule}", groups(rule), clip_groups, change, adamw=rule == "adamw", lr=lr, epsilon=eps,
              weight_decay=decay, clip=clip, **own)

    def adamw(net):
        return torch.optim.AdamW(net.parameters(), lr=lr, eps=eps, weight_decay=0)

    def sgd(net):
        return torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)

    for rule, make in (("adamw", adamw), ("sgd", sgd)):
        common = dict(adamw=rule == "adamw", lr=lr, epsilon=eps)
        train(f"value_{rule}", make, lambda net, u: torch.nn.utils.clip_grad_value_(net.parameters(), 0.02), value=0.02,
              **common)
        train(f"each_{rule}", make, lambda net, u: [norm([p], 0.1) for p in net.parameters()], each=0.1, **common)
        train(f"agc_{rule}", make, lambda net, u: adaptive_clip_grad(net.parameters(), 0.05, 1e-3), agc=0.05, **common)
        train(f"ema_{rule}", make, ema=0.9, average=0.9, **common)


def gpt2_tiny(folder):
    """A whole GPT-2, as transformers makes, stores and differentiates it."""
    from safetensors.torch import save_file
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(7)
    config = GPT2Config(vocab_size=61, n_positions=16, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).float()
    with torch.no_grad():  # biases and norms of a fresh model are zeros and ones: nothing would test them
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn(p.shape, dtype=torch.float32))
    names = [n for n, _ in model.named_parameters()]
    save_file({
n: p.detach().contiguous() for n, p in model.named_parameters()},
              folder / "gpt2_tiny.safetensors", metadata={"format": "pt"})
    (folder / "gpt2_tiny.safetensors").chmod(0o644)
    model = model.double().eval()
    ids = torch.randint(0, 61, (3, 17))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].clone()
    targets[1, 10:] = -100
    logits = model(inputs).logits
    loss = F.cross_entropy(logits.reshape(-1, 61), targets.reshape(-1), reduction="sum", ignore_index=-100)
    loss.backward()
    f = File(folder, "gpt2_results")
    f.case("gpt2_results", layers=2, heads=3, width=24, context=16, vocab=61, batch=3, ignore_index=-100)
    f.tensor("tokens", inputs)
    f.tensor("targets", targets)
    f.tensor("loss", torch.tensor([loss.item(), float((targets != -100).sum())]))
    f.tensor("logits", logits[:, -1])
    parameters = dict(model.named_parameters())
    for n in names:
        g = parameters[n].grad
        f.tensor(f"norm.{n.removeprefix('transformer.')}", g.norm().reshape(1))
    for n in ("transformer.wpe.weight", "transformer.h.0.ln_1.weight", "transformer.h.1.attn.c_attn.bias",
              "transformer.ln_f.bias"):
        f.tensor(n.removeprefix("transformer."), parameters[n].grad)
    f.close()


def gpt2_frozen(folder):
    """gpt2_tiny; its first block and its embeddings, which the head shares, stay as they are: 20 updates of AdamW."""
    from safetensors.torch import load_file
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=61, n_positions=16, n_embd=24, n_layer=2, n_head=3, resid_pdrop=0.0,
                        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).double().train()
    model.load_state_dict(load_file(folder / "gpt2_tiny.safetensors"), strict=False)
    trained = {}
    for n, p in model.named_parameters():
        n = n.removeprefix("transformer.")
        p.requires_grad_(not n.startswith(("wte", "wpe", "h.0.")))
        if p.requires_grad:
            trained[n] = p
    lr, eps, decay, updates = 1e-3, 1e-4, 0.1, 20  # of key biases the gradient is noise
    f = File(folder, "gpt2_frozen")
    f.case("gpt2_frozen", lr=lr, epsilon=eps, weight_decay=decay, updates=updates)
    ids = f.ids(61, updates, 3, 17)
    f.tensor("ids", ids)
    optimizer = torch.optim.AdamW([dict(params=[p for p in trained.values() if p.dim() > 1], weight_decay=decay),
                                   dict(params=[p for p in trained.values() if p.dim() == 1], weight_decay=0)],
                                  lr=lr, eps=eps)
    losses = []
    for batch in ids:
        optimizer.zero_grad()
        logits = model(batch[:, :-1]).logits
        loss = F.cross_entropy(logits.reshape(-1, 61), batch[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    f.doubles("losses", losses)
    for n, p in trained.items():
        f.tensor(n, p)
    f.close()


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    writers = dict(linear=linear, matmul=matmul, gather=gather,
                   layer_norm=layer_norm, functions=functions, pointwise=pointwise,
                   rms_norm=rms_norm, group_norm=group_norm, batch_norm=batch_norm,
                   weight_standardisation=weight_standardisation, binary_cross_entropy=binary_cross_entropy,
                   softmax=softmax, reduce=reduce, cumulative_sum=cumulative_sum, argmax=argmax, top_k=top_k,
                   attention=attention, rope=rope, permute=permute, cross_entropy=cross_entropy,
                   linear_cross_entropy=linear_cross_entropy, mean_squared_error=mean_squared_error, row_loss=row_loss,
                   class_hits=class_hits,
                   ctc_loss=ctc_loss, recurrent=recurrent, losses=losses, conv2d=conv2d,
                   pool2d=pool2d, concat=concat, slice=slice_, resize2d=resize2d, optimizer=optimizer, lion=lion,
                   adafactor=adafactor, muon=muon, adam_mini=adam_mini,
                   loss_scaler=loss_scaler, schedules=schedules, scheduled_updates=scheduled_updates,
                   practice=practice)
    only = sys.argv[2:]
    for name, write in writers.items():
        if only and name not in only:
            continue
        f = File(folder, name)
        write(f)
        f.close()
    if not only or "gpt2_tiny" in only:
        gpt2_tiny(folder)
    if not only or "gpt2_frozen" in only:
        gpt2_frozen(folder)


if __name__ == "__main__":
    main()
