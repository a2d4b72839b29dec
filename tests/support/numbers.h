/* Numbers as bits and back, and bits at random, for tests and for what executes code of other machines. */
#ifndef WEFT_TESTS_SUPPORT_NUMBERS_H
#define WEFT_TESTS_SUPPORT_NUMBERS_H

#include <stdint.h>
#include <string.h>

/* The lower half of `bits`. */
static inline float number_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, 4);
    return x;
}

static inline uint32_t number_bits32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static inline double number_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

static inline uint64_t number_bits64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* The lowest 16 bits. */
static inline float number_f16(uint64_t bits) {
    uint16_t low = (uint16_t)bits;
    _Float16 x;
    memcpy(&x, &low, 2);
    return (float)x;
}

/* Rounded once. */
static inline uint32_t number_bits16(double x) {
    _Float16 half = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &half, 2);
    return bits;
}

/* Of a linear congruence, the good bits spread over all of the word. */
static inline uint64_t number_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 20 ^ *state << 40;
}

#endif
