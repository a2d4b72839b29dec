/* Programs: the image's JSON (codegen/webgpu/target.c), a pipeline at a kernel's first launch, dispatches. See
   webgpu.h. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "runtime/drivers/webgpu/webgpu.h"

enum { BINDINGS_MAX = 64, BLOCKS_WIDE = 65535, EXTENTS_MAX = 256 };

typedef struct kernel_code {
    const char *name; /* of the program */
    const weft_json *code;
    const weft_json *buffers;     /* access of each */
    wgpu_handle pipeline, layout; /* pipeline NULL: not made yet */
} kernel_code;

struct weft_module {
    weft_arena arena; /* the image */
    int kernel_count;
    kernel_code *kernels;
};

static weft_status read_image(weft_module *module, const weft_program_data *program, const weft_binary *code) {
    weft_json *image;
    WEFT_TRY(weft_json_parse(&module->arena, code->data, code->bytes, &image), "reading the code image");
    const weft_json *format = weft_json_find(image, "format"), *kernels = weft_json_find(image, "kernels");
    if (!format || format->integer != 1 || !kernels || kernels->kind != WEFT_JSON_ARRAY ||
        kernels->length != (size_t)program->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_DATA, "this is no WGSL image of %d kernels", program->kernel_count);
    for (int i = 0; i < program->kernel_count; i++) {
        const weft_json *text = weft_json_find(&kernels->children[i], "code"),
                        *buffers = weft_json_find(&kernels->children[i], "buffers");
        bool good = text && text->kind == WEFT_JSON_STRING && buffers && buffers->kind == WEFT_JSON_ARRAY;
        for (size_t b = 0; good && b < buffers->length; b++) good = buffers->children[b].kind == WEFT_JSON_STRING;
        if (!good)
            return WEFT_STATUS(WEFT_INVALID_DATA, "WGSL image: kernel %s is incomplete", program->kernels[i].name);
        module->kernels[i] = (kernel_code){.name = program->kernels[i].name, .code = text, .buffers = buffers};
    }
    return NULL;
}

weft_status weft_webgpu_load(weft_device *base, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) {
    weft_allocator allocator = base->context->allocator;
    *out_module = NULL;
    weft_module *module = weft_allocate(allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    weft_arena_init(allocator, &module->arena);
    module->kernel_count = program->kernel_count;
    module->kernels =
        weft_arena_allocate_array(&module->arena, (size_t)program->kernel_count + 1, sizeof *module->kernels);
    char *copy = weft_arena_allocate_array(&module->arena, code->bytes + 1, 1);
    weft_status status = module->kernels && copy ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    if (!status) {
        memcpy(copy, code->data, code->bytes);
        const weft_binary own = {code->arch, copy, code->bytes};
        status = read_image(module, program, &own);
    }
    if (status)
        weft_webgpu_unload(base, module);
    else
        *out_module = module;
    return status;
}

void weft_webgpu_unload(weft_device *base, weft_module *module) {
    webgpu_device *device = (webgpu_device *)base;
    if (!module) return;
    (void)pthread_mutex_lock(&device->gpu.lock);
    weft_status_release(weft_webgpu_flush(device));
    for (int i = 0; module->kernels && i < module->kernel_count; i++) {
        if (module->kernels[i].layout) device->api.release_layout(module->kernels[i].layout);
        if (module->kernels[i].pipeline) device->api.release_pipeline(module->kernels[i].pipeline);
    }
    (void)pthread_mutex_unlock(&device->gpu.lock);
    weft_arena_deinit(&module->arena);
    weft_free(base->context->allocator, module, sizeof *module);
}

/* The kernel's text with every buffer read-write: webgpu.h says why; and without a line that wgpu-native does not know
   and does without. */
static weft_status adapted(const weft_json *code, weft_text *text) {
    static const char mark[] = "var<storage, read>", subgroups[] = "enable subgroups;\n";
    const char *at = code->string, *end = code->string + code->length, *enable = strstr(at, subgroups);
    if (enable) {
        weft_text_append_bytes(text, at, (size_t)(enable - at));
        at = enable + strlen(subgroups);
    }
    for (const char *found; (found = strstr(at, mark)) != NULL && found < end; at = found + strlen(mark)) {
        weft_text_append_bytes(text, at, (size_t)(found - at));
        weft_text_append(text, "var<storage, read_write>");
    }
    weft_text_append_bytes(text, at, (size_t)(end - at));
    return weft_text_status(text);
}

static bool is_bound(const kernel_code *kernel, size_t buffer) {
    return strcmp(kernel->buffers->children[buffer].string, "none") != 0;
}

/* Written out: a layout made from the text leaves out what the text only declares. */
static weft_status make_layout(webgpu_device *device, kernel_code *kernel, wgpu_handle *out_pipeline_layout) {
    wgpu_layout_entry entries[BINDINGS_MAX + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i <= kernel->buffers->length; i++) {
        bool uniform = i == kernel->buffers->length;
        if (!uniform && !is_bound(kernel, i)) continue;
        entries[count].binding = (uint32_t)i;
        entries[count].stages = WGPU_COMPUTE;
        entries[count++].buffer.type = uniform ? WGPU_BINDS_UNIFORM : WGPU_BINDS_STORAGE;
    }
    const wgpu_layout_options options = {.count = count, .entries = entries};
    if (kernel->layout) device->api.release_layout(kernel->layout); /* of an attempt before */
    kernel->layout = device->api.create_layout(device->device, &options);
    const wgpu_pipeline_layout_options pipeline = {.count = 1, .layouts = &kernel->layout};
    *out_pipeline_layout = kernel->layout ? device->api.create_pipeline_layout(device->device, &pipeline) : NULL;
    return weft_webgpu_problem(device);
}

static weft_status make_pipeline(webgpu_device *device, kernel_code *kernel) {
    wgpu_handle layout = NULL;
    weft_text text;
    weft_text_init(device->gpu.base.context->allocator, &text);
    weft_status status = adapted(kernel->code, &text);
    if (!status) status = make_layout(device, kernel, &layout);
    if (!status) {
        const wgpu_shader_text source = {{NULL, WGPU_SHADER_WGSL}, {weft_text_string(&text), text.length}};
        const wgpu_label shader_options = {.next = (wgpu_chain *)(uintptr_t)&source.chain};
        wgpu_handle shader = device->api.create_shader(device->device, &shader_options);
        status = weft_webgpu_problem(device);
        if (!status && shader) {
            const wgpu_pipeline_options options = {.layout = layout,
                                                   .compute = {.module = shader, .entry = {"main", 4}}};
            kernel->pipeline = device->api.create_pipeline(device->device, &options);
            status = weft_webgpu_problem(device);
        }
        if (shader) device->api.release_shader(shader);
        if (!status && !kernel->pipeline)
            status = WEFT_STATUS(WEFT_UNSUPPORTED, "%s compiles no kernel %s", device->name, kernel->name);
        if (status) status = weft_status_annotate(status, __FILE__, __LINE__, "kernel %s", kernel->name);
    }
    if (layout) device->api.release_pipeline_layout(layout);
    weft_text_deinit(&text);
    return status;
}

static weft_status check(const webgpu_device *device, const weft_module *module, const weft_launch *launch) {
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    const kernel_code *kernel = &module->kernels[launch->kernel];
    if (launch->grid < 0 || launch->grid > (int64_t)BLOCKS_WIDE * BLOCKS_WIDE)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %lld blocks are more than %s takes", kernel->name,
                           (long long)launch->grid, device->name);
    if (launch->map_count || launch->extent_count > EXTENTS_MAX || launch->buffer_count >= BINDINGS_MAX ||
        (size_t)launch->buffer_count != kernel->buffers->length)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d buffers, %d extents, %d tensor maps", kernel->name,
                           launch->buffer_count, launch->extent_count, launch->map_count);
    return NULL;
}

/* Numbers of blocks and extents, 32-bit each, at a place of their own until they have been read. */
static weft_status put_uniforms(webgpu_device *device, const weft_launch *launch, wgpu_binding *out) {
    uint32_t values[1 + EXTENTS_MAX + 3] = {(uint32_t)launch->grid};
    uint64_t bytes = ((uint64_t)(1 + launch->extent_count) * 4 + 15) / 16 * 16,
             align = device->limits.uniform_alignment;
    for (int i = 0; i < launch->extent_count; i++) values[1 + i] = (uint32_t)launch->extents[i];
    if (align < 16) align = 16;
    uint64_t at = (device->uniform_used + align - 1) / align * align;
    if (at + bytes > WEBGPU_UNIFORM_BYTES) {
        WEFT_TRY(weft_webgpu_flush(device), "making room for extents");
        at = 0;
    }
    device->uniform_used = at + bytes;
    device->api.write(device->queue, device->uniforms, at, values, (size_t)bytes);
    *out = (wgpu_binding){
        .binding = (uint32_t)launch->buffer_count, .buffer = device->uniforms, .offset = at, .size = bytes};
    return NULL;
}

/* A binding that starts where none may: its bytes move to a buffer of their own and, when they were written, back. */
typedef struct moved_binding {
    const weft_block *block;
    uint64_t offset;
    wgpu_handle buffer;
    bool writes;
} moved_binding;

typedef struct bindings {
    wgpu_binding entries[BINDINGS_MAX + 1];
    size_t count;
    moved_binding moved[BINDINGS_MAX];
    int moved_count;
} bindings;

/* Bytes behind the binding move along unchanged, so nobody else may write them in the same dispatch. */
static weft_status move_binding(webgpu_device *device, const kernel_code *kernel, const weft_launch *launch, int index,
                                const weft_block *block, uint64_t offset, bindings *out) {
    bool writes = strcmp(kernel->buffers->children[index].string, "read") != 0;
    for (int i = 0; i < launch->buffer_count && writes; i++)
        if (i != index && is_bound(kernel, (size_t)i) && strcmp(kernel->buffers->children[i].string, "read") != 0 &&
            weft_blocks_find(&device->gpu.blocks, launch->buffers[i], 0) == block)
            return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s writes twice into one block from byte %llu on",
                               kernel->name, (unsigned long long)offset);
    if (offset % 4)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: buffer %d starts at byte %llu of its block", kernel->name,
                           index, (unsigned long long)offset);
    wgpu_handle buffer, encoder;
    uint64_t bytes = block->bytes - offset;
    WEFT_TRY(weft_webgpu_buffer(device, WGPU_STORAGE | WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes, &buffer),
             "moving buffer %d of kernel %s", index, kernel->name);
    out->moved[out->moved_count++] = (moved_binding){block, offset, buffer, writes};
    WEFT_TRY(weft_webgpu_encoder(device, &encoder), "moving buffer %d of kernel %s", index, kernel->name);
    device->api.copy(encoder, (wgpu_handle)(uintptr_t)block->buffer, offset, buffer, 0, bytes);
    out->entries[out->count++] = (wgpu_binding){.binding = (uint32_t)index, .buffer = buffer, .size = bytes};
    return NULL;
}

static weft_status move_back(webgpu_device *device, const bindings *b) {
    wgpu_handle encoder;
    for (int i = 0; i < b->moved_count; i++) {
        if (!b->moved[i].writes) continue;
        WEFT_TRY(weft_webgpu_encoder(device, &encoder), "moving a buffer back");
        device->api.copy(encoder, b->moved[i].buffer, 0, (wgpu_handle)(uintptr_t)b->moved[i].block->buffer,
                         b->moved[i].offset, b->moved[i].block->bytes - b->moved[i].offset);
    }
    return NULL;
}

/* Buffers that the kernel names, from their place to the end of their block. */
static weft_status put_buffers(webgpu_device *device, const kernel_code *kernel, const weft_launch *launch,
                               bindings *out) {
    for (int i = 0; i < launch->buffer_count; i++) {
        if (!is_bound(kernel, (size_t)i)) continue;
        const weft_block *block = weft_blocks_find(&device->gpu.blocks, launch->buffers[i], 0);
        if (!block)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %s: buffer %d is no memory of webgpu:0", kernel->name, i);
        uint64_t offset = (uint64_t)(uintptr_t)launch->buffers[i] - block->address;
        if (offset == block->bytes) offset = 0; /* no elements */
        if (offset % device->limits.storage_alignment) {
            WEFT_TRY(move_binding(device, kernel, launch, i, block, offset, out), "launch");
            continue;
        }
        out->entries[out->count++] = (wgpu_binding){.binding = (uint32_t)i,
                                                    .buffer = (wgpu_handle)(uintptr_t)block->buffer,
                                                    .offset = offset,
                                                    .size = block->bytes - offset};
    }
    return NULL;
}

static weft_status dispatch(webgpu_device *device, const kernel_code *kernel, const weft_launch *launch, bindings *b) {
    const wgpu_api *api = &device->api;
    wgpu_handle encoder;
    WEFT_TRY(put_uniforms(device, launch, &b->entries[0]), "launching kernel %s", kernel->name);
    WEFT_TRY(put_buffers(device, kernel, launch, b), "launch");
    const wgpu_group_options options = {.layout = kernel->layout, .count = b->count, .entries = b->entries};
    wgpu_handle group = api->create_group(device->device, &options);
    weft_status status = weft_webgpu_problem(device);
    if (!status) status = weft_webgpu_encoder(device, &encoder);
    if (!status) {
        wgpu_handle pass = api->begin_pass(encoder, NULL);
        api->set_pipeline(pass, kernel->pipeline);
        api->set_group(pass, 0, group, 0, NULL);
        api->dispatch(pass, launch->grid < BLOCKS_WIDE ? (uint32_t)launch->grid : BLOCKS_WIDE,
                      (uint32_t)((launch->grid + BLOCKS_WIDE - 1) / BLOCKS_WIDE), 1);
        api->end_pass(pass);
        api->release_pass(pass);
        status = move_back(device, b);
    }
    if (!status) status = weft_webgpu_problem(device);
    if (group) api->release_group(group);
    return status;
}

static weft_status launch_locked(webgpu_device *device, weft_module *module, const weft_launch *launch) {
    kernel_code *kernel = &module->kernels[launch->kernel];
    bindings b = {.count = 1};
    WEFT_TRY(weft_webgpu_problem(device), "before kernel %s", kernel->name);
    if (!kernel->pipeline) WEFT_TRY(make_pipeline(device, kernel), "compiling for %s", device->name);
    weft_status status = dispatch(device, kernel, launch, &b);
    for (int i = 0; i < b.moved_count; i++) device->api.release_buffer(b.moved[i].buffer); /* the commands hold them */
    return status ? weft_status_annotate(status, __FILE__, __LINE__, "kernel %s", kernel->name) : NULL;
}

weft_status weft_webgpu_launch(weft_device *base, weft_module *module, const weft_launch *launch) {
    webgpu_device *device = (webgpu_device *)base;
    WEFT_TRY(check(device, module, launch), "launch");
    if (launch->grid == 0) return NULL;
    (void)pthread_mutex_lock(&device->gpu.lock);
    weft_status status = launch_locked(device, module, launch);
    (void)pthread_mutex_unlock(&device->gpu.lock);
    return status;
}
