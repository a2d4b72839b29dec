"""Weft's kernels beside PyTorch's on one CUDA device: self-test, then timings.

Both sides run in this process, on PyTorch's stream, on the same random tensors. Timing is by rounds: every round runs each
candidate once behind a flush of the L2 cache and a device sleep that lets the host run ahead, so that all candidates see
the same clocks and none is charged for its launch; the median counts.
usage: gpu_peers.py LIBRARY OUT.json [part ...]     parts: the functions part_* below, - for _
"""
import ctypes, faulthandler, functools, json, math, os, re, sys, time
import torch
import torch.nn.functional as F

library = ctypes.CDLL(sys.argv[1])
library.weft_bench_error.restype = ctypes.c_char_p
library.weft_bench_text.restype = ctypes.c_char_p
library.weft_bench_text.argtypes = [ctypes.c_void_p]
library.weft_bench_compile_seconds.restype = ctypes.c_double
library.weft_bench_compile_seconds.argtypes = [ctypes.c_void_p]
library.weft_bench_release.argtypes = [ctypes.c_void_p]
library.weft_bench_run.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]


class Missing(Exception):
    pass


class Kernel:
    """One case compiled by Weft; call it with the tensors of inputs and outputs."""

    def __init__(self, name, numbers, choice=0):
        handle = ctypes.c_void_p()
        array = (ctypes.c_int64 * len(numbers))(*numbers)
        if library.weft_bench_create(name.encode(), len(numbers), array, choice, ctypes.byref(handle)):
            raise Missing(library.weft_bench_error().decode())
        self.handle = handle
        self.text = library.weft_bench_text(handle).decode()
        self.compile_seconds = library.weft_bench_compile_seconds(handle)

    def __call__(self, inputs, outputs):
        a = (ctypes.c_void_p * len(inputs))(*[t.data_ptr() for t in inputs])
        b = (ctypes.c_void_p * len(outputs))(*[t.data_ptr() for t in outputs])
        stream = torch.cuda.current_stream().cuda_stream
        if library.weft_bench_run(self.handle, len(inputs), a, len(outputs), b, stream):
            raise RuntimeError(library.weft_bench_error().decode())

    def release(self):
        library.weft_bench_release(self.handle)
        self.handle = None


DTYPES = {0: torch.bfloat16, 1: torch.float16, 2: torch.float32, 3: torch.float8_e4m3fn, 4: torch.float8_e5m2, 5: torch.float8_e5m2, 6: torch.float8_e4m3fn}
SECOND = {5: torch.float8_e4m3fn, 6: torch.float8_e5m2}  # dtypes of B that are not A's
PORTABLE = 16  # added to a dtype: without what only Hopper has, so that mma.sync runs
RELAXED = 8  # added to a dtype: tf32 operands, sums of 8-bit products that stay in the matrix unit
flush = read_back = None


def rounds(candidates, count=15, warm=3, sleep=2000000, clean=False):
    """Median seconds of each candidate. The flush leaves the L2 full of written lines, which the card writes back while
    the candidate runs; a candidate that writes leaves as many behind. One that only reads does not: with `clean` the
    flush is read once more, so that it pays for its own traffic only."""
    global flush, read_back
    if flush is None:
        flush = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
        read_back = torch.empty((), dtype=torch.float32, device="cuda")
    times = {name: [] for name in candidates}
    for i in range(count + warm):
        for name, run in candidates.items():
            torch.cuda._sleep(sleep)
            flush.zero_()
            if clean:
                torch.sum(flush.view(torch.float32), (0,), out=read_back)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            if i >= warm:
                times[name].append(start.elapsed_time(end) * 1e-3)
    return {name: sorted(t)[len(t) // 2] for name, t in times.items()}


# -- cases: tensors, references in f64 or f32, peers

def matmul_tensors(m, n, k, order, epilogue, dtype):
    t = DTYPES[dtype % 8]
    r = lambda *s: torch.randn(*s, device="cuda", dtype=torch.float32).to(t)
    a = r(k, m) if order == 2 else r(m, k)
    b = (r(n, k) if order == 1 else r(k, n)).to(SECOND.get(dtype % 8, t))
    inputs = [a, b]
    if epilogue == 2:
        inputs += [torch.tensor(0.75, device="cuda"), torch.tensor(1.0 / math.sqrt(k), device="cuda")]
        t = torch.bfloat16
    if epilogue == 1:
        inputs += [torch.rand(m, device="cuda") / math.sqrt(k), torch.randn(n, device="cuda"), r(m, n)]
    return inputs, torch.full((m, n), float("nan"), device="cuda", dtype=t)


def matmul_reference(inputs, order, epilogue, rows, wide=torch.float64):
    """Rows `rows` of the result, in double."""
    a, b = (x.float() if x.element_size() == 1 else x for x in inputs[:2])
    a = (a.T if order == 2 else a)[rows].to(wide)
    d = a @ (b.T if order == 1 else b).to(wide)
    if epilogue == 2:
        d = d * inputs[2].to(wide) * inputs[3].to(wide)
    if epilogue == 1:
        d = F.gelu(d * inputs[2][rows].to(wide)[:, None] + inputs[3].to(wide)) + inputs[4][rows].to(wide)
    return d


def matmul_peer(inputs, order):
    a, b = inputs[0], inputs[1]
    x = a.T if order == 2 else a
    y = b.T if order == 1 else b
    return lambda: torch.matmul(x, y)


def scaled_peers(inputs):
    """Per-tensor scales, A [m, k], B [n, k]; both ways of summing."""
    a, b, x, y = inputs
    return {f"_scaled_mm{' fast' if fast else ''}": lambda fast=fast: torch._scaled_mm(a, b.T, scale_a=x, scale_b=y, out_dtype=torch.bfloat16, use_fast_accum=fast)
            for fast in (True, False)}


def fused_torch(a, b, scale, bias, residual):
    return (F.gelu((a @ b.T).float() * scale[:, None] + bias) + residual.float()).to(a.dtype)


ROWS = {
    "softmax": (lambda x: F.softmax(x[0].float(), -1), lambda x: F.softmax(x[0], -1)),
    "layer_norm": (lambda x: F.layer_norm(x[0].float(), x[0].shape[1:], x[1].float(), x[2].float(), 1e-5),
                   lambda x: F.layer_norm(x[0], x[0].shape[1:], x[1], x[2], 1e-5)),
    "rms_norm": (lambda x: F.rms_norm(x[0].float(), x[0].shape[1:], x[1].float(), 1e-5), lambda x: F.rms_norm(x[0], x[0].shape[1:], x[1], 1e-5)),
    "cross_entropy": (lambda x: F.cross_entropy(x[0].float(), x[1], reduction="none"), lambda x: F.cross_entropy(x[0].float(), x[1], reduction="none")),
}


def row_tensors(name, rows, columns, dtype):
    t = DTYPES[dtype]
    x = [torch.randn(rows, columns, device="cuda").to(t)]
    if name == "cross_entropy":
        return x + [torch.randint(columns, (rows,), device="cuda")], torch.full((rows,), float("nan"), device="cuda")
    for _ in range({"softmax": 0, "rms_norm": 1, "layer_norm": 2}[name]):
        x.append(torch.randn(columns, device="cuda").to(t))
    return x, torch.full((rows, columns), float("nan"), device="cuda", dtype=t)


FLAT = {"pointwise": lambda x: (x[0] * x[1] + x[2]) * torch.sigmoid(x[0]), "sum": lambda x: x[0].sum(), "copy": lambda x: -x[0]}


def flat_tensors(name, count):
    inputs = [torch.randn(count, device="cuda") for _ in range(3 if name == "pointwise" else 1)]
    return inputs, torch.full((1,) if name == "sum" else (count,), float("nan"), device="cuda")


def row_numbers(name, rows, columns, dtype):
    return (rows, columns) if name == "cross_entropy" else (rows, columns, dtype)


def attention_tensors(b, h, hkv, t, s, d, causal, dtype):
    r = lambda *shape: torch.randn(*shape, device="cuda").to(DTYPES[dtype])
    inputs = [r(b, h, t, d), r(b, hkv, s, d), r(b, hkv, s, d)]
    return inputs, torch.full((b, h, t, d), float("nan"), device="cuda", dtype=DTYPES[dtype])


def attention_reference(inputs, causal, heads=None, wide=torch.float64):
    """[B, heads, T, D] for the given query heads; a query stands at key position i + S - T."""
    q, k, v = inputs
    heads = range(q.shape[1]) if heads is None else heads
    group, out = q.shape[1] // k.shape[1], []
    t, s = q.shape[2], k.shape[2]
    hide = torch.ones(t, s, dtype=torch.bool, device="cuda").triu(1 + s - t) if causal else None
    for h in heads:
        x = q[:, h].to(wide) @ k[:, h // group].to(wide).transpose(-1, -2) / math.sqrt(q.shape[3])
        if causal:
            x = x.masked_fill(hide, -math.inf)
        out.append(torch.nan_to_num(torch.softmax(x, -1)) @ v[:, h // group].to(wide))
    return torch.stack(out, 1)


def attention_peers(inputs, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    peers, gqa = {}, inputs[0].shape[1] != inputs[1].shape[1]
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=gqa)
        try:
            run()
            peers["sdpa " + backend.name.split("_")[0].lower()] = run
        except Exception as problem:
            print(f"  sdpa {backend.name}: {str(problem)[:80]}")
    return peers


# -- self-test

failures, tested, results = [], 0, []


def verdict(label, out, want, limit):
    global tested
    tested += 1
    error = ((out.double() - want.double()).norm() / (want.double().norm() + 1e-30)).item()
    if not error <= limit:
        failures.append(f"{label}: relative error {error:.3e} > {limit:.1e}")
    return error


def check(label, name, numbers, inputs, out, want, limit, choice=0):
    """Twice on poisoned outputs: right, and the same bits."""
    try:
        kernel = Kernel(name, numbers, choice)
    except Missing as reason:
        print(f"  {label}: not run: {reason}")
        if choice and " proposes " in str(reason):
            return  # fewer schedules than the part would try
        failures.append(f"{label}: {reason}")
        return
    kernel(inputs, [out])
    torch.cuda.synchronize()
    first = out.clone()
    out.fill_(float("nan"))
    kernel(inputs, [out])
    torch.cuda.synchronize()
    same = torch.equal(first.view(torch.uint8), out.view(torch.uint8))
    error = verdict(label, out, want(), limit)
    if not same:
        failures.append(f"{label}: two runs differ")
    print(f"  {label}: error {error:.2e}, bits {'equal' if same else 'DIFFER'} [{kernel.text}]", flush=True)
    kernel.release()


def part_test():
    torch.manual_seed(1)
    shapes = [(128, 256, 64), (256, 256, 128), (300, 520, 200), (1, 128, 64), (7, 136, 72), (129, 264, 4096), (255, 248, 1000), (257, 1032, 520), (64, 64, 8),
              (1024, 1024, 1024), (2048, 512, 256)]
    shapes += [(301, 523, 201), (127, 129, 4100), (65, 258, 77)]
    for m, n, k, order in ((2304, 4224, 328, 1), (2305, 4222, 130, 0), (2303, 4221, 264, 2)):  # several tiles a block
        for epilogue in (0, 1):
            inputs, out = matmul_tensors(m, n, k, order, epilogue, 0)
            for choice in range(7):
                check(f"matmul {m}x{n}x{k} order {order} epilogue {epilogue} choice {choice}", "matmul", (m, n, k, order, epilogue, 0), inputs, out,
                      lambda: matmul_reference(inputs, order, epilogue, torch.arange(m, device="cuda")), 4e-3, choice)
    for m, n, k in shapes:
        for order in (1, 0, 2):
            for epilogue in (0, 1):
                for choice in ((0, 1, 2, 3, 4, 5, 6) if (m, n, k) in ((300, 520, 200), (257, 1032, 520)) and order == 1 else (0,)):
                    inputs, out = matmul_tensors(m, n, k, order, epilogue, 0)
                    rows = torch.arange(m, device="cuda")
                    check(f"matmul {m}x{n}x{k} {('nn', 'nt', 'tn')[order]} epilogue {epilogue} choice {choice}", "matmul", (m, n, k, order, epilogue, 0), inputs, out,
                          lambda: matmul_reference(inputs, order, epilogue, rows), 4e-3, choice)
    inputs, out = matmul_tensors(384, 520, 200, 1, 0, 1)
    check("matmul f16", "matmul", (384, 520, 200, 1, 0, 1), inputs, out, lambda: matmul_reference(inputs, 1, 0, torch.arange(384, device="cuda")), 1e-3)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    for m, n, k, order in ((300, 523, 201, 0), (64, 64, 64, 1), (129, 257, 33, 2), (1, 1000, 512, 1), (1024, 1024, 1024, 0)):
        for epilogue in (0, 1):
            for choice in (0, 1):
                inputs, out = matmul_tensors(m, n, k, order, epilogue, 2)
                check(f"matmul f32 {m}x{n}x{k} order {order} epilogue {epilogue} choice {choice}", "matmul", (m, n, k, order, epilogue, 2), inputs, out,
                      lambda: matmul_reference(inputs, order, epilogue, torch.arange(m, device="cuda")), 1e-5, choice)
    for n, c, o, size, kernel, stride, pad, groups in ((2, 3, 64, 63, 7, 2, 3, 1), (1, 32, 32, 29, 3, 1, 1, 32), (3, 64, 128, 14, 1, 1, 0, 1), (1, 8, 24, 17, 3, 2, 1, 4)):
        x, w, bias = torch.randn(n, c, size, size, device="cuda"), torch.randn(o, c // groups, kernel, kernel, device="cuda"), torch.randn(o, device="cuda")
        want = F.relu(F.conv2d(x.double(), w.double(), bias.double(), stride, pad, 1, groups))
        out = torch.full(want.shape, float("nan"), device="cuda")
        for choice in (0, 1):
            check(f"convolution {n}x{c}x{size} {o} {kernel} stride {stride} groups {groups} choice {choice}", "convolution", (n, c, o, size, kernel, stride, pad, groups),
                  [x, w, bias], out, lambda: want, 1e-5, choice)
    for b, h, hkv, t, s, d in ((1, 2, 2, 128, 128, 128), (1, 2, 1, 300, 300, 128), (2, 2, 2, 1023, 1023, 128), (1, 32, 8, 512, 512, 128), (1, 2, 2, 200, 333, 128),
                               (1, 2, 2, 333, 200, 128), (1, 2, 1, 1, 77, 128), (2, 8, 2, 1, 1000, 128), (2, 6, 6, 1, 129, 64), (1, 2, 2, 193, 127, 64), (2, 3, 1, 1100, 1023, 64), (1, 12, 12, 196, 196, 64), (1, 4, 2, 196, 260, 80), (1, 2, 2, 133, 70, 40)):
        for causal in (0, 1):
            for choice in range(1 if t == 1 else 3 if d == 64 else 2):
                numbers = (b, h, hkv, t, s, d, causal, (t + d) % 2)
                inputs, out = attention_tensors(*numbers)
                check(f"attention {numbers} choice {choice}", "attention", numbers, inputs, out, lambda: attention_reference(inputs, causal), 6e-3, choice)
    for b, h, t, d, causal, dtype in ((2, 3, 70, 64, 0, 0), (1, 2, 333, 128, 1, 1), (3, 12, 197, 64, 0, 0)):
        x = torch.randn(b, t, 3 * h * d, device="cuda").to(DTYPES[dtype])
        q, k, v = x.reshape(b, t, 3, h, d).permute(2, 0, 3, 1, 4)
        check(f"attention in tokens {(b, h, t, d, causal, dtype)}", "attention_tokens", (b, h, t, d, causal, dtype), [x],
              torch.full((b, t, h * d), float("nan"), device="cuda", dtype=x.dtype), lambda: attention_reference([q, k, v], causal).transpose(1, 2).reshape(b, t, h * d), 6e-3)
    for name, (reference, _) in ROWS.items():
        for rows, columns in ((1, 1), (3, 7), (17, 255), (64, 256), (33, 257), (128, 768), (5, 4096), (9, 50304)):
            for dtype in ((0,) if name == "cross_entropy" else (0, 2)):
                inputs, out = row_tensors(name, rows, columns, dtype)
                check(f"{name} {rows}x{columns} {DTYPES[dtype]}", name, row_numbers(name, rows, columns, dtype), inputs, out, lambda: reference(inputs),
                      6e-3 if dtype == 0 and name != "cross_entropy" else 1e-5)
    for name, rows, columns, choices in (("cross_entropy", 301, 50304, 3), ("cross_entropy", 1003, 768, 2), ("softmax", 301, 20520, 3), ("layer_norm", 301, 50304, 3)):  # rings of rows
        for choice in range(1, choices):
            inputs, out = row_tensors(name, rows, columns, 0)
            check(f"{name} {rows}x{columns} schedule {choice}", name, row_numbers(name, rows, columns, 0), inputs, out, lambda: ROWS[name][0](inputs),
                  6e-3 if name != "cross_entropy" else 1e-5, choice)
    for name, reference in FLAT.items():
        for count in (1, 5, 1023, 1024, 1025, 65536 * 3 + 1):
            inputs, out = flat_tensors(name, count)
            check(f"{name} {count}", name, (count,), inputs, out, lambda: reference([x.double() for x in inputs]).reshape(out.shape), 1e-5)


def mlp_tensors(rows, inputs, width, layers):
    tensors = [torch.randn(rows, inputs, device="cuda")]
    for i in range(layers):
        k, n = inputs if i == 0 else width, 1 if i == layers - 1 else width
        tensors += [torch.randn(n, k, device="cuda") / math.sqrt(k), torch.randn(n, device="cuda") * 0.1]
    return tensors, torch.full((rows, 1), float("nan"), device="cuda")


def mlp_torch(x, *weights):
    for i in range(0, len(weights), 2):
        x = F.linear(x, weights[i], weights[i + 1])
        x = torch.tanh(x) if i + 2 < len(weights) else x
    return x


def test_mlp():
    for numbers in ((200, 2, 64, 5), (1, 3, 7, 2), (129, 5, 33, 4), (100001, 3, 128, 3), (4097, 2, 256, 2)):
        inputs, out = mlp_tensors(*numbers)
        check(f"mlp {numbers}", "mlp", numbers, inputs, out, lambda: mlp_torch(*[x.double() for x in inputs]), 1e-5)


# -- timings

def record(part, label, unit_of, times, text, extra=None):
    """unit_of(seconds) -> figure; ratio: the best peer's time over Weft's."""
    peers = {name: t for name, t in times.items() if not name.startswith("weft")}
    ours = min(t for name, t in times.items() if name.startswith("weft"))
    best = min(peers.values()) if peers else None
    row = {"part": part, "case": label, "weft_us": ours * 1e6, "figure": unit_of(ours), "ratio": best / ours if best else None,
           "all_us": {k: v * 1e6 for k, v in times.items()}, "text": text}
    row.update(extra or {})
    results.append(row)
    peers_text = ", ".join(f"{k} {v * 1e6:.1f}" for k, v in sorted(times.items(), key=lambda x: x[1]))
    print(f"{part} {label}: {row['figure']:.1f} ({ours * 1e6:.1f} us), ratio {row['ratio'] or 0:.3f} | {peers_text} [{text}]", flush=True)


def brief(text):
    """Of a kernel's text: what its schedules differ in."""
    fields = dict(re.findall(r"(\w+)=(\d+)", text.split(";")[0]))
    return f"{fields.get('tile_m')}x{fields.get('tile_n')}" + "".join(f" {x} {fields[x]}" for x in ("stages", "cluster", "split", "tail", "way") if fields.get(x, "1") != "1")


def best_choice(name, numbers, inputs, out, limit, clean=False):
    """Builders rank their schedules; here the first few are measured and all are reported."""
    kernels = {}
    for choice in range(limit):
        try:
            kernels[choice] = Kernel(name, numbers, choice)
        except Missing as reason:
            if choice == 0:
                raise
            break
    times = rounds({c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}, 5, 2, clean=clean)
    best = min(times, key=times.get)
    if times[best] < 3e-5:  # short ones vary by more than they differ
        times = rounds({c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}, 25, 2, clean=clean)
        best = min(times, key=times.get)
    note = ", ".join(f"{c} ({brief(kernels[c].text)}): {t * 1e6:.1f}" for c, t in times.items())
    for choice, kernel in kernels.items():
        if choice != best:
            kernel.release()
    return kernels[best], f"schedule {best} of {len(times)} ({note})"


GEMM = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (8192, 14336, 4096), (128, 14336, 4096), (16, 14336, 4096), (1, 14336, 4096)]


def guarded(time_case):
    """A case that breaks is a failure by itself; only a fault of the device ends the part."""
    @functools.wraps(time_case)
    def run(part, *numbers, **options):
        try:
            time_case(part, *numbers, **options)
        except Exception as problem:
            if "CUDA" in str(problem):
                raise
            failures.append(f"{part} {numbers}: {type(problem).__name__}: {problem}")
            print(f"{part} {numbers} broke: {problem}", flush=True)
            torch.cuda.empty_cache()
    return run


@guarded
def time_matmul(part, m, n, k, order, epilogue, dtype=0, schedules=4, limit=4e-3, clean=False):
    numbers = (m, n, k, order, epilogue, dtype)
    inputs, out = matmul_tensors(*numbers)
    label = f"{m}x{n}x{k} {('nn', 'nt', 'tn')[order]}{('', ' scale+bias+gelu+residual', ' scaled')[epilogue]}{' relaxed' if dtype & RELAXED else ''}{('', '', '', '', ' e5m2', ' e5m2 e4m3', ' e4m3 e5m2')[dtype % 8]}{' mma.sync' if dtype & PORTABLE else ''}"
    try:
        kernel, note = best_choice("matmul", numbers, inputs, out, schedules, clean)
    except Missing as reason:
        print(f"{part} {label}: not run: {reason}", flush=True)
        results.append({"part": part, "case": label, "missing": str(reason)})
        return
    candidates = {"weft": lambda: kernel(inputs, [out])}
    if epilogue == 0:
        candidates["torch.matmul"] = matmul_peer(inputs, order)
    if epilogue == 2:
        candidates.update(scaled_peers(inputs))
    if epilogue == 1:
        compiled = torch.compile(fused_torch)
        compiled(*inputs)
        candidates["torch.compile"] = lambda: compiled(*inputs)
    times = rounds(candidates, clean=clean)
    if times["weft"] < 3e-5:
        times = rounds(candidates, 61, clean=clean)
    rows = torch.randint(m, (min(m, 64),), device="cuda")
    error = verdict(f"{part} {label}", out[rows], matmul_reference(inputs, order, epilogue, rows), limit)
    record(part, label, lambda s: 2.0 * m * n * k / s * 1e-12, times, kernel.text + "; " + note,
           {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds, "TB/s": sum(x.numel() * x.element_size() for x in (inputs[0], inputs[1], out)) / times["weft"] * 1e-12})
    kernel.release()


def part_gemm():
    for m, n, k in GEMM:
        time_matmul("gemm", m, n, k, 1, 0)


def part_mma():
    """The portable kernels, as sm_80 gets them, on this card."""
    check_products(PORTABLE, 0, 4e-3, ODD_PRODUCTS[:4] + ((301, 523, 202, 0), (66, 68, 4100, 2)), 7)
    check_products(PORTABLE + 1, 1, 4e-3, ODD_PRODUCTS[:3], 1)
    check_products(PORTABLE + RELAXED + 2, 0, 2e-3, ODD_PRODUCTS[:4], 1)
    for m, n, k, order in ((4096, 4096, 4096, 1), (4096, 4096, 4096, 0), (8192, 8192, 8192, 1), (2048, 2048, 2048, 1), (4095, 4097, 4100, 1)):
        time_matmul("mma", m, n, k, order, 0, PORTABLE, 7)
    torch.backends.cuda.matmul.allow_tf32 = True
    time_matmul("mma", 4096, 4096, 4096, 1, 0, PORTABLE + RELAXED + 2, 5, 2e-3)
    torch.backends.cuda.matmul.allow_tf32 = False


def part_simt():
    """f32 without tf32: multiply-adds of scalars."""
    check_products(2, 0, 1e-5, ((300, 523, 201, 0), (257, 260, 136, 1), (129, 257, 33, 2)), 2)
    for m, n, k, order in ((4096, 4096, 4096, 1), (4096, 4096, 4096, 0), (2048, 2048, 2048, 1), (512, 512, 512, 1)):
        time_matmul("simt", m, n, k, order, 0, 2, 3, 1e-5)


def check_products(dtype, epilogue, limit, shapes, choices=3):
    for m, n, k, order in shapes:
        for choice in range(choices):
            inputs, out = matmul_tensors(m, n, k, order, epilogue, dtype)
            check(f"matmul {m}x{n}x{k} order {order} dtype {dtype} choice {choice}", "matmul", (m, n, k, order, epilogue, dtype), inputs, out,
                  lambda: matmul_reference(inputs, order, epilogue, torch.arange(m, device="cuda")), limit, choice)


ODD_PRODUCTS = ((300, 520, 200, 1), (129, 257, 33, 0), (67, 75, 129, 2), (2304, 4224, 528, 1), (257, 1032, 4096, 1))


def part_tf32():
    """f32 operands read as tf32, against torch with allow_tf32; the self-test first."""
    check_products(2 + RELAXED, 0, 2e-3, ODD_PRODUCTS, 2)
    check_products(2 + RELAXED, 1, 2e-3, ODD_PRODUCTS[:2], 1)
    torch.backends.cuda.matmul.allow_tf32 = True
    for m, n, k, order in ((8192, 8192, 8192, 1), (4096, 4096, 4096, 1), (4096, 4096, 4096, 0), (2048, 2048, 2048, 1)):
        time_matmul("tf32", m, n, k, order, 0, 2 + RELAXED, 5, 2e-3)
    torch.backends.cuda.matmul.allow_tf32 = False


def part_fp8():
    """e4m3 with two scales, bf16 results: sums moved to f32 every 128 elements, and sums left in the unit (relaxed)."""
    for dtype in (3, 3 + RELAXED):
        check_products(dtype, 2, 4e-3 if dtype == 3 else 1e-2, ODD_PRODUCTS[1:], 2)
    for dtype in (4, 5, 6, 5 + RELAXED, 6 + RELAXED):
        check_products(dtype, 2, 4e-3 if dtype < 8 else 1e-2, ((300, 520, 208, 1), (129, 257, 48, 0)), 2)
    for dtype in (5, 6 + RELAXED):  # gradients times weights, and the other way round
        time_matmul("fp8", 4096, 4096, 4096, 1, 2, dtype, 3, 1e-2)
    for m, n, k in ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (128, 14336, 4096)):
        for dtype in (3 + RELAXED, 3):
            time_matmul("fp8", m, n, k, 1, 2, dtype, 5, 1e-2)


def convolution_tensors(name, n, c, o, size, kernel, stride, pad, groups):
    t = torch.bfloat16 if name == "convolution_half" else torch.float32
    x, w = torch.randn(n, c, size, size, device="cuda").to(t), (torch.randn(o, c // groups, kernel, kernel, device="cuda") / math.sqrt(c * kernel * kernel)).to(t)
    inputs = [x, w, torch.randn(o, device="cuda").to(t)]
    run = lambda x, w, b: F.relu(F.conv2d(x, w, b, stride, pad, 1, groups))
    want = lambda: run(*(v.float() for v in inputs))
    out_size = (size + 2 * pad - kernel) // stride + 1
    return inputs, torch.full((n, o, out_size, out_size), float("nan"), device="cuda", dtype=t), run, want


def part_convolution():
    """Implicit products, channels first, against cuDNN in both layouts of memory."""
    limits = {"convolution_half": 6e-3, "convolution_tf32": 2e-3}
    for name in limits:
        for numbers in ((2, 6, 33, 19, 3, 2, 1, 1), (3, 64, 72, 14, 1, 1, 0, 2), (2, 32, 96, 15, 3, 1, 1, 2), (1, 40, 130, 9, 5, 1, 2, 1), (5, 64, 64, 56, 3, 1, 1, 1), (33, 72, 200, 7, 1, 1, 0, 1), (2, 136, 72, 30, 3, 1, 0, 1)):
            torch.backends.cudnn.allow_tf32 = False
            inputs, out, _, want = convolution_tensors(name, *numbers)
            for choice in (0, 1):
                check(f"{name} {numbers} choice {choice}", name, numbers, inputs, out, want, limits[name], choice)
    for name in limits:
        for numbers in ((32, 64, 64, 56, 3, 1, 1, 1), (32, 256, 256, 14, 3, 1, 1, 1), (32, 64, 256, 56, 1, 1, 0, 1), (32, 512, 2048, 7, 1, 1, 0, 1)):
            time_convolution("convolution", name, numbers, limits[name])


@guarded
def time_convolution(part, name, numbers, limit):
    inputs, out, run, want = convolution_tensors(name, *numbers)
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = False, True
    expected = want()
    torch.backends.cudnn.allow_tf32 = True
    last = [v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for v in inputs]
    label = f"{name} {'x'.join(map(str, numbers))}"
    try:
        kernel, note = best_choice(name, numbers, inputs, out, 4)
    except Missing as reason:
        results.append({"part": part, "case": label, "missing": str(reason)})
        print(f"{part} {label}: not run: {reason}", flush=True)
        return
    times = rounds({"weft": lambda: kernel(inputs, [out]), "torch": lambda: run(*inputs), "torch channels last": lambda: run(*last)})
    error = verdict(f"{part} {label}", out, expected, limit)
    record(part, label, lambda t: 2.0 * out.numel() * inputs[1][0].numel() / t * 1e-12, times, kernel.text + "; " + note, {"unit": "TFLOP/s", "error": error})
    kernel.release()


def part_thin():
    """Few rows: the weights are read once, and k is split so that every multiprocessor reads some."""
    check_products(0, 0, 4e-3, ((5, 136, 1544, 1), (3, 67, 1300, 0), (130, 264, 4096, 1)), 2)
    check_products(0, 1, 4e-3, ((16, 4096, 4096, 1),), 1)
    for part in ("thin", "thin-clean"):
        for m, n, k in ((1, 4096, 4096), (16, 4096, 4096), (64, 4096, 14336), (128, 4096, 4096), (512, 2048, 2048)):
            time_matmul(part, m, n, k, 1, 0, 0, 6, clean=part == "thin-clean")
    for m in (1, 16, 128):
        time_matmul("thin-clean", m, 14336, 4096, 1, 0, 0, 6, clean=True)


def part_ragged():
    check_products(0, 0, 4e-3, ((2304, 4230, 328, 1), (2305, 4225, 130, 0), (2303, 4240, 264, 2)), 2)  # narrow tiles at the right edge
    # rows at odd addresses: copied
    check_products(0, 0, 4e-3, ((2303, 4225, 332, 1), (2305, 4231, 330, 1), (2305, 1030, 201, 1), (301, 523, 201, 2), (1090, 1026, 650, 2), (301, 4225, 132, 0)), 2)
    check_products(0, 1, 4e-3, ((2305, 4225, 332, 1),), 2)
    for order in (1, 0, 2):
        time_matmul("ragged", 4096, 4096, 4096, order, 0, schedules=1)
        time_matmul("ragged", 4104, 4104, 4104, order, 0, schedules=3)
        time_matmul("ragged", 4095, 4097, 4100, order, 0, schedules=8)


@guarded
def time_two_results(part, m, n, k):
    """The first half of an MLP in training: what GELU reads is kept for the gradient."""
    a, b, bias = (torch.randn(*s, device="cuda").to(torch.bfloat16) for s in ((m, k), (n, k), (n,)))
    bias, outs = bias.float(), [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    def run(a, b, bias):
        h = ((a @ b.T).float() + bias).to(a.dtype)
        return h, F.gelu(h.float()).to(a.dtype)
    compiled = torch.compile(run)
    compiled(a, b, bias)
    kernels = []
    for choice in range(3):
        try:
            kernels.append(Kernel("matmul", (m, n, k, 1, 3, 0), choice))
        except Missing:
            break
    candidates = {f"weft {i} ({brief(x.text)})": lambda x=x: x([a, b, bias], outs) for i, x in enumerate(kernels)}
    times = rounds({**candidates, "torch.compile": lambda: compiled(a, b, bias)}, 9)
    for i, x in enumerate(kernels):
        x([a, b, bias], outs)
        want = run(a[:64].float(), b.float(), bias)
        for name, got, right in zip(("sum", "gelu"), outs, want):
            verdict(f"{part} {m}x{n}x{k} two results, {name}, choice {i}", got[:64], right, 6e-3)
    record(part, f"{m}x{n}x{k} nt bias, and GELU beside it", lambda s: 2.0 * m * n * k / s * 1e-12, times, kernels[0].text, {"unit": "TFLOP/s"})
    for x in kernels:
        x.release()


@guarded
def time_residual(part, m, n, k):
    """The second half of an MLP in training: the stream is f32."""
    a, b, bias, residual = torch.randn(m, k, device="cuda").to(torch.bfloat16), torch.randn(n, k, device="cuda").to(torch.bfloat16), torch.randn(n, device="cuda"), torch.randn(m, n, device="cuda")
    out = torch.full((m, n), float("nan"), device="cuda")
    compiled = torch.compile(lambda a, b, bias, residual: (a @ b.T).float() + bias + residual)
    compiled(a, b, bias, residual)
    kernels = []
    for choice in range(3):
        try:
            kernels.append(Kernel("matmul", (m, n, k, 1, 4, 0), choice))
        except Missing:
            break
    candidates = {f"weft {i} ({brief(x.text)})": lambda x=x: x([a, b, bias, residual], [out]) for i, x in enumerate(kernels)}
    times = rounds({**candidates, "torch.compile": lambda: compiled(a, b, bias, residual)}, 9)
    for i, x in enumerate(kernels):
        x([a, b, bias, residual], [out])
        verdict(f"{part} {m}x{n}x{k} residual f32, choice {i}", out[:64], a[:64].float() @ b.float().T + bias + residual[:64], 1e-3)
    record(part, f"{m}x{n}x{k} nt bias and residual, f32", lambda s: 2.0 * m * n * k / s * 1e-12, times, kernels[0].text, {"unit": "TFLOP/s"})
    for x in kernels:
        x.release()


def part_fused():
    for m, n, k in ((768, 3072, 32768), (768, 768, 32768), (768, 2304, 32768)):  # gradients of weights: grids that fill no round
        time_matmul("fused", m, n, k, 2, 0, 0, 6)
    for m, n, k in ((32768, 768, 3072), (32768, 768, 768)):
        time_residual("fused", m, n, k)
    for m, n, k in ((32768, 3072, 768), (8192, 8192, 2048)):
        time_two_results("fused", m, n, k)
    for m, n, k in GEMM[:5]:
        time_matmul("fused", m, n, k, 1, 1)


ATTENTION = [(2, 16, 16, 8192, 128, 1), (2, 16, 16, 8192, 128, 0), (4, 16, 16, 4096, 64, 1), (4, 16, 16, 4096, 64, 0), (32, 12, 12, 1024, 64, 1), (64, 12, 12, 196, 64, 0),
             (4, 32, 8, 4096, 128, 1)]
DECODE = [(32, 32, 8, 8192, 128), (8, 32, 8, 32768, 128), (128, 16, 16, 2048, 64), (1, 32, 8, 131072, 128), (1, 8, 8, 131072, 128), (4, 16, 16, 8192, 64)]


def part_decode():
    """One query a head: share of the copy rate that the keys and values are read at."""
    for b, h, hkv, s, d in DECODE:
        numbers = (b, h, hkv, 1, s, d, 0, 0)
        inputs, out = attention_tensors(*numbers)
        time_bandwidth("decode", f"{b}x{h}/{hkv}x{s}x{d}", "attention", numbers, inputs, out, 4 * b * hkv * s * d,
                       lambda: attention_reference(inputs, 0, None, torch.float32), attention_peers(inputs, False), 6e-3)


def part_attention():
    for b, h, hkv, s, d, causal in ATTENTION:
        numbers = (b, h, hkv, s, s, d, causal, 0)
        inputs, out = attention_tensors(*numbers)
        label = f"{b}x{h}{'/' + str(hkv) if hkv != h else ''}x{s}x{d} {'causal' if causal else 'full'}"
        try:
            kernel, note = best_choice("attention", numbers, inputs, out, 3)
        except Missing as reason:
            print(f"attention {label}: not run: {reason}", flush=True)
            results.append({"part": "attention", "case": label, "missing": str(reason)})
            continue
        times = rounds({"weft": lambda: kernel(inputs, [out]), **attention_peers(inputs, bool(causal))})
        heads = [0, h - 1]
        small = [x[:1] for x in inputs]
        error = verdict(f"attention {label}", out[:1, heads], attention_reference(small, causal, heads, torch.float32), 6e-3)
        record("attention", label, lambda t: 4.0 * b * h * s * s * d * (0.5 if causal else 1) / t * 1e-12, times, kernel.text + "; " + note,
               {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
        kernel.release()


# -- forms: windows, soft cap, masks (kinds of tests/cuda/cases.h)

def form_tensors(b, h, hkv, t, s, d, causal, dtype, left, right, cap, kind):
    inputs, out = attention_tensors(b, h, hkv, t, s, d, causal, dtype)
    if kind == 1:
        inputs.append(torch.randn(1, h, t, s, device="cuda").to(DTYPES[dtype]))
    if kind == 2:
        inputs.append(torch.rand(b, 1, t, s, device="cuda") < 0.7)
    if kind == 3:
        inputs.append(2.0 ** (-8.0 * torch.arange(1, h + 1, device="cuda") / h))
    if kind == 4:
        inputs += [torch.sort(torch.randint(0, max(2, n // 512), (b, n), device="cuda", dtype=torch.int32))[0] for n in (t, s)]
    if kind == 5:
        inputs.append(torch.arange(s, device="cuda").expand(b, s).lt(torch.randint(s // 2, s + 1, (b, 1), device="cuda")).reshape(b, 1, 1, s))
    return inputs, out


def form_scores(x, inputs, numbers, batch, heads):
    """Scores [heads, t, s] of one batch: scaled, capped, masked."""
    b, h, hkv, t, s, d, causal, dtype, left, right, cap, kind = numbers
    place = torch.arange(t, device="cuda")[:, None] + s - t
    key = torch.arange(s, device="cuda")[None]
    if cap:
        x = cap * torch.tanh(x / cap)
    if kind == 1:
        x = x + inputs[3][0, heads].to(x.dtype)
    if kind == 3:
        x = x + inputs[3][heads].to(x.dtype)[:, None, None] * (key - torch.arange(t, device="cuda")[:, None])
    seen = {2: lambda: inputs[3][batch, 0], 4: lambda: inputs[3][batch][:, None] == inputs[4][batch][None], 5: lambda: inputs[3][batch, 0]}.get(kind)
    seen = seen().expand(t, s) if seen else torch.ones(t, s, dtype=torch.bool, device="cuda")
    if causal or right >= 0:
        seen = seen & (key <= place + (0 if causal else right))
    if left >= 0:
        seen = seen & (key >= place - left)
    return x.masked_fill(~seen, -math.inf)


def form_reference(inputs, numbers, places, wide=torch.float64):
    """[len(places), t, d] for (batch, head) places."""
    q, k, v = inputs[:3]
    out = []
    for batch, head in places:
        own = head // (q.shape[1] // k.shape[1])
        x = q[batch, head].to(wide) @ k[batch, own].to(wide).T / math.sqrt(q.shape[3])
        x = form_scores(x[None], inputs, numbers, batch, slice(head, head + 1))[0]
        out.append(torch.nan_to_num(torch.softmax(x, -1)) @ v[batch, own].to(wide))
    return torch.stack(out)


def form_peers(inputs, numbers):
    """flex_attention, compiled, for what has a name there; scaled_dot_product_attention with a mask in memory."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    b, h, hkv, t, s, d, causal, dtype, left, right, cap, kind = numbers
    peers = {}
    if kind in (0, 3, 4):
        def score(x, n, head, i, j):
            if cap:
                x = cap * torch.tanh(x / cap)
            return x + inputs[3][head] * (j - i) if kind == 3 else x
        def seen(n, head, i, j):
            ok = (j <= i + s - t) if causal else (j >= 0)
            if left >= 0:
                ok = ok & (j >= i + s - t - left)
            return ok & (inputs[3][n, i] == inputs[4][n, j]) if kind == 4 else ok
        masked = causal or left >= 0 or kind == 4
        blocks = create_block_mask(seen, b if kind == 4 else None, None, t, s, device="cuda") if masked else None
        flex = torch.compile(flex_attention)
        change = score if cap or kind == 3 else None
        peers["flex"] = lambda: flex(*inputs[:3], score_mod=change, block_mask=blocks, enable_gqa=h != hkv)
    if kind in (1, 2):
        peers["sdpa mask"] = lambda: F.scaled_dot_product_attention(*inputs[:3], attn_mask=inputs[3], is_causal=False, enable_gqa=h != hkv)
    for name, run in list(peers.items()):
        try:
            run()
        except Exception as problem:
            print(f"  {name}: {str(problem)[:80]}")
            del peers[name]
    return peers


FORM_TESTS = [(1, 2, 2, 1000, 1000, 128, 1, 1, -1, -1, 30, 0), (2, 4, 2, 255, 257, 64, 0, 0, -1, -1, 0, 1), (2, 4, 4, 513, 513, 128, 1, 0, -1, -1, 0, 3),
              (1, 2, 2, 4096, 4096, 128, 1, 0, -1, -1, 0, 4), (2, 4, 1, 1024, 1024, 64, 1, 1, -1, -1, 0, 4), (3, 2, 1, 130, 333, 96, 0, 0, -1, -1, 20, 5),
              (2, 8, 2, 1, 4096, 128, 0, 0, -1, -1, 0, 3), (2, 8, 2, 1, 4096, 128, 0, 0, -1, -1, 20, 1), (1, 2, 2, 300, 300, 256, 1, 1, -1, -1, 20, 4)]
WINDOW_TESTS = [(1, 2, 1, 127, 129, 64, 0, 0, 20, 9, 0, 0), (1, 2, 2, 600, 600, 128, 1, 1, 256, -1, 30, 0), (2, 2, 2, 1023, 1025, 64, 1, 0, 255, -1, 0, 0),
                (2, 8, 2, 1, 4097, 128, 1, 0, 1000, -1, 20, 1)]
HEAD_TESTS = [(1, 2, 1, 255, 257, d, c, d // 32 % 2) for d, c in ((32, 0), (40, 1), (96, 1), (152, 0), (192, 1), (256, 1))] + [(2, 4, 2, 1, 1025, d, 0, 0) for d in (96, 256)]
FORMS = [(2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 0, 3), (2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 0, 4), (2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 30, 0),
         (4, 16, 16, 4096, 4096, 64, 0, 0, -1, -1, 0, 1)]
WINDOWS = [(2, 16, 16, 8192, 8192, 128, 1, 0, 1024, -1, 0, 0)]
HEADS = [(2, 16, 16, 8192, 8192, d, c, 0) for d, c in ((96, 1), (192, 1), (256, 1))]


def test_backward_form(numbers):
    """Against PyTorch's autograd in f64."""
    b, h, hkv, t, s, d = numbers[:6]
    inputs, out = form_tensors(*numbers)
    wide = [x.double().requires_grad_() for x in inputs[:3]]
    g = torch.randn(b, h, t, d, device="cuda").to(out.dtype)
    o, lse = torch.empty_like(out), torch.empty(b, h, t, device="cuda")
    total = 0
    for n in range(b):
        for head in range(h):
            own = head // (h // hkv)
            x = form_scores((wide[0][n, head] @ wide[1][n, own].T / math.sqrt(d))[None], inputs, numbers, n, slice(head, head + 1))[0]
            seen = ~torch.isinf(x).all(-1, keepdim=True)
            y = torch.where(seen, torch.softmax(torch.where(seen, x, torch.zeros_like(x)), -1), torch.zeros_like(x)) @ wide[2][n, own]
            lse[n, head] = x.detach().logsumexp(-1)
            o[n, head] = y.detach().to(o.dtype)
            total = total + (y * g[n, head].double()).sum()
    want = torch.autograd.grad(total, wide)
    kernel = Kernel("attention_backward_form", numbers)
    outs = [torch.full_like(x, float("nan")) for x in inputs[:3]]
    given, runs = inputs[:3] + [o, lse, g] + inputs[3:], []
    for _ in range(2):
        for x in outs:
            x.fill_(float("nan"))
        kernel(given, outs)
        torch.cuda.synchronize()
        runs.append([x.clone() for x in outs])
    same = all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(*runs))
    if not same:
        failures.append(f"attention_backward form {numbers}: two runs differ")
    errors = [verdict(f"attention_backward form {numbers} {name}", x, y, 1e-2) for name, x, y in zip(("dq", "dk", "dv"), outs, want)]
    print(f"  attention_backward form {numbers}: errors {', '.join(f'{x:.1e}' for x in errors)}, bits {'equal' if same else 'DIFFER'} [{kernel.text}]", flush=True)
    kernel.release()


BACKWARD_FORM_TESTS = [(2, 2, 2, 255, 257, 64, 1, 0, -1, -1, 20, 0), (1, 4, 4, 257, 257, 64, 0, 0, -1, -1, 0, 3), (1, 4, 2, 1024, 1024, 64, 1, 0, -1, -1, 0, 4),
                       (2, 4, 2, 384, 384, 128, 1, 0, -1, -1, 0, 4), (2, 2, 1, 200, 200, 96, 1, 0, -1, -1, 0, 2)]
BACKWARD_WINDOW_TESTS = [(1, 2, 1, 333, 200, 128, 0, 1, 60, 40, 0, 0), (1, 4, 2, 300, 333, 64, 1, 0, 100, -1, 0, 0), (2, 2, 1, 129, 300, 128, 0, 1, 64, -1, 30, 1)]


def test_forms(forward, backward):
    for numbers in forward:
        print(f"  attention form {numbers} ...", flush=True)  # what does not come back is named
        inputs, out = form_tensors(*numbers)
        places = [(n, head) for n in range(numbers[0]) for head in range(numbers[1])]
        want = form_reference(inputs, numbers, places).reshape(out.shape)
        check(f"attention form {numbers}", "attention_form", numbers, inputs, out, lambda: want, 6e-3)
    for numbers in backward:
        print(f"  attention_backward form {numbers} ...", flush=True)
        try:
            test_backward_form(numbers)
        except Missing as reason:
            failures.append(f"attention_backward form {numbers}: {reason}")


def time_form(numbers, peers_of):
    b, h, hkv, t, s, d, causal, dtype = numbers[:8]
    plain = len(numbers) == 8
    inputs, out = attention_tensors(*numbers) if plain else form_tensors(*numbers)
    label = f"{b}x{h}x{s}x{d} {'causal' if causal else 'full'}" + ("" if plain else f" window {numbers[8]} cap {numbers[10]} mask {numbers[11]}")
    print(f"  {label} ...", flush=True)
    kernel = Kernel("attention" if plain else "attention_form", numbers)
    times = rounds({"weft": lambda: kernel(inputs, [out]), **peers_of(inputs)}, 9, 2)
    places = [(0, 0), (b - 1, h - 1)]
    error = verdict(f"attention-forms {label}", torch.stack([out[n, head] for n, head in places]),
                    form_reference(inputs, numbers if not plain else numbers + (-1, -1, 0, 0), places, torch.float32), 6e-3)
    pairs = (s if not causal else s / 2) if plain or numbers[8] < 0 else min(numbers[8], s)
    record("attention-forms", label, lambda x: 4.0 * b * h * t * pairs * d / x * 1e-12, times, kernel.text,
           {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
    kernel.release()


def part_attention_forms():
    """Head dims, caps, masks, windows: timed beside the named backends or flex_attention, and tested small. What takes long comes last."""
    torch.manual_seed(5)
    for numbers in HEADS:
        time_form(numbers, lambda inputs: attention_peers(inputs, bool(numbers[6])))
    test_forms(FORM_TESTS, BACKWARD_FORM_TESTS)
    for numbers in HEAD_TESTS:
        inputs, out = attention_tensors(*numbers)
        check(f"attention {numbers}", "attention", numbers, inputs, out, lambda: attention_reference(inputs, numbers[6]), 6e-3)
    for numbers in FORMS[:2]:
        time_form(numbers, lambda inputs: form_peers(inputs, numbers))
    test_forms(WINDOW_TESTS, BACKWARD_WINDOW_TESTS)
    for numbers in WINDOWS + FORMS[2:]:
        time_form(numbers, lambda inputs: form_peers(inputs, numbers))


def backward_tensors(b, h, hkv, t, s, d, causal, dtype):
    """q, k, v, o, lse, do of a forward pass done by PyTorch in f32, and poisoned dq, dk, dv."""
    inputs, _ = attention_tensors(b, h, hkv, t, s, d, causal, dtype)
    q, k, v = inputs
    o, lse = torch.empty_like(q), torch.empty(b, h, t, device="cuda")
    hide = torch.ones(t, s, dtype=torch.bool, device="cuda").triu(1 + s - t) if causal else None
    for n in range(b):
        for head in range(h):
            x = q[n, head].float() @ k[n, head // (h // hkv)].float().T / math.sqrt(d)
            if causal:
                x = x.masked_fill(hide, -math.inf)
            lse[n, head] = x.logsumexp(-1)
            o[n, head] = (torch.nan_to_num(torch.softmax(x, -1)) @ v[n, head // (h // hkv)].float()).to(o.dtype)
    g = torch.randn(b, h, t, d, device="cuda").to(q.dtype)
    return [q, k, v, o, lse, g], [torch.full_like(x, float("nan")) for x in (q, k, v)]


def backward_reference(inputs, causal, batch, key_head, wide=torch.float64):
    """dq of the heads of one group, dk and dv of its key head."""
    q, k, v, _, _, g = inputs
    group = q.shape[1] // k.shape[1]
    heads = slice(key_head * group, key_head * group + group)
    Q, K, V, G = q[batch, heads].to(wide), k[batch, key_head].to(wide), v[batch, key_head].to(wide), g[batch, heads].to(wide)
    t, s = q.shape[2], k.shape[2]
    x = Q @ K.T / math.sqrt(q.shape[3])
    if causal:
        x = x.masked_fill(torch.ones(t, s, dtype=torch.bool, device="cuda").triu(1 + s - t), -math.inf)
    p = torch.nan_to_num(torch.softmax(x, -1))
    dp = G @ V.T
    ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / math.sqrt(q.shape[3])
    return ds @ K, (ds.transpose(-1, -2) @ Q).sum(0), (p.transpose(-1, -2) @ G).sum(0)


def backward_verdicts(label, inputs, outs, causal, places, wide):
    group = inputs[0].shape[1] // inputs[1].shape[1]
    worst = 0.0
    for batch, key_head in places:
        want = backward_reference(inputs, causal, batch, key_head, wide)
        got = outs[0][batch, key_head * group:(key_head + 1) * group], outs[1][batch, key_head], outs[2][batch, key_head]
        worst = max([worst] + [verdict(f"{label} {name} batch {batch} key head {key_head}", x, y, 1e-2) for name, x, y in zip(("dq", "dk", "dv"), got, want)])
    return worst


BACKWARD_WAYS = ("fixed order", "any order", "two kernels", "sums", "owned sums")  # the builder's proposals


def way_name(choice):
    return BACKWARD_WAYS[choice % 1000] + (f" way {choice // 1000}" if choice >= 1000 else "")


def test_backward(numbers, choice, name="attention_backward"):
    b, h, hkv, t, s, d, causal, dtype = numbers
    inputs, outs = backward_tensors(*numbers)
    label = f"{name} {numbers} {way_name(choice)}"
    kernel = Kernel(name, numbers, choice)
    given, results_of = inputs, outs
    if name == "attention_gradient":
        given, results_of = inputs[:3] + inputs[5:], [torch.full_like(inputs[0], float("nan"))] + outs
    kernel(given, results_of)
    torch.cuda.synchronize()
    first = [x.clone() for x in results_of]
    for x in results_of:
        x.fill_(float("nan"))
    kernel(given, results_of)
    torch.cuda.synchronize()
    same = [torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(first, results_of)]
    wanted_same = same[-2:] if choice % 1000 in (1, 3) else same  # dk and dv are in a fixed order always
    if not all(wanted_same):
        failures.append(f"{label}: two runs differ: {same}")
    error = backward_verdicts(label, inputs, outs, causal, [(n, m) for n in range(b) for m in range(hkv)], torch.float64)
    print(f"  {label}: error {error:.2e}, same bits {same} [{kernel.text}]", flush=True)
    kernel.release()


BACKWARD_SHAPES = [(1, 2, 2, 1, 77), (1, 2, 2, 128, 128), (1, 2, 2, 200, 333), (1, 2, 2, 333, 200), (1, 2, 1, 300, 300), (1, 32, 8, 512, 512), (2, 2, 2, 1023, 1023),
                   (3, 3, 1, 1100, 1023)]


def backward_peers(inputs, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    peers = {}
    q, k, v = (x.detach().requires_grad_() for x in inputs[:3])
    for label, backend, fixed in (("cudnn", SDPBackend.CUDNN_ATTENTION, False), ("flash", SDPBackend.FLASH_ATTENTION, False), ("flash deterministic", SDPBackend.FLASH_ATTENTION, True)):
        def make(backend=backend, fixed=fixed):
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            def run():
                torch.use_deterministic_algorithms(fixed)
                torch.autograd.grad(y, (q, k, v), inputs[5], retain_graph=True)
                torch.use_deterministic_algorithms(False)
            run()
            return run
        try:
            peers[label] = make()
        except Exception as problem:
            torch.use_deterministic_algorithms(False)
            print(f"  {label}: {str(problem)[:80]}")
    return peers


def kernel_times(run):
    """Microseconds of each kernel of one call, by name."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as record_of:
        for _ in range(3):
            run()
        torch.cuda.synchronize()
    return ", ".join(f"{e.key.split('_')[-1]} {e.device_time_total / e.count:.0f}" for e in record_of.key_averages() if e.key.startswith("attention"))


def time_backward(b, h, hkv, s, d, causal):
    numbers = (b, h, hkv, s, s, d, causal, 0)
    inputs, outs = backward_tensors(*numbers)
    label = f"{b}x{h}x{s}x{d} {'causal' if causal else 'full'}"
    kernels = {"weft " + BACKWARD_WAYS[choice]: Kernel("attention_backward", numbers, choice) for choice in (0, 1)}
    runs = {name: (lambda k=k: k(inputs, outs)) for name, k in kernels.items()}
    times = rounds({**runs, **backward_peers(inputs, bool(causal))}, 11, 2)
    notes = {}
    for name, run in runs.items():
        run()
        error = backward_verdicts(f"attention-bwd {label} {name}", inputs, outs, causal, [(0, 0), (b - 1, hkv - 1)], torch.float32)
        try:
            notes[name] = f"{name} {times[name] * 1e6:.1f} us, error {error:.1e} ({kernel_times(run)})"
        except Exception as problem:
            notes[name] = f"no kernel times: {str(problem)[:60]}"
    for part, choice in (("attention-bwd", 1), ("attention-bwd-fixed", 0)):
        name = "weft " + BACKWARD_WAYS[choice]
        shown = {x: t for x, t in times.items() if x == name or not x.startswith("weft")}
        record(part, label, lambda t: 10.0 * b * h * s * s * d * (0.5 if causal else 1) / t * 1e-12, shown, kernels[name].text + "; " + notes[name],
               {"unit": "TFLOP/s", "compile_s": kernels[name].compile_seconds})
    for name, note in notes.items():
        print(f"  {note}", flush=True)
    for kernel in kernels.values():
        kernel.release()
    torch.cuda.empty_cache()


def part_attention_bwd():
    """Sums of dQ in any order and in a fixed one, against the backward passes behind scaled_dot_product_attention; then small shapes."""
    torch.manual_seed(3)
    for b, h, hkv, s, d, causal in ATTENTION[:6]:
        time_backward(b, h, hkv, s, d, causal)
    for n, (b, h, hkv, t, s) in enumerate(BACKWARD_SHAPES):
        d, causal = (128, 64)[n % 2], n // 2 % 2
        for choice in (0, 1) + ((4,) if d == 64 else ()):
            test_backward((b, h, hkv, t, s, d, causal, int(n % 3 == 1)), choice)
    test_backward((2, 4, 2, 200, 260, 80, 1, 0), 0)
    test_backward((2, 6, 3, 333, 200, 40, 1, 1), 4)
    test_backward((2, 4, 2, 333, 200, 64, 1, 0), 0, "attention_gradient")


def time_bandwidth(part, label, name, numbers, inputs, out, bytes_moved, reference, peers, limit, choices=6):
    """Every schedule that the builder proposes; its first choice is what counts, the others are shown beside it. What only
    reads is timed behind a flush that was read again; the time behind a written one stands in the notes."""
    kernels = {}
    for choice in range(choices):
        try:
            kernels[choice] = Kernel(name, numbers, choice)
        except Missing as reason:
            if choice == 0:
                print(f"{part} {label}: not run: {reason}", flush=True)
                results.append({"part": part, "case": label, "missing": str(reason)})
                return
            break
    reads = out.numel() * out.element_size() * 20 < bytes_moved
    own = {c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}
    notes, errors, want = [], [], reference()
    for choice, run in own.items():
        out.fill_(float("nan"))
        run()
        errors.append(verdict(f"{part} {label} schedule {choice}", out, want, limit))
    del want
    for _ in range(40):  # clocks fall while kernels are compiled and rise again under load: what computes would be slower at first
        for run in own.values():
            run()
    times = rounds({"weft": own[0], **{f"schedule {c}": run for c, run in own.items() if c}, **peers}, clean=reads)
    for c in list(own)[1:]:
        seconds = times.pop(f"schedule {c}")
        notes.append(f"schedule {c}: {seconds * 1e6:.1f} us {100 * bytes_moved / seconds / copy_rate():.0f} % of copy [{kernels[c].text}]")
    share = bytes_moved / times["weft"] / copy_rate()
    notes.append(f"{100 * share:.0f} % of copy")
    if reads:
        written = rounds({"weft": own[0]})["weft"]
        notes.append(f"behind written lines {written * 1e6:.1f} us, {100 * bytes_moved / written / copy_rate():.0f} %")
    record(part, label, lambda s: bytes_moved / s * 1e-9, times, kernels[0].text + "; " + "; ".join(notes),
           {"unit": "GB/s", "error": errors[0], "compile_s": kernels[0].compile_seconds, "share_of_copy": share})
    for kernel in kernels.values():
        kernel.release()


measured_copy = None


def copy_rate():
    """Bytes per second of PyTorch's device copy, 1 GiB each way, in this run."""
    global measured_copy
    if measured_copy is None:
        a, b = torch.empty(2**28, device="cuda").normal_(), torch.empty(2**28, device="cuda")
        measured_copy = 2 * a.numel() * 4 / rounds({"copy": lambda: b.copy_(a)})["copy"]
        print(f"copy: {measured_copy * 1e-12:.2f} TB/s", flush=True)
    return measured_copy


def part_row():
    copy_rate()
    for name, (reference, peer) in ROWS.items():
        for rows, columns in ((65536, 768), (16384, 4096), (8192, 50304)):
            inputs, out = row_tensors(name, rows, columns, 0)
            compiled = torch.compile(peer)  # searching finds nothing better for rows and takes four times as long
            compiled(inputs)
            moved = inputs[0].numel() * 2 + (rows * 12 if name == "cross_entropy" else inputs[0].numel() * 2)
            time_bandwidth("row", f"{name} {rows}x{columns}", name, row_numbers(name, rows, columns, 0), inputs, out, moved, lambda: reference(inputs),
                           {"torch": lambda: peer(inputs), "torch.compile": lambda: compiled(inputs)}, 1e-5 if name == "cross_entropy" else 6e-3)
            del inputs, out
            torch.cuda.empty_cache()


def part_flat():
    copy_rate()
    for name, peer in FLAT.items():
        count = 2**27
        inputs, out = flat_tensors(name, count)
        compiled = torch.compile(peer, mode="max-autotune-no-cudagraphs")
        compiled(inputs)
        moved = 4 * count * {"pointwise": 4, "sum": 1, "copy": 2}[name]
        time_bandwidth("flat", f"{name} {count}", name, (count,), inputs, out, moved, lambda: peer([x.double() for x in inputs]).reshape(out.shape),
                       {"torch": lambda: peer(inputs), "torch.compile": lambda: compiled(inputs)}, 1e-4)
        del inputs, out
        torch.cuda.empty_cache()


MLP = [(200, 2, 64, 5), (4096, 2, 64, 5), (65536, 3, 128, 4)]


def part_mlp():
    """Small networks, all layers in one kernel, beside torch.compile with CUDA graphs and one captured by hand."""
    test_mlp()
    for numbers in MLP:
        inputs, out = mlp_tensors(*numbers)
        kernel = Kernel("mlp", numbers)
        compiled = torch.compile(mlp_torch)
        peers = {"torch": lambda: mlp_torch(*inputs), "torch.compile": lambda: compiled(*inputs)}
        for name, run in list(peers.items()):
            run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            peers[name + " graph"] = graph.replay
        times = rounds({"weft": lambda: kernel(inputs, [out]), **peers})
        error = verdict(f"mlp {numbers}", out, mlp_torch(*[x.double() for x in inputs]), 1e-5)
        rows, width, layers = numbers[0], numbers[2], numbers[3]
        flops = 2 * rows * (numbers[1] * width + (layers - 2) * width * width + width)
        record("mlp", "x".join(map(str, numbers)), lambda t: flops / t * 1e-12, times, kernel.text, {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
        kernel.release()


# n c o size kernel stride pad groups: depthwise and first convolutions of mobile nets, one image
CONVOLUTIONS = [(1, 96, 96, 112, 3, 1, 1, 96), (1, 96, 96, 112, 3, 2, 1, 96), (1, 240, 240, 28, 5, 1, 2, 240), (1, 480, 480, 14, 5, 1, 2, 480), (1, 3, 16, 640, 3, 2, 1, 1),
                (32, 96, 96, 112, 3, 1, 1, 96)]


def part_depthwise():
    for numbers in CONVOLUTIONS:
        n, c, o, size, kernel, stride, pad, groups = numbers
        x, w, bias = torch.randn(n, c, size, size, device="cuda"), torch.randn(o, c // groups, kernel, kernel, device="cuda"), torch.randn(o, device="cuda")
        run = lambda: F.relu(F.conv2d(x, w, bias, stride, pad, 1, groups))
        compiled = torch.compile(run)  # searching takes it half a minute a shape, for the same library kernels
        compiled()
        out = torch.full(run().shape, float("nan"), device="cuda")
        best, note = best_choice("convolution", numbers, [x, w, bias], out, 2)
        times = rounds({"weft": lambda: best([x, w, bias], [out]), "torch": run, "torch.compile": compiled})
        error = verdict(f"depthwise {numbers}", out, F.relu(F.conv2d(x.double(), w.double(), bias.double(), stride, pad, 1, groups)), 1e-5)
        moved = 4 * (x.numel() + out.numel())
        record("depthwise", "x".join(map(str, numbers)), lambda t: moved / t * 1e-9, times, best.text + "; " + note, {"unit": "GB/s", "error": error, "compile_s": best.compile_seconds})
        best.release()


class Step:
    """A program of gpu_programs.c; what it works on are its states."""

    def __init__(self, name, numbers):
        library.weft_bench_step_error.restype = ctypes.c_char_p
        library.weft_bench_step_create.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        library.weft_bench_step_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
        library.weft_bench_step_read.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        library.weft_bench_step_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        library.weft_bench_step_bytes.restype, library.weft_bench_step_output.restype = ctypes.c_int64, ctypes.c_float
        for function in (library.weft_bench_step_release, library.weft_bench_step_launches, library.weft_bench_step_bytes, library.weft_bench_step_output):
            function.argtypes = [ctypes.c_void_p]
        self.handle = ctypes.c_void_p()
        start = time.time()
        self.must(library.weft_bench_step_create(b"cuda:0", name.encode(), (ctypes.c_int64 * len(numbers))(*numbers), ctypes.byref(self.handle)))
        self.compile_seconds = time.time() - start

    def must(self, code):
        if code:
            raise RuntimeError(library.weft_bench_step_error().decode())

    def write(self, name, tensor):
        host = tensor.detach().cpu().contiguous()
        dtype = {torch.bfloat16: 0, torch.float32: 2, torch.int64: 3}[host.dtype]
        self.must(library.weft_bench_step_write(self.handle, name.encode(), host.data_ptr(), dtype, host.dim(), (ctypes.c_int64 * host.dim())(*host.shape)))

    def read(self, name, like):
        host = torch.empty(like.shape, dtype=like.dtype)
        self.must(library.weft_bench_step_read(self.handle, name.encode(), host.data_ptr(), host.numel() * host.element_size()))
        return host

    def __call__(self):
        """On the current stream, which is not the default one; waits for the result."""
        seconds = ctypes.c_double()
        self.must(library.weft_bench_step_run(self.handle, torch.cuda.current_stream().cuda_stream, ctypes.byref(seconds)))
        return seconds.value

    def planned_bytes(self):
        """Temporaries and constants; states are not counted."""
        return library.weft_bench_step_bytes(self.handle)

    def launches(self):
        return library.weft_bench_step_launches(self.handle)

    def release(self):
        library.weft_bench_step_release(self.handle)


def gpt_shapes(layers, width, vocabulary, positions):
    shapes = {"wte": (vocabulary, width), "wpe": (positions, width)}
    for i in range(layers):
        for name, shape in (("norm1.weight", (width,)), ("norm1.bias", (width,)), ("qkv.weight", (3 * width, width)), ("qkv.bias", (3 * width,)), ("proj.weight", (width, width)),
                            ("proj.bias", (width,)), ("norm2.weight", (width,)), ("norm2.bias", (width,)), ("fc1.weight", (4 * width, width)), ("fc1.bias", (4 * width,)),
                            ("fc2.weight", (width, 4 * width)), ("fc2.bias", (width,))):
            shapes[f"h{i}.{name}"] = shape
    shapes.update({"norm.weight": (width,), "norm.bias": (width,)})
    return shapes


def adamw_pair(numbers):
    """Both sides with the same random parameters and gradients."""
    step, shapes = Step("adamw", numbers), gpt_shapes(*numbers)
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = torch.nn.Parameter(torch.randn(shape, device="cuda") * 0.02)
        tensors[name].grad = torch.randn(shape, device="cuda") * 1e-3
        step.write(name, tensors[name])
        step.write(name + "/g", tensors[name].grad)
    groups = [{"params": [t for t in tensors.values() if t.dim() == 2], "weight_decay": 0.1}, {"params": [t for t in tensors.values() if t.dim() == 1], "weight_decay": 0.0}]
    return step, tensors, groups


def on_a_stream(part):
    """Programs of Weft and PyTorch's work one behind the other on a stream of their own."""
    def run():
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            part()
            torch.cuda.synchronize()
    return run


@on_a_stream
def part_adamw():
    """The update alone, device time of one call; 28 bytes a parameter: gradient, value and two moments read, three written."""
    torch.manual_seed(5)
    step, tensors, groups = adamw_pair((2, 128, 1000, 64))
    peer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, fused=True)
    for _ in range(3):
        step()
        peer.step()
    for name, tensor in tensors.items():
        verdict(f"adamw {name}", step.read(name, tensor), tensor.detach().cpu(), 1e-5)
    step.release()
    for label, numbers in (("GPT-2 124M", (12, 768, 50304, 1024)), ("GPT 8 layers of 256", (8, 256, 256, 256))):
        step, tensors, groups = adamw_pair(numbers)
        peers = {f"torch {name}": torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, capturable=True, **way)
                 for name, way in (("fused", {"fused": True}), ("foreach", {"foreach": True}))}
        graphs = {}
        for name, peer in peers.items():
            for _ in range(3):
                peer.step()
            torch.cuda.synchronize()
            graphs[name + " graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name + " graph"]):
                peer.step()
        moved = 28 * sum(t.numel() for t in tensors.values())
        for _ in range(3):
            step()
        ours, own = [], {"torch fused": peers["torch fused"].step, **{name: graph.replay for name, graph in graphs.items()}}
        times = rounds({"weft": lambda: ours.append(step()), **own})
        times["weft"] = sorted(ours[3:])[len(ours[3:]) // 2]  # of the device, by its own events
        share = moved / times["weft"] / copy_rate()
        record("adamw", label, lambda t: moved / t * 1e-9, times, f"{step.launches()} launches for {len(tensors)} tensors, {100 * share:.0f} % of copy", {"unit": "GB/s", "share_of_copy": share, "compile_s": step.compile_seconds})
        step.release()
        del tensors, groups, peers, graphs, own
        torch.cuda.empty_cache()


def head_torch(x, w, labels):
    loss = F.cross_entropy(F.linear(x, w).float(), labels)
    return (loss, *torch.autograd.grad(loss, (x, w)))


@on_a_stream
def part_head():
    """Head and cross-entropy of a language model, forward and both gradients: whole logits and pieces of them, beside torch."""
    torch.manual_seed(6)
    for numbers in ((301, 200, 1000), (8192, 768, 50304)):
        n, d, c = numbers
        large = n == 8192
        x = torch.randn(n, d, device="cuda").bfloat16().requires_grad_()
        w = (torch.randn(c, d, device="cuda") / math.sqrt(d)).bfloat16().requires_grad_()
        labels = torch.randint(c, (n,), device="cuda")
        want = head_torch(x.detach().double().requires_grad_(), w.detach().double().requires_grad_(), labels) if not large else head_torch(x, w, labels)
        steps, times, notes = {}, {}, []
        for label, pieces in (("whole", -1), ("pieces", 0), ("2 pieces", 2), ("8 pieces", 8)):
            try:
                step = steps[label] = Step("head", (*numbers, pieces))
            except RuntimeError as problem:
                failures.append(f"head {numbers} {label}: {problem}")
                continue
            for name, tensor in (("x", x), ("w", w), ("labels", labels)):
                step.write(name, tensor)
            own = sorted(step() for _ in range(18 if large else 2))
            times["weft " + label] = own[len(own) // 2]
            notes.append(f"{label}: {step.launches()} launches, {step.planned_bytes() / 1e6:.0f} MB")
            verdict(f"head {numbers} {label} loss", torch.tensor(library.weft_bench_step_output(step.handle)), want[0].detach().cpu(), 2e-3)
            for name, slope in (("x/g", want[1]), ("w/g", want[2])):
                verdict(f"head {numbers} {label} {name}", step.read(name, slope.bfloat16()), slope.detach().cpu(), 2e-2)
            step.release()
        del want
        if not large:
            continue
        compiled = torch.compile(head_torch)
        peers = {"torch": lambda: head_torch(x, w, labels), "torch.compile": lambda: compiled(x, w, labels)}
        for name, run in peers.items():
            run()
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run()
            torch.cuda.synchronize()
            notes.append(f"{name}: {(torch.cuda.max_memory_allocated() - before) / 1e6:.0f} MB")
        times.update(rounds(peers, 9, 2))
        record("head", "x".join(map(str, numbers)), lambda t: 6 * n * d * c / t * 1e-12, times, "; ".join(notes), {"unit": "TFLOP/s"})


def geomean(part):
    ratios = [r["ratio"] for r in results if r["part"] == part and r.get("ratio")]
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "none"


def main():
    parts = sys.argv[3:] or ["test", "gemm", "fused", "tf32", "fp8", "mma", "attention", "attention-bwd", "decode", "ragged", "flat", "row", "mlp", "depthwise", "adamw", "head", "thin", "convolution"]
    faulthandler.dump_traceback_later(40, repeat=True)  # what does not come back shows where it waits
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    if library.weft_bench_open(0):
        print("weft:", library.weft_bench_error().decode())
        return 1
    versions = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    print(versions)
    start = time.time()
    for part in parts:
        print(f"== {part} (at {time.time() - start:.0f} s)", flush=True)
        try:
            globals()["part_" + part.replace("-", "_")]()
        except Exception as problem:  # one part that breaks leaves the others their figures
            failures.append(f"part {part}: {type(problem).__name__}: {problem}")
            print(f"part {part} broke: {problem}", flush=True)
            if "CUDA_ERROR" in str(problem) or "CUDA error" in str(problem):
                break
        with open(sys.argv[2], "w") as out:
            json.dump({"versions": versions, "copy_TBps": measured_copy and measured_copy * 1e-12, "tested": tested, "failures": failures, "results": results}, out, indent=1)
    print(f"self-test: {tested} compared, {len(failures)} failed")
    for failure in failures:
        print("  FAILED", failure)
    print("geomean vs best of torch: " + " ".join(f"{p} {geomean(p)}" for p in ("gemm", "fused", "ragged", "tf32", "fp8", "mma", "thin", "thin-clean", "simt", "convolution", "attention", "attention-forms", "attention-bwd", "attention-bwd-fixed", "decode", "row", "flat", "mlp", "depthwise", "adamw", "head")))
    return 1 if failures else 0


sys.exit(main())
