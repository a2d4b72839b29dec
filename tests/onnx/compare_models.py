"""Compares weft with onnxruntime on real models, at several shapes: every output of every model.

usage: compare_models.py WEFT [--compiled] MODEL NAME=SHAPE[;NAME=SHAPE...] ...
A shape is 1x3x64x64; a value list is written =v1,v2 (int64); @NAME=RANGE declares an extent (weft run --dim). Inputs that are not named get extents of 1 for unknown axes.
"""
import subprocess, sys, tempfile, os, time
import numpy as np, onnxruntime as ort

KINDS = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
         "tensor(double)": np.float64, "tensor(float16)": np.float16}


def run(weft, compiled, model, spec):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    given = dict(part.split("=", 1) for part in spec.split(";") if part and part[0] != "@")
    dims = [part[1:] for part in spec.split(";") if part.startswith("@")]
    rng = np.random.default_rng(1)
    feeds = {}
    for x in session.get_inputs():
        kind = KINDS[x.type]
        text = given.get(x.name)
        if text and text.startswith("="):
            feeds[x.name] = np.array([int(v) for v in text[1:].split(",")], kind)
            if not x.shape:
                feeds[x.name] = feeds[x.name].reshape(())
            continue
        shape = [int(v) for v in text.split("x")] if text else [d if isinstance(d, int) else 1 for d in x.shape]
        feeds[x.name] = (rng.standard_normal(shape).astype(kind) if np.issubdtype(kind, np.floating)
                         else rng.integers(0, 100, shape).astype(kind))
    want = session.run(None, feeds)
    with tempfile.TemporaryDirectory() as folder:
        command = [weft, "run", model] + ([] if compiled else ["--interpret"])
        for dim in dims:
            command += ["-d", dim]
        for name, value in feeds.items():
            np.save(f"{folder}/in_{name}.npy", value)
            command += ["-i", f"{name}={folder}/in_{name}.npy"]
        names = [o.name for o in session.get_outputs()]
        for i, name in enumerate(names):
            command += ["-o", f"{name}={folder}/out_{i}.npy"]
        start = time.time()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.time() - start
        if done.returncode:
            return f"FAILED {done.stderr.strip()[:1500]}"
        worst = 0.0
        for i, b in enumerate(want):
            a = np.load(f"{folder}/out_{i}.npy")
            if a.shape != b.shape:
                return f"output {names[i]} has shape {a.shape}, onnxruntime {b.shape}"
            if b.size:
                worst = max(worst, float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)) / (1 + np.abs(b)))))
    return f"{'ok' if worst < 2e-4 else 'DIFFERS'}: worst |a-b|/(1+|b|) = {worst:.2e}, {seconds:.1f} s"


def main():
    arguments = sys.argv[1:]
    compiled = "--compiled" in arguments
    arguments = [a for a in arguments if a != "--compiled"]
    weft, model, failures = arguments[0], arguments[1], 0
    for spec in arguments[2:] or [""]:
        result = run(weft, compiled, model, spec)
        failures += not result.startswith("ok")
        print(os.path.basename(model), spec, result, flush=True)
    return 1 if failures else 0


sys.exit(main())
