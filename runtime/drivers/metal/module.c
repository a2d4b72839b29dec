/* Programs on a device: the source is compiled when a program is loaded, a kernel's pipeline made at its first launch.
   Buffers are bound in the order of the launch, extents behind them (codegen/metal/print.h). See metal.h. */
#include <string.h>

#include "runtime/drivers/metal/metal.h"

enum { BINDINGS_MAX = 31, EXTENTS_MAX = 512 /* setBytes takes 4 KiB */, SIMD_WIDTH = 32 };

typedef struct kernel_code {
    const char *name; /* of the program */
    int threads;
    metal_id pipeline; /* NULL: not made yet */
} kernel_code;

struct weft_module {
    metal_id library;
    int kernel_count;
    kernel_code *kernels;
};

/* From source: the options keep arithmetic as it is written. */
static weft_status compile(metal_device *device, const weft_binary *code, weft_module *module) {
    const metal_api *api = &device->api;
    weft_allocator allocator = device->gpu.base.context->allocator;
    metal_id error = NULL;
    char *source = code->bytes < SIZE_MAX ? weft_allocate(allocator, code->bytes + 1) : NULL;
    if (!source) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes of source", code->bytes);
    memcpy(source, code->data, code->bytes);
    metal_id text = METAL_SEND(api, metal_id, (metal_id, metal_sel, const char *), api->string, text_of, source);
    weft_free(allocator, source, code->bytes + 1);
    if (!text) return WEFT_STATUS(WEFT_INVALID_DATA, "the code image is no text");
    metal_id options = weft_metal_get(api, api->options, api->make);
    if (!options) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for options");
    METAL_SEND(api, void, (metal_id, metal_sel, signed char), options, set_fast_math, 0);
    METAL_SEND(api, void, (metal_id, metal_sel, unsigned long), options, set_language, 3UL << 16); /* 3.0 */
    module->library = METAL_SEND(api, metal_id, (metal_id, metal_sel, metal_id, metal_id, metal_id *), device->device,
                                 new_library, text, options, &error);
    weft_metal_tell(api, options, api->release);
    if (!module->library)
        return WEFT_STATUS(WEFT_INVALID_DATA, "%s does not take the program's source: %.400s", device->name,
                           weft_metal_error(api, error));
    return NULL;
}

weft_status weft_metal_load(weft_device *base, const weft_program_data *program, const weft_binary *code,
                            weft_module **out_module) {
    metal_device *device = (metal_device *)base;
    weft_allocator allocator = base->context->allocator;
    *out_module = NULL;
    weft_module *module = weft_allocate(allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    module->kernel_count = program->kernel_count;
    module->kernels =
        weft_allocate(allocator, (size_t)(program->kernel_count ? program->kernel_count : 1) * sizeof *module->kernels);
    weft_status status = module->kernels ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    for (int i = 0; !status && i < program->kernel_count; i++)
        module->kernels[i] = (kernel_code){.name = program->kernels[i].name, .threads = program->kernels[i].threads};
    if (!status) {
        void *pool = weft_block_device_enter(base);
        status = compile(device, code, module);
        weft_block_device_leave(base, pool);
    }
    if (status)
        weft_metal_unload(base, module);
    else
        *out_module = module;
    return status;
}

void weft_metal_unload(weft_device *base, weft_module *module) {
    metal_device *device = (metal_device *)base;
    const metal_api *api = &device->api;
    weft_allocator allocator = base->context->allocator;
    if (!module) return;
    void *pool = weft_block_device_enter(base);
    weft_status_release(weft_metal_flush(device));
    for (int i = 0; module->kernels && i < module->kernel_count; i++)
        if (module->kernels[i].pipeline) weft_metal_tell(api, module->kernels[i].pipeline, api->release);
    if (module->library) weft_metal_tell(api, module->library, api->release);
    weft_block_device_leave(base, pool);
    weft_free(allocator, module->kernels,
              (size_t)(module->kernel_count ? module->kernel_count : 1) * sizeof *module->kernels);
    weft_free(allocator, module, sizeof *module);
}

static weft_status make_pipeline(metal_device *device, const weft_module *module, kernel_code *kernel) {
    const metal_api *api = &device->api;
    metal_id name = METAL_SEND(api, metal_id, (metal_id, metal_sel, const char *), api->string, text_of, kernel->name);
    metal_id function = METAL_SEND(api, metal_id, (metal_id, metal_sel, metal_id), module->library, new_function, name);
    metal_id error = NULL;
    if (!function) return WEFT_STATUS(WEFT_INVALID_DATA, "the program's source has no kernel %s", kernel->name);
    metal_id pipeline = METAL_SEND(api, metal_id, (metal_id, metal_sel, metal_id, metal_id *), device->device,
                                   new_pipeline, function, &error);
    weft_metal_tell(api, function, api->release);
    if (!pipeline)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s compiles no kernel %s: %.300s", device->name, kernel->name,
                           weft_metal_error(api, error));
    unsigned long threads = weft_metal_number(api, pipeline, api->threads_limit),
                  width = weft_metal_number(api, pipeline, api->simd_width);
    if (threads < (unsigned long)kernel->threads || width != SIMD_WIDTH) {
        weft_metal_tell(api, pipeline, api->release);
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d threads in simdgroups of %d; %s runs %lu in %lu",
                           kernel->name, kernel->threads, SIMD_WIDTH, device->name, threads, width);
    }
    kernel->pipeline = pipeline;
    return NULL;
}

static weft_status check(const metal_device *device, const weft_module *module, const weft_launch *launch) {
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    const char *name = module->kernels[launch->kernel].name;
    if (launch->grid < 0 || launch->grid > INT32_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %lld blocks are more than %s takes", name,
                           (long long)launch->grid, device->name);
    if (launch->map_count || launch->extent_count > EXTENTS_MAX ||
        launch->buffer_count + (launch->extent_count > 0) > BINDINGS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d buffers, %d extents, %d tensor maps", name,
                           launch->buffer_count, launch->extent_count, launch->map_count);
    return NULL;
}

/* A buffer without elements may lie at the end of its block, where nothing can be bound: the block's start does. */
static weft_status bind_buffer(metal_device *device, metal_id encoder, void *memory, int index) {
    const weft_block *block;
    uint64_t offset;
    if (!memory) return NULL;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, &device->gpu.base, memory, 0, &block, &offset), "buffer %d",
             index);
    METAL_SEND(&device->api, void, (metal_id, metal_sel, metal_id, unsigned long, unsigned long), encoder, set_buffer,
               (metal_id)(uintptr_t)block->buffer, (unsigned long)(offset < block->bytes ? offset : 0),
               (unsigned long)index);
    return NULL;
}

static weft_status launch_locked(metal_device *device, weft_module *module, const weft_launch *launch) {
    const metal_api *api = &device->api;
    kernel_code *kernel = &module->kernels[launch->kernel];
    metal_id encoder;
    if (!kernel->pipeline) WEFT_TRY(make_pipeline(device, module, kernel), "compiling for %s", device->name);
    WEFT_TRY(weft_metal_encoder(device, false, &encoder), "launching kernel %s", kernel->name);
    METAL_SEND(api, void, (metal_id, metal_sel, metal_id), encoder, set_pipeline, kernel->pipeline);
    for (int i = 0; i < launch->buffer_count; i++)
        WEFT_TRY(bind_buffer(device, encoder, launch->buffers[i], i), "launching kernel %s", kernel->name);
    if (launch->extent_count)
        METAL_SEND(api, void, (metal_id, metal_sel, const void *, unsigned long, unsigned long), encoder, set_bytes,
                   launch->extents, (unsigned long)launch->extent_count * sizeof *launch->extents,
                   (unsigned long)launch->buffer_count);
    METAL_SEND(api, void, (metal_id, metal_sel, metal_size, metal_size), encoder, dispatch,
               ((metal_size){(unsigned long)launch->grid, 1, 1}), ((metal_size){(unsigned long)kernel->threads, 1, 1}));
    return NULL;
}

weft_status weft_metal_launch(weft_device *base, weft_module *module, const weft_launch *launch) {
    metal_device *device = (metal_device *)base;
    WEFT_TRY(check(device, module, launch), "launch");
    if (launch->grid == 0) return NULL;
    void *pool = weft_block_device_enter(base);
    weft_status status = launch_locked(device, module, launch);
    weft_block_device_leave(base, pool);
    return status;
}
