/* mma.sync of m16n8: lane l holds rows l / 4 and l / 4 + 8 of A and of the result, column l / 4 of B. With g = l / 4, t
   = l % 4 and n values in a word: A's words are (g, t), (g + 8, t), then the same beyond half of k; B's (t), then
   beyond half of k; the result's four are columns 2 t and 2 t + 1 of row g, then of g + 8. Source: "Parallel Thread
   Execution ISA", Matrix Fragments for mma. */
#include <math.h>
#include <stdio.h>

#include "tests/ptx/interpreter/internal.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH_MAX = 32 };
enum { F16, BF16, TF32, S8, U8 };
enum { DEPTH = 255, A_SHIFT = 8, B_SHIFT = 12 };

static float element(int type, uint64_t word, int at) {
    _Float16 half;
    uint16_t bits = (uint16_t)(word >> 16 * (at & 1));
    switch (type) {
    case F16: memcpy(&half, &bits, 2); return (float)half;
    case BF16: return number_f32((uint64_t)bits << 16);
    case TF32: return number_f32(word & 0xffffe000); /* the unit does not see the rest */
    case S8: return (float)(int8_t)(word >> 8 * at);
    default: return (float)(uint8_t)(word >> 8 * at);
    }
}

static int per_word(int type) { return type == TF32 ? 1 : type <= BF16 ? 2 : 4; }

static void gather(const ptx_warp *w, const ptx_instruction *i, float a[ROWS][DEPTH_MAX], float b[COLUMNS][DEPTH_MAX]) {
    int depth = i->op & DEPTH, type_a = i->op >> A_SHIFT & 15, type_b = i->op >> B_SHIFT & 15, n = per_word(type_a);
    int halves = depth / (4 * n); /* how often the four lanes of a row come round: 1 or 2 */
    for (int l = 0; l < LANES; l++)
        for (int half = 0; half < halves; half++)
            for (int at = 0; at < n; at++) {
                int k = half * 4 * n + l % 4 * n + at;
                for (int lower = 0; lower < 2; lower++)
                    a[l / 4 + 8 * lower][k] = element(type_a, w->rows[i->operands[1].parts[2 * half + lower]][l], at);
                b[l / 4][k] = element(type_b, w->rows[i->operands[2].parts[half]][l], at);
            }
}

static void multiply(ptx_warp *w, const ptx_instruction *i, uint32_t lanes) {
    float a[ROWS][DEPTH_MAX], b[COLUMNS][DEPTH_MAX];
    int depth = i->op & DEPTH;
    bool integer = (i->op >> A_SHIFT & 15) >= S8;
    if (lanes != UINT32_MAX) {
        ptx_fail(w, -1, "a matrix product without all threads of a warp");
        return;
    }
    gather(w, i, a, b);
    for (int l = 0; l < LANES; l++)
        for (int r = 0; r < 4; r++) {
            int row = l / 4 + r / 2 * 8, column = l % 4 * 2 + r % 2;
            uint64_t c = w->rows[i->operands[3].parts[r]][l];
            int32_t whole = (int32_t)c;
            float sum = number_f32(c);
            for (int k = 0; k < depth; k++) {
                if (integer)
                    whole += (int32_t)a[row][k] * (int32_t)b[column][k];
                else
                    sum = fmaf(a[row][k], b[column][k], sum);
            }
            ptx_put(w, i->operands[0].parts[r], l, integer ? (uint64_t)(uint32_t)whole : number_bits32(sum));
        }
}

bool ptx_prepare_matrix(ptx_instruction *i) {
    static const char *const names[] = {"f16", "bf16", "tf32", "s8", "u8"};
    char types[4][NAME];
    int depth;
    if (sscanf(i->name, "mma.sync.m16n8k%d.row.col.%15[^.].%15[^.].%15[^.].%15[^.]", &depth, types[0], types[1],
               types[2], types[3]) != 5)
        return false;
    int a = -1, b = -1;
    for (int t = 0; t < 5; t++) {
        if (!strcmp(types[1], names[t])) a = t;
        if (!strcmp(types[2], names[t])) b = t;
    }
    bool integer = a >= S8;
    if (a < 0 || b < 0 || per_word(a) != per_word(b) || strcmp(types[0], integer ? "s32" : "f32") ||
        strcmp(types[3], types[0]))
        return false;
    int halves = depth / (4 * per_word(a));
    if (depth % (4 * per_word(a)) || halves < 1 || halves > 2 || i->count != 4) return false;
    static const int counts[] = {4, 0, 0, 4};
    for (int o = 0; o < 4; o++) {
        int wanted = o == 1 ? 2 * halves : o == 2 ? halves : counts[o];
        if (i->operands[o].kind != VECTOR || i->operands[o].count != wanted) return false;
    }
    i->run = multiply, i->op = depth | a << A_SHIFT | b << B_SHIFT;
    return true;
}
