/* Does the device have what kernels for vulkan1.2-coop16 and -coop8 take: cooperative matrices of f16 with sums in f32
   of that size, by subgroups of that many threads (base/capability.c), and the shared memory of those records? The
   types of VK_KHR_cooperative_matrix are repeated here because headers before 1.3.255 lack them. See vulkan.h. Source:
   Khronos, VK_KHR_cooperative_matrix, VK_EXT_subgroup_size_control. */
#include <string.h>

#include "runtime/drivers/vulkan/vulkan.h"

enum { TYPE_FEATURES = 1000506000, TYPE_PROPERTIES = 1000506001, COMPONENT_F16 = 0, COMPONENT_F32 = 1, SUBGROUP = 3 };

typedef struct matrix_properties { /* VkCooperativeMatrixPropertiesKHR */
    VkStructureType type;
    void *next;
    uint32_t m, n, k;
    int32_t a, b, c, result; /* VkComponentTypeKHR */
    VkBool32 saturates;
    int32_t scope;
} matrix_properties;

typedef VkResult(VKAPI_PTR *list_function)(VkPhysicalDevice device, uint32_t *count, matrix_properties *properties);

const vulkan_arch weft_vulkan_archs[] = {
    {"vulkan1.2-coop16", 32, 16, 48 << 10}, {"vulkan1.2-coop8", 8, 8, 32 << 10}, {"vulkan1.2", 0, 0, 16 << 10}};

static bool has_extension(const vulkan_device *device, const char *name) {
    enum { EXTENSIONS_MAX = 512 };
    static const VkResult fine[] = {VK_SUCCESS, VK_INCOMPLETE};
    weft_allocator allocator = device->gpu.base.context->allocator;
    VkExtensionProperties *list = weft_allocate(allocator, EXTENSIONS_MAX * sizeof *list);
    uint32_t count = EXTENSIONS_MAX;
    bool found = false;
    if (!list) return false;
    VkResult result = device->api.EnumerateDeviceExtensionProperties(device->physical, NULL, &count, list);
    for (uint32_t i = 0; (result == fine[0] || result == fine[1]) && i < count && !found; i++)
        found = strcmp(list[i].extensionName, name) == 0;
    weft_free(allocator, list, EXTENSIONS_MAX * sizeof *list);
    return found;
}

/* Does the device multiply matrices of this size? */
static bool has_size(const vulkan_device *device, uint32_t size) {
    enum { SIZES_MAX = 128 };
    list_function list = (list_function)device->api.GetInstanceProcAddr(
        device->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    matrix_properties sizes[SIZES_MAX];
    memset(sizes, 0, sizeof sizes);
    for (int i = 0; i < SIZES_MAX; i++) sizes[i].type = (VkStructureType)TYPE_PROPERTIES;
    uint32_t count = SIZES_MAX;
    if (!list) return false;
    VkResult result = list(device->physical, &count, sizes);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) return false;
    for (uint32_t i = 0; i < count; i++) {
        const matrix_properties *s = &sizes[i];
        if (s->m == size && s->n == size && s->k == size && s->a == COMPONENT_F16 && s->b == COMPONENT_F16 &&
            s->c == COMPONENT_F32 && s->result == COMPONENT_F32 && s->scope == SUBGROUP)
            return true;
    }
    return false;
}

/* Can a pipeline ask for subgroups of this many threads, or are they so anyway? *out_asks: it must. */
static bool has_subgroup(const vulkan_device *device, uint32_t threads, bool controlled, bool *out_asks) {
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                                   .pNext = controlled ? &sizes : NULL};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &subgroup};
    device->api.GetPhysicalDeviceProperties2(device->physical, &properties);
    if (!(subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) ||
        !(subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT))
        return false;
    *out_asks = controlled && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                sizes.minSubgroupSize <= threads && threads <= sizes.maxSubgroupSize;
    bool fixed = controlled ? sizes.minSubgroupSize == sizes.maxSubgroupSize : true;
    return *out_asks || (fixed && subgroup.subgroupSize == threads);
}

void weft_vulkan_find_matrices(vulkan_device *device, bool memory_model, bool f16) {
    vulkan_matrices *m = &device->matrices;
    *m = (vulkan_matrices){.arch = VULKAN_ARCHS - 1};
    if (!memory_model || !f16 || !has_extension(device, "VK_KHR_cooperative_matrix")) return;
    m->controls_size = has_extension(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
    vulkan_matrix_features matrices = {.type = (VkStructureType)TYPE_FEATURES,
                                       .next = m->controls_size ? &control : NULL};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices};
    device->api.GetPhysicalDeviceFeatures2(device->physical, &has);
    m->controls_size = m->controls_size && control.subgroupSizeControl && control.computeFullSubgroups;
    for (int i = 0; matrices.matrices && i < VULKAN_ARCHS - 1; i++) {
        const vulkan_arch *arch = &weft_vulkan_archs[i];
        if (device->limits.maxComputeSharedMemorySize < arch->shared_bytes ||
            !has_subgroup(device, arch->subgroup, m->controls_size, &m->asks) || !has_size(device, arch->size))
            continue;
        m->arch = i;
        break;
    }
    /* what creating the device asks for */
    if (m->arch == VULKAN_ARCHS - 1) return;
    m->control = (VkPhysicalDeviceSubgroupSizeControlFeaturesEXT){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE};
    m->features = (vulkan_matrix_features){
        .type = (VkStructureType)TYPE_FEATURES, .next = m->controls_size ? &m->control : NULL, .matrices = VK_TRUE};
    m->extensions[m->extension_count++] = "VK_KHR_cooperative_matrix";
    if (m->controls_size) m->extensions[m->extension_count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
}
