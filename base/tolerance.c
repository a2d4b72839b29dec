/* The tolerance table. GPUs differ from CPUs in elementary functions only. */
#include "base/tolerance.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

typedef struct row {
    weft_tolerance cpu, gpu;
} row;

/* Of f32 and f64. Types that round once from f32 stay within one unit of their own: narrow below. */
static const row table[WEFT_TOLERANCE_CLASS_COUNT] = {
    [WEFT_TOLERANCE_EXACT] = {{0, 0, 0}, {0, 0, 0}},    [WEFT_TOLERANCE_ARITHMETIC] = {{0.5, 0, 0}, {1, 0, 0}},
    [WEFT_TOLERANCE_FUNCTION] = {{4, 0, 0}, {6, 0, 0}}, [WEFT_TOLERANCE_SUM] = {{1, 1, 0}, {1, 1, 0}},
    [WEFT_TOLERANCE_CHAIN] = {{16, 1, 0}, {24, 1, 0}},  [WEFT_TOLERANCE_GRAPH] = {{2048, 0, 1}, {2048, 0, 1}},
};

weft_tolerance weft_tolerance_get(weft_tolerance_class class, weft_dtype dtype, const char *target) {
    weft_tolerance tolerance = strcmp(target, "cpu") ? table[class].gpu : table[class].cpu;
    bool narrow = weft_dtype_is_float(dtype) && weft_dtype_bits(dtype) < 32;
    if (!narrow) return tolerance;
    if (class == WEFT_TOLERANCE_CHAIN)
        tolerance.ulp = 4;
    else if (class == WEFT_TOLERANCE_GRAPH)
        tolerance.ulp = weft_dtype_bits(dtype) == 16 ? 16 : 4;
    else if (class != WEFT_TOLERANCE_EXACT)
        tolerance.ulp = 1;
    return tolerance;
}

static int mantissa_bits(weft_dtype dtype, int *out_least) {
    switch ((int)dtype) {
    case WEFT_F64:
    case WEFT_C128: return *out_least = -1022, 52;
    case WEFT_F16: return *out_least = -14, 10;
    case WEFT_BF16: return *out_least = -126, 7;
    case WEFT_F8E4M3FN: return *out_least = -6, 3;
    case WEFT_F8E4M3FNUZ: return *out_least = -7, 3;
    case WEFT_F8E5M2: return *out_least = -14, 2;
    case WEFT_F8E5M2FNUZ: return *out_least = -15, 2;
    case WEFT_F4E2M1FN: return *out_least = 0, 1;
    case WEFT_F8E8M0FNU: return *out_least = -127, 0;
    default: return *out_least = -126, 23;
    }
}

double weft_tolerance_spacing(weft_dtype dtype, double value) {
    int least, bits = mantissa_bits(dtype, &least), exponent = least;
    if (!isfinite(value)) return 0;
    if (value != 0) exponent = ilogb(value);
    if (exponent < least) exponent = least;
    return ldexp(1, exponent - bits);
}

bool weft_tolerance_close(weft_tolerance tolerance, weft_dtype dtype, double expected, double actual, double terms,
                          double scale) {
    if (isnan(expected) || isnan(actual)) return isnan(expected) && isnan(actual);
    if (expected == actual) return true;
    if (isinf(expected) && isinf(actual)) return false;
    double unit = dtype == WEFT_F64 || dtype == WEFT_C128 ? 0x1p-53 : 0x1p-24;
    if (isinf(expected) ||
        isinf(actual)) { /* one side overflowed: the other must be as near to it as the tolerance says */
        double finite = fabs(isinf(expected) ? actual : expected);
        double pushed = finite + (tolerance.ulp + 1) * weft_tolerance_spacing(dtype, finite);
        bool edge = isinf(weft_float_decode(dtype, weft_float_encode(dtype, pushed, false)));
        return tolerance.ulp > 0 && edge && (expected > 0) == (actual > 0);
    }
    double allowed = tolerance.ulp * weft_tolerance_spacing(dtype, fmax(fabs(expected), tolerance.least)) +
                     tolerance.accumulation * terms * unit * scale;
    return fabs(expected - actual) <= allowed;
}
