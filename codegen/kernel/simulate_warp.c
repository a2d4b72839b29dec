/* Instructions that the lanes of a warp do together: shuffles, and the matrix rows of sm_80.

   The caller runs them when every lane of the warp stands at the same instruction. */
#include <string.h>

#include "codegen/kernel/matrix.h"
#include "codegen/kernel/simulate_internal.h"

enum { WAVE_SIZE_MAX = 32, WAVE_DEPTH_MAX = 64 };

bool weft_sim_is_collective(weft_kop op) {
    return weft_sim_is_matrix(op) || op == WEFT_K_shuffle_xor || op == WEFT_K_warp_sync || op == WEFT_K_frag_load ||
           op == WEFT_K_frag_store || op == WEFT_K_mma || op == WEFT_K_matrix_load || op == WEFT_K_matrix_store;
}

static bool shuffle(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    weft_kval operand = weft_koperand(sim->kernel, instr, 0);
    size_t slot = sim->slot[lanes[0]->pc];
    for (int n = 0; n < count; n++) {
        int from = n ^ (int)instr->i;
        if (from >= count) return weft_sim_fault(sim, lanes[n], "shuffle from lane %d, which does not exist", from);
        memcpy(lanes[n]->slots + slot, weft_sim_value(sim, lanes[from], operand), instr->type.lanes * sizeof(uint64_t));
    }
    return true;
}

static bool warp_sync(weft_sim *sim, weft_sim_thread *const *lanes, int count) {
    for (int n = 1; n < count; n++) weft_sim_join(lanes[0]->clock, lanes[n]->clock, sim->clock_words);
    for (int n = 1; n < count; n++) weft_sim_join(lanes[n]->clock, lanes[0]->clock, sim->clock_words);
    for (int n = 0; n < count; n++) lanes[n]->clock[lanes[n]->index]++;
    return true;
}

/* `count` registers of regs operand `at`, first register operand `at` + 1; NULL after a fault. */
static uint64_t *fragment(weft_sim *sim, weft_sim_thread *lane, const weft_kinstr *instr, int at, int count, bool reads,
                          bool writes) {
    weft_kval object = weft_koperand(sim->kernel, instr, at);
    int64_t first = (int64_t)*weft_sim_value(sim, lane, weft_koperand(sim->kernel, instr, at + 1));
    const weft_kinstr *regs = weft_kernel_get(sim->kernel, object);
    int width = regs->type.lanes;
    if (first < 0 || first + count > regs->i) {
        weft_sim_fault(sim, lane, "out of bounds: registers %lld to %lld of %lld", (long long)first,
                       (long long)first + count - 1, (long long)regs->i);
        return NULL;
    }
    size_t slot = sim->slot[object] + (size_t)first * (size_t)width;
    for (int n = 0; reads && n < count * width; n++)
        if (!lane->defined[slot + (size_t)n]) {
            weft_sim_fault(sim, lane, "uninitialised: register %lld of a fragment", (long long)first + n / width);
            return NULL;
        }
    if (writes) memset(lane->defined + slot, 1, (size_t)count * (size_t)width);
    return lane->slots + slot;
}

/* Lane l gives the address of row l % 8 of tile l / 8; register t of lane l holds elements 2 (l % 4) and the next of
 * row l / 4. */
static bool frag_move(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    bool loads = instr->op == WEFT_K_frag_load, transposed = instr->i & WEFT_FRAGMENT_TRANSPOSED;
    int tiles = (int)instr->i & 7;
    if (count != 32) return weft_sim_fault(sim, lanes[0], "a fragment needs a whole warp");
    unsigned char *rows[32];
    size_t offsets[32];
    for (int l = 0; l < 8 * tiles; l++) {
        weft_sim_memory *memory = weft_sim_memory_of(sim, lanes[l], weft_koperand(sim->kernel, instr, 2));
        int64_t offset = (int64_t)*weft_sim_value(sim, lanes[l], weft_koperand(sim->kernel, instr, 3));
        weft_sim_actor actor = weft_sim_self(lanes[l], weft_kop_name((weft_kop)instr->op));
        if (offset < 0 || offset % 16)
            return weft_sim_fault(sim, lanes[l], "misaligned: a fragment row at byte %lld", (long long)offset);
        bool good = loads ? weft_sim_read(sim, lanes[l], memory, (size_t)offset, 16, &actor)
                          : weft_sim_write(sim, lanes[l], memory, (size_t)offset, 16, &actor);
        if (!good) return false;
        rows[l] = memory->data + offset;
        offsets[l] = (size_t)offset;
    }
    for (int t = 0; t < tiles && weft_sim_counts_on(sim); t++) weft_sim_count_rows(sim, offsets + 8 * t);
    for (int l = 0; l < 32; l++) {
        uint64_t *registers = fragment(sim, lanes[l], instr, 0, tiles, !loads, loads);
        if (!registers) return false;
        for (int t = 0; t < tiles; t++)
            for (int half = 0; half < 2; half++) {
                int row = transposed ? 2 * (l % 4) + half : l / 4, column = transposed ? l / 4 : 2 * (l % 4) + half;
                unsigned char *element = rows[8 * t + row] + 2 * column;
                uint16_t bits = (uint16_t)(registers[t] >> 16 * half);
                if (loads) {
                    memcpy(&bits, element, 2);
                    registers[t] = (registers[t] & ~(UINT64_C(0xffff) << 16 * half) & UINT32_MAX) | (uint64_t)bits
                                                                                                        << 16 * half;
                } else {
                    memcpy(element, &bits, 2);
                }
            }
    }
    return true;
}

static float half_value(weft_matrix_unit unit, uint64_t bits) {
    return unit == WEFT_MMA_M16N8K16_F16 ? (float)weft_float_decode(WEFT_F16, bits) : weft_kscalar_f32(bits << 16);
}

/* Element (row, k) of a, (k, column) of b; PTX ISA 9.7.14.5. */
static float operand_a(uint64_t *const *a, weft_matrix_unit unit, int row, int k) {
    if (unit == WEFT_MMA_M16N8K8_TF32)
        return weft_kscalar_f32(a[row % 8 * 4 + k % 4][row / 8 + 2 * (k / 4)] & 0xffffe000u);
    uint64_t bits = a[row % 8 * 4 + k % 8 / 2][row / 8 + 2 * (k / 8)] >> 16 * (k % 2) & 0xffff;
    return half_value(unit, bits);
}

static float operand_b(uint64_t *const *b, weft_matrix_unit unit, int k, int column) {
    if (unit == WEFT_MMA_M16N8K8_TF32) return weft_kscalar_f32(b[column * 4 + k % 4][k / 4] & 0xffffe000u);
    uint64_t bits = b[column * 4 + k % 8 / 2][k / 8] >> 16 * (k % 2) & 0xffff;
    return half_value(unit, bits);
}

/* One lane's share of the operands as doubles: line is the row (a) or column (b), k the depth. */
static void spread(const weft_wave_unit *unit, const uint64_t *from, int lane, double (*to)[WAVE_DEPTH_MAX]) {
    for (int e = 0; e < unit->parts * unit->part_lanes; e++) {
        double value = unit->dtype == WEFT_I8    ? (double)(int8_t)from[e]
                       : unit->dtype == WEFT_F32 ? (double)weft_kscalar_f32(from[e])
                                                 : weft_float_decode(unit->dtype, from[e]);
        to[lane % unit->size][weft_wave_k(unit, lane, e)] = value;
    }
}

/* Wave units: sums over k in order, each product and sum rounded to f32 (integers: exact, wrapped). */
static bool wave_mma(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr,
                     const weft_wave_unit *unit) {
    if (count != unit->lanes) return weft_sim_fault(sim, lanes[0], "mma needs a whole wavefront");
    double a[WAVE_SIZE_MAX][WAVE_DEPTH_MAX], b[WAVE_SIZE_MAX][WAVE_DEPTH_MAX];
    uint64_t *d[64];
    for (int l = 0; l < count; l++) {
        const uint64_t *from_a = fragment(sim, lanes[l], instr, 2, unit->parts, true, false);
        const uint64_t *from_b = fragment(sim, lanes[l], instr, 4, unit->parts, true, false);
        d[l] = fragment(sim, lanes[l], instr, 0, 1, true, true);
        if (!from_a || !from_b || !d[l]) return false;
        spread(unit, from_a, l, a);
        spread(unit, from_b, l, b);
    }
    for (int l = 0; l < count; l++)
        for (int i = 0; i < unit->sums; i++) {
            const double *row = a[weft_wave_row(unit, l, i)], *column = b[l % unit->size];
            if (unit->sum == WEFT_I32) {
                int64_t total = (int32_t)d[l][i];
                for (int k = 0; k < unit->depth; k++) total += (int64_t)(row[k] * column[k]);
                d[l][i] = (uint64_t)(int64_t)(int32_t)(uint32_t)total;
                continue;
            }
            float total = weft_kscalar_f32(d[l][i]);
            for (int k = 0; k < unit->depth; k++) total += (float)row[k] * (float)column[k];
            d[l][i] = weft_kscalar_of_f32(total);
        }
    return true;
}

/* 8 x 8 matrices of a simdgroup: sums over k in order. */
static bool simdgroup_mma(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    float a[8][8], b[8][8];
    uint64_t *d[32];
    if (count != 32) return weft_sim_fault(sim, lanes[0], "mma needs a whole simdgroup");
    for (int l = 0; l < count; l++) {
        const uint64_t *from_a = fragment(sim, lanes[l], instr, 2, 1, true, false),
                       *from_b = fragment(sim, lanes[l], instr, 4, 1, true, false);
        d[l] = fragment(sim, lanes[l], instr, 0, 1, true, true);
        if (!from_a || !from_b || !d[l]) return false;
        for (int e = 0; e < 2; e++) {
            a[weft_simdgroup_row(l)][weft_simdgroup_column(l) + e] = weft_kscalar_f32(from_a[e]);
            b[weft_simdgroup_row(l)][weft_simdgroup_column(l) + e] = weft_kscalar_f32(from_b[e]);
        }
    }
    for (int l = 0; l < count; l++)
        for (int e = 0; e < 2; e++) {
            float total = weft_kscalar_f32(d[l][e]);
            for (int k = 0; k < 8; k++) total += a[weft_simdgroup_row(l)][k] * b[k][weft_simdgroup_column(l) + e];
            d[l][e] = weft_kscalar_of_f32(total);
        }
    return true;
}

/* One lane's share of a whole matrix, element by element. */
static bool move_share(weft_sim *sim, weft_sim_thread *lane, int number, const weft_kinstr *instr, int64_t start) {
    const weft_wave_unit *unit = weft_wave_unit_get(weft_matrix_unit_of(instr->i));
    bool loads = instr->op == WEFT_K_matrix_load, sums = weft_matrix_use_of(instr->i) == WEFT_MATRIX_D;
    size_t bytes = (size_t)weft_dtype_bits(sums ? unit->sum : unit->dtype) / 8;
    weft_sim_memory *memory = weft_sim_memory_of(sim, lane, weft_koperand(sim->kernel, instr, 2));
    weft_sim_actor actor = weft_sim_self(lane, weft_kop_name((weft_kop)instr->op));
    uint64_t *registers = fragment(sim, lane, instr, 0, 1, !loads, loads);
    for (int e = 0; registers && e < (sums ? unit->sums : unit->part_lanes); e++) {
        int line = sums ? weft_wave_row(unit, number, e) : number % unit->size,
            on = sums ? number % unit->size : weft_wave_k(unit, number, e);
        size_t at = (size_t)(start + (int64_t)line * weft_matrix_pitch(instr->i) + on) * bytes;
        bool good = loads ? weft_sim_read(sim, lane, memory, at, bytes, &actor)
                          : weft_sim_write(sim, lane, memory, at, bytes, &actor);
        if (!good) return false;
        if (loads) registers[e] = 0;
        memcpy(loads ? (void *)&registers[e] : memory->data + at, loads ? memory->data + at : (void *)&registers[e],
               bytes);
    }
    return registers != NULL;
}

static bool whole_matrix(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    const weft_wave_unit *unit = weft_wave_unit_get(weft_matrix_unit_of(instr->i));
    if (count != unit->lanes) return weft_sim_fault(sim, lanes[0], "a matrix needs a whole subgroup");
    int64_t start = (int64_t)*weft_sim_value(sim, lanes[0], weft_koperand(sim->kernel, instr, 3));
    int bytes = weft_dtype_bits(weft_matrix_use_of(instr->i) == WEFT_MATRIX_D ? unit->sum : unit->dtype) / 8;
    if (start < 0 || start * bytes % weft_matrix_align(unit, weft_matrix_use_of(instr->i)))
        return weft_sim_fault(sim, lanes[0], "misaligned: a matrix at element %lld", (long long)start);
    for (int l = 0; l < count; l++) {
        if ((int64_t)*weft_sim_value(sim, lanes[l], weft_koperand(sim->kernel, instr, 3)) != start)
            return weft_sim_fault(sim, lanes[l], "lanes that mean different matrices");
        if (!move_share(sim, lanes[l], l, instr, start)) return false;
    }
    for (int first = 0; first < unit->size && weft_sim_counts_on(sim); first += 8)
        for (int column = 0; column < unit->size * bytes; column += 16) {
            size_t offsets[8];
            for (int i = 0; i < 8; i++)
                offsets[i] = (size_t)(start + (int64_t)(first + i) * weft_matrix_pitch(instr->i)) * (size_t)bytes +
                             (size_t)column;
            weft_sim_count_rows(sim, offsets);
        }
    return true;
}

static bool mma(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    const weft_wave_unit *wave = weft_wave_unit_get(instr->i);
    if (wave) return wave_mma(sim, lanes, count, instr, wave);
    weft_matrix_unit unit = (weft_matrix_unit)instr->i;
    if (unit == WEFT_SIMDGROUP_F32) return simdgroup_mma(sim, lanes, count, instr);
    if (count != 32) return weft_sim_fault(sim, lanes[0], "mma needs a whole warp");
    uint64_t *a[32], *b[32], *d[32];
    for (int l = 0; l < 32; l++) {
        d[l] = fragment(sim, lanes[l], instr, 0, 4, true, true);
        a[l] = fragment(sim, lanes[l], instr, 2, 4, true, false);
        b[l] = fragment(sim, lanes[l], instr, 4, 2, true, false);
        if (!a[l] || !b[l] || !d[l]) return false;
    }
    int depth = unit == WEFT_MMA_M16N8K8_TF32 ? 8 : 16;
    float left[16][16], right[8][16]; /* rows of a, columns of b */
    for (int k = 0; k < depth; k++) {
        for (int row = 0; row < 16; row++) left[row][k] = operand_a(a, unit, row, k);
        for (int column = 0; column < 8; column++) right[column][k] = operand_b(b, unit, k, column);
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++) {
            uint64_t *sum = &d[row % 8 * 4 + column / 2][row / 8 * 2 + column % 2];
            float value = weft_kscalar_f32(*sum);
            for (int k = 0; k < depth; k++) value += left[row][k] * right[column][k];
            *sum = weft_kscalar_of_f32(value);
        }
    return true;
}

bool weft_sim_collective(weft_sim *sim, weft_sim_thread *const *lanes, int count, const weft_kinstr *instr) {
    switch ((int)instr->op) {
    case WEFT_K_shuffle_xor: return shuffle(sim, lanes, count, instr);
    case WEFT_K_warp_sync: return warp_sync(sim, lanes, count);
    case WEFT_K_mma: return mma(sim, lanes, count, instr);
    case WEFT_K_matrix_load:
    case WEFT_K_matrix_store: return whole_matrix(sim, lanes, count, instr);
    case WEFT_K_mma_fence:
    case WEFT_K_mma_async:
    case WEFT_K_mma_commit:
    case WEFT_K_mma_wait: return weft_sim_matrix(sim, lanes, count, instr);
    default: return frag_move(sim, lanes, count, instr);
    }
}
