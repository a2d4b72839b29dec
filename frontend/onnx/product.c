/* ONNX products: MatMul, Gemm, Einsum and the integer forms; Det. Read next: convolution.c. */
#include <string.h>

#include "frontend/onnx/import.h"

void weft_onnx_import_matmul(weft_onnx_node *node) {
    weft_onnx_output(node, 0, weft_matmul(node->graph, weft_onnx_input(node, 0), weft_onnx_input(node, 1)));
}

/* alpha * A' * B' + beta * C. */
void weft_onnx_import_gemm(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *a = weft_onnx_input(node, 0), *b = weft_onnx_input(node, 1), *c = weft_onnx_optional(node, 2);
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return;
    if (a->type.rank != 2 || b->type.rank != 2) {
        weft_onnx_problem(node, "ranks %d and %d, wanted matrices", a->type.rank, b->type.rank);
        return;
    }
    int64_t lhs = weft_onnx_int(node, "transA", 0) ? 0 : 1, rhs = weft_onnx_int(node, "transB", 0) ? 1 : 0;
    double alpha = weft_onnx_float(node, "alpha", 1), beta = weft_onnx_float(node, "beta", 1);
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    options.contract_count = 1, options.lhs_contract = &lhs, options.rhs_contract = &rhs;
    weft_value *y = weft_dot_general(g, a, b, &options);
    if (alpha != 1) y = weft_mul_number(g, y, alpha);
    if (c && beta != 0) y = weft_add(g, y, beta == 1 ? c : weft_mul_number(g, c, beta));
    weft_onnx_output(node, 0, y);
}

/* -- einsum. Letters are labels; the axes of "..." get labels of their own, from the right */

enum { ELLIPSIS_LABEL = 128, LABELS_MAX = 160 };

typedef struct term {
    weft_value *value;
    int rank;
    unsigned char labels[WEFT_MAX_RANK];
} term;

/* "ab...c" -> labels; ellipsis_rank: axes that "..." stands for. false: malformed. */
static bool parse_term(const char *text, size_t length, int ellipsis_rank, term *out) {
    out->rank = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') continue;
        if (text[i] == '.') {
            if (length - i < 3 || text[i + 1] != '.' || text[i + 2] != '.' || out->rank + ellipsis_rank > WEFT_MAX_RANK)
                return false;
            for (int k = 0; k < ellipsis_rank; k++)
                out->labels[out->rank++] = (unsigned char)(ELLIPSIS_LABEL + ellipsis_rank - 1 - k);
            i += 2;
            continue;
        }
        bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (!letter || out->rank >= WEFT_MAX_RANK) return false;
        out->labels[out->rank++] = (unsigned char)text[i];
    }
    return true;
}

static int find_label(const term *t, int label) {
    for (int i = 0; i < t->rank; i++)
        if (t->labels[i] == label) return i;
    return -1;
}

static void drop_axis(term *t, int axis) {
    for (int i = axis; i + 1 < t->rank; i++) t->labels[i] = t->labels[i + 1];
    t->rank--;
}

/* A label that appears twice in one term takes the diagonal: mask by equal positions and sum the second away. */
static void take_diagonals(weft_graph *g, term *t) {
    for (int i = 0; i < t->rank; i++)
        for (int k = t->rank - 1; k > i; k--) {
            if (t->labels[k] != t->labels[i] || weft_value_is_poison(t->value)) continue;
            const weft_type *type = &t->value->type;
            weft_value *same = weft_compare(g, WEFT_EQ, weft_iota(g, WEFT_I64, type->rank, type->dims, i),
                                            weft_iota(g, WEFT_I64, type->rank, type->dims, k));
            int64_t axis = k;
            weft_value *kept = weft_where(g, same, t->value, weft_onnx_scalar_like(g, t->value, 0));
            t->value = weft_reduce_sum(g, kept, 1, &axis, false);
            drop_axis(t, k);
        }
}

static void sum_unneeded(weft_graph *g, term *t, const bool *needed) {
    for (int i = t->rank - 1; i >= 0; i--) {
        if (needed[t->labels[i]]) continue;
        int64_t axis = i;
        t->value = weft_reduce_sum(g, t->value, 1, &axis, false);
        drop_axis(t, i);
    }
}

/* Extents of 1 stretch where the other side's is larger ("..." broadcasts). */
static void stretch(weft_graph *g, term *t, const term *other) {
    weft_dim shape[WEFT_MAX_RANK];
    if (weft_value_is_poison(t->value) || weft_value_is_poison(other->value)) return;
    for (int i = 0; i < t->rank; i++) {
        int at = find_label(other, t->labels[i]);
        shape[i] = at >= 0 && t->value->type.dims[i] == 1 ? other->value->type.dims[at] : t->value->type.dims[i];
    }
    t->value = weft_broadcast_to(g, t->value, t->rank, shape);
}

/* Labels of both that are needed later are a batch, others of both are contracted. */
static term contract(weft_graph *g, term a, term b, const bool *needed) {
    int64_t lhs_batch[WEFT_MAX_RANK], rhs_batch[WEFT_MAX_RANK], lhs_contract[WEFT_MAX_RANK],
        rhs_contract[WEFT_MAX_RANK];
    weft_dot_options options = WEFT_DOT_OPTIONS_INIT;
    term out = {.rank = 0};
    stretch(g, &a, &b);
    stretch(g, &b, &a);
    for (int i = 0; i < a.rank; i++) {
        int at = find_label(&b, a.labels[i]);
        if (at < 0) continue;
        if (needed[a.labels[i]]) {
            lhs_batch[options.batch_count] = i, rhs_batch[options.batch_count++] = at;
            out.labels[out.rank++] = a.labels[i];
        } else
            lhs_contract[options.contract_count] = i, rhs_contract[options.contract_count++] = at;
    }
    for (int i = 0; i < a.rank; i++)
        if (find_label(&b, a.labels[i]) < 0 && out.rank < WEFT_MAX_RANK) out.labels[out.rank++] = a.labels[i];
    for (int i = 0; i < b.rank; i++)
        if (find_label(&a, b.labels[i]) < 0 && out.rank < WEFT_MAX_RANK) out.labels[out.rank++] = b.labels[i];
    options.lhs_batch = lhs_batch, options.rhs_batch = rhs_batch;
    options.lhs_contract = lhs_contract, options.rhs_contract = rhs_contract;
    out.value = weft_dot_general(g, a.value, b.value, &options);
    return out;
}

/* Without "->": labels that appear once, in alphabetical order, after the ellipsis. */
static void implicit_output(const term *terms, int count, int ellipsis_rank, term *out) {
    int uses[LABELS_MAX] = {0};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < terms[i].rank; k++) uses[terms[i].labels[k]]++;
    out->rank = 0;
    for (int k = 0; k < ellipsis_rank; k++)
        out->labels[out->rank++] = (unsigned char)(ELLIPSIS_LABEL + ellipsis_rank - 1 - k);
    for (int label = 'A'; label <= 'z'; label++)
        if (uses[label] == 1 && out->rank < WEFT_MAX_RANK) out->labels[out->rank++] = (unsigned char)label;
}

static int letters_in(const char *text, size_t length) {
    int count = 0;
    for (size_t i = 0; i < length; i++) count += text[i] != ' ' && text[i] != '.';
    return count;
}

/* Terms from the equation; false after a problem. */
static bool parse_equation(weft_onnx_node *node, const char *equation, term *terms, term *out) {
    const char *arrow = strstr(equation, "->"), *at = equation;
    const char *end = arrow ? arrow : equation + strlen(equation);
    int count = 0, ellipsis_rank = 0;
    for (int pass = 0; pass < 2; pass++) {
        at = equation, count = 0;
        while (at <= end) {
            size_t length = 0;
            while (at + length < end && at[length] != ',') length++;
            if (count >= node->input_count) return false;
            weft_value *x = weft_onnx_input(node, count);
            if (weft_value_is_poison(x)) return false;
            int extra = x->type.rank - letters_in(at, length);
            bool dots = memchr(at, '.', length) != NULL;
            if (extra < 0 || (!dots && extra > 0)) return false;
            if (dots && pass == 0 && extra > ellipsis_rank) ellipsis_rank = extra;
            terms[count].value = x;
            if (!parse_term(at, length, extra, &terms[count])) return false;
            count++;
            at += length + 1;
        }
    }
    if (count != node->input_count) return false;
    if (!arrow) {
        implicit_output(terms, count, ellipsis_rank, out);
        return true;
    }
    return parse_term(arrow + 2, strlen(arrow + 2), ellipsis_rank, out);
}

void weft_onnx_import_einsum(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    const char *equation = weft_onnx_string(node, "equation", "");
    term *terms = weft_onnx_allocate(node->import, (size_t)node->input_count + 1, sizeof *terms), out;
    if (!terms) return;
    if (node->input_count < 1 || !parse_equation(node, equation, terms, &out)) {
        weft_onnx_problem(node, "equation \"%s\" does not fit the inputs", equation);
        return;
    }
    term result = terms[0];
    take_diagonals(g, &result);
    for (int i = 0; i < node->input_count; i++) {
        bool needed[LABELS_MAX] = {false};
        for (int k = 0; k < out.rank; k++) needed[out.labels[k]] = true;
        for (int j = i + 2; j < node->input_count; j++)
            for (int k = 0; k < terms[j].rank; k++) needed[terms[j].labels[k]] = true;
        if (i + 1 == node->input_count) {
            sum_unneeded(g, &result, needed);
            break;
        }
        term next = terms[i + 1];
        take_diagonals(g, &next);
        bool mine[LABELS_MAX], theirs[LABELS_MAX];
        memcpy(mine, needed, sizeof needed);
        memcpy(theirs, needed, sizeof needed);
        for (int k = 0; k < next.rank; k++) mine[next.labels[k]] = true;
        for (int k = 0; k < result.rank; k++) theirs[result.labels[k]] = true;
        sum_unneeded(g, &result, mine);
        sum_unneeded(g, &next, theirs);
        result = contract(g, result, next, needed);
    }
    int64_t permutation[WEFT_MAX_RANK];
    for (int i = 0; i < out.rank; i++) {
        permutation[i] = find_label(&result, out.labels[i]);
        if (permutation[i] >= 0 && out.rank == result.rank) continue;
        weft_onnx_problem(node, "equation \"%s\": the output names an axis that no input has", equation);
        return;
    }
    weft_onnx_output(node, 0, out.rank > 0 ? weft_transpose(g, result.value, permutation) : result.value);
}

/* -- integers */

/* x - zero point in i32; a vector of zero points goes along the given axis. */
static weft_value *centred(weft_graph *g, weft_value *x, weft_value *zero, int axis) {
    weft_value *wide = weft_convert(g, x, WEFT_I32);
    if (!zero) return wide;
    zero = weft_convert(g, zero, WEFT_I32);
    if (weft_value_is_poison(zero) || weft_value_is_poison(wide)) return weft_value_poison(g);
    if (zero->type.rank == 1 && zero->type.dims[0] == 1) zero = weft_reshape(g, zero, 0, NULL);
    if (zero->type.rank == 1 && axis < wide->type.rank - 1) {
        int64_t axes[WEFT_MAX_RANK];
        for (int i = 0; i < wide->type.rank - 1 - axis; i++) axes[i] = i + 1;
        zero = weft_unsqueeze(g, zero, wide->type.rank - 1 - axis, axes);
    }
    return weft_sub(g, wide, zero);
}

void weft_onnx_import_matmul_integer(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *a = weft_onnx_input(node, 0), *b = weft_onnx_input(node, 1);
    if (weft_value_is_poison(a) || weft_value_is_poison(b)) return;
    weft_value *lhs = centred(g, a, weft_onnx_optional(node, 2), a->type.rank - 2);
    weft_value *rhs = centred(g, b, weft_onnx_optional(node, 3), b->type.rank - 1);
    weft_onnx_output(node, 0, weft_matmul(g, lhs, rhs));
}

/* round(product * a_scale * b_scale / y_scale) + y_zero, saturated. */
void weft_onnx_import_qlinear_matmul(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *a = weft_onnx_input(node, 0), *b = weft_onnx_input(node, 3), *y_zero = weft_onnx_input(node, 7);
    if (weft_value_is_poison(a) || weft_value_is_poison(b) || weft_value_is_poison(y_zero)) return;
    weft_value *product = weft_matmul(g, centred(g, a, weft_onnx_input(node, 2), a->type.rank - 2),
                                      centred(g, b, weft_onnx_input(node, 5), b->type.rank - 1));
    weft_value *a_scale = weft_onnx_widen(g, weft_onnx_input(node, 1)),
               *b_scale = weft_onnx_widen(g, weft_onnx_input(node, 4)),
               *y_scale = weft_onnx_widen(g, weft_onnx_input(node, 6));
    if (!weft_value_is_poison(a_scale) && a_scale->type.rank == 1 && a_scale->type.dims[0] != 1) {
        int64_t last = 1;
        a_scale = weft_unsqueeze(g, a_scale, 1, &last);
    }
    weft_value *scale = weft_div(g, weft_mul(g, a_scale, b_scale), y_scale);
    weft_onnx_output(node, 0, weft_onnx_requantize(g, weft_mul(g, weft_convert(g, product, WEFT_F32), scale), y_zero));
}

/* -- determinant: Gaussian elimination with row pivots, written out per column (sizes are small and static) */

void weft_onnx_import_det(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    int rank = x->type.rank;
    int64_t n;
    if (rank < 2 || !weft_onnx_dim_number(g, x->type.dims[rank - 1], &n) || n > 64 || x->type.dims[rank - 2] != n) {
        weft_onnx_problem(node, "wants square matrices of a known size of at most 64");
        return;
    }
    weft_dtype dtype = x->type.dtype;
    weft_value *a = weft_onnx_widen(g, x), *result = NULL;
    int64_t both[2] = {rank - 2, rank - 1};
    for (int64_t k = 0; k < n; k++) {
        weft_value *below = weft_slice_axis(g, weft_slice_axis(g, a, rank - 2, k, n), rank - 1, k, k + 1);
        weft_value *pivot = weft_arg_reduce(g, WEFT_MAX, weft_abs(g, below), rank - 2, true, false); /* [..., 1, 1] */
        pivot = weft_add(g, pivot, weft_scalar_integer(g, WEFT_I64, k));
        /* swap rows k and pivot: row r reads from pivot when r = k, from k when r = pivot */
        weft_value *row = weft_iota(g, WEFT_I64, rank, a->type.dims, rank - 2),
                   *at_k = weft_scalar_integer(g, WEFT_I64, k);
        weft_value *from = weft_where(g, weft_compare(g, WEFT_EQ, row, at_k), pivot,
                                      weft_where(g, weft_compare(g, WEFT_EQ, row, pivot), at_k, row));
        weft_value *swapped = weft_compare(g, WEFT_NE, pivot, at_k);
        a = weft_take_along(g, a, from, rank - 2);
        if (weft_value_is_poison(a)) return;
        weft_value *pivot_row = weft_slice_axis(g, a, rank - 2, k, k + 1),
                   *diagonal = weft_slice_axis(g, pivot_row, rank - 1, k, k + 1);
        weft_value *column = weft_slice_axis(g, a, rank - 1, k, k + 1);
        weft_value *zero = weft_compare(g, WEFT_EQ, diagonal, weft_onnx_scalar_like(g, diagonal, 0));
        weft_value *factor = weft_div(g, column, weft_where(g, zero, weft_onnx_scalar_like(g, diagonal, 1), diagonal));
        weft_value *column_row = weft_slice_axis(g, row, rank - 1, 0, 1);
        factor = weft_where(g, weft_compare(g, WEFT_GT, column_row, at_k), factor, weft_onnx_scalar_like(g, factor, 0));
        a = weft_sub(g, a, weft_mul(g, factor, pivot_row));
        weft_value *step = weft_squeeze(g, weft_where(g, swapped, weft_neg(g, diagonal), diagonal), 2, both);
        result = result ? weft_mul(g, result, step) : step;
    }
    weft_onnx_output(node, 0, result ? weft_convert(g, result, dtype) : weft_full(g, dtype, rank - 2, x->type.dims, 1));
}
