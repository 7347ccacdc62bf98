#!/usr/bin/env python3
"""U-Nets as milesial/Pytorch-UNet has them: what tests/graph/unet.c compares with.

    python unet.py             writes unet.safetensors next to this file

Needs torch 2.15 and safetensors; the tests need neither. Everything is computed in double. A case has

    weight.NAME           parameters and running statistics
    images, masks         of one batch; masks have ignored pixels (255)
    logits                of evaluation
    losses [2]            of training: cross-entropy and, in the case "group", Dice
    iou                   of each class, of evaluation
    gradient.NAME         of the sum of the losses"""
import os

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES, IGNORED = 3, 255


def group_norm(channels):
    return nn.GroupNorm(channels // 8 if channels % 8 == 0 else 1, channels)


class DoubleConv(nn.Module):
    def __init__(self, i, o, norm):
        super().__init__()
        self.double_conv = nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), norm(o), nn.ReLU(),
                                         nn.Conv2d(o, o, 3, padding=1, bias=False), norm(o), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, i, o, norm):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(i, o, norm))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, i, o, norm):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, i // 2, 2, stride=2)
        self.conv = DoubleConv(i, o, norm)

    def forward(self, x, across):
        x = self.up(x)
        y, z = across.shape[2] - x.shape[2], across.shape[3] - x.shape[3]
        x = F.pad(x, [z // 2, z - z // 2, y // 2, y - y // 2])
        return self.conv(torch.cat([across, x], dim=1))


class OutConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, channels, classes, width, depth, norm):
        super().__init__()
        self.depth = depth
        self.inc = DoubleConv(channels, width, norm)
        for i in range(depth):
            setattr(self, f"down{i + 1}", Down(width << i, width << (i + 1), norm))
        for i in range(depth):
            c = width << (depth - i)
            setattr(self, f"up{i + 1}", Up(c, c // 2, norm))
        self.outc = OutConv(width, classes)

    def forward(self, x):
        kept = [self.inc(x)]
        for i in range(self.depth):
            kept.append(getattr(self, f"down{i + 1}")(kept[-1]))
        x = kept.pop()
        for i in range(self.depth):
            x = getattr(self, f"up{i + 1}")(x, kept.pop())
        return self.outc(x)


def dice(logits, masks):
    valid = (masks != IGNORED).double().unsqueeze(1)
    p = logits.softmax(1) * valid
    t = F.one_hot(masks.clamp(max=CLASSES - 1), CLASSES).permute(0, 3, 1, 2) * valid
    both, sizes = (p * t).sum((2, 3)), p.sum((2, 3)) + t.sum((2, 3))
    return (1 - ((2 * both + 1) / (sizes + 1)).mean(1)).mean()


def case(name, width, depth, height, wide, norm, with_dice):
    torch.manual_seed(11)
    model = UNet(3, CLASSES, width, depth, norm).double()
    with torch.no_grad():
        for k, v in model.state_dict().items():
            if v.is_floating_point():
                v.copy_((v + 0.1 * torch.randn_like(v) if "running_var" not in k else 0.8 + 0.4 * torch.rand_like(v)).float())
        model.outc.conv.weight *= 4
        model.outc.conv.bias.zero_()
    out = {f"weight.{k}": v.float().clone() for k, v in model.state_dict().items() if v.is_floating_point()}
    images = torch.rand(4, 3, height, wide).float()
    masks = torch.randint(0, CLASSES, (4, height, wide))
    masks[torch.rand(masks.shape) < 0.1] = IGNORED
    with torch.no_grad():
        logits = model.eval()(images.double())
    answer, valid = logits.argmax(1), masks != IGNORED
    iou = [((answer == c) & (masks == c) & valid).sum() / (((answer == c) | (masks == c)) & valid).sum() for c in range(CLASSES)]
    trained = model.train()(images.double())
    losses = [F.cross_entropy(trained, masks, ignore_index=IGNORED)] + ([dice(trained, masks)] if with_dice else [])
    sum(losses).backward()
    out |= {"images": images, "masks": masks.float(), "logits": logits.float(),
            "losses": torch.stack(losses).detach().float(), "iou": torch.stack(iou).float()}
    out |= {f"gradient.{k}": p.grad.float() for k, p in model.named_parameters()}
    print(name, [round(x.item(), 4) for x in losses], [round(x.item(), 4) for x in iou])
    return {f"{name}/{k}": v.contiguous() for k, v in out.items()}


if __name__ == "__main__":
    save_file(case("batch", 4, 2, 13, 10, nn.BatchNorm2d, False) | case("group", 8, 1, 9, 11, group_norm, True),
              os.path.join(HERE, "unet.safetensors"))
