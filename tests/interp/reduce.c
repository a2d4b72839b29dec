/* Reductions, cumulative ops, windows. */
#include "tests/interp/interp.h"

#define I64S(...) ((int64_t[]){__VA_ARGS__})
static const double nan_ = (double)NAN, inf = (double)INFINITY;

static weft_value *reduce(weft_value *x, const char *kind, int count, const int64_t *axes) {
    return apply1(WEFT_OP_reduce, x,
                  ATTRIBUTES(weft_attr_ints(WEFT_ATTR_axes, count, axes), weft_attr_string(WEFT_ATTR_kind, kind)));
}

START_TEST(axes) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 3, 2), LIST(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    expect(reduce(x, "sum", DIMS(0)), DIMS(3, 2), LIST(8, 10, 12, 14, 16, 18), 0);
    expect(reduce(x, "sum", DIMS(1)), DIMS(2, 2), LIST(9, 12, 27, 30), 0);
    expect(reduce(x, "sum", DIMS(2)), DIMS(2, 3), LIST(3, 7, 11, 15, 19, 23), 0);
    expect(reduce(x, "sum", DIMS(0, 2)), DIMS(3), LIST(18, 26, 34), 0);
    expect(reduce(x, "max", DIMS(0, 1, 2)), SCALAR, LIST(12), 0);
    expect(reduce(x, "product", 0, NULL), DIMS(2, 3, 2), LIST(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 0);
}
END_TEST

START_TEST(kinds) {
    weft_value *x = constant_of(WEFT_F64, DIMS(3), LIST(1, nan_, -2)),
               *y = constant_of(WEFT_F16, DIMS(2), LIST(-0.0, -0.0));
    expect(reduce(x, "max", DIMS(0)), SCALAR, LIST(nan_), 0);
    expect(reduce(x, "min", DIMS(0)), SCALAR, LIST(nan_), 0);
    expect(reduce(y, "max", DIMS(0)), SCALAR, LIST(-0.0), 0);
    weft_value *n = integers_of(WEFT_U64, DIMS(2), I64S(-1, 2)), *b = integers_of(WEFT_BOOL, DIMS(2), I64S(1, 0));
    expect_integers(reduce(n, "max", DIMS(0)), SCALAR, I64S(-1));
    expect_integers(reduce(n, "sum", DIMS(0)), SCALAR, I64S(1));
    expect_integers(reduce(n, "and", DIMS(0)), SCALAR, I64S(2));
    expect_integers(reduce(b, "and", DIMS(0)), SCALAR, I64S(0));
    expect_integers(reduce(b, "or", DIMS(0)), SCALAR, I64S(1));
    weft_value *small = integers_of(WEFT_I8, DIMS(3), I64S(100, 100, 100));
    expect_integers(reduce(small, "sum", DIMS(0)), SCALAR, I64S(44)); /* wraps */
    weft_value *c = constant_of(WEFT_C64, DIMS(2), LIST(1, 2, 3, -1));
    expect(reduce(c, "product", DIMS(0)), SCALAR, LIST(5, 5), 0);
}
END_TEST

START_TEST(empty) {
    weft_value *x = constant_of(WEFT_F32, DIMS(0, 2), NULL), *n = integers_of(WEFT_I16, DIMS(0), NULL);
    expect(reduce(x, "sum", DIMS(0)), DIMS(2), LIST(0, 0), 0);
    expect(reduce(x, "product", DIMS(0)), DIMS(2), LIST(1, 1), 0);
    expect(reduce(x, "max", DIMS(0)), DIMS(2), LIST(-inf, -inf), 0);
    expect(reduce(x, "min", DIMS(0, 1)), SCALAR, LIST(inf), 0);
    expect(reduce(x, "sum", DIMS(1)), DIMS(0), NULL, 0);
    expect_integers(reduce(n, "max", DIMS(0)), SCALAR, I64S(INT16_MIN));
    expect_integers(reduce(n, "min", DIMS(0)), SCALAR, I64S(INT16_MAX));
    weft_value *f8 = constant_of(WEFT_F8E4M3FN, DIMS(0), NULL);
    expect(reduce(f8, "max", DIMS(0)), SCALAR, LIST(-448), 0); /* no infinity: the lowest number */
}
END_TEST

START_TEST(accuracy) { /* exact mode adds in f64 and rounds once; rounded mode adds in f32 */
    double many[4097];
    many[0] = 16777216;
    for (int i = 1; i < 4097; i++) many[i] = 1;
    weft_tensor *x = tensor_of(WEFT_F32, DIMS(4097), many), *results[1];
    weft_dim shape = 4097;
    weft_value *in = weft_graph_input(test_graph, "x", WEFT_F32, 1, &shape);
    weft_graph_output(test_graph, "y", reduce(in, "sum", DIMS(0)));
    ok(weft_interpret(test_graph, WEFT_INTERPRET_EXACT, 1, &x, 1, results));
    check_tensor(results[0], SCALAR, LIST(16781312), 0);
    weft_tensor_release(results[0]);
    ok(weft_interpret(test_graph, WEFT_INTERPRET_ROUNDED, 1, &x, 1, results));
    check_tensor(results[0], SCALAR, LIST(16777216), 0);
    weft_tensor_release(results[0]);
    weft_tensor_release(x);
}
END_TEST

static weft_value *arg(weft_value *x, const char *kind, int64_t axis, int64_t last) {
    return apply1(WEFT_OP_arg_reduce, x,
                  ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_string(WEFT_ATTR_kind, kind),
                             weft_attr_int(WEFT_ATTR_select_last, last)));
}

START_TEST(arg_reduce) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 3), LIST(1, 5, 5, 0, -1, -1));
    expect_integers(arg(x, "max", 1, 0), DIMS(2), I64S(1, 0));
    expect_integers(arg(x, "max", 1, 1), DIMS(2), I64S(2, 0));
    expect_integers(arg(x, "min", 1, 0), DIMS(2), I64S(0, 1));
    expect_integers(arg(x, "min", 0, 0), DIMS(3), I64S(1, 1, 1));
    weft_value *y = constant_of(WEFT_F32, DIMS(4), LIST(9, nan_, 10, nan_));
    expect_integers(arg(y, "max", 0, 0), SCALAR, I64S(1));
    expect_integers(arg(y, "min", 0, 1), SCALAR, I64S(1)); /* the first NaN wins */
    weft_value *u = integers_of(WEFT_U64, DIMS(2), I64S(1, -1));
    expect_integers(arg(u, "max", 0, 0), SCALAR, I64S(1));
}
END_TEST

static weft_value *cumulative(weft_value *x, const char *kind, int64_t axis, int64_t exclusive, int64_t reverse) {
    return apply1(WEFT_OP_cumulative, x,
                  ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, axis), weft_attr_string(WEFT_ATTR_kind, kind),
                             weft_attr_int(WEFT_ATTR_exclusive, exclusive), weft_attr_int(WEFT_ATTR_reverse, reverse)));
}

START_TEST(cumulatives) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 3), LIST(1, 2, 3, 4, 5, 6));
    expect(cumulative(x, "sum", 1, 0, 0), DIMS(2, 3), LIST(1, 3, 6, 4, 9, 15), 0);
    expect(cumulative(x, "sum", 1, 1, 0), DIMS(2, 3), LIST(0, 1, 3, 0, 4, 9), 0);
    expect(cumulative(x, "sum", 1, 0, 1), DIMS(2, 3), LIST(6, 5, 3, 15, 11, 6), 0);
    expect(cumulative(x, "product", 0, 1, 1), DIMS(2, 3), LIST(4, 5, 6, 1, 1, 1), 0);
    expect(cumulative(x, "max", 0, 1, 0), DIMS(2, 3), LIST(-inf, -inf, -inf, 1, 2, 3), 0);
}
END_TEST

static weft_value *window(weft_value *x, const char *kind, int64_t size, int64_t stride, int64_t dilation, int64_t base,
                          int64_t low, int64_t high) {
    return apply1(WEFT_OP_reduce_window, x,
                  ATTRIBUTES(weft_attr_string(WEFT_ATTR_kind, kind), INTS(window, size), INTS(stride, stride),
                             INTS(dilation, dilation), INTS(base_dilation, base), EXTENTS(low, low),
                             EXTENTS(high, high)));
}

START_TEST(windows) {
    weft_value *x = constant_of(WEFT_F32, DIMS(5), LIST(1, 2, 3, 4, 5));
    expect(window(x, "sum", 2, 1, 1, 1, 0, 0), DIMS(4), LIST(3, 5, 7, 9), 0);
    expect(window(x, "max", 3, 2, 1, 1, 1, 1), DIMS(3), LIST(2, 4, 5), 0);
    expect(window(x, "sum", 2, 1, 3, 1, 0, 0), DIMS(2), LIST(5, 7), 0);
    expect(window(x, "sum", 3, 2, 1, 2, 0, 0), DIMS(4), LIST(3, 5, 7, 9), 0); /* 1 . 2 . 3 . 4 . 5 */
    expect(window(x, "min", 1, 1, 1, 1, 1, 0), DIMS(6), LIST(inf, 1, 2, 3, 4, 5), 0);
    weft_value *m = constant_of(WEFT_F32, DIMS(3, 3), LIST(1, 2, 3, 4, 5, 6, 7, 8, 9));
    expect(apply1(WEFT_OP_reduce_window, m,
                  ATTRIBUTES(weft_attr_string(WEFT_ATTR_kind, "sum"), INTS(window, 2, 2), INTS(stride, 1, 1),
                             INTS(dilation, 1, 1), INTS(base_dilation, 1, 1), EXTENTS(low, 0, 0), EXTENTS(high, 0, 0))),
           DIMS(2, 2), LIST(12, 16, 24, 28), 0);
    weft_value *source = constant_of(WEFT_F32, DIMS(2, 2), LIST(10, 20, 30, 40));
    weft_value *tied = constant_of(WEFT_F32, DIMS(3, 3), LIST(1, 5, 5, 4, 5, 6, 7, 8, 9));
    expect(apply2(WEFT_OP_select_and_scatter, tied, source,
                  ATTRIBUTES(INTS(window, 2, 2), INTS(stride, 1, 1), EXTENTS(low, 0, 0), EXTENTS(high, 0, 0))),
           DIMS(3, 3), LIST(0, 10, 0, 0, 0, 20, 0, 30, 40), 0);
}
END_TEST

Suite *reduce_suite(void) {
    Suite *suite = suite_create("reduce");
    TCase *tests = tcase_create("reduce");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, axes);
    tcase_add_test(tests, kinds);
    tcase_add_test(tests, empty);
    tcase_add_test(tests, accuracy);
    tcase_add_test(tests, arg_reduce);
    tcase_add_test(tests, cumulatives);
    tcase_add_test(tests, windows);
    suite_add_tcase(suite, tests);
    return suite;
}
