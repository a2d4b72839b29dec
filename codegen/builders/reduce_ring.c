/* Rows on a GPU brought ahead of their turn: as many blocks as the card holds walk over the rows, and while one row is
   reduced, asynchronous copies bring the next ones into a ring of slots in shared memory. The memory never waits for
   arithmetic, and a row's registers need not hold what is in flight.

   A thread copies the very elements that it reads: its own wait is all that orders them, no barrier. What a row needs
   beside its elements and has to look up (labels) is read a row ahead too. Used by reduce_rows.c. */
#include "codegen/builders/reduce.h"
#include "codegen/tile/ring.h"

enum { THREADS_PER_PROCESSOR = 2048, REGISTERS_OF_A_ROW = 64, BLOCK_RESERVE = 1024 };

static bool is_row_argument(const weft_reduction *r, const weft_value *value) {
    if (value->type.rank != r->x->rank || r->c.operands[value->index] == WEFT_KNONE) return false;
    for (int i = 0; i < value->type.rank; i++)
        if (!weft_dim_known_equal(r->request->graph->dims, value->type.dims[i], r->x->dims[i])) return false;
    return true;
}

static int element_bytes(const weft_value *value) { return weft_dtype_bits(value->type.dtype) / 8; }

/* Whole elements of the kind that registers hold, in pieces that a copy can have. */
static bool can_copy(const weft_reduction *r, const weft_value *value) {
    weft_dtype_kind kind = weft_dtype_kind_of(value->type.dtype);
    int bytes = element_bytes(value) * r->lanes;
    return (kind == WEFT_KIND_FLOAT || kind == WEFT_KIND_SIGNED || kind == WEFT_KIND_UNSIGNED) &&
           weft_index_storage(value->type.dtype) == value->type.dtype && (bytes == 4 || bytes == 8 || bytes == 16);
}

/* Bytes of one row of all operands of X's shape; 0: no ring. */
static int64_t row_bytes(const weft_reduction *r, int *out_count) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    int64_t bytes = 0;
    *out_count = 0;
    for (int i = 0; i < block->argument_count; i++) {
        if (!is_row_argument(r, block->arguments[i])) continue;
        if (*out_count == WEFT_REDUCE_KEEP_MAX || !can_copy(r, block->arguments[i])) return 0;
        bytes += r->lane_extent * element_bytes(block->arguments[i]);
        ++*out_count;
    }
    return bytes;
}

bool weft_row_ring_fits(const weft_reduction *r, int stages) {
    const weft_capability *capability = r->request->capability;
    int count;
    if (stages < 2 || !capability->copy_async || !r->rows || r->outer.extent != 1 || r->lane_axis < 0 ||
        !weft_dim_is_number(r->lane_extent) || r->lane_extent < (int64_t)r->lanes * r->threads)
        return false;
    int64_t bytes = row_bytes(r, &count);
    return bytes > 0 && bytes * stages + BLOCK_RESERVE <= capability->shared_bytes;
}

/* Blocks that share a processor. */
static int resident(const weft_reduction *r, int64_t bytes, int threads) {
    const weft_capability *capability = r->request->capability;
    int64_t shared = (capability->shared_bytes + BLOCK_RESERVE) / (bytes + BLOCK_RESERVE);
    int64_t registers = capability->registers / (threads * REGISTERS_OF_A_ROW), most = THREADS_PER_PROCESSOR / threads;
    int64_t blocks = shared < most ? shared : most;
    if (capability->registers > 0 && registers < blocks) blocks = registers;
    return blocks < 1 ? 1 : (int)blocks;
}

bool weft_row_ring_init(weft_row_ring *ring, weft_reduction *r) {
    const weft_block *block = weft_fusion_block(r->request->fusion);
    weft_kernel *k = r->k;
    *ring = (weft_row_ring){.r = r, .stages = r->request->schedule->stages};
    if (!weft_row_ring_fits(r, ring->stages)) return false;
    int64_t elements = r->lane_extent * ring->stages;
    for (int i = 0; i < block->argument_count; i++) {
        const weft_value *value = block->arguments[i];
        if (!is_row_argument(r, value)) continue;
        ring->value[ring->count] = value;
        ring->memory[ring->count++] = weft_k_shared(k, value->type.dtype, weft_dim_number(k->dims, elements));
    }
    int count, blocks = resident(r, row_bytes(r, &count) * ring->stages, k->threads);
    int64_t processors = k->capability->multiprocessors > 0 ? k->capability->multiprocessors : 1;
    k->registers = k->capability->registers > 0 ? k->capability->registers / (blocks * k->threads) / 8 * 8 : 0;
    k->grid = weft_dim_minimum(k->dims, r->kept.extent, weft_dim_number(k->dims, processors * blocks));
    return true;
}

static void index_of_row(weft_row_ring *ring, weft_kval row, weft_lane_index *out_index) {
    weft_reduction *r = ring->r;
    for (int a = 0; a < r->x->rank; a++) out_index[a] = weft_lane_scalar(weft_k_index(r->k, 0));
    weft_axis_set_index(r, &r->kept, row, out_index);
}

/* The row `row` of all operands into the slot that begins at `slot`, one group of copies; nothing past the last row. */
static void copy_row(weft_row_ring *ring, weft_kval row, weft_kval slot) {
    weft_reduction *r = ring->r;
    weft_kernel *k = r->k;
    weft_lane_index index[WEFT_MAX_RANK];
    size_t outside = weft_index_mark(&r->c);
    weft_kval count = weft_k_extent(k, r->kept.extent), exists = weft_k_lt(k, row, count);
    index_of_row(ring, weft_k_min(k, row, weft_k_sub(k, count, weft_k_index(k, 1))), index);
    weft_kval column = weft_k_for(k, weft_k_mul(k, weft_k_thread(k), weft_k_index(k, r->lanes)),
                                  weft_k_index(k, r->lane_extent), weft_k_index(k, (int64_t)r->lanes * r->threads), 4);
    size_t mark = weft_index_mark(&r->c);
    index[r->lane_axis] = weft_lane_range(column, r->lanes);
    for (int i = 0; i < ring->count; i++) {
        const weft_value *value = ring->value[i];
        weft_lane_index from = weft_index_position(&r->c, value->type.rank, value->type.dims, index, r->lanes);
        weft_kval to = weft_k_mul(k, weft_k_add(k, slot, column), weft_k_index(k, element_bytes(value)));
        weft_kval operands[5] = {ring->memory[i], to, r->c.operands[value->index], from.base, exists};
        weft_k_effect(k, WEFT_K_copy_async, 5, operands, element_bytes(value) * r->lanes, 0);
    }
    weft_index_release(&r->c, mark);
    weft_k_end(k);
    weft_index_release(&r->c, outside);
    weft_k_effect(k, WEFT_K_copy_commit, 0, NULL, 0, 0);
}

static weft_kval next_slot(weft_row_ring *ring, weft_kval slot) {
    weft_kernel *k = ring->r->k;
    weft_kval next = weft_k_add(k, slot, weft_k_index(k, ring->r->lane_extent));
    weft_kval end = weft_k_index(k, ring->r->lane_extent * ring->stages);
    return weft_k_select(k, weft_k_eq(k, next, end), weft_k_index(k, 0), next);
}

weft_kval weft_row_ring_begin(weft_row_ring *ring) {
    weft_reduction *r = ring->r;
    weft_kernel *k = r->k;
    weft_lane_index index[WEFT_MAX_RANK];
    weft_kval length = weft_k_index(k, r->lane_extent), zero = weft_k_index(k, 0), first = weft_k_block(k);
    weft_kval count = weft_k_extent(k, r->kept.extent), last = weft_k_sub(k, count, weft_k_index(k, 1));
    weft_kval ahead = first, slot = zero;
    ring->step = weft_kernel_emit(k, WEFT_K_grid, weft_kvector(k->capability->index_dtype, 1), 0, NULL, 0, 0);
    for (int s = 0; s + 1 < ring->stages; s++) {
        copy_row(ring, ahead, slot);
        ahead = weft_k_add(k, ahead, ring->step), slot = weft_k_add(k, slot, length);
    }
    ring->read = weft_k_var(k, zero), ring->write = weft_k_var(k, slot);
    size_t before = weft_index_mark(&r->c);
    index_of_row(ring, weft_k_min(k, first, last), index);
    weft_reduction_read_labels(r, index, ring->label);
    for (int i = 0; i < r->count; i++)
        if (ring->label[i] != WEFT_KNONE) ring->label[i] = weft_k_var(k, ring->label[i]);
    weft_index_release(&r->c, before);
    ring->row = weft_k_for(k, first, count, ring->step, 0);
    ring->mark = weft_index_mark(&r->c);
    index_of_row(ring, weft_k_min(k, weft_k_add(k, ring->row, ring->step), last), index);
    weft_reduction_read_labels(r, index, ring->label_next);
    for (int i = 0; i < r->count; i++)
        ring->label_now[i] = ring->label[i] == WEFT_KNONE ? WEFT_KNONE : weft_k_get(k, ring->label[i]);
    r->labels = ring->label_now;
    weft_kval write = weft_k_get(k, ring->write);
    copy_row(ring, weft_k_add(k, ring->row, weft_k_mul(k, ring->step, weft_k_index(k, ring->stages - 1))), write);
    weft_k_set(k, ring->write, next_slot(ring, write));
    weft_k_effect(k, WEFT_K_copy_wait, 0, NULL, ring->stages - 1, 0);
    ring->base = weft_k_get(k, ring->read);
    return ring->row;
}

void weft_row_ring_end(weft_row_ring *ring) {
    weft_reduction *r = ring->r;
    weft_kernel *k = r->k;
    weft_k_set(k, ring->read, next_slot(ring, ring->base));
    for (int i = 0; i < r->count; i++)
        if (ring->label[i] != WEFT_KNONE) weft_k_set(k, ring->label[i], ring->label_next[i]);
    r->labels = NULL;
    if (r->threads > k->capability->warp)
        weft_k_barrier(k); /* sums of warps are read before the next row's are written */
    weft_k_end(k);
    weft_index_release(&r->c, ring->mark);
    weft_k_effect(k, WEFT_K_copy_wait, 0, NULL, 0, 0); /* copies of rows that do not exist */
}
