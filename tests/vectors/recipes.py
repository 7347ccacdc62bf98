#!/usr/bin/env python3
"""Trains the recipes in examples/ by PyTorch in double, on the same numbers, and prints the loss of the last window
of each, which is a constant of its program.

    python recipes.py
"""
import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
f32 = np.float32


class Numbers:
    """examples/recipe.h's: floats in [-1, 1)."""

    def __init__(self):
        self.state = 1

    def __call__(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return f32(f32(self.state >> 8) / f32(1 << 23) - f32(1))


def train(name, layers, fill, loss, updates, rate):
    """Layers [(in, out)] have a weight and then a bias; `fill` gives the arrays of a window."""
    draw = Numbers()
    parameters = []
    for into, out in layers:
        for shape in ((out, into), (out,)):
            values = [draw() / f32(2) for _ in range(int(np.prod(shape)))]
            parameters.append(torch.tensor(np.array(values, f32).reshape(shape).astype(float), requires_grad=True))
    first = None
    for _ in range(updates):
        n = [lambda x, k=k: F.linear(x, parameters[2 * k], parameters[2 * k + 1]) for k in range(len(layers))]
        window = [torch.tensor(np.array(x, f32).astype(float)) for x in (fill(draw, n) if fill is bandit else fill(draw))]
        value = loss(n, *window)
        for p, g in zip(parameters, torch.autograd.grad(value, parameters)):
            p.data -= rate * g
        first = first or value.item()
    print(f"{name}: {first:.6f}, after {updates} updates {value.item():.9g}")


def huber(draw):
    x, y = [], []
    for i in range(32):
        x.append([draw() for _ in range(4)])
        y.append([x[i][0] - f32(2) * x[i][1] * x[i][2] + (f32(10) * draw() if i % 8 == 0 else f32(0))])
    return x, y


def rare(draw):
    x = [[draw() for _ in range(2)] for _ in range(64)]
    return x, [[float(a + b > f32(1.25))] for a, b in x]


def triplets(draw):
    x = []
    for i in range(32):
        sign = f32(1 if i % 2 else -1)
        x.append([[f32(2) * draw() if f else (sign if k < 2 else -sign) * (f32(1) + draw() / f32(2)) for f in range(4)]
                  for k in range(3)])
    return [x]


def pairs(draw):
    image, text = [], []
    for _ in range(32):
        a, b = draw(), draw()
        image.append([(a if k % 2 else b) + draw() / f32(4) for k in range(6)])
        text.append([(a if k < 2 else -b) + draw() / f32(4) for k in range(5)])
    return np.array(image).reshape(4, 8, 6), np.array(text).reshape(4, 8, 5)


def teacher(draw):
    x = [[draw() for _ in range(3)] for _ in range(32)]
    return x, [[f32(3) * p[c % 3] * f32(1 if c < 3 else -1) + p[0] * p[1] for c in range(4)] for p in x]


def mixtures(draw):
    x, mixed = [], []
    for _ in range(32):
        share = (draw() + f32(1)) / f32(2)
        point, target = [f32(0)] * 2, [f32(0)] * 3
        for part in (share, f32(1) - share):
            a, b = draw(), draw()
            point[0] += part * a
            point[1] += part * b
            target[2 if a > 0 else int(b > 0)] += part
        x.append(point)
        mixed.append(target)
    return x, mixed


def codes(draw):
    x, noise = [], []
    for _ in range(32):
        a, b = draw(), draw()
        x.append([(a if k % 2 else b) + draw() / f32(8) for k in range(6)])
        noise.append([f32(1.5) * draw() for _ in range(2)])
    return x, noise


def graphs(draw):
    """examples/graph_network.c's."""
    nodes, source, target, y = [], [], [], []
    for _ in range(8):
        nodes.append([[draw() for _ in range(3)] for _ in range(6)])
        ends, total = ([], []), [f32(0)] * 6
        for _ in range(12):
            for k in range(2):
                ends[k].append(min(int((draw() + f32(1)) / f32(2) * f32(6)), 5))
            total[ends[1][-1]] += nodes[-1][ends[0][-1]][0]
        source.append(ends[0])
        target.append(ends[1])
        y.append([[total[k] * nodes[-1][k][1]] for k in range(6)])
    return nodes, source, target, y


def quarters(draw):
    x = [[draw() for _ in range(4)] for _ in range(32)]
    return x, [[(c if b > 0 else -d) if a > 0 else (c * d if b > 0 else f32(1) - c)] for a, b, c, d in x]


def graph_network(n, x, source, target, y):
    h = torch.tanh(n[0](x))
    rows = lambda ids: ids.long()[..., None].expand(-1, -1, h.shape[-1])
    messages = torch.tanh(n[1](torch.cat([h.gather(1, rows(source)), h.gather(1, rows(target))], -1)))
    h = torch.tanh(n[2](torch.cat([h, torch.zeros_like(h).scatter_add(1, rows(target), messages)], -1)))
    return F.mse_loss(n[3](h), y)


def mixture_of_experts(n, x, y):
    """The last layer is one of each expert: of all products those of an expert with its own weights."""
    best, ids = n[0](x).topk(2)
    said = n[2](torch.tanh(n[1](x)).reshape(-1, 4, 6)).diagonal(dim1=1, dim2=2)
    return F.mse_loss((best.softmax(-1) * said.gather(1, ids)).sum(-1, keepdim=True), y)


def focal(z, t):
    p, ce = torch.sigmoid(z), F.binary_cross_entropy_with_logits(z, t, reduction="none")
    p_t = p * t + (1 - p) * (1 - t)
    return (ce * (1 - p_t) ** 2 * (0.25 * t + 0.75 * (1 - t))).mean()


def clip(n, image, text):
    a, b = (F.normalize(n[k + 1](torch.tanh(n[k](x))), dim=-1) for k, x in ((0, image), (2, text)))
    scores = a @ b.mT / 0.2
    ids = torch.arange(8).expand(4, 8)
    return (F.cross_entropy(scores, ids) + F.cross_entropy(scores.mT, ids)) / 2


def vae(n, x, noise):
    hidden = torch.tanh(n[0](x))
    mean, log_variance = n[1](hidden), n[2](hidden)
    out = n[4](torch.tanh(n[3](mean + torch.exp(log_variance / 2) * noise)))
    return F.mse_loss(out, x) + 0.05 * ((mean**2 + torch.exp(log_variance) - log_variance - 1) / 2).sum(-1).mean()


def net(n, x):
    return n[1](torch.tanh(n[0](x)))


def triplet(n, x):
    a, p, q = net(n, x).unbind(1)
    return F.triplet_margin_loss(a, p, q, margin=2, eps=1e-6)


train("huber_regression", [(4, 16), (16, 1)], huber, lambda n, x, y: F.huber_loss(net(n, x), y, delta=0.5), 200, 0.1)
train("focal_loss", [(2, 16), (16, 1)], rare, lambda n, x, t: focal(net(n, x), t), 300, 1)
train("siamese", [(4, 16), (16, 8)], triplets, triplet, 40, 0.02)
train("contrastive", [(6, 16), (16, 8), (5, 16), (16, 8)], pairs, clip, 200, 0.2)
train("distillation", [(3, 16), (16, 4)], teacher, lambda n, x, t: 4 * F.kl_div(
    F.log_softmax(net(n, x) / 2, -1), F.log_softmax(t / 2, -1), reduction="batchmean", log_target=True), 200, 0.1)
train("mixup", [(2, 16), (16, 3)], mixtures, lambda n, x, p: F.cross_entropy(net(n, x), p), 200, 0.2)
train("vae", [(6, 16), (16, 2), (16, 2), (2, 16), (16, 6)], codes, vae, 200, 0.1)
train("graph_network", [(3, 8), (16, 8), (16, 8), (8, 1)], graphs, graph_network, 200, 0.2)
train("mixture_of_experts", [(4, 4), (4, 24), (6, 4)], quarters, mixture_of_experts, 200, 0.2)
