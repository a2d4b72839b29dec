/* Builder "matmul" on CPUs: vector FMA, one kernel for GEMM and GEMV.

   Launches: pack B into panels (at load when B is a constant), pack A when it cannot be read in place, multiply.
   Packed B: [batch][panel][k][columns of the panel], element type of the sums; the last panel of a static n has only as
   many vectors as it needs. Packed A: [batch][m][k].
   Multiply: a block is a range of row tiles times a range of panels that stays in L2; for each row tile and panel one
   register tile, summed over all of k, then the fusion's elementwise ops on the registers, then the stores. A symbolic
   m has tiles of a power of two rows and a rest made of smaller powers, and a variant for m = 1. Read next: matmul.h,
   matmul_plan.h, prototypes of the cost model in matmul_plan.c. */
#include "codegen/builders/matmul_plan.h"

typedef struct build {
    const weft_build_request *request;
    const weft_matmul *p;
    weft_matmul_tiles t;
    weft_index_context c;
    weft_kernel *k;
    int a_temp, b_temp; /* -1: in place */
    weft_kval a, b, a_base, b_base;
    weft_kval stage; /* one column of a tile's sums, for epilogues with long functions; WEFT_KNONE = none */
    uint32_t merge;
    weft_axes batch_axes, row_axes, column_axes; /* of the result */
    weft_lane_index index[WEFT_MAX_RANK];
} build;

/* One register tile. */
typedef struct tile {
    int rows, nv;
    bool ragged; /* static n: the last vector has last_live lanes */
    bool open;   /* symbolic n: any vector may end early */
    weft_kval row, column, panel;
} tile;

static weft_kval extent(build *b, weft_dim dim) { return weft_k_extent(b->k, dim); }
static weft_kval number(build *b, int64_t value) { return weft_k_index(b->k, value); }
static weft_kval plus(build *b, weft_kval x, int64_t value) { return weft_k_add(b->k, x, number(b, value)); }

/* -- the register tile */

static weft_kval multiply_add(build *b, weft_kval x, weft_kval y, weft_kval sum) {
    if (weft_dtype_is_float(b->p->accumulate)) return weft_k_fma(b->k, x, y, sum);
    return weft_k_add(b->k, weft_k_mul(b->k, x, y), sum);
}

static weft_dim panel_stride(const build *b, const tile *t) {
    return b->b_temp < 0 ? b->p->b.contract_stride : (weft_dim)t->nv * b->t.lanes;
}

static weft_kval load_b(build *b, const tile *t, weft_kval at, int v) {
    weft_kval mask = WEFT_KNONE;
    int lanes = b->t.lanes;
    if (b->b_temp < 0 && t->ragged && v == t->nv - 1)
        mask = weft_k_lt(b->k, weft_k_iota(b->k, WEFT_I32, lanes), weft_k_integer(b->k, WEFT_I32, b->t.last_live));
    return weft_k_load(b->k, b->b, plus(b, at, (int64_t)v * lanes), lanes, mask, WEFT_KNONE);
}

/* One step of k into one set of accumulators. */
static void k_step(build *b, const tile *t, weft_kval regs, weft_kval a_row, weft_kval b_at, weft_kval kk, int set) {
    const weft_matmul *p = b->p;
    weft_kernel *k = b->k;
    weft_kval vectors[8];
    weft_dim a_stride = b->a_temp < 0 ? p->a.contract_stride : 1, row_stride = b->a_temp < 0 ? p->a.row_stride : p->k;
    weft_kval at = weft_k_add(k, b_at, weft_k_mul(k, weft_k_add(k, kk, number(b, set)), extent(b, panel_stride(b, t))));
    int64_t ahead =
        (b->t.m_known && b->t.tiles == 1 && b->t.base <= 4 ? 4096 : 1024) / (weft_dtype_bits(p->accumulate) / 8);
    for (int v = 0; v < t->nv; v++) {
        vectors[v] = load_b(b, t, at, v);
        bool new_line = v * b->t.lanes * weft_dtype_bits(p->accumulate) % 512 == 0;
        if (b->b_temp >= 0 && new_line)
            weft_k_prefetch(k, b->b, plus(b, at, (int64_t)v * b->t.lanes + ahead), 3, false);
    }
    weft_kval a_at = weft_k_add(k, a_row, weft_k_mul(k, weft_k_add(k, kk, number(b, set)), extent(b, a_stride)));
    for (int r = 0; r < t->rows; r++) {
        weft_kval where = weft_k_add(k, a_at, weft_k_mul(k, number(b, r), extent(b, row_stride)));
        weft_kval x = weft_k_splat(k, weft_k_load(k, b->a, where, 1, WEFT_KNONE, WEFT_KNONE), b->t.lanes);
        for (int v = 0; v < t->nv; v++) {
            weft_kval slot = number(b, (set * t->rows + r) * t->nv + v);
            weft_k_set_at(k, regs, slot, multiply_add(b, x, vectors[v], weft_k_get_at(k, regs, slot)));
        }
    }
}

static void k_loops(build *b, const tile *t, weft_kval regs) {
    const weft_matmul *p = b->p;
    weft_kernel *k = b->k;
    int sets = b->t.sets;
    weft_dim row_stride = b->a_temp < 0 ? p->a.row_stride : p->k;
    weft_kval a_row = weft_k_add(k, b->a_base, weft_k_mul(k, t->row, extent(b, row_stride)));
    weft_kval b_at = weft_k_add(
        k, b->b_base,
        b->b_temp < 0
            ? t->column
            : weft_k_mul(k, t->panel,
                         extent(b, weft_dim_multiply(b->request->graph->dims, p->k, (weft_dim)b->t.nv * b->t.lanes))));
    weft_kval whole = extent(b, p->k);
    if (sets > 1) whole = weft_k_mul(k, weft_k_div(k, whole, number(b, sets)), number(b, sets));
    weft_kval kk = weft_k_for(k, number(b, 0), whole, number(b, sets), sets >= 4 ? 0 : 4 / sets);
    for (int s = 0; s < sets; s++) k_step(b, t, regs, a_row, b_at, kk, s);
    weft_k_end(k);
    if (sets == 1) return;
    kk = weft_k_for(k, whole, extent(b, p->k), number(b, 1), 0);
    k_step(b, t, regs, a_row, b_at, kk, 0);
    weft_k_end(k);
}

static weft_kval column_mask(build *b, const tile *t, int v) {
    int lanes = b->t.lanes;
    if (t->open)
        return weft_index_below(&b->c, weft_lane_range(plus(b, t->column, (int64_t)v * lanes), lanes), lanes,
                                extent(b, b->p->n));
    if (!t->ragged || v < t->nv - 1 || b->t.last_live == lanes) return WEFT_KNONE;
    return weft_k_lt(b->k, weft_k_iota(b->k, WEFT_I32, lanes), weft_k_integer(b->k, WEFT_I32, b->t.last_live));
}

/* The sum of one output vector as the dot's result. */
static weft_kval finish_sum(build *b, const tile *t, weft_kval regs, int r, int v) {
    weft_kval parts[4];
    int sets = b->t.sets;
    for (int s = 0; s < sets; s++) parts[s] = weft_k_get_at(b->k, regs, number(b, (s * t->rows + r) * t->nv + v));
    for (; sets > 1; sets /= 2)
        for (int s = 0; s < sets / 2; s++) parts[s] = weft_k_add(b->k, parts[s], parts[s + sets / 2]);
    return weft_product_finish(&b->c, b->p->dot, parts[0]);
}

static void emit_row(build *b, weft_kval row, weft_kval sum, weft_kval mask) {
    weft_index_context *c = &b->c;
    weft_axes_index(c, &b->row_axes, b->merge, weft_lane_scalar(row), 1, b->index);
    weft_index_bind(c, &b->p->dot->results[0], sum);
    for (int i = 0; i < b->request->fusion->result_count; i++) weft_index_emit(c, i, b->index, b->t.lanes, mask);
}

/* Vector v of every row, by a loop: the code of the epilogue stands once. */
static void emit_staged(build *b, const tile *t, weft_kval regs, int v, weft_kval mask) {
    weft_kernel *k = b->k;
    for (int r = 0; r < t->rows; r++)
        weft_k_store(k, b->stage, number(b, (int64_t)r * b->t.lanes), WEFT_KNONE, finish_sum(b, t, regs, r, v));
    weft_kval r = weft_k_for(k, number(b, 0), number(b, t->rows), number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    weft_kval at = weft_k_mul(k, r, number(b, b->t.lanes));
    emit_row(b, weft_k_add(k, t->row, r), weft_k_load(k, b->stage, at, b->t.lanes, WEFT_KNONE, WEFT_KNONE), mask);
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

static void epilogue(build *b, const tile *t, weft_kval regs) {
    weft_index_context *c = &b->c;
    for (int v = 0; v < t->nv; v++) {
        size_t mark = weft_index_mark(c);
        weft_kval column = plus(b, t->column, (int64_t)v * b->t.lanes);
        if (t->open && v > 0) weft_k_if(b->k, weft_k_lt(b->k, column, extent(b, b->p->n)));
        weft_kval mask = column_mask(b, t, v);
        weft_axes_index(c, &b->column_axes, b->merge, weft_lane_range(column, b->t.lanes), b->t.lanes, b->index);
        if (b->stage != WEFT_KNONE && t->rows > 1)
            emit_staged(b, t, regs, v, mask);
        else
            for (int r = 0; r < t->rows; r++) emit_row(b, plus(b, t->row, r), finish_sum(b, t, regs, r, v), mask);
        weft_index_release(c, mark);
        if (t->open && v > 0) weft_k_end(b->k);
    }
}

/* Asks for the lines of the result early, for writing. */
static void prefetch_results(build *b, const tile *t) {
    if (t->open || (b->t.m_known && b->t.tiles == 1 && b->t.base <= 4)) return;
    const weft_type *type = &b->request->fusion->results[0].type;
    int per_line = 512 / weft_dtype_bits(type->dtype);
    weft_kval batch = weft_index_position(&b->c, b->p->batch_rank, type->dims, b->index, 1).base;
    for (int r = 0; r < t->rows; r++) {
        weft_kval row = weft_k_add(b->k, weft_k_mul(b->k, batch, extent(b, b->p->m)), plus(b, t->row, r));
        weft_kval at = weft_k_add(b->k, weft_k_mul(b->k, row, extent(b, b->p->n)), t->column);
        for (int column = 0; column < t->nv * b->t.lanes; column += per_line)
            weft_k_prefetch(b->k, b->c.results[0], plus(b, at, column), 3, true);
    }
}

static void emit_tile(build *b, const tile *t) {
    weft_kernel *k = b->k;
    size_t mark = weft_index_mark(&b->c);
    int count = t->rows * t->nv * b->t.sets;
    weft_kval regs = weft_k_regs(k, b->p->accumulate, b->t.lanes, count);
    weft_kval zero = weft_k_constant_lanes(k, b->p->accumulate, 0, b->t.lanes);
    for (int i = 0; i < count; i++) weft_k_set_at(k, regs, number(b, i), zero);
    prefetch_results(b, t);
    k_loops(b, t, regs);
    epilogue(b, t, regs);
    weft_index_release(&b->c, mark);
}

/* -- loops over tiles */

/* All panels [q0, q1) of one row tile. */
static void panel_loops(build *b, int rows, weft_kval row, weft_kval q0, weft_kval q1) {
    weft_kernel *k = b->k;
    const weft_matmul_tiles *t = &b->t;
    int64_t width = (int64_t)t->nv * t->lanes;
    weft_kval wide = t->n_known ? number(b, t->wide) : weft_k_div(k, extent(b, b->p->n), number(b, width));
    if (!t->n_known || t->wide > 0) {
        weft_kval q = weft_k_for(k, q0, weft_k_min(k, q1, wide), number(b, 1), 0);
        tile whole = {.rows = rows, .nv = t->nv, .row = row, .panel = q, .column = weft_k_mul(k, q, number(b, width))};
        emit_tile(b, &whole);
        weft_k_end(k);
    }
    if (t->n_known && t->last_nv == 0) return;
    bool always = t->n_known && t->panel_blocks == 1;
    if (!always) weft_k_if(k, weft_k_lt(k, wide, q1));
    tile last = {.rows = rows,
                 .nv = t->n_known ? t->last_nv : t->nv,
                 .ragged = t->n_known,
                 .open = !t->n_known,
                 .row = row,
                 .panel = wide,
                 .column = weft_k_mul(k, wide, number(b, width))};
    emit_tile(b, &last);
    if (!always) weft_k_end(k);
}

/* Static m: tiles [t0, t1) of base + 1 and base rows. */
static void static_rows(build *b, weft_kval row_block, weft_kval q0, weft_kval q1) {
    weft_kernel *k = b->k;
    const weft_matmul_tiles *t = &b->t;
    weft_kval t0 = weft_k_mul(k, row_block, number(b, t->tiles_per_block)),
              t1 = weft_k_min(k, plus(b, t0, t->tiles_per_block), number(b, t->tiles));
    for (int more = 1; more >= 0; more--) {
        if (more ? t->extra == 0 : t->extra == t->tiles) continue;
        weft_kval lo = more ? t0 : weft_k_max(k, t0, number(b, t->extra)),
                  hi = more ? weft_k_min(k, t1, number(b, t->extra)) : t1;
        weft_kval i = weft_k_for(k, lo, hi, number(b, 1), 0), row = weft_k_mul(k, i, number(b, t->base + more));
        panel_loops(b, (int)t->base + more, more ? row : plus(b, row, t->extra), q0, q1);
        weft_k_end(k);
    }
}

/* Symbolic m: whole tiles, then the bits of the rest. */
static void symbolic_rows(build *b, weft_kval row_block, weft_kval q0, weft_kval q1) {
    weft_kernel *k = b->k;
    int mr = b->t.mr;
    int64_t span = b->t.tiles_per_block * mr;
    weft_kval r0 = weft_k_mul(k, row_block, number(b, span)), r1 = weft_k_min(k, plus(b, r0, span), extent(b, b->p->m)),
              rows = weft_k_sub(k, r1, r0);
    weft_kval rest = weft_k_and(k, rows, number(b, mr - 1)), whole = weft_k_sub(k, r1, rest);
    weft_kval row = weft_k_for(k, r0, whole, number(b, mr), 0);
    panel_loops(b, mr, row, q0, q1);
    weft_k_end(k);
    for (int piece = mr / 2; piece >= 1; piece /= 2) {
        weft_k_if(k, weft_k_ne(k, weft_k_and(k, rest, number(b, piece)), number(b, 0)));
        weft_kval before = weft_k_and(k, rest, number(b, mr - 2 * piece));
        panel_loops(b, piece, weft_k_add(k, whole, before), q0, q1);
        weft_k_end(k);
    }
}

/* Splits a block number; the innermost count is `count`. */
static weft_kval take(build *b, weft_kval *id, weft_dim count) {
    if (count == 1) return number(b, 0);
    weft_kval n = extent(b, count), part = weft_k_rem(b->k, *id, n);
    *id = weft_k_div(b->k, *id, n);
    return part;
}

static weft_dim packed_columns(const build *b) {
    const weft_matmul_tiles *t = &b->t;
    if (t->n_known) return (t->wide * t->nv + t->last_nv) * t->lanes;
    return weft_dim_multiply(b->request->graph->dims, t->panels, (weft_dim)t->nv * t->lanes);
}

static weft_status begin(build *b, const char *suffix) {
    b->k = weft_plan_kernel(b->request, suffix);
    if (!b->k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", b->request->name);
    WEFT_TRY(weft_index_init(b->request, b->k, &b->c), "matmul");
    b->merge = ~(uint32_t)0;
    return NULL;
}

static weft_status end(build *b) {
    WEFT_TRY(weft_kernel_drop_unused_buffers(b->k), "matmul");
    return weft_index_finish(&b->c);
}

static weft_status multiply(build *b, const char *suffix) {
    const weft_matmul *p = b->p;
    weft_dim_table *table = b->request->graph->dims;
    WEFT_TRY(begin(b, suffix), "matmul");
    weft_kernel *k = b->k;
    for (int i = 0; i < b->request->fusion->result_count; i++)
        b->merge &= weft_index_mergeable(&b->c, weft_fusion_yield(b->request->fusion, i));
    b->batch_axes = weft_matmul_result_axes(b->request->graph, p, 0, p->batch_rank);
    b->row_axes = weft_matmul_result_axes(b->request->graph, p, p->batch_rank, p->m_rank);
    b->column_axes = weft_matmul_result_axes(b->request->graph, p, p->batch_rank + p->m_rank, p->n_rank);
    b->a = b->a_temp < 0 ? b->c.operands[p->a.access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->a_temp, p->accumulate, false, "a");
    b->b = b->b_temp < 0 ? b->c.operands[p->b.access.operand]
                         : weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->b_temp, p->accumulate, false, "b");
    int64_t rows = b->t.m_known ? b->t.base + (b->t.extra > 0) : b->t.mr;
    b->stage = WEFT_KNONE;
    if (weft_fusion_is_long(b->request->fusion) && rows > 1)
        b->stage = weft_k_shared(k, weft_index_carrier(p->dot->results[0].type.dtype), rows * b->t.lanes);
    k->grid = weft_dim_multiply(table, weft_dim_multiply(table, p->batch, b->t.panel_blocks), b->t.row_blocks);
    weft_kval id = weft_k_block(k), row_block = take(b, &id, b->t.row_blocks),
              panel_block = take(b, &id, b->t.panel_blocks), batch = p->batch == 1 ? number(b, 0) : id;
    weft_axes_index(&b->c, &b->batch_axes, b->merge, weft_lane_scalar(batch), 1, b->index);
    if (b->a_temp < 0)
        b->a_base =
            weft_k_add(k, extent(b, p->a.access.offset), weft_axes_offset(&b->c, &p->a.batch, &p->a.access, batch));
    else
        b->a_base = weft_k_mul(k, batch, extent(b, weft_dim_multiply(table, p->m, p->k)));
    if (b->b_temp < 0)
        b->b_base =
            weft_k_add(k, extent(b, p->b.access.offset), weft_axes_offset(&b->c, &p->b.batch, &p->b.access, batch));
    else
        b->b_base = weft_k_mul(k, batch, extent(b, weft_dim_multiply(table, packed_columns(b), p->k)));
    weft_kval q0 = weft_k_mul(k, panel_block, number(b, b->t.panels_per_block));
    weft_kval q1 = weft_k_min(k, plus(b, q0, b->t.panels_per_block), extent(b, b->t.panels));
    if (b->t.panel_blocks == 1) q1 = extent(b, b->t.panels);
    if (b->t.m_known)
        static_rows(b, row_block, q0, q1);
    else
        symbolic_rows(b, row_block, q0, q1);
    return end(b);
}

/* -- packing */

/* Columns of one panel for all k. */
static void pack_panel(build *b, weft_kval buffer, weft_kval batch, weft_kval panel, int nv, bool ragged, bool open) {
    const weft_matmul *p = b->p;
    weft_kernel *k = b->k;
    int64_t width = (int64_t)b->t.nv * b->t.lanes;
    weft_dim_table *table = b->request->graph->dims;
    uint32_t merge = weft_index_mergeable(&b->c, p->b.value);
    weft_kval base = weft_k_add(k, weft_k_mul(k, batch, extent(b, weft_dim_multiply(table, packed_columns(b), p->k))),
                                weft_k_mul(k, panel, extent(b, weft_dim_multiply(table, p->k, width))));
    tile t = {.nv = nv, .ragged = ragged, .open = open, .column = weft_k_mul(k, panel, number(b, width))};
    weft_kval kk = weft_k_for(k, number(b, 0), extent(b, p->k), number(b, 1), 0);
    size_t mark = weft_index_mark(&b->c);
    weft_axes_index(&b->c, &p->b.batch, merge, weft_lane_scalar(batch), 1, b->index);
    weft_axes_index(&b->c, &p->b.contract, merge, weft_lane_scalar(kk), 1, b->index);
    for (int v = 0; v < nv; v++) {
        weft_kval column = plus(b, t.column, (int64_t)v * b->t.lanes);
        size_t inner = weft_index_mark(&b->c);
        if (open && v > 0) weft_k_if(k, weft_k_lt(k, column, extent(b, p->n)));
        weft_axes_index(&b->c, &p->b.row, merge, weft_lane_range(column, b->t.lanes), b->t.lanes, b->index);
        weft_kval value = weft_k_convert(
            k, weft_index_value(&b->c, p->b.value, b->index, b->t.lanes, column_mask(b, &t, v)), p->accumulate);
        weft_k_store(k, buffer,
                     weft_k_add(k, base,
                                weft_k_add(k, weft_k_mul(k, kk, number(b, (int64_t)nv * b->t.lanes)),
                                           number(b, (int64_t)v * b->t.lanes))),
                     WEFT_KNONE, value);
        weft_index_release(&b->c, inner);
        if (open && v > 0) weft_k_end(k);
    }
    weft_index_release(&b->c, mark);
    weft_k_end(k);
}

static weft_status pack_b(build *b) {
    const weft_matmul_tiles *t = &b->t;
    WEFT_TRY(begin(b, "_pack_b"), "matmul");
    weft_kernel *k = b->k;
    weft_kval buffer = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->b_temp, b->p->accumulate, true, "b");
    k->grid = weft_dim_multiply(b->request->graph->dims, b->p->batch, t->panels);
    weft_kval id = weft_k_block(k), panel = take(b, &id, t->panels), batch = b->p->batch == 1 ? number(b, 0) : id;
    weft_kval wide =
        t->n_known ? number(b, t->wide) : weft_k_div(k, extent(b, b->p->n), number(b, (int64_t)t->nv * t->lanes));
    weft_k_if(k, weft_k_lt(k, panel, wide));
    size_t mark = weft_index_mark(&b->c);
    pack_panel(b, buffer, batch, panel, t->nv, false, false);
    weft_index_release(&b->c, mark);
    if (!t->n_known || t->last_nv > 0) {
        weft_k_else(k);
        pack_panel(b, buffer, batch, panel, t->n_known ? t->last_nv : t->nv, t->n_known, !t->n_known);
        weft_index_release(&b->c, mark);
    }
    weft_k_end(k);
    return end(b);
}

/* A block is one row of one batch. */
static weft_status pack_a(build *b) {
    const weft_matmul *p = b->p;
    WEFT_TRY(begin(b, "_pack_a"), "matmul");
    weft_kernel *k = b->k;
    int lanes = b->t.lanes;
    weft_kval buffer = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, b->a_temp, p->accumulate, true, "a");
    k->grid = weft_dim_multiply(b->request->graph->dims, p->batch, p->m);
    weft_kval block = weft_k_block(k), id = block, row = take(b, &id, p->m), batch = p->batch == 1 ? number(b, 0) : id,
              length = extent(b, p->k);
    uint32_t merge = weft_index_mergeable(&b->c, p->a.value);
    weft_axes_index(&b->c, &p->a.batch, merge, weft_lane_scalar(batch), 1, b->index);
    weft_axes_index(&b->c, &p->a.row, merge, weft_lane_scalar(row), 1, b->index);
    weft_kval base = weft_k_mul(k, block, length),
              whole = weft_k_mul(k, weft_k_div(k, length, number(b, lanes)), number(b, lanes));
    for (int tail = 0; tail < 2; tail++) {
        weft_kval kk = weft_k_for(k, tail ? whole : number(b, 0), tail ? length : whole, number(b, lanes), 0);
        size_t mark = weft_index_mark(&b->c);
        weft_kval mask = tail ? weft_index_below(&b->c, weft_lane_range(kk, lanes), lanes, length) : WEFT_KNONE;
        weft_axes_index(&b->c, &p->a.contract, merge, weft_lane_range(kk, lanes), lanes, b->index);
        weft_kval value = weft_k_convert(k, weft_index_value(&b->c, p->a.value, b->index, lanes, mask), p->accumulate);
        weft_k_store(k, buffer, weft_k_add(k, base, kk), mask, value);
        weft_index_release(&b->c, mark);
        weft_k_end(k);
    }
    return end(b);
}

/* -- the plan */

static bool reads_a_in_place(const weft_matmul *p) { return p->a.strided && p->a.value->type.dtype == p->accumulate; }

/* Packing pays when every panel is used by several row tiles, or once for all at load. */
static bool reads_b_in_place(const weft_build_request *request, const weft_matmul *p) {
    bool direct = p->b.strided && p->b.value->type.dtype == p->accumulate && p->b.row_stride == 1;
    return direct && !weft_fusion_value_is_constant(request->fusion, p->b.value) && weft_dim_is_number(p->m) &&
           p->m <= 16 && weft_dim_is_number(p->n);
}

static int constant_operand(const weft_node *fusion, const weft_value *value) {
    if (!value->node) return value->index;
    for (int i = 0; i < value->node->operand_count; i++) {
        int operand = constant_operand(fusion, value->node->operands[i]);
        if (operand >= 0) return operand;
    }
    return -1;
}

static weft_status temps(build *b, weft_kernel_plan *plan) {
    const weft_matmul *p = b->p;
    weft_dim_table *table = b->request->graph->dims;
    weft_dim bytes =
        weft_dim_multiply(table, weft_dtype_bits(p->accumulate) / 8, weft_dim_multiply(table, p->batch, p->k));
    if (b->b_temp >= 0) {
        bool constant = weft_fusion_value_is_constant(b->request->fusion, p->b.value);
        plan->temps[b->b_temp] =
            (weft_plan_temp){.bytes = weft_dim_multiply(table, bytes, packed_columns(b)),
                             .persistent = constant,
                             .operand = constant ? constant_operand(b->request->fusion, p->b.value) : -1};
        WEFT_TRY(pack_b(b), "packing the second operand");
        WEFT_TRY(weft_plan_set(b->request, plan, 0, b->k), "packing the second operand");
        plan->launches[0].packs = constant;
    }
    if (b->a_temp >= 0) {
        plan->temps[b->a_temp] = (weft_plan_temp){.bytes = weft_dim_multiply(table, bytes, p->m), .operand = -1};
        WEFT_TRY(pack_a(b), "packing the first operand");
        WEFT_TRY(weft_plan_set(b->request, plan, b->b_temp >= 0, b->k), "packing the first operand");
    }
    return NULL;
}

/* m = 1 gets a kernel of its own when m is symbolic and may be 1. */
static weft_status main_launch(build *b, const weft_matmul *p, weft_kernel_plan *plan, int launch) {
    const weft_build_request *request = b->request;
    int64_t low, high;
    weft_dim_bounds(request->graph->dims, p->m, &low, &high);
    bool single = !b->t.m_known && low <= 1;
    int count = single ? 2 : 1;
    weft_plan_variant *variants = weft_arena_allocate_array(request->arena, (size_t)count, sizeof *variants);
    weft_condition *condition = weft_arena_allocate(request->arena, sizeof *condition);
    if (!variants || !condition) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel plan", request->name);
    WEFT_TRY(multiply(b, ""), "multiplying");
    variants[count - 1].kernel = b->k;
    if (single) {
        build row = *b;
        row.t = weft_matmul_tiles_of(request, p, request->schedule, true);
        WEFT_TRY(multiply(&row, "_row"), "multiplying one row");
        *condition = (weft_condition){.lhs = p->m, .rhs = 1, .relation = WEFT_RELATION_EQ};
        variants[0] = (weft_plan_variant){.condition_count = 1, .conditions = condition, .kernel = row.k};
    }
    plan->launches[launch] = (weft_plan_launch){.variant_count = count, .variants = variants};
    return NULL;
}

static weft_status build_matmul(const weft_build_request *request, weft_kernel_plan *out_plan) {
    weft_matmul p;
    if (!weft_matmul_find(request, &p))
        return WEFT_STATUS(WEFT_INTERNAL, "%s: no product in the fusion", request->name);
    if (weft_fusion_is_empty(request)) return weft_plan_init(request, 0, 0, out_plan);
    if (weft_matmul_takes_dots(request, &p)) return weft_matmul_dots(request, &p, out_plan);
    build b = {.request = request, .p = &p, .a_temp = -1, .b_temp = -1};
    int count = 0;
    if (!reads_b_in_place(request, &p)) b.b_temp = count++;
    if (!reads_a_in_place(&p)) b.a_temp = count++;
    b.t = weft_matmul_tiles_of(request, &p, request->schedule, false);
    WEFT_TRY(weft_plan_init(request, count + 1, count, out_plan), "matmul");
    WEFT_TRY(temps(&b, out_plan), "%s", request->name);
    return main_launch(&b, &p, out_plan, count);
}

static int propose(const weft_build_request *request, int capacity, weft_schedule *out_schedules) {
    weft_matmul p;
    if (capacity < 1 || !weft_matmul_find(request, &p)) return 0;
    weft_matmul_propose_tiles(request, &p, &out_schedules[0]);
    return 1;
}

static bool accepts(const weft_graph *graph, const weft_node *fusion, const weft_capability *capability,
                    const char **out_reason) {
    if (!weft_capability_is_cpu(capability)) return *out_reason = NULL, false;
    const weft_node *dot = weft_fusion_find(fusion, WEFT_OP_dot_general);
    if (!dot) return *out_reason = "no product in the fusion", false;
    for (int i = 0; i < 2; i++) {
        weft_dtype_kind kind = weft_dtype_kind_of(weft_operand_type(dot, i)->dtype);
        if (kind != WEFT_KIND_FLOAT && kind != WEFT_KIND_SIGNED && kind != WEFT_KIND_UNSIGNED)
            return *out_reason = "operands are neither floats nor integers", false;
    }
    return weft_fusion_is_epilogue(graph, fusion, dot, out_reason);
}

const weft_builder weft_builder_matmul_cpu = {"matmul", accepts, propose, build_matmul};
