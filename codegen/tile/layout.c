/* See layout.h. */
#include "codegen/tile/layout.h"

#include <string.h>

const weft_layout weft_layout_mma_a = {3, 5,     0, {{0, 1}, {8, 0}, {0, 8}, {0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}},
                                       0, {0, 0}};
const weft_layout weft_layout_mma_b = {2, 5, 0, {{1, 0}, {8, 0}, {2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4}}, 0, {0, 0}};
const weft_layout weft_layout_mma_c = {2, 5, 0, {{0, 1}, {8, 0}, {0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, 0, {0, 0}};

weft_layout weft_layout_wgmma_c(int n) {
    return (weft_layout){2,     5,     2, {{0, 1}, {8, 0}, {0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}, {16, 0}, {32, 0}},
                         n / 8, {0, 8}};
}

int weft_layout_registers(const weft_layout *layout) {
    return (layout->repeat_count ? layout->repeat_count : 1) << layout->register_bits;
}

weft_place_pair weft_layout_at(const weft_layout *layout, int reg, int lane, int warp) {
    int atom = reg >> layout->register_bits;
    int bits = (reg & ((1 << layout->register_bits) - 1)) | lane << layout->register_bits |
               warp << (layout->register_bits + layout->lane_bits);
    int row = 0, column = 0;
    for (int i = 0; bits; i++, bits >>= 1)
        if (bits & 1) row ^= layout->basis[i].row, column ^= layout->basis[i].column;
    return (weft_place_pair){(int16_t)(row + atom * layout->repeat_step.row),
                             (int16_t)(column + atom * layout->repeat_step.column)};
}

bool weft_layout_equal(const weft_layout *a, const weft_layout *b, int registers) {
    if (a->lane_bits != b->lane_bits || registers > weft_layout_registers(a) || registers > weft_layout_registers(b))
        return false;
    for (int lane = 0; lane < 1 << a->lane_bits; lane++)
        for (int reg = 0; reg < registers; reg++) {
            weft_place_pair x = weft_layout_at(a, reg, lane, 0), y = weft_layout_at(b, reg, lane, 0);
            if (x.row != y.row || x.column != y.column) return false;
        }
    return true;
}

int weft_layout_run(const weft_layout *layout, bool along_rows) {
    int bits = 0;
    for (; bits < layout->register_bits; bits++) {
        weft_place_pair pair = layout->basis[bits];
        if (along_rows ? pair.row != 1 << bits || pair.column : pair.column != 1 << bits || pair.row) break;
    }
    return 1 << bits;
}

/* Sum over runs of bits whose basis doubles: each run is one shift and mask. */
static weft_kval lane_part(weft_kernel *k, const weft_layout *layout, weft_kval lane, weft_kval warp, bool rows) {
    weft_kval sum = weft_k_index(k, 0);
    for (int part = 0; part < 2; part++) {
        int first = layout->register_bits + (part ? layout->lane_bits : 0),
            count = part ? layout->warp_bits : layout->lane_bits;
        for (int b = 0; b < count;) {
            int value = rows ? layout->basis[first + b].row : layout->basis[first + b].column, run = 1;
            if (value == 0) {
                b++;
                continue;
            }
            while (b + run < count) {
                weft_place_pair next = layout->basis[first + b + run];
                if ((rows ? next.row : next.column) != value << run) break;
                run++;
            }
            weft_kval bits = weft_k_binary(k, WEFT_K_shr, part ? warp : lane, weft_k_index(k, b));
            if (b + run < count) bits = weft_k_and(k, bits, weft_k_index(k, (1 << run) - 1));
            sum = weft_k_add(k, sum, weft_k_mul(k, bits, weft_k_index(k, value)));
            b += run;
        }
    }
    return sum;
}

weft_kval weft_layout_lane_row(weft_kernel *k, const weft_layout *layout, weft_kval lane, weft_kval warp) {
    return lane_part(k, layout, lane, warp, true);
}
weft_kval weft_layout_lane_column(weft_kernel *k, const weft_layout *layout, weft_kval lane, weft_kval warp) {
    return lane_part(k, layout, lane, warp, false);
}

int weft_swizzle_128(int row, int column_bytes) {
    return row * 128 + ((column_bytes / 16 ^ (row & 7)) * 16 + column_bytes % 16);
}

int weft_bank_passes(const int *offset, int lanes, int bytes) {
    int worst = 0, at_once = 128 / bytes; /* lanes served together */
    for (int group = 0; group < lanes; group += at_once) {
        int words[32][32], count[32];
        memset(count, 0, sizeof count);
        for (int lane = group; lane < group + at_once && lane < lanes; lane++)
            for (int byte = 0; byte < bytes; byte += 4) {
                int word = (offset[lane] + byte) / 4, bank = word % 32, i = 0;
                while (i < count[bank] && words[bank][i] != word) i++;
                if (i == count[bank] && i < 32) words[bank][count[bank]++] = word;
                if (count[bank] > worst) worst = count[bank];
            }
    }
    return worst;
}
