/* See attention_blocks.h. Flags of every pair of a tile of queries and a block of keys, a block of threads each; then
   lists, one a thread. Read next: attention_hopper.c. */
#include "codegen/builders/attention_blocks.h"

#include "codegen/builders/plan.h"
#include "codegen/tile/spell.h"

bool weft_attention_lists(const weft_attention_forms *f) {
    if (!f->mask || f->mask->type.dtype != WEFT_BOOL || f->packed) return false;
    const weft_type *type = &f->mask->type;
    return type->rank >= 2 && type->dims[type->rank - 1] != 1 && (type->rank < 3 || type->dims[type->rank - 3] == 1);
}

/* Sets of lists: 1, or one for each batch. */
static weft_dim batches(const weft_attention_pairs *p) {
    const weft_type *type = &p->forms.mask->type;
    return type->rank == 4 ? type->dims[0] : 1;
}

static weft_dim tiles_of(const weft_attention_pairs *p) {
    return weft_dim_divide_ceil(p->request->graph->dims, p->queries, p->bm);
}
static weft_dim blocks_of(const weft_attention_pairs *p) {
    return weft_dim_divide_ceil(p->request->graph->dims, p->keys, p->bn);
}

void weft_attention_list_temps(const weft_attention_pairs *p, weft_kernel_plan *plan) {
    weft_dim_table *dims = p->request->graph->dims;
    weft_dim lists = weft_dim_multiply(dims, batches(p), p->by_keys ? blocks_of(p) : tiles_of(p));
    weft_dim all = weft_dim_multiply(dims, lists, p->by_keys ? tiles_of(p) : blocks_of(p));
    plan->temps[p->temp + WEFT_ATTENTION_FLAGS].bytes = weft_dim_multiply(dims, all, 4);
    plan->temps[p->temp + WEFT_ATTENTION_LISTS].bytes = weft_dim_multiply(dims, all, 4);
    plan->temps[p->temp + WEFT_ATTENTION_COUNTS].bytes = weft_dim_multiply(dims, lists, 4);
}

/* -- in the kernel that walks them */

void weft_attention_lists_declare(weft_attention_pairs *p, weft_kernel *k) {
    p->k = k;
    p->lists = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_LISTS, WEFT_I32, false, "lists");
    p->counts = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_COUNTS, WEFT_I32, false, "counts");
}

weft_kval weft_attention_list(const weft_attention_pairs *p, weft_kval head, weft_dim heads, weft_kval item,
                              weft_kval *out_count) {
    weft_kernel *k = p->k;
    weft_kval list = item;
    if (batches(p) != 1) {
        weft_kval batch = weft_k_div(k, head, weft_k_extent(k, heads));
        list = weft_k_add(k, weft_k_mul(k, batch, weft_k_extent(k, p->by_keys ? blocks_of(p) : tiles_of(p))), item);
    }
    weft_kval count = weft_k_load(k, p->counts, list, 1, WEFT_KNONE, WEFT_KNONE);
    *out_count = weft_k_convert(k, count, k->capability->index_dtype);
    return weft_k_mul(k, list, weft_k_extent(k, p->by_keys ? tiles_of(p) : blocks_of(p)));
}

weft_kval weft_attention_listed(const weft_attention_pairs *p, weft_kval list, weft_kval i, weft_kval *out_part) {
    weft_kernel *k = p->k;
    weft_kval entry = weft_k_load(k, p->lists, weft_k_add(k, list, i), 1, WEFT_KNONE, WEFT_KNONE);
    entry = weft_k_convert(k, entry, k->capability->index_dtype);
    if (out_part) *out_part = weft_k_eq(k, weft_k_bits(k, entry, 1), weft_k_index(k, 0));
    return weft_k_binary(k, WEFT_K_shr, entry, weft_k_index(k, 1));
}

/* -- the kernels that make them */

/* 1 where some of the tile's queries, one a thread, sees some of the block's keys, 2 where all see all. */
static weft_status emit_flags(const weft_attention_pairs *p, weft_kernel *k) {
    weft_dim_table *dims = k->dims;
    int bm = p->bm, threads = (bm + 31) / 32 * 32;
    weft_dim tiles = tiles_of(p), blocks = blocks_of(p);
    weft_attention_forms f = p->forms;
    k->threads = threads;
    k->grid = weft_dim_multiply(dims, weft_dim_multiply(dims, batches(p), tiles), blocks);
    WEFT_TRY(weft_attention_forms_declare(&f, k), "%s", k->name);
    weft_kval flags =
        weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_FLAGS, WEFT_I32, true, "flags");
    weft_kval warps = weft_k_shared(k, WEFT_I32, 2 * threads / 32);
    weft_kval thread = weft_k_thread(k), pair = weft_k_block(k), zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    weft_kval count = weft_k_extent(k, blocks), tile = weft_k_div(k, pair, count), block = weft_k_rem(k, pair, count),
              tiles_q = weft_k_extent(k, tiles);
    weft_kval head = weft_k_mul(k, weft_k_div(k, tile, tiles_q), weft_k_extent(k, f.heads)),
              row = weft_k_add(k, weft_k_times(k, weft_k_rem(k, tile, tiles_q), bm), thread);
    f.s = weft_k_extent(k, p->keys);
    f.offset = weft_k_sub(k, f.s, weft_k_extent(k, p->queries));
    weft_kval low = weft_k_times(k, block, p->bn), high = weft_k_plus(k, low, p->bn);
    weft_kval from = weft_k_max(k, low, weft_attention_first_key(&f, row)),
              end = weft_k_min(k, high, weft_attention_end_key(&f, row));
    weft_kval inside = weft_k_lt(k, row, weft_k_extent(k, p->queries));
    if (bm % 32) inside = weft_k_and(k, inside, weft_k_lt(k, thread, weft_k_index(k, bm)));
    end = weft_k_select(k, inside, end, zero);
    weft_kval none = weft_k_integer(k, WEFT_I32, 0), some = weft_k_integer(k, WEFT_I32, 1);
    weft_kval whole = weft_k_and(k, weft_k_eq(k, from, low), weft_k_eq(k, end, high));
    weft_kval any = weft_k_var(k, none), all = weft_k_var(k, weft_k_select(k, whole, some, none));
    size_t mark = weft_index_mark(&f.index);
    weft_kval key = weft_k_for(k, from, end, one, 4), seen = weft_attention_mask_sees(&f, head, row, key);
    weft_k_set(k, any, weft_k_select(k, seen, some, weft_k_get(k, any)));
    weft_k_set(k, all, weft_k_select(k, seen, weft_k_get(k, all), none));
    weft_index_release(&f.index, mark);
    weft_k_end(k);
    /* rows past the last see nothing and hide nothing */
    weft_kval hides = weft_k_select(k, inside, weft_k_sub(k, some, weft_k_get(k, all)), none);
    weft_kval found = weft_k_get(k, any);
    for (int distance = 16; distance > 0; distance /= 2) {
        found = weft_k_max(k, found, weft_k_shuffle_xor(k, found, distance));
        hides = weft_k_max(k, hides, weft_k_shuffle_xor(k, hides, distance));
    }
    weft_kval at = weft_k_times(k, weft_k_div(k, thread, weft_k_index(k, 32)), 2);
    weft_k_if(k, weft_k_eq(k, weft_k_rem(k, thread, weft_k_index(k, 32)), zero));
    weft_k_store(k, warps, at, WEFT_KNONE, found);
    weft_k_store(k, warps, weft_k_plus(k, at, 1), WEFT_KNONE, hides);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_if(k, weft_k_eq(k, thread, zero));
    for (int w = 0; w < threads / 32; w++) {
        weft_kval x = weft_k_load(k, warps, weft_k_index(k, 2 * w), 1, WEFT_KNONE, WEFT_KNONE),
                  y = weft_k_load(k, warps, weft_k_index(k, 2 * w + 1), 1, WEFT_KNONE, WEFT_KNONE);
        found = w ? weft_k_max(k, found, x) : x;
        hides = w ? weft_k_max(k, hides, y) : y;
    }
    found = weft_k_select(k, weft_k_eq(k, hides, none), weft_k_integer(k, WEFT_I32, 2), found);
    weft_k_store(k, flags, pair, WEFT_KNONE, found);
    weft_k_end(k);
    return weft_index_finish(&f.index);
}

enum { AHEAD = 8 }; /* flags that a list reads at a time */

/* One list a thread: entries from the last down. */
static void emit_lists(const weft_attention_pairs *p, weft_kernel *k) {
    weft_dim_table *dims = k->dims;
    weft_dim per_batch = p->by_keys ? blocks_of(p) : tiles_of(p), length = p->by_keys ? tiles_of(p) : blocks_of(p);
    weft_dim all = weft_dim_multiply(dims, batches(p), per_batch);
    k->threads = 32;
    k->grid = weft_dim_divide_ceil(dims, all, 32);
    weft_kval flags =
        weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_FLAGS, WEFT_I32, false, "flags");
    weft_kval lists =
        weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_LISTS, WEFT_I32, true, "lists");
    weft_kval counts =
        weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, p->temp + WEFT_ATTENTION_COUNTS, WEFT_I32, true, "counts");
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1), entries = weft_k_extent(k, length);
    weft_kval list = weft_k_add(k, weft_k_times(k, weft_k_block(k), 32), weft_k_thread(k)),
              at = weft_k_mul(k, list, entries), from = at, stride = one;
    if (p->by_keys) { /* flags lie by tiles of queries */
        weft_kval rows = weft_k_extent(k, per_batch), batch = weft_k_div(k, list, rows);
        from = weft_k_add(k, weft_k_mul(k, weft_k_mul(k, batch, rows), entries), weft_k_rem(k, list, rows));
        stride = rows;
    }
    weft_k_if(k, weft_k_lt(k, list, weft_k_extent(k, all)));
    weft_kval count = weft_k_var(k, zero);
    weft_kval i = weft_k_for(k, zero, entries, weft_k_index(k, AHEAD), 0), none = weft_k_integer(k, WEFT_I32, 0);
    weft_kval last = weft_k_sub(k, weft_k_plus(k, entries, -1), i), flag[AHEAD];
    for (int n = 0; n < AHEAD; n++) { /* all on their way before the first is waited for */
        weft_kval entry = weft_k_plus(k, last, -n), there = weft_k_le(k, zero, entry);
        flag[n] = weft_k_load(k, flags, weft_k_add(k, from, weft_k_mul(k, entry, stride)), 1, there, none);
    }
    for (int n = 0; n < AHEAD; n++) {
        weft_k_if(k, weft_k_ne(k, flag[n], none));
        weft_kval whole = weft_k_select(k, weft_k_eq(k, flag[n], weft_k_integer(k, WEFT_I32, 2)), one, zero);
        weft_kval entry = weft_k_add(k, weft_k_times(k, weft_k_plus(k, last, -n), 2), whole);
        weft_k_store(k, lists, weft_k_add(k, at, weft_k_get(k, count)), WEFT_KNONE, weft_k_convert(k, entry, WEFT_I32));
        weft_k_set(k, count, weft_k_plus(k, weft_k_get(k, count), 1));
        weft_k_end(k);
    }
    weft_k_end(k);
    weft_k_if(k, weft_k_eq(k, weft_k_get(k, count), zero)); /* nothing is seen: one step gives the zeros */
    weft_k_store(k, lists, at, WEFT_KNONE, weft_k_integer(k, WEFT_I32, 0));
    weft_k_set(k, count, one);
    weft_k_end(k);
    weft_k_store(k, counts, list, WEFT_KNONE, weft_k_convert(k, weft_k_get(k, count), WEFT_I32));
    weft_k_end(k);
}

weft_status weft_attention_add_lists(const weft_attention_pairs *p, weft_kernel_plan *plan, int launch) {
    const weft_build_request *request = p->request;
    weft_kernel *flags = weft_plan_kernel(request, p->by_keys ? "_key_flags" : "_flags"),
                *lists = weft_plan_kernel(request, p->by_keys ? "_key_lists" : "_lists");
    if (!flags || !lists) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", request->name);
    WEFT_TRY(emit_flags(p, flags), "building %s", request->name);
    emit_lists(p, lists);
    WEFT_TRY(weft_plan_set(request, plan, launch, flags), "building %s", request->name);
    return weft_plan_set(request, plan, launch + 1, lists);
}
