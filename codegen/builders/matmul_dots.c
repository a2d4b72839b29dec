/* Few rows times columns that lie along k (decode attention's q k^T): dot products, vectors along k.

   Packing B would move every element once to use it once. A block is one batch entry and some columns; COLUMNS columns
   at a time share the loads of the rows; each sum is added across its lanes by halves.
   Read next: matmul_cpu.c. */
#include "codegen/builders/matmul_plan.h"

enum { ROWS_MAX = 4, COLUMNS = 4, BLOCK_COLUMNS = 64 };

typedef struct build {
    const weft_build_request *request;
    const weft_matmul *p;
    weft_index_context c;
    weft_kernel *k;
    int lanes, rows;
    uint32_t merge;
    weft_axes row_axes, column_axes;
    weft_kval a, b, a_base, b_base;
    weft_lane_index index[WEFT_MAX_RANK];
} build;

bool weft_matmul_takes_dots(const weft_build_request *request, const weft_matmul *p) {
    if (!weft_dim_is_number(p->m) || p->m > ROWS_MAX || p->m < 1) return false;
    if (request->capability->batch_invariant && p->batch_rank == 0) return false; /* rows may be a batch */
    const weft_matmul_side *sides[] = {&p->a, &p->b};
    for (int i = 0; i < 2; i++)
        if (!sides[i]->strided || sides[i]->value->type.dtype != p->accumulate || sides[i]->contract_stride != 1)
            return false;
    return !weft_fusion_value_is_constant(request->fusion, p->b.value);
}

static weft_kval number(build *b, int64_t value) { return weft_k_index(b->k, value); }

/* k positions [kk, kk + lanes) of `columns` columns into the sums. */
static void step(build *b, weft_kval sums, weft_kval column, int columns, weft_kval kk, weft_kval mask) {
    const weft_matmul *p = b->p;
    weft_kernel *k = b->k;
    weft_kval rows[ROWS_MAX];
    for (int r = 0; r < b->rows; r++) {
        weft_kval at = weft_k_add(k, b->a_base, weft_k_mul(k, number(b, r), weft_k_extent(k, p->a.row_stride)));
        rows[r] = weft_k_load(k, b->a, weft_k_add(k, at, kk), b->lanes, mask, WEFT_KNONE);
    }
    for (int n = 0; n < columns; n++) {
        weft_kval at = weft_k_add(
            k, b->b_base, weft_k_mul(k, weft_k_add(k, column, number(b, n)), weft_k_extent(k, p->b.row_stride)));
        weft_kval y = weft_k_load(k, b->b, weft_k_add(k, at, kk), b->lanes, mask, WEFT_KNONE);
        for (int r = 0; r < b->rows; r++) {
            weft_kval slot = number(b, n * b->rows + r), sum = weft_k_get_at(k, sums, slot);
            bool real = weft_dtype_is_float(p->accumulate);
            weft_k_set_at(k, sums, slot,
                          real ? weft_k_fma(k, rows[r], y, sum) : weft_k_add(k, weft_k_mul(k, rows[r], y), sum));
        }
    }
}

static void tile(build *b, weft_kval column, int columns) {
    const weft_matmul *p = b->p;
    weft_kernel *k = b->k;
    size_t mark = weft_index_mark(&b->c);
    weft_kval sums = weft_k_regs(k, p->accumulate, b->lanes, columns * b->rows),
              zero = weft_k_constant_lanes(k, p->accumulate, 0, b->lanes);
    for (int i = 0; i < columns * b->rows; i++) weft_k_set_at(k, sums, number(b, i), zero);
    weft_kval length = weft_k_extent(k, p->k), width = number(b, b->lanes),
              whole = weft_k_mul(k, weft_k_div(k, length, width), width);
    weft_kval kk = weft_k_for(k, number(b, 0), whole, width, 2);
    step(b, sums, column, columns, kk, WEFT_KNONE);
    weft_k_end(k);
    if (weft_dim_divisor(b->request->graph->dims, p->k) % b->lanes) {
        kk = weft_k_for(k, whole, length, width, 0);
        size_t inner = weft_index_mark(&b->c);
        step(b, sums, column, columns, kk, weft_index_below(&b->c, weft_lane_range(kk, b->lanes), b->lanes, length));
        weft_index_release(&b->c, inner);
        weft_k_end(k);
    }
    for (int n = 0; n < columns; n++)
        for (int r = 0; r < b->rows; r++) {
            size_t inner = weft_index_mark(&b->c);
            weft_kval sum = weft_k_reduce(k, WEFT_K_reduce_add, weft_k_get_at(k, sums, number(b, n * b->rows + r)));
            weft_axes_index(&b->c, &b->column_axes, b->merge, weft_lane_scalar(weft_k_add(k, column, number(b, n))), 1,
                            b->index);
            weft_axes_index(&b->c, &b->row_axes, b->merge, weft_lane_scalar(number(b, r)), 1, b->index);
            weft_index_bind(&b->c, &p->dot->results[0], weft_product_finish(&b->c, p->dot, sum));
            for (int i = 0; i < b->request->fusion->result_count; i++)
                weft_index_emit(&b->c, i, b->index, 1, WEFT_KNONE);
            weft_index_release(&b->c, inner);
        }
    weft_index_release(&b->c, mark);
}

weft_status weft_matmul_dots(const weft_build_request *request, const weft_matmul *p, weft_kernel_plan *out_plan) {
    build b = {
        .request = request, .p = p, .k = weft_plan_kernel(request, ""), .rows = (int)p->m, .merge = ~(uint32_t)0};
    if (!b.k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: kernel", request->name);
    weft_kernel *k = b.k;
    weft_dim_table *table = request->graph->dims;
    WEFT_TRY(weft_plan_init(request, 1, 0, out_plan), "matmul");
    WEFT_TRY(weft_index_init(request, k, &b.c), "matmul");
    b.lanes = request->capability->vector_bytes / (weft_dtype_bits(p->accumulate) / 8);
    for (int i = 0; i < request->fusion->result_count; i++)
        b.merge &= weft_index_mergeable(&b.c, weft_fusion_yield(request->fusion, i));
    weft_axes batch_axes = weft_matmul_result_axes(request->graph, p, 0, p->batch_rank);
    b.row_axes = weft_matmul_result_axes(request->graph, p, p->batch_rank, p->m_rank);
    b.column_axes = weft_matmul_result_axes(request->graph, p, p->batch_rank + p->m_rank, p->n_rank);
    weft_dim chunks = weft_dim_divide_ceil(table, p->n, BLOCK_COLUMNS);
    k->grid = weft_dim_multiply(table, p->batch, chunks);
    weft_kval id = weft_k_block(k), count = weft_k_extent(k, chunks),
              chunk = chunks == 1 ? number(&b, 0) : weft_k_rem(k, id, count);
    weft_kval batch = p->batch == 1 ? number(&b, 0) : chunks == 1 ? id : weft_k_div(k, id, count);
    weft_axes_index(&b.c, &batch_axes, b.merge, weft_lane_scalar(batch), 1, b.index);
    b.a = b.c.operands[p->a.access.operand];
    b.b = b.c.operands[p->b.access.operand];
    b.a_base =
        weft_k_add(k, weft_k_extent(k, p->a.access.offset), weft_axes_offset(&b.c, &p->a.batch, &p->a.access, batch));
    b.b_base =
        weft_k_add(k, weft_k_extent(k, p->b.access.offset), weft_axes_offset(&b.c, &p->b.batch, &p->b.access, batch));
    weft_kval lo = weft_k_mul(k, chunk, number(&b, BLOCK_COLUMNS)),
              hi = weft_k_min(k, weft_k_add(k, lo, number(&b, BLOCK_COLUMNS)), weft_k_extent(k, p->n));
    weft_kval whole = weft_k_sub(k, hi, weft_k_and(k, weft_k_sub(k, hi, lo), number(&b, COLUMNS - 1)));
    weft_kval column = weft_k_for(k, lo, whole, number(&b, COLUMNS), 0);
    tile(&b, column, COLUMNS);
    weft_k_end(k);
    if (weft_dim_divisor(table, p->n) % COLUMNS) {
        column = weft_k_for(k, whole, hi, number(&b, 1), 0);
        tile(&b, column, 1);
        weft_k_end(k);
    }
    WEFT_TRY(weft_kernel_drop_unused_buffers(k), "matmul");
    WEFT_TRY(weft_index_finish(&b.c), "matmul");
    return weft_plan_set(request, out_plan, 0, k);
}
