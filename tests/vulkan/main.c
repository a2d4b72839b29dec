/* Products of f16, bf16 and i8 by cooperative matrices around the edges of tiles and steps, every element against the
   interpreter: in the simulator; their modules through a validator; on the device, where it has such matrices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "codegen/target.h"
#include "passes/pass.h"
#include "tests/cuda/harness.h"
#include "tests/support/status.h"
#include "tests/vulkan/testing.h"
#include "weft/compile.h"
#include "weft/ops.h"

/* A type, and an architecture with matrices of it. */
typedef struct unit_row {
    weft_dtype dtype;
    const char *arch;
} unit_row;
static const unit_row units[] = {{WEFT_F16, "vulkan1.2-coop16"},
                                 {WEFT_F16, "vulkan1.2-coop8"},
                                 {WEFT_F16, "vulkan1.2-coop16-bf16-i8"},
                                 {WEFT_BF16, "vulkan1.2-coop16-bf16"},
                                 {WEFT_BF16, "vulkan1.2-coop16-bf16-i8"},
                                 {WEFT_I8, "vulkan1.2-coop16-bf16-i8"},
                                 {WEFT_I8, "vulkan1.2-coop8"}};
enum { UNITS = sizeof units / sizeof *units };

typedef struct product_row {
    int64_t batch, m, n, depth;
    bool turned;   /* b is [n, depth] */
    bool epilogue; /* relu(x + bias) in f32 */
    bool a_turned; /* a is [depth, m] */
} product_row;
static const product_row rows[] = {
    {1, 64, 64, 32, false, false, false},  {1, 129, 66, 33, true, true, false}, {3, 17, 130, 64, false, true, false},
    {1, 63, 65, 31, true, false, false},   {2, 70, 40, 96, true, true, false},  {1, 5, 7, 3, false, false, false},
    {1, 130, 136, 72, false, true, false}, {1, 136, 72, 40, true, true, true},  {2, 66, 68, 35, false, false, true}};
enum { ROWS = sizeof rows / sizeof *rows };

static weft_graph *make_graph(weft_context *context, const product_row *row, weft_dtype dtype) {
    static const int64_t swap[3] = {0, 2, 1}, last = 2;
    weft_graph *g;
    assert_fine(weft_graph_create(context, "product", &g));
    weft_dim a[3] = {row->batch, row->m, row->depth}, at[3] = {row->batch, row->depth, row->m},
             b[3] = {row->batch, row->depth, row->n}, bt[3] = {row->batch, row->n, row->depth},
             z[3] = {row->batch, row->m, row->n};
    weft_value *x = weft_graph_input(g, "x", dtype, 3, row->a_turned ? at : a),
               *y = weft_graph_input(g, "y", dtype, 3, row->turned ? bt : b);
    if (row->a_turned) x = weft_transpose(g, x, swap);
    if (row->turned) y = weft_transpose(g, y, swap);
    weft_dtype sum = dtype == WEFT_I8 ? WEFT_I32 : WEFT_F32;
    weft_value *d = weft_matmul_typed(g, x, y, sum);
    if (row->epilogue) {
        weft_value *bias = weft_graph_input(g, "bias", WEFT_F32, 1, &z[2]);
        d = weft_relu(g, weft_add(g, weft_convert(g, d, WEFT_F32), weft_broadcast(g, bias, 3, z, &last)));
    }
    weft_graph_output(g, "z", d);
    assert_fine(weft_graph_verify(g));
    return g;
}

/* bound: of the difference over 1 + |value|; 0: not a bit. */
static void compare(const char *where, int row, double bound, const weft_tensor *want, const weft_tensor *got) {
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = weft_element_double(want->dtype, want->data, i), b = weft_element_double(got->dtype, got->data, i);
        ck_assert_msg(fabs(a - b) <= bound * (1 + fabs(a)), "%s row %d element %lld: %g instead of %g", where, row,
                      (long long)i, b, a);
    }
}

static double bound_of(weft_dtype dtype) { return dtype == WEFT_I8 ? 0 : 1e-4; }

/* Every proposal of the builder in the simulator. */
static void simulate(weft_context *context, const product_row *row, const unit_row *unit, int count,
                     weft_tensor *const *inputs, const weft_tensor *want, uint64_t *state) {
    const weft_capability *capability = weft_capability_find("vulkan", unit->arch);
    compiled c = {.graph = make_graph(context, row, unit->dtype)};
    weft_arena_init(context->allocator, &c.arena);
    weft_tensor *got = cuda_random_tensor(context, weft_graph_output_value(c.graph, 0), state);
    weft_pass_context pass = {.graph = c.graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    assert_fine(weft_graph_finish(c.graph));
    assert_fine(weft_pipeline_run(&pass, weft_pipeline_standard));
    bool more = true;
    for (int choice = 0; more; choice++) {
        ck_assert(cuda_build_choice(&c, capability, choice, &more));
        ck_assert_str_eq(c.schedule.builder, "matmul-mma");
        memset(got->data, 0xff, weft_tensor_bytes(got));
        cuda_simulate_plan(&c, inputs, count, &got, 1, context, NULL);
        compare(unit->arch, (int)(row - rows), bound_of(unit->dtype), want, got);
    }
    weft_tensor_release(got);
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
}

/* out: by the device, when it is of this arch. */
static void run(weft_unit *unit, weft_device *device, const product_row *row, int count, weft_tensor *const *inputs,
                const weft_tensor *want) {
    weft_program *program;
    weft_session *session;
    weft_tensor *got = NULL;
    assert_fine(weft_unit_load(unit, device, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_call(session, count, inputs, 1, &got));
    compare("on the device", (int)(row - rows), bound_of(inputs[0]->dtype), want, got);
    weft_tensor_release(got);
    weft_session_release(session);
    weft_program_release(program);
}

static weft_tensor *make_input(weft_context *context, const weft_value *value, uint64_t *state) {
    weft_tensor *tensor = cuda_random_tensor(context, value, state);
    if (tensor->dtype != WEFT_I8) return tensor;
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        weft_element_set_double(WEFT_I8, tensor->data, i, (double)(i * 97 % 256 - 128));
    return tensor;
}

START_TEST(products) {
    const product_row *row = &rows[_i / UNITS];
    const unit_row *of = &units[_i % UNITS];
    weft_context *context;
    weft_device *device = NULL;
    weft_device_info info = {0};
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    assert_fine(weft_context_create(NULL, &context));
    weft_status none = weft_device_open(context, "vulkan", &device);
    weft_status_release(none);
    if (device) weft_device_get_info(device, &info);
    weft_graph *g = make_graph(context, row, of->dtype);
    weft_tensor *inputs[3], *want;
    uint64_t state = 1;
    int count = weft_graph_input_count(g);
    for (int i = 0; i < count; i++) inputs[i] = make_input(context, weft_graph_input_value(g, i), &state);
    assert_fine(weft_graph_interpret(g, count, inputs, 1, &want));
    simulate(context, row, of, count, inputs, want, &state);
    weft_unit *unit;
    assert_fine(weft_unit_compile(g, NULL, weft_capability_find("vulkan", of->arch), &options, &unit));
    if (!modules_check(unit) && _i < UNITS) printf("no spirv-val knows the matrices of %s: not validated\n", of->arch);
    if (strcmp(info.arch, of->arch) == 0)
        run(unit, device, row, count, inputs, want);
    else
        weft_unit_release(unit);
    if (_i == 0) printf("on a device: %s\n", strstr(info.arch, "coop") ? info.name : "none has cooperative matrices");
    fflush(stdout);
    for (int i = 0; i < count; i++) weft_tensor_release(inputs[i]);
    weft_tensor_release(want);
    weft_graph_release(g);
    weft_device_release(device);
    weft_context_release(context);
}
END_TEST

int main(void) {
    enum { SKIPPED = 77 };
    if (!weft_target_find("vulkan")) {
        printf("this build makes no SPIR-V: SPIRV-Tools were not found\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("vulkan");
    TCase *tests = tcase_create("products");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, products, 0, ROWS * UNITS);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
