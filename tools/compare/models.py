"""The models that both sides train, the data that is written for them, and the batches that Accrue reads from it."""

import ctypes
import dataclasses

import numpy


class SampleKey(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int64), ("epoch", ctypes.c_int64), ("seed", ctypes.c_uint64)]


def read_samples(library, dataset, seed, fields):
    """Yields the fields of a dataset's samples, always the same arrays, in the order of the first epoch."""
    count = library.ac_dataset_count(dataset)
    pointers = (ctypes.c_void_p * len(fields))(*(field.ctypes.data for field in fields))
    for position in range(count):
        key = SampleKey(library.ac_shuffle(ctypes.c_uint64(seed), ctypes.c_int64(0), ctypes.c_int64(position),
                                           ctypes.c_int64(count)), 0, seed)
        if library.ac_dataset_read(dataset, ctypes.byref(key), pointers) != 0:
            raise SystemExit("compare: a sample cannot be read")
        yield fields


@dataclasses.dataclass
class Gpt:
    """A model is such an entry: its data and flags for Accrue, its name and shape for pytorch.py."""

    layers: int
    heads: int
    width: int
    vocab: int
    context: int
    batch: int
    family = "gpt"
    lr = 1e-4

    def shape(self):
        return {"layers": self.layers, "heads": self.heads, "width": self.width, "vocab": self.vocab,
                "context": self.context}

    def write_data(self, folder, steps):
        """Enough tokens for all steps within one epoch; common ones are much more frequent than others."""
        spans = steps * self.batch + 2
        count = max(spans * self.context * 10 // 9, 10 * (self.context + 1)) + 64
        ranks = numpy.random.default_rng(1).pareto(1.0, count) * 20
        (ranks.astype(numpy.int64) % self.vocab).astype("<u2").tofile(folder / "data")

    def flags(self, folder):
        return ["gpt", "--data", folder / "data", "--vocab", self.vocab, "--layers", self.layers, "--heads",
                self.heads, "--width", self.width, "--context", self.context]

    def read_batches(self, library, folder, steps, seed):
        """The samples of the first `steps` windows: tokens [steps, batch, context + 1]."""
        tokens, dataset = ctypes.c_void_p(), ctypes.c_void_p()
        library.ac_tokens_from_uint16(ctypes.byref(tokens), bytes(folder / "data"), ctypes.c_int64(self.vocab))
        end = int(0.9 * library.ac_tokens_count(tokens))  # the rest validates
        library.ac_dataset_from_tokens(ctypes.byref(dataset), tokens, ctypes.c_int64(0), ctypes.c_int64(end),
                                       ctypes.c_int64(self.context), ctypes.c_bool(True))
        assert library.ac_dataset_count(dataset) >= steps * self.batch
        batches = numpy.empty((steps * self.batch, self.context + 1), numpy.int64)
        fields = [numpy.empty(self.context, numpy.int32) for _ in range(2)]
        for batch, (inputs, targets) in zip(batches, read_samples(library, dataset, seed, fields)):
            batch[:-1], batch[1:] = inputs, targets
        return {"tokens": batches.reshape(steps, self.batch, -1)}


@dataclasses.dataclass
class Resnet:
    """Images are as CIFAR-10 has them."""

    depth: int
    blocks: tuple  # of each stage: the depth as numbers of blocks
    width: int
    batch: int
    family = "resnet"
    lr = 1e-5  # at 1e-4 rounding alone, even PyTorch's own in another layout, grows beyond 1e-4 in a few steps

    def shape(self):
        return {"blocks": self.blocks, "width": self.width, "classes": 10}

    def write_data(self, folder, steps):
        """Enough random images for all steps within one epoch."""
        random = numpy.random.default_rng(1)
        records = random.integers(0, 256, (steps * self.batch, 1 + 3 * 32 * 32), numpy.uint8)
        records[:, 0] %= 10
        (folder / "images").mkdir()
        records.tofile(folder / "images" / "data_batch_1.bin")
        records[:10].tofile(folder / "images" / "test_batch.bin")

    def flags(self, folder):
        return ["resnet", "--data", folder / "images", "--depth", self.depth, "--width", self.width, "--shift", 0,
                "--rotation", 0, "--scaling", 0]

    def read_batches(self, library, folder, steps, seed):
        """The samples of the first `steps` windows: images [steps, batch, 3, 32, 32], labels [steps, batch]."""
        dataset = ctypes.c_void_p()
        library.ac_dataset_from_cifar10(ctypes.byref(dataset), bytes(folder / "images"), ctypes.c_int64(0),
                                        ctypes.c_int64(-1))
        count = steps * self.batch
        assert library.ac_dataset_count(dataset) == count
        images, labels = numpy.empty((count, 3, 32, 32), numpy.float32), numpy.empty(count, numpy.int64)
        fields = [numpy.empty((3, 32, 32), numpy.float32), numpy.empty(1, numpy.int32)]
        for sample, (image, label) in enumerate(read_samples(library, dataset, seed, fields)):
            images[sample], labels[sample] = image, label[0]
        return {"images": images.reshape(steps, self.batch, 3, 32, 32), "labels": labels.reshape(steps, self.batch)}


MODELS = {
    "gpt2-124m": Gpt(layers=12, heads=12, width=768, vocab=50257, context=64, batch=4),
    "gpt-small": Gpt(layers=4, heads=4, width=128, vocab=256, context=64, batch=12),
    # Attention over images: the small model of Chen et al., Generative Pretraining from Pixels (ICML 2020), 76 M
    # weights on 32 x 32 pixels of 512 colours, which is GPT-2's architecture on tokens that are colours.
    "image-gpt": Gpt(layers=24, heads=8, width=512, vocab=512, context=1024, batch=1),
    "resnet18": Resnet(depth=18, blocks=(2, 2, 2, 2), width=64, batch=32),
}


def open_library(path):
    library = ctypes.CDLL(path)
    for name in "ac_tokens_count", "ac_dataset_count", "ac_shuffle":
        getattr(library, name).restype = ctypes.c_int64
    return library
