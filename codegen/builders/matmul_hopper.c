/* matmul for Hopper: tensor copies, a ring of stages and wgmma, one producer warpgroup and one or two consumers, blocks
   in clusters of two that share the B tile, persistent over tiles. This file: what is accepted, which schedules are
   proposed, tensor maps and grid. The copies in front of it: matmul_hopper_pack.c; the kernel: matmul_hopper_kernel.c.

   Any epilogue that keeps positions; batches as a third dimension of the maps.
   Operands and sums:
   - bf16, f16: K- and MN-major; sums in f32.
   - f32: only where the compile allows it (WEFT_RELAX_F32_PRODUCTS). The unit reads tf32, the upper 19 bits of each
     element: it truncates to 10 bits of fraction. Sums in f32.
   - f8e4m3fn, f8e5m2, also one of each: the unit adds with about 14 bits. Sums are moved into f32 registers every 128
   elements of k (promote in the schedule) and results have 16 bits at most, unless the compile lets them stay there
   over all of k (WEFT_RELAX_F8_SUMS). Operands whose rows are not multiples of 16 bytes are copied to padded rows
   first, and f32 and f8 operands that do not run along k are copied so that they do (once, at load, when they are
   constants). */
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

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_product product;
    *out_reason = "the target has no wgmma";
    if (!capability->hopper) return false;
    if (!weft_product_find(graph, fusion, &product, out_reason)) return false;
    *out_reason = "an operand is computed in the group, or its axes are not batch, free and contracted runs";
    if (!product.a.dense || !product.b.dense) return false;
    weft_async_type type;
    *out_reason = "operands of a type that wgmma has not, or whose rounding this compile does not allow";
    if (!unit_of(capability, &product, &type)) return false;
    *out_reason = "the sum is not f32";
    if (product.accumulate != WEFT_F32) return false;
    *out_reason = "sums of 8-bit floats with wide results";
    if (type >= WEFT_ASYNC_E4M3 && !narrow_results(fusion) && !capability->relax_f8) return false;
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
    return (int64_t)stages * (bm + bn) * HOPPER_ROW_BYTES + (int64_t)consumers * outs * HOPPER_CHUNK_BYTES +
           8 * (2 * stages + 2 * consumers * outs);
}

/* -- schedules */

enum { SPLIT_MAX = 8 };

typedef struct tile_choice {
    int consumers, bn, cluster, tail, split;
    double efficiency; /* of the tensor pipe in a long main loop: operand reads from shared memory bound narrow tiles */
} tile_choice;

static const tile_choice choices[] = {
    {2, 256, 2, 0, 1, 0.97}, {2, 256, 1, 0, 1, 0.96}, {2, 192, 2, 0, 1, 0.94},
    {2, 128, 2, 0, 1, 0.90}, {2, 128, 1, 0, 1, 0.88}, {1, 256, 1, 0, 1, 0.80},
    {1, 128, 1, 0, 1, 0.70}, {2, 64, 2, 0, 1, 0.72},  {1, 64, 1, 0, 1, 0.50}}; /* equal cost: the first */
enum { CHOICES = sizeof choices / sizeof *choices, PROMOTED_COLUMNS_MAX = 192 /* two sets of sums in registers */ };

static int64_t sample_extent(const weft_graph *graph, weft_dim extent) {
    if (weft_dim_is_number(extent)) return extent;
    int64_t low, high;
    weft_dim_bounds(graph->dims, extent, &low, &high);
    return high < (1 << 20) ? high : low > 1024 ? low : 1024;
}

/* Staging buffers of a consumer: they divide the chunks of a tile, so that chunk c always uses buffer c % outs. */
static int outs_of(int bn, int limit) {
    int chunks = bn / 64, outs = chunks < limit ? chunks : limit;
    while (chunks % outs) outs--;
    return outs;
}

static int stages_of(const weft_capability *capability, const tile_choice *choice) {
    int stages = 8, outs = outs_of(choice->bn, HOPPER_OUTS_MAX);
    while (stages > 3 && weft_hopper_shared_bytes(64 * choice->consumers, choice->bn, stages, choice->consumers, outs) >
                             capability->shared_bytes)
        stages--;
    return stages;
}

/* Narrow tiles at the right edge take about a third of a whole one; the blocks that the last round leaves idle have
 * them.
 */
static double tail_waves(const tile_choice *choice, int64_t tiles, int64_t blocks, int64_t tails) {
    if (!choice->tail) return 0;
    int64_t busy = tiles % blocks, idle = blocks - busy;
    double rounds = 0.35 * (double)((tails + idle - 1) / idle);
    return busy == 0 ? rounds : rounds > 1 ? rounds - 1 : 0;
}

/* Columns of narrow tiles that such a choice is worth: up to 64 behind whole tiles. */
static int tail_of(const weft_build_request *request, const weft_product *product, int bn) {
    const weft_value *yield = weft_fusion_yield(request->fusion, 0);
    if (!weft_dim_is_number(product->n)) return 0;
    int64_t n = product->n, rest = n % bn;
    if (n < bn || rest < 1 || rest > 64 || weft_product_companion(request->fusion, product, yield->type.dtype) >= 0)
        return 0;
    return (int)(rest + 15) / 16 * 16;
}

/* Cycles of the whole grid: waves of tiles, each a main loop and what of its epilogue is not hidden. */
static double cost_of(const weft_capability *capability, const tile_choice *choice, int64_t m, int64_t n, int64_t k,
                      int64_t batch, int bk, bool straddles) {
    int64_t bm = 64 * choice->consumers,
            rows = (m + bm * choice->cluster - 1) / (bm * choice->cluster) * choice->cluster;
    int64_t tiles = rows * ((n + choice->bn - 1) / choice->bn) * batch,
            blocks = capability->multiprocessors / choice->cluster * choice->cluster;
    if (choice->tail) tiles = rows * (n / choice->bn) * batch;
    tiles *= choice->split;
    double waves = (double)((tiles + blocks - 1) / blocks) + tail_waves(choice, tiles, blocks, rows * batch),
           steps = (double)(((k + bk - 1) / bk + choice->split - 1) / choice->split);
    double tensor = (double)(bm * choice->bn) / 64 / choice->efficiency; /* 128 bytes of k */
    /* a block alone reads its operands at no more than its share of memory: counts when there are few rows */
    double inlet = (double)((bm < m ? bm : m) + choice->bn) * (double)HOPPER_ROW_BYTES / 64;
    /* rows that do not start at lines of the L2 cost it two for each 128 bytes: blocks that share B bear it */
    if (straddles && choice->cluster == 1 && bm < m) inlet *= 1.3;
    double step = tensor > inlet ? tensor : inlet;
    /* parts of k: a launch, their sums written while no product runs, and read */
    double sums = choice->split == 1 ? 0
                                     : 5000 + (double)(choice->split * m * n * batch) * 8 / 2400 +
                                           waves * (double)(bm * choice->bn) * 4 / 40;
    return waves * steps * step + 600 * waves + 2200 + sums;
}

/* The best number of parts of k, none shorter than 8 steps: for grids that leave blocks idle, in their only round or in
   the last one; 1: none pays. */
static int split_of(const weft_capability *capability, const tile_choice *choice, int64_t m, int64_t n, int64_t k,
                    int64_t batch, int bk, bool straddles) {
    tile_choice tried = *choice;
    double least = cost_of(capability, choice, m, n, k, batch, bk, straddles);
    int best = 1;
    for (tried.split = 2; tried.split <= SPLIT_MAX && k / bk / tried.split >= 8; tried.split++) {
        double cost = cost_of(capability, &tried, m, n, k, batch, bk, straddles);
        if (cost >= least || m * n * batch > INT32_MAX / tried.split) continue;
        least = cost, best = tried.split;
    }
    return best;
}

/* Is an operand read in place whose rows are not whole lines? */
static bool straddles(const weft_graph *graph, const weft_product *product) {
    const weft_product_side *sides[2] = {&product->a, &product->b};
    int64_t bytes = weft_dtype_bits(product->dtype) / 8;
    bool found = false;
    for (int i = 0; i < 2; i++) {
        int64_t known = weft_dim_divisor(graph->dims, sides[i]->pitch) * bytes;
        found |= known % 16 == 0 && known % 128 != 0;
    }
    return found;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_product product;
    const char *reason;
    if (!weft_product_find(request->graph, request->fusion, &product, &reason)) return 0;
    int64_t m = sample_extent(request->graph, product.m), n = sample_extent(request->graph, product.n);
    int64_t k = sample_extent(request->graph, product.k), batch = sample_extent(request->graph, product.batch);
    int order[2 * CHOICES], count = 0, bk = HOPPER_ROW_BYTES * 8 / weft_dtype_bits(product.dtype);
    double cost[2 * CHOICES];
    tile_choice own[2 * CHOICES];
    bool known = weft_dim_is_number(product.m) && weft_dim_is_number(product.n) && weft_dim_is_number(product.k) &&
                 weft_dim_is_number(product.batch);
    bool promote = weft_dtype_bits(product.dtype) == 8 && !request->capability->relax_f8;
    for (int i = 0; i < 2 * CHOICES; i++) { /* with k whole, and split */
        own[i] = choices[i % CHOICES];
        if (promote && own[i].bn > PROMOTED_COLUMNS_MAX) continue;
        if (i < CHOICES)
            own[i].tail = promote && own[i].bn > 128 ? 0 : tail_of(request, &product, own[i].bn); /* registers */
        else if (known)
            own[i].split =
                split_of(request->capability, &own[i], m, n, k, batch, bk, straddles(request->graph, &product));
        if (i >= CHOICES && own[i].split == 1) continue;
        cost[i] = cost_of(request->capability, &own[i], m, n, k, batch, bk, straddles(request->graph, &product));
        int at = count++;
        for (; at > 0 && cost[order[at - 1]] > cost[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    if (count > capacity) count = capacity;
    for (int i = 0; i < count; i++) {
        const tile_choice *choice = &own[order[i]];
        out_schedules[i] = (weft_schedule){.builder = "matmul-hopper",
                                           .tile_m = 64 * choice->consumers,
                                           .tile_n = choice->bn,
                                           .tile_k = bk,
                                           .threads = 128 * (1 + choice->consumers),
                                           .stages = stages_of(request->capability, choice),
                                           .consumers = choice->consumers,
                                           .cluster = choice->cluster,
                                           .raster = 8,
                                           .split = choice->split,
                                           .tail = choice->tail,
                                           .promote = promote ? bk : 0};
    }
    return count;
}

/* -- the plan */

/* Every part has a step, and the temporary's positions fit. */
static bool splits(const weft_hopper *h) {
    const weft_product *p = &h->product;
    if (!weft_dim_is_number(p->m) || !weft_dim_is_number(p->n) || !weft_dim_is_number(p->k) ||
        !weft_dim_is_number(p->batch))
        return false;
    return (p->k + h->bk - 1) / h->bk >= h->split && p->m * p->n * p->batch <= INT32_MAX / h->split;
}

static weft_status check_schedule(const weft_hopper *h) {
    const weft_capability *capability = h->request->capability;
    if (h->consumers < 1 || h->consumers > 2 || h->bm != 64 * h->consumers || h->bn < 64 || h->bn > 256 || h->bn % 64 ||
        h->stages < 2 || h->group < 1 || h->split < 1 || h->split > SPLIT_MAX ||
        (h->split > 1 && (h->tail || !splits(h))) || (h->cluster != 1 && h->cluster != 2) ||
        (h->promote && h->bn > PROMOTED_COLUMNS_MAX) ||
        (h->tail && h->tail != tail_of(h->request, &h->product, h->bn)) ||
        (h->request->schedule->promote && h->request->schedule->promote != h->bk))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: schedule %dx%d, %d consumers, cluster %d, %d stages",
                           h->bm, h->bn, h->consumers, h->cluster, h->stages);
    int64_t bytes = weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, h->outs);
    if (bytes > capability->shared_bytes)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: the schedule needs %lld bytes of shared memory of %d",
                           (long long)bytes, capability->shared_bytes);
    return NULL;
}

static void choose_store(weft_hopper *h) {
    const weft_graph *graph = h->request->graph;
    const weft_value *yield = weft_fusion_yield(h->request->fusion, 0);
    h->out_dtype = yield->type.dtype;
    bool staged = h->request->fusion->result_count <= HOPPER_RESULTS_MAX;
    for (int i = 0; i < h->request->fusion->result_count; i++) {
        const weft_type *type = &weft_fusion_yield(h->request->fusion, i)->type;
        staged = staged && (type->dtype == WEFT_BF16 || type->dtype == WEFT_F16) && type->rank == yield->type.rank;
        for (int d = 0; staged && d < type->rank; d++) staged = type->dims[d] == yield->type.dims[d];
    }
    bool tensor = divides(graph, h->product.n, 8);
    h->store = h->split > 1 ? HOPPER_STORE_PARTS
               : !staged    ? HOPPER_STORE_DIRECT
               : tensor     ? HOPPER_STORE_TENSOR
                            : HOPPER_STORE_ROWS;
    h->results = staged && h->split == 1 ? h->request->fusion->result_count : 1;
    h->companion = h->store == HOPPER_STORE_TENSOR && h->results == 1
                       ? weft_product_companion(h->request->fusion, &h->product, h->out_dtype)
                       : -1;
    h->outs = outs_of(h->bn * h->results, HOPPER_OUTS_MAX);
    if (weft_hopper_shared_bytes(h->bm, h->bn, h->stages, h->consumers, h->outs) > h->request->capability->shared_bytes)
        h->outs = 1;
}

static weft_dim grid_of(const weft_hopper *h) {
    weft_dim_table *dims = h->k->dims;
    weft_dim tiles = weft_raster_count(dims, h->product.m, h->product.n, h->product.batch, h->bm * h->cluster, h->bn);
    tiles = weft_dim_multiply(dims, tiles, h->split);
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
                     .split = s->split > 0 ? s->split : 1,
                     .group = s->raster > 0 ? s->raster : 8};
    const char *reason;
    *out_plan = (weft_kernel_plan){0};
    if (!weft_product_find(request->graph, request->fusion, &h.product, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "matmul-hopper: %s", reason);
    if (h.bn < 64 || h.bn % 64) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: tiles of %d columns", h.bn);
    if (!unit_of(request->capability, &h.product, &h.unit))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "matmul-hopper: operands of type %s",
                           weft_dtype_name(h.product.dtype));
    h.element_bytes = weft_dtype_bits(h.product.dtype) / 8, h.bk = HOPPER_ROW_BYTES / h.element_bytes;
    h.promote = s->promote > 0, h.tail = s->tail;
    choose_store(&h);
    WEFT_TRY(check_schedule(&h), "building %s", request->name);
    h.a_bytes = h.bm * HOPPER_ROW_BYTES, h.b_bytes = h.bn * HOPPER_ROW_BYTES, h.stage_bytes = h.a_bytes + h.b_bytes;
    WEFT_TRY(weft_hopper_plan_packing(&h, out_plan), "building %s", request->name);
    h.k = weft_plan_kernel(request, "");
    if (!h.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    h.k->threads = 128 * (1 + h.consumers);
    h.k->cluster = h.cluster;
    h.k->registers = 65536 / h.k->threads / 8 * 8;
    h.k->grid = grid_of(&h);
    WEFT_TRY(weft_index_init(request, h.k, &index), "building %s", request->name);
    if (h.split > 1) {
        weft_dim elements = h.product.m * h.product.n * h.product.batch * h.split;
        out_plan->temps[h.parts] = (weft_plan_temp){.bytes = elements * 4};
        h.parts_buffer = weft_kernel_buffer(h.k, WEFT_ARGUMENT_TEMP, h.parts, WEFT_F32, true, "parts");
    }
    weft_status status = weft_hopper_make_maps(&h, out_plan);
    if (!status) status = weft_hopper_emit(&h);
    weft_status finish = weft_index_finish(&index);
    if (status)
        weft_status_release(finish);
    else
        status = finish;
    WEFT_TRY(status, "building %s", request->name);
    if (h.split > 1) WEFT_TRY(weft_hopper_plan_sum(&h, out_plan), "building %s", request->name);
    return weft_plan_set(request, out_plan, out_plan->launch_count - (h.split > 1 ? 2 : 1), h.k);
}

extern const weft_builder weft_builder_matmul_hopper;
const weft_builder weft_builder_matmul_hopper = {
    .name = "matmul", .accepts = accepts, .propose = propose, .build = build};
