/* while, cond and scan as steps with regions of their own. Values carried around a loop have one buffer each; what the
   body yields is copied there (through temporaries where a yielded value is itself a carry: swaps stay right). */
#include "compile/lower.h"

#include <string.h>

static weft_status fill_region(weft_lowering *l, const weft_block *block, int region) {
    int saved = l->region;
    l->region = region;
    weft_status status = weft_lower_block(l, block);
    l->region = saved;
    return status;
}

/* Lowers a block into a new region; what it yields stays bound to its buffers. */
static weft_status lower_region(weft_lowering *l, const weft_block *block, int *out_region) {
    WEFT_TRY(weft_lower_add_region(l, out_region), "a region");
    return fill_region(l, block, *out_region);
}

static const weft_node *yield_of(const weft_block *block) { return block->last; }

static weft_status copy_in_region(weft_lowering *l, int region, int from, int to, const weft_type *type,
                                  const char *location) {
    int saved = l->region;
    l->region = region;
    weft_status status = weft_lower_copy(l, from, to, type, location);
    l->region = saved;
    return status;
}

static weft_status new_temp(weft_lowering *l, const weft_type *type, const char *name, int *out_number) {
    weft_buffer buffer = {.kind = WEFT_BUFFER_TEMP, .first_step = -1, .last_step = -1, .name = name};
    WEFT_TRY(weft_lower_bytes(l, type, &buffer.bytes), "a loop value");
    return weft_lower_add_buffer(l, &buffer, out_number);
}

/* Carries start as copies of the operands: the loop overwrites them. */
static weft_status start_carries(weft_lowering *l, const weft_node *node, int count, int *carries) {
    for (int i = 0; i < count; i++) {
        int from;
        WEFT_TRY(weft_lower_buffer(l, node->operands[i], &from), "carry %d", i);
        WEFT_TRY(weft_lower_result(l, &node->results[i], &carries[i]), "carry %d", i);
        WEFT_TRY(weft_lower_copy(l, from, carries[i], &node->results[i].type, "loop"), "carry %d", i);
    }
    return NULL;
}

static bool is_carry(const int *carries, int count, int buffer, int except) {
    for (int i = 0; i < count; i++)
        if (i != except && carries[i] == buffer) return true;
    return false;
}

/* At the end of the body: carries take the yielded values. */
static weft_status turn_carries(weft_lowering *l, const weft_block *body, int region, int count, const int *carries,
                                const char *location) {
    const weft_node *yield = yield_of(body);
    int *from = weft_arena_allocate_array(l->kernel_arena, (size_t)count + 1, sizeof *from);
    if (!from) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a loop");
    for (int i = 0; i < count; i++) {
        const weft_type *type = &yield->operands[i]->type;
        WEFT_TRY(weft_lower_buffer(l, yield->operands[i], &from[i]), "carry %d", i);
        if (!is_carry(carries, count, from[i], i)) continue;
        int temp;
        WEFT_TRY(new_temp(l, type, "carry", &temp), "carry %d", i);
        WEFT_TRY(copy_in_region(l, region, from[i], temp, type, location), "carry %d", i);
        from[i] = temp;
    }
    for (int i = 0; i < count; i++)
        WEFT_TRY(copy_in_region(l, region, from[i], carries[i], &yield->operands[i]->type, location), "carry %d", i);
    return NULL;
}

/* Everything a loop reads or writes lives for the whole loop: its step. */
static void touch_all(weft_lowering *l, const int *buffers, int count) {
    for (int i = 0; i < count; i++) weft_lower_touch(l, buffers[i]);
}

weft_status weft_lower_while(weft_lowering *l, const weft_node *node) {
    int count = node->operand_count,
        *carries = weft_arena_allocate_array(l->kernel_arena, (size_t)count + 1, sizeof *carries);
    if (!carries) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a loop");
    weft_step step = {.kind = WEFT_STEP_WHILE, .location = weft_lower_location(l, node)};
    WEFT_TRY(start_carries(l, node, count, carries), "while");
    for (int r = 0; r < 2; r++) {
        const weft_block *block = node->regions[r]->block;
        for (int i = 0; i < count; i++) WEFT_TRY(weft_lower_bind(l, block->arguments[i], carries[i]), "while");
        WEFT_TRY(lower_region(l, block, &step.regions[r]), "while");
    }
    WEFT_TRY(weft_lower_buffer(l, yield_of(node->regions[0]->block)->operands[0], &step.buffers[0]),
             "condition of while");
    WEFT_TRY(turn_carries(l, node->regions[1]->block, step.regions[1], count, carries, step.location), "while");
    touch_all(l, carries, count);
    weft_lower_touch(l, step.buffers[0]);
    return weft_lower_add_step(l, &step);
}

weft_status weft_lower_cond(weft_lowering *l, const weft_node *node) {
    weft_step step = {.kind = WEFT_STEP_COND, .location = weft_lower_location(l, node)};
    WEFT_TRY(weft_lower_buffer(l, node->operands[0], &step.buffers[0]), "condition");
    int *results = weft_arena_allocate_array(l->kernel_arena, (size_t)node->result_count + 1, sizeof *results);
    if (!results) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a branch");
    for (int i = 0; i < node->result_count; i++)
        WEFT_TRY(weft_lower_result(l, &node->results[i], &results[i]), "result %d of cond", i);
    for (int r = 0; r < 2; r++) {
        const weft_block *block = node->regions[r]->block;
        WEFT_TRY(lower_region(l, block, &step.regions[r]), "branch %d", r);
        for (int i = 0; i < node->result_count; i++) {
            int from;
            WEFT_TRY(weft_lower_buffer(l, yield_of(block)->operands[i], &from), "branch %d", r);
            WEFT_TRY(copy_in_region(l, step.regions[r], from, results[i], &yield_of(block)->operands[i]->type,
                                    step.location),
                     "branch %d", r);
        }
    }
    touch_all(l, results, node->result_count);
    weft_lower_touch(l, step.buffers[0]);
    return weft_lower_add_step(l, &step);
}

/* The slice of a stacked value that this trip sees. */
static weft_status trip_slice(weft_lowering *l, int stacked, const weft_type *slice, weft_dim trip, int *out_number) {
    weft_buffer buffer = {
        .kind = WEFT_BUFFER_ALIAS, .index = stacked, .first_step = -1, .last_step = -1, .name = "slice"};
    if (weft_dtype_bits(slice->dtype) < 8) { /* a slice is addressed by bytes */
        weft_dim elements = weft_dim_number(l->dims, 1);
        for (int i = 0; i < slice->rank; i++) {
            weft_dim extent;
            WEFT_TRY(weft_lower_extent(l, slice->dims[i], &extent), "slice of a scan");
            elements = weft_dim_multiply(l->dims, elements, extent);
        }
        if (weft_dim_divisor(l->dims, elements) * weft_dtype_bits(slice->dtype) % 8 != 0)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "scan: a slice of %s does not end at a whole byte",
                               weft_dtype_name(slice->dtype));
    }
    WEFT_TRY(weft_lower_bytes(l, slice, &buffer.bytes), "slice of a scan");
    buffer.offset = weft_dim_multiply(l->dims, trip, buffer.bytes);
    if (buffer.offset == WEFT_DIM_INVALID) return weft_dim_invalid(l->dims, "the length of a scan");
    return weft_lower_add_buffer(l, &buffer, out_number);
}

/* GPU kernels access up to 16 bytes at once and rely on where buffers start: a slice that may start elsewhere is
 * copied. */
enum { GPU_ALIGNMENT = 16 };

static weft_status align_slice(weft_lowering *l, int region, const weft_type *type, const char *location, int *buffer) {
    int copy;
    if (!strcmp(l->capability->target, "cpu") ||
        weft_dim_divisor(l->dims, l->buffer_list[*buffer].bytes) % GPU_ALIGNMENT == 0)
        return NULL;
    WEFT_TRY(new_temp(l, type, "slice", &copy), "slice of a scan");
    WEFT_TRY(copy_in_region(l, region, *buffer, copy, type, location), "slice of a scan");
    *buffer = copy;
    return NULL;
}

weft_status weft_lower_scan(weft_lowering *l, const weft_node *node) {
    const weft_block *body = node->regions[0]->block;
    const weft_node *yield = yield_of(body);
    const weft_attribute *k = weft_node_attribute(node, WEFT_ATTR_k),
                         *trips = weft_node_attribute(node, WEFT_ATTR_trips);
    int count = k && k->count > 0 ? (int)k->as.dims[0] : 0,
        *carries = weft_arena_allocate_array(l->kernel_arena, (size_t)count + 1, sizeof *carries);
    if (!carries) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a scan");
    weft_step step = {
        .kind = WEFT_STEP_LOOP, .location = weft_lower_location(l, node), .symbol = weft_dim_symbol_count(l->dims)};
    WEFT_TRY(weft_lower_extent(l, trips->as.dims[0], &step.bytes), "trips of a scan");
    weft_dim trip = weft_dim_symbol(l->dims, "trip", 0, INT64_MAX, 1, WEFT_SYMBOL_DATA);
    if (weft_node_int(node, WEFT_ATTR_reverse, 0))
        trip = weft_dim_subtract(l->dims, weft_dim_subtract(l->dims, step.bytes, weft_dim_number(l->dims, 1)), trip);
    WEFT_TRY(start_carries(l, node, count, carries), "scan");
    WEFT_TRY(weft_lower_add_region(l, &step.regions[0]), "scan");
    for (int i = 0; i < body->argument_count; i++) {
        int buffer = i < count ? carries[i] : -1, stacked;
        if (i >= count) {
            WEFT_TRY(weft_lower_buffer(l, node->operands[i], &stacked), "input %d of a scan", i);
            WEFT_TRY(trip_slice(l, stacked, &body->arguments[i]->type, trip, &buffer), "input %d of a scan", i);
            weft_lower_touch(l, buffer);
            WEFT_TRY(align_slice(l, step.regions[0], &body->arguments[i]->type, step.location, &buffer),
                     "input %d of a scan", i);
        }
        WEFT_TRY(weft_lower_bind(l, body->arguments[i], buffer), "scan");
    }
    WEFT_TRY(fill_region(l, body, step.regions[0]), "scan");
    for (int i = count; i < node->result_count; i++) {
        const weft_type *type = &yield->operands[i]->type;
        int from, stacked, to;
        WEFT_TRY(weft_lower_buffer(l, yield->operands[i], &from), "output %d of a scan", i);
        WEFT_TRY(weft_lower_result(l, &node->results[i], &stacked), "output %d of a scan", i);
        WEFT_TRY(trip_slice(l, stacked, type, trip, &to), "output %d of a scan", i);
        WEFT_TRY(copy_in_region(l, step.regions[0], from, to, type, step.location), "output %d of a scan", i);
        weft_lower_touch(l, stacked);
    }
    WEFT_TRY(turn_carries(l, body, step.regions[0], count, carries, step.location), "scan");
    touch_all(l, carries, count);
    return weft_lower_add_step(l, &step);
}
