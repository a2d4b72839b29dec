/* The text form: what is printed is read back and printed the same, for every op, dtype and variant; wrong and hostile
   text is refused with its place. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/ir/sample.h"

static weft_context *context;

static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void expect_ok(weft_status status, const char *what) {
    char text[2000] = "";
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s: %s", what, text);
}

/* Prints, parses, prints again. The caller releases the text. */
static char *round_trip(weft_graph *graph, const char *what) {
    char *first, *second;
    weft_graph *copy;
    expect_ok(weft_graph_print(graph, &first), what);
    weft_status status = weft_graph_parse(context, first, strlen(first), &copy);
    if (status) ck_abort_msg("%s: %s\n%s", what, weft_status_message(status), first);
    expect_ok(weft_graph_print(copy, &second), what);
    ck_assert_str_eq(first, second);
    weft_string_release(context, second);
    weft_graph_release(copy);
    return first;
}

START_TEST(test_every_op) {
    int made = 0;
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        int of_op = 0;
        for (int dtype = 1; dtype < WEFT_DTYPE_COUNT; dtype++)
            for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
                char what[80];
                snprintf(what, sizeof what, "%s %s variant %d", weft_op_get((weft_op)op)->name,
                         weft_dtype_name((weft_dtype)dtype), variant);
                weft_graph *graph;
                expect_ok(weft_graph_create(context, "sample", &graph), what);
                weft_graph_at(graph, "a \"quoted\" name\n.c", 7);
                weft_node *node = weft_sample_node(graph, (weft_op)op, (weft_dtype)dtype, variant);
                expect_ok(weft_graph_verify(graph), what);
                if (node) {
                    of_op++;
                    weft_string_release(context, round_trip(graph, what));
                }
                weft_graph_release(graph);
            }
        ck_assert_msg(of_op > 0 || op == WEFT_OP_yield, "%s has no sample", weft_op_get((weft_op)op)->name);
        made += of_op;
    }
    ck_assert_int_gt(made, 2000);
}
END_TEST

/* One graph with a node of every op: regions, states, many inputs together. */
START_TEST(test_all_in_one) {
    weft_graph *graph, *copy;
    expect_ok(weft_graph_create(context, "every op", &graph), "create");
    for (int op = 0; op < WEFT_OP_COUNT; op++)
        if (op != WEFT_OP_state_update) weft_sample_node(graph, (weft_op)op, WEFT_F32, 0);
    expect_ok(weft_graph_verify(graph), "verify");
    char *text = round_trip(graph, "all"), *copied;
    expect_ok(weft_graph_clone(graph, NULL, &copy), "clone");
    expect_ok(weft_graph_print(copy, &copied), "print");
    ck_assert_str_eq(text, copied);
    weft_string_release(context, text);
    weft_string_release(context, copied);
    weft_graph_release(copy);
    weft_graph_release(graph);
}
END_TEST

START_TEST(test_golden) {
    static const char text[] = "graph @mlp {\n"
                               "  symbol B in [1, 64] divisor 1\n"
                               "  symbol n in [0, inf] divisor 4 anonymous\n"
                               "  assume B == n, by \"build\" at \"mlp.c:3\"\n"
                               "  state @w : f32[2] = dense f32[2] [0.5, -inf]\n"
                               "  input %0 \"x\" : f32[B, 2]\n"
                               "  input %1 \"y\" : f32[n, 2]\n"
                               "  %2 = add %0, %1 : f32[B, 2] at \"mlp.c\":3\n"
                               "  %3 = state_read {name = \"w\"} : f32[2]\n"
                               "  %4 \"scale\" = broadcast %3 {shape = [B, 2], axes = [1]} : f32[B, 2] at \"node 7\"\n"
                               "  %5 = mul %2, %4 : f32[B, 2]\n"
                               "  %6 = reshape %5 {shape = [B*2]} : f32[B*2]\n"
                               "  output \"y\" %6\n"
                               "}\n";
    weft_graph *graph;
    weft_status status = weft_graph_parse(context, text, strlen(text), &graph);
    expect_ok(status, "parse");
    char *printed = round_trip(graph, "golden");
    ck_assert_str_eq(printed, text);
    ck_assert_uint_eq(graph->guard_count, 1);
    ck_assert_str_eq(graph->body->block->first->location.name, "mlp.c");
    weft_string_release(context, printed);
    weft_graph_release(graph);
}
END_TEST

/* Every value of a float survives: ends, subnormals, signed zero. */
START_TEST(test_exact_constants) {
    const double values[8] = {0.1, -0.0, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 1.0 / 3, NAN};
    const uint64_t large[2] = {UINT64_MAX, 1ull << 63};
    weft_tensor *doubles, *integers;
    expect_ok(weft_tensor_create_copy(context, WEFT_F64, 1, (int64_t[]){8}, values, &doubles), "tensor");
    expect_ok(weft_tensor_create_copy(context, WEFT_U64, 1, (int64_t[]){2}, large, &integers), "tensor");
    weft_graph *graph, *copy;
    expect_ok(weft_graph_create(context, "c", &graph), "create");
    weft_graph_output(graph, "d", weft_graph_constant(graph, doubles));
    weft_graph_output(graph, "i", weft_graph_parameter(graph, "p", integers));
    weft_tensor_release(doubles);
    weft_tensor_release(integers);
    char *text = round_trip(graph, "constants");
    expect_ok(weft_graph_parse(context, text, strlen(text), &copy), "parse");
    const weft_tensor *back = weft_node_attribute(copy->outputs[0]->node, WEFT_ATTR_value)->as.tensor;
    ck_assert_mem_eq(back->data, values, 7 * sizeof *values);
    ck_assert(isnan(((double *)back->data)[7]));
    back = weft_node_attribute(copy->outputs[1]->node, WEFT_ATTR_value)->as.tensor;
    ck_assert_mem_eq(back->data, large, sizeof large);
    ck_assert_str_eq(copy->outputs[1]->name, "p");
    weft_string_release(context, text);
    weft_graph_release(copy);
    weft_graph_release(graph);
}
END_TEST

static weft_tensor *kept;
static const char *put_tensor(void *self, weft_tensor *tensor) {
    (void)self;
    kept = tensor;
    return "the \"key\"";
}
static weft_status get_tensor(void *self, const char *key, weft_tensor **out_tensor) {
    (void)self;
    ck_assert_str_eq(key, "the \"key\"");
    weft_tensor_retain(kept);
    *out_tensor = kept;
    return NULL;
}

START_TEST(test_weights) {
    weft_graph *graph, *copy;
    weft_tensor *tensor;
    expect_ok(weft_tensor_create(context, WEFT_F32, 1, (int64_t[]){100}, &tensor), "tensor");
    expect_ok(weft_graph_create(context, "w", &graph), "create");
    weft_graph_output(graph, "y", weft_graph_constant(graph, tensor));
    weft_tensor_source source = {NULL, put_tensor, get_tensor};
    weft_text text;
    weft_text_init(context->allocator, &text);
    expect_ok(weft_graph_verify(graph), "verify");
    expect_ok(weft_print(graph, &(weft_print_options){.tensors = &source}, &text), "print");
    ck_assert_ptr_nonnull(strstr(text.data, "weights \"the \\\"key\\\"\""));
    expect_ok(weft_parse(context, text.data, text.length, &source, &copy), "parse");
    ck_assert_ptr_eq(weft_node_attribute(copy->outputs[0]->node, WEFT_ATTR_value)->as.tensor, tensor);
    weft_graph_release(copy);
    weft_status status = weft_parse(context, text.data, text.length, NULL, &copy);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "no weights came with the text"));
    weft_status_release(status);
    weft_text_deinit(&text);
    weft_tensor_release(tensor);
    weft_graph_release(graph);
}
END_TEST

/* -- refused text */

static const struct {
    const char *text, *message;
} refused[] = {
    {"", "1:1: expected graph"},
    {"graph @a {", "1:11: expected a name"},
    {"graph @a {\n  frob\n}", "2:7: no op is called \"frob\""},
    {"graph @a {\n  %1 = exp %0 : f32[]\n}", "%0 is not defined"},
    {"graph @a {\n  input %0 \"x\" : f33[2]\n}", "2:21: \"f33\" is not a dtype"},
    {"graph @a {\n  input %0 \"x\" : f32[C]\n}", "unknown symbol"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %1 = exp %0 : f32[3]\n}", "result 0 is f32[2]"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %0 = exp %0 : f32[2]\n}", "%0 is defined twice"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %1 = exp %0, %0 : f32[2]\n}", "exp: 2 operands"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %1 = reduce %0 {axes = [1], kind = \"sum\"} : f32[]\n}",
     "axes[0] is 1, the rank is 1"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %1 = reduce %0 {kind = \"sum\"} : f32[]\n}",
     "attribute axes is missing"},
    {"graph @a {\n  input %0 \"x\" : f32[2]\n  %1 = exp %0 {axis = 0} : f32[]\n}", "1 attributes given, 0 belong"},
    {"graph @a {\n  %1 = constant {value = dense f32[9999999999999] [1]} : f32[1]\n}", "elements do not follow"},
    {"graph @a {\n  %1 = constant {value = dense i8[1] [128]} : i8[1]\n}", "128 does not fit into i8"},
    {"graph @a {\n  %1 = constant {value = dense f32[2] [1 2]} : f32[2]\n}", "2:42: expected ,"},
    {"graph @a {\n  %1 = constant {value = dense string[0] []} : f32[2]\n}", "string"},
    {"graph @a {\n  symbol B in [4, 2] divisor 1\n}", "need 0 <= minimum"},
    {"graph @a {\n  symbol B in [1, 2] divisor 1\n  symbol B in [1, 2] divisor 1\n}", "declared twice"},
    {"graph @a {\n  assume 1 == 2, by \"x\"\n}", "does not hold"},
    {"graph @a {\n  state @a : f32[2] = dense f32[3] [1, 2, 3]\n}", "another type"},
    {"graph @a {\n  input %0 \"x : f32[2]\n}", "a string does not end"},
    {"graph @a {\n  input %0 \"x\\u0000\" : f32[2]\n}", "is not a character"},
    {"graph @a {\n  input %99999999999999999999 \"x\" : f32[2]\n}", "more than 64 bits"},
    {"graph @a {\n} x", "text after the graph"},
    {"graph @a {\n  input %0 \"p\" : bool[]\n  %1 = cond %0 {\n yield %0 } {\n %2 = not %0 : bool[]\n yield %2 } : bool[]\n output \"y\" %2\n}",
     "is not defined before it"},
};

START_TEST(test_refused) {
    weft_graph *graph;
    weft_status status = weft_graph_parse(context, refused[_i].text, strlen(refused[_i].text), &graph);
    ck_assert_msg(status != NULL, "accepted: %s", refused[_i].text);
    ck_assert_msg(strstr(weft_status_message(status), refused[_i].message) != NULL, "%s\nsays: %s\nwanted: %s",
                  refused[_i].text, weft_status_message(status), refused[_i].message);
    ck_assert_int_eq(weft_status_code(status), WEFT_INVALID_DATA);
    ck_assert_ptr_null(graph);
    weft_status_release(status);
}
END_TEST

START_TEST(test_deep_nesting) {
    weft_text text;
    weft_text_init(context->allocator, &text);
    weft_text_append(&text, "graph @deep {\n input %%0 \"p\" : bool[]\n");
    for (int i = 0; i < 100000; i++) weft_text_append(&text, "%%%d = cond %%0 {\n", i + 1);
    weft_graph *graph;
    weft_status status = weft_graph_parse(context, text.data, text.length, &graph);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "nest deeper"));
    weft_status_release(status);
    weft_text_deinit(&text);
}
END_TEST

/* Every prefix and thousands of damaged copies of a text with everything in it: a status or a graph, never a crash. */
START_TEST(test_damaged) {
    weft_graph *graph, *copy;
    expect_ok(weft_graph_create(context, "every op", &graph), "create");
    for (int op = 0; op < WEFT_OP_COUNT; op += 3) weft_sample_node(graph, (weft_op)op, WEFT_F32, 0);
    char *text;
    expect_ok(weft_graph_print(graph, &text), "print");
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i += 37) {
        weft_status status = weft_graph_parse(context, text, i, &copy);
        ck_assert(status != NULL || i + 1 >= length);
        weft_status_release(status);
    }
    uint64_t random = 12345;
    static const char bytes[] = "%{}[](),=:\"@0129-/\\ \nabce*";
    for (int i = 0; i < 3000; i++) {
        size_t at[3];
        char old[3];
        for (int k = 0; k < 3; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            at[k] = (size_t)(random >> 33) % length;
            old[k] = text[at[k]];
            text[at[k]] = bytes[(random >> 20) % (sizeof bytes - 1)];
        }
        weft_status status = weft_graph_parse(context, text, length, &copy);
        if (!status) weft_graph_release(copy);
        weft_status_release(status);
        for (int k = 2; k >= 0; k--) text[at[k]] = old[k];
    }
    weft_string_release(context, text);
    weft_graph_release(graph);
}
END_TEST

Suite *text_suite(void) {
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_every_op);
    tcase_add_test(tests, test_all_in_one);
    tcase_add_test(tests, test_golden);
    tcase_add_test(tests, test_exact_constants);
    tcase_add_test(tests, test_weights);
    tcase_add_loop_test(tests, test_refused, 0, (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tests, test_deep_nesting);
    tcase_add_test(tests, test_damaged);
    suite_add_tcase(suite, tests);
    return suite;
}
