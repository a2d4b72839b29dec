/* Frames: allocation and resolution. Read next: execute.c. */
#include <string.h>

#include "base/arena.h"
#include "runtime/frame.h"

static bool is_data_symbol(void *self, int symbol) {
    const weft_dim_table *dims = self;
    return weft_dim_symbol_get(dims, symbol)->origin == WEFT_SYMBOL_DATA;
}

/* visit returns false for the symbol that is looked for */
static bool is_no_data_symbol(void *self, int symbol) { return !is_data_symbol(self, symbol); }

static bool depends(const weft_program_data *data, weft_dim dim) {
    return !weft_dim_visit_symbols(data->dims, dim, is_no_data_symbol, data->dims);
}

static bool buffer_depends(const weft_program_data *data, int buffer) {
    for (; data->buffers[buffer].kind == WEFT_BUFFER_ALIAS; buffer = data->buffers[buffer].index)
        if (depends(data, data->buffers[buffer].offset) || depends(data, data->buffers[buffer].bytes)) return true;
    return depends(data, data->buffers[buffer].bytes);
}

static bool variant_depends(const weft_program_data *data, const weft_launch_variant *variant) {
    bool found = depends(data, variant->grid) || depends(data, data->kernels[variant->kernel].scratch_bytes);
    for (int i = 0; i < variant->condition_count && !found; i++)
        found = depends(data, variant->conditions[i].lhs) || depends(data, variant->conditions[i].rhs);
    for (int i = 0; i < variant->buffer_count && !found; i++) found = buffer_depends(data, variant->buffers[i]);
    for (int i = 0; i < variant->extent_count && !found; i++) found = depends(data, variant->extents[i]);
    for (int i = 0; i < variant->map_count && !found; i++) {
        const weft_tensor_map *map = &variant->maps[i];
        found = buffer_depends(data, map->buffer);
        for (int k = 0; k < map->rank && !found; k++)
            found = depends(data, map->extent[k]) || (k && depends(data, map->stride_bytes[k]));
    }
    return found;
}

static int buffers_of_step(const weft_step *step) {
    return step->kind == WEFT_STEP_COPY ? 2 : step->kind == WEFT_STEP_LAUNCH || step->kind == WEFT_STEP_LOOP ? 0 : 1;
}

static bool step_depends(const weft_program_data *data, const weft_step *step) {
    bool found = (step->kind == WEFT_STEP_COPY || step->kind == WEFT_STEP_LOOP) && depends(data, step->bytes);
    for (int i = 0; i < buffers_of_step(step) && !found; i++) found = buffer_depends(data, step->buffers[i]);
    for (int i = 0; step->kind == WEFT_STEP_LAUNCH && i < step->variant_count && !found; i++)
        found = variant_depends(data, &step->variants[i]);
    return found;
}

/* Room for the largest variant; counts the slots that may need a patch. */
static bool allocate_step(weft_frame *frame, const weft_step *step, weft_resolved_step *resolved, size_t *slot_count) {
    int buffers = buffers_of_step(step), extents = 0, maps = 0;
    for (int i = 0; step->kind == WEFT_STEP_LAUNCH && i < step->variant_count; i++) {
        const weft_launch_variant *variant = &step->variants[i];
        if (buffers < variant->buffer_count) buffers = variant->buffer_count;
        if (extents < variant->extent_count) extents = variant->extent_count;
        if (maps < variant->map_count) maps = variant->map_count;
    }
    resolved->step = step;
    resolved->dynamic = step_depends(frame->data, step);
    resolved->buffers = weft_arena_allocate_array(&frame->arena, (size_t)buffers, sizeof *resolved->buffers);
    resolved->extents = weft_arena_allocate_array(&frame->arena, (size_t)extents, sizeof *resolved->extents);
    resolved->maps = weft_arena_allocate_array(&frame->arena, (size_t)maps, sizeof *resolved->maps);
    *slot_count += (size_t)buffers + (size_t)maps;
    return resolved->buffers && resolved->extents && resolved->maps;
}

static bool allocate_frame(weft_frame *frame) {
    const weft_program_data *data = frame->data;
    size_t slot_count = 0, buffer_count = (size_t)data->buffer_count;
    frame->symbols =
        weft_arena_allocate_array(&frame->arena, (size_t)weft_dim_symbol_count(data->dims), sizeof *frame->symbols);
    frame->sizes = weft_arena_allocate_array(&frame->arena, buffer_count, sizeof *frame->sizes);
    frame->addresses = weft_arena_allocate_array(&frame->arena, buffer_count, sizeof *frame->addresses);
    frame->regions = weft_arena_allocate_array(&frame->arena, (size_t)data->region_count, sizeof *frame->regions);
    if (!frame->symbols || !frame->sizes || !frame->addresses || !frame->regions) return false;
    for (int i = 0; i < data->region_count; i++) {
        weft_resolved_region *region = &frame->regions[i];
        region->count = data->regions[i].count;
        region->steps = weft_arena_allocate_array(&frame->arena, (size_t)region->count, sizeof *region->steps);
        if (!region->steps) return false;
        for (int k = 0; k < region->count; k++)
            if (!allocate_step(frame, &data->regions[i].steps[k], &region->steps[k], &slot_count)) return false;
    }
    frame->patches = weft_arena_allocate_array(&frame->arena, slot_count, sizeof *frame->patches);
    return frame->patches != NULL;
}

weft_status weft_frame_init(weft_context *context, const weft_program_data *data, weft_device *device,
                            weft_module *module, weft_frame *out_frame) {
    *out_frame = (weft_frame){.data = data, .device = device, .module = module};
    weft_arena_init(context->allocator, &out_frame->arena);
    if (allocate_frame(out_frame)) return NULL;
    weft_frame_deinit(out_frame);
    return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the steps of %s", data->name);
}

void weft_frame_deinit(weft_frame *frame) { weft_arena_deinit(&frame->arena); }

void weft_program_reset_data_symbols(const weft_program_data *data, int64_t *symbols) {
    for (int i = 0; i < weft_dim_symbol_count(data->dims); i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(data->dims, i);
        if (symbol->origin == WEFT_SYMBOL_DATA) symbols[i] = symbol->maximum == INT64_MAX ? 0 : symbol->maximum;
    }
}

static const char *buffer_name(const weft_program_data *data, int buffer) {
    return data->buffers[buffer].name ? data->buffers[buffer].name : "";
}

weft_status weft_frame_measure(weft_frame *frame) {
    const weft_program_data *data = frame->data;
    for (int i = 0; i < data->buffer_count; i++)
        if (!weft_dim_evaluate(data->dims, data->buffers[i].bytes, frame->symbols, &frame->sizes[i]) ||
            frame->sizes[i] < 0)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "the size of buffer %d (%s) overflows for these shapes", i,
                               buffer_name(data, i));
    return NULL;
}

/* Root and offset of a buffer; at least `bytes` of it must lie inside the root. */
static weft_status locate(weft_frame *frame, int buffer, int64_t bytes, int *out_root, int64_t *out_offset) {
    const weft_program_data *data = frame->data;
    int64_t own, offset = 0, part;
    int root = buffer;
    bool fits = weft_dim_evaluate(data->dims, data->buffers[buffer].bytes, frame->symbols, &own) && own >= 0;
    if (fits && bytes < own) bytes = own;
    for (; fits && data->buffers[root].kind == WEFT_BUFFER_ALIAS; root = data->buffers[root].index)
        fits = weft_dim_evaluate(data->dims, data->buffers[root].offset, frame->symbols, &part) && part >= 0 &&
               !__builtin_add_overflow(offset, part, &offset);
    *out_root = root;
    *out_offset = offset;
    if (fits && offset <= frame->sizes[root] && bytes <= frame->sizes[root] - offset) return NULL;
    return WEFT_STATUS(WEFT_OUT_OF_RANGE,
                       "buffer %d (%s) does not fit into the %lld bytes of its memory for these shapes", buffer,
                       buffer_name(data, buffer), (long long)frame->sizes[root]);
}

static weft_status resolve_slot(weft_frame *frame, int buffer, int64_t bytes, void **slot, bool list_patches) {
    int root;
    int64_t offset;
    WEFT_TRY(locate(frame, buffer, bytes, &root, &offset), "an argument");
    weft_buffer_kind kind = frame->data->buffers[root].kind;
    if (list_patches && (kind == WEFT_BUFFER_INPUT || kind == WEFT_BUFFER_OUTPUT))
        frame->patches[frame->patch_count++] = (weft_patch){slot, root, offset};
    else
        *slot = (char *)frame->addresses[root] + offset;
    return NULL;
}

static weft_status evaluate(const weft_frame *frame, weft_dim dim, const char *what, int64_t *out_value) {
    if (weft_dim_evaluate(frame->data->dims, dim, frame->symbols, out_value) && *out_value >= 0) return NULL;
    return WEFT_STATUS(WEFT_OUT_OF_RANGE, "%s overflows or is negative for these shapes", what);
}

/* From the first byte of a map's memory to behind its last element, which lies in the root of its buffer: cards believe
   what a map says. */
static weft_status measure_map(const weft_launch_map *map, int64_t *out_bytes) {
    int64_t end = weft_dtype_bits(map->dtype) / 8, part;
    bool empty = false, fits = true;
    for (int i = 0; i < map->rank; i++) {
        int64_t stride = i ? map->stride_bytes[i] : weft_dtype_bits(map->dtype) / 8;
        empty |= map->extent[i] == 0;
        fits = fits && !__builtin_mul_overflow(map->extent[i] - 1, stride, &part) &&
               !__builtin_add_overflow(end, part, &end);
    }
    *out_bytes = empty ? 0 : end;
    return empty || fits ? NULL : WEFT_STATUS(WEFT_OUT_OF_RANGE, "a tensor map overflows for these shapes");
}

static weft_status resolve_map(weft_frame *frame, const weft_tensor_map *map, weft_launch_map *out, bool list_patches) {
    int64_t bytes;
    *out = (weft_launch_map){.dtype = map->dtype, .rank = map->rank, .swizzle_bytes = map->swizzle_bytes};
    for (int i = 0; i < map->rank; i++) {
        out->box[i] = map->box[i];
        WEFT_TRY(evaluate(frame, map->extent[i], "the extent of a tensor map", &out->extent[i]), "tensor map");
        if (i)
            WEFT_TRY(evaluate(frame, map->stride_bytes[i], "the stride of a tensor map", &out->stride_bytes[i]),
                     "tensor map");
    }
    WEFT_TRY(measure_map(out, &bytes), "tensor map");
    return resolve_slot(frame, map->buffer, bytes, &out->memory, list_patches);
}

static const weft_launch_variant *choose(const weft_frame *frame, const weft_step *step) {
    const weft_launch_variant *variant = step->variants;
    for (;; variant++) { /* the last one has no conditions */
        bool holds = true;
        for (int i = 0; i < variant->condition_count && holds; i++)
            holds = weft_condition_holds(frame->data->dims, &variant->conditions[i], frame->symbols);
        if (holds) return variant;
    }
}

static weft_status resolve_launch(weft_frame *frame, weft_resolved_step *resolved, bool list_patches) {
    const weft_launch_variant *variant = choose(frame, resolved->step);
    const weft_program_kernel *kernel = &frame->data->kernels[variant->kernel];
    resolved->variant = variant;
    resolved->launch = (weft_launch){.kernel = variant->kernel,
                                     .buffer_count = variant->buffer_count,
                                     .extent_count = variant->extent_count,
                                     .map_count = variant->map_count,
                                     .buffers = resolved->buffers,
                                     .extents = resolved->extents,
                                     .maps = resolved->maps};
    WEFT_TRY(evaluate(frame, variant->grid, "the grid", &resolved->launch.grid), "kernel %s", kernel->name);
    resolved->idle = !resolved->launch.grid;
    if (resolved->idle) return NULL;
    WEFT_TRY(evaluate(frame, kernel->scratch_bytes, "scratch", &resolved->launch.scratch_bytes), "kernel %s",
             kernel->name);
    for (int i = 0; i < variant->buffer_count; i++)
        WEFT_TRY(resolve_slot(frame, variant->buffers[i], 0, &resolved->buffers[i], list_patches),
                 "kernel %s, buffer %d", kernel->name, i);
    for (int i = 0; i < variant->extent_count; i++) /* extents of kernels may be negative: differences */
        if (!weft_dim_evaluate(frame->data->dims, variant->extents[i], frame->symbols, &resolved->extents[i]))
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "kernel %s: extent %d overflows for these shapes", kernel->name, i);
    for (int i = 0; i < variant->map_count; i++)
        WEFT_TRY(resolve_map(frame, &variant->maps[i], &resolved->maps[i], list_patches), "kernel %s, tensor map %d",
                 kernel->name, i);
    return NULL;
}

weft_status weft_frame_resolve_step(weft_frame *frame, weft_resolved_step *resolved, bool list_patches) {
    const weft_step *step = resolved->step;
    switch (step->kind) {
    case WEFT_STEP_LAUNCH: return resolve_launch(frame, resolved, list_patches);
    case WEFT_STEP_COPY:
        WEFT_TRY(evaluate(frame, step->bytes, "the size of a copy", &resolved->count), "copy");
        resolved->idle = !resolved->count;
        WEFT_TRY(resolve_slot(frame, step->buffers[0], resolved->count, &resolved->buffers[0], list_patches),
                 "source of a copy");
        return resolve_slot(frame, step->buffers[1], resolved->count, &resolved->buffers[1], list_patches);
    case WEFT_STEP_WHILE:
    case WEFT_STEP_COND: return resolve_slot(frame, step->buffers[0], 1, &resolved->buffers[0], list_patches);
    case WEFT_STEP_READ_DIM: return resolve_slot(frame, step->buffers[0], 8, &resolved->buffers[0], list_patches);
    case WEFT_STEP_LOOP: return evaluate(frame, step->bytes, "the trip count", &resolved->count);
    }
    return WEFT_STATUS(WEFT_INTERNAL, "step kind %d", (int)step->kind);
}

weft_status weft_frame_resolve(weft_frame *frame, int first_region, int end_region) {
    frame->patch_count = 0;
    for (int i = first_region; i < end_region; i++)
        for (int k = 0; k < frame->regions[i].count; k++) {
            weft_resolved_step *resolved = &frame->regions[i].steps[k];
            if (resolved->dynamic) continue;
            const char *location = resolved->step->location;
            WEFT_TRY(weft_frame_resolve_step(frame, resolved, true), "step %d of region %d (%s)", k, i,
                     location ? location : "");
        }
    return NULL;
}

void weft_frame_patch(weft_frame *frame) {
    for (int i = 0; i < frame->patch_count; i++) {
        const weft_patch *patch = &frame->patches[i];
        *patch->slot = (char *)frame->addresses[patch->buffer] + patch->offset;
    }
}
