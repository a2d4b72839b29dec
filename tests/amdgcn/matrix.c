/* Matrix instructions against plain products: operands are put where the equations of AMD's "matrix instruction
   calculator" say, from coordinates to register and lane, which is the other way round than the emulator goes; small
   whole numbers, so that every result is exact. */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "tests/amdgcn/testing.h"

enum { EDGE = 32, DEPTH = 32, BLOCKS = 16, LANES = 64, RESULTS = 32 };
enum { CDNA2 = 1, CDNA3 = 2, RDNA3 = 8, RDNA4 = 16, CDNA = 3 };

typedef enum element { F32, F16, BF16, I8, FP8, BF8, F64 } element;

static const struct {
    const char *intrinsic; /* behind llvm.amdgcn. */
    int m, k, blocks, arches;
    element a, b;
} rows[] = {
    {"mfma.f32.32x32x1f32", 32, 1, 2, CDNA, F32, F32},
    {"mfma.f32.16x16x1f32", 16, 1, 4, CDNA, F32, F32},
    {"mfma.f32.4x4x1f32", 4, 1, 16, CDNA, F32, F32},
    {"mfma.f32.32x32x2f32", 32, 2, 1, CDNA, F32, F32},
    {"mfma.f32.16x16x4f32", 16, 4, 1, CDNA, F32, F32},
    {"mfma.f32.32x32x4f16", 32, 4, 2, CDNA, F16, F16},
    {"mfma.f32.16x16x4f16", 16, 4, 4, CDNA, F16, F16},
    {"mfma.f32.4x4x4f16", 4, 4, 16, CDNA, F16, F16},
    {"mfma.f32.32x32x8f16", 32, 8, 1, CDNA, F16, F16},
    {"mfma.f32.16x16x16f16", 16, 16, 1, CDNA, F16, F16},
    {"mfma.f32.32x32x4bf16.1k", 32, 4, 2, CDNA, BF16, BF16},
    {"mfma.f32.16x16x4bf16.1k", 16, 4, 4, CDNA, BF16, BF16},
    {"mfma.f32.4x4x4bf16.1k", 4, 4, 16, CDNA, BF16, BF16},
    {"mfma.f32.32x32x8bf16.1k", 32, 8, 1, CDNA, BF16, BF16},
    {"mfma.f32.16x16x16bf16.1k", 16, 16, 1, CDNA, BF16, BF16},
    {"mfma.i32.32x32x4i8", 32, 4, 2, CDNA, I8, I8},
    {"mfma.i32.16x16x4i8", 16, 4, 4, CDNA, I8, I8},
    {"mfma.i32.4x4x4i8", 4, 4, 16, CDNA, I8, I8},
    {"mfma.i32.32x32x8i8", 32, 8, 1, CDNA2, I8, I8},
    {"mfma.i32.16x16x16i8", 16, 16, 1, CDNA2, I8, I8},
    {"mfma.i32.32x32x16.i8", 32, 16, 1, CDNA3, I8, I8},
    {"mfma.i32.16x16x32.i8", 16, 32, 1, CDNA3, I8, I8},
    {"mfma.f32.16x16x8.xf32", 16, 8, 1, CDNA3, F32, F32},
    {"mfma.f32.32x32x4.xf32", 32, 4, 1, CDNA3, F32, F32},
    {"mfma.f32.16x16x32.fp8.fp8", 16, 32, 1, CDNA3, FP8, FP8},
    {"mfma.f32.32x32x16.fp8.fp8", 32, 16, 1, CDNA3, FP8, FP8},
    {"mfma.f32.16x16x32.bf8.bf8", 16, 32, 1, CDNA3, BF8, BF8},
    {"mfma.f32.32x32x16.bf8.bf8", 32, 16, 1, CDNA3, BF8, BF8},
    {"mfma.f32.16x16x32.fp8.bf8", 16, 32, 1, CDNA3, FP8, BF8},
    {"mfma.f32.32x32x16.bf8.fp8", 32, 16, 1, CDNA3, BF8, FP8},
    {"mfma.f64.16x16x4f64", 16, 4, 1, CDNA, F64, F64},
    {"wmma.f32.16x16x16.f16.v8f32.v16f16", 16, 16, 1, RDNA3, F16, F16},
    {"wmma.f32.16x16x16.bf16.v8f32.v16i16", 16, 16, 1, RDNA3, BF16, BF16},
    {"wmma.i32.16x16x16.iu8.v8i32.v4i32", 16, 16, 1, RDNA3, I8, I8},
    {"wmma.f32.16x16x16.f16.v8f32.v8f16", 16, 16, 1, RDNA4, F16, F16},
    {"wmma.f32.16x16x16.bf16.v8f32.v8i16", 16, 16, 1, RDNA4, BF16, BF16},
    {"wmma.i32.16x16x16.iu8.v8i32.v2i32", 16, 16, 1, RDNA4, I8, I8},
    {"wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32", 16, 16, 1, RDNA4, FP8, FP8},
    {"wmma.f32.16x16x16.bf8.fp8.v8f32.v2i32", 16, 16, 1, RDNA4, BF8, FP8},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int bits_of(element type) { return type == F64 ? 64 : type == F32 ? 32 : type == F16 || type == BF16 ? 16 : 8; }
static bool is_wave32(int row) { return rows[row].arches >= RDNA3; }
/* Elements of A that a lane holds. */
static int held(int row) {
    if (rows[row].arches == RDNA3) return 16;
    return rows[row].m * rows[row].k * rows[row].blocks / (is_wave32(row) ? 32 : 64);
}
static int results(int row) { return rows[row].m * rows[row].m * rows[row].blocks / (is_wave32(row) ? 32 : 64); }

/* The bits of a whole number from -3 to 3. 8-bit floats: 1 has the exponent's bias, which is one more in the formats of
 * CDNA 3. */
static uint64_t encoded(element type, int value, bool ocp) {
    static const uint64_t fp8[] = {0, 0x38, 0x40, 0x44}, bf8[] = {0, 0x3c, 0x40, 0x42};
    uint64_t magnitude = (uint64_t)abs(value), sign = value < 0 ? 0x80 : 0;
    switch ((int)type) {
    case F32: return number_bits32((float)value);
    case F16: return number_bits16((double)value);
    case BF16: return number_bits32((float)value) >> 16;
    case I8: return (uint8_t)value;
    case FP8: return value ? (fp8[magnitude] + (ocp ? 0 : 8)) | sign : 0;
    case BF8: return value ? (bf8[magnitude] + (ocp ? 0 : 4)) | sign : 0;
    default: return number_bits64((double)value);
    }
}

/* Where A[i][k] of a block lies; B[k][j] the same with j for i. */
static void place_input(int row, int i, int k, int block, int *out_lane, int *out_element) {
    int m = rows[row].m, blocks = rows[row].blocks, each = held(row);
    if (rows[row].arches == RDNA3) {
        *out_lane = i, *out_element = k; /* and once more in lane i + 16 */
    } else {
        *out_lane = m * block + m * blocks * (k / each) + i, *out_element = k % each;
    }
}

static void place_result(int row, int i, int j, int block, int *out_lane, int *out_register) {
    int m = rows[row].m;
    if (rows[row].arches == RDNA3)
        *out_register = i / 2, *out_lane = 16 * (i % 2) + j;
    else if (rows[row].arches == RDNA4)
        *out_register = i % 8, *out_lane = 16 * (i / 8) + j;
    else if (rows[row].a == F64)
        *out_register = i / 4, *out_lane = 16 * (i % 4) + j;
    else if (m == 32)
        *out_register = 16 * block + 4 * (i / 8) + i % 4, *out_lane = 32 * (i / 4) % 64 + j;
    else if (m == 16)
        *out_register = 4 * block + i % 4, *out_lane = 16 * (i / 4) + j;
    else
        *out_register = i, *out_lane = 4 * block + j;
}

/* -- one kernel a row: a lane loads its words of A, B and C, and stores its words of D */

static const char *input_type(int row, char *text) {
    int count = held(row);
    bool wmma = is_wave32(row);
    switch ((int)rows[row].a) {
    case F64: return "double";
    case F32: return count == 1 ? "float" : "<2 x float>";
    case F16: (void)snprintf(text, 32, "<%d x half>", count); return text;
    case BF16: (void)snprintf(text, 32, "<%d x i16>", count); return text;
    default: break;
    }
    if (wmma)
        (void)snprintf(text, 32, "<%d x i32>", count / 4);
    else
        (void)snprintf(text, 32, "i%d", count * 8);
    return text;
}

static void append_kernel(weft_text *text, int row) {
    char input[32], result[32];
    const char *in = input_type(row, input);
    bool wmma = is_wave32(row), integer = rows[row].a == I8;
    int in_bytes = held(row) * bits_of(rows[row].a) / 8;
    (void)snprintf(result, sizeof result, "<%d x %s>", results(row),
                   integer              ? "i32"
                   : rows[row].a == F64 ? "double"
                                        : "float");
    const char *flag = wmma && integer ? "i1 true, " : "";
    const char *tail = !wmma ? ", i32 0, i32 0, i32 0" : integer ? ", i1 false" : "";
    const char *flag_type = wmma && integer ? "i1, " : "", *tail_type = !wmma     ? ", i32, i32, i32"
                                                                        : integer ? ", i1"
                                                                                  : "";
    weft_text_append(text, "declare %s @llvm.amdgcn.%s(%s%s, %s%s, %s%s)\n", result, rows[row].intrinsic, flag_type, in,
                     flag_type, in, result, tail_type);
    weft_text_append(
        text, "define amdgpu_kernel void @k%d(ptr addrspace(1) %%a, ptr addrspace(1) %%b, ptr addrspace(1) %%c) {\n",
        row);
    weft_text_append(text, "  %%id = call i32 @llvm.amdgcn.workitem.id.x()\n");
    weft_text_append(text, "  %%i = mul i32 %%id, %d\n  %%j = mul i32 %%id, %d\n", in_bytes,
                     results(row) * (rows[row].a == F64 ? 8 : 4));
    weft_text_append(
        text,
        "  %%pa = getelementptr i8, ptr addrspace(1) %%a, i32 %%i\n  %%pb = getelementptr i8, ptr addrspace(1) %%b, i32 %%i\n");
    weft_text_append(text, "  %%pc = getelementptr i8, ptr addrspace(1) %%c, i32 %%j\n");
    weft_text_append(
        text, "  %%x = load %s, ptr addrspace(1) %%pa, align 4\n  %%y = load %s, ptr addrspace(1) %%pb, align 4\n", in,
        in);
    weft_text_append(text, "  %%z = load %s, ptr addrspace(1) %%pc, align 4\n", result);
    weft_text_append(text, "  %%d = call %s @llvm.amdgcn.%s(%s%s %%x, %s%s %%y, %s %%z%s)\n", result,
                     rows[row].intrinsic, flag, in, flag, in, result, tail);
    weft_text_append(text, "  store %s %%d, ptr addrspace(1) %%pc, align 4\n  ret void\n}\n", result);
}

/* -- one product */

static int a[BLOCKS][EDGE][DEPTH], b[BLOCKS][EDGE][DEPTH], c[BLOCKS][EDGE][EDGE];
static uint64_t room[3][LANES * RESULTS];

static void put(int row, int which, int lane, int at, uint64_t bits) {
    int width = bits_of(which ? rows[row].b : rows[row].a) / 8, copies = rows[row].arches == RDNA3 ? 2 : 1;
    for (int copy = 0; copy < copies; copy++) /* gfx11: the upper lanes hold the same */
        memcpy((char *)room[which] + ((lane + 16 * copy) * held(row) + at) * width, &bits, (size_t)width);
}

static void prepare(int row, uint64_t *state) {
    int m = rows[row].m, lane, at;
    bool ocp = rows[row].arches == RDNA4;
    memset(room, 0, sizeof room);
    for (int block = 0; block < rows[row].blocks; block++)
        for (int i = 0; i < m; i++) {
            for (int k = 0; k < rows[row].k; k++) {
                a[block][i][k] = (int)(number_random(state) % 7) - 3,
                b[block][i][k] = (int)(number_random(state) % 7) - 3;
                place_input(row, i, k, block, &lane, &at);
                put(row, 0, lane, at, encoded(rows[row].a, a[block][i][k], ocp));
                put(row, 1, lane, at, encoded(rows[row].b, b[block][i][k], ocp));
            }
            for (int j = 0; j < m; j++) {
                int width = rows[row].a == F64 ? 8 : 4;
                c[block][i][j] = (int)(number_random(state) % 9) - 4;
                uint64_t bits =
                    rows[row].a == I8 ? (uint32_t)c[block][i][j] : encoded(width == 8 ? F64 : F32, c[block][i][j], ocp);
                place_result(row, i, j, block, &lane, &at);
                memcpy((char *)room[2] + (lane * results(row) + at) * width, &bits, (size_t)width);
            }
        }
}

static void check(int row, const char *arch) {
    int lane, at, width = rows[row].a == F64 ? 8 : 4;
    for (int block = 0; block < rows[row].blocks; block++)
        for (int i = 0; i < rows[row].m; i++)
            for (int j = 0; j < rows[row].m; j++) {
                int want = c[block][i][j];
                uint64_t bits = 0;
                for (int k = 0; k < rows[row].k; k++) want += a[block][i][k] * b[block][j][k];
                place_result(row, i, j, block, &lane, &at);
                memcpy(&bits, (char *)room[2] + (lane * results(row) + at) * width, (size_t)width);
                double got = rows[row].a == I8 ? (double)(int32_t)bits
                             : width == 8      ? number_f64(bits)
                                               : (double)number_f32(bits);
                ck_assert_msg(got == (double)want, "%s on %s: block %d, row %d, column %d: %g, not %d",
                              rows[row].intrinsic, arch, block, i, j, got, want);
            }
}

START_TEST(products) {
    weft_context *context;
    weft_text text;
    amdgcn_machine *machine;
    amdgcn_code *code;
    void *data;
    size_t bytes;
    uint64_t state = 11;
    int count = 0;
    assert_fine(weft_context_create(NULL, &context));
    weft_text_init(context->allocator, &text);
    weft_text_append(&text, "declare i32 @llvm.amdgcn.workitem.id.x()\n");
    for (int row = 0; row < ROWS; row++)
        if (rows[row].arches >> _i & 1) append_kernel(&text, row);
    assert_fine(amdgcn_assemble(context->allocator, arches[_i], weft_text_string(&text), &data, &bytes));
    assert_fine(amdgcn_machine_create(arches[_i], &machine));
    assert_fine(amdgcn_code_load(machine, data, bytes, &code));
    for (int r = 0; r < 3; r++) assert_fine(amdgcn_machine_map(machine, room[r], sizeof room[r], r == 2));
    for (int row = 0; row < ROWS; row++) {
        if (!(rows[row].arches >> _i & 1)) continue;
        char name[16];
        (void)snprintf(name, sizeof name, "k%d", row);
        void *arguments[] = {room[0], room[1], room[2]};
        amdgcn_launch launch = {.kernel = name,
                                .blocks = 1,
                                .threads = lanes_of(_i),
                                .arguments = arguments,
                                .argument_bytes = sizeof arguments};
        prepare(row, &state);
        assert_fine(amdgcn_machine_launch(code, &launch));
        check(row, arches[_i]);
        count++;
    }
    ck_assert_uint_eq(amdgcn_machine_counts(machine).matrix, (uint64_t)count);
    amdgcn_code_unload(code);
    amdgcn_machine_release(machine);
    weft_free(context->allocator, data, bytes);
    weft_text_deinit(&text);
    weft_context_release(context);
}
END_TEST

void add_matrix_tests(Suite *suite) {
    TCase *tests = tcase_create("matrix");
    tcase_set_timeout(tests, 120);
    for (int arch = 0; arch < ARCHES; arch++) {
        int count = 0;
        for (int row = 0; row < ROWS; row++) count += rows[row].arches >> arch & 1;
        if (count) tcase_add_loop_test(tests, products, arch, arch + 1); /* gfx1030 has none */
    }
    suite_add_tcase(suite, tests);
}
