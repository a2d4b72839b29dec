/* Products by matrix units around the edges of tiles, all layouts and types: inputs are small whole numbers, so that
   sums are exact in any order and must be equal. */
#include <stdio.h>

#include "base/dtype.h"
#include "tests/hip/testing.h"
#include "weft/compile.h"
#include "weft/graph.h"

typedef struct shape {
    int m, n, k, batch;
} shape;

static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "gfx1200"};
static const weft_dtype types[] = {WEFT_BF16, WEFT_F16, WEFT_I8, WEFT_F32, WEFT_F8E4M3FNUZ, WEFT_F8E5M2};
/* rows of memory of 1, 2, 4 ... elements' alignment; one more and one less than a tile */
static const shape shapes[] = {{1, 1, 1, 1},     {63, 65, 33, 1},   {64, 64, 32, 1},
                               {65, 127, 66, 1}, {129, 128, 31, 1}, {128, 129, 96, 1},
                               {200, 72, 40, 1}, {70, 68, 100, 2},  {130, 132, 64, 3}};
/* at most 32 rows, along k in multiples of 16 bytes: k dealt to wavefronts, whole and not */
static const shape few[] = {{1, 16, 16, 1}, {7, 33, 528, 1}, {16, 64, 1024, 1}, {17, 100, 2048, 1}, {32, 20, 80, 3}};
enum { FEW = sizeof few / sizeof *few };
enum { ARCHS = sizeof archs / sizeof *archs, TYPES = 6, LAYOUTS = 4, SHAPES = sizeof shapes / sizeof *shapes };

static int value_of(int side, int batch, int line, int k) {
    return (line * 3 + k * 5 + batch * 2 + side + line * k % 5) % 7 - 3;
}

/* Operand [batch, line, k], or [batch, k, line] when turned. */
static weft_tensor *make_operand(weft_context *context, weft_dtype dtype, const shape *s, int side, bool turned) {
    int lines = side ? s->n : s->m;
    int64_t dims[3] = {s->batch, turned ? s->k : lines, turned ? lines : s->k};
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(context, dtype, 3, dims, &tensor));
    for (int b = 0; b < s->batch; b++)
        for (int line = 0; line < lines; line++)
            for (int k = 0; k < s->k; k++) {
                int64_t at = ((int64_t)b * dims[1] + (turned ? k : line)) * dims[2] + (turned ? line : k);
                weft_element_set_double(dtype, weft_tensor_data(tensor), at, value_of(side, b, line, k));
            }
    return tensor;
}

static weft_program *compile(weft_context *context, weft_dtype dtype, const shape *s, int layout) {
    char text[600];
    const char *name = weft_dtype_name(dtype), *sum = dtype == WEFT_I8 ? "i32" : "f32";
    int a[2] = {s->m, s->k}, b[2] = {s->n, s->k}, ta = layout & 1, tb = layout >> 1;
    snprintf(
        text, sizeof text,
        "graph @p {\n  input %%0 \"a\" : %s[%d, %d, %d]\n  input %%1 \"b\" : %s[%d, %d, %d]\n"
        "  %%2 = dot_general %%0, %%1 {lhs_batch = [0], rhs_batch = [0], lhs_contract = [%d], rhs_contract = [%d], "
        "dtype = %s, accumulate = %s} : %s[%d, %d, %d]\n  output \"y\" %%2\n}\n",
        name, s->batch, a[ta], a[!ta], name, s->batch, b[tb], b[!tb], ta ? 1 : 2, tb ? 1 : 2, sum, sum, sum, s->batch,
        s->m, s->n);
    weft_graph *graph;
    weft_program *program;
    assert_fine(weft_graph_parse(context, text, strlen(text), &graph));
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "amdgcn";
    assert_fine(weft_compile(graph, &options, &program));
    weft_graph_release(graph);
    return program;
}

static void check(const shape *s, weft_dtype dtype, int layout, const weft_tensor *y) {
    weft_dtype out = dtype == WEFT_I8 ? WEFT_I32 : WEFT_F32;
    for (int b = 0; b < s->batch; b++)
        for (int m = 0; m < s->m; m++)
            for (int n = 0; n < s->n; n++) {
                int expected = 0;
                for (int k = 0; k < s->k; k++) expected += value_of(0, b, m, k) * value_of(1, b, n, k);
                double got = weft_element_double(out, weft_tensor_data(y), ((int64_t)b * s->m + m) * s->n + n);
                ck_assert_msg(got == expected, "%s %dx%dx%d, layout %d: y[%d, %d, %d] is %g, not %d",
                              weft_dtype_name(dtype), s->m, s->n, s->k, layout, b, m, n, got, expected);
            }
}

static bool has_unit(const char *arch, weft_dtype dtype) {
    if (dtype == WEFT_F32) return !strncmp(arch, "gfx9", 4);
    if (dtype == WEFT_F8E4M3FNUZ) return !strcmp(arch, "gfx942");
    return dtype != WEFT_F8E5M2 || !strcmp(arch, "gfx1200");
}

static void run_shape(weft_context *context, const char *arch, weft_dtype dtype, const shape *s, int layout) {
    weft_program *program = compile(context, dtype, s, layout);
    weft_session *session;
    weft_tensor *inputs[2] = {make_operand(context, dtype, s, 0, layout & 1),
                              make_operand(context, dtype, s, 1, layout >> 1)},
                *y = NULL;
    long before = hip_matrix();
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_call(session, 2, inputs, 1, &y));
    check(s, dtype, layout, y);
    ck_assert_msg((hip_matrix() > before) == has_unit(arch, dtype), "%s on %s: matrix instructions",
                  weft_dtype_name(dtype), arch);
    for (int i = 0; i < 2; i++) weft_tensor_release(inputs[i]);
    weft_tensor_release(y);
    weft_session_release(session);
    weft_program_release(program);
}

START_TEST(edges) {
    const char *arch = archs[_i / TYPES];
    weft_dtype dtype = types[_i % TYPES];
    weft_context *context;
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &context));
    for (int layout = 0; layout < LAYOUTS; layout++)
        for (int turn = 0; turn < 2; turn++)
            run_shape(context, arch, dtype, &shapes[(turn * LAYOUTS + layout + _i) % SHAPES], layout);
    weft_context_release(context);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

START_TEST(few_rows) {
    const char *arch = archs[_i / TYPES];
    weft_dtype dtype = types[_i % TYPES];
    weft_context *context;
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &context));
    for (int i = 0; i < FEW; i++) run_shape(context, arch, dtype, &few[i], 0);
    weft_context_release(context);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

Suite *suite_products(void) {
    Suite *suite = suite_create("products");
    TCase *tests = tcase_create("products");
    tcase_add_loop_test(tests, edges, 0, ARCHS * TYPES);
    tcase_add_loop_test(tests, few_rows, 0, ARCHS * TYPES);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
