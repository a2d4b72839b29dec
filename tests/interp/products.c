/* dot_general, convolution, random bits, transforms, linear algebra: against numpy (numpy_values.h) and by hand. */
#include <string.h>

#include "base/tensor.h"
#include "tests/interp/interp.h"
#include "tests/interp/numpy_values.h"

#define I64S(...) ((int64_t[]){__VA_ARGS__})

static weft_value *matmul(weft_value *a, weft_value *b, weft_dtype dtype, weft_dtype accumulate) {
    weft_attribute attributes[] = {weft_attr_ints(WEFT_ATTR_lhs_batch, 0, NULL),
                                   weft_attr_ints(WEFT_ATTR_rhs_batch, 0, NULL),
                                   INTS(lhs_contract, 1),
                                   INTS(rhs_contract, 0),
                                   weft_attr_dtype(WEFT_ATTR_dtype, dtype),
                                   weft_attr_dtype(WEFT_ATTR_accumulate, accumulate)};
    return apply2(WEFT_OP_dot_general, a, b, accumulate ? 6 : 5, attributes);
}

START_TEST(dot_numpy) {
    weft_attribute attributes[] = {INTS(lhs_batch, 0, 1), INTS(rhs_batch, 1, 3), INTS(lhs_contract, 3),
                                   INTS(rhs_contract, 0), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F64)};
    weft_value *a = constant_of(WEFT_F64, DIMS(2, 3, 5, 4), dot_a), *b = constant_of(WEFT_F64, DIMS(4, 2, 6, 3), dot_b);
    expect(apply2(WEFT_OP_dot_general, a, b, 5, attributes), DIMS(2, 3, 5, 6), dot_y, 1e-14);
    a = constant_of(WEFT_F32, DIMS(2, 3, 5, 4), dot_a);
    b = constant_of(WEFT_F32, DIMS(4, 2, 6, 3), dot_b);
    attributes[4] = weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F32);
    expect(apply2(WEFT_OP_dot_general, a, b, 5, attributes), DIMS(2, 3, 5, 6), dot_y, 1e-6);
}
END_TEST

START_TEST(dot_dtypes) {
    weft_value *a = integers_of(WEFT_I8, DIMS(1, 2), I64S(127, -128)),
               *b = integers_of(WEFT_I8, DIMS(2, 1), I64S(127, 127));
    expect_integers(matmul(a, b, WEFT_I32, WEFT_INVALID), DIMS(1, 1), I64S(-127));
    expect(matmul(a, b, WEFT_F32, WEFT_I32), DIMS(1, 1), LIST(-127), 0);
    weft_value *u = integers_of(WEFT_U8, DIMS(2, 1), I64S(255, 1));
    expect_integers(matmul(a, u, WEFT_I32, WEFT_INVALID), DIMS(1, 1), I64S(127 * 255 - 128));
    expect_integers(matmul(a, b, WEFT_I8, WEFT_I8), DIMS(1, 1), I64S(-127));
    weft_value *c = constant_of(WEFT_C64, DIMS(1, 2), LIST(1, 1, 2, 0)),
               *d = constant_of(WEFT_C64, DIMS(2, 1), LIST(1, -1, 0, 3));
    expect(matmul(c, d, WEFT_C64, WEFT_INVALID), DIMS(1, 1), LIST(2, 6), 0);
    weft_value *e = constant_of(WEFT_F8E4M3FN, DIMS(1, 2), LIST(448, 448)),
               *f = constant_of(WEFT_F8E5M2, DIMS(2, 1), LIST(2, 1));
    expect(matmul(e, f, WEFT_F16, WEFT_INVALID), DIMS(1, 1), LIST(1344), 0);
    weft_value *none = constant_of(WEFT_F32, DIMS(2, 0), NULL), *empty = constant_of(WEFT_F32, DIMS(0, 2), NULL);
    expect(matmul(none, empty, WEFT_F32, WEFT_INVALID), DIMS(2, 2), LIST(0, 0, 0, 0), 0);
}
END_TEST

static weft_value *convolve(weft_dtype dtype, const int64_t *n) { /* n: stride low high dilation base, two each */
    weft_attribute attributes[] = {weft_attr_ints(WEFT_ATTR_stride, 2, n),
                                   weft_attr_dims(WEFT_ATTR_low, 2, n + 2),
                                   weft_attr_dims(WEFT_ATTR_high, 2, n + 4),
                                   weft_attr_ints(WEFT_ATTR_dilation, 2, n + 6),
                                   weft_attr_ints(WEFT_ATTR_base_dilation, 2, n + 8),
                                   weft_attr_int(WEFT_ATTR_groups, 2),
                                   weft_attr_dtype(WEFT_ATTR_dtype, dtype)};
    return apply2(WEFT_OP_convolution, constant_of(dtype, DIMS(2, 4, 5, 6), conv_x),
                  constant_of(dtype, DIMS(6, 2, 3, 2), conv_w), 7, attributes);
}

START_TEST(convolution_numpy) {
    static const int64_t plain[10] = {1, 1, 1, 0, 1, 1, 1, 1, 1, 1}, dilated[10] = {2, 1, 0, 2, 3, 0, 1, 2, 2, 3};
    expect(convolve(WEFT_F64, plain), 4, conv_shape0, conv_y0, 1e-14);
    expect(convolve(WEFT_F64, dilated), 4, conv_shape1, conv_y1, 1e-14);
    expect(convolve(WEFT_F32, plain), 4, conv_shape0, conv_y0, 1e-6);
}
END_TEST

START_TEST(convolution_by_hand) {
    weft_attribute attributes[] = {INTS(stride, 1),
                                   EXTENTS(low, weft_dim_number(test_graph->dims, -1)),
                                   EXTENTS(high, 1),
                                   INTS(dilation, 1),
                                   INTS(base_dilation, 1),
                                   weft_attr_int(WEFT_ATTR_groups, 1),
                                   weft_attr_dtype(WEFT_ATTR_dtype, WEFT_I32)};
    weft_value *x = integers_of(WEFT_I8, DIMS(1, 1, 4), I64S(1, 2, 3, 4)),
               *w = integers_of(WEFT_I8, DIMS(1, 1, 2), I64S(10, -1));
    expect_integers(apply2(WEFT_OP_convolution, x, w, 7, attributes), DIMS(1, 1, 3),
                    I64S(17, 26, 40)); /* cut by one in front */
}
END_TEST

START_TEST(random_bits) {
    weft_value *key = integers_of(WEFT_U64, DIMS(2), (const int64_t *)philox_key);
    int64_t narrow[5];
    for (int i = 0; i < 5; i++) narrow[i] = (int64_t)philox_u32[i];
    expect_integers(
        apply1(WEFT_OP_rng_bits, key, ATTRIBUTES(EXTENTS(shape, 5), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U32))),
        DIMS(5), narrow);
    expect_integers(
        apply1(WEFT_OP_rng_bits, key, ATTRIBUTES(EXTENTS(shape, 1, 5), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U64))),
        DIMS(1, 5), (const int64_t *)philox_u64);
    int64_t halves[10]; /* of the draws with counters 0 and 1, the lower half of a word first */
    for (int i = 0; i < 10; i++) halves[i] = (int64_t)(philox_words[i / 2] >> 16 * (i % 2) & 0xffff);
    expect_integers(
        apply1(WEFT_OP_rng_bits, key, ATTRIBUTES(EXTENTS(shape, 2, 5), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U16))),
        DIMS(2, 5), halves);
    weft_value *zero =
        integers_of(WEFT_U64, DIMS(2), I64S(0, 0)); /* the published test vector of the all-zero key and counter */
    expect_integers(
        apply1(WEFT_OP_rng_bits, zero, ATTRIBUTES(EXTENTS(shape, 1), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U32))),
        DIMS(1), I64S(0x6627e8d5));
}
END_TEST

static weft_value *fft(weft_value *x, const char *kind, int64_t axis) {
    return apply1(WEFT_OP_fft, x,
                  ATTRIBUTES(weft_attr_string(WEFT_ATTR_kind, kind), weft_attr_int(WEFT_ATTR_axis, axis)));
}

START_TEST(transforms) {
    static const struct {
        int64_t n;
        const double *x, *y;
    } cases[] = {{1, fft_x1, fft_y1}, {8, fft_x8, fft_y8}, {12, fft_x12, fft_y12}, {7, fft_x7, fft_y7}};
    for (int i = 0; i < 4; i++) {
        weft_value *x = constant_of(WEFT_C128, 1, &cases[i].n, cases[i].x);
        expect(fft(x, "forward", 0), 1, &cases[i].n, cases[i].y, 1e-14);
        expect(fft(fft(x, "forward", 0), "inverse", 0), 1, &cases[i].n, cases[i].x, 1e-14);
    }
    weft_value *m = constant_of(WEFT_C64, DIMS(2, 2), LIST(1, 0, 2, 0, 3, 0, 4, 0));
    expect(fft(m, "forward", 0), DIMS(2, 2), LIST(4, 0, 6, 0, -2, 0, -2, 0), 1e-7);
    expect(fft(m, "forward", 1), DIMS(2, 2), LIST(3, 0, -1, 0, 7, 0, -1, 0), 1e-7);
}
END_TEST

static weft_value *solve(weft_value *a, weft_value *b, int64_t left, int64_t lower, int64_t transpose, int64_t unit) {
    return apply2(WEFT_OP_triangular_solve, a, b,
                  ATTRIBUTES(weft_attr_int(WEFT_ATTR_left_side, left), weft_attr_int(WEFT_ATTR_lower, lower),
                             weft_attr_int(WEFT_ATTR_transpose_a, transpose),
                             weft_attr_int(WEFT_ATTR_unit_diagonal, unit)));
}

START_TEST(factorizations) {
    weft_value *x = constant_of(WEFT_F64, DIMS(4, 4), spd);
    expect(apply1(WEFT_OP_cholesky, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_lower, 1))), DIMS(4, 4), cholesky_l, 1e-14);
    double upper[16];
    for (int i = 0; i < 16; i++) upper[i] = cholesky_l[i % 4 * 4 + i / 4];
    expect(apply1(WEFT_OP_cholesky, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_lower, 0))), DIMS(4, 4), upper, 1e-14);
    weft_value *minus = constant_of(WEFT_F64, DIMS(1, 1), LIST(-1));
    expect(apply1(WEFT_OP_cholesky, minus, ATTRIBUTES(weft_attr_int(WEFT_ATTR_lower, 1))), DIMS(1, 1),
           LIST((double)NAN), 0);
    weft_value *a = constant_of(WEFT_F64, DIMS(4, 4), triangle), *b = constant_of(WEFT_F64, DIMS(4, 3), rhs);
    expect(solve(a, b, 1, 1, 0, 0), DIMS(4, 3), solve_left, 1e-14);
    expect(solve(a, b, 1, 1, 1, 0), DIMS(4, 3), solve_transposed, 1e-14);
    weft_value *flat = apply1(WEFT_OP_transpose, b, ATTRIBUTES(INTS(permutation, 1, 0)));
    expect(solve(a, flat, 0, 1, 0, 0), DIMS(3, 4), solve_right, 1e-14);
    weft_value *unit = constant_of(WEFT_F64, DIMS(2, 2), LIST(9, 2, 0, 9)),
               *c = constant_of(WEFT_F64, DIMS(2, 1), LIST(5, 1));
    expect(solve(unit, c, 1, 0, 0, 1), DIMS(2, 1), LIST(3, 1), 0); /* [1 2; 0 1] x = [5 1] */
    weft_value *tall_value = constant_of(WEFT_F64, DIMS(5, 3), tall);
    weft_node *qr = weft_node_create(test_graph, WEFT_OP_qr, 1, &tall_value, 0, NULL, 0, NULL);
    expect(&qr->results[0], DIMS(5, 3), tall_q, 1e-14);
    expect(&qr->results[1], DIMS(3, 3), tall_r, 1e-14);
}
END_TEST

START_TEST(eigenvectors) {
    double two[32]; /* a batch of two */
    memcpy(two, spd, sizeof spd);
    for (int i = 0; i < 16; i++) two[16 + i] = i / 4 == i % 4 ? 4 - i / 4 : 0;
    weft_value *x = constant_of(WEFT_F64, DIMS(2, 4, 4), two);
    weft_node *node = weft_node_create(test_graph, WEFT_OP_eigh, 1, &x, 0, NULL, 0, NULL);
    weft_tensor *results[2];
    evaluate(2, (weft_value *[]){&node->results[0], &node->results[1]}, results);
    double values[8];
    memcpy(values, eigenvalues, sizeof eigenvalues);
    for (int i = 0; i < 4; i++) values[4 + i] = i + 1;
    check_tensor(results[0], DIMS(2, 4), values, 1e-13);
    for (int b = 0; b < 2; b++) { /* A v = lambda v, and v orthonormal */
        const double *a = two + 16 * b, *v = (const double *)results[1]->data + 16 * b;
        for (int j = 0; j < 4; j++) {
            for (int i = 0; i < 4; i++) {
                double product = 0, dot = 0;
                for (int k = 0; k < 4; k++) product += a[i * 4 + k] * v[k * 4 + j];
                for (int k = 0; k < 4; k++) dot += v[k * 4 + i] * v[k * 4 + j];
                ck_assert_double_le(fabs(product - values[4 * b + j] * v[i * 4 + j]), 1e-12);
                ck_assert_double_le(fabs(dot - (i == j)), 1e-13);
            }
        }
    }
    for (int i = 0; i < 2; i++) weft_tensor_release(results[i]);
}
END_TEST

Suite *products_suite(void) {
    Suite *suite = suite_create("products");
    TCase *tests = tcase_create("products");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, dot_numpy);
    tcase_add_test(tests, dot_dtypes);
    tcase_add_test(tests, convolution_numpy);
    tcase_add_test(tests, convolution_by_hand);
    tcase_add_test(tests, random_bits);
    tcase_add_test(tests, transforms);
    tcase_add_test(tests, factorizations);
    tcase_add_test(tests, eigenvectors);
    suite_add_tcase(suite, tests);
    return suite;
}
