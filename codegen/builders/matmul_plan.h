/* Tiles and blocks of the CPU matmul, as numbers. Read next: matmul_plan.c, matmul_cpu.c. */
#ifndef WEFT_CODEGEN_BUILDERS_MATMUL_PLAN_H
#define WEFT_CODEGEN_BUILDERS_MATMUL_PLAN_H

#include "codegen/builders/matmul.h"

typedef struct weft_matmul_tiles {
    int lanes, mr, nv, sets; /* register tile: mr rows x nv vectors; sets = accumulators per output, hides the FMA
                                latency of small tiles */
    int panels_per_block;    /* that stay in L2 */
    int64_t tiles_per_block; /* row tiles */
    /* static m: the first `extra` of `tiles` row tiles have base + 1 rows, the others base. Else tiles of mr rows and a
     * rest. */
    bool m_known, n_known;
    int64_t tiles, base, extra;
    int64_t wide; /* static n: full panels, then one of last_nv vectors, the last with last_live lanes */
    int last_nv, last_live;
    weft_dim row_blocks, panels, panel_blocks, panel_rows; /* panel_rows: k */
} weft_matmul_tiles;

/* Row counts and vectors of the best register tile for m x n x k (m < 0: symbolic) with rows `stride` bytes apart. */
void weft_tile_choose(const weft_capability *capability, int element_bytes, int64_t m, int64_t n, int64_t k,
                      int64_t stride, int threads, int *out_rows, int *out_vectors);
/* Candidates by the cost model: fills schedule. */
void weft_matmul_propose_tiles(const weft_build_request *request, const weft_matmul *p, weft_schedule *out_schedule);
/* Everything that follows from problem and schedule. single_row: m is taken as 1. */
weft_matmul_tiles weft_matmul_tiles_of(const weft_build_request *request, const weft_matmul *p,
                                       const weft_schedule *schedule, bool single_row);

/* matmul_dots.c: few rows times columns that lie along k. */
bool weft_matmul_takes_dots(const weft_build_request *request, const weft_matmul *p);
weft_status weft_matmul_dots(const weft_build_request *request, const weft_matmul *p,
                             weft_kernel_plan *out_plan) WEFT_MUST_USE;

#endif
