/* attention for Hopper, after FlashAttention-3 (Shah et al. 2024): one producer warpgroup, consumers of 64 queries each
   that take turns at the tensor cores; softmax of one block of keys runs beside the products of another; weights go
   from accumulators to operands without leaving registers. Persistent, tiles in a fixed order
   (attention_hopper_tiles.c): same bits every time.

   Accepts bf16 and f16, head dims that are multiples of 8 up to 256, causal (a query stands at key position i + S - T),
   windows to the right, masks, soft caps (attention_score.h), grouped query heads, any lengths; one query (decoding)
   packs the heads of a group into the rows of a tile. Read next: attention_score.h, attention_hopper_tiles.c,
   attention_hopper_consumer.c. */
#include "codegen/builders/attention_hopper.h"

#include <math.h>
#include <string.h>

#include "codegen/builders/attention_wave.h"
#include "codegen/builders/plan.h"
#include "codegen/kernel/matrix.h"
#include "ir/ops/attention.h"

static const weft_node *find_node(const weft_node *fusion) { return weft_fusion_find(fusion, WEFT_OP_attention); }

/* Does the backward pass give the gradient of these scores? Indices are 32 bits. */
static bool gives_scores(const weft_graph *graph, const weft_node *node) {
    int mask = weft_attention_mask_at(node);
    if (mask < 0 || node->operands[mask]->type.dtype == WEFT_BOOL || weft_node_float(node, WEFT_ATTR_soft_cap, 0) > 0)
        return false;
    weft_dim all = 1;
    for (int i = 0; i < 4; i++) all = weft_dim_multiply(graph->dims, all, node->results[3].type.dims[i]);
    return !weft_dim_is_number(all) || all < (int64_t)1 << 31;
}

bool weft_attention_claims(const weft_graph *graph, const weft_node *node, const weft_capability *capability,
                           const char **out_reason) {
    *out_reason = "the target has no wgmma";
    if (!capability->hopper) return false;
    bool backward = node->op == WEFT_OP_attention_backward;
    const weft_type *q = weft_operand_type(node, 0), *k = weft_operand_type(node, 1), *v = weft_operand_type(node, 2);
    *out_reason = "dropout with one query, where heads are the rows of a tile";
    if (weft_attention_key_at(node) >= 0 && q->dims[2] == 1) return false;
    *out_reason = "backward with a mask, a soft cap and dropout at once above 128 columns: their registers are spilled";
    if (backward && q->dims[3] > 128 && weft_attention_mask_at(node) >= 0 && weft_attention_key_at(node) >= 0 &&
        weft_node_float(node, WEFT_ATTR_soft_cap, 0) > 0)
        return false;
    *out_reason = "the gradient of scores with a soft cap, without an additive mask, or of more than 2^31 of them";
    if (backward && node->result_count > 3 && !gives_scores(graph, node)) return false;
    *out_reason = "operands are not bf16 or f16";
    if ((q->dtype != WEFT_BF16 && q->dtype != WEFT_F16) || k->dtype != q->dtype || v->dtype != q->dtype) return false;
    *out_reason = "a head dim that is no multiple of 8 up to 256, or another one of the values";
    if (!weft_dim_is_number(q->dims[3]) || q->dims[3] < 8 || q->dims[3] > 256 || q->dims[3] % 8 ||
        v->dims[3] != q->dims[3])
        return false;
    int64_t low, high;
    weft_dim_bounds(graph->dims, k->dims[2], &low, &high);
    *out_reason = "there may be no keys";
    if (low < 1) return false;
    *out_reason = "there may be no queries";
    weft_dim_bounds(graph->dims, q->dims[2], &low, &high);
    if (backward && low < 1) return false;
    *out_reason = "the number of query heads is no known multiple of the key heads";
    weft_dim group;
    if (!weft_dim_divide_exact(graph->dims, q->dims[1], k->dims[1], &group)) return false;
    *out_reason = NULL;
    return true;
}

bool weft_attention_walks(const weft_node *node, const char **out_reason) {
    *out_reason = "a window to the left that is no mask: the pass decompose makes it one";
    return weft_node_int(node, WEFT_ATTR_window_left, -1) < 0;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    const weft_node *node = find_node(fusion);
    *out_reason = "no attention in the group";
    return node && weft_attention_claims(graph, node, capability, out_reason) &&
           weft_attention_walks(node, out_reason) && weft_attention_reaches(graph, fusion, node, 3, out_reason);
}

/* Rows of D columns are multiples of 16 bytes in memory; tensor copies read zeros and write nothing past D. */
int weft_attention_width(const weft_type *q) { return (int)((q->dims[3] + 63) / 64 * 64); }

static int64_t shared_bytes(int consumers, int width, int bn, int stages) {
    return (int64_t)consumers * 64 * width * 2 + 2LL * stages * bn * width * 2 + 8 * (4 * stages + 4);
}

/* Keys of a block that covers short sequences with little past their end: 196 is one block of 208. 0 = none. */
static int fitted_keys(weft_dim keys) {
    if (!weft_dim_is_number(keys) || keys > 512) return 0;
    int64_t blocks = (keys + 207) / 208, each = ((keys + blocks - 1) / blocks + 15) / 16 * 16;
    return each >= 64 && each % 64 && each * blocks < (keys + 63) / 64 * 64 ? (int)each : 0;
}

/* Blocks of 176 keys reach past the end no more than a fiftieth further than blocks of 128. */
static bool suits_176(weft_dim keys) {
    return weft_dim_is_number(keys) && (keys + 175) / 176 * 176 * 50 <= (keys + 127) / 128 * 128 * 51;
}

/* Tiles of 192 queries reach past the end no more than a twentieth further than tiles of 128. */
static bool suits_192(weft_dim queries) {
    return !weft_dim_is_number(queries) || (queries + 191) / 192 * 192 * 20 <= (queries + 127) / 128 * 128 * 21;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    /* blocks of 176 keys: 2 % faster where every block is whole, none where half of them are masked */
    static const struct {
        int width, consumers, bn;
    } rows[] = {{128, 2, 176}, {128, 2, 128}, {64, 2, 0},   {64, 3, 128}, {64, 2, 128},  {192, 2, 112},
                {192, 2, 96},  {256, 2, 80},  {128, 2, 64}, {64, 2, 64},  {128, 1, 128}, {64, 1, 128},
                {192, 1, 80},  {256, 1, 64},  {192, 2, 64}, {256, 2, 64}};
    weft_attention_forms forms;
    weft_attention_forms_init(&forms, request, find_node(request->fusion));
    bool causal = weft_attention_windowed(&forms), plain = weft_attention_plain(&forms);
    const weft_type *q = weft_operand_type(find_node(request->fusion), 0);
    weft_dim keys = weft_operand_type(find_node(request->fusion), 1)->dims[2];
    int fitted = fitted_keys(keys);
    bool decodes = q->dims[2] == 1; /* one consumer: keys come from memory as fast as it can give them */
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && count < capacity; i++) {
        if (rows[i].width != weft_attention_width(q) || (rows[i].consumers == 1) != decodes) continue;
        int stages = 4, bn = rows[i].bn ? rows[i].bn : fitted, width = rows[i].width;
        if (!bn || (bn == 176 && (causal || !suits_176(keys)))) continue;
        if (!plain && bn == 176) continue;
        if (forms.mask && (rows[i].consumers == 3 || (width == 192 && bn > 64))) continue; /* registers */
        int64_t room = request->capability->shared_bytes;
        if (width == 64) room -= (int64_t)rows[i].consumers * 64 * width * 2; /* for the next tile's queries */
        while (stages > 2 && shared_bytes(rows[i].consumers, width, bn, stages) > room) stages--;
        out_schedules[count++] = (weft_schedule){.builder = "attention-hopper",
                                                 .tile_m = 64 * rows[i].consumers,
                                                 .tile_n = bn,
                                                 .threads = 128 * (1 + rows[i].consumers),
                                                 .stages = stages,
                                                 .consumers = rows[i].consumers,
                                                 .way = WEFT_ATTENTION_TOGETHER,
                                                 .cluster = 1};
    }
    if (count > 1 && out_schedules[0].consumers == 3 && !suits_192(q->dims[2])) {
        weft_schedule tall = out_schedules[0];
        out_schedules[0] = out_schedules[1], out_schedules[1] = tall;
    }
    return count;
}

static weft_status make_arguments(weft_attention *a, const weft_node *node, weft_kernel_plan *plan) {
    static const char *const names[] = {"q", "k", "v"}, *const maps[] = {"map_q", "map_k", "map_v"};
    const weft_graph *graph = a->request->graph;
    weft_attention_side *const sides[] = {&a->q, &a->k_side, &a->v};
    weft_head_view view;
    bool tokens_first = false, plain;
    plan->maps = weft_arena_allocate_array(a->request->arena, 4, sizeof *plan->maps);
    if (!plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "attention-hopper");
    for (int i = 0; i < 3; i++) {
        const weft_value *memory = weft_attention_memory(graph, node->operands[i], &view);
        if (!memory) return WEFT_STATUS(WEFT_INTERNAL, "attention-hopper: operand %d is computed in the group", i);
        *sides[i] = weft_attention_operand_side(graph, node->operands[i]);
        (void)weft_kernel_buffer(a->k, WEFT_ARGUMENT_OPERAND, memory->index, a->dtype, false, names[i]);
    }
    int out = weft_attention_result(a->request->fusion, node, 0, &tokens_first);
    (void)weft_kernel_buffer(a->k, WEFT_ARGUMENT_RESULT, out, a->dtype, true, "out");
    a->lse = WEFT_KNONE;
    if (node->result_count > 1)
        a->lse = weft_kernel_buffer(a->k, WEFT_ARGUMENT_RESULT,
                                    weft_attention_result(a->request->fusion, node, 1, &plain), WEFT_F32, true, "lse");
    WEFT_TRY(weft_attention_forms_declare(&a->forms, a->k), "attention-hopper");
    if (a->listed) weft_attention_lists_declare(&a->pairs, a->k);
    a->out = weft_attention_result_side(&node->results[0].type, tokens_first);
    if (a->forms.packed) { /* rows are the heads of a group */
        a->q.heads = a->out.heads = a->forms.heads, a->q.rows = a->out.rows = a->queries;
    }
    for (int i = 0; i < 3; i++)
        weft_attention_side_map(sides[i], a->k, plan, i, a->dtype, a->columns, i ? a->bn : 64, false, maps[i]);
    weft_attention_side_map(&a->out, a->k, plan, 3, a->dtype, a->columns, 64, true, "map_out");
    return NULL;
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_node *node = find_node(request->fusion);
    const weft_schedule *s = request->schedule;
    const weft_type *q = weft_operand_type(node, 0), *keys = weft_operand_type(node, 1);
    weft_dim_table *dims = request->graph->dims;
    weft_attention a = {.request = request,
                        .dtype = q->dtype,
                        .queries = q->dims[2],
                        .keys = keys->dims[2],
                        .heads = weft_dim_multiply(dims, q->dims[0], q->dims[1]),
                        .width = (int)(q->dims[3] + 15) / 16 * 16,
                        .columns = (int)q->dims[3],
                        .consumers = s->consumers,
                        .bn = s->tile_n,
                        .together = s->way & WEFT_ATTENTION_TOGETHER,
                        .stages = s->stages};
    int width = weft_attention_width(q); /* in shared memory */
    int64_t two = shared_bytes(s->consumers, width, s->tile_n, s->stages) + s->consumers * 64 * width * 2;
    a.q_buffers = two <= request->capability->shared_bytes ? 2 : 1;
    if (s->consumers < 1 || s->consumers > 3 || s->tile_n < 64 || s->tile_n % 16 || s->tile_n * width > 128 * 176 ||
        s->tile_n > 208 || s->stages < 2 ||
        shared_bytes(s->consumers, width, s->tile_n, s->stages) > request->capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "attention-hopper: schedule %dx%d, %d stages", s->tile_m, s->tile_n,
                           s->stages);
    weft_attention_forms_init(&a.forms, request, node);
    a.scale = weft_attention_factor(&a.forms);
    if (!weft_dim_divide_exact(dims, q->dims[1], keys->dims[1], &a.group))
        return WEFT_STATUS(WEFT_INTERNAL, "attention-hopper: heads");
    if (a.queries == 1) { /* the heads of a group read the same keys: they are the rows of one tile */
        a.queries = a.group, a.heads = weft_dim_multiply(dims, keys->dims[0], keys->dims[1]), a.group = 1;
        a.forms.packed = true, a.forms.rows = a.queries, a.forms.heads = keys->dims[1], a.forms.right = -1;
    }
    a.causal = a.forms.right >= 0;
    a.listed = weft_attention_lists(&a.forms);
    a.pairs = (weft_attention_pairs){
        .request = request, .forms = a.forms, .queries = a.queries, .keys = a.keys, .bm = 64 * a.consumers, .bn = a.bn};
    WEFT_TRY(weft_plan_init(request, a.listed ? 3 : 1, a.listed ? WEFT_ATTENTION_TEMPS : 0, out_plan), "building %s",
             request->name);
    if (a.listed) {
        weft_attention_list_temps(&a.pairs, out_plan);
        WEFT_TRY(weft_attention_add_lists(&a.pairs, out_plan, 0), "building %s", request->name);
    }
    a.k = weft_plan_kernel(request, "");
    if (!a.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    a.k->threads = 128 * (1 + a.consumers);
    a.k->registers = 65536 / a.k->threads / 8 * 8;
    weft_dim tiles = weft_dim_multiply(dims, weft_dim_divide_ceil(dims, a.queries, 64 * a.consumers), a.heads);
    a.k->grid = weft_dim_minimum(dims, tiles, request->capability->multiprocessors);
    if (a.together && a.causal && !a.listed && weft_dim_is_number(a.k->grid))
        a.section = weft_attention_section(&a, a.k->grid);
    WEFT_TRY(make_arguments(&a, node, out_plan), "building %s", request->name);
    weft_attention_emit(&a);
    WEFT_TRY(weft_index_finish(&a.forms.index), "building %s", request->name);
    return weft_plan_set(request, out_plan, a.listed ? 2 : 0, a.k);
}

extern const weft_builder weft_builder_attention_hopper;
const weft_builder weft_builder_attention_hopper = {
    .name = "attention", .accepts = accepts, .propose = propose, .build = build};

/* -- the kernel: work, barriers, producer */

weft_kval weft_attention_block(const weft_attention *a, const weft_attention_work *work, weft_kval i,
                               weft_kval *out_part) {
    weft_kernel *k = a->k;
    if (out_part) *out_part = WEFT_KNONE;
    if (!a->listed) return weft_k_sub(k, work->last, i);
    return weft_attention_listed(&a->pairs, work->list, i, weft_attention_natural(&a->forms) ? NULL : out_part);
}

static void load_boxes(weft_attention *a, weft_kval memory, weft_kval at, int box_bytes,
                       const weft_attention_side *side, weft_kval barrier, weft_kval index, weft_kval row,
                       weft_kval head) {
    for (int half = 0; half < weft_attention_boxes(a); half++) {
        weft_kval operands[9] = {memory, weft_k_add(a->k, at, weft_k_index(a->k, (int64_t)half * box_bytes)), side->map,
                                 barrier, index};
        int rank = weft_attention_coordinates(a->k, side, 64 * half, row, head, operands + 5);
        weft_k_effect(a->k, WEFT_K_tensor_load, 5 + rank, operands, 0, 0);
    }
}

static void load_block(weft_attention *a, const weft_ring *ring, weft_kval memory, const weft_attention_side *side,
                       weft_kval block, weft_kval head) {
    weft_kernel *k = a->k;
    int bytes = weft_attention_kv_bytes(a);
    weft_kval slot = weft_ring_slot(k, ring);
    weft_ring_wait_empty(k, ring);
    weft_ring_expect(k, ring, bytes);
    load_boxes(a, memory, weft_k_mul(k, slot, weft_k_index(a->k, bytes)), weft_attention_box_bytes(a), side, ring->full,
               slot, weft_k_mul(k, block, weft_k_index(a->k, a->bn)), head);
    weft_ring_advance(k, ring);
}

/* K of a block goes ahead of V of the block before: the consumers' order. Blocks run from the last key down. */
static void emit_producer(weft_attention *a) {
    weft_kernel *k = a->k;
    weft_ring k_ring = weft_ring_begin(k, &a->k_ring), v_ring = weft_ring_begin(k, &a->v_ring);
    weft_ring q_ring = weft_ring_begin(k, &a->q_ring);
    weft_attention_work work = weft_attention_tiles_begin(a);
    load_block(a, &k_ring, a->k_memory, &a->k_side, work.last, work.key_head);
    int q_bytes = a->consumers * weft_attention_q_bytes(a);
    weft_kval slot = weft_ring_slot(k, &q_ring), q_at = weft_k_mul(k, slot, weft_k_index(a->k, q_bytes));
    weft_ring_wait_empty(k, &q_ring);
    weft_ring_expect(k, &q_ring, q_bytes);
    for (int w = 0; w < a->consumers; w++)
        load_boxes(a, a->q_memory, weft_k_add(k, q_at, weft_k_index(a->k, (int64_t)w * weft_attention_q_bytes(a))),
                   64 * 128, &a->q, q_ring.full, slot, weft_k_add(k, work.q0, weft_k_index(a->k, 64 * w)), work.head);
    weft_ring_advance(k, &q_ring);
    weft_kval one = weft_k_index(k, 1), i = weft_k_for(k, one, work.blocks, one, 0);
    load_block(a, &k_ring, a->k_memory, &a->k_side, weft_attention_block(a, &work, i, NULL), work.key_head);
    load_block(a, &v_ring, a->v_memory, &a->v, weft_attention_block(a, &work, weft_k_plus(k, i, -1), NULL),
               work.key_head);
    weft_k_end(k);
    weft_kval first = weft_attention_block(a, &work, weft_k_plus(k, work.blocks, -1), NULL);
    load_block(a, &v_ring, a->v_memory, &a->v, first, work.key_head);
    weft_attention_tiles_end(a);
}

static void emit_barriers(weft_attention *a, weft_kval thread) {
    weft_kernel *k = a->k;
    weft_k_if(k, weft_k_eq(k, thread, weft_k_index(a->k, 0)));
    weft_ring_init(k, &a->k_ring, 1, a->consumers * 4);
    weft_ring_init(k, &a->v_ring, 1, a->consumers * 4);
    weft_ring_init(k, &a->q_ring, 1, a->consumers);
    weft_k_effect(k, WEFT_K_mbarrier_init_fence, 0, NULL, 0, 0);
    weft_k_end(k);
    weft_k_barrier(k);
}

/* Lengths stay arguments even when they are numbers: known trip counts would have loops of one step written out and
   merged, and the registers of wgmma in flight moved. */
static weft_kval length(weft_attention *a, weft_dim extent) {
    weft_dtype index = a->k->capability->index_dtype;
    int argument = weft_kernel_argument(
        a->k, (weft_kargument){.source = WEFT_ARGUMENT_EXTENT, .extent = extent, .dtype = index, .reads = true});
    return weft_kernel_emit(a->k, WEFT_K_scalar_argument, weft_kvector(index, 1), 0, NULL, argument, 0);
}

void weft_attention_emit(weft_attention *a) {
    weft_kernel *k = a->k;
    weft_dim_table *dims = k->dims;
    a->q_memory = weft_k_shared(k, WEFT_U8, (weft_dim)a->q_buffers * a->consumers * weft_attention_q_bytes(a));
    a->k_memory = weft_k_shared(k, WEFT_U8, (weft_dim)a->stages * weft_attention_kv_bytes(a));
    a->v_memory = weft_k_shared(k, WEFT_U8, (weft_dim)a->stages * weft_attention_kv_bytes(a));
    a->q_ring = weft_ring_create(k, a->q_buffers);
    a->k_ring = weft_ring_create(k, a->stages);
    a->v_ring = weft_ring_create(k, a->stages);
    weft_kval thread = weft_k_thread(k);
    a->first = weft_k_block(k);
    a->stride = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(k->capability->index_dtype, 1), 0, NULL, 0, 0);
    a->t = length(a, a->queries);
    a->s = length(a, a->keys);
    a->forms.s = a->s;
    a->forms.offset = weft_k_sub(k, a->s, a->forms.packed ? weft_k_index(a->k, 1) : a->t);
    weft_dim rows = weft_dim_divide_ceil(dims, a->queries, 64 * a->consumers);
    a->tiles_q = weft_k_extent(k, rows);
    a->tiles = weft_k_extent(k, weft_dim_multiply(dims, rows, a->heads));
    emit_barriers(a, thread);
    static const int give[] = {0, 0, 24, 32}, take[] = {0, 0, 240, 160};
    weft_k_effect(k, WEFT_K_role, 0, NULL, 1, give[a->consumers]);
    weft_k_if(k, weft_k_eq(k, thread, weft_k_index(a->k, 0)));
    emit_producer(a);
    weft_k_end(k);
    weft_k_effect(k, WEFT_K_role, 0, NULL, a->consumers, take[a->consumers]);
    weft_attention_consumer(a, thread);
    weft_k_end(k);
}
