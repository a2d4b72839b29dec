"""What examples/train_char.toml learns beside the same model in PyTorch: validation losses over seeds, under nanoGPT's protocol.

usage: train_char_quality.py BUILD_FOLDER [--seeds N] [--steps N] [--only weft|torch] [--optimizer NAME] [--rate R] [--curves FOLDER]

The recipe is nanoGPT's for characters on CPUs (its README): 4 layers, 4 heads, 128 wide, context 64, batch 12, 2000 steps of
AdamW with betas 0.9 and 0.99, decay 0.1 of matrices, rate 1e-3 to 1e-4 after 100 steps of warm-up, clipping at 1, no
dropout, no biases, initial values normal 0.02 (projections onto the residual stream divided by sqrt(2 layers)). Its figure is
the least of the evaluations every 250 steps, each the mean over 20 random batches of the last tenth of the text. `all` is the loss
over the whole last tenth after the last step, which has no luck of the draw in it. One thread each, one run at a time.
--optimizer and --rate change Weft's side. --curves: FOLDER gets train-char-cpu-SIDE-SEED.csv, losses every 10 steps and the evaluations.
"""
import argparse
import csv
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests/data/tinyshakespeare.txt"
CONTEXT, BATCH, EVERY, BATCHES, ALL = 64, 12, 250, 20, 145


def write_curve(path, rows):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["step", "loss", "validation"])
        out.writerows([step, f"{loss:.4f}", "" if held is None else f"{held:.4f}"] for step, loss, held in rows)


def torch_run(seed, steps, curve):
    """Prints: best, step of it, all."""
    import torch
    import torch.nn.functional as F
    from train_char import torch_model
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    text = TEXT.read_text()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    tokens = torch.tensor([number[c] for c in text])
    split = int(len(tokens) * 0.9)
    parts = tokens[:split], tokens[split:]
    model, optimizer = torch_model(len(number))

    def batch(part, starts):
        x = torch.stack([part[i:i + CONTEXT] for i in starts])
        return x, torch.stack([part[i + 1:i + 1 + CONTEXT] for i in starts])

    def loss_of(part, starts):
        x, y = batch(part, starts)
        return F.cross_entropy(model(x).view(-1, len(number)), y.view(-1))

    @torch.no_grad()
    def evaluate():
        part = parts[1]
        losses = [loss_of(part, torch.randint(len(part) - CONTEXT, (BATCH,))).item() for _ in range(BATCHES)]
        return statistics.mean(losses)

    best, rows = (math.inf, 0), []
    for step in range(steps):
        if step % EVERY == 0:
            held = evaluate()
            best = min(best, (held, step))
            if rows:
                rows[-1] = (*rows[-1][:2], held)
        share = (step - 100) / (steps - 100)
        rate = 1e-3 * step / 100 if step < 100 else 1e-4 + 9e-4 * (1 + math.cos(math.pi * share)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(parts[0], torch.randint(len(parts[0]) - CONTEXT, (BATCH,)))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 10 == 0:
            rows.append((step + 1, loss.item(), None))
    held = evaluate()
    best = min(best, (held, steps))
    if curve:
        write_curve(curve, rows[:-1] + [(*rows[-1][:2], held)])
    with torch.no_grad():
        part = parts[1]
        pieces = [min(i * CONTEXT, len(part) - CONTEXT - 1) for i in range(ALL * BATCH)]
        every = [loss_of(part, pieces[i:i + BATCH]).item() for i in range(0, len(pieces), BATCH)]
    print(best[0], best[1], statistics.mean(every))


def weft_run(build, seed, steps, optimizer, rate, curve):
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "c.toml"

        def train(evaluation, batches, every, steps):
            config.write_text(f'''[data]\ntext = "{TEXT}"\n[optimizer]\nname = "{optimizer}"\nbeta2 = 0.99\n[schedule]\nbase = {rate}\nfinal = {rate / 10}\n[train]\nsteps = {steps}\nseed = {seed}
folder = "{folder}/run"\nevaluate_every = {every}\nevaluation = "{evaluation}"\nevaluation_batches = {batches}\n''')
            subprocess.run([f"{build}/cli/weft", "train", str(config)], check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env={**os.environ, "WEFT_THREADS": "1"})
            rows = list(csv.DictReader(open(f"{folder}/run/metrics.csv")))
            if curve and evaluation == "random":
                write_curve(curve, [(int(r["step"]), float(r["loss"]), float(r["validation"]) if r["validation"] else None) for r in rows])
            return [(float(r["validation"]), int(r["step"])) for r in rows if r["validation"]]

        best = min(train("random", BATCHES, EVERY, steps))
        # a resumed run of one more step, at the least rate, which changes the loss by less than 1e-3
        every = train("in order", ALL, 0, steps + 1)[-1][0]
    return best[0], best[1], every


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--only", choices=["weft", "torch"])
    options.add_argument("--optimizer", default="adamw")
    options.add_argument("--rate", type=float, default=1e-3)
    options.add_argument("--curves")
    options.add_argument("--torch", type=int, help=argparse.SUPPRESS)
    o = options.parse_args()
    if o.torch is not None:
        torch_run(o.torch, o.steps, o.curves)
        return
    figures = {}
    for seed in range(1, o.seeds + 1):
        for side in ("weft", "torch"):
            if o.only not in (None, side):
                continue
            curve = f"{o.curves}/train-char-cpu-{side}-{seed}.csv" if o.curves else None
            if side == "weft":
                values = weft_run(o.build, seed, o.steps, o.optimizer, o.rate, curve)
            else:
                done = subprocess.run([sys.executable, __file__, o.build, "--torch", str(seed), "--steps", str(o.steps), *(["--curves", curve] if curve else [])],
                                      check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
                values = tuple(map(float, done.stdout.split()))
            figures.setdefault(side, []).append(values)
            print(f"{side} seed {seed}: best {values[0]:.4f} after step {int(values[1])}, all {values[2]:.4f}", flush=True)
    for side, values in figures.items():
        print(f"{side}: best {statistics.mean(v[0] for v in values):.4f}, all {statistics.mean(v[2] for v in values):.4f} "
              f"(mean of {len(values)} seeds)")


main()
