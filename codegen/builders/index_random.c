/* rng_bits at an index: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2,
   3"). Key = the halves of key[0]; counter = row-major index in words 0 and 1, key[1] in words 2 and 3; an element is
   output word 0 (u32) or words 0 and 1 (u64). It depends on key and index only, never on how the loop runs. */
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

weft_parts weft_index_rng_bits(weft_index_context *c, const weft_node *node, weft_point *point) {
    weft_kernel *k = c->kernel;
    weft_point_flat(c, point);
    weft_kval key0 = key_word(c, node, point, 0), key1 = key_word(c, node, point, 1);
    bool invariant = weft_lane_invariant(c, point->flat, point->lanes);
    weft_kval position =
        weft_k_convert(k, invariant ? point->flat.base : weft_lane_vector(c, point->flat, point->lanes), WEFT_U64);
    weft_kval counter[4] = {low_word(k, position), high_word(k, position), low_word(k, key1), high_word(k, key1)};
    weft_kval keys[2] = {low_word(k, key0), high_word(k, key0)};
    int lanes = weft_ktype_of(k, position).lanes;
    for (int i = 0; i < 4; i++) counter[i] = weft_k_splat(k, counter[i], lanes);
    weft_index_philox(k, keys, counter);
    if (weft_node_dtype(node, WEFT_ATTR_dtype, WEFT_U32) == WEFT_U32) return weft_parts_one(counter[0]);
    weft_kval upper =
        weft_k_binary(k, WEFT_K_shl, weft_k_convert(k, counter[1], WEFT_U64), weft_k_integer(k, WEFT_U64, 32));
    return weft_parts_one(weft_k_or(k, weft_k_convert(k, counter[0], WEFT_U64), upper));
}
