/* batch_invariant (compile.h): a row has the same bits alone, in any batch, at any place in it, in programs made for
   one batch and in one made for all. test-invariance [cpu|cuda]: the device; a CUDA card may be the tests' own
   (tests/ptx). Read next: cases.h, keys.c. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/invariance/cases.h"
#include "tests/support/numbers.h"
#include "tests/support/status.h"
#include "weft/compile.h"
#include "weft/device.h"
#include "weft/runtime.h"

TCase *key_tests(void); /* keys.c */

enum { BATCHES = 4 };
typedef struct device_row {
    const char *name;
    int64_t batches[BATCHES]; /* the last is the whole */
} device_row;
static const device_row devices[] = {{"cpu", {1, 7, 64, 1000}}, {"cuda", {1, 2, 5, 11}}};
static const device_row *device = &devices[0];

typedef struct rig {
    weft_context *context;
    const invariance_case *row;
    int64_t whole;
    int input_count;
    weft_tensor *inputs[CASE_INPUTS_MAX]; /* of the whole batch */
    weft_tensor *expected;
} rig;

static weft_status compile(const rig *r, int64_t batch, bool invariant, weft_program **out_program) {
    weft_graph *g;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = device->name, options.batch_invariant = invariant;
    WEFT_TRY(weft_graph_create(r->context, r->row->name, &g), "graph");
    r->row->build(g, batch ? batch : weft_graph_symbol(g, "B", 1, r->whole, 1));
    weft_status status = weft_graph_verify(g);
    if (!status) status = weft_compile(g, &options, out_program);
    weft_graph_release(g);
    return status;
}

/* Rows [first, first + count) of the whole. */
static weft_status run(const rig *r, weft_program *program, int64_t first, int64_t count, weft_tensor **out) {
    weft_tensor *inputs[CASE_INPUTS_MAX] = {0};
    weft_session *session = NULL;
    weft_status status = weft_session_create(program, &session);
    for (int i = 0; i < r->input_count && !status; i++) {
        int64_t shape[8];
        const weft_tensor *from = r->inputs[i];
        for (int d = 0; d < weft_tensor_rank(from); d++) shape[d] = d ? weft_tensor_shape(from)[d] : count;
        size_t row_bytes = weft_tensor_bytes(from) / (size_t)r->whole;
        status = weft_tensor_create_copy(r->context, WEFT_F32, weft_tensor_rank(from), shape,
                                         (char *)weft_tensor_data(from) + row_bytes * (size_t)first, &inputs[i]);
    }
    if (!status) status = weft_session_call(session, r->input_count, inputs, 1, out);
    for (int i = 0; i < r->input_count; i++) weft_tensor_release(inputs[i]);
    weft_session_release(session);
    return status;
}

/* Inputs in [-1, 1] for the ports of a program; what all rows give in one batch. */
static void prepare(rig *r, const invariance_case *row, bool invariant) {
    weft_program *program;
    uint64_t random = 7;
    *r = (rig){.row = row, .whole = device->batches[BATCHES - 1]};
    assert_fine(weft_context_create(NULL, &r->context));
    assert_fine(compile(r, r->whole, invariant, &program));
    r->input_count = weft_program_input_count(program);
    for (int i = 0; i < r->input_count; i++) {
        weft_port_info info;
        weft_program_input(program, i, &info);
        assert_fine(weft_tensor_create(r->context, WEFT_F32, info.rank, info.shape, &r->inputs[i]));
        float *data = weft_tensor_data(r->inputs[i]);
        for (int64_t e = 0; e < weft_tensor_element_count(r->inputs[i]); e++)
            data[e] = (float)(number_random(&random) % 20001) / 10000.0f - 1.0f;
    }
    assert_fine(run(r, program, 0, r->whole, &r->expected));
    weft_program_release(program);
}

static void drop(rig *r) {
    for (int i = 0; i < r->input_count; i++) weft_tensor_release(r->inputs[i]);
    weft_tensor_release(r->expected);
    weft_context_release(r->context);
}

/* Elements of rows [first, first + count) that have other bits than in the whole. */
static int64_t count_different(const rig *r, weft_program *program, int64_t first, int64_t count) {
    weft_tensor *y = NULL;
    int64_t different = 0;
    assert_fine(run(r, program, first, count, &y));
    size_t row_bytes = weft_tensor_bytes(r->expected) / (size_t)r->whole;
    const uint32_t *got = weft_tensor_data(y), *want = weft_tensor_data(r->expected);
    ck_assert_uint_eq(weft_tensor_bytes(y), row_bytes * (size_t)count);
    want += row_bytes / 4 * (size_t)first;
    for (size_t i = 0; i < row_bytes / 4 * (size_t)count; i++) different += got[i] != want[i];
    weft_tensor_release(y);
    return different;
}

static int64_t check(const rig *r, weft_program *program, int64_t batch, const char *kind, bool tell) {
    int64_t firsts[2] = {(r->whole - batch) / 3, r->whole - batch}, total = 0;
    for (int i = 0; i < (batch == r->whole ? 1 : 2); i++) {
        int64_t different = count_different(r, program, firsts[i], batch);
        if (different && tell)
            printf("  %s, %s: rows %lld to %lld of %lld: %lld elements differ\n", r->row->name, kind,
                   (long long)firsts[i], (long long)(firsts[i] + batch - 1), (long long)r->whole, (long long)different);
        total += different;
    }
    return total;
}

/* Of all batches, in programs of their own and in the one for all. */
static int64_t check_all(const rig *r, bool invariant, bool tell) {
    int64_t different = 0;
    weft_program *all;
    assert_fine(compile(r, 0, invariant, &all));
    for (int i = 0; i < BATCHES; i++) {
        int64_t batch = device->batches[i];
        weft_program *own;
        assert_fine(compile(r, batch, invariant, &own));
        different += check(r, own, batch, "a program of its own", tell);
        different += check(r, all, batch, "the program of all batches", tell);
        weft_program_release(own);
    }
    weft_program_release(all);
    return different;
}

START_TEST(rows_are_alone) {
    const invariance_case *row = &invariance_cases[_i];
    rig r;
    if (device != &devices[0] && !row->portable) return;
    prepare(&r, row, true);
    ck_assert_int_eq(check_all(&r, true, true), 0);
    drop(&r);
}
END_TEST

/* The same comparison without the option: it can fail. */
START_TEST(by_default_they_are_not) {
    rig r;
    int64_t different = 0;
    for (int i = 0; i < invariance_case_count && !different; i++) {
        if (device != &devices[0] && !invariance_cases[i].portable) continue;
        prepare(&r, &invariance_cases[i], false);
        different = check_all(&r, false, false);
        drop(&r);
    }
    ck_assert_int_gt(different, 0);
}
END_TEST

int main(int count, char **arguments) {
    for (size_t i = 0; count > 1 && i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(arguments[1], devices[i].name)) device = &devices[i];
    Suite *suite = suite_create("invariance");
    TCase *tests = tcase_create(device->name);
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, rows_are_alone, 0, invariance_case_count);
    tcase_add_test(tests, by_default_they_are_not);
    suite_add_tcase(suite, tests);
    if (device == &devices[0]) suite_add_tcase(suite, key_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
