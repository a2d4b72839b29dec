/* matmul for Hopper: bf16 and f16 through tensor copies, a ring of stages and wgmma, one producer warpgroup and one or
   two consumers, blocks in clusters of two that share the B tile, persistent over tiles. This file: what is accepted,
   which schedules are proposed, tensor maps and grid. The kernel: matmul_hopper_kernel.c.

   Any epilogue that keeps positions; batches as a third dimension of the maps; K- and MN-major operands.
   Requires row pitches that are multiples of 16 bytes. */
#include "codegen/builders/matmul_hopper.h"

#include <string.h>

static bool divides(const weft_graph *graph, weft_dim extent, int64_t divisor) {
    int64_t known = weft_dim_divisor(graph->dims, extent);
    return known == 0 || known % divisor == 0;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = "the target has no wgmma";
    if (!capability->hopper) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    *out_reason = "operands are not bf16 or f16, or the sum is not f32";
    if ((product.dtype != WEFT_BF16 && product.dtype != WEFT_F16) || product.accumulate != WEFT_F32) return false;
    *out_reason = "a row of an operand is not a multiple of 16 bytes";
    if (!divides(graph, product.a.pitch, 8) || !divides(graph, product.b.pitch, 8)) return false;
    int64_t low, high;
    weft_dim_bounds(graph->dims, product.k, &low, &high);
    *out_reason = "the contracted extent may be 0";
    if (low < 1) return false;
    weft_dim elements[3] = {weft_dim_multiply(graph->dims, product.m, product.k),
                            weft_dim_multiply(graph->dims, product.n, product.k),
                            weft_dim_multiply(graph->dims, product.m, product.n)};
    *out_reason = "positions need more than 31 bits";
    for (int i = 0; i < 3; i++) {
        weft_dim_bounds(graph->dims, weft_dim_multiply(graph->dims, elements[i], product.batch), &low, &high);
        if (weft_dim_is_number(elements[i]) && high > INT32_MAX) return false;
    }
    *out_reason = NULL;
    return true;
}

int64_t weft_hopper_shared_bytes(int bm, int bn, int stages, int consumers, int outs) {
    return (int64_t)stages * (bm + bn) * HOPPER_BK * 2 + (int64_t)consumers * outs * HOPPER_CHUNK_BYTES +
           8 * (2 * stages + 4 * consumers);
}

/* -- schedules */

typedef struct tile_choice {
    int consumers, bn, cluster;
    double efficiency; /* of the tensor pipe in a long main loop: operand reads from shared memory bound narrow tiles */
} tile_choice;

static const tile_choice choices[] = {{2, 256, 2, 0.97}, {2, 192, 2, 0.94}, {2, 128, 2, 0.90}, {2, 64, 2, 0.72},
                                      {1, 256, 1, 0.80}, {1, 128, 1, 0.70}, {1, 64, 1, 0.50}};
enum { CHOICES = sizeof choices / sizeof *choices };

static int64_t sample_extent(const weft_graph *graph, weft_dim extent) {
    if (weft_dim_is_number(extent)) return extent;
    int64_t low, high;
    weft_dim_bounds(graph->dims, extent, &low, &high);
    return high < (1 << 20) ? high : low > 1024 ? low : 1024;
}

static int stages_of(const weft_capability *capability, const tile_choice *choice, int *out_outs) {
    int bm = 64 * choice->consumers;
    for (int outs = HOPPER_OUTS_MAX; outs >= 1; outs--)
        for (int stages = 8; stages >= 3; stages--)
            if (weft_hopper_shared_bytes(bm, choice->bn, stages, choice->consumers, outs) <= capability->shared_bytes &&
                (stages >= 4 || outs == 1)) {
                *out_outs = outs;
                return stages;
            }
    return 0;
}

/* Cycles of the whole grid: waves of tiles, each a main loop and what of its epilogue is not hidden. */
static double cost_of(const weft_capability *capability, const tile_choice *choice, int64_t m, int64_t n, int64_t k,
                      int64_t batch) {
    int64_t bm = 64 * choice->consumers,
            rows = (m + bm * choice->cluster - 1) / (bm * choice->cluster) * choice->cluster;
    int64_t tiles = rows * ((n + choice->bn - 1) / choice->bn) * batch,
            blocks = capability->multiprocessors / choice->cluster * choice->cluster;
    double waves = (double)((tiles + blocks - 1) / blocks), steps = (double)((k + HOPPER_BK - 1) / HOPPER_BK);
    double tensor = (double)(bm * choice->bn * HOPPER_BK) / 4096 / choice->efficiency;
    /* a block alone reads its operands at no more than its share of memory: counts when there are few rows */
    double inlet = (double)((bm < m ? bm : m) + choice->bn) * HOPPER_BK * 2 / 64.0;
    double step = tensor > inlet ? tensor : inlet;
    return waves * steps * step + 600 * waves + 2200;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_product product;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    int64_t m = sample_extent(request->graph, product.m), n = sample_extent(request->graph, product.n);
    int64_t k = sample_extent(request->graph, product.k), batch = sample_extent(request->graph, product.batch);
    int order[CHOICES], count = 0;
    double cost[CHOICES];
    for (int i = 0; i < CHOICES; i++) {
        cost[i] = cost_of(request->capability, &choices[i], m, n, k, batch);
        int at = count++;
        for (; at > 0 && cost[order[at - 1]] > cost[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > capacity) count = capacity;
    for (int i = 0; i < count; i++) {
        const tile_choice *choice = &choices[order[i]];
        int outs;
        out_schedules[i] = (weft_schedule){.builder = "matmul-hopper",
                                           .tile_m = 64 * choice->consumers,
                                           .tile_n = choice->bn,
                                           .tile_k = HOPPER_BK,
                                           .threads = 128 * (1 + choice->consumers),
                                           .stages = stages_of(request->capability, choice, &outs),
                                           .consumers = choice->consumers,
                                           .cluster = choice->cluster,
                                           .raster = 8,
                                           .split = 1};
    }
    return count;
}

/* -- the plan */

static weft_status check_schedule(const weft_hopper *h) {
    const weft_capability *capability = h->request->capability;
    if (h->consumers < 1 || h->consumers > 2 || h->bm != 64 * h->consumers || h->bn < 64 || h->bn > 256 || h->bn % 64 ||
        h->stages < 2 || h->group < 1 || (h->cluster != 1 && h->cluster != 2))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: schedule %dx%d, %d consumers, cluster %d, %d stages",
                           h->bm, h->bn, h->consumers, h->cluster, h->stages);
    int64_t bytes = weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, h->outs);
    if (bytes > capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: the schedule needs %lld bytes of shared memory of %d",
                           (long long)bytes, capability->shared_bytes);
    return NULL;
}

static int buffer_position(const weft_kernel *k, weft_argument_source source, int index) {
    int position = 0;
    for (size_t i = 0; i < k->argument_count; i++) {
        if (k->arguments[i].source == source && k->arguments[i].index == index) return position;
        position += k->arguments[i].source == WEFT_ARGUMENT_OPERAND || k->arguments[i].source == WEFT_ARGUMENT_RESULT ||
                    k->arguments[i].source == WEFT_ARGUMENT_TEMP;
    }
    return -1;
}

/* A buffer argument for an operand that the epilogue does not read. */
static void need_buffer(weft_hopper *h, int operand, const char *name) {
    if (h->index->operands[operand] == WEFT_KNONE)
        h->index->operands[operand] =
            weft_kernel_buffer(h->k, WEFT_ARGUMENT_OPERAND, operand, h->product.dtype, false, name);
}

/* Map of [batch, rows, columns] in memory, columns contiguous. */
static weft_tensor_map make_map(const weft_hopper *h, weft_argument_source source, int index, weft_dtype dtype,
                                weft_dim rows, weft_dim columns, int box_rows) {
    weft_dim_table *dims = h->k->dims;
    weft_tensor_map map = {.buffer = buffer_position(h->k, source, index),
                           .dtype = dtype,
                           .rank = h->product.batch == 1 ? 2 : 3,
                           .swizzle_bytes = 128};
    map.extent[0] = columns, map.extent[1] = rows, map.extent[2] = h->product.batch;
    map.stride_bytes[1] = weft_dim_multiply(dims, columns, 2);
    map.stride_bytes[2] = weft_dim_multiply(dims, map.stride_bytes[1], rows);
    map.box[0] = 64, map.box[1] = box_rows, map.box[2] = 1;
    return map;
}

static weft_kval map_value(weft_hopper *h, int index, weft_dtype dtype, bool writes, const char *name) {
    return weft_kernel_buffer(h->k, WEFT_ARGUMENT_TENSOR_MAP, index, dtype, writes, name);
}

static weft_status make_maps(weft_hopper *h, weft_kernel_plan *plan) {
    plan->maps = weft_arena_allocate_array(h->request->arena, 4, sizeof *plan->maps);
    if (!plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "matmul-hopper");
    const weft_product *p = &h->product;
    need_buffer(h, p->a.operand, "a");
    need_buffer(h, p->b.operand, "b");
    plan->maps[0] = p->a.k_contiguous
                        ? make_map(h, WEFT_ARGUMENT_OPERAND, p->a.operand, p->dtype, p->m, p->k, h->bm)
                        : make_map(h, WEFT_ARGUMENT_OPERAND, p->a.operand, p->dtype, p->k, p->m, HOPPER_BK);
    plan->maps[1] =
        p->b.k_contiguous
            ? make_map(h, WEFT_ARGUMENT_OPERAND, p->b.operand, p->dtype, p->n, p->k, h->bn / h->cluster)
            : make_map(h, WEFT_ARGUMENT_OPERAND, p->b.operand, p->dtype, p->k, p->n, HOPPER_BK / h->cluster);
    h->map_a = map_value(h, 0, p->dtype, false, "map_a");
    h->map_b = map_value(h, 1, p->dtype, false, "map_b");
    plan->map_count = 2;
    if (!h->tensor_store) return NULL;
    plan->maps[2] = make_map(h, WEFT_ARGUMENT_RESULT, 0, h->out_dtype, p->m, p->n, 64);
    h->map_out = map_value(h, plan->map_count++, h->out_dtype, true, "map_out");
    if (h->companion < 0) return NULL;
    need_buffer(h, h->companion, "c");
    plan->maps[3] = make_map(h, WEFT_ARGUMENT_OPERAND, h->companion, h->out_dtype, p->m, p->n, 64);
    h->map_companion = map_value(h, plan->map_count++, h->out_dtype, false, "map_c");
    return NULL;
}

static void choose_store(weft_hopper *h) {
    const weft_graph *graph = h->request->graph;
    const weft_value *yield = weft_fusion_yield(h->request->fusion, 0);
    h->out_dtype = yield->type.dtype;
    h->tensor_store = (h->out_dtype == WEFT_BF16 || h->out_dtype == WEFT_F16) && divides(graph, h->product.n, 8) &&
                      h->request->fusion->result_count == 1;
    h->companion = h->tensor_store ? weft_product_companion(h->request->fusion, &h->product, h->out_dtype) : -1;
    h->outs = 2;
    if (weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, 2) > h->request->capability->shared_bytes ||
        h->bn == 64)
        h->outs = 1;
}

static weft_dim grid_of(const weft_hopper *h) {
    weft_dim_table *dims = h->k->dims;
    weft_dim tiles = weft_raster_count(dims, h->product.m, h->product.n, h->product.batch, h->bm * h->cluster, h->bn);
    weft_dim clusters = weft_dim_minimum(dims, tiles, h->request->capability->multiprocessors / h->cluster);
    return weft_dim_multiply(dims, clusters, h->cluster);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    const weft_schedule *s = request->schedule;
    weft_index_context index;
    weft_hopper h = {.request = request,
                     .index = &index,
                     .bm = s->tile_m,
                     .bn = s->tile_n,
                     .consumers = s->consumers,
                     .cluster = s->cluster,
                     .stages = s->stages,
                     .group = s->raster > 0 ? s->raster : 8};
    const char *reason;
    *out_plan = (weft_kernel_plan){0};
    if (!weft_product_find(request->graph, request->fusion, &h.product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-hopper: %s", reason);
    choose_store(&h);
    WEFT_TRY(check_schedule(&h), "building %s", request->name);
    h.a_bytes = h.bm * HOPPER_BK * 2, h.b_bytes = h.bn * HOPPER_BK * 2, h.stage_bytes = h.a_bytes + h.b_bytes;
    h.k = weft_kernel_create(request->arena, request->graph->dims, request->capability, request->name);
    out_plan->launches = weft_arena_allocate(request->arena, sizeof *out_plan->launches);
    weft_plan_variant *variant = weft_arena_allocate(request->arena, sizeof *variant);
    if (!h.k || !out_plan->launches || !variant) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    h.k->threads = 128 * (1 + h.consumers);
    h.k->cluster = h.cluster;
    h.k->registers = 65536 / h.k->threads / 8 * 8;
    h.k->grid = grid_of(&h);
    WEFT_TRY(weft_index_init(request, h.k, &index), "building %s", request->name);
    weft_status status = make_maps(&h, out_plan);
    if (!status) status = weft_hopper_emit(&h);
    weft_status finish = weft_index_finish(&index);
    if (status)
        weft_status_release(finish);
    else
        status = finish;
    WEFT_TRY(status, "building %s", request->name);
    variant->kernel = h.k;
    *out_plan->launches = (weft_plan_launch){.variant_count = 1, .variants = variant};
    out_plan->launch_count = 1;
    return NULL;
}

extern const weft_builder weft_builder_matmul_hopper;
const weft_builder weft_builder_matmul_hopper = {
    .name = "matmul", .accepts = accepts, .propose = propose, .build = build};
