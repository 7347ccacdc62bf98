#!/usr/bin/env python3
"""Pictures of many kinds, and what Pillow makes of them, for tests/unit/data/pictures.c.

    python3 pictures.py                       writes pictures/ and pictures.safetensors (Pillow 13, NumPy)
    python3 pictures.py --compare LIBRARY N   N generated pictures through a built libaccrue.so, against Pillow

`NAME/rgb` and `NAME/grey` are f16 [height, width, 3] and [height, width], of bytes: the file NAME decoded, turned by its
orientation, converted by Pillow. `resize/FILTER/HEIGHTxWIDTH` are those sizes of resize.png. `sample/FILTER/SIZE/NAME` is
what torchvision's Resize(floor(SIZE / 0.875)) and CenterCrop(SIZE) make of a file. `operation/NUMBER/MAGNITUDE` is what an
operation of src/image/change.h, or 14 for a turn of the hues, makes of colour.png.
"""
import ctypes
import io
import os
import sys
import tempfile

import numpy as np
from PIL import Image, ImageEnhance, ImageOps, features

HERE = os.path.dirname(os.path.abspath(__file__))
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


def smooth(rng, height, width, channels):
    """Something like a photograph: slow changes, some edges, a little noise."""
    small = rng.integers(0, 256, (max(2, height // 7 + 1), max(2, width // 7 + 1), channels), dtype=np.uint8)
    planes = [Image.fromarray(small[:, :, c]).resize((width, height), Image.Resampling.BICUBIC) for c in range(channels)]
    pixels = np.stack([np.asarray(p) for p in planes], axis=2).astype(int)
    pixels[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, channels)
    pixels += rng.integers(-6, 7, pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def exif(orientation):
    data = Image.Exif()
    data[0x112] = orientation
    return data


def save(name, image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return name, out.getvalue()


def files():
    rng = np.random.default_rng(7)
    colour = Image.fromarray(smooth(rng, 29, 43, 3))
    grey = Image.fromarray(smooth(rng, 31, 37, 1)[:, :, 0])
    alpha = np.concatenate([smooth(rng, 21, 33, 3), smooth(rng, 21, 33, 1)], axis=2)
    yield save("colour.png", colour, format="PNG")
    yield save("grey.png", grey, format="PNG")
    yield save("bits.png", grey.point(lambda v: 255 * (v > 99)).convert("1"), format="PNG")
    yield save("palette.png", colour.quantize(40), format="PNG")
    yield save("palette4.png", colour.quantize(11), format="PNG", bits=4)
    transparent = colour.quantize(20)
    yield save("transparent.png", transparent, format="PNG", transparency=bytes(range(0, 200, 10)))
    yield save("alpha.png", Image.fromarray(alpha, "RGBA"), format="PNG")
    yield save("grey_alpha.png", Image.fromarray(alpha[:, :, 2:], "LA"), format="PNG")
    yield save("turned.png", colour, format="PNG", exif=exif(8))
    yield save("resize.png", Image.fromarray(smooth(rng, 61, 83, 3)), format="PNG")
    yield save("pixel.png", Image.fromarray(smooth(rng, 9, 9, 3)[:1, :1]), format="PNG")
    yield "interlaced.png", interlaced(np.asarray(colour))
    yield "deep.png", deep(np.asarray(colour))
    yield save("colour.jpg", colour, format="JPEG", quality=90)
    yield save("colour420.jpg", colour, format="JPEG", quality=70, subsampling=2)
    yield save("progressive.jpg", colour, format="JPEG", quality=85, progressive=True)
    yield save("grey.jpg", grey, format="JPEG", quality=85)
    yield save("inks.jpg", colour.convert("CMYK"), format="JPEG", quality=92)
    for orientation in range(1, 9):
        yield save(f"turned{orientation}.jpg", colour, format="JPEG", quality=90, exif=exif(orientation))
    yield save("colour.webp", colour, format="WEBP", quality=80)
    yield save("lossless.webp", colour, format="WEBP", lossless=True)
    yield save("alpha.webp", Image.fromarray(alpha, "RGBA"), format="WEBP", lossless=True, exact=True)
    yield save("turned.webp", colour, format="WEBP", lossless=True, exif=exif(6))


def chunk(kind, data):
    import struct
    import zlib

    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, kind, interlace, rows):
    import struct
    import zlib

    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    data = b"".join(b"\0" + row for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def interlaced(pixels):
    """Adam7, which Pillow reads and does not write."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    height, width, _ = pixels.shape
    rows = []
    for x, y, dx, dy in passes:
        part = pixels[y::dy, x::dx]
        if part.size:
            rows += [row.tobytes() for row in part]
    return png(width, height, 8, 2, 1, rows)


def deep(pixels):
    """16 bits for each channel."""
    height, width, _ = pixels.shape
    wide = pixels.astype(np.uint32) * 256 + np.arange(width, dtype=np.uint32)[None, :, None] * 5 % 256
    return png(width, height, 16, 2, 0, [row.astype(">u2").tobytes() for row in wide])


def decoded(data, mode):
    image = Image.open(io.BytesIO(data))
    return np.asarray(ImageOps.exif_transpose(image).convert(mode))


def sample(data, size, which):
    """As torchvision, with its arithmetic."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    short = int(size / 0.875)
    w, h = image.size
    new = (short, int(short * h / w)) if w <= h else (int(short * w / h), short)
    image = image.resize(new, FILTERS[which])
    left, top = int(round((new[0] - size) / 2.0)), int(round((new[1] - size) / 2.0))
    return np.asarray(image.crop((left, top, left + size, top + size)))


def operations(image):
    """What torchvision's RandAugment and ColorJitter do by Pillow: the number of the operation, its magnitude, the result."""
    enhance = {6: ImageEnhance.Brightness, 7: ImageEnhance.Color, 8: ImageEnhance.Contrast, 9: ImageEnhance.Sharpness}
    width, height = image.size
    for m in (0.25, -0.3):
        yield 1, m, image.transform(image.size, Image.Transform.AFFINE, (1, m, 0, 0, 1, 0))
        yield 2, m, image.transform(image.size, Image.Transform.AFFINE, (1, 0, 0, m, 1, 0))
    for m in (5.7, -9.2):
        yield 3, m, image.transform(image.size, Image.Transform.AFFINE, (1, 0, -int(m), 0, 1, 0))
        yield 4, m, image.transform(image.size, Image.Transform.AFFINE, (1, 0, 0, 0, 1, -int(m)))
    for m in (13.0, -30.0, 101.5):
        yield 5, m, image.rotate(m)
    for m in (0.35, -0.6, 0.9):
        for number, change in enhance.items():
            yield number, m, change(image).enhance(1 + m)
    for m in (4, 6):
        yield 10, m, ImageOps.posterize(image, m)
    for m in (76.5, 204.0):
        yield 11, m, ImageOps.solarize(image, m)
    yield 12, 0, ImageOps.autocontrast(image)
    yield 13, 0, ImageOps.equalize(image)
    for m in (0.1, -0.4, 0.5):
        h, s, v = image.convert("HSV").split()
        turned = (np.asarray(h).astype(int) + int(m * 255)).astype(np.uint8)
        yield 14, m, Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def write_safetensors(path, tensors):
    import json

    header, blocks, at = {}, [], 0
    for name, array in tensors.items():
        block = np.ascontiguousarray(array, dtype=np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [at, at + len(block)]}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + b"".join(blocks))


def write():
    os.makedirs(os.path.join(HERE, "pictures"), exist_ok=True)
    tensors = {}
    for name, data in files():
        with open(os.path.join(HERE, "pictures", name), "wb") as out:
            out.write(data)
        tensors[f"{name}/rgb"] = decoded(data, "RGB")
        if name in ("colour.png", "grey.png", "palette.png", "turned3.jpg"):
            tensors[f"{name}/grey"] = np.asarray(Image.fromarray(tensors[f"{name}/rgb"]).convert("L"))
        if name in ("colour.png", "turned5.jpg", "grey.png"):
            for which in FILTERS:
                for size in (14, 56):
                    tensors[f"sample/{which}/{size}/{name}"] = sample(data, size, which)
        if name == "colour.png":
            for number, magnitude, image in operations(Image.open(io.BytesIO(data))):
                tensors[f"operation/{number}/{magnitude}"] = np.asarray(image)
        if name == "resize.png":
            image = Image.open(io.BytesIO(data))
            for which, code in FILTERS.items():
                for height, width in ((61, 83), (30, 41), (7, 9), (61, 20), (13, 83), (90, 50), (1, 1), (20, 60), (20, 63), (9, 100)):
                    tensors[f"resize/{which}/{height}x{width}"] = np.asarray(image.resize((width, height), code))
    write_safetensors(os.path.join(HERE, "pictures.safetensors"), tensors)


# ---- many pictures against Pillow -------------------------------------------------------------------


class Samples(ctypes.Structure):
    _fields_ = [("height", ctypes.c_int64), ("width", ctypes.c_int64), ("channels", ctypes.c_int64),
                ("dtype", ctypes.c_int), ("filter", ctypes.c_int), ("fit", ctypes.c_int), ("crop_share", ctypes.c_double),
                ("scaled_decoding", ctypes.c_bool), ("changes", ctypes.c_void_p), ("balanced", ctypes.c_bool),
                ("threads", ctypes.c_int)]


class Desc(ctypes.Structure):
    _fields_ = [("bad", ctypes.c_int), ("report", ctypes.c_void_p), ("user", ctypes.c_void_p),
                ("unlabelled", ctypes.c_bool), ("several_labels", ctypes.c_bool), ("classes", ctypes.c_void_p),
                ("class_count", ctypes.c_int64)]


class Key(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int64), ("epoch", ctypes.c_int64), ("seed", ctypes.c_uint64)]


def drawn(rng, i):
    height, width = (int(v) for v in rng.integers(1, 400, 2))
    kind = i % 8
    image = Image.fromarray(smooth(rng, height, width, 3))
    orientation = {"exif": exif(int(rng.integers(1, 9)))} if rng.integers(3) == 0 else {}
    if kind == 0:
        return save(f"{i:05}.png", image, format="PNG", **orientation)
    if kind == 1:
        return save(f"{i:05}.png", image.convert("L"), format="PNG")
    if kind == 2:
        return save(f"{i:05}.png", image.quantize(int(rng.integers(2, 200))), format="PNG")
    if kind == 3:
        return save(f"{i:05}.webp", image, format="WEBP", lossless=bool(rng.integers(2)), quality=int(rng.integers(5, 100)))
    mode = {4: "RGB", 5: "RGB", 6: "L", 7: "CMYK"}[kind]
    return save(f"{i:05}.jpg", image.convert(mode), format="JPEG", quality=int(rng.integers(20, 100)), progressive=kind == 5,
                subsampling=int(rng.integers(3)), **orientation)


def compare(path, count):
    library = ctypes.CDLL(path)
    library.ac_last_error.restype = ctypes.c_char_p
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        names, sources = [], []
        for i in range(count):
            name, data = drawn(rng, i)
            with open(os.path.join(folder, name), "wb") as out:
                out.write(data)
            names.append(name)
            sources.append(data)
        pictures = ctypes.c_void_p()
        desc = Desc(unlabelled=True)
        if library.ac_pictures_open(ctypes.byref(pictures), None, folder.encode(), ctypes.byref(desc)):
            sys.exit(library.ac_last_error().decode())
        for which, code in (("bilinear", 0), ("bicubic", 1)):
            dataset, samples = ctypes.c_void_p(), Samples(height=96, dtype=4, filter=code)
            if library.ac_dataset_from_pictures(ctypes.byref(dataset), pictures, ctypes.byref(samples)):
                sys.exit(library.ac_last_error().decode())
            order = sorted(range(count), key=lambda i: names[i])
            for place, i in enumerate(order):
                out = np.zeros((3, 96, 96), np.uint8)
                fields = (ctypes.c_void_p * 1)(out.ctypes.data)
                if library.ac_dataset_read(dataset, ctypes.byref(Key(place)), fields):
                    sys.exit(library.ac_last_error().decode())
                difference = np.abs(out.transpose(1, 2, 0).astype(int) - sample(sources[i], 96, which)).max()
                ending = names[i].rsplit(".")[-1]
                worst[ending] = max(worst.get(ending, 0), int(difference))
            library.ac_dataset_free(dataset)
        library.ac_pictures_free(pictures)
    print(f"{count} pictures of {Image.__name__} {features.version('pil')}, libjpeg-turbo "
          f"{features.version('libjpeg_turbo')}, largest difference: {worst}")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        compare(sys.argv[2], int(sys.argv[3]))
    else:
        write()
