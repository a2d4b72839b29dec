/* Integers, bits and predicates: functions of up to three values. Results are cut to the register's width where they
   are written, so that one function serves all widths that agree. Read next: float.c. Source: "Parallel Thread
   Execution ISA", Integer Arithmetic; Logic and Shift. */
#include "tests/ptx/interpreter/internal.h"

#define PURE(NAME, ...)                                                                                                \
    static uint64_t NAME(uint64_t a, uint64_t b, uint64_t c) {                                                         \
        (void)a, (void)b, (void)c;                                                                                     \
        return (uint64_t)(__VA_ARGS__);                                                                                \
    }
#define S16(x) ((int64_t)(int16_t)(x))
#define S32(x) ((int64_t)(int32_t)(x))
#define U32(x) ((uint64_t)(uint32_t)(x))

PURE(same, a)
PURE(add, a + b)
PURE(sub, a - b)
PURE(mul, a *b)
PURE(mad, a *b + c)
PURE(wide_s16, S16(a) * S16(b))
PURE(wide_u16, (a & 0xffff) * (b & 0xffff))
PURE(wide_s32, S32(a) * S32(b))
PURE(wide_u32, U32(a) * U32(b))
PURE(mad_wide_s32, (uint64_t)(S32(a) * S32(b)) + c)
PURE(mad_wide_u32, U32(a) * U32(b) + c)
PURE(mad_wide_u16, (a & 0xffff) * (b & 0xffff) + c)
PURE(mad_wide_s16, (uint64_t)(S16(a) * S16(b)) + c)
PURE(high_s32, (S32(a) * S32(b)) >> 32)
PURE(high_u32, (U32(a) * U32(b)) >> 32)
PURE(high_s16, (S16(a) * S16(b)) >> 16)
PURE(high_u16, ((a & 0xffff) * (b & 0xffff)) >> 16)
PURE(high_s64, (__int128)(int64_t)a *(int64_t)b >> 64)
PURE(high_u64, (unsigned __int128)a *b >> 64)
PURE(mad_high_u32, ((U32(a) * U32(b)) >> 32) + c)
PURE(mad_high_s32, (uint64_t)((S32(a) * S32(b)) >> 32) + c)
/* division by zero has no value in the manual: all ones */
PURE(div_s16, !(b & 0xffff) ? -1 : S16(a) / S16(b))
PURE(div_u16, !(b & 0xffff) ? UINT64_MAX : (a & 0xffff) / (b & 0xffff))
PURE(div_s32, !U32(b) ? -1 : S32(a) / S32(b))
PURE(div_u32, !U32(b) ? UINT64_MAX : U32(a) / U32(b))
PURE(div_s64, !b ? UINT64_MAX : (int64_t)b == -1 ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b))
PURE(div_u64, !b ? UINT64_MAX : a / b)
PURE(rem_s16, !(b & 0xffff) ? S16(a) : S16(a) % S16(b))
PURE(rem_u16, !(b & 0xffff) ? a : (a & 0xffff) % (b & 0xffff))
PURE(rem_s32, !U32(b) ? S32(a) : S32(a) % S32(b))
PURE(rem_u32, !U32(b) ? a : U32(a) % U32(b))
PURE(rem_s64, !b ? a : (int64_t)b == -1 ? 0 : (uint64_t)((int64_t)a % (int64_t)b))
PURE(rem_u64, !b ? a : a % b)
PURE(abs_s16, S16(a) < 0 ? -S16(a) : S16(a))
PURE(abs_s32, S32(a) < 0 ? -S32(a) : S32(a))
PURE(abs_s64, (int64_t)a < 0 ? 0 - a : a)
PURE(neg, 0 - a)
PURE(min_s16, S16(a) < S16(b) ? a : b)
PURE(max_s16, S16(a) > S16(b) ? a : b)
PURE(min_s32, S32(a) < S32(b) ? a : b)
PURE(max_s32, S32(a) > S32(b) ? a : b)
PURE(min_s64, (int64_t)a < (int64_t)b ? a : b)
PURE(max_s64, (int64_t)a > (int64_t)b ? a : b)
PURE(min_u, a < b ? a : b)
PURE(max_u, a > b ? a : b)
PURE(and, a &b)
PURE(or, a | b)
PURE(xor, a ^ b)
PURE(not, ~a)
PURE(shl_16, U32(b) > 15 ? 0 : a << b)
PURE(shl_32, U32(b) > 31 ? 0 : a << b)
PURE(shl_64, U32(b) > 63 ? 0 : a << b)
PURE(shr_u16, U32(b) > 15 ? 0 : (a & 0xffff) >> b)
PURE(shr_u32, U32(b) > 31 ? 0 : U32(a) >> b)
PURE(shr_u64, U32(b) > 63 ? 0 : a >> b)
PURE(shr_s16, S16(a) >> (U32(b) > 15 ? 15 : b))
PURE(shr_s32, S32(a) >> (U32(b) > 31 ? 31 : b))
PURE(shr_s64, (int64_t)a >> (U32(b) > 63 ? 63 : b))
PURE(funnel_left_wrap, (U32(b) << 32 | U32(a)) << (c & 31) >> 32)
PURE(funnel_right_wrap, (U32(b) << 32 | U32(a)) >> (c & 31))
PURE(funnel_left_clamp, U32(c) > 31 ? U32(a) : (U32(b) << 32 | U32(a)) << c >> 32)
PURE(funnel_right_clamp, U32(c) > 31 ? U32(b) : (U32(b) << 32 | U32(a)) >> c)
PURE(popc, __builtin_popcountll(a))
PURE(clz_32, U32(a) ? __builtin_clz((uint32_t)a) : 32)
PURE(clz_64, a ? __builtin_clzll(a) : 64)
PURE(find_u32, U32(a) ? (uint64_t)(31 - __builtin_clz((uint32_t)a)) : UINT32_MAX)
PURE(find_u64, a ? (uint64_t)(63 - __builtin_clzll(a)) : UINT32_MAX)
PURE(choose, c & 1 ? a : b)

static uint64_t reverse_32(uint64_t a, uint64_t b, uint64_t c) {
    (void)b, (void)c;
    uint64_t r = 0;
    for (int bit = 0; bit < 32; bit++) r |= (a >> bit & 1) << (31 - bit);
    return r;
}

static uint64_t reverse_64(uint64_t a, uint64_t b, uint64_t c) {
    return reverse_32(a, b, c) << 32 | reverse_32(a >> 32, b, c);
}

/* Four bytes of the eight of b:a; a set third bit of a selector spreads the sign of its byte. */
static uint64_t permute(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t bytes = U32(b) << 32 | U32(a), r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned s = c >> 4 * i & 15;
        uint64_t byte = bytes >> 8 * (s & 7) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

static uint64_t dot(uint64_t a, uint64_t b, uint64_t c, bool signed_a, bool signed_b) {
    int64_t sum = (int64_t)c;
    for (int i = 0; i < 32; i += 8) {
        int64_t x = signed_a ? (int8_t)(a >> i) : (int64_t)(a >> i & 255),
                y = signed_b ? (int8_t)(b >> i) : (int64_t)(b >> i & 255);
        sum += x * y;
    }
    return (uint64_t)sum;
}
/* dp2a: two values of 16 bits with two of the four bytes of b, from bit `at` on. */
static uint64_t dot_two(uint64_t a, uint64_t b, uint64_t c, bool signed_a, bool signed_b, int at) {
    int64_t sum = (int64_t)c;
    for (int i = 0; i < 2; i++) {
        int64_t x = signed_a ? (int16_t)(a >> 16 * i) : (int64_t)(a >> 16 * i & 0xffff),
                y = signed_b ? (int8_t)(b >> (at + 8 * i)) : (int64_t)(b >> (at + 8 * i) & 255);
        sum += x * y;
    }
    return (uint64_t)sum;
}
PURE(dot_two_ss, dot_two(a, b, c, true, true, 0))
PURE(dot_two_uu, dot_two(a, b, c, false, false, 0))
PURE(dot_two_su, dot_two(a, b, c, true, false, 0))
PURE(dot_two_us, dot_two(a, b, c, false, true, 0))
PURE(dot_high_ss, dot_two(a, b, c, true, true, 16))
PURE(dot_high_uu, dot_two(a, b, c, false, false, 16))
PURE(dot_high_su, dot_two(a, b, c, true, false, 16))
PURE(dot_high_us, dot_two(a, b, c, false, true, 16))
PURE(dot_ss, dot(a, b, c, true, true))
PURE(dot_uu, dot(a, b, c, false, false))
PURE(dot_su, dot(a, b, c, true, false))
PURE(dot_us, dot(a, b, c, false, true))

/* -- four sources */

enum { EXTRACT_U32, EXTRACT_S32, EXTRACT_U64, EXTRACT_S64 };

static void extract(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    int bits = i->op <= EXTRACT_S32 ? 32 : 64;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t a = ptx_get(w, &i->operands[1], l), at = ptx_get(w, &i->operands[2], l) & 255,
                 length = ptx_get(w, &i->operands[3], l) & 255;
        bool is_signed = i->op == EXTRACT_S32 || i->op == EXTRACT_S64;
        uint64_t last = at + length - 1 < (uint64_t)bits ? at + length - 1 : (uint64_t)bits - 1;
        bool sign = is_signed && length && a >> last & 1;
        uint64_t r = at < (uint64_t)bits ? a >> at : 0;
        if (length < 64) r &= (UINT64_C(1) << length) - 1;
        if (sign && length < 64) {
            uint64_t have = at < (uint64_t)bits && length > (uint64_t)bits - at ? (uint64_t)bits - at : length;
            r |= at < (uint64_t)bits ? UINT64_MAX << have : UINT64_MAX;
        }
        ptx_put(w, i->operands[0].index, l, r);
    }
}

/* bfi: a's low `length` bits go to b at `at` */
static void insert(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint64_t bits = (uint64_t)i->op;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t a = ptx_get(w, &i->operands[1], l), b = ptx_get(w, &i->operands[2], l),
                 at = ptx_get(w, &i->operands[3], l) & 255, length = ptx_get(w, &i->operands[4], l) & 255;
        if (at < bits) {
            if (length > bits - at) length = bits - at;
            uint64_t mask = length >= 64 ? UINT64_MAX : ((UINT64_C(1) << length) - 1) << at;
            b = (b & ~mask) | (a << at & mask);
        }
        ptx_put(w, i->operands[0].index, l, b);
    }
}

static void lookup(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    uint64_t table = i->operands[4].value;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1)) continue;
        uint64_t a = ptx_get(w, &i->operands[1], l), b = ptx_get(w, &i->operands[2], l),
                 c = ptx_get(w, &i->operands[3], l), r = 0;
        for (int bit = 0; bit < 32; bit++)
            r |= (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1) << bit;
        ptx_put(w, i->operands[0].index, l, r);
    }
}

#define ALL_WIDTHS(NAME, SUFFIX, RUN)                                                                                  \
    {NAME "." SUFFIX "16", NULL, RUN, 0}, {NAME "." SUFFIX "32", NULL, RUN, 0}, {NAME "." SUFFIX "64", NULL, RUN, 0}
#define BOTH_SIGNS(NAME, RUN) ALL_WIDTHS(NAME, "s", RUN), ALL_WIDTHS(NAME, "u", RUN)

const ptx_opcode ptx_integer_opcodes[] = {BOTH_SIGNS("add", add),
                                          BOTH_SIGNS("sub", sub),
                                          BOTH_SIGNS("mul.lo", mul),
                                          BOTH_SIGNS("mad.lo", mad),
                                          {"mul.wide.s16", NULL, wide_s16, 0},
                                          {"mul.wide.u16", NULL, wide_u16, 0},
                                          {"mul.wide.s32", NULL, wide_s32, 0},
                                          {"mul.wide.u32", NULL, wide_u32, 0},
                                          {"mad.wide.s32", NULL, mad_wide_s32, 0},
                                          {"mad.wide.u32", NULL, mad_wide_u32, 0},
                                          {"mad.wide.s16", NULL, mad_wide_s16, 0},
                                          {"mad.wide.u16", NULL, mad_wide_u16, 0},
                                          {"mul.hi.s16", NULL, high_s16, 0},
                                          {"mul.hi.u16", NULL, high_u16, 0},
                                          {"mul.hi.s32", NULL, high_s32, 0},
                                          {"mul.hi.u32", NULL, high_u32, 0},
                                          {"mul.hi.s64", NULL, high_s64, 0},
                                          {"mul.hi.u64", NULL, high_u64, 0},
                                          {"mad.hi.u32", NULL, mad_high_u32, 0},
                                          {"mad.hi.s32", NULL, mad_high_s32, 0},
                                          {"div.s16", NULL, div_s16, 0},
                                          {"div.u16", NULL, div_u16, 0},
                                          {"div.s32", NULL, div_s32, 0},
                                          {"div.u32", NULL, div_u32, 0},
                                          {"div.s64", NULL, div_s64, 0},
                                          {"div.u64", NULL, div_u64, 0},
                                          {"rem.s16", NULL, rem_s16, 0},
                                          {"rem.u16", NULL, rem_u16, 0},
                                          {"rem.s32", NULL, rem_s32, 0},
                                          {"rem.u32", NULL, rem_u32, 0},
                                          {"rem.s64", NULL, rem_s64, 0},
                                          {"rem.u64", NULL, rem_u64, 0},
                                          {"abs.s16", NULL, abs_s16, 0},
                                          {"abs.s32", NULL, abs_s32, 0},
                                          {"abs.s64", NULL, abs_s64, 0},
                                          ALL_WIDTHS("neg", "s", neg),
                                          {"min.s16", NULL, min_s16, 0},
                                          {"min.s32", NULL, min_s32, 0},
                                          {"min.s64", NULL, min_s64, 0},
                                          {"max.s16", NULL, max_s16, 0},
                                          {"max.s32", NULL, max_s32, 0},
                                          {"max.s64", NULL, max_s64, 0},
                                          ALL_WIDTHS("min", "u", min_u),
                                          ALL_WIDTHS("max", "u", max_u),
                                          ALL_WIDTHS("and", "b", and),
                                          ALL_WIDTHS("or", "b", or),
                                          ALL_WIDTHS("xor", "b", xor),
                                          ALL_WIDTHS("not", "b", not),
                                          {"and.pred", NULL, and, 0},
                                          {"or.pred", NULL, or, 0},
                                          {"xor.pred", NULL, xor, 0},
                                          {"not.pred", NULL, not, 0},
                                          {"shl.b16", NULL, shl_16, 0},
                                          {"shl.b32", NULL, shl_32, 0},
                                          {"shl.b64", NULL, shl_64, 0},
                                          {"shr.u16", NULL, shr_u16, 0},
                                          {"shr.u32", NULL, shr_u32, 0},
                                          {"shr.u64", NULL, shr_u64, 0},
                                          {"shr.b16", NULL, shr_u16, 0},
                                          {"shr.b32", NULL, shr_u32, 0},
                                          {"shr.b64", NULL, shr_u64, 0},
                                          {"shr.s16", NULL, shr_s16, 0},
                                          {"shr.s32", NULL, shr_s32, 0},
                                          {"shr.s64", NULL, shr_s64, 0},
                                          {"shf.l.wrap.b32", NULL, funnel_left_wrap, 0},
                                          {"shf.r.wrap.b32", NULL, funnel_right_wrap, 0},
                                          {"shf.l.clamp.b32", NULL, funnel_left_clamp, 0},
                                          {"shf.r.clamp.b32", NULL, funnel_right_clamp, 0},
                                          {"popc.b32", NULL, popc, 0},
                                          {"popc.b64", NULL, popc, 0},
                                          {"clz.b32", NULL, clz_32, 0},
                                          {"clz.b64", NULL, clz_64, 0},
                                          {"bfind.u32", NULL, find_u32, 0},
                                          {"bfind.u64", NULL, find_u64, 0},
                                          {"brev.b32", NULL, reverse_32, 0},
                                          {"brev.b64", NULL, reverse_64, 0},
                                          {"prmt.b32", NULL, permute, 0},
                                          {"dp2a.lo.s32.s32", NULL, dot_two_ss, 0},
                                          {"dp2a.lo.s32.u32", NULL, dot_two_su, 0},
                                          {"dp2a.lo.u32.s32", NULL, dot_two_us, 0},
                                          {"dp2a.lo.u32.u32", NULL, dot_two_uu, 0},
                                          {"dp2a.hi.s32.s32", NULL, dot_high_ss, 0},
                                          {"dp2a.hi.s32.u32", NULL, dot_high_su, 0},
                                          {"dp2a.hi.u32.s32", NULL, dot_high_us, 0},
                                          {"dp2a.hi.u32.u32", NULL, dot_high_uu, 0},
                                          {"dp4a.s32.s32", NULL, dot_ss, 0},
                                          {"dp4a.u32.u32", NULL, dot_uu, 0},
                                          {"dp4a.s32.u32", NULL, dot_su, 0},
                                          {"dp4a.u32.s32", NULL, dot_us, 0},
                                          ALL_WIDTHS("selp", "b", choose),
                                          BOTH_SIGNS("selp", choose),
                                          {"selp.f32", NULL, choose, 0},
                                          {"selp.f64", NULL, choose, 0},
                                          {"bfe.u32", extract, NULL, EXTRACT_U32},
                                          {"bfe.s32", extract, NULL, EXTRACT_S32},
                                          {"bfe.u64", extract, NULL, EXTRACT_U64},
                                          {"bfe.s64", extract, NULL, EXTRACT_S64},
                                          {"bfi.b32", insert, NULL, 32},
                                          {"bfi.b64", insert, NULL, 64},
                                          {"lop3.b32", lookup, NULL, 0},
                                          {"mov.u16", NULL, same, 0},
                                          {"mov.u32", NULL, same, 0},
                                          {"mov.u64", NULL, same, 0},
                                          {"mov.s16", NULL, same, 0},
                                          {"mov.s32", NULL, same, 0},
                                          {"mov.s64", NULL, same, 0},
                                          {"mov.f32", NULL, same, 0},
                                          {"mov.f64", NULL, same, 0},
                                          {"mov.pred", NULL, same, 0},
                                          {0}};
