/* See attention_draw.h. Read next: attention_hopper_consumer.c. */
#include "codegen/builders/attention_draw.h"

#include "codegen/tile/spell.h"
#include "ir/ops/attention.h"

static weft_kval wide(weft_kernel *k, weft_kval x) { return weft_k_convert(k, x, WEFT_U64); }
static weft_kval word(weft_kernel *k, uint32_t x) { return weft_k_integer(k, WEFT_U32, x); }

weft_attention_draw weft_attention_draw_begin(weft_attention_forms *f) {
    weft_kernel *k = f->k;
    weft_attention_draw d = {.forms = f};
    if (!f->key) return d;
    for (int i = 0; i < 2; i++) {
        weft_lane_index at = weft_lane_scalar(weft_k_index(k, i));
        weft_kval both = weft_index_value(&f->index, f->key, &at, 1, WEFT_KNONE), *out = i ? d.counter : d.key;
        out[0] = weft_k_convert(k, both, WEFT_U32);
        out[1] = weft_k_convert(k, weft_k_binary(k, WEFT_K_shr, both, weft_k_integer(k, WEFT_U64, 32)), WEFT_U32);
    }
    weft_dim columns = weft_dim_divide_ceil(k->dims, f->keys, WEFT_DROPOUT_CELL);
    d.across = wide(k, weft_k_extent(k, weft_dim_multiply(k->dims, columns, WEFT_DROPOUT_HALF)));
    return d;
}

/* 8 (x / 16) + x % 8 */
static weft_kval in_cells(weft_kernel *k, weft_kval x) {
    weft_kval cell = weft_k_binary(k, WEFT_K_shr, x, weft_k_index(k, 4));
    return weft_k_add(k, weft_k_times(k, cell, WEFT_DROPOUT_HALF), weft_k_bits(k, x, WEFT_DROPOUT_HALF - 1));
}

weft_kval weft_attention_draw_number(const weft_attention_draw *d, weft_kval head, weft_kval row, weft_kval key) {
    weft_kernel *k = d->forms->k;
    weft_dim rows = weft_dim_divide_ceil(k->dims, d->forms->rows, WEFT_DROPOUT_CELL);
    weft_kval down = wide(k, weft_k_extent(k, weft_dim_multiply(k->dims, rows, WEFT_DROPOUT_HALF)));
    weft_kval line = weft_k_add(k, weft_k_mul(k, wide(k, head), down), wide(k, in_cells(k, row)));
    return weft_k_add(k, weft_k_mul(k, line, d->across), wide(k, in_cells(k, key)));
}

weft_kval weft_attention_draw_moved(const weft_attention_draw *d, weft_kval number, int rows, int columns) {
    weft_kernel *k = d->forms->k;
    if (rows) number = weft_k_add(k, number, weft_k_mul(k, d->across, weft_k_integer(k, WEFT_U64, rows)));
    return columns ? weft_k_add(k, number, weft_k_integer(k, WEFT_U64, columns)) : number;
}

void weft_attention_draw_bits(const weft_attention_draw *d, weft_kval number, weft_kval *out_words) {
    weft_kernel *k = d->forms->k;
    weft_kval high = weft_k_binary(k, WEFT_K_shr, number, weft_k_integer(k, WEFT_U64, 32));
    weft_kval counter[4] = {weft_k_convert(k, number, WEFT_U32), weft_k_convert(k, high, WEFT_U32), d->counter[0],
                            d->counter[1]};
    weft_index_philox(k, d->key, counter);
    out_words[0] = counter[0], out_words[1] = counter[1];
}

weft_kval weft_attention_kept(const weft_attention_draw *d, weft_kval bits, bool right) {
    weft_kernel *k = d->forms->k;
    uint32_t limit = weft_dropout_limit(d->forms->dropout) << (32 - WEFT_DROPOUT_BITS);
    if (!right) bits = weft_k_binary(k, WEFT_K_shl, bits, word(k, 32 - WEFT_DROPOUT_BITS));
    return weft_k_le(k, word(k, limit), bits);
}

weft_kval weft_attention_mark(const weft_attention_draw *d, weft_kval weight, weft_kval bits, bool right) {
    weft_kernel *k = d->forms->k;
    return weft_k_select(k, weft_attention_kept(d, bits, right), weight, weft_k_unary(k, WEFT_K_neg, weight));
}

weft_kval weft_attention_marked_slope(const weft_attention_draw *d, weft_kval weight, weft_kval dp, weft_kval delta) {
    weft_kernel *k = d->forms->k;
    weft_kval scale = weft_k_f32(k, weft_dropout_scale(d->forms->dropout)),
              against = weft_k_unary(k, WEFT_K_neg, delta);
    weft_kval dropped = weft_k_lt(k, weight, weft_k_f32(k, 0));
    weft_kval slope = weft_k_select(k, dropped, against, weft_k_fma(k, dp, scale, against));
    return weft_k_mul(k, weft_k_unary(k, WEFT_K_abs, weight), slope);
}

weft_kval weft_attention_unmarked(weft_kernel *k, weft_kval pair) {
    weft_kval signs = weft_k_and(k, weft_k_binary(k, WEFT_K_shr, pair, word(k, 15)), word(k, 0x10001));
    weft_kval negative = weft_k_mul(k, signs, word(k, 0xffff));
    return weft_k_and(k, pair, weft_k_xor(k, negative, word(k, 0xffffffff)));
}
