/* Builder "qr" by Householder reflections; one matrix of m rows and n columns is an item, k = min(m, n). Columns lie
   one after the other in the temporary: a [n, m], reflectors v [k, m], q [k, m], factors tau [k]; so sums and updates
   go along memory. Source: Golub and Van Loan, Matrix Computations, 4th edition, algorithms 5.1.1 and 5.2.1. */
#include "codegen/builders/linalg.h"

typedef struct reflections {
    weft_solver s;
    int lanes;
    weft_kval m, n, k, a, v, q, tau; /* extents; starts */
} reflections;

/* The loop over the vectors of a column from row `from` on; *out_mask switches off what lies behind its end. */
static weft_kval each_vector(reflections *r, weft_kval from, weft_kval *out_mask) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval at = weft_k_for(k, from, r->m, weft_k_index(k, r->lanes), 0);
    *out_mask = r->lanes == 1 ? WEFT_KNONE : weft_index_below(&r->s.c, weft_lane_range(at, 1), r->lanes, r->m);
    return at;
}

static weft_kval load_vector(reflections *r, weft_kval at, weft_kval mask) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval other = mask == WEFT_KNONE ? WEFT_KNONE : weft_k_splat(k, weft_k_float(k, r->s.work, 0), r->lanes);
    return weft_k_load(k, r->s.memory, at, r->lanes, mask, other);
}

/* Sum over rows from `from` on of the products of two columns. */
static weft_kval dot(reflections *r, weft_kval from, weft_kval x, weft_kval y) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval sum = weft_k_var(k, weft_k_splat(k, weft_k_float(k, r->s.work, 0), r->lanes)), mask;
    weft_kval i = each_vector(r, from, &mask);
    weft_kval left = load_vector(r, weft_k_add(k, x, i), mask), right = load_vector(r, weft_k_add(k, y, i), mask);
    weft_k_set(k, sum, weft_k_add(k, weft_k_get(k, sum), weft_k_mul(k, left, right)));
    weft_k_end(k);
    return weft_k_reduce(k, WEFT_K_reduce_add, weft_k_get(k, sum));
}

static weft_kval column_of(reflections *r, weft_kval start, weft_kval column) {
    weft_kernel *k = r->s.c.kernel;
    return weft_k_add(k, start, weft_k_mul(k, column, r->m));
}

static void fill(reflections *r, weft_kval batch) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    size_t mark = weft_index_mark(&r->s.c);
    weft_kval i = weft_k_for(k, zero, r->m, one, 0), j = weft_k_for(k, zero, r->n, one, 0);
    weft_solver_put(&r->s, weft_k_add(k, column_of(r, r->a, j), i), weft_solver_element(&r->s, 0, batch, i, j));
    weft_index_release(&r->s.c, mark);
    weft_k_end(k);
    weft_k_end(k);
    i = weft_k_for(k, zero, r->m, one, 0), j = weft_k_for(k, zero, r->k, one, 0);
    weft_solver_put(&r->s, weft_k_add(k, column_of(r, r->q, j), i),
                    weft_k_select(k, weft_k_eq(k, i, j), weft_k_float(k, r->s.work, 1), weft_k_float(k, r->s.work, 0)));
    weft_k_end(k);
    weft_k_end(k);
}

/* v[j], 1 at row j, and tau[j], so that I - tau v v^T maps column j of a, from row j on, to a multiple of the first
   unit vector; tau 0 where it is one already. */
static void make_reflector(reflections *r, weft_kval j) {
    weft_kernel *k = r->s.c.kernel;
    weft_dtype work = r->s.work;
    weft_kval zero = weft_k_float(k, work, 0), one = weft_k_float(k, work, 1);
    weft_kval column = column_of(r, r->a, j), v = column_of(r, r->v, j), below = weft_k_add(k, j, weft_k_index(k, 1));
    weft_kval norm = dot(r, below, column, column), alpha = weft_solver_load(&r->s, weft_k_add(k, column, j));
    weft_kval some = weft_k_ne(k, norm, zero);
    weft_kval root = weft_k_unary(k, WEFT_K_sqrt, weft_k_add(k, weft_k_mul(k, alpha, alpha), norm));
    weft_kval beta = weft_k_sub(k, zero, weft_k_binary(k, WEFT_K_copysign, root, alpha));
    weft_kval safe = weft_k_select(k, some, beta, one);
    weft_kval tau = weft_k_select(k, some, weft_k_div(k, weft_k_sub(k, safe, alpha), safe), zero);
    weft_kval scale = weft_k_select(k, some, weft_k_sub(k, alpha, safe), one), mask;
    weft_kval i = each_vector(r, below, &mask);
    weft_k_store(k, r->s.memory, weft_k_add(k, v, i), mask,
                 weft_k_div(k, load_vector(r, weft_k_add(k, column, i), mask), scale));
    weft_k_end(k);
    weft_solver_put(&r->s, weft_k_add(k, v, j), one);
    weft_solver_put(&r->s, weft_k_add(k, r->tau, j), tau);
}

/* Reflection j of columns [j, end) of the matrix at `start`. */
static void reflect(reflections *r, weft_kval j, weft_kval start, weft_kval end) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval v = column_of(r, r->v, j), tau = weft_solver_load(&r->s, weft_k_add(k, r->tau, j)), mask;
    weft_kval c = weft_k_for(k, j, end, weft_k_index(k, 1), 0), column = column_of(r, start, c);
    weft_kval share = weft_k_mul(k, tau, dot(r, j, v, column));
    weft_kval i = each_vector(r, j, &mask), at = weft_k_add(k, column, i);
    weft_kval away = weft_k_mul(k, share, load_vector(r, weft_k_add(k, v, i), mask));
    weft_k_store(k, r->s.memory, at, mask, weft_k_sub(k, load_vector(r, at, mask), away));
    weft_k_end(k);
    weft_k_end(k);
}

static void store_results(reflections *r, weft_kval batch) {
    weft_kernel *k = r->s.c.kernel;
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), nothing = weft_k_float(k, r->s.work, 0);
    size_t mark = weft_index_mark(&r->s.c);
    weft_kval i = weft_k_for(k, zero, r->m, one, 0), j = weft_k_for(k, zero, r->k, one, 0);
    weft_solver_store(&r->s, 0, batch, i, j, weft_solver_load(&r->s, weft_k_add(k, column_of(r, r->q, j), i)));
    weft_index_release(&r->s.c, mark);
    weft_k_end(k);
    weft_k_end(k);
    i = weft_k_for(k, zero, r->k, one, 0), j = weft_k_for(k, zero, r->n, one, 0);
    weft_kval value = weft_solver_load(&r->s, weft_k_add(k, column_of(r, r->a, j), i));
    weft_solver_store(&r->s, 1, batch, i, j, weft_k_select(k, weft_k_le(k, i, j), value, nothing));
    weft_index_release(&r->s.c, mark);
    weft_k_end(k);
    weft_k_end(k);
}

typedef struct sizes {
    weft_dim rows, columns, rank, count; /* count: matrices */
    weft_dim of_a, of_q, all;            /* elements of the temporary for one matrix */
} sizes;

static sizes sizes_of(const weft_build_request *request) {
    weft_dim_table *table = request->graph->dims;
    const weft_type *q = &request->fusion->results[0].type, *upper = &request->fusion->results[1].type;
    sizes z = {q->dims[q->rank - 2], upper->dims[upper->rank - 1], q->dims[q->rank - 1], 1, 0, 0, 0};
    for (int i = 0; i + 2 < q->rank; i++) z.count = weft_dim_multiply(table, z.count, q->dims[i]);
    z.of_a = weft_dim_multiply(table, z.rows, z.columns);
    z.of_q = weft_dim_multiply(table, z.rows, z.rank);
    z.all = weft_dim_add(table, weft_dim_add(table, z.of_a, weft_dim_multiply(table, z.of_q, 2)), z.rank);
    return z;
}

static void place(reflections *r, const sizes *z, weft_kval item) {
    weft_kernel *k = r->s.c.kernel;
    r->m = weft_k_extent(k, z->rows), r->n = weft_k_extent(k, z->columns), r->k = weft_k_extent(k, z->rank);
    r->a = weft_k_mul(k, item, weft_k_extent(k, z->all));
    r->v = weft_k_add(k, r->a, weft_k_extent(k, z->of_a));
    r->q = weft_k_add(k, r->v, weft_k_extent(k, z->of_q));
    r->tau = weft_k_add(k, r->q, weft_k_extent(k, z->of_q));
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (weft_fusion_is_empty(request)) return weft_plan_init(request, 0, 0, out_plan);
    reflections r = {.lanes = weft_capability_is_cpu(request->capability) ? request->capability->vector_bytes / 8 : 1};
    sizes z = sizes_of(request);
    weft_dim elements = weft_dim_multiply(request->graph->dims, z.count, z.all);
    WEFT_TRY(weft_solver_begin(request, out_plan, WEFT_OP_qr, elements, &r.s), "qr");
    weft_kernel *k = r.s.c.kernel;
    weft_items items = weft_items_begin(&r.s.c, z.count, 1);
    place(&r, &z, items.item);
    fill(&r, items.item);
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), j = weft_k_for(k, zero, r.k, one, 0);
    make_reflector(&r, j);
    reflect(&r, j, r.a, r.n);
    weft_k_end(k);
    weft_kval turn = weft_k_for(k, zero, r.k, one, 0);
    reflect(&r, weft_k_sub(k, weft_k_sub(k, r.k, one), turn), r.q, r.k);
    weft_k_end(k);
    store_results(&r, items.item);
    weft_items_end(&r.s.c, &items);
    return weft_solver_finish(&r.s, out_plan);
}

const weft_builder weft_builder_qr = {"qr", weft_single_accepts, weft_single_propose, build};
