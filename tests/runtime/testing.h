/* Hand-made programs and helpers for the tests of runtime/. */
#ifndef WEFT_TESTS_RUNTIME_TESTING_H
#define WEFT_TESTS_RUNTIME_TESTING_H

#include <check.h>
#include <stdatomic.h>

#include "runtime/program.h"
#include "tests/support/status.h"

/* Fails after `left` allocations (negative: never); counts what is live. Thread-safe. */
typedef struct test_allocator {
    atomic_long left, live;
    atomic_long largest; /* larger requests fail; 0 = none does */
} test_allocator;
weft_allocator test_allocator_make(test_allocator *counter);

typedef struct test_log {
    int count[5];
    char last[512];
} test_log;
void test_log_write(void *self, weft_log_level level, const char *message);

/* The code image of kernels/; from kernels.elf. */
weft_binary test_image(void);

enum { TEST_KERNELS = 7 };
enum { KERNEL_ADD, KERNEL_SQUARE, KERNEL_TWICE, KERNEL_LESS, KERNEL_INCREASE, KERNEL_POSITIVE, KERNEL_BLOCK_SUMS };

/* Growing a program record by hand; everything lives in the arena. */
typedef struct maker {
    weft_arena arena;
    weft_program_data data;
    weft_port ports[3][4];
    weft_buffer buffers[16];
    weft_step steps[8][8];
    weft_step_list regions[8];
    weft_guard guards[4];
    weft_program_kernel kernels[TEST_KERNELS];
} maker;

void maker_init(maker *m, weft_allocator allocator, const char *name);
void maker_deinit(maker *m);
int maker_buffer(maker *m, weft_buffer buffer);
/* Adds port and buffer; returns the buffer. kind: INPUT, OUTPUT or STATE. */
int maker_port(maker *m, weft_buffer_kind kind, const char *name, weft_dtype dtype, int rank, const weft_dim *dims);
weft_step *maker_step(maker *m, int region, weft_step step);
/* A launch with one variant. */
weft_step *maker_launch(maker *m, int region, int kernel, weft_dim grid, int buffer_count, const int *buffers,
                        int extent_count, const weft_dim *extents);
int maker_region(maker *m);

/* y[B,8] = (x[B,8] + 2 * w[8])^2 with w packed by the load region; B in [1, 4096], guard B <= 1000. */
void make_affine(maker *m, weft_allocator allocator);
extern const float affine_weights[16];
void affine_expected(int64_t rows, const float *x, float *y);

/* Calls weft_program_create with static weights and the maker's data. */
weft_status load_made(weft_context *context, const char *device, maker *m, const void *weights,
                      weft_program **out_program) WEFT_MUST_USE;

Suite *suite_driver(void);
Suite *suite_executor(void);
Suite *suite_artifact(void);
Suite *suite_jit(void);

#endif
