/* Which blocks of keys a tile of queries sees through a bool mask that all heads share: sequences side by side,
   padding, any pattern. Two small kernels before attention: flags of every pair of a tile and a block, then for each
   tile the list of its blocks, the last one first, at least one; attention walks the lists, so that its time follows
   what is seen (the block masks of FlexAttention, Dong et al. 2024). Read next: attention_hopper.c. */
#include "codegen/builders/attention_hopper.h"

#include "codegen/builders/plan.h"

bool weft_attention_lists(const weft_attention_forms *f) {
    if (!f->mask || f->mask->type.dtype != WEFT_BOOL || f->packed) return false;
    const weft_type *type = &f->mask->type;
    return type->rank >= 2 && type->dims[type->rank - 1] != 1 && (type->rank < 3 || type->dims[type->rank - 3] == 1);
}

/* Rows of lists: 1, or one for each batch. */
static weft_dim list_batches(const weft_attention *a) {
    const weft_type *type = &a->forms.mask->type;
    return type->rank == 4 ? type->dims[0] : 1;
}

void weft_attention_list_temps(const weft_attention *a, weft_kernel_plan *plan) {
    weft_dim_table *dims = a->request->graph->dims;
    weft_dim tiles =
        weft_dim_multiply(dims, list_batches(a), weft_dim_divide_ceil(dims, a->queries, 64 * a->consumers));
    weft_dim blocks = weft_dim_divide_ceil(dims, a->keys, a->bn);
    plan->temps[WEFT_ATTENTION_COUNTS].bytes = weft_dim_multiply(dims, tiles, 4);
    plan->temps[WEFT_ATTENTION_LISTS].bytes = weft_dim_multiply(dims, weft_dim_multiply(dims, tiles, blocks), 4);
    plan->temps[WEFT_ATTENTION_FLAGS].bytes = plan->temps[WEFT_ATTENTION_LISTS].bytes;
}

weft_kval weft_attention_list_of(const weft_attention *a, weft_kval head, weft_kval tile) {
    weft_kernel *k = a->k;
    if (list_batches(a) == 1) return tile;
    weft_kval batch = weft_k_div(k, head, weft_k_extent(k, a->forms.heads));
    return weft_k_add(k, weft_k_mul(k, batch, a->tiles_q), tile);
}

/* 1 where some of the tile's queries, one a thread, sees some of the block's keys. */
static weft_status emit_flags(const weft_attention *a, weft_kernel *k) {
    weft_dim_table *dims = k->dims;
    int bm = 64 * a->consumers;
    weft_dim tiles = weft_dim_divide_ceil(dims, a->queries, bm), blocks = weft_dim_divide_ceil(dims, a->keys, a->bn);
    weft_attention_forms f = a->forms;
    k->threads = bm;
    k->grid = weft_dim_multiply(dims, weft_dim_multiply(dims, list_batches(a), tiles), blocks);
    WEFT_TRY(weft_attention_forms_declare(&f, k), "%s", k->name);
    weft_kval flags = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, WEFT_ATTENTION_FLAGS, WEFT_I32, true, "flags");
    weft_kval warps = weft_k_shared(k, WEFT_I32, bm / 32);
    weft_kval thread = weft_k_thread(k), pair = weft_k_block(k), zero = weft_k_index(k, 0), one = weft_k_index(k, 1);
    weft_kval count = weft_k_extent(k, blocks), tile = weft_k_div(k, pair, count), block = weft_k_rem(k, pair, count),
              tiles_q = weft_k_extent(k, tiles);
    weft_kval head = weft_k_mul(k, weft_k_div(k, tile, tiles_q), weft_k_extent(k, f.heads)),
              row = weft_k_add(k, weft_k_times(k, weft_k_rem(k, tile, tiles_q), bm), thread);
    f.s = weft_k_extent(k, a->keys);
    f.offset = weft_k_sub(k, f.s, weft_k_extent(k, a->queries));
    weft_kval from = weft_k_max(k, weft_k_times(k, block, a->bn), weft_attention_first_key(&f, row)),
              end = weft_k_min(k, weft_k_times(k, weft_k_plus(k, block, 1), a->bn), weft_attention_end_key(&f, row));
    end = weft_k_select(k, weft_k_lt(k, row, weft_k_extent(k, a->queries)), end, zero);
    weft_kval any = weft_k_var(k, weft_k_integer(k, WEFT_I32, 0));
    size_t mark = weft_index_mark(&f.index);
    weft_kval key = weft_k_for(k, from, end, one, 0);
    weft_kval seen = weft_k_select(k, weft_attention_mask_sees(&f, head, row, key), weft_k_integer(k, WEFT_I32, 1),
                                   weft_k_get(k, any));
    weft_k_set(k, any, seen);
    weft_index_release(&f.index, mark);
    weft_k_end(k);
    weft_kval found = weft_k_get(k, any);
    for (int distance = 16; distance > 0; distance /= 2)
        found = weft_k_max(k, found, weft_k_shuffle_xor(k, found, distance));
    weft_k_if(k, weft_k_eq(k, weft_k_rem(k, thread, weft_k_index(k, 32)), zero));
    weft_k_store(k, warps, weft_k_div(k, thread, weft_k_index(k, 32)), WEFT_KNONE, found);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_if(k, weft_k_eq(k, thread, zero));
    for (int w = 0; w < bm / 32; w++) {
        weft_kval other = weft_k_load(k, warps, weft_k_index(k, w), 1, WEFT_KNONE, WEFT_KNONE);
        found = w ? weft_k_max(k, found, other) : other;
    }
    weft_k_store(k, flags, pair, WEFT_KNONE, found);
    weft_k_end(k);
    return weft_index_finish(&f.index);
}

/* One tile a thread. */
static void emit_lists(const weft_attention *a, weft_kernel *k) {
    weft_dim_table *dims = k->dims;
    weft_dim tiles =
        weft_dim_multiply(dims, list_batches(a), weft_dim_divide_ceil(dims, a->queries, 64 * a->consumers));
    k->threads = 32;
    k->grid = weft_dim_divide_ceil(dims, tiles, 32);
    weft_kval flags = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, WEFT_ATTENTION_FLAGS, WEFT_I32, false, "flags"),
              lists = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, WEFT_ATTENTION_LISTS, WEFT_I32, true, "lists"),
              counts = weft_kernel_buffer(k, WEFT_ARGUMENT_TEMP, WEFT_ATTENTION_COUNTS, WEFT_I32, true, "counts");
    weft_kval zero = weft_k_index(k, 0), one = weft_k_index(k, 1),
              tile = weft_k_add(k, weft_k_times(k, weft_k_block(k), 32), weft_k_thread(k));
    weft_kval blocks = weft_k_extent(k, weft_dim_divide_ceil(dims, a->keys, a->bn)),
              first = weft_k_mul(k, tile, blocks), last = weft_k_plus(k, blocks, -1);
    weft_k_if(k, weft_k_lt(k, tile, weft_k_extent(k, tiles)));
    weft_kval count = weft_k_var(k, zero);
    weft_kval i = weft_k_for(k, zero, blocks, one, 0), block = weft_k_sub(k, last, i);
    weft_kval flag = weft_k_load(k, flags, weft_k_add(k, first, block), 1, WEFT_KNONE, WEFT_KNONE);
    weft_k_if(k, weft_k_ne(k, flag, weft_k_integer(k, WEFT_I32, 0)));
    weft_k_store(k, lists, weft_k_add(k, first, weft_k_get(k, count)), WEFT_KNONE, weft_k_convert(k, block, WEFT_I32));
    weft_k_set(k, count, weft_k_plus(k, weft_k_get(k, count), 1));
    weft_k_end(k);
    weft_k_end(k);
    weft_k_if(k, weft_k_eq(k, weft_k_get(k, count), zero)); /* nothing is seen: one block gives the zeros */
    weft_k_store(k, lists, first, WEFT_KNONE, weft_k_integer(k, WEFT_I32, 0));
    weft_k_set(k, count, one);
    weft_k_end(k);
    weft_k_store(k, counts, tile, WEFT_KNONE, weft_k_convert(k, weft_k_get(k, count), WEFT_I32));
    weft_k_end(k);
}

weft_status weft_attention_add_lists(const weft_attention *a, weft_kernel_plan *plan) {
    weft_kernel *flags = weft_plan_kernel(a->request, "_flags"), *lists = weft_plan_kernel(a->request, "_lists");
    if (!flags || !lists) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "building %s", a->request->name);
    WEFT_TRY(emit_flags(a, flags), "building %s", a->request->name);
    emit_lists(a, lists);
    WEFT_TRY(weft_plan_set(a->request, plan, 0, flags), "building %s", a->request->name);
    return weft_plan_set(a->request, plan, 1, lists);
}
