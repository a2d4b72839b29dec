"""Real models: Weft against ONNX Runtime, ahead of time and just in time, with times.

usage: compare.py BUILD_FOLDER [--all] [--quick] [--only NAME[,NAME...]] [--device NAME] [--json FILE]
Per model: one artifact made by `weft compile`, run by `embed` (linked with libweft-rt alone) and timed by `weft bench`;
just in time by one `weft run` over all shapes. With --device (vulkan, cuda) the artifact is made for it and run there at its first
shape by `weft run`, and nothing is timed. all-MiniLM-L6-v2 is built by `embed_text` instead. Prints a table; exit code 1 when a model fails."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort

import minilm as encoder
import models

TOLERANCE = 1e-3  # of the largest reference value
THREADS = 2
ROUNDS = 3  # of timing; the best median of each counts


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--all", action="store_true")
    p.add_argument("--quick", action="store_true", help="no timing")
    p.add_argument("--only")
    p.add_argument("--device")
    p.add_argument("--json")
    return p.parse_args()


def reference(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def time_reference(session, feed, seconds=1.0):
    for _ in range(3):
        session.run(None, feed)
    samples, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples) < 5:
        start = time.perf_counter()
        session.run(None, feed)
        samples.append(time.perf_counter() - start)
    return float(np.median(samples)) * 1e3


def error(got, want):
    if got.shape != want.shape:
        return float("inf")
    if got.size == 0:
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    bad = np.abs(got - want).max() / max(1e-6, np.abs(want).max())
    return float("inf") if np.isnan(bad) else float(bad)


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError((result.stderr or result.stdout).strip()[-600:])
    return result.stdout


def parameters(path):
    graph = onnx.load(path).graph
    count, stack = 0, [graph]
    while stack:
        g = stack.pop()
        for t in g.initializer:
            count += int(np.prod(t.dims)) if t.dims else 1
        for node in g.node:
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    stack.append(a.g)
                elif a.type == onnx.AttributeProto.TENSOR and node.op_type == "Constant":
                    count += int(np.prod(a.t.dims)) if a.t.dims else 1
    return count


def inputs_of(folder, feed, k):
    arguments = []
    for name, array in feed.items():
        file = os.path.join(folder, "in_%d_%s.npy" % (k, name.replace("/", "_")))
        np.save(file, array)
        arguments.append("%s=%s" % (name, file))
    return arguments


def flags(flag, values):
    return [x for v in values for x in (flag, v)]


def check_model(args, entry, folder):
    name, _, make, shapes = entry
    path, weft, embed = models.path(entry), os.path.join(args.build, "cli/weft"), os.path.join(args.build, "examples/embed")
    minilm, text = None, os.path.join(args.build, "examples/embed_text")
    if name == "all-MiniLM-L6-v2":  # built by examples/embed_text.c through the C API; minilm.py writes the reference
        minilm, path = path, os.path.join(folder, "minilm.onnx")
        onnx.save(encoder.build(encoder.read(minilm)), path)
    if args.device:
        shapes = shapes[:1]
    rng, session = np.random.default_rng(7), reference(path)
    names = [o.name for o in session.get_outputs()]
    feeds = [make(rng, s) for s in shapes]
    wanted = [session.run(None, f) for f in feeds]
    artifact, row = os.path.join(folder, name + ".weft"), {"model": name, "parameters": parameters(path), "shapes": [list(s) for s in shapes]}
    given, outputs = [inputs_of(folder, f, k) for k, f in enumerate(feeds)], []
    dims = ["--dim", models.DIMS[name]] if name in models.DIMS else []
    constants = [g for g in given[0] if g.split("=", 1)[0] in models.CONSTANTS.get(name, [])]
    given = [[g for g in one if g.split("=", 1)[0] not in models.CONSTANTS.get(name, [])] for one in given]
    start = time.perf_counter()
    if minilm:
        run([text, minilm, "--save", artifact])
    else:
        run([weft, "compile", path, "-o", artifact] + dims + flags("--input", constants) + (["-t", args.device] if args.device else []))
    row["compile_s"] = time.perf_counter() - start
    row["artifact_mb"] = os.path.getsize(artifact) / 1e6
    aot, jit = [], []
    for k, want in enumerate(wanted):
        outputs.append(["%s=%s" % (n, os.path.join(folder, "out_%d_%d.npy" % (k, i))) for i, n in enumerate(names)])
        program = [weft, "run", artifact, "--device", args.device] if args.device else [embed, artifact]
        run(program + flags("--input", given[k]) + flags("--output", outputs[k]))
        aot += [error(np.load(os.path.join(folder, "out_%d_%d.npy" % (k, i))), w) for i, w in enumerate(want)]
    if args.device:
        row.update(aot_error=max(aot), jit_error=0.0, right=max(aot) <= TOLERANCE)
        return row
    for k in range(len(shapes)):
        for o in outputs[k]:
            os.remove(o.split("=", 1)[1])
    command = [weft, "run", path] + dims + flags("--input", constants)
    for k in range(len(shapes)):
        ports = dict(p.split("=", 1) for p in given[k] + outputs[k])
        if minilm:
            run([text, minilm, "--ids", ports["ids"], "--mask", ports["mask"], "--output", ports["embedding"]])
        command += flags("--input", given[k]) + flags("--output", outputs[k])
    if not minilm:
        run(command)
    for k, want in enumerate(wanted):
        jit += [error(np.load(os.path.join(folder, "out_%d_%d.npy" % (k, i))), w) for i, w in enumerate(want)]
    row["aot_error"], row["jit_error"] = max(aot), max(jit)
    if not args.quick:
        command = [weft, "bench", artifact, "--json", "--threads", str(THREADS)] + flags("--input", given[0])
        ours, theirs = [], []
        for _ in range(ROUNDS):  # in turns: what else the machine does meets both
            ours.append(json.loads(run(command).splitlines()[0]))
            theirs.append(time_reference(session, feeds[0]))
        best = min(ours, key=lambda b: b["median_ms"])
        row["weft_ms"], row["weft_p10"], row["weft_p90"] = best["median_ms"], best["p10_ms"], best["p90_ms"]
        row["ort_ms"] = min(theirs)
        row["ratio"] = row["ort_ms"] / row["weft_ms"]
    row["right"] = row["aot_error"] <= TOLERANCE and row["jit_error"] <= TOLERANCE
    return row


def show(row, quick):
    shape = "x".join(str(x) for x in row["shapes"][0])
    line = "%-20s %8.2fM %-14s aot %8.1e jit %8.1e compile %5.2f s %7.2f MB" % (
        row["model"], row["parameters"] / 1e6, shape, row["aot_error"], row["jit_error"], row["compile_s"], row["artifact_mb"])
    if not quick:
        line += "  weft %8.3f ms  onnxruntime %8.3f ms  %5.2fx" % (row["weft_ms"], row["ort_ms"], row["ratio"])
    print(line + ("" if row["right"] else "  WRONG"), flush=True)


def main():
    args = parse()
    args.quick |= args.device is not None
    entries = models.MODELS if args.all else models.DEMO
    if args.only:
        entries = [e for e in models.MODELS if e[0] in args.only.split(",")]
    rows, failed = [], 0
    print("onnxruntime %s, %d threads; error: largest difference over largest value, all shapes" % (ort.__version__, THREADS))
    for entry in entries:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = check_model(args, entry, folder)
            except RuntimeError as problem:
                print("%-20s FAILED: %s" % (entry[0], problem), flush=True)
                failed += 1
                continue
        rows.append(row)
        failed += not row["right"]
        show(row, args.quick)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    timed = [r for r in rows if "ratio" in r]
    for what, part in (("1 ms and over", [r for r in timed if r["ort_ms"] >= 1]), ("under 1 ms", [r for r in timed if r["ort_ms"] < 1])):
        if part:
            print("geomean speed against onnxruntime, models of %s: %.2fx" % (what, np.exp(np.mean([np.log(r["ratio"]) for r in part]))))
    print("%d of %d models right" % (len(entries) - failed, len(entries)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
