/* Tensor maps of the Hopper matmul, and operands at odd addresses read where they lie.

   A tensor copy wants rows a multiple of 16 bytes apart that start at such multiples; the coordinate inside a row is
   free. Rows `pitch` bytes apart, whatever the pitch, are R interleaved sets of rows that are R * pitch apart, R = 2, 4
   or 8: set i starts at byte i * pitch, rounded down, and its first element has the coordinate of what was rounded off.
   So each box is R boxes, one for each set, and the rows of a tile lie in shared memory set by set. When rows are rows
   of the result, so do the sums: row s of a tile of T is row s % (T / R) * R + s / (T / R) of the product. When they
   are k, both operands are read in R sets and nothing else changes. Read next: matmul_hopper_kernel.c. */
#include "codegen/builders/matmul_hopper.h"

static int64_t row_bytes(const weft_hopper *h, const weft_product_side *side) {
    return weft_dim_is_number(side->pitch) ? side->pitch * h->element_bytes : 0;
}

/* Copied once, when the program is loaded. */
bool weft_hopper_is_constant(const weft_hopper *h, const weft_product_side *side) {
    const weft_node *producer = h->request->fusion->operands[side->operand]->node;
    return producer && producer->op == WEFT_OP_constant;
}

/* Sets of rows that an operand's tensor copies need; 1: it can be read as it is; 0: not like this. */
static int sets_of(const weft_hopper *h, const weft_product_side *side, weft_dim rows) {
    weft_dim_table *dims = h->request->graph->dims;
    int64_t bytes = row_bytes(h, side), known = weft_dim_divisor(dims, side->pitch) * h->element_bytes, low, high;
    if (known % 16 == 0) return 1;
    if (bytes <= 0 || bytes > INT32_MAX / 8 || weft_hopper_is_constant(h, side)) return 0;
    weft_dim_bounds(dims, rows, &low, &high);
    int sets = bytes % 8 == 0 ? 2 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 8 : 0;
    if (low < sets) return 0;
    int64_t apart = weft_dim_divisor(dims, weft_dim_multiply(dims, rows, bytes));
    return h->product.batch == 1 || apart % 16 == 0 ? sets : 0;
}

/* A side whose rows are k needs the other side's rows to be k as well. */
void weft_hopper_find_sets(weft_hopper *h, bool in_place) {
    const weft_product *p = &h->product;
    h->sets_a = h->sets_b = 1;
    if (!in_place) return;
    int a = sets_of(h, &p->a, p->a.k_contiguous ? p->m : p->k), b = sets_of(h, &p->b, p->b.k_contiguous ? p->n : p->k);
    if (!p->a.k_contiguous && !p->b.k_contiguous) { /* in the same order on both sides */
        int sets = a > b ? a : b;
        bool possible = h->element_bytes == 2 && a && b && row_bytes(h, &p->a) && row_bytes(h, &p->b);
        if (possible) h->sets_a = h->sets_b = sets;
        return;
    }
    int64_t low, high;
    weft_dim_bounds(h->request->graph->dims, p->m, &low, &high);
    if (p->a.k_contiguous && a && low >= 64) h->sets_a = a;
    if (p->b.k_contiguous && b) h->sets_b = b;
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
static void need_buffer(weft_hopper *h, int operand, int packed, weft_dtype dtype, const char *name) {
    if (packed >= 0)
        (void)weft_kernel_buffer(h->k, WEFT_ARGUMENT_TEMP, packed, dtype, false, name);
    else if (h->index->operands[operand] == WEFT_KNONE)
        h->index->operands[operand] = weft_kernel_buffer(h->k, WEFT_ARGUMENT_OPERAND, operand, dtype, false, name);
}

/* Map of [batch, rows, columns] in memory, columns contiguous, rows a multiple of 16 bytes apart. */
static weft_tensor_map make_map(const weft_hopper *h, weft_argument_source source, int index, weft_dtype dtype,
                                weft_dim rows, weft_dim columns, int box_rows) {
    weft_dim_table *dims = h->k->dims;
    weft_tensor_map map = {.buffer = buffer_position(h->k, source, index),
                           .dtype = dtype,
                           .rank = h->product.batch == 1 ? 2 : 3,
                           .swizzle_bytes = 128};
    map.extent[0] = columns, map.extent[1] = rows, map.extent[2] = h->product.batch;
    int bytes = weft_dtype_bits(dtype) / 8;
    map.stride_bytes[1] =
        weft_dim_multiply(dims, source == WEFT_ARGUMENT_TEMP ? weft_hopper_padded(h, columns) : columns, bytes);
    map.stride_bytes[2] = weft_dim_multiply(dims, map.stride_bytes[1], rows);
    map.box[0] = HOPPER_ROW_BYTES / bytes, map.box[1] = box_rows, map.box[2] = 1;
    return map;
}

/* Of `sets` sets of rows, number `set`. box: rows of it. */
static weft_tensor_map set_map(const weft_hopper *h, const weft_product_side *side, weft_dim rows, weft_dim columns,
                               int box, int sets, int set) {
    weft_dim_table *dims = h->k->dims;
    weft_tensor_map map =
        make_map(h, WEFT_ARGUMENT_OPERAND, side->operand, weft_hopper_dtype(h, side), rows, columns, box);
    if (sets == 1) return map;
    int64_t bytes = row_bytes(h, side), start = set * bytes, batch = map.stride_bytes[2];
    map.offset_bytes = (int)(start / 16 * 16);
    map.extent[0] = weft_dim_add(dims, columns, start % 16 / h->element_bytes);
    map.extent[1] = weft_dim_divide_ceil(dims, weft_dim_subtract(dims, rows, set), sets);
    map.stride_bytes[1] = sets * bytes;
    map.stride_bytes[2] = batch;
    return map;
}

/* free: m or n. box: rows of a box when K runs along rows. */
static weft_tensor_map side_map(const weft_hopper *h, const weft_product_side *side, int packed, weft_dim free, int box,
                                int box_k, int sets, int set) {
    weft_dim rows = side->k_contiguous ? free : h->product.k, columns = side->k_contiguous ? h->product.k : free;
    int height = side->k_contiguous ? box : box_k;
    if (packed >= 0) return make_map(h, WEFT_ARGUMENT_TEMP, packed, weft_hopper_dtype(h, side), rows, columns, height);
    return set_map(h, side, rows, columns, height, sets, set);
}

/* Elements in front of the first one in a row of a set. */
int weft_hopper_set_shift(const weft_hopper *h, const weft_product_side *side, int set) {
    return (int)(set * row_bytes(h, side) % 16 / h->element_bytes);
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
    h->a_rows = divides(h->request->graph, p->m, (int64_t)h->bm * h->cluster) ? h->bm : 64;
    if (p->a.k_contiguous && h->bm == 64 && h->cluster == 1 && weft_dim_is_number(p->m) && p->m < 64)
        h->a_rows = (int)(p->m + 7) / 8 * 8;
    if (h->sets_a > 1) h->a_rows = h->bm / h->sets_a;
    h->a_loaded = (p->a.k_contiguous && h->sets_a == 1 && h->a_rows < 64 ? h->a_rows : h->bm) * HOPPER_ROW_BYTES;
}

/* Maps of an operand's tiles: one for each set of rows. */
static void add_sets(weft_hopper *h, weft_kernel_plan *plan, bool is_b, int box, int box_k, weft_kval *out_maps) {
    const weft_product *p = &h->product;
    const weft_product_side *side = is_b ? &p->b : &p->a;
    int sets = is_b ? h->sets_b : h->sets_a, packed = is_b ? h->packed_b : h->packed_a;
    for (int set = 0; set < sets; set++) {
        plan->maps[plan->map_count] = side_map(h, side, packed, is_b ? p->n : p->m, box, box_k, sets, set);
        out_maps[set] = map_value(h, plan->map_count++, weft_hopper_dtype(h, side), false, is_b ? "map_b" : "map_a");
    }
}

weft_status weft_hopper_make_maps(weft_hopper *h, weft_kernel_plan *plan) {
    plan->maps = weft_arena_allocate_array(h->request->arena, 3 * HOPPER_SETS_MAX + 2, sizeof *plan->maps);
    if (!plan->maps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "matmul-hopper");
    const weft_product *p = &h->product;
    need_buffer(h, p->a.operand, h->packed_a, p->dtype, "a");
    need_buffer(h, p->b.operand, h->packed_b, p->dtype_b, "b");
    choose_a_rows(h);
    /* a block of a cluster loads its share of B: of the sets, or where there is one, of its rows */
    int share = h->sets_b > 1 ? 1 : h->cluster;
    add_sets(h, plan, false, h->a_rows, h->bk / h->sets_a, h->map_a);
    add_sets(h, plan, true, h->bn / h->sets_b / share, h->bk / h->sets_b / share, h->map_b);
    if (h->tail) add_sets(h, plan, true, h->tail / h->sets_b, h->bk / h->sets_b, h->map_tail);
    if (h->store != HOPPER_STORE_TENSOR) return NULL;
    plan->maps[plan->map_count] = make_map(h, WEFT_ARGUMENT_RESULT, 0, h->out_dtype, p->m, p->n, 64);
    h->map_out = map_value(h, plan->map_count++, h->out_dtype, true, "map_out");
    if (h->companion < 0) return NULL;
    need_buffer(h, h->companion, -1, h->out_dtype, "c");
    plan->maps[plan->map_count] = make_map(h, WEFT_ARGUMENT_OPERAND, h->companion, h->out_dtype, p->m, p->n, 64);
    h->map_companion = map_value(h, plan->map_count++, h->out_dtype, false, "map_c");
    return NULL;
}

/* -- where the sums of dealt rows and columns are */

/* With S sets, column s of a tile of T is column s % (T / S) * S + s / (T / S): the S columns from 2 S l + S e on are
   those of one register number in S sets, l = the lane's place among four, e = which of its two columns. */
weft_hopper_pair weft_hopper_pair_of(const weft_hopper *h, int pair) {
    if (!weft_hopper_columns_dealt(h)) return (weft_hopper_pair){{4 * pair, 4 * pair + 1}, 8 * pair};
    int sets = h->sets_b, set = pair % (sets / 2) * 2, e = pair / (sets / 2) % 2, group = pair / sets;
    int each = h->bn / sets, at = 4 * group + e; /* register in a set's part */
    return (weft_hopper_pair){{set * each / 2 + at, (set + 1) * each / 2 + at}, 8 * sets * group + sets * e + set};
}

weft_kval weft_hopper_row_of(const weft_hopper *h, weft_kval row) {
    weft_kernel *k = h->k;
    if (!weft_hopper_rows_dealt(h)) return row;
    weft_kval each = weft_k_index(k, h->bm / h->sets_a), line = weft_k_rem(k, row, each);
    return weft_k_add(k, weft_k_mul(k, line, weft_k_index(k, h->sets_a)), weft_k_div(k, row, each));
}

/* A pair is a word; the word of lane l in block b of 8 columns is word 4 b + l, b = the pair's number in the chunk. */
weft_kval weft_hopper_staged_byte(const weft_hopper *h, weft_kval column) {
    weft_kernel *k = h->k;
    weft_kval two = weft_k_index(k, 2);
    if (!weft_hopper_columns_dealt(h)) return weft_k_mul(k, column, two);
    int sets = h->sets_b;
    weft_kval s = weft_k_index(k, sets), word = weft_k_div(k, column, two);
    weft_kval half = weft_k_rem(k, word, weft_k_index(k, sets / 2)), e = weft_k_rem(k, weft_k_div(k, column, s), two);
    weft_kval line = weft_k_div(k, column, weft_k_index(k, 2 * sets));
    weft_kval lane = weft_k_rem(k, line, weft_k_index(k, 4)), group = weft_k_div(k, line, weft_k_index(k, 4));
    weft_kval pair =
        weft_k_add(k, weft_k_mul(k, group, s), weft_k_add(k, weft_k_mul(k, e, weft_k_index(k, sets / 2)), half));
    weft_kval at = weft_k_add(k, weft_k_mul(k, pair, weft_k_index(k, 4)), lane);
    return weft_k_add(k, weft_k_mul(k, at, weft_k_index(k, 4)), weft_k_mul(k, weft_k_rem(k, column, two), two));
}
