/* attention_backward for Hopper, after FlashAttention-2 and -3 (Dao 2023; Shah et al. 2024): S^T and dP^T are computed
   transposed, so that P^T and dS^T go from accumulators straight into the operands of dV and dK; only dS for dQ passes
   through shared memory.

   Three plans. Where key heads fill the processors: prepare (statistics), then the kernel of keys with one block for
   each key head, which alone adds up that head's dQ: a fixed order, same bits every time. Else the kernel of queries
   (statistics and dQ), then the kernel of keys (dK, dV): 7 products in place of 5, a fixed order too; or, where sums in
   no fixed order are permitted, prepare (which also clears the sums), the kernel of keys, which adds dQ by atomics, and
   finish, which converts the sums. Above 128 columns the kernel of keys runs twice, for dV and for dK: 8 products.
   Accepts what attention_hopper.c accepts, with at least one query. Read next: attention_backward_hopper.h. */
#include "codegen/builders/attention_backward_hopper.h"

#include "codegen/builders/attention_hopper.h"
#include "codegen/tile/wgmma.h"

static const weft_node *find_node(const weft_node *fusion) {
    return weft_fusion_find(fusion, WEFT_OP_attention_backward);
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    const weft_node *node = find_node(fusion);
    *out_reason = "no attention_backward in the group";
    if (!node || !weft_attention_claims(graph, node, capability, out_reason) || !weft_attention_walks(node, out_reason))
        return false;
    *out_reason = "the log-sum-exp is computed in the group";
    return !node->operands[WEFT_BACKWARD_LSE]->node && weft_attention_reaches(graph, fusion, node, 4, out_reason) &&
           weft_attention_memory(graph, node->operands[WEFT_BACKWARD_DO], &(weft_head_view){0});
}

/* How dQ comes about: schedule.split. */
enum { TWO_KERNELS, UNORDERED_SUMS, OWNED_SUMS };

/* Key heads fill the processors: one block for each then takes no longer than blocks for each 128 keys, and need not
   share its sums. */
static bool heads_fill(const weft_build_request *request) {
    const weft_type *k = weft_operand_type(find_node(request->fusion), WEFT_BACKWARD_K);
    weft_dim heads = weft_dim_multiply(request->graph->dims, k->dims[0], k->dims[1]);
    int64_t processors = request->capability->multiprocessors;
    if (!weft_dim_is_number(heads) || processors < 1 || request->capability->batch_invariant) return false;
    return heads * 100 >= (heads + processors - 1) / processors * processors * 85;
}

static weft_schedule schedule_of(int bm, int split, int way) {
    return (weft_schedule){.builder = "attention-backward-hopper",
                           .tile_m = bm,
                           .tile_n = WEFT_BACKWARD_KEYS,
                           .threads = WEFT_BACKWARD_THREADS,
                           .stages = 2,
                           .consumers = WEFT_BACKWARD_CONSUMERS,
                           .cluster = 1,
                           .split = split,
                           .way = way};
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    int width = weft_attention_width(weft_operand_type(find_node(request->fusion), 0)), count = 0;
    bool narrow = width == 64; /* wider sums of an owner would spill registers in every step */
    weft_attention_forms forms;
    weft_attention_forms_init(&forms, request, find_node(request->fusion));
    bool plain = weft_attention_plain(&forms);
    bool draws = weft_attention_draws(&forms);
    int two = narrow ? 128 : draws ? 48 : 80; /* queries of a step of the kernel of keys: as registers permit */
    if (width > 128) {                        /* no other plan: weft_backward_part */
        two = weft_backward_wide_rows(width, &forms);
        if (capacity > 0) out_schedules[0] = schedule_of(two, TWO_KERNELS, WEFT_BACKWARD_SEPARATE);
        return capacity > 0;
    }
    bool several = (forms.cap > 0) + (forms.mask != NULL) + draws > 1;
    if (!plain) two = narrow ? 64 : several ? 32 : 48;
    const int rows[] = {[TWO_KERNELS] = two, [UNORDERED_SUMS] = 8192 / width, [OWNED_SUMS] = 8192 / width};
    bool fill = narrow && heads_fill(request), relaxed = request->capability->relax_order;
    /* what a compile takes without and with the permission, then the others */
    int fixed = fill ? OWNED_SUMS : TWO_KERNELS, fastest = fill ? OWNED_SUMS : UNORDERED_SUMS;
    const int ways[] = {relaxed ? fastest : fixed, relaxed ? fixed : fastest, TWO_KERNELS, UNORDERED_SUMS, OWNED_SUMS};
    /* measured on an H200: turns fill the tensor cores where a step's exponentials take as long as its products */
    const int way[] = {[TWO_KERNELS] = !narrow           ? WEFT_BACKWARD_SEPARATE
                                       : forms.right < 0 ? WEFT_BACKWARD_TURNS
                                                         : WEFT_BACKWARD_TURNS | WEFT_BACKWARD_TURNS_QUERIES,
                       [UNORDERED_SUMS] = narrow ? WEFT_BACKWARD_TURNS | WEFT_BACKWARD_TWO_KEYS : 0,
                       [OWNED_SUMS] = WEFT_BACKWARD_TWO_KEYS};
    if (!plain) { /* no registers for sums beside a mask */
        if (capacity > 0) out_schedules[0] = schedule_of(two, TWO_KERNELS, way[TWO_KERNELS]);
        return capacity > 0;
    }
    for (int i = 0; i < (narrow ? 5 : 4) && count < capacity; i++)
        out_schedules[count++] = schedule_of(rows[ways[i]], ways[i], way[ways[i]]);
    return count;
}

/* -- arguments */

static int buffer_count(const weft_kernel *k) {
    int count = 0;
    for (size_t i = 0; i < k->argument_count; i++)
        count += k->arguments[i].source != WEFT_ARGUMENT_EXTENT && k->arguments[i].source != WEFT_ARGUMENT_TENSOR_MAP;
    return count;
}

weft_kval weft_backward_operand(weft_backward *b, int operand, const char *name) {
    const weft_value *value = b->node->operands[operand];
    weft_head_view view;
    if (operand != WEFT_BACKWARD_LSE) value = weft_attention_memory(b->request->graph, value, &view);
    return weft_kernel_buffer(b->k, WEFT_ARGUMENT_OPERAND, value->index, value->type.dtype, false, name);
}

weft_kval weft_backward_temp(weft_backward *b, int temp, weft_dtype dtype, bool writes, const char *name) {
    return weft_kernel_buffer(b->k, WEFT_ARGUMENT_TEMP, temp, dtype, writes, name);
}

weft_attention_side weft_backward_lines_in(weft_backward *b, int operand, const char *name, weft_kval *out_memory) {
    *out_memory = weft_backward_operand(b, operand, name);
    return weft_attention_operand_side(b->request->graph, b->node->operands[operand]);
}

weft_attention_side weft_backward_lines_out(weft_backward *b, int result, const char *name, weft_kval *out_memory) {
    bool tokens_first;
    int index = weft_attention_result(b->request->fusion, b->node, result, &tokens_first);
    *out_memory = weft_kernel_buffer(b->k, WEFT_ARGUMENT_RESULT, index, b->dtype, true, name);
    return weft_attention_result_side(&b->node->results[result].type, tokens_first);
}

static const char *map_name(weft_backward *b, const char *name) {
    const char *text = weft_arena_format(b->request->arena, "map_%s", name);
    return text ? text : name;
}

weft_attention_side weft_backward_in(weft_backward *b, int operand, int box_rows, const char *name) {
    weft_kval memory;
    weft_attention_side side = weft_backward_lines_in(b, operand, name, &memory);
    weft_attention_side_map(&side, b->k, b->plan, buffer_count(b->k) - 1, b->dtype, b->columns, box_rows, false,
                            map_name(b, name));
    return side;
}

weft_attention_side weft_backward_out(weft_backward *b, int result, int box_rows, const char *name) {
    weft_kval memory;
    weft_attention_side side = weft_backward_lines_out(b, result, name, &memory);
    weft_attention_side_map(&side, b->k, b->plan, buffer_count(b->k) - 1, b->dtype, b->columns, box_rows, true,
                            map_name(b, name));
    return side;
}

weft_kval weft_backward_statistics_map(weft_backward *b, const char *name) {
    weft_tensor_map *map = &b->plan->maps[b->plan->map_count];
    *map = (weft_tensor_map){.buffer = buffer_count(b->k) - 1, .dtype = WEFT_F32, .rank = 2};
    map->extent[0] = b->queries, map->extent[1] = b->heads;
    map->stride_bytes[1] = weft_dim_multiply(b->k->dims, b->rows, 4);
    map->box[0] = b->bm, map->box[1] = 1;
    return weft_kernel_buffer(b->k, WEFT_ARGUMENT_TENSOR_MAP, b->plan->map_count++, WEFT_F32, false, name);
}

weft_kval weft_backward_length(weft_backward *b, weft_dim extent) {
    weft_dtype index = b->k->capability->index_dtype;
    int argument = weft_kernel_argument(
        b->k, (weft_kargument){.source = WEFT_ARGUMENT_EXTENT, .extent = extent, .dtype = index, .reads = true});
    return weft_kernel_emit(b->k, WEFT_K_scalar_argument, weft_kvector(index, 1), 0, NULL, argument, 0);
}

weft_kval weft_backward_together(weft_backward *b, weft_dim heads, weft_dim bytes_each) {
    weft_dim_table *dims = b->k->dims;
    weft_dim fit = weft_dim_divide_floor(dims, b->k->capability->l2_bytes / 2, weft_dim_maximum(dims, bytes_each, 1));
    return weft_backward_length(b, weft_dim_maximum(dims, 1, weft_dim_minimum(dims, heads, fit)));
}

/* -- what kernels with roles have in common */

void weft_backward_start(weft_backward *b, weft_dim tiles) {
    b->k->threads = WEFT_BACKWARD_THREADS;
    b->k->registers = 65536 / WEFT_BACKWARD_THREADS / 8 * 8;
    b->k->grid = weft_dim_minimum(b->k->dims, tiles, b->request->capability->multiprocessors);
}

void weft_backward_load(weft_backward *b, weft_kval memory, weft_kval at, int box, const weft_attention_side *side,
                        weft_kval barrier, weft_kval index, weft_kval row, weft_kval head) {
    weft_kernel *k = b->k;
    for (int half = 0; half < weft_backward_halves(b); half++) {
        weft_kval operands[9] = {memory, weft_k_plus(k, at, (int64_t)half * box), side->map, barrier, index};
        int rank = weft_attention_coordinates(k, side, 64 * half, row, head, operands + 5);
        weft_k_effect(k, WEFT_K_tensor_load, 5 + rank, operands, 0, 0);
    }
}

void weft_backward_stage(weft_backward *b, weft_kval sums, double factor, weft_kval memory, weft_kval row_at,
                         weft_kval lane, int box) {
    weft_kernel *k = b->k;
    weft_kval packed = weft_k_regs(k, WEFT_U32, 1, 4), scale = weft_k_f32(k, factor);
    for (int i = 0; i < b->width / 16; i++) {
        for (int x = 0; x < 4; x++) {
            weft_kval low = weft_k_mul(k, weft_k_reg(k, sums, 8 * i + 2 * x), scale),
                      high = weft_k_mul(k, weft_k_reg(k, sums, 8 * i + 2 * x + 1), scale);
            weft_k_set_reg(k, packed, x, weft_wgmma_pack(k, low, high, b->dtype));
        }
        weft_k_effect(k, WEFT_K_frag_store, 4,
                      (weft_kval[]){packed, weft_k_index(k, 0), memory, weft_wgmma_place(k, row_at, lane, i, box)},
                      WEFT_FRAGMENT_X4, 0);
    }
    weft_k_event(k, WEFT_K_fence_async, 0);
}

void weft_backward_send(weft_backward *b, const weft_attention_side *side, weft_kval memory, weft_kval at, int box,
                        weft_kval row, weft_kval head) {
    weft_kernel *k = b->k;
    for (int half = 0; half < weft_backward_halves(b); half++) {
        weft_kval operands[7] = {side->map, memory, weft_k_plus(k, at, (int64_t)half * box)};
        int rank = weft_attention_coordinates(k, side, 64 * half, row, head, operands + 3);
        weft_k_effect(k, WEFT_K_tensor_store, 3 + rank, operands, 0, 0);
    }
    weft_k_event(k, WEFT_K_bulk_commit, 0);
}

/* -- the plan */

/* scores: the kernel computes them, so it may read the mask. */
static weft_status add_kernel(weft_backward *b, int launch, const char *suffix, bool scores,
                              void (*emit)(weft_backward *b)) {
    b->k = weft_plan_kernel(b->request, suffix);
    if (!b->k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", b->request->name);
    if (scores) WEFT_TRY(weft_attention_forms_declare(&b->forms, b->k), "building %s", b->request->name);
    emit(b);
    if (scores) WEFT_TRY(weft_index_finish(&b->forms.index), "building %s", b->request->name);
    return weft_plan_set(b->request, b->plan, launch, b->k);
}

static void make_temps(weft_backward *b) {
    weft_dim_table *dims = b->request->graph->dims;
    weft_dim rows = weft_dim_multiply(dims, b->rows, b->heads);
    b->plan->temps[WEFT_BACKWARD_LSE2].bytes = weft_dim_multiply(dims, rows, 4);
    b->plan->temps[WEFT_BACKWARD_DELTA].bytes = weft_dim_multiply(dims, rows, 4);
    b->plan->temps[WEFT_BACKWARD_COUNTERS].bytes = 8;
    if (b->sums) b->plan->temps[WEFT_BACKWARD_SUMS].bytes = weft_dim_multiply(dims, rows, 4 * b->width);
}

/* Without sums: lists where a mask has them, statistics where they are separate, dQ, then dK and dV. */
static weft_status build_two(weft_backward *b) {
    int launch = 0;
    if (b->listed) {
        b->query_pairs = (weft_attention_pairs){.request = b->request,
                                                .forms = b->forms,
                                                .queries = b->queries,
                                                .keys = b->keys,
                                                .bm = WEFT_BACKWARD_QUERY_TILE,
                                                .bn = weft_backward_query_block(b),
                                                .temp = WEFT_BACKWARD_SUMS};
        b->key_pairs = b->query_pairs;
        b->key_pairs.bm = b->bm, b->key_pairs.bn = WEFT_BACKWARD_KEYS, b->key_pairs.by_keys = true;
        b->key_pairs.temp += WEFT_ATTENTION_TEMPS;
        weft_attention_list_temps(&b->query_pairs, b->plan);
        weft_attention_list_temps(&b->key_pairs, b->plan);
        WEFT_TRY(weft_attention_add_lists(&b->query_pairs, b->plan, launch), "building %s", b->request->name);
        WEFT_TRY(weft_attention_add_lists(&b->key_pairs, b->plan, launch + 2), "building %s", b->request->name);
        launch += 4;
    }
    if (b->way & WEFT_BACKWARD_SEPARATE)
        WEFT_TRY(add_kernel(b, launch++, "_prepare", false, weft_backward_prepare), "building %s", b->request->name);
    WEFT_TRY(add_kernel(b, launch++, "_queries", true, weft_backward_queries), "building %s", b->request->name);
    if (weft_backward_wide(b)) {
        b->part = WEFT_BACKWARD_ONLY_DV;
        WEFT_TRY(add_kernel(b, launch++, "_values", true, weft_backward_keys), "building %s", b->request->name);
        b->part = WEFT_BACKWARD_ONLY_DK;
    }
    return add_kernel(b, launch, "_keys", true, weft_backward_keys);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    enum { MAPS_MAX = 24 };
    const weft_node *node = find_node(request->fusion);
    const weft_type *q = weft_operand_type(node, WEFT_BACKWARD_Q), *keys = weft_operand_type(node, WEFT_BACKWARD_K);
    weft_dim_table *dims = request->graph->dims;
    weft_backward b = {.request = request,
                       .node = node,
                       .plan = out_plan,
                       .dtype = q->dtype,
                       .queries = q->dims[2],
                       .keys = keys->dims[2],
                       .heads = weft_dim_multiply(dims, q->dims[0], q->dims[1]),
                       .key_heads = weft_dim_multiply(dims, keys->dims[0], keys->dims[1]),
                       .width = weft_attention_width(q),
                       .columns = (int)q->dims[3],
                       .bm = request->schedule->tile_m,
                       .way = request->schedule->way,
                       .sums = request->schedule->split != TWO_KERNELS,
                       .owned = request->schedule->split == OWNED_SUMS};
    if ((b.bm != 8192 / b.width && (b.sums || b.bm % 16 || b.bm < 16 || b.bm > 80)) ||
        request->schedule->tile_n != WEFT_BACKWARD_KEYS || request->schedule->stages != 2)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "attention-backward-hopper: schedule %dx%d",
                           request->schedule->tile_m, request->schedule->tile_n);
    if ((b.way & WEFT_BACKWARD_TWO_KEYS && b.width != 64) || (b.way & WEFT_BACKWARD_SEPARATE && b.sums))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "attention-backward-hopper: way %d", b.way);
    if (b.width > 128 && (b.sums || !(b.way & WEFT_BACKWARD_SEPARATE)))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "attention-backward-hopper: sums of %d columns", b.width);
    if (b.owned && b.width != 64)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "attention-backward-hopper: owned sums of %d columns", b.width);
    weft_attention_forms_init(&b.forms, request, node);
    b.scale = b.forms.scale, b.causal = b.forms.right >= 0;
    b.tiles = weft_dim_divide_ceil(dims, b.queries, b.bm);
    b.rows = weft_dim_multiply(dims, b.tiles, b.bm);
    if (!weft_dim_divide_exact(dims, q->dims[1], keys->dims[1], &b.group))
        return WEFT_STATUS(WEFT_INTERNAL, "attention-backward-hopper: heads");
    bool separate = b.way & WEFT_BACKWARD_SEPARATE;
    b.listed = !b.sums && weft_attention_lists(&b.forms);
    WEFT_TRY(
        weft_plan_init(request, ((b.sums && !b.owned) || separate ? 3 : 2) + (b.width > 128) + (b.listed ? 4 : 0),
                       (b.sums ? WEFT_BACKWARD_TEMPS : WEFT_BACKWARD_SUMS) + (b.listed ? 2 * WEFT_ATTENTION_TEMPS : 0),
                       out_plan),
        "building %s", request->name);
    out_plan->maps = weft_arena_allocate_array(request->arena, MAPS_MAX, sizeof *out_plan->maps);
    if (!out_plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    make_temps(&b);
    if (!b.sums) return build_two(&b);
    WEFT_TRY(add_kernel(&b, 0, "_prepare", false, weft_backward_prepare), "building %s", request->name);
    WEFT_TRY(add_kernel(&b, 1, "_keys", true, weft_backward_keys), "building %s", request->name);
    return b.owned ? NULL : add_kernel(&b, 2, "_finish", false, weft_backward_finish);
}

extern const weft_builder weft_builder_attention_backward_hopper;
const weft_builder weft_builder_attention_backward_hopper = {
    .name = "attention_backward", .accepts = accepts, .propose = propose, .build = build};
