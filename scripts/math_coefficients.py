#!/usr/bin/env python3
"""Derives the polynomial coefficients of codegen/kernel/math_*.c and writes codegen/kernel/math_coefficients.h.

Each fit is a least squares fit of the relative error on Chebyshev nodes in 60-digit arithmetic (within a factor of two of
the minimax polynomial), made once per coefficient: the lowest one is rounded to the target type and fixed, then the rest
is fitted again, so rounding errors of low coefficients are absorbed by higher ones. Needs mpmath. Usage: scripts/math_coefficients.py > codegen/kernel/math_coefficients.h
"""
import struct
import sys

from mpmath import mp, mpf

mp.dps = 420  # 2 / pi to 1280 bits; the fits need 60


def to_f32(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def nodes(lo, hi, count):
    mid, half = (mpf(lo) + hi) / 2, (mpf(hi) - lo) / 2
    return [mid + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def solve(rows, rhs):
    n = len(rows[0])
    a = mp.matrix(n, n)
    b = mp.matrix(n, 1)
    for row, r in zip(rows, rhs):
        for i in range(n):
            b[i] += row[i] * r
            for j in range(n):
                a[i, j] += row[i] * row[j]
    return list(mp.lu_solve(a, b))


def fit(f, weight, lo, hi, terms, rounding):
    """sum c_i t^i ~ f(t) with |error| * weight(t) small; returns rounded coefficients and the worst weighted error."""
    points = nodes(lo, hi, 4 * terms + 8)
    values = [f(t) for t in points]
    weights = [weight(t) for t in points]
    fixed = []
    while len(fixed) < terms:
        k = len(fixed)
        rows = [[w * t ** i for i in range(k, terms)] for t, w in zip(points, weights)]
        rhs = [w * (v - sum(c * t ** i for i, c in enumerate(fixed))) for t, w, v in zip(points, weights, values)]
        fixed.append(mpf(rounding(solve(rows, rhs)[0])))
    check = nodes(lo, hi, 301)
    worst = max(abs((sum(c * t ** i for i, c in enumerate(fixed)) - f(t)) * weight(t)) for t in check)
    return [float(c) for c in fixed], worst


def emit(name, coefficients, worst, what):
    print(f"/* {what}; error 2^{float(mp.log(worst, 2)):.1f} */")
    body = ", ".join(float(c).hex() for c in coefficients)
    print(f"static const double {name}[{len(coefficients)}] = {{{body}}};")


def until(bits, start, make):
    terms = start
    while True:
        c, worst = make(terms)
        if worst < mpf(2) ** -bits:
            return c, worst
        terms += 1
        if terms > start + 16:
            raise ValueError(f"no convergence: 2^{float(mp.log(worst, 2)):.1f}")


def series_guard(f, at_zero):
    return lambda t: at_zero if t == 0 else f(t)


def main():
    print("/* Coefficients of the polynomials in math_*.c, lowest power first; printed by scripts/math_coefficients.py.")
    print("   error: worst relative error of the whole function through this polynomial, before evaluation rounding. */")
    print("#ifndef WEFT_CODEGEN_KERNEL_MATH_COEFFICIENTS_H\n#define WEFT_CODEGEN_KERNEL_MATH_COEFFICIENTS_H\n\n#include <stdint.h>\n")
    two_over_pi_words()
    mp.dps = 60
    third = mpf("0.34660")
    root = mp.sqrt(2)
    z_log = ((root - 1) / (root + 1)) ** 2 * mpf("1.0001")
    quarter = (mp.pi / 4 * mpf("1.0001")) ** 2
    for suffix, rounding, bits in (("f32", to_f32, 27), ("f64", float, 56)):
        tiny = mpf(10) ** -45
        s = lambda z: mp.sqrt(z)
        emit(f"exp_{suffix}", *until(bits - 2, 3, lambda n: fit(lambda r: (mp.expm1(r) - r) / r ** 2, lambda r: abs(r ** 2 / mp.expm1(r)), -third, third, n, rounding)), "(expm1(r) - r) / r^2, |r| <= ln2 / 2")
        if suffix == "f32":
            emit("log_f32_polynomial", *until(bits, 5, lambda n: fit(lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, lambda f: abs(f ** 3 / mp.log1p(f)), 1 / root - 1, root - 1, n, rounding)), "(log1p(f) - f + f^2/2) / f^3, 1 + f in [sqrt(1/2), sqrt(2)]")
        atanh2 = lambda z: (mp.log((1 + s(z)) / (1 - s(z))) / s(z) - 2) / z
        emit(f"log_ratio_{suffix}", *until(bits + 2, 2, lambda n: fit(atanh2, lambda z: z / 2, tiny, z_log, n, rounding)), "(log((1+s)/(1-s))/s - 2) / z, z = s^2")
        tail = lambda z: (atanh2(z) - mpf(2) / 3) / z
        emit(f"log_tail_{suffix}", *until(bits + 12, 2, lambda n: fit(tail, lambda z: z * z / 2, mpf(10) ** -12, z_log, n, rounding)), "the same less 2/3, over z")
        emit(f"sin_{suffix}", *until(bits, 3, lambda n: fit(lambda z: (mp.sin(s(z)) / s(z) - 1) / z, lambda z: z * s(z) / mp.sin(s(z)), tiny, quarter, n, rounding)), "(sin(r)/r - 1) / z, z = r^2, |r| <= pi/4")
        emit(f"cos_{suffix}", *until(bits, 3, lambda n: fit(lambda z: (mp.cos(s(z)) - 1 + z / 2) / z ** 2, lambda z: z ** 2 / mp.cos(s(z)), mpf(10) ** -15, quarter, n, rounding)), "(cos(r) - 1 + z/2) / z^2")
        emit(f"asin_{suffix}", *until(bits, 4, lambda n: fit(lambda z: (mp.asin(s(z)) / s(z) - 1) / z, lambda z: z * s(z) / mp.asin(s(z)), tiny, mpf("0.25"), n, rounding)), "(asin(x)/x - 1) / z, z = x^2, |x| <= 1/2")
        emit(f"atan_{suffix}", *until(bits, 7 if suffix == "f32" else 18, lambda n: fit(lambda z: (mp.atan(s(z)) / s(z) - 1) / z, lambda z: z * s(z) / mp.atan(s(z)), tiny, mpf(1), n, rounding)), "(atan(x)/x - 1) / z, z = x^2, |x| <= 1")
    bend = lambda a: (-mp.log(mp.erfc(a)) / a - 2 / mp.sqrt(mp.pi)) / a
    emit("erf_bend_f32", *until(26, 6, lambda n: fit(bend, lambda a: a * a * mp.erfc(a) / mp.erf(a), mpf(10) ** -12, mpf("3.93"), n, to_f32)), "(-log(erfc(x)) / x - 2 / sqrt(pi)) / x, 0 <= x <= 3.93")
    emit("erf_f64", *until(56, 11, lambda n: fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), mpf(10) ** -20, mpf(1), n, float)), "erf(x)/x in z = x^2, |x| <= 1")
    c = mpf(2)
    lo, hi = (1 - c) / (1 + c), (6 - c) / (6 + c)
    x_of = lambda t: c * (1 + t) / (1 - t)
    erfcx = lambda t: mp.erfc(x_of(t)) * mp.exp(x_of(t) ** 2)
    emit("erfcx_f64", *until(54, 14, lambda n: fit(erfcx, lambda t: 1 / erfcx(t), lo, hi, n, float)), "erfcx(x) in t = (x - 2) / (x + 2), 1 <= x <= 6")
    print("\n#endif")


def two_over_pi_words():
    words = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * 20)))
    print("/* 2 / pi, 64 bits a word, after one word of zeros */")
    body = ", ".join(["0"] + [f"0x{words >> (64 * (19 - i)) & (2 ** 64 - 1):016x}" for i in range(20)])
    print(f"static const uint64_t two_over_pi[21] = {{{body}}};")


if __name__ == "__main__":
    sys.exit(main())
