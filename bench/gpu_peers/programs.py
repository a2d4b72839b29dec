"""Whole programs of bench/gpu_programs.c: an optimizer's step, a language model's head, a loop."""
import math
import torch
import torch.nn.functional as F
from library import Step
from measure import copy_rate, failures, record, rounds, verdict

def gpt_shapes(layers, width, vocabulary, positions):
    shapes = {"wte": (vocabulary, width), "wpe": (positions, width)}
    for i in range(layers):
        for name, shape in (("norm1.weight", (width,)), ("norm1.bias", (width,)), ("qkv.weight", (3 * width, width)), ("qkv.bias", (3 * width,)), ("proj.weight", (width, width)),
                            ("proj.bias", (width,)), ("norm2.weight", (width,)), ("norm2.bias", (width,)), ("fc1.weight", (4 * width, width)), ("fc1.bias", (4 * width,)),
                            ("fc2.weight", (width, 4 * width)), ("fc2.bias", (width,))):
            shapes[f"h{i}.{name}"] = shape
    shapes.update({"norm.weight": (width,), "norm.bias": (width,)})
    return shapes


def adamw_pair(numbers):
    """Both sides with the same random parameters and gradients."""
    step, shapes = Step("adamw", numbers), gpt_shapes(*numbers)
    tensors = {}
    for name, shape in shapes.items():
        tensors[name] = torch.nn.Parameter(torch.randn(shape, device="cuda") * 0.02)
        tensors[name].grad = torch.randn(shape, device="cuda") * 1e-3
        step.write(name, tensors[name])
        step.write(name + "/g", tensors[name].grad)
    groups = [{"params": [t for t in tensors.values() if t.dim() == 2], "weight_decay": 0.1}, {"params": [t for t in tensors.values() if t.dim() == 1], "weight_decay": 0.0}]
    return step, tensors, groups


def on_a_stream(part):
    """Programs of Weft and PyTorch's work one behind the other on a stream of their own."""
    def run():
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            part()
            torch.cuda.synchronize()
    return run


@on_a_stream
def part_adamw():
    """The update alone, device time of one call; 28 bytes a parameter: gradient, value and two moments read, three written."""
    torch.manual_seed(5)
    step, tensors, groups = adamw_pair((2, 128, 1000, 64))
    peer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, fused=True)
    for _ in range(3):
        step()
        peer.step()
    for name, tensor in tensors.items():
        verdict(f"adamw {name}", step.read(name, tensor), tensor.detach().cpu(), 1e-5)
    step.release()
    for label, numbers in (("GPT-2 124M", (12, 768, 50304, 1024)), ("GPT 8 layers of 256", (8, 256, 256, 256))):
        step, tensors, groups = adamw_pair(numbers)
        peers = {f"torch {name}": torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, capturable=True, **way)
                 for name, way in (("fused", {"fused": True}), ("foreach", {"foreach": True}))}
        graphs = {}
        for name, peer in peers.items():
            for _ in range(3):
                peer.step()
            torch.cuda.synchronize()
            graphs[name + " graph"] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name + " graph"]):
                peer.step()
        moved = 28 * sum(t.numel() for t in tensors.values())
        for _ in range(3):
            step()
        ours, own = [], {"torch fused": peers["torch fused"].step, **{name: graph.replay for name, graph in graphs.items()}}
        times = rounds({"weft": lambda: ours.append(step()), **own})
        times["weft"] = sorted(ours[3:])[len(ours[3:]) // 2]  # of the device, by its own events
        share = moved / times["weft"] / copy_rate()
        record("adamw", label, lambda t: moved / t * 1e-9, times, f"{step.launches()} launches for {len(tensors)} tensors, {100 * share:.0f} % of copy", {"unit": "GB/s", "share_of_copy": share, "compile_s": step.compile_seconds})
        step.release()
        del tensors, groups, peers, graphs, own
        torch.cuda.empty_cache()


def head_torch(x, w, labels):
    loss = F.cross_entropy(F.linear(x, w).float(), labels)
    return (loss, *torch.autograd.grad(loss, (x, w)))


@on_a_stream
def part_head():
    """Head and cross-entropy of a language model, forward and both gradients: whole logits and pieces of them, beside torch."""
    torch.manual_seed(6)
    for numbers in ((301, 200, 1000), (8192, 768, 50304)):
        n, d, c = numbers
        large = n == 8192
        x = torch.randn(n, d, device="cuda").bfloat16().requires_grad_()
        w = (torch.randn(c, d, device="cuda") / math.sqrt(d)).bfloat16().requires_grad_()
        labels = torch.randint(c, (n,), device="cuda")
        want = head_torch(x.detach().double().requires_grad_(), w.detach().double().requires_grad_(), labels) if not large else head_torch(x, w, labels)
        steps, times, notes = {}, {}, []
        for label, pieces in (("whole", -1), ("pieces", 0), ("2 pieces", 2), ("8 pieces", 8)):
            try:
                step = steps[label] = Step("head", (*numbers, pieces))
            except RuntimeError as problem:
                failures.append(f"head {numbers} {label}: {problem}")
                continue
            for name, tensor in (("x", x), ("w", w), ("labels", labels)):
                step.write(name, tensor)
            own = sorted(step() for _ in range(18 if large else 2))
            times["weft " + label] = own[len(own) // 2]
            notes.append(f"{label}: {step.launches()} launches, {step.planned_bytes() / 1e6:.0f} MB")
            verdict(f"head {numbers} {label} loss", torch.tensor(step.output()), want[0].detach().cpu(), 2e-3)
            for name, slope in (("x/g", want[1]), ("w/g", want[2])):
                verdict(f"head {numbers} {label} {name}", step.read(name, slope.bfloat16()), slope.detach().cpu(), 2e-2)
            step.release()
        del want
        if not large:
            continue
        compiled = torch.compile(head_torch)
        peers = {"torch": lambda: head_torch(x, w, labels), "torch.compile": lambda: compiled(x, w, labels)}
        for name, run in peers.items():
            run()
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run()
            torch.cuda.synchronize()
            notes.append(f"{name}: {(torch.cuda.max_memory_allocated() - before) / 1e6:.0f} MB")
        times.update(rounds(peers, 9, 2))
        record("head", "x".join(map(str, numbers)), lambda t: 6 * n * d * c / t * 1e-12, times, "; ".join(notes), {"unit": "TFLOP/s"})


@on_a_stream
def part_loop():
    """1000 trips whose condition is a value on the device: in one graph, by a host that looks after each trip, and PyTorch doing the latter."""
    torch.manual_seed(8)
    trips = torch.tensor(1000)
    for width in (64, 512):
        x, w = torch.randn(width, width), torch.randn(width, width) / math.sqrt(width) * 1.05
        steps = {"weft graph": Step("loop", (1000, width, 0)), "weft host": Step("loop", (1000, width, 1))}
        for step in steps.values():
            for name, tensor in (("x", x), ("w", w), ("trips", trips)):
                step.write(name, tensor)
        place, weights, count, limit = x.cuda(), w.cuda(), torch.zeros((), dtype=torch.int64, device="cuda"), trips.cuda()
        go = torch.ones((), dtype=torch.bool, device="cuda")

        def trip():
            place.copy_(torch.tanh(place @ weights))
            count.add_(1)
            go.copy_(count < limit)
        trip()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            trip()

        def loop(once):
            place.copy_(x)
            count.zero_()
            once()
            while go.item():
                once()
        times = {}
        for name, step in steps.items():
            own = sorted(step() for _ in range(7))
            times[name] = own[len(own) // 2]
        loop(trip)
        for name, step in steps.items():
            verdict(f"loop {width} {name}", step.read("y", x), place.cpu(), 1e-3)
        if not torch.equal(steps["weft graph"].read("y", x), steps["weft host"].read("y", x)):
            failures.append(f"loop {width}: the graph's loop and the host's give different bits")
        times.update(rounds({"torch": lambda: loop(trip), "torch graph a trip": lambda: loop(graph.replay)}, 3, 1))
        record("loop", f"1000 trips of {width}x{width}", lambda t: t * 1e3, times, f"{times['weft graph'] * 1e3:.2f} us a trip in the graph, {times['weft host'] * 1e3:.2f} by the host", {"unit": "ms"})
        for step in steps.values():
            step.release()
    for width in (64, 512):  # a count that programs know: both sides are one graph
        x, w = torch.randn(width, width), torch.randn(width, width) / math.sqrt(width)
        step, place, weights, y = Step("scan", (64, width)), x.cuda(), w.cuda(), torch.empty_like(x.cuda())
        step.write("x", x)
        step.write("w", w)

        def scan():
            h = place
            for _ in range(64):
                h = torch.tanh(h @ weights)
            y.copy_(h)
        scan()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            scan()
        compiled = torch.compile(scan)
        compiled()
        own = sorted(step() for _ in range(12))
        times = {"weft": own[len(own) // 2], **rounds({"torch": scan, "torch.compile": compiled, "torch graph": graph.replay}, 9, 2)}
        verdict(f"scan {width}", step.read("y", x), y.cpu(), 1e-3)
        record("loop", f"scan, 64 trips of {width}x{width}", lambda t: t * 1e3, times, f"{times['weft'] / 64 * 1e6:.2f} us a trip", {"unit": "ms"})
        step.release()
