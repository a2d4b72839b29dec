"""batch_invariant (include/weft/compile.h): a row has the same bits in every batch, and what that costs: the ratios are
default over invariant, and belong to no comparison with PyTorch."""
import torch
from attention import DECODE, attention_tensors
from library import Kernel
from measure import failures, record, rounds
from products import matmul_tensors

# n k of products, each with these rows; decoding: heads, key heads, keys, head dim
PRODUCTS, ROWS = ((14336, 4096), (4096, 14336), (4096, 4096)), (1, 16, 128, 1000, 8192)
BATCHES = (1, 7, 64, 1000)


def same_bits(label, name, numbers_of, tensors_of, out_of, part_of, whole):
    """Each batch by a kernel of its own, against the same rows of the whole."""
    inputs = tensors_of(whole)
    kernel, want = Kernel(name, numbers_of(whole), 0, True), out_of(whole)
    kernel(inputs, [want])
    for batch in BATCHES:
        if batch > whole:
            continue
        first, out = (whole - batch) // 3, out_of(batch)
        own = Kernel(name, numbers_of(batch), 0, True)
        own(part_of(inputs, first, batch), [out])
        torch.cuda.synchronize()
        equal = torch.equal(out.view(torch.uint8), want[first:first + batch].contiguous().view(torch.uint8))
        print(f"  {label}: {batch} of {whole}: bits {'equal' if equal else 'DIFFER'} [{own.text}]", flush=True)
        if not equal:
            failures.append(f"{label}: {batch} rows of {whole} have other bits than in the whole batch")
        own.release()
    kernel.release()


def time_both(label, name, numbers, inputs, out, unit_of):
    kernels = {"weft invariant": Kernel(name, numbers, 0, True), "default": Kernel(name, numbers)}
    times = rounds({key: (lambda kernel=kernel: kernel(inputs, [out])) for key, kernel in kernels.items()}, 25)
    record("invariant", label, unit_of, times, f"{kernels['weft invariant'].text}; default: {kernels['default'].text}")
    for kernel in kernels.values():
        kernel.release()


def part_invariant():
    """Bits of products and decoding in batches of several sizes, then both modes side by side: the ratio is default over invariant."""
    torch.manual_seed(9)
    for n, k, epilogue in ((520, 1032, 0), (4096, 4096, 0), (768, 3072, 1)):
        base, _ = matmul_tensors(1000, n, k, 1, epilogue, 0)
        per_row = [0] if epilogue == 0 else [0, 2, 4]  # operands that have a row of each row
        same_bits(f"product {n}x{k}", "matmul", lambda m: (m, n, k, 1, epilogue, 0), lambda m: base,
                  lambda m: torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16),
                  lambda inputs, first, m: [x[first:first + m].contiguous() if i in per_row else x for i, x in enumerate(inputs)], 1000)
    for h, hkv, s, d in ((32, 8, 4096, 128), (8, 8, 16384, 64)):
        base, _ = attention_tensors(64, h, hkv, 1, s, d, 0, 0)
        same_bits(f"decoding {h}/{hkv}x{s}x{d}", "attention", lambda b: (b, h, hkv, 1, s, d, 0, 0), lambda b: base,
                  lambda b: torch.full((b, h, 1, d), float("nan"), device="cuda", dtype=torch.bfloat16),
                  lambda inputs, first, b: [x[first:first + b].contiguous() for x in inputs], 64)
        del base
    for n, k in PRODUCTS:
        for m in ROWS:
            inputs, out = matmul_tensors(m, n, k, 1, 0, 0)
            time_both(f"{m}x{n}x{k}", "matmul", (m, n, k, 1, 0, 0), inputs, out, lambda t: 2.0 * m * n * k / t * 1e-12)
    for b, h, hkv, s, d in DECODE:
        inputs, out = attention_tensors(b, h, hkv, 1, s, d, 0, 0)
        time_both(f"decoding {b}x{h}/{hkv}x{s}x{d}", "attention", (b, h, hkv, 1, s, d, 0, 0), inputs, out, lambda t: 4.0 * b * hkv * s * d / t * 1e-9)
        del inputs, out
        torch.cuda.empty_cache()
