"""Convolutions as products, and depthwise ones, beside cuDNN."""
import math
import torch
import torch.nn.functional as F
from library import Missing
from measure import best_choice, check, guarded, record, results, rounds, verdict

# n c o size kernel stride pad groups: depthwise and first convolutions of mobile nets, one image
CONVOLUTIONS = [(1, 96, 96, 112, 3, 1, 1, 96), (1, 96, 96, 112, 3, 2, 1, 96), (1, 240, 240, 28, 5, 1, 2, 240), (1, 480, 480, 14, 5, 1, 2, 480), (1, 3, 16, 640, 3, 2, 1, 1),
                (32, 96, 96, 112, 3, 1, 1, 96)]


def convolution_tensors(name, n, c, o, size, kernel, stride, pad, groups):
    t = torch.bfloat16 if name == "convolution_half" else torch.float32
    x, w = torch.randn(n, c, size, size, device="cuda").to(t), (torch.randn(o, c // groups, kernel, kernel, device="cuda") / math.sqrt(c * kernel * kernel)).to(t)
    inputs = [x, w, torch.randn(o, device="cuda").to(t)]
    run = lambda x, w, b: F.relu(F.conv2d(x, w, b, stride, pad, 1, groups))
    want = lambda: run(*(v.float() for v in inputs))
    out_size = (size + 2 * pad - kernel) // stride + 1
    return inputs, torch.full((n, o, out_size, out_size), float("nan"), device="cuda", dtype=t), run, want


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
