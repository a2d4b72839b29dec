/* The table of wave units: see matrix.h. Sources: AMD, "Instinct MI200" and "CDNA 3" instruction set architectures,
   chapter "Matrix Arithmetic Instructions"; "RDNA 3" and "RDNA 4" instruction set architectures, WMMA; Khronos,
   VK_KHR_cooperative_matrix, whose sizes are what drivers list. */
#include "codegen/kernel/matrix.h"

#include <stddef.h>

#include "base/dtype.h"

#define MFMA(name, since, elem, total, edge, k, elements)                                                              \
    [WEFT_MFMA_##name] = {.dtype = (elem),                                                                             \
                          .sum = (total),                                                                              \
                          .cores = (since),                                                                            \
                          .size = (edge),                                                                              \
                          .depth = (k),                                                                                \
                          .lanes = 64,                                                                                 \
                          .parts = 1,                                                                                  \
                          .part_lanes = (elements),                                                                    \
                          .sums = (edge) * (edge) / 64,                                                                \
                          .spread = WEFT_SPREAD_FOURS}
#define WMMA(name, since, elem, total, k, count, elements, kind)                                                       \
    [WEFT_WMMA_##name] = {.dtype = (elem),                                                                             \
                          .sum = (total),                                                                              \
                          .cores = (since),                                                                            \
                          .size = 16,                                                                                  \
                          .depth = (k),                                                                                \
                          .lanes = 32,                                                                                 \
                          .parts = (count),                                                                            \
                          .part_lanes = (elements),                                                                    \
                          .sums = 8,                                                                                   \
                          .spread = (kind)}

#define COOPERATIVE(name, since, elem, total, edge, k, count)                                                          \
    [WEFT_COOPERATIVE_##name] = {.dtype = (elem),                                                                      \
                                 .sum = (total),                                                                       \
                                 .cores = (since),                                                                     \
                                 .size = (edge),                                                                       \
                                 .depth = (k),                                                                         \
                                 .lanes = (count),                                                                     \
                                 .parts = 1,                                                                           \
                                 .part_lanes = (edge) * (k) / (count),                                                 \
                                 .sums = (edge) * (edge) / (count),                                                    \
                                 .spread = WEFT_SPREAD_HIDDEN}

static const weft_wave_unit units[] = {
    MFMA(32_BF16, WEFT_CORES_MFMA2, WEFT_BF16, WEFT_F32, 32, 16, 8),
    MFMA(32_F16, WEFT_CORES_MFMA2, WEFT_F16, WEFT_F32, 32, 16, 8),
    MFMA(32_F32, WEFT_CORES_MFMA2, WEFT_F32, WEFT_F32, 32, 8, 4),
    MFMA(32_I8, WEFT_CORES_MFMA2, WEFT_I8, WEFT_I32, 32, 32, 16),
    MFMA(16_BF16, WEFT_CORES_MFMA2, WEFT_BF16, WEFT_F32, 16, 32, 8),
    MFMA(16_F16, WEFT_CORES_MFMA2, WEFT_F16, WEFT_F32, 16, 32, 8),
    MFMA(16_F32, WEFT_CORES_MFMA2, WEFT_F32, WEFT_F32, 16, 16, 4),
    MFMA(16_I8, WEFT_CORES_MFMA2, WEFT_I8, WEFT_I32, 16, 64, 16),
    MFMA(32_E4M3, WEFT_CORES_MFMA3, WEFT_F8E4M3FNUZ, WEFT_F32, 32, 32, 16),
    MFMA(32_E5M2, WEFT_CORES_MFMA3, WEFT_F8E5M2FNUZ, WEFT_F32, 32, 32, 16),
    MFMA(16_E4M3, WEFT_CORES_MFMA3, WEFT_F8E4M3FNUZ, WEFT_F32, 16, 64, 16),
    MFMA(16_E5M2, WEFT_CORES_MFMA3, WEFT_F8E5M2FNUZ, WEFT_F32, 16, 64, 16),
    WMMA(11_BF16, WEFT_CORES_WMMA11, WEFT_BF16, WEFT_F32, 16, 2, 8, WEFT_SPREAD_TURNS),
    WMMA(11_F16, WEFT_CORES_WMMA11, WEFT_F16, WEFT_F32, 16, 2, 8, WEFT_SPREAD_TURNS),
    WMMA(11_I8, WEFT_CORES_WMMA11, WEFT_I8, WEFT_I32, 16, 1, 16, WEFT_SPREAD_TURNS),
    WMMA(12_BF16, WEFT_CORES_WMMA12, WEFT_BF16, WEFT_F32, 16, 1, 8, WEFT_SPREAD_EIGHTS),
    WMMA(12_F16, WEFT_CORES_WMMA12, WEFT_F16, WEFT_F32, 16, 1, 8, WEFT_SPREAD_EIGHTS),
    WMMA(12_I8, WEFT_CORES_WMMA12, WEFT_I8, WEFT_I32, 32, 1, 16, WEFT_SPREAD_EIGHTS),
    WMMA(12_E4M3, WEFT_CORES_WMMA12, WEFT_F8E4M3FN, WEFT_F32, 32, 1, 16, WEFT_SPREAD_EIGHTS),
    WMMA(12_E5M2, WEFT_CORES_WMMA12, WEFT_F8E5M2, WEFT_F32, 32, 1, 16, WEFT_SPREAD_EIGHTS),
    COOPERATIVE(8_F16, WEFT_CORES_COOPERATIVE8, WEFT_F16, WEFT_F32, 8, 8, 8),
    COOPERATIVE(8_I8, WEFT_CORES_COOPERATIVE8, WEFT_I8, WEFT_I32, 8, 8, 8),
    COOPERATIVE(16_F16, WEFT_CORES_COOPERATIVE16, WEFT_F16, WEFT_F32, 16, 16, 32),
    COOPERATIVE(16_BF16, WEFT_CORES_COOPERATIVE16_BF16, WEFT_BF16, WEFT_F32, 16, 16, 32),
    COOPERATIVE(16_I8, WEFT_CORES_COOPERATIVE16_I8, WEFT_I8, WEFT_I32, 16, 32, 32),
};

const weft_wave_unit *weft_wave_unit_get(int64_t unit) {
    return unit >= WEFT_MFMA_32_BF16 && unit < (int64_t)(sizeof units / sizeof *units) ? &units[unit] : NULL;
}

/* Generations of MFMA, and cooperative matrices of one size, keep what those before had; WMMA's operands changed. */
static bool has_unit(weft_cores cores, const weft_wave_unit *unit) {
    bool of_16 = unit->cores >= WEFT_CORES_COOPERATIVE16 && unit->cores <= cores;
    return unit->cores == cores || of_16 || (cores == WEFT_CORES_MFMA3 && unit->cores == WEFT_CORES_MFMA2);
}

int weft_matrix_align(const weft_wave_unit *unit, weft_matrix_use use) {
    weft_dtype elem = use == WEFT_MATRIX_D ? unit->sum : unit->dtype;
    int shortest = unit->size < unit->depth || use == WEFT_MATRIX_D ? unit->size : unit->depth;
    int bytes = shortest * weft_dtype_bits(elem) / 8;
    return bytes < 16 ? bytes : 16;
}

int64_t weft_wave_unit_find(const weft_capability *capability, weft_dtype dtype, int size) {
    for (int64_t unit = WEFT_MFMA_32_BF16; weft_wave_unit_get(unit); unit++) {
        const weft_wave_unit *u = weft_wave_unit_get(unit);
        if (has_unit(capability->cores, u) && u->dtype == dtype && u->size == size && u->spread != WEFT_SPREAD_HIDDEN)
            return unit;
    }
    return 0;
}

int64_t weft_hidden_unit_find(const weft_capability *capability, weft_dtype dtype) {
    for (int64_t unit = WEFT_MFMA_32_BF16; weft_wave_unit_get(unit); unit++) {
        const weft_wave_unit *u = weft_wave_unit_get(unit);
        if (has_unit(capability->cores, u) && u->dtype == dtype && u->spread == WEFT_SPREAD_HIDDEN) return unit;
    }
    return 0;
}

int weft_wave_k(const weft_wave_unit *unit, int lane, int element) {
    int run = unit->parts * unit->part_lanes;
    return lane / unit->size % (unit->depth / run) * run + element;
}

int weft_wave_row(const weft_wave_unit *unit, int lane, int sum) {
    int group = lane / unit->size, groups = unit->lanes / unit->size;
    switch (unit->spread) {
    case WEFT_SPREAD_FOURS: return sum / 4 * 4 * groups + 4 * group + sum % 4;
    case WEFT_SPREAD_TURNS: return 2 * sum + group;
    case WEFT_SPREAD_EIGHTS:
    case WEFT_SPREAD_HIDDEN: return 8 * group + sum;
    }
    return 0;
}
