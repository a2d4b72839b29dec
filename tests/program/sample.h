/* A program record that uses every kind of buffer, step and field; shared by the tests of this folder. */
#ifndef WEFT_TESTS_PROGRAM_SAMPLE_H
#define WEFT_TESTS_PROGRAM_SAMPLE_H

#include "base/program.h"

/* An allocator that fails after `left` allocations (negative: never) and counts what is live. */
typedef struct test_allocator {
    long left, live;
} test_allocator;
weft_allocator test_allocator_make(test_allocator *counter);

typedef struct sample {
    weft_program_data data;
    weft_dim dims[32];
    weft_port inputs[2], outputs[1], states[1];
    weft_guard guards[1];
    weft_buffer buffers[10];
    weft_program_kernel kernels[2];
    weft_launch_variant variants[3];
    weft_condition conditions[1];
    weft_tensor_map maps[1];
    weft_step load[1], main[6], predicate[1], body[1], then_steps[1], loop_body[1];
    weft_step_list regions[7];
} sample;

/* The dims table is created; release it with weft_dim_table_release(s->data.dims). */
void sample_init(sample *s);

#endif
