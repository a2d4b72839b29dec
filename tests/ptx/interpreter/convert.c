/* cvt and setp, whose names are read piece by piece. Read next: memory.c.
   Source: "Parallel Thread Execution ISA", cvt; setp. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

typedef enum type {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    BF16,
    F32,
    F64,
    B16,
    B32,
    B64,
    F16X2,
    BF16X2,
    NO_TYPE
} type;
static const char *const type_names[] = {"u8",   "u16", "u32", "u64", "s8",  "s16", "s32",   "s64",   "f16",
                                         "bf16", "f32", "f64", "b16", "b32", "b64", "f16x2", "bf16x2"};

static type type_of(const char *name) {
    for (int t = 0; t < NO_TYPE; t++)
        if (!strcmp(name, type_names[t])) return (type)t;
    return NO_TYPE;
}

/* The pieces of a name between its points; at most 8. */
static int pieces(const char *name, char out[8][NAME]) {
    int count = 0;
    while (*name && count < 8) {
        size_t length = strcspn(name, ".");
        memcpy(out[count], name, length);
        out[count++][length] = 0;
        name += length + (name[length] == '.');
    }
    return *name ? 0 : count;
}

/* -- numbers */

static uint64_t to_bf16(float x) {
    uint64_t bits = number_bits32(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static bool is_float(type t) { return t >= F16 && t <= F64; }
static bool is_signed(type t) { return t >= S8 && t <= S64; }
static int bits_of(type t) { return t <= S64 ? 8 << (t & 3) : t == F32 ? 32 : t == F64 ? 64 : 16; }

static double float_value(type t, uint64_t bits) {
    switch ((int)t) {
    case F16: return (double)number_f16(bits);
    case BF16: return (double)number_f32(bits << 16);
    case F32: return (double)number_f32(bits);
    default: return number_f64(bits);
    }
}

static uint64_t of_float(type t, double x) {
    switch ((int)t) {
    case F16: return number_bits16(x);
    case BF16: return to_bf16((float)x);
    case F32: return number_bits32((float)x);
    default: return number_bits64(x);
    }
}

static int64_t signed_value(type t, uint64_t bits) {
    int shift = 64 - bits_of(t);
    return is_signed(t) ? (int64_t)(bits << shift) >> shift : (int64_t)(bits << shift >> shift);
}

static double rounded(char mode, double x) {
    switch (mode) {
    case 'z': return trunc(x);
    case 'm': return floor(x);
    case 'p': return ceil(x);
    default: return rint(x);
    }
}

static uint64_t clamped(type t, double x) {
    if (x != x) return 0;
    int bits = bits_of(t);
    double high = is_signed(t) ? ldexp(1, bits - 1) : ldexp(1, bits), low = is_signed(t) ? -high : 0;
    if (x < low) return is_signed(t) ? UINT64_MAX << (bits - 1) : 0;
    if (x >= high) return UINT64_MAX >> (64 - bits + is_signed(t));
    return is_signed(t) ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* -- cvt */

enum { FROM_SHIFT = 8, MODE_SHIFT = 16, SATURATES = 1 << 24, INTEGRAL = 1 << 25, FLUSHES = 1 << 26 };

static uint64_t converted(int op, uint64_t value) {
    type to = (type)(op & 255), from = (type)(op >> FROM_SHIFT & 255);
    char mode = (char)(op >> MODE_SHIFT & 255);
    if (is_float(from)) {
        double x = float_value(from, value);
        if ((op & FLUSHES) && fabs(x) < 0x1p-126) x = copysign(0, x);
        if ((op & INTEGRAL) || !is_float(to)) x = rounded(mode, x);
        if ((op & SATURATES) && is_float(to)) x = x > 0 ? (x < 1 ? x : 1) : 0;
        return is_float(to) ? of_float(to, x) : clamped(to, x);
    }
    int64_t n = signed_value(from, value);
    if (is_float(to)) {
        if (to == F32) return number_bits32(from == U64 ? (float)(uint64_t)n : (float)n);
        return of_float(to, from == U64 ? (double)(uint64_t)n : (double)n);
    }
    if (op & SATURATES) return clamped(to, from == U64 ? (double)(uint64_t)n : (double)n);
    return (uint64_t)signed_value(to, (uint64_t)n);
}

static void convert(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, converted(i->op, ptx_get(w, &i->operands[1], l)));
}

/* Two f32 to the halves of a word: the first one high. */
static void convert_two(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        float high = number_f32(ptx_get(w, &i->operands[1], l)), low = number_f32(ptx_get(w, &i->operands[2], l));
        uint64_t r = i->op == F16X2 ? (uint64_t)number_bits16((double)high) << 16 | number_bits16((double)low)
                                    : to_bf16(high) << 16 | to_bf16(low);
        ptx_put(w, i->operands[0].index, l, r);
    }
}

/* 10 bits of fraction, to nearest, ties away from zero. */
static void convert_tf32(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) ptx_put(w, i->operands[0].index, l, (ptx_get(w, &i->operands[1], l) + 0x1000) & 0xffffe000);
}

bool ptx_prepare_convert(ptx_instruction *i) {
    char part[8][NAME];
    int count = pieces(i->name, part), mode = 'n', flags = 0;
    if (count < 3 || strcmp(part[0], "cvt") != 0) return false;
    if (!strcmp(i->name, "cvt.rna.tf32.f32")) return i->run = convert_tf32, true;
    type to = type_of(part[count - 2]), from = type_of(part[count - 1]);
    if (to == NO_TYPE || from == NO_TYPE) return false;
    for (int p = 1; p < count - 2; p++) {
        const char *m = part[p];
        if (!strcmp(m, "sat"))
            flags |= SATURATES;
        else if (!strcmp(m, "ftz"))
            flags |= FLUSHES;
        else if (m[0] == 'r' && strchr("nzmp", m[1]) && m[1]) {
            mode = m[1];
            if (m[2] == 'i')
                flags |= INTEGRAL;
            else if (mode != 'n')
                return false; /* rounding of the result in another direction */
        } else
            return false;
    }
    if (to == F16X2 || to == BF16X2) {
        i->run = convert_two, i->op = (int)to;
        return from == F32 && i->count == 3 && !flags;
    }
    if (to > F64 || from > F64) return false;
    i->run = convert;
    i->op = (int)to | (int)from << FROM_SHIFT | mode << MODE_SHIFT | flags;
    return true;
}

/* -- setp: comparison, an optional operation with a third predicate, type */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8, TYPE_SHIFT = 8, BOOL_SHIFT = 16 };
enum { NO_BOOL, BOOL_AND, BOOL_OR, BOOL_XOR };

static const struct {
    const char *name;
    int outcomes;
} comparisons[] = {{"eq", EQUAL},
                   {"ne", LESS | GREATER},
                   {"lt", LESS},
                   {"le", LESS | EQUAL},
                   {"gt", GREATER},
                   {"ge", GREATER | EQUAL},
                   {"lo", LESS},
                   {"ls", LESS | EQUAL},
                   {"hi", GREATER},
                   {"hs", GREATER | EQUAL},
                   {"equ", EQUAL | UNORDERED},
                   {"neu", LESS | GREATER | UNORDERED},
                   {"ltu", LESS | UNORDERED},
                   {"leu", LESS | EQUAL | UNORDERED},
                   {"gtu", GREATER | UNORDERED},
                   {"geu", GREATER | EQUAL | UNORDERED},
                   {"num", LESS | EQUAL | GREATER},
                   {"nan", UNORDERED}};

static bool outcome(int op, uint64_t a, uint64_t b) {
    type t = (type)(op >> TYPE_SHIFT & 255);
    bool less, equal, greater;
    if (is_float(t)) {
        double x = float_value(t, a), y = float_value(t, b);
        less = x < y, equal = x == y, greater = x > y;
    } else if (is_signed(t)) {
        int64_t x = signed_value(t, a), y = signed_value(t, b);
        less = x < y, equal = x == y, greater = x > y;
    } else {
        int bits = t == B16 ? 16 : t == B32 ? 32 : t == B64 ? 64 : bits_of(t);
        a = a << (64 - bits), b = b << (64 - bits);
        less = a < b, equal = a == b, greater = a > b;
    }
    return (less && (op & LESS)) || (equal && (op & EQUAL)) || (greater && (op & GREATER)) ||
           (!less && !equal && !greater && (op & UNORDERED));
}

static void compare(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    int how = i->op >> BOOL_SHIFT;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        bool r = outcome(i->op, ptx_get(w, &i->operands[1], l), ptx_get(w, &i->operands[2], l)), second = !r;
        if (how != NO_BOOL) {
            bool c = (ptx_get(w, &i->operands[3], l) & 1) != i->operands[3].negate;
            second = how == BOOL_AND ? second && c : how == BOOL_OR ? second || c : second != c;
            r = how == BOOL_AND ? r && c : how == BOOL_OR ? r || c : r != c;
        }
        ptx_put(w, i->operands[0].index, l, r);
        if (i->operands[0].other >= 0) ptx_put(w, i->operands[0].other, l, second);
    }
}

bool ptx_prepare_compare(ptx_instruction *i) {
    char part[8][NAME];
    int count = pieces(i->name, part), how = NO_BOOL, outcomes = 0;
    if (count < 3 || strcmp(part[0], "setp") != 0) return false;
    type t = type_of(part[count - 1]);
    if (t == NO_TYPE || t >= F16X2) return false;
    for (size_t c = 0; c < sizeof comparisons / sizeof *comparisons; c++)
        if (!strcmp(part[1], comparisons[c].name)) outcomes = comparisons[c].outcomes;
    for (int p = 2; p < count - 1; p++) {
        if (!strcmp(part[p], "and"))
            how = BOOL_AND;
        else if (!strcmp(part[p], "or"))
            how = BOOL_OR;
        else if (!strcmp(part[p], "xor"))
            how = BOOL_XOR;
        else
            return false;
    }
    i->run = compare;
    i->op = outcomes | (int)t << TYPE_SHIFT | how << BOOL_SHIFT;
    return outcomes != 0 && i->count == (how == NO_BOOL ? 3 : 4);
}
