/* What the programs of tests/cuda share: a case of cases.c through the passes and its builder to kernels, and these
   kernels in the simulator. */
#ifndef WEFT_TESTS_CUDA_HARNESS_H
#define WEFT_TESTS_CUDA_HARNESS_H

#include "base/tensor.h"
#include "codegen/builders/builder.h"
#include "codegen/kernel/simulate.h"

enum { KERNELS_MAX = 32, WAY = 1000 };

typedef struct compiled {
    weft_graph *graph;
    weft_arena arena;
    weft_kernel *kernels[KERNELS_MAX];
    int count;
    weft_kernel_plan plan;  /* of the last group */
    weft_schedule schedule; /* of the last group */
} compiled;

/* Fails the test with the whole status. */
void cuda_check(weft_status status);
/* Choices are proposals of the builder, and WAY times the bits of schedule.way that differ. false: no builder takes a
   group on this architecture (the reason is printed). */
bool cuda_build_choice(compiled *c, const weft_capability *capability, int choice, bool *out_more);
weft_tensor *cuda_random_tensor(weft_context *context, const weft_value *value, uint64_t *state);
/* All kernels of the only group, in order. counts: may be NULL. */
void cuda_simulate_plan(const compiled *c, weft_tensor *const *inputs, int input_count, weft_tensor *const *results,
                        uint64_t seed, weft_context *context, weft_sim_counts *counts);

#endif
