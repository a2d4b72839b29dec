/* Kernels that break one invariant each; the verifier must say which. */
#include "kernels.h"

typedef struct broken {
    const char *target, *message;
    void (*make)(bench *b, weft_kernel *k);
} broken;

static weft_kval f32(weft_kernel *k, double value) { return weft_k_float(k, WEFT_F32, value); }
static weft_ktype type_void(void) { return (weft_ktype){WEFT_KIND_VOID, 0, 0}; }

static void open_nest(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_while(k);
}
static void stray_end(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_end(k);
}
static void else_of_for(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, 4), weft_k_index(k, 1), 0);
    weft_k_else(k);
    weft_k_end(k);
}
static void out_of_nest(bench *b, weft_kernel *k) {
    weft_kval out = bench_out(b, WEFT_F32, "y");
    weft_k_if(k, weft_k_eq(k, weft_k_block(k), weft_k_index(k, 0)));
    weft_kval inner = weft_k_convert(k, weft_k_block(k), WEFT_F32);
    weft_k_end(k);
    weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE, inner);
}
static void other_branch(bench *b, weft_kernel *k) {
    weft_kval out = bench_out(b, WEFT_F32, "y");
    weft_k_if(k, weft_k_eq(k, weft_k_block(k), weft_k_index(k, 0)));
    weft_kval inner = weft_k_convert(k, weft_k_block(k), WEFT_F32);
    weft_k_else(k);
    weft_k_store(k, out, weft_k_index(k, 0), WEFT_KNONE, inner);
    weft_k_end(k);
}
static void mixed_types(bench *b, weft_kernel *k) {
    (void)b;
    weft_kval x = weft_k_convert(k, weft_k_block(k), WEFT_F32);
    weft_kernel_emit(k, WEFT_K_add, weft_kvector(WEFT_F32, 1), 2, (weft_kval[]){x, weft_k_block(k)}, 0, 0);
}
static void f16_arithmetic(bench *b, weft_kernel *k) {
    (void)b;
    weft_kval x = weft_k_convert(k, weft_k_convert(k, weft_k_block(k), WEFT_F32), WEFT_F16);
    weft_k_add(k, x, x);
}
static void short_mask(bench *b, weft_kernel *k) {
    weft_kval in = bench_in(b, WEFT_F32, "x");
    weft_kval mask = weft_k_eq(k, weft_k_block(k), weft_k_index(k, 0));
    weft_kval operands[4] = {in, weft_k_index(k, 0), mask, weft_k_constant_lanes(k, WEFT_F32, 0, 8)};
    weft_kernel_emit(k, WEFT_K_load, weft_kvector(WEFT_F32, 8), 4, operands, 0, 0);
}
static void store_to_input(bench *b, weft_kernel *k) {
    weft_k_store(k, bench_in(b, WEFT_F32, "x"), weft_k_index(k, 0), WEFT_KNONE, f32(k, 1));
}
static void store_other_type(bench *b, weft_kernel *k) {
    weft_k_store(k, bench_out(b, WEFT_F64, "y"), weft_k_index(k, 0), WEFT_KNONE, f32(k, 1));
}
static void register_by_loop(bench *b, weft_kernel *k) {
    (void)b;
    weft_kval regs = weft_k_regs(k, WEFT_F32, 1, 4);
    weft_kval i = weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, 4), weft_k_index(k, 1), 0);
    weft_k_set_at(k, regs, i, f32(k, 0));
    weft_k_end(k);
}
static void register_too_far(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_set_at(k, weft_k_regs(k, WEFT_F32, 1, 4), weft_k_index(k, 4), f32(k, 0));
}
static void divergent_barrier(bench *b, weft_kernel *k) {
    (void)b;
    k->threads = 64;
    weft_k_if(k, weft_k_lt(k, weft_k_thread(k), weft_k_index(k, 32)));
    weft_k_barrier(k);
    weft_k_end(k);
}
static void barrier_after_divergent_set(bench *b, weft_kernel *k) {
    (void)b;
    k->threads = 64;
    weft_kval n = weft_k_var(k, weft_k_index(k, 4));
    weft_k_if(k, weft_k_lt(k, weft_k_thread(k), weft_k_index(k, 32)));
    weft_k_set(k, n, weft_k_index(k, 5));
    weft_k_end(k);
    weft_k_for(k, weft_k_index(k, 0), weft_k_get(k, n), weft_k_index(k, 1), 0);
    weft_k_barrier(k);
    weft_k_end(k);
}
static void lane_shuffle(bench *b, weft_kernel *k) {
    (void)b;
    k->threads = 64;
    weft_k_if(k, weft_k_lt(k, weft_k_thread(k), weft_k_index(k, 16)));
    weft_k_shuffle_xor(k, weft_k_thread(k), 1);
    weft_k_end(k);
}
static void barrier_on_cpu(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_barrier(k);
}
static void fast_on_cpu(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_unary(k, WEFT_K_exp2_fast, weft_k_convert(k, weft_k_block(k), WEFT_F32));
}
static void many_threads(bench *b, weft_kernel *k) {
    (void)b;
    k->threads = 2048;
}
static void much_shared(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_shared(k, WEFT_F32, 100000);
}
static void unbounded_shared(bench *b, weft_kernel *k) {
    weft_k_shared(k, WEFT_F32, weft_dim_symbol(b->dims, "N", 1, INT64_MAX, 1, WEFT_SYMBOL_DECLARED));
}
static void many_registers(bench *b, weft_kernel *k) {
    (void)b;
    k->threads = 512;
    weft_kval regs = weft_k_regs(k, WEFT_F32, 1, 200), zero = weft_k_index(k, 0);
    weft_k_set_at(k, regs, zero, weft_k_float(k, WEFT_F32, 1));
    weft_k_set_at(k, regs, weft_k_index(k, 199), weft_k_get_at(k, regs, zero));
}
static void no_step(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_for(k, weft_k_index(k, 0), weft_k_index(k, 4), weft_k_index(k, 0), 0);
    weft_k_end(k);
}
static void test_outside(bench *b, weft_kernel *k) {
    (void)b;
    weft_k_test(k, weft_k_eq(k, weft_k_block(k), weft_k_index(k, 0)));
}
static void future_operand(bench *b, weft_kernel *k) {
    (void)b;
    weft_kernel_emit(k, WEFT_K_neg, weft_kvector(WEFT_F32, 1), 1, (weft_kval[]){9}, 0, 0);
}
static void few_operands(bench *b, weft_kernel *k) {
    (void)b;
    weft_kval x = weft_k_block(k);
    weft_kernel_emit(k, WEFT_K_add, weft_kvector(WEFT_I64, 1), 1, &x, 0, 0);
}
static void func_sees_outside(bench *b, weft_kernel *k) {
    (void)b;
    weft_kval x = weft_k_block(k);
    weft_kernel_emit(k, WEFT_K_func, (weft_ktype){WEFT_KIND_FUNC, 0, 0}, 0, NULL, 0, 0);
    weft_kernel_emit(k, WEFT_K_func_end, type_void(), 1, &x, 0, 0);
}
static void no_memory(bench *b, weft_kernel *k) {
    (void)b;
    k->failed = true;
}

static const broken kernels[] = {
    {"cpu", "never closed", open_nest},
    {"cpu", "closes no nest", stray_end},
    {"cpu", "closes no nest", else_of_for},
    {"cpu", "not visible", out_of_nest},
    {"cpu", "not visible", other_branch},
    {"cpu", "different types", mixed_types},
    {"cpu", "no meaning for f16", f16_arithmetic},
    {"cpu", "as many lanes", short_mask},
    {"cpu", "not declared as written", store_to_input},
    {"cpu", "element type of the memory", store_other_type},
    {"cpu", "unrolled", register_by_loop},
    {"cpu", "register 4 of 4", register_too_far},
    {"cuda", "the block may not get here together", divergent_barrier},
    {"cuda", "the block may not get here together", barrier_after_divergent_set},
    {"cuda", "a warp may not get here together", lane_shuffle},
    {"cpu", "no spelling on cpu", barrier_on_cpu},
    {"cpu", "no spelling on cpu", fast_on_cpu},
    {"cuda", "2048 threads", many_threads},
    {"cuda", "bytes of shared memory", much_shared},
    {"cuda", "bytes of shared memory", unbounded_shared},
    {"cuda", "registers a thread", many_registers},
    {"cpu", "step must be positive", no_step},
    {"cpu", "not directly inside a while", test_outside},
    {"cpu", "not defined before", future_operand},
    {"cpu", "1 operands, not 2", few_operands},
    {"cpu", "not visible", func_sees_outside},
    {"cpu", "building kernel", no_memory},
};

START_TEST(test_broken) {
    bench b;
    bench_open(&b, kernels[_i].target);
    kernels[_i].make(&b, b.k);
    expect_fault(weft_kernel_verify(b.k), kernels[_i].message);
    bench_close(&b);
}
END_TEST

START_TEST(test_all_problems_at_once) {
    bench b;
    bench_open(&b, "cpu");
    store_to_input(&b, b.k);
    store_other_type(&b, b.k);
    barrier_on_cpu(&b, b.k);
    expect_fault(weft_kernel_verify(b.k), "3 problems");
    bench_close(&b);
}
END_TEST

Suite *verify_suite(void) {
    Suite *suite = suite_create("verify");
    TCase *tests = tcase_create("broken kernels");
    tcase_add_loop_test(tests, test_broken, 0, sizeof kernels / sizeof *kernels);
    tcase_add_test(tests, test_all_problems_at_once);
    suite_add_tcase(suite, tests);
    return suite;
}
