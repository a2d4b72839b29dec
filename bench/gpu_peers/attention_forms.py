"""Attention with windows, caps, masks and other head dims (kinds of tests/cuda/cases.h), beside flex_attention."""
import math
import torch
import torch.nn.functional as F
from attention import attention_peers, attention_reference, attention_tensors
from library import DTYPES, Kernel, Missing
from measure import check, failures, record, rounds, verdict

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
BACKWARD_FORM_TESTS = [(2, 2, 2, 255, 257, 64, 1, 0, -1, -1, 20, 0), (1, 4, 4, 257, 257, 64, 0, 0, -1, -1, 0, 3), (1, 4, 2, 1024, 1024, 64, 1, 0, -1, -1, 0, 4),
                       (2, 4, 2, 384, 384, 128, 1, 0, -1, -1, 0, 4), (2, 2, 1, 200, 200, 96, 1, 0, -1, -1, 0, 2)]
DROPOUT_TESTS = [(2, 3, 1, 255, 257, 64, 1, 0, -1, -1, 0, 10), (1, 2, 2, 300, 333, 128, 0, 1, -1, -1, 0, 10), (1, 2, 1, 200, 300, 128, 1, 0, -1, -1, 20, 12),
                 (64, 6, 6, 256, 256, 64, 1, 0, -1, -1, 0, 10)]
DROPOUT = [(64, 6, 6, 256, 256, 64, 1, 0, -1, -1, 0, 10), (2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 0, 10)]
BACKWARD_WINDOW_TESTS = [(1, 2, 1, 333, 200, 128, 0, 1, 60, 40, 0, 0), (1, 4, 2, 300, 333, 64, 1, 0, 100, -1, 0, 0), (2, 2, 1, 129, 300, 128, 0, 1, 64, -1, 30, 1)]


STEP, PLACE, RATE, MASK32 = 7, 5 << 32 | 3, 0.3, 0xffffffff  # of the dropout of kinds from 10 on (tests/cuda/cases.c)


def philox(key, low, high):
    """The low 64 bits of ten rounds of Philox 4x32 over counters {low, high}, as two i64 tensors of 32 bits."""
    x = [low & MASK32, low >> 32 & MASK32, torch.full_like(low, high & MASK32), torch.full_like(low, high >> 32)]
    k = [key & MASK32, key >> 32]
    for _ in range(10):
        p, q = x[0] * 0xd2511f53, x[2] * 0xcd9e8d57
        x = [(q >> 32 & MASK32) ^ x[1] ^ k[0], q & MASK32, (p >> 32 & MASK32) ^ x[3] ^ k[1], p & MASK32]
        k = [k[0] + 0x9e3779b9 & MASK32, k[1] + 0xbb67ae85 & MASK32]
    return x[:2]


def left(numbers, batch, heads):
    """What dropout multiplies weights with, [heads, t, s]; ir/ops/attention_dropout.c."""
    b, h, _, t, s = numbers[:5]
    if numbers[11] // 10 % 2 == 0:
        return 1.0
    i, j = (torch.arange(n, device="cuda") for n in (t, s))
    row, column = i // 16 * 8 + i % 8, j // 16 * 8 + j % 8
    head = batch * h + torch.arange(h, device="cuda")[heads]
    line = head[:, None] * ((t + 15) // 16 * 8) + row[None]
    words = philox(PLACE, line[:, :, None] * ((s + 15) // 16 * 8) + column, STEP)
    bits = torch.where((i // 8 % 2 == 0)[:, None], words[0], words[1]) >> 16 * (j // 8 % 2) & 0xffff
    limit = int(RATE * 65536 + 0.5)
    return torch.where(bits >= limit, 65536 / (65536 - limit), 0.0)


def form_tensors(b, h, hkv, t, s, d, causal, dtype, left, right, cap, kind):
    inputs, out = attention_tensors(b, h, hkv, t, s, d, causal, dtype)
    drops, kind = kind // 10 % 2, kind % 10
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
    if drops:
        inputs.append(torch.tensor(STEP, device="cuda", dtype=torch.int64))
    return inputs, out


def form_scores(x, inputs, numbers, batch, heads):
    """Scores [heads, t, s] of one batch: scaled, capped, masked."""
    b, h, hkv, t, s, d, causal, dtype, back, right, cap, kind = numbers
    kind %= 10
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
    if back >= 0:
        seen = seen & (key >= place - back)
    return x.masked_fill(~seen, -math.inf)


def form_reference(inputs, numbers, places, wide=torch.float64):
    """[len(places), t, d] for (batch, head) places."""
    q, k, v = inputs[:3]
    out = []
    for batch, head in places:
        own = head // (q.shape[1] // k.shape[1])
        x = q[batch, head].to(wide) @ k[batch, own].to(wide).T / math.sqrt(q.shape[3])
        x = form_scores(x[None], inputs, numbers, batch, slice(head, head + 1))[0]
        p = torch.nan_to_num(torch.softmax(x, -1)) * left(numbers, batch, slice(head, head + 1))
        out.append((p[0] if p.dim() == 3 else p) @ v[batch, own].to(wide))
    return torch.stack(out)


def form_peers(inputs, numbers):
    """flex_attention, compiled, for what has a name there; scaled_dot_product_attention with a mask in memory."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    b, h, hkv, t, s, d, causal, dtype, back, right, cap, kind = numbers
    peers = {}
    if kind == 10:  # the only backend that drops weights; a key of its own
        from torch.nn.attention import SDPBackend, sdpa_kernel
        def flash():
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                return F.scaled_dot_product_attention(*inputs[:3], is_causal=bool(causal), dropout_p=RATE)
        peers["sdpa flash"] = flash
    if kind in (0, 3, 4):
        def score(x, n, head, i, j):
            if cap:
                x = cap * torch.tanh(x / cap)
            return x + inputs[3][head] * (j - i) if kind == 3 else x
        def seen(n, head, i, j):
            ok = (j <= i + s - t) if causal else (j >= 0)
            if back >= 0:
                ok = ok & (j >= i + s - t - back)
            return ok & (inputs[3][n, i] == inputs[4][n, j]) if kind == 4 else ok
        masked = causal or back >= 0 or kind == 4
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


def test_backward_form(numbers, choice=0):
    """Against PyTorch's autograd in f64. Choices as of attention_backward.py where nothing but weights is dropped."""
    b, h, hkv, t, s, d = numbers[:6]
    inputs, out = form_tensors(*numbers)
    wide = [x.double().requires_grad_() for x in inputs[:3]]
    scores = numbers[11] >= 20  # of a mask added to all batches: the gradients of scores, summed over these
    seen_by = list(inputs)
    if scores:
        wide.append(inputs[3].double().requires_grad_())
        seen_by[3] = wide[3]
    g = torch.randn(b, h, t, d, device="cuda").to(out.dtype)
    o, lse = torch.empty_like(out), torch.empty(b, h, t, device="cuda")
    total = 0
    for n in range(b):
        for head in range(h):
            own = head // (h // hkv)
            x = form_scores((wide[0][n, head] @ wide[1][n, own].T / math.sqrt(d))[None], seen_by, numbers, n, slice(head, head + 1))[0]
            seen = ~torch.isinf(x).all(-1, keepdim=True)
            p = torch.where(seen, torch.softmax(torch.where(seen, x, torch.zeros_like(x)), -1), torch.zeros_like(x))
            y = p * left(numbers, n, slice(head, head + 1)) @ wide[2][n, own]
            lse[n, head] = x.detach().logsumexp(-1)
            o[n, head] = y.detach().to(o.dtype)
            total = total + (y * g[n, head].double()).sum()
    want = torch.autograd.grad(total, wide)
    kernel = Kernel("attention_backward_form", numbers, choice)
    outs = [torch.full_like(x, float("nan")) for x in inputs[:3]]
    if scores:
        outs.append(torch.full((b, h, t, s), float("nan"), device="cuda"))
    given, runs = inputs[:3] + [o, lse, g] + inputs[3:], []
    for _ in range(2):
        for x in outs:
            x.fill_(float("nan"))
        kernel(given, outs)
        torch.cuda.synchronize()
        runs.append([x.clone() for x in outs])
    same = all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(*runs))
    if not same and choice not in (1, 3):  # sums of dQ in any order
        failures.append(f"attention_backward form {numbers} choice {choice}: two runs differ")
    shown = outs[:3] + [outs[3].double().sum(0, keepdim=True)] if scores else outs
    errors = [verdict(f"attention_backward form {numbers} {name}", x, y, 1e-2) for name, x, y in zip(("dq", "dk", "dv", "dmask"), shown, want)]
    print(f"  attention_backward form {numbers} choice {choice}: errors {', '.join(f'{x:.1e}' for x in errors)}, bits {'equal' if same else 'DIFFER'} [{kernel.text}]", flush=True)
    kernel.release()


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
    record("attention-dropout" if numbers[-1] == 10 and not plain else "attention-forms", label, lambda x: 4.0 * b * h * t * pairs * d / x * 1e-12, times, kernel.text,
           {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
    kernel.release()


def time_backward_form(numbers):
    """With dropout: both orders of sums beside the one backend that drops weights."""
    b, h, hkv, t, s, d, causal = numbers[:7]
    inputs, out = form_tensors(*numbers)
    label = f"backward {b}x{h}x{s}x{d} {'causal' if causal else 'full'} mask {numbers[11]}"
    print(f"  {label} ...", flush=True)
    g, lse = torch.randn_like(out), torch.zeros(b, h, t, device="cuda")
    given, outs = inputs[:3] + [out, lse, g] + inputs[3:], [torch.empty_like(x) for x in inputs[:3]]
    form, plain = ({f"weft{name}": Kernel(case, numbers[:count], choice) for name, choice in ((" fixed order", 0), (" any order", 1))}
                   for case, count in (("attention_backward_form", 12), ("attention_backward", 8)))
    q, k, v = (x.detach().requires_grad_() for x in inputs[:3])
    runs = {name: (lambda kernel=kernel: kernel(given, outs)) for name, kernel in form.items()}
    runs |= {name + " without": (lambda kernel=kernel: kernel(given[:6], outs)) for name, kernel in plain.items()}
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), dropout_p=RATE)
        torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
        runs["sdpa flash"] = lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True)
    except Exception as problem:
        print(f"  sdpa flash: {str(problem)[:80]}")
    times = rounds(runs, 9, 2)
    print(f"  {label}: " + ", ".join(f"{name} {seconds * 1e6:.1f} us" for name, seconds in times.items()), flush=True)
    for name in form:
        record("attention-dropout", f"{label}{name[4:]}", lambda x: 10.0 * b * h * t * s * d * (0.5 if causal else 1) / x * 1e-12,
               {("weft" if x == name else x): t for x, t in times.items() if x == name or not x.startswith("weft")}, form[name].text,
               {"unit": "TFLOP/s", "compile_s": form[name].compile_seconds})
    for kernel in (*form.values(), *plain.values()):
        kernel.release()


def time_scores(numbers):
    """With the gradient of a learned bias that all batches share: its sum over them is PyTorch's in either column."""
    b, h, hkv, t, s, d, causal = numbers[:7]
    inputs, out = form_tensors(*numbers)
    label = f"backward {b}x{h}x{s}x{d} bias"
    print(f"  {label} ...", flush=True)
    g, lse, scores = torch.randn_like(out), torch.zeros(b, h, t, device="cuda"), torch.empty(b, h, t, s, device="cuda")
    given, outs = inputs[:3] + [out, lse, g] + inputs[3:], [torch.empty_like(x) for x in inputs[:3]] + [scores]
    kernel = Kernel("attention_backward_form", numbers)
    leaves = [x.detach().requires_grad_() for x in inputs]

    def weft():
        kernel(given, outs)
        return scores.sum(0, keepdim=True)

    runs = {"weft": weft}
    try:
        y = F.scaled_dot_product_attention(*leaves[:3], attn_mask=leaves[3].expand(b, h, t, s))
        torch.autograd.grad(y, leaves, g, retain_graph=True)
        runs["sdpa"] = lambda: torch.autograd.grad(y, leaves, g, retain_graph=True)
    except Exception as problem:
        print(f"  sdpa: {str(problem)[:80]}")
    record("attention-bias", label, lambda x: 10.0 * b * h * t * s * d / x * 1e-12, rounds(runs, 9, 2), kernel.text,
           {"unit": "TFLOP/s", "compile_s": kernel.compile_seconds})
    kernel.release()


BIAS_TESTS = [(2, 4, 2, 255, 257, 64, 0, 0, -1, -1, 0, 21), (3, 2, 2, 200, 300, 128, 1, 1, -1, -1, 0, 21), (2, 2, 2, 300, 129, 96, 1, 0, -1, -1, 0, 31)]
BIAS = [(64, 12, 12, 197, 197, 64, 0, 0, -1, -1, 0, 21), (8, 16, 16, 512, 512, 64, 0, 0, -1, -1, 0, 21)]


def part_attention_bias():
    """Gradients of a learned bias: against autograd in f64, then timed."""
    torch.manual_seed(8)
    test_forms([], BIAS_TESTS)
    for numbers in BIAS:
        time_scores(numbers)


def part_attention_dropout():
    """Weights dropped by a counter: against the same draws in PyTorch, then timed beside the kernels without and the one backend that drops."""
    torch.manual_seed(6)
    test_forms(DROPOUT_TESTS, DROPOUT_TESTS)
    for choice in (1, 2, 4):
        test_backward_form(DROPOUT_TESTS[0], choice)
    test_backward_form(DROPOUT_TESTS[1], 1)
    for numbers in DROPOUT:
        time_form(numbers, lambda inputs: form_peers(inputs, numbers))
        time_backward_form(numbers)


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
    for numbers in WINDOWS:
        time_form(numbers, lambda inputs: form_peers(inputs, numbers))


def part_attention_caps():
    """A soft cap, whose flex_attention takes long to compile, and a mask in memory."""
    for numbers in FORMS[2:]:
        time_form(numbers, lambda inputs: form_peers(inputs, numbers))
