"""One run of PyTorch, in a process of its own: pytorch.py SPEC RESULT, both JSON files.

Models are written as one would write them by hand, with PyTorch's own fast paths: fused attention, a fused AdamW,
gradients released between steps. Parameters bear the names of Accrue's model files.
"""

import gc
import json
import math
import sys
import time

import numpy
import torch
from safetensors import safe_open
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Conv1D(nn.Module):
    """GPT-2's linear layer, whose weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(heads, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Batches are [batch, context + 1] tokens; the head shares the token table."""

    def __init__(self, layers, heads, width, vocab, context, recompute):
        super().__init__()
        self.recompute = recompute
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab, width),
                "wpe": nn.Embedding(context, width),
                "h": nn.ModuleList(Block(heads, width) for _ in range(layers)),
                "ln_f": nn.LayerNorm(width),
            }
        )

    @staticmethod
    def smallest():
        """The shape of a model, and a batch, that take next to no memory."""
        return {"layers": 1, "heads": 1, "width": 8, "vocab": 16, "context": 8}, torch.zeros(1, 9, dtype=torch.long)

    def forward(self, batch):
        tokens, targets = batch[:, :-1], batch[:, 1:]
        x = self.transformer.wte(tokens) + self.transformer.wpe.weight
        for block in self.transformer.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = F.linear(self.transformer.ln_f(x), self.transformer.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


FAMILIES = {"gpt": Gpt}


def resident_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def load(model, path):
    """In place, tensor by tensor, so that loading needs less memory than training."""
    parameters = dict(model.named_parameters())
    with safe_open(path, framework="pt") as file, torch.no_grad():
        names = set(file.keys())
        if names != set(parameters):
            raise SystemExit(f"the tensors of {path} are not the model's: {sorted(names ^ set(parameters))[:4]}")
        for name, parameter in parameters.items():
            parameter.copy_(file.get_tensor(name))


def make_optimizer(model, spec):
    """Decay is for matrices and other tensors of rank 2 and more, as in Accrue."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": spec["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
        lr=spec["lr"],
        betas=spec["betas"],
        eps=1e-8,
        fused=True,
    )


class Training:
    def __init__(self, spec, shape):
        self.spec = spec
        self.model = FAMILIES[spec["family"]](**shape, recompute=spec["recompute"])
        self.forward = torch.compile(self.model) if spec["compile"] else self.model
        self.optimizer = make_optimizer(self.model, spec)
        self.half = {"f32": None, "f16": torch.float16, "bf16": torch.bfloat16}[spec["precision"]]
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.half is torch.float16)

    def step(self, batch):
        with torch.autocast("cpu", dtype=self.half, enabled=self.half is not None):
            loss = self.forward(batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.spec["clip"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.item()


def train(spec):
    torch.set_num_threads(spec["threads"])
    batches = [torch.from_numpy(batch) for batch in numpy.load(spec["batches"])]
    # What PyTorch loads and sets up when it first takes a step does not belong to the model; what its compiler takes
    # does.
    shape, batch = FAMILIES[spec["family"]].smallest()
    Training({**spec, "compile": False}, shape).step(batch)
    gc.collect()
    before = resident_bytes()
    training = Training(spec, spec["model"])
    load(training.model, spec["init"])
    losses, seconds = [], []
    for batch in batches:
        begin = time.perf_counter()
        losses.append(training.step(batch))
        seconds.append(time.perf_counter() - begin)
        if not math.isfinite(losses[-1]):
            raise SystemExit(f"the loss of step {len(losses)} is {losses[-1]}")
    return {"losses": losses, "seconds": seconds, "before": before, "version": torch.__version__}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    result = train(spec)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
