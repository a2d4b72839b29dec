"""Products of f16, bf16 and i8 through a Vulkan driver, by cooperative matrices where the device has them (the arch that `weft doctor`
names, vulkan1.2-coop16-bf16-i8 or a part of it on graphics cards) and by scalar multiply-adds (vulkan1.2): right beside numpy at uneven
sizes, then timed. Times are slopes between chains of few and of many products in one program, so that what surrounds them does not
count. usage: gpu_vulkan.py WEFT FOLDER [SIZE...]"""
import json
import os
import re
import subprocess
import sys

import numpy

FEW, MANY = 2, 10
CARRIERS = {"f16": "f16", "bf16": "u16", "i8": "i8"}  # of files: numpy has no bf16
SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32"}


def graph(dtype, m, n, k, links):
    """z = x y, then z = z w (n x n) again and again, each rounded to the type of the operands."""
    carrier, number = CARRIERS[dtype], 3
    lines = ["graph @chain {"] + [f'  input %{i} "{name}" : {carrier}[{shape}]' for i, (name, shape) in
                                  enumerate((("x", f"{m}, {k}"), ("y", f"{k}, {n}"), ("w", f"{n}, {n}")))]
    operands = ["%0", "%1", "%2"]

    def add(text, shape, of=dtype):
        nonlocal number
        lines.append(f"  %{number} = {text} : {of}[{shape}]")
        number += 1
        return f"%{number - 1}"

    if carrier != dtype:
        for i, shape in enumerate((f"{m}, {k}", f"{k}, {n}", f"{n}, {n}")):
            operands[i] = add("optimization_barrier " + add(f"bitcast {operands[i]} {{dtype = {dtype}}}", shape), shape)
    last = operands[0]
    for i in range(links):
        right = operands[1] if i == 0 else operands[2]
        last = add(f"dot_general {last}, {right} {{lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], "
                   f"accumulate = {SUMS[dtype]}, dtype = {dtype}}}", f"{m}, {n}")
    if carrier != dtype:
        last = add(f"bitcast {add('optimization_barrier ' + last, f'{m}, {n}')} {{dtype = {carrier}}}", f"{m}, {n}", carrier)
    return "\n".join(lines + [f'  output "z" {last}', "}", ""])


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise RuntimeError(" ".join(words) + ": " + (done.stderr or done.stdout)[-600:])
    return done.stdout


def artifact(weft, folder, arch, dtype, shape, links):
    name = os.path.join(folder, f"chain-{dtype}-{'x'.join(map(str, shape))}-{links}")
    with open(name + ".wir", "w") as file:
        file.write(graph(dtype, *shape, links))
    call(weft, "compile", name + ".wir", "--target", "vulkan:" + arch, "-o", name + "-" + arch + ".weft")
    return name + "-" + arch + ".weft"


def to_file(dtype, values):
    """As the file holds them; ties of bf16 to even."""
    if dtype == "i8":
        return values.astype(numpy.int64).astype(numpy.int8)
    if dtype == "f16":
        return values.astype(numpy.float16)
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def from_file(dtype, values):
    if dtype == "bf16":
        return (values.astype(numpy.uint32) << 16).view(numpy.float32)
    return values.astype(numpy.int64 if dtype == "i8" else numpy.float32)


def check(weft, folder, arch, dtype, shape):
    m, n, k = shape
    random = numpy.random.default_rng(1)
    x, y, w = (to_file(dtype, random.integers(-128, 128, s) if dtype == "i8" else random.standard_normal(s) / 8)
               for s in ((m, k), (k, n), (n, n)))
    paths = {name: os.path.join(folder, name + ".npy") for name in "xywz"}
    for name, value in (("x", x), ("y", y), ("w", w)):
        numpy.save(paths[name], value)
    call(weft, "run", artifact(weft, folder, arch, dtype, shape, FEW), "--device", "vulkan", *(f"-i{i}={paths[i]}" for i in "xyw"),
         f"-oz={paths['z']}")
    x, y, w = (from_file(dtype, value) for value in (x, y, w))
    right = from_file(dtype, to_file(dtype, from_file(dtype, to_file(dtype, x @ y)) @ w))
    error = float(numpy.abs(from_file(dtype, numpy.load(paths["z"])) - right).max() / numpy.abs(right).max())
    fine = error <= {"f16": 3e-3, "bf16": 2e-2, "i8": 0}[dtype]
    print(f"vulkan product {dtype:4} {arch:24} {m}x{n}x{k}: error {error:.1e} {'right' if fine else 'WRONG'}", flush=True)
    return fine


def milliseconds(weft, folder, arch, dtype, shape, links):
    out = call(weft, "bench", artifact(weft, folder, arch, dtype, shape, links), "--device", "vulkan", "--runs", "15", "--json")
    return json.loads(out)["median_ms"]


def main():
    weft, folder = sys.argv[1:3]
    sizes = [int(word) for word in sys.argv[3:]] or [1024, 2048, 4096]
    own = re.search(r"^driver +vulkan .*, (vulkan1\.2[-a-z0-9]*),", call(weft, "doctor"), re.M)
    own = own.group(1) if own else "vulkan1.2"
    dtypes = [t for t in SUMS if t == "f16" or t in own or (t == "i8" and "coop8" in own)]
    cases = [(dtype, arch) for dtype in dtypes for arch in sorted({"vulkan1.2", own})]
    fine = all([check(weft, folder, arch, dtype, shape) for shape in ((64, 64, 32), (257, 130, 72), (1000, 520, 311))
                for dtype, arch in cases if dtype == "f16" or arch != "vulkan1.2"])
    for size in sizes:
        for dtype in dtypes:
            rates = {}
            for arch in {"vulkan1.2", own} if dtype == "f16" and size < 4096 else {own}:
                few, many = (milliseconds(weft, folder, arch, dtype, (size, size, size), links) for links in (FEW, MANY))
                rates[arch] = 2e-9 * size ** 3 * (MANY - FEW) / max(many - few, 1e-6)
            text = ", ".join(f"{arch} {rate:.1f} TFLOP/s" for arch, rate in sorted(rates.items()))
            print(f"vulkan product {dtype} {size}^3: {text}", flush=True)
    return 0 if fine else 1


sys.exit(main())
