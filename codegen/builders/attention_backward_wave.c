/* attention_backward for AMD's matrix units, after FlashAttention-2 (Dao 2023), in three kernels and a fixed order of
   sums: prepare (statistics of rows, attention_backward_hopper_rows.c), queries (dQ), keys (dK, dV). What
   attention_wave.c accepts; on RDNA, whose registers are fewer, head dims up to 64.

   Both kernels are one, with sides exchanged: a block owns 128 rows, a lane one of them, and walks tiles of the other
   side's rows. X, Y: the other side; x, y: own rows.

                queries                    keys
       x, y     Q, dO                      K, V
       X, Y     K, V                       Q, dO
       P        exp(X x - lse)             the same
       dS       P (Y y - delta)            the same
       sums     dQ += X' dS                dK += X' dS, dV += Y' P

   A lane's scores are of its own row, so statistics are a value of the lane for queries and come from shared memory for
   keys. The kernel of keys walks the queries of all heads of its group. Letters: T queries, S keys, D head dim, G query
   heads of a key head. Read next: attention_wave_tile.h. */
#include <math.h>

#include "codegen/builders/attention_backward_hopper.h"
#include "codegen/builders/attention_wave.h"
#include "codegen/builders/attention_wave_tile.h"

enum { OWN = WEFT_WAVE_OWN, PAD = WEFT_WAVE_PAD, DEPTH = WEFT_WAVE_DEPTH };

typedef struct backward {
    weft_backward b; /* operands, results, temporaries; kernel under construction */
    weft_wave_tile t;
    bool keys; /* which of the two kernels */
    int rows;  /* of a tile of the other side */
    weft_wave_block x, y;
    weft_kval x_own, y_own;   /* registers: the lane's rows as operands */
    weft_kval first_own, row; /* of the block; of the lane, clamped to the last */
    weft_kval own_head, query_head, key_head;
    weft_kval p_regs, ds_regs;                                /* X x, then P; Y y, then dS */
    weft_kval x_sums, y_sums;                                 /* of X' dS; of Y' P */
    weft_kval lse, delta;                                     /* of queries: values; of keys: shared arrays */
    weft_kval lse_memory, delta_memory, lse_word, delta_word; /* keys: what a thread has of the next tile */
} backward;

static weft_kval constant(const backward *a, int64_t value) { return weft_k_index(a->b.k, value); }

static const weft_node *find_node(const weft_node *fusion) {
    return weft_fusion_find(fusion, WEFT_OP_attention_backward);
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    const weft_node *node = find_node(fusion);
    *out_reason = "no attention_backward in the group";
    if (!node || !weft_attention_wave_claims(graph, node, capability, out_reason)) return false;
    *out_reason = "the log-sum-exp is computed in the group";
    if (node->operands[WEFT_BACKWARD_LSE]->node || !weft_attention_reaches(graph, fusion, node, 4, out_reason) ||
        !weft_attention_memory(graph, node->operands[WEFT_BACKWARD_DO], &(weft_head_view){0}))
        return false;
    *out_reason = "positions need more than 31 bits";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)request;
    if (capacity < 1) return 0;
    out_schedules[0] =
        (weft_schedule){.builder = "attention-backward-wave", .tile_m = OWN, .threads = WEFT_WAVE_THREADS};
    return 1;
}

/* Rows of a tile, as registers permit: sums of D columns are two sets for keys, one for queries. */
static int tile_rows(const backward *a) {
    bool few = a->t.unit->lanes == 32 || (a->keys && a->t.width == 128);
    return few ? 32 : 64;
}

/* -- scores, weights, their gradient */

/* The values of one sum: a score's query and key. */
static void place_score(const backward *a, weft_kval first, int n, int i, weft_kval *out_query, weft_kval *out_key) {
    weft_kval other = weft_wave_tile_row(&a->t, first, n, i);
    *out_query = a->keys ? other : a->row;
    *out_key = a->keys ? a->row : other;
}

static weft_kval statistic(const backward *a, weft_kval own, int n, int i) {
    if (!a->keys) return own;
    return weft_k_load(a->b.k, own, weft_wave_tile_row(&a->t, constant(a, 0), n, i), 1, WEFT_KNONE, WEFT_KNONE);
}

/* p_regs: P of scores; ds_regs: dS. hides: some place of this tile may be hidden by its position. */
static void weigh(backward *a, weft_kval first, bool hides) {
    weft_kernel *k = a->b.k;
    weft_attention_forms *forms = &a->b.forms;
    weft_kval factor = weft_k_f32(k, weft_attention_factor(forms)), zero = weft_k_f32(k, 0);
    for (int n = 0; n < weft_wave_tiles(&a->t, a->rows); n++) {
        weft_kval p = weft_k_reg(k, a->p_regs, n), ds = weft_k_reg(k, a->ds_regs, n);
        for (int i = 0; i < a->t.unit->sums; i++) {
            weft_kval query, key, slope;
            size_t mark = weft_index_mark(&forms->index);
            place_score(a, first, n, i, &query, &key);
            weft_kval score =
                weft_attention_form_score(forms, weft_k_extract(k, p, i), a->query_head, query, key, &slope);
            weft_kval below = weft_k_unary(k, WEFT_K_neg, statistic(a, a->lse, n, i));
            weft_kval weight = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, score, factor, below));
            if (hides) {
                weft_kval seen = weft_k_lt(k, key, weft_attention_end_key(forms, query));
                if (forms->left >= 0)
                    seen = weft_k_and(k, seen, weft_k_le(k, weft_attention_first_key(forms, query), key));
                weight = weft_k_select(k, seen, weight, zero);
            }
            weft_kval change = weft_k_sub(k, weft_k_extract(k, ds, i), statistic(a, a->delta, n, i));
            change = weft_k_mul(k, weight, change);
            if (slope != WEFT_KNONE) change = weft_k_mul(k, change, slope);
            p = weft_k_insert(k, p, i, weight), ds = weft_k_insert(k, ds, i, change);
            weft_index_release(&forms->index, mark);
        }
        weft_k_set_reg(k, a->p_regs, n, p);
        weft_k_set_reg(k, a->ds_regs, n, ds);
    }
}

/* May a place of the tile from `first` on be hidden from the block's own rows? Queries of a tile of keys do not reach
   past the end, whose rows have weight 0; keys of the block past the end are not stored. */
static weft_kval has_hidden(const backward *a, weft_kval first) {
    weft_kernel *k = a->b.k;
    const weft_attention_forms *forms = &a->b.forms;
    weft_kval query = a->keys ? first : a->first_own, key = a->keys ? a->first_own : first;
    int queries = a->keys ? a->rows : OWN, keys = a->keys ? OWN : a->rows;
    weft_kval hidden = weft_k_lt(k, weft_attention_end_key(forms, query), weft_k_plus(k, key, keys));
    if (forms->left < 0) return hidden;
    weft_kval last = weft_k_plus(k, query, queries - 1);
    return weft_k_or(k, hidden, weft_k_lt(k, key, weft_attention_first_key(forms, last)));
}

static bool may_hide(const backward *a) {
    return weft_attention_windowed(&a->b.forms) ||
           (!a->keys && weft_dim_divisor(a->b.k->dims, a->b.keys) % a->rows != 0);
}

/* -- a tile */

static void multiply_tile(void *of, weft_kval first) {
    backward *a = of;
    weft_kernel *k = a->b.k;
    weft_wave_multiply(&a->t, a->p_regs, a->rows, a->x.plain, a->x_own);
    weft_wave_multiply(&a->t, a->ds_regs, a->rows, a->y.plain, a->y_own);
    if (may_hide(a)) {
        weft_k_if(k, has_hidden(a, first));
        weigh(a, first, true);
        weft_k_else(k);
        weigh(a, first, false);
        weft_k_end(k);
    } else {
        weigh(a, first, false);
    }
    for (int u = 0; u < a->rows / DEPTH; u++) {
        weft_wave_pack(&a->t, a->ds_regs, u);
        for (int n = 0; n < weft_wave_tiles(&a->t, a->t.width); n++) {
            weft_wave_columns(&a->t, &a->x, n, u);
            weft_wave_product(&a->t, a->x_sums, n, a->t.b_regs, 0);
        }
        if (!a->keys) continue;
        weft_wave_pack(&a->t, a->p_regs, u);
        for (int n = 0; n < weft_wave_tiles(&a->t, a->t.width); n++) {
            weft_wave_columns(&a->t, &a->y, n, u);
            weft_wave_product(&a->t, a->y_sums, n, a->t.b_regs, 0);
        }
    }
}

static weft_kval other_head(const backward *a) { return a->keys ? a->query_head : a->key_head; }

/* Statistics are padded to whole tiles of 128 rows a head. */
static void fetch(void *of, weft_kval first) {
    const backward *a = of;
    weft_kernel *k = a->b.k;
    weft_wave_block_fetch(&a->t, &a->x, other_head(a), first);
    weft_wave_block_fetch(&a->t, &a->y, other_head(a), first);
    if (!a->keys) return;
    weft_kval rows = weft_k_extent(k, a->b.rows), own = weft_k_min(k, a->t.thread, constant(a, a->rows - 1));
    weft_kval row = weft_k_min(k, weft_k_add(k, first, own), weft_k_plus(k, rows, -1)); /* of a walk of no tiles */
    weft_kval at = weft_k_add(k, weft_k_mul(k, a->query_head, rows), row);
    weft_k_set(k, a->lse_word, weft_k_load(k, a->lse_memory, at, 1, WEFT_KNONE, WEFT_KNONE));
    weft_k_set(k, a->delta_word, weft_k_load(k, a->delta_memory, at, 1, WEFT_KNONE, WEFT_KNONE));
}

static void keep(void *of) {
    const backward *a = of;
    weft_kernel *k = a->b.k;
    weft_wave_block_keep(&a->t, &a->x);
    weft_wave_block_keep(&a->t, &a->y);
    if (!a->keys) return;
    weft_k_if(k, weft_k_lt(k, a->t.thread, constant(a, a->rows)));
    weft_k_store(k, a->lse, a->t.thread, WEFT_KNONE, weft_k_get(k, a->lse_word));
    weft_k_store(k, a->delta, a->t.thread, WEFT_KNONE, weft_k_get(k, a->delta_word));
    weft_k_end(k);
}

static void walk(backward *a, weft_kval start, weft_kval end) {
    weft_wave_walk_emit(&(weft_wave_walk){a, fetch, keep, multiply_tile}, a->b.k, start, end, a->rows);
}

static weft_kval tiles_up_to(const backward *a, weft_kval row) {
    return weft_k_div(a->b.k, weft_k_plus(a->b.k, row, a->rows - 1), constant(a, a->rows));
}

/* Tiles of keys that queries of the block see. */
static void walk_keys(backward *a) {
    weft_kernel *k = a->b.k;
    const weft_attention_forms *forms = &a->b.forms;
    weft_kval end = tiles_up_to(a, weft_attention_end_key(forms, weft_k_plus(k, a->first_own, OWN - 1)));
    weft_kval start = constant(a, 0);
    if (forms->left >= 0)
        start = weft_k_min(k, end, weft_k_div(k, weft_attention_first_key(forms, a->first_own), constant(a, a->rows)));
    walk(a, start, end);
}

/* Tiles of queries that see keys of the block, of all heads of the group. Query i sees keys from i + S - T - left to
   i + S - T + right. */
static void walk_queries(backward *a) {
    weft_kernel *k = a->b.k;
    const weft_attention_forms *forms = &a->b.forms;
    weft_kval zero = constant(a, 0), queries = weft_k_extent(k, a->b.queries), group = weft_k_extent(k, a->b.group);
    weft_kval start = zero, last = queries;
    if (forms->right >= 0) {
        weft_kval from = weft_k_sub(k, a->first_own, weft_k_plus(k, forms->offset, forms->right));
        start = weft_k_div(k, weft_k_min(k, queries, weft_k_max(k, zero, from)), constant(a, a->rows));
    }
    if (forms->left >= 0) {
        weft_kval behind = weft_k_sub(k, weft_k_plus(k, a->first_own, OWN + forms->left), forms->offset);
        last = weft_k_min(k, queries, weft_k_max(k, zero, behind));
    }
    weft_kval end = tiles_up_to(a, last);
    weft_kval g = weft_k_for(k, zero, group, constant(a, 1), 0);
    a->query_head = weft_k_add(k, weft_k_mul(k, a->own_head, group), g);
    walk(a, start, end);
    weft_k_end(k);
}

/* -- the kernels */

static void clear(const backward *a, weft_kval sums) {
    for (int n = 0; n < weft_wave_tiles(&a->t, a->t.width); n++)
        weft_k_set_reg(a->b.k, sums, n, weft_k_constant_lanes(a->b.k, WEFT_F32, 0, a->t.unit->sums));
}

/* Head and first own row of the block: longest first where later queries see more keys. */
static void place_block(backward *a, weft_dim own, weft_dim heads) {
    weft_kernel *k = a->b.k;
    weft_dim tiles = weft_dim_divide_ceil(k->dims, own, OWN);
    weft_kval block = weft_k_block(k), all = weft_k_extent(k, heads), turn = weft_k_div(k, block, all);
    k->grid = weft_dim_multiply(k->dims, tiles, heads);
    a->own_head = weft_k_rem(k, block, all);
    if (!a->keys) turn = weft_k_sub(k, weft_k_extent(k, tiles), weft_k_plus(k, turn, 1));
    a->first_own = weft_k_times(k, turn, OWN);
    a->key_head = a->keys ? a->own_head : weft_k_div(k, a->own_head, weft_k_extent(k, a->b.group));
    a->query_head = a->own_head;
    a->b.forms.s = weft_k_extent(k, a->b.keys);
    a->b.forms.offset = weft_k_sub(k, a->b.forms.s, weft_k_extent(k, a->b.queries));
}

static void make_registers(backward *a) {
    weft_kernel *k = a->b.k;
    const weft_wave_tile *t = &a->t;
    int steps = t->width / DEPTH * t->unit->parts, sums = t->unit->sums, tiles = weft_wave_tiles(t, t->width);
    weft_wave_block_init(t, &a->x, a->rows, true, true);
    weft_wave_block_init(t, &a->y, a->rows, true, a->keys);
    a->x_own = weft_k_regs(k, t->dtype, WEFT_WAVE_LANES, steps);
    a->y_own = weft_k_regs(k, t->dtype, WEFT_WAVE_LANES, steps);
    a->p_regs = weft_k_regs(k, WEFT_F32, sums, weft_wave_tiles(t, a->rows));
    a->ds_regs = weft_k_regs(k, WEFT_F32, sums, weft_wave_tiles(t, a->rows));
    a->x_sums = weft_k_regs(k, WEFT_F32, sums, tiles);
    clear(a, a->x_sums);
    if (!a->keys) return;
    a->y_sums = weft_k_regs(k, WEFT_F32, sums, tiles);
    clear(a, a->y_sums);
    a->lse = weft_k_shared(k, WEFT_F32, a->rows), a->delta = weft_k_shared(k, WEFT_F32, a->rows);
    a->lse_word = weft_k_var(k, weft_k_f32(k, 0)), a->delta_word = weft_k_var(k, weft_k_f32(k, 0));
}

/* For queries: the lane's own statistics. */
static void load_statistics(backward *a) {
    weft_kernel *k = a->b.k;
    weft_kval at =
        weft_k_add(k, weft_k_mul(k, a->query_head, weft_k_extent(k, a->b.rows)), weft_k_add(k, a->first_own, a->t.own));
    a->lse = weft_k_load(k, a->lse_memory, at, 1, WEFT_KNONE, WEFT_KNONE);
    a->delta = weft_k_load(k, a->delta_memory, at, 1, WEFT_KNONE, WEFT_KNONE);
}

static void emit(backward *a) {
    static const struct {
        int x_own, y_own, x, y, x_sums, y_sums;
        const char *names[6];
    } sides[2] = {{WEFT_BACKWARD_Q,
                   WEFT_BACKWARD_DO,
                   WEFT_BACKWARD_K,
                   WEFT_BACKWARD_V,
                   WEFT_BACKWARD_DQ,
                   -1,
                   {"q", "do", "k", "v", "dq", ""}},
                  {WEFT_BACKWARD_K,
                   WEFT_BACKWARD_V,
                   WEFT_BACKWARD_Q,
                   WEFT_BACKWARD_DO,
                   WEFT_BACKWARD_DK,
                   WEFT_BACKWARD_DV,
                   {"k", "v", "q", "do", "dk", "dv"}}};
    weft_kernel *k = a->b.k;
    weft_backward *b = &a->b;
    int which = a->keys;
    weft_kval x_own, y_own, x_out, y_out = WEFT_KNONE;
    weft_attention_side x_side = weft_backward_lines_in(b, sides[which].x_own, sides[which].names[0], &x_own),
                        y_side = weft_backward_lines_in(b, sides[which].y_own, sides[which].names[1], &y_own), x_to,
                        y_to;
    a->x.side = weft_backward_lines_in(b, sides[which].x, sides[which].names[2], &a->x.buffer);
    a->y.side = weft_backward_lines_in(b, sides[which].y, sides[which].names[3], &a->y.buffer);
    a->lse_memory = weft_backward_temp(b, WEFT_BACKWARD_LSE2, WEFT_F32, false, "lse2");
    a->delta_memory = weft_backward_temp(b, WEFT_BACKWARD_DELTA, WEFT_F32, false, "delta");
    x_to = weft_backward_lines_out(b, sides[which].x_sums, sides[which].names[4], &x_out);
    if (a->keys) y_to = weft_backward_lines_out(b, sides[which].y_sums, sides[which].names[5], &y_out);
    weft_wave_tile_start(&a->t, k);
    place_block(a, x_side.rows, a->keys ? b->key_heads : b->heads);
    make_registers(a);
    weft_kval extent = weft_k_extent(k, x_side.rows), own = weft_k_add(k, a->first_own, a->t.own);
    a->row = weft_k_min(k, own, weft_k_plus(k, extent, -1));
    weft_wave_own(&a->t, a->x_own, x_own, weft_wave_line(&a->t, &x_side, a->own_head, a->row));
    weft_wave_own(&a->t, a->y_own, y_own, weft_wave_line(&a->t, &y_side, a->own_head, a->row));
    if (a->keys) {
        walk_queries(a);
    } else {
        load_statistics(a);
        walk_keys(a);
    }
    weft_kval exists = weft_k_lt(k, own, extent);
    weft_wave_store(&a->t, a->x_sums, weft_k_f32(k, b->forms.scale), x_out,
                    weft_wave_line(&a->t, &x_to, a->own_head, a->row), exists);
    if (a->keys)
        weft_wave_store(&a->t, a->y_sums, weft_k_f32(k, 1), y_out, weft_wave_line(&a->t, &y_to, a->own_head, a->row),
                        exists);
}

/* -- the plan */

static weft_status add_kernel(backward *a, int launch, const char *suffix) {
    const weft_build_request *request = a->b.request;
    a->b.k = weft_plan_kernel(request, suffix);
    if (!a->b.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    if (launch == 0) {
        weft_backward_prepare(&a->b);
        return weft_plan_set(request, a->b.plan, launch, a->b.k);
    }
    WEFT_TRY(weft_attention_forms_declare(&a->b.forms, a->b.k), "building %s", request->name);
    a->keys = launch == 2;
    a->rows = tile_rows(a);
    emit(a);
    WEFT_TRY(weft_index_finish(&a->b.forms.index), "building %s", request->name);
    return weft_plan_set(request, a->b.plan, launch, a->b.k);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_node *node = find_node(request->fusion);
    const weft_type *q = weft_operand_type(node, WEFT_BACKWARD_Q), *keys = weft_operand_type(node, WEFT_BACKWARD_K);
    weft_dim_table *dims = request->graph->dims;
    backward a = {.b = {.request = request,
                        .node = node,
                        .plan = out_plan,
                        .dtype = q->dtype,
                        .queries = q->dims[2],
                        .keys = keys->dims[2],
                        .heads = weft_dim_multiply(dims, q->dims[0], q->dims[1]),
                        .key_heads = weft_dim_multiply(dims, keys->dims[0], keys->dims[1]),
                        .columns = (int)q->dims[3],
                        .width = q->dims[3] <= 64 ? 64 : 128,
                        .bm = OWN}};
    if (!weft_wave_tile_init(&a.t, request->capability, q->dtype, a.b.columns) ||
        !weft_dim_divide_exact(dims, q->dims[1], keys->dims[1], &a.b.group))
        return WEFT_STATUS(WEFT_INTERNAL, "attention-backward-wave: heads or unit");
    weft_attention_forms_init(&a.b.forms, request, node);
    a.b.scale = a.b.forms.scale;
    a.b.tiles = weft_dim_divide_ceil(dims, a.b.queries, OWN);
    a.b.rows = weft_dim_multiply(dims, a.b.tiles, OWN);
    WEFT_TRY(weft_plan_init(request, 3, WEFT_BACKWARD_SUMS, out_plan), "building %s", request->name);
    weft_dim rows = weft_dim_multiply(dims, a.b.rows, a.b.heads);
    out_plan->temps[WEFT_BACKWARD_LSE2].bytes = weft_dim_multiply(dims, rows, 4);
    out_plan->temps[WEFT_BACKWARD_DELTA].bytes = weft_dim_multiply(dims, rows, 4);
    out_plan->temps[WEFT_BACKWARD_COUNTERS].bytes = 8;
    WEFT_TRY(add_kernel(&a, 0, "_prepare"), "building %s", request->name);
    WEFT_TRY(add_kernel(&a, 1, "_queries"), "building %s", request->name);
    return add_kernel(&a, 2, "_keys");
}

extern const weft_builder weft_builder_attention_backward_wave;
const weft_builder weft_builder_attention_backward_wave = {
    .name = "attention_backward", .accepts = accepts, .propose = propose, .build = build};
