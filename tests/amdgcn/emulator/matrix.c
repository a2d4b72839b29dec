/* Matrix units: MFMA of CDNA, WMMA of RDNA. Operands lie spread over the lanes; they are gathered into plain matrices,
   multiplied by plain loops, sums in f32 in the order of k, and spread again.

   MFMA of M x M x K in B blocks: lane l holds row l % M (of A; column of B) and K / groups values from k = K / groups *
   (l / (M * B)) on, groups = 64 / (M * B), of block l / M % B. Register r of a block's result in lane l is column l % M
   of row r / 4 * (256 / M) + l / M * 4 + r % 4; with 16 blocks of 4 x 4 the lanes l / 4 are the blocks; f64: row 4 * r
   + l / 16. WMMA of 16 x 16 x 16, gfx11: lane l holds row l % 16 whole, the same in every 16 lanes; register r of the
   result is row (lanes / 16) * r + l / 16. gfx12: lane l holds the part l / 16 of k, the result's rows are r + (8 or 4)
   * (l / 16). Source: AMD CDNA3, RDNA3 and RDNA4 instruction set documents, matrix chapters; AMD matrix instruction
   calculator. */
#include "tests/amdgcn/emulator/half.h"

enum { M_MAX = 32, K_MAX = 32, REGISTERS_MAX = 32 };

typedef enum element { F16, BF16, F32, XF32, I8, U8, I4, U4, FP8, BF8 } element;

static int bits_of(element type) {
    if (type == F32 || type == XF32) return 32;
    return type == F16 || type == BF16 ? 16 : type == I4 || type == U4 ? 4 : 8;
}

static float number_of(const amdgcn_wave *w, element type, uint32_t bits) {
    bool fnuz = w->machine->generation < 12;
    switch ((int)type) {
    case F16: return amdgcn_from_half(bits);
    case BF16: return amdgcn_from_bf16(bits);
    case F32: return number_f32(bits);
    case XF32: return number_f32((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000); /* 10 bits of fraction */
    case I8: return (float)(int8_t)bits;
    case I4: return (float)((int32_t)(bits << 28) >> 28);
    case FP8: return amdgcn_from_eight(amdgcn_eight_format(false, fnuz), bits);
    case BF8: return amdgcn_from_eight(amdgcn_eight_format(true, fnuz), bits);
    default: return (float)bits;
    }
}

/* Value `at` of what `count` lanes hold of a source, whose registers `words` are from the first of them on. */
WIDE static void numbers(const amdgcn_wave *w, element type, const uint32_t *words, int at, int count, float *out) {
    int bits = bits_of(type), shift = at * bits % 32;
    uint32_t keep = bits < 32 ? (UINT32_C(1) << bits) - 1 : UINT32_MAX;
    if (type == BF16)
        for (int l = 0; l < count; l++) out[l] = amdgcn_from_bf16(words[l] >> shift & 0xffff);
    else if (type == F16)
        for (int l = 0; l < count; l++) out[l] = amdgcn_from_half(words[l] >> shift & 0xffff);
    else if (type == I8)
        for (int l = 0; l < count; l++) out[l] = (float)(int8_t)(words[l] >> shift);
    else
        for (int l = 0; l < count; l++) out[l] = number_of(w, type, words[l] >> shift & keep);
}

/* The register that holds value `at` of a source, from a lane on. */
static const uint32_t *held(amdgcn_wave *w, const amdgcn_operand *o, element type, int lane, int at) {
    return &w->rows[o->index + at * bits_of(type) / 32][lane];
}

/* d = c + a b^T; a and b as [k][row], rows of M_MAX or of 16. Sums of integers are exact in i32. */
typedef struct product {
    int m, k;
    bool integer;
    float a[K_MAX][M_MAX], b[K_MAX][M_MAX];
    uint32_t d[M_MAX][M_MAX]; /* c before, d after */
} product;

static inline void multiply_rows(product *p, int columns) {
    for (int row = 0; row < p->m; row++) {
        uint32_t *d = p->d[row];
        lane_f32 *f = (lane_f32 *)d;
        for (int k = 0; k < p->k; k++) {
            float a = p->a[k][row];
            const float *b = p->b[k];
            if (p->integer)
                for (int n = 0; n < columns; n++) d[n] += (uint32_t)((int32_t)a * (int32_t)b[n]);
            else
                for (int n = 0; n < columns; n++) f[n] = __builtin_fmaf(a, b[n], f[n]);
        }
    }
}

WIDE static void multiply(product *p) {
    if (p->m > 16)
        multiply_rows(p, M_MAX);
    else
        multiply_rows(p, 16);
}

static bool all_active(amdgcn_wave *w) {
    if (amdgcn_exec(w) == amdgcn_all(w)) return true;
    amdgcn_fail(w, -1, "a matrix product with inactive lanes");
    return false;
}

/* -- MFMA */

typedef struct shape {
    const char *name;
    int m, k, blocks;
    element a, b;
} shape;

/* gfx90a's names, then gfx94x's for the same. */
static const shape shapes[] = {{"32x32x1 f32", 32, 1, 2, F32, F32},       {"16x16x1 f32", 16, 1, 4, F32, F32},
                               {"4x4x1 f32", 4, 1, 16, F32, F32},         {"32x32x2 f32", 32, 2, 1, F32, F32},
                               {"16x16x4 f32", 16, 4, 1, F32, F32},       {"32x32x4 f16", 32, 4, 2, F16, F16},
                               {"16x16x4 f16", 16, 4, 4, F16, F16},       {"4x4x4 f16", 4, 4, 16, F16, F16},
                               {"32x32x8 f16", 32, 8, 1, F16, F16},       {"16x16x16 f16", 16, 16, 1, F16, F16},
                               {"32x32x4 bf16", 32, 4, 2, BF16, BF16},    {"16x16x4 bf16", 16, 4, 4, BF16, BF16},
                               {"4x4x4 bf16", 4, 4, 16, BF16, BF16},      {"32x32x8 bf16", 32, 8, 1, BF16, BF16},
                               {"16x16x16 bf16", 16, 16, 1, BF16, BF16},  {"32x32x8 i8", 32, 8, 1, I8, I8},
                               {"16x16x16 i8", 16, 16, 1, I8, I8},        {"32x32x16 i8", 32, 16, 1, I8, I8},
                               {"16x16x32 i8", 16, 32, 1, I8, I8},        {"32x32x4 i8", 32, 4, 2, I8, I8},
                               {"16x16x4 i8", 16, 4, 4, I8, I8},          {"4x4x4 i8", 4, 4, 16, I8, I8},
                               {"32x32x16 fp8", 32, 16, 1, FP8, FP8},     {"16x16x32 fp8", 16, 32, 1, FP8, FP8},
                               {"32x32x16 bf8", 32, 16, 1, BF8, BF8},     {"16x16x32 bf8", 16, 32, 1, BF8, BF8},
                               {"32x32x16 fp8 bf8", 32, 16, 1, FP8, BF8}, {"16x16x32 fp8 bf8", 16, 32, 1, FP8, BF8},
                               {"32x32x16 bf8 fp8", 32, 16, 1, BF8, FP8}, {"16x16x32 bf8 fp8", 16, 32, 1, BF8, FP8},
                               {"32x32x4 xf32", 32, 4, 1, XF32, XF32},    {"16x16x8 xf32", 16, 8, 1, XF32, XF32}};

enum {
    S32X1,
    S16X1,
    S4X1,
    S32X2,
    S16X4,
    H32X4,
    H16X4,
    H4X4,
    H32X8,
    H16X16,
    B32X4,
    B16X4,
    B4X4,
    B32X8,
    B16X16,
    I32X8,
    I16X16,
    I32X16,
    I16X32,
    I32X4,
    I16X4,
    I4X4,
    E32,
    E16,
    G32,
    G16,
    EG32,
    EG16,
    GE32,
    GE16,
    X32,
    X16
};

static void gather(amdgcn_wave *w, const amdgcn_instruction *i, const shape *s, int block, product *p) {
    int groups = 64 / (s->m * s->blocks), each = s->k / groups;
    for (int group = 0; group < groups; group++)
        for (int at = 0; at < each; at++) {
            int lane = s->m * (block + s->blocks * group), k = group * each + at;
            numbers(w, s->a, held(w, &i->in[0], s->a, lane, at), at, s->m, p->a[k]);
            numbers(w, s->b, held(w, &i->in[1], s->b, lane, at), at, s->m, p->b[k]);
        }
}

/* Register r of the result holds m columns of a row from lane `*out_lane` on, run after run: false, not in this block,
   or no more runs. */
static bool find_run(const shape *s, int block, int r, int run, int *out_row, int *out_lane) {
    if (s->m == 4) {
        *out_row = r, *out_lane = 4 * block;
        return run == 0;
    }
    int each = s->m * s->m / 64;
    *out_row = r % each / 4 * (256 / s->m) + run * 4 + r % 4;
    *out_lane = run * s->m;
    return r / each == block && run < 64 / s->m;
}

static void mfma(amdgcn_wave *w, const amdgcn_instruction *i) {
    const shape *s = &shapes[i->op];
    int registers = s->m * s->m * s->blocks / 64, row, lane;
    uint32_t space[LANES], out[REGISTERS_MAX][LANES];
    product p;
    if (!all_active(w)) return;
    w->machine->counts.matrix++;
    if (s->m < 16) memset(&p, 0, sizeof p); /* rows of 16 are multiplied */
    p.m = s->m, p.k = s->k, p.integer = s->a == I8;
    for (int block = 0; block < s->blocks; block++) {
        gather(w, i, s, block, &p);
        for (int r = 0; r < registers; r++) {
            const uint32_t *c = amdgcn_words(w, &i->in[2], i->in[2].kind == VECTOR ? r : 0, space);
            for (int run = 0; find_run(s, block, r, run, &row, &lane); run++)
                memcpy(p.d[row], c + lane, (size_t)s->m * sizeof *c);
        }
        multiply(&p);
        for (int r = 0; r < registers; r++)
            for (int run = 0; find_run(s, block, r, run, &row, &lane); run++)
                memcpy(out[r] + lane, p.d[row], (size_t)s->m * sizeof **out);
    }
    for (int r = 0; r < registers; r++) memcpy(w->rows[i->out[0].index + r], out[r], sizeof out[r]);
}

/* f64, 16 x 16 x 4. gfx94x reads op_sel's place (blgp) as signs of the sources: none is met. */
static void mfma_wide(amdgcn_wave *w, const amdgcn_instruction *i) {
    uint64_t space[3][LANES], out[4][LANES];
    if (!all_active(w)) return;
    w->machine->counts.matrix++;
    const lane_f64 *a = (const lane_f64 *)amdgcn_wide(w, &i->in[0], space[0]),
                   *b = (const lane_f64 *)amdgcn_wide(w, &i->in[1], space[1]);
    for (int r = 0; r < 4; r++) {
        amdgcn_operand part = i->in[2];
        if (part.kind == VECTOR) part.index += 2 * r, part.count = 2;
        const lane_f64 *c = (const lane_f64 *)amdgcn_wide(w, &part, space[2]);
        for (int l = 0; l < LANES; l++) {
            int row = 4 * r + l / 16, column = l % 16;
            double sum = c[l];
            for (int k = 0; k < 4; k++) sum = __builtin_fma(a[k * 16 + row], b[k * 16 + column], sum);
            out[r][l] = number_bits64(sum);
        }
    }
    for (int r = 0; r < 4; r++) {
        amdgcn_operand part = i->out[0];
        part.index += 2 * r;
        amdgcn_put_wide(w, &part, out[r]);
    }
}

/* -- WMMA */

enum { W_F16, W_BF16, W_IU8, W_IU4, W_FP8, W_FP8_BF8, W_BF8_FP8, W_BF8, W_HALF = 16 /* the result has 16 bits */ };

/* Sources and results of 16 x 16 x 16; gfx11 holds whole rows, and the same in each 16 lanes. */
static bool gather_rows(amdgcn_wave *w, const amdgcn_operand *o, element type, float out[K_MAX][M_MAX]) {
    bool whole = w->machine->generation == 11;
    int groups = w->lanes / 16, each = whole ? 16 : 16 / groups;
    for (int group = 0; group < groups; group++)
        for (int at = 0; at < each; at++) {
            float row[16];
            numbers(w, type, held(w, o, type, 16 * group, at), at, 16, row);
            if (whole && group && memcmp(row, out[at], sizeof row) != 0) {
                amdgcn_fail(w, 16 * group, "a source of a matrix product that is not the same in every 16 lanes");
                return false;
            }
            memcpy(out[whole ? at : group * each + at], row, sizeof row);
        }
    return true;
}

/* Register and half of the result's part r of lane l, and its row. */
static int result_row(const amdgcn_wave *w, int r, int l) {
    return w->machine->generation == 11 ? w->lanes / 16 * r + l / 16 : r + 256 / w->lanes * (l / 16);
}

/* Results of 32 bits. */
static void take_words(amdgcn_wave *w, const amdgcn_instruction *i, product *p, bool stores) {
    const amdgcn_operand *o = stores ? &i->out[0] : &i->in[2];
    uint32_t space[LANES];
    for (int r = 0; r < 256 / w->lanes; r++)
        for (int l = 0; l < w->lanes; l += 16) {
            uint32_t *row = p->d[result_row(w, r, l)];
            if (stores)
                memcpy(&w->rows[o->index + r][l], row, 16 * sizeof *row);
            else
                memcpy(row, amdgcn_words(w, o, o->kind == VECTOR ? r : 0, space) + l, 16 * sizeof *row);
        }
}

static void take_result(amdgcn_wave *w, const amdgcn_instruction *i, int kind, product *p, bool stores) {
    int count = 256 / w->lanes;
    if (!(kind & W_HALF)) {
        take_words(w, i, p, stores);
        return;
    }
    bool packed = w->machine->generation >= 12, is_f16 = (kind & 15) == W_F16;
    const amdgcn_operand *o = stores ? &i->out[0] : &i->in[2];
    for (int r = 0; r < count; r++)
        for (int l = 0; l < w->lanes; l++) {
            uint32_t *cell = &p->d[result_row(w, r, l)][l % 16];
            int part = packed ? r / 2 : r, shift = (packed ? r % 2 == 1 : (i->op_sel >> 2 & 1) == 1) ? 16 : 0;
            if (stores) {
                uint32_t *word = &w->rows[o->index + part][l];
                uint32_t value =
                    is_f16 ? amdgcn_to_half((double)number_f32(*cell)) : (*cell + 0x7fff + (*cell >> 16 & 1)) >> 16;
                *word = (*word & ~(UINT32_C(0xffff) << shift)) | value << shift;
                continue;
            }
            uint32_t word = o->kind == VECTOR ? w->rows[o->index + part][l] : amdgcn_scalar32(w, o, 0);
            word = word >> shift & 0xffff;
            *cell = number_bits32(is_f16 ? amdgcn_from_half(word) : amdgcn_from_bf16(word));
        }
}

static void wmma(amdgcn_wave *w, const amdgcn_instruction *i) {
    int kind = i->op & 15;
    bool sa = i->neg_lo & 1, sb = i->neg_lo >> 1 & 1;
    const element rows[][2] = {
        {F16, F16}, {BF16, BF16}, {sa ? I8 : U8, sb ? I8 : U8}, {sa ? I4 : U4, sb ? I4 : U4}, {FP8, FP8}, {FP8, BF8},
        {BF8, FP8}, {BF8, BF8}};
    product p;
    if (!all_active(w)) return;
    if ((kind != W_IU8 && kind != W_IU4 && (i->neg_lo || i->neg_hi)) || i->clamp) {
        amdgcn_fail(w, -1, "modifiers of a matrix product");
        return;
    }
    w->machine->counts.matrix++;
    if (!gather_rows(w, &i->in[0], rows[kind][0], p.a) || !gather_rows(w, &i->in[1], rows[kind][1], p.b)) return;
    p.m = p.k = 16, p.integer = kind == W_IU8 || kind == W_IU4;
    take_result(w, i, i->op, &p, false);
    multiply(&p);
    take_result(w, i, i->op, &p, true);
}

const amdgcn_opcode amdgcn_matrix_opcodes[] = {{"v_mfma_f32_32x32x1f32", mfma, S32X1, "1f"},
                                               {"v_mfma_f32_32x32x1_2b_f32", mfma, S32X1, "1f"},
                                               {"v_mfma_f32_16x16x1f32", mfma, S16X1, "1f"},
                                               {"v_mfma_f32_16x16x1_4b_f32", mfma, S16X1, "1f"},
                                               {"v_mfma_f32_4x4x1f32", mfma, S4X1, "1f"},
                                               {"v_mfma_f32_4x4x1_16b_f32", mfma, S4X1, "1f"},
                                               {"v_mfma_f32_32x32x2f32", mfma, S32X2, "1f"},
                                               {"v_mfma_f32_32x32x2_f32", mfma, S32X2, "1f"},
                                               {"v_mfma_f32_16x16x4f32", mfma, S16X4, "1f"},
                                               {"v_mfma_f32_16x16x4_f32", mfma, S16X4, "1f"},
                                               {"v_mfma_f32_32x32x4f16", mfma, H32X4, "1f"},
                                               {"v_mfma_f32_32x32x4_2b_f16", mfma, H32X4, "1f"},
                                               {"v_mfma_f32_16x16x4f16", mfma, H16X4, "1f"},
                                               {"v_mfma_f32_16x16x4_4b_f16", mfma, H16X4, "1f"},
                                               {"v_mfma_f32_4x4x4f16", mfma, H4X4, "1f"},
                                               {"v_mfma_f32_4x4x4_16b_f16", mfma, H4X4, "1f"},
                                               {"v_mfma_f32_32x32x8f16", mfma, H32X8, "1f"},
                                               {"v_mfma_f32_32x32x8_f16", mfma, H32X8, "1f"},
                                               {"v_mfma_f32_16x16x16f16", mfma, H16X16, "1f"},
                                               {"v_mfma_f32_16x16x16_f16", mfma, H16X16, "1f"},
                                               {"v_mfma_f32_32x32x4bf16_1k", mfma, B32X4, "1f"},
                                               {"v_mfma_f32_32x32x4_2b_bf16", mfma, B32X4, "1f"},
                                               {"v_mfma_f32_16x16x4bf16_1k", mfma, B16X4, "1f"},
                                               {"v_mfma_f32_16x16x4_4b_bf16", mfma, B16X4, "1f"},
                                               {"v_mfma_f32_4x4x4bf16_1k", mfma, B4X4, "1f"},
                                               {"v_mfma_f32_4x4x4_16b_bf16", mfma, B4X4, "1f"},
                                               {"v_mfma_f32_32x32x8bf16_1k", mfma, B32X8, "1f"},
                                               {"v_mfma_f32_32x32x8_bf16", mfma, B32X8, "1f"},
                                               {"v_mfma_f32_16x16x16bf16_1k", mfma, B16X16, "1f"},
                                               {"v_mfma_f32_16x16x16_bf16", mfma, B16X16, "1f"},
                                               {"v_mfma_i32_32x32x8i8", mfma, I32X8, "1i"},
                                               {"v_mfma_i32_16x16x16i8", mfma, I16X16, "1i"},
                                               {"v_mfma_i32_32x32x16_i8", mfma, I32X16, "1i"},
                                               {"v_mfma_i32_16x16x32_i8", mfma, I16X32, "1i"},
                                               {"v_mfma_i32_32x32x4i8", mfma, I32X4, "1i"},
                                               {"v_mfma_i32_32x32x4_2b_i8", mfma, I32X4, "1i"},
                                               {"v_mfma_i32_16x16x4i8", mfma, I16X4, "1i"},
                                               {"v_mfma_i32_16x16x4_4b_i8", mfma, I16X4, "1i"},
                                               {"v_mfma_i32_4x4x4i8", mfma, I4X4, "1i"},
                                               {"v_mfma_i32_4x4x4_16b_i8", mfma, I4X4, "1i"},
                                               {"v_mfma_f32_32x32x16_fp8_fp8", mfma, E32, "1f"},
                                               {"v_mfma_f32_16x16x32_fp8_fp8", mfma, E16, "1f"},
                                               {"v_mfma_f32_32x32x16_bf8_bf8", mfma, G32, "1f"},
                                               {"v_mfma_f32_16x16x32_bf8_bf8", mfma, G16, "1f"},
                                               {"v_mfma_f32_32x32x16_fp8_bf8", mfma, EG32, "1f"},
                                               {"v_mfma_f32_16x16x32_fp8_bf8", mfma, EG16, "1f"},
                                               {"v_mfma_f32_32x32x16_bf8_fp8", mfma, GE32, "1f"},
                                               {"v_mfma_f32_16x16x32_bf8_fp8", mfma, GE16, "1f"},
                                               {"v_mfma_f32_32x32x4_xf32", mfma, X32, "1f"},
                                               {"v_mfma_f32_16x16x8_xf32", mfma, X16, "1f"},
                                               {"v_mfma_f64_16x16x4f64", mfma_wide, 0, "1F"},
                                               {"v_mfma_f64_16x16x4_f64", mfma_wide, 0, "1F"},
                                               {"v_wmma_f32_16x16x16_f16", wmma, W_F16, "1f"},
                                               {"v_wmma_f32_16x16x16_bf16", wmma, W_BF16, "1f"},
                                               {"v_wmma_f16_16x16x16_f16", wmma, W_F16 | W_HALF, "1f"},
                                               {"v_wmma_bf16_16x16x16_bf16", wmma, W_BF16 | W_HALF, "1f"},
                                               {"v_wmma_i32_16x16x16_iu8", wmma, W_IU8, "1i"},
                                               {"v_wmma_i32_16x16x16_iu4", wmma, W_IU4, "1i"},
                                               {"v_wmma_f32_16x16x16_fp8_fp8", wmma, W_FP8, "1f"},
                                               {"v_wmma_f32_16x16x16_fp8_bf8", wmma, W_FP8_BF8, "1f"},
                                               {"v_wmma_f32_16x16x16_bf8_fp8", wmma, W_BF8_FP8, "1f"},
                                               {"v_wmma_f32_16x16x16_bf8_bf8", wmma, W_BF8, "1f"},
                                               {0}};
