/* The table of wave units: every element of the operands and of the result has its lane, and its only one. */
#include "codegen/kernel/matrix.h"
#include "tests/kernel/kernels.h"

enum { FIRST = WEFT_MFMA_32_BF16, LAST = WEFT_COOPERATIVE_16_I8 };

START_TEST(places) {
    const weft_wave_unit *u = weft_wave_unit_get(_i);
    ck_assert_ptr_nonnull(u);
    int taken[32][64] = {{0}}, made[32][32] = {{0}}, run = u->parts * u->part_lanes;
    if (u->spread != WEFT_SPREAD_HIDDEN) ck_assert_int_eq(u->part_lanes * weft_dtype_bits(u->dtype), 128);
    for (int lane = 0; lane < u->lanes; lane++) {
        for (int e = 0; e < run; e++) {
            int k = weft_wave_k(u, lane, e);
            ck_assert(k >= 0 && k < u->depth);
            taken[lane % u->size][k]++;
        }
        for (int i = 0; i < u->sums; i++) {
            int row = weft_wave_row(u, lane, i);
            ck_assert(row >= 0 && row < u->size);
            made[row][lane % u->size]++;
        }
    }
    int copies = u->lanes * run / (u->size * u->depth); /* gfx11 holds operands twice */
    for (int line = 0; line < u->size; line++) {
        for (int k = 0; k < u->depth; k++) ck_assert_int_eq(taken[line][k], copies);
        for (int column = 0; column < u->size; column++) ck_assert_int_eq(made[line][column], 1);
    }
}
END_TEST

START_TEST(targets) {
    const weft_capability *c = weft_capability_find("amdgcn", "gfx942");
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_BF16, 32), WEFT_MFMA_32_BF16);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F32, 16), WEFT_MFMA_16_F32);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F64, 16), 0);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F8E4M3FNUZ, 32), WEFT_MFMA_32_E4M3);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F8E4M3FN, 32), 0);
    c = weft_capability_find("amdgcn", "gfx90a");
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_I8, 16), WEFT_MFMA_16_I8);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F8E4M3FNUZ, 32), 0);
    c = weft_capability_find("amdgcn", "gfx1100");
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_BF16, 32), 0);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_I8, 16), WEFT_WMMA_11_I8);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F32, 16), 0);
    c = weft_capability_find("amdgcn", "gfx1200");
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F16, 16), WEFT_WMMA_12_F16);
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F8E5M2, 16), WEFT_WMMA_12_E5M2);
    ck_assert_int_eq(weft_wave_unit_find(weft_capability_find("amdgcn", "gfx1030"), WEFT_F16, 16), 0);
    ck_assert_int_eq(weft_wave_unit_find(weft_capability_find("cuda", "sm_90a"), WEFT_F16, 16), 0);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_F16), 0);
    c = weft_capability_find("vulkan", "vulkan1.2-coop16"); /* whose lanes nobody may ask for */
    ck_assert_int_eq(weft_wave_unit_find(c, WEFT_F16, 16), 0);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_F16), WEFT_COOPERATIVE_16_F16);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_BF16), 0);
    c = weft_capability_find("vulkan", "vulkan1.2-coop16-bf16");
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_F16), WEFT_COOPERATIVE_16_F16);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_BF16), WEFT_COOPERATIVE_16_BF16);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_I8), 0);
    c = weft_capability_find("vulkan", "vulkan1.2-coop16-bf16-i8");
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_BF16), WEFT_COOPERATIVE_16_BF16);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_I8), WEFT_COOPERATIVE_16_I8);
    c = weft_capability_find("vulkan", "vulkan1.2-coop8");
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_F16), WEFT_COOPERATIVE_8_F16);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_I8), WEFT_COOPERATIVE_8_I8);
    ck_assert_int_eq(weft_hidden_unit_find(c, WEFT_BF16), 0);
    ck_assert(!weft_wave_unit_get(0) && !weft_wave_unit_get(FIRST - 1) && !weft_wave_unit_get(LAST + 1));
}
END_TEST

Suite *units_suite(void) {
    Suite *suite = suite_create("units");
    TCase *tests = tcase_create("units");
    tcase_add_loop_test(tests, places, FIRST, LAST + 1);
    tcase_add_test(tests, targets);
    suite_add_tcase(suite, tests);
    return suite;
}
