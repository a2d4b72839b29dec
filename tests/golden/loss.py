"""Every loss with its gradients, in f64.

Tensors: what goes in (x, y, logits ...); CASE/loss and CASE/gradient of the first input. The cases have the names of the
table in tests/optim/loss.c. Reference: torch where it has the loss, else the formula of the paper written out.
"""
import numpy
import torch
import torch.nn.functional as F

import common

torch.set_default_dtype(torch.float64)
N, C, D = 12, 7, 6
data = {
    "logits": common.numbers(1, N, C) * 2, "teacher": common.numbers(2, N, C),
    "labels": numpy.array([3, 0, 6, 1, 1, 5, 2, 4, 0, 3, 3, 2]),
    "x": common.numbers(3, N, D), "y": common.numbers(4, N, D) * 0.5,
    "targets": (common.numbers(5, N, D) > 0).astype(numpy.float64),
    "classes": numpy.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 0, 0]),
    "chosen": common.numbers(6, N) * 3, "rejected": common.numbers(7, N) * 3,
    "reference_chosen": common.numbers(8, N) * 3, "reference_rejected": common.numbers(9, N) * 3,
}
T = {k: torch.tensor(v) for k, v in data.items()}
out = dict(data)


def case(name, first, function):
    value = T[first].clone().requires_grad_()
    loss = function(value)
    loss.backward()
    out[f"{name}/loss"] = numpy.array(loss.item())
    out[f"{name}/gradient"] = value.grad.numpy()


case("cross_entropy", "logits", lambda x: F.cross_entropy(x, T["labels"]))
case("smoothing", "logits", lambda x: F.cross_entropy(x, T["labels"], label_smoothing=0.1))
case("ignore", "logits", lambda x: F.cross_entropy(x, T["labels"], ignore_index=3, label_smoothing=0.1))
case("z", "logits", lambda x: F.cross_entropy(x, T["labels"]) + 0.01 * (x.logsumexp(1) ** 2).mean())
case("binary", "x", lambda x: F.binary_cross_entropy_with_logits(x, T["targets"]))


def focal(x, alpha, gamma):
    """Lin et al. 2017, equation 5, with the terms of binary cross-entropy."""
    p = torch.sigmoid(x)
    right = torch.where(T["targets"] > 0, p, 1 - p)
    a = torch.where(T["targets"] > 0, alpha, 1 - alpha) if alpha >= 0 else 1.0
    return (-a * (1 - right) ** gamma * right.log()).mean()


case("focal", "x", lambda x: focal(x, 0.25, 2.0))
case("focal_plain", "x", lambda x: focal(x, -1.0, 1.5))
case("mse", "x", lambda x: F.mse_loss(x, T["y"]))
case("l1", "x", lambda x: F.l1_loss(x, T["y"]))
case("huber", "x", lambda x: F.huber_loss(x, T["y"], delta=0.7))
case("kl", "logits", lambda x: F.kl_div(x.log_softmax(1), T["teacher"].softmax(1), reduction="batchmean"))
case("distillation", "logits", lambda x: 0.7 * 9 * F.kl_div(
    (x / 3).log_softmax(1), (T["teacher"] / 3).softmax(1), reduction="batchmean") + 0.3 * F.cross_entropy(x, T["labels"]))


def nt_xent(a):
    z = F.normalize(torch.cat([a, T["y"]]), dim=1)
    similarity = (z @ z.T / 0.3).fill_diagonal_(float("-inf"))
    return F.cross_entropy(similarity, (torch.arange(2 * N) + N) % (2 * N))


def sup_con(z):
    """Khosla et al. 2020, equation 2; rows without a positive are left out of the mean."""
    z = F.normalize(z, dim=1)
    similarity = z @ z.T / 0.2
    total, counted = 0.0, 0
    for i in range(N):
        others = [j for j in range(N) if j != i]
        positive = [j for j in others if T["classes"][j] == T["classes"][i]]
        if positive:
            counted += 1
            log_sum = similarity[i, others].logsumexp(0)
            total = total - sum(similarity[i, j] - log_sum for j in positive) / len(positive)
    return total / counted


def vicreg(a):
    """Bardes, Ponce, LeCun 2022, as their published code weighs the terms."""
    b = T["y"]
    x, y = a - a.mean(0), b - b.mean(0)
    spread = sum(F.relu(1 - (v.var(0) + 1e-4).sqrt()).mean() / 2 for v in (x, y))
    off = ~torch.eye(D, dtype=torch.bool)
    apart = sum(((v.T @ v / (N - 1))[off] ** 2).sum() / D for v in (x, y))
    return 25 * F.mse_loss(a, b) + 25 * spread + apart


def barlow(a):
    """Zbontar et al. 2021."""
    x = F.batch_norm(a, None, None, training=True)
    y = F.batch_norm(T["y"], None, None, training=True)
    c = x.T @ y / N
    off = ~torch.eye(D, dtype=torch.bool)
    return ((c.diagonal() - 1) ** 2).sum() + 0.0051 * (c[off] ** 2).sum()


case("nt_xent", "x", nt_xent)
case("info_nce", "x", lambda q: F.cross_entropy(
    F.normalize(q, dim=1) @ F.normalize(T["y"], dim=1).T / 0.3, torch.arange(N)))
case("sup_con", "x", sup_con)
case("vicreg", "x", vicreg)
case("barlow_twins", "x", barlow)


def attention(x):
    return F.normalize(x.pow(2).sum(1).flatten(1), dim=1)


def distances(x):
    d = torch.stack([torch.stack([(a - b).norm() if i != j else torch.zeros(()) for j, b in enumerate(x)])
                     for i, a in enumerate(x)])
    return d / (d.sum() / (len(x) * (len(x) - 1)))


def angles(x):
    return torch.stack([torch.stack([torch.stack([
        F.cosine_similarity(a - b, c - b, dim=0) if i != j and k != j else torch.zeros(())
        for k, c in enumerate(x)]) for i, a in enumerate(x)]) for j, b in enumerate(x)])


T["maps"], T["other_maps"] = torch.tensor(common.numbers(21, 3, 4, 2, 5)), torch.tensor(common.numbers(22, 3, 6, 2, 5))
T["regressor"], T["chosen_experts"] = torch.tensor(common.numbers(23, 7, D)), torch.arange(2 * N).reshape(N, 2) * 5 % 7
out.update({k: T[k].numpy() for k in ("maps", "other_maps", "regressor", "chosen_experts")})
case("hint", "x", lambda x: F.mse_loss(x @ T["regressor"].T, T["logits"]))
case("attention_transfer", "maps", lambda x: (attention(x) - attention(T["other_maps"])).pow(2).sum(1).mean())
case("rkd_distance", "x", lambda x: F.smooth_l1_loss(distances(x), distances(T["logits"])))
case("rkd_angle", "x", lambda x: F.smooth_l1_loss(angles(x), angles(T["logits"])))


def balance(x):
    """Fedus, Zoph, Shazeer 2022, for two experts a token."""
    share = torch.bincount(T["chosen_experts"].flatten(), minlength=x.shape[1]) / T["chosen_experts"].numel()
    return x.shape[1] * (share * x.softmax(1).mean(0)).sum()


case("expert_balance", "logits", balance)
case("router_z", "logits", lambda x: x.logsumexp(1).pow(2).mean())


def preference(chosen, kind, beta, e):
    d = (chosen - T["reference_chosen"]) - (T["rejected"] - T["reference_rejected"])
    right, wrong = F.logsigmoid(beta * d), F.logsigmoid(-beta * d)
    if kind == "ipo":
        return ((d - 1 / (2 * beta)) ** 2).mean()
    if kind == "robust":
        return ((-(1 - e) * right + e * wrong) / (1 - 2 * e)).mean()
    return (-(1 - e) * right - e * wrong).mean()


case("dpo", "chosen", lambda x: preference(x, "dpo", 0.1, 0.0))
case("cdpo", "chosen", lambda x: preference(x, "dpo", 0.1, 0.2))
case("robust_dpo", "chosen", lambda x: preference(x, "robust", 0.1, 0.2))
case("ipo", "chosen", lambda x: preference(x, "ipo", 0.1, 0.0))
common.write("loss.safetensors", out)
