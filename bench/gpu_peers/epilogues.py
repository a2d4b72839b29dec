"""Products with what models put behind them, by consumers that share tiles and by consumers that take turns."""
import torch
import torch.nn.functional as F
from library import Kernel, Missing
from measure import brief, check, failures, guarded, record, rounds, verdict


def gelu_with_slope(h):
    """GELU of what a layer gave, and its derivative, in 16 bits each."""
    x = h.float()
    slope = 0.5 * (1 + torch.erf(x * 0.70710678)) + x * torch.exp(-0.5 * x * x) * 0.39894228
    return F.gelu(x).to(h.dtype), slope.to(h.dtype)


def epilogue_case(m, n, k, epilogue):
    """nt (9: nn), bf16, with what models put behind products: inputs, outputs, what PyTorch computes, limits of errors."""
    a, b = torch.randn(m, k, device="cuda").to(torch.bfloat16), torch.randn(n, k, device="cuda").to(torch.bfloat16)
    bias = torch.randn(n, device="cuda")
    out = lambda t=torch.bfloat16: torch.full((m, n), float("nan"), device="cuda", dtype=t)
    sums = lambda a, b, bias: (a @ b.T).float() + bias
    if epilogue == 8:  # the first half of an MLP in training
        return "bias, GELU and its derivative", [a, b, bias], [out(), out()], lambda a, b, bias: gelu_with_slope(sums(a, b, bias).to(a.dtype)), 6e-3
    if epilogue == 9:  # its backward twin
        weights, slope = b.T.contiguous(), torch.rand(m, n, device="cuda").to(torch.bfloat16)
        return "nn times a derivative", [a, weights, slope], [out()], lambda a, w, slope: ((a @ w) * slope,), 6e-3
    if epilogue == 0:
        return "plain", [a, b], [out()], lambda a, b: (a @ b.T,), 4e-3
    if epilogue == 3:  # the first half of an MLP in training: what GELU reads is kept for the gradient
        def both(a, b, bias):
            h = sums(a, b, bias).to(a.dtype)
            return h, F.gelu(h.float()).to(a.dtype)
        return "bias, and GELU beside it", [a, b, bias], [out(), out()], both, 6e-3
    if epilogue == 4:  # the second half of an MLP in training: the stream is f32
        return "bias and residual, f32", [a, b, bias, torch.randn(m, n, device="cuda")], [out(torch.float32)], lambda a, b, bias, r: (sums(a, b, bias) + r,), 1e-3
    if epilogue == 7:  # the same with dropout, whose mask the backward pass reads too
        kept = torch.rand(m, n, device="cuda") < 0.8
        return "bias, dropout and residual, f32", [a, b, bias, kept, torch.randn(m, n, device="cuda")], [out(torch.float32)], lambda a, b, bias, kept, r: (r + torch.where(kept > 0, sums(a, b, bias) * 1.25, 0.0),), 1e-3
    if epilogue == 5:
        return "bias+gelu", [a, b, bias], [out()], lambda a, b, bias: (F.gelu(sums(a, b, bias)).to(a.dtype),), 6e-3
    return "bias+residual", [a, b, bias, torch.randn(m, n, device="cuda").to(torch.bfloat16)], [out()], lambda a, b, bias, r: (sums(a, b, bias).to(a.dtype) + r,), 6e-3


def under_load(candidates, runs=100, count=5):
    """Median seconds of each candidate without pauses: a hundred at a time, one candidate after another, so that the card is as
    warm and as throttled as in the steps of a model."""
    times = {name: [] for name in candidates}
    for _ in range(count + 1):
        for name, run in candidates.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(runs):
                run()
            end.record()
            times[name].append((start, end))
    torch.cuda.synchronize()
    return {name: sorted(a.elapsed_time(b) * 1e-3 / runs for a, b in t[1:])[count // 2] for name, t in times.items()}


@guarded
def time_epilogue(part, m, n, k, epilogue, loaded=False):
    """The first schedules in which consumers share tiles, and those in which they take turns."""
    label, inputs, outs, run, limit = epilogue_case(m, n, k, epilogue)
    numbers, kernels, kept = (m, n, k, int(epilogue != 9), epilogue, 0), {}, {False: 0, True: 0}
    for choice in range(14):
        try:
            kernel = Kernel("matmul", numbers, choice)
        except Missing:
            break
        turns = "turns=1" in kernel.text
        kept[turns] += 1
        if kept[turns] > 2:
            kernel.release()
        else:
            kernels[f"weft {choice} ({brief(kernel.text)})"] = kernel
    candidates = {name: lambda x=x: x(inputs, outs) for name, x in kernels.items()}
    peers = {}
    if not loaded:
        compiled = torch.compile(run)
        compiled(*inputs)
        peers["torch.compile"] = lambda: compiled(*inputs)
    if epilogue in (0, 6):
        peers["torch"] = lambda: run(*inputs) if epilogue == 0 else torch.addmm(inputs[3], inputs[0], inputs[1].T)
    times = under_load({**candidates, **peers}) if loaded else rounds({**candidates, **peers}, 9)
    rows = slice(0, min(m, 64))
    wide = [x[rows].float() if x.dim() == 2 and i != 1 else x.float() for i, x in enumerate(inputs)]
    want = run(*wide)
    for name, kernel in kernels.items():
        for out in outs:
            out.fill_(float("nan"))
        kernel(inputs, outs)
        for i, (out, right) in enumerate(zip(outs, want)):
            verdict(f"{part} {m}x{n}x{k} {label}, result {i}, {name}", out[rows], right, limit)
            if torch.isnan(out).any().item():
                failures.append(f"{part} {m}x{n}x{k} {label}, {name}: result {i} is not written everywhere")
    record(part, f"{m}x{n}x{k} {'' if epilogue == 9 else 'nt '}{label}", lambda s: 2.0 * m * n * k / s * 1e-12, times, next(iter(kernels.values())).text, {"unit": "TFLOP/s"})
    for kernel in kernels.values():
        kernel.release()


def check_turns():
    """Schedules in which consumers take turns, several tiles a block."""
    from products import matmul_reference, matmul_tensors
    for (m, n, k, order), epilogue in (((4000, 4000, 72, 1), 1), ((2304, 4224, 328, 1), 0), ((2305, 4222, 384, 0), 1), ((4000, 4000, 392, 2), 0)):
        numbers = (m, n, k, order, epilogue, 0)
        inputs, out = matmul_tensors(*numbers)
        for choice in range(14):
            try:
                kernel = Kernel("matmul", numbers, choice)
            except Missing:
                break
            text = kernel.text
            kernel.release()
            if "turns=1" in text:
                check(f"matmul {m}x{n}x{k} {('nn', 'nt', 'tn')[order]} epilogue {epilogue} {brief(text)}", "matmul", numbers, inputs, out,
                      lambda: matmul_reference(inputs, order, epilogue, torch.arange(m, device="cuda"), torch.float32), 4e-3, choice)


def part_turns():
    """The self-test of turns, then products of transformers' blocks with K = 768 and 3072, each behind a pause."""
    check_turns()
    for m, n, k, epilogue in ((32768, 768, 768, 4), (32768, 768, 768, 6), (32768, 768, 768, 7), (32768, 768, 768, 0), (32768, 2304, 768, 0), (32768, 3072, 768, 5), (32768, 768, 3072, 4), (32768, 768, 3072, 6),
                              (12608, 768, 768, 6), (12608, 3072, 768, 5), (25216, 768, 3072, 6)):
        time_epilogue("turns", m, n, k, epilogue)


def part_loaded():
    """Products of transformers' blocks without pauses: a hundred launches of shared tiles, then of turns, again and again."""
    for m, n, k, epilogue in ((32768, 768, 768, 0), (32768, 768, 768, 4), (32768, 768, 768, 6), (32768, 2304, 768, 0), (32768, 3072, 768, 3), (32768, 3072, 768, 5), (32768, 3072, 768, 8), (32768, 3072, 768, 9),
                              (32768, 768, 3072, 0), (32768, 768, 3072, 4), (12608, 768, 768, 6)):
        time_epilogue("loaded", m, n, k, epilogue, loaded=True)


def part_gelu():
    """MLPs in training: the first product with GELU and its derivative, and the product of its backward pass: GPT-2, ViT-B, ViT-L."""
    for m, n, k in ((32768, 3072, 768), (25216, 3072, 768), (12608, 4096, 1024)):
        for epilogue in (8, 9):
            time_epilogue("gelu", m, n, k, epilogue)
