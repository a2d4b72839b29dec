"""A training step of examples/burgers.c against PyTorch on the same CPU and threads: the same network, points, loss and
Adam, derivatives by nested autograd (create_graph), by nested forward mode (torch.func.jvp), each also under torch.compile
where that takes it. Rounds alternate between the two programs, so that what else the machine does hits both; the ratio
is of medians. On a machine that does other things take --threads 1 and look at processor time.

    python bench/burgers.py build/release/examples/burgers [--points 1024] [--rounds 5] [--threads 2]
"""
import argparse
import math
import os
import re
import statistics
import subprocess
import time

import torch

LAYERS, WIDTH, NU = 4, 64, 0.01 / math.pi


def make_network():
    torch.manual_seed(0)
    sizes = [2] + [WIDTH] * LAYERS + [1]
    weights = []
    for i, o in zip(sizes, sizes[1:]):
        weights += [torch.randn(o, i) * math.sqrt(2 / (i + o)), torch.zeros(o)]
    return [w.requires_grad_() for w in weights]


def network(weights, x, t):
    h = torch.cat([x, t], 1)
    for i in range(0, len(weights), 2):
        h = torch.nn.functional.linear(h, weights[i], weights[i + 1])
        if i + 2 < len(weights):
            h = torch.tanh(h)
    return h


def border_loss(weights, bx, bt, bu):
    return ((network(weights, bx, bt) - bu) ** 2).mean()


def autograd_loss(weights, x, t, bx, bt, bu):
    u = network(weights, x, t)
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return ((u_t + u * u_x - NU * u_xx) ** 2).mean() + border_loss(weights, bx, bt, bu)


def forward_loss(weights, x, t, bx, bt, bu):
    one = torch.ones_like(x)
    in_x = lambda x: torch.func.jvp(lambda x: network(weights, x, t), (x,), (one,))
    (u, u_x), (_, u_xx) = torch.func.jvp(in_x, (x,), (one,))
    _, u_t = torch.func.jvp(lambda t: network(weights, x, t), (t,), (one,))
    return ((u_t + u * u_x - NU * u_xx) ** 2).mean() + border_loss(weights, bx, bt, bu)


def points(count):
    sequence = lambda n, step, low, high: (low + (high - low) * torch.remainder(
        torch.arange(1, n + 1, dtype=torch.float64) * step, 1)).float()[:, None]
    n = count // 4
    x, t = sequence(count, 0.7548776662466927, -1, 1), sequence(count, 0.5698402909980532, 0, 1)
    bx, bt = sequence(n, 0.7548776662466927, -1, 1), sequence(n, 0.5698402909980532, 0, 1)
    bt[1::2] = 0
    bx[0::4], bx[2::4] = 1, -1
    bu = torch.zeros(n, 1)
    bu[1::2] = -torch.sin(math.pi * bx[1::2])
    return x.requires_grad_(), t.requires_grad_(), bx, bt, bu


class Variant:
    def __init__(self, name, loss, count, compiled):
        self.name, self.times, self.processor = name, [], []
        self.weights, self.data = make_network(), points(count)
        self.optimizer = torch.optim.Adam(self.weights, 1e-3)
        self.loss = torch.compile(loss) if compiled else loss

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.weights, *self.data)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def run(self, steps):
        self.step()
        start, processor = time.perf_counter(), time.process_time()
        for _ in range(steps):
            last = self.step()
        self.times.append(1e3 * (time.perf_counter() - start) / steps)
        self.processor.append(1e3 * (time.process_time() - processor) / steps)
        return last


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("burgers")
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="also the variants under torch.compile")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    variants = []
    for name, loss in [("autograd", autograd_loss), ("forward mode", forward_loss)]:
        for compiled in [False, True] if a.compile else [False]:
            v = Variant(name + (" compiled" if compiled else ""), loss, a.points, compiled)
            try:
                v.run(2)
            except Exception as error:
                print(f"torch {v.name}: {str(error).splitlines()[0][:100]}")
                continue
            v.times.clear(), v.processor.clear()
            variants.append(v)
    mine, mine_processor = [], []
    for _ in range(a.rounds):
        text = subprocess.run([a.burgers, "--steps", str(a.steps), "--points", str(a.points)], capture_output=True,
                              text=True, env=dict(os.environ, WEFT_THREADS=str(a.threads))).stdout
        wall, processor = re.search(r"([0-9.]+) ms a step, ([0-9.]+) ms", text).groups()
        mine.append(float(wall)), mine_processor.append(float(processor))
        for v in variants:
            v.run(a.steps)
    show = lambda name, times, processor: print(
        f"{name:24} {statistics.median(times):8.3f} ms  [{min(times):.3f}, {max(times):.3f}]   "
        f"processor {statistics.median(processor):8.3f} ms  [{min(processor):.3f}, {max(processor):.3f}]")
    show("weft", mine, mine_processor)
    for v in variants:
        show("torch " + v.name, v.times, v.processor)
    best = min(variants, key=lambda v: statistics.median(v.processor))
    print(f"ratio to torch {best.name}: {statistics.median(best.times) / statistics.median(mine):.2f}, "
          f"of processor time {statistics.median(best.processor) / statistics.median(mine_processor):.2f}")


main()
