/* Ops that move elements, gather and scatter, sorting. */
#include "base/tensor.h"
#include "tests/interp/interp.h"

#define I64S(...) ((int64_t[]){__VA_ARGS__})

static weft_value *six(weft_dtype dtype) { return constant_of(dtype, DIMS(2, 3), LIST(1, 2, 3, 4, 5, 6)); }

START_TEST(views) {
    for (int t = 0; t < 3; t++) { /* 32 bits, 16 bytes, below a byte */
        weft_value *x = t == 1 ? NULL : six(t ? WEFT_I4 : WEFT_F32);
        if (!x) continue;
        expect(apply1(WEFT_OP_transpose, x, ATTRIBUTES(INTS(permutation, 1, 0))), DIMS(3, 2), LIST(1, 4, 2, 5, 3, 6),
               0);
        expect(apply1(WEFT_OP_reshape, x, ATTRIBUTES(EXTENTS(shape, 3, 2))), DIMS(3, 2), LIST(1, 2, 3, 4, 5, 6), 0);
        expect(apply1(WEFT_OP_reverse, x, ATTRIBUTES(INTS(axes, 0, 1))), DIMS(2, 3), LIST(6, 5, 4, 3, 2, 1), 0);
        expect(apply1(WEFT_OP_slice, x, ATTRIBUTES(EXTENTS(start, 0, 0), EXTENTS(limit, 2, 3), INTS(stride, 1, 2))),
               DIMS(2, 2), LIST(1, 3, 4, 6), 0);
        expect(apply2(WEFT_OP_concat, x, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, 1))), DIMS(2, 6),
               LIST(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6), 0);
    }
    weft_value *c = constant_of(WEFT_C128, DIMS(2), LIST(1, 2, 3, 4));
    expect(apply1(WEFT_OP_reverse, c, ATTRIBUTES(INTS(axes, 0))), DIMS(2), LIST(3, 4, 1, 2), 0);
    weft_value *cube = constant_of(WEFT_F32, DIMS(2, 1, 2), LIST(1, 2, 3, 4));
    expect(apply1(WEFT_OP_transpose, cube, ATTRIBUTES(INTS(permutation, 2, 0, 1))), DIMS(2, 2, 1), LIST(1, 3, 2, 4), 0);
    expect(apply1(WEFT_OP_optimization_barrier, cube, NO_ATTRIBUTES), DIMS(2, 1, 2), LIST(1, 2, 3, 4), 0);
}
END_TEST

START_TEST(broadcast) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 1), LIST(1, 2)), *s = constant_of(WEFT_F32, SCALAR, LIST(7));
    expect(apply1(WEFT_OP_broadcast, x, ATTRIBUTES(EXTENTS(shape, 2, 2, 3), INTS(axes, 1, 2))), DIMS(2, 2, 3),
           LIST(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2), 0);
    weft_attribute attributes[2] = {EXTENTS(shape, 2, 0), weft_attr_ints(WEFT_ATTR_axes, 0, NULL)};
    expect(apply1(WEFT_OP_broadcast, s, 2, attributes), DIMS(2, 0), NULL, 0);
    attributes[0] = EXTENTS(shape, 2, 2);
    expect(apply1(WEFT_OP_broadcast, s, 2, attributes), DIMS(2, 2), LIST(7, 7, 7, 7), 0);
}
END_TEST

START_TEST(made) {
    weft_attribute iota[3] = {EXTENTS(shape, 2, 3), weft_attr_int(WEFT_ATTR_axis, 1),
                              weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F16)};
    expect(weft_build(test_graph, WEFT_OP_iota, 0, NULL, 3, iota), DIMS(2, 3), LIST(0, 1, 2, 0, 1, 2), 0);
    iota[1] = weft_attr_int(WEFT_ATTR_axis, 0);
    iota[2] = weft_attr_dtype(WEFT_ATTR_dtype, WEFT_U8);
    expect(weft_build(test_graph, WEFT_OP_iota, 0, NULL, 3, iota), DIMS(2, 3), LIST(0, 0, 0, 1, 1, 1), 0);
    weft_attribute dim = EXTENTS(extent, 42);
    expect_integers(weft_build(test_graph, WEFT_OP_dim, 0, NULL, 1, &dim), SCALAR, I64S(42));
}
END_TEST

static weft_value *pad(weft_value *x, int64_t low, int64_t high, int64_t interior) {
    weft_value *fill = constant_of(WEFT_F32, SCALAR, LIST(9));
    return apply2(WEFT_OP_pad, x, fill, ATTRIBUTES(EXTENTS(low, low), EXTENTS(high, high), INTS(interior, interior)));
}

/* Negative padding is an expression of the graph: a plain negative number would name a node. */
static int64_t minus(int64_t value) { return weft_dim_number(test_graph->dims, -value); }

START_TEST(padding) {
    weft_value *x = constant_of(WEFT_F32, DIMS(3), LIST(1, 2, 3));
    expect(pad(x, 1, 2, 0), DIMS(6), LIST(9, 1, 2, 3, 9, 9), 0);
    expect(pad(x, 0, 0, 2), DIMS(7), LIST(1, 9, 9, 2, 9, 9, 3), 0);
    expect(pad(x, minus(1), 1, 0), DIMS(3), LIST(2, 3, 9), 0);
    expect(pad(x, minus(1), minus(2), 1), DIMS(2), LIST(9, 2), 0); /* 1 9 2 9 3 cut by 1 and 2 */
    expect(pad(x, minus(3), 3, 0), DIMS(3), LIST(9, 9, 9), 0);
    weft_value *none = constant_of(WEFT_F32, DIMS(0), NULL);
    expect(pad(none, 1, 1, 3), DIMS(2), LIST(9, 9), 0);
}
END_TEST

static weft_value *index_of(int64_t value) { return integers_of(WEFT_I64, SCALAR, &value); }

START_TEST(dynamic) {
    weft_value *x = six(WEFT_F32);
    static const int64_t starts[3][2] = {{0, 1}, {5, 5}, {-3, -1}};
    static const double want[3][4] = {{2, 3, 5, 6}, {2, 3, 5, 6}, {1, 2, 4, 5}}; /* clamped */
    for (int i = 0; i < 3; i++) {
        weft_value *operands[] = {x, index_of(starts[i][0]), index_of(starts[i][1])};
        weft_attribute sizes = EXTENTS(sizes, 2, 2);
        expect(weft_build(test_graph, WEFT_OP_dynamic_slice, 3, operands, 1, &sizes), DIMS(2, 2), want[i], 0);
    }
    weft_value *update = constant_of(WEFT_F32, DIMS(1, 2), LIST(7, 8));
    weft_value *operands[] = {x, update, index_of(1), index_of(9)};
    expect(weft_build(test_graph, WEFT_OP_dynamic_update_slice, 4, operands, 0, NULL), DIMS(2, 3),
           LIST(1, 2, 3, 4, 7, 8), 0);
}
END_TEST

START_TEST(gather) {
    weft_value *x = constant_of(WEFT_F32, DIMS(3, 2), LIST(1, 2, 3, 4, 5, 6));
    /* rows, as an embedding lookup does; out-of-range indices are clamped */
    weft_value *rows = integers_of(WEFT_I32, DIMS(4), I64S(2, 0, 9, -1));
    expect(apply2(WEFT_OP_gather, x, rows,
                  ATTRIBUTES(INTS(offset_axes, 1), INTS(collapsed_axes, 0), INTS(index_map, 0),
                             weft_attr_int(WEFT_ATTR_index_axis, 1), EXTENTS(sizes, 1, 2))),
           DIMS(4, 2), LIST(5, 6, 1, 2, 5, 6, 1, 2), 0);
    /* full index vectors along axis 0 of the indices, components reversed by index_map, no window axes */
    weft_value *points = integers_of(WEFT_I64, DIMS(2, 3), I64S(0, 1, 1, /* column */ 2, 0, 1 /* row */));
    weft_attribute attributes[5] = {weft_attr_ints(WEFT_ATTR_offset_axes, 0, NULL), INTS(collapsed_axes, 0, 1),
                                    INTS(index_map, 1, 0), weft_attr_int(WEFT_ATTR_index_axis, 0),
                                    EXTENTS(sizes, 1, 1)};
    expect(apply2(WEFT_OP_gather, x, points, 5, attributes), DIMS(3), LIST(5, 2, 4), 0);
    /* a window of two rows; the start is clamped so that it fits; window axes first */
    weft_value *start = integers_of(WEFT_I64, DIMS(2, 1), I64S(0, 2));
    expect(apply2(WEFT_OP_gather, x, start,
                  ATTRIBUTES(INTS(offset_axes, 0, 1), weft_attr_ints(WEFT_ATTR_collapsed_axes, 0, NULL),
                             INTS(index_map, 0), weft_attr_int(WEFT_ATTR_index_axis, 1), EXTENTS(sizes, 2, 1))),
           DIMS(2, 1, 2), LIST(1, 3, 3, 5), 0);
}
END_TEST

static weft_value *scatter_rows(weft_value *x, weft_value *rows, weft_value *updates, const char *kind) {
    weft_attribute attributes[] = {INTS(offset_axes, 1), INTS(collapsed_axes, 0), INTS(index_map, 0),
                                   weft_attr_int(WEFT_ATTR_index_axis, 1), weft_attr_string(WEFT_ATTR_kind, kind)};
    return weft_build(test_graph, WEFT_OP_scatter, 3, (weft_value *[]){x, rows, updates}, 5, attributes);
}

START_TEST(scatter) {
    weft_value *x = constant_of(WEFT_F32, DIMS(3, 2), LIST(1, 2, 3, 4, 5, 6));
    weft_value *rows = integers_of(WEFT_I64, DIMS(4), I64S(2, 0, 2, 7)); /* 7 is dropped */
    weft_value *updates = constant_of(WEFT_F32, DIMS(4, 2), LIST(10, 20, 30, 40, 50, 60, 70, 80));
    expect(scatter_rows(x, rows, updates, "set"), DIMS(3, 2), LIST(30, 40, 3, 4, 50, 60), 0);
    expect(scatter_rows(x, rows, updates, "sum"), DIMS(3, 2), LIST(31, 42, 3, 4, 65, 86), 0);
    expect(scatter_rows(x, rows, updates, "product"), DIMS(3, 2), LIST(30, 80, 3, 4, 2500, 7200), 0);
    expect(scatter_rows(x, rows, updates, "min"), DIMS(3, 2), LIST(1, 2, 3, 4, 5, 6), 0);
    weft_value *n = integers_of(WEFT_U8, DIMS(3, 2), I64S(1, 2, 3, 4, 250, 6));
    weft_value *m = integers_of(WEFT_U8, DIMS(4, 2), I64S(10, 20, 30, 40, 50, 60, 70, 80));
    expect_integers(scatter_rows(n, rows, m, "sum"), DIMS(3, 2), I64S(31, 42, 3, 4, 54, 86));
    expect_integers(scatter_rows(n, rows, m, "max"), DIMS(3, 2), I64S(30, 40, 3, 4, 250, 60));
    /* windows that reach past the end lose only the elements outside */
    weft_value *line = constant_of(WEFT_F32, DIMS(4), LIST(0, 0, 0, 0)),
               *at = integers_of(WEFT_I64, DIMS(2, 1), I64S(-1, 3));
    weft_value *pairs = constant_of(WEFT_F32, DIMS(2, 2), LIST(1, 2, 3, 4));
    weft_attribute attributes[] = {INTS(offset_axes, 1), weft_attr_ints(WEFT_ATTR_collapsed_axes, 0, NULL),
                                   INTS(index_map, 0), weft_attr_int(WEFT_ATTR_index_axis, 1),
                                   weft_attr_string(WEFT_ATTR_kind, "set")};
    expect(weft_build(test_graph, WEFT_OP_scatter, 3, (weft_value *[]){line, at, pairs}, 5, attributes), DIMS(4),
           LIST(2, 0, 0, 3), 0);
}
END_TEST

START_TEST(sorting) {
    const double nan_ = (double)NAN;
    weft_value *x = constant_of(WEFT_F32, DIMS(5), LIST(3, nan_, -1, 2, -1)),
               *tags = integers_of(WEFT_I4, DIMS(5), I64S(0, 1, 2, 3, 4));
    for (int descending = 0; descending < 2; descending++) {
        weft_attribute attributes[] = {weft_attr_int(WEFT_ATTR_axis, 0),
                                       weft_attr_int(WEFT_ATTR_descending, descending),
                                       weft_attr_int(WEFT_ATTR_stable, 1)};
        weft_node *node =
            weft_node_create(test_graph, WEFT_OP_sort, 2, (weft_value *[]){x, tags}, 3, attributes, 0, NULL);
        weft_tensor *results[2];
        evaluate(2, (weft_value *[]){&node->results[0], &node->results[1]}, results);
        check_tensor(results[0], DIMS(5), descending ? LIST(3, 2, -1, -1, nan_) : LIST(-1, -1, 2, 3, nan_), 0);
        check_tensor(results[1], DIMS(5), descending ? LIST(0, 3, 2, 4, 1) : LIST(2, 4, 3, 0, 1), 0);
        for (int i = 0; i < 2; i++) weft_tensor_release(results[i]);
    }
    weft_value *m =
        integers_of(WEFT_I32, DIMS(3, 2), I64S(5, 1, 7, 1, 6, 2)); /* along axis 0, ties: lower index first */
    weft_attribute attributes[] = {weft_attr_int(WEFT_ATTR_axis, 0), EXTENTS(k, 2),
                                   weft_attr_int(WEFT_ATTR_descending, 1)};
    weft_node *node = weft_node_create(test_graph, WEFT_OP_top_k, 1, &m, 3, attributes, 0, NULL);
    weft_tensor *results[2];
    evaluate(2, (weft_value *[]){&node->results[0], &node->results[1]}, results);
    check_tensor(results[0], DIMS(2, 2), LIST(7, 2, 6, 1), 0);
    check_tensor(results[1], DIMS(2, 2), LIST(1, 2, 2, 0), 0);
    for (int i = 0; i < 2; i++) weft_tensor_release(results[i]);
}
END_TEST

START_TEST(nonzero) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 3), LIST(0, 5, -0.0, (double)NAN, 0, 1));
    weft_node *node = weft_node_create(test_graph, WEFT_OP_nonzero, 1, &x, 0, NULL, 0, NULL);
    weft_tensor *results[2];
    evaluate(2, (weft_value *[]){&node->results[0], &node->results[1]}, results);
    check_tensor(results[0], DIMS(2, 6), LIST(0, 1, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0), 0);
    check_tensor(results[1], SCALAR, LIST(3), 0);
    for (int i = 0; i < 2; i++) weft_tensor_release(results[i]);
}
END_TEST

Suite *movement_suite(void) {
    Suite *suite = suite_create("movement");
    TCase *tests = tcase_create("movement");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, views);
    tcase_add_test(tests, broadcast);
    tcase_add_test(tests, made);
    tcase_add_test(tests, padding);
    tcase_add_test(tests, dynamic);
    tcase_add_test(tests, gather);
    tcase_add_test(tests, scatter);
    tcase_add_test(tests, sorting);
    tcase_add_test(tests, nonzero);
    suite_add_tcase(suite, tests);
    return suite;
}
