#!/usr/bin/env python3
"""Trains the recipes of losses in examples/ by PyTorch in double, on the same numbers, and prints the loss of the last window
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
        window = [torch.tensor(np.array(x, f32).astype(float)) for x in fill(draw)]
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


# ---- recipes of attention ---------------------------------------------------------------------------------------------


def descend(name, shapes, fill, loss, updates, rate):
    """Parameters of these shapes, in the order of the graph; `fill` gives tensors of a window, ids among them."""
    draw = Numbers()
    p = []
    for shape in shapes:
        values = [draw() / f32(2) for _ in range(int(np.prod(shape)))]
        p.append(torch.tensor(np.array(values, f32).reshape(shape).astype(float), requires_grad=True))
    first = None
    for _ in range(updates):
        value = loss(iter(p), *fill(draw))
        for x, g in zip(p, torch.autograd.grad(value, p)):
            x.data -= rate * g
        first = first or value.item()
    print(f"{name}: {first:.6f}, after {updates} updates {value.item():.9g}")


def below(draw, limit):
    return int((draw() + f32(1)) * f32(0.5) * f32(limit))


def dense(*sizes):
    return [shape for into, out in sizes for shape in ((out, into), (out,))]


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def attend(q, k, v, **how):
    return F.scaled_dot_product_attention(q, k, v, **how).transpose(1, 2).flatten(2)


def hidden_tokens(draw):
    tokens, targets, weights, lengths = (torch.zeros(32, 8, dtype=torch.long) for _ in range(4))
    for i in range(32):
        first, step = below(draw, 6), 1 + below(draw, 2)
        lengths[i] = 4 + below(draw, 5)
        hidden = below(draw, int(lengths[i, 0]))
        for t in range(int(lengths[i, 0])):
            targets[i, t] = tokens[i, t] = (first + step * t) % 6
        tokens[i, hidden], weights[i, hidden] = 6, 1
    return tokens, targets, weights.double(), lengths[:, 0]


def encoder(p, tokens, targets, weights, lengths):
    layer = lambda x: F.linear(x, next(p), next(p))
    x = F.embedding(tokens, next(p)) + next(p)
    seen = (torch.arange(8) < lengths[:, None])[:, None, None]
    x = x + layer(attend(*(heads(part, 2) for part in layer(x).split(16, -1)), attn_mask=seen))
    x = x + layer(F.gelu(layer(x)))
    losses = F.cross_entropy(layer(x).flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


def sentences(draw):
    source, written, targets = (torch.zeros(32, 5, dtype=torch.long) for _ in range(3))
    lengths = torch.zeros(32, dtype=torch.long)
    for i in range(32):
        lengths[i] = n = 2 + below(draw, 4)
        for t in range(n):
            source[i, t] = below(draw, 6)
        for t in range(n):
            targets[i, t] = 5 - source[i, n - 1 - t]
        written[i] = torch.cat([torch.tensor([6]), targets[i, :-1]])
    return source, written, targets, lengths


def translation(p, source, written, targets, lengths):
    layer = lambda x: F.linear(x, next(p), next(p))
    real = torch.arange(5) < lengths[:, None]

    def attended(x, y, **how):
        q, k, v = heads(layer(x), 2), heads(layer(y), 1), heads(layer(y), 1)
        return x + layer(attend(q, k, v, enable_gqa=True, **how))

    x = F.embedding(source, next(p)) + next(p)
    x = attended(x, x, attn_mask=real[:, None, None])
    y = F.embedding(written, next(p)) + next(p)
    y = attended(y, y, is_causal=True)
    y = attended(y, x, attn_mask=real[:, None, None])
    y = y + layer(F.gelu(layer(y)))
    return F.cross_entropy(layer(y)[real], targets[real])


def counting(draw):
    rows = []
    for _ in range(32):
        first, step = below(draw, 7), 1 + below(draw, 6)
        rows.append([(first + step * t) % 7 for t in range(9)])
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def rotated(x):
    """Rotary positions, pairs (i, i + half), base 500000."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2], dtype=float)[:, None] * 500000.0 ** (-torch.arange(half, dtype=float) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def llama_block(p, tokens, targets):
    linear = lambda x: F.linear(x, next(p))
    norm = lambda x: F.rms_norm(x, x.shape[-1:], next(p), 1e-5)
    x = F.embedding(tokens, next(p))
    h = norm(x)
    q, k, v = rotated(heads(linear(h), 4)), rotated(heads(linear(h), 2)), heads(linear(h), 2)
    x = x + linear(attend(q, k, v, is_causal=True, enable_gqa=True))
    h = norm(x)
    x = x + linear(F.silu(linear(h)) * linear(h))
    return F.cross_entropy(linear(norm(x)).flatten(0, 1), targets.flatten())


feed_forward, attended = dense((16, 32), (32, 16), (16, 6)), dense((16, 16), (16, 8), (16, 8), (16, 16))
descend("encoder", [(7, 16), (8, 16), *dense((16, 48), (16, 16)), *feed_forward], hidden_tokens, encoder, 300, 0.1)
embedded = [(7, 16), (5, 16)]
descend("translation", [*embedded, *attended, *embedded, *attended, *attended, *feed_forward], sentences, translation, 300, 0.1)
descend("llama_block", [(7, 16), (16,), (16, 16), (8, 16), (8, 16), (16, 16), (16,), (24, 16), (24, 16), (16, 24), (16,), (7, 16)],
        counting, llama_block, 400, 0.2)


# ---- recipes of convolutions ------------------------------------------------------------------------------------------


def discs(draw):
    noisy, disc = np.zeros((2, 8, 1, 16, 16), f32)
    for n in range(8):
        row, column = f32(8) + f32(5) * draw(), f32(8) + f32(5) * draw()
        for i in range(16):
            for j in range(16):
                y, x = f32(i) - row, f32(j) - column
                disc[n, 0, i, j] = x * x + y * y < 9
                noisy[n, 0, i, j] = disc[n, 0, i, j] + draw()
    return torch.tensor(noisy.astype(float)), torch.tensor(disc.astype(float))


def dice(p, x, target):
    p = list(p)
    full = torch.tanh(F.conv2d(x, p[0], p[1], padding="same"))
    down = torch.tanh(F.conv2d(full, p[2], p[3], stride=2, padding=1))
    up = torch.tanh(F.conv_transpose2d(down, p[4], p[5], stride=2))
    q = torch.sigmoid(F.conv2d(torch.cat([full, up], 1), p[6], p[7], padding="same")).flatten(1)
    target = target.flatten(1)
    return (1 - (2 * (q * target).sum(1) + 1) / (q.sum(1) + target.sum(1) + 1)).mean()


def signals(draw):
    signal, period = np.zeros((32, 1, 48), f32), np.arange(32) % 3
    for n in range(32):
        half, phase = 2 + n % 3, int(f32(4) * (draw() + f32(1)))
        for i in range(48):
            signal[n, 0, i] = f32(1 if (i + phase) // half % 2 else -1) + draw()
    return torch.tensor(signal.astype(float)), torch.tensor(period)


def lines(p, x, period):
    p = list(p)
    x = F.avg_pool1d(torch.tanh(F.conv1d(x, p[0], p[1], padding="same")), 2)
    x = torch.tanh(F.conv1d(x, p[2], p[3], padding="same"))
    x = F.max_pool1d(x, 3, 2, ceil_mode=True).mean(2)
    return F.cross_entropy(F.linear(x, p[4], p[5]), period)


descend("dice_loss", [(6, 1, 3, 3), (6,), (12, 6, 3, 3), (12,), (12, 6, 2, 2), (6,), (1, 12, 3, 3), (1,)], discs, dice, 150, 1)
descend("signals", [(8, 1, 5), (8,), (8, 8, 4), (8,), (3, 8), (3,)], signals, lines, 150, 0.3)
