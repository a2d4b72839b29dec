/* attention for AMD's matrix units, after FlashAttention-2 (Dao 2023): one pass over the keys, scores and weights in
   registers. bf16 and f16, head dims that are multiples of 8 up to 128, all forms of attention_score.h, grouped query
   heads, any lengths.

   Block: 128 queries of a head; keys and, turned, values of a tile of keys lie in shared memory, the next ones are
   fetched into registers meanwhile (attention_wave_tile.h). Products are those of the transposes: S' = K Q' and
   O' = V' P', so that a lane has one query, with scores of several keys; the maximum over keys is taken in registers
   and across the groups of lanes that share a query. A row that sees no key gives 0. Letters: T queries, S keys, D head
   dim, G query heads of a key head. Read next: attention_wave_tile.h, attention_score.h. */
#include <math.h>

#include "codegen/builders/attention_wave.h"
#include "codegen/builders/attention_wave_tile.h"
#include "codegen/builders/plan.h"
#include "ir/ops/attention.h"

enum { QUERIES = WEFT_WAVE_OWN, DEPTH = WEFT_WAVE_DEPTH };

typedef struct attention {
    const weft_build_request *request;
    weft_kernel *k;
    weft_wave_tile t;
    int bn;       /* keys of a tile */
    double scale; /* of scores in the exponent, in base 2 */
    weft_attention_forms forms;
    weft_attention_side q, out;
    weft_wave_block keys, v;
    weft_kval q_memory, out_memory, lse;  /* lse: WEFT_KNONE where nobody asks for it */
    weft_kval head, key_head, query, row; /* row: query, clamped to the last */
    weft_kval q0;                         /* of the block */
    weft_kval q_regs, s_regs, o_regs, top, sum;
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
    out_schedules[0] = (weft_schedule){.builder = "attention-wave", .tile_m = QUERIES, .threads = WEFT_WAVE_THREADS};
    return 1;
}

/* -- scores */

/* The key, in the tensor, of sum i of fragment n. */
static weft_kval key_of(const attention *a, weft_kval first, int n, int i) {
    return weft_wave_tile_row(&a->t, first, n, i);
}

static void map_scores(attention *a, weft_kval first, bool masks) {
    weft_kernel *k = a->k;
    weft_kval end = masks ? weft_attention_end_key(&a->forms, a->row) : WEFT_KNONE, from = WEFT_KNONE;
    if (masks && a->forms.left >= 0) from = weft_attention_first_key(&a->forms, a->row);
    for (int t = 0; t < weft_wave_tiles(&a->t, a->bn); t++) {
        weft_kval scores = weft_k_reg(k, a->s_regs, t);
        for (int i = 0; i < a->t.unit->sums; i++) {
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
    for (int distance = a->t.unit->size; distance < a->t.unit->lanes; distance *= 2) {
        weft_kval other = weft_k_shuffle_xor(a->k, x, distance);
        x = adds ? weft_k_add(a->k, x, other) : larger(a, x, other);
    }
    return x;
}

/* Scores become weights; sums of O are rescaled to the new maximum. */
static void soften(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval before = weft_k_get(k, a->top), m = before, scale = weft_k_f32(k, a->scale), part = WEFT_KNONE;
    int sums = a->t.unit->sums;
    for (int t = 0; t < weft_wave_tiles(&a->t, a->bn); t++)
        for (int i = 0; i < sums; i++) m = larger(a, weft_k_extract(k, weft_k_reg(k, a->s_regs, t), i), m);
    m = across_groups(a, m, false);
    weft_kval none = weft_k_eq(k, m, weft_k_f32(k, -INFINITY)); /* every key hidden so far */
    weft_kval shift = weft_k_unary(k, WEFT_K_neg, weft_k_select(k, none, weft_k_f32(k, 0), weft_k_mul(k, m, scale)));
    weft_kval factor = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, before, scale, shift));
    for (int t = 0; t < weft_wave_tiles(&a->t, a->bn); t++) {
        weft_kval scores = weft_k_reg(k, a->s_regs, t);
        for (int i = 0; i < sums; i++) {
            weft_kval e = weft_k_unary(k, WEFT_K_exp2_fast, weft_k_fma(k, weft_k_extract(k, scores, i), scale, shift));
            scores = weft_k_insert(k, scores, i, e);
            part = part == WEFT_KNONE ? e : weft_k_add(k, part, e);
        }
        weft_k_set_reg(k, a->s_regs, t, scores);
    }
    for (int t = 0; t < weft_wave_tiles(&a->t, a->t.width); t++)
        weft_k_set_reg(k, a->o_regs, t, weft_k_mul(k, weft_k_reg(k, a->o_regs, t), factor));
    weft_k_set(k, a->top, m);
    weft_k_set(k, a->sum, weft_k_fma(k, weft_k_get(k, a->sum), factor, part));
}

/* o += V' P' */
static void multiply_values(const attention *a) {
    for (int u = 0; u < a->bn / DEPTH; u++) {
        weft_wave_pack(&a->t, a->s_regs, u);
        for (int n = 0; n < weft_wave_tiles(&a->t, a->t.width); n++) {
            weft_wave_columns(&a->t, &a->v, n, u);
            weft_wave_product(&a->t, a->o_regs, n, a->t.b_regs, 0);
        }
    }
}

/* -- the loop over tiles of keys */

static void fetch(void *of, weft_kval first) {
    const attention *a = of;
    weft_wave_block_fetch(&a->t, &a->keys, a->key_head, first);
    weft_wave_block_fetch(&a->t, &a->v, a->key_head, first);
}

static void keep(void *of) {
    const attention *a = of;
    weft_wave_block_keep(&a->t, &a->keys);
    weft_wave_block_keep(&a->t, &a->v);
}

static void multiply_tile(void *of, weft_kval first) {
    attention *a = of;
    weft_kernel *k = a->k;
    weft_wave_multiply(&a->t, a->s_regs, a->bn, a->keys.plain, a->q_regs);
    size_t mark = weft_index_mark(&a->forms.index);
    if (!weft_attention_plain(&a->forms)) map_scores(a, first, false);
    weft_index_release(&a->forms.index, mark);
    if (weft_attention_windowed(&a->forms) || weft_dim_divisor(k->dims, a->keys.side.rows) % a->bn != 0) {
        weft_k_if(k, has_hidden(a, first));
        map_scores(a, first, true);
        weft_k_end(k);
    }
    soften(a);
    multiply_values(a);
}

static void emit_loop(attention *a) {
    weft_kernel *k = a->k;
    weft_kval bn = constant(a, a->bn), one = constant(a, 1), zero = constant(a, 0);
    weft_kval end = weft_attention_end_key(&a->forms, weft_k_plus(k, a->q0, QUERIES - 1));
    weft_kval blocks = weft_k_max(k, one, weft_k_div(k, weft_k_plus(k, end, a->bn - 1), bn));
    weft_kval start = zero;
    if (a->forms.left >= 0)
        start =
            weft_k_min(k, weft_k_sub(k, blocks, one), weft_k_div(k, weft_attention_first_key(&a->forms, a->q0), bn));
    weft_wave_walk_emit(&(weft_wave_walk){a, fetch, keep, multiply_tile}, k, start, blocks, a->bn);
}

/* -- results */

/* Natural: log(sum) + top, top in units of base 2. One lane of those that share a query writes. */
static void store_lse(const attention *a, weft_kval sum) {
    weft_kernel *k = a->k;
    weft_kval l = weft_k_fma(k, weft_k_get(k, a->top), weft_k_f32(k, a->scale), weft_k_unary(k, WEFT_K_log2_fast, sum));
    l = weft_k_mul(k, l, weft_k_f32(k, 0.69314718055994531));
    l = weft_k_select(k, weft_k_lt(k, weft_k_f32(k, 0), sum), l, weft_k_f32(k, -INFINITY));
    weft_kval t = weft_k_extent(k, a->q.rows), own = weft_k_eq(k, a->t.group, constant(a, 0));
    weft_k_if(k, weft_k_and(k, own, weft_k_lt(k, a->query, t)));
    weft_k_store(k, a->lse, weft_k_add(k, weft_k_mul(k, a->head, t), a->query), WEFT_KNONE, l);
    weft_k_end(k);
}

static void store_rows(const attention *a) {
    weft_kernel *k = a->k;
    weft_kval sum = across_groups(a, weft_k_get(k, a->sum), true);
    weft_kval factor =
        weft_k_select(k, weft_k_lt(k, weft_k_f32(k, 0), sum), weft_k_unary(k, WEFT_K_rcp_fast, sum), weft_k_f32(k, 0));
    if (a->lse != WEFT_KNONE) store_lse(a, sum);
    weft_kval exists = weft_k_lt(k, a->query, weft_k_extent(k, a->q.rows));
    weft_wave_store(&a->t, a->o_regs, factor, a->out_memory, weft_wave_line(&a->t, &a->out, a->head, a->row), exists);
}

/* -- the kernel */

static weft_status make_sides(attention *a, const weft_node *node) {
    static const char *const names[] = {"q", "k", "v"};
    const weft_graph *graph = a->request->graph;
    weft_attention_side *sides[3] = {&a->q, &a->keys.side, &a->v.side};
    weft_kval *memory[3] = {&a->q_memory, &a->keys.buffer, &a->v.buffer};
    for (int i = 0; i < 3; i++) {
        weft_head_view view;
        const weft_value *value = weft_attention_memory(graph, node->operands[i], &view);
        if (!value) return WEFT_STATUS(WEFT_INTERNAL, "attention-wave: operand %d is computed in the group", i);
        *sides[i] = weft_attention_operand_side(graph, node->operands[i]);
        *memory[i] = weft_kernel_buffer(a->k, WEFT_ARGUMENT_OPERAND, value->index, a->t.dtype, false, names[i]);
    }
    a->out = weft_attention_result_side(&node->results[0].type, weft_attention_tokens_first(a->request->fusion, node));
    a->out_memory = weft_kernel_buffer(a->k, WEFT_ARGUMENT_RESULT, 0, a->t.dtype, true, "out");
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
    a->forms.s = weft_k_extent(k, a->keys.side.rows);
    a->forms.offset = weft_k_sub(k, a->forms.s, weft_k_extent(k, a->q.rows));
    a->query = weft_k_add(k, a->q0, a->t.own);
    a->row = weft_k_min(k, a->query, weft_k_plus(k, weft_k_extent(k, a->q.rows), -1));
}

static void make_registers(attention *a) {
    weft_kernel *k = a->k;
    const weft_wave_unit *u = a->t.unit;
    int tiles = weft_wave_tiles(&a->t, a->t.width);
    weft_wave_block_init(&a->t, &a->keys, a->bn, true, false);
    weft_wave_block_init(&a->t, &a->v, a->bn, false, true);
    a->q_regs = weft_k_regs(k, a->t.dtype, WEFT_WAVE_LANES, a->t.width / DEPTH * u->parts);
    a->s_regs = weft_k_regs(k, WEFT_F32, u->sums, weft_wave_tiles(&a->t, a->bn));
    a->o_regs = weft_k_regs(k, WEFT_F32, u->sums, tiles);
    for (int n = 0; n < tiles; n++) weft_k_set_reg(k, a->o_regs, n, weft_k_constant_lanes(k, WEFT_F32, 0, u->sums));
    a->top = weft_k_var(k, weft_k_f32(k, -INFINITY));
    a->sum = weft_k_var(k, weft_k_f32(k, 0));
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_node *node = weft_fusion_find(request->fusion, WEFT_OP_attention);
    const weft_type *q = weft_operand_type(node, 0), *keys = weft_operand_type(node, 1);
    weft_dim_table *dims = request->graph->dims;
    attention a = {.request = request};
    weft_dim group, heads = weft_dim_multiply(dims, q->dims[0], q->dims[1]);
    if (!weft_wave_tile_init(&a.t, request->capability, q->dtype, (int)q->dims[3]) ||
        !weft_dim_divide_exact(dims, q->dims[1], keys->dims[1], &group))
        return WEFT_STATUS(WEFT_INTERNAL, "attention-wave: heads or unit");
    /* what the registers of RDNA hold; gfx11 has operands twice */
    bool few = a.t.unit->lanes == 32 && a.t.width > (a.t.unit->parts > 1 ? 32 : 64);
    a.bn = few ? 32 : 64;
    weft_attention_forms_init(&a.forms, request, node);
    a.scale = weft_attention_factor(&a.forms);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    a.k = weft_plan_kernel(request, "");
    if (!a.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    a.k->grid = weft_dim_multiply(dims, weft_dim_divide_ceil(dims, q->dims[2], QUERIES), heads);
    WEFT_TRY(make_sides(&a, node), "building %s", request->name);
    weft_wave_tile_start(&a.t, a.k);
    place_block(&a, heads, group);
    make_registers(&a);
    weft_wave_own(&a.t, a.q_regs, a.q_memory, weft_wave_line(&a.t, &a.q, a.head, a.row));
    emit_loop(&a);
    store_rows(&a);
    WEFT_TRY(weft_index_finish(&a.forms.index), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, a.k);
}

extern const weft_builder weft_builder_attention_wave;
const weft_builder weft_builder_attention_wave = {
    .name = "attention", .accepts = accepts, .propose = propose, .build = build};
