/* Bit-linear layouts: where the elements of a tile lie in registers, lanes and warps, or in swizzled shared memory.

   An element index is a string of bits: register bits lowest, then lane bits, then warp bits. basis[i] is the (row,
   column) pair that is XORed in when bit i is set; {0, 0} = the bit replicates. Whole atoms beyond the register bits
   repeat affinely (a wgmma accumulator with n = 176 is 22 atoms of 8 columns). Every matrix unit's fragments are one
   table row; "accumulator fragment = operand fragment" is a comparison of tables. Source: PTX ISA 8.x section 9.7.14
   (fragments), 9.7.15 (wgmma, swizzles). Immutable. */
#ifndef WEFT_CODEGEN_TILE_LAYOUT_H
#define WEFT_CODEGEN_TILE_LAYOUT_H

#include "codegen/kernel/build.h"

typedef struct weft_place_pair {
    int16_t row, column;
} weft_place_pair;

typedef struct weft_layout {
    uint8_t register_bits, lane_bits, warp_bits;
    weft_place_pair basis[12];
    int repeat_count; /* atoms; 0 = 1 */
    weft_place_pair repeat_step;
} weft_layout;

/* m16n8k16 (16-bit): A in pairs of k, B in pairs of k, C; one warp. */
extern const weft_layout weft_layout_mma_a, weft_layout_mma_b, weft_layout_mma_c;
/* wgmma accumulator of 64 x n over 4 warps; A from registers. */
weft_layout weft_layout_wgmma_c(int n);

int weft_layout_registers(const weft_layout *layout);
weft_place_pair weft_layout_at(const weft_layout *layout, int reg, int lane, int warp);
/* Same place for every register and lane: one fragment serves as the other without moving data. */
bool weft_layout_equal(const weft_layout *a, const weft_layout *b, int registers);
/* Consecutive registers that hold consecutive columns (rows): the widest access along them. */
int weft_layout_run(const weft_layout *layout, bool along_rows);

/* The part of the row (column) that depends on lane and warp, as kernel IR; add the constant of weft_layout_at(reg, 0,
 * 0). */
weft_kval weft_layout_lane_row(weft_kernel *k, const weft_layout *layout, weft_kval lane, weft_kval warp);
weft_kval weft_layout_lane_column(weft_kernel *k, const weft_layout *layout, weft_kval lane, weft_kval warp);

/* Byte offset of (row, column byte) in a shared tile of 128-byte rows with the 128-byte swizzle: 16-byte column c of
   row r lies at c ^ (r & 7). */
int weft_swizzle_128(int row, int column_bytes);
/* Distinct bank passes of an access of `bytes` per lane whose lanes are at offset[lane]: 1 = free of conflicts. */
int weft_bank_passes(const int *offset, int lanes, int bytes);

#endif
