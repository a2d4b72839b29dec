/* Placement of temporaries: first fit by decreasing size over lifetimes. On GPUs a few megabytes lie side by side:
   steps that share memory only because it is used again could not run at the same time (runtime/order.c). Invariant:
   two TEMP buffers whose lifetimes meet never share a byte; the result depends on sizes, lifetimes and numbers of the
   buffers only. Views and bodies need nothing here: a view has its buffer's memory, a body its step's lifetime. Source:
   greedy by size as in Pisarchyk, Lee 2020, "Efficient memory management for deep neural net inference". */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/program.h"

enum { PLAN_ALIGN = 64, SIDE_BY_SIDE = 8 << 20 };

typedef struct item {
    int buffer, first, last;
    int64_t bytes, offset;
} item;

static int larger_first(const void *left, const void *right) {
    const item *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static weft_status collect(const weft_program_data *program, const int64_t *symbols, int64_t *offsets, item *items,
                           int *out_count) {
    *out_count = 0;
    for (int i = 0; i < program->buffer_count; i++) {
        const weft_buffer *buffer = &program->buffers[i];
        int64_t bytes;
        offsets[i] = -1;
        if (buffer->kind != WEFT_BUFFER_TEMP) continue;
        if (!weft_dim_evaluate(program->dims, buffer->bytes, symbols, &bytes) || bytes < 0 ||
            bytes > INT64_MAX - PLAN_ALIGN)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "the size of buffer %d (%s) overflows for these shapes", i,
                               buffer->name ? buffer->name : "");
        bytes = (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        items[(*out_count)++] = (item){i, buffer->first_step, buffer->last_step, bytes, 0};
    }
    return NULL;
}

/* Everything lives all the time, when that costs little. */
static void spread(const weft_program_data *program, item *items, int count) {
    int64_t sum = 0;
    if (!program->target || !strcmp(program->target, "cpu")) return;
    for (int i = 0; i < count && sum <= SIDE_BY_SIDE; i++)
        sum += items[i].bytes < SIDE_BY_SIDE ? items[i].bytes : SIDE_BY_SIDE + 1;
    for (int i = 0; i < count && sum <= SIDE_BY_SIDE; i++) items[i].first = 0, items[i].last = INT_MAX;
}

/* placed[0, count) is sorted by offset: the lowest gap between those that live at the same time. */
static weft_status place(const item *placed, int count, item *next) {
    int64_t offset = 0;
    for (int i = 0; i < count; i++) {
        const item *other = &placed[i];
        if (other->last < next->first || other->first > next->last) continue;
        if (other->offset - offset >= next->bytes) break;
        if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    if (offset > INT64_MAX - next->bytes)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "temporaries need more than 2^63 bytes");
    next->offset = offset;
    return NULL;
}

static weft_status place_all(item *items, int count, item *placed, int64_t *offsets, int64_t *out_total_bytes) {
    int placed_count = 0;
    for (int i = 0; i < count; i++) {
        item *next = &items[i];
        WEFT_TRY(place(placed, placed_count, next), "planning memory");
        offsets[next->buffer] = next->offset;
        if (*out_total_bytes < next->offset + next->bytes) *out_total_bytes = next->offset + next->bytes;
        if (!next->bytes) continue;
        int at = placed_count++;
        for (; at && placed[at - 1].offset > next->offset; at--) placed[at] = placed[at - 1];
        placed[at] = *next;
    }
    return NULL;
}

weft_status weft_memory_plan(const weft_program_data *program, const int64_t *symbols, weft_allocator allocator,
                             int64_t *offsets, int64_t *out_total_bytes) {
    size_t bytes;
    int count;
    *out_total_bytes = 0;
    item *items = weft_size_multiply((size_t)program->buffer_count * 2, sizeof *items, &bytes)
                      ? weft_allocate(allocator, bytes)
                      : NULL;
    if (!items) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to plan %d buffers", program->buffer_count);
    weft_status status = collect(program, symbols, offsets, items, &count);
    if (!status) {
        spread(program, items, count);
        qsort(items, (size_t)count, sizeof *items, larger_first);
        status = place_all(items, count, items + program->buffer_count, offsets, out_total_bytes);
    }
    weft_free(allocator, items, bytes);
    return status;
}
