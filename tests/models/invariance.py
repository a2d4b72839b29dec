"""all-MiniLM-L6-v2 compiled with --batch-invariant: the embedding of a sentence has the same bits alone and in batches of
7, 64 and 1000, in the program of all batches and in one compiled for each.

usage: invariance.py BUILD_FOLDER [--tokens T] [--batches B,B,...] [--default]     --default: without the option, to see what differs"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import minilm as encoder


def run(weft, model, folder, options, cases):
    """Embeddings of [(ids, mask)], each a call of one function."""
    command, outputs = [weft, "run", model] + options, []
    for n, (ids, mask) in enumerate(cases):
        for name, array in (("ids", ids), ("mask", mask)):
            path = os.path.join(folder, f"{name}{n}.npy")
            np.save(path, array)
            command += ["--input", f"{name}={path}"]
        outputs.append(os.path.join(folder, f"embedding{n}.npy"))
        command += ["--output", "embedding=" + outputs[-1]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return [np.load(path) for path in outputs]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--tokens", type=int, default=8)
    p.add_argument("--batches", default="1,7,64,1000")
    p.add_argument("--default", action="store_true")
    args = p.parse_args()
    batches = sorted(int(b) for b in args.batches.split(","))
    whole, weft = batches[-1], os.path.join(args.build, "cli/weft")
    rng, option = np.random.default_rng(3), [] if args.default else ["--batch-invariant"]
    ids = rng.integers(1000, 20000, (whole, args.tokens))
    mask = (np.arange(args.tokens)[None] < rng.integers(2, args.tokens + 1, (whole, 1))).astype(np.int64)
    # each batch at the start, in the middle, at the end
    places = [(first, b) for b in batches for first in sorted({0, (whole - b) // 2, whole - b})]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "minilm.onnx")
        onnx.save(encoder.build(encoder.read(encoder.FILE)), model)
        slices = lambda some: [(ids[f:f + b], mask[f:f + b]) for f, b in some]
        dims = ["--dim", f"B=1..{whole}", "--dim", f"T={args.tokens}"]
        got = dict(zip(places, run(weft, model, folder, option + dims, slices(places))))
        want = got[0, whole]
        for b in batches:
            own = [place for place in places if place[1] == b]
            fixed = dict(zip(own, run(weft, model, folder, option + ["--dim", f"B={b}", "--dim", f"T={args.tokens}"], slices(own))))
            for kind, results in (("the program of all batches", got), ("a program of its own", fixed)):
                different = sum(int((results[f, b].view(np.uint32) != want[f:f + b].view(np.uint32)).any(axis=1).sum()) for f, _ in own)
                print(f"batch {b} in {kind}: {different} of {b * len(own)} embeddings differ from those of {whole}", flush=True)
                wrong += different
    print("invariance: " + ("ok" if not wrong else f"{wrong} embeddings differ"))
    return 1 if wrong else 0


sys.exit(main())
