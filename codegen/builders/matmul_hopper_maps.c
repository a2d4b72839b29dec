/* Tensor maps of the Hopper matmul: operands or their padded copies, the result, a companion of it. Rows lie a multiple
   of 16 bytes apart and copies start at such multiples in them. Read next: matmul_hopper_kernel.c. */
#include "codegen/builders/matmul_hopper.h"

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
static void need_buffer(weft_hopper *h, int operand, int packed, weft_dtype dtype, const char *name) {
    if (packed >= 0)
        (void)weft_kernel_buffer(h->k, WEFT_ARGUMENT_TEMP, packed, dtype, false, name);
    else if (h->index->operands[operand] == WEFT_KNONE)
        h->index->operands[operand] = weft_kernel_buffer(h->k, WEFT_ARGUMENT_OPERAND, operand, dtype, false, name);
}

/* Map of [batch, rows, columns] in memory (batch 1: of two axes), columns contiguous, rows a multiple of 16 bytes
 * apart. */
static weft_tensor_map make_map(const weft_hopper *h, weft_argument_source source, int index, weft_dtype dtype,
                                weft_dim batch, weft_dim rows, weft_dim columns, int box_rows) {
    weft_dim_table *dims = h->k->dims;
    weft_tensor_map map = {.buffer = buffer_position(h->k, source, index),
                           .dtype = dtype,
                           .rank = batch == 1 ? 2 : 3,
                           .swizzle_bytes = 128};
    map.extent[0] = columns, map.extent[1] = rows, map.extent[2] = batch;
    int bytes = weft_dtype_bits(dtype) / 8;
    map.stride_bytes[1] =
        weft_dim_multiply(dims, source == WEFT_ARGUMENT_TEMP ? weft_hopper_padded(h, columns) : columns, bytes);
    map.stride_bytes[2] = weft_dim_multiply(dims, map.stride_bytes[1], rows);
    map.box[0] = HOPPER_ROW_BYTES / bytes, map.box[1] = box_rows, map.box[2] = 1;
    return map;
}

/* free: m or n. box: rows of a box when K runs along rows. */
static weft_tensor_map side_map(const weft_hopper *h, const weft_product_side *side, int packed, weft_dim free, int box,
                                int box_k) {
    weft_argument_source source = packed < 0 ? WEFT_ARGUMENT_OPERAND : WEFT_ARGUMENT_TEMP;
    int index = packed < 0 ? side->operand : packed;
    weft_dtype dtype = weft_hopper_dtype(h, side);
    weft_dim batch = !h->ragged.node                                   ? h->product.batch
                     : side == &h->product.b && weft_hopper_by_rows(h) ? h->ragged.groups
                                                                       : 1;
    return side->k_contiguous ? make_map(h, source, index, dtype, batch, free, h->product.k, box)
                              : make_map(h, source, index, dtype, batch, h->product.k, free, box_k);
}

static weft_kval map_value(weft_hopper *h, int index, weft_dtype dtype, bool writes, const char *name) {
    return weft_kernel_buffer(h->k, WEFT_ARGUMENT_TENSOR_MAP, index, dtype, writes, name);
}

static bool divides(const weft_graph *graph, weft_dim extent, int64_t divisor) {
    int64_t known = weft_dim_divisor(graph->dims, extent);
    return known == 0 || known % divisor == 0;
}

/* The rows of a box of A whose memory runs along k: as many as there are, a tile, or 64 where the last tile is cut. */
static void choose_a_rows(weft_hopper *h) {
    const weft_product *p = &h->product;
    h->a_rows = divides(h->request->graph, h->rows, (int64_t)h->bm * h->cluster) ? h->bm : 64;
    if (p->a.k_contiguous && h->bm == 64 && h->cluster == 1 && weft_dim_is_number(h->rows) && h->rows < 64)
        h->a_rows = (int)(h->rows + 7) / 8 * 8;
    h->a_loaded = (p->a.k_contiguous && h->a_rows < 64 ? h->a_rows : h->bm) * HOPPER_ROW_BYTES;
}

weft_status weft_hopper_make_maps(weft_hopper *h, weft_kernel_plan *plan) {
    if (!plan->maps) plan->maps = weft_arena_allocate_array(h->request->arena, HOPPER_MAPS_MAX, sizeof *plan->maps);
    if (!plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "matmul-hopper");
    const weft_product *p = &h->product;
    need_buffer(h, p->a.operand, h->packed_a, p->dtype, "a");
    need_buffer(h, p->b.operand, h->packed_b, p->dtype_b, "b");
    choose_a_rows(h);
    plan->maps[plan->map_count] = side_map(h, &p->a, h->packed_a, p->m, h->a_rows, h->bk);
    h->map_a = map_value(h, plan->map_count++, p->dtype, false, "map_a");
    plan->maps[plan->map_count] = side_map(h, &p->b, h->packed_b, p->n, h->bn / h->cluster, h->bk / h->cluster);
    h->map_b = map_value(h, plan->map_count++, p->dtype_b, false, "map_b");
    if (h->tail) {
        plan->maps[plan->map_count] = side_map(h, &p->b, h->packed_b, p->n, h->tail, h->bk);
        h->map_tail = map_value(h, plan->map_count++, p->dtype_b, false, "map_tail");
    }
    if (h->store != HOPPER_STORE_TENSOR) return NULL;
    for (int i = 0; i < h->results; i++) {
        weft_dtype dtype = weft_fusion_yield(h->request->fusion, i)->type.dtype;
        plan->maps[plan->map_count] = make_map(h, WEFT_ARGUMENT_RESULT, i, dtype, p->batch, p->m, p->n, 64);
        h->map_out[i] = map_value(h, plan->map_count++, dtype, true, "map_out");
    }
    if (h->companion < 0) return NULL;
    need_buffer(h, h->companion, -1, h->out_dtype, "c");
    plan->maps[plan->map_count] =
        make_map(h, WEFT_ARGUMENT_OPERAND, h->companion, h->out_dtype, p->batch, p->m, p->n, 64);
    h->map_companion = map_value(h, plan->map_count++, h->out_dtype, false, "map_c");
    return NULL;
}
