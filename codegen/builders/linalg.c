/* Builders "cholesky" and "triangular_solve" on the last two axes; leading axes are a batch, and one matrix (cholesky)
   or one right-hand side (solve) is an item. Work happens in f64 temporaries where the target has f64, so that the
   result rounds once; else in the carrier. Source: Golub and Van Loan, Matrix Computations, 4th edition,
   algorithms 4.2.1 and 3.1.1. Read next: linalg_eigen.c, linalg_qr.c. */
#include "codegen/builders/linalg.h"

typedef weft_solver solver;

weft_kval weft_solver_element(weft_solver *s, int operand, weft_kval batch, weft_kval i, weft_kval j) {
    const weft_value *x = s->node->operands[operand];
    weft_lane_index index[WEFT_MAX_RANK];
    int rank = x->type.rank;
    weft_index_unflatten(&s->c, rank - 2, x->type.dims, weft_lane_scalar(batch), 1, index);
    index[rank - 2] = weft_lane_scalar(i);
    index[rank - 1] = weft_lane_scalar(j);
    return weft_k_convert(s->c.kernel, weft_index_value(&s->c, x, index, 1, WEFT_KNONE), s->work);
}

weft_kval weft_solver_load(weft_solver *s, weft_kval at) {
    return weft_k_load(s->c.kernel, s->memory, at, 1, WEFT_KNONE, WEFT_KNONE);
}

void weft_solver_put(weft_solver *s, weft_kval at, weft_kval value) {
    weft_k_store(s->c.kernel, s->memory, at, WEFT_KNONE, value);
}

void weft_solver_store(weft_solver *s, int result, weft_kval batch, weft_kval i, weft_kval j, weft_kval value) {
    const weft_type *type = &s->c.fusion->results[result].type;
    weft_lane_index index[WEFT_MAX_RANK];
    int at = type->rank - (j == WEFT_KNONE ? 1 : 2);
    weft_index_unflatten(&s->c, at, type->dims, weft_lane_scalar(batch), 1, index);
    index[at] = weft_lane_scalar(i);
    if (j != WEFT_KNONE) index[at + 1] = weft_lane_scalar(j);
    weft_index_store(&s->c, result, index, 1, WEFT_KNONE, weft_index_round(&s->c, type->dtype, value));
}

void weft_solver_find_sign(weft_solver *s, weft_kval sign, weft_kval element, weft_kval least) {
    weft_kernel *k = s->c.kernel;
    weft_kval found = weft_k_get(k, sign), one = weft_k_float(k, s->work, 1), zero = weft_k_float(k, s->work, 0);
    weft_kval counts =
        weft_k_and(k, weft_k_eq(k, found, zero), weft_k_lt(k, least, weft_k_unary(k, WEFT_K_abs, element)));
    weft_k_set(k, sign, weft_k_select(k, counts, weft_k_binary(k, WEFT_K_copysign, one, element), found));
}

weft_dim weft_solver_batch(const weft_solver *s) {
    const weft_type *type = weft_operand_type(s->node, 0);
    weft_dim count = 1;
    for (int i = 0; i + 2 < type->rank; i++) count = weft_dim_multiply(s->request->graph->dims, count, type->dims[i]);
    return count;
}

weft_status weft_solver_begin(const weft_build_request *request, weft_kernel_plan *plan, weft_op op, weft_dim elements,
                              weft_solver *out_solver) {
    bool keeps = elements != 0;
    WEFT_TRY(weft_plan_init(request, 1, keeps, plan), "linear algebra");
    weft_solver *s = out_solver;
    *s = (weft_solver){.request = request, .node = weft_single_node(request, op)};
    weft_dtype dtype = request->fusion->results[0].type.dtype;
    s->work = request->capability->f64 ? WEFT_F64 : weft_index_carrier(dtype);
    if (keeps) plan->temps[0].bytes = weft_dim_multiply(request->graph->dims, elements, weft_dtype_bits(s->work) / 8);
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    WEFT_TRY(weft_index_init(request, k, &s->c), "linear algebra");
    if (keeps) s->memory = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, 0, s->work, true, "work");
    return NULL;
}

weft_status weft_solver_finish(weft_solver *s, weft_kernel_plan *plan) {
    WEFT_TRY(weft_index_finish(&s->c), "linear algebra");
    return weft_plan_set(s->request, plan, 0, s->c.kernel);
}

static weft_status begin(const weft_build_request *request, weft_kernel_plan *plan, weft_op op, solver *s) {
    weft_dim elements = weft_type_count(request->graph, &request->fusion->results[0].type);
    return weft_solver_begin(request, plan, op, elements, s);
}

/* L[i][j] for i >= j, column by column; the temporary holds L row-major. */
static void cholesky_columns(solver *s, weft_kval batch, weft_kval base, weft_kval n, bool lower) {
    weft_kernel *k = s->c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    size_t mark = weft_index_mark(&s->c);
    weft_kval j = weft_k_for(k, zero, n, one, 0), row_j = weft_k_add(k, base, weft_k_mul(k, j, n));
    weft_kval i = weft_k_for(k, j, n, one, 0), row_i = weft_k_add(k, base, weft_k_mul(k, i, n));
    weft_kval sum =
        weft_k_var(k, lower ? weft_solver_element(s, 0, batch, i, j) : weft_solver_element(s, 0, batch, j, i));
    weft_kval p = weft_k_for(k, zero, j, one, 0);
    weft_kval product =
        weft_k_mul(k, weft_solver_load(s, weft_k_add(k, row_i, p)), weft_solver_load(s, weft_k_add(k, row_j, p)));
    weft_k_set(k, sum, weft_k_sub(k, weft_k_get(k, sum), product));
    weft_k_end(k);
    weft_kval rest = weft_k_get(k, sum), value = weft_k_var(k, rest);
    weft_k_if(k, weft_k_eq(k, i, j));
    weft_k_set(k, value, weft_k_unary(k, WEFT_K_sqrt, rest));
    weft_k_else(k);
    weft_k_set(k, value, weft_k_div(k, rest, weft_solver_load(s, weft_k_add(k, row_j, j))));
    weft_k_end(k);
    weft_solver_put(s, weft_k_add(k, row_i, j), weft_k_get(k, value));
    weft_index_release(&s->c, mark);
    weft_k_end(k);
    weft_k_end(k);
}

static void cholesky_results(solver *s, weft_kval batch, weft_kval base, weft_kval n, bool lower) {
    weft_kernel *k = s->c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), nothing = weft_k_float(k, s->work, 0);
    size_t mark = weft_index_mark(&s->c);
    weft_kval i = weft_k_for(k, zero, n, one, 0), j = weft_k_for(k, zero, n, one, 0);
    weft_kval row = lower ? i : j, column = lower ? j : i; /* of L */
    weft_kval stored = weft_k_var(k, nothing);
    weft_k_if(k, weft_k_le(k, column, row));
    weft_k_set(k, stored, weft_solver_load(s, weft_k_add(k, base, weft_k_add(k, weft_k_mul(k, row, n), column))));
    weft_k_end(k);
    weft_solver_store(s, 0, batch, i, j, weft_k_get(k, stored));
    weft_index_release(&s->c, mark);
    weft_k_end(k);
    weft_k_end(k);
}

static weft_status nothing_to_do(const weft_build_request *request, weft_kernel_plan *plan) {
    return weft_plan_init(request, 0, 0, plan);
}

static weft_status build_cholesky(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (weft_fusion_is_empty(request)) return nothing_to_do(request, out_plan);
    solver s;
    WEFT_TRY(begin(request, out_plan, WEFT_OP_cholesky, &s), "cholesky");
    weft_kernel *k = s.c.kernel;
    const weft_type *x = weft_operand_type(s.node, 0);
    bool lower = weft_node_int(s.node, WEFT_ATTR_lower, 1) != 0;
    weft_items items = weft_items_begin(&s.c, weft_solver_batch(&s), 1);
    weft_kval n = weft_k_extent(k, x->dims[x->rank - 1]), base = weft_k_mul(k, items.item, weft_k_mul(k, n, n));
    cholesky_columns(&s, items.item, base, n, lower);
    cholesky_results(&s, items.item, base, n, lower);
    weft_items_end(&s.c, &items);
    return weft_solver_finish(&s, out_plan);
}

/* One right-hand side: substitution, forward or backward. Element i of the solution is at base + i * step. */
static void substitute(solver *s, weft_kval batch, weft_kval line, weft_kval base, weft_kval step, weft_kval n) {
    weft_kernel *k = s->c.kernel;
    bool left = weft_node_int(s->node, WEFT_ATTR_left_side, 1) != 0,
         unit = weft_node_int(s->node, WEFT_ATTR_unit_diagonal, 0) != 0;
    bool transposed = (weft_node_int(s->node, WEFT_ATTR_transpose_a, 0) != 0) != !left;
    bool forward = (weft_node_int(s->node, WEFT_ATTR_lower, 1) != 0) != transposed;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), last = weft_k_sub(k, n, one);
    size_t mark = weft_index_mark(&s->c);
    weft_kval turn = weft_k_for(k, zero, n, one, 0), i = forward ? turn : weft_k_sub(k, last, turn);
    weft_kval sum =
        weft_k_var(k, left ? weft_solver_element(s, 1, batch, i, line) : weft_solver_element(s, 1, batch, line, i));
    size_t inner = weft_index_mark(&s->c);
    weft_kval before = weft_k_for(k, zero, turn, one, 0), p = forward ? before : weft_k_sub(k, last, before);
    weft_kval factor = transposed ? weft_solver_element(s, 0, batch, p, i) : weft_solver_element(s, 0, batch, i, p);
    weft_kval product = weft_k_mul(k, factor, weft_solver_load(s, weft_k_add(k, base, weft_k_mul(k, p, step))));
    weft_k_set(k, sum, weft_k_sub(k, weft_k_get(k, sum), product));
    weft_index_release(&s->c, inner);
    weft_k_end(k);
    weft_kval value = weft_k_get(k, sum);
    if (!unit) value = weft_k_div(k, value, weft_solver_element(s, 0, batch, i, i));
    weft_k_store(k, s->memory, weft_k_add(k, base, weft_k_mul(k, i, step)), WEFT_KNONE, value);
    if (left)
        weft_solver_store(s, 0, batch, i, line, value);
    else
        weft_solver_store(s, 0, batch, line, i, value);
    weft_index_release(&s->c, mark);
    weft_k_end(k);
}

static weft_status build_solve(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (weft_fusion_is_empty(request)) return nothing_to_do(request, out_plan);
    solver s;
    WEFT_TRY(begin(request, out_plan, WEFT_OP_triangular_solve, &s), "triangular_solve");
    weft_kernel *k = s.c.kernel;
    weft_dim_table *table = request->graph->dims;
    const weft_type *b = weft_operand_type(s.node, 1);
    bool left = weft_node_int(s.node, WEFT_ATTR_left_side, 1) != 0;
    weft_dim rows = b->dims[b->rank - 2], columns = b->dims[b->rank - 1], lines = left ? columns : rows,
             n = left ? rows : columns;
    weft_items items = weft_items_begin(&s.c, weft_dim_multiply(table, weft_solver_batch(&s), lines),
                                        weft_items_per_block(request, weft_dim_multiply(table, n, n)));
    weft_kval count = weft_k_extent(k, lines), batch = weft_k_div(k, items.item, count),
              line = weft_k_rem(k, items.item, count);
    weft_kval size = weft_k_extent(k, weft_dim_multiply(table, rows, columns)), base = weft_k_mul(k, batch, size);
    weft_kval step = left ? weft_k_extent(k, columns) : weft_k_index(k, 1);
    base = weft_k_add(k, base, left ? line : weft_k_mul(k, line, weft_k_extent(k, columns)));
    substitute(&s, batch, line, base, step, weft_k_extent(k, n));
    weft_items_end(&s.c, &items);
    return weft_solver_finish(&s, out_plan);
}

const weft_builder weft_builder_cholesky = {"cholesky", weft_single_accepts, weft_single_propose, build_cholesky};
const weft_builder weft_builder_triangular_solve = {"triangular_solve", weft_single_accepts, weft_single_propose,
                                                    build_solve};
