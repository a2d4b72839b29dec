"""Products of f16 through a Vulkan driver, by cooperative matrices where the device has them (the arch that `weft doctor`
names, vulkan1.2-coop16 on graphics cards) and by scalar multiply-adds (vulkan1.2): right beside numpy at uneven sizes, then timed. Times are slopes between chains of few and of many products
in one program, so that what surrounds them does not count. usage: gpu_vulkan.py WEFT FOLDER [SIZE...]"""
import json
import os
import re
import subprocess
import sys

import numpy

FEW, MANY = 2, 10


def graph(m, n, k, links):
    """z = x y, then z = z w (n x n) again and again."""
    lines = [f'graph @chain {{', f'  input %0 "x" : f16[{m}, {k}]', f'  input %1 "y" : f16[{k}, {n}]', f'  input %2 "w" : f16[{n}, {n}]']
    last = "%0"
    for i in range(links):
        right = "%1" if i == 0 else "%2"
        lines.append(f'  %{i + 3} = dot_general {last}, {right} {{lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [0], '
                     f'accumulate = f32, dtype = f16}} : f16[{m}, {n}]')
        last = f"%{i + 3}"
    return "\n".join(lines + [f'  output "z" {last}', "}", ""])


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    if done.returncode:
        raise RuntimeError(" ".join(words) + ": " + (done.stderr or done.stdout)[-600:])
    return done.stdout


def artifact(weft, folder, arch, shape, links):
    name = os.path.join(folder, f"chain-{'x'.join(map(str, shape))}-{links}")
    with open(name + ".wir", "w") as file:
        file.write(graph(*shape, links))
    call(weft, "compile", name + ".wir", "--target", "vulkan:" + arch, "-o", name + "-" + arch + ".weft")
    return name + "-" + arch + ".weft"


def check(weft, folder, arch, shape):
    m, n, k = shape
    random = numpy.random.default_rng(1)
    x, y, w = (random.standard_normal(s).astype(numpy.float16) / 8 for s in ((m, k), (k, n), (n, n)))
    paths = {name: os.path.join(folder, name + ".npy") for name in "xywz"}
    for name, value in (("x", x), ("y", y), ("w", w)):
        numpy.save(paths[name], value)
    call(weft, "run", artifact(weft, folder, arch, shape, FEW), "--device", "vulkan", *(f"-i{i}={paths[i]}" for i in "xyw"),
         f"-oz={paths['z']}")
    first = (x.astype(numpy.float32) @ y.astype(numpy.float32)).astype(numpy.float16)
    right = first.astype(numpy.float32) @ w.astype(numpy.float32)
    error = float(numpy.abs(numpy.load(paths["z"]).astype(numpy.float32) - right).max() / numpy.abs(right).max())
    print(f"vulkan product {arch:18} {m}x{n}x{k}: error {error:.1e} {'right' if error < 3e-3 else 'WRONG'}", flush=True)
    return error < 3e-3


def milliseconds(weft, folder, arch, shape, links):
    out = call(weft, "bench", artifact(weft, folder, arch, shape, links), "--device", "vulkan", "--runs", "15", "--json")
    return json.loads(out)["median_ms"]


def main():
    weft, folder = sys.argv[1:3]
    sizes = [int(word) for word in sys.argv[3:]] or [1024, 2048, 4096]
    own = re.search(r"^driver +vulkan .*, (vulkan1\.2[-a-z0-9]*),", call(weft, "doctor"), re.M)
    archs = sorted({"vulkan1.2", own.group(1) if own else "vulkan1.2"})
    fine = all([check(weft, folder, arch, shape) for shape in ((64, 64, 32), (257, 130, 72), (1000, 520, 311)) for arch in archs])
    for size in sizes:
        rates = {}
        for arch in archs:
            few, many = (milliseconds(weft, folder, arch, (size, size, size), links) for links in (FEW, MANY))
            rates[arch] = 2e-9 * size ** 3 * (MANY - FEW) / max(many - few, 1e-6)
        print(f"vulkan product {size}^3: " + ", ".join(f"{arch} {rate:.1f} TFLOP/s" for arch, rate in rates.items()), flush=True)
    return 0 if fine else 1


sys.exit(main())
