"""20 steps of every optimizer on mean((tanh(x w + b) - y)^2), a new x in every step; the values of every schedule.

Cases with a square matrix read the first 3 columns of x and the first 3 rows of w.

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
    return ((torch.tanh(X[step][:, :len(w)] @ w + b) - Y) ** 2).mean()


def run(name, make, before_step=None, after_step=None, square=False, closure=False):
    """make(parameters) -> optimizer; hooks see (optimizer, parameters, step)."""
    w, b = (W0[:3] if square else W0).clone().requires_grad_(), B0.clone().requires_grad_()
    optimizer = make([w, b])
    ws, bs = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(w, b, step).backward()
        if before_step:
            before_step(optimizer, [w, b], step)
        optimizer.step(*[lambda: loss_of(w, b, step)] if closure else [])
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


def pytorch_optimizer(name, parameters, **options):
    import pytorch_optimizer as package
    return getattr(package, name)(parameters, **options)


def schedule_free(parameters):
    import schedulefree
    optimizer = schedulefree.AdamWScheduleFree(parameters, lr=0.05, weight_decay=0.1, warmup_steps=5, r=1.0)
    optimizer.train()
    return optimizer


def run_optax(name, make):
    """The same steps with an optax transformation."""
    import jax
    import optax
    jax.config.update("jax_enable_x64", True)
    x, y = jax.numpy.asarray(X.numpy()), jax.numpy.asarray(Y.numpy())
    parameters = {"w": jax.numpy.asarray(W0.numpy()), "b": jax.numpy.asarray(B0.numpy())}
    optimizer = make(optax)
    state = optimizer.init(parameters)
    gradient = jax.grad(lambda p, x: ((jax.numpy.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean())
    kept = {"w": [], "b": []}
    for step in range(STEPS):
        updates, state = optimizer.update(gradient(parameters, x[step]), state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        for key in kept:
            kept[key].append(numpy.asarray(parameters[key]))
    for key in kept:
        out[f"{name}/{key}"] = numpy.stack(kept[key])


run("radam", lambda p: torch.optim.RAdam(p, lr=0.05, weight_decay=0.01))
run("ranger", lambda p: pytorch_optimizer("Ranger", p, lr=0.05, weight_decay=0.1, degenerated_to_sgd=True))
run("adabound", lambda p: pytorch_optimizer("AdaBound", p, lr=0.02, weight_decay=0.01, weight_decouple=False))
run("schedule_free_adamw", schedule_free)
run_optax("ademamix", lambda o: o.contrib.ademamix(0.02, alpha=2.0, weight_decay=0.1))
run_optax("novograd", lambda o: o.novograd(0.02, b1=0.95, b2=0.98, eps=1e-8, weight_decay=0.01))
run_optax("lars", lambda o: o.lars(0.5, weight_decay=0.01, weight_decay_mask={"w": True, "b": False},
                                   trust_coefficient=0.01, trust_ratio_mask={"w": True, "b": False}, momentum=0.9))


class Written(torch.optim.Optimizer):
    """Methods without a package that follows them in f64: rule(p, state, group, step) changes p in place."""

    def __init__(self, parameters, rule, **options):
        super().__init__(parameters, options)
        self.rule = rule
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                self.rule(p, self.state[p], group, self.count)


def ademamix_warm(p, state, group, t):
    """Pagliardini, Ablin, Grangier 2024 with both warm-ups, 8 and 12 steps."""
    b1, b2, b3 = 0.9, 0.999, 0.9999
    if not state:
        state["m"], state["v"], state["slow"] = (torch.zeros_like(p) for _ in range(3))
    share = min(t / 12, 1.0)
    beta3 = math.exp(1 / ((1 - share) / math.log(b1) + share / math.log(b3)))
    state["m"] = b1 * state["m"] + (1 - b1) * p.grad
    state["v"] = b2 * state["v"] + (1 - b2) * p.grad ** 2
    state["slow"] = beta3 * state["slow"] + (1 - beta3) * p.grad
    mixed = state["m"] / (1 - b1 ** t) + 2 * min(t / 8, 1.0) * state["slow"]
    p.sub_(group["lr"] * mixed / ((state["v"] / (1 - b2 ** t)).sqrt() + 1e-8))


def sophia(p, state, group, t):
    """Liu et al. 2023, algorithm 3; the curvature gradient is that of the loss with targets -y."""
    b1, b2, rho = 0.965, 0.99, 0.04
    if not state:
        state["m"], state["h"] = torch.zeros_like(p), torch.zeros_like(p)
    state["m"] = b1 * state["m"] + (1 - b1) * p.grad
    if t % 3 == 1:
        state["h"] = b2 * state["h"] + (1 - b2) * 8 * p.curvature ** 2
    p.mul_(1 - group["lr"] * group["decay"])
    p.sub_(group["lr"] * state["m"].sign() * (state["m"].abs() / (rho * state["h"] + 1e-15)).clamp(max=1))


def curvature(_, parameters, step):
    copies = [p.detach().clone().requires_grad_() for p in parameters]
    ((torch.tanh(X[step] @ copies[0] + copies[1]) + Y) ** 2).mean().backward()
    for p, c in zip(parameters, copies):
        p.curvature = c.grad


def muon(p, state, group, t, match_rms=False):
    """Jordan et al. 2024, without the rounding to bf16; vectors by plain steps of 0.1."""
    if p.dim() < 2:
        p.sub_(0.1 * p.grad)
        return
    if not state:
        state["m"] = torch.zeros_like(p)
    beta = 0.95
    state["m"].lerp_(p.grad, 1 - beta)
    x = p.grad.lerp(state["m"], beta)
    rows, columns = x.shape
    x = x / (x.norm() + 1e-7)
    x = x.T if rows > columns else x
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.T if rows > columns else x
    p.mul_(1 - group["lr"] * group["decay"])
    p.sub_(group["lr"] * (0.2 * max(rows, columns) ** 0.5 if match_rms else max(1, rows / columns) ** 0.5) * x)


def muon_match(p, state, group, t):
    """With the steps of Liu et al. 2025."""
    muon(p, state, group, t, match_rms=True)


def shampoo(period):
    """Gupta, Koren, Singer 2018, algorithm 1, roots by eigenvectors, anew every `period` steps."""
    def power(a):
        values, vectors = torch.linalg.eigh(a + 1e-3 * torch.eye(len(a)))
        return vectors @ torch.diag(values ** -0.25) @ vectors.T

    def rule(p, state, group, t):
        g = p.grad
        if p.dim() < 2:
            state["sum"] = state.get("sum", 0) + g ** 2
            p.sub_(group["lr"] * g / (state["sum"] + 1e-3).sqrt())
            return
        state["left"], state["right"] = state.get("left", 0) + g @ g.T, state.get("right", 0) + g.T @ g
        if (t - 1) % period == 0:
            state["roots"] = power(state["left"]), power(state["right"])
        p.sub_(group["lr"] * state["roots"][0] @ g @ state["roots"][1])
    return rule


def soap(square):
    """Vyas et al. 2024 as the authors' program has it; turns what is no longer than 4 (5 by 3: the second side)."""
    b1, b2, beta, period = 0.9, 0.95, 0.95, 3

    def turn(x, qs, back=False):
        left, right = qs
        if left is not None:
            x = (left if back else left.T) @ x
        if right is not None:
            x = x @ (right.T if back else right)
        return x

    def rule(p, state, group, t):
        g, matrix = p.grad, p.dim() > 1
        factors = [g @ g.T if square else None, g.T @ g] if matrix else []
        if not state:
            state["m"], state["v"], state["t"] = torch.zeros_like(p), torch.zeros_like(p), 0
            state["factors"] = [None if f is None else (1 - beta) * f for f in factors]
            state["q"] = [None if f is None else torch.linalg.eigh(f)[1].flip(1) for f in state["factors"]] or [None, None]
            return
        state["t"] += 1
        k = state["t"]
        turned = turn(g, state["q"])
        state["m"] = b1 * state["m"] + (1 - b1) * g
        state["v"] = b2 * state["v"] + (1 - b2) * turned ** 2
        step = turn(turn(state["m"], state["q"]) / (state["v"].sqrt() + 1e-8), state["q"], back=True)
        p.sub_(group["lr"] * (1 - b2 ** k) ** 0.5 / (1 - b1 ** k) * step)
        p.mul_(1 - group["lr"] * group["decay"])
        state["factors"] = [None if f is None else beta * old + (1 - beta) * f
                            for old, f in zip(state["factors"], factors)]
        if k % period or not matrix:
            return
        for i, (f, q) in enumerate(zip(state["factors"], state["q"])):
            if f is not None:
                order = torch.argsort(torch.diag(q.T @ f @ q), descending=True)
                state["v"] = state["v"].index_select(i, order)
                state["q"][i] = torch.linalg.qr(f @ q[:, order])[0]
    return rule


def galore(p, state, group, t):
    """Zhao et al. 2024: rank 2, every 4 steps, scale 0.5; signs so that a vector's sum is not negative."""
    g = p.grad
    if p.dim() > 1:
        if (t - 1) % 4 == 0:
            v = torch.linalg.svd(g, full_matrices=False)[2][:2].T
            state["basis"] = v * torch.where(v.sum(0) < 0, -1.0, 1.0)
        g = g @ state["basis"]
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * g ** 2
    step = state["m"] / (state["v"].sqrt() + 1e-6)
    if p.dim() > 1:
        step = 0.5 * step @ state["basis"].T
    p.sub_(group["lr"] * (1 - 0.999 ** t) ** 0.5 / (1 - 0.9 ** t) * step)
    p.mul_(1 - group["lr"] * group["decay"])


run("soap", lambda p: Written(p, soap(False), lr=0.02, decay=0.1))
run("soap_square", lambda p: Written(p, soap(True), lr=0.02, decay=0.1), square=True)
run("galore", lambda p: Written(p, galore, lr=0.02, decay=0.1))
run("lbfgs", lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=1, history_size=3), closure=True)


def searching(square=False, **options):
    """The closure of a line search leaves gradients; otherwise as run."""
    w, b = (W0[:3] if square else W0).clone().requires_grad_(), B0.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([w, b], max_iter=1, max_eval=26, line_search_fn="strong_wolfe", **options)  # up to 25 trials
    ws, bs = [], []
    for step in range(STEPS):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(w, b, step)
            loss.backward()
            return loss
        optimizer.step(closure)
        ws.append(w.detach().clone().numpy())
        bs.append(b.detach().clone().numpy())
    return numpy.stack(ws), numpy.stack(bs)


# from a first trial that is about right, far too short and too long (longer ones make the runs depend on rounding)
for name, options in {"": dict(lr=1.0, history_size=3), "_short": dict(lr=0.003, history_size=10), "_long": dict(lr=1.5, history_size=10, square=True)}.items():
    out[f"lbfgs_search{name}/w"], out[f"lbfgs_search{name}/b"] = searching(**options)
run("lbfgs_square", lambda p: torch.optim.LBFGS(p, lr=0.2, max_iter=1, history_size=10), closure=True, square=True)
run("shampoo", lambda p: Written(p, shampoo(1), lr=0.1))
run("shampoo_period", lambda p: Written(p, shampoo(4), lr=0.1))
run("ademamix_warm", lambda p: Written(p, ademamix_warm, lr=0.02))
run("sophia", lambda p: Written(p, sophia, lr=0.02, decay=0.1), before_step=curvature)
run("muon", lambda p: Written(p, muon, lr=0.05, decay=0.1))
run("muon_match", lambda p: Written(p, muon_match, lr=0.05, decay=0.1))


def lookahead():
    """SGD 0.1 with a look-ahead of 4 steps, alpha 0.5 (Zhang et al. 2019)."""
    slow = {}

    def after(_, parameters, step):
        for p in parameters:
            slow.setdefault(p, (W0 if p.dim() == 2 else B0).clone())
            if (step + 1) % 4 == 0:
                slow[p].add_(0.5 * (p.detach() - slow[p]))
                p.data.copy_(slow[p])
    run("lookahead", lambda p: torch.optim.SGD(p, lr=0.1), after_step=after)


lookahead()


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


# -- averages with one weight from step 5 on, every 3 steps, by torch.optim.swa_utils; squares and deviations as SWAG takes them
def equal_averages():
    for key in ("w", "b"):
        values = torch.tensor(out[f"adamw/{key}"])
        averaged = torch.optim.swa_utils.AveragedModel(torch.nn.ParameterList([torch.nn.Parameter(values[0])]))
        kept, squares, taken = [], [], []
        for step in range(STEPS):
            if step + 1 >= 5 and (step + 1 - 5) % 3 == 0:
                averaged.update_parameters(torch.nn.ParameterList([torch.nn.Parameter(values[step])]))
                taken.append(values[step])
            mean = averaged.module[0].detach().clone() if taken else torch.zeros_like(values[0])
            kept.append(mean.numpy())
            squares.append(sum(v ** 2 for v in taken).numpy() / len(taken) if taken else torch.zeros_like(values[0]).numpy())
        out[f"swa/{key}"], out[f"swag_square/{key}"] = numpy.stack(kept), numpy.stack(squares)


equal_averages()


def kfac(optimizer, parameters, step):
    """Martens, Grosse 2015 on the one layer of the network, empirical Fisher, momentum 0.9, damping 0.01."""
    w, b = parameters
    x = X[step]
    before = (x @ w + b).detach().requires_grad_()
    ((torch.tanh(before) - Y) ** 2).mean().backward()
    s, a = len(x) * before.grad, torch.cat([x, torch.ones(len(x), 1)], 1)
    now = s.T @ s / len(x), a.T @ a / len(x)
    optimizer.kept = now if step == 0 else tuple(0.9 * k + 0.1 * n for k, n in zip(optimizer.kept, now))
    left, right = optimizer.kept
    pi = ((right.trace() / len(right)) / (left.trace() / len(left))).sqrt()
    joint = torch.cat([w.grad.T, b.grad[:, None]], 1)
    joint = torch.linalg.solve(left + 0.1 / pi * torch.eye(len(left)), joint)
    joint = torch.linalg.solve(right + 0.1 * pi * torch.eye(len(right)), joint.T).T
    w.grad, b.grad = joint[:, :-1].T.clone(), joint[:, -1].clone()


run("kfac", lambda p: torch.optim.SGD(p, lr=0.02), before_step=kfac)


def accumulated():
    """SGD on rows of x in 4 parts of 2, the second of which counts its first row only; |g|^2 of parts and whole, noise scale."""
    w, b = W0.clone().requires_grad_(), B0.clone().requires_grad_()
    weight = torch.tensor([1, 1, 1, 0, 1, 1, 1, 1.0])
    kept, norms, noise, signal = {"w": [], "b": []}, [], 0.0, 0.0
    for step in range(STEPS):
        each = ((torch.tanh(X[step] @ w + b) - Y) ** 2).mean(1) * weight
        small = 0.0
        for i in range(4):
            part = each[2 * i:2 * i + 2].sum() / weight[2 * i:2 * i + 2].sum()
            small += sum((g ** 2).sum() for g in torch.autograd.grad(part, [w, b], retain_graph=True)).item() / 4
        gradients = torch.autograd.grad(each.sum() / weight.sum(), [w, b])
        large = sum((g ** 2).sum() for g in gradients).item()
        noise = 0.9 * noise + 0.1 * (small - large) / (1 / 2 - 1 / 8)
        signal = 0.9 * signal + 0.1 * (8 * large - 2 * small) / (8 - 2)
        norms.append([small, large, noise / signal])
        for key, p, g in zip(("w", "b"), (w, b), gradients):
            p.data -= 0.1 * g
            kept[key].append(p.detach().clone().numpy())
    out["accumulated/w"], out["accumulated/b"] = numpy.stack(kept["w"]), numpy.stack(kept["b"])
    out["accumulated/norms"] = numpy.array(norms)


accumulated()


def adapted():
    """A row a part: a batch of the first 2 rows, doubled up to 8 after every third step that is noisier than its batch is large."""
    w, b = W0.clone().requires_grad_(), B0.clone().requires_grad_()
    kept, counts, noise, signal, parts = {"w": [], "b": []}, [], 0.0, 0.0, 2
    for step in range(STEPS):
        each = ((torch.tanh(X[step][:parts] @ w + b) - Y[:parts]) ** 2).mean(1)
        small = sum((g ** 2).sum().item() / parts for loss in each for g in torch.autograd.grad(loss, [w, b], retain_graph=True))
        gradients = torch.autograd.grad(each.mean(), [w, b])
        large = sum((g ** 2).sum() for g in gradients).item()
        noise = 0.5 * noise + 0.5 * (small - large) / (1 - 1 / parts)
        signal = 0.5 * signal + 0.5 * (parts * large - small) / (parts - 1)
        counts.append(float(parts))
        if (step + 1) % 3 == 0 and noise / signal > parts:
            parts = min(2 * parts, 8)
        for key, p, g in zip(("w", "b"), (w, b), gradients):
            p.data -= 0.1 * g
            kept[key].append(p.detach().clone().numpy())
    out["adapted/w"], out["adapted/b"], out["adapted/parts"] = numpy.stack(kept["w"]), numpy.stack(kept["b"]), numpy.array(counts)
    print("parts", counts)


adapted()


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
