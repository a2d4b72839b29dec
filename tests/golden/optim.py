"""20 steps of every optimizer on mean((tanh(x w + b) - y)^2), a new x in every step; the values of every schedule.

Tensors: x [20, 8, 5], y [8, 3], w0, b0; CASE/w [20, 5, 3] and CASE/b [20, 3] after each step; schedule/NAME [50].
The cases have the names of the table in tests/optim/optim.c, which states the same options.
"""
import math

import numpy
import torch

import common

torch.set_default_dtype(torch.float64)
STEPS = 20
X = torch.tensor(common.numbers(1, STEPS, 8, 5))
Y = torch.tensor(common.numbers(2, 8, 3))
W0 = torch.tensor(common.numbers(3, 5, 3) * 0.5)
B0 = torch.tensor(common.numbers(4, 3) * 0.5)
out = {"x": X, "y": Y, "w0": W0, "b0": B0}


def loss_of(w, b, step):
    return ((torch.tanh(X[step] @ w + b) - Y) ** 2).mean()


def run(name, make, before_step=None, after_step=None, read=None):
    """make(parameters) -> optimizer; hooks see (optimizer, parameters, step)."""
    w, b = W0.clone().requires_grad_(), B0.clone().requires_grad_()
    optimizer = make([w, b])
    ws, bs = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(w, b, step).backward()
        if before_step:
            before_step(optimizer, [w, b], step)
        optimizer.step()
        if after_step:
            after_step(optimizer, [w, b], step)
        ws.append(w.detach().clone().numpy())
        bs.append(b.detach().clone().numpy())
    out[f"{name}/w"], out[f"{name}/b"] = numpy.stack(ws), numpy.stack(bs)


def lion(parameters):
    import pytorch_optimizer
    return pytorch_optimizer.Lion(parameters, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)


def group(parameters, **scales):
    """w with decay, b without: what the test writes as decay_scale 0."""
    return [{"params": [parameters[0]]}, {"params": [parameters[1]], "weight_decay": 0.0}]


def lambda_rate(values):
    def hook(optimizer, _, step):
        for g in optimizer.param_groups:
            g["lr"] = values[step]
    return hook


run("sgd", lambda p: torch.optim.SGD(p, lr=0.1))
run("sgd_momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01))
run("sgd_nesterov", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01))
run("adam", lambda p: torch.optim.Adam(p, lr=0.02, weight_decay=0.01))
run("adam_amsgrad", lambda p: torch.optim.Adam(p, lr=0.02, amsgrad=True, betas=(0.9, 0.7)))
run("adamw", lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1))
run("adamw_groups", lambda p: torch.optim.AdamW(group(p), lr=0.02, betas=(0.9, 0.95), weight_decay=0.1))
run("lion", lion)
run("clip", lambda p: torch.optim.SGD(p, lr=0.3), before_step=lambda o, p, s: torch.nn.utils.clip_grad_norm_(p, 0.2))
run("clip_value", lambda p: torch.optim.SGD(p, lr=0.3),
    before_step=lambda o, p, s: torch.nn.utils.clip_grad_value_(p, 0.05))


# -- averages of parameters: momentum 0.9, plain (starts as a copy) and corrected (starts at zero)
def averages():
    w, b = torch.tensor(out["adamw/w"]), torch.tensor(out["adamw/b"])
    for key, values, start in (("w", w, W0), ("b", b, B0)):
        plain, corrected, kept = start.clone(), torch.zeros_like(start), []
        kept_corrected = []
        for step in range(STEPS):
            plain = 0.9 * plain + 0.1 * values[step]
            corrected = 0.9 * corrected + 0.1 * values[step]
            kept.append(plain.numpy().copy())
            kept_corrected.append((corrected / (1 - 0.9 ** (step + 1))).numpy())
        out[f"ema/{key}"], out[f"ema_corrected/{key}"] = numpy.stack(kept), numpy.stack(kept_corrected)


averages()


# -- schedules, t = 0 .. 49
def torch_schedule(make, base=0.1):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=base)
    scheduler = make(optimizer)
    values = []
    for _ in range(50):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return numpy.array(values)


def schedules():
    S = torch.optim.lr_scheduler
    out["schedule/linear"] = torch_schedule(lambda o: S.LinearLR(o, 1.0, 0.1, total_iters=40))
    out["schedule/cosine"] = numpy.concatenate([
        torch_schedule(lambda o: S.CosineAnnealingLR(o, 40, eta_min=0.01))[:41], numpy.full(9, 0.01)])
    warm = torch_schedule(lambda o: S.SequentialLR(
        o, [S.LinearLR(o, 0.1, 1.0, total_iters=10), S.CosineAnnealingLR(o, 30, eta_min=0.01)], milestones=[10]))
    out["schedule/warmup_cosine"] = numpy.concatenate([warm[:41], numpy.full(9, 0.01)])
    out["schedule/polynomial"] = torch_schedule(lambda o: S.PolynomialLR(o, 40, power=2.0))
    out["schedule/exponential"] = torch_schedule(lambda o: S.ExponentialLR(o, 0.9))
    out["schedule/cyclic"] = torch_schedule(lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=7, cycle_momentum=False))
    t = numpy.arange(50)
    out["schedule/inverse_sqrt"] = numpy.where(t < 10, 0.1 * t / 10, 0.1 * numpy.sqrt(10 / numpy.maximum(t, 10)))
    v = numpy.clip((t - 30) / 15, 0, 1)
    for name, shape in (("linear", 1 - v), ("sqrt", 1 - numpy.sqrt(v)), ("square", 1 - v * v),
                        ("cosine", (1 + numpy.cos(math.pi * v)) / 2)):
        wsd = 0.001 + (0.1 - 0.001) * shape
        out[f"schedule/wsd_{name}"] = numpy.where(t < 5, 0.1 * t / 5, wsd)


schedules()
common.write("optim.safetensors", {k: numpy.asarray(v) for k, v in out.items()})
