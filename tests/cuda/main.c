/* CUDA code without a card: layouts against the formulas of the PTX manual, and every case of cases.c through passes,
   builder, printer and NVRTC for several architectures: no spills, no stack, no serialised wgmma. Where NVRTC is absent
   the compile tests print why and count as skipped. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/tensor.h"
#include "codegen/builders/builder.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/print.h"
#include "codegen/kernel/simulate.h"
#include "codegen/tile/layout.h"
#include "passes/pass.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/harness.h"
#include "weft/device.h"

/* -- layouts */

START_TEST(fragments_follow_the_manual) {
    weft_layout wgmma = weft_layout_wgmma_c(176);
    ck_assert_int_eq(weft_layout_registers(&wgmma), 88);
    for (int warp = 0; warp < 4; warp++)
        for (int lane = 0; lane < 32; lane++)
            for (int r = 0; r < 88; r++) {
                weft_place_pair p = weft_layout_at(&wgmma, r, lane, warp);
                ck_assert_int_eq(p.row, 16 * warp + lane / 4 + 8 * (r / 2 % 2));
                ck_assert_int_eq(p.column, 8 * (r / 4) + 2 * (lane % 4) + r % 2);
            }
    for (int lane = 0; lane < 32; lane++) {
        for (int r = 0; r < 8; r++) {
            weft_place_pair p = weft_layout_at(&weft_layout_mma_a, r, lane, 0);
            ck_assert_int_eq(p.row, lane / 4 + (r / 2 % 2) * 8);
            ck_assert_int_eq(p.column, 2 * (lane % 4) + r % 2 + (r >= 4 ? 8 : 0));
        }
        for (int r = 0; r < 4; r++) {
            weft_place_pair b = weft_layout_at(&weft_layout_mma_b, r, lane, 0),
                            c = weft_layout_at(&weft_layout_mma_c, r, lane, 0);
            ck_assert_int_eq(b.row, 2 * (lane % 4) + r % 2 + (r >= 2 ? 8 : 0));
            ck_assert_int_eq(b.column, lane / 4);
            ck_assert_int_eq(c.row, lane / 4 + 8 * (r / 2));
            ck_assert_int_eq(c.column, 2 * (lane % 4) + r % 2);
        }
    }
}
END_TEST

START_TEST(an_accumulator_is_an_operand) {
    weft_layout accumulator = weft_layout_wgmma_c(128);
    ck_assert(weft_layout_equal(&accumulator, &weft_layout_mma_a, 8));
    ck_assert(!weft_layout_equal(&weft_layout_mma_b, &weft_layout_mma_c, 4));
    ck_assert_int_eq(weft_layout_run(&weft_layout_mma_a, false), 2);
    ck_assert_int_eq(weft_layout_run(&weft_layout_mma_b, true), 2);
}
END_TEST

START_TEST(a_swizzle_frees_the_banks) {
    int swizzled[32], plain[32];
    for (int lane = 0; lane < 32; lane++) {
        swizzled[lane] = weft_swizzle_128(lane % 16, lane / 16 * 16);
        plain[lane] = lane % 16 * 128 + lane / 16 * 16;
    }
    ck_assert_int_eq(weft_bank_passes(swizzled, 32, 16), 1);
    ck_assert_int_eq(weft_bank_passes(plain, 32, 16), 8);
}
END_TEST

/* -- every case through the compiler */

typedef struct case_row {
    const char *name;
    int count;
    int64_t numbers[12];
} case_row;

static const case_row rows[] = {
    {"matmul", 6, {8192, 8192, 8192, 1, 0, 0}},
    {"matmul", 6, {8192, 8192, 8192, 1, 1, 0}},
    {"matmul", 6, {300, 520, 200, 0, 1, 1}},
    {"matmul", 6, {304, 520, 200, 2, 1, 0}},
    {"softmax", 3, {4096, 1024, 0}},
    {"softmax", 3, {33, 257, 2}},
    {"layer_norm", 3, {4096, 768, 0}},
    {"rms_norm", 3, {9, 5000, 0}},
    {"cross_entropy", 2, {512, 50304}},
    {"cross_entropy", 2, {65536, 768}},
    {"pointwise", 1, {1000003}},
    {"sum", 1, {1000003}},
    {"eigh", 2, {4, 129}},
    {"copy", 1, {1 << 20}},
    {"matmul", 6, {303, 521, 201, 2, 1, 0}},
    {"matmul", 6, {4095, 4097, 4100, 1, 0, 0}},
    {"matmul", 6, {300, 523, 201, 0, 1, 2}},
    {"matmul", 6, {4096, 4096, 4096, 1, 0, 2}},
    {"convolution", 8, {2, 3, 64, 224, 7, 2, 3, 1}},
    {"convolution", 8, {1, 32, 32, 56, 3, 1, 1, 32}},
    {"convolution_half", 8, {8, 64, 128, 56, 3, 1, 1, 1}},
    {"convolution_half", 8, {8, 64, 256, 56, 1, 1, 0, 1}},
    {"convolution_tf32", 8, {8, 64, 128, 56, 3, 2, 1, 1}},
    {"convolution_tf32", 8, {8, 64, 64, 56, 3, 1, 1, 1}},
    {"convolution_half", 8, {32, 512, 2048, 7, 1, 1, 0, 1}},
    {"mlp", 4, {200, 2, 64, 5}},
    {"mlp", 4, {100000, 3, 128, 3}},
    {"attention", 8, {2, 16, 16, 8192, 8192, 128, 1, 0}},
    {"attention", 8, {2, 16, 4, 300, 333, 64, 0, 1}},
    {"attention_tokens", 6, {128, 12, 197, 64, 0, 0}},
    {"matmul", 6, {4096, 4096, 4096, 1, 0, 10}},
    {"matmul", 6, {4096, 4104, 4096, 1, 0, 0}},
    {"matmul", 6, {4104, 4104, 4104, 1, 0, 0}}, /* the last 8 rows by themselves */
    {"matmul", 6, {16, 4096, 4096, 1, 1, 0}},
    {"matmul", 6, {128, 4096, 4096, 1, 6, 0}},
    {"matmul", 6, {4096, 4096, 4096, 1, 0, 16}},
    {"matmul", 6, {4096, 4096, 4096, 0, 1, 16}},
    {"matmul", 6, {4096, 4096, 4096, 0, 0, 26}},
    {"matmul", 6, {300, 523, 201, 0, 1, 10}},
    {"matmul", 6, {4096, 4096, 4096, 1, 2, 3}},
    {"matmul", 6, {4096, 4096, 4096, 1, 2, 11}},
    {"matmul", 6, {303, 521, 201, 2, 2, 3}},
    {"matmul", 6, {4096, 3072, 768, 1, 3, 0}},
    {"matmul", 6, {4096, 3072, 768, 1, 8, 0}},
    {"matmul", 6, {4096, 3072, 768, 0, 9, 0}},
    {"matmul", 6, {4096, 768, 3072, 1, 4, 0}},
    {"matmul", 6, {4096, 3072, 768, 1, 5, 0}},
    {"matmul", 6, {32768, 768, 768, 1, 0, 0}},
    {"matmul", 6, {32768, 768, 768, 1, 7, 0}},
    {"matmul", 6, {4096, 768, 768, 1, 6, 0}},
    {"matmul", 6, {768, 3072, 32768, 2, 0, 0}},
    {"matmul", 6, {768, 3072, 4096, 2, 0, 0}},
    {"matmul", 6, {4096, 4096, 4096, 1, 2, 5}},
    {"matmul", 6, {4096, 4096, 4096, 1, 2, 14}},
    {"scaled_dot", 5, {8192, 8192, 8192, 0, 3}},
    {"scaled_dot", 5, {300, 577, 392, 1, 5}},
    {"scaled_dot", 5, {64, 4096, 7168, 0, 3}},
    {"ragged_dot", 6, {16384, 8, 4096, 1536, 1, 0}},
    {"ragged_dot", 6, {16384, 64, 4096, 1536, 2, 0}},
    {"ragged_dot", 6, {16384, 8, 4096, 1536, 0, 0}},
    {"attention_form", 12, {4, 16, 16, 4096, 4096, 64, 1, 0, 1024, -1, 30, 0}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 64, 0, 1, -1, -1, 0, 3}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 128, 1, 0, -1, -1, 20, 2}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 128, 0, 0, 64, 64, 0, 4}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 192, 1, 0, -1, -1, 0, 3}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 256, 1, 1, 100, -1, 20, 1}},
    {"attention_form", 12, {2, 16, 4, 1, 4100, 128, 1, 1, 1000, -1, 20, 1}},
    {"attention", 8, {2, 16, 16, 4096, 4096, 96, 1, 0}},
    {"attention", 8, {2, 16, 4, 300, 333, 256, 0, 1}},
    {"attention_backward_form", 12, {4, 16, 16, 4096, 4096, 64, 1, 0, 1024, -1, 0, 0}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 64, 0, 1, -1, -1, 20, 2}},
    {"attention_backward_form", 12, {2, 16, 16, 4096, 4096, 128, 1, 0, 512, -1, 0, 0}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 128, 1, 0, -1, -1, 0, 3}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 128, 0, 1, -1, -1, 30, 4}},
    {"attention_backward_form", 12, {2, 16, 16, 8192, 8192, 256, 1, 0, -1, -1, 0, 0}},
    {"attention_backward_form", 12, {2, 16, 16, 8192, 8192, 192, 1, 0, -1, -1, 0, 0}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 256, 1, 1, -1, -1, 20, 2}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 192, 0, 0, -1, -1, 0, 21}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 256, 0, 0, -1, -1, 0, 11}},
    {"attention_backward_form", 12, {64, 12, 12, 197, 197, 64, 0, 0, -1, -1, 0, 21}},
    {"attention_backward_form", 12, {8, 16, 16, 512, 512, 128, 1, 0, -1, -1, 0, 31}},
    {"attention_form", 12, {2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 0, 10}},
    {"attention_form", 12, {64, 6, 6, 256, 256, 64, 1, 0, -1, -1, 0, 10}},
    {"attention_form", 12, {2, 16, 4, 300, 333, 64, 0, 1, -1, -1, 20, 12}},
    {"attention_backward_form", 12, {2, 16, 16, 8192, 8192, 128, 1, 0, -1, -1, 0, 10}},
    {"attention_backward_form", 12, {64, 6, 6, 256, 256, 64, 1, 0, -1, -1, 0, 10}},
    {"attention_backward_form", 12, {2, 16, 4, 300, 333, 128, 1, 0, -1, -1, 20, 12}},
    {"attention_backward", 8, {2, 16, 16, 8192, 8192, 128, 1, 0}},
    {"attention_backward", 8, {2, 16, 4, 300, 333, 128, 0, 1}},
    {"attention_backward", 8, {4, 16, 16, 4096, 4096, 64, 1, 0}},
    {"attention_backward", 8, {2, 16, 4, 300, 333, 64, 0, 1}},
};
static const char *const archs[] = {"sm_80", "sm_90a", "sm_120a"};
enum { ROWS = sizeof rows / sizeof *rows, ARCHS = sizeof archs / sizeof *archs };

/* An address in shared memory has 18 bits, and above them the block's place in its cluster, which a descriptor must not
   take over: no card here would tell. */
static void check_descriptors(const char *source) {
    for (const char *at = source; (at = strstr(at, ") >> 4);")) != NULL; at++)
        ck_assert_msg(!strncmp(at - 9, "& 0x3ffff", 9), "a descriptor of a whole address: %.60s", at - 50);
}

static void compile_kernels(const weft_nvrtc *nvrtc, weft_context *context, const compiled *c,
                            const weft_capability *capability, const char *label) {
    weft_text source;
    weft_text_init(context->allocator, &source);
    cuda_check(weft_cuda_print(c->count, c->kernels, &source));
    check_descriptors(weft_text_string(&source));
    weft_nvrtc_output output;
    cuda_check(weft_nvrtc_compile(nvrtc, weft_text_string(&source), label, capability->arch, &output));
    printf("  %s %s: %d registers, %zu bytes\n", capability->arch, label, output.registers, output.cubin_bytes);
    ck_assert_msg(output.spill_bytes == 0 && output.stack_bytes == 0, "%s %s: %lld bytes spilled, %lld of stack",
                  capability->arch, label, (long long)output.spill_bytes, (long long)output.stack_bytes);
    for (int i = 0; i < c->count; i++) {
        int64_t shared;
        cuda_check(weft_cuda_shared_bytes(c->kernels[i], &shared));
        ck_assert_int_le(shared, capability->shared_bytes);
    }
    weft_nvrtc_output_deinit(nvrtc, &output);
    weft_text_deinit(&source);
}

/* Schedules of a row to compile. Blocks of 80 queries of attention_backward are for measuring: a word an output tile is
   spilled there. */
static int choices_of(const case_row *row, const weft_capability *capability, bool first) {
    if (strstr(row->name, "_form")) { /* written out elsewhere: other kernels' cases */
        bool plain = row->numbers[11] == 10 && strstr(row->name, "backward");
        return !capability->hopper ? 0 : plain ? row->numbers[5] == 64 ? 5 : 4 : 1;
    }
    if (!strcmp(row->name, "attention_backward")) return row->numbers[5] == 64 && capability->hopper ? 5 : 2;
    if (!strcmp(row->name, "attention")) return capability->hopper ? 4 : 1;
    if (!strcmp(row->name, "cross_entropy") || !strcmp(row->name, "layer_norm")) return 6;
    if (strcmp(row->name, "matmul") != 0) return 1;
    if (row->numbers[5] >= 16) return row->numbers[5] == 16 && row->numbers[4] == 0 ? 7 : 1;
    return capability->hopper && (first || row->numbers[1] == 4104 || row->numbers[4] >= 3 || row->numbers[0] == 16 ||
                                  row->numbers[0] == 768 || row->numbers[4] * row->numbers[0] == 8192)
               ? 12
           : row->numbers[5] == 3 ? 3
                                  : 1;
}

START_TEST(kernels_compile_clean) {
    const case_row *row = &rows[_i / ARCHS];
    ck_assert_ptr_nonnull(weft_capability_find("cuda", archs[_i % ARCHS]));
    weft_capability card =
                        weft_bench_capability(weft_capability_find("cuda", archs[_i % ARCHS]), row->name, row->numbers),
                    *capability = &card;
    weft_context *context;
    weft_nvrtc *nvrtc;
    cuda_check(weft_context_create(NULL, &context));
    weft_status missing = weft_nvrtc_open(context, &nvrtc);
    if (missing) {
        printf("  skipped: %s\n", weft_status_message(missing));
        weft_status_release(missing);
        weft_context_release(context);
        return;
    }
    compiled c = {0};
    cuda_check(weft_bench_graph(context, row->name, row->count, row->numbers, &c.graph));
    weft_arena_init(context->allocator, &c.arena);
    weft_pass_context pass = {.graph = c.graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    bool more = true;
    for (int choice = 0; more && choice < choices_of(row, capability, _i < ARCHS); choice++) {
        char label[64];
        /* attention_backward proposes what a compile takes with and without a permission, then all: the first twice */
        if (!strcmp(row->name, "attention_backward") && (choice == 2 || choice == 3)) continue;
        snprintf(label, sizeof label, "%s(%lld,%lld) schedule %d", row->name, (long long)row->numbers[0],
                 (long long)row->numbers[1], choice);
        more = false;
        if (cuda_build_choice(&c, capability, choice, &more)) compile_kernels(nvrtc, context, &c, capability, label);
    }
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_nvrtc_close(nvrtc);
    weft_context_release(context);
}
END_TEST

/* -- kernels in the simulator against the interpreter */

typedef struct small_row {
    const char *arch;
    case_row row;
    double tolerance;    /* relative to 1 + |value| */
    int multiprocessors; /* 0: as many as the card has; few make a block compute several tiles */
    int choices;         /* schedules to try; 0: two */
} small_row;

/* Weights and their gradients are rounded to 8 bits before they are summed: an element of dV errs by a sum of e_i P_i
   dO_i with |e_i| <= 2^-8, of dK and dQ likewise. With the inputs of these rows, uniform in (-1, 1) as is the
   log-sum-exp, so that weights reach 12, those roundings alone, emulated over twelve seeds, come to 0.10 of 1 + |value|
   at most among the 20000 elements of a row (70 to 300 queries; a median row 0.06). A weight that is wrong costs
   about 1. */
#define BACKWARD_TOLERANCE 0.12

static const small_row small_rows[] = {
    {"sm_80", {"matmul", 6, {70, 67, 19, 0, 0, 2}}, 1e-4, 0, 0},
    {"sm_80", {"matmul", 6, {5, 130, 33, 1, 0, 2}}, 1e-4, 0, 0},
    {"sm_80", {"matmul", 6, {66, 3, 8, 2, 1, 2}}, 1e-4, 0, 0},
    {"sm_80", {"convolution", 8, {1, 4, 6, 9, 3, 2, 1, 2}}, 1e-4, 0, 0},
    {"sm_80", {"convolution", 8, {2, 3, 5, 7, 1, 1, 0, 1}}, 1e-4, 0, 0},
    {"sm_80", {"convolution_half", 8, {1, 6, 33, 9, 3, 2, 1, 1}}, 0.02, 0, 1},
    {"sm_80", {"convolution_half", 8, {2, 64, 72, 6, 1, 1, 0, 2}}, 0.02, 0, 1}, /* a point: both sides are copied */
    {"sm_90a", {"convolution_tf32", 8, {1, 8, 34, 7, 3, 1, 1, 1}}, 0.02, 0, 1},
    {"sm_90a", {"matmul", 6, {130, 136, 72, 1, 0, 0}}, 0.01, 0, 0},
    {"sm_90a", {"matmul", 6, {70, 72, 136, 0, 1, 1}}, 0.01, 0, 0},
    {"sm_90a", {"matmul", 6, {67, 75, 69, 2, 0, 0}}, 0.01, 0, 0},
    {"sm_90a", {"attention", 8, {1, 2, 1, 70, 133, 64, 1, 0}}, 0.02, 0, 0},
    {"sm_90a", {"softmax", 3, {5, 768, 0}}, 0.01, 0, 1},
    {"sm_90a", {"softmax", 3, {3, 7, 2}}, 1e-5, 0, 1},
    {"sm_90a", {"layer_norm", 3, {7, 264, 0}}, 0.04, 0, 1},
    {"sm_90a", {"rms_norm", 3, {2, 2056, 2}}, 1e-4, 0, 1},
    {"sm_90a", {"layer_norm", 3, {2, 20520, 0}}, 0.04, 0, 1},
    {"sm_80", {"cross_entropy", 2, {3, 1032}}, 1e-4, 0, 1},
    {"sm_80", {"sum", 1, {40007}}, 1e-3, 0, 1},
    /* rings of rows: warps a row, blocks a row, rows walked in a loop; several rows for each */
    {"sm_80", {"cross_entropy", 2, {75, 776}}, 1e-4, 1, 6},
    {"sm_90a", {"softmax", 3, {19, 2056, 2}}, 1e-5, 1, 6},
    {"sm_90a", {"rms_norm", 3, {9, 8200, 0}}, 0.04, 1, 6},
    {"sm_90a", {"cross_entropy", 2, {5, 20520}}, 1e-4, 1, 6},
    {"sm_90a", {"attention", 8, {1, 3, 1, 260, 201, 64, 1, 0}}, 0.02, 2, 1},
    {"sm_80", {"matmul", 6, {67, 75, 69, 2, 1, 2}}, 1e-4, 0, 2},
    {"sm_80", {"matmul", 6, {5, 130, 200, 0, 0, 2}}, 1e-4, 0, 2},
    {"sm_80", {"matmul", 6, {33, 36, 3, 1, 1, 2}}, 1e-4, 0, 2},
    {"sm_90a", {"attention_tokens", 6, {2, 3, 70, 64, 0, 0}}, 0.02, 2, 1},
    {"sm_90a", {"attention_tokens", 6, {1, 2, 133, 128, 1, 1}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 2, 2, 130, 196, 64, 0, 1}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 2, 1, 150, 100, 128, 1, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 340, 128, 0, 0}}, 0.02, 1, 2},
    /* weights of random log-sum-exps are above 1: 16-bit roundings of them add up */
    {"sm_90a", {"attention_backward", 8, {1, 2, 1, 70, 133, 64, 1, 0}}, BACKWARD_TOLERANCE, 2, 2},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 150, 100, 128, 1, 0}}, BACKWARD_TOLERANCE, 1, 2},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 70, 280, 64, 0, 0}}, BACKWARD_TOLERANCE, 2, 1},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 130, 140, 128, 0, 1}}, BACKWARD_TOLERANCE, 2, 2},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 70, 80, 1, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 70, 70, 72, 0, 0}}, BACKWARD_TOLERANCE, 2, 2},
    {"sm_90a", {"attention_backward", 8, {1, 2, 1, 70, 90, 40, 1, 1}}, BACKWARD_TOLERANCE, 1, 1},
    {"sm_90a", {"attention_backward", 8, {1, 4, 2, 140, 270, 64, 1, 0}}, BACKWARD_TOLERANCE, 1, 1},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 290, 140, 64, 1, 0}}, BACKWARD_TOLERANCE, 1, 1},
    {"sm_90a", {"matmul", 6, {136, 200, 72, 0, 0, 0}}, 0.01, 2, 3},
    {"sm_90a", {"matmul", 6, {136, 136, 72, 2, 0, 0}}, 0.01, 2, 3},
    {"sm_90a", {"matmul", 6, {5, 136, 6200, 1, 0, 0}}, 0.02, 16, 2}, /* k split */
    {"sm_90a", {"matmul", 6, {3, 67, 6300, 0, 1, 1}}, 0.02, 8, 2},
    {"sm_90a", {"matmul_batched", 5, {3, 70, 265, 40, 1}}, 0.01, 4, 2},
    {"sm_90a", {"matmul_batched", 5, {2, 9, 72, 6200, 0}}, 0.02, 16, 2},
    {"sm_80", {"matmul_batched", 5, {3, 66, 70, 40, 0}}, 0.01, 0, 2},
    {"sm_90a", {"matmul", 6, {300, 264, 72, 1, 0, 0}}, 0.01, 4, 3}, /* narrow tiles at the right edge */
    {"sm_90a", {"matmul", 6, {260, 257, 72, 0, 0, 0}}, 0.01, 2, 2},
    /* ... of 256 columns, with two steps of k in a slot and an odd number of them */
    {"sm_90a", {"matmul", 6, {300, 268, 136, 1, 1, 0}}, 0.02, 4, 6},
    {"sm_90a", {"matmul", 6, {300, 257, 136, 0, 0, 1}}, 0.01, 2, 6},
    {"sm_90a", {"matmul", 6, {264, 300, 300, 2, 3, 0}}, 0.03, 2, 6},
    {"sm_90a", {"matmul", 6, {140, 577, 66, 2, 0, 1}}, 0.01, 3, 2},
    {"sm_90a", {"matmul", 6, {140, 300, 66, 1, 2, 3}}, 0.02, 4, 2},
    {"sm_90a", {"matmul", 6, {140, 275, 66, 1, 0, 10}}, 0.02, 4, 2},
    {"sm_80", {"matmul", 6, {130, 136, 72, 1, 0, 0}}, 0.01, 0, 3},
    {"sm_80", {"matmul", 6, {70, 72, 136, 0, 1, 1}}, 0.01, 0, 2},
    {"sm_80", {"matmul", 6, {67, 75, 69, 2, 0, 0}}, 0.01, 0, 2},
    {"sm_80", {"matmul", 6, {136, 200, 72, 2, 0, 0}}, 0.01, 0, 2},
    {"sm_80", {"matmul", 6, {66, 68, 330, 0, 0, 0}}, 0.01, 0, 2},
    {"sm_120a", {"matmul", 6, {66, 130, 34, 0, 1, 10}}, 0.02, 0, 2},
    {"sm_120a", {"matmul", 6, {65, 67, 37, 2, 0, 10}}, 0.02, 0, 2},
    {"sm_120a", {"matmul", 6, {65, 67, 37, 1, 0, 10}}, 0.02, 0, 2},
    {"sm_90a", {"matmul", 6, {130, 136, 72, 1, 0, 10}}, 0.02, 0, 3},
    {"sm_90a", {"matmul", 6, {70, 67, 41, 0, 1, 10}}, 0.02, 0, 2},
    {"sm_90a", {"matmul", 6, {131, 66, 33, 2, 0, 10}}, 0.02, 2, 2},
    {"sm_90a", {"matmul", 6, {130, 136, 272, 1, 2, 3}}, 0.02, 0, 3},
    {"sm_90a", {"matmul", 6, {130, 264, 272, 1, 2, 11}}, 0.02, 2, 3},
    {"sm_90a", {"matmul", 6, {70, 67, 141, 0, 2, 3}}, 0.02, 0, 2},
    {"sm_90a", {"matmul", 6, {67, 75, 129, 2, 2, 3}}, 0.02, 2, 2},
    {"sm_90a", {"matmul", 6, {270, 140, 72, 1, 0, 16}}, 0.01, 0, 7},
    {"sm_90a", {"matmul", 6, {130, 264, 40, 0, 1, 17}}, 0.02, 0, 7},
    {"sm_90a", {"matmul", 6, {130, 136, 272, 1, 2, 4}}, 0.02, 0, 2},
    {"sm_90a", {"matmul", 6, {70, 67, 141, 0, 2, 5}}, 0.02, 0, 2}, /* gradients times weights; both are turned */
    {"sm_90a", {"matmul", 6, {67, 264, 272, 1, 2, 14}}, 0.02, 2, 2},
    {"sm_90a", {"scaled_dot", 5, {131, 264, 400, 1, 3}}, 0.02, 2, 3},
    {"sm_90a", {"scaled_dot", 5, {70, 577, 272, 0, 5}}, 0.02, 3, 4},  /* rows of 272, a tail, blocks cut short */
    {"sm_90a", {"scaled_dot", 5, {5, 136, 2100, 0, 4}}, 0.02, 16, 2}, /* k split, rows copied */
    {"sm_80", {"scaled_dot", 5, {131, 264, 400, 1, 3}}, 0.02, 0, 3},
    {"sm_80", {"scaled_dot", 5, {70, 150, 275, 0, 5}}, 0.02, 0, 3}, /* odd rows: one element at a time */
    {"sm_90a", {"ragged_dot", 6, {300, 5, 72, 136, 1, 0}}, 0.02, 2, 12},
    {"sm_90a", {"ragged_dot", 6, {190, 5, 136, 264, 2, 1}}, 0.02, 6, 12}, /* groups past the last row */
    {"sm_90a", {"ragged_dot", 6, {140, 1, 72, 72, 2, 0}}, 0.02, 4, 4},
    {"sm_90a", {"ragged_dot", 6, {300, 5, 72, 136, 0, 0}}, 0.02, 3, 12},
    {"sm_90a", {"ragged_dot", 6, {150, 4, 136, 264, 0, 1}}, 0.02, 6, 12},
    {"sm_80", {"ragged_dot", 6, {300, 5, 72, 136, 1, 0}}, 0.02, 0, 7},
    {"sm_80", {"ragged_dot", 6, {190, 5, 67, 70, 2, 1}}, 0.02, 0, 7},
    {"sm_80", {"ragged_dot", 6, {300, 5, 72, 136, 0, 0}}, 0.02, 0, 7},
    {"sm_80", {"ragged_dot", 6, {300, 4, 67, 131, 0, 2}}, 1e-4, 0, 2},
    {"sm_80", {"ragged_dot", 6, {150, 3, 67, 131, 1, 2}}, 1e-4, 0, 2},
    {"sm_80", {"matmul", 6, {33, 35, 41, 2, 2, 5}}, 0.02, 0, 1},
    {"sm_90a", {"matmul", 6, {300, 264, 72, 1, 3, 0}}, 0.02, 4, 4}, /* two results */
    {"sm_90a", {"matmul", 6, {140, 200, 72, 1, 8, 0}}, 0.03, 4, 4}, /* GELU and its derivative */
    {"sm_90a", {"matmul", 6, {140, 200, 72, 0, 8, 1}}, 0.004, 4, 4},
    {"sm_80", {"matmul", 6, {70, 136, 72, 1, 8, 1}}, 0.004, 0, 2},
    {"sm_90a", {"matmul", 6, {140, 200, 72, 0, 9, 0}}, 0.03, 4, 4},
    {"sm_90a", {"matmul", 6, {270, 577, 40, 0, 3, 1}}, 0.02, 3, 3},
    {"sm_90a", {"matmul", 6, {256, 264, 72, 1, 4, 0}}, 0.01, 3, 3}, /* f32 beside operands of 16 bits */
    {"sm_90a", {"matmul", 6, {141, 131, 40, 0, 4, 1}}, 0.01, 3, 2},
    {"sm_90a", {"matmul", 6, {270, 300, 72, 1, 4, 0}}, 0.01, 2, 4},
    {"sm_90a", {"matmul", 6, {300, 300, 36, 1, 0, 10}}, 0.02, 2, 4}, /* f32 through shared memory, narrow tiles */
    {"sm_90a", {"matmul", 6, {140, 276, 68, 1, 1, 10}}, 0.02, 3, 4},
    {"sm_90a", {"matmul", 6, {140, 200, 6300, 2, 3, 0}}, 0.03, 16, 3},
    {"sm_90a", {"convolution_half", 8, {2, 40, 40, 7, 3, 1, 1, 1}}, 0.02, 4, 4},
    {"sm_90a", {"convolution_half", 8, {3, 72, 70, 6, 1, 1, 0, 1}}, 0.02, 4, 4},
    {"sm_90a", {"convolution_half", 8, {1, 32, 33, 20, 3, 1, 0, 1}}, 0.02, 2, 4},
    {"sm_90a", {"convolution_tf32", 8, {1, 40, 130, 9, 5, 1, 2, 1}}, 0.02, 2, 4},
    /* rows at odd addresses: copied */
    {"sm_90a", {"matmul", 6, {300, 268, 140, 1, 0, 0}}, 0.01, 4, 4},
    {"sm_90a", {"matmul", 6, {200, 577, 74, 1, 1, 1}}, 0.02, 3, 4},
    {"sm_90a", {"matmul", 6, {261, 131, 73, 1, 1, 0}}, 0.02, 2, 4},
    {"sm_90a", {"matmul", 6, {130, 136, 148, 1, 0, 0}}, 0.01, 4, 3},
    {"sm_90a", {"matmul", 6, {140, 131, 101, 2, 1, 0}}, 0.02, 2, 4},
    {"sm_90a", {"matmul", 6, {136, 134, 170, 2, 0, 1}}, 0.01, 2, 3},
    {"sm_90a", {"matmul", 6, {139, 136, 77, 0, 0, 0}}, 0.01, 2, 3},
    {"sm_90a", {"matmul", 6, {70, 300, 1290, 1, 0, 0}}, 0.01, 16, 4},
    {"sm_90a", {"matmul", 6, {131, 70, 33, 1, 1, 10}}, 0.02, 2, 3},
    {"sm_90a", {"matmul", 6, {131, 140, 268, 1, 2, 3}}, 0.02, 2, 3},
    {"sm_90a", {"matmul_batched", 5, {3, 72, 130, 36, 1}}, 0.01, 4, 3},
};
/* Forms and head dims of attention. */
static const small_row form_rows[] = {
    {"sm_90a", {"attention_form", 12, {1, 2, 1, 70, 133, 64, 0, 0, 20, 9, 0, 0}}, 0.02, 1, 2},
    {"sm_90a", {"attention_form", 12, {1, 1, 1, 290, 290, 64, 1, 0, 65, -1, 0, 0}}, 0.02, 2, 2},
    {"sm_90a", {"attention_form", 12, {1, 1, 1, 140, 300, 128, 1, 1, 128, -1, 5, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention_form", 12, {2, 2, 1, 70, 90, 64, 0, 0, -1, -1, 0, 1}}, 0.03, 1, 1},
    {"sm_90a", {"attention_form", 12, {2, 2, 2, 67, 91, 32, 1, 0, -1, -1, 2, 2}}, 0.02, 1, 1},
    {"sm_90a", {"attention_form", 12, {1, 2, 1, 130, 130, 64, 1, 0, -1, -1, 0, 3}}, 0.02, 1, 1},
    {"sm_90a", {"attention_form", 12, {2, 1, 1, 70, 140, 64, 0, 1, -1, -1, 0, 4}}, 0.02, 2, 1},
    {"sm_90a", {"attention_form", 12, {2, 1, 1, 65, 128, 96, 0, 0, -1, -1, 0, 5}}, 0.02, 2, 1},
    {"sm_90a", {"attention_form", 12, {2, 4, 2, 1, 150, 64, 1, 0, 60, -1, 3, 1}}, 0.02, 2, 1},
    {"sm_90a", {"attention_form", 12, {2, 4, 2, 1, 150, 128, 0, 0, -1, -1, 0, 3}}, 0.02, 2, 1},
    {"sm_90a", {"attention_form", 12, {1, 2, 1, 300, 300, 64, 1, 0, -1, -1, 0, 4}}, 0.02, 2, 2},
    {"sm_90a", {"attention_form", 12, {2, 1, 1, 140, 270, 128, 0, 1, 150, -1, 4, 4}}, 0.02, 1, 1},
    {"sm_90a", {"attention_form", 12, {1, 1, 1, 140, 300, 64, 0, 0, -1, -1, 0, 6}}, 0.02, 2, 2}, /* whole blocks */
    {"sm_90a", {"attention_form", 12, {1, 2, 1, 300, 420, 128, 1, 1, -1, -1, 0, 16}}, 0.02, 1, 1},
    {"sm_90a", {"attention_form", 12, {2, 2, 1, 70, 133, 64, 1, 0, -1, -1, 0, 10}}, 0.02, 2, 2}, /* dropout */
    {"sm_90a", {"attention_form", 12, {1, 2, 2, 140, 200, 128, 0, 1, -1, -1, 5, 11}}, 0.03, 1, 2},
    {"sm_90a", {"attention_form", 12, {1, 1, 1, 70, 90, 256, 0, 0, -1, -1, 0, 10}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 130, 192, 1, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 130, 256, 0, 1}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 2, 1, 1, 130, 256, 0, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 130, 96, 1, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 70, 32, 1, 0}}, 0.02, 1, 1},
    {"sm_90a", {"attention", 8, {1, 1, 1, 70, 70, 152, 0, 0}}, 0.02, 1, 1},
};
static const small_row backward_form_rows[] = {
    {"sm_90a", {"attention_backward_form", 12, {1, 2, 1, 150, 290, 64, 0, 0, 20, 9, 0, 0}}, BACKWARD_TOLERANCE, 1, 2},
    {"sm_90a", {"attention_backward_form", 12, {1, 1, 1, 290, 290, 64, 1, 0, 65, -1, 0, 0}}, BACKWARD_TOLERANCE, 2, 5},
    {"sm_90a",
     {"attention_backward_form", 12, {1, 1, 1, 140, 300, 128, 1, 1, 100, -1, 5, 0}},
     BACKWARD_TOLERANCE,
     1,
     2},
    {"sm_90a", {"attention_backward_form", 12, {1, 1, 1, 300, 140, 64, 0, 1, 30, 40, 2, 0}}, BACKWARD_TOLERANCE, 1, 5},
    {"sm_90a", {"attention_backward_form", 12, {2, 2, 1, 70, 90, 64, 0, 0, -1, -1, 0, 1}}, BACKWARD_TOLERANCE, 1, 2},
    {"sm_90a", {"attention_backward_form", 12, {2, 2, 2, 67, 91, 32, 1, 0, -1, -1, 2, 2}}, BACKWARD_TOLERANCE, 1, 5},
    {"sm_90a", {"attention_backward_form", 12, {1, 2, 1, 130, 130, 128, 1, 0, -1, -1, 0, 3}}, BACKWARD_TOLERANCE, 1, 2},
    {"sm_90a", {"attention_backward_form", 12, {2, 1, 1, 70, 140, 64, 0, 1, -1, -1, 0, 4}}, BACKWARD_TOLERANCE, 2, 2},
    {"sm_90a", {"attention_backward_form", 12, {1, 2, 1, 300, 300, 64, 1, 0, -1, -1, 0, 4}}, BACKWARD_TOLERANCE, 2, 1},
    {"sm_90a", {"attention_backward_form", 12, {2, 1, 1, 65, 128, 96, 0, 0, -1, -1, 3, 5}}, BACKWARD_TOLERANCE, 2, 2},
    /* the gradient of scores: odd and even rows, keys that nobody sees, with dropout */
    {"sm_90a", {"attention_backward_form", 12, {2, 2, 1, 70, 91, 64, 0, 0, -1, -1, 0, 21}}, BACKWARD_TOLERANCE, 2, 1},
    {"sm_90a",
     {"attention_backward_form", 12, {1, 2, 2, 150, 200, 128, 1, 1, -1, -1, 0, 31}},
     BACKWARD_TOLERANCE,
     1,
     1},
    {"sm_90a", {"attention_backward_form", 12, {2, 1, 1, 190, 70, 64, 1, 0, -1, -1, 0, 21}}, BACKWARD_TOLERANCE, 2, 1},
    /* lists with blocks that are seen whole */
    {"sm_90a", {"attention_backward_form", 12, {1, 1, 1, 140, 300, 64, 0, 0, -1, -1, 0, 6}}, BACKWARD_TOLERANCE, 2, 1},
    {"sm_90a",
     {"attention_backward_form", 12, {1, 2, 1, 150, 420, 128, 1, 1, -1, -1, 0, 16}},
     BACKWARD_TOLERANCE,
     1,
     1},
    /* head dims above 128 */
    {"sm_90a", {"attention_backward_form", 12, {1, 2, 1, 150, 200, 256, 1, 0, -1, -1, 0, 0}}, BACKWARD_TOLERANCE, 1, 1},
    {"sm_90a", {"attention_backward_form", 12, {1, 1, 1, 200, 300, 192, 0, 1, -1, -1, 0, 0}}, BACKWARD_TOLERANCE, 2, 1},
    {"sm_90a",
     {"attention_backward_form", 12, {1, 1, 1, 130, 140, 200, 1, 0, -1, -1, 0, 12}},
     BACKWARD_TOLERANCE,
     1,
     1},
    {"sm_90a", {"attention_backward_form", 12, {1, 1, 1, 70, 150, 136, 0, 0, -1, -1, 0, 21}}, BACKWARD_TOLERANCE, 1, 1},
    /* dropout, in every plan */
    {"sm_90a", {"attention_backward_form", 12, {2, 2, 1, 70, 133, 64, 1, 0, -1, -1, 0, 10}}, BACKWARD_TOLERANCE, 2, 5},
    {"sm_90a",
     {"attention_backward_form", 12, {1, 1, 1, 150, 300, 128, 0, 1, -1, -1, 0, 10}},
     BACKWARD_TOLERANCE,
     1,
     4},
    {"sm_90a", {"attention_backward_form", 12, {1, 2, 2, 90, 140, 128, 1, 0, -1, -1, 4, 10}}, BACKWARD_TOLERANCE, 1, 1},
    {"sm_90a", {"attention_backward_form", 12, {2, 2, 2, 70, 90, 64, 0, 0, -1, -1, 0, 11}}, BACKWARD_TOLERANCE, 1, 1},
};
enum { BACKWARD_FORM_ROWS = sizeof backward_form_rows / sizeof *backward_form_rows };
enum { FORM_ROWS = sizeof form_rows / sizeof *form_rows };

/* Heads in tokens, all plans. */
static const small_row token_rows[] = {
    {"sm_90a", {"attention_backward_tokens", 6, {2, 3, 70, 64, 1, 0}}, BACKWARD_TOLERANCE, 2, 5},
    {"sm_90a", {"attention_backward_tokens", 6, {1, 2, 133, 128, 0, 1}}, BACKWARD_TOLERANCE, 1, 2},
    {"sm_90a", {"attention_backward_tokens", 6, {2, 2, 140, 40, 0, 0}}, BACKWARD_TOLERANCE, 2, 5},
};
enum { TOKEN_ROWS = sizeof token_rows / sizeof *token_rows };

/* Ways of keeping the tensor cores busy beside the builder's own; choices: the one choice. */
static const small_row way_rows[] = {
    {"sm_90a", {"attention", 8, {1, 3, 1, 260, 201, 64, 1, 0}}, 0.02, 2, 1000}, /* tiles over all heads */
    {"sm_90a", {"attention", 8, {1, 2, 2, 130, 396, 64, 0, 1}}, 0.02, 1, 1000},
    {"sm_90a", {"attention_backward", 8, {1, 2, 1, 70, 133, 64, 1, 0}}, BACKWARD_TOLERANCE, 2, 3001},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 150, 100, 128, 1, 0}}, BACKWARD_TOLERANCE, 1, 1001},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 70, 280, 64, 0, 0}}, BACKWARD_TOLERANCE, 2, 1001},
    {"sm_90a", {"attention_backward", 8, {1, 2, 1, 70, 90, 40, 1, 1}}, BACKWARD_TOLERANCE, 1, 1001},
    {"sm_90a", {"attention_backward", 8, {1, 4, 2, 140, 270, 64, 1, 0}}, BACKWARD_TOLERANCE, 1, 3004},
    {"sm_90a", {"attention_backward", 8, {1, 2, 1, 150, 133, 64, 0, 0}}, BACKWARD_TOLERANCE, 3, 12002},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 150, 300, 128, 0, 0}}, BACKWARD_TOLERANCE, 1, 12002},
    {"sm_90a", {"attention_backward", 8, {1, 1, 1, 150, 200, 256, 1, 0}}, BACKWARD_TOLERANCE, 1, 5000},
};
/* A cache that holds the keys of few heads: two sections of two heads and one of one; one of one key head that two
   query heads share, the last row cut off. choices: the one choice. */
static const struct {
    small_row row;
    int l2_bytes;
} section_rows[] = {
    {{"sm_90a", {"attention", 8, {1, 5, 5, 300, 300, 64, 1, 0}}, 0.02, 2, 1}, 400000},
    {{"sm_90a", {"attention", 8, {1, 4, 2, 500, 490, 64, 1, 1}}, 0.02, 2, 1}, 300000},
};
/* Products whose consumers take turns: one, five or nine tiles a block, fewer steps than stages, as many, more. */
static const small_row turn_rows[] = {
    {"sm_90a", {"matmul", 6, {300, 264, 72, 1, 0, 0}}, 0.01, 2, 0},
    {"sm_90a", {"matmul", 6, {130, 136, 392, 0, 1, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {260, 264, 384, 1, 1, 1}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {141, 387, 450, 2, 0, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {270, 577, 40, 0, 3, 1}}, 0.02, 3, 0}, /* two results, rows by warps */
    {"sm_90a", {"matmul", 6, {270, 264, 72, 1, 8, 1}}, 0.004, 2, 0},
    {"sm_90a", {"matmul", 6, {270, 264, 72, 0, 9, 0}}, 0.03, 2, 0},
    {"sm_90a", {"matmul", 6, {256, 264, 72, 1, 4, 0}}, 0.01, 2, 0}, /* f32 beside operands of 16 bits */
    {"sm_90a", {"matmul", 6, {141, 131, 40, 0, 4, 1}}, 0.01, 2, 0},
    {"sm_90a", {"matmul", 6, {131, 266, 33, 2, 0, 10}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {270, 268, 200, 1, 4, 0}}, 0.01, 2, 0},
    {"sm_90a", {"matmul", 6, {300, 140, 36, 1, 1, 10}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {130, 264, 272, 1, 2, 11}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {200, 264, 72, 1, 5, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {390, 136, 72, 1, 6, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {270, 140, 72, 1, 7, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul_batched", 5, {3, 70, 265, 40, 1}}, 0.01, 2, 0},
};
/* Few rows: parts of k in the blocks of a cluster, tiles of any 16 columns. */
static const small_row few_rows[] = {
    {"sm_90a", {"matmul", 6, {5, 136, 1544, 1, 0, 0}}, 0.02, 16, 0},
    {"sm_90a", {"matmul", 6, {3, 67, 2300, 0, 1, 1}}, 0.02, 16, 0},
    {"sm_90a", {"matmul", 6, {70, 120, 1100, 1, 3, 0}}, 0.03, 16, 0},
    {"sm_90a", {"matmul", 6, {16, 200, 600, 1, 4, 0}}, 0.02, 12, 0},
    {"sm_90a", {"matmul", 6, {9, 130, 520, 2, 6, 0}}, 0.02, 8, 0},
    {"sm_90a", {"matmul", 6, {1, 72, 300, 1, 0, 10}}, 0.02, 8, 0},
    {"sm_90a", {"matmul_batched", 5, {2, 9, 72, 1030, 1}}, 0.02, 16, 0},
};
/* Clusters with an even share of all steps: tiles in two or more uneven parts, some whole. */
static const small_row even_rows[] = {
    {"sm_90a", {"matmul", 6, {300, 264, 2100, 2, 0, 0}}, 0.03, 10, 0},
    {"sm_90a", {"matmul", 6, {270, 131, 1700, 1, 3, 1}}, 0.03, 7, 0},
    {"sm_90a", {"matmul", 6, {140, 200, 1300, 0, 4, 0}}, 0.02, 6, 0},
    {"sm_90a", {"matmul_batched", 5, {3, 70, 72, 1600, 1}}, 0.03, 8, 0},
};
/* The last rows, fewer than 64, in a launch of their own: with narrow tiles at the edge, copied operands, rows stored
   by warps, two results, f32 ones, what is added; in batches. */
static const small_row foot_rows[] = {
    {"sm_90a", {"matmul", 6, {264, 1032, 72, 1, 0, 0}}, 0.01, 2, 0},
    {"sm_90a", {"matmul", 6, {261, 1031, 77, 0, 1, 1}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {320, 1032, 72, 2, 3, 0}}, 0.02, 2, 0},
    {"sm_90a", {"matmul", 6, {257, 1024, 72, 1, 4, 0}}, 0.01, 2, 0},
    {"sm_90a", {"matmul", 6, {280, 1028, 36, 0, 0, 10}}, 0.02, 2, 0},
    {"sm_90a", {"matmul_batched", 5, {2, 264, 520, 40, 1}}, 0.01, 2, 0},
};
enum {
    SMALL_ROWS = sizeof small_rows / sizeof *small_rows,
    WAY_ROWS = sizeof way_rows / sizeof *way_rows,
    SECTION_ROWS = sizeof section_rows / sizeof *section_rows,
    TURN_ROWS = sizeof turn_rows / sizeof *turn_rows,
    FEW_ROWS = sizeof few_rows / sizeof *few_rows,
    EVEN_ROWS = sizeof even_rows / sizeof *even_rows,
    FOOT_ROWS = sizeof foot_rows / sizeof *foot_rows
};

static void compare(const char *name, int choice, int output, const weft_tensor *want, const weft_tensor *got,
                    double tolerance) {
    for (int64_t i = 0; i < weft_tensor_element_count(want); i++) {
        double a = weft_element_double(want->dtype, want->data, i), b = weft_element_double(got->dtype, got->data, i);
        ck_assert_msg(fabs(a - b) <= tolerance * (1 + fabs(a)), "%s choice %d output %d element %lld: %g instead of %g",
                      name, choice, output, (long long)i, b, a);
    }
}

/* few: tiles for few rows, parts of k in clusters; even: an equal share of all steps for each cluster; foot: the last
   rows by themselves */
typedef enum schedule_kind { ANY, TURNS, FEW, EVEN, FOOT } schedule_kind;

static bool is_kind(const weft_schedule *schedule, schedule_kind kind) {
    switch (kind) {
    case TURNS: return schedule->turns;
    case FEW: return schedule->join > 1 || schedule->tile_n % 64;
    case EVEN: return schedule->even;
    case FOOT: return schedule->foot;
    case ANY: break;
    }
    return true;
}

/* Schedules of one kind. How many ran. l2_bytes: 0: the card's. */
static int simulate_with(const small_row *small, int l2_bytes, int first, int last, schedule_kind kind) {
    const case_row *row = &small->row;
    weft_capability card = weft_bench_capability(weft_capability_find("cuda", small->arch), row->name, row->numbers),
                    *capability = &card;
    if (small->multiprocessors) card.multiprocessors = small->multiprocessors;
    if (l2_bytes) card.l2_bytes = l2_bytes;
    weft_context *context;
    cuda_check(weft_context_create(NULL, &context));
    compiled c = {0};
    cuda_check(weft_bench_graph(context, row->name, row->count, row->numbers, &c.graph));
    weft_arena_init(context->allocator, &c.arena);
    weft_tensor *tensors[10], *want[4], *got[4];
    uint64_t state = 1;
    int inputs = weft_graph_input_count(c.graph), outputs = weft_graph_output_count(c.graph);
    for (int i = 0; i < inputs; i++)
        tensors[i] = cuda_random_tensor(context, weft_graph_input_value(c.graph, i), &state);
    cuda_check(weft_graph_interpret(c.graph, inputs, tensors, outputs, want));
    for (int i = 0; i < outputs; i++) got[i] = cuda_random_tensor(context, weft_graph_output_value(c.graph, i), &state);
    weft_pass_context pass = {.graph = c.graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    ck_assert_int_eq(c.graph->body->block->first->op, WEFT_OP_fusion);
    bool more = true;
    int ran = 0;
    for (int choice = first; choice <= last && (more || choice == first); choice++) {
        ck_assert(cuda_build_choice(&c, capability, choice, &more));
        if (!is_kind(&c.schedule, kind)) continue;
        ran++;
        for (int i = 0; i < outputs; i++) memset(got[i]->data, 0xff, got[i]->bytes);
        cuda_simulate_plan(&c, tensors, inputs, got, (uint64_t)choice + 1, context, NULL);
        for (int i = 0; i < outputs; i++) compare(row->name, choice, i, want[i], got[i], small->tolerance);
    }
    for (int i = 0; i < inputs; i++) weft_tensor_release(tensors[i]);
    for (int i = 0; i < outputs; i++) weft_tensor_release(want[i]), weft_tensor_release(got[i]);
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_context_release(context);
    return ran;
}

static int simulate_row(const small_row *small, int first, int last, schedule_kind kind) {
    return simulate_with(small, 0, first, last, kind);
}

START_TEST(simulated_kernels_agree_with_the_interpreter) {
    int choices = small_rows[_i].choices ? small_rows[_i].choices : 2;
    simulate_row(&small_rows[_i], 0, choices - 1, ANY);
}
END_TEST

START_TEST(simulated_turns_agree_with_the_interpreter) {
    ck_assert_int_ge(simulate_row(&turn_rows[_i], 0, 15, TURNS), 2);
}
END_TEST

START_TEST(simulated_few_rows_agree_with_the_interpreter) {
    ck_assert_int_ge(simulate_row(&few_rows[_i], 0, 15, FEW), 2);
}
END_TEST

START_TEST(simulated_shares_agree_with_the_interpreter) {
    ck_assert_int_ge(simulate_row(&even_rows[_i], 0, 15, EVEN), 1);
}
END_TEST

START_TEST(simulated_feet_agree_with_the_interpreter) {
    ck_assert_int_ge(simulate_row(&foot_rows[_i], 0, 15, FOOT), 1);
}
END_TEST

START_TEST(simulated_forms_agree_with_the_interpreter) {
    simulate_row(&form_rows[_i], 0, form_rows[_i].choices - 1, ANY);
}
END_TEST

START_TEST(simulated_backward_forms_agree_with_the_interpreter) {
    simulate_row(&backward_form_rows[_i], 0, backward_form_rows[_i].choices - 1, ANY);
}
END_TEST

START_TEST(simulated_tokens_agree_with_the_interpreter) {
    simulate_row(&token_rows[_i], 0, token_rows[_i].choices - 1, ANY);
}
END_TEST

START_TEST(simulated_ways_agree_with_the_interpreter) {
    simulate_row(&way_rows[_i], way_rows[_i].choices, way_rows[_i].choices, ANY);
}
END_TEST

START_TEST(simulated_sections_agree_with_the_interpreter) {
    const small_row *row = &section_rows[_i].row;
    simulate_with(row, section_rows[_i].l2_bytes, row->choices, row->choices, ANY);
}
END_TEST

/* The gradient of attention is the forward pass with its log-sum-exp and one attention_backward; two kernels
   more, or with the permission three. */
START_TEST(the_gradient_of_attention_is_two_groups) {
    weft_capability card = *weft_capability_find("cuda", "sm_90a");
    int64_t numbers[8] = {2, 4, 2, 300, 200, 64, 1, 0};
    card.relax_order = _i == 1;
    weft_context *context;
    cuda_check(weft_context_create(NULL, &context));
    compiled c = {0};
    cuda_check(weft_bench_graph(context, "attention_gradient", 8, numbers, &c.graph));
    weft_arena_init(context->allocator, &c.arena);
    weft_pass_context pass = {.graph = c.graph, .capability = &card, .options = "", .claims = weft_builder_claims};
    cuda_check(weft_graph_finish(c.graph));
    cuda_check(weft_pipeline_run(&pass, weft_pipeline_standard));
    const weft_node *forward = c.graph->body->block->first, *backward = forward->next;
    ck_assert_int_eq(forward->op, WEFT_OP_fusion);
    ck_assert_str_eq(weft_node_string(forward, WEFT_ATTR_anchor, ""), "attention");
    ck_assert_int_eq(forward->result_count, 2);
    ck_assert_int_eq(backward->op, WEFT_OP_fusion);
    ck_assert_str_eq(weft_node_string(backward, WEFT_ATTR_anchor, ""), "attention_backward");
    ck_assert_int_eq(backward->next->op, WEFT_OP_yield);
    bool more;
    ck_assert(cuda_build_choice(&c, &card, 0, &more));
    ck_assert_int_eq(c.count, _i == 1 ? 4 : 3);
    ck_assert_ptr_nonnull(strstr(c.kernels[1]->name, _i == 1 ? "_prepare" : "_queries"));
    weft_arena_deinit(&c.arena);
    weft_graph_release(c.graph);
    weft_context_release(context);
}
END_TEST

/* -- the driver where there is no card: a status that says what to do; where there is one, it opens */

START_TEST(a_missing_card_is_a_status) {
    weft_context *context;
    weft_device *device;
    cuda_check(weft_context_create(NULL, &context));
    weft_status status = weft_device_open(context, "cuda:0", &device);
    if (status) {
        ck_assert_msg(weft_status_code(status) == WEFT_UNAVAILABLE || weft_status_code(status) == WEFT_NOT_FOUND, "%s",
                      weft_status_message(status));
        ck_assert_ptr_null(device);
        ck_assert(strlen(weft_status_message(status)) > 0);
        weft_status_release(status);
    } else {
        weft_device_release(device);
    }
    status = weft_device_open(context, "cuda:4095", &device);
    ck_assert_ptr_nonnull(status);
    weft_status_release(status);
    weft_context_release(context);
}
END_TEST

/* test-cuda [compile|simulated|turns|few|even|foot|ways|sections|forms|backward-forms|tokens FIRST LAST]: only these
   rows of one table. */
static void add_rows(TCase *tcase, const TTest *test, int count, const char *name, int argc, char **argv) {
    bool only = argc == 4;
    if (only && strcmp(argv[1], name) != 0) return;
    int first = only ? atoi(argv[2]) : 0, last = only ? atoi(argv[3]) : count;
    tcase_add_loop_test(tcase, test, first, last < count ? last : count);
}

int main(int argc, char **argv) {
    Suite *suite = suite_create("cuda");
    TCase *layouts = tcase_create("layouts"), *compile = tcase_create("compile");
    tcase_add_test(layouts, fragments_follow_the_manual);
    tcase_add_test(layouts, an_accumulator_is_an_operand);
    tcase_add_test(layouts, a_swizzle_frees_the_banks);
    tcase_add_test(layouts, a_missing_card_is_a_status);
    tcase_add_loop_test(layouts, the_gradient_of_attention_is_two_groups, 0, 2);
    tcase_set_timeout(compile, 120);
    tcase_set_tags(compile, "nvrtc"); /* an entry of its own: setup.cmake */
    add_rows(compile, kernels_compile_clean, ROWS * ARCHS, "compile", argc, argv);
    TCase *simulated = tcase_create("simulated");
    tcase_set_timeout(simulated, 240);
    add_rows(simulated, simulated_kernels_agree_with_the_interpreter, SMALL_ROWS, "simulated", argc, argv);
    add_rows(simulated, simulated_turns_agree_with_the_interpreter, TURN_ROWS, "turns", argc, argv);
    add_rows(simulated, simulated_few_rows_agree_with_the_interpreter, FEW_ROWS, "few", argc, argv);
    add_rows(simulated, simulated_shares_agree_with_the_interpreter, EVEN_ROWS, "even", argc, argv);
    add_rows(simulated, simulated_feet_agree_with_the_interpreter, FOOT_ROWS, "foot", argc, argv);
    add_rows(simulated, simulated_forms_agree_with_the_interpreter, FORM_ROWS, "forms", argc, argv);
    add_rows(simulated, simulated_backward_forms_agree_with_the_interpreter, BACKWARD_FORM_ROWS, "backward-forms", argc,
             argv);
    add_rows(simulated, simulated_tokens_agree_with_the_interpreter, TOKEN_ROWS, "tokens", argc, argv);
    add_rows(simulated, simulated_ways_agree_with_the_interpreter, WAY_ROWS, "ways", argc, argv);
    add_rows(simulated, simulated_sections_agree_with_the_interpreter, SECTION_ROWS, "sections", argc, argv);
    suite_add_tcase(suite, simulated);
    suite_add_tcase(suite, layouts);
    suite_add_tcase(suite, compile);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
