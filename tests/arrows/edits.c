/* Meaningless edits: renamed values, another order of weights, a derived op written out, duplicated work, a detour
   through views. The compiled program must hold the same kernels (by hash, in any order) as that of the original graph.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "compile/unit.h"
#include "ir/build.h"
#include "weft/ops.h"
#include "weft/tensor.h"

enum { KERNELS_MAX = 64, TOKENS = 24, WIDTH = 16 };

typedef struct variant {
    const char *name;
    const char *names[4];
    bool reversed; /* weights are made in the other order */
    bool softmax_written_out, norm_written_out, silu_written_out, twice, detour;
} variant;

static const variant variants[] = {
    {"original", {"x", "w", "v", "y"}, .reversed = false},
    {"renamed", {"input.1", "layers/0/weight", "q", "result"}, .reversed = false},
    {"weights in another order", {"x", "w", "v", "y"}, .reversed = true},
    {"softmax written out", {"x", "w", "v", "y"}, .softmax_written_out = true},
    {"norm written out", {"x", "w", "v", "y"}, .norm_written_out = true},
    {"silu written out", {"x", "w", "v", "y"}, .silu_written_out = true},
    {"a product twice", {"x", "w", "v", "y"}, .twice = true},
    {"views that cancel", {"x", "w", "v", "y"}, .detour = true},
};

static void expect(weft_status status, const char *name) {
    if (!status) return;
    char text[2000];
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_abort_msg("%s: %s", name, text);
}

static weft_value *weights(weft_graph *g, const char *name, int64_t rows, int64_t columns) {
    weft_tensor *tensor;
    int64_t shape[2] = {rows, columns};
    expect(weft_tensor_create(g->context, WEFT_F32, 2, shape, &tensor), name);
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i * 7 % 13) / 13 - 0.5f;
    weft_value *value = weft_graph_parameter(g, name, tensor);
    weft_tensor_release(tensor);
    return value;
}

static weft_value *norm(weft_graph *g, weft_value *x, bool written_out) {
    int64_t axes[1] = {1};
    if (!written_out) return weft_layer_norm(g, x, NULL, NULL, 1, axes, 1e-5);
    weft_value *centred = weft_sub(g, x, weft_reduce_mean(g, x, 1, axes, true));
    weft_value *variance = weft_reduce_mean(g, weft_mul(g, centred, centred), 1, axes, true);
    return weft_mul(g, centred, weft_rsqrt(g, weft_add_number(g, variance, 1e-5)));
}

static weft_value *softmax(weft_graph *g, weft_value *x, bool written_out) {
    int64_t axes[1] = {1};
    if (!written_out) return weft_softmax(g, x, 1);
    weft_value *e = weft_exp(g, weft_sub(g, x, weft_reduce_max(g, x, 1, axes, true)));
    return weft_div(g, e, weft_reduce_sum(g, e, 1, axes, true));
}

static weft_graph *build(weft_context *context, const variant *v) {
    weft_graph *g;
    expect(weft_graph_create(context, "edits", &g), v->name);
    weft_dim shape[2] = {TOKENS, WIDTH};
    weft_value *x = weft_graph_input(g, v->names[0], WEFT_F32, 2, shape), *w, *u;
    if (v->reversed)
        u = weights(g, v->names[2], 40, WIDTH), w = weights(g, v->names[1], WIDTH, 40);
    else
        w = weights(g, v->names[1], WIDTH, 40), u = weights(g, v->names[2], 40, WIDTH);
    if (v->detour) {
        int64_t swap[2] = {1, 0};
        x = weft_transpose(g, weft_transpose(g, x, swap), swap);
    }
    weft_value *h = weft_matmul(g, norm(g, x, v->norm_written_out), w);
    weft_value *again = v->twice ? weft_matmul(g, norm(g, x, v->norm_written_out), w) : h;
    h = v->silu_written_out ? weft_mul(g, h, weft_logistic(g, again))
        : v->twice          ? weft_mul(g, h, weft_logistic(g, again))
                            : weft_silu(g, h);
    weft_graph_output(g, v->names[3], softmax(g, weft_matmul(g, h, u), v->softmax_written_out));
    expect(weft_graph_verify(g), v->name);
    return g;
}

static int by_hash(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int kernels_of(const variant *v, uint64_t *hashes) {
    weft_context *context;
    weft_unit *unit;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    expect(weft_context_create(NULL, &context), v->name);
    weft_graph *g = build(context, v);
    expect(weft_unit_compile(g, NULL, weft_capability_find("cpu", "x86-64-v3"), &options, &unit), v->name);
    int count = unit->program->kernel_count;
    ck_assert_int_le(count, KERNELS_MAX);
    for (int i = 0; i < count; i++) hashes[i] = unit->program->kernels[i].hash;
    qsort(hashes, (size_t)count, sizeof *hashes, by_hash);
    weft_unit_release(unit);
    weft_graph_release(g);
    weft_context_release(context);
    return count;
}

START_TEST(same_kernels) {
    uint64_t original[KERNELS_MAX], edited[KERNELS_MAX];
    int count = kernels_of(&variants[0], original);
    ck_assert_int_gt(count, 0);
    ck_assert_msg(kernels_of(&variants[_i], edited) == count, "%s: another number of kernels than %d",
                  variants[_i].name, count);
    for (int i = 0; i < count; i++)
        ck_assert_msg(original[i] == edited[i], "%s: kernel %d differs", variants[_i].name, i);
}
END_TEST

Suite *edits_suite(void) {
    Suite *suite = suite_create("edits");
    TCase *all = tcase_create("same kernels");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, same_kernels, 1, (int)(sizeof variants / sizeof *variants));
    suite_add_tcase(suite, all);
    return suite;
}
