/* How instructions of memory are numbered: what they move, whether the half of a register. */
#ifndef WEFT_TESTS_AMDGCN_ACCESS_H
#define WEFT_TESTS_AMDGCN_ACCESS_H

#include "tests/amdgcn/emulator/internal.h"

enum {
    BYTES = 31,    /* of an element, or of all words */
    EXTENDS = 32,  /* signed */
    LOW_HALF = 64, /* of the register; the other half stays */
    HIGH_HALF = 128,
    SPACE_SHIFT = 8, /* global, flat, scratch, buffer */
    ATOMIC_SHIFT = 12
};

enum { GLOBAL, FLAT, PRIVATE, BUFFER };

typedef enum amdgcn_atomic {
    A_SWAP,
    A_COMPARE,
    A_ADD,
    A_SUB,
    A_RSUB,
    A_MIN_I,
    A_MIN_U,
    A_MAX_I,
    A_MAX_U,
    A_AND,
    A_OR,
    A_XOR,
    A_INC,
    A_DEC,
    A_ADD_F,
    A_MIN_F,
    A_MAX_F,
    A_ADD_PAIR
} amdgcn_atomic;

/* atomic.c: what memory holds after the operation; bytes 4 or 8. */
uint64_t amdgcn_atomic_apply(int op, int bytes, uint64_t old, uint64_t value, uint64_t compare);

/* What a load of less than a word leaves in a register. */
static inline uint32_t amdgcn_loaded(int op, uint32_t value, uint32_t before) {
    int bytes = op & BYTES;
    if (op & EXTENDS) value = bytes == 1 ? (uint32_t)(int32_t)(int8_t)value : (uint32_t)(int32_t)(int16_t)value;
    if (op & LOW_HALF) return (before & 0xffff0000) | (value & 0xffff);
    if (op & HIGH_HALF) return (before & 0xffff) | value << 16;
    return value;
}

#endif
