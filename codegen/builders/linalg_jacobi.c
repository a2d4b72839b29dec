/* Builder "eigh" on GPUs: one block a matrix. A round of the tournament pairs every row with another one; rotations of
   different pairs touch different rows and columns, so that all of a round happen at once: first the angles, one thread
   a pair, then a becomes R' a R, one thread a block of two rows and two columns, and rows of v turn along. m - 1 rounds
   are a sweep that meets every pair once. a [m, m] and v [m, n] lie in shared memory where they fit, else in the
   temporary; m is n made even, the last row then zeros, which turn nothing. Invariant: between two barriers an element
   has one thread. Angles, ends and order of results as in linalg_eigen.c, which takes smaller matrices and extents that
   are symbols. Source: Golub and Van Loan, Matrix Computations, 4th edition, 8.5.4 and 8.5.6; Brent, Luk 1985. */
#include "codegen/builders/linalg.h"

#include <math.h>
#include <string.h>

/* of 1024 threads each has 64 registers on NVIDIA, a few too few in f64 */
enum { SWEEPS_MAX = 60, LEAST = 8, THREADS_LEAST = 64, THREADS_MOST = 512, SPARE_BYTES = 1024 };

typedef struct block {
    weft_solver s;
    int64_t n, m, pairs;
    int threads;
    weft_kval batch, thread;
    weft_kval a, a_from, v, v_from; /* memory and place of the first element */
    weft_kval turns, busy;          /* cosine and sine of a round's pairs; did a pair turn in this sweep */
    weft_kval sums, sign, order;    /* of threads; of eigenvectors; eigenvector of each place */
} block;

static weft_kval index_of(const block *b, int64_t value) { return weft_k_index(b->s.c.kernel, value); }

static weft_kval real(const block *b, double value) { return weft_k_float(b->s.c.kernel, b->s.work, value); }

/* The thread's share of `count` things. Close with weft_k_end. */
static weft_kval each(const block *b, int64_t count) {
    return weft_k_for(b->s.c.kernel, b->thread, index_of(b, count), index_of(b, b->threads), 0);
}

static weft_kval load(const block *b, weft_kval memory, weft_kval at) {
    return weft_k_load(b->s.c.kernel, memory, at, 1, WEFT_KNONE, WEFT_KNONE);
}

static void put(const block *b, weft_kval memory, weft_kval at, weft_kval value) {
    weft_k_store(b->s.c.kernel, memory, at, WEFT_KNONE, value);
}

static weft_kval a_at(const block *b, weft_kval i, weft_kval j) {
    weft_kernel *k = b->s.c.kernel;
    return weft_k_add(k, b->a_from, weft_k_add(k, weft_k_mul(k, i, index_of(b, b->m)), j));
}

static weft_kval v_at(const block *b, weft_kval i, weft_kval j) {
    weft_kernel *k = b->s.c.kernel;
    return weft_k_add(k, b->v_from, weft_k_add(k, weft_k_mul(k, i, index_of(b, b->n)), j));
}

/* -- before the first sweep */

static void fill(block *b) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval m = index_of(b, b->m), n = index_of(b, b->n), last = index_of(b, b->n - 1);
    size_t mark = weft_index_mark(&b->s.c);
    weft_kval at = each(b, b->m * b->m), i = weft_k_div(k, at, m), j = weft_k_rem(k, at, m);
    weft_kval low = weft_k_min(k, weft_k_max(k, i, j), last), high = weft_k_min(k, weft_k_min(k, i, j), last);
    weft_kval value = weft_solver_element(&b->s, 0, b->batch, low, high);
    weft_kval inside = weft_k_and(k, weft_k_lt(k, i, n), weft_k_lt(k, j, n));
    put(b, b->a, weft_k_add(k, b->a_from, at), weft_k_select(k, inside, value, real(b, 0)));
    weft_index_release(&b->s.c, mark);
    weft_k_end(k);
    at = each(b, b->m * b->n);
    weft_kval unit = weft_k_eq(k, weft_k_div(k, at, n), weft_k_rem(k, at, n));
    put(b, b->v, weft_k_add(k, b->v_from, at), weft_k_select(k, unit, real(b, 1), real(b, 0)));
    weft_k_end(k);
}

/* The largest |a[p][q]| that may stay: all of them together are then below the share of the matrix's norm at which
   linalg_eigen.c ends, as the sum of all |a[i][j]| is at most m norms. NaN when there is one. */
static weft_kval find_bound(block *b) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval sum = weft_k_var(k, real(b, 0));
    weft_kval at = each(b, b->m * b->m), x = load(b, b->a, weft_k_add(k, b->a_from, at));
    weft_k_set(k, sum, weft_k_add(k, weft_k_get(k, sum), weft_k_unary(k, WEFT_K_abs, x)));
    weft_k_end(k);
    put(b, b->sums, b->thread, weft_k_get(k, sum));
    for (int half = b->threads / 2; half > 0; half /= 2) {
        weft_k_barrier(k);
        weft_k_if(k, weft_k_lt(k, b->thread, index_of(b, half)));
        weft_kval other = load(b, b->sums, weft_k_add(k, b->thread, index_of(b, half)));
        put(b, b->sums, b->thread, weft_k_add(k, load(b, b->sums, b->thread), other));
        weft_k_end(k);
    }
    weft_k_barrier(k);
    double enough = b->s.work == WEFT_F64 ? 1e-17 : 3e-8;
    return weft_k_mul(k, load(b, b->sums, index_of(b, 0)), real(b, enough / (double)(b->m * b->m)));
}

/* -- a sweep */

/* Pair `pair` of round `round`, *out_p < *out_q: row m - 1 stays, the others go around. */
static void find_pair(const block *b, weft_kval round, weft_kval pair, weft_kval *out_p, weft_kval *out_q) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval ring = index_of(b, b->m - 1);
    weft_kval ahead = weft_k_add(k, round, pair), behind = weft_k_sub(k, round, pair);
    weft_kval p = weft_k_select(k, weft_k_lt(k, ahead, ring), ahead, weft_k_sub(k, ahead, ring));
    weft_kval q = weft_k_select(k, weft_k_lt(k, behind, index_of(b, 0)), weft_k_add(k, behind, ring), behind);
    p = weft_k_select(k, weft_k_eq(k, pair, index_of(b, 0)), ring, p);
    *out_p = weft_k_min(k, p, q), *out_q = weft_k_max(k, p, q);
}

/* Cosine and sine that make a[p][q] vanish, 1 and 0 where it is small enough. */
static void find_turns(block *b, weft_kval round, weft_kval bound) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval pair = each(b, b->pairs), p, q, one = real(b, 1);
    find_pair(b, round, pair, &p, &q);
    weft_kval apq = load(b, b->a, a_at(b, p, q)), app = load(b, b->a, a_at(b, p, p)),
              aqq = load(b, b->a, a_at(b, q, q));
    weft_kval c = weft_k_var(k, one), s = weft_k_var(k, real(b, 0));
    weft_k_if(k, weft_k_lt(k, bound, weft_k_unary(k, WEFT_K_abs, apq)));
    weft_kval theta = weft_k_div(k, weft_k_sub(k, aqq, app), weft_k_mul(k, apq, real(b, 2)));
    weft_kval root = weft_k_unary(k, WEFT_K_sqrt, weft_k_add(k, weft_k_mul(k, theta, theta), one));
    weft_kval t = weft_k_div(k, weft_k_binary(k, WEFT_K_copysign, one, theta),
                             weft_k_add(k, weft_k_unary(k, WEFT_K_abs, theta), root));
    weft_k_set(k, c, weft_k_div(k, one, weft_k_unary(k, WEFT_K_sqrt, weft_k_add(k, weft_k_mul(k, t, t), one))));
    weft_k_set(k, s, weft_k_mul(k, t, weft_k_get(k, c)));
    put(b, b->busy, pair, index_of(b, 1));
    weft_k_end(k);
    weft_kval twice = weft_k_add(k, pair, pair);
    put(b, b->turns, twice, weft_k_get(k, c));
    put(b, b->turns, weft_k_add(k, twice, index_of(b, 1)), weft_k_get(k, s));
    weft_k_end(k);
}

typedef struct turn {
    weft_kval p, q, c, s;
} turn;

static turn load_turn(const block *b, weft_kval round, weft_kval pair) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval twice = weft_k_add(k, pair, pair);
    turn t = {.c = load(b, b->turns, twice), .s = load(b, b->turns, weft_k_add(k, twice, index_of(b, 1)))};
    find_pair(b, round, pair, &t.p, &t.q);
    return t;
}

/* (x, y) -> (c x - s y, s x + c y) */
static void rotate(const block *b, const turn *t, weft_kval *x, weft_kval *y) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval first = weft_k_sub(k, weft_k_mul(k, t->c, *x), weft_k_mul(k, t->s, *y));
    *y = weft_k_add(k, weft_k_mul(k, t->s, *x), weft_k_mul(k, t->c, *y));
    *x = first;
}

static weft_kval turns_at_all(const block *b, const turn *t) { return weft_k_ne(b->s.c.kernel, t->s, real(b, 0)); }

/* Rows of one pair and columns of another: four elements. On the diagonal the result is known better. */
static void turn_matrix(block *b, weft_kval round) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval count = index_of(b, b->pairs), at = each(b, b->pairs * b->pairs);
    weft_kval pair_i = weft_k_div(k, at, count), pair_j = weft_k_rem(k, at, count);
    turn i = load_turn(b, round, pair_i), j = load_turn(b, round, pair_j);
    weft_k_if(k, weft_k_or(k, turns_at_all(b, &i), turns_at_all(b, &j)));
    weft_kval places[4] = {a_at(b, i.p, j.p), a_at(b, i.p, j.q), a_at(b, i.q, j.p), a_at(b, i.q, j.q)}, x[4], y[4];
    for (int e = 0; e < 4; e++) y[e] = x[e] = load(b, b->a, places[e]);
    rotate(b, &i, &y[0], &y[2]);
    rotate(b, &i, &y[1], &y[3]);
    rotate(b, &j, &y[0], &y[1]);
    rotate(b, &j, &y[2], &y[3]);
    weft_kval shift = weft_k_mul(k, weft_k_div(k, i.s, i.c), x[1]), same = weft_k_eq(k, pair_i, pair_j);
    weft_kval exact[4] = {weft_k_sub(k, x[0], shift), real(b, 0), real(b, 0), weft_k_add(k, x[3], shift)};
    for (int e = 0; e < 4; e++) put(b, b->a, places[e], weft_k_select(k, same, exact[e], y[e]));
    weft_k_end(k);
    weft_k_end(k);
}

static void turn_vectors(block *b, weft_kval round) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval n = index_of(b, b->n), at = each(b, b->pairs * b->n), column = weft_k_rem(k, at, n);
    turn t = load_turn(b, round, weft_k_div(k, at, n));
    weft_k_if(k, turns_at_all(b, &t));
    weft_kval at_p = v_at(b, t.p, column), at_q = v_at(b, t.q, column);
    weft_kval x = load(b, b->v, at_p), y = load(b, b->v, at_q);
    rotate(b, &t, &x, &y);
    put(b, b->v, at_p, x);
    put(b, b->v, at_q, y);
    weft_k_end(k);
    weft_k_end(k);
}

/* busy[0] tells whether any pair turned; one thread looks. */
static void gather_busy(block *b) {
    weft_kernel *k = b->s.c.kernel;
    weft_k_if(k, weft_k_eq(k, b->thread, index_of(b, 0)));
    weft_kval any = weft_k_var(k, index_of(b, 0));
    weft_kval pair = weft_k_for(k, index_of(b, 0), index_of(b, b->pairs), index_of(b, 1), 0);
    weft_k_set(k, any, weft_k_max(k, weft_k_get(k, any), load(b, b->busy, pair)));
    weft_k_end(k);
    put(b, b->busy, index_of(b, 0), weft_k_get(k, any));
    weft_k_end(k);
}

/* Until no pair turns. WGSL lets no value from memory decide whether a barrier is met: there a few more sweeps run,
   which turn nothing. */
static void sweep_until_done(block *b) {
    weft_kernel *k = b->s.c.kernel;
    bool decides = strcmp(k->capability->target, "webgpu") != 0;
    weft_kval bound = find_bound(b), sweep = weft_k_var(k, index_of(b, 0)), more = weft_k_var(k, index_of(b, 1));
    weft_k_while(k);
    weft_kval wanted = weft_k_lt(k, weft_k_get(k, sweep), index_of(b, decides ? SWEEPS_MAX : SWEEPS_MAX / 4));
    if (decides) wanted = weft_k_and(k, wanted, weft_k_ne(k, weft_k_get(k, more), index_of(b, 0)));
    weft_k_test(k, wanted);
    weft_k_set(k, sweep, weft_k_add(k, weft_k_get(k, sweep), index_of(b, 1)));
    weft_kval pair = each(b, b->pairs);
    put(b, b->busy, pair, index_of(b, 0));
    weft_k_end(k);
    weft_k_barrier(k);
    weft_kval round = weft_k_for(k, index_of(b, 0), index_of(b, b->m - 1), index_of(b, 1), 0);
    find_turns(b, round, bound);
    weft_k_barrier(k);
    turn_matrix(b, round);
    turn_vectors(b, round);
    weft_k_barrier(k);
    weft_k_end(k);
    gather_busy(b);
    weft_k_barrier(k);
    if (decides) weft_k_set(k, more, load(b, b->busy, index_of(b, 0)));
    weft_k_barrier(k);
    weft_k_end(k);
}

/* -- results */

/* Does eigenvalue j come before eigenvalue i? Equal ones keep their order, NaNs come last. */
static weft_kval comes_before(block *b, weft_kval j, weft_kval i, weft_kval x, weft_kval y) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval j_number = weft_k_eq(k, x, x), i_number = weft_k_eq(k, y, y);
    weft_kval less = weft_k_or(k, weft_k_lt(k, x, y), weft_k_and(k, j_number, weft_k_ne(k, y, y)));
    weft_kval nans = weft_k_and(k, weft_k_ne(k, x, x), weft_k_ne(k, y, y));
    weft_kval equal = weft_k_or(k, weft_k_and(k, weft_k_and(k, j_number, i_number), weft_k_eq(k, x, y)), nans);
    return weft_k_or(k, less, weft_k_and(k, equal, weft_k_lt(k, j, i)));
}

static void place(block *b) {
    weft_kernel *k = b->s.c.kernel;
    weft_kval zero = index_of(b, 0), one = index_of(b, 1), n = index_of(b, b->n);
    size_t mark = weft_index_mark(&b->s.c);
    weft_kval i = each(b, b->n), value = load(b, b->a, a_at(b, i, i));
    weft_kval at = weft_k_var(k, zero), sign = weft_k_var(k, real(b, 0)), j = weft_k_for(k, zero, n, one, 0);
    weft_kval first = comes_before(b, j, i, load(b, b->a, a_at(b, j, j)), value);
    weft_k_set(k, at, weft_k_add(k, weft_k_get(k, at), weft_k_select(k, first, one, zero)));
    weft_solver_find_sign(&b->s, sign, load(b, b->v, v_at(b, i, j)), real(b, WEFT_SOLVER_SIGN / sqrt((double)b->n)));
    weft_k_end(k);
    put(b, b->sign, i, weft_k_get(k, sign));
    put(b, b->order, weft_k_get(k, at), i);
    weft_solver_store(&b->s, 0, b->batch, weft_k_get(k, at), WEFT_KNONE, value);
    weft_index_release(&b->s.c, mark);
    weft_k_end(k);
    weft_k_barrier(k);
    mark = weft_index_mark(&b->s.c);
    weft_kval element = each(b, b->n * b->n), row = weft_k_div(k, element, n), column = weft_k_rem(k, element, n);
    weft_kval from = load(b, b->order, column);
    weft_kval x = weft_k_mul(k, load(b, b->v, v_at(b, from, row)), load(b, b->sign, from));
    weft_solver_store(&b->s, 1, b->batch, row, column, x);
    weft_index_release(&b->s.c, mark);
    weft_k_end(k);
}

/* -- the builder */

/* What of a and v shared memory holds, by its bytes: 2 both, 1 a, 0 neither. */
static int held(const block *b, const weft_capability *capability) {
    int64_t bytes = weft_dtype_bits(capability->f64 ? WEFT_F64 : WEFT_F32) / 8, a = b->m * b->m, v = b->m * b->n;
    int64_t room = (capability->shared_bytes - SPARE_BYTES) / bytes - 6 * b->m - b->threads;
    return a + v <= room ? 2 : a <= room;
}

static void measure(const weft_node *fusion, const weft_capability *capability, block *b) {
    const weft_type *type = &fusion->results[1].type;
    b->n = weft_dim_is_number(type->dims[type->rank - 1]) ? type->dims[type->rank - 1] : 0;
    b->m = b->n + b->n % 2, b->pairs = b->m / 2, b->threads = THREADS_LEAST;
    while (2 * b->threads <= capability->threads_max && 2 * b->threads <= THREADS_MOST &&
           2 * b->threads <= b->pairs * b->pairs)
        b->threads *= 2;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    enum { N_MAX = 1 << 14 };
    if (!weft_single_accepts(graph, fusion, capability, out_reason)) return false;
    block b = {0};
    if (capability->threads_max < THREADS_LEAST || fusion->result_count != 2) return *out_reason = NULL, false;
    measure(fusion, capability, &b);
    if (b.n < LEAST || b.n > N_MAX) return *out_reason = "matrices are small, or their extent is a symbol", false;
    int64_t bytes = capability->f64 ? 8 : 4;
    if ((6 * b.m + b.threads) * bytes + SPARE_BYTES > capability->shared_bytes)
        return *out_reason = "shared memory does not hold the rotations of a round", false;
    return true;
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    if (weft_fusion_is_empty(request)) return weft_plan_init(request, 0, 0, out_plan);
    weft_dim_table *table = request->graph->dims;
    block b = {0};
    measure(request->fusion, request->capability, &b);
    int shared = held(&b, request->capability);
    int64_t outside = (shared < 1 ? b.m * b.m : 0) + (shared < 2 ? b.m * b.n : 0);
    const weft_type *type = &request->fusion->results[0].type;
    weft_dim batch = 1;
    for (int i = 0; i + 1 < type->rank; i++) batch = weft_dim_multiply(table, batch, type->dims[i]);
    WEFT_TRY(weft_solver_begin(request, out_plan, WEFT_OP_eigh, weft_dim_multiply(table, batch, outside), &b.s),
             "eigh");
    weft_kernel *k = b.s.c.kernel;
    weft_dtype index = request->capability->index_dtype;
    k->threads = b.threads, k->grid = batch;
    b.batch = weft_k_block(k), b.thread = weft_k_thread(k);
    weft_kval base = weft_k_mul(k, b.batch, index_of(&b, outside));
    b.a = shared >= 1 ? weft_k_shared(k, b.s.work, b.m * b.m) : b.s.memory;
    b.v = shared >= 2 ? weft_k_shared(k, b.s.work, b.m * b.n) : b.s.memory;
    b.a_from = shared >= 1 ? index_of(&b, 0) : base;
    b.v_from = shared >= 2 ? index_of(&b, 0) : shared >= 1 ? base : weft_k_add(k, base, index_of(&b, b.m * b.m));
    b.turns = weft_k_shared(k, b.s.work, b.m), b.busy = weft_k_shared(k, index, b.pairs);
    b.sums = weft_k_shared(k, b.s.work, b.threads), b.sign = weft_k_shared(k, b.s.work, b.n);
    b.order = weft_k_shared(k, index, b.n);
    fill(&b);
    weft_k_barrier(k);
    sweep_until_done(&b);
    place(&b);
    return weft_solver_finish(&b.s, out_plan);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)capacity;
    return weft_propose_default(request, "eigh-block", out_schedules);
}

const weft_builder weft_builder_eigh_block = {"eigh", accepts, propose, build};
