/* See wgmma.h. */
#include "codegen/tile/wgmma.h"

#include "codegen/kernel/matrix.h"
#include "codegen/tile/ring.h"

weft_kval weft_wgmma_operand(weft_kernel *k, weft_kval memory, weft_kval at, int leading) {
    return weft_kernel_emit(k, WEFT_K_operand, weft_kvector(WEFT_U64, 1), 2, (weft_kval[]){memory, at},
                            weft_operand_layout(128, leading, 1024), 0);
}

weft_kval weft_wgmma_moved(weft_kernel *k, weft_kval operand, int64_t bytes) {
    return weft_k_add(k, operand, weft_k_integer(k, WEFT_U64, bytes / 16));
}

static void issue(weft_kernel *k, int64_t unit, weft_kval d, weft_kval a, int a_first, weft_kval b, bool first) {
    weft_kval zero = weft_k_index(k, 0);
    weft_kval operands[6] = {
        d, zero, a, weft_k_index(k, a_first), b, first ? weft_k_integer(k, WEFT_BOOL, 0) : WEFT_KNONE};
    weft_k_effect(k, WEFT_K_mma_async, 6, operands, first ? unit | WEFT_ASYNC_FIRST : unit, 0);
}

static void commit(weft_kernel *k) { weft_k_effect(k, WEFT_K_mma_commit, 0, NULL, 0, 0); }

void weft_wgmma_inner(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, int box_a, weft_kval b,
                      int box_b) {
    for (int i = 0; i < depth / 16; i++)
        issue(k, unit, d, weft_wgmma_moved(k, a, (int64_t)(i / 4) * box_a + 32 * (i % 4)), 0,
              weft_wgmma_moved(k, b, (int64_t)(i / 4) * box_b + 32 * (i % 4)), i == 0);
    commit(k);
}

void weft_wgmma_outer(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, weft_kval b, bool first) {
    for (int i = 0; i < depth / 16; i++)
        issue(k, unit | WEFT_ASYNC_B_TRANSPOSED, d, a, 4 * i, weft_wgmma_moved(k, b, (int64_t)i * 16 * 128),
              first && i == 0);
    commit(k);
}

void weft_wgmma_across(weft_kernel *k, int64_t unit, int depth, weft_kval d, weft_kval a, weft_kval b) {
    for (int i = 0; i < depth / 16; i++)
        issue(k, unit | WEFT_ASYNC_A_TRANSPOSED | WEFT_ASYNC_B_TRANSPOSED, d,
              weft_wgmma_moved(k, a, (int64_t)i * 16 * 128), 0, weft_wgmma_moved(k, b, (int64_t)i * 16 * 128), i == 0);
    commit(k);
}

weft_kval weft_wgmma_pack(weft_kernel *k, weft_kval low, weft_kval high, weft_dtype dtype) {
    return weft_kernel_emit(k, WEFT_K_pack, weft_kvector(WEFT_U32, 1), 2, (weft_kval[]){low, high}, dtype, 0);
}

weft_kval weft_wgmma_place(weft_kernel *k, weft_kval row_at, weft_kval lane, int i, int box) {
    weft_kval half = weft_k_div(k, lane, weft_k_index(k, 16)), row = weft_k_and(k, lane, weft_k_index(k, 7));
    /* chunk 2 (i % 4) + half of 16 bytes lies at that number XOR the row's: all but i in one register */
    weft_kval first = weft_k_add(k, row_at, weft_k_mul(k, weft_k_xor(k, half, row), weft_k_index(k, 16)));
    weft_kval inside = weft_k_xor(k, first, weft_k_index(k, 32 * (i % 4)));
    return weft_k_add(k, inside, weft_k_index(k, (int64_t)(i / 4) * box));
}
