"""Runs the models that prepare_gpu_models.py packed on a card: results against ONNX Runtime's, round trip and device time.

usage: gpu_models.py WEFT FOLDER [--device cuda:0] [--json FILE]
round trip: one call from host tensors to host tensors. device: what the card worked for it, without the copies of inputs
and outputs. right: the largest difference is at most 1e-3 of the largest value, at every shape, in two runs with equal bits."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

TOLERANCE = 1e-3


def error(got, want):
    if got.shape != want.shape:
        return float("inf")
    if got.size == 0:
        return 0.0
    bad = np.abs(got.astype(np.float64) - want.astype(np.float64)).max() / max(1e-6, np.abs(want.astype(np.float64)).max())
    return float("inf") if np.isnan(bad) else float(bad)


def run(command, seconds=90):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError("no end after %d s" % seconds)
    if result.returncode != 0:
        raise RuntimeError((result.stderr or result.stdout).strip()[-900:] or "exit code %d" % result.returncode)
    return result.stdout


def given(folder, call, temporary):
    arguments = []
    for name, file, scale in call["inputs"]:
        path = os.path.join(folder, file)
        if scale:  # stored as bytes
            np.save(os.path.join(temporary, file), np.load(path).astype(np.float32) * np.float32(scale))
            path = os.path.join(temporary, file)
        arguments += ["--input", "%s=%s" % (name, path)]
    return arguments


def check(args, folder, row, temporary):
    """All shapes in one process, twice: the second run must have the bits of the first."""
    errors, bits = [], []
    for repeat in range(2):
        command, kept = [args.weft, "run", os.path.join(folder, "model.weft"), "--device", args.device], []
        for k, call in enumerate(row["calls"]):
            command += given(folder, call, temporary)
            for i, (name, file) in enumerate(call["outputs"]):
                kept.append((k, os.path.join(temporary, "%d_%d_%d.npy" % (repeat, k, i)), os.path.join(folder, file)))
                command += ["--output", "%s=%s" % (name, kept[-1][1])]
        run(command)
        errors += [(error(np.load(got), np.load(want)), k) for k, got, want in kept]
        bits.append([np.load(got).tobytes() for _, got, _ in kept])
    row["errors"] = [max(e for e, at in errors if at == k) for k in range(len(row["calls"]))]
    row["same_bits"] = bits[0] == bits[1]
    row["right"] = max(row["errors"]) <= TOLERANCE and row["same_bits"]


def time_calls(args, folder, row, temporary):
    row["times"] = []
    for call in row["calls"]:
        out = run([args.weft, "bench", os.path.join(folder, "model.weft"), "--device", args.device, "--json"] + given(folder, call, temporary))
        row["times"].append(json.loads(out.splitlines()[0]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("weft")
    p.add_argument("folder")
    p.add_argument("--device", default="cuda:0")
    p.add_argument("--json")
    args = p.parse_args()
    rows, failed = [], 0
    for name in sorted(os.listdir(args.folder)):
        folder = os.path.join(args.folder, name)
        if not os.path.exists(os.path.join(folder, "model.json")):
            continue
        with open(os.path.join(folder, "model.json")) as f:
            row = json.load(f)
        with tempfile.TemporaryDirectory() as temporary:
            try:
                check(args, folder, row, temporary)
                time_calls(args, folder, row, temporary)
            except RuntimeError as problem:
                row["problem"], row["right"] = str(problem), False
        rows.append(row)
        failed += not row["right"]
        for k, call in enumerate(row["calls"]):
            bad = "%8.1e" % row["errors"][k] if "errors" in row else "       -"
            times = row["times"][k] if k < len(row.get("times", [])) else None
            took = "round trip %9.3f ms  device %9s ms  first %8.1f ms" % (
                times["median_ms"], "%.3f" % times["device_ms"] if times.get("device_ms") else "-", times["first_ms"]) if times else ""
            cpu = "  the preparing CPU %9.3f ms" % row["cpu_ms"] if k == 0 and "cpu_ms" in row else ""
            print("%-18s %-14s error %s  %s%s" % (row["name"], "x".join(map(str, call["shape"])), bad, took, cpu))
        if not row.get("same_bits", True):
            print("%-18s two runs differ in their bits" % row["name"])
        print("%-18s %s" % (row["name"], "right" if row["right"] else "WRONG  " + row.get("problem", "")), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    print("models: %d of %d right" % (len(rows) - failed, len(rows)))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
