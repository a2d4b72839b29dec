/* Encodings of the matrix rows of kernel_ops.def: which unit a `mma` or `mma_async` uses, how `frag_load` spreads a
   tile over lanes, how an `operand` descriptor sees shared memory. Printers and the simulator share them. Read next:
   codegen/tile/layout.h, the same units as tables of index bits; matrix.c. Source: PTX ISA 8.x, sections
   9.7.14-9.7.15. */
#ifndef WEFT_CODEGEN_KERNEL_MATRIX_H
#define WEFT_CODEGEN_KERNEL_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/capability.h"

/* mma: 16 x 8 += 16 x k . k x 8, a row-major, b column-major; fragments of 4 (a), 2 (b) u32 and 4 f32 (d) per lane. */
typedef enum weft_matrix_unit {
    WEFT_MMA_M16N8K16_BF16 = 1,
    WEFT_MMA_M16N8K16_F16 = 2,
    WEFT_MMA_M16N8K8_TF32 = 3,
    /* wave units: the table below */
    WEFT_MFMA_32_BF16 = 16,
    WEFT_MFMA_32_F16,
    WEFT_MFMA_32_F32,
    WEFT_MFMA_32_I8,
    WEFT_MFMA_16_BF16,
    WEFT_MFMA_16_F16,
    WEFT_MFMA_16_F32,
    WEFT_MFMA_16_I8,
    WEFT_WMMA_11_BF16, /* gfx11 */
    WEFT_WMMA_11_F16,
    WEFT_WMMA_11_I8,
    WEFT_WMMA_12_BF16, /* gfx12 */
    WEFT_WMMA_12_F16,
    WEFT_WMMA_12_I8,
    WEFT_MFMA_32_E4M3, /* CDNA 3: the fnuz formats */
    WEFT_MFMA_32_E5M2,
    WEFT_MFMA_16_E4M3,
    WEFT_MFMA_16_E5M2,
    WEFT_WMMA_12_E4M3, /* gfx12: the OCP formats */
    WEFT_WMMA_12_E5M2,
    WEFT_COOPERATIVE_8_F16, /* Vulkan */
    WEFT_COOPERATIVE_8_I8,
    WEFT_COOPERATIVE_16_F16,
    WEFT_COOPERATIVE_16_BF16,
    WEFT_COOPERATIVE_16_I8,
    WEFT_SIMDGROUP_F32 = 64 /* Metal */
} weft_matrix_unit;

/* mma by a simdgroup (Metal): 8 x 8 += 8 x 8 . 8 x 8 of f32; a, b and d are one register vec<f32, 2> a lane each, two
   neighbours of a row: lane l holds columns weft_simdgroup_column(l), + 1 of row weft_simdgroup_row(l). That is where
   Apple's GPUs keep a matrix; no text of Apple's states it. */
static inline int weft_simdgroup_row(int lane) { return (lane >> 4 & 1) * 4 + (lane >> 1 & 3); }
static inline int weft_simdgroup_column(int lane) { return (lane >> 3 & 1) * 4 + (lane & 1) * 2; }

/* Which D rows a lane holds: groups of four and every 4 n-th; every other; eight neighbours; nobody knows: such
   matrices only come from and go to shared memory whole (matrix_load, matrix_store), and the simulator spreads them as
   EIGHTS. */
typedef enum weft_wave_spread {
    WEFT_SPREAD_FOURS,
    WEFT_SPREAD_TURNS,
    WEFT_SPREAD_EIGHTS,
    WEFT_SPREAD_HIDDEN
} weft_wave_spread;

/* mma by a whole wavefront (AMD): size x size += size x depth . depth x size. Operands are `parts` registers of 16
   bytes a lane, vec<dtype, part_lanes>; sums one register vec<sum, sums>. Lane l holds row (a) or column (b) l % size,
   elements weft_wave_k(l, e), and of d column l % size, rows weft_wave_row(l, i). A row may be several machine
   instructions; what depth means to each is theirs: only the pairs (a, b) count. */
typedef struct weft_wave_unit {
    weft_dtype dtype, sum;
    weft_cores cores; /* the first generation that has it */
    int size, depth, lanes, parts, part_lanes, sums;
    weft_wave_spread spread;
} weft_wave_unit;

const weft_wave_unit *weft_wave_unit_get(int64_t unit); /* NULL: no wave unit */
/* The unit of this size that the target has for such operands; 0: none. Units that hide their spread: only by the
   second one. */
int64_t weft_wave_unit_find(const weft_capability *capability, weft_dtype dtype, int size);
int64_t weft_hidden_unit_find(const weft_capability *capability, weft_dtype dtype);
int weft_wave_k(const weft_wave_unit *unit, int lane, int element);
int weft_wave_row(const weft_wave_unit *unit, int lane, int sum);

/* matrix_load, matrix_store of a unit whose spread is hidden: a line is a row of a or d, a column of b, and lies as
   neighbours; from one to the next it is `pitch` elements. Lines start at multiples of 16 bytes, or of their own where
   these are fewer. */
typedef enum weft_matrix_use { WEFT_MATRIX_A, WEFT_MATRIX_B, WEFT_MATRIX_D } weft_matrix_use;
static inline int64_t weft_matrix_place(int64_t unit, weft_matrix_use use, int pitch) {
    return unit | (int64_t)use << 8 | (int64_t)pitch << 16;
}
static inline int64_t weft_matrix_unit_of(int64_t place) { return place & 255; }
static inline weft_matrix_use weft_matrix_use_of(int64_t place) { return (weft_matrix_use)(place >> 8 & 3); }
int weft_matrix_align(const weft_wave_unit *unit, weft_matrix_use use); /* that multiple, in bytes */
static inline int weft_matrix_pitch(int64_t place) { return (int)(place >> 16); }

/* frag_load, frag_store: 8 x 8 tiles of 16-bit elements; lane l gives the address of row l % 8 of tile l / 8 and gets
   elements 2 (l % 4), 2 (l % 4) + 1 of row l / 4 of every tile (TRANSPOSED: of column l / 4). */
typedef enum weft_fragment {
    WEFT_FRAGMENT_X1 = 1,
    WEFT_FRAGMENT_X2 = 2,
    WEFT_FRAGMENT_X4 = 4,
    WEFT_FRAGMENT_TRANSPOSED = 8 /* added to one of the above */
} weft_fragment;

/* mma_async: 64 x n += 64 x k . k x n, 256 bits of k (16 of 16-bit elements), n = 8, 16 ... 256; f32 accumulators. */
typedef enum weft_async_type {
    WEFT_ASYNC_BF16,
    WEFT_ASYNC_F16,
    WEFT_ASYNC_TF32,
    WEFT_ASYNC_E4M3, /* 8 bits: bit 0 of the difference from here = b is e5m2, bit 1 = a is */
    WEFT_ASYNC_E4M3_E5M2,
    WEFT_ASYNC_E5M2_E4M3,
    WEFT_ASYNC_E5M2
} weft_async_type;
enum {
    WEFT_ASYNC_A_TRANSPOSED = 1 << 20, /* a in shared memory is M-major (16-bit elements only) */
    WEFT_ASYNC_B_TRANSPOSED = 1 << 21, /* b is N-major */
    WEFT_ASYNC_FIRST = 1 << 22         /* d is written without being read: accumulate is the constant false */
};
static inline int64_t weft_async_unit(int n, weft_async_type type, int flags) {
    return n | (int64_t)type << 16 | flags;
}
/* 8-bit floats: is operand a (b) e5m2? */
static inline int weft_async_is_e5m2(weft_async_type type, int is_b) {
    return type >= WEFT_ASYNC_E4M3 && (type - WEFT_ASYNC_E4M3) >> (is_b ? 0 : 1) & 1;
}
static inline int weft_async_n(int64_t unit) { return (int)(unit & 0xffff); }
static inline weft_async_type weft_async_type_of(int64_t unit) { return (weft_async_type)(unit >> 16 & 15); }

/* operand: swizzle in bytes (0 32 64 128); leading: bytes between core-matrix groups along the contiguous axis (ignored
   by swizzled K-major tiles: 16); stride: bytes between groups of 8 rows. */
static inline int64_t weft_operand_layout(int swizzle_bytes, int leading_bytes, int stride_bytes) {
    return swizzle_bytes | (int64_t)(leading_bytes / 16) << 16 | (int64_t)(stride_bytes / 16) << 32;
}
static inline int weft_operand_swizzle(int64_t layout) { return (int)(layout & 0xffff); }
static inline int weft_operand_leading(int64_t layout) { return (int)(layout >> 16 & 0xffff) * 16; }
static inline int weft_operand_stride(int64_t layout) { return (int)(layout >> 32 & 0xffff) * 16; }

#endif
