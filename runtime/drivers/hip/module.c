/* Code images and launches. An image is a table of code objects (layout: codegen/amdgcn/image.h, repeated here as
   constants because the runtime includes nothing of the compiler). Parameters of a kernel: buffers, extents as 64-bit
   integers, the number of blocks. */
#include <string.h>

#include "base/arena.h"
#include "runtime/drivers/hip/hip.h"

enum { IMAGE_FORMAT = 1, IMAGE_HEAD = 16, IMAGE_PART = 24 };

typedef struct image_part {
    uint32_t first, count;
    uint64_t offset, bytes;
} image_part;

typedef struct kernel_code {
    hip_function function;
    const char *name; /* of the program */
    int threads;
} kernel_code;

struct weft_module {
    int kernel_count, module_count, module_capacity;
    kernel_code *kernels;
    hip_module *modules;
};

static weft_status read_part(const weft_binary *code, uint32_t index, int kernel_count, image_part *out) {
    const unsigned char *row = (const unsigned char *)code->data + IMAGE_HEAD + (size_t)index * IMAGE_PART;
    *out = (image_part){(uint32_t)weft_gpu_number_at(row, 4), (uint32_t)weft_gpu_number_at(row + 4, 4),
                        weft_gpu_number_at(row + 8, 8), weft_gpu_number_at(row + 16, 8)};
    if (out->offset > code->bytes || out->bytes > code->bytes - out->offset)
        return WEFT_STATUS(WEFT_INVALID_DATA, "AMD image: part %u lies outside of it", index);
    if (out->first > (uint32_t)kernel_count || out->count > (uint32_t)kernel_count - out->first)
        return WEFT_STATUS(WEFT_INVALID_DATA, "AMD image: part %u has kernels that the program has not", index);
    if (!weft_gpu_elf_is_whole((const unsigned char *)code->data + out->offset, out->bytes))
        return WEFT_STATUS(WEFT_INVALID_DATA, "AMD image: part %u is no whole code object", index);
    return NULL;
}

static weft_status load_part(hip_device *device, weft_module *module, const weft_binary *code, const image_part *part) {
    hip_module loaded;
    WEFT_TRY(weft_hip_status(&device->api,
                             device->api.hipModuleLoadData(&loaded, (const char *)code->data + part->offset),
                             "hipModuleLoadData"),
             "loading a code object of %llu bytes for %s", (unsigned long long)part->bytes, code->arch);
    module->modules[module->module_count++] = loaded;
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        kernel_code *kernel = &module->kernels[i];
        WEFT_TRY(weft_hip_status(&device->api,
                                 device->api.hipModuleGetFunction(&kernel->function, loaded, kernel->name),
                                 "hipModuleGetFunction"),
                 "finding kernel %s in its code", kernel->name);
    }
    return NULL;
}

static weft_status load_image(hip_device *device, weft_module *module, const weft_program_data *program,
                              const weft_binary *code) {
    const unsigned char *data = code->data;
    if (code->bytes < IMAGE_HEAD || memcmp(data, "WEFTAMDG", 8) != 0 || weft_gpu_number_at(data + 8, 4) != IMAGE_FORMAT)
        return WEFT_STATUS(WEFT_INVALID_DATA, "this is no code image for AMD devices");
    uint32_t parts = (uint32_t)weft_gpu_number_at(data + 12, 4);
    if (parts > (code->bytes - IMAGE_HEAD) / IMAGE_PART)
        return WEFT_STATUS(WEFT_INVALID_DATA, "AMD image: its table is cut off");
    weft_allocator allocator = device->gpu.base.context->allocator;
    module->module_capacity = (int)parts + 1;
    module->modules = weft_allocate(allocator, (size_t)module->module_capacity * sizeof *module->modules);
    module->kernels = weft_allocate(allocator, ((size_t)program->kernel_count + 1) * sizeof *module->kernels);
    module->kernel_count = program->kernel_count;
    if (!module->modules || !module->kernels) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    for (int i = 0; i < program->kernel_count; i++)
        module->kernels[i] =
            (kernel_code){.name = program->kernels[i].name, .threads = (int)program->kernels[i].threads};
    for (uint32_t i = 0; i < parts; i++) {
        image_part part;
        WEFT_TRY(read_part(code, i, program->kernel_count, &part), "loading code for %s", code->arch);
        WEFT_TRY(load_part(device, module, code, &part), "loading code for %s", code->arch);
    }
    for (int i = 0; i < program->kernel_count; i++)
        if (!module->kernels[i].function)
            return WEFT_STATUS(WEFT_INVALID_DATA, "AMD image for %s: no code for kernel %s", code->arch,
                               module->kernels[i].name);
    return NULL;
}

weft_status weft_hip_load(weft_device *base, const weft_program_data *program, const weft_binary *code,
                          weft_module **out_module) {
    hip_device *device = (hip_device *)base;
    *out_module = NULL;
    WEFT_TRY(weft_gpu_enter(base), "loading code");
    weft_module *module = weft_allocate(base->context->allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    weft_status status = load_image(device, module, program, code);
    if (status)
        weft_hip_unload(base, module);
    else
        *out_module = module;
    return status;
}

void weft_hip_unload(weft_device *base, weft_module *module) {
    hip_device *device = (hip_device *)base;
    if (!module) return;
    weft_status_release(weft_gpu_enter(base));
    for (int i = 0; i < module->module_count; i++) (void)device->api.hipModuleUnload(module->modules[i]);
    weft_allocator allocator = base->context->allocator;
    weft_free(allocator, module->modules, (size_t)module->module_capacity * sizeof *module->modules);
    weft_free(allocator, module->kernels, ((size_t)module->kernel_count + 1) * sizeof *module->kernels);
    weft_free(allocator, module, sizeof *module);
}

/* -- launches */

/* The runtime counts the grid in work-items, 32 bits of them. */
static weft_status check_launch(const weft_module *module, const weft_launch *launch) {
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    const kernel_code *kernel = &module->kernels[launch->kernel];
    int64_t most = (int64_t)UINT32_MAX / (kernel->threads > 0 ? kernel->threads : 1);
    if (launch->grid < 0 || launch->grid > INT32_MAX || launch->grid > most)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "kernel %s: a grid of %lld blocks of %d threads", kernel->name,
                           (long long)launch->grid, kernel->threads);
    if (launch->map_count > 0 || launch->scratch_bytes < 0 || launch->scratch_bytes > INT32_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: tensor maps or %lld bytes of shared memory", kernel->name,
                           (long long)launch->scratch_bytes);
    if (launch->buffer_count + launch->extent_count + 1 > HIP_PARAMETERS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d buffers and %d extents are too many parameters",
                           kernel->name, launch->buffer_count, launch->extent_count);
    return NULL;
}

weft_status weft_hip_launch_on(hip_device *device, weft_module *module, const weft_launch *launch, hip_stream stream) {
    WEFT_TRY(check_launch(module, launch), "launching");
    const kernel_code *kernel = &module->kernels[launch->kernel];
    uint64_t values[HIP_PARAMETERS_MAX];
    void *parameters[HIP_PARAMETERS_MAX];
    int count = 0;
    for (int i = 0; i < launch->buffer_count; i++) values[count++] = (uint64_t)(uintptr_t)launch->buffers[i];
    for (int i = 0; i < launch->extent_count; i++) values[count++] = (uint64_t)launch->extents[i];
    values[count++] = (uint64_t)launch->grid;
    for (int i = 0; i < count; i++) parameters[i] = &values[i];
    hip_result result =
        device->api.hipModuleLaunchKernel(kernel->function, (unsigned)launch->grid, 1, 1, (unsigned)kernel->threads, 1,
                                          1, (unsigned)launch->scratch_bytes, stream, parameters, NULL);
    WEFT_TRY(weft_hip_status(&device->api, result, "hipModuleLaunchKernel"),
             "launching kernel %s with %lld blocks of %d threads", kernel->name, (long long)launch->grid,
             kernel->threads);
    return NULL;
}

weft_status weft_hip_launch(weft_device *base, weft_module *module, const weft_launch *launch) {
    hip_device *device = (hip_device *)base;
    if (launch->grid == 0) return NULL;
    WEFT_TRY(weft_gpu_enter(base), "launching");
    return weft_hip_launch_on(device, module, launch, device->stream);
}
