/* rng_bits at an index: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2,
   3"). Key = the halves of key[0]; counter = row-major index in words 0 and 1, key[1] in words 2 and 3; an element is
   output word 0 (u32) or words 0 and 1 (u64). It depends on key and index only, never on how the loop runs. Of u16,
   eight neighbours are the halves of one draw's words, and lanes side by side share it. */
#include "codegen/builders/index_internal.h"

static weft_kval low_word(weft_kernel *k, weft_kval wide) { return weft_k_convert(k, wide, WEFT_U32); }

static weft_kval high_word(weft_kernel *k, weft_kval wide) {
    return weft_k_convert(k, weft_k_binary(k, WEFT_K_shr, wide, weft_k_integer(k, WEFT_U64, 32)), WEFT_U32);
}

/* Element `index` of the key, the same for all lanes. */
static weft_kval key_word(weft_index_context *c, const weft_node *node, const weft_point *point, int index) {
    weft_point at = weft_point_like(point, weft_operand_type(node, 0));
    at.lanes = 1;
    at.edge = at.vector = WEFT_KNONE;
    at.axis[0] = weft_lane_constant(c, index);
    return weft_index_one(c, node->operands[0], &at);
}

void weft_index_philox(weft_kernel *k, const weft_kval *key, weft_kval *counter) {
    int lanes = weft_ktype_of(k, counter[0]).lanes;
    weft_kval keys[2] = {key[0], key[1]};
    weft_kval a = weft_k_splat(k, weft_k_integer(k, WEFT_U32, 0xd2511f53), lanes),
              b = weft_k_splat(k, weft_k_integer(k, WEFT_U32, 0xcd9e8d57), lanes);
    for (int round = 0; round < 10; round++) {
        weft_kval a_high = weft_k_binary(k, WEFT_K_mul_high, a, counter[0]), a_low = weft_k_mul(k, a, counter[0]);
        weft_kval b_high = weft_k_binary(k, WEFT_K_mul_high, b, counter[2]), b_low = weft_k_mul(k, b, counter[2]);
        weft_kval first = weft_k_xor(k, weft_k_xor(k, b_high, counter[1]), keys[0]);
        weft_kval third = weft_k_xor(k, weft_k_xor(k, a_high, counter[3]), keys[1]);
        counter[0] = first;
        counter[1] = b_low;
        counter[2] = third;
        counter[3] = a_low;
        keys[0] = weft_k_add(k, keys[0], weft_k_integer(k, WEFT_U32, 0x9e3779b9));
        keys[1] = weft_k_add(k, keys[1], weft_k_integer(k, WEFT_U32, 0xbb67ae85));
    }
}

/* A key in words, and what of the counter is the same for all elements. */
typedef struct random_key {
    weft_kval key[2], counter[2];
} random_key;

static random_key key_of(weft_index_context *c, const weft_node *node, const weft_point *point) {
    weft_kernel *k = c->kernel;
    weft_kval first = key_word(c, node, point, 0), second = key_word(c, node, point, 1);
    return (random_key){{low_word(k, first), high_word(k, first)}, {low_word(k, second), high_word(k, second)}};
}

/* The four words of draw `number`, as many lanes as that has. */
static void draw(weft_kernel *k, const random_key *key, weft_kval number, weft_kval *out_words) {
    int lanes = weft_ktype_of(k, number).lanes;
    number = weft_k_convert(k, number, WEFT_U64);
    out_words[0] = low_word(k, number), out_words[1] = high_word(k, number);
    for (int i = 0; i < 2; i++) out_words[2 + i] = weft_k_splat(k, key->counter[i], lanes);
    weft_index_philox(k, key->key, out_words);
}

enum { HALVES = 8 /* of 16 bits in a draw */ };

/* Of a draw, the words that hold `run` halves from number `at` on, a multiple of run: run / 2 of them, or one. Lanes of
   `at` have draws of their own. */
static void words_from(weft_kernel *k, const weft_kval *words, weft_kval at, int run, weft_kval *out) {
    int lanes = weft_ktype_of(k, at).lanes, count = run > 2 ? run / 2 : 1;
    weft_dtype index = (weft_dtype)weft_ktype_of(k, at).elem;
    for (int i = 0; i < count; i++) out[i] = words[i];
    for (int first = count; first < 4; first += count) {
        weft_kval from = weft_k_splat(k, weft_k_integer(k, index, 2 * first), lanes), later = weft_k_le(k, from, at);
        for (int i = 0; i < count; i++) out[i] = weft_k_select(k, later, words[first + i], out[i]);
    }
}

static weft_kval upper_half(weft_kernel *k, weft_kval word) {
    int lanes = weft_ktype_of(k, word).lanes;
    return weft_k_binary(k, WEFT_K_shr, word, weft_k_splat(k, weft_k_integer(k, WEFT_U32, 16), lanes));
}

/* Lanes side by side from a multiple of `run`: they share draws in runs of that many. */
static weft_kval shared_halves(weft_index_context *c, const random_key *key, weft_lane_index flat, int lanes, int run) {
    weft_kernel *k = c->kernel;
    weft_dtype index = k->capability->index_dtype;
    weft_kval all = WEFT_KNONE;
    for (int first = 0; first < lanes; first += run) {
        weft_kval words[4], own[4], at = weft_k_add(k, flat.base, weft_k_index(k, first));
        draw(k, key, weft_k_binary(k, WEFT_K_shr, at, weft_k_integer(k, index, 3)), words);
        words_from(k, words, weft_k_and(k, at, weft_k_integer(k, index, HALVES - 1)), run, own);
        for (int lane = 0; lane < run; lane++) {
            weft_kval half = lane % 2 ? upper_half(k, own[lane / 2]) : own[lane / 2];
            all = all == WEFT_KNONE ? weft_k_splat(k, half, lanes) : weft_k_insert(k, all, first + lane, half);
        }
    }
    return all;
}

/* The halves in the lower bits of words; what is above them is anything. */
static weft_kval halves_at(weft_index_context *c, const random_key *key, weft_lane_index flat, int lanes) {
    weft_kernel *k = c->kernel;
    weft_dtype index = k->capability->index_dtype;
    int64_t known = weft_lane_divisor(c, flat);
    int run = known % HALVES == 0 ? HALVES : known % 4 == 0 ? 4 : known % 2 == 0 ? 2 : 1;
    if (weft_lane_invariant(c, flat, lanes)) lanes = 1;
    if (run > lanes) run = lanes;
    if (run > 1 && lanes % run == 0 && !weft_lane_is_vector(c, flat) && flat.stride == 1)
        return shared_halves(c, key, flat, lanes, run);
    weft_kval words[4], own[4], at = lanes == 1 ? flat.base : weft_lane_vector(c, flat, lanes);
    draw(k, key, weft_k_binary(k, WEFT_K_shr, at, weft_k_splat(k, weft_k_integer(k, index, 3), lanes)), words);
    at = weft_k_and(k, at, weft_k_splat(k, weft_k_integer(k, index, HALVES - 1), lanes));
    words_from(k, words, at, 1, own);
    weft_kval one = weft_k_splat(k, weft_k_integer(k, index, 1), lanes),
              odd = weft_k_eq(k, weft_k_and(k, at, one), one);
    return weft_k_select(k, odd, upper_half(k, own[0]), own[0]);
}

weft_parts weft_index_rng_bits(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    weft_dtype dtype = weft_node_dtype(node, WEFT_ATTR_dtype, WEFT_U32);
    weft_point_flat(c, point);
    random_key key = key_of(c, node, point);
    if (dtype == WEFT_U16) {
        weft_kval halves = halves_at(c, &key, point->flat, point->lanes);
        int lanes = weft_ktype_of(k, halves).lanes;
        halves = weft_k_and(k, halves, weft_k_splat(k, weft_k_integer(k, WEFT_U32, 0xffff), lanes));
        return weft_parts_one(weft_k_convert(k, halves, WEFT_U16));
    }
    bool invariant = weft_lane_invariant(c, point->flat, point->lanes);
    weft_kval words[4];
    draw(k, &key, invariant ? point->flat.base : weft_lane_vector(c, point->flat, point->lanes), words);
    if (dtype == WEFT_U32) return weft_parts_one(words[0]);
    weft_kval upper =
        weft_k_binary(k, WEFT_K_shl, weft_k_convert(k, words[1], WEFT_U64), weft_k_integer(k, WEFT_U64, 32));
    return weft_parts_one(weft_k_or(k, weft_k_convert(k, words[0], WEFT_U64), upper));
}
