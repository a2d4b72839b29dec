"""Cosine and sine of rotary embeddings, in f64, written out as the papers have them: wavelengths, not frequencies.

Tensors: positions i64 [P]; CASE/cosine and CASE/sine [P, 32] for heads of 64, base 10000, factor 4, original context 2048:
plain (Su et al. 2021), linear (Chen et al. 2023), ntk, yarn (Peng et al. 2023, sections 3.1, 3.2 and 3.4), by_pair (the ramp
of the authors' code, github.com/jquesnelle/yarn), attention (yarn with 1.5 instead of 0.1 ln 4 + 1).
"""
import math

import numpy

import common

D, BASE, S, L, SLOW, FAST = 64, 10000.0, 4.0, 2048, 1.0, 32.0
positions = numpy.array([0, 1, 2, 77, 2047, 8191])
pair = numpy.arange(D // 2)


def wavelengths(base):
    return 2 * math.pi * base ** (2 * pair / D)


def mixed(keep):
    """Wavelengths with this share of each frequency kept and the rest divided by S."""
    plain = wavelengths(BASE)
    return 1 / ((1 - keep) / (S * plain) + keep / plain)


def ratio_ramp():
    ratio = L / wavelengths(BASE)
    return numpy.where(ratio < SLOW, 0, numpy.where(ratio > FAST, 1, (ratio - SLOW) / (FAST - SLOW)))


def pair_ramp():
    def pair_of(turns):
        return D * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(BASE))
    low, high = max(math.floor(pair_of(FAST)), 0), min(math.ceil(pair_of(SLOW)), D - 1)
    return 1 - numpy.clip((pair - low) / (high - low), 0, 1)


warm = 0.1 * math.log(S) + 1
cases = {"plain": (wavelengths(BASE), 1), "linear": (S * wavelengths(BASE), 1), "ntk": (wavelengths(BASE * S ** (D / (D - 2))), 1),
         "yarn": (mixed(ratio_ramp()), warm), "by_pair": (mixed(pair_ramp()), warm), "attention": (mixed(ratio_ramp()), 1.5)}
out = {"positions": positions}
for name, (wavelength, scale) in cases.items():
    angle = 2 * math.pi * positions[:, None] / wavelength
    out[f"{name}/cosine"], out[f"{name}/sine"] = scale * numpy.cos(angle), scale * numpy.sin(angle)
common.write("positions.safetensors", out)
