/* State of the verifier, shared by verify*.c: what is known about every value, and the list of problems. */
#ifndef WEFT_CODEGEN_KERNEL_VERIFY_INTERNAL_H
#define WEFT_CODEGEN_KERNEL_VERIFY_INTERNAL_H

#include "codegen/kernel/verify.h"

/* How many threads are sure to agree on a value, or to run an instruction together. */
typedef enum weft_uniformity {
    WEFT_UNIFORM_NOT,
    WEFT_UNIFORM_WARP,
    WEFT_UNIFORM_WARPGROUP,
    WEFT_UNIFORM_BLOCK
} weft_uniformity;

typedef struct weft_kverify {
    const weft_kernel *kernel;
    weft_text text;
    int problem_count;
    int32_t *opener; /* innermost open nest at the instruction; -1 = top */
    int32_t *end;    /* of an opener: its end; 0 while open */
    int32_t *branch; /* of an else: its if */
    int32_t *first;  /* of regs and vars: where they hold something; first > last: nowhere */
    int32_t *last;
    int64_t *change;     /* of 32-bit registers in use, at an instruction; one past the last, too */
    uint8_t *constant;   /* known when the code is generated: constants, unrolled loop variables, arithmetic of them */
    uint8_t *uniformity; /* of values, vars and regs */
    uint8_t *path;       /* of an opener: uniformity inside its nest */
    uint8_t *control;    /* uniformity of the control flow at the instruction */
} weft_kverify;

void weft_kverify_problem(weft_kverify *v, weft_kval value, const char *format, ...) WEFT_PRINTF(3, 4);
void weft_kverify_types(weft_kverify *v, weft_kval value); /* verify_types.c */
void weft_kverify_uniform(weft_kverify *v);                /* verify_uniform.c */
void weft_kverify_budget(weft_kverify *v);                 /* verify_budget.c */

#endif
