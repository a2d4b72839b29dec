"""Products of f16, bf16 and i8 through a Vulkan driver, by cooperative matrices where the device has them (the arch that `weft doctor`
names, vulkan1.2-coop16-bf16-i8 or a part of it on graphics cards) and by scalar multiply-adds (vulkan1.2): right beside numpy at uneven
sizes, then timed. Times are slopes between chains of few and of many products in one program, so that what surrounds them does not
count; nn and nt: right-hand sides row by row and column by column, in turns, the best and the worst of three rounds. usage: gpu_vulkan.py WEFT FOLDER [SIZE...]"""
import json
import os
import re
import subprocess
import sys

import numpy

FEW, ROUNDS = 2, 3


def many_of(size):
    """Links of the long chain: a millisecond and more on a card."""
    return FEW + (32 if size <= 1024 else 8 if size <= 2048 else 4)


CARRIERS = {"f16": "f16", "bf16": "u16", "i8": "i8"}  # of files: numpy has no bf16
SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32"}


def graph(dtype, m, n, k, links, order="nn"):
    """z = x y, then z = z w (n x n; nt: by its columns) again and again, each rounded to the type of the operands."""
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
        contract = 1 if order == "nt" and i else 0
        last = add(f"dot_general {last}, {right} {{lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [{contract}], "
                   f"accumulate = {SUMS[dtype]}, dtype = {dtype}}}", f"{m}, {n}")
    if carrier != dtype:
        last = add(f"bitcast {add('optimization_barrier ' + last, f'{m}, {n}')} {{dtype = {carrier}}}", f"{m}, {n}", carrier)
    return "\n".join(lines + [f'  output "z" {last}', "}", ""])


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise RuntimeError(" ".join(words) + ": " + (done.stderr or done.stdout)[-600:])
    return done.stdout


def artifact(weft, folder, arch, dtype, shape, links, order="nn"):
    name = os.path.join(folder, f"chain-{dtype}-{order}-{'x'.join(map(str, shape))}-{links}")
    with open(name + ".wir", "w") as file:
        file.write(graph(dtype, *shape, links, order))
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


def milliseconds(weft, path):
    return json.loads(call(weft, "bench", path, "--device", "vulkan", "--runs", "15", "--json"))["median_ms"]


def measure(weft, folder, size, cases):
    """cases: dtype, arch, order. In turns."""
    many, rates = many_of(size), {case: [] for case in cases}
    paths = {case: [artifact(weft, folder, case[1], case[0], (size,) * 3, links, case[2]) for links in (FEW, many)] for case in cases}
    for _ in range(ROUNDS):
        for case in cases:
            few, all_links = (milliseconds(weft, path) for path in paths[case])
            rates[case].append(2e-9 * size ** 3 * (many - FEW) / max(all_links - few, 1e-6))
    for (dtype, arch, order), values in rates.items():
        print(f"vulkan product {dtype:4} {size}^3 {order} {arch}: {max(values):.1f} TFLOP/s (worst {min(values):.1f})", flush=True)


def main():
    weft, folder = sys.argv[1:3]
    sizes = [int(word) for word in sys.argv[3:]] or [1024, 2048]
    own = re.search(r"^driver +vulkan .*, (vulkan1\.2[-a-z0-9]*),", call(weft, "doctor"), re.M)
    own = own.group(1) if own else "vulkan1.2"
    dtypes = [t for t in SUMS if t == "f16" or t in own or (t == "i8" and "coop8" in own)]
    cases = [(dtype, arch) for dtype in dtypes for arch in sorted({"vulkan1.2", own})]
    fine = all([check(weft, folder, arch, dtype, shape) for shape in ((64, 64, 32), (257, 130, 72), (1000, 520, 311))
                for dtype, arch in cases if dtype == "f16" or arch != "vulkan1.2"])
    for size in sizes:
        archs = [own] + ["vulkan1.2-coop16"] * (own.startswith("vulkan1.2-coop16-")) + ["vulkan1.2"] * (size <= 1024)
        measure(weft, folder, size, [(dtype, arch, order) for dtype in dtypes for order in ("nn", "nt")
                                     for arch in (archs if dtype == "f16" and order == "nn" else [own])])
    return 0 if fine else 1


sys.exit(main())
