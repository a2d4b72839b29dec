"""Vision transformers on a card, Weft beside torch.compile: results against float32, device time, memory, compile time.

usage: gpu_vit.py WEFT_GPU_VIT OUT.json [--large | --all]     ViT-B; --large: ViT-L; --all: both, with max-autotune too,
which takes PyTorch five minutes
Both sides get the same random weights and images. Correct: logits against PyTorch's in float32 (no tf32), largest
difference over the largest value: f32 1e-4, bf16 within 1.5 times of what PyTorch's own bf16 loses (and at most 5e-2).
Time: medians of 20 calls by CUDA events; Weft's runs before and after PyTorch's, so that clocks are seen to be equal. Cold compile: empty
cache folder; warm: the same again. Weft's memory is what its plan asks for (weights and temporaries), PyTorch's the
peak of its allocator."""
import json, os, struct, subprocess, sys, tempfile, time
import numpy as np
import torch
import torch.nn.functional as F

CASES = [("ViT-B/16", 768, 12, 12, 128), ("ViT-L/16", 1024, 24, 16, 64)]
SIDE, PATCH, CLASSES = 224, 16, 1000
MODES = ("default", "max-autotune") if "--all" in sys.argv else ("default",)


def make_weights(width, layers, side=SIDE):
    generator = torch.Generator().manual_seed(7)
    tokens = (side // PATCH) ** 2 + 1
    shapes = {"cls_token": (1, 1, width), "pos_embed": (1, tokens, width), "patch_embed.proj.weight": (width, 3, PATCH, PATCH), "patch_embed.proj.bias": (width,)}
    for i in range(layers):
        for name, shape in {"norm1.weight": (width,), "norm1.bias": (width,), "attn.qkv.weight": (3 * width, width), "attn.qkv.bias": (3 * width,),
                            "attn.proj.weight": (width, width), "attn.proj.bias": (width,), "norm2.weight": (width,), "norm2.bias": (width,),
                            "mlp.fc1.weight": (4 * width, width), "mlp.fc1.bias": (4 * width,), "mlp.fc2.weight": (width, 4 * width), "mlp.fc2.bias": (width,)}.items():
            shapes[f"blocks.{i}.{name}"] = shape
    shapes.update({"norm.weight": (width,), "norm.bias": (width,), "head.weight": (CLASSES, width), "head.bias": (CLASSES,)})
    weights = {}
    for name, shape in shapes.items():
        w = torch.randn(shape, generator=generator) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.1)
        weights[name] = w + 1 if "norm" in name and name.endswith("weight") else w
    return weights


def write_safetensors(path, weights):
    names = {torch.float32: "F32", torch.bfloat16: "BF16"}
    header, parts, at = {}, [], 0
    for name, w in weights.items():
        data = w.contiguous().view(torch.uint8).numpy().tobytes() if w.dim() else w.numpy().tobytes()
        header[name] = {"dtype": names[w.dtype], "shape": list(w.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            f.write(part)


def vit(x, w, layers, heads):
    x = x.to(w["pos_embed"].dtype)
    x = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(x.shape[0], -1, -1), x], 1) + w["pos_embed"]
    width = x.shape[-1]
    norm = lambda y, name: F.layer_norm(y, (width,), w[name + ".weight"], w[name + ".bias"], 1e-6)
    linear = lambda y, name: F.linear(y, w[name + ".weight"], w[name + ".bias"])
    for i in range(layers):
        b = f"blocks.{i}."
        q, k, v = linear(norm(x, b + "norm1"), b + "attn.qkv").reshape(x.shape[0], -1, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + linear(y, b + "attn.proj")
        x = x + linear(F.gelu(linear(norm(x, b + "norm2"), b + "mlp.fc1")), b + "mlp.fc2")
    return linear(norm(x[:, 0], "norm"), "head").float()


def run_weft(program, weights, layers, heads, batch, side, folder, cache, images=None, runs=20, profile=False):
    output = os.path.join(folder, "logits.npy")
    command = [program, weights, str(layers), str(heads), str(batch), str(side), "--runs", str(runs), "--output", output, "--profile", str(int(profile))]
    if images is not None:
        np.save(os.path.join(folder, "images.npy"), images.cpu().numpy())
        command += ["--input", os.path.join(folder, "images.npy")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, env=dict(os.environ, WEFT_CACHE=cache))
    if result.returncode:
        raise RuntimeError(result.stderr[-900:])
    for line in result.stdout.splitlines()[:-1]:
        print("  " + line)
    return json.loads(result.stdout.splitlines()[-1]), torch.from_numpy(np.load(output))


def time_torch(call, runs=20):
    for _ in range(4):
        call()
    times = []
    for _ in range(runs):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[runs // 2]


def error(got, want):
    return float((got.cpu().double() - want.cpu().double()).abs().max() / want.abs().max())


def check(name, program, width, layers, heads, folder, rows):
    """Few images, both dtypes, against PyTorch in f32."""
    images = torch.randn(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))
    weights = make_weights(width, layers)
    place = {n: w.cuda() for n, w in weights.items()}
    want = vit(images.cuda(), place, layers, heads)
    own = error(vit(images.cuda(), {n: w.bfloat16() for n, w in place.items()}, layers, heads), want)
    path = os.path.join(folder, "check.safetensors")
    for dtype, limit in ((torch.float32, 1e-4), (torch.bfloat16, min(5e-2, 1.5 * own))):
        write_safetensors(path, {n: w.to(dtype) for n, w in weights.items()})
        _, got = run_weft(program, path, layers, heads, 3, SIDE, folder, os.path.join(folder, "cache-check"), images, 1)
        bad = error(got, want)
        rows.append({"case": name, "dtype": str(dtype), "error": bad, "limit": limit, "right": bad <= limit})
        print(f"vit {name} {dtype}: error {bad:.2e}, limit {limit:.2e}, PyTorch's bf16 {own:.2e}: {'right' if bad <= limit else 'WRONG'}", flush=True)


def measure(name, program, width, layers, heads, batch, folder, rows):
    weights = {n: w.bfloat16() for n, w in make_weights(width, layers).items()}
    path, cache = os.path.join(folder, "vit.safetensors"), os.path.join(folder, "cache-" + str(width))
    write_safetensors(path, weights)
    cold, _ = run_weft(program, path, layers, heads, batch, SIDE, folder, cache)
    place, images = {n: w.cuda() for n, w in weights.items()}, torch.randn(batch, 3, SIDE, SIDE, device="cuda")
    row = {"case": name, "batch": batch}
    with torch.no_grad():
        row["torch_ms"] = time_torch(lambda: vit(images, place, layers, heads))
        for mode in MODES:
            torch._dynamo.reset()
            compiled = torch.compile(lambda x, w: vit(x, w, layers, heads), mode=mode)
            start = time.time()
            compiled(images, place)
            torch.cuda.synchronize()
            row[f"torch_{mode}_compile_s"] = time.time() - start
            torch.cuda.reset_peak_memory_stats()
            row[f"torch_{mode}_ms"] = time_torch(lambda: compiled(images, place))
            row[f"torch_{mode}_peak_bytes"] = torch.cuda.max_memory_allocated()
    del place, images
    torch.cuda.empty_cache()
    warm, _ = run_weft(program, path, layers, heads, batch, SIDE, folder, cache, profile=True)
    row.update(weft_ms=min(cold["device_ms"], warm["device_ms"]), weft_runs_ms=[cold["device_ms"], warm["device_ms"]], cold_compile_s=cold["compile_s"],
               warm_compile_s=warm["compile_s"], open_s=warm["open_s"], read_s=warm["read_s"], round_trip_ms=warm["round_trip_ms"], weft_bytes=warm["temporary_bytes"] + warm["weight_bytes"])
    best = min(row["torch_ms"], *(row[f"torch_{mode}_ms"] for mode in MODES))
    row["ratio"] = best / row["weft_ms"]
    rows.append(row)
    peers = ", ".join(f"{mode} {row[f'torch_{mode}_ms']:.3f} (compiled in {row[f'torch_{mode}_compile_s']:.0f} s)" for mode in MODES)
    print(f"vit {name} b{batch}: Weft {row['weft_ms']:.3f} ms ({batch / row['weft_ms'] * 1e3:.0f} images/s), torch {row['torch_ms']:.3f}, torch.compile {peers}: {row['ratio']:.2f} of the best; "
          f"open {row['open_s']:.2f} s, weights read {row['read_s']:.2f} s, compile cold {row['cold_compile_s']:.2f} s, warm {row['warm_compile_s']:.2f} s; "
          f"memory {row['weft_bytes'] / 1e6:.0f} MB, torch {row['torch_default_peak_bytes'] / 1e6:.0f} MB", flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, width, layers, heads, batch in CASES if "--all" in sys.argv else CASES[1:] if "--large" in sys.argv else CASES[:1]:
            for step, arguments in ((check, ()), (measure, (batch,))):
                try:
                    step(name, sys.argv[1], width, layers, heads, *arguments, folder, rows)
                except Exception as problem:  # one case that breaks leaves the others their figures
                    failed += 1
                    print(f"vit {name}: {step.__name__}: {type(problem).__name__}: {problem}", flush=True)
    with open(sys.argv[2], "w") as f:
        json.dump(rows, f, indent=1)
    failed += sum(not r.get("right", True) for r in rows)
    print("vit: %d failed" % failed)
    return 1 if failed else 0


sys.exit(main())
