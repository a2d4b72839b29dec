/* A Vulkan loader in front of the real one: passes everything on and lets what WEFT_FAKE_VULKAN names go wrong:
   "lost:n" the nth wait ends with VK_ERROR_DEVICE_LOST, "memory:n" the nth allocation has no memory; "devices=0" none
   is shown, "threads=n", "allocation=n", "version=n" (minor) change what the device says of itself. */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct {
    PFN_vkGetInstanceProcAddr instance_function;
    PFN_vkGetDeviceProcAddr device_function;
    PFN_vkEnumeratePhysicalDevices enumerate;
    PFN_vkGetPhysicalDeviceProperties2 properties;
    PFN_vkWaitForFences wait;
    PFN_vkAllocateMemory allocate;
    int waits, allocations;
} real;

/* "name:5" or "name=5": the number; -1: it is not named. */
static long long wanted(const char *name, char sign) {
    const char *list = getenv("WEFT_FAKE_VULKAN");
    size_t length = strlen(name);
    for (const char *at = list ? list : ""; *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, length) && at[length] == sign) return atoll(at + length + 1);
    return -1;
}

static VkResult enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices) {
    if (wanted("devices", '=') == 0) {
        *count = 0;
        return VK_SUCCESS;
    }
    return real.enumerate(instance, count, devices);
}

static void properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
    real.properties(device, out);
    long long threads = wanted("threads", '='), allocation = wanted("allocation", '='), minor = wanted("version", '=');
    if (threads >= 0) out->properties.limits.maxComputeWorkGroupInvocations = (uint32_t)threads;
    if (minor >= 0) out->properties.apiVersion = VK_MAKE_API_VERSION(0, 1, (uint32_t)minor, 0);
    for (VkBaseOutStructure *next = out->pNext; next; next = next->pNext)
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES && allocation >= 0)
            ((VkPhysicalDeviceMaintenance3Properties *)(void *)next)->maxMemoryAllocationSize =
                (VkDeviceSize)allocation;
}

/* Counts from the moment a failure is asked for. */
static VkResult wait(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all, uint64_t timeout) {
    VkResult result = real.wait(device, count, fences, all, timeout);
    long long lost = wanted("lost", ':');
    real.waits = lost < 0 ? 0 : real.waits + 1;
    return real.waits > 0 && real.waits == lost ? VK_ERROR_DEVICE_LOST : result;
}

static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks,
                         VkDeviceMemory *memory) {
    long long none = wanted("memory", ':');
    real.allocations = none < 0 ? 0 : real.allocations + 1;
    if (real.allocations > 0 && real.allocations >= none) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return real.allocate(device, info, callbacks, memory);
}

static PFN_vkVoidFunction device_function(VkDevice device, const char *name) {
    PFN_vkVoidFunction found = real.device_function(device, name);
    if (!strcmp(name, "vkWaitForFences")) {
        real.wait = (PFN_vkWaitForFences)found;
        return (PFN_vkVoidFunction)wait;
    }
    if (!strcmp(name, "vkAllocateMemory")) {
        real.allocate = (PFN_vkAllocateMemory)found;
        return (PFN_vkVoidFunction)allocate;
    }
    return found;
}

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    if (!real.instance_function) {
        void *library = dlopen(REAL_VULKAN, RTLD_NOW | RTLD_LOCAL),
             *address = library ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        if (!address) return NULL;
        memcpy(&real.instance_function, &address, sizeof address);
    }
    PFN_vkVoidFunction found = real.instance_function(instance, name);
    if (!strcmp(name, "vkEnumeratePhysicalDevices")) {
        real.enumerate = (PFN_vkEnumeratePhysicalDevices)found;
        return (PFN_vkVoidFunction)enumerate;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties2")) {
        real.properties = (PFN_vkGetPhysicalDeviceProperties2)found;
        return (PFN_vkVoidFunction)properties;
    }
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        real.device_function = (PFN_vkGetDeviceProcAddr)found;
        return (PFN_vkVoidFunction)device_function;
    }
    return found;
}
