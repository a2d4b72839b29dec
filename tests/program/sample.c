/* See sample.h. */
#include "tests/program/sample.h"

#include <check.h>
#include <string.h>

static void *resize(void *self, void *pointer, size_t old_bytes, size_t new_bytes, size_t align_bytes) {
    test_allocator *counter = self;
    weft_allocator system = weft_allocator_system();
    if (new_bytes > old_bytes) {
        if (!counter->left) return NULL;
        if (counter->left > 0) counter->left--;
    }
    void *result = system.resize(system.self, pointer, old_bytes, new_bytes, align_bytes);
    if (!pointer && result) counter->live++;
    if (pointer && !new_bytes) counter->live--;
    return result;
}

weft_allocator test_allocator_make(test_allocator *counter) { return (weft_allocator){counter, resize}; }

static const int load_buffers[] = {3, 4}, main_buffers[] = {0, 4, 6}, main_reads[] = {0, 1}, tail_buffers[] = {7, 2};

static void fill_buffers(sample *s, weft_dim B, weft_dim U, weft_dim T) {
    weft_dim_table *t = s->data.dims;
    weft_dim row = weft_dim_multiply(t, B, 64);
    s->buffers[0] = (weft_buffer){WEFT_BUFFER_INPUT, 0, row, 0, 0, 0, "x"};
    s->buffers[1] = (weft_buffer){WEFT_BUFFER_INPUT, 1, 8, 0, 0, 0, "n"};
    s->buffers[2] = (weft_buffer){WEFT_BUFFER_OUTPUT, 0, weft_dim_multiply(t, U, 4), 0, 0, 0, "y"};
    s->buffers[3] = (weft_buffer){WEFT_BUFFER_CONSTANT, 0, 256, 64, 0, 0, "w"};
    s->buffers[4] = (weft_buffer){WEFT_BUFFER_PERSISTENT, 0, 512, 0, 0, 0, "w packed"};
    s->buffers[5] = (weft_buffer){WEFT_BUFFER_STATE, 0, 128, 0, 0, 0, "cache"};
    s->buffers[6] = (weft_buffer){WEFT_BUFFER_TEMP, 0, row, 0, 0, 4, "h"};
    s->buffers[7] = (weft_buffer){WEFT_BUFFER_ALIAS, 6, 64, weft_dim_multiply(t, T, 64), 0, 0, NULL};
    s->buffers[8] = (weft_buffer){WEFT_BUFFER_TEMP, 0, 1, 0, 1, 2, "go on"};
    s->buffers[9] = (weft_buffer){WEFT_BUFFER_TEMP, 0, 8, 0, 3, 5, "count"};
}

static void fill_steps(sample *s, weft_dim B, weft_dim U) {
    s->conditions[0] = (weft_condition){B, 1, WEFT_RELATION_EQ};
    s->maps[0] = (weft_tensor_map){.buffer = 6,
                                   .dtype = WEFT_BF16,
                                   .rank = 2,
                                   .extent = {16, B},
                                   .stride_bytes = {0, 64},
                                   .box = {64, 128},
                                   .swizzle_bytes = 128};
    s->dims[10] = B;
    s->dims[11] = weft_dim_divide_ceil(s->data.dims, B, 4);
    s->variants[0] = (weft_launch_variant){.kernel = 0, .grid = 1, .buffer_count = 2, .buffers = load_buffers};
    s->variants[1] =
        (weft_launch_variant){1, s->conditions, 1, 1, 3, 1, 0, 2, main_buffers, main_reads, &s->dims[10], NULL};
    s->variants[2] =
        (weft_launch_variant){0, NULL, 1, s->dims[11], 3, 2, 1, 0, main_buffers, NULL, &s->dims[10], s->maps};
    static const weft_launch_variant tail = {.kernel = 0, .grid = 1, .buffer_count = 2, .buffers = tail_buffers};
    s->load[0] =
        (weft_step){.kind = WEFT_STEP_LAUNCH, .variant_count = 1, .variants = &s->variants[0], .location = "pack w"};
    s->main[0] = (weft_step){
        .kind = WEFT_STEP_LAUNCH, .variant_count = 2, .variants = &s->variants[1], .location = "dot, \"fc\""};
    s->main[1] = (weft_step){.kind = WEFT_STEP_WHILE, .buffers = {8}, .regions = {2, 3}, .location = "while"};
    s->main[2] = (weft_step){.kind = WEFT_STEP_COND, .buffers = {8}, .regions = {4, 5}};
    s->main[3] = (weft_step){.kind = WEFT_STEP_READ_DIM, .buffers = {9}, .symbol = 1};
    s->main[4] = (weft_step){.kind = WEFT_STEP_LOOP, .regions = {6}, .bytes = B, .symbol = 2};
    s->main[5] = (weft_step){.kind = WEFT_STEP_COPY, .buffers = {9, 2}, .bytes = weft_dim_minimum(s->data.dims, U, 8)};
    s->predicate[0] = (weft_step){.kind = WEFT_STEP_COPY, .buffers = {1, 8}, .bytes = 1};
    s->body[0] = (weft_step){.kind = WEFT_STEP_COPY, .buffers = {0, 6}, .bytes = 64};
    s->then_steps[0] = (weft_step){.kind = WEFT_STEP_COPY, .buffers = {5, 6}, .bytes = 64};
    s->loop_body[0] = (weft_step){.kind = WEFT_STEP_LAUNCH, .variant_count = 1, .variants = &tail};
    s->regions[0] = (weft_step_list){1, s->load};
    s->regions[1] = (weft_step_list){6, s->main};
    s->regions[2] = (weft_step_list){1, s->predicate};
    s->regions[3] = (weft_step_list){1, s->body};
    s->regions[4] = (weft_step_list){1, s->then_steps};
    s->regions[5] = (weft_step_list){0, NULL};
    s->regions[6] = (weft_step_list){1, s->loop_body};
}

void sample_init(sample *s) {
    memset(s, 0, sizeof *s);
    ck_assert_ptr_null(weft_dim_table_create(weft_allocator_system(), &s->data.dims));
    weft_dim_table *t = s->data.dims;
    weft_dim B = weft_dim_symbol(t, "B", 1, INT64_MAX, 2, WEFT_SYMBOL_DECLARED);
    weft_dim U = weft_dim_symbol(t, "u/0", 0, 100, 1, WEFT_SYMBOL_DATA);
    weft_dim T = weft_dim_symbol(t, "trip", 0, 1000, 1, WEFT_SYMBOL_DATA);
    s->dims[0] = B;
    s->dims[1] = 16;
    s->dims[2] = U;
    s->dims[3] = 32;
    s->inputs[0] = (weft_port){"x", WEFT_F32, 2, &s->dims[0], 0};
    s->inputs[1] = (weft_port){"n", WEFT_I64, 0, NULL, 1};
    s->outputs[0] = (weft_port){"y", WEFT_F32, 1, &s->dims[2], 2};
    s->states[0] = (weft_port){"cache", WEFT_F32, 1, &s->dims[3], 5};
    s->guards[0] = (weft_guard){{B, 4096, WEFT_RELATION_LE}, "fuse", "add (model.c:12)"};
    s->kernels[0] = (weft_program_kernel){"pack", 0, 1, 0, 0x123456789abcdef0u};
    s->kernels[1] = (weft_program_kernel){"dot", weft_dim_multiply(t, weft_dim_minimum(t, B, 64), 4), 256, 2, 1};
    fill_buffers(s, B, U, T);
    fill_steps(s, B, U);
    s->data = (weft_program_data){"sample",  t,          2,         1,     1,          s->inputs, s->outputs,
                                  s->states, 1,          s->guards, 10,    s->buffers, 2,         s->kernels,
                                  7,         s->regions, 320,       "cpu", "0.1.0"};
}
