/* Every op of the table, every sample in f64: tangents against central differences, gradients against tangents by
   <u, J v> = <J^T u, v>. Ops and variants without a derivative must say so. */
#include "tests/diff/testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "tests/ir/sample.h"

enum { INPUTS_MAX = 12, OUTPUTS_MAX = 4, EXTENT = 3 };

static weft_context *context;
static void set_up(void) { expect(weft_context_create(NULL, &context), "context"); }
static void tear_down(void) { weft_context_release(context); }

static int64_t extent(weft_graph *g, weft_dim dim) {
    int64_t symbols[16], value = 0;
    for (int i = 0; i < 16; i++) symbols[i] = EXTENT;
    ck_assert(weft_dim_evaluate(g->dims, dim, symbols, &value));
    return value;
}

/* Floats inside every function's domain, far from ties and kinks; matrices definite. */
static weft_tensor *sample_input(weft_graph *g, weft_op op, const weft_type *type) {
    int64_t shape[WEFT_MAX_RANK];
    weft_tensor *t;
    double low = op == WEFT_OP_acosh ? 1.2 : 0.1, high = op == WEFT_OP_acosh ? 3 : 0.9;
    for (int i = 0; i < type->rank; i++) shape[i] = extent(g, type->dims[i]);
    expect(weft_tensor_create(context, type->dtype, type->rank, shape, &t), "input");
    for (int64_t i = 0; i < weft_tensor_element_count(t); i++)
        if (weft_dtype_is_float(type->dtype))
            weft_element_set_double(type->dtype, t->data, i, uniform(low, high));
        else
            weft_element_set_i64(type->dtype, t->data, i, (int64_t)uniform(0, type->dtype == WEFT_BOOL ? 2 : 3));
    bool matrix = op == WEFT_OP_cholesky || op == WEFT_OP_eigh || op == WEFT_OP_triangular_solve;
    for (int64_t n = matrix ? shape[type->rank - 1] : 0, i = 0; n && i < weft_tensor_element_count(t); i++)
        if (i % n == i / n % n) weft_element_set_double(type->dtype, t->data, i, 2.5 + 0.7 * (double)(i % n));
    return t;
}

typedef struct trial {
    weft_graph *g;
    weft_op op;
    char name[100];
    int inputs, outputs, floats; /* of the sample; differentiable inputs */
    weft_value *x[INPUTS_MAX], *y[OUTPUTS_MAX];
    int float_at[INPUTS_MAX];
} trial;

/* The derivative is not there, and a problem says it. */
static bool says_no(trial *t) {
    const weft_node *node = t->y[0]->node;
    bool refused = t->op == WEFT_OP_fusion || (t->op == WEFT_OP_while && weft_node_int(node, WEFT_ATTR_bound, -1) < 0);
    if (t->op == WEFT_OP_qr) { /* more columns than rows */
        const weft_type *type = &t->x[0]->type;
        refused = extent(t->g, type->dims[type->rank - 2]) < extent(t->g, type->dims[type->rank - 1]);
        refused |= !weft_dim_is_number(type->dims[type->rank - 1]) || !weft_dim_is_number(type->dims[type->rank - 2]);
    }
    weft_status status = weft_graph_verify(t->g);
    if (!refused) expect(status, t->name);
    ck_assert_msg(!refused || status, "%s: a derivative that should not be there", t->name);
    weft_status_release(status);
    return refused;
}

static double product(weft_tensor *a, weft_tensor *b) {
    double sum = 0;
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++)
        sum += weft_element_double(a->dtype, a->data, i) * weft_element_double(b->dtype, b->data, i);
    return sum;
}

/* Inputs: x, directions of the float ones, cotangents of the float outputs. Outputs: y, tangents, gradients. */
static void measure(trial *t, int directions, const int *float_outputs, int cotangents) {
    enum { MANY = 3 * INPUTS_MAX + OUTPUTS_MAX };
    weft_tensor *in[MANY], *out[MANY] = {0}, *up[MANY] = {0}, *down[MANY] = {0};
    int total = t->inputs + directions + cotangents, results = t->outputs + cotangents + directions;
    const double h = 1e-6;
    for (int i = 0; i < total; i++)
        in[i] = sample_input(t->g, i < t->inputs ? t->op : WEFT_OP_add, &weft_graph_input_value(t->g, i)->type);
    expect(weft_graph_interpret(t->g, total, in, results, out), t->name);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < directions; i++) { /* new tensors: a result may be an input */
            weft_tensor *old = in[t->float_at[i]], *moved;
            expect(weft_tensor_create(context, WEFT_F64, old->rank, old->shape, &moved), "input");
            for (int64_t e = 0; e < weft_tensor_element_count(old); e++)
                elements(moved)[e] = elements(old)[e] + (side ? -2 : 1) * h * elements(in[t->inputs + i])[e];
            weft_tensor_release(old);
            in[t->float_at[i]] = moved;
        }
        expect(weft_graph_interpret(t->g, total, in, results, side ? down : up), t->name);
    }
    double uJv = 0, Juv = 0;
    for (int k = 0; k < cotangents; k++) {
        weft_tensor *a = up[float_outputs[k]], *b = down[float_outputs[k]], *jv = out[t->outputs + k];
        uJv += product(jv, in[t->inputs + directions + k]);
        for (int64_t e = 0; e < weft_tensor_element_count(jv); e++) {
            double finite = (elements(a)[e] - elements(b)[e]) / (2 * h), exact = elements(jv)[e];
            if (elements(a)[e] == elements(b)[e]) finite = 0; /* infinities too: the identity of a maximum */
            ck_assert_msg(fabs(finite - exact) <= 2e-5 * (1 + fabs(exact)),
                          "%s: element %d: differences %.9g, jvp %.9g", t->name, (int)e, finite, exact);
        }
    }
    for (int i = 0; i < directions; i++) Juv += product(out[t->outputs + cotangents + i], in[t->inputs + i]);
    ck_assert_msg(fabs(uJv - Juv) <= 1e-9 * (1 + fabs(uJv)), "%s: <u, Jv> = %.12g, <J'u, v> = %.12g", t->name, uJv,
                  Juv);
    for (int i = 0; i < total; i++) weft_tensor_release(in[i]);
    for (int i = 0; i < results; i++)
        weft_tensor_release(out[i]), weft_tensor_release(up[i]), weft_tensor_release(down[i]);
}

static void run(trial *t) {
    weft_value *x[INPUTS_MAX], *v[INPUTS_MAX], *y[OUTPUTS_MAX], *u[OUTPUTS_MAX], *jv[OUTPUTS_MAX],
        *gradients[INPUTS_MAX];
    int directions = 0, cotangents = 0, float_outputs[OUTPUTS_MAX];
    char name[20];
    t->inputs = weft_graph_input_count(t->g), t->outputs = weft_graph_output_count(t->g);
    for (int i = 0; i < t->inputs; i++) t->x[i] = weft_graph_input_value(t->g, i);
    for (int i = 0; i < t->outputs; i++) t->y[i] = weft_graph_output_value(t->g, i);
    for (int i = 0; i < t->inputs; i++) {
        if (t->x[i]->type.dtype != WEFT_F64) continue;
        snprintf(name, sizeof name, "v%d", i);
        t->float_at[directions] = i;
        x[directions] = t->x[i];
        v[directions++] = weft_graph_input(t->g, name, WEFT_F64, t->x[i]->type.rank, t->x[i]->type.dims);
    }
    for (int i = 0; i < t->outputs; i++) {
        if (t->y[i]->type.dtype != WEFT_F64) continue;
        snprintf(name, sizeof name, "u%d", i);
        float_outputs[cotangents] = i;
        y[cotangents] = t->y[i];
        u[cotangents++] = weft_graph_input(t->g, name, WEFT_F64, t->y[i]->type.rank, t->y[i]->type.dims);
    }
    const weft_node *node = t->y[0]->node;
    bool reverse_only = t->op == WEFT_OP_custom_gradient && weft_node_string(node, WEFT_ATTR_kind, "")[0] == 'r';
    if (!directions || !cotangents || reverse_only || t->op == WEFT_OP_stop_gradient) return; /* these: transforms.c */
    weft_jvp_many(t->g, cotangents, y, directions, x, v, jv);
    weft_vjp(t->g, cotangents, y, u, directions, x, gradients);
    for (int i = 0; i < cotangents + directions; i++) {
        snprintf(name, sizeof name, "d%d", i);
        weft_graph_output(t->g, name, i < cotangents ? jv[i] : gradients[i - cotangents]);
    }
    if (!says_no(t)) measure(t, directions, float_outputs, cotangents);
}

START_TEST(every_op) {
    for (int v = 0; v < WEFT_SAMPLE_VARIANTS; v++) {
        trial t = {.op = (weft_op)_i};
        expect(weft_graph_create(context, "sample", &t.g), "graph");
        weft_node *node = weft_sample_node(t.g, t.op, WEFT_F64, v);
        snprintf(t.name, sizeof t.name, "%s variant %d", weft_op_get(t.op)->name, v);
        if (node && node->result_count) run(&t);
        weft_graph_release(t.g);
        if (!node) break;
    }
}
END_TEST

TCase *case_ops(void) {
    TCase *c = tcase_create("ops");
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_loop_test(c, every_op, 0, WEFT_OP_COUNT);
    return c;
}
