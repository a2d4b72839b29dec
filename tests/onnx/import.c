/* Models against the expected outputs beside them; symbols, needed values, the audit. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dim.h"
#include "base/file.h"
#include "ir/graph.h"
#include "weft/npy.h"
#include "weft/onnx.h"

#ifdef WEFT_HAVE_ONNX
#define MODELS WEFT_SOURCE_DIR "/tests/onnx/models/"

static weft_context *context;
static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void expect_ok(weft_status status) {
    char text[2000] = "";
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(status == NULL, "%s", text);
}

static weft_graph *import_model(const char *name, const weft_onnx_options *options) {
    char path[500];
    weft_graph *graph;
    snprintf(path, sizeof path, MODELS "%s.onnx", name);
    expect_ok(weft_onnx_import(context, path, options, &graph));
    return graph;
}

static weft_tensor *load(const char *name, const char *kind, int index) {
    char path[500];
    weft_tensor *tensor;
    snprintf(path, sizeof path, MODELS "%s.%s.%d.npy", name, kind, index);
    expect_ok(weft_npy_read(context, path, &tensor));
    return tensor;
}

static double number(const weft_tensor *tensor, int64_t i) {
    return weft_dtype_is_float(weft_tensor_dtype(tensor))
               ? weft_element_double(weft_tensor_dtype(tensor), weft_tensor_data(tensor), i)
               : (double)weft_element_i64(weft_tensor_dtype(tensor), weft_tensor_data(tensor), i);
}

static void check_equal(const char *name, const weft_tensor *got, const weft_tensor *want) {
    ck_assert_int_eq(weft_tensor_dtype(got), weft_tensor_dtype(want));
    ck_assert_int_eq(weft_tensor_rank(got), weft_tensor_rank(want));
    for (int i = 0; i < weft_tensor_rank(want); i++)
        ck_assert_int_eq(weft_tensor_shape(got)[i], weft_tensor_shape(want)[i]);
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = number(got, i), b = number(want, i);
        ck_assert_msg(fabs(a - b) <= 1e-6 + 1e-5 * fabs(b), "%s element %lld: %g, expected %g", name, (long long)i, a,
                      b);
    }
}

static void check_model(const char *name) {
    weft_graph *graph = import_model(name, NULL);
    weft_tensor *inputs[16], *outputs[16] = {NULL};
    int input_count = weft_graph_input_count(graph), output_count = weft_graph_output_count(graph);
    ck_assert_int_le(input_count, 16);
    ck_assert_int_le(output_count, 16);
    for (int i = 0; i < input_count; i++) inputs[i] = load(name, "in", i);
    expect_ok(weft_graph_interpret(graph, input_count, inputs, output_count, outputs));
    for (int i = 0; i < output_count; i++) {
        weft_tensor *want = load(name, "out", i);
        check_equal(name, outputs[i], want);
        weft_tensor_release(want);
        weft_tensor_release(outputs[i]);
    }
    for (int i = 0; i < input_count; i++) weft_tensor_release(inputs[i]);
    weft_graph_release(graph);
}

static const char *const models[] = {"mlp",       "external",  "shapes",    "control", "stops",
                                     "functions", "old_forms", "encodings", "resize"};

START_TEST(model_gives_expected_outputs) { check_model(models[_i]); }
END_TEST

/* Extents go through Shape, Gather, Mul, Concat and Reshape and stay expressions of the inputs' symbols. */
START_TEST(extents_stay_symbolic) {
    weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
    options.dims = "B=1..8,T=2..*/2";
    weft_graph *graph = import_model("shapes", &options);
    weft_value *x = weft_graph_input_value(graph, 0), *y = weft_graph_output_value(graph, 0),
               *w = weft_graph_output_value(graph, 1);
    ck_assert(weft_value_dim(y, 0) == weft_dim_times(graph, weft_value_dim(x, 0), weft_value_dim(x, 1)));
    ck_assert_int_eq(weft_value_dim(y, 1), 2);
    ck_assert(weft_value_dim(w, 0) == weft_value_dim(x, 0));
    ck_assert(weft_value_dim(w, 1) == weft_value_dim(x, 1));
    const weft_symbol *b = weft_dim_symbol_get(graph->dims, weft_dim_symbol_find(graph->dims, "B"));
    const weft_symbol *t = weft_dim_symbol_get(graph->dims, weft_dim_symbol_find(graph->dims, "T"));
    ck_assert_int_eq(b->minimum, 1);
    ck_assert_int_eq(b->maximum, 8);
    ck_assert_int_eq(t->divisor, 2);
    ck_assert_int_eq(t->origin, WEFT_SYMBOL_DECLARED);
    weft_graph_release(graph);
}
END_TEST

START_TEST(fixed_dims_are_numbers) {
    weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
    options.dims = "B=3";
    weft_graph *graph = import_model("mlp", &options);
    ck_assert_int_eq(weft_value_dim(weft_graph_output_value(graph, 0), 0), 3);
    weft_graph_release(graph);
}
END_TEST

/* Shape arithmetic leaves nothing behind: only the reshapes and the sum are left. */
START_TEST(shape_arithmetic_vanishes) {
    weft_graph *graph = import_model("shapes", NULL);
    int count = 0;
    for (const weft_node *node = graph->body->block->first; node; node = node->next) count++;
    ck_assert_int_eq(count, 4);
    weft_graph_release(graph);
}
END_TEST

START_TEST(wrong_dims_are_a_status) {
    static const char *const wrong[] = {"B=3,B=4", "B",        "B=",      "B=x", "B=4..2",
                                        "=3",      "B=1..4/0", "B=1;T=2", "Q=3", "B=2,Q=1..4"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
        weft_graph *graph;
        options.dims = wrong[i];
        weft_status status = weft_onnx_import(context, MODELS "mlp.onnx", &options, &graph);
        ck_assert_msg(status != NULL && graph == NULL, "dims \"%s\" was accepted", wrong[i]);
        if (i == 0) ck_assert_ptr_nonnull(strstr(weft_status_message(status), "B is given twice"));
        weft_status_release(status);
    }
}
END_TEST

static void count_need(void *self, const char *input) {
    ck_assert_str_eq(input, "shape");
    ++*(int *)self;
}

START_TEST(needed_values_are_asked_for) {
    int asked = 0;
    weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
    options.need = count_need, options.need_self = &asked;
    weft_graph *graph;
    weft_status status = weft_onnx_import(context, MODELS "needs.onnx", &options, &graph);
    ck_assert_ptr_nonnull(status);
    weft_status_release(status);
    ck_assert_int_eq(asked, 1);
    int64_t shape[1] = {2}, values[2] = {3, 2};
    const char *name = "shape";
    weft_tensor *tensor;
    expect_ok(weft_tensor_create_copy(context, WEFT_I64, 1, shape, values, &tensor));
    options.constant_count = 1, options.constant_names = &name, options.constants = &tensor;
    expect_ok(weft_onnx_import(context, MODELS "needs.onnx", &options, &graph));
    ck_assert_int_eq(weft_graph_input_count(graph), 1);
    ck_assert_int_eq(weft_value_dim(weft_graph_output_value(graph, 0), 0), 3);
    weft_tensor_release(tensor);
    weft_graph_release(graph);
}
END_TEST

/* Every unknown thing is in one text, with the nodes' names. */
START_TEST(audit_lists_everything) {
    char *text;
    expect_ok(weft_onnx_audit(context, MODELS "unknown.onnx", &text));
    ck_assert_ptr_nonnull(strstr(text, "first: operator custom.Strange is not supported"));
    ck_assert_ptr_nonnull(strstr(text, "second: Relu has the unknown attribute slope"));
    ck_assert_ptr_nonnull(strstr(text, "third: operator NoSuchOperator is not supported"));
    weft_graph *graph;
    weft_status status = weft_onnx_import(context, MODELS "unknown.onnx", NULL, &graph);
    ck_assert_int_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(weft_status_message(status), "NoSuchOperator"));
    weft_status_release(status);
    weft_string_release(context, text);
    expect_ok(weft_onnx_audit(context, MODELS "mlp.onnx", &text));
    ck_assert_str_eq(text, "");
    weft_string_release(context, text);
}
END_TEST

/* docs/onnx-ops.md is the table as it is now. */
START_TEST(documentation_is_current) {
    char *table;
    weft_file file;
    expect_ok(weft_onnx_operator_table(context, &table));
    expect_ok(weft_file_map(WEFT_SOURCE_DIR "/docs/onnx-ops.md", &file));
    ck_assert_msg(memmem(file.data, file.bytes, table, strlen(table)) != NULL,
                  "print the operator table into docs/onnx-ops.md");
    weft_file_unmap(&file);
    weft_string_release(context, table);
}
END_TEST

Suite *import_suite(void) {
    Suite *suite = suite_create("onnx import");
    TCase *tcase = tcase_create("import");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, model_gives_expected_outputs, 0, (int)(sizeof models / sizeof *models));
    tcase_add_test(tcase, extents_stay_symbolic);
    tcase_add_test(tcase, fixed_dims_are_numbers);
    tcase_add_test(tcase, shape_arithmetic_vanishes);
    tcase_add_test(tcase, wrong_dims_are_a_status);
    tcase_add_test(tcase, needed_values_are_asked_for);
    tcase_add_test(tcase, audit_lists_everything);
    tcase_add_test(tcase, documentation_is_current);
    suite_add_tcase(suite, tcase);
    return suite;
}
#endif
