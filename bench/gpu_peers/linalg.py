"""Batches of symmetric matrices: eigenvalues and eigenvectors, one block a matrix, in f64 inside (K-FAC, SOAP, Shampoo)."""
import torch
from library import Kernel
from measure import failures, record, rounds, verdict


def part_linalg():
    """weft_eigh of f32 matrices beside torch.linalg.eigh: A V = V diag(w) and V' V = 1 first, then time."""
    for batch, n in ((64, 32), (16, 128), (4, 512)):
        torch.manual_seed(n)
        x = torch.randn(batch, n, n, device="cuda")
        a = x @ x.transpose(1, 2) / n + 0.1 * torch.eye(n, device="cuda")
        values, vectors = torch.full((batch, n), float("nan"), device="cuda"), torch.full((batch, n, n), float("nan"), device="cuda")
        kernel = Kernel("eigh", (batch, n))
        kernel([a], [values, vectors])
        torch.cuda.synchronize()
        first = vectors.clone()
        kernel([a], [values, vectors])
        torch.cuda.synchronize()
        label, v = f"eigh {batch}x({n}x{n})", vectors.double()
        if not torch.equal(first, vectors):
            failures.append(f"{label}: two runs differ")
        verdict(f"{label} values", values, torch.linalg.eigh(a.double())[0], 1e-6)
        verdict(f"{label} A V", a.double() @ v, v * values.double()[:, None, :], 1e-6)
        verdict(f"{label} V' V", v.transpose(1, 2) @ v, torch.eye(n, device="cuda", dtype=torch.float64).expand(batch, n, n), 1e-6)
        times = rounds({"weft": lambda: kernel([a], [values, vectors]), "torch f32": lambda: torch.linalg.eigh(a)}, count=5, warm=1)
        record("linalg", label, lambda t: batch / t, times, kernel.text, {"unit": "matrices/s", "compile_s": kernel.compile_seconds})
        kernel.release()
