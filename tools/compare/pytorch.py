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
    """GPT-2's linear layer: its weight is [in, out]."""

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
    """The head shares the token table."""

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
        shape = {"layers": 1, "heads": 1, "width": 8, "vocab": 16, "context": 8}
        return shape, {"tokens": torch.zeros(1, 9, dtype=torch.long)}

    def forward(self, tokens):
        tokens, targets = tokens[:, :-1], tokens[:, 1:]
        x = self.transformer.wte(tokens) + self.transformer.wpe.weight
        for block in self.transformer.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = F.linear(self.transformer.ln_f(x), self.transformer.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def convolution(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def norm(channels):
    return nn.GroupNorm(channels // 8 if channels % 8 == 0 else 1, channels)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.bn1 = norm(outputs)
        self.conv2 = convolution(outputs, outputs, 3, 1)
        self.bn2 = norm(outputs)
        self.downsample = nn.Identity()
        if inputs != outputs or stride != 1:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), norm(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += self.downsample(x)
        return F.relu(y, inplace=True)


class Resnet(nn.Module):
    """For small images: a first convolution of 3 x 3, no pooling before the end, and group norm."""

    def __init__(self, blocks, width, classes, recompute):
        super().__init__()
        self.recompute = recompute
        self.conv1 = convolution(3, width, 3, 1)
        self.bn1 = norm(width)
        self.stages = [f"layer{stage + 1}" for stage in range(len(blocks))]
        inputs = width
        for stage, count in enumerate(blocks):
            outputs = width << stage
            layers = []
            for i in range(count):
                layers.append(BasicBlock(inputs, outputs, 2 if stage > 0 and i == 0 else 1))
                inputs = outputs
            self.add_module(self.stages[stage], nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    @staticmethod
    def smallest():
        shape = {"blocks": [1, 1], "width": 8, "classes": 2}
        return shape, {"images": torch.zeros(1, 3, 8, 8), "labels": torch.zeros(1, dtype=torch.long)}

    def forward(self, images, labels):
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        for stage in self.stages:
            for block in getattr(self, stage):
                x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


FAMILIES = {"gpt": Gpt, "resnet": Resnet}


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
    groups = [{"params": matrices, "weight_decay": spec["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    settings = {"lr": spec["lr"], "betas": tuple(spec["betas"]), "eps": 1e-8}
    if not spec["eight_bit"]:
        return torch.optim.AdamW(groups, fused=True, **settings)
    from bitsandbytes.optim import AdamW8bit  # here, as it makes every process slower and larger

    return AdamW8bit(groups, **settings)


def state_bytes(optimizer):
    """Of what is kept for all parameters; tables that they share count once."""
    tensors = (value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))
    return sum({tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in tensors}.values())


def lay_out(spec, thing):
    """Models and batches of images, channels first or last."""
    format = torch.channels_last if spec["channels_last"] else torch.contiguous_format
    if isinstance(thing, nn.Module):
        return thing.to(memory_format=format)
    return {name: field.to(memory_format=format) if field.dim() == 4 else field for name, field in thing.items()}


class Training:
    def __init__(self, spec, shape):
        self.spec = spec
        self.model = lay_out(spec, FAMILIES[spec["family"]](**shape, recompute=spec["recompute"]))
        self.forward = torch.compile(self.model) if spec["compile"] else self.model
        self.optimizer = make_optimizer(self.model, spec)
        self.half = {"f32": None, "f16": torch.float16, "bf16": torch.bfloat16}[spec["precision"]]
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=spec["loss_scale"], enabled=self.half is torch.float16
        )

    def step(self, batch):
        with torch.autocast("cpu", dtype=self.half, enabled=self.half is not None):
            loss = self.forward(**batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.spec["clip"])
        self.scaler.step(self.optimizer)
        scale = self.scaler.get_scale()
        self.scaler.update()
        self.optimizer.zero_grad()
        if self.scaler.get_scale() < scale:
            raise SystemExit("a step was skipped, as a gradient is not finite")
        return loss.item()


def train(spec):
    torch.set_num_threads(spec["threads"])
    with numpy.load(spec["batches"]) as file:
        fields = {name: torch.from_numpy(file[name]) for name in file.files}
    batches = [lay_out(spec, dict(zip(fields, batch))) for batch in zip(*fields.values())]
    # What PyTorch loads and sets up when it first takes a step does not belong to the model; what its compiler takes
    # does.
    shape, batch = FAMILIES[spec["family"]].smallest()
    Training({**spec, "compile": False}, shape).step(lay_out(spec, batch))
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
    return {"losses": losses, "seconds": seconds, "before": before, "state": state_bytes(training.optimizer),
            "version": torch.__version__}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    result = train(spec)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
