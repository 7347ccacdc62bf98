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
    """Layers [(in, out)] have a weight and then a bias, and so have those of a convolution, by the weight's shape; one of a
    single shape in a list is a table. `fill` gives the arrays of a window."""
    draw = Numbers()
    parameters = []

    def drawn(shape):
        values = [draw() / f32(2) for _ in range(int(np.prod(shape)))]
        parameters.append(torch.tensor(np.array(values, f32).reshape(shape).astype(float), requires_grad=True))

    for layer in layers:
        if isinstance(layer, list):
            drawn(layer[0])
            parameters.append(None)
        else:
            weight = layer[::-1] if len(layer) == 2 else layer
            drawn(weight)
            drawn(weight[:1])
    first = None
    for _ in range(updates):
        def layer(k):
            weight, bias = parameters[2 * k:2 * k + 2]
            if bias is None:
                return weight
            return lambda x, **how: F.linear(x, weight, bias) if weight.dim() == 2 else F.conv2d(x, weight, bias, **how)

        n = [layer(k) for k in range(len(layers))]
        window = [torch.tensor(np.array(x, f32).astype(float)) for x in fill(draw)]
        value = loss(n, *window)
        trained = [p for p in parameters if p is not None]
        for p, g in zip(trained, torch.autograd.grad(value, trained)):
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


def below(draw, n):
    return int(f32(draw() + f32(1)) / f32(2) * f32(n))


def boxes(draw):
    images, objects, sides = np.zeros((16, 1, 12, 12), f32), np.zeros((16, 9), f32), np.ones((16, 4, 9), f32)
    for i in range(16):
        width, height = 3 + below(draw, 4), 3 + below(draw, 4)
        left, top = below(draw, 13 - width), below(draw, 13 - height)
        for y in range(12):
            for x in range(12):
                images[i, 0, y, x] = draw() / f32(4) + f32(left <= x < left + width and top <= y < top + height)
        c = (2 * top + height) // 8 * 3 + (2 * left + width) // 8
        x, y = (2 * (c % 3) + 1) * 4, (2 * (c // 3) + 1) * 4
        objects[i, c] = 1
        sides[i, :, c] = np.array([x - 2 * left, y - 2 * top, 2 * (left + width) - x, 2 * (top + height) - y]) / 8
    return images, objects, sides


def detection(n, x, found, sides):
    x = F.silu(n[1](F.silu(n[0](x, stride=2, padding=1)), stride=2, padding=1))
    x = n[2](x).reshape(-1, 5, 9)
    box = F.softplus(x[:, 1:])

    def area(s):
        return (s[:, 0] + s[:, 2]) * (s[:, 1] + s[:, 3])

    inter = area(torch.minimum(box, sides))
    apart = 1 - inter / (area(box) + area(sides) - inter)
    return 10 * focal(x[:, 0], found) + (apart * found).sum() / found.sum()


def halves(draw):
    images, noise = np.zeros((16, 1, 8, 8), f32), np.zeros((16, 1, 8, 8), f32)
    kept, step = np.zeros((16, 1, 1, 1), f32), np.zeros(16, f32)
    for i in range(16):
        upright, bright = draw() > 0, f32(1 if draw() > 0 else -1)
        for k in range(64):
            images[i, 0, k // 8, k % 8] = bright if (k % 8 if upright else k // 8) < 4 else -bright
        for k in range(64):
            noise[i, 0, k // 8, k % 8] = f32(1.5) * draw()
        step[i] = below(draw, 6)
        kept[i] = f32(1) - f32(step[i] + 1) / f32(7)
    return images, noise, kept, step


def diffusion(n, x, noise, kept, step):
    x = torch.sqrt(kept) * x + torch.sqrt(1 - kept) * noise
    full = F.silu(n[1](x, padding=1) + n[0][step.long()][:, :, None, None])
    half = F.silu(n[2](full, stride=2, padding=1))
    half = F.layer_norm(half, half.shape[1:])
    half = F.interpolate(half, scale_factor=2, mode="bilinear", align_corners=False)
    return F.mse_loss(n[3](full + half, padding=1), noise)


def words(draw):
    sound, letter = np.zeros((16, 1, 20, 4), f32), np.zeros((16, 4))
    frames, letters = np.zeros(16), np.zeros(16)
    for i in range(16):
        t, count = 0, 2 + below(draw, 3)
        letter[i] = [1 + below(draw, 3) for _ in range(4)]
        for b in range(80):
            sound[i, 0, b // 4, b % 4] = draw() / f32(4)
        for k in range(count):
            for _ in range(2 + below(draw, 3)):
                sound[i, 0, t, int(letter[i, k]) - 1] += f32(1)
                t += 1
            sound[i, 0, t, 3] += f32(1)
            t += 1
        frames[i], letters[i] = t, count
    return sound, letter, frames, letters


def speech(n, sound, letter, frames, letters):
    x = torch.tanh(n[0](sound, padding=(1, 0))[..., 0].mT)
    losses = F.ctc_loss(F.log_softmax(n[1](x), -1).transpose(0, 1), letter.long(), frames.long(), letters.long(),
                        reduction="none")
    return losses.mean()


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
train("detection", [(8, 1, 3, 3), (16, 8, 3, 3), (5, 16, 1, 1)], boxes, detection, 120, 0.03)
train("diffusion", [[(6, 8)], (8, 1, 3, 3), (8, 8, 3, 3), (1, 8, 3, 3)], halves, diffusion, 150, 0.05)
train("speech", [(16, 1, 3, 4), (16, 4)], words, speech, 200, 0.1)


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


feed_forward, attended = dense((16, 32), (32, 16), (16, 6)), dense((16, 16), (16, 8), (16, 8), (16, 16))
descend("encoder", [(7, 16), (8, 16), *dense((16, 48), (16, 16)), *feed_forward], hidden_tokens, encoder, 300, 0.1)
embedded = [(7, 16), (5, 16)]
descend("translation", [*embedded, *attended, *embedded, *attended, *attended, *feed_forward], sentences, translation, 300, 0.1)


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


# ---- a recipe of Llama's blocks ---------------------------------------------------------------------------------------


def echoes(draw):
    ids = [[below(draw, 8) for _ in range(12)] for _ in range(8)]
    return torch.tensor(ids), torch.tensor([[row[t if t < 3 else t - 3] for t in range(12)] for row in ids])


def rotated(x, base=500000):
    """transformers' apply_rotary_pos_emb, of x [B, H, T, D]."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[2])[:, None] / base ** (torch.arange(half) / half)
    a, b = x.split(half, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def llama(p, ids, targets):
    def norm(x):
        return F.rms_norm(x, (16,), next(p), 1e-5)

    def shared(x):  # four heads of queries share two
        return heads(x @ next(p).T, 2).repeat_interleave(2, 1)

    x = next(p)[ids]
    for _ in range(2):
        h = norm(x)
        q, k, v = rotated(heads(h @ next(p).T, 4)), rotated(shared(h)), shared(h)
        x = x + attend(q, k, v, is_causal=True) @ next(p).T
        h = norm(x)
        x = x + (F.silu(h @ next(p).T) * (h @ next(p).T)) @ next(p).T
    return F.cross_entropy((norm(x) @ next(p).T).flatten(0, 1), targets.flatten())


llama_block = [(16,), (16, 16), (8, 16), (8, 16), (16, 16), (16,), (24, 16), (24, 16), (16, 24)]
descend("llama", [(8, 16), *llama_block, *llama_block, (16,), (8, 16)], echoes, llama, 150, 0.2)


# ---- recipes of layers over time --------------------------------------------------------------------------------------


def train_modules(name, modules, fill, loss, updates, rate):
    """The same of modules of torch.nn, whose parameters are drawn in their order; `loss` gets the module list."""
    draw = Numbers()
    parameters = [p for m in modules for p in m.parameters()]
    for p in parameters:
        values = [draw() / f32(2) for _ in range(p.numel())]
        p.data = torch.tensor(np.array(values, f32).reshape(p.shape).astype(float))
    first = None
    for _ in range(updates):
        value = loss(modules, *fill(draw))
        for p, g in zip(parameters, torch.autograd.grad(value, parameters)):
            p.data -= rate * g
        first = first or value.item()
    print(f"{name}: {first:.6f}, after {updates} updates {value.item():.9g}")


class Rhyme:
    """Windows of eight tracks of a text, and the state that goes from one to the next."""

    text = "one two buckle my shoe three four knock at the door "

    def __init__(self):
        self.window, self.state = 0, (torch.zeros(1, 8, 12), torch.zeros(1, 8, 12))

    def __call__(self, draw):
        letters = [26 if c == " " else ord(c) - ord("a") for c in self.text]
        at = [[letters[(6 * i + 8 * self.window + t) % len(letters)] for t in range(9)] for i in range(8)]
        self.window += 1
        return (torch.tensor(at),)

    def loss(self, modules, ids):
        table, lstm, out = modules
        y, (h, c) = lstm(table(ids[:, :-1]), self.state)
        self.state = h.detach(), c.detach()
        return F.cross_entropy(out(y).flatten(0, 1), ids[:, 1:].flatten())


def texts(draw):
    def choose(n):
        return int((draw() + f32(1)) / f32(2) * f32(n))

    words, lengths, labels = [], [], []
    for _ in range(32):
        lengths.append(1 + choose(10))
        words.append([choose(12) for _ in range(10)])
        labels.append(int(sum(1 if w < 6 else -1 for w in words[-1][:lengths[-1]]) > 0))
    return torch.tensor(words), torch.tensor(lengths), torch.tensor(labels)


def classify(modules, words, lengths, labels):
    table, gru, out = modules
    packed = torch.nn.utils.rnn.pack_padded_sequence(table(words), lengths, batch_first=True, enforce_sorted=False)
    return F.cross_entropy(out(gru(packed)[1].transpose(0, 1).flatten(1)), labels)


rhyme = Rhyme()
train_modules("lstm_language_model", [torch.nn.Embedding(27, 8), torch.nn.LSTM(8, 12, batch_first=True),
                                      torch.nn.Linear(12, 27)], rhyme, rhyme.loss, 150, 1)
train_modules("text_classifier", [torch.nn.Embedding(12, 6), torch.nn.GRU(6, 8, batch_first=True, bidirectional=True),
                                  torch.nn.Linear(16, 2)], texts, classify, 200, 1)
