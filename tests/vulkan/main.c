/* Products of f16 by cooperative matrices around the edges of tiles and steps, every element against the interpreter:
   in the simulator; their modules through a validator; on the device, where it has such matrices. */
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

static const char *const archs[] = {"vulkan1.2-coop16", "vulkan1.2-coop8"};
enum { ARCHS = sizeof archs / sizeof *archs };

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

static weft_graph *make_graph(weft_context *context, const product_row *row) {
    static const int64_t swap[3] = {0, 2, 1}, last = 2;
    weft_graph *g;
    assert_fine(weft_graph_create(context, "product", &g));
    weft_dim a[3] = {row->batch, row->m, row->depth}, at[3] = {row->batch, row->depth, row->m},
             b[3] = {row->batch, row->depth, row->n}, bt[3] = {row->batch, row->n, row->depth},
             z[3] = {row->batch, row->m, row->n};
    weft_value *x = weft_graph_input(g, "x", WEFT_F16, 3, row->a_turned ? at : a),
               *y = weft_graph_input(g, "y", WEFT_F16, 3, row->turned ? bt : b);
    if (row->a_turned) x = weft_transpose(g, x, swap);
    if (row->turned) y = weft_transpose(g, y, swap);
    weft_value *d = weft_convert(g, weft_matmul(g, x, y), WEFT_F32);
    if (row->epilogue) {
        weft_value *bias = weft_graph_input(g, "bias", WEFT_F32, 1, &z[2]);
        d = weft_relu(g, weft_add(g, d, weft_broadcast(g, bias, 3, z, &last)));
    }
    weft_graph_output(g, "z", d);
    assert_fine(weft_graph_verify(g));
    return g;
}

static void compare(const char *where, int row, const weft_tensor *want, const weft_tensor *got) {
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = weft_element_double(want->dtype, want->data, i), b = weft_element_double(got->dtype, got->data, i);
        ck_assert_msg(fabs(a - b) <= 2e-3 * (1 + fabs(a)), "%s row %d element %lld: %g instead of %g", where, row,
                      (long long)i, b, a);
    }
}

/* Every proposal of the builder in the simulator. */
static void simulate(weft_context *context, const product_row *row, const char *arch, int count,
                     weft_tensor *const *inputs, const weft_tensor *want, uint64_t *state) {
    const weft_capability *capability = weft_capability_find("vulkan", arch);
    compiled c = {.graph = make_graph(context, row)};
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
        compare(arch, (int)(row - rows), want, got);
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
    compare("on the device", (int)(row - rows), want, got);
    weft_tensor_release(got);
    weft_session_release(session);
    weft_program_release(program);
}

START_TEST(products) {
    const product_row *row = &rows[_i];
    weft_context *context;
    weft_device *device = NULL;
    weft_device_info info = {0};
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    assert_fine(weft_context_create(NULL, &context));
    weft_status none = weft_device_open(context, "vulkan", &device);
    weft_status_release(none);
    if (device) weft_device_get_info(device, &info);
    weft_graph *g = make_graph(context, row);
    weft_tensor *inputs[3], *want;
    uint64_t state = 1;
    int count = weft_graph_input_count(g);
    for (int i = 0; i < count; i++) inputs[i] = cuda_random_tensor(context, weft_graph_input_value(g, i), &state);
    assert_fine(weft_graph_interpret(g, count, inputs, 1, &want));
    for (int i = 0; i < ARCHS; i++) {
        weft_unit *unit;
        simulate(context, row, archs[i], count, inputs, want, &state);
        assert_fine(weft_unit_compile(g, NULL, weft_capability_find("vulkan", archs[i]), &options, &unit));
        if (!modules_check(unit) && _i == 0)
            printf("no spirv-val knows cooperative matrices: modules are not validated\n");
        if (strcmp(info.arch, archs[i]) == 0)
            run(unit, device, row, count, inputs, want);
        else
            weft_unit_release(unit);
    }
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
    tcase_add_loop_test(tests, products, 0, ROWS);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
