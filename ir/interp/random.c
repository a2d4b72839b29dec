/* rng_bits: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
   Philox key = the two halves of key[0]; counter = row-major index in words 0 and 1, key[1] in words 2 and 3. An
   element is output word 0 (u32) or words 0 and 1 (u64): it depends on key and index only, so tiling and sharding
   cannot show. Of u16, eight neighbours share a counter, index / 8, and take the halves of its words, the lower first:
   a draw costs some sixty instructions, and dropout wants no more bits than that. */
#include "ir/interp/interp.h"

static void philox_round(uint32_t counter[4], const uint32_t key[2]) {
    uint64_t a = (uint64_t)0xd2511f53u * counter[0], b = (uint64_t)0xcd9e8d57u * counter[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
                        (uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a};
    for (int i = 0; i < 4; i++) counter[i] = next[i];
}

static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]) {
    uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    out[0] = (uint32_t)low;
    out[1] = (uint32_t)(low >> 32);
    out[2] = (uint32_t)high;
    out[3] = (uint32_t)(high >> 32);
    for (int round = 0; round < 10; round++) {
        philox_round(out, keys);
        keys[0] += 0x9e3779b9u;
        keys[1] += 0xbb67ae85u;
    }
}

weft_status weft_interpret_rng_bits(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                    weft_tensor **results) {
    WEFT_TRY(weft_interp_result(interpreter, node, 0, &results[0]), "result of rng_bits");
    weft_tensor *y = results[0];
    const uint64_t *key = inputs[0]->data;
    for (int64_t i = 0; i < y->element_count; i++) {
        uint32_t words[4];
        bool halves = y->dtype == WEFT_U16;
        philox(key[0], (uint64_t)(halves ? i / 8 : i), key[1], words);
        uint64_t value = halves ? words[i / 2 % 4] >> 16 * (i % 2) & 0xffff : words[0];
        if (y->dtype == WEFT_U64) value |= (uint64_t)words[1] << 32;
        weft_element_set_bits(y->dtype, y->data, i, value);
    }
    return NULL;
}
