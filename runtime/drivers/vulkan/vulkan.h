/* The Vulkan driver's device: one per physical device and context.

   Memory handed out is a device address (buffer device addresses, Vulkan 1.2), so that programs do arithmetic on it and
   kernels take it as it is; a table of blocks finds the buffer for copies. Commands are written into one command buffer
   and submitted when somebody waits or it is long; between commands stands a full memory barrier: work is ordered.
   Arguments of launches and data on its way lie in one ring that is mapped by the host.
   One lock guards everything. Read next: device.c, memory.c, commands.c, module.c. */
#ifndef WEFT_RUNTIME_DRIVERS_VULKAN_VULKAN_H
#define WEFT_RUNTIME_DRIVERS_VULKAN_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <pthread.h>

#include "runtime/driver.h"
#include "runtime/drivers/drivers.h"

#define VULKAN_GLOBAL_FUNCTIONS(X) X(EnumerateInstanceVersion) X(CreateInstance)
#define VULKAN_INSTANCE_FUNCTIONS(X)                                                                                   \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties)                                                                               \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(CreateDevice)                                                                                                    \
    X(GetDeviceProcAddr)
#define VULKAN_DEVICE_FUNCTIONS(X)                                                                                     \
    X(DestroyDevice)                                                                                                   \
    X(GetDeviceQueue)                                                                                                  \
    X(CreateBuffer)                                                                                                    \
    X(DestroyBuffer)                                                                                                   \
    X(GetBufferMemoryRequirements)                                                                                     \
    X(GetBufferDeviceAddress)                                                                                          \
    X(AllocateMemory)                                                                                                  \
    X(FreeMemory)                                                                                                      \
    X(BindBufferMemory)                                                                                                \
    X(MapMemory)                                                                                                       \
    X(CreateShaderModule)                                                                                              \
    X(DestroyShaderModule)                                                                                             \
    X(CreatePipelineLayout)                                                                                            \
    X(DestroyPipelineLayout)                                                                                           \
    X(CreateComputePipelines)                                                                                          \
    X(DestroyPipeline)                                                                                                 \
    X(CreateCommandPool)                                                                                               \
    X(DestroyCommandPool)                                                                                              \
    X(AllocateCommandBuffers)                                                                                          \
    X(BeginCommandBuffer)                                                                                              \
    X(EndCommandBuffer)                                                                                                \
    X(CmdPipelineBarrier)                                                                                              \
    X(CmdBindPipeline)                                                                                                 \
    X(CmdPushConstants)                                                                                                \
    X(CmdDispatch)                                                                                                     \
    X(CmdCopyBuffer)                                                                                                   \
    X(CmdFillBuffer)                                                                                                   \
    X(CreateFence)                                                                                                     \
    X(DestroyFence)                                                                                                    \
    X(ResetFences)                                                                                                     \
    X(WaitForFences)                                                                                                   \
    X(QueueSubmit)

typedef struct vulkan_api {
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define X(name) PFN_vk##name name;
    VULKAN_GLOBAL_FUNCTIONS(X) VULKAN_INSTANCE_FUNCTIONS(X) VULKAN_DEVICE_FUNCTIONS(X)
#undef X
} vulkan_api;

typedef struct vulkan_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address;
    size_t bytes;
    unsigned char *mapped; /* NULL: the host does not see it */
    bool used;             /* else kept for the next allocation of its size */
} vulkan_block;

enum { VULKAN_RING_BYTES = 8 << 20, VULKAN_COMMANDS_MAX = 512 };

typedef struct vulkan_device {
    weft_device base;
    vulkan_api api;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    char name[128];
    int64_t memory_bytes;
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceLimits limits;
    uint64_t allocation_limit; /* bytes of one allocation */
    VkPipelineLayout layout;   /* one push constant: the address of the arguments */
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    pthread_mutex_t lock;
    vulkan_block *blocks; /* sorted by address */
    size_t block_count, block_capacity, live_bytes;
    vulkan_block ring;
    size_t ring_used;
    int command_count; /* written and not submitted */
    bool open;         /* the command buffer takes commands */
    bool poison;       /* new memory is filled with 0xff */
    bool lost;         /* VK_ERROR_DEVICE_LOST was seen: nothing works any more */
} vulkan_device;

/* "what: VK_ERROR_...". NULL for VK_SUCCESS. */
weft_status weft_vulkan_status(vulkan_device *device, VkResult result, const char *what) WEFT_MUST_USE;

/* memory.c: blocks, under the lock */
weft_status weft_vulkan_block_create(vulkan_device *device, size_t bytes, bool host,
                                     vulkan_block *out_block) WEFT_MUST_USE;
void weft_vulkan_block_destroy(vulkan_device *device, vulkan_block *block);
/* The block around [memory, memory + bytes), or NULL. */
const vulkan_block *weft_vulkan_block_find(const vulkan_device *device, const void *memory, size_t bytes);
weft_status weft_vulkan_allocate(weft_device *device, size_t bytes, void **out_memory) WEFT_MUST_USE;
void weft_vulkan_free(weft_device *device, void *memory, size_t bytes);
void weft_vulkan_trim(weft_device *device);

/* commands.c */
/* Before a command is written: opens the command buffer, with a barrier against what came before, and takes room in the
   ring (16-byte aligned, bytes <= VULKAN_RING_BYTES), which is the command's until it has run. out_offset may be NULL.
 */
weft_status weft_vulkan_begin(vulkan_device *device, size_t bytes, size_t *out_offset) WEFT_MUST_USE;
/* Submits what is written and waits for it. */
weft_status weft_vulkan_flush(vulkan_device *device) WEFT_MUST_USE;
weft_status weft_vulkan_upload(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_vulkan_download(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_vulkan_copy(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_vulkan_synchronise(weft_device *device) WEFT_MUST_USE;

/* module.c */
weft_status weft_vulkan_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) WEFT_MUST_USE;
void weft_vulkan_unload(weft_device *device, weft_module *module);
weft_status weft_vulkan_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;

#endif
