/* vmap: every op against one element at a time, nesting, transforms of transforms, compiled code. */
#include "tests/batch/testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "weft/compile.h"

weft_context *test_context;

void expect(weft_status status, const char *what) {
    if (!status) return;
    char text[2000];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s: %s", what, text);
}

static unsigned long long state = 7;
double uniform(double low, double high) {
    unsigned long long z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return low + (high - low) * (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

weft_tensor *random_tensor(weft_dtype dtype, int rank, const int64_t *shape, double low, double high) {
    weft_tensor *t;
    expect(weft_tensor_create(test_context, dtype, rank, shape, &t), "tensor");
    int64_t count = weft_tensor_element_count(t);
    if (dtype == WEFT_C64 || dtype == WEFT_C128) {
        for (int64_t i = 0; i < 2 * count; i++)
            if (dtype == WEFT_C64)
                ((float *)weft_tensor_data(t))[i] = (float)uniform(low, high);
            else
                ((double *)weft_tensor_data(t))[i] = uniform(low, high);
        return t;
    }
    for (int64_t i = 0; i < count; i++)
        if (weft_dtype_is_float(dtype))
            weft_element_set_double(dtype, weft_tensor_data(t), i, uniform(low, high));
        else
            weft_element_set_i64(dtype, weft_tensor_data(t), i, (int64_t)uniform(0, dtype == WEFT_BOOL ? 2 : 3));
    return t;
}

weft_tensor *element_of(weft_tensor *batch, int64_t i) {
    weft_tensor *t;
    expect(weft_tensor_create(test_context, batch->dtype, batch->rank - 1, batch->shape + 1, &t), "element");
    memcpy(t->data, (const char *)batch->data + (size_t)i * t->bytes, t->bytes);
    return t;
}

/* Complex elements count as two. */
static double number(const weft_tensor *t, int64_t i) {
    if (t->dtype == WEFT_C64) return (double)((const float *)t->data)[i];
    if (t->dtype == WEFT_C128) return ((const double *)t->data)[i];
    return weft_dtype_is_float(t->dtype) ? weft_element_double(t->dtype, t->data, i)
                                         : (double)weft_element_i64(t->dtype, t->data, i);
}

static double tolerance_of(weft_dtype dtype) {
    switch ((int)dtype) {
    case WEFT_F64:
    case WEFT_C128: return 1e-12;
    case WEFT_F32:
    case WEFT_C64: return 1e-5;
    case WEFT_BF16: return 2e-2;
    case WEFT_F16: return 2e-3;
    default: return 0;
    }
}

static void compare_numbers(const weft_tensor *a, int64_t offset, const weft_tensor *b, int64_t count, double tolerance,
                            const char *what) {
    for (int64_t i = 0; i < count; i++) {
        double x = number(a, offset + i), y = number(b, i);
        bool equal = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance * (1 + fabs(y));
        ck_assert_msg(equal, "%s: element %lld is %.17g, expected %.17g", what, (long long)i, x, y);
    }
}

void compare_element(weft_tensor *batch, int64_t i, weft_tensor *one, const char *what) {
    ck_assert_msg(batch->rank == one->rank + 1, "%s: the batch has rank %d, an element %d", what, batch->rank,
                  one->rank);
    for (int k = 0; k < one->rank; k++)
        ck_assert_msg(batch->shape[k + 1] == one->shape[k], "%s: axis %d is %lld, expected %lld", what, k,
                      (long long)batch->shape[k + 1], (long long)one->shape[k]);
    bool complex = one->dtype == WEFT_C64 || one->dtype == WEFT_C128;
    int64_t count = weft_tensor_element_count(one) * (complex ? 2 : 1);
    compare_numbers(batch, i * count, one, count, tolerance_of(one->dtype), what);
}

void compare(weft_tensor *a, weft_tensor *b, double tolerance, const char *what) {
    ck_assert_msg(a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape),
                  "%s: shapes differ", what);
    compare_numbers(a, 0, b, weft_tensor_element_count(b), tolerance, what);
}

void release_all(int count, weft_tensor **tensors) {
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]), tensors[i] = NULL;
}

void run_both_ways(weft_graph *graph, int input_count, weft_tensor *const *inputs, int output_count,
                   weft_tensor **outputs, const char *what) {
    memset(outputs, 0, (size_t)output_count * sizeof *outputs);
    expect(weft_graph_verify(graph), what);
    expect(weft_graph_interpret(graph, input_count, inputs, output_count, outputs), what);
#ifdef WEFT_HAVE_LLVM
    weft_program *program;
    weft_session *session;
    weft_tensor *compiled[16] = {0};
    ck_assert_int_le(output_count, 16);
    expect(weft_compile(graph, NULL, &program), what);
    expect(weft_session_create(program, &session), what);
    expect(weft_session_call(session, input_count, inputs, output_count, compiled), what);
    for (int i = 0; i < output_count; i++) compare(compiled[i], outputs[i], 2e-5, what);
    release_all(output_count, compiled);
    weft_session_release(session);
    weft_program_release(program);
#endif
}

static void set_up(void) { expect(weft_context_create(NULL, &test_context), "context"); }
static void tear_down(void) { weft_context_release(test_context); }

int main(void) {
    Suite *suite = suite_create("batch");
    TCase *cases[] = {case_ops(), case_functions()};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcase_add_checked_fixture(cases[i], set_up, tear_down);
        tcase_set_timeout(cases[i], 200);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
