/* Tensor copies, mbarriers and asynchronous matrix products in the simulator: d = a b^T, 64 x 16 x 64, against C; then
   the same kernel with one fault each. */
#include "base/program.h"
#include "codegen/kernel/matrix.h"
#include "kernels.h"

enum { M = 64, COLUMNS = 16, K = 64 };

typedef enum fault {
    NO_FAULT,
    NO_WAIT,
    NO_MMA_FENCE,
    NO_MMA_WAIT,
    WAIT_NAMES_NOTHING,
    WRONG_BYTES,
    NO_INIT,
    SECOND_ARRIVAL,
    SET_IN_FLIGHT,
    OVERWRITE_OPERAND,
    NO_PROXY_FENCE,
    STORE_NOT_COMMITTED,
    STORE_NOT_WAITED,
    ODD_COORDINATE,
    MAP_BEYOND_MEMORY,
    FAULTS
} fault;

static const char *const messages[FAULTS] = {
    [NO_WAIT] = "race: mma_async",
    [NO_MMA_FENCE] = "without an mma_fence",
    [NO_MMA_WAIT] = "in flight",
    [WAIT_NAMES_NOTHING] = "in flight",
    [WRONG_BYTES] = "deadlock",
    [NO_INIT] = "before its init",
    [SECOND_ARRIVAL] = "more arrivals",
    [SET_IN_FLIGHT] = "in flight: a register is set",
    [OVERWRITE_OPERAND] = "race: ",
    [NO_PROXY_FENCE] = "missing fence_async",
    [STORE_NOT_COMMITTED] = "never committed",
    [STORE_NOT_WAITED] = "ends while a tensor_store",
    [ODD_COORDINATE] = "no multiple of 16",
    [MAP_BEYOND_MEMORY] = "a tensor map is larger than its memory",
};

static weft_kval emit(weft_kernel *k, weft_kop op, int count, const weft_kval *operands, int64_t i) {
    return weft_kernel_emit(k, op, (weft_ktype){0}, count, operands, i, 0);
}

static void load_tiles(weft_kernel *k, weft_kval const tile[2], weft_kval const map[2], weft_kval bar, fault f) {
    weft_kval zero = weft_k_index(k, 0);
    weft_k_if(k, weft_k_eq(k, weft_k_thread(k), zero));
    if (f != NO_INIT) emit(k, WEFT_K_mbarrier_init, 2, (weft_kval[]){bar, zero}, 1);
    emit(k, WEFT_K_mbarrier_init_fence, 0, NULL, 0);
    weft_k_end(k);
    weft_k_barrier(k);
    weft_k_if(k, weft_k_eq(k, weft_k_thread(k), zero));
    emit(k, WEFT_K_mbarrier_expect, 2, (weft_kval[]){bar, zero}, (M + COLUMNS) * K * 2 + (f == WRONG_BYTES ? 16 : 0));
    if (f == SECOND_ARRIVAL) emit(k, WEFT_K_mbarrier_arrive, 2, (weft_kval[]){bar, zero}, 0);
    weft_kval column = weft_k_index(k, f == ODD_COORDINATE ? 4 : 0); /* 8 bytes */
    for (int n = 0; n < 2; n++)
        emit(k, WEFT_K_tensor_load, 7, (weft_kval[]){tile[n], zero, map[n], bar, zero, column, zero}, 0);
    weft_k_end(k);
    weft_kval parity = weft_k_integer(k, WEFT_U32, 0);
    if (f != NO_WAIT) emit(k, WEFT_K_mbarrier_wait, 3, (weft_kval[]){bar, zero, parity}, 0);
}

static void multiply(weft_kernel *k, weft_kval const tile[2], weft_kval d, fault f) {
    weft_kval zero = weft_k_index(k, 0), yes = weft_k_integer(k, WEFT_BOOL, 1), no = weft_k_integer(k, WEFT_BOOL, 0);
    if (f != NO_MMA_FENCE) emit(k, WEFT_K_mma_fence, 0, NULL, 0);
    for (int step = 0; step < K / 16; step++) {
        weft_kval operand[2];
        for (int n = 0; n < 2; n++) {
            weft_kval start = weft_kernel_emit(k, WEFT_K_operand, weft_kvector(WEFT_U64, 1), 2,
                                               (weft_kval[]){tile[n], zero}, weft_operand_layout(128, 16, 1024), 0);
            operand[n] = weft_k_add(k, start, weft_k_integer(k, WEFT_U64, 2 * step));
        }
        weft_kval operands[6] = {d, zero, operand[0], zero, operand[1], step ? yes : no};
        emit(k, WEFT_K_mma_async, 6, operands, weft_async_unit(COLUMNS, WEFT_ASYNC_BF16, 0));
    }
    emit(k, WEFT_K_mma_commit, 0, NULL, 0);
    if (f == SET_IN_FLIGHT) weft_k_set_at(k, d, zero, weft_k_float(k, WEFT_F32, 0));
    if (f == OVERWRITE_OPERAND)
        weft_k_store(k, tile[0], weft_k_thread(k), WEFT_KNONE,
                     weft_k_convert(k, weft_k_float(k, WEFT_F32, 0), WEFT_BF16));
    if (f != NO_MMA_WAIT) emit(k, WEFT_K_mma_wait, f == WAIT_NAMES_NOTHING ? 0 : 1, &d, 0);
}

/* Accumulators to shared memory, then one tensor store. */
static void write_out(weft_kernel *k, weft_kval staging, weft_kval map, weft_kval d, fault f) {
    weft_kval thread = weft_k_thread(k), lane = weft_k_rem(k, thread, weft_k_index(k, 32));
    weft_kval warp = weft_k_div(k, thread, weft_k_index(k, 32)), zero = weft_k_index(k, 0);
    for (int r = 0; r < COLUMNS / 2; r++) {
        weft_kval row =
            weft_k_add(k, weft_k_mul(k, warp, weft_k_index(k, 16)), weft_k_div(k, lane, weft_k_index(k, 4)));
        weft_kval column = weft_k_mul(k, weft_k_rem(k, lane, weft_k_index(k, 4)), weft_k_index(k, 2));
        row = weft_k_add(k, row, weft_k_index(k, 8 * (r / 2 % 2)));
        column = weft_k_add(k, column, weft_k_index(k, 8 * (r / 4) + r % 2));
        weft_kval at = weft_k_add(k, weft_k_mul(k, row, weft_k_index(k, COLUMNS)), column);
        weft_k_store(k, staging, at, WEFT_KNONE, weft_k_get_at(k, d, weft_k_index(k, r)));
    }
    if (f != NO_PROXY_FENCE) emit(k, WEFT_K_fence_async, 0, NULL, 0);
    weft_k_barrier(k);
    weft_k_if(k, weft_k_eq(k, thread, zero));
    emit(k, WEFT_K_tensor_store, 5, (weft_kval[]){map, staging, zero, zero, zero}, 0);
    if (f != STORE_NOT_COMMITTED) emit(k, WEFT_K_bulk_commit, 0, NULL, 0);
    if (f != STORE_NOT_WAITED) emit(k, WEFT_K_bulk_wait, 0, NULL, 0);
    weft_k_end(k);
}

static weft_status run(fault f, uint64_t seed, float *out) {
    bench b;
    bench_open(&b, "cuda");
    weft_kernel *k = b.k;
    k->threads = 128;
    bench_in(&b, WEFT_BF16, "a");
    bench_in(&b, WEFT_BF16, "b");
    bench_out(&b, WEFT_F32, "d");
    weft_kval maps[3];
    for (int n = 0; n < 3; n++)
        maps[n] = weft_kernel_buffer(k, WEFT_ARGUMENT_TENSOR_MAP, n, n < 2 ? WEFT_BF16 : WEFT_F32, n == 2, NULL);
    weft_kval tile[2] = {weft_k_shared(k, WEFT_BF16, M * K), WEFT_KNONE};
    tile[1] = weft_k_shared(k, WEFT_BF16, COLUMNS * K);
    weft_kval staging = weft_k_shared(k, WEFT_F32, M * COLUMNS), d = weft_k_regs(k, WEFT_F32, 1, COLUMNS / 2);
    weft_kval bar = weft_kernel_emit(k, WEFT_K_mbarrier, (weft_ktype){WEFT_KIND_MBARRIER, 0, 1}, 0, NULL, 1, 0);
    load_tiles(k, tile, maps, bar, f);
    multiply(k, tile, d, f);
    write_out(k, staging, maps[2], d, f);
    static uint16_t av[M * K], bv[COLUMNS * K];
    for (int n = 0; n < M * K; n++) av[n] = (uint16_t)weft_float_encode(WEFT_BF16, n % 11 - 5, false);
    for (int n = 0; n < COLUMNS * K; n++) bv[n] = (uint16_t)weft_float_encode(WEFT_BF16, n % 5 - 2, false);
    weft_tensor_map records[3] = {{.buffer = 0,
                                   .dtype = WEFT_BF16,
                                   .rank = 2,
                                   .extent = {K, M},
                                   .stride_bytes = {0, K * 2},
                                   .box = {K, M},
                                   .swizzle_bytes = 128},
                                  {.buffer = 1,
                                   .dtype = WEFT_BF16,
                                   .rank = 2,
                                   .extent = {K, COLUMNS + (f == MAP_BEYOND_MEMORY)},
                                   .stride_bytes = {0, K * 2},
                                   .box = {K, COLUMNS},
                                   .swizzle_bytes = 128},
                                  {.buffer = 2,
                                   .dtype = WEFT_F32,
                                   .rank = 2,
                                   .extent = {COLUMNS, M},
                                   .stride_bytes = {0, COLUMNS * 4},
                                   .box = {COLUMNS, M}}};
    weft_sim_buffer buffers[] = {{av, sizeof av},
                                 {bv, sizeof bv},
                                 {out, M * COLUMNS * 4},
                                 {&records[0], sizeof *records},
                                 {&records[1], sizeof *records},
                                 {&records[2], sizeof *records}};
    weft_status status = run_sim(&b, buffers, seed);
    bench_close(&b);
    return status;
}

START_TEST(test_matmul) {
    static float out[M * COLUMNS];
    for (uint64_t seed = 0; seed < 5; seed++) {
        memset(out, 0xff, sizeof out);
        expect_ok(run(NO_FAULT, seed, out));
        for (int row = 0; row < M; row++)
            for (int column = 0; column < COLUMNS; column++) {
                int sum = 0;
                for (int n = 0; n < K; n++) sum += ((row * K + n) % 11 - 5) * ((column * K + n) % 5 - 2);
                ck_assert_float_eq(out[row * COLUMNS + column], (float)sum);
            }
    }
}
END_TEST

START_TEST(test_fault) {
    static float out[M * COLUMNS];
    for (uint64_t seed = 0; seed < 3; seed++) expect_fault(run((fault)_i, seed, out), messages[_i]);
}
END_TEST

/* Every thread of four blocks adds (1, 2, 3, 4) to place `thread % 2`, `shift` elements further on. */
static weft_status add_fours(int shift, float *out) {
    bench b;
    bench_open(&b, "cuda");
    weft_kernel *k = b.k;
    k->threads = 64, k->grid = 4;
    weft_kval y = bench_out(&b, WEFT_F32, "y"), at = weft_k_rem(k, weft_k_thread(k), weft_k_index(k, 2));
    at = weft_k_add(k, weft_k_mul(k, at, weft_k_index(k, 4)), weft_k_index(k, shift));
    weft_kval four = weft_k_constant_lanes(k, WEFT_F32, 0, 4);
    for (int n = 0; n < 4; n++) four = weft_k_insert(k, four, n, weft_k_float(k, WEFT_F32, n + 1));
    emit(k, WEFT_K_atomic, 3, (weft_kval[]){y, at, four}, WEFT_ATOMIC_ADD);
    weft_status status = weft_kernel_verify(k);
    if (!status) status = run_sim(&b, (weft_sim_buffer[]){{out, 16 * sizeof *out}}, 1);
    bench_close(&b);
    return status;
}

START_TEST(test_four_at_once) {
    float out[16] = {0};
    expect_ok(add_fours(0, out));
    for (int n = 0; n < 16; n++) ck_assert_float_eq(out[n], n < 8 ? (float)(128 * (n % 4 + 1)) : 0);
    expect_fault(add_fours(2, out), "misaligned: atomic");
    expect_fault(add_fours(12, out), "out of bounds");
}
END_TEST

Suite *hopper_suite(void) {
    Suite *suite = suite_create("hopper");
    TCase *tests = tcase_create("matmul");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_matmul);
    tcase_add_test(tests, test_four_at_once);
    tcase_add_loop_test(tests, test_fault, NO_FAULT + 1, FAULTS);
    suite_add_tcase(suite, tests);
    return suite;
}
