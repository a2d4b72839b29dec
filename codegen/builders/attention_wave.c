/* attention for AMD's matrix units, after FlashAttention-2 (Dao 2023): one pass over the keys, scores and weights in
   registers. bf16 and f16, head dims that are multiples of 8 up to 128, all forms of attention_score.h, grouped query
   heads, any lengths.

   Block: 128 queries of a head, 256 threads; a wavefront has 32 queries (MFMA) or 16 (WMMA). Keys and, turned, values
   of a block of bn keys lie in shared memory; the next ones are fetched into registers meanwhile. Products are those of
   the transposes: S' = K Q' and O' = V' P', so that a lane has one query, with scores of several keys; the maximum over
   keys is taken in registers and across the groups of lanes that share a query, and weights are operands where they
   lie: to a product any order of its depth is the same, and V' is read in the order that the sums of S' have. Only
   gfx11, whose operands are held by both halves of a wavefront, exchanges weights between them. A row that sees no key
   gives 0. Letters: T queries, S keys, D head dim, W = D rounded up to 32, 64 or 128, G query heads of a key head. Read
   next: attention_score.h, mma_wave.c. */
#include <math.h>

#include "codegen/builders/attention_wave.h"
#include "codegen/builders/plan.h"
#include "codegen/kernel/matrix.h"
#include "codegen/tile/spell.h"
#include "ir/ops/attention.h"

enum { THREADS = 256, QUERIES = 128, PAD = 8, DEPTH = 16, LANES_16 = 8 };

/* Where a side lies: [heads of all batches, rows, D], or tokens first: [B, rows, X, D]. */
typedef struct side {
    weft_kval buffer;
    weft_dim rows;
    bool tokens_first;
    weft_dim heads; /* of a batch */
    weft_head_view view;
} side;

typedef struct attention {
    const weft_build_request *request;
    weft_kernel *k;
    weft_dtype dtype;
    int64_t unit_id;
    const weft_wave_unit *unit;
    int columns, width, bn, deep; /* deep: keys of a thread's block of values */
    bool q_kept;  /* queries in shared memory, results through it: gfx11, for its registers and its order of sums */
    double scale; /* of scores in the exponent, in base 2 */
    weft_attention_forms forms;
    side q, keys, v, out;
    weft_kval lse; /* WEFT_KNONE where nobody asks for it */
    weft_kval q_shared, k_shared, v_shared, k_words, v_words;
    weft_kval thread, lane, line, group, head, key_head, query, row; /* row: query, clamped to the last */
    weft_kval q0;                                                    /* of the block */
    weft_kval q_regs, a_regs, s_regs, p_regs, o_regs, top, sum;
} attention;

static weft_kval constant(const attention *a, int64_t value) { return weft_k_index(a->k, value); }

bool weft_attention_wave_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability,
                                const char **out_reason) {
    const weft_type *q = weft_operand_type(node, 0), *k = weft_operand_type(node, 1), *v = weft_operand_type(node, 2);
    bool backward = node->op == WEFT_OP_attention_backward;
    int widest = backward && capability->warp == 32 ? 64 : 128; /* registers of RDNA */
    *out_reason = "no unit of wavefronts";
    if ((node->op != WEFT_OP_attention && !backward) || (q->dtype != WEFT_BF16 && q->dtype != WEFT_F16) ||
        k->dtype != q->dtype || v->dtype != q->dtype || !weft_wave_unit_find(capability, q->dtype, 16))
        return false;
    *out_reason = "dropout of weights";
    if (weft_attention_key_at(node) >= 0) return false;
    *out_reason = "the gradient of scores";
    if (backward && node->result_count > 3) return false;
    *out_reason = "a head dim that is no multiple of 8 up to 128 (backward on RDNA: 64), or another one of the values";
    if (!weft_dim_is_number(q->dims[3]) || q->dims[3] < 8 || q->dims[3] > widest || q->dims[3] % 8 ||
        v->dims[3] != q->dims[3])
        return false;
    int64_t low, high;
    *out_reason = "one query: nothing to share";
    weft_dim_bounds(graph->dims, q->dims[2], &low, &high);
    if (high < 2) return false;
    *out_reason = "there may be no queries or no keys";
    if (low < 1) return false;
    weft_dim_bounds(graph->dims, k->dims[2], &low, &high);
    if (low < 1) return false;
    *out_reason = "the number of query heads is no known multiple of the key heads";
    weft_dim group;
    if (!weft_dim_divide_exact(graph->dims, q->dims[1], k->dims[1], &group)) return false;
    *out_reason = NULL;
    return true;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_attention);
    *out_reason = "no attention in the group";
    if (!node || !weft_attention_wave_claims(graph, node, capability, out_reason)) return false;
    if (!weft_attention_in_memory(graph, fusion, node, out_reason)) return false;
    *out_reason = "positions need more than 31 bits";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    (void)request;
    if (capacity < 1) return 0;
    out_schedules[0] = (weft_schedule){.builder = "attention-wave", .tile_m = QUERIES, .threads = THREADS};
    return 1;
}

/* -- addresses */

/* Element (row, 0) of a head of all batches. */
static weft_kval row_start(const attention *a, const side *s, weft_kval head, weft_kval row) {
    weft_kernel *k = a->k;
    weft_kval rows = weft_k_extent(k, s->rows);
    if (!s->tokens_first) return weft_k_times(k, weft_k_add(k, weft_k_mul(k, head, rows), row), a->columns);
    weft_kval heads = weft_k_extent(k, s->heads), batch = weft_k_div(k, head, heads),
              own = weft_k_plus(k, weft_k_rem(k, head, heads), s->view.first);
    weft_kval token = weft_k_add(k, weft_k_mul(k, batch, rows), row);
    return weft_k_times(k, weft_k_add(k, weft_k_mul(k, token, weft_k_extent(k, s->view.heads)), own), a->columns);
}

/* `lanes` columns from `column` on, zero from D on. */
static weft_kval load_columns(const attention *a, const side *s, weft_kval start, weft_kval column, int lanes) {
    weft_kernel *k = a->k;
    bool whole = a->columns == a->width;
    weft_kval inside = whole ? WEFT_KNONE : weft_k_lt(k, column, constant(a, a->columns));
    weft_kval at = whole ? column : weft_k_select(k, inside, column, constant(a, 0));
    weft_kval value = weft_k_load(k, s->buffer, weft_k_add(k, start, at), lanes, WEFT_KNONE, WEFT_KNONE);
    if (!k->failed) k->instrs[value].align_bytes = 2 * lanes;
    return whole ? value : weft_k_select(k, inside, value, weft_k_constant_lanes(k, a->dtype, 0, lanes));
}

static weft_kval load_shared(const attention *a, weft_kval shared, weft_kval at, int lanes) {
    weft_kval value = weft_k_load(a->k, shared, at, lanes, WEFT_KNONE, WEFT_KNONE);
    if (!a->k->failed) a->k->instrs[value].align_bytes = 2 * lanes;
    return value;
}

static void store_shared(const attention *a, weft_kval shared, weft_kval at, weft_kval value, int lanes) {
    weft_k_store(a->k, shared, at, WEFT_KNONE, value);
    if (!a->k->failed) a->k->instrs[a->k->instr_count - 1].align_bytes = 2 * lanes;
}

/* -- keys and values of a block */

static int key_chunks(const attention *a) { return a->bn * a->width / LANES_16 / THREADS; }

static weft_kval last_key(const attention *a, weft_kval key) {
    return weft_k_min(a->k, key, weft_k_plus(a->k, a->forms.s, -1));
}

/* Row (of the block) and column of this thread's chunk i of keys; keys past the end are the last one again. */
static void place_chunk(const attention *a, int i, weft_kval *out_row, weft_kval *out_column) {
    int across = a->width / LANES_16;
    *out_column = weft_k_times(a->k, weft_k_rem(a->k, a->thread, constant(a, across)), LANES_16);
    *out_row = weft_k_plus(a->k, weft_k_div(a->k, a->thread, constant(a, across)), (int64_t)i * (THREADS / across));
}

static void place_values(const attention *a, weft_kval *out_key, weft_kval *out_column) {
    int across = a->width / 4;
    *out_column = weft_k_times(a->k, weft_k_rem(a->k, a->thread, constant(a, across)), 4);
    *out_key = weft_k_times(a->k, weft_k_div(a->k, a->thread, constant(a, across)), a->deep);
}

static void fetch(const attention *a, weft_kval first) {
    weft_kernel *k = a->k;
    weft_kval row, column;
    for (int i = 0; i < key_chunks(a); i++) {
        place_chunk(a, i, &row, &column);
        weft_kval start = row_start(a, &a->keys, a->key_head, last_key(a, weft_k_add(k, first, row)));
        weft_k_set_reg(k, a->k_words, i, load_columns(a, &a->keys, start, column, LANES_16));
    }
    place_values(a, &row, &column);
    for (int i = 0; i < a->deep; i++) {
        weft_kval key = last_key(a, weft_k_add(k, first, weft_k_plus(k, row, i)));
        weft_k_set_reg(k, a->v_words, i, load_columns(a, &a->v, row_start(a, &a->v, a->key_head, key), column, 4));
    }
}

static void keep(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval row, column;
    for (int i = 0; i < key_chunks(a); i++) {
        place_chunk(a, i, &row, &column);
        store_shared(a, a->k_shared, weft_k_add(k, weft_k_times(k, row, a->width + PAD), column),
                     weft_k_reg(k, a->k_words, i), LANES_16);
    }
    place_values(a, &row, &column);
    for (int d = 0; d < 4; d++) {
        weft_kval turned = weft_k_constant_lanes(k, a->dtype, 0, a->deep);
        for (int i = 0; i < a->deep; i++)
            turned = weft_k_insert(k, turned, i, weft_k_extract(k, weft_k_reg(k, a->v_words, i), d));
        weft_kval at = weft_k_add(k, weft_k_times(k, weft_k_plus(k, column, d), a->bn + PAD), row);
        store_shared(a, a->v_shared, at, turned, a->deep);
    }
}

/* -- scores */

static int parts(const attention *a) { return a->unit->parts; }
static int tiles_of(const attention *a, int extent) { return extent / a->unit->size; }

/* Where in 16 of depth this lane's operands start. */
static weft_kval depth_start(const attention *a) {
    const weft_wave_unit *u = a->unit;
    int run = u->parts * u->part_lanes;
    return run == DEPTH ? constant(a, 0) : weft_k_times(a->k, a->group, run);
}

/* Element of shared memory where this lane's query starts. */
static weft_kval kept_query(const attention *a) {
    weft_kval own = weft_k_sub(a->k, a->query, a->q0);
    return weft_k_times(a->k, own, a->width + PAD);
}

static void load_queries(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval start = row_start(a, &a->q, a->head, a->row);
    if (a->q_kept) { /* one of the lanes that share a query */
        weft_k_if(k, weft_k_eq(k, a->group, constant(a, 0)));
        for (int c = 0; c < a->width; c += LANES_16)
            store_shared(a, a->q_shared, weft_k_plus(k, kept_query(a), c),
                         load_columns(a, &a->q, start, constant(a, c), LANES_16), LANES_16);
        weft_k_end(k);
        return;
    }
    for (int q = 0; q < a->width / DEPTH; q++)
        for (int part = 0; part < parts(a); part++) {
            weft_kval column = weft_k_plus(k, depth_start(a), q * DEPTH + part * LANES_16);
            weft_k_set_reg(k, a->q_regs, q * parts(a) + part, load_columns(a, &a->q, start, column, LANES_16));
        }
}

static void product(const attention *a, weft_kval d, int at, int first_b, weft_kval b) {
    weft_kval operands[6] = {d, constant(a, at), a->a_regs, constant(a, 0), b, constant(a, first_b)};
    weft_k_effect(a->k, WEFT_K_mma, 6, operands, a->unit_id, 0);
}

/* 16 of depth from `16 q` on of a row of shared memory, into `regs`. */
static void load_operand(const attention *a, weft_kval regs, weft_kval shared, weft_kval row, int q) {
    for (int part = 0; part < parts(a); part++) {
        weft_kval at = weft_k_add(a->k, row, weft_k_plus(a->k, depth_start(a), q * DEPTH + part * LANES_16));
        weft_k_set_reg(a->k, regs, part, load_shared(a, shared, at, LANES_16));
    }
}

/* s = K Q' */
static void multiply_keys(const attention *a) {
    weft_kernel *k = a->k;
    for (int t = 0; t < tiles_of(a, a->bn); t++)
        weft_k_set_reg(k, a->s_regs, t, weft_k_constant_lanes(k, WEFT_F32, 0, a->unit->sums));
    for (int q = 0; q < a->width / DEPTH; q++) {
        if (a->q_kept) load_operand(a, a->q_regs, a->q_shared, kept_query(a), q);
        for (int t = 0; t < tiles_of(a, a->bn); t++) {
            weft_kval row = weft_k_times(k, weft_k_plus(k, a->line, (int64_t)t * a->unit->size), a->width + PAD);
            load_operand(a, a->a_regs, a->k_shared, row, q);
            product(a, a->s_regs, t, a->q_kept ? 0 : q * parts(a), a->q_regs);
        }
    }
}

/* Rows of a fragment that its sum i has: group * own_rows + fixed_row. */
static int own_rows(const attention *a) {
    return a->unit->spread == WEFT_SPREAD_FOURS ? 4 : a->unit->spread == WEFT_SPREAD_TURNS ? 1 : 8;
}
static int fixed_row(const attention *a, int i) { return weft_wave_row(a->unit, 0, i); }

/* The key, in the tensor, of sum i of tile t. */
static weft_kval key_of(const attention *a, weft_kval first, int t, int i) {
    weft_kval own = weft_k_add(a->k, first, weft_k_times(a->k, a->group, own_rows(a)));
    return weft_k_plus(a->k, own, (int64_t)t * a->unit->size + fixed_row(a, i));
}

static void map_scores(attention *a, weft_kval first, bool masks) {
    weft_kernel *k = a->k;
    weft_kval end = masks ? weft_attention_end_key(&a->forms, a->row) : WEFT_KNONE, from = WEFT_KNONE;
    if (masks && a->forms.left >= 0) from = weft_attention_first_key(&a->forms, a->row);
    for (int t = 0; t < tiles_of(a, a->bn); t++) {
        weft_kval scores = weft_k_reg(k, a->s_regs, t);
        for (int i = 0; i < a->unit->sums; i++) {
            weft_kval key = key_of(a, first, t, i), score = weft_k_extract(k, scores, i);
            if (masks) {
                weft_kval seen = weft_k_lt(k, key, end);
                if (from != WEFT_KNONE) seen = weft_k_and(k, seen, weft_k_le(k, from, key));
                score = weft_k_select(k, seen, score, weft_k_f32(k, -INFINITY));
            } else {
                score = weft_attention_form_score(&a->forms, score, a->head, a->row, key, NULL);
            }
            scores = weft_k_insert(k, scores, i, score);
        }
        weft_k_set_reg(k, a->s_regs, t, scores);
    }
}

/* Does the block of keys from `first` on have some that a query of this block does not see? */
static weft_kval has_hidden(const attention *a, weft_kval first) {
    weft_kernel *k = a->k;
    weft_kval hidden = weft_k_lt(k, weft_attention_end_key(&a->forms, a->q0), weft_k_plus(k, first, a->bn));
    if (a->forms.left < 0) return hidden;
    weft_kval last = weft_k_plus(k, a->q0, QUERIES - 1);
    return weft_k_or(k, hidden, weft_k_lt(k, first, weft_attention_first_key(&a->forms, last)));
}

static weft_kval larger(const attention *a, weft_kval x, weft_kval y) {
    return weft_kernel_emit(a->k, WEFT_K_max, weft_kvector(WEFT_F32, 1), 2, (weft_kval[]){x, y}, 1, 0);
}

/* Over the lanes that share a query. */
static weft_kval across_groups(const attention *a, weft_kval x, bool adds) {
    for (int distance = a->unit->size; distance < a->unit->lanes; distance *= 2) {
        weft_kval other = weft_k_shuffle_xor(a->k, x, distance);
        x = adds ? weft_k_add(a->k, x, other) : larger(a, x, other);
    }
    return x;
}

/* Scores become weights; sums of O are rescaled to the new maximum. */
static void soften(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval before = weft_k_get(k, a->top), m = before, scale = weft_k_f32(k, a->scale), part = WEFT_KNONE;
    int sums = a->unit->sums;
    for (int t = 0; t < tiles_of(a, a->bn); t++)
        for (int i = 0; i < sums; i++) m = larger(a, weft_k_extract(k, weft_k_reg(k, a->s_regs, t), i), m);
    m = across_groups(a, m, false);
    weft_kval none = weft_k_eq(k, m, weft_k_f32(k, -INFINITY)); /* every key hidden so far */
    weft_kval shift = weft_k_unary(k, WEFT_K_neg, weft_k_select(k, none, weft_k_f32(k, 0), weft_k_mul(k, m, scale)));
    weft_kval factor = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, before, scale, shift));
    for (int t = 0; t < tiles_of(a, a->bn); t++) {
        weft_kval scores = weft_k_reg(k, a->s_regs, t);
        for (int i = 0; i < sums; i++) {
            weft_kval e = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, weft_k_extract(k, scores, i), scale, shift));
            scores = weft_k_insert(k, scores, i, e);
            part = part == WEFT_KNONE ? e : weft_k_add(k, part, e);
        }
        weft_k_set_reg(k, a->s_regs, t, scores);
    }
    for (int t = 0; t < tiles_of(a, a->width); t++)
        weft_k_set_reg(k, a->o_regs, t, weft_k_mul(k, weft_k_reg(k, a->o_regs, t), factor));
    weft_k_set(k, a->top, m);
    weft_k_set(k, a->sum, weft_k_fma(k, weft_k_get(k, a->sum), factor, part));
}

/* -- weights times values */

/* Weights of 16 keys from `16 u` on as an operand. Neighbouring sums are neighbours in it, but on gfx11, whose halves
   of a wavefront have every other key each and both need all. */
static void pack_weights(const attention *a, int u) {
    weft_kernel *k = a->k;
    const weft_wave_unit *unit = a->unit;
    int per_tile = unit->size / DEPTH, t = u / per_tile, first = u % per_tile * (unit->sums / per_tile);
    weft_kval scores = weft_k_reg(k, a->s_regs, t), weight[16];
    int count = unit->sums / per_tile; /* 8 */
    for (int i = 0; i < count; i++) weight[i] = weft_k_convert(k, weft_k_extract(k, scores, first + i), a->dtype);
    if (unit->spread == WEFT_SPREAD_TURNS) {
        weft_kval low = weft_k_eq(k, a->group, constant(a, 0)), all[16];
        for (int i = 0; i < count; i++) {
            weft_kval other = weft_k_shuffle_xor(k, weight[i], 16);
            all[2 * i] = weft_k_select(k, low, weight[i], other);
            all[2 * i + 1] = weft_k_select(k, low, other, weight[i]);
        }
        for (int i = 0; i < 2 * count; i++) weight[i] = all[i];
    }
    for (int part = 0; part < unit->parts; part++) {
        weft_kval value = weft_k_splat(k, weight[8 * part], 8);
        for (int i = 1; i < 8; i++) value = weft_k_insert(k, value, i, weight[8 * part + i]);
        weft_k_set_reg(k, a->p_regs, part, value);
    }
}

/* Rows of V' for 16 keys, in the order in which a lane has their weights. */
static void load_values(const attention *a, int tile, int u) {
    weft_kernel *k = a->k;
    weft_kval row = weft_k_times(k, weft_k_plus(k, a->line, (int64_t)tile * a->unit->size), a->bn + PAD);
    weft_kval at = weft_k_plus(k, row, (int64_t)u * DEPTH);
    if (a->unit->spread == WEFT_SPREAD_FOURS) {
        weft_kval own = weft_k_add(k, at, weft_k_times(k, a->group, 4));
        weft_kval low = load_shared(a, a->v_shared, own, 4),
                  high = load_shared(a, a->v_shared, weft_k_plus(k, own, 8), 4);
        weft_kval value = weft_k_splat(k, weft_k_extract(k, low, 0), 8);
        for (int i = 1; i < 8; i++) value = weft_k_insert(k, value, i, weft_k_extract(k, i < 4 ? low : high, i % 4));
        weft_k_set_reg(k, a->a_regs, 0, value);
        return;
    }
    load_operand(a, a->a_regs, a->v_shared, row, u);
}

/* o += V' P' */
static void multiply_values(const attention *a) {
    for (int u = 0; u < a->bn / DEPTH; u++) {
        pack_weights(a, u);
        for (int tile = 0; tile < tiles_of(a, a->width); tile++) {
            load_values(a, tile, u);
            product(a, a->o_regs, tile, 0, a->p_regs);
        }
    }
}

/* -- the loop over blocks of keys */

static void emit_loop(attention *a) {
    weft_kernel *k = a->k;
    weft_kval bn = constant(a, a->bn), one = constant(a, 1), zero = constant(a, 0);
    weft_kval end = weft_attention_end_key(&a->forms, weft_k_plus(k, a->q0, QUERIES - 1));
    weft_kval blocks = weft_k_max(k, one, weft_k_div(k, weft_k_plus(k, end, a->bn - 1), bn));
    weft_kval start = zero;
    if (a->forms.left >= 0)
        start =
            weft_k_min(k, weft_k_sub(k, blocks, one), weft_k_div(k, weft_attention_first_key(&a->forms, a->q0), bn));
    fetch(a, weft_k_mul(k, start, bn));
    keep(a);
    weft_k_barrier(k);
    weft_kval block = weft_k_for(k, start, blocks, one, 0), first = weft_k_mul(k, block, bn);
    weft_kval more = weft_k_lt(k, weft_k_add(k, block, one), blocks);
    weft_k_if(k, more);
    fetch(a, weft_k_add(k, first, bn));
    weft_k_end(k);
    multiply_keys(a);
    size_t mark = weft_index_mark(&a->forms.index);
    if (!weft_attention_plain(&a->forms)) map_scores(a, first, false);
    weft_index_release(&a->forms.index, mark);
    if (weft_attention_windowed(&a->forms) || weft_dim_divisor(k->dims, a->keys.rows) % a->bn != 0) {
        weft_k_if(k, has_hidden(a, first));
        map_scores(a, first, true);
        weft_k_end(k);
    }
    soften(a);
    multiply_values(a);
    weft_k_barrier(k);
    weft_k_if(k, more);
    keep(a);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_end(k);
}

/* -- results */

/* Natural: log(sum) + top, top in units of base 2. One lane of those that share a query writes. */
static void store_lse(const attention *a, weft_kval sum) {
    weft_kernel *k = a->k;
    weft_kval l = weft_k_fma(k, weft_k_get(k, a->top), weft_k_f32(k, a->scale), weft_k_unary(k, WEFT_K_log2_fast, sum));
    l = weft_k_mul(k, l, weft_k_f32(k, 0.69314718055994531));
    l = weft_k_select(k, weft_k_lt(k, weft_k_f32(k, 0), sum), l, weft_k_f32(k, -INFINITY));
    weft_kval t = weft_k_extent(k, a->q.rows), own = weft_k_eq(k, a->group, constant(a, 0));
    weft_k_if(k, weft_k_and(k, own, weft_k_lt(k, a->query, t)));
    weft_k_store(k, a->lse, weft_k_add(k, weft_k_mul(k, a->head, t), a->query), WEFT_KNONE, l);
    weft_k_end(k);
}

/* Through the queries' place in shared memory: lanes whose sums are no neighbours write them there one by one, and each
   of the lanes that share a query then has every other chunk of its row. */
static void store_kept(const attention *a, weft_kval factor, weft_kval exists, weft_kval start) {
    weft_kernel *k = a->k;
    weft_kval row = kept_query(a);
    for (int tile = 0; tile < tiles_of(a, a->width); tile++)
        for (int i = 0; i < a->unit->sums; i++) {
            weft_kval column =
                weft_k_plus(k, weft_k_times(k, a->group, own_rows(a)), (int64_t)tile * a->unit->size + fixed_row(a, i));
            weft_kval sum = weft_k_extract(k, weft_k_reg(k, a->o_regs, tile), i);
            weft_k_store(k, a->q_shared, weft_k_add(k, row, column), WEFT_KNONE,
                         weft_k_convert(k, weft_k_mul(k, sum, factor), a->dtype));
        }
    weft_k_barrier(k);
    int groups = a->unit->lanes / a->unit->size;
    for (int c = 0; c < a->width; c += groups * LANES_16) {
        weft_kval column = weft_k_plus(k, weft_k_times(k, a->group, LANES_16), c), inside = exists;
        if (a->columns != a->width) inside = weft_k_and(k, exists, weft_k_lt(k, column, constant(a, a->columns)));
        weft_kval value = load_shared(a, a->q_shared, weft_k_add(k, row, column), LANES_16);
        weft_k_if(k, inside);
        weft_k_store(k, a->out.buffer, weft_k_add(k, start, column), WEFT_KNONE, value);
        if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 2 * LANES_16;
        weft_k_end(k);
    }
}

static void store_rows(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval sum = across_groups(a, weft_k_get(k, a->sum), true);
    weft_kval factor =
        weft_k_select(k, weft_k_lt(k, weft_k_f32(k, 0), sum), weft_k_unary(k, WEFT_K_rcp_fast, sum), weft_k_f32(k, 0));
    if (a->lse != WEFT_KNONE) store_lse(a, sum);
    weft_kval exists = weft_k_lt(k, a->query, weft_k_extent(k, a->q.rows)),
              start = row_start(a, &a->out, a->head, a->row);
    if (a->q_kept) {
        store_kept(a, factor, exists, start);
        return;
    }
    bool fours = a->unit->spread == WEFT_SPREAD_FOURS;
    int apart = fours ? 4 * (a->unit->lanes / a->unit->size) : 4;
    for (int tile = 0; tile < tiles_of(a, a->width); tile++) {
        weft_kval sums = weft_k_reg(k, a->o_regs, tile);
        for (int g = 0; g < a->unit->sums / 4; g++) {
            int64_t fixed = (int64_t)tile * a->unit->size + (int64_t)g * apart;
            weft_kval column = weft_k_plus(k, weft_k_times(k, a->group, fours ? 4 : 8), fixed), inside = exists;
            if (a->columns != a->width) inside = weft_k_and(k, exists, weft_k_lt(k, column, constant(a, a->columns)));
            weft_kval four = weft_k_splat(k, weft_k_extract(k, sums, 4 * g), 4);
            for (int i = 1; i < 4; i++) four = weft_k_insert(k, four, i, weft_k_extract(k, sums, 4 * g + i));
            four = weft_k_convert(k, weft_k_mul(k, four, factor), a->dtype);
            weft_k_if(k, inside);
            weft_k_store(k, a->out.buffer, weft_k_add(k, start, column), WEFT_KNONE, four);
            if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 8;
            weft_k_end(k);
        }
    }
}

/* -- the kernel */

static weft_status make_sides(attention *a, const weft_node *node) {
    static const char *const names[] = {"q", "k", "v"};
    const weft_graph *graph = a->request->graph;
    side *sides[3] = {&a->q, &a->keys, &a->v};
    for (int i = 0; i < 3; i++) {
        const weft_type *type = weft_operand_type(node, i);
        side *s = sides[i];
        *s = (side){.rows = type->dims[2], .heads = type->dims[1]};
        const weft_value *memory = weft_attention_memory(graph, node->operands[i], &s->view);
        if (!memory) return WEFT_STATUS(WEFT_INTERNAL, "attention-wave: operand %d is computed in the group", i);
        s->tokens_first = node->operands[i]->node != NULL;
        s->buffer = weft_kernel_buffer(a->k, WEFT_ARGUMENT_OPERAND, memory->index, a->dtype, false, names[i]);
    }
    a->out = (side){.rows = a->q.rows,
                    .heads = a->q.heads,
                    .tokens_first = weft_attention_tokens_first(a->request->fusion, node),
                    .view = {.heads = a->q.heads}};
    a->out.buffer = weft_kernel_buffer(a->k, WEFT_ARGUMENT_RESULT, 0, a->dtype, true, "out");
    a->lse =
        node->result_count > 1 ? weft_kernel_buffer(a->k, WEFT_ARGUMENT_RESULT, 1, WEFT_F32, true, "lse") : WEFT_KNONE;
    return weft_attention_forms_declare(&a->forms, a->k);
}

/* Head, queries and keys of this block: longest first where later queries see more keys. */
static void place_block(attention *a, weft_dim heads, weft_dim group) {
    weft_kernel *k = a->k;
    weft_kval block = weft_k_block(k), all = weft_k_extent(k, heads);
    weft_kval tiles = weft_k_extent(k, weft_dim_divide_ceil(k->dims, a->q.rows, QUERIES));
    weft_kval back = weft_k_plus(k, weft_k_div(k, block, all), 1);
    a->head = weft_k_rem(k, block, all);
    a->key_head = weft_k_div(k, a->head, weft_k_extent(k, group)); /* (b H + h) / G = b Hkv + h / G */
    a->q0 = weft_k_times(k, weft_k_sub(k, tiles, back), QUERIES);
    a->forms.s = weft_k_extent(k, a->keys.rows);
    a->forms.offset = weft_k_sub(k, a->forms.s, weft_k_extent(k, a->q.rows));
    a->thread = weft_k_thread(k);
    weft_kval wave = weft_k_div(k, a->thread, constant(a, a->unit->lanes));
    a->lane = weft_k_rem(k, a->thread, constant(a, a->unit->lanes));
    a->line = weft_k_rem(k, a->lane, constant(a, a->unit->size));
    a->group = weft_k_div(k, a->lane, constant(a, a->unit->size));
    a->query = weft_k_add(k, a->q0, weft_k_add(k, weft_k_times(k, wave, a->unit->size), a->line));
    a->row = weft_k_min(k, a->query, weft_k_plus(k, weft_k_extent(k, a->q.rows), -1));
}

static void make_registers(attention *a) {
    weft_kernel *k = a->k;
    const weft_wave_unit *u = a->unit;
    a->k_shared = weft_k_shared(k, a->dtype, (weft_dim)a->bn * (a->width + PAD));
    a->v_shared = weft_k_shared(k, a->dtype, (weft_dim)a->width * (a->bn + PAD));
    a->k_words = weft_k_regs(k, a->dtype, LANES_16, key_chunks(a));
    a->v_words = weft_k_regs(k, a->dtype, 4, a->deep);
    if (a->q_kept) a->q_shared = weft_k_shared(k, a->dtype, (weft_dim)QUERIES * (a->width + PAD));
    a->q_regs = weft_k_regs(k, a->dtype, LANES_16, a->q_kept ? u->parts : a->width / DEPTH * u->parts);
    a->a_regs = weft_k_regs(k, a->dtype, LANES_16, u->parts);
    a->p_regs = weft_k_regs(k, a->dtype, LANES_16, u->parts);
    a->s_regs = weft_k_regs(k, WEFT_F32, u->sums, tiles_of(a, a->bn));
    a->o_regs = weft_k_regs(k, WEFT_F32, u->sums, tiles_of(a, a->width));
    for (int t = 0; t < tiles_of(a, a->width); t++)
        weft_k_set_reg(k, a->o_regs, t, weft_k_constant_lanes(k, WEFT_F32, 0, u->sums));
    a->top = weft_k_var(k, weft_k_f32(k, -INFINITY));
    a->sum = weft_k_var(k, weft_k_f32(k, 0));
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_node *node = weft_fusion_find(request->fusion, WEFT_OP_attention);
    const weft_type *q = weft_operand_type(node, 0), *keys = weft_operand_type(node, 1);
    weft_dim_table *dims = request->graph->dims;
    attention a = {.request = request, .dtype = q->dtype, .columns = (int)q->dims[3]};
    bool wide = request->capability->warp == 64;
    a.width = a.columns <= 32 ? 32 : a.columns <= 64 ? 64 : 128;
    a.unit_id = weft_wave_unit_find(request->capability, a.dtype, wide ? 32 : 16);
    a.unit = weft_wave_unit_get(a.unit_id);
    /* what the registers of RDNA hold; gfx11 has operands twice */
    bool few = !wide && a.width > (a.unit && a.unit->parts > 1 ? 32 : 64);
    a.bn = few ? 32 : 64;
    a.q_kept = a.unit && a.unit->spread == WEFT_SPREAD_TURNS;
    a.deep = a.width * a.bn / (4 * THREADS);
    weft_dim group, heads = weft_dim_multiply(dims, q->dims[0], q->dims[1]);
    if (!a.unit || a.unit->depth != DEPTH || !weft_dim_divide_exact(dims, q->dims[1], keys->dims[1], &group))
        return WEFT_STATUS(WEFT_INTERNAL, "attention-wave: heads or unit");
    weft_attention_forms_init(&a.forms, request, node);
    a.scale = weft_attention_factor(&a.forms);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    a.k = weft_plan_kernel(request, "");
    if (!a.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    a.k->threads = THREADS;
    a.k->grid = weft_dim_multiply(dims, weft_dim_divide_ceil(dims, q->dims[2], QUERIES), heads);
    WEFT_TRY(make_sides(&a, node), "building %s", request->name);
    place_block(&a, heads, group);
    make_registers(&a);
    load_queries(&a);
    emit_loop(&a);
    store_rows(&a);
    WEFT_TRY(weft_index_finish(&a.forms.index), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, a.k);
}

extern const weft_builder weft_builder_attention_wave;
const weft_builder weft_builder_attention_wave = {
    .name = "attention", .accepts = accepts, .propose = propose, .build = build};
