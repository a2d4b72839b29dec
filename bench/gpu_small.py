"""Networks of a few microseconds on a card: results against numpy in f64, time on the device, round trip host to host.

usage: gpu_small.py WEFT [--device cuda:0] [--target cuda:sm_90a]
The first is what physics-informed networks evaluate: 2 -> 64 x 4 -> 1, tanh, 200 points."""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

NETWORKS = [("pinn", 200, [2, 64, 64, 64, 64, 1]), ("pinn, 4096 points", 4096, [2, 64, 64, 64, 64, 1]), ("one row", 1, [16, 128, 128, 4]),
            ("digits, 64", 64, [784, 256, 256, 10]), ("digits, 1024", 1024, [784, 256, 256, 10])]  # weights of 1 MB: a launch a layer


def literal(a):
    return "dense f32[%s] [%s]" % (", ".join(map(str, a.shape)), ", ".join(repr(float(x)) for x in a.reshape(-1)))


def network(rows, widths, seed=1):
    """The graph as text, and a function that computes it."""
    rng, layers, text, last, n = np.random.default_rng(seed), [], [], 0, 1
    for k, out in zip(widths, widths[1:]):
        layers.append(((rng.standard_normal((out, k)) / np.sqrt(k)).astype(np.float32), (0.1 * rng.standard_normal(out)).astype(np.float32)))
    for i, (w, b) in enumerate(layers):
        shape = "f32[%d, %d]" % (rows, len(b))
        text += ["%%%d = constant {value = %s} : f32[%d, %d]" % (n, literal(w), *w.shape), "%%%d = constant {value = %s} : f32[%d]" % (n + 1, literal(b), len(b)),
                 "%%%d = dot_general %%%d, %%%d {lhs_batch = [], rhs_batch = [], lhs_contract = [1], rhs_contract = [1], dtype = f32} : %s" % (n + 2, last, n, shape),
                 "%%%d = broadcast %%%d {shape = [%d, %d], axes = [1]} : %s" % (n + 3, n + 1, rows, len(b), shape),
                 "%%%d = add %%%d, %%%d : %s" % (n + 4, n + 2, n + 3, shape)]
        last, n = n + 4, n + 5
        if i + 1 < len(layers):
            text.append("%%%d = tanh %%%d : %s" % (n, last, shape))
            last, n = n, n + 1
    whole = "graph @\"small\" {\n  input %%0 \"x\" : f32[%d, %d]\n  %s\n  output \"y\" %%%d\n}\n" % (rows, widths[0], "\n  ".join(text), last)

    def run(x):
        for i, (w, b) in enumerate(layers):
            x = x @ w.T.astype(np.float64) + b
            x = np.tanh(x) if i + 1 < len(layers) else x
        return x
    return whole, run


def command(*arguments):
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    if result.returncode:
        raise SystemExit((result.stderr or result.stdout)[-900:])
    return result.stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("weft")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--target", default="cuda:sm_90a")
    args = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        for name, rows, widths in NETWORKS:
            text, run = network(rows, widths)
            with open(at("small.wir"), "w") as f:
                f.write(text)
            x = np.random.default_rng(2).uniform(-1, 1, (rows, widths[0])).astype(np.float32)
            np.save(at("x.npy"), x)
            command(args.weft, "compile", at("small.wir"), "--target", args.target, "-o", at("small.weft"))
            command(args.weft, "run", at("small.weft"), "--device", args.device, "-i", "x=" + at("x.npy"), "-o", "y=" + at("y.npy"))
            want = run(x.astype(np.float64))
            error = float(np.abs(np.load(at("y.npy")) - want).max() / np.abs(want).max())
            times = json.loads(command(args.weft, "bench", at("small.weft"), "--device", args.device, "--json", "-i", "x=" + at("x.npy")).splitlines()[0])
            limit = 2e-6 * max(1, max(widths) / 128) ** 0.5
            failed += not error <= limit
            print("small %s: %d x %s: error %.1e %s, device %.2f us, round trip %.2f us (p10 %.2f, p90 %.2f)" % (
                name, rows, "-".join(map(str, widths)), error, "right" if error <= limit else "WRONG", times["device_ms"] * 1e3, times["median_ms"] * 1e3,
                times["p10_ms"] * 1e3, times["p90_ms"] * 1e3), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
