/* Products by simdgroup matrices around the edges of tiles and steps: every element against the interpreter, twice for
   the same bits. */
#include <stdlib.h>
#include <string.h>

#include "compile/unit.h"
#include "ir/graph.h"
#include "tests/metal/testing.h"

typedef struct product_row {
    int64_t batch, m, n, depth;
    weft_dtype dtype;
    bool turned; /* b is [n, depth] */
} product_row;
static const product_row rows[] = {{16, 64, 64, 16, WEFT_F32, false},  {16, 65, 63, 17, WEFT_F32, true},
                                   {16, 63, 65, 15, WEFT_F32, false},  {1, 129, 191, 33, WEFT_F32, false},
                                   {8, 66, 70, 1, WEFT_F32, false},    {16, 64, 66, 48, WEFT_F16, true},
                                   {16, 67, 64, 40, WEFT_BF16, false}, {24, 33, 34, 7, WEFT_F32, true}};

static weft_tensor *filled(weft_context *context, const weft_type *type, uint64_t state) {
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(context, type->dtype, type->rank, type->dims, &tensor));
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        weft_element_set_double(type->dtype, weft_tensor_data(tensor), i, (double)(state >> 40 & 255) / 64 - 2);
    }
    return tensor;
}

static weft_graph *make_graph(weft_context *context, const product_row *row) {
    static const int64_t swap[3] = {0, 2, 1};
    weft_graph *g;
    assert_fine(weft_graph_create(context, "product", &g));
    weft_dim a[3] = {row->batch, row->m, row->depth}, b[3] = {row->batch, row->depth, row->n},
             bt[3] = {row->batch, row->n, row->depth};
    weft_value *x = weft_graph_input(g, "x", row->dtype, 3, a),
               *y = weft_graph_input(g, "y", row->dtype, 3, row->turned ? bt : b);
    if (row->turned) y = weft_transpose(g, y, swap);
    weft_graph_output(g, "z", weft_convert(g, weft_matmul(g, x, y), WEFT_F32));
    assert_fine(weft_graph_verify(g));
    return g;
}

START_TEST(simdgroup_products) {
    const product_row *row = &rows[_i];
    weft_context *context;
    weft_device *device;
    weft_unit *unit;
    weft_program *program;
    weft_session *session;
    weft_tensor *inputs[2], *expected, *z[2] = {0};
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    assert_fine(weft_context_create(NULL, &context));
    assert_fine(weft_device_open(context, "metal", &device));
    weft_graph *g = make_graph(context, row);
    for (int i = 0; i < 2; i++) inputs[i] = filled(context, &weft_graph_input_value(g, i)->type, 7 + (uint64_t)i);
    assert_fine(weft_graph_interpret(g, 2, inputs, 1, &expected));
    assert_fine(weft_unit_compile(g, NULL, weft_capability_find("metal", "apple9"), &options, &unit));
    ck_assert_msg(memmem(unit->image, unit->image_bytes, "simdgroup_mma(&", 15) != NULL,
                  "row %d does not use the matrix unit", _i);
    assert_fine(weft_unit_load(unit, device, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    for (int i = 0; i < 2; i++) assert_fine(weft_session_call(session, 2, inputs, 1, &z[i]));
    const float *a = weft_tensor_data(z[0]), *b = weft_tensor_data(expected);
    /* 16-bit results are rounded to 16 bits on the way */
    double unit_of = row->dtype == WEFT_F32 ? 1e-6 * (double)row->depth : row->dtype == WEFT_F16 ? 2e-3 : 2e-2;
    for (int64_t i = 0; i < weft_tensor_element_count(expected); i++) {
        double error = (double)a[i] - (double)b[i], allowed = unit_of * (1 + (b[i] < 0 ? -(double)b[i] : (double)b[i]));
        ck_assert_msg(error <= allowed && -error <= allowed, "row %d element %lld: %g instead of %g", _i, (long long)i,
                      (double)a[i], (double)b[i]);
    }
    ck_assert_mem_eq(a, weft_tensor_data(z[1]), weft_tensor_bytes(z[1]));
    for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i]), weft_tensor_release(z[i]);
    weft_tensor_release(expected);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_device_release(device);
    weft_context_release(context);
}
END_TEST

TCase *case_products(void) {
    TCase *tests = tcase_create("products");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, simdgroup_products, 0, sizeof rows / sizeof *rows);
    return tests;
}
