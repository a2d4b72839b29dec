"""Small models with the names of their reference state dicts: what PyTorch makes of given weights in f64 (tests/nn reads the data).

resnet18, resnet50: written with torch.nn modules as torchvision has them, width 2. MODEL/NAME: weights and running statistics;
MODEL/images, MODEL/labels; MODEL/logits in evaluation; MODEL/trained: logits with batch statistics, MODEL/loss, MODEL/gradient/NAME
of two weights; MODEL/after/NAME: running statistics after that one step.
llama: two layers, grouped heads; llama/tokens, llama/logits, llama/loss (the next token), llama/gradient/NAME of three weights.
mlp: three layers with GELU; mlp/x, mlp/y.
experts: five networks, two for each token; experts/x, experts/target; experts/y before training, experts/gradient/NAME of all weights,
experts/losses: mean square error, balance and z loss together over eight steps of gradient descent.
"""
import math

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

import common

torch.set_default_dtype(torch.float64)
out = {}


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = width * 4 if bottleneck else width
        sides = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if bottleneck else \
            [(inputs, width, 3, stride), (width, width, 3, 1)]
        for i, (a, b, side, step) in enumerate(sides):
            setattr(self, f"conv{i + 1}", nn.Conv2d(a, b, side, step, side // 2, bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(b))
        self.count = len(sides)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(self.count):
            y = getattr(self, f"bn{i + 1}")(getattr(self, f"conv{i + 1}")(y))
            y = F.relu(y) if i + 1 < self.count else y
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, width, classes, small):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False)
        self.bn1, self.small = nn.BatchNorm2d(width), small
        inputs = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(Block(inputs, width << stage, 2 if i == 0 and stage else 1, bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = x if self.small else F.max_pool2d(x, 3, 2, 1)
        for stage in range(4):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def fill(model, seed):
    """Numbers that f32 holds exactly; variances positive."""
    for i, (name, value) in enumerate(model.state_dict().items()):
        if name.endswith("num_batches_tracked"):
            continue
        numbers = common.numbers(seed + i, *value.shape)
        if name.endswith("running_var") or (name.endswith("weight") and value.dim() == 1):
            numbers = 1 + 0.2 * abs(numbers)
        else:
            numbers = numbers * (1 / math.sqrt(value[0].numel()) if value.dim() > 1 else 0.1)
        value.copy_(torch.tensor(numpy.float32(numbers).astype(numpy.float64)))


def resnet(name, blocks, bottleneck, small, side, kept):
    model = ResNet(blocks, bottleneck, 2, 5, small)
    fill(model, 1000)
    tensors = {k: v.clone() for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    images = torch.tensor(common.numbers(7, 4, 3, side, side))
    labels = torch.tensor([2, 0, 4, 1])
    data = {**tensors, "images": images, "labels": labels}
    data["logits"] = model.eval()(images).detach()
    trained = model.train()(images)
    loss = F.cross_entropy(trained, labels)
    loss.backward()
    data["trained"], data["loss"] = trained.detach(), loss.detach()
    parameters = dict(model.named_parameters())
    data.update({f"gradient/{k}": parameters[k].grad for k in kept})
    data.update({f"after/{k}": v for k, v in model.state_dict().items() if "running" in k})
    floats = ("logits", "trained", "loss", "gradient", "after")
    out.update({f"{name}/{k}": v.numpy() if k.split("/")[0] in floats or k == "labels" else v.float().numpy() for k, v in data.items()})


resnet("resnet18", [2, 2, 2, 2], False, False, 40, ["conv1.weight", "layer3.0.downsample.1.weight"])
resnet("resnet50", [3, 4, 6, 3], True, True, 12, ["conv1.weight", "layer4.2.bn3.bias"])


def llama():
    width, heads, kv, hidden, vocabulary, layers, length = 16, 4, 2, 24, 11, 2, 7
    e = width // heads
    shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,), "lm_head.weight": (vocabulary, width)}
    for i in range(layers):
        for name, shape in {"self_attn.q_proj": (width, width), "self_attn.k_proj": (kv * e, width), "self_attn.v_proj": (kv * e, width),
                            "self_attn.o_proj": (width, width), "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width),
                            "mlp.down_proj": (width, hidden), "input_layernorm": (width,), "post_attention_layernorm": (width,)}.items():
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    w = {}
    for i, (name, shape) in enumerate(shapes.items()):
        base = 1.0 if len(shape) == 1 else 0.0
        w[name] = torch.tensor(numpy.float32(base + 0.3 * common.numbers(2000 + i, *shape)).astype(numpy.float64), requires_grad=True)
    tokens = torch.tensor(numpy.random.default_rng(3).integers(0, vocabulary, (2, length)))

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[name]

    angle = torch.outer(torch.arange(length, dtype=torch.float64), 10000.0 ** (-torch.arange(0, e, 2) / e))
    cosine, sine = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def rotate(x):
        return x * cosine + torch.cat([-x[..., e // 2:], x[..., :e // 2]], -1) * sine

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(layers):
        p = f"model.layers.{i}."
        y = norm(x, p + "input_layernorm.weight")
        q, k, v = ((y @ w[p + f"self_attn.{n}_proj.weight"].T).view(2, length, -1, e).transpose(1, 2) for n in "qkv")
        k, v = (t.repeat_interleave(heads // kv, 1) for t in (rotate(k), v))
        mixed = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True).transpose(1, 2).reshape(2, length, width)
        x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
        y = norm(x, p + "post_attention_layernorm.weight")
        gated = F.silu(y @ w[p + "mlp.gate_proj.weight"].T) * (y @ w[p + "mlp.up_proj.weight"].T)
        x = x + gated @ w[p + "mlp.down_proj.weight"].T
    logits = norm(x, "model.norm.weight") @ w["lm_head.weight"].T
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
    loss.backward()
    out.update({f"llama/{k}": v.detach().float().numpy() for k, v in w.items()})
    out.update({"llama/tokens": tokens.numpy(), "llama/logits": logits.detach().numpy(), "llama/loss": loss.detach().numpy()})
    for name in ("model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "model.layers.1.mlp.gate_proj.weight"):
        out[f"llama/gradient/{name}"] = w[name].grad.numpy()


def mixture(x, w, top):
    """Each token by itself; logits and choices beside the result."""
    logits = x @ w["moe.router"].T
    best, chosen = logits.topk(top)
    gates, rows = best.softmax(-1), []
    for t in range(len(x)):
        rows.append(sum(gates[t, i] * (w["moe.w2"][e] @ (F.silu(w["moe.w1"][e] @ x[t]) * (w["moe.w3"][e] @ x[t]))) for i, e in enumerate(chosen[t])))
    return torch.stack(rows), logits, chosen


def experts(count=5, width=6, hidden=10, top=2):
    shapes = {"moe.router": (count, width), "moe.w1": (count, hidden, width), "moe.w2": (count, width, hidden), "moe.w3": (count, hidden, width)}
    w = {name: torch.tensor(common.numbers(4000 + i, *shape) / 2, requires_grad=True) for i, (name, shape) in enumerate(shapes.items())}
    x, target = torch.tensor(common.numbers(11, 3, 9, width)), torch.tensor(common.numbers(12, 3, 9, width))
    out.update({f"experts/{k}": v.detach().float().numpy() for k, v in {**w, "x": x, "target": target}.items()})
    losses = []
    for step in range(8):
        y, logits, chosen = mixture(x.reshape(-1, width), w, top)
        share, mean = F.one_hot(chosen, count).double().mean((0, 1)), logits.softmax(-1).mean(0)
        loss = ((y.reshape(x.shape) - target) ** 2).mean() + 0.1 * count * (share * mean).sum() + 0.01 * (logits.logsumexp(-1) ** 2).mean()
        gradients = dict(zip(w, torch.autograd.grad(loss, list(w.values()))))
        if step == 0:
            out["experts/y"] = y.reshape(x.shape).detach().numpy()
            out.update({f"experts/gradient/{k}": v.numpy() for k, v in gradients.items()})
        losses.append(loss.item())
        with torch.no_grad():
            for name, value in w.items():
                value -= 0.5 * gradients[name]
    out["experts/losses"] = numpy.array(losses)


llama()
experts()
mlp = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 3))
fill(mlp, 3000)
x = torch.tensor(common.numbers(9, 4, 5))
out.update({f"mlp/{k}": v.float().numpy() for k, v in mlp.state_dict().items()})
out.update({"mlp/x": x.float().numpy(), "mlp/y": mlp(x).detach().numpy()})
common.write("models.safetensors", out)
