/* Broken graphs are found: one invariant damaged at a time, by hand. */
#include <check.h>
#include <string.h>

#include "ir/emit.h"
#include "ir/verify.h"

static weft_context *context;
static weft_graph *graph;
static weft_value *x, *y, *z; /* y = exp x, z = neg y */

static void setup(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "broken", &graph));
    x = weft_graph_input(graph, "x", WEFT_F32, 1, (weft_dim[]){4});
    weft_graph_at(graph, "here.c", 1);
    y = weft_emit_unary(graph, WEFT_OP_exp, x);
    weft_graph_at(graph, "there.c", 2);
    z = weft_emit_unary(graph, WEFT_OP_neg, y);
    weft_graph_output(graph, "z", z);
    ck_assert_ptr_null(weft_graph_verify(graph));
}

static void teardown(void) {
    weft_graph_release(graph);
    weft_context_release(context);
}

static void expect(const char *text) {
    weft_status status = weft_verify(graph);
    ck_assert_msg(status != NULL, "not found: %s", text);
    ck_assert_msg(strstr(weft_status_message(status), text) != NULL, "says: %s\nwanted: %s",
                  weft_status_message(status), text);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_release(status);
    ck_assert_uint_eq(graph->problem_count, 0);
}

START_TEST(test_order) {
    /* z before y */
    weft_node *a = y->node, *b = z->node;
    graph->body->block->first = b;
    b->previous = NULL;
    a->next = b->next;
    b->next->previous = a;
    b->next = a;
    a->previous = b;
    expect("there.c:2: neg: operand 0");
}
END_TEST

START_TEST(test_types) {
    y->type.dtype = WEFT_F64;
    z->type.dtype = WEFT_F64;
    expect("here.c:1: exp: its result types are not what inference gives");
}
END_TEST

START_TEST(test_uses) {
    x->uses = NULL;
    expect("exp: operand 0 is not in the use list");
}
END_TEST

START_TEST(test_stale_use) {
    z->node->operands[0] = x;
    expect("its use list is wrong");
}
END_TEST

START_TEST(test_attribute) {
    weft_attribute extra = weft_attr_int(WEFT_ATTR_axis, 0);
    y->node->attributes = &extra;
    y->node->attribute_count = 1;
    expect("1 attributes do not belong");
}
END_TEST

START_TEST(test_outputs) {
    graph->outputs[0] = y;
    expect("weft_graph_finish was not called");
}
END_TEST

START_TEST(test_no_yield) {
    weft_node_remove(graph->body->block->last);
    expect("does not end in yield");
}
END_TEST

START_TEST(test_note) {
    y->node->note = y;
    expect("a pass left its note");
    y->node->note = NULL;
}
END_TEST

START_TEST(test_list) {
    z->node->previous = NULL;
    expect("the node list of its block is broken");
}
END_TEST

/* All at once: every problem is in the one status. */
START_TEST(test_all_problems) {
    y->node->note = y;
    z->node->note = y;
    expect("2 problems");
    y->node->note = z->node->note = NULL;
    ck_assert_ptr_null(weft_verify(graph));
}
END_TEST

Suite *verify_suite(void) {
    Suite *suite = suite_create("verify");
    TCase *tests = tcase_create("verify");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_order);
    tcase_add_test(tests, test_types);
    tcase_add_test(tests, test_uses);
    tcase_add_test(tests, test_stale_use);
    tcase_add_test(tests, test_attribute);
    tcase_add_test(tests, test_outputs);
    tcase_add_test(tests, test_no_yield);
    tcase_add_test(tests, test_note);
    tcase_add_test(tests, test_list);
    tcase_add_test(tests, test_all_problems);
    suite_add_tcase(suite, tests);
    return suite;
}
