/* Kernels without 8-bit floats (codegen/kernel/narrow.h) compute what those with them do: every code, every f32 of 16
   bits, the middles between codes and their neighbours. */
#include <math.h>

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

Suite *narrow_suite(void) {
    Suite *suite = suite_create("narrow");
    TCase *tests = tcase_create("f8");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_codes, 0, sizeof formats / sizeof *formats);
    tcase_add_loop_test(tests, test_numbers, 0, sizeof formats / sizeof *formats);
    suite_add_tcase(suite, tests);
    return suite;
}
