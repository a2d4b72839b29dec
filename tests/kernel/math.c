/* Elementary functions as kernel IR, run in the simulator, against long double libm on random and edge inputs.
   The bounds here are the ones README.md states. */
#include <math.h>

#include "codegen/kernel/math.h"
#include "kernels.h"

enum { LANES = 8, POINTS = 20000 };

static long double logistic_l(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static long double rsqrt_l(long double x) { return 1 / sqrtl(x); }

typedef struct function {
    const char *name;
    weft_op op;
    long double (*one)(long double);
    long double (*two)(long double, long double);
    double bound_f32, bound_f64; /* ulp */
    double lo, hi;               /* where half of the random points go; the rest are random bit patterns */
} function;

static const function functions[] = {
    {"exp", WEFT_OP_exp, expl, NULL, 1.1, 1.1, -90, 90},
    {"expm1", WEFT_OP_expm1, expm1l, NULL, 2, 2, -3, 3},
    {"log", WEFT_OP_log, logl, NULL, 1.1, 1.1, 0, 4},
    {"log1p", WEFT_OP_log1p, log1pl, NULL, 1.5, 1.5, -1, 2},
    {"sqrt", WEFT_OP_sqrt, sqrtl, NULL, 0.51, 0.51, 0, 100},
    {"rsqrt", WEFT_OP_rsqrt, rsqrt_l, NULL, 1.5, 1.5, 0, 100},
    {"sin", WEFT_OP_sin, sinl, NULL, 1.5, 1.5, -100, 100},
    {"cos", WEFT_OP_cos, cosl, NULL, 1.5, 1.5, -100, 100},
    {"tan", WEFT_OP_tan, tanl, NULL, 2.5, 2.5, -100, 100},
    {"asin", WEFT_OP_asin, asinl, NULL, 2, 2, -1.01, 1.01},
    {"acos", WEFT_OP_acos, acosl, NULL, 1.5, 1.5, -1.01, 1.01},
    {"atan", WEFT_OP_atan, atanl, NULL, 1.5, 1.5, -10, 10},
    {"sinh", WEFT_OP_sinh, sinhl, NULL, 2.5, 2.5, -5, 5},
    {"cosh", WEFT_OP_cosh, coshl, NULL, 2, 2, -5, 5},
    {"asinh", WEFT_OP_asinh, asinhl, NULL, 3, 3, -5, 5},
    {"acosh", WEFT_OP_acosh, acoshl, NULL, 3, 3, 1, 5},
    {"atanh", WEFT_OP_atanh, atanhl, NULL, 3, 3, -1.01, 1.01},
    {"tanh", WEFT_OP_tanh, tanhl, NULL, 2, 2, -10, 10},
    {"logistic", WEFT_OP_logistic, logistic_l, NULL, 2, 2, -100, 100},
    {"erf", WEFT_OP_erf, erfl, NULL, 2.5, 2, -4, 4},
    {"pow", WEFT_OP_pow, NULL, powl, 1.2, 1.2, -10, 10},
    {"atan2", WEFT_OP_atan2, NULL, atan2l, 2, 2, -5, 5},
    {"rem", WEFT_OP_rem, NULL, fmodl, 0, 0, -100, 100},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static uint64_t state;
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double edge(weft_dtype dtype, int n) {
    bool single = dtype == WEFT_F32;
    const double values[] = {0,
                             -0.0,
                             1,
                             -1,
                             2,
                             -2,
                             0.5,
                             -0.5,
                             3,
                             -3,
                             1e-3,
                             INFINITY,
                             -INFINITY,
                             (double)NAN,
                             single ? 0x1p-149 : 0x1p-1074,
                             single ? -0x1p-149 : -0x1p-1074,
                             single ? 0x1p-126 : 0x1p-1022,
                             single ? 0x1.fffffcp-127 : 0x1.ffffffffffffep-1023,
                             single ? 0x1.fffffep127 : 0x1.fffffffffffffp1023,
                             single ? -0x1.fffffep127 : -0x1.fffffffffffffp1023,
                             0x1.921fb54442d18p+0,
                             0x1.921fb6p+0,
                             0x1.921fb6p+20,
                             0x1.0p60,
                             1e30,
                             single ? 0x1.fffffep-1 : 0x1.fffffffffffffp-1,
                             single ? 0x1.000002p+0 : 0x1.0000000000001p+0,
                             88.5,
                             88.9,
                             89.4,
                             -87.5,
                             -103.5,
                             -104.5,
                             709.5,
                             710.3,
                             -740,
                             -746,
                             1e5,
                             99999.5,
                             1048576.5,
                             5,
                             7,
                             0.25};
    return values[n % (int)(sizeof values / sizeof *values)];
}

static double draw(const function *f, weft_dtype dtype, int n, bool second) {
    int edges = 43;
    if (n < edges * edges) {
        double value = edge(dtype, second ? n / edges : n % edges);
        return dtype == WEFT_F32 ? (double)(float)value : value;
    }
    uint64_t bits = next_random();
    if (n % 2) {
        double unit = (double)(bits >> 11) * 0x1p-53, value = f->lo + (f->hi - f->lo) * unit;
        return dtype == WEFT_F32 ? (double)(float)value : value;
    }
    return weft_float_decode(dtype, dtype == WEFT_F32 ? bits & UINT32_MAX : bits);
}

/* |got - want| in units of the last place of want, with the subnormal spacing as the smallest. */
static double ulps(weft_dtype dtype, double got, long double want) {
    bool single = dtype == WEFT_F32;
    double rounded = single ? (double)(float)want : (double)want;
    if (isnan(rounded) || isnan(got)) return isnan(rounded) && isnan(got) ? 0 : INFINITY;
    if (rounded == got) return rounded == 0 && signbit(rounded) != signbit(got) ? INFINITY : 0;
    long double limit = single ? 0x1p128L : ldexpl(1, 1024);
    if (isinf(got)) return fabsl(want) > limit * 0.9999999L && signbit(got) == signbit(rounded) ? 1 : INFINITY;
    if (isinf(rounded)) want = copysignl(limit, want);
    int exponent;
    frexpl(want, &exponent);
    int least = single ? -125 : -1021;
    if (exponent < least || want == 0) exponent = least;
    return (double)fabsl(((long double)got - want) / ldexpl(1, exponent - (single ? 24 : 53)));
}

static void make(bench *b, const function *f, weft_dtype dtype, int lanes) {
    weft_kernel *k = b->k;
    weft_kval x = bench_in(b, dtype, "x"), y = bench_in(b, dtype, "y"), out = bench_out(b, dtype, "out");
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, POINTS), weft_k_index(k, lanes), 0);
    weft_kval a = weft_k_load(k, x, i, lanes, WEFT_KNONE, WEFT_KNONE);
    weft_kval c = f->two ? weft_k_load(k, y, i, lanes, WEFT_KNONE, WEFT_KNONE) : WEFT_KNONE;
    weft_kval r = f->two ? weft_k_math_binary(k, f->op, a, c) : weft_k_math_unary(k, f->op, a);
    ck_assert_int_ne(r, WEFT_KNONE);
    weft_k_store(k, out, i, WEFT_KNONE, r);
    weft_k_end(k);
}

static void check_function(const function *f, weft_dtype dtype, const char *target, double bound) {
    bench b;
    bench_open(&b, target);
    make(&b, f, dtype, LANES);
    size_t bytes = POINTS * (dtype == WEFT_F32 ? 4 : 8);
    void *x = calloc(1, bytes), *y = calloc(1, bytes), *out = calloc(1, bytes);
    state = 88172645463325252u + (uint64_t)f->op;
    for (int n = 0; n < POINTS; n++) {
        weft_element_set_double(dtype, x, n, draw(f, dtype, n, false));
        weft_element_set_double(dtype, y, n, draw(f, dtype, n, true));
    }
    weft_sim_buffer buffers[] = {{x, bytes}, {y, bytes}, {out, bytes}};
    expect_ok(run_sim(&b, buffers, 1));
    double worst = 0;
    int at = 0;
    for (int n = 0; n < POINTS; n++) {
        double a = weft_element_double(dtype, x, n), c = weft_element_double(dtype, y, n);
        long double want = f->two ? f->two(a, c) : f->one(a);
        double error = ulps(dtype, weft_element_double(dtype, out, n), want);
        if (error > worst) worst = error, at = n;
    }
    int instructions = (int)b.k->instr_count;
    if (getenv("WEFT_TEST_VERBOSE"))
        printf("%-9s %s %-4s %8.3f ulp, %d instructions\n", f->name, weft_dtype_name(dtype), target, worst,
               instructions);
    double a = weft_element_double(dtype, x, at), c = weft_element_double(dtype, y, at);
    double got = weft_element_double(dtype, out, at);
    long double want = f->two ? f->two(a, c) : f->one(a);
    ck_assert_msg(worst <= bound, "%s %s %s: %.3f ulp at %a, %a: %a, not %La", f->name, weft_dtype_name(dtype), target,
                  worst, a, c, got, want);
    free(x);
    free(y);
    free(out);
    bench_close(&b);
}

START_TEST(test_f32) { check_function(&functions[_i], WEFT_F32, "cpu", functions[_i].bound_f32); }
END_TEST

START_TEST(test_f64) { check_function(&functions[_i], WEFT_F64, "cpu", functions[_i].bound_f64); }
END_TEST

/* The simulator's hardware approximations are exact to one rounding; two ulp more are left for the real ones. */
START_TEST(test_gpu) { check_function(&functions[_i], WEFT_F32, "cuda", functions[_i].bound_f32 + 1); }
END_TEST

Suite *math_suite(void) {
    Suite *suite = suite_create("math");
    TCase *tests = tcase_create("functions");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_f32, 0, FUNCTIONS);
    tcase_add_loop_test(tests, test_f64, 0, FUNCTIONS);
    tcase_add_loop_test(tests, test_gpu, 0, FUNCTIONS);
    suite_add_tcase(suite, tests);
    return suite;
}
