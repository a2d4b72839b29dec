/* Kernels without 8-bit floats (codegen/kernel/narrow.h) compute what those with them do: every code, every f32 of 16
   bits, the middles between codes and their neighbours; arithmetic on all pairs of f8e8m0fnu, also where subnormal f32
   count as 0 (subnormal.h), which the host's own unit plays. */
#include <math.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "codegen/kernel/narrow.h"
#include "kernels.h"

enum { CODES = 256, PLAIN = 65536, NUMBERS = PLAIN + 3 * CODES };
static const weft_dtype formats[] = {WEFT_F8E4M3FN, WEFT_F8E4M3FNUZ, WEFT_F8E5M2, WEFT_F8E5M2FNUZ, WEFT_F8E8M0FNU};

/* out[i] = convert(in[i]), eight lanes at a time. */
static void make_kernel(bench *b, weft_dtype from, weft_dtype to, int count) {
    weft_kval x = bench_in(b, from, "x"), y = bench_out(b, to, "y");
    weft_kernel *k = b->k;
    weft_kval at = weft_k_for(k, weft_k_integer(k, WEFT_I64, 0), weft_k_integer(k, WEFT_I64, count),
                              weft_k_integer(k, WEFT_I64, 8), 0);
    weft_k_store(k, y, at, WEFT_KNONE, weft_k_convert(k, weft_k_load(k, x, at, 8, WEFT_KNONE, WEFT_KNONE), to));
    weft_k_end(k);
    k->grid = 1;
}

static void run_both(weft_dtype from, weft_dtype to, int count, const void *x, size_t x_bytes, void *y, void *z,
                     size_t y_bytes) {
    bench b;
    const weft_kernel *narrow;
    bench_open(&b, "cpu");
    make_kernel(&b, from, to, count);
    expect_ok(weft_kernel_verify(b.k));
    expect_ok(weft_kernel_without_f8(b.k, &narrow));
    ck_assert_ptr_ne(narrow, b.k);
    expect_ok(weft_kernel_verify(narrow));
    weft_sim_buffer buffers[2] = {{(void *)(uintptr_t)x, x_bytes}, {y, y_bytes}};
    expect_ok(run_sim(&b, buffers, 1));
    buffers[1].data = z;
    b.k = (weft_kernel *)(uintptr_t)narrow;
    for (size_t i = 0; i < narrow->instr_count; i++)
        ck_assert(narrow->instrs[i].type.kind == WEFT_KIND_VOID || narrow->instrs[i].type.elem != from ||
                  from == WEFT_F32);
    expect_ok(run_sim(&b, buffers, 1));
    bench_close(&b);
}

START_TEST(test_codes) {
    uint8_t codes[CODES];
    float y[CODES], z[CODES];
    for (int i = 0; i < CODES; i++) codes[i] = (uint8_t)i;
    run_both(formats[_i], WEFT_F32, CODES, codes, sizeof codes, y, z, sizeof y);
    for (int i = 0; i < CODES; i++)
        ck_assert_msg((isnan(y[i]) && isnan(z[i])) || !memcmp(&y[i], &z[i], sizeof y[i]), "%s code %d: %g, not %g",
                      weft_dtype_name(formats[_i]), i, (double)z[i], (double)y[i]);
}
END_TEST

START_TEST(test_numbers) {
    static float x[NUMBERS];
    static uint8_t y[NUMBERS], z[NUMBERS];
    weft_dtype dtype = formats[_i];
    for (uint32_t i = 0; i < PLAIN; i++) {
        uint32_t bits = i << 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (int i = 0; i < CODES; i++) {
        float middle =
            (float)((weft_float_decode(dtype, (uint64_t)i) + weft_float_decode(dtype, (uint64_t)(i + 1) % CODES)) / 2);
        x[PLAIN + 3 * i] = middle;
        x[PLAIN + 3 * i + 1] = nextafterf(middle, INFINITY);
        x[PLAIN + 3 * i + 2] = nextafterf(middle, -INFINITY);
    }
    run_both(WEFT_F32, dtype, NUMBERS, x, sizeof x, y, z, sizeof y);
    for (int i = 0; i < NUMBERS; i++)
        ck_assert_msg(y[i] == z[i] || (isnan(x[i]) && isnan(weft_float_decode(dtype, z[i]))),
                      "%s of %a: code %d, not %d", weft_dtype_name(dtype), (double)x[i], z[i], y[i]);
}
END_TEST

#if defined(__x86_64__)
enum { FLUSH_TO_ZERO = 0x8000, ZERO_FOR_SUBNORMALS = 0x40, NUMBERS_E8M0 = 255, PAIRS = NUMBERS_E8M0 * 256 };
static const weft_kop arithmetic[] = {
    WEFT_K_add,        WEFT_K_sub,        WEFT_K_mul,        WEFT_K_div,     WEFT_K_min,
    WEFT_K_max,        WEFT_K_fma,        WEFT_K_eq,         WEFT_K_ne,      WEFT_K_lt,
    WEFT_K_le,         WEFT_K_copysign,   WEFT_K_neg,        WEFT_K_abs,     WEFT_K_sqrt,
    WEFT_K_ceil,       WEFT_K_floor,      WEFT_K_trunc,      WEFT_K_round,   WEFT_K_reduce_add,
    WEFT_K_reduce_mul, WEFT_K_reduce_min, WEFT_K_reduce_max, WEFT_K_convert, WEFT_K_zip /* a rotation */};

/* The f32 that becomes the result: 2^-127 itself where the operation gives it; of conditions 2 or 4. */
static weft_kval apply(weft_kernel *k, weft_kop op, weft_kval x, weft_kval y) {
    weft_kval two = weft_k_constant_lanes(k, WEFT_F32, 2, 8), four = weft_k_constant_lanes(k, WEFT_F32, 4, 8);
    weft_kval minus = weft_k_unary(k, WEFT_K_neg, y);
    if (op == WEFT_K_zip)
        return weft_k_sub(k, weft_k_mul(k, x, weft_k_float(k, WEFT_F32, 0.54)),
                          weft_k_mul(k, y, weft_k_float(k, WEFT_F32, 0.84)));
    if (op == WEFT_K_fma) return weft_k_fma(k, x, y, x);
    if (op == WEFT_K_convert) return weft_k_select(k, weft_k_convert(k, x, WEFT_BOOL), two, four);
    if (op >= WEFT_K_eq && op <= WEFT_K_le) { /* beside numbers of the type and 0 */
        weft_kval zero = weft_k_constant_lanes(k, WEFT_F32, 0, 8);
        weft_kval other = weft_k_select(k, weft_k_lt(k, y, two), zero, y);
        weft_kval one = weft_k_binary(k, op, other, x), both = weft_k_and(k, one, weft_k_binary(k, op, x, other));
        return weft_k_select(k, both, two, weft_k_select(k, one, four, zero));
    }
    if (op == WEFT_K_max) return weft_k_max(k, x, minus);
    if (op == WEFT_K_copysign) return weft_k_unary(k, WEFT_K_neg, weft_k_binary(k, op, x, minus));
    if (op >= WEFT_K_reduce_add && op <= WEFT_K_reduce_max) {
        weft_kval both = weft_k_splat(k, weft_k_extract(k, y, 0), 2);
        return weft_k_splat(k, weft_k_reduce(k, op, weft_k_insert(k, both, 0, weft_k_extract(k, x, 1))), 8);
    }
    if (weft_kop_operands(op) == 2) return weft_k_binary(k, op, x, y);
    return op == WEFT_K_neg ? weft_k_unary(k, op, minus) : weft_k_unary(k, op, x);
}

static void make_arithmetic(bench *b, weft_kop op) {
    weft_kval x = bench_in(b, WEFT_F8E8M0FNU, "x"), y = bench_in(b, WEFT_F8E8M0FNU, "y"),
              z = bench_out(b, WEFT_F8E8M0FNU, "z");
    weft_kernel *k = b->k;
    weft_kval at = weft_k_for(k, weft_k_integer(k, WEFT_I64, 0), weft_k_integer(k, WEFT_I64, PAIRS),
                              weft_k_integer(k, WEFT_I64, 8), 0);
    weft_kval a = weft_k_convert(k, weft_k_load(k, x, at, 8, WEFT_KNONE, WEFT_KNONE), WEFT_F32);
    weft_kval c = weft_k_convert(k, weft_k_load(k, y, at, 8, WEFT_KNONE, WEFT_KNONE), WEFT_F32);
    weft_k_store(k, z, at, WEFT_KNONE, weft_k_convert(k, apply(k, op, a, c), WEFT_F8E8M0FNU));
    weft_k_end(k);
    k->grid = 1;
}

static void run_flushing(bench *b, const weft_sim_buffer *buffers) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH_TO_ZERO | ZERO_FOR_SUBNORMALS);
    weft_status status = run_sim(b, buffers, 1);
    _mm_setcsr(before);
    expect_ok(status);
}

START_TEST(test_the_least_is_not_flushed) {
    static uint8_t x[PAIRS], y[PAIRS], right[PAIRS], careless[PAIRS], z[PAIRS];
    weft_kop op = arithmetic[_i];
    bench b;
    const weft_kernel *narrow;
    for (int i = 0; i < PAIRS; i++) x[i] = (uint8_t)(i % NUMBERS_E8M0), y[i] = (uint8_t)(i / 256);
    bench_open(&b, "cpu");
    make_arithmetic(&b, op);
    expect_ok(weft_kernel_verify(b.k));
    expect_ok(weft_kernel_without_f8(b.k, &narrow));
    expect_ok(weft_kernel_verify(narrow));
    weft_sim_buffer buffers[3] = {{x, sizeof x}, {y, sizeof y}, {right, sizeof right}};
    expect_ok(run_sim(&b, buffers, 1));
    buffers[2].data = careless;
    run_flushing(&b, buffers);
    bool cares = op == WEFT_K_div || (op >= WEFT_K_eq && op <= WEFT_K_le) || op == WEFT_K_sqrt || op == WEFT_K_ceil ||
                 op == WEFT_K_convert;
    ck_assert(!cares || memcmp(careless, right, sizeof right)); /* else the unit flushes nothing */
    b.k = (weft_kernel *)(uintptr_t)narrow;
    buffers[2].data = z;
    run_flushing(&b, buffers);
    for (int i = 0; i < PAIRS; i++)
        ck_assert_msg(z[i] == right[i], "%s of codes %d and %d: %d, not %d", weft_kop_name(op), x[i], y[i], z[i],
                      right[i]);
    bench_close(&b);
}
END_TEST

/* x c - y s in f32 where both products are subnormal, as a kernel that reads what one with f8e8m0fnu wrote. */
START_TEST(test_subnormal_operands_count) {
    static float x[8], y[8], z[8], want[8];
    bench b;
    const weft_kernel *narrow;
    for (int i = 0; i < 8; i++)
        x[i] = ldexpf(1, -127 + i % 3), y[i] = ldexpf(1, -126 - i % 2), want[i] = x[i] * 0.75f - y[i] * 0.5f;
    bench_open(&b, "cpu");
    weft_kval from_x = bench_in(&b, WEFT_F32, "x"), from_y = bench_in(&b, WEFT_F32, "y"),
              to = bench_out(&b, WEFT_F32, "z");
    weft_kernel *k = b.k;
    weft_kval at = weft_k_integer(k, WEFT_I64, 0);
    weft_kval left = weft_k_mul(k, weft_k_load(k, from_x, at, 8, WEFT_KNONE, WEFT_KNONE),
                                weft_k_constant_lanes(k, WEFT_F32, 0.75, 8));
    weft_kval right = weft_k_mul(k, weft_k_load(k, from_y, at, 8, WEFT_KNONE, WEFT_KNONE),
                                 weft_k_constant_lanes(k, WEFT_F32, 0.5, 8));
    weft_k_store(k, to, at, WEFT_KNONE, weft_k_sub(k, left, right));
    k->grid = 1;
    weft_sim_buffer buffers[3] = {{x, sizeof x}, {y, sizeof y}, {z, sizeof z}};
    expect_ok(weft_kernel_verify(k));
    expect_ok(weft_kernel_without_f8(k, &narrow));
    ck_assert_ptr_eq(narrow, k);
    run_flushing(&b, buffers);
    ck_assert(memcmp(z, want, sizeof z)); /* else the unit flushes nothing */
    k->subnormals = true;
    expect_ok(weft_kernel_without_f8(k, &narrow));
    expect_ok(weft_kernel_verify(narrow));
    b.k = (weft_kernel *)(uintptr_t)narrow;
    run_flushing(&b, buffers);
    for (int i = 0; i < 8; i++) ck_assert_msg(z[i] == want[i], "%d: %g, not %g", i, (double)z[i], (double)want[i]);
    bench_close(&b);
}
END_TEST
#endif

Suite *narrow_suite(void) {
    Suite *suite = suite_create("narrow");
    TCase *tests = tcase_create("f8");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_codes, 0, sizeof formats / sizeof *formats);
    tcase_add_loop_test(tests, test_numbers, 0, sizeof formats / sizeof *formats);
#if defined(__x86_64__)
    tcase_add_loop_test(tests, test_the_least_is_not_flushed, 0, sizeof arithmetic / sizeof *arithmetic);
    tcase_add_test(tests, test_subnormal_operands_count);
#endif
    suite_add_tcase(suite, tests);
    return suite;
}
