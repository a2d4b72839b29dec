/* Small kernels in the simulator against plain C, and the same kernels with one fault each: every fault must be named.
 */
#include <math.h>

#include "codegen/kernel/matrix.h"
#include "kernels.h"

enum { N = 100, THREADS = 64, BLOCKS = 3 };

/* y = x * 2 + 1 with masked tails, 8 lanes at a time. */
START_TEST(test_masked_vectors) {
    bench b;
    bench_open(&b, "cpu");
    weft_kernel *k = b.k;
    weft_dim n = weft_dim_symbol(b.dims, "N", 1, 1000, 1, WEFT_SYMBOL_DECLARED);
    weft_kval x = bench_in(&b, WEFT_F32, "x"), y = bench_out(&b, WEFT_F32, "y");
    weft_kval count = weft_k_extent(k, n);
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), count, weft_k_index(k, 8), 0);
    weft_kval mask = weft_k_lt(k, weft_k_add(k, i, weft_k_iota(k, WEFT_I64, 8)), count);
    weft_kval v = weft_k_load(k, x, i, 8, mask, WEFT_KNONE);
    weft_k_store(k, y, i, mask, weft_k_fma(k, v, weft_k_float(k, WEFT_F32, 2), weft_k_float(k, WEFT_F32, 1)));
    weft_k_end(k);
    float in[N], out[N + 1];
    for (int64_t size = 1; size <= N; size += 33) {
        for (int m = 0; m < N; m++) in[m] = (float)m, out[m] = -7;
        out[N] = -7;
        weft_sim_buffer buffers[] = {{in, sizeof in}, {out, (size_t)size * 4}, {0}};
        expect_ok(weft_kernel_simulate(k, &size, buffers, NULL, weft_allocator_system()));
        for (int m = 0; m < size; m++) ck_assert_float_eq(out[m], 2 * in[m] + 1);
        ck_assert_float_eq(out[size], -7);
    }
    bench_close(&b);
}
END_TEST

START_TEST(test_while_func_registers) {
    bench b;
    bench_open(&b, "cpu");
    weft_kernel *k = b.k;
    weft_kval func = weft_kernel_emit(k, WEFT_K_func, (weft_ktype){WEFT_KIND_FUNC, 0, 0}, 0, NULL, 1, 0);
    weft_kval p = weft_kernel_emit(k, WEFT_K_parameter, weft_kvector(WEFT_I64, 1), 0, NULL, 0, 0);
    weft_kval square = weft_k_mul(k, p, p);
    weft_kernel_emit(k, WEFT_K_func_end, (weft_ktype){0}, 1, &square, 0, 0);
    weft_kval y = bench_out(&b, WEFT_I64, "y");
    weft_kval regs = weft_k_regs(k, WEFT_I64, 1, 4), n = weft_k_var(k, weft_k_index(k, 0));
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, 4), weft_k_index(k, 1), -1);
    weft_k_set_at(k, regs, i,
                  weft_kernel_emit(k, WEFT_K_call, weft_kvector(WEFT_I64, 1), 2, (weft_kval[]){func, i}, 0, 0));
    weft_k_end(k);
    weft_k_while(k);
    weft_k_test(k, weft_k_lt(k, weft_k_get(k, n), weft_k_index(k, 1000)));
    weft_k_if(k, weft_k_eq(k, weft_k_rem(k, weft_k_get(k, n), weft_k_index(k, 2)), weft_k_index(k, 0)));
    weft_k_set(k, n, weft_k_add(k, weft_k_get(k, n), weft_k_get_at(k, regs, weft_k_index(k, 3))));
    weft_k_else(k);
    weft_k_set(k, n, weft_k_mul(k, weft_k_get(k, n), weft_k_index(k, 2)));
    weft_k_end(k);
    weft_k_end(k);
    weft_k_store(k, y, weft_k_index(k, 0), WEFT_KNONE, weft_k_get(k, n));
    int64_t out = 0, want = 0;
    while (want < 1000) want = want % 2 == 0 ? want + 9 : want * 2;
    expect_ok(run_sim(&b, (weft_sim_buffer[]){{&out, 8}}, 0));
    ck_assert_int_eq(out, want);
    bench_close(&b);
}
END_TEST

/* -- one block-wise kernel and its faults: y[block] = sum of the block's 64 elements, and z = the block reversed */

typedef enum fault {
    NO_FAULT,
    NO_FIRST_BARRIER,
    NO_SECOND_BARRIER,
    NO_THIRD_BARRIER,
    READ_TOO_FAR,
    READ_NEGATIVE,
    WRITE_TOO_FAR,
    SHARED_TOO_FAR,
    SHARED_NOT_WRITTEN,
    REGISTER_NOT_SET,
    BLOCKS_OVERLAP,
    BLOCKS_READ_OUTPUT,
    ALL_WRITE_ONE,
    ATOMIC_AND_PLAIN,
    DIVIDE_BY_ZERO,
    SHIFT_TOO_FAR,
    MISALIGNED,
    STEP_ZERO,
    REGISTER_INDEX,
    BAD_BOOL,
    COPY_NOT_WAITED,
    COPY_ONE_LEFT,
    COPY_OUT_OF_BOUNDS,
    COPY_NO_BARRIER,
    GATHER_LANE,
    FAULTS
} fault;

static const char *const messages[FAULTS] = {
    [NO_FIRST_BARRIER] = "load",
    [NO_SECOND_BARRIER] = "race: ",
    [NO_THIRD_BARRIER] = "race: ",
    [READ_TOO_FAR] = "out of bounds: load",
    [READ_NEGATIVE] = "out of bounds: load",
    [WRITE_TOO_FAR] = "out of bounds: store",
    [SHARED_TOO_FAR] = "out of bounds: store",
    [SHARED_NOT_WRITTEN] = "uninitialised: load",
    [REGISTER_NOT_SET] = "uninitialised: a register",
    [BLOCKS_OVERLAP] = "race between blocks",
    [BLOCKS_READ_OUTPUT] = "race between blocks",
    [ALL_WRITE_ONE] = "race: store",
    [ATOMIC_AND_PLAIN] = "race",
    [DIVIDE_BY_ZERO] = "division by zero",
    [SHIFT_TOO_FAR] = "shift",
    [MISALIGNED] = "misaligned",
    [STEP_ZERO] = "a step of 0",
    [REGISTER_INDEX] = "register 4 of 4",
    [BAD_BOOL] = "bool that is 7",
    [COPY_NOT_WAITED] = "race: load",
    [COPY_ONE_LEFT] = "race: load",
    [COPY_OUT_OF_BOUNDS] = "out of bounds: copy_async",
    [COPY_NO_BARRIER] = "load",
    [GATHER_LANE] = "lane 2, of element 300",
};

static weft_kval at(weft_kernel *k, int64_t value) { return weft_k_index(k, value); }
static weft_kval plus(weft_kernel *k, weft_kval a, int64_t value) { return weft_k_add(k, a, weft_k_index(k, value)); }

/* Brings element x[block * 64 + thread] to tile[thread], by a plain store or by two groups of asynchronous copies. */
static void fill_tile(weft_kernel *k, weft_kval x, weft_kval tile, weft_kval from, weft_kval thread, fault f) {
    bool copies = f == COPY_NOT_WAITED || f == COPY_ONE_LEFT || f == COPY_OUT_OF_BOUNDS || f == COPY_NO_BARRIER;
    if (!copies) {
        weft_kval index = f == READ_TOO_FAR ? plus(k, from, 1) : f == READ_NEGATIVE ? plus(k, from, -1) : from;
        weft_kval value = weft_k_load(k, x, index, 1, WEFT_KNONE, WEFT_KNONE);
        weft_k_store(k, tile, f == SHARED_TOO_FAR ? plus(k, thread, 1) : thread, WEFT_KNONE, value);
        return;
    }
    weft_kval bytes = weft_k_mul(k, thread, at(k, 4));
    weft_kval source = f == COPY_OUT_OF_BOUNDS ? plus(k, from, 1) : from;
    weft_kval copy[5] = {tile, bytes, x, source, WEFT_KNONE};
    weft_kernel_emit(k, WEFT_K_copy_commit, (weft_ktype){0}, 0, NULL, 0, 0);
    weft_kernel_emit(k, WEFT_K_copy_async, (weft_ktype){0}, 5, copy, 4, 0);
    weft_kernel_emit(k, WEFT_K_copy_commit, (weft_ktype){0}, 0, NULL, 0, 0);
    if (f != COPY_NOT_WAITED) weft_kernel_emit(k, WEFT_K_copy_wait, (weft_ktype){0}, 0, NULL, f == COPY_ONE_LEFT, 0);
}

static void extra_fault(weft_kernel *k, weft_kval x, weft_kval y, weft_kval flags, weft_kval block, weft_kval thread,
                        fault f) {
    weft_kval zero = weft_k_sub(k, block, weft_k_shuffle_xor(k, block, 1)); /* not foldable */
    if (f == DIVIDE_BY_ZERO) weft_k_div(k, block, zero);
    if (f == SHIFT_TOO_FAR) weft_k_binary(k, WEFT_K_shl, block, plus(k, zero, 32));
    if (f == REGISTER_NOT_SET) weft_k_get_at(k, weft_k_regs(k, WEFT_F32, 1, 4), at(k, 1));
    if (f == REGISTER_INDEX) {
        weft_kval regs = weft_k_regs(k, WEFT_F32, 1, 4);
        weft_kval i = weft_k_for(k, at(k, 0), at(k, 5), at(k, 1), -1);
        weft_k_set_at(k, regs, i, weft_k_float(k, WEFT_F32, 0));
        weft_k_end(k);
    }
    if (f == STEP_ZERO) {
        weft_k_for(k, at(k, 0), at(k, 5), zero, 0);
        weft_k_end(k);
    }
    if (f == MISALIGNED) {
        weft_kval load = weft_k_load(k, x, at(k, 1), 2, WEFT_KNONE, WEFT_KNONE);
        k->instrs[load].align_bytes = 8;
    }
    if (f == BAD_BOOL) weft_k_load(k, flags, at(k, 0), 1, WEFT_KNONE, WEFT_KNONE);
    if (f == GATHER_LANE)
        weft_k_load(k, x, weft_k_mul(k, weft_k_iota(k, WEFT_I32, 4), at(k, 150)), 4, WEFT_KNONE, WEFT_KNONE);
    if (f == ATOMIC_AND_PLAIN) {
        weft_kernel_emit(k, WEFT_K_atomic, (weft_ktype){0}, 3, (weft_kval[]){y, block, weft_k_float(k, WEFT_F32, 1)},
                         WEFT_ATOMIC_ADD, 0);
        weft_k_if(k, weft_k_eq(k, thread, at(k, 5)));
        weft_k_store(k, y, block, WEFT_KNONE, weft_k_float(k, WEFT_F32, 1));
        weft_k_end(k);
    }
}

static void make_block_kernel(bench *b, fault f) {
    weft_kernel *k = b->k;
    k->threads = THREADS;
    k->grid = BLOCKS;
    weft_kval x = bench_in(b, WEFT_F32, "x"), flags = bench_in(b, WEFT_BOOL, "flags");
    weft_kval y = bench_out(b, WEFT_F32, "y"), z = bench_out(b, WEFT_F32, "z");
    weft_kval tile = weft_k_shared(k, WEFT_F32, THREADS), block = weft_k_block(k), thread = weft_k_thread(k);
    weft_kval from = weft_k_add(k, weft_k_mul(k, block, at(k, THREADS)), thread);
    if (f == SHARED_NOT_WRITTEN) {
        weft_k_if(k, weft_k_lt(k, thread, at(k, 10)));
        fill_tile(k, x, tile, from, thread, f);
        weft_k_end(k);
    } else {
        fill_tile(k, x, tile, from, thread, f);
    }
    if (f != NO_FIRST_BARRIER && f != COPY_NO_BARRIER) weft_k_barrier(k);
    weft_kval mirrored = weft_k_load(k, tile, weft_k_sub(k, at(k, THREADS - 1), thread), 1, WEFT_KNONE, WEFT_KNONE);
    weft_kval target = f == WRITE_TOO_FAR ? plus(k, from, 1) : f == BLOCKS_OVERLAP ? thread : from;
    weft_k_store(k, z, target, WEFT_KNONE, mirrored);
    if (f == BLOCKS_READ_OUTPUT) weft_k_load(k, z, thread, 1, WEFT_KNONE, WEFT_KNONE);
    extra_fault(k, x, y, flags, block, thread, f);
    if (f != NO_SECOND_BARRIER) weft_k_barrier(k);
    for (int half = THREADS / 2; half > 0; half /= 2) {
        weft_k_if(k, weft_k_lt(k, thread, at(k, half)));
        weft_kval other = weft_k_load(k, tile, plus(k, thread, half), 1, WEFT_KNONE, WEFT_KNONE);
        weft_kval own = weft_k_load(k, tile, thread, 1, WEFT_KNONE, WEFT_KNONE);
        weft_k_store(k, tile, thread, WEFT_KNONE, weft_k_add(k, own, other));
        weft_k_end(k);
        if (f != NO_THIRD_BARRIER || half != 8) weft_k_barrier(k);
    }
    if (f == ATOMIC_AND_PLAIN) return;
    if (f != ALL_WRITE_ONE) weft_k_if(k, weft_k_eq(k, thread, at(k, 0)));
    weft_k_store(k, y, block, WEFT_KNONE, weft_k_load(k, tile, at(k, 0), 1, WEFT_KNONE, WEFT_KNONE));
    if (f != ALL_WRITE_ONE) weft_k_end(k);
}

static weft_status run_block_kernel(fault f, uint64_t seed, float *y, float *z) {
    bench b;
    bench_open(&b, "cuda");
    make_block_kernel(&b, f);
    _Alignas(16) float x[THREADS * BLOCKS];
    uint8_t flags[1] = {7};
    for (int n = 0; n < THREADS * BLOCKS; n++) x[n] = (float)(n % 37);
    weft_sim_buffer buffers[] = {{x, sizeof x}, {flags, 1}, {y, BLOCKS * 4}, {z, sizeof x}};
    weft_status status = run_sim(&b, buffers, seed);
    bench_close(&b);
    return status;
}

START_TEST(test_block_kernel) {
    float y[BLOCKS], z[THREADS * BLOCKS];
    for (uint64_t seed = 0; seed < 20; seed++) {
        expect_ok(run_block_kernel(NO_FAULT, seed, y, z));
        for (int block = 0; block < BLOCKS; block++) {
            float sum = 0;
            for (int n = 0; n < THREADS; n++) {
                sum += (float)((block * THREADS + n) % 37);
                ck_assert_float_eq(z[block * THREADS + n], (float)((block * THREADS + THREADS - 1 - n) % 37));
            }
            ck_assert_float_eq(y[block], sum);
        }
    }
}
END_TEST

START_TEST(test_fault) {
    float y[BLOCKS], z[THREADS * BLOCKS];
    for (uint64_t seed = 0; seed < 10; seed++) expect_fault(run_block_kernel((fault)_i, seed, y, z), messages[_i]);
}
END_TEST

/* -- 16 x 8 += 16 x 16 . 16 x 8 by ldmatrix and mma, as sm_80 does it */
static uint16_t bf16(double value) { return (uint16_t)weft_float_encode(WEFT_BF16, value, false); }

START_TEST(test_mma) {
    bench b;
    bench_open(&b, "cuda");
    weft_kernel *k = b.k;
    k->threads = 32;
    weft_kval a = bench_in(&b, WEFT_BF16, "a"), bt = bench_in(&b, WEFT_BF16, "bt"), d = bench_out(&b, WEFT_F32, "d");
    weft_kval as = weft_k_shared(k, WEFT_BF16, 256), bs = weft_k_shared(k, WEFT_BF16, 128), lane = weft_k_thread(k);
    for (int part = 0; part < 8; part++) {
        weft_kval i = plus(k, lane, part * 32);
        weft_k_store(k, as, i, WEFT_KNONE, weft_k_load(k, a, i, 1, WEFT_KNONE, WEFT_KNONE));
        if (part < 4) weft_k_store(k, bs, i, WEFT_KNONE, weft_k_load(k, bt, i, 1, WEFT_KNONE, WEFT_KNONE));
    }
    weft_k_barrier(k);
    weft_kval ar = weft_k_regs(k, WEFT_U32, 1, 4), br = weft_k_regs(k, WEFT_U32, 1, 2),
              dr = weft_k_regs(k, WEFT_F32, 1, 4);
    for (int n = 0; n < 4; n++) weft_k_set_at(k, dr, at(k, n), weft_k_float(k, WEFT_F32, 0));
    /* tiles of a: (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15) */
    weft_kval row = weft_k_rem(k, lane, at(k, 16)), half = weft_k_div(k, lane, at(k, 16));
    weft_kval a_bytes = weft_k_add(k, weft_k_mul(k, row, at(k, 32)), weft_k_mul(k, half, at(k, 16)));
    weft_kval column = weft_k_rem(k, lane, at(k, 8)), k_half = weft_k_rem(k, weft_k_div(k, lane, at(k, 8)), at(k, 2));
    weft_kval b_bytes = weft_k_add(k, weft_k_mul(k, column, at(k, 32)), weft_k_mul(k, k_half, at(k, 16)));
    weft_kernel_emit(k, WEFT_K_frag_load, (weft_ktype){0}, 4, (weft_kval[]){ar, at(k, 0), as, a_bytes},
                     WEFT_FRAGMENT_X4, 0);
    weft_kernel_emit(k, WEFT_K_frag_load, (weft_ktype){0}, 4, (weft_kval[]){br, at(k, 0), bs, b_bytes},
                     WEFT_FRAGMENT_X2, 0);
    weft_kval zero = at(k, 0);
    weft_kernel_emit(k, WEFT_K_mma, (weft_ktype){0}, 6, (weft_kval[]){dr, zero, ar, zero, br, zero},
                     WEFT_MMA_M16N8K16_BF16, 0);
    for (int n = 0; n < 4; n++) { /* lane holds rows lane / 4 + 8 (n / 2), columns 2 (lane % 4) + n % 2 */
        weft_kval r = plus(k, weft_k_div(k, lane, at(k, 4)), 8 * (n / 2)),
                  c = plus(k, weft_k_mul(k, weft_k_rem(k, lane, at(k, 4)), at(k, 2)), n % 2);
        weft_k_store(k, d, weft_k_add(k, weft_k_mul(k, r, at(k, 8)), c), WEFT_KNONE, weft_k_get_at(k, dr, at(k, n)));
    }
    uint16_t av[256], bv[128];
    float out[128];
    for (int n = 0; n < 256; n++) av[n] = bf16(n % 13 - 6);
    for (int n = 0; n < 128; n++) bv[n] = bf16(n % 7 - 3);
    expect_ok(run_sim(&b, (weft_sim_buffer[]){{av, sizeof av}, {bv, sizeof bv}, {out, sizeof out}}, 3));
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            double sum = 0;
            for (int n = 0; n < 16; n++) sum += ((r * 16 + n) % 13 - 6) * ((c * 16 + n) % 7 - 3);
            ck_assert_float_eq(out[r * 8 + c], (float)sum);
        }
    bench_close(&b);
}
END_TEST

Suite *simulate_suite(void) {
    Suite *suite = suite_create("simulate");
    TCase *tests = tcase_create("kernels");
    tcase_add_test(tests, test_masked_vectors);
    tcase_add_test(tests, test_while_func_registers);
    tcase_add_test(tests, test_block_kernel);
    tcase_add_test(tests, test_mma);
    suite_add_tcase(suite, tests);
    TCase *faults = tcase_create("faults");
    tcase_add_loop_test(faults, test_fault, NO_FAULT + 1, FAULTS);
    suite_add_tcase(suite, faults);
    return suite;
}
