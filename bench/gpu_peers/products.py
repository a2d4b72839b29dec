"""Products: bf16, f16, f32, tf32, fp8, with epilogues, of few rows, of odd sizes; beside cuBLAS and torch.compile."""
import math
import torch
import torch.nn.functional as F
from library import DTYPES, PORTABLE, RELAXED, SECOND, Kernel, Missing
from epilogues import time_epilogue
from measure import best_choice, check, failures, guarded, record, results, rounds, verdict

GEMM = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (8192, 14336, 4096), (128, 14336, 4096), (16, 14336, 4096), (1, 14336, 4096)]
ODD_PRODUCTS = ((300, 520, 200, 1), (129, 257, 33, 0), (67, 75, 129, 2), (2304, 4224, 528, 1), (257, 1032, 4096, 1))


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


def matmul_peers(inputs, order):
    """cuBLAS by both of its interfaces, which choose their kernels by different rules."""
    a, b = inputs[0], inputs[1]
    x = a.T if order == 2 else a
    y = b.T if order == 1 else b

    def through(backend):
        def run():
            torch.backends.cuda.preferred_blas_library(backend)
            torch.matmul(x, y)
        return run
    return {"cublas": through("cublas"), "cublaslt": through("cublaslt")}


def scaled_peers(inputs):
    """Per-tensor scales, A [m, k], B [n, k]; both ways of summing."""
    a, b, x, y = inputs
    return {f"_scaled_mm{' fast' if fast else ''}": lambda fast=fast: torch._scaled_mm(a, b.T, scale_a=x, scale_b=y, out_dtype=torch.bfloat16, use_fast_accum=fast)
            for fast in (True, False)}


def fused_torch(a, b, scale, bias, residual):
    return (F.gelu((a @ b.T).float() * scale[:, None] + bias) + residual.float()).to(a.dtype)


@guarded
def time_matmul(part, m, n, k, order, epilogue, dtype=0, schedules=4, limit=4e-3, clean=False, searched=False):
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
        candidates.update(matmul_peers(inputs, order))
    if epilogue == 2:
        candidates.update(scaled_peers(inputs))
    if epilogue == 1:
        for mode in ("default", "max-autotune-no-cudagraphs") if searched else ("default",):
            compiled = torch.compile(fused_torch, mode=mode)
            compiled(*inputs)
            candidates["torch.compile" + (" searched" if mode != "default" else "")] = lambda compiled=compiled: compiled(*inputs)
    times = rounds(candidates, clean=clean)
    if times["weft"] < 3e-5:
        times = rounds(candidates, 61, clean=clean)
    rows = torch.randint(m, (min(m, 64),), device="cuda")
    error = verdict(f"{part} {label}", out[rows], matmul_reference(inputs, order, epilogue, rows), limit)
    record(part, label, lambda s: 2.0 * m * n * k / s * 1e-12, times, kernel.text + "; " + note,
           {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds, "TB/s": sum(x.numel() * x.element_size() for x in (inputs[0], inputs[1], out)) / times["weft"] * 1e-12})
    kernel.release()


def check_products(dtype, epilogue, limit, shapes, choices=3):
    for m, n, k, order in shapes:
        for choice in range(choices):
            inputs, out = matmul_tensors(m, n, k, order, epilogue, dtype)
            check(f"matmul {m}x{n}x{k} order {order} dtype {dtype} choice {choice}", "matmul", (m, n, k, order, epilogue, dtype), inputs, out,
                  lambda: matmul_reference(inputs, order, epilogue, torch.arange(m, device="cuda")), limit, choice)


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


def part_thin():
    """Few rows: the weights are read once, by every multiprocessor some; k is split over clusters or any blocks."""
    check_products(0, 0, 4e-3, ((5, 136, 1544, 1), (3, 67, 1300, 0), (130, 264, 4096, 1), (1, 4096, 4096, 1), (64, 4096, 4096, 2)), 4)
    check_products(0, 1, 4e-3, ((16, 4096, 4096, 1), (100, 2000, 4096, 0)), 4)
    for part in ("thin", "thin-clean"):
        for m, n, k in ((1, 4096, 4096), (16, 4096, 4096), (64, 4096, 14336), (128, 4096, 4096), (512, 2048, 2048)):
            time_matmul(part, m, n, k, 1, 0, 0, 9, clean=part == "thin-clean")
    for m in (1, 8, 16, 32, 64, 128):
        time_matmul("thin-clean", m, 14336, 4096, 1, 0, 0, 7, clean=True)


def part_ragged():
    check_products(0, 0, 4e-3, ((2304, 4230, 328, 1), (2305, 4225, 130, 0), (2303, 4240, 264, 2)), 2)  # narrow tiles at the right edge
    # rows at odd addresses: copied
    check_products(0, 0, 4e-3, ((2303, 4225, 332, 1), (2305, 4231, 330, 1), (2305, 1030, 201, 1), (301, 523, 201, 2), (1090, 1026, 650, 2), (301, 4225, 132, 0)), 2)
    check_products(0, 1, 4e-3, ((2305, 4225, 332, 1),), 2)
    check_products(0, 0, 4e-3, ((4104, 4104, 1032, 1), (4097, 4104, 1032, 0), (4120, 4099, 1100, 2)), 2)  # the last rows by themselves
    check_products(0, 1, 4e-3, ((4104, 4104, 1032, 1),), 1)
    for order in (1, 0, 2):
        time_matmul("ragged", 4096, 4096, 4096, order, 0, schedules=1)
        time_matmul("ragged", 4104, 4104, 4104, order, 0, schedules=3)
        time_matmul("ragged", 4095, 4097, 4100, order, 0, schedules=8)


def part_fused():
    check_products(0, 0, 4e-3, ((768, 768, 8192, 2), (300, 2304, 8192, 1)), 6)  # shares of k: equal parts and uneven ones
    for m, n, k in ((768, 3072, 32768), (768, 768, 32768), (768, 2304, 32768)):  # gradients of weights: grids that fill no round
        time_matmul("fused", m, n, k, 2, 0, 0, 7)
    for m, n, k in ((32768, 3072, 768), (8192, 8192, 2048)):
        time_epilogue("fused", m, n, k, 3)
    for m, n, k in GEMM[:5]:
        time_matmul("fused", m, n, k, 1, 1)


def part_fused_searched():
    """The forward products of `fused` beside torch.compile that searches among its kernels, which takes it half a minute a shape."""
    for m, n, k in (GEMM[1], GEMM[4]):
        time_matmul("fused-searched", m, n, k, 1, 1, searched=True)
