/* Devices of the Vulkan driver: the loader's functions, the choice of a queue and of features. See vulkan.h. */
#include "runtime/drivers/vulkan/vulkan.h"

#include <stdio.h>
#include <string.h>

#include "runtime/libraries.h"

/* What kernels for vulkan1.2 may take: its record in base/capability.c. */
enum { THREADS_LEAST = 256, SHARED_LEAST = 16 << 10 };

weft_status weft_vulkan_status(vulkan_device *device, VkResult result, const char *what) {
    static const struct {
        VkResult result;
        weft_code code;
        const char *name;
    } names[] = {{VK_ERROR_OUT_OF_HOST_MEMORY, WEFT_OUT_OF_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY"},
                 {VK_ERROR_OUT_OF_DEVICE_MEMORY, WEFT_OUT_OF_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY"},
                 {VK_ERROR_INCOMPATIBLE_DRIVER, WEFT_UNAVAILABLE, "VK_ERROR_INCOMPATIBLE_DRIVER: no Vulkan driver"},
                 {VK_ERROR_INITIALIZATION_FAILED, WEFT_UNAVAILABLE, "VK_ERROR_INITIALIZATION_FAILED"},
                 {VK_ERROR_FEATURE_NOT_PRESENT, WEFT_UNSUPPORTED, "VK_ERROR_FEATURE_NOT_PRESENT"}};
    if (result == VK_SUCCESS) return NULL;
    if (result == VK_ERROR_DEVICE_LOST) {
        if (device) device->lost = true;
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s: the device was lost; open it anew and load the program again", what);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].result == result) return WEFT_STATUS(names[i].code, "%s: %s", what, names[i].name);
    return WEFT_STATUS(WEFT_INTERNAL, "%s: VkResult %d", what, (int)result);
}

static weft_status load_instance(vulkan_device *device) {
    vulkan_api *api = &device->api;
    weft_allocator allocator = device->gpu.base.context->allocator;
    void *library = NULL;
    WEFT_TRY(weft_library_open(allocator, "vulkan", &library), "starting Vulkan");
    WEFT_TRY(weft_library_symbol(library, "vulkan", "vkGetInstanceProcAddr", &api->GetInstanceProcAddr),
             "starting Vulkan");
#define X(function)                                                                                                    \
    api->function = (PFN_vk##function)api->GetInstanceProcAddr(NULL, "vk" #function);                                  \
    if (!api->function) return WEFT_STATUS(WEFT_UNAVAILABLE, "the Vulkan loader is too old: it has no vk" #function);
    VULKAN_GLOBAL_FUNCTIONS(X)
#undef X
    uint32_t version = 0;
    if (api->EnumerateInstanceVersion(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "the Vulkan loader is older than 1.2: update it");
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pEngineName = "Weft", .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &application};
    WEFT_TRY(weft_vulkan_status(NULL, api->CreateInstance(&info, NULL, &device->instance), "vkCreateInstance"),
             "starting Vulkan");
#define X(function)                                                                                                    \
    api->function = (PFN_vk##function)api->GetInstanceProcAddr(device->instance, "vk" #function);                      \
    if (!api->function) return WEFT_STATUS(WEFT_UNAVAILABLE, "the Vulkan loader has no vk" #function);
    VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
    return NULL;
}

static weft_status choose_physical(vulkan_device *device) {
    enum { DEVICES_MAX = 64 };
    VkPhysicalDevice devices[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    VkResult result = device->api.EnumeratePhysicalDevices(device->instance, &count, devices);
    if (result != VK_INCOMPLETE)
        WEFT_TRY(weft_vulkan_status(NULL, result, "vkEnumeratePhysicalDevices"), "counting Vulkan devices");
    if (count == 0)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "Vulkan shows no device: install the driver of the graphics card, "
                                             "or mesa-vulkan-drivers for one in software");
    if ((uint32_t)device->gpu.base.ordinal >= count)
        return WEFT_STATUS(WEFT_NOT_FOUND, "there is no vulkan:%d: Vulkan shows %u devices", device->gpu.base.ordinal,
                           count);
    device->physical = devices[device->gpu.base.ordinal];
    VkPhysicalDeviceMaintenance3Properties sizes = {.sType =
                                                        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceFloatControlsProperties floats = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES, .pNext = &sizes};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &floats};
    device->api.GetPhysicalDeviceProperties2(device->physical, &properties);
    device->limits = properties.properties.limits;
    device->keeps_subnormals = floats.shaderDenormPreserveFloat32 &&
                               floats.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    device->gpu.blocks.limit = sizes.maxMemoryAllocationSize;
    (void)snprintf(device->name, sizeof device->name, "%.127s", properties.properties.deviceName);
    if (properties.properties.apiVersion < VK_API_VERSION_1_2)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s speaks Vulkan %u.%u; 1.2 is needed", device->name,
                           VK_API_VERSION_MAJOR(properties.properties.apiVersion),
                           VK_API_VERSION_MINOR(properties.properties.apiVersion));
    if (device->limits.maxComputeWorkGroupInvocations < THREADS_LEAST ||
        device->limits.maxComputeSharedMemorySize < SHARED_LEAST)
        return WEFT_STATUS(WEFT_UNSUPPORTED,
                           "%s runs %u threads with %u bytes of shared memory; kernels take %d with %d", device->name,
                           device->limits.maxComputeWorkGroupInvocations, device->limits.maxComputeSharedMemorySize,
                           THREADS_LEAST, SHARED_LEAST);
    if (properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
        weft_context_log(device->gpu.base.context, WEFT_LOG_WARNING, "vulkan:%d is %s, a device in software: slow",
                         device->gpu.base.ordinal, device->name);
    device->api.GetPhysicalDeviceMemoryProperties(device->physical, &device->memory);
    for (uint32_t i = 0; i < device->memory.memoryHeapCount; i++)
        if (device->memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
            device->memory_bytes += (int64_t)device->memory.memoryHeaps[i].size;
    return NULL;
}

static weft_status choose_queue(vulkan_device *device) {
    enum { FAMILIES_MAX = 32 };
    VkQueueFamilyProperties families[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX;
    device->api.GetPhysicalDeviceQueueFamilyProperties(device->physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            device->family = i;
            return NULL;
        }
    return WEFT_STATUS(WEFT_UNSUPPORTED, "%s has no queue for compute", device->name);
}

/* Every feature that kernels may use is enabled where it exists; addresses and 64-bit integers must. */
static weft_status create_device(vulkan_device *device) {
    VkPhysicalDeviceVulkan12Features new12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features new11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                              .pNext = &new12};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &new11};
    device->api.GetPhysicalDeviceFeatures2(device->physical, &has);
    if (!new12.bufferDeviceAddress || !has.features.shaderInt64)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s lacks %s", device->name,
                           new12.bufferDeviceAddress ? "64-bit integers" : "buffer device addresses");
    weft_vulkan_find_matrices(device, new12.vulkanMemoryModel, new12.shaderFloat16 && has.features.shaderInt16,
                              new12.shaderInt8 && new12.storageBuffer8BitAccess);
    vulkan_matrices *matrices = &device->matrices;
    VkPhysicalDeviceVulkan12Features want12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                               .storageBuffer8BitAccess = new12.storageBuffer8BitAccess,
                                               .shaderBufferInt64Atomics = new12.shaderBufferInt64Atomics,
                                               .pNext = matrices->extension_count ? &matrices->features : NULL,
                                               .shaderFloat16 = new12.shaderFloat16,
                                               .shaderInt8 = new12.shaderInt8,
                                               .vulkanMemoryModel = new12.vulkanMemoryModel,
                                               .bufferDeviceAddress = VK_TRUE};
    VkPhysicalDeviceVulkan11Features want11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                               .pNext = &want12,
                                               .storageBuffer16BitAccess = new11.storageBuffer16BitAccess};
    const VkPhysicalDeviceFeatures2 want = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                            .pNext = &want11,
                                            .features = {.shaderInt64 = VK_TRUE,
                                                         .shaderInt16 = has.features.shaderInt16,
                                                         .shaderFloat64 = has.features.shaderFloat64}};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = device->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &want,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = matrices->extension_count,
                                     .ppEnabledExtensionNames = matrices->extensions};
    WEFT_TRY(weft_vulkan_status(NULL, device->api.CreateDevice(device->physical, &info, NULL, &device->device),
                                "vkCreateDevice"),
             "opening %s", device->name);
#define X(function)                                                                                                    \
    device->api.function = (PFN_vk##function)device->api.GetDeviceProcAddr(device->device, "vk" #function);            \
    if (!device->api.function) return WEFT_STATUS(WEFT_UNAVAILABLE, "%s: its driver has no vk" #function, device->name);
    VULKAN_DEVICE_FUNCTIONS(X)
#undef X
    device->api.GetDeviceQueue(device->device, device->family, 0, &device->queue);
    return NULL;
}

static weft_status create_objects(vulkan_device *device) {
    const VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = sizeof(uint64_t)};
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                               .pushConstantRangeCount = 1,
                                               .pPushConstantRanges = &range};
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = device->family};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    vulkan_api *api = &device->api;
    WEFT_TRY(weft_vulkan_status(device, api->CreatePipelineLayout(device->device, &layout, NULL, &device->layout),
                                "vkCreatePipelineLayout"),
             "%s", device->name);
    WEFT_TRY(weft_vulkan_status(device, api->CreateCommandPool(device->device, &pool, NULL, &device->pool),
                                "vkCreateCommandPool"),
             "%s", device->name);
    const VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                 .commandPool = device->pool,
                                                 .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                 .commandBufferCount = 1};
    WEFT_TRY(weft_vulkan_status(device, api->AllocateCommandBuffers(device->device, &buffers, &device->commands),
                                "vkAllocateCommandBuffers"),
             "%s", device->name);
    WEFT_TRY(
        weft_vulkan_status(device, api->CreateFence(device->device, &fence, NULL, &device->fence), "vkCreateFence"),
        "%s", device->name);
    return weft_vulkan_block_create(device, VULKAN_RING_BYTES, true, &device->ring);
}

static void vulkan_close(weft_device *base) {
    vulkan_device *device = (vulkan_device *)base;
    vulkan_api *api = &device->api;
    weft_allocator allocator = base->context->allocator;
    if (device->device && api->QueueSubmit) {
        weft_status_release(weft_vulkan_flush(device));
        weft_blocks_deinit(&device->gpu.blocks, base);
        weft_vulkan_block_destroy(base, &device->ring);
        if (device->fence) api->DestroyFence(device->device, device->fence, NULL);
        if (device->pool) api->DestroyCommandPool(device->device, device->pool, NULL);
        if (device->layout) api->DestroyPipelineLayout(device->device, device->layout, NULL);
        api->DestroyDevice(device->device, NULL);
    }
    if (device->instance && api->DestroyInstance) api->DestroyInstance(device->instance, NULL);
    weft_block_device_deinit(&device->gpu);
    weft_free(allocator, device, sizeof *device);
}

static weft_status open_all(vulkan_device *device) {
    WEFT_TRY(load_instance(device), "opening vulkan:%d", device->gpu.base.ordinal);
    WEFT_TRY(choose_physical(device), "opening vulkan:%d", device->gpu.base.ordinal);
    WEFT_TRY(choose_queue(device), "opening vulkan:%d", device->gpu.base.ordinal);
    WEFT_TRY(create_device(device), "opening vulkan:%d", device->gpu.base.ordinal);
    return create_objects(device);
}

static weft_status vulkan_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    vulkan_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    weft_block_device_init(&device->gpu, context, &weft_driver_vulkan, ordinal, &weft_vulkan_blocks);
    weft_status status = open_all(device);
    if (status)
        vulkan_close(&device->gpu.base);
    else
        *out_device = &device->gpu.base;
    return status;
}

static void vulkan_info(const weft_device *base, weft_device_info *out_info) {
    const vulkan_device *device = (const vulkan_device *)base;
    *out_info = (weft_device_info){.driver = "vulkan", .memory_bytes = device->memory_bytes, .ordinal = base->ordinal};
    (void)snprintf(out_info->arch, sizeof out_info->arch, "%s", weft_vulkan_archs[device->matrices.arch].name);
    (void)snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
}

/* The device's own, one with fewer types of matrices, or what every device has. */
static int vulkan_match(const weft_device *base, const char *arch) {
    int own = ((const vulkan_device *)base)->matrices.arch;
    for (int i = own; i < VULKAN_ARCHS - 1; i++)
        if (weft_vulkan_archs[i].size == weft_vulkan_archs[own].size && strcmp(arch, weft_vulkan_archs[i].name) == 0)
            return 2000 - (i - own);
    return strcmp(arch, weft_vulkan_archs[VULKAN_ARCHS - 1].name) == 0 ? 1000 : 0;
}

const weft_driver weft_driver_vulkan = {.name = "vulkan",
                                        .open = vulkan_open,
                                        .close = vulkan_close,
                                        .info = vulkan_info,
                                        .match = vulkan_match,
                                        .load = weft_vulkan_load,
                                        .unload = weft_vulkan_unload,
                                        .allocate = weft_block_device_allocate,
                                        .free = weft_block_device_free,
                                        .upload = weft_block_device_upload,
                                        .download = weft_block_device_download,
                                        .copy = weft_block_device_copy,
                                        .launch = weft_vulkan_launch,
                                        .synchronise = weft_block_device_synchronise,
                                        .trim = weft_block_device_trim};
