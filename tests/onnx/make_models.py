"""Writes the small models of tests/onnx/models with inputs and expected outputs (from the reference evaluator of the onnx
package): NAME.onnx, NAME.in.K.npy, NAME.out.K.npy. Run it with the tests' virtual environment after changing a model."""
import os
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from onnx.reference import ReferenceEvaluator

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
RNG = np.random.default_rng(7)
F, I = T.FLOAT, T.INT64


def value(name, kind, shape):
    return h.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return nh.from_array(np.asarray(array), name)


def save(name, nodes, inputs, outputs, initializers, feeds, opset=21, functions=(), domains=(), external=False, expected=None):
    graph = h.make_graph(nodes, name, inputs, outputs, initializers)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains],
                         functions=list(functions), ir_version=10)
    path = f"{FOLDER}/{name}.onnx"
    if external:
        onnx.save_model(model, path, save_as_external_data=True, location=f"{name}.data", size_threshold=0)
    else:
        onnx.save_model(model, path)
    want = expected if expected is not None else ReferenceEvaluator(path).run(None, feeds)
    for i, x in enumerate(inputs):
        np.save(f"{FOLDER}/{name}.in.{i}.npy", feeds[x.name])
    for i, y in enumerate(want):
        np.save(f"{FOLDER}/{name}.out.{i}.npy", y)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def mlp(name, external):
    save(name, [h.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), h.make_node("Relu", ["h"], ["r"]),
                h.make_node("MatMul", ["r", "v"], ["y"])],
         [value("x", F, ["B", 4])], [value("y", F, ["B", 3])],
         [constant("w", f32(5, 4)), constant("b", f32(5)), constant("v", f32(5, 3))], {"x": f32(3, 4)}, external=external)


def shapes():
    """[B, T, 6] -> [B * T, 2, 3] -> [B, T, 3]: every extent goes through shape arithmetic."""
    nodes = [h.make_node("Shape", ["x"], ["s"]), h.make_node("Gather", ["s", "i0"], ["b"]), h.make_node("Gather", ["s", "i1"], ["t"]),
             h.make_node("Mul", ["b", "t"], ["bt"]), h.make_node("Unsqueeze", ["bt", "zero"], ["bt1"]),
             h.make_node("Concat", ["bt1", "tail"], ["shape"], axis=0), h.make_node("Reshape", ["x", "shape"], ["y"]),
             h.make_node("ReduceSum", ["y", "one"], ["z"], keepdims=0), h.make_node("Unsqueeze", ["b", "zero"], ["b1"]),
             h.make_node("Concat", ["b1", "minus"], ["back"], axis=0), h.make_node("Reshape", ["z", "back"], ["w"])]
    save("shapes", nodes, [value("x", F, ["B", "T", 6])], [value("y", F, None), value("w", F, None)],
         [constant("i0", np.int64(0)), constant("i1", np.int64(1)), constant("zero", np.array([0])), constant("one", np.array([1])),
          constant("tail", np.array([2, 3])), constant("minus", np.array([-1, 3]))], {"x": f32(2, 5, 6)})


def control():
    """A run-time If, and a Loop with a carried value and a stacked output."""
    then = h.make_graph([h.make_node("Mul", ["x", "two"], ["p"])], "then", [], [value("p", F, None)])
    other = h.make_graph([h.make_node("Neg", ["x"], ["q"])], "else", [], [value("q", F, None)])
    body = h.make_graph([h.make_node("Identity", ["c"], ["c2"]), h.make_node("Add", ["a", "m"], ["a2"]),
                         h.make_node("ReduceSum", ["a2"], ["sum"], keepdims=0)], "body",
                        [value("i", I, []), value("c", T.BOOL, []), value("a", F, ["N"])],
                        [value("c2", T.BOOL, []), value("a2", F, ["N"]), value("sum", F, [])])
    x = f32(3)
    steps = [x * (1 + 2 * k) for k in range(1, 5)]
    save("control", [h.make_node("If", ["flag"], ["m"], then_branch=then, else_branch=other),
                     h.make_node("Loop", ["trips", "", "x"], ["last", "sums"], body=body)],
         [value("flag", T.BOOL, []), value("x", F, ["N"])], [value("last", F, ["N"]), value("sums", F, [4])],
         [constant("two", np.float32(2)), constant("trips", np.int64(4))], {"flag": np.array(True), "x": x},
         expected=[steps[-1], np.array([s.sum() for s in steps], np.float32)])


def stops():
    """A Loop that ends when a sum passes 10: the stacked output has as many rows as trips."""
    x = np.array([1.0, 2.0], np.float32)
    body = h.make_graph([h.make_node("Add", ["a", "x"], ["a2"]), h.make_node("ReduceSum", ["a2"], ["sum"], keepdims=0), h.make_node("Less", ["sum", "ten"], ["c2"]),
                         h.make_node("Identity", ["a2"], ["row"])], "body",
                        [value("i", I, []), value("c", T.BOOL, []), value("a", F, [2])],
                        [value("c2", T.BOOL, []), value("a2", F, [2]), value("row", F, [2])])
    rows = [x * k for k in range(2, 5)]
    save("stops", [h.make_node("Loop", ["trips", "", "x"], ["last", "rows"], body=body)], [value("x", F, [2])], [value("last", F, [2]), value("rows", F, None)],
         [constant("ten", np.float32(10)), constant("trips", np.int64(8))], {"x": x}, expected=[rows[-1], np.stack(rows)])


def functions():
    """A model-local function whose body refers to the call's attribute."""
    slope = h.make_node("LeakyRelu", ["a"], ["l"])
    attribute = slope.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = h.make_function("local", "Sloped", ["a", "b"], ["c"], [slope, h.make_node("Add", ["l", "b"], ["c"])],
                               [h.make_opsetid("", 21)], attributes=["slope"])
    x = f32(2, 3)
    leaky = lambda v, slope: np.where(v >= 0, v, v * np.float32(slope))
    save("functions", [h.make_node("Sloped", ["x", "x"], ["t"], domain="local", slope=0.5), h.make_node("Sloped", ["t", "x"], ["y"], domain="local", slope=0.25)],
         [value("x", F, [2, 3])], [value("y", F, [2, 3])], [], {"x": x}, functions=[function], domains=["local"],
         expected=[leaky(leaky(x, 0.5) + x, 0.25) + x])


def old_forms():
    """Attribute forms of early operator sets."""
    x = f32(1, 2, 4, 4)
    nodes = [h.make_node("Slice", ["x"], ["a"], axes=[2, 3], starts=[0, -3], ends=[100, 100]),
             h.make_node("Clip", ["a"], ["b"], min=-0.5, max=0.75), h.make_node("Pad", ["b"], ["c"], pads=[0, 0, 1, 0, 0, 0, 0, 1], value=2.0),
             h.make_node("Squeeze", ["c"], ["d"], axes=[0]), h.make_node("Unsqueeze", ["d"], ["e"], axes=[0]),
             h.make_node("Upsample", ["e"], ["f"], mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]), h.make_node("Softmax", ["f"], ["g"], axis=2),
             h.make_node("ReduceMean", ["g"], ["h"], axes=[3], keepdims=1), h.make_node("Split", ["h"], ["y", "z"], axis=1)]
    a = np.clip(x[:, :, :, -3:], -0.5, 0.75)
    c = np.pad(a, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=2.0)
    f = c.repeat(2, axis=2).repeat(2, axis=3)
    m = f.reshape(2, -1)
    e = np.exp(m - m.max(axis=1, keepdims=True))
    g = (e / e.sum(axis=1, keepdims=True)).reshape(f.shape)
    r = g.mean(axis=3, keepdims=True).astype(np.float32)
    save("old_forms", nodes, [value("x", F, [1, 2, 4, 4])], [value("y", F, None), value("z", F, None)], [], {"x": x}, opset=7,
         expected=[r[:, :1], r[:, 1:]])


def encodings():
    """Initializers in typed fields, packed below 8 bits; each is cast to f32 and returned."""
    tensors = [h.make_tensor("f16", T.FLOAT16, [3], np.array([1.5, -2.25, 0.125])), h.make_tensor("bf16", T.BFLOAT16, [2], [1.5, -3.0]),
               h.make_tensor("i4", T.INT4, [3], [-8, 7, 3]), h.make_tensor("u4", T.UINT4, [3], [15, 0, 9]),
               h.make_tensor("e4m3", T.FLOAT8E4M3FN, [2], [1.75, -448.0]), h.make_tensor("e5m2", T.FLOAT8E5M2, [2], [0.5, -57344.0]),
               h.make_tensor("f4", T.FLOAT4E2M1, [3], [0.5, -6.0, 1.5]), h.make_tensor("i8", T.INT8, [2], [-128, 127]),
               h.make_tensor("u32", T.UINT32, [1], [4000000000]), h.make_tensor("f64", T.DOUBLE, [2], [0.1, -2.5]), h.make_tensor("bool", T.BOOL, [2], [True, False])]
    want = [np.array(v, np.float32) for v in ([1.5, -2.25, 0.125], [1.5, -3], [-8, 7, 3], [15, 0, 9], [1.75, -448], [0.5, -57344], [0.5, -6, 1.5],
                                             [-128, 127], [4000000000], [0.1, -2.5], [1, 0])]
    x = f32(1)
    save("encodings", [h.make_node("Cast", [t.name], ["y_" + t.name], to=F) for t in tensors] + [h.make_node("Identity", ["x"], ["z"])],
         [value("x", F, [1])], [value("y_" + t.name, F, None) for t in tensors] + [value("z", F, [1])], tensors, {"x": x}, opset=23, expected=want + [x])


def resize():
    """A symbolic upscale to the size of another tensor, and a Range of an extent."""
    nodes = [h.make_node("Shape", ["x"], ["s"], start=2), h.make_node("Mul", ["s", "two"], ["d"]), h.make_node("Shape", ["x"], ["lead"], end=2),
             h.make_node("Concat", ["lead", "d"], ["size"], axis=0),
             h.make_node("Resize", ["x", "", "", "size"], ["y"], mode="linear", coordinate_transformation_mode="half_pixel"),
             h.make_node("Shape", ["x"], ["w1"], start=3), h.make_node("Squeeze", ["w1", "zero"], ["w"]), h.make_node("Range", ["start", "w", "step"], ["z"])]
    save("resize", nodes, [value("x", F, [1, 2, "H", "W"])], [value("y", F, None), value("z", I, None)],
         [constant("two", np.array([2])), constant("zero", np.array([0])), constant("start", np.int64(0)), constant("step", np.int64(2))], {"x": f32(1, 2, 3, 5)})


def broken():
    """Files that must be refused: no expected outputs."""
    def write(name, nodes, inputs, outputs, functions=(), constants=()):
        graph = h.make_graph(nodes, name, inputs, outputs, list(constants))
        onnx.save_model(h.make_model(graph, functions=list(functions), opset_imports=[h.make_opsetid("", 21), h.make_opsetid("custom", 1), h.make_opsetid("local", 1)],
                                     ir_version=10), f"{FOLDER}/{name}.onnx")
    x, y = [value("x", F, [2, 3])], [value("y", F, None)]
    write("needs", [h.make_node("Reshape", ["x", "shape"], ["y"])], x + [value("shape", I, [2])], y)
    write("unknown", [h.make_node("Strange", ["x"], ["a"], name="first", domain="custom"), h.make_node("Relu", ["a"], ["b"], name="second", slope=1.0),
                      h.make_node("NoSuchOperator", ["b"], ["y"], name="third")], x, y)
    write("cycle", [h.make_node("Add", ["x", "b"], ["a"]), h.make_node("Relu", ["a"], ["b"]), h.make_node("Neg", ["a"], ["y"])], x, y)
    call = lambda: h.make_node("Again", ["a"], ["b"], domain="local")
    write("recursion", [h.make_node("Again", ["x"], ["y"], domain="local")], x, y,
          [h.make_function("local", "Again", ["a"], ["c"], [call(), h.make_node("Again", ["b"], ["c"], domain="local")], [h.make_opsetid("local", 1)])])
    # One fault each, that would otherwise be read as something else: tests/onnx/hostile.c has what the importer says.
    x, y, image = [value("x", F, [2, 3])], [value("y", F, None)], [value("x", F, [1, 1, 4, 4]), value("w", F, [1, 1, 2, 2])]
    write("misread_twice", [h.make_node("Exp", ["x"], ["y"]), h.make_node("Abs", ["x"], ["y"])], x, y)
    write("misread_inputs", [h.make_node("Exp", ["x"], ["y"])], x + x, y)
    write("misread_type", [h.make_node("Softmax", ["x"], ["y"], axis="zero")], x, y)
    write("misread_list", [h.make_node("Softmax", ["x"], ["y"], axis=[0])], x, y)
    write("misread_wide", [h.make_node("Concat", ["x", "x"], ["y"], axis=2 ** 32)], x, y)
    write("misread_softmax", [h.make_node("Softmax", ["x"], ["y"], axis=2 ** 32)], x, y)
    write("misread_log_softmax", [h.make_node("LogSoftmax", ["x"], ["y"], axis=-2 ** 63)], x, y)
    write("misread_hardmax", [h.make_node("Hardmax", ["x"], ["y"], axis=2 ** 32)], x, y)
    write("misread_cumulative", [h.make_node("CumSum", ["x", "a"], ["y"])], x, y,
          constants=[h.make_tensor("a", I, [], [2 ** 32])])
    write("misread_split", [h.make_node("Split", ["x"], ["y", "z"], axis=0, num_outputs=3)], x, y)
    write("misread_norm", [h.make_node("LpNormalization", ["x"], ["y"], p=3)], x, y)
    write("misread_axis", [h.make_node("Concat", ["x", "x"], ["y"])], x, y)
    write("misread_cast", [h.make_node("Cast", ["x"], ["y"])], x, y)
    write("misread_group", [h.make_node("Conv", ["x", "w"], ["y"], group=0)], image, y)
    write("misread_kernel", [h.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])], image, y)
    pool = [value("x", F, [1, 1, 4, 4])]
    write("misread_pads", [h.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[0, 2, 0, 0])], pool, y)
    write("misread_average", [h.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 1], pads=[0, 0, 3, 0])], pool, y)
    many = lambda body, count: [h.make_node(body, ["a"], ["b" if i == 0 else f"b{i}"], domain="local") for i in range(count)]
    forms = [h.make_opsetid("", 21), h.make_opsetid("local", 1)]
    write("misread_often", [h.make_node("Ten", ["x"], ["y"], domain="local")], x, y,
          [h.make_function("local", "Bad", ["a"], ["b"], [h.make_node("Constant", [], ["c"], value=constant("c", f32(7))), h.make_node("Add", ["a", "c"], ["b"])], forms),
           h.make_function("local", "Ten", ["a"], ["b"], many("Bad", 10), forms)])
    write("misread_output", [h.make_node("Exp", ["x"], ["y"])], x, [value("y", I, [2, 3])])


os.makedirs(FOLDER, exist_ok=True)
mlp("mlp", False)
mlp("external", True)
shapes()
control()
stops()
functions()
old_forms()
encodings()
resize()
broken()
