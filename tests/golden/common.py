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


def read(name):
    """Tensors by name, of a file that write made."""
    data = (DATA / name).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    kinds = {"F64": numpy.float64, "F32": numpy.float32, "I64": numpy.int64, "BOOL": numpy.bool_}
    tensors = {}
    for key, entry in json.loads(data[8:start]).items():
        first, last = (start + offset for offset in entry["data_offsets"])
        tensors[key] = numpy.frombuffer(data[first:last], kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def numbers(seed, *shape):
    """Normal numbers that f32 represents exactly, so that f32 and f64 runs start from the same values."""
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32).astype(numpy.float64)
