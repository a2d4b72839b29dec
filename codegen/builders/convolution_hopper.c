/* convolution for Hopper as an implicit product by wgmma: rows are output channels, columns output positions, k runs
   over taps and 64 channels at a time (128 bytes).

   Two spatial axes, one group, stride 1; bf16, f16, and f32 as tf32 where the compile permits it; sums in f32. In front
   x is copied to channels last and w to [o][tap][c], w at load when it is constant. A tile of positions is a box of tw
   x th positions of tn images: for each tap and 64 channels one tensor copy, shifted by the tap; what lies in the
   padding, or past the channels, arrives as zeros. Sums leave from registers to where the graph wants them: channels
   first. One producer warp, one or two consumers of 64 channels, blocks persistent over tiles. Sums run over taps, then
   channels, in the unit's order. Read next: matmul_hopper_kernel.c, whose loop this is. */
#include "codegen/builders/matmul.h"
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/plan.h"
#include "codegen/builders/simt_convolution.h"
#include "codegen/kernel/verify.h"

enum { OUTPUTS_MIN = 32, COLUMNS_MAX = 256, PACK_THREADS = 256 };

typedef struct tile_box {
    int w, h, n; /* positions along the last axis and the one before, images */
} tile_box;

typedef struct hopper_convolution {
    const weft_build_request *request;
    const weft_node *node;
    weft_kernel *k;
    weft_index_context *index;
    int64_t images, inputs, outputs, in[2], out[2], taps[2], low[2], dilation[2];
    int64_t padded; /* elements from one position to the next in the copies */
    int x, w;       /* operands of the fusion */
    weft_dtype dtype;
    weft_async_type unit;
    int bytes, bk, bm, consumers, stages, stage_bytes;
    tile_box box;
    int columns; /* of a tile: positions of a box */
    /* of the kernel */
    weft_kval map_w, map_x, operands;
    weft_ring ring;
    weft_kval steps, blocks_of_k, first, stride, tiles;
    int64_t tiles_m, tiles_w, tiles_h, tiles_n;
} hopper_convolution;

static weft_kval index_of(const hopper_convolution *c, int64_t value) { return weft_k_index(c->k, value); }
static weft_kval plus(const hopper_convolution *c, weft_kval a, weft_kval b) { return weft_k_add(c->k, a, b); }
static weft_kval times(const hopper_convolution *c, weft_kval a, int64_t b) {
    return weft_k_mul(c->k, a, index_of(c, b));
}
static weft_kval over(const hopper_convolution *c, weft_kval a, int64_t b) {
    return weft_k_div(c->k, a, index_of(c, b));
}
static weft_kval rest(const hopper_convolution *c, weft_kval a, int64_t b) {
    return weft_k_rem(c->k, a, index_of(c, b));
}

/* -- the problem */

static int operand_of(const weft_node *fusion, const weft_value *value) {
    return !value->node && value->block == weft_fusion_block(fusion) ? value->index : -1;
}

static bool all_numbers(const weft_type *type) {
    for (int i = 0; i < type->rank; i++)
        if (!weft_dim_is_number(type->dims[i])) return false;
    return true;
}

static bool find_unit(const weft_capability *capability, weft_dtype dtype, weft_async_type *out_unit) {
    *out_unit = dtype == WEFT_BF16 ? WEFT_ASYNC_BF16 : dtype == WEFT_F16 ? WEFT_ASYNC_F16 : WEFT_ASYNC_TF32;
    return dtype == WEFT_BF16 || dtype == WEFT_F16 || (dtype == WEFT_F32 && capability->relax_f32);
}

static bool find(const weft_node *fusion, const weft_capability *capability, hopper_convolution *out,
                 const char **out_reason) {
    const weft_node *node = weft_fusion_find(fusion, WEFT_OP_convolution);
    *out = (hopper_convolution){.node = node};
    const weft_type *x = weft_operand_type(node, 0), *w = weft_operand_type(node, 1), *y = &node->results[0].type;
    *out_reason = "no two spatial axes of known extents in one group";
    if (x->rank != 4 || weft_node_int(node, WEFT_ATTR_groups, 1) != 1 || !all_numbers(x) || !all_numbers(w) ||
        !all_numbers(y))
        return false;
    *out_reason = "operands of types that wgmma has not, or whose rounding this compile does not allow";
    if (x->dtype != w->dtype || !find_unit(capability, x->dtype, &out->unit) || weft_product_sum(node) != WEFT_F32)
        return false;
    for (int d = 0; d < 2; d++) {
        weft_dim low = weft_node_attribute(node, WEFT_ATTR_low)->as.dims[d];
        *out_reason = "a stride, a dilated input or padding that is no number";
        if (weft_node_attribute(node, WEFT_ATTR_stride)->as.ints[d] != 1 ||
            weft_node_attribute(node, WEFT_ATTR_base_dilation)->as.ints[d] != 1 || !weft_dim_is_number(low))
            return false;
        out->low[d] = low, out->dilation[d] = weft_node_attribute(node, WEFT_ATTR_dilation)->as.ints[d];
        out->in[d] = x->dims[d + 2], out->out[d] = y->dims[d + 2], out->taps[d] = w->dims[d + 2];
    }
    out->images = x->dims[0], out->inputs = x->dims[1], out->outputs = w->dims[0], out->dtype = x->dtype;
    out->bytes = weft_dtype_bits(x->dtype) / 8, out->bk = HOPPER_ROW_BYTES / out->bytes;
    out->padded = (out->inputs + out->bk - 1) / out->bk * out->bk;
    out->x = operand_of(fusion, node->operands[0]), out->w = operand_of(fusion, node->operands[1]);
    *out_reason = "an operand is computed in the group";
    return out->x >= 0 && out->w >= 0;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    hopper_convolution c;
    *out_reason = NULL;
    if (!capability->hopper || !weft_simt_convolution_accepts(graph, fusion, capability, out_reason)) return false;
    if (!find(fusion, capability, &c, out_reason)) return false;
    *out_reason = "too few channels or positions for a tile";
    int64_t positions = (capability->batch_invariant ? 1 : c.images) * c.out[0] * c.out[1];
    if (c.outputs < OUTPUTS_MIN || c.padded > 2 * c.inputs || positions < 64) return false;
    /* measured, 64 channels to 256: what is bound by memory wants no copy of x, and mma.sync reads it where it lies */
    *out_reason = "a point kernel of few channels, whose input needs no copy for mma.sync";
    bool point =
        c.taps[0] * c.taps[1] == 1 && c.low[0] == 0 && c.low[1] == 0 && c.out[0] == c.in[0] && c.out[1] == c.in[1];
    if (point && c.bytes == 2 && c.inputs <= 128 && c.out[0] * c.out[1] % 8 == 0) return false;
    *out_reason = "positions need more than 31 bits";
    if (!weft_fusion_fits_index(graph, fusion, capability) || c.images * c.in[0] * c.in[1] * c.padded > INT32_MAX ||
        c.outputs * c.taps[0] * c.taps[1] * c.padded > INT32_MAX)
        return false;
    *out_reason = NULL;
    return true;
}

/* -- schedules */

static int64_t pieces(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

static int64_t tiles_of(const hopper_convolution *c, const tile_box *box) {
    return pieces(c->out[1], box->w) * pieces(c->out[0], box->h) * pieces(c->images, box->n);
}

/* The box that covers all positions with the fewest rounds of tiles, each as long as its columns; among equal ones the
   widest, whose stores are the longest. Even widths: sums are stored in pairs. */
static tile_box choose_box(const hopper_convolution *c, int multiprocessors, int columns_max) {
    tile_box best = {0};
    double least = 1e300;
    for (int w = columns_max; w > 0; w -= 2) {
        if (w > c->out[1] + 7 || (w % 8 && w != (c->out[1] + 1) / 2 * 2)) continue;
        for (int h = 1; w * h <= columns_max && h <= c->out[0]; h++)
            for (int n = 1; w * h * n <= columns_max && n <= c->images + 7; n++) {
                int columns = w * h * n;
                tile_box box = {w, h, n};
                if (columns % 8) continue;
                int64_t tiles = tiles_of(c, &box) * pieces(c->outputs, c->bm), rounds = pieces(tiles, multiprocessors);
                double cost = (double)rounds * ((columns < 64 ? 64 : columns) + 24);
                if (cost >= least) continue;
                least = cost, best = box;
            }
    }
    return best;
}

static int stages_of(const weft_capability *capability, int bm, int columns) {
    int stages = 8;
    while (stages > 2 && (int64_t)stages * ((bm + columns) * HOPPER_ROW_BYTES + 16) + 1024 > capability->shared_bytes)
        stages--;
    return stages;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    hopper_convolution c;
    const char *reason;
    int count = 0;
    if (!find(request->fusion, request->capability, &c, &reason)) return 0;
    for (int i = 0; i < 4 && count < capacity; i++) {
        c.consumers = c.outputs > 64 ? 2 - i % 2 : 1 + i % 2, c.bm = 64 * c.consumers;
        tile_box box = choose_box(&c, request->capability->multiprocessors, i < 2 ? COLUMNS_MAX : COLUMNS_MAX / 2);
        bool known = false; /* as narrow as it is wide */
        for (int j = 0; j < count; j++)
            known |= out_schedules[j].tile_m == c.bm && out_schedules[j].box_w == box.w &&
                     out_schedules[j].box_h == box.h && out_schedules[j].tile_n == box.w * box.h * box.n;
        if (!box.w || known || (c.outputs <= 64 && c.consumers == 2)) continue;
        out_schedules[count++] = (weft_schedule){.builder = "convolution-hopper",
                                                 .tile_m = c.bm,
                                                 .tile_n = box.w * box.h * box.n,
                                                 .tile_k = c.bk,
                                                 .box_w = box.w,
                                                 .box_h = box.h,
                                                 .threads = 128 * (1 + c.consumers),
                                                 .stages = stages_of(request->capability, c.bm, box.w * box.h * box.n),
                                                 .consumers = c.consumers};
    }
    return count;
}

/* -- copies in front */

/* w [o][c][tap] to [o][tap][c padded]: an element a thread. */
static weft_status plan_weights(const hopper_convolution *c, weft_kernel_plan *plan, int launch) {
    const weft_build_request *request = c->request;
    weft_kernel *k = weft_plan_kernel(request, "_w");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    int64_t taps = c->taps[0] * c->taps[1], total = c->outputs * taps * c->padded;
    plan->temps[launch] = (weft_plan_temp){.bytes = total * c->bytes, .persistent = true, .operand = c->w};
    k->threads = PACK_THREADS;
    k->grid = pieces(total, PACK_THREADS);
    weft_kval from = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, c->w, c->dtype, false, "w");
    weft_kval to = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, launch, c->dtype, true, "turned");
    weft_kval at = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, PACK_THREADS)), weft_k_thread(k));
    weft_kval channel = weft_k_rem(k, at, weft_k_index(k, c->padded)),
              line = weft_k_div(k, at, weft_k_index(k, c->padded));
    weft_kval tap = weft_k_rem(k, line, weft_k_index(k, taps)), output = weft_k_div(k, line, weft_k_index(k, taps));
    weft_kval row = weft_k_add(k, weft_k_mul(k, output, weft_k_index(k, c->inputs)), channel);
    weft_k_if(
        k, weft_k_and(k, weft_k_lt(k, at, weft_k_index(k, total)), weft_k_lt(k, channel, weft_k_index(k, c->inputs))));
    weft_kval value =
        weft_k_load(k, from, weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, taps)), tap), 1, WEFT_KNONE, WEFT_KNONE);
    weft_k_store(k, to, at, WEFT_KNONE, value);
    weft_k_end(k);
    WEFT_TRY(weft_kernel_verify(k), "building %s", request->name);
    WEFT_TRY(weft_plan_set(request, plan, launch, k), "building %s", request->name);
    plan->launches[launch].packs = true;
    return NULL;
}

/* x [n][c][h w] to [n][h w][c padded]. */
static weft_status plan_input(const hopper_convolution *c, weft_kernel_plan *plan, int launch) {
    const weft_build_request *request = c->request;
    weft_kernel *k = weft_plan_kernel(request, "_x");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    int64_t positions = c->in[0] * c->in[1];
    plan->temps[launch] =
        (weft_plan_temp){.bytes = c->images * positions * c->padded * c->bytes, .persistent = true, .operand = c->x};
    weft_kval from = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, c->x, c->dtype, false, "x");
    weft_kval to = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, launch, c->dtype, true, "turned");
    weft_hopper_turn(k, from, to, c->images, c->inputs, positions, c->padded);
    WEFT_TRY(weft_kernel_verify(k), "building %s", request->name);
    WEFT_TRY(weft_plan_set(request, plan, launch, k), "building %s", request->name);
    plan->launches[launch].packs = true;
    return NULL;
}

/* -- tensor maps */

static weft_status make_maps(hopper_convolution *c, weft_kernel_plan *plan) {
    plan->maps = weft_arena_allocate_array(c->request->arena, 2, sizeof *plan->maps);
    if (!plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "convolution-hopper");
    int64_t taps = c->taps[0] * c->taps[1], pitch = c->padded * c->bytes;
    (void)weft_kernel_buffer(c->k, WEFT_ARGUMENT_TEMP, 0, c->dtype, false, "w");
    (void)weft_kernel_buffer(c->k, WEFT_ARGUMENT_TEMP, 1, c->dtype, false, "x");
    int buffers = 0; /* the two are the first buffers of the kernel */
    plan->maps[0] = (weft_tensor_map){.buffer = buffers,
                                      .dtype = c->dtype,
                                      .rank = 3,
                                      .extent = {c->inputs, taps, c->outputs},
                                      .stride_bytes = {0, pitch, taps * pitch},
                                      .box = {c->bk, 1, c->bm},
                                      .swizzle_bytes = 128};
    plan->maps[1] = (weft_tensor_map){.buffer = buffers + 1,
                                      .dtype = c->dtype,
                                      .rank = 4,
                                      .extent = {c->inputs, c->in[1], c->in[0], c->images},
                                      .stride_bytes = {0, pitch, c->in[1] * pitch, c->in[0] * c->in[1] * pitch},
                                      .box = {c->bk, c->box.w, c->box.h, c->box.n},
                                      .swizzle_bytes = 128};
    c->map_w = weft_kernel_buffer(c->k, WEFT_ARGUMENT_TENSOR_MAP, 0, c->dtype, false, "map_w");
    c->map_x = weft_kernel_buffer(c->k, WEFT_ARGUMENT_TENSOR_MAP, 1, c->dtype, false, "map_x");
    plan->map_count = 2;
    return NULL;
}

/* -- the kernel */

typedef struct place {
    weft_kval output, w, h, n; /* first of the tile */
} place;

static place place_of(const hopper_convolution *c, weft_kval tile) {
    place p;
    p.output = times(c, rest(c, tile, c->tiles_m), c->bm);
    tile = over(c, tile, c->tiles_m);
    p.w = times(c, rest(c, tile, c->tiles_w), c->box.w);
    tile = over(c, tile, c->tiles_w);
    p.h = times(c, rest(c, tile, c->tiles_h), c->box.h);
    p.n = times(c, over(c, tile, c->tiles_h), c->box.n);
    return p;
}

static void emit_producer(const hopper_convolution *c) {
    weft_kernel *k = c->k;
    weft_ring ring = weft_ring_begin(k, &c->ring);
    weft_kval tile = weft_k_for(k, c->first, c->tiles, c->stride, 0);
    place p = place_of(c, tile);
    weft_kval step = weft_k_for(k, index_of(c, 0), c->steps, index_of(c, 1), 0);
    weft_kval tap = weft_k_div(k, step, c->blocks_of_k), channel = times(c, weft_k_rem(k, step, c->blocks_of_k), c->bk);
    weft_kval slot = weft_ring_slot(k, &ring), at = times(c, slot, c->stage_bytes);
    weft_ring_wait_empty(k, &ring);
    weft_ring_expect(k, &ring, c->stage_bytes);
    weft_kval all[9] = {c->operands, at, c->map_w, ring.full, slot, channel, tap, p.output};
    weft_k_effect(k, WEFT_K_tensor_load, 8, all, 0, 0);
    weft_kval tx = times(c, rest(c, tap, c->taps[1]), c->dilation[1]),
              ty = times(c, over(c, tap, c->taps[1]), c->dilation[0]);
    all[1] = plus(c, at, index_of(c, (int64_t)c->bm * HOPPER_ROW_BYTES));
    all[2] = c->map_x;
    all[6] = weft_k_sub(k, plus(c, p.w, tx), index_of(c, c->low[1]));
    all[7] = weft_k_sub(k, plus(c, p.h, ty), index_of(c, c->low[0]));
    all[8] = p.n;
    weft_k_effect(k, WEFT_K_tensor_load, 9, all, 0, 0);
    weft_ring_advance(k, &ring);
    weft_k_end(k);
    weft_k_end(k);
}

typedef struct consumer {
    weft_kval number, lane, d, row_lane, column_lane;
    weft_layout layout;
    weft_ring ring;
} consumer;

static weft_kval make_operand(const hopper_convolution *c, weft_kval at) {
    return weft_kernel_emit(c->k, WEFT_K_operand, weft_kvector(WEFT_U64, 1), 2, (weft_kval[]){c->operands, at},
                            weft_operand_layout(128, 16, 1024), 0);
}

static void release_slot(const hopper_convolution *c, const consumer *own, weft_kval held) {
    weft_kernel *k = c->k;
    weft_k_if(k, weft_k_eq(k, own->lane, index_of(c, 0)));
    weft_mbarrier_emit(k, WEFT_K_mbarrier_arrive, c->ring.empty, weft_k_get(k, held), 0);
    weft_k_end(k);
}

static void emit_main_loop(const hopper_convolution *c, const consumer *own) {
    weft_kernel *k = c->k;
    weft_kval zero = index_of(c, 0), held = weft_k_var(k, zero);
    weft_kval step = weft_k_for(k, zero, c->steps, index_of(c, 1), 0);
    weft_kval slot = weft_ring_slot(k, &own->ring), later = weft_k_ne(k, step, zero),
              at = times(c, slot, c->stage_bytes);
    weft_kval a = make_operand(c, plus(c, at, times(c, own->number, 64 * HOPPER_ROW_BYTES)));
    weft_kval b = make_operand(c, plus(c, at, index_of(c, (int64_t)c->bm * HOPPER_ROW_BYTES)));
    weft_ring_wait_full(k, &own->ring);
    weft_k_effect(k, WEFT_K_mma_fence, 0, NULL, 0, 0);
    for (int q = 0; q < HOPPER_ROW_BYTES / 32; q++) {
        weft_kval move = weft_k_integer(k, WEFT_U64, 2 * q);
        weft_kval operands[6] = {own->d, zero, weft_k_add(k, a, move), zero, WEFT_KNONE, q ? WEFT_KNONE : later};
        operands[4] = weft_k_add(k, b, move);
        weft_k_effect(k, WEFT_K_mma_async, 6, operands, weft_async_unit(c->columns, c->unit, 0), 0);
    }
    weft_k_effect(k, WEFT_K_mma_commit, 0, NULL, 0, 0);
    weft_k_effect(k, WEFT_K_mma_wait, 0, NULL, 1, 0);
    weft_k_if(k, later);
    release_slot(c, own, held);
    weft_k_end(k);
    weft_k_set(k, held, slot);
    weft_ring_advance(k, &own->ring);
    weft_k_end(k);
    weft_k_effect(k, WEFT_K_mma_wait, 1, &own->d, 0, 0);
    release_slot(c, own, held);
}

/* Results at the pair of positions from column `column` of the tile on; with an odd number of positions the last pair
   of a row has one. */
static void store_pair(const hopper_convolution *c, const place *p, weft_kval output, weft_kval column,
                       weft_kval sums) {
    weft_kernel *k = c->k;
    const weft_type *y = &c->node->results[0].type;
    weft_kval line = over(c, column, c->box.w), w = plus(c, p->w, rest(c, column, c->box.w)),
              width = index_of(c, c->out[1]);
    weft_kval h = plus(c, p->h, rest(c, line, c->box.h)), n = plus(c, p->n, over(c, line, c->box.h));
    weft_kval inside = weft_k_and(k, weft_k_lt(k, w, width), weft_k_lt(k, h, index_of(c, c->out[0])));
    inside = weft_k_and(k, inside, weft_k_lt(k, n, index_of(c, c->images)));
    weft_k_if(k, weft_k_and(k, inside, weft_k_lt(k, output, index_of(c, c->outputs))));
    size_t mark = weft_index_mark(c->index);
    weft_index_bind(c->index, &c->node->results[0], weft_product_finish(c->index, c->node, sums));
    weft_lane_index index[4] = {weft_lane_scalar(n), weft_lane_scalar(output), weft_lane_scalar(h),
                                weft_lane_range(w, c->out[1] % 2 ? 1 : 2)};
    weft_kval mask = c->out[1] % 2 ? weft_index_below(c->index, index[3], 2, width) : WEFT_KNONE;
    for (int result = 0; result < c->request->fusion->result_count; result++) {
        const weft_type *type = &weft_fusion_yield(c->request->fusion, result)->type;
        bool same = type->rank == 4;
        for (int i = 0; same && i < 4; i++) same = type->dims[i] == y->dims[i];
        if (same)
            weft_index_emit(c->index, result, index, 2, mask);
        else
            weft_index_emit_flat(c->index, result, weft_index_position(c->index, 4, y->dims, index, 2), 2, mask);
    }
    weft_index_release(c->index, mark);
    weft_k_end(k);
}

static void emit_results(const hopper_convolution *c, const consumer *own, const place *p) {
    weft_kernel *k = c->k;
    for (int reg = 0; reg < c->columns / 2; reg += 2) {
        weft_place_pair constant = weft_layout_at(&own->layout, reg, 0, 0);
        weft_kval row = plus(c, plus(c, times(c, own->number, 64), own->row_lane), index_of(c, constant.row));
        weft_kval output = plus(c, p->output, row), column = plus(c, own->column_lane, index_of(c, constant.column));
        weft_kval low = weft_k_get_at(k, own->d, index_of(c, reg)),
                  high = weft_k_get_at(k, own->d, index_of(c, reg + 1));
        store_pair(c, p, output, column, weft_k_insert(k, weft_k_splat(k, low, 2), 1, high));
    }
}

static void emit_consumer(const hopper_convolution *c, weft_kval thread) {
    weft_kernel *k = c->k;
    weft_kval group = over(c, thread, 128), lane = rest(c, thread, 32), warp = rest(c, over(c, thread, 32), 4);
    group = weft_kernel_emit(k, WEFT_K_warp_uniform, weft_ktype_of(k, group), 1, &group, 0, 0);
    consumer own = {
        .number = weft_k_sub(k, group, index_of(c, 1)), .lane = lane, .layout = weft_layout_wgmma_c(c->columns)};
    own.row_lane = weft_layout_lane_row(k, &own.layout, lane, warp);
    own.column_lane = weft_layout_lane_column(k, &own.layout, lane, warp);
    own.ring = weft_ring_begin(k, &c->ring);
    own.d = weft_k_regs(k, WEFT_F32, 1, c->columns / 2);
    weft_kval tile = weft_k_for(k, c->first, c->tiles, c->stride, 0);
    place p = place_of(c, tile);
    emit_main_loop(c, &own);
    emit_results(c, &own, &p);
    weft_k_end(k);
}

static void emit(hopper_convolution *c) {
    weft_kernel *k = c->k;
    c->operands = weft_k_shared(k, WEFT_U8, (weft_dim)c->stages * c->stage_bytes);
    c->ring = weft_ring_create(k, c->stages);
    weft_kval thread = weft_k_thread(k);
    c->first = weft_k_block(k);
    c->stride = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(k->capability->index_dtype, 1), 0, NULL, 0, 0);
    c->tiles = index_of(c, c->tiles_m * c->tiles_w * c->tiles_h * c->tiles_n);
    c->blocks_of_k = index_of(c, pieces(c->inputs, c->bk));
    c->steps = index_of(c, pieces(c->inputs, c->bk) * c->taps[0] * c->taps[1]);
    weft_k_if(k, weft_k_eq(k, thread, index_of(c, 0)));
    weft_k_effect(k, WEFT_K_map_prefetch, 1, &c->map_w, 0, 0);
    weft_k_effect(k, WEFT_K_map_prefetch, 1, &c->map_x, 0, 0);
    weft_ring_init(k, &c->ring, 1, 4 * c->consumers);
    weft_k_effect(k, WEFT_K_mbarrier_init_fence, 0, NULL, 0, 0);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_effect(k, WEFT_K_role, 0, NULL, 1, c->consumers > 1 ? 40 : 0);
    weft_kval warp = over(c, thread, 32);
    warp = weft_kernel_emit(k, WEFT_K_warp_uniform, weft_ktype_of(k, warp), 1, &warp, 0, 0);
    weft_k_if(k, weft_k_and(k, weft_k_eq(k, warp, index_of(c, 0)), weft_k_eq(k, rest(c, thread, 32), index_of(c, 0))));
    emit_producer(c);
    weft_k_end(k);
    weft_k_effect(k, WEFT_K_role, 0, NULL, c->consumers, c->consumers > 1 ? 232 : 0);
    emit_consumer(c, thread);
    weft_k_end(k);
}

/* -- the plan */

static weft_status take_schedule(hopper_convolution *c, const weft_schedule *s) {
    c->consumers = s->consumers, c->bm = s->tile_m, c->columns = s->tile_n, c->stages = s->stages;
    c->box = (tile_box){s->box_w, s->box_h, 0};
    bool good = c->box.w > 0 && c->box.w % 2 == 0 && c->box.h > 0 && c->columns > 0 && c->columns <= COLUMNS_MAX &&
                c->columns % 8 == 0 && c->columns % (c->box.w * c->box.h) == 0 &&
                (c->consumers == 1 || c->consumers == 2) && c->bm == 64 * c->consumers && c->stages >= 2;
    c->stage_bytes = (c->bm + c->columns) * HOPPER_ROW_BYTES;
    if (!good || (int64_t)c->stages * (c->stage_bytes + 16) > c->request->capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "convolution-hopper: schedule %dx%d, boxes of %d x %d, %d stages",
                           c->bm, c->columns, c->box.w, c->box.h, c->stages);
    c->box.n = c->columns / (c->box.w * c->box.h);
    c->tiles_m = pieces(c->outputs, c->bm), c->tiles_w = pieces(c->out[1], c->box.w);
    c->tiles_h = pieces(c->out[0], c->box.h), c->tiles_n = pieces(c->images, c->box.n);
    return NULL;
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    hopper_convolution c;
    weft_index_context index;
    const char *reason;
    *out_plan = (weft_kernel_plan){0};
    if (!find(request->fusion, request->capability, &c, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "convolution-hopper: %s", reason);
    c.request = request, c.index = &index;
    WEFT_TRY(take_schedule(&c, request->schedule), "building %s", request->name);
    WEFT_TRY(weft_plan_init(request, 3, 2, out_plan), "building %s", request->name);
    WEFT_TRY(plan_weights(&c, out_plan, 0), "building %s", request->name);
    WEFT_TRY(plan_input(&c, out_plan, 1), "building %s", request->name);
    c.k = weft_plan_kernel(request, "");
    if (!c.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    int64_t tiles = c.tiles_m * c.tiles_w * c.tiles_h * c.tiles_n, most = request->capability->multiprocessors;
    c.k->threads = 128 * (1 + c.consumers);
    c.k->registers = 65536 / c.k->threads / 8 * 8;
    c.k->grid = tiles < most ? tiles : most;
    WEFT_TRY(make_maps(&c, out_plan), "building %s", request->name);
    WEFT_TRY(weft_index_init(request, c.k, &index), "building %s", request->name);
    emit(&c);
    WEFT_TRY(weft_index_finish(&index), "building %s", request->name);
    return weft_plan_set(request, out_plan, 2, c.k);
}

extern const weft_builder weft_builder_convolution_hopper;
const weft_builder weft_builder_convolution_hopper = {
    .name = "convolution", .accepts = accepts, .propose = propose, .build = build};
