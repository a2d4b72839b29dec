/* Every op of the table, a sample of each dtype and variant, every choice of which operands are batches: the batch
   against one element at a time. Symbolic samples have a batch of symbolic length. */
#include "tests/batch/testing.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "tests/ir/sample.h"

enum { BATCH = 3, INPUTS_MAX = 12, OUTPUTS_MAX = 4, EXTENT = 3 };

/* Ops that say no, for the reason in their row. */
static bool has_no_rule(weft_op op) {
    return op == WEFT_OP_nonzero || op == WEFT_OP_fusion || op == WEFT_OP_state_update || op == WEFT_OP_yield;
}

static bool is_matrix_op(weft_op op) { return op == WEFT_OP_cholesky || op == WEFT_OP_eigh || op == WEFT_OP_qr; }

/* Symmetric and definite: decompositions are defined, far from ties. */
static void make_definite(weft_tensor *t) {
    int rank = t->rank;
    int64_t n = t->shape[rank - 1], count = weft_tensor_element_count(t) / (n * n);
    for (int64_t b = 0; b < count; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                double x =
                    weft_element_double(t->dtype, t->data, (b * n + i) * n + j) * 0.3 + (i == j) * (double)(i + 2);
                weft_element_set_double(t->dtype, t->data, (b * n + i) * n + j, x);
                weft_element_set_double(t->dtype, t->data, (b * n + j) * n + i, x);
            }
}

static int64_t extent(weft_graph *g, weft_dim dim) {
    int64_t symbols[16], value = 0;
    for (int i = 0; i < 16; i++) symbols[i] = EXTENT;
    ck_assert(weft_dim_evaluate(g->dims, dim, symbols, &value));
    return value;
}

static weft_tensor *sample_input(weft_graph *g, weft_op op, const weft_type *type, int64_t batch) {
    int64_t shape[WEFT_MAX_RANK + 1] = {batch};
    int at = batch > 0;
    for (int i = 0; i < type->rank; i++) shape[at++] = extent(g, type->dims[i]);
    weft_tensor *t = random_tensor(type->dtype, at, shape, 0.1, 0.9);
    if (is_matrix_op(op)) make_definite(t);
    return t;
}

typedef struct trial {
    weft_op op;
    weft_dtype dtype;
    int variant;
    unsigned mask; /* of inputs that are batches */
    char name[120];
} trial;

static weft_graph *sample_graph(const trial *t) {
    weft_graph *g;
    expect(weft_graph_create(test_context, "sample", &g), t->name);
    weft_node *node = weft_sample_node(g, t->op, t->dtype, t->variant);
    if (node) return g;
    weft_graph_release(g);
    return NULL;
}

/* false: the op has no rule, and said so. */
static bool batch_sample(const trial *t, weft_graph *g) {
    int n = weft_graph_input_count(g), m = weft_graph_output_count(g);
    weft_value *values[OUTPUTS_MAX], *inputs[INPUTS_MAX], *batches[INPUTS_MAX], *out[OUTPUTS_MAX];
    ck_assert_int_le(n, INPUTS_MAX);
    ck_assert_int_le(m, OUTPUTS_MAX);
    weft_dim length = t->variant == 2 ? weft_graph_symbol(g, "N", 1, 64, 1) : BATCH;
    for (int i = 0; i < m; i++) values[i] = weft_graph_output_value(g, i);
    for (int i = 0; i < n; i++) {
        inputs[i] = weft_graph_input_value(g, i);
        batches[i] = NULL;
        if (!(t->mask >> i & 1)) continue;
        weft_dim dims[WEFT_MAX_RANK + 1] = {length};
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        for (int k = 0; k < inputs[i]->type.rank; k++) dims[k + 1] = inputs[i]->type.dims[k];
        batches[i] = weft_graph_input(g, name, inputs[i]->type.dtype, inputs[i]->type.rank + 1, dims);
    }
    weft_vmap_options options = WEFT_VMAP_OPTIONS_INIT;
    options.randomness = WEFT_VMAP_SAME; /* a key that is no batch */
    weft_vmap_values(g, &options, m, values, n, inputs, batches, out);
    for (int i = 0; i < m; i++) {
        char name[16];
        snprintf(name, sizeof name, "z%d", i);
        weft_graph_output(g, name, out[i]);
    }
    weft_status status = weft_graph_verify(g);
    if (has_no_rule(t->op)) {
        ck_assert_msg(status != NULL, "%s: batched without a rule", t->name);
        weft_status_release(status);
        return false;
    }
    expect(status, t->name);
    return true;
}

static void run_trial(const trial *t) {
    weft_graph *one = sample_graph(t), *g = sample_graph(t);
    int n = weft_graph_input_count(one), m = weft_graph_output_count(one), batched = 0;
    if (m == 0 || !batch_sample(t, g)) {
        weft_graph_release(one), weft_graph_release(g);
        return;
    }
    weft_tensor *in[2 * INPUTS_MAX], *element[INPUTS_MAX], *out[2 * OUTPUTS_MAX] = {0}, *expected[OUTPUTS_MAX];
    for (int i = 0; i < n; i++) in[i] = sample_input(one, t->op, &weft_graph_input_value(one, i)->type, 0);
    for (int i = 0; i < n; i++)
        if (t->mask >> i & 1)
            in[n + batched++] = sample_input(one, t->op, &weft_graph_input_value(one, i)->type, BATCH);
    expect(weft_graph_interpret(g, n + batched, in, 2 * m, out), t->name);
    expect(weft_graph_verify(one), t->name);
    for (int64_t b = 0; b < BATCH; b++) {
        for (int i = 0, at = n; i < n; i++) {
            bool is_batch = t->mask >> i & 1;
            element[i] = is_batch ? element_of(in[at++], b) : in[i];
            if (!is_batch) weft_tensor_retain(element[i]);
        }
        memset(expected, 0, sizeof expected);
        expect(weft_graph_interpret(one, n, element, m, expected), t->name);
        for (int i = 0; i < m; i++) compare_element(out[m + i], b, expected[i], t->name);
        release_all(m, expected);
        release_all(n, element);
    }
    release_all(n + batched, in);
    release_all(2 * m, out);
    weft_graph_release(one), weft_graph_release(g);
}

START_TEST(every_op) {
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_I64, WEFT_U32, WEFT_BOOL, WEFT_C128};
    trial t = {.op = (weft_op)_i};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int v = 0; v < WEFT_SAMPLE_VARIANTS; v++) {
            t.dtype = dtypes[d], t.variant = v;
            weft_graph *probe = sample_graph(&t);
            if (!probe) break;
            int n = weft_graph_input_count(probe);
            weft_graph_release(probe);
            for (t.mask = 1; t.mask < 1u << n; t.mask++) {
                bool some = n <= 4 || t.mask == (1u << n) - 1 || (t.mask & (t.mask - 1)) == 0;
                if (!some) continue;
                snprintf(t.name, sizeof t.name, "%s %s variant %d batches %#x", weft_op_get(t.op)->name,
                         weft_dtype_name(t.dtype), v, t.mask);
                run_trial(&t);
            }
        }
}
END_TEST

TCase *case_ops(void) {
    TCase *c = tcase_create("ops");
    tcase_add_loop_test(c, every_op, 0, WEFT_OP_COUNT);
    return c;
}
