/* Elementwise ops: hand-checked values with NaN, signed zeros, overflow, every domain. */
#include "tests/interp/interp.h"

static const double nan_ = (double)NAN, inf = (double)INFINITY;

/* op over a list of doubles in f64, exact unless a tolerance is given */
#define UNARY(op, tolerance, in, out)                                                                                  \
    do {                                                                                                               \
        int64_t n_ = (int64_t)(sizeof(in) / sizeof(double));                                                           \
        expect(apply1(WEFT_OP_##op, constant_of(WEFT_F64, 1, &n_, in), NO_ATTRIBUTES), 1, &n_, out, tolerance);        \
    } while (0)
#define BINARY(op, a, b, out)                                                                                          \
    do {                                                                                                               \
        int64_t n_ = (int64_t)(sizeof(a) / sizeof(double));                                                            \
        expect(                                                                                                        \
            apply2(WEFT_OP_##op, constant_of(WEFT_F64, 1, &n_, a), constant_of(WEFT_F64, 1, &n_, b), NO_ATTRIBUTES),   \
            1, &n_, out, 1e-15);                                                                                       \
    } while (0)
#define INTEGER1(op, dtype, in, out)                                                                                   \
    do {                                                                                                               \
        int64_t n_ = (int64_t)(sizeof(in) / sizeof(int64_t));                                                          \
        expect_integers(apply1(WEFT_OP_##op, integers_of(dtype, 1, &n_, in), NO_ATTRIBUTES), 1, &n_, out);             \
    } while (0)
#define INTEGER2(op, dtype, a, b, out)                                                                                 \
    do {                                                                                                               \
        int64_t n_ = (int64_t)(sizeof(a) / sizeof(int64_t));                                                           \
        expect_integers(                                                                                               \
            apply2(WEFT_OP_##op, integers_of(dtype, 1, &n_, a), integers_of(dtype, 1, &n_, b), NO_ATTRIBUTES), 1, &n_, \
            out);                                                                                                      \
    } while (0)
#define I64S(...) ((int64_t[]){__VA_ARGS__})

START_TEST(unary_floats) {
    UNARY(abs, 0, LIST(-0.0, -2, nan_, -inf), LIST(0.0, 2, nan_, inf));
    UNARY(neg, 0, LIST(0.0, -2, nan_), LIST(-0.0, 2, nan_));
    UNARY(sign, 0, LIST(-0.0, 0.0, -3, 5, nan_, -inf), LIST(-0.0, 0.0, -1, 1, nan_, -1));
    UNARY(round, 0, LIST(0.5, 1.5, 2.5, -0.5, -2.5, 0.3), LIST(0, 2, 2, -0.0, -2, 0));
    UNARY(floor, 0, LIST(-0.5, 2.7, -0.0), LIST(-1, 2, -0.0));
    UNARY(ceil, 0, LIST(-0.5, 2.2), LIST(-0.0, 3));
    UNARY(exp, 1e-15, LIST(0, 1, -inf, 1000), LIST(1, 2.718281828459045, 0, inf));
    UNARY(expm1, 1e-15, LIST(1e-20, -inf), LIST(1e-20, -1));
    UNARY(log, 1e-15, LIST(1, 0.0, -1, 10), LIST(0, -inf, nan_, 2.302585092994046));
    UNARY(log1p, 1e-15, LIST(1e-20, -1), LIST(1e-20, -inf));
    UNARY(sqrt, 0, LIST(4, -0.0, -1), LIST(2, -0.0, nan_));
    UNARY(rsqrt, 1e-15, LIST(4, 0.0, inf), LIST(0.5, inf, 0));
    UNARY(logistic, 1e-15, LIST(0, 1000, -1000, 2), LIST(0.5, 1, 0, 0.8807970779778823));
    UNARY(erf, 1e-15, LIST(0.5, inf, -1), LIST(0.5204998778130465, 1, -0.8427007929497149));
    UNARY(tanh, 1e-15, LIST(0.5, -inf), LIST(0.46211715726000973, -1));
    UNARY(sin, 1e-15, LIST(1, inf), LIST(0.8414709848078965, nan_));
    UNARY(cos, 1e-15, LIST(1), LIST(0.5403023058681398));
    UNARY(tan, 1e-15, LIST(1), LIST(1.5574077246549023));
    UNARY(asin, 1e-15, LIST(1, 2), LIST(1.5707963267948966, nan_));
    UNARY(acos, 1e-15, LIST(1, 0), LIST(0, 1.5707963267948966));
    UNARY(atan, 1e-15, LIST(inf), LIST(1.5707963267948966));
    UNARY(sinh, 1e-15, LIST(1), LIST(1.1752011936438014));
    UNARY(cosh, 1e-15, LIST(1), LIST(1.5430806348152437));
    UNARY(asinh, 1e-15, LIST(1), LIST(0.881373587019543));
    UNARY(acosh, 1e-15, LIST(1, 0.5), LIST(0, nan_));
    UNARY(atanh, 1e-15, LIST(0.5, 1), LIST(0.5493061443340548, inf));
    UNARY(is_nan, 0, LIST(nan_, 1, inf), LIST(1, 0, 0));
    UNARY(is_finite, 0, LIST(nan_, 1, -inf), LIST(0, 1, 0));
}
END_TEST

START_TEST(binary_floats) {
    BINARY(add, LIST(1, inf), LIST(2, -inf), LIST(3, nan_));
    BINARY(sub, LIST(1), LIST(2.5), LIST(-1.5));
    BINARY(mul, LIST(0.0, 3), LIST(-1, 4), LIST(-0.0, 12));
    BINARY(div, LIST(1, 0.0, -1), LIST(0.0, 0.0, 4), LIST(inf, nan_, -0.25));
    BINARY(rem, LIST(-7, 7, 5.5, 1), LIST(3, -3, 2, 0.0), LIST(-1, 1, 1.5, nan_));
    BINARY(pow, LIST(2, 0.0, -8, nan_), LIST(10, 0.0, 1.0 / 3, 0.0), LIST(1024, 1, nan_, 1));
    BINARY(max, LIST(1, nan_, 2, -0.0, 0.0), LIST(2, 1, nan_, 0.0, -0.0), LIST(2, nan_, nan_, 0.0, 0.0));
    BINARY(min, LIST(1, nan_, 2, -0.0, 0.0), LIST(2, 1, nan_, 0.0, -0.0), LIST(1, nan_, nan_, -0.0, -0.0));
    BINARY(atan2, LIST(1, -0.0), LIST(-1, -1), LIST(2.356194490192345, -3.141592653589793));
}
END_TEST

START_TEST(integers) {
    INTEGER1(abs, WEFT_I8, I64S(-128, -5, 7), I64S(-128, 5, 7));
    INTEGER1(neg, WEFT_U8, I64S(1, 0), I64S(255, 0));
    INTEGER1(sign, WEFT_U64, I64S(-1, 0), I64S(1, 0));
    INTEGER1(not, WEFT_I16, I64S(0, 5), I64S(-1, -6));
    INTEGER1(not, WEFT_BOOL, I64S(0, 1), I64S(1, 0));
    INTEGER1(popcount, WEFT_I4, I64S(-1, 5), I64S(4, 2));
    INTEGER2(add, WEFT_I8, I64S(127, -128), I64S(1, -1), I64S(-128, 127));
    INTEGER2(sub, WEFT_U4, I64S(0), I64S(1), I64S(15));
    INTEGER2(mul, WEFT_I64, I64S(INT64_MAX, 3), I64S(2, -4), I64S(-2, -12));
    INTEGER2(div, WEFT_I32, I64S(-7, 7, 5, INT32_MIN), I64S(2, -2, 0, -1), I64S(-3, -3, -1, INT32_MIN));
    INTEGER2(div, WEFT_U8, I64S(200, 5), I64S(7, 0), I64S(28, 255));
    INTEGER2(div, WEFT_U64, I64S(-1), I64S(2), I64S(INT64_MAX));
    INTEGER2(rem, WEFT_I64, I64S(-7, 7, 5, INT64_MIN), I64S(2, -2, 0, -1), I64S(-1, 1, 5, 0));
    INTEGER2(pow, WEFT_I32, I64S(3, -2, 2, 2, -1), I64S(4, 3, 31, -1, -3), I64S(81, -8, INT32_MIN, 0, -1));
    INTEGER2(max, WEFT_U64, I64S(-1, 3), I64S(1, 5), I64S(-1, 5));
    INTEGER2(min, WEFT_I64, I64S(-1), I64S(1), I64S(-1));
    INTEGER2(and, WEFT_BOOL, I64S(1, 1), I64S(1, 0), I64S(1, 0));
    INTEGER2(xor, WEFT_I8, I64S(-1), I64S(15), I64S(-16));
    INTEGER2(or, WEFT_U2, I64S(1), I64S(2), I64S(3));
    INTEGER2(shift_left, WEFT_I8, I64S(1, 64, 1, 1), I64S(7, 1, 8, -1), I64S(-128, -128, 0, 0));
    INTEGER2(shift_right_logical, WEFT_I8, I64S(-1, -1, -128), I64S(4, 8, 7), I64S(15, 0, 1));
    INTEGER2(shift_right_arithmetic, WEFT_I8, I64S(-128, -128, 64), I64S(3, 100, 100), I64S(-16, -1, 0));
    INTEGER2(shift_right_arithmetic, WEFT_U8, I64S(128), I64S(3), I64S(240));
}
END_TEST

START_TEST(rounding) { /* one rounding per op, whatever the dtype */
    weft_value *a = constant_of(WEFT_F16, DIMS(2), LIST(2048, 60000)),
               *b = constant_of(WEFT_F16, DIMS(2), LIST(1, 10000));
    expect(apply2(WEFT_OP_add, a, b, NO_ATTRIBUTES), DIMS(2), LIST(2048, inf), 0);
    weft_value *c = constant_of(WEFT_BF16, DIMS(1), LIST(1)), *d = constant_of(WEFT_BF16, DIMS(1), LIST(3));
    expect(apply2(WEFT_OP_div, c, d, NO_ATTRIBUTES), DIMS(1), LIST(0.333984375), 0);
    weft_value *e = constant_of(WEFT_F32, DIMS(1), LIST(16777216)), *f = constant_of(WEFT_F32, DIMS(1), LIST(1));
    expect(apply2(WEFT_OP_add, e, f, NO_ATTRIBUTES), DIMS(1), LIST(16777216), 0);
    weft_value *g = constant_of(WEFT_F8E4M3FN, DIMS(2), LIST(448, 1)),
               *h = constant_of(WEFT_F8E4M3FN, DIMS(2), LIST(448, 0.0625));
    expect(apply2(WEFT_OP_add, g, h, NO_ATTRIBUTES), DIMS(2), LIST(nan_, 1), 0);
}
END_TEST

START_TEST(complex_numbers) {
    weft_value *a = constant_of(WEFT_C64, DIMS(2), LIST(1, 2, 0, 1)),
               *b = constant_of(WEFT_C64, DIMS(2), LIST(3, -1, 0, 1));
    expect(apply2(WEFT_OP_mul, a, b, NO_ATTRIBUTES), DIMS(2), LIST(5, 5, -1, 0.0), 0);
    expect(apply2(WEFT_OP_div, a, b, NO_ATTRIBUTES), DIMS(2), LIST(0.1, 0.7, 1, 0), 1e-7);
    expect(apply2(WEFT_OP_sub, a, b, NO_ATTRIBUTES), DIMS(2), LIST(-2, 3, 0, 0), 0);
    expect(apply1(WEFT_OP_imag, a, NO_ATTRIBUTES), DIMS(2), LIST(2, 1), 0);
    expect(apply1(WEFT_OP_real, a, NO_ATTRIBUTES), DIMS(2), LIST(1, 0), 0);
    weft_value *re = constant_of(WEFT_F64, DIMS(1), LIST(7)), *im = constant_of(WEFT_F64, DIMS(1), LIST(-0.0));
    expect(apply2(WEFT_OP_complex, re, im, NO_ATTRIBUTES), DIMS(1), LIST(7, -0.0), 0);
}
END_TEST

static void compare(const char *direction, double a, double b, double want) {
    expect(apply2(WEFT_OP_compare, constant_of(WEFT_F32, SCALAR, &a), constant_of(WEFT_F32, SCALAR, &b),
                  ATTRIBUTES(weft_attr_string(WEFT_ATTR_direction, direction))),
           SCALAR, &want, 0);
}

START_TEST(compare_select) {
    const char *directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    static const double want[6][4] = {/* 1 2 | 2 2 | 3 2 | nan 2 */
                                      {0, 1, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0},
                                      {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}};
    for (int d = 0; d < 6; d++)
        for (int i = 0; i < 4; i++) compare(directions[d], LIST(1, 2, 3, nan_)[i], 2, want[d][i]);
    compare("eq", 0.0, -0.0, 1);
    weft_value *big = integers_of(WEFT_U64, SCALAR, I64S(-1)), *one = integers_of(WEFT_U64, SCALAR, I64S(1));
    expect_integers(apply2(WEFT_OP_compare, big, one, ATTRIBUTES(weft_attr_string(WEFT_ATTR_direction, "gt"))), SCALAR,
                    I64S(1));
    weft_value *p = integers_of(WEFT_BOOL, DIMS(3), I64S(1, 0, 1));
    weft_value *x = integers_of(WEFT_I4, DIMS(3), I64S(1, 2, 3)), *y = integers_of(WEFT_I4, DIMS(3), I64S(-1, -2, -3));
    expect_integers(weft_build(test_graph, WEFT_OP_select, 3, (weft_value *[]){p, x, y}, 0, NULL), DIMS(3),
                    I64S(1, -2, 3));
}
END_TEST

static weft_value *convert(weft_value *x, weft_dtype to, int saturate) {
    return apply1(WEFT_OP_convert, x,
                  ATTRIBUTES(weft_attr_dtype(WEFT_ATTR_dtype, to), weft_attr_int(WEFT_ATTR_saturate, saturate)));
}

START_TEST(conversions) {
    weft_value *x = constant_of(WEFT_F32, DIMS(5), LIST(1.9, -1.9, 1e20, nan_, -inf));
    expect_integers(convert(x, WEFT_I32, 0), DIMS(5), I64S(1, -1, INT32_MAX, 0, INT32_MIN));
    expect_integers(convert(x, WEFT_U8, 0), DIMS(5), I64S(1, 0, 255, 0, 0));
    expect_integers(convert(x, WEFT_BOOL, 0), DIMS(5), I64S(1, 1, 1, 1, 1));
    expect(convert(x, WEFT_F8E4M3FN, 1), DIMS(5), LIST(1.875, -1.875, 448, nan_, -448), 0);
    expect(convert(x, WEFT_F8E4M3FN, 0), DIMS(5), LIST(1.875, -1.875, nan_, nan_, nan_), 0);
    expect(convert(x, WEFT_F16, 1), DIMS(5), LIST(1.900390625, -1.900390625, inf, nan_, -inf), 0);
    weft_value *n = integers_of(WEFT_I64, DIMS(4), I64S(300, -1, INT64_MAX, 9007199791611905));
    expect_integers(convert(n, WEFT_I8, 0), DIMS(4), I64S(44, -1, -1, 1));
    expect_integers(convert(n, WEFT_U64, 0), DIMS(4), I64S(300, -1, INT64_MAX, 9007199791611905));
    /* 2^53 + 2^29 + 1: half a unit of f32 and a bit, lost if it went through f64 */
    expect(convert(n, WEFT_F32, 0), DIMS(4), LIST(300, -1, 0x1p63, 9007200328482816.0), 0);
    weft_value *u = integers_of(WEFT_U64, DIMS(1), I64S(-1));
    expect(convert(u, WEFT_F64, 0), DIMS(1), LIST(0x1p64), 0);
    expect(convert(u, WEFT_C64, 0), DIMS(1), LIST(0x1p64, 0), 0);
    weft_value *bits = constant_of(WEFT_F32, DIMS(2), LIST(1, -0.0));
    expect_integers(apply1(WEFT_OP_bitcast, bits, ATTRIBUTES(weft_attr_dtype(WEFT_ATTR_dtype, WEFT_I32))), DIMS(2),
                    I64S(0x3f800000, INT32_MIN));
}
END_TEST

START_TEST(empty_and_scalar) {
    weft_value *none = constant_of(WEFT_F32, DIMS(2, 0, 3), NULL), *one = constant_of(WEFT_F32, SCALAR, LIST(2));
    expect(apply1(WEFT_OP_exp, none, NO_ATTRIBUTES), DIMS(2, 0, 3), NULL, 0);
    expect(apply2(WEFT_OP_mul, one, one, NO_ATTRIBUTES), SCALAR, LIST(4), 0);
    double many[1300]; /* more than one block */
    for (int i = 0; i < 1300; i++) many[i] = i;
    weft_value *x = constant_of(WEFT_F32, DIMS(1300), many);
    for (int i = 0; i < 1300; i++) many[i] = 2 * i;
    expect(apply2(WEFT_OP_add, x, x, NO_ATTRIBUTES), DIMS(1300), many, 0);
}
END_TEST

Suite *elementwise_suite(void) {
    Suite *suite = suite_create("elementwise");
    TCase *tests = tcase_create("elementwise");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, unary_floats);
    tcase_add_test(tests, binary_floats);
    tcase_add_test(tests, integers);
    tcase_add_test(tests, rounding);
    tcase_add_test(tests, complex_numbers);
    tcase_add_test(tests, compare_select);
    tcase_add_test(tests, conversions);
    tcase_add_test(tests, empty_and_scalar);
    suite_add_tcase(suite, tests);
    return suite;
}
