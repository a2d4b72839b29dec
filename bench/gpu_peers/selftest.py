"""The self-test: every kind of kernel at small and odd sizes, each schedule, twice for equal bits."""
import torch
import torch.nn.functional as F
from attention import attention_reference, attention_tensors
from library import DTYPES
from measure import check
from products import matmul_reference, matmul_tensors
from rows import FLAT, ROWS, flat_tensors, row_numbers, row_tensors

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
