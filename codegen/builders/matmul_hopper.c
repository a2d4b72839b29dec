/* matmul for Hopper: tensor copies, a ring of stages and wgmma, one producer warpgroup and one or two consumers, blocks
   in clusters of two that share the B tile, persistent over tiles. This file: what is accepted, the plan and its grid.
   Tiles are chosen in matmul_hopper_schedule.c; the copies in front: matmul_hopper_pack.c; the kernel:
   matmul_hopper_kernel.c.

   Any epilogue that keeps positions; batches as a third dimension of the maps.
   Operands and sums:
   - bf16, f16: K- and MN-major; sums in f32.
   - f32: only where the compile allows it (WEFT_RELAX_F32_PRODUCTS). The unit reads tf32, the upper 19 bits of each
     element: it truncates to 10 bits of fraction. Sums in f32.
   - f8e4m3fn, f8e5m2, also one of each: the unit adds with about 14 bits. Sums are moved into f32 registers every 128
   elements of k (promote in the schedule) and results have 16 bits at most, unless the compile lets them stay there
   over all of k (WEFT_RELAX_F8_SUMS). With a scale for each row of A and 128 of k, and for each 64 or more rows of B
   and 128 of k (scaled_dot), those sums of 128 elements are multiplied by both when they move. Operands whose rows are
   not multiples of 16 bytes are copied to padded rows first, and f32 and f8 operands that do not run along k are copied
   so that they do (once, at load, when they are constants). */
#include "codegen/builders/matmul_hopper.h"

#include "codegen/builders/plan.h"

static bool divides(const weft_graph *graph, weft_dim extent, int64_t divisor) {
    int64_t known = weft_dim_divisor(graph->dims, extent);
    return known == 0 || known % divisor == 0;
}

/* The matrix unit's name for operands of these types; false: it has none that this compile may use. */
static bool unit_of(const weft_capability *capability, const weft_product *product, weft_async_type *out_type) {
    int a = product->dtype == WEFT_F8E5M2, b = product->dtype_b == WEFT_F8E5M2;
    switch ((int)product->dtype) {
    case WEFT_BF16: *out_type = WEFT_ASYNC_BF16; return true;
    case WEFT_F16: *out_type = WEFT_ASYNC_F16; return true;
    case WEFT_F32: *out_type = WEFT_ASYNC_TF32; return capability->relax_f32;
    case WEFT_F8E4M3FN:
    case WEFT_F8E5M2:
        *out_type = (weft_async_type)(WEFT_ASYNC_E4M3 + 2 * a + b);
        return b || product->dtype_b == WEFT_F8E4M3FN;
    default: return false;
    }
}

/* Sums of f8 products in the unit are good for results of 16 bits. */
static bool narrow_results(const weft_node *fusion) {
    for (int i = 0; i < fusion->result_count; i++) {
        weft_dtype dtype = weft_fusion_yield(fusion, i)->type.dtype;
        if (!weft_dtype_is_float(dtype) || weft_dtype_bits(dtype) > 16) return false;
    }
    return true;
}

/* scaled_dot: scales of a stage of k are those of one block. */
static bool scales_fit(const weft_graph *graph, const weft_product *product, const weft_node *fusion,
                       const weft_capability *capability, const char **out_reason) {
    *out_reason = "blocks of scales that are not 1 row, 64 columns or multiples, 128 of k; or scales from the group";
    if (!weft_hopper_scales_claims(graph, product->dot, capability)) return false;
    for (int i = 2; i < 4; i++)
        if (product->dot->operands[i]->node || product->dot->operands[i]->block != weft_fusion_block(fusion))
            return false;
    return true;
}

/* ragged_dot: rows that tensor copies take in place, and a table of groups that fits. */
static bool groups_fit(const weft_graph *graph, const weft_product *product, const weft_ragged *r,
                       const char **out_reason) {
    *out_reason = "groups of a number that is not known, or large";
    if (!weft_dim_is_number(r->groups) || r->groups < 1 || r->groups > HOPPER_GROUPS_MAX) return false;
    *out_reason = "groups of rows whose elements have not 16 bits, or whose rows are no multiples of 16 bytes";
    if (weft_dtype_bits(product->dtype) != 16 || product->dtype_b != product->dtype) return false;
    if (!divides(graph, product->a.pitch, 8) || !divides(graph, product->b.pitch, 8)) return false;
    *out_reason = "there may be no rows";
    int64_t low, high;
    weft_dim_bounds(graph->dims, r->rows, &low, &high);
    return low >= 1;
}

/* Groups share one operand, or both: elements are those of [m, k], [n, k], [m, n] of one. */
static bool groups_fit_index(const weft_graph *graph, const weft_ragged *r, const weft_dim *elements,
                             const char **out_reason) {
    *out_reason = "positions need more than 31 bits";
    for (int i = 0; i < 3; i++) {
        int64_t many = i == (r->by_rows ? 1 : 2) ? r->groups : 1, low, high;
        weft_dim_bounds(graph->dims, elements[i], &low, &high);
        if (weft_dim_is_number(elements[i]) && high > INT32_MAX / many) return false;
    }
    *out_reason = NULL;
    return true;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    weft_ragged ragged;
    *out_reason = "the target has no wgmma";
    if (!capability->hopper) return false;
    if (!weft_hopper_find(graph, fusion, &product, &ragged, out_reason)) return false;
    if (ragged.node && !groups_fit(graph, &product, &ragged, out_reason)) return false;
    *out_reason = "an operand is computed in the group, or its axes are not batch, free and contracted runs";
    if (!product.a.dense || !product.b.dense) return false;
    weft_async_type type;
    *out_reason = "operands of a type that wgmma has not, or whose rounding this compile does not allow";
    if (!unit_of(capability, &product, &type)) return false;
    *out_reason = "the sum is not f32";
    if (product.accumulate != WEFT_F32) return false;
    if (product.block && !scales_fit(graph, &product, fusion, capability, out_reason)) return false;
    *out_reason = "sums of 8-bit floats with wide results";
    if (!product.block && type >= WEFT_ASYNC_E4M3 && !narrow_results(fusion) && !capability->relax_f8) return false;
    int64_t low, high;
    weft_dim_bounds(graph->dims, product.k, &low, &high);
    *out_reason = "the contracted extent may be 0";
    if (low < 1) return false;
    weft_dim elements[3] = {weft_dim_multiply(graph->dims, product.m, product.k),
                            weft_dim_multiply(graph->dims, product.n, product.k),
                            weft_dim_multiply(graph->dims, product.m, product.n)};
    if (ragged.node) return groups_fit_index(graph, &ragged, elements, out_reason);
    *out_reason = "positions need more than 31 bits";
    for (int i = 0; i < 3; i++) {
        weft_dim_bounds(graph->dims, weft_dim_multiply(graph->dims, elements[i], product.batch), &low, &high);
        if (weft_dim_is_number(elements[i]) && high > INT32_MAX) return false;
    }
    *out_reason = NULL;
    return true;
}

int64_t weft_hopper_shared_bytes(int bm, int bn, int stages, int consumers, int outs) {
    return (int64_t)stages * (bm + bn) * HOPPER_ROW_BYTES + (int64_t)consumers * outs * HOPPER_CHUNK_BYTES +
           8 * (2 * stages + 2 * consumers * outs);
}

/* -- the plan */

/* Every part has a step, there is room for all parts of a tile, and the temporary's positions fit. */
static bool splits(const weft_hopper *h) {
    const weft_product *p = &h->product;
    if (!weft_dim_is_number(p->m) || !weft_dim_is_number(p->n) || !weft_dim_is_number(p->k) ||
        !weft_dim_is_number(p->batch))
        return false;
    int64_t steps = (p->k + h->bk - 1) / h->bk;
    if (p->m * p->n * p->batch > INT32_MAX / h->split) return false;
    return h->even ? h->even > 0 && (steps + h->even - 2) / h->even + 1 <= h->split : steps >= h->split;
}

/* Boxes of memory along n, and results that are staged, come 64 columns at a time. */
static bool columns_fit(const weft_hopper *h) {
    if (h->bn % 64 == 0) return h->bn >= 64;
    return h->store == HOPPER_STORE_DIRECT && h->product.b.k_contiguous && h->bn >= 16 && h->bn % 16 == 0;
}

/* Parts of k in a cluster: one tile each, so the grid is known; every part has a step. */
static bool join_fits(const weft_hopper *h) {
    if (h->join == 1) return true;
    const weft_product *p = &h->product;
    return (h->join == 2 || h->join == 4 || h->join == 8) && h->bn % (8 * h->join) == 0 && h->cluster == 1 &&
           h->split == 1 && !h->turns && !h->tail && !h->promote && weft_dim_is_number(p->m) &&
           weft_dim_is_number(p->n) && weft_dim_is_number(p->k) && weft_dim_is_number(p->batch) &&
           (p->k + h->bk - 1) / h->bk >= h->join;
}

/* Rows below whole tiles, of a product whose k is whole. */
static bool foot_fits(const weft_hopper *h) {
    return weft_dim_is_number(h->product.m) && weft_dim_is_number(h->product.n) && h->foot > 0 &&
           h->foot <= HOPPER_FOOT_MAX && h->product.m > h->foot &&
           (h->product.m - h->foot) % ((int64_t)h->bm * h->cluster) == 0 && h->split == 1 && h->join == 1 &&
           !h->promote && !h->ragged.node;
}

static weft_status check_schedule(const weft_hopper *h) {
    const weft_capability *capability = h->request->capability;
    bool rows = h->turns ? h->consumers == 2 && h->blocks <= HOPPER_BLOCKS_MAX && h->bm == 64 * h->blocks &&
                               h->blocks * h->bn <= 256 && h->split == 1 && !h->tail && !h->promote
                         : h->bm == 64 * h->consumers;
    if (h->consumers < 1 || h->consumers > 2 || !rows || !columns_fit(h) || h->bn > 256 || !join_fits(h) ||
        h->stages < 2 || h->group < 1 || h->split < 1 || h->split > HOPPER_SPLIT_MAX ||
        (h->split > 1 && (h->tail || !splits(h))) || (h->even && h->split == 1) ||
        (h->cluster != 1 && h->cluster != 2) || (h->promote && h->bn > HOPPER_PROMOTED_MAX) ||
        (h->product.block && !h->promote) || (h->tail && h->tail != weft_hopper_tail(h->request, &h->product, h->bn)) ||
        (h->request->schedule->promote && h->request->schedule->promote != h->bk))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: schedule %dx%d, %d consumers, cluster %d, %d stages",
                           h->bm, h->bn, h->consumers, h->cluster, h->stages);
    if (h->foot && !foot_fits(h))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: %d rows below whole tiles", h->foot);
    if (h->ragged.node && (h->split > 1 || h->tail || h->promote ||
                           (weft_hopper_by_group(h) && (h->turns || h->bn > HOPPER_CLEARED_MAX))))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "matmul-hopper: groups of rows have no parts of k and no narrow tiles");
    int64_t bytes = weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, h->outs) +
                    (h->ragged.node ? HOPPER_RAGGED_BYTES : 0);
    if (h->join > 1) bytes += (int64_t)h->bm * h->bn * 4 + 8;
    if (bytes > capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: the schedule needs %lld bytes of shared memory of %d",
                           (long long)bytes, capability->shared_bytes);
    return NULL;
}

int weft_hopper_staged_bytes(const weft_build_request *request, const weft_product *product) {
    const weft_type *first = &weft_fusion_yield(request->fusion, 0)->type;
    int bits = weft_dtype_bits(first->dtype);
    if (request->fusion->result_count > HOPPER_RESULTS_MAX) return 0;
    for (int i = 0; i < request->fusion->result_count; i++) {
        const weft_type *type = &weft_fusion_yield(request->fusion, i)->type;
        bool half = type->dtype == WEFT_BF16 || type->dtype == WEFT_F16;
        if ((!half && type->dtype != WEFT_F32) || weft_dtype_bits(type->dtype) != bits || type->rank != first->rank)
            return 0;
        for (int d = 0; d < type->rank; d++)
            if (type->dims[d] != first->dims[d]) return 0;
    }
    /* rows of f32 that tensor copies cannot take leave from registers: whole words, so no worse than by a warp */
    return bits == 32 && !divides(request->graph, product->n, 4) ? 0 : bits / 8;
}

static void choose_store(weft_hopper *h) {
    const weft_graph *graph = h->request->graph;
    const weft_value *yield = weft_fusion_yield(h->request->fusion, 0);
    int bytes = weft_hopper_staged_bytes(h->request, &h->product);
    if (weft_hopper_by_rows(h) && bytes == 4) bytes = 0; /* rows of groups leave by warps, of 16 bits */
    bool tensor = bytes == 4 || (divides(graph, h->product.n, 8) && !weft_hopper_by_rows(h));
    h->out_dtype = yield->type.dtype;
    h->out_bytes = bytes ? bytes : 2, h->chunk = HOPPER_ROW_BYTES / h->out_bytes;
    bool free = h->join > 1 || h->bn % 64; /* columns of a block as no chunk has them */
    if (free) bytes = 0;
    h->store = h->split > 1 ? HOPPER_STORE_PARTS
               : bytes == 0 ? HOPPER_STORE_DIRECT
               : tensor     ? HOPPER_STORE_TENSOR
                            : HOPPER_STORE_ROWS;
    h->results = bytes && h->split == 1 ? h->request->fusion->result_count : 1;
    h->companion = h->store == HOPPER_STORE_TENSOR && h->results == 1
                       ? weft_product_companion(h->request->fusion, &h->product, h->out_dtype)
                       : -1;
    if (!weft_hopper_staged(h)) return;
    int chunks = h->blocks * (h->bn / h->chunk) * h->results;
    bool slow = h->companion >= 0;
    h->outs = weft_hopper_outs(chunks, weft_hopper_outs_limit(bytes, h->turns, slow));
    while (h->outs > 1 && weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, h->outs) >
                              h->request->capability->shared_bytes)
        h->outs = weft_hopper_outs(chunks, h->outs - 1);
}

static weft_dim grid_of(const weft_hopper *h) {
    weft_dim_table *dims = h->k->dims;
    weft_dim tiles = weft_raster_count(dims, h->rows, h->product.n, h->product.batch, h->bm * h->cluster, h->bn);
    if (h->even) { /* numbers all of them */
        weft_dim steps = weft_dim_divide_ceil(dims, h->product.k, h->bk);
        return weft_dim_multiply(dims, weft_dim_divide_ceil(dims, weft_dim_multiply(dims, tiles, steps), h->even),
                                 h->cluster);
    }
    if (weft_hopper_by_rows(h)) tiles = weft_hopper_ragged_tiles(h);
    tiles = weft_dim_multiply(dims, tiles, h->split);
    if (h->join > 1) return weft_dim_multiply(dims, tiles, h->join);
    weft_dim clusters = weft_dim_minimum(dims, tiles, h->request->capability->multiprocessors / h->cluster);
    return weft_dim_multiply(dims, clusters, h->cluster);
}

/* The launch of h's tiles. */
static weft_status build_kernel(weft_hopper *h, weft_kernel_plan *plan, const char *suffix, int launch) {
    const weft_build_request *request = h->request;
    weft_index_context index;
    h->index = &index;
    h->k = weft_plan_kernel(request, suffix);
    if (!h->k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    h->k->threads = 128 * (1 + h->consumers);
    h->k->cluster = h->cluster * h->join;
    h->k->registers = 65536 / h->k->threads / 8 * 8;
    h->k->grid = grid_of(h);
    WEFT_TRY(weft_index_init(request, h->k, &index), "building %s", request->name);
    if (h->split > 1) {
        weft_dim elements = h->product.m * h->product.n * h->product.batch * h->split;
        plan->temps[h->parts] = (weft_plan_temp){.bytes = elements * 4};
        h->parts_buffer = weft_kernel_buffer(h->k, WEFT_ARGUMENT_TEMP, h->parts, WEFT_F32, true, "parts");
    }
    weft_status status = weft_hopper_make_maps(h, plan);
    if (!status) status = weft_hopper_emit(h);
    weft_status finish = weft_index_finish(&index);
    if (status)
        weft_status_release(finish);
    else
        status = finish;
    WEFT_TRY(status, "building %s", request->name);
    return weft_plan_set(request, plan, launch, h->k);
}

/* From the product's kernel to that of its last rows: tiles of 64 rows, one consumer, as deep a ring as there is room
   for. */
static void begin_foot(weft_hopper *h) {
    const weft_capability *capability = h->request->capability;
    h->above = h->product.m - h->foot, h->rows = h->foot, h->foot = h->tail = 0;
    h->bm = 64, h->bn = weft_hopper_foot_columns(capability, &h->product);
    h->consumers = h->cluster = h->blocks = 1, h->turns = false;
    h->a_bytes = h->bm * HOPPER_ROW_BYTES, h->b_bytes = h->bn * HOPPER_ROW_BYTES,
    h->stage_bytes = h->a_bytes + h->b_bytes;
    for (h->stages = 8; h->stages > 3; h->stages--)
        if (weft_hopper_shared_bytes(h->bm, h->bn, h->stages, 1, HOPPER_OUTS_MAX) <= capability->shared_bytes) break;
    choose_store(h);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_schedule *s = request->schedule;
    weft_hopper h = {.request = request,
                     .bm = s->tile_m,
                     .bn = s->tile_n,
                     .consumers = s->consumers,
                     .cluster = s->cluster,
                     .turns = s->turns,
                     .blocks = s->turns ? s->tile_m / 64 : 1,
                     .stages = s->stages,
                     .split = s->split > 0 ? s->split : 1,
                     .even = s->even,
                     .join = s->join > 1 ? s->join : 1,
                     .group = s->raster > 0 ? s->raster : 8};
    const char *reason;
    *out_plan = (weft_kernel_plan){0};
    if (!weft_hopper_find(request->graph, request->fusion, &h.product, &h.ragged, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-hopper: %s", reason);
    if (h.bn < 16 || h.bn % 16) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: tiles of %d columns", h.bn);
    if (!unit_of(request->capability, &h.product, &h.unit))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: operands of type %s",
                           weft_dtype_name(h.product.dtype));
    h.element_bytes = weft_dtype_bits(h.product.dtype) / 8, h.bk = HOPPER_ROW_BYTES / h.element_bytes;
    h.promote = s->promote > 0, h.tail = s->tail, h.foot = s->foot;
    choose_store(&h);
    WEFT_TRY(check_schedule(&h), "building %s", request->name);
    h.a_bytes = h.bm * HOPPER_ROW_BYTES, h.b_bytes = h.bn * HOPPER_ROW_BYTES, h.stage_bytes = h.a_bytes + h.b_bytes;
    WEFT_TRY(weft_hopper_plan_packing(&h, out_plan), "building %s", request->name);
    int behind = (h.split > 1) + (h.foot > 0); /* launches behind the one of the tiles */
    weft_hopper foot = h;
    h.rows = h.foot ? h.product.m - h.foot : h.product.m;
    WEFT_TRY(build_kernel(&h, out_plan, "", out_plan->launch_count - 1 - behind), "building %s", request->name);
    if (h.split > 1) WEFT_TRY(weft_hopper_plan_sum(&h, out_plan), "building %s", request->name);
    if (!h.foot) return NULL;
    begin_foot(&foot);
    return build_kernel(&foot, out_plan, "_foot", out_plan->launch_count - 1);
}

extern const weft_builder weft_builder_matmul_hopper;
const weft_builder weft_builder_matmul_hopper = {
    .name = "matmul", .accepts = accepts, .propose = weft_hopper_propose, .build = build};
extern const weft_builder weft_builder_scaled_hopper, weft_builder_ragged_hopper;
const weft_builder weft_builder_scaled_hopper = {
    .name = "scaled_dot", .accepts = accepts, .propose = weft_hopper_propose, .build = build};
const weft_builder weft_builder_ragged_hopper = {
    .name = "ragged_dot", .accepts = accepts, .propose = weft_hopper_propose, .build = build};
