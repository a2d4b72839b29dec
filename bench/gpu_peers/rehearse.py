"""Every part without a card: tensors without contents (PyTorch's meta device), kernels that do nothing, times of one second.
It finds what a misspelt name, a wrong shape or a wrong argument would cost on a borrowed card; it says nothing of numbers."""
import sys
import types
from unittest import mock
import torch
from torch.overrides import TorchFunctionMode


class Elsewhere(TorchFunctionMode):
    """What is asked for on "cuda" comes on "meta"."""

    def __torch_function__(self, function, kinds, arguments=(), options=None):
        options = dict(options or {})
        if options.get("device") == "cuda":
            options["device"] = "meta"
        name = getattr(function, "__name__", "")
        if name == "item":
            return 0.0
        if name in ("equal",):
            return arguments[0].shape == arguments[1].shape
        if name in ("cpu", "cuda"):
            return arguments[0]
        return function(*arguments, **options)


class Idle:
    """A kernel or a program of any name: checks that what it is called with are tensors."""
    text, compile_seconds = "idle{tile_m=1,tile_n=1}; nothing", 0.0

    def __init__(self, name, numbers, choice=0, batch_invariant=False):
        assert isinstance(name, str) and all(isinstance(n, int) for n in numbers), (name, numbers)

    def __call__(self, inputs=(), outputs=()):
        assert all(isinstance(t, torch.Tensor) for t in (*inputs, *outputs))
        return 1.0

    def write(self, name, tensor):
        assert isinstance(tensor, torch.Tensor)

    def read(self, name, like):
        return torch.empty_like(like)

    planned_bytes = launches = output = lambda self: 1
    release = lambda self: None


def rehearse(parts, find_part):
    import library
    import measure
    library.Kernel = library.Step = Idle  # before the files of the parts take them
    measure.Kernel = Idle
    nothing = mock.MagicMock()
    nothing.Event.return_value.elapsed_time.return_value = 1000.0
    nothing.memory_allocated.return_value = nothing.max_memory_allocated.return_value = 0
    nothing.is_current_stream_capturing.return_value = False
    nothing.current_stream.return_value = types.SimpleNamespace(cuda_stream=0)
    with Elsewhere(), mock.patch.object(torch.optim, "AdamW"), mock.patch.object(torch, "cuda", nothing), mock.patch.object(torch, "compile", lambda run, **_: run), \
            mock.patch.object(torch.backends.cuda, "preferred_blas_library", lambda name: None):
        for part in parts:
            print(f"== {part}", flush=True)
            try:
                find_part(part)()
            except Exception as problem:
                measure.failures.append(f"part {part}: {type(problem).__name__}: {problem}")
    for failure in measure.failures:
        print("  FAILED", failure)
    print(f"rehearsal: {len(parts)} parts, {len(measure.results)} records, {len(measure.failures)} failed")
    sys.stdout.flush()
    return 1 if measure.failures else 0
