/* Building, changing and copying graphs. */
#include <check.h>
#include <string.h>

#include "ir/build.h"
#include "ir/verify.h"

static weft_context *context;
static weft_graph *graph;

static void setup(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "test", &graph));
}

static void teardown(void) {
    weft_graph_release(graph);
    weft_context_release(context);
}

static weft_value *unary(weft_op op, weft_value *x) { return weft_build(graph, op, 1, &x, 0, NULL); }
static weft_value *binary(weft_op op, weft_value *x, weft_value *y) {
    return weft_build(graph, op, 2, (weft_value *[]){x, y}, 0, NULL);
}

/* The verifier fails and says so. */
static void expect_problem(weft_graph *of, const char *text) {
    weft_status status = weft_graph_verify(of);
    ck_assert_ptr_nonnull(status);
    ck_assert_msg(strstr(weft_status_message(status), text) != NULL, "message: %s", weft_status_message(status));
    weft_status_release(status);
}

START_TEST(test_build) {
    weft_dim b = weft_graph_symbol(graph, "B", 1, 64, 1);
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 2, (weft_dim[]){b, 4});
    weft_value *y = binary(WEFT_OP_add, x, unary(WEFT_OP_exp, x));
    weft_graph_output(graph, "y", y);
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(!status, "%s", weft_status_message(status));
    ck_assert_int_eq(weft_value_dtype(y), WEFT_F32);
    ck_assert_int_eq(weft_value_dim(y, 0), b);
    ck_assert_int_eq(weft_value_dim(y, 1), 4);
    ck_assert_uint_eq(graph->guard_count, 0);
    ck_assert(weft_value_has_uses(x) && weft_value_has_uses(y));
}
END_TEST

START_TEST(test_problems) {
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 2, (weft_dim[]){3, 4});
    weft_value *z = weft_graph_input(graph, "z", WEFT_F32, 1, (weft_dim[]){4});
    weft_graph_at(graph, "model.c", 7);
    weft_value *bad = binary(WEFT_OP_add, x, z);
    ck_assert(weft_value_is_poison(bad));
    weft_value *quiet = unary(WEFT_OP_exp, bad);
    ck_assert(weft_value_is_poison(quiet));
    weft_graph_output(graph, "y", quiet);
    ck_assert_uint_eq(graph->problem_count, 1);
    expect_problem(graph, "model.c:7: add: operand 0 is f32[3, 4], operand 1 is f32[4]");
}
END_TEST

START_TEST(test_guards) {
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 1, (weft_dim[]){WEFT_DIM_ANY});
    weft_value *y = weft_graph_input(graph, "y", WEFT_F32, 1, (weft_dim[]){WEFT_DIM_ANY});
    ck_assert_int_ne(weft_value_dim(x, 0), weft_value_dim(y, 0));
    weft_graph_output(graph, "z", binary(WEFT_OP_add, binary(WEFT_OP_mul, x, y), y));
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(!status, "%s", weft_status_message(status));
    ck_assert_uint_eq(graph->guard_count, 1);
    ck_assert_int_eq(graph->guards[0].condition.relation, WEFT_RELATION_EQ);
}
END_TEST

/* What can be is recorded, what cannot be is refused, what must be needs no guard. */
START_TEST(test_assumptions) {
    weft_graph *g;
    ck_assert_ptr_null(weft_graph_create(context, "assumptions", &g));
    weft_dim a = weft_graph_symbol(g, "A", 1, 8, 1), b = weft_graph_symbol(g, "B", 4, 12, 1),
             c = weft_graph_symbol(g, "C", 20, 30, 1);
    ck_assert(weft_graph_assume_at_most(g, a, c));
    ck_assert_uint_eq(g->guard_count, 0);
    ck_assert(!weft_graph_assume_at_most(g, c, a));
    ck_assert(!weft_graph_assume_equal(g, a, c));
    ck_assert_uint_eq(g->guard_count, 0);
    ck_assert(weft_graph_assume_at_most(g, a, b));
    ck_assert_uint_eq(g->guard_count, 1);
    ck_assert(weft_graph_assume_equal(g, a, b));
    ck_assert_uint_eq(g->guard_count, 2);
    weft_graph_release(g);
}
END_TEST

START_TEST(test_replace_and_remove) {
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 1, (weft_dim[]){4});
    weft_value *a = unary(WEFT_OP_exp, x), *b = unary(WEFT_OP_log, a), *c = unary(WEFT_OP_neg, b);
    weft_graph_output(graph, "c", c);
    weft_graph_output(graph, "b", b);
    ck_assert_ptr_null(weft_graph_finish(graph));
    weft_value_replace(b, x);
    ck_assert_ptr_eq(graph->outputs[1], x);
    ck_assert(!weft_value_has_uses(b));
    weft_node_remove(b->node);
    ck_assert(!weft_value_has_uses(a));
    weft_node_remove(a->node);
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(!status, "%s", weft_status_message(status));
    ck_assert_ptr_eq(graph->body->block->first, c->node);
    /* new nodes after the yield was made go before it */
    weft_value *late = unary(WEFT_OP_sin, c);
    weft_graph_output(graph, "late", late);
    status = weft_graph_verify(graph);
    ck_assert_msg(!status, "%s", weft_status_message(status));
}
END_TEST

/* while (x < 10) x = x + x, with an outer value captured. */
static weft_value *build_loop(weft_value *x, weft_value *limit) {
    weft_region *regions[2] = {weft_region_create(graph), weft_region_create(graph)};
    weft_value *arguments[2];
    for (int i = 0; i < 2; i++) arguments[i] = weft_block_add_argument(regions[i]->block, &x->type, NULL);
    weft_place old = weft_graph_place_end(graph, regions[0]->block);
    weft_attribute less = weft_attr_string(WEFT_ATTR_direction, "lt");
    weft_value *test = weft_build(graph, WEFT_OP_compare, 2, (weft_value *[]){arguments[0], limit}, 1, &less);
    weft_node_create(graph, WEFT_OP_yield, 1, &test, 0, NULL, 0, NULL);
    weft_graph_place_end(graph, regions[1]->block);
    weft_value *sum = binary(WEFT_OP_add, arguments[1], arguments[1]);
    weft_node_create(graph, WEFT_OP_yield, 1, &sum, 0, NULL, 0, NULL);
    weft_graph_place(graph, old);
    weft_attribute bound = weft_attr_int(WEFT_ATTR_bound, 100);
    weft_node *node = weft_node_create(graph, WEFT_OP_while, 1, &x, 1, &bound, 2, regions);
    return &node->results[0];
}

START_TEST(test_clone) {
    weft_dim n = weft_graph_symbol(graph, "N", 1, 64, 1), m = weft_graph_symbol(graph, "M", 1, 64, 1);
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 0, NULL);
    weft_value *limit = weft_graph_input(graph, "limit", WEFT_F32, 0, NULL);
    weft_value *y = weft_graph_input(graph, "y", WEFT_F32, 2, (weft_dim[]){n, m});
    weft_graph_output(graph, "loop", build_loop(x, limit));
    weft_dim flat[1] = {weft_dim_times(graph, n, m)};
    weft_attribute shape = weft_attr_dims(WEFT_ATTR_shape, 1, flat);
    weft_graph_output(graph, "flat", weft_build(graph, WEFT_OP_reshape, 1, &y, 1, &shape));
    weft_status status = weft_graph_verify(graph);
    ck_assert_msg(!status, "%s", weft_status_message(status));
    weft_graph *copy;
    status = weft_graph_clone(graph, (weft_dim[]){8, WEFT_DIM_ANY}, &copy);
    ck_assert_msg(!status, "%s", weft_status_message(status));
    ck_assert_int_eq(weft_graph_output_count(copy), 2);
    ck_assert_int_eq(weft_value_dim(weft_graph_input_value(copy, 2), 0), 8);
    weft_dim copied_m = weft_value_dim(weft_graph_input_value(copy, 2), 1);
    ck_assert_int_lt(copied_m, 0);
    ck_assert_int_eq(weft_value_dim(weft_graph_output_value(copy, 1), 0), weft_dim_times(copy, 8, copied_m));
    ck_assert_ptr_eq(weft_graph_output_value(copy, 0)->graph, copy);
    weft_graph_release(copy);
}
END_TEST

START_TEST(test_capture_of_inner_value_is_refused) {
    weft_value *x = weft_graph_input(graph, "x", WEFT_F32, 0, NULL);
    weft_value *limit = weft_graph_input(graph, "limit", WEFT_F32, 0, NULL);
    weft_value *loop = build_loop(x, limit);
    weft_value *inner = loop->node->regions[1]->block->first->results;
    weft_graph_output(graph, "y", inner);
    expect_problem(graph, "is not defined before it");
}
END_TEST

Suite *graph_suite(void) {
    Suite *suite = suite_create("graph");
    TCase *tests = tcase_create("graph");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_build);
    tcase_add_test(tests, test_problems);
    tcase_add_test(tests, test_guards);
    tcase_add_test(tests, test_assumptions);
    tcase_add_test(tests, test_replace_and_remove);
    tcase_add_test(tests, test_clone);
    tcase_add_test(tests, test_capture_of_inner_value_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
