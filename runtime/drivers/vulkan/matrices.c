/* Does the device have what kernels for vulkan1.2-coop16 and its kind take: cooperative matrices of f16, bf16 with sums
   in f32, of i8 with sums in i32, of that size, by subgroups of that many threads (base/capability.c), and the shared
   memory of those records? The types of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16 are repeated here because
   older headers lack them. See vulkan.h. Source: Khronos, VK_KHR_cooperative_matrix, VK_KHR_shader_bfloat16,
   VK_EXT_subgroup_size_control. */
#include <string.h>

#include "runtime/drivers/vulkan/vulkan.h"

enum { TYPE_FEATURES = 1000506000, TYPE_PROPERTIES = 1000506001, TYPE_BFLOAT = 1000141000, SUBGROUP = 3 };
enum { COMPONENT_F16 = 0, COMPONENT_F32 = 1, COMPONENT_I8 = 3, COMPONENT_I32 = 5, COMPONENT_BF16 = 1000141000 };

typedef struct matrix_properties { /* VkCooperativeMatrixPropertiesKHR */
    VkStructureType type;
    void *next;
    uint32_t m, n, k;
    int32_t a, b, c, result; /* VkComponentTypeKHR */
    VkBool32 saturates;
    int32_t scope;
} matrix_properties;

typedef VkResult(VKAPI_PTR *list_function)(VkPhysicalDevice device, uint32_t *count, matrix_properties *properties);

const vulkan_arch weft_vulkan_archs[] = {{"vulkan1.2-coop16-bf16-i8", 32, 16, 48 << 10, true, 32},
                                         {"vulkan1.2-coop16-bf16", 32, 16, 48 << 10, true, 0},
                                         {"vulkan1.2-coop16", 32, 16, 48 << 10, false, 0},
                                         {"vulkan1.2-coop8", 8, 8, 32 << 10, false, 8},
                                         {"vulkan1.2", 0, 0, 16 << 10, false, 0}};

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

enum { SIZES_MAX = 128 };

/* Does the device multiply matrices of this size, k deep, and types? */
static bool has_size(const matrix_properties *sizes, uint32_t count, uint32_t size, uint32_t k, int operand, int sum) {
    for (uint32_t i = 0; i < count; i++) {
        const matrix_properties *s = &sizes[i];
        if (s->m == size && s->n == size && s->k == k && s->a == operand && s->b == operand && s->c == sum &&
            s->result == sum && s->scope == SUBGROUP && !s->saturates)
            return true;
    }
    return false;
}

static uint32_t list_sizes(const vulkan_device *device, matrix_properties sizes[SIZES_MAX]) {
    list_function list = (list_function)device->api.GetInstanceProcAddr(
        device->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    memset(sizes, 0, SIZES_MAX * sizeof *sizes);
    for (int i = 0; i < SIZES_MAX; i++) sizes[i].type = (VkStructureType)TYPE_PROPERTIES;
    uint32_t count = SIZES_MAX;
    VkResult result = list ? list(device->physical, &count, sizes) : VK_ERROR_UNKNOWN;
    return result == VK_SUCCESS || result == VK_INCOMPLETE ? count : 0;
}

/* bfloat, bytes: the device has such types at all. */
static bool has_types(const matrix_properties *sizes, uint32_t count, const vulkan_arch *arch, bool bfloat,
                      bool bytes) {
    return has_size(sizes, count, arch->size, arch->size, COMPONENT_F16, COMPONENT_F32) &&
           (!arch->bfloat ||
            (bfloat && has_size(sizes, count, arch->size, arch->size, COMPONENT_BF16, COMPONENT_F32))) &&
           (!arch->i8_depth ||
            (bytes && has_size(sizes, count, arch->size, arch->i8_depth, COMPONENT_I8, COMPONENT_I32)));
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

/* What creating the device asks for. */
static void take_arch(vulkan_matrices *m) {
    if (m->arch == VULKAN_ARCHS - 1) return;
    bool bfloat = weft_vulkan_archs[m->arch].bfloat;
    m->control = (VkPhysicalDeviceSubgroupSizeControlFeaturesEXT){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE};
    void *next = m->controls_size ? &m->control : NULL;
    m->bfloat = (vulkan_bfloat_features){
        .type = (VkStructureType)TYPE_BFLOAT, .next = next, .bfloat = VK_TRUE, .matrices = VK_TRUE};
    m->features = (vulkan_matrix_features){
        .type = (VkStructureType)TYPE_FEATURES, .next = bfloat ? &m->bfloat : next, .matrices = VK_TRUE};
    m->extensions[m->extension_count++] = "VK_KHR_cooperative_matrix";
    if (bfloat) m->extensions[m->extension_count++] = "VK_KHR_shader_bfloat16";
    if (m->controls_size) m->extensions[m->extension_count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
}

void weft_vulkan_find_matrices(vulkan_device *device, bool memory_model, bool f16, bool bytes) {
    vulkan_matrices *m = &device->matrices;
    matrix_properties sizes[SIZES_MAX];
    *m = (vulkan_matrices){.arch = VULKAN_ARCHS - 1};
    if (!memory_model || !f16 || !has_extension(device, "VK_KHR_cooperative_matrix")) return;
    m->controls_size = has_extension(device, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
    bool has_bfloat = has_extension(device, "VK_KHR_shader_bfloat16");
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT};
    void *next = m->controls_size ? &control : NULL;
    vulkan_bfloat_features bfloat = {.type = (VkStructureType)TYPE_BFLOAT, .next = next};
    vulkan_matrix_features matrices = {.type = (VkStructureType)TYPE_FEATURES, .next = has_bfloat ? &bfloat : next};
    VkPhysicalDeviceFeatures2 has = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &matrices};
    device->api.GetPhysicalDeviceFeatures2(device->physical, &has);
    m->controls_size = m->controls_size && control.subgroupSizeControl && control.computeFullSubgroups;
    has_bfloat = has_bfloat && bfloat.bfloat && bfloat.matrices;
    uint32_t count = matrices.matrices ? list_sizes(device, sizes) : 0;
    for (int i = 0; count && i < VULKAN_ARCHS - 1; i++) {
        const vulkan_arch *arch = &weft_vulkan_archs[i];
        if (device->limits.maxComputeSharedMemorySize < arch->shared_bytes ||
            !has_types(sizes, count, arch, has_bfloat, bytes) ||
            !has_subgroup(device, arch->subgroup, m->controls_size, &m->asks))
            continue;
        m->arch = i;
        break;
    }
    take_arch(m);
}
