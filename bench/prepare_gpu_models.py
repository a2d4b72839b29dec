"""Fills a folder with what bench/gpu_models.sh runs on a machine with a card: one artifact per real model for the card, compiled
here without a card, inputs at several shapes, ONNX Runtime's outputs, and this machine's CPU times.

usage: prepare_gpu_models.py BUILD_FOLDER [--out packed-models] [--target cuda:sm_90a] [--only NAME] [--site FOLDER]
--site: a folder that holds the packages of models (default: site-packages of this Python, then those of WEFT_MODELS_SITE)."""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/models"))
import models  # noqa: E402

LIMIT_BYTES = 60 << 20


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--out", default="packed-models")
    p.add_argument("--target", default="cuda:sm_90a")
    p.add_argument("--only", action="append")
    p.add_argument("--site")
    p.add_argument("--no-cpu", action="store_true", help="no CPU artifact, no CPU time")
    return p.parse_args()


def find(site, file):
    for folder in [site] if site else models.SITES:
        for path in [os.path.join(folder, file)] + glob.glob(os.path.join(folder, "*", file)):
            if os.path.exists(path):
                return path
    raise RuntimeError("%s is not there" % file)


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError((result.stderr or result.stdout).strip()[-800:])
    return result.stdout


def save(folder, kind, k, named):
    files = []
    for name, array in named:
        file = "%s_%d_%s.npy" % (kind, k, "".join(c if c.isalnum() else "_" for c in name))
        np.save(os.path.join(folder, file), array)
        files.append([name, file])
    return files


def step_of(array):
    """Images travel as bytes: multiples of a power of two, at most 127 of them. None: the array travels as it is."""
    if array.dtype != np.float32 or array.size < 1 << 15 or not np.abs(array).max() > 0:
        return None
    return float(2.0 ** np.ceil(np.log2(np.abs(array).max() / 127)))


def coarse(array):
    """The array that travels."""
    step = step_of(array)
    return array if step is None else (np.round(array / step) * step).astype(np.float32)


def save_inputs(folder, k, feed):
    """[name, file, step]: the file holds the input, as bytes when there is a step."""
    files = []
    for name, array in feed.items():
        step = step_of(array)
        stored = array if step is None else np.round(array / step).astype(np.int8)
        assert step is None or (stored.astype(np.float32) * np.float32(step) == array).all(), "inputs must be coarse"
        files.append(save(folder, "in", k, [(name, stored)])[0] + [step])
    return files


def prepare(args, entry):
    name, file, make, shapes = entry
    path, folder = find(args.site, file), os.path.join(args.out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    weft = os.path.join(args.build, "cli/weft")
    row = {"name": name, "calls": []}
    start = time.perf_counter()
    rng = np.random.default_rng(7)
    feeds = [{n: coarse(a) for n, a in make(rng, shape).items()} for shape in shapes]
    fixed = ["--dim", models.DIMS[name]] if name in models.DIMS else []
    for constant in models.CONSTANTS.get(name, []):  # decides the control flow of the import: part of the artifact
        np.save("/tmp/prepare_gpu_models_constant.npy", feeds[0][constant])
        fixed += ["--input", "%s=/tmp/prepare_gpu_models_constant.npy" % constant]
    run([weft, "compile", path, "-o", os.path.join(folder, "model.weft"), "--target", args.target] + fixed)
    row["compile_s"] = time.perf_counter() - start
    row["artifact_mb"] = os.path.getsize(os.path.join(folder, "model.weft")) / 1e6
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for k, (shape, feed) in enumerate(zip(shapes, feeds)):
        given = {n: a for n, a in feed.items() if n not in models.CONSTANTS.get(name, [])}
        call = {"shape": list(shape), "inputs": save_inputs(folder, k, given)}
        call["outputs"] = save(folder, "want", k, zip(names, session.run(None, feed)))
        row["calls"].append(call)
    if not args.no_cpu:
        run([weft, "compile", path, "-o", "/tmp/prepare_gpu_models.weft"] + fixed)
        inputs = []
        for n in [f[0] for f in row["calls"][0]["inputs"]]:
            np.save("/tmp/prepare_gpu_models_%s.npy" % n.replace("/", "_"), feeds[0][n])
            inputs += ["--input", "%s=/tmp/prepare_gpu_models_%s.npy" % (n, n.replace("/", "_"))]
        bench = run([weft, "bench", "/tmp/prepare_gpu_models.weft", "--json", "--threads", "2"] + inputs)
        row["cpu_ms"] = json.loads(bench.splitlines()[0])["median_ms"]
    with open(os.path.join(folder, "model.json"), "w") as f:
        json.dump(row, f, indent=1)
    return row


def main():
    args = parse()
    failed = 0
    os.makedirs(args.out, exist_ok=True)
    for entry in models.MODELS:
        if entry[0] not in (args.only or [e[0] for e in models.DEMO]) or not entry[1].endswith(".onnx"):
            continue
        try:
            row = prepare(args, entry)
            print("%-18s compiled in %6.1f s, %6.2f MB, this CPU %s ms" % (
                entry[0], row["compile_s"], row["artifact_mb"], "%.3f" % row["cpu_ms"] if "cpu_ms" in row else "-"), flush=True)
        except RuntimeError as problem:
            failed += 1
            print("%-18s FAILED: %s" % (entry[0], problem), flush=True)
    total = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(args.out) for f in fs)
    print("%s: %.1f MB" % (args.out, total / 1e6))
    if total > LIMIT_BYTES:
        print("more than %d MiB: use --only" % (LIMIT_BYTES >> 20))
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
