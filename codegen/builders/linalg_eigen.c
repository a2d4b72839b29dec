/* Builder "eigh": eigenvalues, ascending, and eigenvectors of symmetric matrices, of which the lower triangle is read,
   by cyclic Jacobi rotations; one matrix is an item. a [n, n] and v [n, n] lie row by row in the temporary; row p of v
   is an eigenvector, so that a rotation works on whole rows: rows p and q of a, which are then copied to its columns,
   as a stays symmetric. Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithms 8.5.1 and 8.5.2. Read
   next: linalg_jacobi.c. */
#include "codegen/builders/linalg.h"

enum { SWEEPS_MAX = 60 };

typedef struct eigen {
    weft_solver s;
    int lanes;
    weft_kval n, a, v; /* starts of the matrices */
} eigen;

/* The loop over all vectors of a row; *out_mask switches off what lies behind its end. Close with weft_k_end. */
static weft_kval each_vector(eigen *e, weft_kval *out_mask) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval at = weft_k_for(k, weft_k_index(k, 0), e->n, weft_k_index(k, e->lanes), 0);
    *out_mask = e->lanes == 1 ? WEFT_KNONE : weft_index_below(&e->s.c, weft_lane_range(at, 1), e->lanes, e->n);
    return at;
}

static weft_kval load_row(eigen *e, weft_kval at, weft_kval mask) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval other = mask == WEFT_KNONE ? WEFT_KNONE : weft_k_splat(k, weft_k_float(k, e->s.work, 0), e->lanes);
    return weft_k_load(k, e->s.memory, at, e->lanes, mask, other);
}

static void fill(eigen *e, weft_kval batch) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    size_t mark = weft_index_mark(&e->s.c);
    weft_kval i = weft_k_for(k, zero, e->n, one, 0), j = weft_k_for(k, zero, e->n, one, 0);
    weft_kval value = weft_solver_element(&e->s, 0, batch, weft_k_max(k, i, j), weft_k_min(k, i, j));
    weft_kval at = weft_k_add(k, weft_k_mul(k, i, e->n), j);
    weft_kval unit = weft_k_select(k, weft_k_eq(k, i, j), weft_k_float(k, e->s.work, 1), weft_k_float(k, e->s.work, 0));
    weft_solver_put(&e->s, weft_k_add(k, e->a, at), value);
    weft_solver_put(&e->s, weft_k_add(k, e->v, at), unit);
    weft_index_release(&e->s.c, mark);
    weft_k_end(k);
    weft_k_end(k);
}

/* Whether what is off the diagonal still counts; not when there are NaNs. */
static weft_kval is_unfinished(eigen *e) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), nothing = weft_k_float(k, e->s.work, 0);
    weft_kval off = weft_k_var(k, nothing), all = weft_k_var(k, nothing);
    weft_kval i = weft_k_for(k, zero, e->n, one, 0), j = weft_k_for(k, zero, e->n, one, 0);
    weft_kval x = weft_solver_load(&e->s, weft_k_add(k, e->a, weft_k_add(k, weft_k_mul(k, i, e->n), j)));
    weft_kval square = weft_k_mul(k, x, x);
    weft_k_set(k, all, weft_k_add(k, weft_k_get(k, all), square));
    weft_k_set(k, off, weft_k_add(k, weft_k_get(k, off), weft_k_select(k, weft_k_eq(k, i, j), nothing, square)));
    weft_k_end(k);
    weft_k_end(k);
    double enough = e->s.work == WEFT_F64 ? 1e-34 : 1e-15;
    weft_kval rest = weft_k_mul(k, weft_k_get(k, all), weft_k_float(k, e->s.work, enough));
    return weft_k_lt(k, rest, weft_k_get(k, off));
}

/* Rows p and q of the matrix at `base` become c p - s q and s p + c q. */
static void rotate_rows(eigen *e, weft_kval row_p, weft_kval row_q, weft_kval c, weft_kval s) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval mask, i = each_vector(e, &mask), at_p = weft_k_add(k, row_p, i), at_q = weft_k_add(k, row_q, i);
    weft_kval x = load_row(e, at_p, mask), y = load_row(e, at_q, mask);
    weft_k_store(k, e->s.memory, at_p, mask, weft_k_sub(k, weft_k_mul(k, c, x), weft_k_mul(k, s, y)));
    weft_k_store(k, e->s.memory, at_q, mask, weft_k_add(k, weft_k_mul(k, s, x), weft_k_mul(k, c, y)));
    weft_k_end(k);
}

static void copy_to_column(eigen *e, weft_kval row, weft_kval column) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), e->n, weft_k_index(k, 1), 0);
    weft_kval value = weft_solver_load(&e->s, weft_k_add(k, row, i));
    weft_solver_put(&e->s, weft_k_add(k, e->a, weft_k_add(k, weft_k_mul(k, i, e->n), column)), value);
    weft_k_end(k);
}

/* One rotation, which makes a[p][q] vanish. */
static void rotate(eigen *e, weft_kval p, weft_kval q) {
    weft_kernel *k = e->s.c.kernel;
    weft_dtype work = e->s.work;
    weft_kval one = weft_k_float(k, work, 1), zero = weft_k_float(k, work, 0);
    weft_kval step_p = weft_k_mul(k, p, e->n), step_q = weft_k_mul(k, q, e->n);
    weft_kval row_p = weft_k_add(k, e->a, step_p), row_q = weft_k_add(k, e->a, step_q);
    weft_kval pp = weft_k_add(k, row_p, p), pq = weft_k_add(k, row_p, q), qp = weft_k_add(k, row_q, p),
              qq = weft_k_add(k, row_q, q);
    weft_kval apq = weft_solver_load(&e->s, pq), app = weft_solver_load(&e->s, pp), aqq = weft_solver_load(&e->s, qq);
    weft_k_if(k, weft_k_ne(k, apq, zero));
    weft_kval theta = weft_k_div(k, weft_k_sub(k, aqq, app), weft_k_mul(k, apq, weft_k_float(k, work, 2)));
    weft_kval root = weft_k_unary(k, WEFT_K_sqrt, weft_k_add(k, weft_k_mul(k, theta, theta), one));
    weft_kval t = weft_k_div(k, weft_k_binary(k, WEFT_K_copysign, one, theta),
                             weft_k_add(k, weft_k_unary(k, WEFT_K_abs, theta), root));
    weft_kval c = weft_k_div(k, one, weft_k_unary(k, WEFT_K_sqrt, weft_k_add(k, weft_k_mul(k, t, t), one)));
    weft_kval s = weft_k_mul(k, t, c), shift = weft_k_mul(k, t, apq);
    rotate_rows(e, row_p, row_q, c, s);
    copy_to_column(e, row_p, p);
    copy_to_column(e, row_q, q);
    weft_solver_put(&e->s, pp, weft_k_sub(k, app, shift));
    weft_solver_put(&e->s, qq, weft_k_add(k, aqq, shift));
    weft_solver_put(&e->s, pq, zero);
    weft_solver_put(&e->s, qp, zero);
    rotate_rows(e, weft_k_add(k, e->v, step_p), weft_k_add(k, e->v, step_q), c, s);
    weft_k_end(k);
}

static void sweep_until_done(eigen *e) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), sweep = weft_k_var(k, zero);
    weft_k_while(k);
    weft_k_test(k, weft_k_lt(k, weft_k_get(k, sweep), weft_k_index(k, SWEEPS_MAX)));
    weft_kval unfinished = is_unfinished(e);
    weft_k_set(k, sweep,
               weft_k_select(k, unfinished, weft_k_add(k, weft_k_get(k, sweep), one), weft_k_index(k, SWEEPS_MAX)));
    weft_k_if(k, unfinished);
    weft_kval p = weft_k_for(k, zero, e->n, one, 0), q = weft_k_for(k, weft_k_add(k, p, one), e->n, one, 0);
    rotate(e, p, q);
    weft_k_end(k);
    weft_k_end(k);
    weft_k_end(k);
    weft_k_end(k);
}

static weft_kval diagonal(eigen *e, weft_kval i) {
    weft_kernel *k = e->s.c.kernel;
    return weft_k_add(k, e->a, weft_k_mul(k, i, weft_k_add(k, e->n, weft_k_index(k, 1))));
}

static void exchange(eigen *e, weft_kval at, weft_kval other) {
    weft_kval x = weft_solver_load(&e->s, at), y = weft_solver_load(&e->s, other);
    weft_solver_put(&e->s, at, y);
    weft_solver_put(&e->s, other, x);
}

/* Selection sort of the diagonal, rows of v along. */
static void order(eigen *e) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    weft_kval i = weft_k_for(k, zero, e->n, one, 0), least = weft_k_var(k, i);
    weft_kval value = weft_k_var(k, weft_solver_load(&e->s, diagonal(e, i)));
    weft_kval j = weft_k_for(k, weft_k_add(k, i, one), e->n, one, 0), other = weft_solver_load(&e->s, diagonal(e, j));
    weft_k_if(k, weft_k_lt(k, other, weft_k_get(k, value)));
    weft_k_set(k, value, other);
    weft_k_set(k, least, j);
    weft_k_end(k);
    weft_k_end(k);
    weft_kval found = weft_k_get(k, least);
    weft_k_if(k, weft_k_ne(k, found, i));
    exchange(e, diagonal(e, i), diagonal(e, found));
    weft_kval row = weft_k_add(k, e->v, weft_k_mul(k, i, e->n)),
              other_row = weft_k_add(k, e->v, weft_k_mul(k, found, e->n));
    weft_kval c = weft_k_for(k, zero, e->n, one, 0);
    exchange(e, weft_k_add(k, row, c), weft_k_add(k, other_row, c));
    weft_k_end(k);
    weft_k_end(k);
    weft_k_end(k);
}

/* The sign of row j of v. */
static weft_kval sign_of(eigen *e, weft_kval row) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval sign = weft_k_var(k, weft_k_float(k, e->s.work, 0));
    weft_kval root = weft_k_unary(k, WEFT_K_sqrt, weft_k_convert(k, e->n, e->s.work));
    weft_kval least = weft_k_div(k, weft_k_float(k, e->s.work, WEFT_SOLVER_SIGN), root);
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), e->n, weft_k_index(k, 1), 0);
    weft_solver_find_sign(&e->s, sign, weft_solver_load(&e->s, weft_k_add(k, row, i)), least);
    weft_k_end(k);
    return weft_k_get(k, sign);
}

static void store_results(eigen *e, weft_kval batch) {
    weft_kernel *k = e->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    size_t mark = weft_index_mark(&e->s.c);
    weft_kval j = weft_k_for(k, zero, e->n, one, 0);
    weft_solver_store(&e->s, 0, batch, j, WEFT_KNONE, weft_solver_load(&e->s, diagonal(e, j)));
    weft_kval row = weft_k_add(k, e->v, weft_k_mul(k, j, e->n)), sign = sign_of(e, row);
    weft_kval i = weft_k_for(k, zero, e->n, one, 0);
    weft_kval value = weft_k_mul(k, sign, weft_solver_load(&e->s, weft_k_add(k, row, i)));
    weft_solver_store(&e->s, 1, batch, i, j, value);
    weft_index_release(&e->s.c, mark);
    weft_k_end(k);
    weft_k_end(k);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (weft_fusion_is_empty(request)) return weft_plan_init(request, 0, 0, out_plan);
    weft_dim_table *table = request->graph->dims;
    eigen e = {.lanes = weft_capability_is_cpu(request->capability) ? request->capability->vector_bytes / 8 : 1};
    weft_dim elements = weft_dim_multiply(table, weft_type_count(request->graph, &request->fusion->results[1].type), 2);
    WEFT_TRY(weft_solver_begin(request, out_plan, WEFT_OP_eigh, elements, &e.s), "eigh");
    weft_kernel *k = e.s.c.kernel;
    const weft_type *x = weft_operand_type(e.s.node, 0);
    weft_items items = weft_items_begin(&e.s.c, weft_solver_batch(&e.s), 1);
    e.n = weft_k_extent(k, x->dims[x->rank - 1]);
    weft_kval size = weft_k_mul(k, e.n, e.n);
    e.a = weft_k_mul(k, items.item, weft_k_mul(k, size, weft_k_index(k, 2)));
    e.v = weft_k_add(k, e.a, size);
    fill(&e, items.item);
    sweep_until_done(&e);
    order(&e);
    store_results(&e, items.item);
    weft_items_end(&e.s.c, &items);
    return weft_solver_finish(&e.s, out_plan);
}

const weft_builder weft_builder_eigh = {"eigh", weft_single_accepts, weft_single_propose, build};
