/* The operations of atomics, on values of 32 and 64 bits. */
#include "tests/amdgcn/emulator/access.h"
#include "tests/amdgcn/emulator/half.h"

static uint64_t floats(int op, int bytes, uint64_t old, uint64_t value) {
    double a = bytes == 8 ? number_f64(old) : (double)number_f32((uint32_t)old),
           b = bytes == 8 ? number_f64(value) : (double)number_f32((uint32_t)value), r;
    if (op == A_ADD_F) {
        if (bytes == 4) return number_bits32(number_f32((uint32_t)old) + number_f32((uint32_t)value));
        r = a + b;
    } else {
        r = op == A_MIN_F ? fmin(a, b) : fmax(a, b);
    }
    return bytes == 8 ? number_bits64(r) : number_bits32((float)r);
}

static uint64_t pair_sum(uint64_t old, uint64_t value) {
    uint64_t r = 0;
    for (int shift = 0; shift < 32; shift += 16)
        r |= (uint64_t)amdgcn_to_half((double)amdgcn_from_half((uint32_t)(old >> shift) & 0xffff) +
                                      (double)amdgcn_from_half((uint32_t)(value >> shift) & 0xffff))
             << shift;
    return r;
}

uint64_t amdgcn_atomic_apply(int op, int bytes, uint64_t old, uint64_t value, uint64_t compare) {
    int64_t a = bytes == 8 ? (int64_t)old : (int32_t)old, b = bytes == 8 ? (int64_t)value : (int32_t)value;
    switch (op) {
    case A_SWAP: return value;
    case A_COMPARE: return old == compare ? value : old;
    case A_ADD: return old + value;
    case A_SUB: return old - value;
    case A_RSUB: return value - old;
    case A_MIN_I: return a < b ? old : value;
    case A_MAX_I: return a > b ? old : value;
    case A_MIN_U: return old < value ? old : value;
    case A_MAX_U: return old > value ? old : value;
    case A_AND: return old & value;
    case A_OR: return old | value;
    case A_XOR: return old ^ value;
    case A_INC: return old >= value ? 0 : old + 1;
    case A_DEC: return old == 0 || old > value ? value : old - 1;
    case A_ADD_PAIR: return pair_sum(old, value);
    default: return floats(op, bytes, old, value);
    }
}
