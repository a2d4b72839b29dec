"""Products with structure: 8-bit operands with a scale for each block (scaled_dot), rows in groups with a matrix each (ragged_dot)."""
import torch
import torch.nn.functional as F
from library import DTYPES, PORTABLE, SECOND, Missing
from measure import best_choice, check, guarded, record, results, rounds, verdict

BLOCK = 128


def offered(peers):
    """Those of the peers that this PyTorch and this card have; what the others say is printed."""
    found = {}
    for name, run in peers.items():
        try:
            run()
            found[name] = run
        except Exception as problem:
            print(f"  {name}: not run: {str(problem).splitlines()[0][:200]}", flush=True)
    return found


def time_case(part, label, name, numbers, inputs, out, peers, want, rows, limit, schedules, operations):
    try:
        kernel, note = best_choice(name, numbers, inputs, out, schedules)
    except Missing as reason:
        print(f"{part} {label}: not run: {reason}", flush=True)
        results.append({"part": part, "case": label, "missing": str(reason)})
        return
    times = rounds({"weft": lambda: kernel(inputs, [out]), **offered(peers)}, 13)
    out.fill_(float("nan"))
    kernel(inputs, [out])
    error = verdict(f"{part} {label}", out[rows], want, limit)
    record(part, label, lambda s: operations / s * 1e-12, times, kernel.text + "; " + note, {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
    kernel.release()


# -- block scales

def scaled_tensors(m, n, k, epilogue, dtype):
    blocks = -(-k // BLOCK)
    r = lambda *s: torch.randn(*s, device="cuda")
    a, b = r(m, k).to(DTYPES[dtype % 8]), r(n, k).to(SECOND.get(dtype % 8, DTYPES[dtype % 8]))
    inputs = [a, b, torch.rand(m, blocks, device="cuda") + 0.5, torch.rand(-(-n // BLOCK), blocks, device="cuda") + 0.5]
    if epilogue:
        inputs.append(r(n))
    return inputs, torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)


def spread(x, scale, rows):
    each = scale.repeat_interleave(rows, 0)[:x.shape[0]].repeat_interleave(BLOCK, 1)[:, :x.shape[1]]
    return x.float().double() * each.double()


def scaled_reference(inputs, rows):
    a, b, scale_a, scale_b = inputs[:4]
    d = spread(a[rows], scale_a[rows], 1) @ spread(b, scale_b, BLOCK).T
    return d if len(inputs) == 4 else F.gelu(d.to(torch.bfloat16).double() + inputs[4].double())


def scaled_peers(inputs):
    """PyTorch with the same blocks (both of its interfaces), with a scale for each row, and in bf16."""
    a, b, scale_a, scale_b = inputs[:4]
    outer = scale_a.t().contiguous().t()
    inner = F.pad(scale_b, (0, -scale_b.shape[1] % 4)).t()
    one = torch.ones(a.shape[0], 1, device="cuda"), torch.ones(1, b.shape[0], device="cuda")
    x, y = a.to(torch.bfloat16), b.to(torch.bfloat16)

    def blocks():
        kinds = F.ScalingType
        F.scaled_mm(a, b.t(), outer, kinds.BlockWise1x128, inner, kinds.BlockWise128x128, output_dtype=torch.bfloat16)
    return {"_scaled_mm blocks": lambda: torch._scaled_mm(a, b.t(), scale_a=outer, scale_b=inner, out_dtype=torch.bfloat16), "scaled_mm blocks": blocks,
            "_scaled_mm rows": lambda: torch._scaled_mm(a, b.t(), scale_a=one[0], scale_b=one[1], out_dtype=torch.bfloat16), "bf16": lambda: torch.matmul(x, y.T)}


@guarded
def time_scaled(part, m, n, k, dtype=3):
    inputs, out = scaled_tensors(m, n, k, 0, dtype)
    rows = torch.randint(m, (min(m, 64),), device="cuda")
    time_case(part, f"{m}x{n}x{k}{' e5m2 e4m3' if dtype % 8 == 5 else ''}{' mma.sync' if dtype & PORTABLE else ''}", "scaled_dot", (m, n, k, 0, dtype), inputs, out, scaled_peers(inputs), scaled_reference(inputs, rows), rows,
              6e-3, 3, 2.0 * m * n * k)


def part_scales():
    """e4m3 with scales by 1x128 and 128x128: the self-test, then beside PyTorch's blocks, rows and bf16."""
    for m, n, k, epilogue, dtype in ((300, 520, 400, 0, 3), (129, 577, 2064, 1, 3), (67, 264, 272, 0, 5), (5, 1032, 4096, 1, 4), (300, 520, 401, 0, 3 + PORTABLE)):
        for choice in range(3):
            inputs, out = scaled_tensors(m, n, k, epilogue, dtype)
            check(f"scaled_dot {m}x{n}x{k} epilogue {epilogue} dtype {dtype} choice {choice}", "scaled_dot", (m, n, k, epilogue, dtype), inputs, out,
                  lambda: scaled_reference(inputs, torch.arange(m, device="cuda")), 8e-3 if epilogue else 6e-3, choice)
    for m, n, k in ((8192, 8192, 8192), (4096, 4096, 4096), (4096, 7168, 2048), (128, 7168, 2048), (16, 7168, 2048)):
        time_scaled("scales", m, n, k)
    time_scaled("scales", 4096, 4096, 4096, 5)
    time_scaled("scales", 4096, 4096, 4096, 3 + PORTABLE)


# -- groups of rows

def bounds_of(m, groups, kind):
    """Offsets: groups of unlike sizes, some empty; "gaps": rows of no group before and behind them."""
    weights = torch.tensor([(7 * g * g + 3 * g) % 11 for g in range(groups)], dtype=torch.float64) + (0 if kind == "gaps" else 1)
    last = m - (m // 9 if kind == "gaps" else 0)
    ends = (torch.cumsum(weights, 0) / weights.sum() * last).round().to(torch.int32)
    first = torch.tensor([m // 17 if kind == "gaps" else 0], dtype=torch.int32)
    return torch.maximum(torch.cat([first, ends]), first)


def ragged_tensors(m, groups, k, n, contract, dtype, kind="all"):
    t = DTYPES[dtype % 8]
    r = lambda *s: torch.randn(*s, device="cuda").to(t)
    w = r(m, n) if contract == 0 else r(groups, k, n) if contract == 1 else r(groups, n, k)
    shape = (groups, k, n) if contract == 0 else (m, n)
    bounds = bounds_of(m, groups, kind)
    return [r(m, k), w, bounds.cuda()], bounds.tolist(), torch.full(shape, float("nan"), device="cuda", dtype=t)


def ragged_loop(x, w, bounds, contract, out, wide=None):
    """The same as one product for each group."""
    for g, (first, end) in enumerate(zip(bounds, bounds[1:])):
        a, b = x[first:end], w[first:end] if contract == 0 else w[g] if contract == 1 else w[g].T
        if wide:
            a, b = a.to(wide), b.to(wide)
        if contract == 0:
            out[g] = a.T @ b
        elif end > first:
            out[first:end] = a @ b
    return out


def ragged_reference(inputs, bounds, contract, out):
    return ragged_loop(inputs[0], inputs[1], bounds, contract, torch.zeros(out.shape, device="cuda", dtype=torch.float32), torch.float32)


def ragged_peers(inputs, bounds, contract, out):
    x, w, offsets = inputs
    ends = offsets[1:].contiguous()
    left, right = (x.T, w) if contract == 0 else (x, w if contract == 1 else w.transpose(1, 2))
    spare = torch.zeros_like(out)
    return {"_grouped_mm": lambda: torch._grouped_mm(left, right, offs=ends), "loop": lambda: ragged_loop(x, w, bounds, contract, spare)}


@guarded
def time_ragged(part, m, groups, k, n, contract, dtype=0):
    inputs, bounds, out = ragged_tensors(m, groups, k, n, contract, dtype)
    rows = torch.arange(0, out.shape[0], max(1, out.shape[0] // 64), device="cuda")
    want = ragged_reference(inputs, bounds, contract, out)[rows]
    time_case(part, f"{m} rows, {groups} groups, {k}x{n}, contract {contract}{' mma.sync' if dtype & PORTABLE else ''}", "ragged_dot", (m, groups, k, n, contract, dtype), inputs, out,
              ragged_peers(inputs, bounds, contract, out), want, rows, 4e-3, 4, 2.0 * m * k * n)


def part_grouped():
    """Experts: the self-test with empty groups and rows of none, then beside PyTorch's grouped products and a loop of products."""
    for m, groups, k, n, contract, dtype in ((1000, 7, 264, 200, 1, 0), (777, 5, 136, 261, 2, 1), (900, 6, 200, 136, 0, 0), (300, 1, 67, 75, 1, 0), (513, 33, 72, 136, 2, 0), (777, 5, 136, 264, 2, PORTABLE), (900, 6, 200, 136, 0, PORTABLE)):
        for choice in range(3):
            inputs, bounds, out = ragged_tensors(m, groups, k, n, contract, dtype, "gaps")
            check(f"ragged_dot {m} {groups} {k}x{n} contract {contract} dtype {dtype} choice {choice}", "ragged_dot", (m, groups, k, n, contract, dtype), inputs, out,
                  lambda: ragged_reference(inputs, bounds, contract, out), 4e-3, choice)
    for groups in (8, 64):
        for k, n in ((4096, 1536), (1536, 4096)):
            time_ragged("grouped", 16384, groups, k, n, 1)
        time_ragged("grouped", 16384, groups, 4096, 1536, 2)
        time_ragged("grouped", 16384, groups, 4096, 1536, 0)
    time_ragged("grouped", 256, 64, 4096, 1536, 2)  # a few rows each
    time_ragged("grouped", 16384, 8, 4096, 1536, 1, PORTABLE)
