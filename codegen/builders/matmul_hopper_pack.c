/* Copies in front of the Hopper matmul: rows at multiples of 128 bytes for operands whose own rows tensor copies cannot
   take, and rows along k for 8- and 32-bit operands, which wgmma reads in no other order. Operands that are constants
   are copied once, when the program is loaded. Read next: matmul_hopper.c. */
#include "codegen/builders/matmul_hopper.h"
#include "codegen/builders/plan.h"
#include "codegen/kernel/verify.h"

enum { PACK_THREADS = 256, TURN_TILE = 64 };

/* Copied rows start at multiples of 128 bytes: a tensor copy of rows that do not reads two lines of the L2 for each. */
weft_dim weft_hopper_padded(const weft_hopper *h, weft_dim pitch) {
    weft_dim_table *dims = h->request->graph->dims;
    return weft_dim_multiply(dims, weft_dim_divide_ceil(dims, pitch, h->bk), h->bk);
}

/* One thread, 16 bytes of neighbours: from rows of `pitch` elements to rows of the padded pitch, zeros in between. */
static void emit_rows(const weft_hopper *h, weft_kernel *k, const weft_product_side *side, weft_kval from, weft_kval to,
                      weft_dim rows) {
    weft_dim_table *dims = k->dims;
    int bytes = h->element_bytes, lanes = 16 / bytes;
    weft_dim vectors = weft_dim_divide_ceil(dims, weft_hopper_padded(h, side->pitch), lanes),
             total = weft_dim_multiply(dims, rows, vectors);
    k->grid = weft_dim_divide_ceil(dims, total, PACK_THREADS);
    weft_kval width = weft_k_index(k, lanes),
              position = weft_k_add(k, weft_k_mul(k, weft_k_block(k), weft_k_index(k, PACK_THREADS)), weft_k_thread(k));
    weft_k_if(k, weft_k_lt(k, position, weft_k_extent(k, total)));
    weft_kval row = weft_k_div(k, position, weft_k_extent(k, vectors)),
              column = weft_k_mul(k, weft_k_rem(k, position, weft_k_extent(k, vectors)), width);
    weft_kval each = weft_k_add(k, weft_k_splat(k, column, lanes), weft_k_iota(k, k->capability->index_dtype, lanes));
    weft_kval mask = weft_k_lt(k, each, weft_k_extent(k, side->pitch));
    weft_kval value = weft_k_load(k, from, weft_k_add(k, weft_k_mul(k, row, weft_k_extent(k, side->pitch)), column),
                                  lanes, mask, WEFT_KNONE);
    int64_t known = weft_dim_divisor(dims, side->pitch);
    int run = known % 4 == 0 && lanes > 4 ? 4 : known % 2 == 0 ? 2 : 1;
    if (!k->failed) k->instrs[value].align_bytes = run * bytes;
    weft_k_store(k, to, weft_k_mul(k, position, width), WEFT_KNONE, value);
    if (!k->failed) k->instrs[k->instr_count - 1].align_bytes = 16;
    weft_k_end(k);
}

/* A block turns a tile of 64 x 64 through shared memory: [batch, k, free] -> [batch, free, padded k]. */
static void emit_turn(const weft_hopper *h, weft_kernel *k, weft_kval from, weft_kval to, weft_dim free) {
    enum { TILE = TURN_TILE, PER_THREAD = TURN_TILE * TURN_TILE / PACK_THREADS };
    weft_dim_table *dims = k->dims;
    weft_dim depth = h->product.k, across = weft_dim_divide_ceil(dims, free, TILE),
             along = weft_dim_divide_ceil(dims, depth, TILE);
    k->grid = weft_dim_multiply(dims, h->product.batch, weft_dim_multiply(dims, across, along));
    weft_kval tile = weft_k_shared(k, h->product.dtype, TILE * (TILE + 1)), size = weft_k_index(k, TILE),
              pitch = weft_k_index(k, TILE + 1);
    weft_kval thread = weft_k_thread(k), fast = weft_k_rem(k, thread, size), slow = weft_k_div(k, thread, size);
    weft_kval block = weft_k_block(k), line = weft_k_div(k, block, weft_k_extent(k, across));
    weft_kval f0 = weft_k_mul(k, weft_k_rem(k, block, weft_k_extent(k, across)), size),
              k0 = weft_k_mul(k, weft_k_rem(k, line, weft_k_extent(k, along)), size),
              batch = weft_k_div(k, line, weft_k_extent(k, along));
    weft_kval frees = weft_k_extent(k, free), depths = weft_k_extent(k, depth);
    for (int i = 0; i < PER_THREAD; i++) {
        weft_kval q = weft_k_add(k, slow, weft_k_index(k, (int64_t)i * PACK_THREADS / TILE)),
                  at_k = weft_k_add(k, k0, q), at_f = weft_k_add(k, f0, fast);
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, at_k, depths), weft_k_lt(k, at_f, frees)));
        weft_kval row = weft_k_add(k, weft_k_mul(k, batch, depths), at_k);
        weft_kval value =
            weft_k_load(k, from, weft_k_add(k, weft_k_mul(k, row, frees), at_f), 1, WEFT_KNONE, WEFT_KNONE);
        weft_k_store(k, tile, weft_k_add(k, weft_k_mul(k, q, pitch), fast), WEFT_KNONE, value);
        weft_k_end(k);
    }
    weft_k_barrier(k);
    for (int i = 0; i < PER_THREAD; i++) {
        weft_kval f = weft_k_add(k, slow, weft_k_index(k, (int64_t)i * PACK_THREADS / TILE)),
                  at_f = weft_k_add(k, f0, f), at_k = weft_k_add(k, k0, fast);
        weft_k_if(k, weft_k_and(k, weft_k_lt(k, at_k, depths), weft_k_lt(k, at_f, frees)));
        weft_kval value = weft_k_load(k, tile, weft_k_add(k, weft_k_mul(k, fast, pitch), f), 1, WEFT_KNONE, WEFT_KNONE);
        weft_kval row = weft_k_add(k, weft_k_mul(k, batch, frees), at_f);
        weft_k_store(k, to, weft_k_add(k, weft_k_mul(k, row, weft_k_extent(k, weft_hopper_padded(h, depth))), at_k),
                     WEFT_KNONE, value);
        weft_k_end(k);
    }
}

static weft_status plan_copy(weft_hopper *h, weft_kernel_plan *plan, weft_product_side *side, int temp, weft_dim free,
                             bool turn, const char *suffix) {
    weft_dim_table *dims = h->request->graph->dims;
    weft_product *p = &h->product;
    weft_dim rows = weft_dim_multiply(dims, p->batch, side->k_contiguous || turn ? free : p->k);
    weft_dim elements = weft_dim_multiply(dims, rows, weft_hopper_padded(h, turn ? p->k : side->pitch));
    plan->temps[temp] = (weft_plan_temp){
        .bytes = weft_dim_multiply(dims, elements, h->element_bytes), .persistent = true, .operand = side->operand};
    weft_kernel *k = weft_plan_kernel(h->request, suffix);
    if (!k) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", h->request->name);
    k->threads = PACK_THREADS;
    weft_kval from = weft_kernel_buffer(k, WEFT_ARGUMENT_OPERAND, side->operand, p->dtype, false, "rows");
    weft_kval to = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, temp, p->dtype, true, "padded");
    if (turn)
        emit_turn(h, k, from, to, free);
    else
        emit_rows(h, k, side, from, to, rows);
    WEFT_TRY(weft_kernel_verify(k), "building %s", h->request->name);
    WEFT_TRY(weft_plan_set(h->request, plan, temp, k), "building %s", h->request->name);
    plan->launches[temp].packs = true;
    if (turn) side->k_contiguous = true, side->pitch = p->k;
    return NULL;
}

static bool divides(const weft_graph *graph, weft_dim extent, int64_t divisor) {
    int64_t known = weft_dim_divisor(graph->dims, extent);
    return known == 0 || known % divisor == 0;
}

weft_status weft_hopper_plan_packing(weft_hopper *h, weft_kernel_plan *plan) {
    weft_product_side *sides[2] = {&h->product.a, &h->product.b};
    int *temps[2] = {&h->packed_a, &h->packed_b}, count = 0;
    bool turn[2];
    for (int i = 0; i < 2; i++) {
        turn[i] = !sides[i]->k_contiguous && h->element_bytes != 2;
        *temps[i] = !turn[i] && divides(h->request->graph, sides[i]->pitch, 16 / h->element_bytes) ? -1 : count++;
    }
    int sums = h->split > 1;
    h->parts = sums ? count : -1;
    WEFT_TRY(weft_plan_init(h->request, count + 1 + sums, count + sums, plan), "building %s", h->request->name);
    for (int i = 0; i < 2; i++)
        if (*temps[i] >= 0)
            WEFT_TRY(plan_copy(h, plan, sides[i], *temps[i], i == 0 ? h->product.m : h->product.n, turn[i],
                               i == 0 ? "_rows_a" : "_rows_b"),
                     "building %s", h->request->name);
    return NULL;
}
