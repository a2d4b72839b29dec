/* Runner and helpers of the interpreter tests. */
#include <stdio.h>

#include "base/tensor.h"
#include "tests/interp/interp.h"

weft_context *test_context;
weft_graph *test_graph;

void expect_code(weft_status status, weft_code code) {
    char text[1024];
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(weft_status_code(status) == code, "expected %s, got %s", weft_code_name(code), text);
    weft_status_release(status);
}

void ok(weft_status status) { expect_code(status, WEFT_OK); }

void graph_setup(void) {
    ok(weft_context_create(NULL, &test_context));
    ok(weft_graph_create(test_context, "test", &test_graph));
}

void graph_teardown(void) {
    weft_graph_release(test_graph);
    ck_assert_int_eq(atomic_load(&test_context->references), 1); /* everything is released */
    weft_context_release(test_context);
}

weft_tensor *tensor_of(weft_dtype dtype, int rank, const int64_t *shape, const double *values) {
    weft_tensor *tensor;
    ok(weft_tensor_create(test_context, dtype, rank, shape, &tensor));
    weft_dtype part = dtype == WEFT_C64 ? WEFT_F32 : dtype == WEFT_C128 ? WEFT_F64 : dtype;
    int64_t count = tensor->element_count * (part == dtype ? 1 : 2); /* complex: pairs */
    for (int64_t i = 0; i < count; i++) weft_element_set_double(part, tensor->data, i, values[i]);
    return tensor;
}

weft_value *constant_of(weft_dtype dtype, int rank, const int64_t *shape, const double *values) {
    weft_tensor *tensor = tensor_of(dtype, rank, shape, values);
    weft_value *value = weft_graph_constant(test_graph, tensor);
    weft_tensor_release(tensor);
    return value;
}

weft_value *integers_of(weft_dtype dtype, int rank, const int64_t *shape, const int64_t *values) {
    weft_tensor *tensor;
    ok(weft_tensor_create(test_context, dtype, rank, shape, &tensor));
    for (int64_t i = 0; i < tensor->element_count; i++) weft_element_set_i64(dtype, tensor->data, i, values[i]);
    weft_value *value = weft_graph_constant(test_graph, tensor);
    weft_tensor_release(tensor);
    return value;
}

weft_value *apply1(weft_op op, weft_value *x, int attribute_count, const weft_attribute *attributes) {
    return weft_build(test_graph, op, 1, &x, attribute_count, attributes);
}

weft_value *apply2(weft_op op, weft_value *x, weft_value *y, int attribute_count, const weft_attribute *attributes) {
    return weft_build(test_graph, op, 2, (weft_value *[]){x, y}, attribute_count, attributes);
}

void evaluate(int count, weft_value *const *values, weft_tensor **results) {
    test_graph->output_count = 0; /* the outputs of this evaluation only */
    char name[16];
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "y%d", i);
        weft_graph_output(test_graph, name, values[i]);
    }
    ok(weft_graph_interpret(test_graph, 0, NULL, count, results));
}

weft_tensor *evaluate_one(weft_value *value) {
    weft_tensor *result;
    evaluate(1, &value, &result);
    return result;
}

void check_tensor(const weft_tensor *tensor, int rank, const int64_t *shape, const double *elements, double tolerance) {
    ck_assert_int_eq(tensor->rank, rank);
    for (int i = 0; i < rank; i++) ck_assert_int_eq(tensor->shape[i], shape[i]);
    weft_dtype part = tensor->dtype == WEFT_C64 ? WEFT_F32 : tensor->dtype == WEFT_C128 ? WEFT_F64 : tensor->dtype;
    int64_t count = tensor->element_count * (part == tensor->dtype ? 1 : 2);
    for (int64_t i = 0; i < count; i++) {
        double got = weft_element_double(part, tensor->data, i), want = elements[i];
        bool equal =
            isnan(want) ? isnan(got)
            : isinf(want) || want == 0
                ? (tolerance > 0 && want == 0 ? fabs(got) <= tolerance : got == want && signbit(got) == signbit(want))
                : fabs(got - want) <= tolerance * fmax(1, fabs(want));
        ck_assert_msg(equal, "element %lld is %.17g, expected %.17g", (long long)i, got, want);
    }
}

void expect(weft_value *value, int rank, const int64_t *shape, const double *elements, double tolerance) {
    weft_tensor *result = evaluate_one(value);
    check_tensor(result, rank, shape, elements, tolerance);
    weft_tensor_release(result);
}

void expect_integers(weft_value *value, int rank, const int64_t *shape, const int64_t *elements) {
    weft_tensor *result = evaluate_one(value);
    ck_assert_int_eq(result->rank, rank);
    for (int i = 0; i < rank; i++) ck_assert_int_eq(result->shape[i], shape[i]);
    for (int64_t i = 0; i < result->element_count; i++)
        ck_assert_int_eq(weft_element_i64(result->dtype, result->data, i), elements[i]);
    weft_tensor_release(result);
}

int main(void) {
    SRunner *runner = srunner_create(elementwise_suite());
    srunner_add_suite(runner, movement_suite());
    srunner_add_suite(runner, reduce_suite());
    srunner_add_suite(runner, products_suite());
    srunner_add_suite(runner, control_suite());
    srunner_add_suite(runner, dtypes_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
