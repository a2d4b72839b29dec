/* Code images and launches. An image is a table of cubins and PTX texts (layout: codegen/cuda/image.h, repeated here as
   constants because the runtime includes nothing of the compiler). Parameters of a kernel: buffers, extents as 64-bit
   integers, tensor maps. */
#include "runtime/drivers/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"

enum { IMAGE_FORMAT = 1, IMAGE_HEAD = 16, IMAGE_PART = 40, PART_CUBIN = 0 };

typedef struct image_part {
    uint32_t kind, first, count;
    uint64_t offset, bytes;
} image_part;

typedef struct kernel_code {
    cu_function function;
    const char *name; /* of the program */
    int threads;
    _Atomic int64_t shared_bytes; /* allowed so far; written under the device's lock */
} kernel_code;

struct weft_module {
    int kernel_count, module_count;
    kernel_code *kernels;
    cu_module *modules;
    int module_capacity;
};

static weft_status read_part(const weft_binary *code, uint32_t index, int kernel_count, image_part *out) {
    const unsigned char *row = (const unsigned char *)code->data + IMAGE_HEAD + (size_t)index * IMAGE_PART;
    *out = (image_part){(uint32_t)weft_gpu_number_at(row, 4), (uint32_t)weft_gpu_number_at(row + 4, 4),
                        (uint32_t)weft_gpu_number_at(row + 8, 4), weft_gpu_number_at(row + 16, 8),
                        weft_gpu_number_at(row + 24, 8)};
    if (out->offset > code->bytes || out->bytes > code->bytes - out->offset || out->bytes == 0)
        return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image: part %u lies outside of it", index);
    if (out->first > (uint32_t)kernel_count || out->count > (uint32_t)kernel_count - out->first)
        return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image: part %u has kernels that the program has not", index);
    if (out->kind == PART_CUBIN && !weft_gpu_elf_is_whole((const unsigned char *)code->data + out->offset, out->bytes))
        return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image: part %u is no whole cubin", index);
    /* the driver reads PTX up to its NUL */
    if (out->kind != PART_CUBIN && ((const char *)code->data)[out->offset + out->bytes - 1] != '\0')
        return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image: the text of part %u does not end", index);
    return NULL;
}

static weft_status load_part(cuda_device *device, weft_module *module, const weft_program_data *program,
                             const weft_binary *code, const image_part *part) {
    cu_module loaded;
    const char *first = part->first < (uint32_t)program->kernel_count ? program->kernels[part->first].name : "?";
    WEFT_TRY(weft_cuda_status(&device->api,
                              device->api.cuModuleLoadData(&loaded, (const char *)code->data + part->offset),
                              "cuModuleLoadData"),
             "loading CUDA code of kernel %s", first);
    module->modules[module->module_count++] = loaded;
    for (uint32_t i = part->first; i < part->first + part->count; i++) {
        kernel_code *kernel = &module->kernels[i];
        WEFT_TRY(weft_cuda_status(&device->api,
                                  device->api.cuModuleGetFunction(&kernel->function, loaded, kernel->name),
                                  "cuModuleGetFunction"),
                 "finding kernel %s in its code", kernel->name);
    }
    return NULL;
}

/* Cubins when they run here, else PTX. */
static weft_status load_parts(cuda_device *device, weft_module *module, const weft_program_data *program,
                              const weft_binary *code, uint32_t parts, bool cubins) {
    for (uint32_t i = 0; i < parts; i++) {
        image_part part;
        WEFT_TRY(read_part(code, i, program->kernel_count, &part), "loading code for %s", code->arch);
        if ((part.kind == PART_CUBIN) == cubins)
            WEFT_TRY(load_part(device, module, program, code, &part), "loading code for %s", code->arch);
    }
    return NULL;
}

static bool cubin_runs(const cuda_device *device, const char *arch) {
    int number = 0;
    return sscanf(arch, "sm_%d", &number) == 1 && number / 10 == device->major && number % 10 <= device->minor;
}

static weft_status load_image(cuda_device *device, weft_module *module, const weft_program_data *program,
                              const weft_binary *code) {
    const unsigned char *data = code->data;
    if (code->bytes < IMAGE_HEAD || memcmp(data, "WEFTCUDA", 8) || weft_gpu_number_at(data + 8, 4) != IMAGE_FORMAT)
        return WEFT_STATUS(WEFT_INVALID_DATA, "this is no CUDA code image");
    uint32_t parts = (uint32_t)weft_gpu_number_at(data + 12, 4);
    if (parts > (code->bytes - IMAGE_HEAD) / IMAGE_PART)
        return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image: its table is cut off");
    weft_allocator allocator = device->gpu.base.context->allocator;
    module->module_capacity = (int)parts;
    module->modules = weft_allocate(allocator, (parts + 1) * sizeof *module->modules);
    module->kernels = weft_allocate(allocator, ((size_t)program->kernel_count + 1) * sizeof *module->kernels);
    if (!module->modules || !module->kernels) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    module->kernel_count = program->kernel_count;
    for (int i = 0; i < program->kernel_count; i++) {
        const weft_program_kernel *kernel = &program->kernels[i];
        module->kernels[i] = (kernel_code){.name = kernel->name, .threads = kernel->threads};
    }
    WEFT_TRY(load_parts(device, module, program, code, parts, cubin_runs(device, code->arch)), "loading a CUDA image");
    for (int i = 0; i < program->kernel_count; i++)
        if (!module->kernels[i].function)
            return WEFT_STATUS(WEFT_INVALID_DATA, "CUDA image for %s: no code for kernel %s", code->arch,
                               module->kernels[i].name);
    return NULL;
}

weft_status weft_cuda_load(weft_device *base, const weft_program_data *program, const weft_binary *code,
                           weft_module **out_module) {
    cuda_device *device = (cuda_device *)base;
    *out_module = NULL;
    WEFT_TRY(weft_gpu_enter(base), "loading code");
    weft_module *module = weft_allocate(base->context->allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    weft_status status = load_image(device, module, program, code);
    if (status)
        weft_cuda_unload(base, module);
    else
        *out_module = module;
    return status;
}

void weft_cuda_unload(weft_device *base, weft_module *module) {
    cuda_device *device = (cuda_device *)base;
    if (!module) return;
    weft_status_release(weft_gpu_enter(base));
    for (int i = 0; i < module->module_count; i++) (void)device->api.cuModuleUnload(module->modules[i]);
    weft_allocator allocator = base->context->allocator;
    if (module->modules)
        weft_free(allocator, module->modules, ((size_t)module->module_capacity + 1) * sizeof *module->modules);
    if (module->kernels)
        weft_free(allocator, module->kernels, ((size_t)module->kernel_count + 1) * sizeof *module->kernels);
    weft_free(allocator, module, sizeof *module);
}

/* -- tensor maps */

static int map_type(weft_dtype dtype) {
    switch ((int)dtype) {
    case WEFT_F16: return 6;
    case WEFT_F32: return 7;
    case WEFT_F64: return 8;
    case WEFT_BF16: return 9;
    case WEFT_I32: return 3;
    case WEFT_U16: return 1;
    case WEFT_U32: return 2;
    default: return 0; /* bytes */
    }
}

static bool same_map(const weft_launch_map *a, const weft_launch_map *b) {
    if (a->memory != b->memory || a->dtype != b->dtype || a->rank != b->rank || a->swizzle_bytes != b->swizzle_bytes)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->extent[i] != b->extent[i] || a->box[i] != b->box[i] ||
            (i > 0 && a->stride_bytes[i] != b->stride_bytes[i]))
            return false;
    return true;
}

static weft_status encode_map(cuda_device *device, const weft_launch_map *from, cu_tensor_map *out) {
    if (!device->api.cuTensorMapEncodeTiled)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "this NVIDIA driver has no tensor maps: it is older than CUDA 12");
    uint64_t extents[5], strides[5];
    uint32_t box[5], steps[5];
    for (int i = 0; i < from->rank; i++) {
        extents[i] = (uint64_t)from->extent[i], box[i] = (uint32_t)from->box[i], steps[i] = 1;
        if (i > 0) strides[i - 1] = (uint64_t)from->stride_bytes[i];
    }
    int promotion = 3; /* 256 bytes of L2 at once; where rows do not start so, no more than 128 */
    for (int i = 1; i < from->rank; i++)
        if (from->stride_bytes[i] % 256) promotion = 2;
    int swizzle = from->swizzle_bytes == 128 ? 3 : from->swizzle_bytes == 64 ? 2 : from->swizzle_bytes == 32 ? 1 : 0;
    cu_result result =
        device->api.cuTensorMapEncodeTiled(out, map_type(from->dtype), (uint32_t)from->rank, from->memory, extents,
                                           strides, box, steps, 0, swizzle, promotion, 0);
    if (result == CU_SUCCESS) return NULL;
    return weft_status_annotate(
        weft_cuda_status(&device->api, result, "cuTensorMapEncodeTiled"), __FILE__, __LINE__,
        "tensor map of rank %d at %p: extents %lld %lld %lld, strides %lld %lld, box %d %d", from->rank, from->memory,
        (long long)from->extent[0], (long long)from->extent[1], from->rank > 2 ? (long long)from->extent[2] : 1LL,
        from->rank > 1 ? (long long)from->stride_bytes[1] : 0LL,
        from->rank > 2 ? (long long)from->stride_bytes[2] : 0LL, from->box[0], from->rank > 1 ? from->box[1] : 1);
}

/* Encoding costs a microsecond: the last maps are kept, by content. */
static weft_status find_map(cuda_device *device, const weft_launch_map *from, cu_tensor_map *out) {
    struct {
        const void *memory;
        int64_t extent[2];
        int box;
    } key;
    memset(&key, 0, sizeof key);
    key.memory = from->memory, key.extent[0] = from->extent[0], key.extent[1] = from->rank > 1 ? from->extent[1] : 0,
    key.box = from->box[from->rank > 1];
    cuda_map_entry *entry = &device->maps[weft_hash(&key, sizeof key, 1) % CUDA_MAP_CACHE];
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = NULL;
    if (!entry->used || !same_map(&entry->key, from)) {
        entry->used = false;
        status = encode_map(device, from, &entry->map);
        if (!status) entry->key = *from, entry->used = true;
    }
    if (!status) *out = entry->map;
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

/* -- launches */

static weft_status check_launch(const weft_module *module, const weft_launch *launch) {
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    const char *name = module->kernels[launch->kernel].name;
    if (launch->grid < 0 || launch->grid > INT32_MAX)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "kernel %s: a grid of %lld blocks", name, (long long)launch->grid);
    if (launch->scratch_bytes < 0 || launch->scratch_bytes > INT32_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %lld bytes of shared memory", name,
                           (long long)launch->scratch_bytes);
    if (launch->map_count > CUDA_MAPS_MAX ||
        launch->buffer_count + launch->extent_count + launch->map_count > CUDA_PARAMETERS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d buffers, %d extents, %d maps are too many parameters", name,
                           launch->buffer_count, launch->extent_count, launch->map_count);
    return NULL;
}

/* The attribute is the kernel's, whichever session launches it: it never gets smaller. */
static weft_status allow_shared(cuda_device *device, kernel_code *kernel, int64_t bytes) {
    if (bytes <= kernel->shared_bytes) return NULL;
    cu_result result = CU_SUCCESS;
    (void)pthread_mutex_lock(&device->lock);
    if (bytes > kernel->shared_bytes)
        result = device->api.cuFuncSetAttribute(kernel->function, CU_FUNCTION_DYNAMIC_SHARED, (int)bytes);
    if (result == CU_SUCCESS && bytes > kernel->shared_bytes) kernel->shared_bytes = bytes;
    (void)pthread_mutex_unlock(&device->lock);
    WEFT_TRY(weft_cuda_status(&device->api, result, "cuFuncSetAttribute"), "kernel %s: %lld bytes of shared memory",
             kernel->name, (long long)bytes);
    return NULL;
}

weft_status weft_cuda_prepare(cuda_device *device, weft_module *module, const weft_launch *launch, cuda_prepared *out) {
    WEFT_TRY(check_launch(module, launch), "launching");
    kernel_code *kernel = &module->kernels[launch->kernel];
    WEFT_TRY(allow_shared(device, kernel, launch->scratch_bytes), "launching %s", kernel->name);
    int count = 0;
    for (int i = 0; i < launch->buffer_count; i++) {
        out->pointers[i] = launch->buffers[i];
        out->parameters[count++] = &out->pointers[i];
    }
    for (int i = 0; i < launch->extent_count; i++) {
        out->extents[i] = launch->extents[i];
        out->parameters[count++] = &out->extents[i];
    }
    for (int i = 0; i < launch->map_count; i++) {
        WEFT_TRY(find_map(device, &launch->maps[i], &out->maps[i]), "launching %s", kernel->name);
        out->parameters[count++] = &out->maps[i];
    }
    out->function = kernel->function;
    out->blocks = (unsigned)launch->grid, out->threads = (unsigned)kernel->threads;
    out->shared_bytes = (unsigned)launch->scratch_bytes;
    return NULL;
}

weft_status weft_cuda_launch(weft_device *base, weft_module *module, const weft_launch *launch) {
    cuda_device *device = (cuda_device *)base;
    cuda_prepared prepared;
    if (launch->grid == 0) return NULL;
    WEFT_TRY(weft_gpu_enter(base), "launching");
    WEFT_TRY(weft_cuda_prepare(device, module, launch, &prepared), "launching");
    cu_result result = device->api.cuLaunchKernel(prepared.function, prepared.blocks, 1, 1, prepared.threads, 1, 1,
                                                  prepared.shared_bytes, device->stream, prepared.parameters, NULL);
    WEFT_TRY(weft_cuda_status(&device->api, result, "cuLaunchKernel"),
             "launching kernel %s with %lld blocks of %d threads, %lld bytes of shared memory",
             module->kernels[launch->kernel].name, (long long)launch->grid, module->kernels[launch->kernel].threads,
             (long long)launch->scratch_bytes);
    return NULL;
}

weft_status weft_cuda_kernel_info(weft_device *base, weft_module *module, int kernel, int *out_registers,
                                  int *out_local_bytes) {
    cuda_device *device = (cuda_device *)base;
    *out_registers = *out_local_bytes = 0;
    WEFT_TRY(weft_gpu_enter(base), "kernel information");
    WEFT_TRY(weft_cuda_status(
                 &device->api,
                 device->api.cuFuncGetAttribute(out_registers, CU_FUNCTION_REGISTERS, module->kernels[kernel].function),
                 "registers"),
             "kernel %s", module->kernels[kernel].name);
    return weft_cuda_status(
        &device->api,
        device->api.cuFuncGetAttribute(out_local_bytes, CU_FUNCTION_LOCAL_BYTES, module->kernels[kernel].function),
        "local memory");
}
