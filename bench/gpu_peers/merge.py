"""Results of separate processes as one: gpu-PART.json of bench/gpu.sh and vit*.json of bench/gpu_models.sh in one folder
become gpu.json, and a last line says how Weft stands, part by part. Needs neither a card nor PyTorch."""
import glob, json, math, os

# what the last line says: the name there, and the part of a result that counts
HEADLINE = (("gemm", "gemm"), ("attention-fwd", "attention"), ("attention-bwd", "attention-bwd"), ("row", "row"), ("model", "model"))


def geomean(ratios):
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "-"


def ratios_of(results, part):
    return [r["ratio"] for r in results if r["part"] == part and r.get("ratio")]


def last_line(results, models):
    """Geometric means of the best peer's time over Weft's; "-" where nothing was measured."""
    results = results + [{"part": "model", "ratio": row["ratio"]} for row in models if row.get("ratio")]
    return "geomean vs best of torch: " + " ".join(f"{name} {geomean(ratios_of(results, part))}" for name, part in HEADLINE)


def read_all(folder):
    merged = {"tested": 0, "failures": [], "results": [], "models": []}
    for path in sorted(glob.glob(os.path.join(folder, "gpu-*.json"))):
        with open(path) as file:
            own = json.load(file)
        merged["versions"] = own["versions"]
        merged["copy_TBps"] = own["copy_TBps"] or merged.get("copy_TBps")
        merged["tested"] += own["tested"]
        merged["failures"] += own["failures"]
        merged["results"] += own["results"]
    for path in sorted(glob.glob(os.path.join(folder, "vit*.json"))):
        with open(path) as file:
            merged["models"] += json.load(file)
    return merged


def merge(folder):
    merged = read_all(folder)
    with open(os.path.join(folder, "gpu.json"), "w") as out:
        json.dump(merged, out, indent=1)
    print(f"all parts: {merged['tested']} compared, {len(merged['failures'])} failed")
    for failure in merged["failures"]:
        print("  FAILED", failure)
    parts = list(dict.fromkeys(r["part"] for r in merged["results"]))
    print("geomean of every part: " + " ".join(f"{part} {geomean(ratios_of(merged['results'], part))}" for part in parts))
    print(last_line(merged["results"], merged["models"]))
    return 0
