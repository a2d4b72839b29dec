"""Weft's kernels beside PyTorch's on one CUDA device: right first, then timed. One row of PARTS is one thing to measure.

usage: python3 bench/gpu_peers LIBRARY OUT.json [PART ...]     runs parts; without names, those of a full run
       python3 bench/gpu_peers --list                          their names and what they are
       python3 bench/gpu_peers --default                       the names of a full run
       python3 bench/gpu_peers --rehearse [PART ...]           parts without a card or Weft: names, shapes, arguments
       python3 bench/gpu_peers --merge FOLDER                  the results of separate runs in FOLDER as one, and its last line
bench/gpu.sh builds the library and calls this once a part. Read next: library.py, measure.py, then the file of a part."""
import faulthandler, importlib, json, sys, time
from merge import last_line, merge

# name: file, whether a full run has it. The function is part_NAME there, its docstring what is measured.
PARTS = {
    "test": ("selftest", True), "gemm": ("products", True), "turns": ("epilogues", True), "gelu": ("epilogues", True), "loaded": ("epilogues", False), "fused": ("products", True), "ragged": ("products", True), "thin": ("products", True),
    "tf32": ("products", True), "fp8": ("products", True), "mma": ("products", True), "simt": ("products", False), "fused-searched": ("products", False),
    "attention": ("attention", True), "attention-bwd": ("attention_backward", True), "attention-forms": ("attention_forms", False), "attention-caps": ("attention_forms", False), "attention-dropout": ("attention_forms", False), "attention-bias": ("attention_forms", False), "attention-wide": ("attention_backward", False), "decode": ("attention", True),
    "invariant": ("invariant", False),
    "row": ("rows", True), "flat": ("rows", True), "mlp": ("mlp", True), "depthwise": ("convolutions", True), "convolution": ("convolutions", True),
    "scales": ("groups", True), "grouped": ("groups", True),
    "adamw": ("programs", True), "head": ("programs", True), "loop": ("programs", False), "linalg": ("linalg", False),
}


def find_part(name):
    return getattr(importlib.import_module(PARTS[name][0]), "part_" + name.replace("-", "_"))


def open_device(path):
    import library, torch
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    weft = library.load(path)
    if weft.weft_bench_open(0):
        raise SystemExit("weft: " + weft.weft_bench_error().decode())
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}


def run_parts(path, out_path, parts):
    import measure
    faulthandler.dump_traceback_later(40, repeat=True)  # what does not come back shows where it waits
    versions = open_device(path)
    print(versions)
    start = time.time()
    for part in parts:
        print(f"== {part} (at {time.time() - start:.0f} s)", flush=True)
        try:
            find_part(part)()
        except Exception as problem:  # one part that breaks leaves the others their figures
            measure.failures.append(f"part {part}: {type(problem).__name__}: {problem}")
            print(f"part {part} broke: {problem}", flush=True)
            if "CUDA_ERROR" in str(problem) or "CUDA error" in str(problem):
                break
        found = {"parts": parts, "versions": versions, "copy_TBps": measure.measured_copy and measure.measured_copy * 1e-12, "tested": measure.tested,
                 "failures": measure.failures, "results": measure.results}
        with open(out_path, "w") as out:
            json.dump(found, out, indent=1)
    print(f"self-test: {measure.tested} compared, {len(measure.failures)} failed")
    for failure in measure.failures:
        print("  FAILED", failure)
    print(last_line(measure.results, []))
    return 1 if measure.failures else 0


def main(arguments):
    if arguments[:1] == ["--list"]:
        for name, (file, default) in PARTS.items():
            print(f"{name:16} {file + '.py':22} {'' if default else 'by name only'}".rstrip())
        return 0
    if arguments[:1] == ["--default"]:
        print(*(name for name, (_, default) in PARTS.items() if default))
        return 0
    if arguments[:1] == ["--merge"] and len(arguments) == 2:
        return merge(arguments[1])
    rehearsed = arguments[:1] == ["--rehearse"]
    names = arguments[1 if rehearsed else 2:]
    unknown = [name for name in names if name not in PARTS]
    if len(arguments) < 2 - rehearsed or unknown:
        print(f"no part {unknown[0]}; there are: {' '.join(PARTS)}" if unknown else __doc__)
        return 2
    if rehearsed:
        return importlib.import_module("rehearse").rehearse(names or list(PARTS), find_part)
    return run_parts(arguments[0], arguments[1], names or [name for name, (_, default) in PARTS.items() if default])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
