/* Code and launches. An image is a table of SPIR-V modules (layout: codegen/spirv/target.c, repeated here because the
   runtime includes nothing of the compiler). A pipeline is made at the first launch of its kernel: programs hold more
   variants than a run takes. See vulkan.h. */
#include "runtime/drivers/vulkan/vulkan.h"

#include <string.h>

enum { MAGIC = 0x56505357 /* "WSPV" */, HEAD_WORDS = 2, ENTRY_WORDS = 2, SPIRV_MAGIC = 0x07230203 };
enum { WORDS_MAX = 512, BLOCKS_WIDE = 65535 };

typedef struct kernel_code {
    const uint32_t *words; /* in the module's copy of the image */
    size_t count;
    const char *name; /* of the program */
    VkPipeline pipeline;
} kernel_code;

struct weft_module {
    uint32_t *image;
    size_t image_bytes;
    int kernel_count;
    uint32_t subgroup; /* threads of a subgroup that pipelines ask for; 0: any */
    kernel_code *kernels;
};

void weft_vulkan_unload(weft_device *base, weft_module *module) {
    vulkan_device *device = (vulkan_device *)base;
    weft_allocator allocator = base->context->allocator;
    (void)pthread_mutex_lock(&device->gpu.lock);
    weft_status_release(weft_vulkan_flush(device));
    for (int i = 0; module->kernels && i < module->kernel_count; i++)
        if (module->kernels[i].pipeline) device->api.DestroyPipeline(device->device, module->kernels[i].pipeline, NULL);
    (void)pthread_mutex_unlock(&device->gpu.lock);
    weft_free(allocator, module->kernels, (size_t)module->kernel_count * sizeof *module->kernels);
    weft_free(allocator, module->image, module->image_bytes);
    weft_free(allocator, module, sizeof *module);
}

static weft_status read_image(weft_module *module, const weft_program_data *program) {
    size_t words = module->image_bytes / sizeof *module->image;
    size_t count = (size_t)module->kernel_count;
    if (words < HEAD_WORDS || module->image[0] != MAGIC || module->image[1] != count ||
        words - HEAD_WORDS < count * ENTRY_WORDS)
        return WEFT_STATUS(WEFT_INVALID_DATA, "this is no SPIR-V image of %d kernels", module->kernel_count);
    for (int i = 0; i < module->kernel_count; i++) {
        size_t at = module->image[HEAD_WORDS + i * ENTRY_WORDS], size = module->image[HEAD_WORDS + i * ENTRY_WORDS + 1];
        if (at > words || size > words - at || size < 5 || module->image[at] != SPIRV_MAGIC)
            return WEFT_STATUS(WEFT_INVALID_DATA, "SPIR-V image: kernel %s lies outside of it",
                               program->kernels[i].name);
        module->kernels[i] = (kernel_code){module->image + at, size, program->kernels[i].name, VK_NULL_HANDLE};
    }
    return NULL;
}

/* Modules ask that subnormal numbers be kept (codegen/spirv/module.c); where a device cannot promise it, that is taken
   out of them: OpCapability and OpExecutionMode DenormPreserve. */
static void drop_preserve(kernel_code *kernel, uint32_t *words) {
    enum { HEADER = 5, CAPABILITY = 17, EXECUTION_MODE = 16, PRESERVE_CAPABILITY = 4464, PRESERVE_MODE = 4459 };
    size_t kept = HEADER;
    for (size_t at = HEADER, size; at < kernel->count; at += size) {
        uint32_t code = words[at] & 0xffff;
        size = words[at] >> 16;
        if (size == 0 || size > kernel->count - at) return; /* the driver will say so */
        if (code == CAPABILITY && size == 2 && words[at + 1] == PRESERVE_CAPABILITY) continue;
        if (code == EXECUTION_MODE && size > 2 && words[at + 2] == PRESERVE_MODE) continue;
        memmove(words + kept, words + at, size * sizeof *words);
        kept += size;
    }
    kernel->count = kept;
}

weft_status weft_vulkan_load(weft_device *base, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) {
    weft_allocator allocator = base->context->allocator;
    *out_module = NULL;
    weft_module *module = weft_allocate(allocator, sizeof *module);
    if (!module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    module->kernel_count = program->kernel_count;
    module->image_bytes = code->bytes;
    module->subgroup = 0;
    const vulkan_matrices *matrices = &((vulkan_device *)base)->matrices;
    for (int i = 0; i < VULKAN_ARCHS; i++)
        if (matrices->asks && strcmp(code->arch, weft_vulkan_archs[i].name) == 0)
            module->subgroup = weft_vulkan_archs[i].subgroup;
    module->image = weft_allocate(allocator, code->bytes ? code->bytes : 1);
    module->kernels =
        weft_allocate(allocator, (size_t)(program->kernel_count ? program->kernel_count : 1) * sizeof *module->kernels);
    weft_status status = NULL;
    if (module->image && module->kernels) {
        memcpy(module->image, code->data, code->bytes);
        status = read_image(module, program);
        bool drop = !status && !((vulkan_device *)base)->keeps_subnormals;
        for (int i = 0; drop && i < module->kernel_count; i++)
            drop_preserve(&module->kernels[i], module->image + (module->kernels[i].words - module->image));
    } else {
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes of code", code->bytes);
    }
    if (status)
        weft_vulkan_unload(base, module);
    else
        *out_module = module;
    return status;
}

static weft_status make_pipeline(vulkan_device *device, uint32_t subgroup, kernel_code *kernel) {
    vulkan_api *api = &device->api;
    const VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                           .codeSize = kernel->count * sizeof *kernel->words,
                                           .pCode = kernel->words};
    VkShaderModule shader = VK_NULL_HANDLE;
    WEFT_TRY(weft_vulkan_status(device, api->CreateShaderModule(device->device, &info, NULL, &shader),
                                "vkCreateShaderModule"),
             "kernel %s", kernel->name);
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = subgroup};
    const VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = subgroup ? &size : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = shader,
                  .pName = "main"},
        .layout = device->layout};
    VkResult result =
        api->CreateComputePipelines(device->device, VK_NULL_HANDLE, 1, &pipeline, NULL, &kernel->pipeline);
    api->DestroyShaderModule(device->device, shader, NULL);
    WEFT_TRY(weft_vulkan_status(device, result, "vkCreateComputePipelines"), "kernel %s", kernel->name);
    return NULL;
}

static weft_status check(const vulkan_device *device, const weft_module *module, const weft_launch *launch) {
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    const char *name = module->kernels[launch->kernel].name;
    int64_t rows = (launch->grid + BLOCKS_WIDE - 1) / BLOCKS_WIDE;
    if (launch->grid < 0 || rows > device->limits.maxComputeWorkGroupCount[1])
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %lld blocks are more than %s takes", name,
                           (long long)launch->grid, device->name);
    if (launch->map_count || 1 + launch->buffer_count + launch->extent_count > WORDS_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "kernel %s: %d buffers, %d extents, %d tensor maps", name,
                           launch->buffer_count, launch->extent_count, launch->map_count);
    return NULL;
}

static weft_status launch_locked(vulkan_device *device, weft_module *module, const weft_launch *launch) {
    kernel_code *kernel = &module->kernels[launch->kernel];
    if (!kernel->pipeline) WEFT_TRY(make_pipeline(device, module->subgroup, kernel), "compiling for %s", device->name);
    size_t at = 0, words = 1 + (size_t)launch->buffer_count + (size_t)launch->extent_count;
    uint64_t block[WORDS_MAX];
    block[0] = (uint64_t)launch->grid;
    for (int i = 0; i < launch->buffer_count; i++) block[1 + i] = (uint64_t)(uintptr_t)launch->buffers[i];
    for (int i = 0; i < launch->extent_count; i++) block[1 + launch->buffer_count + i] = (uint64_t)launch->extents[i];
    WEFT_TRY(weft_vulkan_begin(device, words * sizeof *block, &at), "launching kernel %s", kernel->name);
    memcpy(device->ring.mapped + at, block, words * sizeof *block);
    uint64_t address = device->ring.address + at;
    uint32_t wide = launch->grid < BLOCKS_WIDE ? (uint32_t)launch->grid : BLOCKS_WIDE;
    device->api.CmdBindPipeline(device->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    device->api.CmdPushConstants(device->commands, device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof address,
                                 &address);
    device->api.CmdDispatch(device->commands, wide, (uint32_t)((launch->grid + BLOCKS_WIDE - 1) / BLOCKS_WIDE), 1);
    return NULL;
}

weft_status weft_vulkan_launch(weft_device *base, weft_module *module, const weft_launch *launch) {
    vulkan_device *device = (vulkan_device *)base;
    WEFT_TRY(check(device, module, launch), "launch");
    if (launch->grid == 0) return NULL;
    (void)pthread_mutex_lock(&device->gpu.lock);
    weft_status status = launch_locked(device, module, launch);
    (void)pthread_mutex_unlock(&device->gpu.lock);
    return status;
}
