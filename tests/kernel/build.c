/* Construction: folding, identities, splats, extents, hash and text. */
#include "kernels.h"

static int64_t constant_of(bench *b, weft_kval value) {
    int64_t result = 0;
    ck_assert_msg(weft_k_is_constant(b->k, value, &result), "not folded");
    return result;
}

START_TEST(test_integers_fold) {
    bench b;
    bench_open(&b, "cpu");
    weft_kernel *k = b.k;
    weft_kval seven = weft_k_index(k, 7), three = weft_k_index(k, 3);
    ck_assert_int_eq(constant_of(&b, weft_k_add(k, seven, three)), 10);
    ck_assert_int_eq(constant_of(&b, weft_k_rem(k, weft_k_index(k, -7), three)), -1);
    ck_assert_int_eq(constant_of(&b, weft_k_lt(k, three, seven)), 1);
    weft_kval big = weft_k_integer(k, WEFT_I32, INT32_MAX);
    ck_assert_int_eq(constant_of(&b, weft_k_add(k, big, weft_k_integer(k, WEFT_I32, 1))), INT32_MIN);
    ck_assert_int_eq(constant_of(&b, weft_k_sub(k, weft_k_integer(k, WEFT_U8, 3), weft_k_integer(k, WEFT_U8, 5))), 254);
    ck_assert_int_eq(constant_of(&b, weft_k_convert(k, weft_k_float(k, WEFT_F32, 1e20), WEFT_I32)), INT32_MAX);
    ck_assert_int_eq(constant_of(&b, weft_k_convert(k, weft_k_float(k, WEFT_F32, -3.9), WEFT_I8)), -3);
    int64_t unused;
    ck_assert(!weft_k_is_constant(k, weft_k_div(k, seven, weft_k_index(k, 0)), &unused)); /* left to the run */
    bench_close(&b);
}
END_TEST

START_TEST(test_identities) {
    bench b;
    bench_open(&b, "cpu");
    weft_kernel *k = b.k;
    weft_kval x = weft_k_block(k), zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    ck_assert_int_eq(weft_k_add(k, x, zero), x);
    ck_assert_int_eq(weft_k_mul(k, one, x), x);
    ck_assert_int_eq(constant_of(&b, weft_k_mul(k, x, zero)), 0);
    ck_assert_int_eq(constant_of(&b, weft_k_sub(k, x, x)), 0);
    ck_assert_int_eq(weft_k_div(k, x, one), x);
    /* floats: x + 0 is not x for -0 */
    weft_kval f = weft_k_convert(k, x, WEFT_F32);
    ck_assert_int_ne(weft_k_add(k, f, weft_k_float(k, WEFT_F32, 0)), f);
    ck_assert_int_eq(weft_k_add(k, f, weft_k_float(k, WEFT_F32, -0.0)), f);
    ck_assert_int_eq(weft_k_mul(k, f, weft_k_float(k, WEFT_F32, 1)), f);
    bench_close(&b);
}
END_TEST

START_TEST(test_splats) {
    bench b;
    bench_open(&b, "cpu");
    weft_kernel *k = b.k;
    weft_kval v = weft_k_iota(k, WEFT_I64, 8), x = weft_k_block(k);
    ck_assert_int_eq(weft_ktype_of(k, weft_k_add(k, v, x)).lanes, 8);
    ck_assert_int_eq(weft_ktype_of(k, weft_k_lt(k, x, v)).lanes, 8);
    ck_assert_int_eq(weft_ktype_of(k, weft_k_lt(k, x, v)).elem, WEFT_BOOL);
    ck_assert_int_eq(constant_of(&b, weft_k_extract(k, v, 5)), 5);
    ck_assert_int_eq(weft_k_extract(k, weft_k_splat(k, x, 4), 2), x);
    expect_ok(weft_kernel_verify(k));
    bench_close(&b);
}
END_TEST

START_TEST(test_extents) {
    bench b;
    bench_open(&b, "cpu");
    weft_dim n = weft_dim_symbol(b.dims, "N", 1, 100, 1, WEFT_SYMBOL_DECLARED);
    ck_assert_int_eq(constant_of(&b, weft_k_extent(b.k, 12)), 12);
    weft_k_extent(b.k, n);
    weft_k_extent(b.k, weft_dim_add(b.dims, n, n));
    weft_k_extent(b.k, n);
    ck_assert_uint_eq(b.k->argument_count, 2);
    bench_close(&b);
}
END_TEST

static uint64_t hash_of(double scale, const char *name) {
    bench b;
    bench_open(&b, "cpu");
    b.k->name = name;
    weft_kval in = bench_in(&b, WEFT_F32, "x"), out = bench_out(&b, WEFT_F32, "y");
    weft_kval value = weft_k_load(b.k, in, weft_k_block(b.k), 1, WEFT_KNONE, WEFT_KNONE);
    weft_k_store(b.k, out, weft_k_block(b.k), WEFT_KNONE, weft_k_mul(b.k, value, weft_k_float(b.k, WEFT_F32, scale)));
    uint64_t hash = weft_kernel_hash(b.k);
    bench_close(&b);
    return hash;
}

START_TEST(test_hash) {
    ck_assert_uint_eq(hash_of(2, "a"), hash_of(2, "b"));
    ck_assert_uint_ne(hash_of(2, "a"), hash_of(3, "a"));
}
END_TEST

START_TEST(test_text) {
    bench b;
    bench_open(&b, "cpu");
    weft_kval out = bench_out(&b, WEFT_F32, "y");
    weft_kval lo = weft_k_index(b.k, 0), hi = weft_k_index(b.k, 16), step = weft_k_index(b.k, 8);
    weft_kval i = weft_k_for(b.k, lo, hi, step, 0);
    weft_k_store(b.k, out, i, WEFT_KNONE, weft_k_constant_lanes(b.k, WEFT_F32, 0.5, 8));
    weft_k_end(b.k);
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    weft_kernel_print(b.k, &text);
    ck_assert_str_eq(weft_text_string(&text), "kernel test target=cpu-x86-64-v4 threads=1 grid=1\n"
                                              "  argument 0 \"y\": result 0 f32 writes\n"
                                              "  %0: buffer<f32> = buffer\n"
                                              "  %1: i64 = constant #0\n"
                                              "  %2: i64 = constant #16\n"
                                              "  %3: i64 = constant #8\n"
                                              "  %4: i64 = for %1, %2, %3\n"
                                              "    %5: f32x8 = constant 0.5\n"
                                              "    store %0, %4, -, %5\n"
                                              "  end\n");
    weft_text_deinit(&text);
    bench_close(&b);
}
END_TEST

Suite *build_suite(void) {
    Suite *suite = suite_create("build");
    TCase *tests = tcase_create("constructors");
    tcase_add_test(tests, test_integers_fold);
    tcase_add_test(tests, test_identities);
    tcase_add_test(tests, test_splats);
    tcase_add_test(tests, test_extents);
    tcase_add_test(tests, test_hash);
    tcase_add_test(tests, test_text);
    suite_add_tcase(suite, tests);
    return suite;
}
