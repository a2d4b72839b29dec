/* Running graphs: regions, states, symbols, derived ops, failing allocations. */
#include <string.h>

#include "base/tensor.h"
#include "tests/interp/interp.h"

#define I64S(...) ((int64_t[]){__VA_ARGS__})

static weft_value *yield(weft_block *block, int count, weft_value *const *values) {
    weft_place old = weft_graph_place_end(test_graph, block);
    weft_node_create(test_graph, WEFT_OP_yield, count, values, 0, NULL, 0, NULL);
    weft_graph_place(test_graph, old);
    return NULL;
}

/* while (i < 5) { i += 1; x *= y (captured) } */
START_TEST(while_loop) {
    weft_value *i = integers_of(WEFT_I64, SCALAR, I64S(0)), *x = constant_of(WEFT_F32, DIMS(2), LIST(1, 3));
    weft_value *five = integers_of(WEFT_I64, SCALAR, I64S(5)), *one = integers_of(WEFT_I64, SCALAR, I64S(1));
    weft_value *y = constant_of(WEFT_F32, DIMS(2), LIST(2, -1));
    weft_region *regions[2];
    for (int r = 0; r < 2; r++) {
        regions[r] = weft_region_create(test_graph);
        weft_value *a = weft_block_add_argument(regions[r]->block, &i->type, NULL);
        weft_value *b = weft_block_add_argument(regions[r]->block, &x->type, NULL);
        weft_place old = weft_graph_place_end(test_graph, regions[r]->block);
        weft_value *values[2];
        if (r == 0) {
            values[0] = apply2(WEFT_OP_compare, a, five, ATTRIBUTES(weft_attr_string(WEFT_ATTR_direction, "lt")));
        } else {
            values[0] = apply2(WEFT_OP_add, a, one, NO_ATTRIBUTES);
            values[1] = apply2(WEFT_OP_mul, b, y, NO_ATTRIBUTES);
        }
        yield(regions[r]->block, r == 0 ? 1 : 2, values);
        weft_graph_place(test_graph, old);
    }
    weft_attribute bound = weft_attr_int(WEFT_ATTR_bound, -1);
    weft_node *loop = weft_node_create(test_graph, WEFT_OP_while, 2, (weft_value *[]){i, x}, 1, &bound, 2, regions);
    expect(&loop->results[1], DIMS(2), LIST(32, -3), 0);
    expect_integers(&loop->results[0], SCALAR, I64S(5));
    loop->attributes[0].as.integer = 4; /* the bound is a promise */
    weft_tensor *result;
    expect_code(weft_graph_interpret(test_graph, 0, NULL, 1, &result), WEFT_OUT_OF_RANGE);
}
END_TEST

START_TEST(conditional) {
    for (int64_t p = 0; p < 2; p++) {
        weft_value *x = constant_of(WEFT_F32, SCALAR, LIST(3)), *predicate = integers_of(WEFT_BOOL, SCALAR, &p);
        weft_region *regions[2] = {weft_region_create(test_graph), weft_region_create(test_graph)};
        weft_place old = weft_graph_place_end(test_graph, regions[0]->block);
        weft_value *yes = apply1(WEFT_OP_neg, x, NO_ATTRIBUTES);
        yield(regions[0]->block, 1, &yes);
        weft_graph_place(test_graph, old);
        yield(regions[1]->block, 1, &x);
        weft_node *node = weft_node_create(test_graph, WEFT_OP_cond, 1, &predicate, 0, NULL, 2, regions);
        expect(&node->results[0], SCALAR, p ? LIST(-3) : LIST(3), 0);
    }
}
END_TEST

/* carry += slice; output = carry * 2: prefix sums from either end */
START_TEST(scan) {
    for (int64_t reverse = 0; reverse < 2; reverse++) {
        weft_value *carry = constant_of(WEFT_F32, DIMS(2), LIST(10, 20));
        weft_value *xs = constant_of(WEFT_F32, DIMS(3, 2), LIST(1, 2, 3, 4, 5, 6));
        weft_region *region = weft_region_create(test_graph);
        weft_value *c = weft_block_add_argument(region->block, &carry->type, NULL);
        weft_value *s = weft_block_add_argument(region->block, &carry->type, NULL);
        weft_place old = weft_graph_place_end(test_graph, region->block);
        weft_value *sum = apply2(WEFT_OP_add, c, s, NO_ATTRIBUTES);
        yield(region->block, 2, (weft_value *[]){sum, apply2(WEFT_OP_add, sum, sum, NO_ATTRIBUTES)});
        weft_graph_place(test_graph, old);
        weft_attribute attributes[] = {EXTENTS(k, 1), EXTENTS(trips, 3), weft_attr_int(WEFT_ATTR_reverse, reverse)};
        weft_node *node =
            weft_node_create(test_graph, WEFT_OP_scan, 2, (weft_value *[]){carry, xs}, 3, attributes, 1, &region);
        expect(&node->results[0], DIMS(2), LIST(19, 32), 0);
        expect(&node->results[1], DIMS(3, 2), reverse ? LIST(38, 64, 36, 60, 30, 52) : LIST(22, 44, 28, 52, 38, 64), 0);
    }
}
END_TEST

START_TEST(fusion) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2), LIST(1, 4));
    weft_region *region = weft_region_create(test_graph);
    weft_value *a = weft_block_add_argument(region->block, &x->type, NULL);
    weft_place old = weft_graph_place_end(test_graph, region->block);
    weft_value *root = apply1(WEFT_OP_sqrt, a, NO_ATTRIBUTES);
    yield(region->block, 2, (weft_value *[]){root, apply1(WEFT_OP_neg, root, NO_ATTRIBUTES)});
    weft_graph_place(test_graph, old);
    weft_attribute anchor = weft_attr_string(WEFT_ATTR_anchor, "pointwise");
    weft_node *node = weft_node_create(test_graph, WEFT_OP_fusion, 1, &x, 1, &anchor, 1, &region);
    expect(&node->results[1], DIMS(2), LIST(-1, -2), 0);
}
END_TEST

START_TEST(states) { /* count += 1 and a read that keeps the old value */
    weft_type type = weft_type_make(test_graph, WEFT_F32, 1, I64S(2));
    weft_tensor *initial = tensor_of(WEFT_F32, DIMS(2), LIST(1, 2));
    weft_graph_add_state(test_graph, "count", &type, initial);
    weft_tensor_release(initial);
    weft_attribute name = weft_attr_string(WEFT_ATTR_name, "count");
    weft_value *old = weft_build(test_graph, WEFT_OP_state_read, 0, NULL, 1, &name);
    weft_value *one = constant_of(WEFT_F32, DIMS(2), LIST(1, 1)), *next = apply2(WEFT_OP_add, old, one, NO_ATTRIBUTES);
    weft_node_create(test_graph, WEFT_OP_state_update, 1, &next, 1, &name, 0, NULL);
    weft_graph_output(test_graph, "old", old);
    weft_interpreter interpreter;
    ok(weft_graph_verify(test_graph));
    ok(weft_interpreter_init(test_graph, WEFT_INTERPRET_EXACT, &interpreter));
    for (int run = 0; run < 3; run++) {
        weft_tensor *result;
        ok(weft_interpreter_run(&interpreter, 0, NULL, 1, &result));
        check_tensor(result, DIMS(2), LIST(1 + run, 2 + run), 0);
        check_tensor(weft_interpreter_state(&interpreter, "count"), DIMS(2), LIST(2 + run, 3 + run), 0);
        weft_tensor_release(result);
    }
    ck_assert_ptr_null(weft_interpreter_state(&interpreter, "other"));
    weft_interpreter_deinit(&interpreter);
}
END_TEST

START_TEST(symbols) {
    weft_dim h = weft_graph_symbol(test_graph, "H", 2, 8, 2), twice = weft_dim_times(test_graph, h, 2);
    weft_value *x = weft_graph_input(test_graph, "x", WEFT_F32, 2, (weft_dim[]){twice, 3});
    weft_value *y = weft_graph_input(test_graph, "y", WEFT_F32, 2, (weft_dim[]){h, WEFT_DIM_ANY});
    weft_attribute extent = weft_attr_dims(WEFT_ATTR_extent, 1, &twice);
    weft_graph_output(test_graph, "x", apply2(WEFT_OP_concat, x, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, 0))));
    weft_graph_output(test_graph, "y", apply1(WEFT_OP_transpose, y, ATTRIBUTES(INTS(permutation, 1, 0))));
    weft_graph_output(test_graph, "n", weft_build(test_graph, WEFT_OP_dim, 0, NULL, 1, &extent));
    static const struct {
        int64_t x, y;
        weft_code code;
    } cases[] = {{8, 4, WEFT_OK},
                 {4, 2, WEFT_OK},
                 {8, 2, WEFT_INVALID_ARGUMENT},
                 {6, 3, WEFT_OUT_OF_RANGE},
                 {20, 10, WEFT_OUT_OF_RANGE}};
    double zeros[64] = {0};
    for (int i = 0; i < 5; i++) {
        weft_tensor *inputs[2] = {tensor_of(WEFT_F32, DIMS(cases[i].x, 3), zeros),
                                  tensor_of(WEFT_F32, DIMS(cases[i].y, 1), zeros)};
        weft_tensor *results[3];
        expect_code(weft_graph_interpret(test_graph, 2, inputs, 3, results), cases[i].code);
        if (cases[i].code == WEFT_OK) {
            ck_assert_int_eq(results[0]->shape[0], 2 * cases[i].x);
            ck_assert_int_eq(results[1]->shape[1], cases[i].y);
            check_tensor(results[2], SCALAR, LIST((double)cases[i].x), 0);
        }
        for (int k = 0; k < 3; k++) weft_tensor_release(results[k]);
        for (int k = 0; k < 2; k++) weft_tensor_release(inputs[k]);
    }
    weft_tensor *wrong[2] = {tensor_of(WEFT_F64, DIMS(8, 3), zeros), NULL}, *results[3];
    expect_code(weft_graph_interpret(test_graph, 2, wrong, 3, results), WEFT_INVALID_ARGUMENT);
    expect_code(weft_graph_interpret(test_graph, 1, wrong, 3, results), WEFT_INVALID_ARGUMENT);
    weft_tensor_release(wrong[0]);
}
END_TEST

START_TEST(guards) { /* x + y with different symbols: equal extents are assumed, and checked */
    weft_dim a = weft_graph_symbol(test_graph, "A", 1, 100, 1), b = weft_graph_symbol(test_graph, "B", 1, 100, 1);
    weft_value *x = weft_graph_input(test_graph, "x", WEFT_F32, 1, &a),
               *y = weft_graph_input(test_graph, "y", WEFT_F32, 1, &b);
    weft_graph_output(test_graph, "z", apply2(WEFT_OP_add, x, y, NO_ATTRIBUTES));
    for (int64_t n = 2; n < 4; n++) {
        weft_tensor *inputs[2] = {tensor_of(WEFT_F32, DIMS(2), LIST(1, 2)),
                                  tensor_of(WEFT_F32, DIMS(n), LIST(3, 4, 5))},
                    *result;
        expect_code(weft_graph_interpret(test_graph, 2, inputs, 1, &result), n == 2 ? WEFT_OK : WEFT_GUARD_FAILED);
        if (n == 2) check_tensor(result, DIMS(2), LIST(4, 6), 0);
        weft_tensor_release(result);
        for (int k = 0; k < 2; k++) weft_tensor_release(inputs[k]);
    }
}
END_TEST

START_TEST(strided_input) {
    float data[6] = {1, 2, 3, 4, 5, 6};
    weft_dim dims[2] = {3, 2};
    weft_value *x = weft_graph_input(test_graph, "x", WEFT_F32, 2, dims);
    weft_graph_output(test_graph, "y", apply1(WEFT_OP_neg, x, NO_ATTRIBUTES));
    weft_tensor *input, *result;
    ok(weft_tensor_wrap(test_context, WEFT_F32, 2, dims, I64S(1, 3), data, NULL, NULL, &input));
    ok(weft_graph_interpret(test_graph, 1, &input, 1, &result));
    check_tensor(result, DIMS(3, 2), LIST(-1, -4, -2, -5, -3, -6), 0);
    weft_tensor_release(result);
    weft_tensor_release(input);
}
END_TEST

START_TEST(derived) {
    weft_value *x = constant_of(WEFT_F32, DIMS(2, 2), LIST(0, 0, 1000, 0));
    expect(apply1(WEFT_OP_softmax, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, 1))), DIMS(2, 2), LIST(0.5, 0.5, 1, 0),
           1e-7);
    weft_value *y = constant_of(WEFT_F16, DIMS(2), LIST(0, 1));
    expect(apply1(WEFT_OP_silu, y, NO_ATTRIBUTES), DIMS(2), LIST(0, 0.73095703125), 0);
}
END_TEST

typedef struct seen {
    int nodes, fail_at;
} seen;

static weft_status count_nodes(void *self, const weft_node *node, weft_tensor *const *results) {
    seen *s = self;
    ck_assert(node->result_count == 0 || results[0] != NULL);
    return ++s->nodes == s->fail_at ? WEFT_STATUS(WEFT_INTERNAL, "stop") : NULL;
}

START_TEST(observer) {
    weft_value *x = constant_of(WEFT_F32, SCALAR, LIST(4));
    weft_graph_output(test_graph, "y", apply1(WEFT_OP_sqrt, apply1(WEFT_OP_sqrt, x, NO_ATTRIBUTES), NO_ATTRIBUTES));
    for (int fail_at = 0; fail_at < 4; fail_at++) {
        seen s = {0, fail_at};
        weft_tensor *result;
        expect_code(weft_interpret_observed(test_graph, WEFT_INTERPRET_EXACT, 0, NULL, 1, &result, count_nodes, &s),
                    fail_at ? WEFT_INTERNAL : WEFT_OK);
        ck_assert_int_eq(s.nodes, fail_at ? fail_at : 3);
        weft_tensor_release(result);
    }
}
END_TEST

/* -- every allocation fails once */

typedef struct failing {
    size_t live_bytes, requests, fail_at;
} failing;

static void *failing_resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    failing *f = self;
    if (new_bytes && ++f->requests == f->fail_at) return NULL;
    void *fresh = weft_allocator_system().resize(NULL, pointer, old_bytes, new_bytes, align_bytes);
    if (new_bytes == 0 || fresh) f->live_bytes += new_bytes - old_bytes;
    return fresh;
}

/* A graph with one op of most families; the value of its output is 1 for every element. */
static weft_value *mixed(weft_graph *graph) {
    test_graph = graph;
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 4, (weft_dim[]){1, 2, 3, 3});
    weft_value *w = weft_graph_input(graph, "w", WEFT_F32, 4, (weft_dim[]){2, 2, 2, 2});
    weft_value *y = apply2(WEFT_OP_convolution, x, w,
                           ATTRIBUTES(INTS(stride, 1, 1), EXTENTS(low, 0, 0), EXTENTS(high, 0, 0), INTS(dilation, 1, 1),
                                      INTS(base_dilation, 1, 1), weft_attr_int(WEFT_ATTR_groups, 1),
                                      weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F32)));
    y = apply1(WEFT_OP_reshape, y, ATTRIBUTES(EXTENTS(shape, 2, 4)));
    y = apply1(WEFT_OP_softmax, y, ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, 1)));
    weft_value *t = apply1(WEFT_OP_transpose, y, ATTRIBUTES(INTS(permutation, 1, 0)));
    y = apply2(WEFT_OP_dot_general, t, y,
               ATTRIBUTES(weft_attr_ints(WEFT_ATTR_lhs_batch, 0, NULL), weft_attr_ints(WEFT_ATTR_rhs_batch, 0, NULL),
                          INTS(lhs_contract, 1), INTS(rhs_contract, 0), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F32)));
    weft_attribute attributes[] = {weft_attr_int(WEFT_ATTR_axis, 1), weft_attr_int(WEFT_ATTR_descending, 0),
                                   weft_attr_int(WEFT_ATTR_stable, 1)};
    weft_node *sort = weft_node_create(graph, WEFT_OP_sort, 1, &y, 3, attributes, 0, NULL);
    if (!sort) return y;
    return apply2(WEFT_OP_div, &sort->results[0], &sort->results[0], NO_ATTRIBUTES);
}

static weft_status run_mixed(weft_context *context, weft_tensor **inputs, weft_tensor **result) {
    weft_graph *graph;
    WEFT_TRY(weft_graph_create(context, "mixed", &graph), "graph");
    weft_graph_output(graph, "y", mixed(graph));
    weft_status status = weft_graph_interpret(graph, 2, inputs, 1, result);
    weft_graph_release(graph);
    return status;
}

START_TEST(allocation_failures) {
    size_t failures = 0;
    double ones[18];
    for (int i = 0; i < 18; i++) ones[i] = 1;
    for (size_t n = 1;; n++) {
        failing f = {0};
        weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
        options.allocator = (weft_allocator){&f, failing_resize};
        weft_context *context;
        ok(weft_context_create(&options, &context));
        weft_context *kept = test_context;
        test_context = context;
        weft_tensor *inputs[2] = {tensor_of(WEFT_F32, DIMS(1, 2, 3, 3), ones),
                                  tensor_of(WEFT_F32, DIMS(2, 2, 2, 2), ones)},
                    *result = NULL;
        f.requests = 0;
        f.fail_at = n;
        weft_status status = run_mixed(context, inputs, &result);
        bool done = f.requests < n;
        if (done) check_tensor(result, DIMS(4, 4), (double[16]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0);
        /* An extent that finds no memory cannot be told from one that overflows: it is a problem of the graph. */
        ck_assert_int_eq(status == NULL, done);
        ck_assert(done || weft_status_code(status) == WEFT_OUT_OF_MEMORY ||
                  weft_status_code(status) == WEFT_INVALID_ARGUMENT);
        weft_status_release(status);
        failures += !done;
        weft_tensor_release(result);
        for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i]);
        weft_context_release(context);
        ck_assert_uint_eq(f.live_bytes, 0);
        test_context = kept;
        if (done) break;
    }
    ck_assert_uint_gt(failures, 50);
}
END_TEST

Suite *control_suite(void) {
    Suite *suite = suite_create("control");
    TCase *tests = tcase_create("control");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, while_loop);
    tcase_add_test(tests, conditional);
    tcase_add_test(tests, scan);
    tcase_add_test(tests, fusion);
    tcase_add_test(tests, states);
    tcase_add_test(tests, symbols);
    tcase_add_test(tests, guards);
    tcase_add_test(tests, strided_input);
    tcase_add_test(tests, derived);
    tcase_add_test(tests, observer);
    suite_add_tcase(suite, tests);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, allocation_failures);
    tcase_set_timeout(memory, 60);
    suite_add_tcase(suite, memory);
    return suite;
}
