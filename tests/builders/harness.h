/* Checks builders: a graph is interpreted, then wrapped whole into one fusion, built for a capability, simulated, and
   compared under base/tolerance. */
#ifndef WEFT_TESTS_BUILDERS_HARNESS_H
#define WEFT_TESTS_BUILDERS_HARNESS_H

#include <check.h>

#include "base/tolerance.h"
#include "codegen/builders/builder.h"
#include "ir/build.h"

typedef struct harness {
    weft_context *context;
    weft_graph *graph;
    const int64_t *symbols; /* values of the graph's symbols; NULL when there are none */
    const char *anchor;
    weft_tolerance_class class;
    double terms, scale; /* of sums */
    bool special;        /* infinities, NaN and extremes among the inputs */
    bool may_refuse;     /* a capability without a builder is fine */
    int threads;
    bool native;                       /* run compiled code too, where this build and this CPU can */
    int launches;                      /* on GPUs, and no CPU is asked; 0: any, and all are */
    const char *gpu_builder;           /* not NULL: schedules on GPUs must name it */
    const struct weft_capability *gpu; /* instead of the GPU among the targets; NULL: that one */
    const int64_t *offsets;            /* contents of the input of that name; NULL: random, as all others */
    const char *note;                  /* printed with a failure */
} harness;

/* Compiled code is slow to make: only some dtypes of a sweep run it, all with WEFT_TEST_NATIVE=all in the environment.
 */
bool harness_native(weft_dtype dtype);
void harness_open(harness *h, const char *anchor);
void harness_close(harness *h);
/* Everything the graph computes as one fusion, on all test capabilities. */
void harness_check(harness *h);
/* The capabilities: cpu v3, cpu v4, cuda sm_80. */
extern const char *const harness_targets[3][2];

Suite *elementwise_suite(void);
Suite *movement_suite(void);
Suite *reduce_suite(void);
Suite *convolution_suite(void);
Suite *chain_suite(void);
Suite *network_suite(void);
Suite *single_suite(void);
Suite *ragged_suite(void);

#endif
