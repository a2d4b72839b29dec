"""A tiny GPT over 20 steps: AdamW on matrices with decay, on vectors without, warm-up and cosine, clipping at norm 0.5.

Tensors: the initial values by their names in nanoGPT; tokens [20, 3, 6] and next [20, 3, 6]; loss [20] and norm [20] (of the
gradient before clipping); gradient/NAME in the first step; after/STEP/NAME for steps 1, 5, 10, 20.
"""
import math

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

import common

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH, STEPS = 2, 2, 8, 6, 7, 3, 20


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        split = [p.view(BATCH, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2) for p in self.c_attn(x).split(WIDTH, 2)]
        mixed = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCABULARY, WIDTH), "wpe": nn.Embedding(CONTEXT, WIDTH),
            "h": nn.ModuleList(Block() for _ in range(LAYERS)), "ln_f": nn.LayerNorm(WIDTH)})

    def forward(self, tokens):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"].weight
        for block in t["h"]:
            x = block(x)
        return t["ln_f"](x) @ t["wte"].weight.T


def rate(step):
    """3 steps of warm-up from 0 to 0.01, cosine to 0.001 at step 20."""
    if step < 3:
        return 0.01 * step / 3
    return 0.001 + 0.009 * (1 + math.cos(math.pi * (step - 3) / 17)) / 2


def main():
    torch.set_default_dtype(torch.float64)
    model = Gpt()
    named = dict(model.named_parameters())
    for i, (name, p) in enumerate(named.items()):
        base = 1.0 if name.endswith("weight") and p.dim() == 1 else 0.0
        p.data.copy_(torch.tensor(numpy.float32(base + 0.2 * common.numbers(i, *p.shape)).astype(numpy.float64)))
    out = {name: p.detach().clone().numpy() for name, p in named.items()}
    draw = numpy.random.default_rng(5)
    out["tokens"] = draw.integers(0, VOCABULARY, (STEPS, BATCH, CONTEXT))
    out["next"] = draw.integers(0, VOCABULARY, (STEPS, BATCH, CONTEXT))
    groups = [{"params": [p for p in named.values() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.99))
    losses, norms = [], []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss = F.cross_entropy(model(torch.tensor(out["tokens"][step])).view(-1, VOCABULARY),
                               torch.tensor(out["next"][step]).view(-1))
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            out.update({f"gradient/{name}": p.grad.clone().numpy() for name, p in named.items()})
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        losses.append(loss.item())
        optimizer.step()
        if step + 1 in (1, 5, 10, 20):
            out.update({f"after/{step + 1}/{name}": p.detach().clone().numpy() for name, p in named.items()})
    out["loss"], out["norm"] = numpy.array(losses), numpy.array(norms)
    common.write("gpt.safetensors", out)
    print(losses[0], losses[-1], min(norms), max(norms))


if __name__ == "__main__":
    main()
