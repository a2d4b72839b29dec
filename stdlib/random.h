/* Random numbers on the host as functions of a key: batch 1000 has the same numbers whether or not batch 999 was drawn.
   Source: Steele, Lea, Flood 2014 (splitmix64). */
#ifndef WEFT_STDLIB_RANDOM_H
#define WEFT_STDLIB_RANDOM_H

#include <stdint.h>

static inline uint64_t weft_draw_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The next number of a stream. */
static inline uint64_t weft_draw_next(uint64_t *state) { return weft_draw_mix(*state += 0x9e3779b97f4a7c15u); }

/* The start of the stream that belongs to (seed, number). */
static inline uint64_t weft_draw_stream(uint64_t seed, uint64_t number) {
    return weft_draw_mix(weft_draw_mix(seed + 0x9e3779b97f4a7c15u) ^ (number * 0xd1342543de82ef95u + 1));
}

/* [0, 1) */
static inline double weft_draw_uniform(uint64_t *state) { return (double)(weft_draw_next(state) >> 11) * 0x1p-53; }

/* [0, count); the bias is below count / 2^64 */
static inline int64_t weft_draw_below(uint64_t *state, int64_t count) {
    return (int64_t)(weft_draw_next(state) % (uint64_t)count);
}

/* Element `index` of a permutation of [0, count) that belongs to the key: four rounds of a Feistel network over the
   next even power of two, walked until it falls into the range (Black, Rogaway 2002). */
static inline int64_t weft_draw_permuted(uint64_t key, int64_t count, int64_t index) {
    int half = 1;
    while ((uint64_t)count > (uint64_t)1 << (2 * half)) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, at = (uint64_t)index;
    do {
        uint64_t left = at >> half, right = at & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (weft_draw_mix(key + (round + 1) * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = mixed;
        }
        at = left << half | right;
    } while (at >= (uint64_t)count);
    return (int64_t)at;
}

#endif
