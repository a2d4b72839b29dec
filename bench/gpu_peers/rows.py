"""Rows (softmax, norms, cross-entropy) and flat arrays: what a card's memory allows is the measure."""
import torch
import torch.nn.functional as F
from library import DTYPES
from measure import copy_rate, time_bandwidth

ROWS = {
    "softmax": (lambda x: F.softmax(x[0].float(), -1), lambda x: F.softmax(x[0], -1)),
    "layer_norm": (lambda x: F.layer_norm(x[0].float(), x[0].shape[1:], x[1].float(), x[2].float(), 1e-5),
                   lambda x: F.layer_norm(x[0], x[0].shape[1:], x[1], x[2], 1e-5)),
    "rms_norm": (lambda x: F.rms_norm(x[0].float(), x[0].shape[1:], x[1].float(), 1e-5), lambda x: F.rms_norm(x[0], x[0].shape[1:], x[1], 1e-5)),
    "cross_entropy": (lambda x: F.cross_entropy(x[0].float(), x[1], reduction="none"), lambda x: F.cross_entropy(x[0].float(), x[1], reduction="none")),
}
FLAT = {"pointwise": lambda x: (x[0] * x[1] + x[2]) * torch.sigmoid(x[0]), "sum": lambda x: x[0].sum(), "copy": lambda x: -x[0]}


def row_tensors(name, rows, columns, dtype):
    t = DTYPES[dtype]
    x = [torch.randn(rows, columns, device="cuda").to(t)]
    if name == "cross_entropy":
        return x + [torch.randint(columns, (rows,), device="cuda")], torch.full((rows,), float("nan"), device="cuda")
    for _ in range({"softmax": 0, "rms_norm": 1, "layer_norm": 2}[name]):
        x.append(torch.randn(columns, device="cuda").to(t))
    return x, torch.full((rows, columns), float("nan"), device="cuda", dtype=t)


def row_numbers(name, rows, columns, dtype):
    return (rows, columns) if name == "cross_entropy" else (rows, columns, dtype)


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


def flat_tensors(name, count):
    inputs = [torch.randn(count, device="cuda") for _ in range(3 if name == "pointwise" else 1)]
    return inputs, torch.full((1,) if name == "sum" else (count,), float("nan"), device="cuda")


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
