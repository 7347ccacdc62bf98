#!/usr/bin/env python3
"""Updates the policies of examples/maze.c and examples/ppo.c by PyTorch in double, with the batches that their checks
have, and prints the loss and the norm of the gradient of each update: the constants of these programs.

    python policies.py
"""
import math

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
f32 = np.float32


class Numbers:
    """examples/recipe.h's: floats in [-1, 1)."""

    def __init__(self):
        self.state = 1

    def __call__(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return f32(f32(self.state >> 8) / f32(1 << 23) - f32(1))

    def parameter(self, *shape):
        values = [self() / f32(2) for _ in range(math.prod(shape))]
        return tensor(values).reshape(shape).requires_grad_()


def tensor(values):
    return torch.tensor(np.array(values, f32).astype(float))


def update(name, parameters, loss, rate):
    """Plain SGD."""
    print(name)
    for _ in range(5):
        value = loss()
        gradients = torch.autograd.grad(value, parameters)
        norm = math.sqrt(sum((g**2).sum().item() for g in gradients))
        print(f"    {{{value.item():.7f}, {norm:.7f}}},")
        for p, g in zip(parameters, gradients):
            p.data -= rate * g


def taken_of(logs, rows):
    actions = torch.arange(rows) // 3 % logs.shape[1]
    return logs.gather(1, actions[:, None])[:, 0]


def maze(rows=768, cells=25, hidden=16, actions=4):
    draw = Numbers()
    advantage = tensor([draw() + f32(0.25) for _ in range(rows)])
    places = torch.arange(rows) % cells
    parameters = [draw.parameter(cells, hidden), draw.parameter(actions, hidden), draw.parameter(actions)]

    def loss():
        table, weight, bias = parameters
        logs = F.log_softmax(F.linear(torch.tanh(table[places]), weight, bias), -1)
        return -(taken_of(logs, rows) * advantage).mean()

    update("maze", parameters, loss, 8)


def ppo(rows=512, state=4, hidden=32, actions=2):
    draw = Numbers()
    batch = [([draw() for _ in range(state)], draw() / f32(2) - f32(0.75), draw(), f32(4) * draw()) for _ in range(rows)]
    x, old, advantage, gain = (tensor(values) for values in zip(*batch))
    shapes = [shape for out in (actions, 1) for shape in ((hidden, state), (hidden,), (out, hidden), (out,))]
    parameters = [draw.parameter(*shape) for shape in shapes]

    def loss():
        def net(p):
            return F.linear(torch.tanh(F.linear(x, p[0], p[1])), p[2], p[3])

        logs, value = F.log_softmax(net(parameters[:4]), -1), net(parameters[4:])[:, 0]
        ratio = torch.exp(taken_of(logs, rows) - old)
        policy = -torch.minimum(ratio * advantage, torch.clamp(ratio, 0.8, 1.2) * advantage).mean()
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return policy - 0.01 * entropy + 0.5 * F.huber_loss(value, gain, delta=1)

    update("ppo", parameters, loss, 1)


maze()
ppo()
