"""Small vision transformers: weights, images and what PyTorch makes of them in f64 (tests/nn reads the data).

The modules are PyTorch's own (conv2d, layer_norm, scaled_dot_product_attention, gelu), names as in timm's and I-JEPA's
state dicts. One has a class token and a classifier, one neither."""
import torch
import torch.nn.functional as F

import common

WIDTH, HEADS, LAYERS, PATCH, SIDE, CLASSES, IMAGES = 16, 2, 2, 4, 12, 5, 3


def shapes(classifier):
    tokens = (SIDE // PATCH) ** 2 + classifier
    rows = {"pos_embed": (1, tokens, WIDTH), "patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH), "patch_embed.proj.bias": (WIDTH,),
            "norm.weight": (WIDTH,), "norm.bias": (WIDTH,)}
    if classifier:
        rows.update({"cls_token": (1, 1, WIDTH), "head.weight": (CLASSES, WIDTH), "head.bias": (CLASSES,)})
    for i in range(LAYERS):
        for name, shape in {"norm1.weight": (WIDTH,), "norm1.bias": (WIDTH,), "attn.qkv.weight": (3 * WIDTH, WIDTH), "attn.qkv.bias": (3 * WIDTH,),
                            "attn.proj.weight": (WIDTH, WIDTH), "attn.proj.bias": (WIDTH,), "norm2.weight": (WIDTH,), "norm2.bias": (WIDTH,),
                            "mlp.fc1.weight": (4 * WIDTH, WIDTH), "mlp.fc1.bias": (4 * WIDTH,), "mlp.fc2.weight": (WIDTH, 4 * WIDTH),
                            "mlp.fc2.bias": (WIDTH,)}.items():
            rows["blocks.%d.%s" % (i, name)] = shape
    return rows


def run(w, x, classifier):
    x = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH).flatten(2).transpose(1, 2)
    if classifier:
        x = torch.cat([w["cls_token"].expand(len(x), -1, -1), x], 1)
    x = x + w["pos_embed"]
    norm = lambda y, name: F.layer_norm(y, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-6)
    linear = lambda y, name: F.linear(y, w[name + ".weight"], w[name + ".bias"])
    for i in range(LAYERS):
        b = "blocks.%d." % i
        qkv = linear(norm(x, b + "norm1"), b + "attn.qkv").reshape(len(x), -1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        x = x + linear(F.scaled_dot_product_attention(*qkv).transpose(1, 2).reshape(x.shape), b + "attn.proj")
        x = x + linear(F.gelu(linear(norm(x, b + "norm2"), b + "mlp.fc1")), b + "mlp.fc2")
    x = norm(x, "norm")
    return (linear(x[:, 0], "head"), linear(x.mean(1), "head")) if classifier else (x, x)


for name, classifier in (("classifier", True), ("tokens", False)):
    weights = {n: torch.from_numpy(common.numbers(100 + i, *s)) * (0.2 if len(s) > 1 else 0.5) for i, (n, s) in enumerate(shapes(classifier).items())}
    weights = {n: w.float().double() for n, w in weights.items()}
    images = torch.from_numpy(common.numbers(7, IMAGES, 3, SIDE, SIDE))
    first, mean = run(weights, images, classifier)
    data = {n: w.float().numpy() for n, w in weights.items()}
    data.update({"golden.images": images.float().numpy(), "golden.first": first.numpy(), "golden.mean": mean.numpy()})
    common.write("vit_%s.safetensors" % name, data)
