"""What the golden scripts share: a safetensors writer and fixed numbers."""
import json
import pathlib
import struct

import numpy

DATA = pathlib.Path(__file__).parent / "data"


def write(name, tensors):
    header, blobs, offset = {}, [], 0
    kinds = {"float64": "F64", "float32": "F32", "int64": "I64", "bool": "BOOL"}
    for key in sorted(tensors):
        array = numpy.asarray(tensors[key], order="C")
        blob = array.tobytes()
        header[key] = {"dtype": kinds[str(array.dtype)], "shape": list(array.shape),
                       "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (DATA / name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def numbers(seed, *shape):
    """Normal numbers that f32 represents exactly, so that f32 and f64 runs start from the same values."""
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32).astype(numpy.float64)
