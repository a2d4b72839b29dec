"""What examples/train_images.toml learns beside the same vision transformer in PyTorch: losses and accuracy over steps.

usage: train_images.py BUILD_FOLDER [--data FOLDER] [--seeds N] [--steps N] [--only weft|torch] [--out FOLDER]

Fashion-MNIST, the 10,000 test images held back, 9,984 of them evaluated every 250 steps. The same architecture, initial values
(normal 0.02, biases 0, norms 1 and 0), shuffled epochs of batches, AdamW, clipping, schedule; the numbers drawn are others. One
thread each. FOLDER (bench/results) gets train-images-cpu-SIDE-SEED.csv: step, loss, accuracy, validation, validation_accuracy.
--data: the IDX files of Debian's dataset-fashion-mnist, gzipped or not.
"""
import argparse
import csv
import gzip
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONFIG = ROOT / "examples/train_images.toml"
LAYERS, HEADS, WIDTH, PATCH, SIDE, CLASSES = 4, 4, 64, 7, 28, 10
BATCH, EVERY, BATCHES, WARMUP, RATE, FINAL, DECAY, MEAN, DEVIATION = 64, 250, 156, 200, 1e-3, 1e-5, 0.05, 0.286, 0.353
COLUMNS = ["step", "loss", "accuracy", "validation", "validation_accuracy"]
FILES = [f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]


def contents(data, name):
    path = pathlib.Path(data) / name
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(name + ".gz").read_bytes())


def torch_model():
    """The model of stdlib/models/vit.c with its initial values."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH, 1e-6), nn.LayerNorm(WIDTH, 1e-6)
            self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(1, WIDTH, PATCH, PATCH)
            self.token = nn.Parameter(torch.empty(1, 1, WIDTH))
            self.positions = nn.Parameter(torch.empty(1, (SIDE // PATCH) ** 2 + 1, WIDTH))
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH, 1e-6), nn.Linear(WIDTH, CLASSES)

        def forward(self, images):
            x = self.embed(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x[:, 0]))

    model = Vit()
    for name, p in model.named_parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0, 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)
    return model


def torch_run(data, seed, steps, out):
    import numpy as np
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    parts = [contents(data, name) for name in FILES]
    images = [((torch.tensor(np.frombuffer(p, np.uint8, offset=16)).reshape(-1, 1, SIDE, SIDE)) / 255 - MEAN) / DEVIATION for p in parts[::2]]
    labels = [torch.tensor(np.frombuffer(p, np.uint8, offset=8).astype(np.int64)) for p in parts[1::2]]
    model = torch_model()
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999))
    per_epoch = len(images[0]) // BATCH

    @torch.no_grad()
    def evaluate():
        loss = right = 0.0
        for i in range(BATCHES):
            x, y = (t[1][i * BATCH:(i + 1) * BATCH] for t in (images, labels))
            logits = model(x)
            loss, right = loss + F.cross_entropy(logits, y).item(), right + (logits.argmax(1) == y).float().mean().item()
        return loss / BATCHES, right / BATCHES

    with open(out, "w", newline="") as f:
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow(COLUMNS)
        for step in range(1, steps + 1):
            if (step - 1) % per_epoch == 0:
                order = torch.randperm(len(images[0]))
            share = (step - 1 - WARMUP) / (steps - WARMUP)
            rate = RATE * (step - 1) / WARMUP if step <= WARMUP else FINAL + (RATE - FINAL) * (1 + math.cos(math.pi * share)) / 2
            for group in optimizer.param_groups:
                group["lr"] = rate
            chosen = order[(step - 1) % per_epoch * BATCH:][:BATCH]
            logits, y = model(images[0][chosen]), labels[0][chosen]
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 10 == 0 or step == steps:
                right = (logits.argmax(1) == y).float().mean().item()
                held = [f"{v:.6g}" for v in evaluate()] if step % EVERY == 0 or step == steps else ["", ""]
                rows.writerow([step, f"{loss.item():.6g}", f"{right:.6g}", *held])
                f.flush()


def weft_run(build, data, seed, steps, out):
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            (pathlib.Path(folder) / name).write_bytes(contents(data, name))
        text = CONFIG.read_text().replace("runs/fashion-mnist", folder).replace("runs/train_images", f"{folder}/run")
        text = text.replace("steps = 3000", f"steps = {steps}\nseed = {seed}")
        config = pathlib.Path(folder) / "c.toml"
        config.write_text(text)
        subprocess.run([f"{build}/cli/weft", "train", str(config)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "WEFT_THREADS": "1"})
        with open(f"{folder}/run/metrics.csv") as f, open(out, "w", newline="") as g:
            rows = csv.writer(g, lineterminator="\n")
            rows.writerow(COLUMNS)
            rows.writerows([row["step"], *(row[c] and f"{float(row[c]):.6g}" for c in COLUMNS[1:])] for row in csv.DictReader(f))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    options.add_argument("--seeds", type=int, default=2)
    options.add_argument("--steps", type=int, default=3000)
    options.add_argument("--only", choices=["weft", "torch"])
    options.add_argument("--out", default=str(ROOT / "bench/results"))
    options.add_argument("--torch", nargs=2, help=argparse.SUPPRESS)
    o = options.parse_args()
    if o.torch:
        torch_run(o.data, int(o.torch[0]), o.steps, o.torch[1])
        return
    last = {}
    for seed in range(1, o.seeds + 1):
        for side in ("weft", "torch"):
            if o.only not in (None, side):
                continue
            out = f"{o.out}/train-images-cpu-{side}-{seed}.csv"
            if side == "weft":
                weft_run(o.build, o.data, seed, o.steps, out)
            else:
                subprocess.run([sys.executable, __file__, o.build, "--data", o.data, "--steps", str(o.steps), "--torch", str(seed), out],
                               check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            row = list(csv.DictReader(open(out)))[-1]
            last.setdefault(side, []).append((float(row["validation"]), float(row["validation_accuracy"])))
            print(f"{side} seed {seed}: validation loss {last[side][-1][0]:.4f}, {100 * last[side][-1][1]:.2f} % right", flush=True)
    for side, values in last.items():
        print(f"{side}: {100 * statistics.mean(v[1] for v in values):.2f} % right, loss {statistics.mean(v[0] for v in values):.4f} (mean of {len(values)} seeds)")


main()
