"""How everything here is measured and judged: rounds of candidates, verdicts on results, the record that becomes the JSON file.

Both sides run in this process, on PyTorch's stream, on the same random tensors. Timing is by rounds: every round runs each
candidate once behind a flush of the L2 cache and a device sleep that lets the host run ahead, so that all candidates see
the same clocks and none is charged for its launch; the median counts. Read next: products.py."""
import functools, re
import torch
from library import Kernel, Missing

failures, tested, results = [], 0, []
flush = read_back = measured_copy = None


def rounds(candidates, count=15, warm=3, sleep=2000000, clean=False):
    """Median seconds of each candidate. The flush leaves the L2 full of written lines, which the card writes back while
    the candidate runs; a candidate that writes leaves as many behind. One that only reads does not: with `clean` the
    flush is read once more, so that it pays for its own traffic only."""
    global flush, read_back
    if flush is None:
        flush = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
        read_back = torch.empty((), dtype=torch.float32, device="cuda")
    times = {name: [] for name in candidates}
    for i in range(count + warm):
        for name, run in candidates.items():
            torch.cuda._sleep(sleep)
            flush.zero_()
            if clean:
                torch.sum(flush.view(torch.float32), (0,), out=read_back)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            torch.cuda.synchronize()
            if i >= warm:
                times[name].append(start.elapsed_time(end) * 1e-3)
    return {name: sorted(t)[len(t) // 2] for name, t in times.items()}


def verdict(label, out, want, limit):
    global tested
    tested += 1
    error = ((out.double() - want.double()).norm() / (want.double().norm() + 1e-30)).item()
    if not error <= limit:
        failures.append(f"{label}: relative error {error:.3e} > {limit:.1e}")
    return error


def check(label, name, numbers, inputs, out, want, limit, choice=0):
    """Twice on poisoned outputs: right, and the same bits."""
    try:
        kernel = Kernel(name, numbers, choice)
    except Missing as reason:
        print(f"  {label}: not run: {reason}")
        if choice and " proposes " in str(reason):
            return  # fewer schedules than the part would try
        failures.append(f"{label}: {reason}")
        return
    kernel(inputs, [out])
    torch.cuda.synchronize()
    first = out.clone()
    out.fill_(float("nan"))
    kernel(inputs, [out])
    torch.cuda.synchronize()
    same = torch.equal(first.view(torch.uint8), out.view(torch.uint8))
    error = verdict(label, out, want(), limit)
    if not same:
        failures.append(f"{label}: two runs differ")
    print(f"  {label}: error {error:.2e}, bits {'equal' if same else 'DIFFER'} [{kernel.text}]", flush=True)
    kernel.release()


def record(part, label, unit_of, times, text, extra=None):
    """unit_of(seconds) -> figure; ratio: the best peer's time over Weft's."""
    peers = {name: t for name, t in times.items() if not name.startswith("weft")}
    ours = min(t for name, t in times.items() if name.startswith("weft"))
    best = min(peers.values()) if peers else None
    row = {"part": part, "case": label, "weft_us": ours * 1e6, "figure": unit_of(ours), "ratio": best / ours if best else None,
           "all_us": {k: v * 1e6 for k, v in times.items()}, "text": text}
    row.update(extra or {})
    results.append(row)
    peers_text = ", ".join(f"{k} {v * 1e6:.1f}" for k, v in sorted(times.items(), key=lambda x: x[1]))
    print(f"{part} {label}: {row['figure']:.1f} ({ours * 1e6:.1f} us), ratio {row['ratio'] or 0:.3f} | {peers_text} [{text}]", flush=True)


def brief(text):
    """Of a kernel's text: what its schedules differ in."""
    fields = dict(re.findall(r"(\w+)=(\d+)", text.split(";")[0]))
    return f"{fields.get('tile_m')}x{fields.get('tile_n')}" + "".join(f" {x} {fields[x]}" for x in ("stages", "cluster", "split", "even", "join", "tail", "way") if fields.get(x, "1") != "1") + (" turns" if "turns" in fields else "")


def best_choice(name, numbers, inputs, out, limit, clean=False, ways=()):
    """Builders rank their schedules; here the first few are measured and all are reported, and the first one in other ways."""
    kernels = {}
    for choice in range(limit):
        try:
            kernels[choice] = Kernel(name, numbers, choice)
        except Missing as reason:
            if choice == 0:
                raise
            break
    kernels |= {1000 * way: Kernel(name, numbers, 1000 * way) for way in ways}
    times = rounds({c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}, 5, 2, clean=clean)
    best = min(times, key=times.get)
    if times[best] < 3e-5:  # short ones vary by more than they differ
        times = rounds({c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}, 25, 2, clean=clean)
        best = min(times, key=times.get)
    note = ", ".join(f"{c} ({brief(kernels[c].text)}): {t * 1e6:.1f}" for c, t in times.items())
    for choice, kernel in kernels.items():
        if choice != best:
            kernel.release()
    return kernels[best], f"schedule {best} of {len(times)} ({note})"


def guarded(time_case):
    """A case that breaks is a failure by itself; only a fault of the device ends the part."""
    @functools.wraps(time_case)
    def run(part, *numbers, **options):
        try:
            time_case(part, *numbers, **options)
        except Exception as problem:
            if "CUDA" in str(problem):
                raise
            failures.append(f"{part} {numbers}: {type(problem).__name__}: {problem}")
            print(f"{part} {numbers} broke: {problem}", flush=True)
            torch.cuda.empty_cache()
    return run


def copy_rate():
    """Bytes per second of PyTorch's device copy, 1 GiB each way, in this run."""
    global measured_copy
    if measured_copy is None:
        a, b = torch.empty(2**28, device="cuda").normal_(), torch.empty(2**28, device="cuda")
        measured_copy = 2 * a.numel() * 4 / rounds({"copy": lambda: b.copy_(a)})["copy"]
        print(f"copy: {measured_copy * 1e-12:.2f} TB/s", flush=True)
    return measured_copy


def time_bandwidth(part, label, name, numbers, inputs, out, bytes_moved, reference, peers, limit, choices=6):
    """Every schedule that the builder proposes; its first choice is what counts, the others are shown beside it. What only
    reads is timed behind a flush that was read again; the time behind a written one stands in the notes."""
    kernels = {}
    for choice in range(choices):
        try:
            kernels[choice] = Kernel(name, numbers, choice)
        except Missing as reason:
            if choice == 0:
                print(f"{part} {label}: not run: {reason}", flush=True)
                results.append({"part": part, "case": label, "missing": str(reason)})
                return
            break
    reads = out.numel() * out.element_size() * 20 < bytes_moved
    own = {c: (lambda k=k: k(inputs, [out])) for c, k in kernels.items()}
    notes, errors, want = [], [], reference()
    for choice, run in own.items():
        out.fill_(float("nan"))
        run()
        errors.append(verdict(f"{part} {label} schedule {choice}", out, want, limit))
    del want
    for _ in range(40):  # clocks fall while kernels are compiled and rise again under load: what computes would be slower at first
        for run in own.values():
            run()
    times = rounds({"weft": own[0], **{f"schedule {c}": run for c, run in own.items() if c}, **peers}, clean=reads)
    for c in list(own)[1:]:
        seconds = times.pop(f"schedule {c}")
        notes.append(f"schedule {c}: {seconds * 1e6:.1f} us {100 * bytes_moved / seconds / copy_rate():.0f} % of copy [{kernels[c].text}]")
    share = bytes_moved / times["weft"] / copy_rate()
    notes.append(f"{100 * share:.0f} % of copy")
    if reads:
        written = rounds({"weft": own[0]})["weft"]
        notes.append(f"behind written lines {written * 1e6:.1f} us, {100 * bytes_moved / written / copy_rate():.0f} %")
    record(part, label, lambda s: bytes_moved / s * 1e-9, times, kernels[0].text + "; " + "; ".join(notes),
           {"unit": "GB/s", "error": errors[0], "compile_s": kernels[0].compile_seconds, "share_of_copy": share})
    for kernel in kernels.values():
        kernel.release()
