"""Attention forward, and decoding (one query a head), beside the backends of scaled_dot_product_attention."""
import math
import torch
import torch.nn.functional as F
from library import DTYPES, Missing
from measure import best_choice, check, record, results, rounds, time_bandwidth, verdict

ATTENTION = [(2, 16, 16, 8192, 128, 1), (2, 16, 16, 8192, 128, 0), (4, 16, 16, 4096, 64, 1), (4, 16, 16, 4096, 64, 0), (32, 12, 12, 1024, 64, 1), (64, 12, 12, 196, 64, 0),
             (4, 32, 8, 4096, 128, 1)]
WAYS = (1,)  # bits that differ from the builder's choice: codegen/builders/attention_hopper.h
WAY_TESTS = [(2, 3, 1, 333, 700, 128, 1, 0), (2, 2, 2, 500, 1000, 64, 0, 1), (3, 4, 2, 196, 196, 64, 0, 0), (40, 6, 6, 300, 300, 128, 0, 0)]
DECODE = [(32, 32, 8, 8192, 128), (8, 32, 8, 32768, 128), (128, 16, 16, 2048, 64), (1, 32, 8, 131072, 128), (1, 8, 8, 131072, 128), (4, 16, 16, 8192, 64)]


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
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        def run(backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=gqa)
        try:
            run()
            peers["sdpa " + backend.name.split("_")[0].lower()] = run
        except Exception as problem:
            print(f"  sdpa {backend.name}: {str(problem)[:80]}")
    return peers


def part_attention():
    for numbers in WAY_TESTS:
        for way in (0, *WAYS):
            inputs, out = attention_tensors(*numbers)
            check(f"attention {numbers} way {way}", "attention", numbers, inputs, out, lambda: attention_reference(inputs, numbers[6]), 6e-3, 1000 * way)
    for b, h, hkv, s, d, causal in ATTENTION:
        numbers = (b, h, hkv, s, s, d, causal, 0)
        inputs, out = attention_tensors(*numbers)
        label = f"{b}x{h}{'/' + str(hkv) if hkv != h else ''}x{s}x{d} {'causal' if causal else 'full'}"
        try:
            kernel, note = best_choice("attention", numbers, inputs, out, 3, ways=WAYS)
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


def part_decode():
    """One query a head: share of the copy rate that the keys and values are read at."""
    for b, h, hkv, s, d in DECODE:
        numbers = (b, h, hkv, 1, s, d, 0, 0)
        inputs, out = attention_tensors(*numbers)
        time_bandwidth("decode", f"{b}x{h}/{hkv}x{s}x{d}", "attention", numbers, inputs, out, 4 * b * hkv * s * d,
                       lambda: attention_reference(inputs, 0, None, torch.float32), attention_peers(inputs, False), 6e-3)
