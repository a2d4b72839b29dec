/* ragged_dot on any GPU: the tiles of simt.h and mma.h, whose place and ends are found in the kernel (ragged.h). By
   rows, a block has a tile of one segment's rows, which ends where the segment does; a grid that is large enough for
   any offsets, blocks without a tile store nothing. Where rows are contracted a block has a tile of one group's result
   and walks its rows. Sums in the order of k, as the same product by dot_general. Read next: simt.h, mma.h. */
#include "codegen/builders/matmul.h"
#include "codegen/builders/mma.h"
#include "codegen/builders/ragged.h"
#include "codegen/tile/raster.h"

static bool accepts_type(const weft_capability *capability, const weft_ragged *r) {
    weft_dtype sum = weft_product_sum(r->node);
    if (sum == WEFT_INVALID) return false;
    if (weft_dtype_bits(sum) < 64) return true;
    return weft_dtype_is_float(sum) ? capability->f64 : capability->i64;
}

static bool takes_mma(const weft_capability *capability, const weft_ragged *r) {
    return !capability->cores && weft_operand_type(r->node, 1)->dtype == r->dtype &&
           weft_mma_takes(capability, r->dtype, weft_product_sum(r->node));
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_ragged r;
    *out_reason = NULL;
    if (weft_capability_is_cpu(capability)) return false;
    if (!weft_ragged_find(graph, fusion, &r, out_reason)) return false;
    *out_reason = "a sum in a type that the target does not add in";
    if (!accepts_type(capability, &r)) return false;
    *out_reason = "positions need more than the target's indices";
    if (!weft_fusion_fits_index(graph, fusion, capability)) return false;
    *out_reason = NULL;
    return true;
}

static void find_sides(const weft_ragged *r, weft_mma_side sides[2]) {
    sides[0] = (weft_mma_side){.operand = r->x, .pitch = r->k, .period = 1};
    sides[1] = (weft_mma_side){.operand = r->w, .pitch = r->w_along_k ? r->k : r->n, .period = r->by_rows ? 0 : 1};
}

/* The problem of a block: [rows, n] of all segments, or [k, n] of each group. */
typedef struct extents {
    weft_dim m, batch, depth;
} extents;
static extents extents_of(const weft_ragged *r) {
    return r->by_rows ? (extents){r->rows, 1, r->k} : (extents){r->k, r->groups, r->rows};
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    enum { CANDIDATES = 8 };
    weft_ragged r;
    weft_mma_side sides[2];
    weft_schedule all[CANDIDATES];
    const char *reason;
    if (!weft_ragged_find(request->graph, request->fusion, &r, &reason)) return 0;
    extents x = extents_of(&r);
    find_sides(&r, sides);
    bool mma = takes_mma(request->capability, &r);
    int found =
        mma ? weft_mma_propose(request, "ragged-mma", x.m, r.n, x.batch, r.dtype, sides, CANDIDATES, all)
            : weft_simt_propose(request, "ragged-simt", x.m, r.n, x.batch, weft_product_sum(r.node), CANDIDATES, all);
    int count = 0;
    for (int i = 0; i < found && count < capacity; i++) /* place: not for few outputs, nor simdgroups */
        if (mma || (all[i].split <= 1 && all[i].vector == 4)) out_schedules[count++] = all[i];
    return count;
}

/* -- the problem's functions */

static weft_kval load(weft_simt *s, int side, weft_kval row, weft_kval k, weft_kval *out_inside) {
    const weft_ragged *r = s->self;
    *out_inside = WEFT_KNONE;
    weft_lane_index index[3];
    weft_kval deep = weft_k_add(s->k, k, s->k_first);
    if (side == 0) {
        index[0] = weft_lane_scalar(r->by_rows ? row : deep), index[1] = weft_lane_scalar(r->by_rows ? k : row);
    } else if (!r->by_rows) {
        index[0] = weft_lane_scalar(deep), index[1] = weft_lane_scalar(row);
    } else {
        index[0] = weft_lane_scalar(s->batch_index);
        index[1] = weft_lane_scalar(r->w_along_k ? row : k), index[2] = weft_lane_scalar(r->w_along_k ? k : row);
    }
    return weft_index_value(s->index, r->node->operands[side], index, 1, s->readable);
}

static void store(weft_simt *s, weft_kval row, weft_lane_index column, weft_kval mask, weft_kval sums) {
    const weft_ragged *r = s->self;
    weft_index_bind(s->index, &r->node->results[0], weft_product_finish(s->index, r->node, sums));
    weft_lane_index by_group[3] = {weft_lane_scalar(s->batch_index), weft_lane_scalar(row), column};
    for (int i = 0; i < s->request->fusion->result_count; i++)
        weft_index_emit(s->index, i, r->by_rows ? by_group + 1 : by_group, 4, mask);
}

static void place_rows(weft_simt *s) {
    const weft_ragged *r = s->self;
    weft_kernel *k = s->k;
    weft_kval across = weft_k_extent(k, weft_dim_divide_ceil(k->dims, r->n, s->bn)), block = weft_k_block(k);
    weft_ragged_tile tile = weft_ragged_find_tile(s->index, r, weft_k_div(k, block, across), s->bm);
    s->m0 = tile.first, s->rows_end = tile.end;
    s->n0 = weft_k_mul(k, weft_k_rem(k, block, across), weft_k_index(k, s->bn));
    s->depth_end = weft_k_select(k, tile.dead, weft_k_index(k, 0), weft_k_extent(k, r->k));
    s->k_first = weft_k_index(k, 0);
    /* a legal place in w, whatever the segment */
    weft_kval last = weft_k_max(k, weft_k_sub(k, weft_k_extent(k, r->groups), weft_k_index(k, 1)), weft_k_index(k, 0));
    s->batch_index = weft_k_min(k, weft_k_max(k, tile.group, weft_k_index(k, 0)), last);
}

static void place_group(weft_simt *s) {
    const weft_ragged *r = s->self;
    weft_kernel *k = s->k;
    weft_raster raster = weft_raster_create(k, r->k, r->n, r->groups, s->bm, s->bn, 8);
    weft_tile_place place = weft_raster_place(k, &raster, weft_k_block(k));
    s->batch_index = place.batch, s->m0 = place.m, s->n0 = place.n;
    s->rows_end = weft_k_extent(k, r->k);
    weft_kval end;
    weft_ragged_find_group(s->index, r, place.batch, &s->k_first, &end);
    s->depth_end = weft_k_sub(k, end, s->k_first);
}

static weft_status build(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_ragged r;
    weft_index_context index;
    weft_mma_side sides[2];
    const char *reason;
    if (!weft_ragged_find(request->graph, request->fusion, &r, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "%s: %s", request->name, reason);
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    weft_kernel *k = weft_plan_kernel(request, "");
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, k, &index), "building %s", request->name);
    extents x = extents_of(&r);
    weft_dim_table *dims = request->graph->dims;
    const weft_schedule *schedule = request->schedule;
    weft_simt s = {.request = request,
                   .k = k,
                   .index = &index,
                   .m = x.m,
                   .n = r.n,
                   .depth = x.depth,
                   .batch = r.groups,
                   .sum = weft_product_sum(r.node),
                   .along_k = {r.by_rows, r.w_along_k},
                   .load = load,
                   .store = store,
                   .self = &r,
                   .place = r.by_rows ? place_rows : place_group};
    s.blocks = r.by_rows ? weft_dim_multiply(dims, weft_ragged_tiles(dims, &r, schedule->tile_m),
                                             weft_dim_divide_ceil(dims, r.n, schedule->tile_n))
                         : weft_raster_count(dims, r.k, r.n, r.groups, schedule->tile_m, schedule->tile_n);
    find_sides(&r, sides);
    bool mma = takes_mma(request->capability, &r);
    WEFT_TRY(mma ? weft_mma_emit(&s, r.dtype, sides) : weft_simt_emit(&s), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, k);
}

extern const weft_builder weft_builder_ragged_simt;
const weft_builder weft_builder_ragged_simt = {
    .name = "ragged_dot", .accepts = accepts, .propose = propose, .build = build};
