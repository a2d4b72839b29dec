/* ONNX RNN, GRU, LSTM on scan. Letters: T time, B batch, I input, H hidden, G gates. The input products of all steps
   are one matmul before the scan. Read next: attention.c. Source: ONNX 1.22; Hochreiter and Schmidhuber 1997; Cho et
   al. 2014. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import.h"

typedef struct cell {
    weft_onnx_node *node;
    int gates, direction, activations; /* activations per direction */
    weft_value *r;                     /* [G * H, H] */
    weft_value *r_bias;                /* [G * H] or NULL: added to the recurrent product */
    weft_value *peepholes;             /* [3 * H] or NULL */
    weft_dim hidden;
    bool lengths, linear_before_reset, input_forget;
    double clip;
    void (*step)(struct cell *cell, weft_graph *g, weft_value *projected, weft_value *const *state, weft_value **next);
} cell;

static weft_value *activate(const cell *c, weft_graph *g, int index, const char *fallback, weft_value *x) {
    const Onnx__AttributeProto *names = weft_onnx_attribute(c->node, "activations"),
                               *alphas = weft_onnx_attribute(c->node, "activation_alpha"),
                               *betas = weft_onnx_attribute(c->node, "activation_beta");
    size_t at = (size_t)(c->direction * c->activations + index);
    const char *name = fallback;
    if (names && at < names->n_strings)
        name = weft_arena_copy_string(&c->node->import->arena, (const char *)names->strings[at].data,
                                      names->strings[at].len);
    bool has_alpha = alphas && at < alphas->n_floats, has_beta = betas && at < betas->n_floats;
    double alpha = has_alpha ? (double)alphas->floats[at] : 0, beta = has_beta ? (double)betas->floats[at] : 0;
    if (!name) {
        g->out_of_memory = true;
        return weft_value_poison(g);
    }
    if (c->clip > 0) x = weft_clip(g, x, -c->clip, c->clip);
    if (strcmp(name, "Sigmoid") == 0) return weft_logistic(g, x);
    if (strcmp(name, "Tanh") == 0) return weft_tanh(g, x);
    if (strcmp(name, "Relu") == 0) return weft_relu(g, x);
    if (strcmp(name, "Softplus") == 0) return weft_softplus(g, x);
    if (strcmp(name, "Softsign") == 0) return weft_div(g, x, weft_add_number(g, weft_abs(g, x), 1));
    if (strcmp(name, "Elu") == 0) return weft_elu(g, x, has_alpha ? alpha : 1);
    if (strcmp(name, "LeakyRelu") == 0) return weft_leaky_relu(g, x, has_alpha ? alpha : 0.01);
    if (strcmp(name, "ThresholdedRelu") == 0 && !weft_value_is_poison(x))
        return weft_where(g, weft_compare(g, WEFT_GT, x, weft_onnx_scalar_like(g, x, has_alpha ? alpha : 1)), x,
                          weft_onnx_scalar_like(g, x, 0));
    if (strcmp(name, "Affine") == 0) return weft_add_number(g, weft_mul_number(g, x, has_alpha ? alpha : 1), beta);
    if (strcmp(name, "HardSigmoid") == 0)
        return weft_hard_sigmoid(g, x, has_alpha ? alpha : 0.2, has_beta ? beta : 0.5);
    if (strcmp(name, "ScaledTanh") == 0)
        return weft_mul_number(g, weft_tanh(g, weft_mul_number(g, x, has_beta ? beta : 1)), has_alpha ? alpha : 1);
    weft_onnx_problem(c->node, "activation %s", name);
    return weft_value_poison(g);
}

/* Columns of gate k of [B, G * H] (or of a vector). */
static weft_value *gate(const cell *c, weft_graph *g, weft_value *x, int k) {
    if (weft_value_is_poison(x)) return x;
    weft_dim start = weft_dim_multiply(g->dims, c->hidden, k);
    return weft_slice_axis(g, x, -1, start, weft_dim_add(g->dims, start, c->hidden));
}

/* h [B, H] times rows of R for gates first..last: [B, n * H]. */
static weft_value *recurrent(const cell *c, weft_graph *g, weft_value *h, int first, int last) {
    weft_dim start = weft_dim_multiply(g->dims, c->hidden, first),
             limit = weft_dim_multiply(g->dims, c->hidden, last + 1);
    weft_value *rows = weft_slice_axis(g, c->r, 0, start, limit);
    weft_value *product = weft_matmul(g, h, weft_transpose(g, rows, NULL));
    return c->r_bias ? weft_add(g, product, weft_slice_axis(g, c->r_bias, 0, start, limit)) : product;
}

static void rnn_step(cell *c, weft_graph *g, weft_value *projected, weft_value *const *state, weft_value **next) {
    next[0] = activate(c, g, 0, "Tanh", weft_add(g, projected, recurrent(c, g, state[0], 0, 0)));
}

/* z, r, h gates: H' = (1 - z) * candidate + z * H. */
static void gru_step(cell *c, weft_graph *g, weft_value *projected, weft_value *const *state, weft_value **next) {
    weft_value *h = state[0], *both = recurrent(c, g, h, 0, 1);
    weft_value *z = activate(c, g, 0, "Sigmoid", weft_add(g, gate(c, g, projected, 0), gate(c, g, both, 0)));
    weft_value *r = activate(c, g, 0, "Sigmoid", weft_add(g, gate(c, g, projected, 1), gate(c, g, both, 1)));
    weft_value *inner =
        c->linear_before_reset ? weft_mul(g, r, recurrent(c, g, h, 2, 2)) : recurrent(c, g, weft_mul(g, r, h), 2, 2);
    weft_value *candidate = activate(c, g, 1, "Tanh", weft_add(g, gate(c, g, projected, 2), inner));
    if (weft_value_is_poison(z)) return;
    weft_value *keep = weft_sub(g, weft_onnx_scalar_like(g, z, 1), z);
    next[0] = weft_add(g, weft_mul(g, keep, candidate), weft_mul(g, z, h));
}

/* Gates i, o, f, c; peepholes i, o, f look at the cell. */
static void lstm_step(cell *c, weft_graph *g, weft_value *projected, weft_value *const *state, weft_value **next) {
    weft_value *h = state[0], *memory = state[1], *sums = weft_add(g, projected, recurrent(c, g, h, 0, 3));
    weft_value *in = gate(c, g, sums, 0), *out = gate(c, g, sums, 1), *forget = gate(c, g, sums, 2),
               *candidate = gate(c, g, sums, 3);
    if (c->peepholes) {
        in = weft_add(g, in, weft_mul(g, gate(c, g, c->peepholes, 0), memory));
        forget = weft_add(g, forget, weft_mul(g, gate(c, g, c->peepholes, 2), memory));
    }
    in = activate(c, g, 0, "Sigmoid", in);
    if (weft_value_is_poison(in)) return;
    forget = c->input_forget ? weft_sub(g, weft_onnx_scalar_like(g, in, 1), in) : activate(c, g, 0, "Sigmoid", forget);
    candidate = activate(c, g, 1, "Tanh", candidate);
    next[1] = weft_add(g, weft_mul(g, forget, memory), weft_mul(g, in, candidate));
    if (c->peepholes) out = weft_add(g, out, weft_mul(g, gate(c, g, c->peepholes, 1), next[1]));
    out = activate(c, g, 0, "Sigmoid", out);
    next[0] = weft_mul(g, out, activate(c, g, 2, "Tanh", next[1]));
}

/* arguments: states, projected [B, G * H], inside [B, 1] when lengths are given. results: states, output [B, H]. */
static void scan_body(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    cell *c = self;
    int states = c->step == lstm_step ? 2 : 1;
    weft_value *next[2] = {NULL, NULL};
    c->step(c, g, arguments[states], arguments, next);
    for (int i = 0; i < states; i++) results[i] = next[i] ? next[i] : weft_value_poison(g);
    results[states] = results[0];
    if (!c->lengths || weft_value_is_poison(results[0])) return;
    weft_value *inside = arguments[states + 1];
    results[states] = weft_where(g, inside, results[0], weft_onnx_scalar_like(g, results[0], 0));
    for (int i = 0; i < states; i++) results[i] = weft_where(g, inside, results[i], arguments[i]);
}

typedef struct layer {
    weft_value *x, *w, *r, *bias, *lengths, *h, *memory, *peepholes; /* x [T, B, I]; states [D, B, H] */
    int directions;
    bool first_reversed;
} layer;

/* Entry d of a [D, ...] tensor, without that axis. */
static weft_value *of_direction(weft_graph *g, weft_value *x, int d) {
    int64_t zero = 0;
    return x ? weft_squeeze(g, weft_slice_axis(g, x, 0, d, d + 1), 1, &zero) : NULL;
}

/* One direction: y [T, B, H] and the last states. */
static void run_direction(cell *c, const layer *l, int d, weft_value **out_y, weft_value **out_states) {
    weft_graph *g = c->node->graph;
    bool reverse = d == 1 || l->first_reversed;
    int states = c->step == lstm_step ? 2 : 1;
    weft_value *x = l->x, *w = of_direction(g, l->w, d), *bias = of_direction(g, l->bias, d);
    c->direction = d;
    c->r = of_direction(g, l->r, d);
    c->peepholes = of_direction(g, l->peepholes, d);
    c->r_bias = NULL;
    if (reverse && l->lengths) x = weft_onnx_reverse_sequence(g, x, l->lengths, 0);
    weft_value *projected = weft_matmul(g, x, weft_transpose(g, w, NULL));
    if (bias) {
        weft_dim size = weft_dim_multiply(g->dims, c->hidden, c->gates);
        c->r_bias = weft_slice_axis(g, bias, 0, size, weft_dim_multiply(g->dims, size, 2));
        projected = weft_add(g, projected, weft_slice_axis(g, bias, 0, 0, size));
    }
    if (weft_value_is_poison(projected)) return;
    weft_dim state_shape[2] = {l->x->type.dims[1], c->hidden},
             mask_shape[3] = {l->x->type.dims[0], l->x->type.dims[1], 1};
    weft_value *zeros = weft_full(g, l->x->type.dtype, 2, state_shape, 0);
    weft_value *carries[2] = {l->h ? of_direction(g, l->h, d) : zeros,
                              l->memory ? of_direction(g, l->memory, d) : zeros};
    weft_value *inputs[2] = {projected, NULL}, *results[3];
    if (l->lengths) {
        int64_t last = 1;
        weft_value *time = weft_iota(g, WEFT_I64, 3, mask_shape, 0);
        inputs[1] = weft_compare(g, WEFT_LT, time, weft_unsqueeze(g, weft_convert(g, l->lengths, WEFT_I64), 1, &last));
    }
    weft_scan(g, states, carries, l->lengths ? 2 : 1, inputs, l->x->type.dims[0], reverse && !l->lengths, scan_body, c,
              1, results);
    for (int i = 0; i < states; i++) out_states[i] = results[i];
    *out_y = results[states];
    if (reverse && l->lengths) *out_y = weft_onnx_reverse_sequence(g, *out_y, l->lengths, 0);
}

static bool read_layer(weft_onnx_node *node, layer *l) {
    weft_graph *g = node->graph;
    l->x = weft_onnx_input(node, 0), l->w = weft_onnx_input(node, 1), l->r = weft_onnx_input(node, 2);
    if (weft_value_is_poison(l->x) || weft_value_is_poison(l->w) || weft_value_is_poison(l->r)) return false;
    if (l->x->type.rank != 3 || l->w->type.rank != 3 || l->r->type.rank != 3) {
        weft_onnx_problem(node, "X, W and R must have rank 3");
        return false;
    }
    l->bias = weft_onnx_optional(node, 3), l->lengths = weft_onnx_optional(node, 4), l->h = weft_onnx_optional(node, 5);
    const char *direction = weft_onnx_string(node, "direction", "forward");
    l->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    l->first_reversed = strcmp(direction, "reverse") == 0;
    if (l->directions == 1 && !l->first_reversed && strcmp(direction, "forward") != 0) {
        weft_onnx_problem(node, "direction %s", direction);
        return false;
    }
    if (weft_onnx_int(node, "layout", 0)) {
        static const int64_t swap[3] = {1, 0, 2};
        l->x = weft_transpose(g, l->x, swap);
        if (l->h) l->h = weft_transpose(g, l->h, swap);
        if (l->memory) l->memory = weft_transpose(g, l->memory, swap);
    }
    return !weft_value_is_poison(l->x);
}

static void import_layer(weft_onnx_node *node, cell *c, layer *l) {
    weft_graph *g = node->graph;
    if (!read_layer(node, l)) return;
    static const int64_t swap[3] = {1, 0, 2}, y_layout[4] = {2, 0, 1, 3};
    int states = c->step == lstm_step ? 2 : 1;
    c->node = node, c->lengths = l->lengths != NULL, c->hidden = l->r->type.dims[2];
    c->clip = weft_onnx_float(node, "clip", 0);
    weft_value *y[2], *last[2][2];
    for (int d = 0; d < l->directions; d++) {
        y[d] = last[d][0] = last[d][1] = weft_value_poison(g);
        run_direction(c, l, d, &y[d], last[d]);
    }
    weft_value *all = weft_stack(g, 1, l->directions, y); /* [T, D, B, H] */
    bool batch_first = weft_onnx_int(node, "layout", 0) != 0;
    weft_onnx_output(node, 0, batch_first ? weft_transpose(g, all, y_layout) : all);
    for (int s = 0; s < states; s++) {
        weft_value *parts[2] = {last[0][s], l->directions > 1 ? last[1][s] : NULL};
        weft_value *stacked = weft_stack(g, 0, l->directions, parts);
        weft_onnx_output(node, 1 + s, batch_first ? weft_transpose(g, stacked, swap) : stacked);
    }
}

void weft_onnx_import_rnn(weft_onnx_node *node) {
    cell c = {.gates = 1, .activations = 1, .step = rnn_step};
    layer l = {.memory = NULL};
    import_layer(node, &c, &l);
}

void weft_onnx_import_gru(weft_onnx_node *node) {
    cell c = {.gates = 3,
              .activations = 2,
              .step = gru_step,
              .linear_before_reset = weft_onnx_int(node, "linear_before_reset", 0) != 0};
    layer l = {.memory = NULL};
    import_layer(node, &c, &l);
}

void weft_onnx_import_lstm(weft_onnx_node *node) {
    cell c = {
        .gates = 4, .activations = 3, .step = lstm_step, .input_forget = weft_onnx_int(node, "input_forget", 0) != 0};
    layer l = {.memory = weft_onnx_optional(node, 6), .peepholes = weft_onnx_optional(node, 7)};
    import_layer(node, &c, &l);
}
