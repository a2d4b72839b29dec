/* Loaded programs: code, weights and what the load region packs from them.
   Invariant: immutable after weft_program_create, so sessions of many threads share one. Read next: session.c. */
#include "runtime/program.h"

#include "base/need.h"

#include <string.h>

#include "runtime/frame.h"

enum { ALIGN = 64 };

static void source_release(const weft_program_source *source) {
    if (source->release) source->release(source->self);
}

static void destroy(weft_program *program) {
    weft_context *context = program->context;
    const weft_driver *driver = program->device->driver;
    size_t offsets_bytes = (size_t)program->data->buffer_count * sizeof(int64_t);
    if (program->module) driver->unload(program->device, program->module);
    if (program->persistent) driver->free(program->device, program->persistent, (size_t)program->persistent_bytes);
    if (program->uploaded) driver->free(program->device, program->uploaded, (size_t)program->data->weights_bytes);
    for (int i = 0; i < program->taken_count; i++)
        if (program->constants[i] && program->data->buffers[i].kind == WEFT_BUFFER_CONSTANT)
            weft_weight_pool_give_back(program->source.pool, program->source.constants[i]);
    weft_weight_pool_release(program->source.pool);
    weft_free(context->allocator, program->constants, (size_t)program->data->buffer_count * sizeof *program->constants);
    weft_free(context->allocator, program->persistent_offsets, offsets_bytes);
    weft_free(context->allocator, program->state_offsets, offsets_bytes);
    weft_device_release(program->device);
    source_release(&program->source);
    weft_free(context->allocator, program, sizeof *program);
    weft_context_release(context);
}

/* Offsets of all buffers of one kind in one block. */
static weft_status lay_out(const weft_program_data *data, weft_buffer_kind kind, int64_t *offsets, int64_t *out_total) {
    *out_total = 0;
    for (int i = 0; i < data->buffer_count; i++) {
        if (data->buffers[i].kind != kind) continue;
        int64_t bytes = data->buffers[i].bytes;
        offsets[i] = *out_total;
        if (bytes > INT64_MAX - ALIGN ||
            __builtin_add_overflow(*out_total, (bytes + ALIGN - 1) / ALIGN * ALIGN, out_total))
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "buffers of %s need more than 2^63 bytes", data->name);
    }
    return NULL;
}

/* Only read: program_check.c sees to it that no step writes a constant. */
static void *borrow(const void *data) {
    void *address;
    memcpy(&address, &data, sizeof address);
    return address;
}

static bool lies_in_weights(const weft_buffer *buffer) {
    return buffer->kind == WEFT_BUFFER_CONSTANT || (buffer->kind == WEFT_BUFFER_STATE && buffer->offset >= 0);
}

/* The weights in one piece: on a device with memory of its own, one copy. */
static weft_status place_piece(weft_program *program) {
    const weft_program_data *data = program->data;
    const weft_driver *driver = program->device->driver;
    size_t bytes = (size_t)data->weights_bytes;
    char *base = borrow(program->source.weights);
    if (!driver->host_memory && bytes) {
        WEFT_TRY(driver->allocate(program->device, bytes, &program->uploaded), "weights of %s, %zu bytes", data->name,
                 bytes);
        base = program->uploaded;
        WEFT_TRY(driver->upload(program->device, base, program->source.weights, bytes), "weights of %s", data->name);
    }
    for (int i = 0; i < data->buffer_count && base; i++)
        if (lies_in_weights(&data->buffers[i])) program->constants[i] = base + data->buffers[i].offset;
    return NULL;
}

static weft_status place_weights(weft_program *program) {
    const weft_program_data *data = program->data;
    const void *const *from = program->source.constants;
    weft_weight_pool *pool = program->source.pool;
    program->constants =
        weft_allocate(program->context->allocator, (size_t)data->buffer_count * sizeof *program->constants);
    if (!program->constants) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for program %s", data->name);
    if (!from) return place_piece(program);
    bool host = program->device->driver->host_memory;
    if (!host && !pool) return WEFT_STATUS(WEFT_INTERNAL, "program %s has constants, but no pool", data->name);
    for (int i = 0; i < data->buffer_count; i++) {
        size_t bytes = (size_t)data->buffers[i].bytes;
        if (lies_in_weights(&data->buffers[i]) && from[i]) {
            if (host || data->buffers[i].kind == WEFT_BUFFER_STATE) /* sessions upload initial values themselves */
                program->constants[i] = borrow(from[i]);
            else if (bytes)
                WEFT_TRY(weft_weight_pool_take(pool, from[i], bytes, &program->constants[i]), "buffer %d of %s", i,
                         data->name);
        }
        if (!host) program->taken_count = i + 1;
    }
    return NULL;
}

static weft_status run_load_region(weft_program *program) {
    const weft_program_data *data = program->data;
    weft_frame frame;
    if (!data->regions[WEFT_REGION_LOAD].count) return NULL;
    WEFT_TRY(weft_frame_init(program->context, data, program->device, program->module, &frame), "load region");
    weft_program_reset_data_symbols(data, frame.symbols);
    for (int i = 0; i < data->buffer_count; i++) {
        const weft_buffer *buffer = &data->buffers[i];
        bool known = buffer->kind == WEFT_BUFFER_CONSTANT || buffer->kind == WEFT_BUFFER_PERSISTENT;
        frame.sizes[i] = known ? buffer->bytes : 0; /* others do not exist here, whatever inputs would make them */
        if (buffer->kind == WEFT_BUFFER_CONSTANT) frame.addresses[i] = program->constants[i];
        if (buffer->kind == WEFT_BUFFER_PERSISTENT)
            frame.addresses[i] = (char *)program->persistent + program->persistent_offsets[i];
    }
    /* Bodies of load steps are regions too, but which ones only running tells: each step is resolved when it runs. */
    for (int i = 0; i < data->region_count; i++)
        for (int k = 0; k < frame.regions[i].count; k++) frame.regions[i].steps[k].dynamic = true;
    weft_status status = weft_frame_run(&frame, WEFT_REGION_LOAD);
    if (!status) status = program->device->driver->synchronise(program->device);
    weft_frame_deinit(&frame);
    return weft_status_annotate(status, __FILE__, __LINE__, "load region of %s", data->name);
}

static weft_status check_fit(const weft_program *program) {
    const weft_program_data *data = program->data;
    const weft_driver *driver = program->device->driver;
    WEFT_TRY(weft_program_check(data), "loading");
    if (strcmp(driver->name, "null") != 0 && strcmp(driver->name, data->target) != 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "program %s is for %s, the device is %s", data->name, data->target,
                           driver->name);
    if (driver->match(program->device, program->arch)) return NULL;
    weft_device_info info;
    weft_device_get_info(program->device, &info);
    return WEFT_STATUS(WEFT_UNSUPPORTED, "code for %s does not run on this %s", program->arch, info.arch);
}

static weft_status fill(weft_program *program) {
    const weft_program_data *data = program->data;
    weft_device *device = program->device;
    WEFT_TRY(check_fit(program), "program");
    size_t offsets_bytes = (size_t)data->buffer_count * sizeof(int64_t);
    program->persistent_offsets = weft_allocate(program->context->allocator, offsets_bytes);
    program->state_offsets = weft_allocate(program->context->allocator, offsets_bytes);
    if (!program->persistent_offsets || !program->state_offsets)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for program %s", data->name);
    WEFT_TRY(lay_out(data, WEFT_BUFFER_PERSISTENT, program->persistent_offsets, &program->persistent_bytes),
             "packed weights");
    WEFT_TRY(lay_out(data, WEFT_BUFFER_STATE, program->state_offsets, &program->state_bytes), "states");
    WEFT_TRY(device->driver->load(device, data, &program->source.code, &program->module), "code of %s", data->name);
    WEFT_TRY(place_weights(program), "program %s", data->name);
    if (program->persistent_bytes)
        WEFT_TRY(device->driver->allocate(device, (size_t)program->persistent_bytes, &program->persistent),
                 "packed weights of %s, %lld bytes", data->name, (long long)program->persistent_bytes);
    return run_load_region(program);
}

weft_status weft_program_create(weft_context *context, weft_device *device, const weft_program_source *source,
                                weft_program **out_program) {
    *out_program = NULL;
    weft_program *program = weft_allocate(context->allocator, sizeof *program);
    if (!program) {
        source_release(source);
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a program");
    }
    atomic_init(&program->references, 1);
    program->context = context;
    weft_context_retain(context);
    program->device = device;
    atomic_fetch_add(&device->references, 1);
    program->source = *source;
    weft_weight_pool_retain(program->source.pool);
    program->data = source->data;
    const char *arch = source->code.arch ? source->code.arch : "";
    size_t length = strlen(arch);
    if (length >= sizeof program->arch) length = sizeof program->arch - 1;
    memcpy(program->arch, arch, length);
    weft_status status = fill(program);
    if (status)
        destroy(program);
    else
        *out_program = program;
    return status;
}

void weft_program_retain(weft_program *program) {
    if (program) atomic_fetch_add_explicit(&program->references, 1, memory_order_relaxed);
}

void weft_program_release(weft_program *program) {
    if (program && atomic_fetch_sub_explicit(&program->references, 1, memory_order_acq_rel) == 1) destroy(program);
}

const weft_program_data *weft_program_get_data(const weft_program *program) { return program->data; }
int weft_program_input_count(const weft_program *program) { return program ? program->data->input_count : 0; }
int weft_program_output_count(const weft_program *program) { return program ? program->data->output_count : 0; }
const char *weft_program_arch(const weft_program *program) { return program ? program->arch : NULL; }

/* port NULL: no such port, all zero. */
static void get_port(const weft_port *port, weft_port_info *out_info) {
    if (!out_info) return;
    *out_info = (weft_port_info){0};
    if (!port) return;
    *out_info = (weft_port_info){.name = port->name, .dtype = port->dtype, .rank = port->rank};
    for (int i = 0; i < port->rank; i++) out_info->shape[i] = weft_dim_is_number(port->dims[i]) ? port->dims[i] : -1;
}

void weft_program_input(const weft_program *program, int index, weft_port_info *out_info) {
    bool known = index >= 0 && index < weft_program_input_count(program);
    get_port(known ? &program->data->inputs[index] : NULL, out_info);
}

void weft_program_output(const weft_program *program, int index, weft_port_info *out_info) {
    bool known = index >= 0 && index < weft_program_output_count(program);
    get_port(known ? &program->data->outputs[index] : NULL, out_info);
}

static weft_status plan_for(const weft_program *program, weft_allocator allocator, int input_count,
                            const int64_t *const *shapes, weft_arena *arena, int64_t *out_bytes) {
    const weft_program_data *data = program->data;
    weft_shape_view *views = weft_arena_allocate_array(arena, (size_t)input_count, sizeof *views);
    int64_t *symbols = weft_arena_allocate_array(arena, (size_t)weft_dim_symbol_count(data->dims), sizeof *symbols);
    int64_t *offsets = weft_arena_allocate_array(arena, (size_t)data->buffer_count, sizeof *offsets);
    if (!views || !symbols || !offsets) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to plan %s", data->name);
    for (int i = 0; i < input_count; i++)
        views[i] = (weft_shape_view){data->inputs[i].dtype, data->inputs[i].rank, shapes[i]};
    WEFT_TRY(weft_program_bind_shapes(data, input_count, views, symbols), "memory of %s", data->name);
    return weft_memory_plan(data, symbols, allocator, offsets, out_bytes);
}

/* On the device: initial values of states stay behind where weights did not come in one piece. */
static int64_t weight_bytes(const weft_program *program) {
    const weft_program_data *data = program->data;
    int64_t bytes = data->weights_bytes;
    for (int i = 0; program->source.constants && i < data->buffer_count; i++)
        if (data->buffers[i].kind == WEFT_BUFFER_STATE && data->buffers[i].offset >= 0) bytes -= data->buffers[i].bytes;
    return bytes > 0 ? bytes : 0;
}

weft_status weft_program_memory(const weft_program *program, int input_count, const int64_t *const *shapes,
                                int64_t *out_temporary_bytes, int64_t *out_weight_bytes) {
    WEFT_NEED(out_temporary_bytes, "out_temporary_bytes");
    WEFT_NEED(out_weight_bytes, "out_weight_bytes");
    *out_temporary_bytes = 0;
    WEFT_NEED(program, "the program");
    WEFT_NEED_LIST(shapes, input_count, "the list of shapes");
    *out_weight_bytes = weight_bytes(program) + program->persistent_bytes;
    if (input_count != program->data->input_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s takes %d inputs, not %d", program->data->name,
                           program->data->input_count, input_count);
    for (int i = 0; i < input_count; i++)
        if (!shapes[i] && program->data->inputs[i].rank > 0)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the shape of input %s is missing",
                               program->data->inputs[i].name);
    weft_arena arena;
    weft_arena_init(program->context->allocator, &arena);
    weft_status status =
        plan_for(program, program->context->allocator, input_count, shapes, &arena, out_temporary_bytes);
    weft_arena_deinit(&arena);
    return status;
}
