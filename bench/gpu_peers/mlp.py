"""Small perceptrons, all layers in one kernel."""
import math
import torch
import torch.nn.functional as F
from library import Kernel
from measure import check, record, rounds, verdict

MLP = [(200, 2, 64, 5), (4096, 2, 64, 5), (65536, 3, 128, 4)]


def mlp_tensors(rows, inputs, width, layers):
    tensors = [torch.randn(rows, inputs, device="cuda")]
    for i in range(layers):
        k, n = inputs if i == 0 else width, 1 if i == layers - 1 else width
        tensors += [torch.randn(n, k, device="cuda") / math.sqrt(k), torch.randn(n, device="cuda") * 0.1]
    return tensors, torch.full((rows, 1), float("nan"), device="cuda")


def mlp_torch(x, *weights):
    for i in range(0, len(weights), 2):
        x = F.linear(x, weights[i], weights[i + 1])
        x = torch.tanh(x) if i + 2 < len(weights) else x
    return x


def test_mlp():
    for numbers in ((200, 2, 64, 5), (1, 3, 7, 2), (129, 5, 33, 4), (100001, 3, 128, 3), (4097, 2, 256, 2)):
        inputs, out = mlp_tensors(*numbers)
        check(f"mlp {numbers}", "mlp", numbers, inputs, out, lambda: mlp_torch(*[x.double() for x in inputs]), 1e-5)


def part_mlp():
    """Small networks, all layers in one kernel, beside torch.compile with CUDA graphs and one captured by hand."""
    test_mlp()
    for numbers in MLP:
        inputs, out = mlp_tensors(*numbers)
        kernel = Kernel("mlp", numbers)
        compiled = torch.compile(mlp_torch)
        peers = {"torch": lambda: mlp_torch(*inputs), "torch.compile": lambda: compiled(*inputs)}
        for name, run in list(peers.items()):
            run()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            peers[name + " graph"] = graph.replay
        times = rounds({"weft": lambda: kernel(inputs, [out]), **peers})
        error = verdict(f"mlp {numbers}", out, mlp_torch(*[x.double() for x in inputs]), 1e-5)
        rows, width, layers = numbers[0], numbers[2], numbers[3]
        flops = 2 * rows * (numbers[1] * width + (layers - 2) * width * width + width)
        record("mlp", "x".join(map(str, numbers)), lambda t: flops / t * 1e-12, times, kernel.text, {"unit": "TFLOP/s", "error": error, "compile_s": kernel.compile_seconds})
        kernel.release()
