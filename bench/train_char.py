"""A training step of examples/train_char.c beside the same step in PyTorch: ms of processor time per step, one thread each.

usage: train_char.py BUILD_FOLDER [--rounds N] [--steps N]    (a Python with torch: tests/golden/requirements.txt)

In turn, in processes of their own. Weft: the difference of the user times of STEPS + 1 steps and of one, over STEPS. PyTorch:
the median of the thread's time over the steps, start and data left out. Processor time, because other work on the machine
lengthens it least.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests/data/tinyshakespeare.txt"


LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 4, 4, 128, 64, 12


def torch_model(vocabulary):
    """The model of stdlib/models/gpt.c with its initial values, and its optimizer."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
            self.attn, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
            self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

        def forward(self, x):
            parts = [p.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for p in self.attn(self.ln_1(x)).split(WIDTH, 2)]
            mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.out(F.gelu(self.fc(self.ln_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH, bias=False)

        def forward(self, x):
            x = self.wte(x) + self.wpe.weight
            for block in self.blocks:
                x = block(x)
            return self.ln_f(x) @ self.wte.weight.T

    model = Gpt()
    for name, p in model.named_parameters():
        if p.dim() > 1:
            onto_stream = name.endswith(("proj.weight", "out.weight"))
            nn.init.normal_(p, 0, 0.02 / (2 * LAYERS) ** 0.5 if onto_stream else 0.02)
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return model, torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))


def torch_steps(steps):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    torch.set_num_threads(1)
    torch.manual_seed(1)
    context, batch = CONTEXT, BATCH
    text = TEXT.read_text()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    tokens = torch.tensor([number[c] for c in text[:len(text) * 9 // 10]])
    model, optimizer = torch_model(len(number))
    times = []
    for _ in range(steps + 5):  # the first ones warm up
        starts = torch.randint(len(tokens) - context, (batch,))
        x = torch.stack([tokens[i:i + context] for i in starts])
        y = torch.stack([tokens[i + 1:i + 1 + context] for i in starts])
        start = time.thread_time()
        loss = F.cross_entropy(model(x).view(-1, len(number)), y.view(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.thread_time() - start)
    print(statistics.median(times[5:]) * 1e3)


def weft_steps(build, steps):
    """User seconds of a run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([f"{build}/examples/train_char", str(TEXT), "--batches", "1", "--steps", str(steps)], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "WEFT_THREADS": "1"})
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    o = options.parse_args()
    if o.torch:
        torch_steps(o.steps)
        return
    figures = {"weft": [], "torch": []}
    for steps in (1, o.steps + 1):  # fills the cache of kernels: schedules know the number of steps
        weft_steps(o.build, steps)
    for _ in range(o.rounds):
        few, many = weft_steps(o.build, 1), weft_steps(o.build, o.steps + 1)
        figures["weft"].append((many - few) / o.steps * 1e3)
        done = subprocess.run([sys.executable, __file__, o.build, "--torch", "--steps", str(o.steps)], check=True,
                              capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        figures["torch"].append(float(done.stdout))
    for name, values in figures.items():
        print(f"{name}: {statistics.median(values):.1f} ms per step (of {o.rounds}: {min(values):.1f} .. {max(values):.1f})")
    print(f"ratio: {statistics.median(figures['weft']) / statistics.median(figures['torch']):.2f}")


if __name__ == "__main__":
    main()
