"""Writes numpy_values.h: small random problems and numpy's answers. Run: python3 tests/interp/generate.py > tests/interp/numpy_values.h"""
import numpy as np

rng = np.random.default_rng(7)


def emit(name, x):
    x = np.asarray(x)
    if np.iscomplexobj(x):
        x = np.stack([x.real, x.imag], -1)
    body = ", ".join(repr(float(v)) for v in x.ravel())
    print(f"static const double {name}[] = {{{body}}};")


def convolve(x, w, stride, low, high, dilation, base, groups):
    n, c = x.shape[:2]
    holes = np.zeros((n, c) + tuple((s - 1) * b + 1 for s, b in zip(x.shape[2:], base)))
    holes[(slice(None), slice(None)) + tuple(slice(None, None, b) for b in base)] = x
    x = np.pad(holes, [(0, 0), (0, 0)] + list(zip(low, high)))
    o, cg, kh, kw = w.shape
    oh = (x.shape[2] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    ow = (x.shape[3] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    y = np.zeros((n, o, oh, ow))
    for oc in range(o):
        g = oc // (o // groups)
        for i in range(oh):
            for j in range(ow):
                patch = x[:, g * cg:(g + 1) * cg, i * stride[0]:i * stride[0] + (kh - 1) * dilation[0] + 1:dilation[0],
                          j * stride[1]:j * stride[1] + (kw - 1) * dilation[1] + 1:dilation[1]]
                y[:, oc, i, j] = (patch * w[oc]).sum((1, 2, 3))
    return y


def philox(key, low, high):
    c, k = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32], [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


print("/* Made by generate.py: problems and numpy's answers. */")
a, b = rng.normal(size=(2, 3, 5, 4)).round(3), rng.normal(size=(4, 2, 6, 3)).round(3)
emit("dot_a", a)
emit("dot_b", b)
emit("dot_y", np.einsum("abmk,kanb->abmn", a, b))
x, w = rng.normal(size=(2, 4, 5, 6)).round(3), rng.normal(size=(6, 2, 3, 2)).round(3)
emit("conv_x", x)
emit("conv_w", w)
for i, args in enumerate([((1, 1), (1, 0), (1, 1), (1, 1), (1, 1), 2), ((2, 1), (0, 2), (3, 0), (1, 2), (2, 3), 2)]):
    y = convolve(x, w, *args)
    print(f"static const int64_t conv_shape{i}[] = {{{', '.join(map(str, y.shape))}}};")
    emit(f"conv_y{i}", y)
for n in (1, 8, 12, 7):
    z = (rng.normal(size=n) + 1j * rng.normal(size=n)).round(3)
    emit(f"fft_x{n}", z)
    emit(f"fft_y{n}", np.fft.fft(z))
m = rng.normal(size=(4, 4)).round(3)
spd = m @ m.T + np.eye(4)
emit("spd", spd)
emit("cholesky_l", np.linalg.cholesky(spd))
emit("eigenvalues", np.linalg.eigvalsh(spd))
rhs = rng.normal(size=(4, 3)).round(3)
emit("rhs", rhs)
low = np.tril(m) + 3 * np.eye(4)
emit("triangle", low)
emit("solve_left", np.linalg.solve(low, rhs))
emit("solve_transposed", np.linalg.solve(low.T, rhs))
emit("solve_right", np.linalg.solve(low.T, rhs[:, :3]).T)  # x low = rhs^T
tall = rng.normal(size=(5, 3)).round(3)
q, r = np.linalg.qr(tall)
emit("tall", tall)
emit("tall_q", q)
emit("tall_r", r)
key = (0x299F31D0A4093822, 0x0370734413198A2E)
words = [philox(key[0], i, key[1]) for i in range(5)]
print("static const uint64_t philox_key[] = {" + ", ".join(f"{k:#x}u" for k in key) + "};")
print("static const uint64_t philox_u32[] = {" + ", ".join(f"{w[0]:#x}u" for w in words) + "};")
print("static const uint64_t philox_u64[] = {" + ", ".join(f"{w[0] | w[1] << 32:#x}u" for w in words) + "};")
print("static const uint32_t philox_words[] = {" + ", ".join(f"{x:#x}u" for w in words[:2] for x in w) + "};")
