"""A tiny vision transformer over 20 steps: AdamW on matrices with decay, on the rest without, clipping at norm 1, labels smoothed
by 0.1. Class token, learned positions, names as in timm's state dicts.

Tensors: the initial values by their names; images [20, 4, 3, 8, 8] and labels [20, 4]; loss [20] and norm [20] (of the gradient
before clipping); gradient/NAME in the first step; after/STEP/NAME for steps 1, 5, 10, 20.
"""
import numpy
import torch
import torch.nn.functional as F

import common

torch.set_default_dtype(torch.float64)
WIDTH, HEADS, LAYERS, PATCH, SIDE, CLASSES, BATCH, STEPS = 8, 2, 2, 4, 8, 5, 4, 20
TOKENS = (SIDE // PATCH) ** 2 + 1


def shapes():
    rows = {"patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,), "cls_token": (1, 1, WIDTH),
            "pos_embed": (1, TOKENS, WIDTH), "norm.weight": (WIDTH,), "norm.bias": (WIDTH,), "head.weight": (CLASSES, WIDTH),
            "head.bias": (CLASSES,)}
    for i in range(LAYERS):
        for name, shape in {"norm1": (WIDTH,), "attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH), "norm2": (WIDTH,),
                            "mlp.fc1": (4 * WIDTH, WIDTH), "mlp.fc2": (WIDTH, 4 * WIDTH)}.items():
            rows[f"blocks.{i}.{name}.weight"], rows[f"blocks.{i}.{name}.bias"] = shape, shape[:1]
    return rows


def logits(w, x):
    def norm(y, name):
        return F.layer_norm(y, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-6)

    def linear(y, name):
        return F.linear(y, w[name + ".weight"], w[name + ".bias"])

    x = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], 1) + w["pos_embed"]
    for i in range(LAYERS):
        b = f"blocks.{i}."
        qkv = linear(norm(x, b + "norm1"), b + "attn.qkv").reshape(len(x), TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*qkv).transpose(1, 2).reshape(x.shape)
        x = x + linear(mixed, b + "attn.proj")
        x = x + linear(F.gelu(linear(norm(x, b + "norm2"), b + "mlp.fc1")), b + "mlp.fc2")
    return linear(norm(x, "norm")[:, 0], "head")


weights = {}
for i, (name, shape) in enumerate(shapes().items()):
    base = 1.0 if name.endswith("weight") and len(shape) == 1 else 0.0
    value = numpy.float32(base + 0.2 * common.numbers(300 + i, *shape)).astype(numpy.float64)
    weights[name] = torch.tensor(value, requires_grad=True)
out = {name: p.detach().clone().numpy() for name, p in weights.items()}
out["images"] = common.numbers(7, STEPS, BATCH, 3, SIDE, SIDE)
out["labels"] = numpy.random.default_rng(8).integers(0, CLASSES, (STEPS, BATCH))
groups = [{"params": [p for p in weights.values() if p.dim() > 1], "weight_decay": 0.05},
          {"params": [p for p in weights.values() if p.dim() < 2], "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=0.005, betas=(0.9, 0.95))
losses, norms = [], []
for step in range(STEPS):
    loss = F.cross_entropy(logits(weights, torch.tensor(out["images"][step])), torch.tensor(out["labels"][step]), label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    if step == 0:
        out.update({f"gradient/{name}": p.grad.clone().numpy() for name, p in weights.items()})
    norms.append(torch.nn.utils.clip_grad_norm_(weights.values(), 1.0).item())
    losses.append(loss.item())
    optimizer.step()
    if step + 1 in (1, 5, 10, 20):
        out.update({f"after/{step + 1}/{name}": p.detach().clone().numpy() for name, p in weights.items()})
out["loss"], out["norm"] = numpy.array(losses), numpy.array(norms)
common.write("vit_train.safetensors", out)
print(losses[0], losses[-1], min(norms), max(norms))
