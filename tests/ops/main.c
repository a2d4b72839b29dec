/* Tests of frontend/ops: broadcasting, inferred extents, compositions, problems with the caller's location. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/ops.h"

static weft_context *context;
static weft_graph *g;

static void setup(void) {
    ck_assert_ptr_null(weft_context_create(NULL, &context));
    ck_assert_ptr_null(weft_graph_create(context, "test", &g));
}
static void teardown(void) {
    weft_graph_release(g);
    weft_context_release(context);
}

static weft_value *constant(int rank, const int64_t *shape, const float *values) {
    weft_tensor *tensor;
    ck_assert_ptr_null(weft_tensor_create_copy(context, WEFT_F32, rank, shape, values, &tensor));
    weft_value *value = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    return value;
}

static weft_value *counting(int rank, const int64_t *shape) {
    float values[512];
    int64_t count = 1;
    for (int i = 0; i < rank; i++) count *= shape[i];
    ck_assert_int_le(count, 512);
    for (int64_t i = 0; i < count; i++) values[i] = (float)i;
    return constant(rank, shape, values);
}
#define SHAPE(...)                                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* Interprets the graph and compares its only output. */
static void expect(weft_value *value, int rank, const int64_t *shape, const double *want) {
    weft_tensor *out = NULL;
    char text[2000] = "";
    weft_graph_output(g, "y", value);
    weft_status status = weft_graph_interpret(g, 0, NULL, 1, &out);
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s", text);
    ck_assert_int_eq(weft_tensor_rank(out), rank);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        ck_assert_int_eq(weft_tensor_shape(out)[i], shape[i]);
        count *= shape[i];
    }
    for (int64_t i = 0; i < count; i++) {
        double got = weft_tensor_dtype(out) == WEFT_I64 ? (double)((int64_t *)weft_tensor_data(out))[i]
                                                        : (double)((float *)weft_tensor_data(out))[i];
        ck_assert_msg(fabs(got - want[i]) <= 1e-5 * (1 + fabs(want[i])), "element %lld: %g, expected %g", (long long)i,
                      got, want[i]);
    }
    weft_tensor_release(out);
}

START_TEST(binary_operations_broadcast) {
    weft_value *y = weft_add(g, counting(SHAPE(2, 1)), counting(SHAPE(3)));
    expect(y, SHAPE(2, 3), (double[]){0, 1, 2, 1, 2, 3});
}
END_TEST

START_TEST(mod_takes_the_sign_of_the_divisor) {
    float a[4] = {-7, 7, -7, 7}, b[4] = {3, 3, -3, -3};
    expect(weft_mod(g, constant(SHAPE(4), a), constant(SHAPE(4), b)), SHAPE(4), (double[]){2, 1, -1, -2});
}
END_TEST

START_TEST(one_extent_is_inferred) {
    weft_dim b = weft_graph_symbol(g, "B", 1, 64, 1), shape[2] = {b, 6}, to[3] = {WEFT_DIM_ANY, 2, 3},
             flat[1] = {WEFT_DIM_ANY};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, shape);
    ck_assert(weft_value_dim(weft_reshape(g, x, 3, to), 0) == b);
    ck_assert(weft_value_dim(weft_reshape(g, x, 1, flat), 0) == weft_dim_times(g, b, 6));
}
END_TEST

START_TEST(matmul_broadcasts_its_batch) {
    /* [2, 1, 1, 2] x [3, 2, 1]: rows (0, 1) and (2, 3) with columns (0, 1), (2, 3), (4, 5) */
    weft_value *y = weft_matmul(g, counting(SHAPE(2, 1, 1, 2)), counting(SHAPE(3, 2, 1)));
    expect(y, SHAPE(2, 3, 1, 1), (double[]){1, 3, 5, 3, 13, 23});
}
END_TEST

START_TEST(matmul_of_vectors_is_a_scalar) {
    expect(weft_matmul(g, counting(SHAPE(3)), counting(SHAPE(3))), 0, NULL, (double[]){5});
}
END_TEST

START_TEST(take_and_put_along) {
    int64_t indices[4] = {2, 0, 1, 1};
    weft_tensor *tensor;
    ck_assert_ptr_null(weft_tensor_create_copy(context, WEFT_I64, SHAPE(2, 2), indices, &tensor));
    weft_value *index = weft_graph_constant(g, tensor), *x = counting(SHAPE(2, 3));
    weft_tensor_release(tensor);
    weft_value *taken = weft_take_along(g, x, index, 1); /* [[2, 0], [4, 4]] */
    expect(weft_put_along(g, WEFT_SUM, x, index, taken, 1), SHAPE(2, 3), (double[]){0, 1, 4, 3, 12, 5});
}
END_TEST

START_TEST(average_pool_counts_what_it_covers) {
    int64_t window[1] = {3}, stride[1] = {2};
    weft_dim low[1] = {1}, overhang[1] = {1};
    weft_pool_options options = WEFT_POOL_OPTIONS_INIT;
    options.window = window, options.stride = stride, options.low = low, options.overhang = overhang;
    weft_value *x = counting(SHAPE(1, 1, 4));
    weft_value *without = weft_average_pool(g, x, &options);
    options.count_padding = true;
    weft_value *parts[2] = {without, weft_average_pool(g, x, &options)};
    /* windows (pad 0 1) (1 2 3) and, with the overhang of one, no third: (3 . .) would reach two past the end */
    expect(weft_concat(g, 2, 2, parts), SHAPE(1, 1, 4), (double[]){0.5, 2, 1.0 / 3, 2});
}
END_TEST

START_TEST(transposed_convolution_inverts_strides) {
    float kernel[2] = {1, 10};
    int64_t stride[1] = {2};
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = stride;
    weft_value *y = weft_convolution_transpose(g, counting(SHAPE(1, 1, 3)), constant(SHAPE(1, 1, 2), kernel), &options);
    expect(y, SHAPE(1, 1, 6), (double[]){0, 0, 1, 10, 2, 20});
}
END_TEST

START_TEST(narrow_floats_average_in_f32) {
    /* the sum of 512 halves of 200 is 102400: infinite in f16 */
    weft_dim shape[1] = {512};
    weft_value *mean = weft_reduce_mean(g, weft_full(g, WEFT_F16, 1, shape, 200), 0, NULL, false);
    expect(weft_convert(g, mean, WEFT_F32), 0, NULL, (double[]){200});
}
END_TEST

static void triple(void *self, weft_graph *graph, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_mul_number(graph, arguments[0], 3);
    results[1] = weft_add(graph, results[0], arguments[1]);
}

START_TEST(scan_carries_and_stacks) {
    weft_value *carry = weft_scalar(g, WEFT_F32, 1), *x = counting(SHAPE(3)), *results[2];
    weft_scan(g, 1, &carry, 1, &x, 3, false, triple, NULL, 1, results);
    expect(results[1], SHAPE(3), (double[]){3, 10, 29});
}
END_TEST

/* The first problem only: the product of a poisoned value is quiet. */
START_TEST(problems_name_the_callers_line) {
    weft_value *a = counting(SHAPE(2)), *b = counting(SHAPE(3));
    int line = __LINE__ + 1;
    weft_value *y = weft_mul(g, weft_add(g, a, b), a);
    weft_graph_output(g, "y", y);
    weft_status status = weft_graph_verify(g);
    char text[1000], place[100];
    ck_assert_ptr_nonnull(status);
    weft_status_format(status, text, sizeof text);
    snprintf(place, sizeof place, "main.c:%d", line);
    ck_assert_msg(strstr(text, place) != NULL, "%s", text);
    ck_assert_msg(strstr(text, "cannot broadcast extents 2 and 3") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "1 problem") != NULL, "%s", text);
    weft_status_release(status);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ops");
    TCase *tcase = tcase_create("ops");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, binary_operations_broadcast);
    tcase_add_test(tcase, mod_takes_the_sign_of_the_divisor);
    tcase_add_test(tcase, one_extent_is_inferred);
    tcase_add_test(tcase, matmul_broadcasts_its_batch);
    tcase_add_test(tcase, matmul_of_vectors_is_a_scalar);
    tcase_add_test(tcase, take_and_put_along);
    tcase_add_test(tcase, average_pool_counts_what_it_covers);
    tcase_add_test(tcase, transposed_convolution_inverts_strides);
    tcase_add_test(tcase, narrow_floats_average_in_f32);
    tcase_add_test(tcase, scan_carries_and_stacks);
    tcase_add_test(tcase, problems_name_the_callers_line);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
