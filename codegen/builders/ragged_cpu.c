/* ragged_dot on CPUs. By rows, a block takes up to ROWS rows of one segment (ragged.h) and a strip of columns; where
   rows are contracted, ROWS rows of one group's result. Register tile: R rows by two vectors of columns, over all of k
   in order; rows past the end repeat the last one and are not stored, columns past it are masked. Neither operand is
   packed: which weights a block reads is known only when it runs. Read next: matmul_cpu.c, which packs. */
#include "codegen/builders/matmul.h"
#include "codegen/builders/ragged.h"

enum { ROWS = 64, STRIP_VECTORS = 16, WIDE = 2 };

typedef struct build {
    weft_index_context c;
    weft_kernel *k;
    const weft_build_request *request;
    weft_ragged r;
    weft_dtype sum;
    int lanes, rows;
    weft_kval group, rows_end, n; /* of this block */
    weft_kval k_first, k_end;
} build;

static weft_kval number(build *b, int64_t value) { return weft_k_index(b->k, value); }
static weft_kval plus(build *b, weft_kval x, int64_t y) { return weft_k_add(b->k, x, number(b, y)); }

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    weft_ragged r;
    *out_reason = NULL;
    if (!weft_capability_is_cpu(capability)) return false;
    if (!weft_ragged_find(graph, fusion, &r, out_reason)) return false;
    *out_reason = "a sum in a type that targets do not add in";
    if (weft_product_sum(r.node) == WEFT_INVALID) return false;
    *out_reason = NULL;
    return true;
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    return capacity < 1 ? 0 : weft_propose_default(request, "ragged-cpu", out_schedules);
}

/* Element (row, k) of x, and the vector of w at (k, column). */
static weft_kval left(build *b, weft_kval row, weft_kval at_k) {
    bool by_rows = b->r.by_rows;
    weft_lane_index index[2] = {weft_lane_scalar(by_rows ? row : at_k), weft_lane_scalar(by_rows ? at_k : row)};
    weft_kval value = weft_index_value(&b->c, b->r.node->operands[0], index, 1, WEFT_KNONE);
    return weft_k_splat(b->k, weft_k_convert(b->k, value, b->sum), b->lanes);
}

static weft_kval right(build *b, weft_kval at_k, weft_lane_index column, weft_kval mask) {
    weft_lane_index index[3] = {weft_lane_scalar(b->group), weft_lane_scalar(at_k), column};
    if (b->r.w_along_k) index[1] = column, index[2] = weft_lane_scalar(at_k);
    weft_kval value = weft_index_value(&b->c, b->r.node->operands[1], b->r.by_rows ? index : index + 1, b->lanes, mask);
    return weft_k_convert(b->k, value, b->sum);
}

static void store(build *b, weft_kval row, weft_lane_index column, weft_kval mask, weft_kval sum) {
    weft_lane_index index[3] = {weft_lane_scalar(b->group), weft_lane_scalar(row), column};
    weft_index_bind(&b->c, &b->r.node->results[0], weft_product_finish(&b->c, b->r.node, sum));
    for (int i = 0; i < b->request->fusion->result_count; i++)
        weft_index_emit(&b->c, i, b->r.by_rows ? index + 1 : index, b->lanes, mask);
}

/* The register tile at (row, column): `vectors` of them, masked when they are the last. */
static void emit_tile(build *b, weft_kval row, weft_kval column, int vectors, bool masked) {
    weft_kernel *k = b->k;
    weft_kval last = weft_k_sub(k, b->rows_end, number(b, 1)),
              regs = weft_k_regs(k, b->sum, b->lanes, b->rows * vectors), mask = WEFT_KNONE;
    size_t mark = weft_index_mark(&b->c);
    weft_lane_index range[WIDE];
    for (int v = 0; v < vectors; v++) range[v] = weft_lane_range(plus(b, column, (int64_t)v * b->lanes), b->lanes);
    if (masked) mask = weft_index_below(&b->c, range[0], b->lanes, b->n);
    for (int i = 0; i < b->rows * vectors; i++)
        weft_k_set_at(k, regs, number(b, i), weft_k_constant_lanes(k, b->sum, 0, b->lanes));
    weft_kval at_k = weft_k_for(k, b->k_first, b->k_end, number(b, 1), 0), w[WIDE];
    size_t inner = weft_index_mark(&b->c);
    for (int v = 0; v < vectors; v++) w[v] = right(b, at_k, range[v], mask);
    for (int i = 0; i < b->rows; i++) {
        weft_kval x = left(b, weft_k_min(k, plus(b, row, i), last), at_k);
        for (int v = 0; v < vectors; v++) {
            weft_kval at = number(b, i * vectors + v), sum = weft_k_get_at(k, regs, at);
            weft_k_set_at(k, regs, at,
                          weft_dtype_is_float(b->sum) ? weft_k_mad(k, x, w[v], sum)
                                                      : weft_k_add(k, weft_k_mul(k, x, w[v]), sum));
        }
    }
    weft_index_release(&b->c, inner);
    weft_k_end(k);
    for (int i = 0; i < b->rows; i++) {
        size_t each = weft_index_mark(&b->c);
        weft_k_if(k, weft_k_le(k, plus(b, row, i), last));
        for (int v = 0; v < vectors; v++)
            store(b, plus(b, row, i), range[v], mask, weft_k_get_at(k, regs, number(b, i * vectors + v)));
        weft_k_end(k);
        weft_index_release(&b->c, each);
    }
    weft_index_release(&b->c, mark);
}

/* Rows [row, end of the tile), columns of strip `strip`. */
static void emit_strip(build *b, weft_kval first, weft_kval end, weft_kval strip) {
    weft_kernel *k = b->k;
    int64_t width = (int64_t)STRIP_VECTORS * b->lanes, wide = (int64_t)WIDE * b->lanes;
    weft_kval c0 = weft_k_mul(k, strip, number(b, width)), c1 = weft_k_min(k, plus(b, c0, width), b->n);
    weft_kval whole =
        weft_k_add(k, c0, weft_k_mul(k, weft_k_div(k, weft_k_sub(k, c1, c0), number(b, wide)), number(b, wide)));
    for (int part = 0; part < 2; part++) {
        if (part && weft_dim_divisor(k->dims, b->r.n) % wide == 0) break;
        weft_kval column = weft_k_for(k, part ? whole : c0, part ? c1 : whole, number(b, part ? b->lanes : wide), 0);
        weft_kval row = weft_k_for(k, first, end, number(b, b->rows), 0);
        emit_tile(b, row, column, part ? 1 : WIDE, part);
        weft_k_end(k);
        weft_k_end(k);
    }
}

static void emit(build *b) {
    weft_kernel *k = b->k;
    weft_dim_table *dims = k->dims;
    const weft_ragged *r = &b->r;
    weft_dim strips = weft_dim_divide_ceil(dims, r->n, (int64_t)STRIP_VECTORS * b->lanes);
    weft_kval block = weft_k_block(k), across = weft_k_extent(k, strips), strip = weft_k_rem(k, block, across), first,
              tile = weft_k_div(k, block, across);
    b->n = weft_k_extent(k, r->n);
    if (r->by_rows) {
        k->grid = weft_dim_multiply(dims, weft_ragged_tiles(dims, r, ROWS), strips);
        weft_ragged_tile found = weft_ragged_find_tile(&b->c, r, tile, ROWS);
        first = found.first, b->group = found.group, b->rows_end = found.end;
        b->k_first = number(b, 0), b->k_end = weft_k_select(k, found.dead, number(b, 0), weft_k_extent(k, r->k));
    } else {
        weft_dim tiles = weft_dim_divide_ceil(dims, r->k, ROWS);
        k->grid = weft_dim_multiply(dims, weft_dim_multiply(dims, r->groups, tiles), strips);
        b->group = weft_k_div(k, tile, weft_k_extent(k, tiles));
        first = weft_k_mul(k, weft_k_rem(k, tile, weft_k_extent(k, tiles)), number(b, ROWS));
        b->rows_end = weft_k_extent(k, r->k);
        weft_ragged_find_group(&b->c, r, b->group, &b->k_first, &b->k_end);
    }
    emit_strip(b, first, weft_k_min(k, plus(b, first, ROWS), b->rows_end), strip);
}

static weft_status build_plan(const weft_build_request *request, weft_kernel_plan *out_plan) {
    build b = {.request = request, .lanes = weft_fusion_lanes(request)};
    const char *reason;
    *out_plan = (weft_kernel_plan){0};
    if (!weft_ragged_find(request->graph, request->fusion, &b.r, &reason))
        return WEFT_STATUS(WEFT_INTERNAL, "%s: %s", request->name, reason);
    if (weft_fusion_is_empty(request)) return NULL;
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "building %s", request->name);
    b.k = weft_plan_kernel(request, "");
    if (!b.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(weft_index_init(request, b.k, &b.c), "building %s", request->name);
    b.sum = weft_product_sum(b.r.node);
    b.rows = request->capability->vector_bytes >= 64 ? 8 : 4; /* half of the vector registers are sums */
    emit(&b);
    WEFT_TRY(weft_index_finish(&b.c), "building %s", request->name);
    return weft_plan_set(request, out_plan, 0, b.k);
}

extern const weft_builder weft_builder_ragged_cpu;
const weft_builder weft_builder_ragged_cpu = {
    .name = "ragged_dot", .accepts = accepts, .propose = propose, .build = build_plan};
