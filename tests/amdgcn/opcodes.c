/* Instructions one by one: each row's text runs on 64 lanes of chosen and random words and is compared with a plain
   function of the lanes. What the functions say comes from AMD's instruction set documents, not from the emulator. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "tests/amdgcn/testing.h"

enum {
    LANES = 64,
    SOURCES = 3,
    GFX90A = 1,
    GFX942 = 2,
    GFX1030 = 4,
    GFX1100 = 8,
    GFX1200 = 16,
    GFX9 = 3,
    LATER = 28,
    ANY = 31
};

typedef uint64_t lanes_in[SOURCES][LANES];
typedef uint64_t (*expectation)(lanes_in in, int lane, int lanes);

typedef struct opcode_row {
    const char *text;  /* $0 = result, $1.. = sources; VCC = the mask register of the wavefront */
    const char *types; /* result, sources: w 32 bits, d 64 bits, f and g their floats, h the lower 16 bits */
    int arches;
    expectation expected;
} opcode_row;

#define A            ((uint32_t)in[0][l])
#define B            ((uint32_t)in[1][l])
#define C            ((uint32_t)in[2][l])
#define EXPECT(NAME) static uint64_t NAME(lanes_in in, int l, int lanes)
#define UNUSED_LANES (void)lanes

/* -- what is expected */

EXPECT(add) {
    UNUSED_LANES;
    return A + B;
}
EXPECT(sub_reversed) {
    UNUSED_LANES;
    return B - A;
}
EXPECT(mul_low) {
    UNUSED_LANES;
    return A * B;
}
EXPECT(mul_high) {
    UNUSED_LANES;
    return (uint64_t)A * B >> 32;
}
EXPECT(mul_high_signed) {
    UNUSED_LANES;
    return (uint32_t)((uint64_t)((int64_t)(int32_t)A * (int32_t)B) >> 32);
}
EXPECT(mul24) {
    UNUSED_LANES;
    return (uint32_t)((uint64_t)(A % (1 << 24)) * (B % (1 << 24)));
}
EXPECT(mad24_signed) {
    UNUSED_LANES;
    int64_t a = A % (1 << 24), b = B % (1 << 24);
    if (a >= 1 << 23) a -= 1 << 24;
    if (b >= 1 << 23) b -= 1 << 24;
    return (uint32_t)(a * b + (int64_t)C);
}
EXPECT(shift_left) {
    UNUSED_LANES;
    return (uint32_t)(B << (A % 32));
}
EXPECT(shift_signed) {
    UNUSED_LANES;
    return (uint32_t)((int32_t)B >> (A % 32));
}
EXPECT(shift_add) {
    UNUSED_LANES;
    return (uint32_t)((A << (B % 32)) + C);
}
EXPECT(field) {
    UNUSED_LANES;
    uint64_t mask = (UINT64_C(1) << (C % 32)) - 1;
    return (A >> (B % 32)) & mask;
}
EXPECT(field_signed) {
    UNUSED_LANES;
    unsigned width = C % 32;
    int64_t x = ((int64_t)(int32_t)A >> (B % 32)) & (int64_t)((UINT64_C(1) << width) - 1);
    if (width && x >> (width - 1)) x -= INT64_C(1) << width;
    return (uint32_t)x;
}
EXPECT(merge) {
    UNUSED_LANES;
    return (A & B) | (~A & C);
}
EXPECT(align_bits) {
    UNUSED_LANES;
    return (uint32_t)((((uint64_t)A << 32) | B) >> (C % 32));
}
EXPECT(permute_bytes) {
    UNUSED_LANES;
    uint8_t bytes[8];
    uint32_t result = 0, b = B, a = A;
    memcpy(bytes, &b, 4);
    memcpy(bytes + 4, &a, 4);
    for (int i = 0; i < 4; i++) {
        unsigned s = C >> 8 * i & 15, value = s < 8                          ? bytes[s]
                                              : s == 12                      ? 0
                                              : s > 12                       ? 255
                                              : bytes[2 * (s - 8) + 1] & 128 ? 255
                                                                             : 0;
        result |= value << 8 * i;
    }
    return result;
}
EXPECT(bits_counted) {
    UNUSED_LANES;
    return (uint32_t)__builtin_popcount(A) + B;
}
EXPECT(reversed_bits) {
    UNUSED_LANES;
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        if (A & 1U << i) r |= 0x80000000U >> i;
    return r;
}
EXPECT(first_high) {
    UNUSED_LANES;
    for (int i = 31; i >= 0; i--)
        if (A >> i & 1) return (uint32_t)(31 - i);
    return UINT32_MAX;
}
EXPECT(middle_signed) {
    UNUSED_LANES;
    int32_t a = (int32_t)A, b = (int32_t)B, c = (int32_t)C;
    return (uint32_t)((a <= b && b <= c) || (c <= b && b <= a) ? b : (b <= a && a <= c) || (c <= a && a <= b) ? a : c);
}
EXPECT(add64) {
    UNUSED_LANES;
    return in[0][l] + in[1][l];
}
EXPECT(shift64) {
    UNUSED_LANES;
    return in[1][l] >> (A % 64);
}
EXPECT(shift64_signed) {
    UNUSED_LANES;
    return (uint64_t)((int64_t)in[1][l] >> (A % 64));
}
EXPECT(product64) {
    UNUSED_LANES;
    return (uint64_t)A * B + in[2][l];
}
EXPECT(product64_signed) {
    UNUSED_LANES;
    return (uint64_t)((int64_t)(int32_t)A * (int32_t)B) + in[2][l];
}
EXPECT(carries) {
    UNUSED_LANES;
    return ((uint64_t)A + B) >> 32;
}
EXPECT(borrows) {
    UNUSED_LANES;
    return A < B;
}
EXPECT(less_signed) {
    UNUSED_LANES;
    return (int32_t)A < (int32_t)B;
}
EXPECT(greater_equal64) {
    UNUSED_LANES;
    return in[0][l] >= in[1][l];
}
EXPECT(less_float) {
    UNUSED_LANES;
    return number_f32(A) < number_f32(B);
}
EXPECT(not_less_float) {
    UNUSED_LANES;
    return !(number_f32(A) < number_f32(B));
}
EXPECT(not_equal_float) {
    UNUSED_LANES;
    return number_f32(A) != number_f32(B);
}
EXPECT(less_or_greater_double) {
    UNUSED_LANES;
    return number_f64(in[0][l]) < number_f64(in[1][l]) || number_f64(in[0][l]) > number_f64(in[1][l]);
}
EXPECT(is_nan_or_infinite) {
    UNUSED_LANES;
    return isnan(number_f32(A)) || isinf(number_f32(A));
}
EXPECT(is_negative_zero) {
    UNUSED_LANES;
    return A == 0x80000000;
}

EXPECT(fma_float) {
    UNUSED_LANES;
    return number_bits32(fmaf(number_f32(A), number_f32(B), number_f32(C)));
}
EXPECT(fma_signs) {
    UNUSED_LANES;
    return number_bits32(fmaf(-number_f32(A), fabsf(number_f32(B)), -fabsf(number_f32(C))));
}
EXPECT(add_doubled) {
    UNUSED_LANES;
    return number_bits32((number_f32(A) + number_f32(B)) * 2);
}
EXPECT(mul_clamped) {
    UNUSED_LANES;
    float x = number_f32(A) * number_f32(B);
    return number_bits32(x != x ? 0 : x <= 0 ? 0 : x > 1 ? 1 : x);
}
EXPECT(max_float) {
    UNUSED_LANES;
    return number_bits32(fmaxf(number_f32(A), number_f32(B)));
}
EXPECT(middle_float) {
    UNUSED_LANES;
    float a = number_f32(A), b = number_f32(B), c = number_f32(C);
    if (isnan(a) || isnan(b) || isnan(c)) return number_bits32(fminf(fminf(a, b), c));
    return number_bits32(fmaxf(fminf(a, b), fminf(fmaxf(a, b), c)));
}
EXPECT(round_even) {
    UNUSED_LANES;
    return number_bits32(rintf(number_f32(A)));
}
EXPECT(exponent_float) {
    UNUSED_LANES;
    int e = 0;
    if (isfinite(number_f32(A))) (void)frexpf(number_f32(A), &e);
    return (uint32_t)e;
}
EXPECT(scale_float) {
    UNUSED_LANES;
    return number_bits32(ldexpf(number_f32(A), (int)(B & 63) - 32));
}
EXPECT(fma_double) {
    UNUSED_LANES;
    return number_bits64(fma(number_f64(in[0][l]), number_f64(in[1][l]), number_f64(in[2][l])));
}
EXPECT(floor_double) {
    UNUSED_LANES;
    return number_bits64(floor(number_f64(in[0][l])));
}

EXPECT(to_int) {
    UNUSED_LANES;
    double x = (double)number_f32(A);
    return isnan(x) ? 0 : x >= 2147483647.0 ? 0x7fffffff : x <= -2147483648.0 ? 0x80000000 : (uint32_t)(int32_t)x;
}
EXPECT(to_unsigned) {
    UNUSED_LANES;
    double x = (double)number_f32(A);
    return isnan(x) || x <= 0 ? 0 : x >= 4294967295.0 ? 0xffffffff : (uint32_t)x;
}
EXPECT(from_unsigned) {
    UNUSED_LANES;
    return number_bits32((float)A);
}
EXPECT(from_byte2) {
    UNUSED_LANES;
    return number_bits32((float)(A >> 16 & 255));
}
EXPECT(narrowed) {
    UNUSED_LANES;
    return number_bits32((float)number_f64(in[0][l]));
}
EXPECT(double_to_int) {
    UNUSED_LANES;
    double x = number_f64(in[0][l]);
    return isnan(x) ? 0 : x >= 2147483647.0 ? 0x7fffffff : x <= -2147483648.0 ? 0x80000000 : (uint32_t)(int32_t)x;
}
EXPECT(half_of_float) {
    UNUSED_LANES;
    return number_bits16((double)number_f32(A));
}
EXPECT(float_of_half) {
    UNUSED_LANES;
    return number_bits32(number_f16(A & 0xffff));
}

EXPECT(add_halves) {
    UNUSED_LANES;
    return number_bits16((double)number_f16(A & 0xffff) + (double)number_f16(B & 0xffff));
}
EXPECT(add_high_halves) {
    UNUSED_LANES;
    return ((A >> 16) + B) & 0xffff;
}
EXPECT(packed_products) {
    UNUSED_LANES;
    return number_bits16((double)number_f16(A & 0xffff) * (double)number_f16(B & 0xffff)) |
           number_bits16((double)number_f16(A >> 16) * (double)number_f16(B >> 16)) << 16;
}
EXPECT(packed_crossed) {
    UNUSED_LANES;
    return ((A >> 16) + (B & 0xffff)) % 65536 | ((A & 0xffff) + (B & 0xffff)) % 65536 << 16;
}
EXPECT(packed_shifts) {
    UNUSED_LANES;
    return (B % 65536 << (A % 16)) % 65536 | ((B >> 16) << (A >> 16) % 16) % 65536 << 16;
}
EXPECT(mixed_product) {
    UNUSED_LANES;
    return number_bits32(fmaf(number_f16(A >> 16), number_f32(B), number_f32(C)));
}
EXPECT(dot_bytes) {
    UNUSED_LANES;
    int64_t sum = (int32_t)C;
    for (int i = 0; i < 4; i++) sum += (int8_t)(A >> 8 * i) * (int8_t)(B >> 8 * i);
    return (uint32_t)sum;
}
EXPECT(pack_halves) {
    UNUSED_LANES;
    return (A & 0xffff) | (B >> 16) << 16;
}
EXPECT(float_pairs) {
    UNUSED_LANES;
    uint64_t a = in[0][l], b = in[1][l];
    return number_bits32(number_f32((uint32_t)a) * number_f32((uint32_t)b)) |
           (uint64_t)number_bits32(number_f32((uint32_t)(a >> 32)) * number_f32((uint32_t)(b >> 32))) << 32;
}

/* lanes */
EXPECT(quad_reversed) {
    UNUSED_LANES;
    return (uint32_t)in[0][l ^ 3];
}
EXPECT(row_shifted) {
    UNUSED_LANES;
    return l % 16 >= 2 ? (uint32_t)in[0][l - 2] : 0;
}
EXPECT(row_rotated_added) {
    UNUSED_LANES;
    return (uint32_t)in[0][(l & ~15) | ((l - 3) & 15)] + B;
}
EXPECT(half_mirrored) {
    UNUSED_LANES;
    return (uint32_t)in[0][(l & ~7) | (7 - (l & 7))];
}
EXPECT(row_xored) {
    UNUSED_LANES;
    return (uint32_t)in[0][l ^ 9];
}
EXPECT(masked_rows) {
    UNUSED_LANES;
    return l / 16 % 2 == 0 ? (uint32_t)in[0][l ^ 1] : B;
}
EXPECT(low_word_plus_byte) {
    UNUSED_LANES;
    return (A >> 16) + (B >> 8 & 255);
}
EXPECT(signed_byte_word) {
    UNUSED_LANES;
    return (uint32_t)((int32_t)(int8_t)(A >> 24) + (int32_t)(int16_t)(B & 0xffff));
}
EXPECT(into_high_word) {
    UNUSED_LANES;
    return (C & 0xffff) | ((A | B) & 0xffff) << 16;
}
EXPECT(pulled) { return (uint32_t)in[1][(A / 4) % (unsigned)lanes]; }
EXPECT(swapped_sixteen) {
    UNUSED_LANES;
    return (uint32_t)in[0][l ^ 16];
}
EXPECT(first_of_eight) {
    UNUSED_LANES;
    return (uint32_t)in[0][l & ~7];
}
EXPECT(lane_number) {
    UNUSED_LANES;
    (void)in;
    return (uint32_t)l;
}
EXPECT(lane_five) {
    UNUSED_LANES;
    (void)l;
    return (uint32_t)in[0][5];
}
EXPECT(even_or_old) {
    UNUSED_LANES;
    return (A & 1) ? C : A + B;
}
EXPECT(swapped_halves) { return (uint32_t)in[0][lanes == 64 ? l ^ 32 : l]; }

/* scalars: of lane 0 */
#define A0          ((uint32_t)in[0][0])
#define B0          ((uint32_t)in[1][0])
#define UNUSED_LANE (void)l, (void)lanes
EXPECT(scalar_field) {
    UNUSED_LANE;
    unsigned at = B0 & 31, width = B0 >> 16 & 31;
    int64_t x = (int64_t)(int32_t)A0 >> at & (int64_t)((UINT64_C(1) << width) - 1);
    if (width && x >> (width - 1)) x -= INT64_C(1) << width;
    return (uint32_t)x;
}
EXPECT(scalar_high) {
    UNUSED_LANE;
    return (uint32_t)((uint64_t)((int64_t)(int32_t)A0 * (int32_t)B0) >> 32);
}
EXPECT(scalar_shift_sum) {
    UNUSED_LANE;
    return (uint32_t)((A0 << 2) + B0);
}
EXPECT(scalar_count) {
    UNUSED_LANE;
    return (uint64_t)(uint32_t)__builtin_popcount(A0);
}
EXPECT(scalar_carry) {
    UNUSED_LANE;
    return ((uint64_t)A0 + B0) >> 32;
}
EXPECT(scalar_overflow) {
    UNUSED_LANE;
    int64_t exact = (int64_t)(int32_t)A0 - (int32_t)B0;
    return exact < INT32_MIN || exact > INT32_MAX;
}
EXPECT(scalar_smaller) {
    UNUSED_LANE;
    return (int32_t)A0 < (int32_t)B0 ? A0 : B0;
}
EXPECT(scalar_packed) {
    UNUSED_LANE;
    return (A0 & 0xffff) | (B0 & 0xffff0000);
}
EXPECT(scalar_extended) {
    UNUSED_LANE;
    int32_t x = (int8_t)A0;
    return (uint32_t)x;
}
EXPECT(scalar_bit) {
    UNUSED_LANE;
    return A0 >> (B0 & 31) & 1;
}
EXPECT(scalar_less) {
    UNUSED_LANE;
    return (int32_t)A0 < (int32_t)B0;
}
EXPECT(scalar_exp2) { /* towards zero, without denormals: float.c */
    UNUSED_LANE;
    float x = number_f32(A0), wide = (float)exp2((double)(fabsf(x) < 0x1p-126F ? 0 : x));
    if ((double)wide > exp2((double)x) && isfinite(exp2((double)x))) wide = number_f32(number_bits32(wide) - 1);
    return number_bits32(wide < 0x1p-126F ? 0 : wide);
}
EXPECT(scalar_half_sum) {
    UNUSED_LANE;
    return number_bits16((double)number_f16(A0) + (double)number_f16(B0));
}
EXPECT(scalar_half_less) {
    UNUSED_LANE;
    return number_f16(A0) < number_f16(B0);
}
EXPECT(scalar_high_half) {
    UNUSED_LANE;
    return number_bits32(number_f16(A0 >> 16));
}
EXPECT(scalar_half_fma) {
    UNUSED_LANE;
    return number_bits16((double)number_f16(A0) * (double)number_f16(B0) + 0.5);
}
EXPECT(scalar_root) {
    UNUSED_LANE;
    double x = fabs((double)number_f32(A0)), r = sqrt(x < 0x1p-126 ? 0 : x);
    float near = (float)r;
    if (isfinite(r) && (double)near > r) near = number_f32(number_bits32(near) - 1);
    return number_bits32(near);
}
EXPECT(scalar_wide_shift) {
    UNUSED_LANE;
    return (uint32_t)(((uint64_t)B0 << 32 | A0) >> (B0 & 63));
}
EXPECT(scalar_and_not) {
    UNUSED_LANE;
    return A0 & ~B0;
}

/* 8-bit floats of CDNA 3: exponents biased by 8, one number that is none, 0x80 */
EXPECT(of_fp8) {
    UNUSED_LANES;
    unsigned byte = A >> 16 & 255, exponent = byte >> 3 & 15, fraction = byte & 7;
    if (byte == 0x80) return 0x7fc00000;
    float x = exponent ? ldexpf(1 + (float)fraction / 8, (int)exponent - 8) : ldexpf((float)fraction / 8, -7);
    return number_bits32(byte & 128 ? -x : x);
}
EXPECT(dot_halves) {
    UNUSED_LANES;
    float low = fmaf(number_f16(A & 0xffff), number_f16(B & 0xffff), number_f32(C));
    return number_bits32(fmaf(number_f16(A >> 16), number_f16(B >> 16), low));
}
EXPECT(cut_pair) { /* towards zero */
    UNUSED_LANES;
    uint64_t r = 0;
    for (int i = 0; i < 2; i++) {
        float x = number_f32(i ? B : A);
        uint32_t h = number_bits16((double)x);
        if (isfinite(x) && (isinf(number_f16(h)) || fabsf(number_f16(h)) > fabsf(x))) h--;
        r |= (uint64_t)h << 16 * i;
    }
    return r;
}
EXPECT(differences) {
    UNUSED_LANES;
    uint32_t sum = C;
    for (int i = 0; i < 32; i += 8) sum += (uint32_t)abs((int)(A >> i & 255) - (int)(B >> i & 255));
    return sum;
}
EXPECT(saturated_pair) {
    UNUSED_LANES;
    int32_t x = (int32_t)A, y = (int32_t)B;
    x = x > 32767 ? 32767 : x < -32768 ? -32768 : x, y = y > 32767 ? 32767 : y < -32768 ? -32768 : y;
    return ((uint32_t)x & 0xffff) | (uint32_t)y << 16;
}
EXPECT(largest) {
    UNUSED_LANES;
    uint32_t x = A > B ? A : B;
    return x > C ? x : C;
}
EXPECT(mantissa) {
    UNUSED_LANES;
    int e;
    double x = number_f64(in[0][l]);
    return number_bits64(isfinite(x) && x != 0 ? frexp(x, &e) : x);
}
EXPECT(row_picked) {
    UNUSED_LANES;
    return (uint32_t)in[0][(l & ~15) | (15 - (l & 15))];
}
EXPECT(other_row_picked) {
    UNUSED_LANES;
    return (uint32_t)in[0][((l & ~15) ^ 16) | (15 - (l & 15))];
}

/* A mask of lanes, seen by each of them as 0 or 1. */
#define MASK(TEXT) TEXT "\n v_cndmask_b32 $0, 0, 1, VCC"

/* Scalars of lane 0 in s20 and s21; the result in s20. */
#define SCALARS(TEXT)                                                                                                  \
    "v_readfirstlane_b32 s20, $1\n v_readfirstlane_b32 s21, $2\n s_nop 4\n " TEXT "\n v_mov_b32 $0, s20"

static const opcode_row rows[] = {
    {"v_add_u32 $0, $1, $2", "www", GFX9, add},
    {"v_add_nc_u32 $0, $1, $2", "www", LATER, add},
    {"v_subrev_u32 $0, $1, $2", "www", GFX9, sub_reversed},
    {"v_subrev_nc_u32 $0, $1, $2", "www", LATER, sub_reversed},
    {"v_mul_lo_u32 $0, $1, $2", "www", ANY, mul_low},
    {"v_mul_hi_u32 $0, $1, $2", "www", ANY, mul_high},
    {"v_mul_hi_i32 $0, $1, $2", "www", ANY, mul_high_signed},
    {"v_mul_u32_u24 $0, $1, $2", "www", ANY, mul24},
    {"v_mad_i32_i24 $0, $1, $2, $3", "wwww", ANY, mad24_signed},
    {"v_lshlrev_b32 $0, $1, $2", "www", ANY, shift_left},
    {"v_ashrrev_i32 $0, $1, $2", "www", ANY, shift_signed},
    {"v_lshl_add_u32 $0, $1, $2, $3", "wwww", ANY, shift_add},
    {"v_bfe_u32 $0, $1, $2, $3", "wwww", ANY, field},
    {"v_bfe_i32 $0, $1, $2, $3", "wwww", ANY, field_signed},
    {"v_bfi_b32 $0, $1, $2, $3", "wwww", ANY, merge},
    {"v_alignbit_b32 $0, $1, $2, $3", "wwww", ANY, align_bits},
    {"v_and_b32 v40, 0x0f0f0f0f, $3\n v_perm_b32 $0, $1, $2, v40", "wwww", ANY, permute_bytes},
    {"v_bcnt_u32_b32 $0, $1, $2", "www", ANY, bits_counted},
    {"v_bfrev_b32 $0, $1", "ww", ANY, reversed_bits},
    {"v_ffbh_u32 $0, $1", "ww", GFX9, first_high},
    {"v_med3_i32 $0, $1, $2, $3", "wwww", ANY, middle_signed},
    {"v_lshl_add_u64 $0, $1, 0, $2", "ddd", GFX942, add64},
    {"v_lshrrev_b64 $0, $1, $2", "dwd", ANY, shift64},
    {"v_ashrrev_i64 $0, $1, $2", "dwd", ANY, shift64_signed},
    {"v_mad_u64_u32 $0, VCC, $1, $2, $3", "dwwd", GFX9 | GFX1030 | GFX1100, product64},
    {"v_mad_i64_i32 $0, VCC, $1, $2, $3", "dwwd", GFX9 | GFX1030 | GFX1100, product64_signed},
    {MASK("v_add_co_u32 $0, VCC, $1, $2"), "www", ANY, carries},
    {MASK("v_sub_co_u32 $0, VCC, $1, $2"), "www", ANY, borrows},
    {MASK("v_cmp_lt_i32 VCC, $1, $2"), "www", ANY, less_signed},
    {MASK("v_cmp_ge_u64 VCC, $1, $2"), "wdd", ANY, greater_equal64},
    {MASK("v_cmp_lt_f32 VCC, $1, $2"), "www", ANY, less_float},
    {MASK("v_cmp_nlt_f32 VCC, $1, $2"), "www", ANY, not_less_float},
    {MASK("v_cmp_neq_f32 VCC, $1, $2"), "www", ANY, not_equal_float},
    {MASK("v_cmp_lg_f64 VCC, $1, $2"), "wdd", ANY, less_or_greater_double},
    {MASK("v_mov_b32 v40, 0x207\n v_cmp_class_f32 VCC, $1, v40"), "ww", ANY, is_nan_or_infinite},
    {MASK("v_cmp_class_f32 VCC, $1, 32"), "ww", GFX1100 | GFX1200 | GFX1030, is_negative_zero},
    {"v_fma_f32 $0, $1, $2, $3", "fwww", ANY, fma_float},
    {"v_mov_b32 $0, $3\n v_fmac_f32 $0, $1, $2", "fwww", ANY, fma_float},
    {"v_fma_f32 $0, -$1, |$2|, -|$3|", "fwww", ANY, fma_signs},
    {"v_add_f32 $0, $1, $2 mul:2", "fww", ANY, add_doubled},
    {"v_mul_f32 $0, $1, $2 clamp", "fww", ANY, mul_clamped},
    {"v_max_f32 $0, $1, $2", "fww", GFX9 | GFX1030 | GFX1100, max_float},
    {"v_max_num_f32 $0, $1, $2", "fww", GFX1200, max_float},
    {"v_med3_f32 $0, $1, $2, $3", "fwww", GFX9 | GFX1030 | GFX1100, middle_float},
    {"v_rndne_f32 $0, $1", "fw", ANY, round_even},
    {"v_frexp_exp_i32_f32 $0, $1", "ww", ANY, exponent_float},
    {"v_and_b32 v40, 63, $2\n v_subrev_u32 v40, 32, v40\n v_ldexp_f32 $0, $1, v40", "fww", GFX9, scale_float},
    {"v_and_b32 v40, 63, $2\n v_subrev_nc_u32 v40, 32, v40\n v_ldexp_f32 $0, $1, v40", "fww", LATER, scale_float},
    {"v_fma_f64 $0, $1, $2, $3", "gddd", ANY, fma_double},
    {"v_floor_f64 $0, $1", "gd", ANY, floor_double},
    {"v_cvt_i32_f32 $0, $1", "ww", ANY, to_int},
    {"v_cvt_u32_f32 $0, $1", "ww", ANY, to_unsigned},
    {"v_cvt_f32_u32 $0, $1", "ww", ANY, from_unsigned},
    {"v_cvt_f32_ubyte2 $0, $1", "ww", ANY, from_byte2},
    {"v_cvt_f32_f64 $0, $1", "fd", ANY, narrowed},
    {"v_cvt_i32_f64 $0, $1", "wd", ANY, double_to_int},
    {"v_cvt_f16_f32 $0, $1", "hw", ANY, half_of_float},
    {"v_cvt_f32_f16 $0, $1", "fw", ANY, float_of_half},
    {"v_add_f16 $0, $1, $2", "hww", ANY, add_halves},
    {"v_add_nc_u16 $0, $1, $2 op_sel:[1,0,0]", "hww", LATER, add_high_halves},
    {"v_pk_mul_f16 $0, $1, $2", "pww", ANY, packed_products},
    {"v_pk_add_u16 $0, $1, $2 op_sel:[1,0] op_sel_hi:[0,0]", "www", ANY, packed_crossed},
    {"v_pk_lshlrev_b16 $0, $1, $2", "www", ANY, packed_shifts},
    {"v_fma_mix_f32 $0, $1, $2, $3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", "fwww", ANY, mixed_product},
    {"v_dot4_i32_i8 $0, $1, $2, $3", "wwww", GFX9 | GFX1030, dot_bytes},
    {"v_dot4_i32_iu8 $0, $1, $2, $3 neg_lo:[1,1,0]", "wwww", GFX1100 | GFX1200, dot_bytes},
    {"v_pack_b32_f16 $0, $1, $2 op_sel:[0,1,0]", "www", ANY, pack_halves},
    {"v_pk_mul_f32 $0, $1, $2", "Fdd", GFX9, float_pairs},
    {"v_mov_b32_dpp $0, $1 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", "ww", ANY, quad_reversed},
    {"v_mov_b32 $0, 0\n s_nop 1\n v_mov_b32_dpp $0, $1 row_shr:2 row_mask:0xf bank_mask:0xf bound_ctrl:0", "ww", ANY,
     row_shifted},
    {"v_add_u32_dpp $0, $1, $2 row_ror:3 row_mask:0xf bank_mask:0xf", "www", GFX9, row_rotated_added},
    {"v_add_nc_u32_dpp $0, $1, $2 row_ror:3 row_mask:0xf bank_mask:0xf", "www", LATER, row_rotated_added},
    {"v_mov_b32_dpp $0, $1 row_half_mirror row_mask:0xf bank_mask:0xf", "ww", ANY, half_mirrored},
    {"v_mov_b32_dpp $0, $1 row_xmask:9 row_mask:0xf bank_mask:0xf", "ww", LATER, row_xored},
    {"v_mov_b32 $0, $2\n s_nop 1\n v_mov_b32_dpp $0, $1 quad_perm:[1,0,3,2] row_mask:0x5 bank_mask:0xf", "www", ANY,
     masked_rows},
    {"v_add_u32_sdwa $0, $1, $2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_1", "www", GFX9,
     low_word_plus_byte},
    {"v_add_u32_sdwa $0, sext($1), sext($2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:WORD_0", "www",
     GFX9, signed_byte_word},
    {"v_mov_b32 $0, $3\n v_or_b32_sdwa $0, $1, $2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD",
     "wwww", GFX9, into_high_word},
    {"ds_bpermute_b32 $0, $1, $2\n s_waitcnt lgkmcnt(0)", "www", GFX9 | GFX1030 | GFX1100, pulled},
    {"ds_swizzle_b32 $0, $1 offset:swizzle(SWAP,16)\n s_waitcnt lgkmcnt(0)", "ww", GFX9 | GFX1030 | GFX1100,
     swapped_sixteen},
    {"ds_swizzle_b32 $0, $1 offset:swizzle(BROADCAST,8,0)\n s_waitcnt lgkmcnt(0)", "ww", GFX9 | GFX1030 | GFX1100,
     first_of_eight},
    {"ds_swizzle_b32 $0, $1 offset:swizzle(BITMASK_PERM, \\22pp000\\22)\n s_waitcnt lgkmcnt(0)", "ww",
     GFX9 | GFX1030 | GFX1100, first_of_eight},
    {"v_mbcnt_lo_u32_b32 $0, -1, 0\n v_mbcnt_hi_u32_b32 $0, -1, $0", "ww", ANY, lane_number},
    {"v_readlane_b32 s20, $1, 5\n s_nop 4\n v_mov_b32 $0, s20", "ww", ANY, lane_five},
    {"v_mov_b32 $0, $3\n v_and_b32 v40, 1, $1\n v_cmp_eq_u32 VCC, 0, v40\n s_mov_b64 s[20:21], exec\n s_and_b64 exec, exec, vcc\n"
     " v_add_u32 $0, $1, $2\n s_mov_b64 exec, s[20:21]",
     "wwww", GFX9, even_or_old},
    {"v_mov_b32 $0, $3\n v_and_b32 v40, 1, $1\n v_cmp_eq_u32 VCC, 0, v40\n s_and_saveexec_b32 s20, VCC\n"
     " v_add_nc_u32 $0, $1, $2\n s_mov_b32 exec_lo, s20",
     "wwww", LATER, even_or_old},
    {"v_permlane64_b32 $0, $1", "ww", GFX1100, swapped_halves},
    {SCALARS("s_and_b32 s21, s21, 0x1f001f\n s_bfe_i32 s20, s20, s21"), "www", ANY, scalar_field},
    {SCALARS("s_mul_hi_i32 s20, s20, s21"), "www", ANY, scalar_high},
    {SCALARS("s_lshl2_add_u32 s20, s20, s21"), "www", ANY, scalar_shift_sum},
    {SCALARS("s_bcnt1_i32_b32 s20, s20"), "www", ANY, scalar_count},
    {SCALARS("s_add_u32 s20, s20, s21\n s_addc_u32 s20, 0, 0"), "www", ANY, scalar_carry},
    {SCALARS("s_sub_i32 s20, s20, s21\n s_cselect_b32 s20, 1, 0"), "www", ANY, scalar_overflow},
    {SCALARS("s_min_i32 s20, s20, s21"), "www", ANY, scalar_smaller},
    {SCALARS("s_pack_lh_b32_b16 s20, s20, s21"), "www", ANY, scalar_packed},
    {SCALARS("s_sext_i32_i8 s20, s20"), "www", ANY, scalar_extended},
    {SCALARS("s_bitcmp1_b32 s20, s21\n s_cselect_b32 s20, 1, 0"), "www", ANY, scalar_bit},
    {SCALARS("s_cmp_lt_i32 s20, s21\n s_cselect_b32 s20, 1, 0"), "www", ANY, scalar_less},
    {SCALARS("v_s_exp_f32 s20, s20"), "fww", GFX1200, scalar_exp2},
    {SCALARS("v_s_sqrt_f32 s20, |s20|"), "fww", GFX1200, scalar_root},
    {SCALARS("s_add_f16 s20, s20, s21"), "hww", GFX1200, scalar_half_sum},
    {SCALARS("s_mov_b32 s22, 0x3800\n s_fmac_f16 s22, s20, s21\n s_mov_b32 s20, s22"), "hww", GFX1200, scalar_half_fma},
    {SCALARS("s_cmp_lt_f16 s20, s21\n s_cselect_b32 s20, 1, 0"), "www", GFX1200, scalar_half_less},
    {SCALARS("s_cvt_hi_f32_f16 s20, s20"), "fww", GFX1200, scalar_high_half},
    {SCALARS("s_mov_b32 s22, s21\n s_lshr_b64 s[20:21], s[20:21], s22"), "www", ANY, scalar_wide_shift},
    {SCALARS("s_andn2_b32 s20, s20, s21"), "www", GFX9 | GFX1030, scalar_and_not},
    {SCALARS("s_and_not1_b32 s20, s20, s21"), "www", GFX1100 | GFX1200, scalar_and_not},
    {"v_cvt_f32_fp8_sdwa $0, $1 src0_sel:BYTE_2", "fw", GFX942, of_fp8},
    {"v_dot2_f32_f16 $0, $1, $2, $3", "fwww", GFX9 | GFX1030 | GFX1100, dot_halves},
    {"v_cvt_pkrtz_f16_f32 $0, $1, $2", "pww", GFX9 | GFX1030, cut_pair},
    {"v_cvt_pk_rtz_f16_f32 $0, $1, $2", "pww", GFX1100 | GFX1200, cut_pair},
    {"v_sad_u8 $0, $1, $2, $3", "wwww", ANY, differences},
    {"v_cvt_pk_i16_i32 $0, $1, $2", "www", ANY, saturated_pair},
    {"v_max3_u32 $0, $1, $2, $3", "wwww", ANY, largest},
    {"v_frexp_mant_f64 $0, $1", "gd", ANY, mantissa},
    {"s_mov_b32 s20, 0x89abcdef\n s_mov_b32 s21, 0x01234567\n v_permlane16_b32 $0, $1, s20, s21", "ww", LATER,
     row_picked},
    {"s_mov_b32 s20, 0x89abcdef\n s_mov_b32 s21, 0x01234567\n v_permlanex16_b32 $0, $1, s20, s21", "ww", LATER,
     other_row_picked},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* -- running them */

static bool is_wide(char type) { return strchr("dgF", type) != NULL; }

/* One kernel a row: loads each lane's sources, runs the text, stores the result as 64 bits. */
static void append_kernel(weft_text *text, int index, const opcode_row *row, int lanes) {
    int sources = (int)strlen(row->types) - 1;
    weft_text_append(text, "define amdgpu_kernel void @k%d(ptr addrspace(1) %%in, ptr addrspace(1) %%out) #0 {\n",
                     index);
    weft_text_append(text, "  %%id = call i32 @llvm.amdgcn.workitem.id.x()\n");
    for (int s = 0; s < sources; s++) {
        weft_text_append(text, "  %%n%d = add i32 %%id, %d\n", s, s * LANES);
        weft_text_append(text, "  %%p%d = getelementptr i64, ptr addrspace(1) %%in, i32 %%n%d\n", s, s);
        weft_text_append(text, "  %%d%d = load i64, ptr addrspace(1) %%p%d\n", s, s);
        weft_text_append(text, "  %%w%d = trunc i64 %%d%d to i32\n", s, s);
    }
    bool wide = is_wide(row->types[0]);
    weft_text_append(text, "  %%r = call %s asm sideeffect \"", wide ? "i64" : "i32");
    for (const char *c = row->text; *c;) {
        if (!strncmp(c, "VCC", 3)) {
            weft_text_append(text, "%s", lanes == 64 ? "vcc" : "vcc_lo");
            c += 3;
            continue;
        }
        weft_text_append(text, *c == '\n' ? "\\0A" : "%c", *c);
        c++;
    }
    weft_text_append(text, "\", \"=&v");
    for (int s = 0; s < sources; s++) weft_text_append(text, ",v");
    weft_text_append(text, ",~{vcc},~{v40},~{s20},~{s21},~{s22},~{scc}\"(");
    for (int s = 0; s < sources; s++)
        weft_text_append(text, is_wide(row->types[1 + s]) ? "%si64 %%d%d" : "%si32 %%w%d", s ? ", " : "", s);
    weft_text_append(text, ")\n");
    if (!wide) weft_text_append(text, "  %%x = zext i32 %%r to i64\n");
    weft_text_append(text, "  %%o = getelementptr i64, ptr addrspace(1) %%out, i32 %%id\n");
    weft_text_append(text, "  store i64 %%%s, ptr addrspace(1) %%o\n  ret void\n}\n", wide ? "r" : "x");
}

/* Round numbers, ends of ranges, numbers that are not; then floats of ordinary size; then any bits. */
static void fill(lanes_in in, uint64_t seed) {
    static const uint32_t words[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000, 0x3f800000,
                                     0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x00800000,
                                     0x3c003c00, 0x7bff0400, 0x40490fdb, 0xc2f6e979, 0x0000ffff, 0x4f000000,
                                     0xcf000000, 0x4f800000, 31,         32};
    enum { WORDS = sizeof words / sizeof *words };
    for (int s = 0; s < SOURCES; s++)
        for (int l = 0; l < LANES; l++) {
            uint64_t bits = number_random(&seed), pick = number_random(&seed) % 4;
            float x = (float)(int64_t)(bits % 2001) / 8 - 125;
            if (pick == 0) bits = words[bits % WORDS] | (uint64_t)words[bits / 64 % WORDS] << 32;
            if (pick == 1) bits = number_bits32(x) | (uint64_t)number_bits32(x) << 32;
            if (pick == 2) bits = number_bits64((double)x * 1.1);
            in[s][l] = bits;
        }
}

static bool is_nan(char type, uint64_t bits) {
    if (type == 'f') return isnan(number_f32((uint32_t)bits));
    if (type == 'h') return isnan(number_f16((uint32_t)bits & 0xffff));
    return type == 'g' && isnan(number_f64(bits));
}

/* Numbers that are not: any of them. Packed results are compared by parts. */
static bool same(char type, uint64_t got, uint64_t wanted) {
    if (type == 'h') got &= 0xffff;
    if (type == 'p') return same('h', got, wanted & 0xffff) && same('h', got >> 16, wanted >> 16);
    if (type == 'F') return same('f', (uint32_t)got, (uint32_t)wanted) && same('f', got >> 32, wanted >> 32);
    return got == wanted || (is_nan(type, got) && is_nan(type, wanted));
}

static void run_row(amdgcn_machine *machine, amdgcn_code *code, int index, const char *arch, int lanes) {
    enum { ROUNDS = 8 };
    static lanes_in in;
    static uint64_t out[LANES];
    const opcode_row *row = &rows[index];
    char name[16];
    (void)snprintf(name, sizeof name, "k%d", index);
    assert_fine(amdgcn_machine_map(machine, in, sizeof in, false));
    assert_fine(amdgcn_machine_map(machine, out, sizeof out, true));
    for (int round = 0; round < ROUNDS; round++) {
        fill(in, (uint64_t)(round * 977 + 1));
        void *arguments[] = {in, out};
        amdgcn_launch launch = {
            .kernel = name, .blocks = 1, .threads = lanes, .arguments = arguments, .argument_bytes = 16};
        memset(out, 0x5a, sizeof out);
        assert_fine(amdgcn_machine_launch(code, &launch));
        for (int l = 0; l < lanes; l++)
            ck_assert_msg(same(row->types[0], out[l], row->expected(in, l, lanes)),
                          "%s: %s, lane %d of %llx %llx %llx: %llx, expected %llx", arch, row->text, l,
                          (unsigned long long)in[0][l], (unsigned long long)in[1][l], (unsigned long long)in[2][l],
                          (unsigned long long)out[l], (unsigned long long)row->expected(in, l, lanes));
    }
    amdgcn_machine_unmap(machine, in);
    amdgcn_machine_unmap(machine, out);
}

START_TEST(each_opcode) {
    const char *arch = arches[_i];
    int lanes = lanes_of(_i), kernels = 0;
    weft_context *context;
    assert_fine(weft_context_create(NULL, &context));
    weft_text text;
    weft_text_init(context->allocator, &text);
    weft_text_append(&text,
                     "declare i32 @llvm.amdgcn.workitem.id.x()\n"
                     "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,64\" \"amdgpu-no-implicitarg-ptr\" }\n");
    for (int i = 0; i < ROWS; i++)
        if (rows[i].arches >> _i & 1) append_kernel(&text, i, &rows[i], lanes), kernels++;
    void *data = NULL;
    size_t bytes = 0;
    assert_fine(amdgcn_assemble(context->allocator, arch, weft_text_string(&text), &data, &bytes));
    amdgcn_machine *machine;
    amdgcn_code *code;
    assert_fine(amdgcn_machine_create(arch, &machine));
    assert_fine(amdgcn_code_load(machine, data, bytes, &code));
    for (int i = 0; i < ROWS; i++)
        if (rows[i].arches >> _i & 1) run_row(machine, code, i, arch, lanes);
    ck_assert_int_gt(kernels, 40);
    amdgcn_code_unload(code);
    amdgcn_machine_release(machine);
    weft_free(context->allocator, data, bytes);
    weft_text_deinit(&text);
    weft_context_release(context);
}
END_TEST

void add_opcode_tests(Suite *suite) {
    TCase *tests = tcase_create("opcodes");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, each_opcode, 0, ARCHES);
    suite_add_tcase(suite, tests);
}
