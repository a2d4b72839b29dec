"""Weft behind ctypes: bench/gpu_kernels.c (one kernel) and bench/gpu_programs.c (a program with states). Nothing here knows what
is measured. Read next: measure.py."""
import ctypes, time
import torch

DTYPES = {0: torch.bfloat16, 1: torch.float16, 2: torch.float32, 3: torch.float8_e4m3fn, 4: torch.float8_e5m2, 5: torch.float8_e5m2, 6: torch.float8_e4m3fn}
SECOND = {5: torch.float8_e4m3fn, 6: torch.float8_e5m2}  # dtypes of B that are not A's
PORTABLE = 16  # added to a dtype: without what only Hopper has, so that mma.sync runs
RELAXED = 8  # added to a dtype: tf32 operands, sums of 8-bit products that stay in the matrix unit
library = None


def load(path):
    """libweft_bench.so, once, before anything else here."""
    global library
    library = ctypes.CDLL(path)
    number, handle, text = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
    for name, result, *arguments in (
            ("error", text), ("text", text, handle), ("compile_seconds", ctypes.c_double, handle), ("release", None, handle),
            ("run", number, handle, number, handle, number, handle, handle), ("set_batch_invariant", None, number), ("step_error", text), ("step_create", number, text, text, handle, handle),
            ("step_write", number, handle, text, handle, number, number, handle), ("step_read", number, handle, text, handle, ctypes.c_int64),
            ("step_run", number, handle, handle, handle), ("step_launches", number, handle), ("step_bytes", ctypes.c_int64, handle),
            ("step_output", ctypes.c_float, handle), ("step_release", None, handle)):
        function = getattr(library, "weft_bench_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class Missing(Exception):
    pass


class Kernel:
    """One case compiled by Weft; call it with the tensors of inputs and outputs."""

    def __init__(self, name, numbers, choice=0, batch_invariant=False):
        handle = ctypes.c_void_p()
        array = (ctypes.c_int64 * len(numbers))(*numbers)
        library.weft_bench_set_batch_invariant(int(batch_invariant))
        if library.weft_bench_create(name.encode(), len(numbers), array, choice, ctypes.byref(handle)):
            raise Missing(library.weft_bench_error().decode())
        self.handle = handle
        self.text = library.weft_bench_text(handle).decode()
        self.compile_seconds = library.weft_bench_compile_seconds(handle)

    def __call__(self, inputs, outputs):
        a = (ctypes.c_void_p * len(inputs))(*[t.data_ptr() for t in inputs])
        b = (ctypes.c_void_p * len(outputs))(*[t.data_ptr() for t in outputs])
        stream = torch.cuda.current_stream().cuda_stream
        if library.weft_bench_run(self.handle, len(inputs), a, len(outputs), b, stream):
            raise RuntimeError(library.weft_bench_error().decode())

    def release(self):
        library.weft_bench_release(self.handle)
        self.handle = None


class Step:
    """A program of gpu_programs.c; what it works on are its states."""

    def __init__(self, name, numbers):
        self.handle = ctypes.c_void_p()
        start = time.time()
        self.must(library.weft_bench_step_create(b"cuda:0", name.encode(), (ctypes.c_int64 * len(numbers))(*numbers), ctypes.byref(self.handle)))
        self.compile_seconds = time.time() - start

    def must(self, code):
        if code:
            raise RuntimeError(library.weft_bench_step_error().decode())

    def write(self, name, tensor):
        host = tensor.detach().cpu().contiguous()
        dtype = {torch.bfloat16: 0, torch.float32: 2, torch.int64: 3}[host.dtype]
        self.must(library.weft_bench_step_write(self.handle, name.encode(), host.data_ptr(), dtype, host.dim(), (ctypes.c_int64 * host.dim())(*host.shape)))

    def read(self, name, like):
        host = torch.empty(like.shape, dtype=like.dtype)
        self.must(library.weft_bench_step_read(self.handle, name.encode(), host.data_ptr(), host.numel() * host.element_size()))
        return host

    def __call__(self):
        """On the current stream, which is not the default one; waits for the result."""
        seconds = ctypes.c_double()
        self.must(library.weft_bench_step_run(self.handle, torch.cuda.current_stream().cuda_stream, ctypes.byref(seconds)))
        return seconds.value

    def planned_bytes(self):
        """Temporaries and constants; states are not counted."""
        return library.weft_bench_step_bytes(self.handle)

    def launches(self):
        return library.weft_bench_step_launches(self.handle)

    def output(self):
        return library.weft_bench_step_output(self.handle)

    def release(self):
        library.weft_bench_step_release(self.handle)
