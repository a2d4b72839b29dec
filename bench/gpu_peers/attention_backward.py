"""Attention's gradient, sums of dQ in any order and in a fixed one, beside the backward passes of PyTorch."""
import math
import torch
import torch.nn.functional as F
from attention import ATTENTION, attention_tensors
from library import Kernel
from measure import failures, record, rounds, verdict

BACKWARD_WAYS = ("fixed order", "any order", "two kernels", "sums", "owned sums")  # the builder's proposals
WIDE_WAYS = (1, 4, 5)  # turns of keys, of queries, of both: codegen/builders/attention_backward_hopper.h
BACKWARD_SHAPES = [(1, 2, 2, 1, 77), (1, 2, 2, 128, 128), (1, 2, 2, 200, 333), (1, 2, 2, 333, 200), (1, 2, 1, 300, 300), (1, 32, 8, 512, 512), (2, 2, 2, 1023, 1023),
                   (3, 3, 1, 1100, 1023)]


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
    """Microseconds of each kernel of one call, by name; a profiler that does not work costs nothing else."""
    from torch.profiler import ProfilerActivity, profile
    try:
        with profile(activities=[ProfilerActivity.CUDA]) as record_of:
            for _ in range(3):
                run()
            torch.cuda.synchronize()
    except Exception as problem:
        return f"no kernel times: {str(problem)[:60]}"
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
        notes[name] = f"{name} {times[name] * 1e6:.1f} us, error {error:.1e} ({kernel_times(run)})"
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


def time_wide(b, h, hkv, s, d, causal):
    """Head dims above 128: one plan, in a fixed order."""
    numbers = (b, h, hkv, s, s, d, causal, 0)
    inputs, outs = backward_tensors(*numbers)
    label = f"{b}x{h}x{s}x{d} {'causal' if causal else 'full'}"
    kernel = Kernel("attention_backward", numbers)
    others = {f"weft way {way}": Kernel("attention_backward", numbers, 1000 * way) for way in WIDE_WAYS}
    runs = {name: (lambda k=k: k(inputs, outs)) for name, k in others.items()}
    times = rounds({"weft": lambda: kernel(inputs, outs), **runs, **backward_peers(inputs, bool(causal))}, 7, 2)
    for name, run in runs.items():
        run()
        error = backward_verdicts(f"attention-wide {label} {name}", inputs, outs, causal, [(0, 0), (b - 1, hkv - 1)], torch.float32)
        print(f"  {label} {name}: {times.pop(name) * 1e6:.1f} us, error {error:.1e} ({kernel_times(run)})", flush=True)
        others[name].release()
    kernel(inputs, outs)
    error = backward_verdicts(f"attention-wide {label}", inputs, outs, causal, [(0, 0), (b - 1, hkv - 1)], torch.float32)
    note = kernel_times(lambda: kernel(inputs, outs))
    record("attention-wide", label, lambda t: 10.0 * b * h * s * s * d * (0.5 if causal else 1) / t * 1e-12, times, f"{kernel.text}; {note}",
           {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
    kernel.release()
    torch.cuda.empty_cache()


def part_attention_wide():
    """The backward pass of head dims above 128: small shapes in f64, then timed."""
    torch.manual_seed(4)
    for numbers in ((2, 4, 2, 333, 200, 192, 1, 0), (1, 2, 1, 300, 301, 256, 0, 1), (2, 2, 2, 130, 1023, 200, 1, 0), (1, 2, 2, 1, 77, 136, 0, 1)):
        test_backward(numbers, 0)
    for d in (192, 256):
        time_wide(2, 16, 16, 8192 if d == 256 else 4096, d, 1)


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
