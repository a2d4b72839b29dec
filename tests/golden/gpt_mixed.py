"""The tiny GPT of gpt.py in mixed precision, as PyTorch's autocast has it: parameters in f32, products in bf16 or f16, 20 steps.

Reads data/gpt.safetensors. Tensors, for each DTYPE of bf16 and f16: DTYPE/loss [20], DTYPE/norm [20], DTYPE/after/20/NAME. f16 under a
GradScaler whose first scale is 65536: no step is left out.
"""
import numpy
import torch
import torch.nn.functional as F

import common
import gpt

data = common.read("gpt.safetensors")
out = {}
for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
    model = gpt.Gpt().float()
    for key, p in model.named_parameters():
        p.data.copy_(torch.tensor(data[key]).float())
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.99))
    scaler = torch.amp.GradScaler("cpu", enabled=name == "f16")
    losses, norms = [], []
    for step in range(gpt.STEPS):
        for group in optimizer.param_groups:
            group["lr"] = gpt.rate(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            logits = model(torch.tensor(data["tokens"][step]))
        loss = F.cross_entropy(logits.float().view(-1, gpt.VOCABULARY), torch.tensor(data["next"][step]).view(-1))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        losses.append(loss.item())
        scaler.step(optimizer)
        scaler.update()
    assert name == "bf16" or scaler.get_scale() == 65536
    out[f"{name}/loss"], out[f"{name}/norm"] = numpy.array(losses), numpy.array(norms)
    out.update({f"{name}/after/20/{key}": p.detach().double().numpy() for key, p in model.named_parameters()})
    print(name, numpy.abs(out[f"{name}/loss"] - data["loss"]).max(), numpy.abs(out[f"{name}/norm"] / data["norm"] - 1).max())
common.write("gpt_mixed.safetensors", out)
