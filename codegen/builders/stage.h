/* Results that cannot be written element by element in their final form: 4- and 2-bit types (one writer a byte), and
   f16, bf16 and f8 sums that round once at the end. They are built in a temporary of carriers, and a last launch rounds
   and packs them. Read next: scatter.c. */
#ifndef WEFT_CODEGEN_BUILDERS_STAGE_H
#define WEFT_CODEGEN_BUILDERS_STAGE_H

#include "codegen/builders/index_internal.h"
#include "codegen/builders/plan.h"

typedef struct weft_stage {
    bool staged;
    int result, temp;
    weft_dtype dtype; /* as which the buffer is loaded and stored: the carrier when staged */
} weft_stage;

/* Result `result` of the fusion; staged when its dtype is below 8 bits, or when sums are kept (accumulates) in more
   than its precision. Adds a temporary to the plan, which must have room for it. */
weft_stage weft_stage_make(const weft_build_request *request, weft_kernel_plan *plan, int result, bool accumulates);
/* The buffer to work on, as an argument of c's kernel. */
weft_kval weft_stage_buffer(weft_index_context *c, const weft_stage *stage);
/* Appends the launch that packs a staged result; nothing for others. */
weft_status weft_stage_finish(const weft_build_request *request, weft_kernel_plan *plan,
                              const weft_stage *stage) WEFT_MUST_USE;

/* A kernel over row-major positions [0, count): body is called once with lanes 0, to make its buffer arguments, then
   for vectors at a position, the tail under a mask. */
typedef void (*weft_flat_body)(weft_index_context *c, void *self, weft_lane_index position, int lanes, weft_kval mask);
weft_status weft_flat_launch(const weft_build_request *request, weft_kernel_plan *plan, const char *suffix,
                             weft_dim count, int lanes, weft_flat_body body, void *self) WEFT_MUST_USE;

/* The point of a row-major position of value. */
weft_point weft_position_point(const weft_value *value, weft_lane_index position, int lanes, weft_kval mask);
/* The point of an index of value. */
weft_point weft_axes_point(const weft_value *value, const weft_lane_index *index, int lanes, weft_kval mask);

#endif
