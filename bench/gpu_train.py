"""Training steps on a card, Weft beside torch.compile with the same settings: correct first, then times, memory, kernels.

usage: gpu_train.py WEFT_GPU_TRAIN PART FOLDER     parts: check char gpt2 memory vit vit-large vit-tiny pinn learn learn-torch hunt
check: a step of small models against the interpreter (loss, every gradient, every parameter). char, gpt2, vit, vit-large, vit-tiny: device time
of a step, Weft's before and after PyTorch's, so that clocks are seen to be equal; a profile of Weft's kernels first. PyTorch: bf16
autocast, fused AdamW, clipping, scaled_dot_product_attention, torch.compile of the model; medians by CUDA events. pinn: f32,
PyTorch as a captured CUDA graph. learn: nanoGPT's setting on characters, 5000 steps; learn-torch: the same by torch.compile. Inputs are the same tensors in every
step; memory is what Weft's plan asks for and the peak of PyTorch's allocator. hunt (HUNT_SECONDS, 60): for a fault that comes and goes,
steps of small GPTs in fresh processes, several at once, each second one compiled anew; WEFT_GPU_TRAIN may be any build."""
import collections, concurrent.futures, csv, itertools, json, math, os, pathlib, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEFT, PART, FOLDER = sys.argv[1], sys.argv[2], sys.argv[3]
TEXT = str(ROOT / "tests/data/tinyshakespeare.txt")
failed = 0

CHAR = dict(layers=6, heads=6, width=384, context=256, batch=64, vocabulary=72, dropout=0.2, attention_dropout=0.2)  # 65 symbols, padded as nanoGPT pads 50257
GPT2 = dict(layers=12, heads=12, width=768, context=1024, batch=32, vocabulary=50304, dropout=0.0)
VIT = dict(layers=12, heads=12, width=768, side=224, patch=16, classes=1000, batch=128)
VIT_LARGE = {**VIT, "layers": 24, "heads": 16, "width": 1024, "batch": 64}
VIT_TINY = {**VIT, "heads": 3, "width": 192, "batch": 256}
TORCH_PEAK = 16250e6  # bytes, GPT2 below torch.compile (--part gpt2)
PINN = dict(layers=4, width=64, batch=200)
LEARN = dict(steps=5000, every=250, batches=20, warmup=100, rate=1e-3)
SMOOTH = dict(epsilon=1, rate=1, steps=100)  # updates in proportion to gradients, and large


def weft(model, action, dtype, settings, **more):
    """Output lines of one call; a failure is printed and counted."""
    global failed
    command = [WEFT, model, action, "--dtype", dtype]
    for key, value in {**settings, **more}.items():
        command += [f"--{key.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        failed += 1
        print(f"train FAILED {' '.join(command[1:])}: {done.stderr.strip()[:1500]}")
    lines = done.stdout.splitlines()
    for line in lines:
        if not line.startswith("{"):
            print(line)
    return lines


def weft_time(name, model, dtype, settings, **more):
    for line in weft(model, "time", dtype, settings, **more):
        if line.startswith("{"):
            row = json.loads(line)
            total = row["temporary_bytes"] + row["state_bytes"] + row["constant_bytes"]
            print(f"train weft {name} {dtype}: {row['device_ms']:.3f} ms on the device, {row['round_trip_ms']:.3f} ms round trip, {row['launches']} launches; "
                  f"compile {row['compile_s']:.1f} s, first step {row['first_s']:.2f} s; memory {total / 1e6:.0f} MB (temporaries {row['temporary_bytes'] / 1e6:.0f}, "
                  f"states {row['state_bytes'] / 1e6:.0f}, constants {row['constant_bytes'] / 1e6:.0f}); loss {row['loss_first']:.4f} -> {row['loss_last']:.4f}")
            return row
    return None


# -- PyTorch

def gpt(layers, heads, width, context, vocabulary, dropout, attention_dropout=0.0, **_):
    import torch, torch.nn as nn, torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
            self.attn, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.fc, self.out = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)
            self.drop = nn.Dropout(dropout)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = [p.view(b, t, heads, -1).transpose(1, 2) for p in self.attn(self.ln_1(x)).split(width, 2)]
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=attention_dropout if self.training else 0.0)
            x = x + self.drop(self.proj(mixed.transpose(1, 2).reshape(b, t, width)))
            return x + self.drop(self.out(F.gelu(self.fc(self.ln_2(x)))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width, bias=False)
            self.drop = nn.Dropout(dropout)

        def forward(self, tokens, next):
            x = self.drop(self.wte(tokens) + self.wpe.weight[:tokens.shape[1]])
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.ln_f(x), self.wte.weight)
            return F.cross_entropy(logits.view(-1, vocabulary), next.view(-1))

    model = Gpt().cuda()
    for name, p in model.named_parameters():
        if p.dim() > 1:
            onto_stream = name.endswith(("proj.weight", "out.weight"))
            nn.init.normal_(p, 0, 0.02 / math.sqrt(2 * layers) if onto_stream else 0.02)
    return model


def adamw(network):
    """Decay 0.1 of matrices alone."""
    import torch
    groups = [{"params": [p for p in network.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in network.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)


def vit(layers, heads, width, side, patch, classes, **_):
    import torch, torch.nn as nn, torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, width))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    class Vit(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv2d(3, width, patch, patch)
            self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
            self.positions = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

        def forward(self, images, labels):
            x = self.embed(images).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(self.norm(x[:, 0])), labels)

    return Vit().cuda()


def torch_time(name, model, inputs, settings, runs=20):
    """Median milliseconds of a step by CUDA events, peak bytes, seconds until the first step is done."""
    import torch
    torch.manual_seed(1)
    start = time.perf_counter()
    network = model(**settings)
    compiled = torch.compile(network)
    optimizer = adamw(network)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(*inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    for _ in range(5):
        step()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(runs):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        loss = step()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    many, began = max(runs, 20), time.perf_counter()
    for _ in range(many):
        step()
    torch.cuda.synchronize()
    back_to_back = (time.perf_counter() - began) / many * 1e3
    ms, peak = min(sorted(times)[runs // 2], back_to_back), torch.cuda.max_memory_allocated()
    print(f"train torch.compile {name} bf16: {ms:.3f} ms (waited for {sorted(times)[runs // 2]:.3f}, back to back {back_to_back:.3f}); start to first step {first:.1f} s; "
          f"peak {peak / 1e6:.0f} MB; loss {loss.item():.4f}")
    network = compiled = optimizer = loss = None
    return ms, peak


def beside(name, kind, model, settings, inputs, unit, units, profile=True, again=True):
    """Weft with its profile, PyTorch, Weft again (not the largest: a part has its limit)."""
    before = weft_time(name, kind, "bf16", settings)
    if profile:
        weft(kind, "profile", "bf16", settings)
    torch_ms, peak = torch_time(name, model, inputs(), settings)
    import torch
    torch.cuda.empty_cache()
    rows = [r for r in (before, weft_time(name, kind, "bf16", settings) if again else None) if r]
    if rows:
        ms = min(r["device_ms"] for r in rows)
        total = rows[0]["temporary_bytes"] + rows[0]["state_bytes"] + rows[0]["constant_bytes"]
        print(f"train RESULT {name}: Weft {ms:.3f} ms ({units / ms * 1e3:.0f} {unit}/s), torch.compile {torch_ms:.3f} ms ({units / torch_ms * 1e3:.0f} {unit}/s): "
              f"{torch_ms / ms:.2f} of its rate; memory {total / 1e6:.0f} MB of {peak / 1e6:.0f} ({total / peak:.2f}); first step incl. compile {rows[0]['compile_s'] + rows[0]['first_s']:.1f} s, "
              f"again {rows[-1]['compile_s'] + rows[-1]['first_s']:.1f} s")


# -- parts

def check():
    small = dict(layers=2, heads=2, width=128, context=64, batch=2, **SMOOTH)
    weft("gpt", "check", "f32", {**small, "dropout": 0.2, "bias": 1}, tolerance=1e-4)
    weft("gpt", "check", "bf16", small, tolerance=2e-2)
    weft("gpt", "check", "bf16", {**small, "dropout": 0.2, "attention_dropout": 0.2, "context": 128}, tolerance=2e-2)
    weft("gpt", "check", "f16", small, tolerance=4e-3)
    weft("gpt", "check", "bf16", {**small, "pieces": 2, "remat": 2}, tolerance=2e-2)
    images = dict(layers=2, heads=2, width=128, side=64, patch=16, classes=16, batch=4, **SMOOTH)
    weft("vit", "check", "f32", images, tolerance=1e-4)
    weft("vit", "check", "bf16", images, tolerance=2e-2)
    weft("pinn", "check", "f32", {**PINN, **SMOOTH}, tolerance=1e-4)


def hunt():
    """How many processes of each kind ended well; the first bad end of each kind in words, then again with every launch waited for,
    which names the kernel."""
    global failed
    small = dict(layers=2, heads=2, width=128, context=64, batch=2, **SMOOTH)
    kinds = [("bf16", small, 2e-2), ("f16", small, 4e-3), ("bf16", {**small, "dropout": 0.2, "attention_dropout": 0.2, "context": 128}, 2e-2), ("f32", small, 1e-4)]
    ends, seen, turns, lock = collections.Counter(), set(), itertools.count(), threading.Lock()
    end = time.perf_counter() + float(os.environ.get("HUNT_SECONDS", 60))

    def once(dtype, settings, tolerance, fresh, *more):
        command = [WEFT, "gpt", "check", "--dtype", dtype, "--tolerance", str(tolerance), *more]
        for key, value in settings.items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "WEFT_CACHE": ""} if fresh else None)

    def worker(_):
        while time.perf_counter() < end:
            turn = next(turns)
            dtype, settings, tolerance = kinds[turn // 2 % len(kinds)]
            name = f"gpt {dtype} of context {settings['context']}, {'compiled anew' if turn % 2 else 'from the cache'}"
            done = once(dtype, settings, tolerance, turn % 2)
            with lock:
                ends[name, done.returncode == 0] += 1
                known = done.returncode == 0 or name in seen
                if not known:
                    seen.add(name)
            if known:
                continue
            print(f"train FAILED {name}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[:800]}", flush=True)
            for _ in range(8):
                again = once(dtype, settings, tolerance, turn % 2, "--waits", "1")
                if again.returncode:
                    print(f"train FAILED {name}, waited for: {(again.stderr or again.stdout).strip()[:800]}", flush=True)
                    break

    workers = max(1, min(8, (os.cpu_count() or 1) // 2))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(worker, range(workers)))
    for name in sorted({n for n, _ in ends}):
        print(f"train hunt {name}: {ends[name, True]} well, {ends[name, False]} not")
    failed += sum(count for (_, well), count in ends.items() if not well)
    print(f"train RESULT hunt: {sum(ends.values())} processes, {failed} not well")


def tokens_of(settings):
    import torch
    shape = (settings["batch"], settings["context"])
    return [torch.randint(settings["vocabulary"], shape, device="cuda") for _ in range(2)]


def char():
    beside("nanoGPT char b64x256", "gpt", gpt, CHAR, lambda: tokens_of(CHAR), "tokens", 64 * 256)


def gpt2():
    beside("GPT-2 124M b32x1024", "gpt", gpt, GPT2, lambda: tokens_of(GPT2), "tokens", 32 * 1024, again=False)


def memory():
    """GPT-2 with whole logits, with logits in pieces (as it comes), with budgets that are 0.8, 0.6 and 0.4 of torch.compile's
    peak (16250 MB), and with blocks computed again from their inputs by hand."""
    for what, more in (("logits whole", dict(pieces=1)), ("as it comes", {}), ("budget 0.8 of torch", dict(memory=0.8 * TORCH_PEAK)),
                       ("budget 0.6 of torch", dict(memory=0.6 * TORCH_PEAK)), ("budget 0.4 of torch", dict(memory=0.4 * TORCH_PEAK)),
                       ("blocks from their inputs", dict(remat=2))):
        row = weft_time(f"GPT-2 124M b32x1024, {what}", "gpt", "bf16", {**GPT2, **more}, runs=10)
        if row:
            total = row["temporary_bytes"] + row["state_bytes"] + row["constant_bytes"]
            print(f"train RESULT memory, {what}: {row['device_ms']:.3f} ms, {total / 1e6:.0f} MB, {total / TORCH_PEAK:.2f} of torch.compile's peak")


def vit_beside(name, settings):
    def inputs():
        import torch
        batch, side = settings["batch"], settings["side"]
        return [torch.randn(batch, 3, side, side, device="cuda"), torch.randint(settings["classes"], (batch,), device="cuda")]

    beside(name, "vit", vit, settings, inputs, "images", settings["batch"], again=False)


def vit_part():
    vit_beside("ViT-B/16 b128", VIT)


def vit_large():
    vit_beside("ViT-L/16 b64", VIT_LARGE)


def vit_tiny():
    vit_beside("ViT-Ti/16 b256", VIT_TINY)


def pinn():
    """Burgers' equation, tangents nested twice; PyTorch as a captured graph of forward, backward and Adam."""
    import torch
    before = weft_time("PINN 200 points", "pinn", "f32", PINN, runs=200)
    torch.manual_seed(0)
    width, layers, n = PINN["width"], PINN["layers"], PINN["batch"]
    sizes = [2] + [width] * layers + [1]
    weights = []
    for i, o in zip(sizes, sizes[1:]):
        weights += [(torch.randn(o, i, device="cuda") * math.sqrt(2 / (i + o))).requires_grad_(), torch.zeros(o, device="cuda", requires_grad=True)]

    def network(x, t):
        h = torch.cat([x, t], 1)
        for i in range(0, len(weights), 2):
            h = torch.nn.functional.linear(h, weights[i], weights[i + 1])
            h = torch.tanh(h) if i + 2 < len(weights) else h
        return h

    x, t = torch.rand(n, 1, device="cuda") * 2 - 1, torch.rand(n, 1, device="cuda")
    x.requires_grad_(), t.requires_grad_()
    bx, bt, bu = (torch.rand(n // 4, 1, device="cuda") for _ in range(3))

    def loss_of():
        u = network(x, t)
        u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        return ((u_t + u * u_x - 0.01 / math.pi * u_xx) ** 2).mean() + ((network(bx, bt) - bu) ** 2).mean()

    optimizer = torch.optim.Adam(weights, 1e-3, fused=True, capturable=True)

    def step():
        gradients = torch.autograd.grad(loss_of(), weights)
        for w, g in zip(weights, gradients):
            w.grad = g
        optimizer.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(200):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    torch_ms = sorted(times)[100]
    print(f"train torch PINN 200 points: {torch_ms:.4f} ms as a captured graph")
    apart = weft_time("PINN 200 points, launches apart", "pinn", "f32", PINN, runs=200, apart=1)
    after = weft_time("PINN 200 points", "pinn", "f32", PINN, runs=200)
    rows = [r for r in (before, after) if r]
    if rows:
        ms = min(r["device_ms"] for r in rows)
        print(f"train RESULT PINN 200 points: Weft {ms:.4f} ms on the device, {min(r['round_trip_ms'] for r in rows):.4f} round trip, torch's captured graph {torch_ms:.4f}: {torch_ms / ms:.2f} of its rate")
        if apart:
            print(f"train RESULT PINN 200 points: {rows[0]['launches']} launches for {apart['launches']} apart, {apart['device_ms']:.4f} ms: {apart['device_ms'] / ms:.2f}")
    weft("pinn", "profile", "f32", PINN)


def learn():
    """5000 steps, evaluated on 20 batches of the text held back; the curve goes to FOLDER/learn/metrics.csv."""
    folder = os.path.join(FOLDER, "learn")
    os.makedirs(folder, exist_ok=True)
    weft("gpt", "train", "bf16", CHAR, text=TEXT, steps=LEARN["steps"], evaluate_every=LEARN["every"], evaluation_batches=LEARN["batches"], folder=folder)


def learn_torch():
    """What learn does, by torch.compile: schedule, initial values, evaluated pieces and metrics.csv are the same; the random
    pieces and what dropout takes are others."""
    import torch
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    context, batch, steps, warmup, rate = CHAR["context"], CHAR["batch"], LEARN["steps"], LEARN["warmup"], LEARN["rate"]
    data = pathlib.Path(TEXT).read_bytes()
    number = {c: i for i, c in enumerate(sorted(set(data)))}
    tokens = torch.tensor([number[c] for c in data], device="cuda")
    split = len(tokens) * 9 // 10
    trained, held = tokens[:split], tokens[split:]
    places = len(held) - context  # where a piece may start; pieces as Weft's corpus takes them in order: from the front again behind the last
    whole = -(-places // context)
    offsets = torch.arange(context, device="cuda")
    begin = time.perf_counter()
    network = gpt(**CHAR)
    compiled, optimizer = torch.compile(network), adamw(network)

    def pieces(text, starts):
        at = starts[:, None] + offsets
        return text[at], text[at + 1]

    def random_pieces():
        return pieces(trained, torch.randint(len(trained) - context, (batch,), device="cuda"))

    @torch.no_grad()
    def evaluate():
        network.eval()
        total = 0.0
        for i in range(LEARN["batches"]):
            starts = (torch.arange(i * batch, (i + 1) * batch, device="cuda") % whole * context).clamp(max=places - 1)
            with torch.autocast("cuda", torch.bfloat16):
                total += network(*pieces(held, starts)).item()
        network.train()
        return total / LEARN["batches"]

    folder = os.path.join(FOLDER, "learn-torch")
    os.makedirs(folder, exist_ok=True)
    best, first = (math.inf, 0), 0.0
    with open(os.path.join(folder, "metrics.csv"), "w", newline="") as f:
        rows = csv.writer(f, lineterminator="\n")
        rows.writerow(["step", "loss", "validation"])
        for step in range(1, steps + 1):
            share = (step - 1 - warmup) / (steps - warmup)
            now = rate / 100 + 0.99 * rate * (step - 1) / warmup if step <= warmup else rate / 10 + 0.9 * rate * (1 + math.cos(math.pi * share)) / 2
            for group in optimizer.param_groups:
                group["lr"] = now
            with torch.autocast("cuda", torch.bfloat16):
                loss = compiled(*random_pieces())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if step == 1:
                loss.item()
                first = time.perf_counter() - begin
            validation = ""
            if step % LEARN["every"] == 0:
                value = evaluate()
                best = min(best, (value, step))
                validation = f"{value:.4f}"
                print(f"train torch step {step} loss {loss.item():.4f} validation {value:.4f} {time.perf_counter() - begin:.1f} s", flush=True)
            if step % 10 == 0:
                rows.writerow([step, f"{loss.item():.4f}", validation])
    print(f"train RESULT learn-torch: {steps} steps in {time.perf_counter() - begin - first:.1f} s, evaluations with them, after {first:.1f} s to the first step; "
          f"best validation {best[0]:.4f} after {best[1]} steps, last {value:.4f}")


PARTS = {"check": check, "char": char, "gpt2": gpt2, "memory": memory, "vit": vit_part, "vit-large": vit_large, "vit-tiny": vit_tiny, "pinn": pinn, "learn": learn, "learn-torch": learn_torch, "hunt": hunt}
PARTS[PART]()
print(f"train part {PART}: {failed} failed")
sys.exit(1 if failed else 0)
