/* Faults injected into kernels and programs, one list for all targets: each must be noticed, by the verifier, by the
   simulator, and by the numbers or a status of every device that is at hand.

   A subject is a graph lowered for one target, its kernels open to changes. A fault changes one place of it: places are
   counted, as many a change makes no difference (a barrier that orders nothing, a bound that nobody reaches). The
   simulator says where it does make one; there every device must say so too.
   Read next: list.c (the faults), subject.c (lowering, the simulated run), device.c (the run on a device). */
#ifndef WEFT_TESTS_FAULTS_FAULTS_H
#define WEFT_TESTS_FAULTS_FAULTS_H

#include <check.h>

#include "compile/lower.h"
#include "tests/support/status.h"
#include "weft/compile.h"

enum { INPUTS_MAX = 3, WORDS = 300 };

typedef struct subject {
    weft_context *context;
    const weft_capability *capability;
    weft_graph *graph; /* behind the passes */
    weft_arena arena, kernel_arena;
    weft_lowered lowered;
    int input_count;
    weft_tensor *inputs[INPUTS_MAX], *expected;
    bool truncated; /* half of the code is missing */
} subject;

typedef enum fault_model { POINTWISE, SOFTMAX, MATMUL, SUMS, MAXIMA, SYMBOLIC } fault_model;

typedef struct fault {
    const char *name;
    fault_model model;
    /* Changes place number `place`; false: there are no more. */
    bool (*apply)(subject *s, int place);
    bool unseen; /* not visible in the kernels: only a device can notice */
} fault;
extern const fault faults[]; /* the first changes nothing; ended by a row without a name */

/* -- subject.c */
void subject_make(weft_context *context, fault_model model, const weft_capability *capability, subject *out);
/* false: a status, whose words go to why. */
bool subject_try(weft_context *context, fault_model model, const weft_capability *capability, subject *out, char *why);
void subject_drop(subject *s);
typedef enum verdict { RIGHT, REFUSED, WRONG } verdict;
/* The verifier's (REFUSED), then the simulator's word; why. exact: accesses behind the end of a buffer count. */
verdict subject_verify(const subject *s, char *why);
verdict subject_simulate(const subject *s, bool exact, char *why);
/* NULL, or how the result differs. */
const char *subject_compare(const subject *s, const float *result, char *why);

/* -- device.c: in a process of its own, since a fault may end it. ABSENT is no verdict: there is no such device. */
enum { ABSENT = WRONG + 1 };
int subject_run(weft_context *context, const fault *f, int place, const weft_capability *capability, const char *device,
                char *why);
/* The code of the changed kernels. */
weft_status subject_generate(const subject *s, weft_code_image *out_image) WEFT_MUST_USE;

/* -- main.c: the fault at one place, before any device runs it; false in *out_more: there is no such place */
verdict look(weft_context *context, const fault *f, int place, const weft_capability *capability, bool *out_more,
             char *why);

/* -- adapters.c */
TCase *case_adapters(void);

/* -- chromium.c: every fault in one browser */
void browser_check(weft_context *context, int *out_wrong, int *out_count);

#endif
