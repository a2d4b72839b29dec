/* f32 and f64 arithmetic. Approximations (.approx) are at most as good here as the manual promises: they round towards
   zero and, with .ftz, drop denormals, so that code which needs more shows it. Read next: convert.c. Source: "Parallel
   Thread Execution ISA", Floating Point. */
#include <math.h>

#include "tests/ptx/interpreter/internal.h"

static float flushed(float x) { return fabsf(x) < 0x1p-126F ? copysignf(0, x) : x; }

/* Towards zero, `less` bits short of f32. */
static float near(double x, int less) {
    float f = (float)x;
    uint32_t bits;
    if (!isfinite(f)) return f;
    if (fabs((double)f) > fabs(x)) f = nextafterf(f, 0);
    memcpy(&bits, &f, 4);
    bits &= UINT32_MAX << less;
    memcpy(&f, &bits, 4);
    return f;
}

static float smaller(float a, float b) {
    if (a != a || b != b) return a != a ? b : a;
    return a < b || (a == b && signbit(a)) ? a : b;
}
static float larger(float a, float b) {
    if (a != a || b != b) return a != a ? b : a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}
static float or_nan(float a, float b, float r) { return a != a || b != b ? NAN : r; }
static float saturated(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

#define F32(NAME, ...)                                                                                                 \
    static uint64_t NAME(uint64_t a_, uint64_t b_, uint64_t c_) {                                                      \
        float a = number_f32(a_), b = number_f32(b_), c = number_f32(c_);                                              \
        (void)a, (void)b, (void)c;                                                                                     \
        return number_bits32(__VA_ARGS__);                                                                             \
    }
#define F64(NAME, ...)                                                                                                 \
    static uint64_t NAME(uint64_t a_, uint64_t b_, uint64_t c_) {                                                      \
        double a = number_f64(a_), b = number_f64(b_), c = number_f64(c_);                                             \
        (void)a, (void)b, (void)c;                                                                                     \
        return number_bits64(__VA_ARGS__);                                                                             \
    }

F32(add, a + b)
F32(sub, a - b)
F32(mul, a *b)
F32(fma_, fmaf(a, b, c))
F32(fma_saturated, saturated(fmaf(a, b, c)))
F32(add_saturated, saturated(a + b))
F32(div_, a / b)
F32(rcp, 1 / a)
F32(sqrt_, sqrtf(a))
F32(min_, smaller(a, b))
F32(max_, larger(a, b))
F32(min_nan, or_nan(a, b, smaller(a, b)))
F32(max_nan, or_nan(a, b, larger(a, b)))
F32(div_approx, near((double)a / (double)b, 1))
F32(rcp_approx, near(1 / (double)a, 0))
F32(rcp_flushed, flushed(near(1 / (double)flushed(a), 0)))
F32(rsqrt_approx, near(1 / sqrt((double)a), 1))
F32(rsqrt_flushed, near(1 / sqrt((double)flushed(a)), 1))
F32(sqrt_approx, near(sqrt((double)a), 0))
F32(exp_approx, near(exp2((double)a), 1))
F32(exp_flushed, flushed(near(exp2((double)flushed(a)), 1)))
F32(log_approx, near(log2((double)a), 1))
F32(log_flushed, near(log2((double)flushed(a)), 1))
F32(sin_approx, near(sin((double)a), 2))
F32(cos_approx, near(cos((double)a), 2))
F32(tanh_approx, near(tanh((double)a), 12))

static uint64_t abs_32(uint64_t a, uint64_t b, uint64_t c) {
    (void)b, (void)c;
    return a & 0x7fffffff;
}
static uint64_t neg_32(uint64_t a, uint64_t b, uint64_t c) {
    (void)b, (void)c;
    return a ^ 0x80000000;
}
static uint64_t sign_32(uint64_t a, uint64_t b, uint64_t c) {
    (void)c;
    return (b & 0x7fffffff) | (a & 0x80000000);
}
static uint64_t abs_64(uint64_t a, uint64_t b, uint64_t c) {
    (void)b, (void)c;
    return a & INT64_MAX;
}
static uint64_t neg_64(uint64_t a, uint64_t b, uint64_t c) {
    (void)b, (void)c;
    return a ^ UINT64_C(1) << 63;
}
static uint64_t sign_64(uint64_t a, uint64_t b, uint64_t c) {
    (void)c;
    return (b & INT64_MAX) | (a & UINT64_C(1) << 63);
}

F64(add_64, a + b)
F64(sub_64, a - b)
F64(mul_64, a *b)
F64(fma_64, fma(a, b, c))
F64(div_64, a / b)
F64(rcp_64, 1 / a)
F64(sqrt_64, sqrt(a))
F64(min_64, a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b)
F64(max_64, a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b)

const ptx_opcode ptx_float_opcodes[] = {{"add.f32", NULL, add, 0},
                                        {"add.rn.f32", NULL, add, 0},
                                        {"add.sat.f32", NULL, add_saturated, 0},
                                        {"sub.f32", NULL, sub, 0},
                                        {"sub.rn.f32", NULL, sub, 0},
                                        {"mul.f32", NULL, mul, 0},
                                        {"mul.rn.f32", NULL, mul, 0},
                                        {"fma.rn.f32", NULL, fma_, 0},
                                        {"fma.rn.sat.f32", NULL, fma_saturated, 0},
                                        {"div.rn.f32", NULL, div_, 0},
                                        {"div.full.f32", NULL, div_approx, 0},
                                        {"div.approx.f32", NULL, div_approx, 0},
                                        {"rcp.rn.f32", NULL, rcp, 0},
                                        {"sqrt.rn.f32", NULL, sqrt_, 0},
                                        {"min.f32", NULL, min_, 0},
                                        {"max.f32", NULL, max_, 0},
                                        {"min.NaN.f32", NULL, min_nan, 0},
                                        {"max.NaN.f32", NULL, max_nan, 0},
                                        {"abs.f32", NULL, abs_32, 0},
                                        {"neg.f32", NULL, neg_32, 0},
                                        {"copysign.f32", NULL, sign_32, 0},
                                        {"rcp.approx.f32", NULL, rcp_approx, 0},
                                        {"rcp.approx.ftz.f32", NULL, rcp_flushed, 0},
                                        {"rsqrt.approx.f32", NULL, rsqrt_approx, 0},
                                        {"rsqrt.approx.ftz.f32", NULL, rsqrt_flushed, 0},
                                        {"sqrt.approx.f32", NULL, sqrt_approx, 0},
                                        {"ex2.approx.f32", NULL, exp_approx, 0},
                                        {"ex2.approx.ftz.f32", NULL, exp_flushed, 0},
                                        {"lg2.approx.f32", NULL, log_approx, 0},
                                        {"lg2.approx.ftz.f32", NULL, log_flushed, 0},
                                        {"sin.approx.f32", NULL, sin_approx, 0},
                                        {"cos.approx.f32", NULL, cos_approx, 0},
                                        {"tanh.approx.f32", NULL, tanh_approx, 0},
                                        {"add.f64", NULL, add_64, 0},
                                        {"add.rn.f64", NULL, add_64, 0},
                                        {"sub.f64", NULL, sub_64, 0},
                                        {"sub.rn.f64", NULL, sub_64, 0},
                                        {"mul.f64", NULL, mul_64, 0},
                                        {"mul.rn.f64", NULL, mul_64, 0},
                                        {"fma.rn.f64", NULL, fma_64, 0},
                                        {"div.rn.f64", NULL, div_64, 0},
                                        {"rcp.rn.f64", NULL, rcp_64, 0},
                                        {"sqrt.rn.f64", NULL, sqrt_64, 0},
                                        {"min.f64", NULL, min_64, 0},
                                        {"max.f64", NULL, max_64, 0},
                                        {"abs.f64", NULL, abs_64, 0},
                                        {"neg.f64", NULL, neg_64, 0},
                                        {"copysign.f64", NULL, sign_64, 0},
                                        {0}};
