/* Derivatives of linear algebra on the last two axes, and of fft. Each reads one triangle of its matrix, so only that
   triangle's tangent counts. Source: Giles 2008, "An extended collection of matrix derivative results". */
#include <string.h>

#include "passes/diff/diff.h"

static int64_t flag(const weft_node *node, weft_attribute_name name) { return weft_node_int(node, name, 0); }

/* a b over the last two axes, leading ones a batch; each transposed on request. */
static weft_value *product(weft_graph *g, weft_value *a, bool a_transposed, weft_value *b, bool b_transposed) {
    int64_t batch[WEFT_MAX_RANK], a_contract, b_contract;
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return weft_value_poison(g);
    int rank = a->type.rank;
    for (int i = 0; i < rank - 2; i++) batch[i] = i;
    a_contract = a_transposed ? rank - 2 : rank - 1;
    b_contract = b_transposed ? rank - 1 : rank - 2;
    weft_dot_axes axes = {rank - 2, 1, batch, batch, &a_contract, &b_contract};
    return weft_emit_dot(g, a, b, &axes, a->type.dtype, WEFT_INVALID);
}

static weft_value *transposed(weft_graph *g, weft_value *x) {
    int64_t order[WEFT_MAX_RANK];
    if (weft_value_is_poison(x)) return x;
    for (int i = 0; i < x->type.rank; i++) order[i] = i;
    order[x->type.rank - 2] = x->type.rank - 1, order[x->type.rank - 1] = x->type.rank - 2;
    return weft_emit_transpose(g, x, order);
}

/* x where row `direction` column holds, `other` elsewhere: "ge" keeps the lower triangle. */
static weft_value *where(weft_graph *g, weft_value *x, const char *direction, double other) {
    if (weft_value_is_poison(x)) return x;
    int rank = x->type.rank;
    const weft_dim *dims = x->type.dims + rank - 2;
    weft_value *kept = weft_emit_compare(g, direction, weft_emit_iota(g, WEFT_I64, 2, dims, 0),
                                         weft_emit_iota(g, WEFT_I64, 2, dims, 1));
    return weft_emit_select(g, weft_emit_broadcast_to(g, kept, rank, x->type.dims), x,
                            weft_emit_splat_like(g, other, x));
}

/* The symmetric tangent that the triangle stands for. */
static weft_value *symmetric(weft_graph *g, weft_value *t, bool lower) {
    weft_value *strict = where(g, t, lower ? "gt" : "lt", 0);
    return weft_emit_binary(g, WEFT_OP_add, where(g, t, lower ? "ge" : "le", 0), transposed(g, strict));
}

static weft_value *solve(weft_graph *g, weft_value *a, weft_value *b, int64_t left, int64_t lower, int64_t transpose,
                         int64_t unit) {
    weft_value *operands[2] = {a, b};
    weft_attribute attributes[4] = {weft_attr_int(WEFT_ATTR_left_side, left), weft_attr_int(WEFT_ATTR_lower, lower),
                                    weft_attr_int(WEFT_ATTR_transpose_a, transpose),
                                    weft_attr_int(WEFT_ATTR_unit_diagonal, unit)};
    return weft_build(g, WEFT_OP_triangular_solve, 2, operands, 4, attributes);
}

/* op(A) X = B: dX = op(A)^-1 (dB - op(dA) X); from the right likewise. */
void weft_jvp_triangular_solve(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    int64_t left = flag(node, WEFT_ATTR_left_side), lower = flag(node, WEFT_ATTR_lower),
            transpose = flag(node, WEFT_ATTR_transpose_a), unit = flag(node, WEFT_ATTR_unit_diagonal);
    weft_value *x = &node->results[0], *right = rule->tangents[1];
    if (rule->tangents[0]) {
        weft_value *t = where(g, rule->tangents[0], lower ? (unit ? "gt" : "ge") : (unit ? "lt" : "le"), 0);
        weft_value *moved = left ? product(g, t, transpose, x, false) : product(g, x, false, t, transpose);
        right = right ? weft_emit_binary(g, WEFT_OP_sub, right, moved) : weft_emit_unary(g, WEFT_OP_neg, moved);
    }
    rule->out_tangents[0] = solve(g, node->operands[0], right, left, lower, transpose, unit);
}

void weft_transpose_triangular_solve(weft_transpose_rule *rule) {
    const weft_node *node = rule->node;
    if (rule->linear[0]) {
        weft_graph_problem(rule->graph, "triangular_solve is not linear in its matrix");
        return;
    }
    rule->out_cotangents[1] =
        solve(rule->graph, node->operands[0], rule->cotangents[0], flag(node, WEFT_ATTR_left_side),
              flag(node, WEFT_ATTR_lower), !flag(node, WEFT_ATTR_transpose_a), flag(node, WEFT_ATTR_unit_diagonal));
}

/* A = L L^T: dL = L half(L^-1 dA L^-T), half = the lower triangle with half of the diagonal. */
void weft_jvp_cholesky(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    bool lower = flag(rule->node, WEFT_ATTR_lower) != 0;
    weft_value *l = lower ? &rule->node->results[0] : transposed(g, &rule->node->results[0]);
    weft_value *inner = solve(g, l, symmetric(g, rule->tangents[0], lower), 1, 1, 0, 0);
    inner = solve(g, l, inner, 0, 1, 1, 0);
    weft_value *half = weft_emit_binary(g, WEFT_OP_add, where(g, inner, "gt", 0),
                                        weft_emit_binary_scalar(g, WEFT_OP_mul, where(g, inner, "eq", 0), 0.5));
    weft_value *t = product(g, l, false, half, false);
    rule->out_tangents[0] = lower ? t : transposed(g, t);
}

/* A V = V diag(w): with M = V^T dA V, dw = diag(M), dV = V (M / (w_j - w_i) off the diagonal). Equal eigenvalues have
   no derivative of their vectors: infinities. */
void weft_jvp_eigh(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *w = &rule->node->results[0], *v = &rule->node->results[1];
    weft_value *m = product(g, v, true, product(g, symmetric(g, rule->tangents[0], true), false, v, false), false);
    if (weft_value_is_poison(m)) return;
    int rank = m->type.rank;
    int64_t columns = rank - 1, axes[WEFT_MAX_RANK], rows[WEFT_MAX_RANK];
    for (int i = 0; i < rank - 1; i++) axes[i] = rows[i] = i;
    axes[rank - 2] = rank - 1;
    weft_value *gap = weft_emit_binary(g, WEFT_OP_sub, weft_emit_broadcast(g, w, rank, m->type.dims, axes),
                                       weft_emit_broadcast(g, w, rank, m->type.dims, rows));
    rule->out_tangents[0] = weft_emit_reduce(g, where(g, m, "eq", 0), "sum", 1, &columns);
    weft_value *off = weft_emit_binary(g, WEFT_OP_div, where(g, m, "ne", 0), where(g, gap, "ne", 1));
    rule->out_tangents[1] = product(g, v, false, off, false);
}

/* A = Q R with as many rows as columns or more: with X = dA R^-1, M = Q^T X, N = M's upper triangle and its strict
   lower one transposed: dR = N R, dQ = X - Q N. */
void weft_jvp_qr(weft_jvp_rule *rule) {
    weft_graph *g = rule->graph;
    weft_value *q = &rule->node->results[0], *r = &rule->node->results[1];
    const weft_type *type = &rule->node->operands[0]->type;
    if (!weft_dim_known_equal(g->dims, q->type.dims[type->rank - 1], type->dims[type->rank - 1])) {
        weft_graph_problem(g, "qr of a matrix with fewer rows than columns has no derivative here");
        return;
    }
    weft_value *x = solve(g, r, rule->tangents[0], 0, 0, 0, 0), *m = product(g, q, true, x, false);
    weft_value *n = weft_emit_binary(g, WEFT_OP_add, where(g, m, "le", 0), transposed(g, where(g, m, "gt", 0)));
    rule->out_tangents[0] = weft_emit_binary(g, WEFT_OP_sub, x, product(g, q, false, n, false));
    rule->out_tangents[1] = product(g, n, false, r, false);
}

/* <u, F v> with complex numbers as pairs: the conjugate transpose. Forward: n times the inverse; inverse: forward / n.
 */
void weft_transpose_fft(weft_transpose_rule *rule) {
    weft_graph *g = rule->graph;
    const weft_node *node = rule->node;
    bool inverse = !strcmp(weft_node_string(node, WEFT_ATTR_kind, ""), "inverse");
    int64_t axis = weft_node_int(node, WEFT_ATTR_axis, 0);
    weft_attribute attributes[2] = {weft_attr_string(WEFT_ATTR_kind, inverse ? "forward" : "inverse"),
                                    weft_attr_int(WEFT_ATTR_axis, axis)};
    weft_value *y = weft_build(g, WEFT_OP_fft, 1, rule->cotangents, 2, attributes);
    if (weft_value_is_poison(y)) return;
    weft_dtype part = y->type.dtype == WEFT_C64 ? WEFT_F32 : WEFT_F64;
    weft_value *n = weft_emit_extent(g, y->type.dims[axis], part);
    weft_value *scale = weft_emit_binary(g, WEFT_OP_complex, n, weft_emit_scalar(g, part, 0));
    rule->out_cotangents[0] = weft_emit_binary(g, inverse ? WEFT_OP_div : WEFT_OP_mul, y,
                                               weft_emit_broadcast_to(g, scale, y->type.rank, y->type.dims));
}
