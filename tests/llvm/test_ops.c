/* Arithmetic, comparison, lane and reduction ops against C, element by element, for 1, 4 and 16 lanes. */
#include <math.h>

#include "tests/llvm/loader.h"

enum { COUNT = 64 };

static const weft_dtype integer_types[] = {WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64,
                                           WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64};

static int64_t wrap(weft_dtype t, int64_t v) {
    int shift = 64 - weft_dtype_bits(t);
    uint64_t s = (uint64_t)v << shift;
    return weft_dtype_kind_of(t) == WEFT_KIND_SIGNED ? (int64_t)s >> shift : (int64_t)(s >> shift);
}

/* Edge values first, then a mixture. */
static int64_t sample(weft_dtype t, int i, int salt) {
    static const int64_t edges[] = {0,   1,    -1, 2,   -2,  INT64_MIN, INT64_MAX, 3,
                                    100, -100, 7,  127, 128, 255,       32767,     -32768};
    uint64_t mixed = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u * (uint64_t)(salt + 1);
    int64_t v = (i + salt * 5) % 3 ? (int64_t)(mixed >> (i % 40)) : edges[(i / 3 + salt * 7) % 16];
    if (v == INT64_MIN) v = (int64_t)((uint64_t)1 << (weft_dtype_bits(t) - 1));
    return wrap(t, v);
}

static double float_sample(int i, int salt) {
    static const double edges[] = {0.0, -0.0, 1.0,  -1.0,  INFINITY, -INFINITY,   NAN,       0.5,
                                   1.5, 2.5,  -2.5, 1e-40, 3e38,     -0.49999997, 8388609.0, 0.3};
    return (i + salt) % 2 ? edges[(i / 2 + salt * 3) % 16] : sin(i * 1.7 + salt) * pow(10, i % 9 - 4);
}

static int64_t expect_integer(weft_kop op, weft_dtype t, int64_t a, int64_t b) {
    bool s = weft_dtype_kind_of(t) == WEFT_KIND_SIGNED;
    int bits = weft_dtype_bits(t);
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    bool less = s ? a < b : x < y;
    switch ((int)op) {
    case WEFT_K_add: return wrap(t, (int64_t)(x + y));
    case WEFT_K_sub: return wrap(t, (int64_t)(x - y));
    case WEFT_K_mul: return wrap(t, (int64_t)(x * y));
    case WEFT_K_div: return s ? b == -1 ? wrap(t, (int64_t)(0 - x)) : a / b : (int64_t)(x / y);
    case WEFT_K_rem: return s ? b == -1 ? 0 : a % b : (int64_t)(x % y);
    case WEFT_K_min: return less ? a : b;
    case WEFT_K_max: return less ? b : a;
    case WEFT_K_and: return wrap(t, a & b);
    case WEFT_K_or: return wrap(t, a | b);
    case WEFT_K_xor: return wrap(t, a ^ b);
    case WEFT_K_shl: return wrap(t, (int64_t)(x << y));
    case WEFT_K_shr: return s ? a >> b : (int64_t)(x >> y);
    case WEFT_K_not: return wrap(t, ~a);
    case WEFT_K_neg: return wrap(t, (int64_t)(0 - x));
    case WEFT_K_abs: return s && a < 0 ? wrap(t, (int64_t)(0 - x)) : a;
    case WEFT_K_popcount: return __builtin_popcountll(x & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1));
    case WEFT_K_mul_high: {
        __int128 product = s ? (__int128)a * b : (__int128)((unsigned __int128)x * y);
        return wrap(t, (int64_t)(product >> bits));
    }
    case WEFT_K_eq: return a == b;
    case WEFT_K_ne: return a != b;
    case WEFT_K_lt: return less;
    default: return less || a == b;
    }
}

#define FLOAT_OPS(T, expect, floor_, ceil_, trunc_, round_, sqrt_, fma_, copysign_, abs_)                              \
    static T expect(weft_kop op, T a, T b, T c) {                                                                      \
        switch ((int)op) {                                                                                             \
        case WEFT_K_add: return a + b;                                                                                 \
        case WEFT_K_sub: return a - b;                                                                                 \
        case WEFT_K_mul: return a * b;                                                                                 \
        case WEFT_K_div: return a / b;                                                                                 \
        case WEFT_K_min: return a < b ? a : b;                                                                         \
        case WEFT_K_max: return a > b ? a : b;                                                                         \
        case WEFT_K_neg: return -a;                                                                                    \
        case WEFT_K_abs: return abs_(a);                                                                               \
        case WEFT_K_copysign: return copysign_(a, b);                                                                  \
        case WEFT_K_floor: return floor_(a);                                                                           \
        case WEFT_K_ceil: return ceil_(a);                                                                             \
        case WEFT_K_trunc: return trunc_(a);                                                                           \
        case WEFT_K_round: return round_(a);                                                                           \
        case WEFT_K_sqrt: return sqrt_(a);                                                                             \
        case WEFT_K_fma: return fma_(a, b, c);                                                                         \
        case WEFT_K_eq: return a == b;                                                                                 \
        case WEFT_K_ne: return a != b;                                                                                 \
        case WEFT_K_lt: return a < b;                                                                                  \
        default: return a <= b;                                                                                        \
        }                                                                                                              \
    }
FLOAT_OPS(float, expect_f32, floorf, ceilf, truncf, nearbyintf, sqrtf, fmaf, copysignf, fabsf)
FLOAT_OPS(double, expect_f64, floor, ceil, trunc, nearbyint, sqrt, fma, copysign, fabs)

static bool compares(weft_kop op) { return op >= WEFT_K_eq && op <= WEFT_K_le; }

/* out[i] = op(a[i], b[i], c[i]), `lanes` at a time. */
static weft_kernel *elementwise(bench *b, weft_kop op, int operands, weft_dtype t, int lanes) {
    weft_kernel *k = weft_kernel_create(&b->arena, NULL, b->capability, "elementwise");
    weft_kval in[3], out, x[3];
    for (int n = 0; n < 3; n++) in[n] = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, n, t, false, "in");
    out = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, compares(op) ? WEFT_BOOL : t, true, "out");
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, COUNT), weft_k_index(k, lanes), 0);
    for (int n = 0; n < operands; n++) x[n] = weft_k_load(k, in[n], i, lanes, WEFT_KNONE, WEFT_KNONE);
    weft_kval y = operands == 1   ? weft_k_unary(k, op, x[0])
                  : operands == 2 ? weft_k_binary(k, op, x[0], x[1])
                                  : weft_k_fma(k, x[0], x[1], x[2]);
    weft_k_store(k, out, i, WEFT_KNONE, y);
    weft_k_end(k);
    ck_assert(!k->failed);
    return k;
}

static void check_integer(bench *b, weft_kop op, int operands, weft_dtype t, int lanes) {
    unsigned char in[3][COUNT * 8], out[COUNT * 8];
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < COUNT; i++) {
            int64_t v = sample(t, i, n);
            if (n == 1 && (op == WEFT_K_div || op == WEFT_K_rem) && v == 0) v = 3;
            if (n == 1 && (op == WEFT_K_shl || op == WEFT_K_shr)) v &= weft_dtype_bits(t) - 1;
            weft_element_set_i64(t, in[n], i, v);
        }
    weft_kernel *k = elementwise(b, op, operands, t, lanes);
    run_kernel(b, k, (void *[]){in[0], in[1], in[2], out}, NULL, 1);
    for (int i = 0; i < COUNT; i++) {
        int64_t a = weft_element_i64(t, in[0], i), y = weft_element_i64(t, in[1], i);
        int64_t want = expect_integer(op, t, a, y), got = weft_element_i64(compares(op) ? WEFT_BOOL : t, out, i);
        ck_assert_msg(got == want, "%s %s lanes %d: (%lld, %lld) gave %lld, not %lld", weft_kop_name(op),
                      weft_dtype_name(t), lanes, (long long)a, (long long)y, (long long)got, (long long)want);
    }
}

static void check_float(bench *b, weft_kop op, int operands, weft_dtype t, int lanes) {
    unsigned char in[3][COUNT * 8], out[COUNT * 8];
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < COUNT; i++) weft_element_set_double(t, in[n], i, float_sample(i, n));
    weft_kernel *k = elementwise(b, op, operands, t, lanes);
    run_kernel(b, k, (void *[]){in[0], in[1], in[2], out}, NULL, 1);
    for (int i = 0; i < COUNT; i++) {
        double a[3], got, want;
        for (int n = 0; n < 3; n++) a[n] = weft_element_double(t, in[n], i);
        want = t == WEFT_F64 ? expect_f64(op, a[0], a[1], a[2])
                             : (double)expect_f32(op, (float)a[0], (float)a[1], (float)a[2]);
        got = compares(op) ? (double)weft_element_i64(WEFT_BOOL, out, i) : weft_element_double(t, out, i);
        bool same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
        ck_assert_msg(same, "%s %s lanes %d: (%g, %g) gave %g, not %g", weft_kop_name(op), weft_dtype_name(t), lanes,
                      a[0], a[1], got, want);
    }
}

START_TEST(integers) {
    static const struct {
        weft_kop op;
        int operands;
    } ops[] = {{WEFT_K_add, 2},      {WEFT_K_sub, 2},      {WEFT_K_mul, 2}, {WEFT_K_div, 2}, {WEFT_K_rem, 2},
               {WEFT_K_min, 2},      {WEFT_K_max, 2},      {WEFT_K_and, 2}, {WEFT_K_or, 2},  {WEFT_K_xor, 2},
               {WEFT_K_shl, 2},      {WEFT_K_shr, 2},      {WEFT_K_not, 1}, {WEFT_K_neg, 1}, {WEFT_K_abs, 1},
               {WEFT_K_popcount, 1}, {WEFT_K_mul_high, 2}, {WEFT_K_eq, 2},  {WEFT_K_ne, 2},  {WEFT_K_lt, 2},
               {WEFT_K_le, 2}};
    if (!cpu_runs(arches[_i % 2])) return;
    bench b = bench_open(arches[_i % 2]);
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int t = 0; t < 8; t++)
            if (ops[o].op != WEFT_K_mul_high || weft_dtype_bits(integer_types[t]) >= 32)
                check_integer(&b, ops[o].op, ops[o].operands, integer_types[t], (int[]){1, 4, 16}[_i / 2]);
    bench_close(&b);
}
END_TEST

START_TEST(floats) {
    static const struct {
        weft_kop op;
        int operands;
    } ops[] = {{WEFT_K_add, 2},  {WEFT_K_sub, 2},   {WEFT_K_mul, 2},   {WEFT_K_div, 2},      {WEFT_K_min, 2},
               {WEFT_K_max, 2},  {WEFT_K_neg, 1},   {WEFT_K_abs, 1},   {WEFT_K_copysign, 2}, {WEFT_K_floor, 1},
               {WEFT_K_ceil, 1}, {WEFT_K_trunc, 1}, {WEFT_K_round, 1}, {WEFT_K_sqrt, 1},     {WEFT_K_fma, 3},
               {WEFT_K_eq, 2},   {WEFT_K_ne, 2},    {WEFT_K_lt, 2},    {WEFT_K_le, 2}};
    if (!cpu_runs(arches[_i % 2])) return;
    bench b = bench_open(arches[_i % 2]);
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int t = 0; t < 2; t++)
            check_float(&b, ops[o].op, ops[o].operands, t ? WEFT_F64 : WEFT_F32, (int[]){1, 4, 16}[_i / 2]);
    bench_close(&b);
}
END_TEST

/* Reductions by halves: ((a0 + a2) + (a1 + a3)) for four lanes, so that float sums have one value. */
static float halves(weft_kop op, const float *x, int lanes) {
    float v[16];
    memcpy(v, x, sizeof(float) * (size_t)lanes);
    for (; lanes > 1; lanes /= 2)
        for (int i = 0; i < lanes / 2; i++) {
            float a = v[i], b = v[i + lanes / 2];
            v[i] = op == WEFT_K_reduce_add   ? a + b
                   : op == WEFT_K_reduce_mul ? a * b
                   : op == WEFT_K_reduce_min ? (a < b ? a : b)
                   : a > b                   ? a
                                             : b;
        }
    return v[0];
}

START_TEST(reductions) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    for (weft_kop op = WEFT_K_reduce_add; op <= WEFT_K_reduce_or; op++)
        for (int lanes = 2; lanes <= 16; lanes *= 2) {
            bool bits = op == WEFT_K_reduce_and || op == WEFT_K_reduce_or;
            weft_dtype t = bits ? WEFT_U32 : WEFT_F32;
            weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "reduces");
            weft_kval in = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, 0, t, false, "in"),
                      out = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, t, true, "out");
            weft_kval x = weft_k_load(k, in, weft_k_index(k, 0), lanes, WEFT_KNONE, WEFT_KNONE);
            weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE, weft_k_reduce(k, op, x));
            union {
                float f[16];
                uint32_t u[16];
            } data, result;
            uint32_t all_and = UINT32_MAX, all_or = 0;
            for (int i = 0; i < 16; i++) {
                if (bits)
                    data.u[i] = 0xf0f0f0f0u ^ (1u << i);
                else
                    data.f[i] = sinf((float)i + 0.3f) * 1.7f;
                if (i < lanes) {
                    all_and &= data.u[i];
                    all_or |= data.u[i];
                }
            }
            run_kernel(&b, k, (void *[]){&data, &result}, NULL, 1);
            if (bits)
                ck_assert_uint_eq(result.u[0], op == WEFT_K_reduce_and ? all_and : all_or);
            else
                ck_assert_msg(result.f[0] == halves(op, data.f, lanes), "%s of %d lanes: %a", weft_kop_name(op), lanes,
                              (double)result.f[0]);
        }
    bench_close(&b);
}
END_TEST

/* deal and zip are inverse to each other. */
START_TEST(shuffles) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "shuffles");
    weft_kval in = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, 0, WEFT_F32, false, "in"),
              out = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, WEFT_F32, true, "out");
    weft_kval x[2], y[2];
    for (int i = 0; i < 2; i++) x[i] = weft_k_load(k, in, weft_k_index(k, 8 * i), 8, WEFT_KNONE, WEFT_KNONE);
    for (int i = 0; i < 2; i++) y[i] = weft_k_deal(k, x[0], x[1], i);
    for (int i = 0; i < 2; i++) {
        weft_k_store(k, out, weft_k_index(k, 8 * i), WEFT_KNONE, y[i]);
        weft_k_store(k, out, weft_k_index(k, 16 + 8 * i), WEFT_KNONE, weft_k_zip(k, x[0], x[1], i));
        weft_k_store(k, out, weft_k_index(k, 32 + 8 * i), WEFT_KNONE, weft_k_zip(k, y[0], y[1], i));
    }
    float data[16], result[48];
    for (int i = 0; i < 16; i++) data[i] = (float)i;
    run_kernel(&b, k, (void *[]){data, result}, NULL, 1);
    for (int i = 0; i < 16; i++) {
        ck_assert_float_eq(result[i], i < 8 ? 2 * (float)i : 2 * (float)(i - 8) + 1);
        ck_assert_float_eq(result[16 + i], i % 2 ? 8 + (float)(i / 2) : (float)(i / 2));
        ck_assert_float_eq(result[32 + i], (float)i);
    }
    bench_close(&b);
}
END_TEST

/* splat, iota, extract, insert, select, constants. */
START_TEST(lanes) {
    if (!cpu_runs(arches[_i])) return;
    bench b = bench_open(arches[_i]);
    weft_kernel *k = weft_kernel_create(&b.arena, NULL, b.capability, "lanes");
    weft_kval in = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, 0, WEFT_I32, false, "in"),
              out = weft_kernel_buffer(k, WEFT_ARGUMENT_RESULT, 0, WEFT_I32, true, "out");
    weft_kval x = weft_k_load(k, in, weft_k_index(k, 0), 8, WEFT_KNONE, WEFT_KNONE);
    weft_kval third = weft_k_splat(k, weft_k_extract(k, x, 3), 8), iota = weft_k_iota(k, WEFT_I32, 8);
    weft_kval y = weft_k_insert(k, weft_k_add(k, third, iota), 5, weft_k_integer(k, WEFT_I32, -77));
    weft_kval z = weft_k_select(k, weft_k_lt(k, iota, weft_k_integer(k, WEFT_I32, 2)),
                                weft_k_constant_lanes(k, WEFT_I32, 42, 8), y);
    weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE, z);
    int32_t data[8] = {10, 20, 30, 40, 50, 60, 70, 80}, result[8], want[8] = {42, 42, 42, 43, 44, -77, 46, 47};
    run_kernel(&b, k, (void *[]){data, result}, NULL, 1);
    for (int i = 0; i < 8; i++) ck_assert_int_eq(result[i], want[i]);
    bench_close(&b);
}
END_TEST

Suite *ops_suite(void) {
    Suite *suite = suite_create("ops");
    TCase *tests = tcase_create("ops");
    tcase_add_loop_test(tests, integers, 0, 6);
    tcase_add_loop_test(tests, floats, 0, 6);
    tcase_add_loop_test(tests, reductions, 0, 2);
    tcase_add_loop_test(tests, lanes, 0, 2);
    tcase_add_loop_test(tests, shuffles, 0, 2);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return suite;
}
