/* Conversions between number types. To integers: NaN gives 0, what is out of range the nearest end.
   Read next: lane.c. Source: AMD instruction set documents, VOP1, VOP3; OCP 8-bit formats and AMD's "fnuz" variants. */
#include "tests/amdgcn/emulator/half.h"

typedef enum convert_op {
    F32_I32,
    F32_U32,
    I32_F32,
    U32_F32,
    F16_F32,
    F32_F16,
    F32_UB0,
    F32_UB1,
    F32_UB2,
    F32_UB3,
    FLR_I32_F32,
    RPI_I32_F32,
    I32_I16,
    U32_U16,
    OFF_F32_I4,
    F64_F32,
    F64_I32,
    F64_U32,
    F32_F64,
    I32_F64,
    U32_F64,
    F16_I16,
    F16_U16,
    I16_F16,
    U16_F16,
    PKRTZ,
    PK_U8,
    PK_NORM_I16,
    PK_NORM_U16,
    F32_FP8,
    F32_BF8,
    PK_F32_FP8,
    PK_F32_BF8,
    PK_FP8_F32,
    PK_BF8_F32
} convert_op;

static uint32_t to_signed(double a, double low, double high) {
    return a != a ? 0 : a <= low ? (uint32_t)(int32_t)low : a >= high ? (uint32_t)(int32_t)high : (uint32_t)(int32_t)a;
}
static uint32_t to_unsigned(double a, double high) { return !(a > 0) ? 0 : a >= high ? (uint32_t)high : (uint32_t)a; }

static uint32_t word_of(int op, uint32_t bits, float x) {
    switch (op) {
    case F32_I32: return number_bits32((float)(int32_t)bits);
    case F32_U32: return number_bits32((float)bits);
    case I32_F32: return to_signed((double)x, -2147483648.0, 2147483647.0);
    case U32_F32: return to_unsigned((double)x, 4294967295.0);
    case FLR_I32_F32: return to_signed((double)floorf(x), -2147483648.0, 2147483647.0);
    case RPI_I32_F32: return to_signed((double)floorf(x + 0.5F), -2147483648.0, 2147483647.0);
    case F32_UB0:
    case F32_UB1:
    case F32_UB2:
    case F32_UB3: return number_bits32((float)(bits >> 8 * (op - F32_UB0) & 255));
    case I32_I16: return (uint32_t)(int32_t)(int16_t)bits;
    case U32_U16: return bits & 0xffff;
    default: return number_bits32((float)((int32_t)(bits << 28) >> 28) / 16);
    }
}

static void words(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const uint32_t *a = (const uint32_t *)amdgcn_floats(w, &i->in[0], space);
    for (int l = 0; l < LANES; l++) r[l] = word_of(i->op, a[l], number_f32(a[l]));
    if (i->scale || i->clamp) {
        float factor = i->scale > 0 ? (float)i->scale : i->scale < 0 ? 0.5F : 1;
        for (int l = 0; l < LANES; l++) {
            float x = number_f32(r[l]) * factor;
            if (i->clamp) x = x > 0 ? (x < 1 ? x : 1) : 0;
            r[l] = number_bits32(x);
        }
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

static void put_half(amdgcn_wave *w, const amdgcn_instruction *i, const uint32_t *values) {
    uint32_t space[LANES];
    const uint32_t *before = amdgcn_row(w, &i->out[0], 0);
    for (int l = 0; l < LANES; l++)
        space[l] = i->out[0].half ? (before[l] & 0xffff) | values[l] << 16
                   : i->low_half  ? (before[l] & 0xffff0000) | (values[l] & 0xffff)
                                  : values[l] & 0xffff;
    amdgcn_put(w, &i->out[0], 0, space);
}

static void to_half(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space);
    for (int l = 0; l < LANES; l++) {
        double x = (double)a[l];
        if (i->clamp) x = x > 0 ? (x < 1 ? x : 1) : 0;
        r[l] = amdgcn_to_half(x);
    }
    put_half(w, i, r);
}

static uint32_t half_bits(uint32_t word, const amdgcn_operand *o) {
    uint32_t bits = word >> (o->half && o->kind != CONSTANT ? 16 : 0) & 0xffff;
    return (bits & (o->absolute ? 0x7fff : 0xffff)) ^ (o->negate ? 0x8000 : 0);
}

static void from_half(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space);
    for (int l = 0; l < LANES; l++) {
        float x = amdgcn_from_half(half_bits(a[l], &i->in[0]));
        if (i->scale) x *= i->scale > 0 ? (float)i->scale : 0.5F;
        if (i->clamp) x = x > 0 ? (x < 1 ? x : 1) : 0;
        r[l] = number_bits32(x);
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

static void shorts(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES], r[LANES];
    const uint32_t *a = amdgcn_words(w, &i->in[0], 0, space);
    for (int l = 0; l < LANES; l++) {
        uint32_t bits = half_bits(a[l], &i->in[0]);
        double x = (double)amdgcn_from_half(bits);
        if (i->op == F16_I16)
            r[l] = amdgcn_to_half((double)(int16_t)bits);
        else if (i->op == F16_U16)
            r[l] = amdgcn_to_half((double)bits);
        else
            r[l] = i->op == I16_F16 ? to_signed(x, -32768.0, 32767.0) : to_unsigned(x, 65535.0);
    }
    put_half(w, i, r);
}

/* -- f64 */

static void to_double(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[LANES];
    uint64_t result[LANES];
    const uint32_t *a = (const uint32_t *)amdgcn_floats(w, &i->in[0], space);
    lane_f64 *r = (lane_f64 *)result;
    for (int l = 0; l < LANES; l++)
        r[l] = i->op == F64_F32 ? (double)number_f32(a[l]) : i->op == F64_I32 ? (double)(int32_t)a[l] : (double)a[l];
    amdgcn_put_wide(w, &i->out[0], result);
}

static void from_double(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[LANES];
    uint32_t r[LANES];
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space);
    for (int l = 0; l < LANES; l++) {
        if (i->op == F32_F64)
            r[l] = number_bits32((float)a[l]);
        else
            r[l] = i->op == I32_F64 ? to_signed(a[l], -2147483648.0, 2147483647.0) : to_unsigned(a[l], 4294967295.0);
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* -- two results in one word */

static uint32_t half_towards_zero(float x) {
    uint32_t bits = amdgcn_to_half((double)x);
    if (isfinite(x) && fabsf(amdgcn_from_half(bits)) > fabsf(x)) bits--;
    return bits;
}

static void packs(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[3][LANES], r[LANES];
    const lane_f32 *a = amdgcn_floats(w, &i->in[0], space[0]), *b = amdgcn_floats(w, &i->in[1], space[1]);
    const uint32_t *place = (const uint32_t *)b,
                   *before = i->sources > 2 ? amdgcn_words(w, &i->in[2], 0, space[2]) : place;
    for (int l = 0; l < LANES; l++) {
        uint32_t shift = 8 * (place[l] & 3);
        switch (i->op) {
        case PKRTZ: r[l] = half_towards_zero(a[l]) | half_towards_zero(b[l]) << 16; break;
        case PK_U8:
            r[l] = (before[l] & ~(UINT32_C(255) << shift)) | to_unsigned((double)rintf(a[l]), 255.0) << shift;
            break;
        case PK_NORM_I16:
            r[l] = (to_signed(rint((double)a[l] * 32767), -32767.0, 32767.0) & 0xffff) |
                   to_signed(rint((double)b[l] * 32767), -32767.0, 32767.0) << 16;
            break;
        default:
            r[l] = to_unsigned(rint((double)a[l] * 65535), 65535.0) | to_unsigned(rint((double)b[l] * 65535), 65535.0)
                                                                          << 16;
            break;
        }
    }
    amdgcn_put(w, &i->out[0], 0, r);
}

/* -- 8-bit floats */

static void eights(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint32_t space[2][LANES], r[2][LANES];
    bool bf8 = i->op == F32_BF8 || i->op == PK_F32_BF8 || i->op == PK_BF8_F32;
    amdgcn_eight f = amdgcn_eight_format(bf8, w->machine->generation < 12);
    const uint32_t *a = (const uint32_t *)amdgcn_floats(w, &i->in[0], space[0]);
    if (i->op == PK_FP8_F32 || i->op == PK_BF8_F32) {
        const lane_f32 *x = (const lane_f32 *)a, *y = amdgcn_floats(w, &i->in[1], space[1]);
        const uint32_t *before = amdgcn_row(w, &i->out[0], 0);
        bool high = i->op_sel >> 2 & 1 || i->op_sel >> 3 & 1;
        for (int l = 0; l < LANES; l++) {
            uint32_t two = amdgcn_to_eight(f, x[l]) | amdgcn_to_eight(f, y[l]) << 8;
            r[0][l] = high ? (before[l] & 0xffff) | two << 16 : (before[l] & 0xffff0000) | two;
        }
        amdgcn_put(w, &i->out[0], 0, r[0]);
        return;
    }
    bool pair = i->op == PK_F32_FP8 || i->op == PK_F32_BF8;
    int shift = pair ? (i->op_sel & 1 ? 16 : 0) : 8 * (int)((i->op_sel & 1) << 1 | (i->op_sel >> 1 & 1));
    for (int l = 0; l < LANES; l++) {
        r[0][l] = number_bits32(amdgcn_from_eight(f, a[l] >> shift & 255));
        r[1][l] = pair ? number_bits32(amdgcn_from_eight(f, a[l] >> (shift + 8) & 255)) : 0;
    }
    amdgcn_put(w, &i->out[0], 0, r[0]);
    if (pair) amdgcn_put(w, &i->out[0], 1, r[1]);
}

const amdgcn_opcode amdgcn_convert_opcodes[] = {{"v_cvt_f32_i32", words, F32_I32, "1i"},
                                                {"v_cvt_f32_u32", words, F32_U32, "1i"},
                                                {"v_cvt_i32_f32", words, I32_F32, "1f"},
                                                {"v_cvt_u32_f32", words, U32_F32, "1f"},
                                                {"v_cvt_flr_i32_f32", words, FLR_I32_F32, "1f"},
                                                {"v_cvt_floor_i32_f32", words, FLR_I32_F32, "1f"},
                                                {"v_cvt_rpi_i32_f32", words, RPI_I32_F32, "1f"},
                                                {"v_cvt_nearest_i32_f32", words, RPI_I32_F32, "1f"},
                                                {"v_cvt_f32_ubyte0", words, F32_UB0, "1i"},
                                                {"v_cvt_f32_ubyte1", words, F32_UB1, "1i"},
                                                {"v_cvt_f32_ubyte2", words, F32_UB2, "1i"},
                                                {"v_cvt_f32_ubyte3", words, F32_UB3, "1i"},
                                                {"v_cvt_i32_i16", words, I32_I16, "1i"},
                                                {"v_cvt_u32_u16", words, U32_U16, "1i"},
                                                {"v_cvt_off_f32_i4", words, OFF_F32_I4, "1i"},
                                                {"v_cvt_f16_f32", to_half, 0, "1f"},
                                                {"v_cvt_f32_f16", from_half, 0, "1h"},
                                                {"v_cvt_f16_i16", shorts, F16_I16, "1h"},
                                                {"v_cvt_f16_u16", shorts, F16_U16, "1h"},
                                                {"v_cvt_i16_f16", shorts, I16_F16, "1h"},
                                                {"v_cvt_u16_f16", shorts, U16_F16, "1h"},
                                                {"v_cvt_f64_f32", to_double, F64_F32, "1f"},
                                                {"v_cvt_f64_i32", to_double, F64_I32, "1i"},
                                                {"v_cvt_f64_u32", to_double, F64_U32, "1i"},
                                                {"v_cvt_f32_f64", from_double, F32_F64, "1F"},
                                                {"v_cvt_i32_f64", from_double, I32_F64, "1F"},
                                                {"v_cvt_u32_f64", from_double, U32_F64, "1F"},
                                                {"v_cvt_pkrtz_f16_f32", packs, PKRTZ, "1f"},
                                                {"v_cvt_pk_rtz_f16_f32", packs, PKRTZ, "1f"},
                                                {"v_cvt_pk_u8_f32", packs, PK_U8, "1f"},
                                                {"v_cvt_pknorm_i16_f32", packs, PK_NORM_I16, "1f"},
                                                {"v_cvt_pk_norm_i16_f32", packs, PK_NORM_I16, "1f"},
                                                {"v_cvt_pknorm_u16_f32", packs, PK_NORM_U16, "1f"},
                                                {"v_cvt_pk_norm_u16_f32", packs, PK_NORM_U16, "1f"},
                                                {"v_cvt_f32_fp8", eights, F32_FP8, "1i"},
                                                {"v_cvt_f32_bf8", eights, F32_BF8, "1i"},
                                                {"v_cvt_pk_f32_fp8", eights, PK_F32_FP8, "1i"},
                                                {"v_cvt_pk_f32_bf8", eights, PK_F32_BF8, "1i"},
                                                {"v_cvt_pk_fp8_f32", eights, PK_FP8_F32, "1f"},
                                                {"v_cvt_pk_bf8_f32", eights, PK_BF8_F32, "1f"},
                                                {0}};
