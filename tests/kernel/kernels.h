/* What the kernel tests share: a kernel with its arena and dims, buffers, expectations on statuses. */
#ifndef WEFT_TESTS_KERNEL_KERNELS_H
#define WEFT_TESTS_KERNEL_KERNELS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/build.h"
#include "codegen/kernel/simulate.h"
#include "codegen/kernel/verify.h"

typedef struct bench {
    weft_arena arena;
    weft_dim_table *dims;
    weft_kernel *k;
} bench;

/* target: "cpu" or "cuda". */
static inline void bench_open(bench *b, const char *target) {
    const weft_capability *capability = weft_capability_find(target, target[1] == 'p' ? "x86-64-v4" : "sm_90a");
    ck_assert_ptr_nonnull(capability);
    weft_arena_init(weft_allocator_system(), &b->arena);
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &b->dims));
    b->k = weft_kernel_create(&b->arena, b->dims, capability, "test");
    ck_assert_ptr_nonnull(b->k);
}

static inline void bench_close(bench *b) {
    weft_dim_table_release(b->dims);
    weft_arena_deinit(&b->arena);
}

static inline weft_kval bench_in(bench *b, weft_dtype dtype, const char *name) {
    return weft_kernel_buffer(b->k, WEFT_ARGUMENT_OPERAND, (int)b->k->argument_count, dtype, false, name);
}
static inline weft_kval bench_out(bench *b, weft_dtype dtype, const char *name) {
    return weft_kernel_buffer(b->k, WEFT_ARGUMENT_RESULT, (int)b->k->argument_count, dtype, true, name);
}

static inline void expect_ok(weft_status status) {
    char text[4096] = "";
    if (status) weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(!status, "%s", text);
}

/* The status must fail and say all of the words in `part`. */
static inline void expect_fault(weft_status status, const char *part) {
    ck_assert_msg(status != NULL, "expected a fault: %s", part);
    char text[4096] = "";
    weft_status_format(status, text, sizeof text);
    weft_status_release(status);
    ck_assert_msg(strstr(text, part) != NULL, "expected \"%s\" in: %s", part, text);
}

static inline weft_status run_sim(bench *b, const weft_sim_buffer *buffers, uint64_t seed) {
    weft_sim_options options = {.seed = seed};
    return weft_kernel_simulate(b->k, NULL, buffers, &options, weft_allocator_system());
}

Suite *math_suite(void);
Suite *build_suite(void);
Suite *simulate_suite(void);
Suite *verify_suite(void);
Suite *schedule_suite(void);
Suite *hopper_suite(void);
Suite *narrow_suite(void);
Suite *units_suite(void);

#endif
