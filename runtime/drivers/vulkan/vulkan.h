/* The Vulkan driver's device: one per physical device and context.

   Memory handed out is a device address (buffer device addresses, Vulkan 1.2), so that programs do arithmetic on it and
   kernels take it as it is; a table of blocks finds the buffer for copies. Commands are written into one command buffer
   and submitted when somebody waits or it is long; between commands stands a full memory barrier: work is ordered.
   Arguments of launches and data on its way lie in one ring that is mapped by the host.
   Read next: device.c, matrices.c, memory.c, commands.c, module.c. */
#ifndef WEFT_RUNTIME_DRIVERS_VULKAN_VULKAN_H
#define WEFT_RUNTIME_DRIVERS_VULKAN_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "runtime/driver.h"
#include "runtime/drivers/blocks.h"
#include "runtime/drivers/drivers.h"

#define VULKAN_GLOBAL_FUNCTIONS(X) X(EnumerateInstanceVersion) X(CreateInstance)
#define VULKAN_INSTANCE_FUNCTIONS(X)                                                                                   \
    X(DestroyInstance)                                                                                                 \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceProperties2)                                                                                    \
    X(GetPhysicalDeviceFeatures2)                                                                                      \
    X(GetPhysicalDeviceMemoryProperties)                                                                               \
    X(EnumerateDeviceExtensionProperties)                                                                              \
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

/* Architectures, the most able one first; the last is what every device has. Zero: no matrices, any subgroup. A device
   runs what was made for its own and for later ones with matrices of the same size. */
typedef struct vulkan_arch {
    const char *name;
    uint32_t subgroup, size, shared_bytes; /* threads of a subgroup; rows of a matrix */
    bool bfloat;                           /* matrices of bf16 too */
    uint32_t i8_depth;                     /* matrices of i8 too, so deep; 0 = none */
} vulkan_arch;
enum { VULKAN_ARCHS = 5 };
extern const vulkan_arch weft_vulkan_archs[VULKAN_ARCHS];

typedef struct vulkan_matrix_features { /* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
    VkStructureType type;
    void *next;
    VkBool32 matrices, robust;
} vulkan_matrix_features;

typedef struct vulkan_bfloat_features { /* VkPhysicalDeviceShaderBfloat16FeaturesKHR */
    VkStructureType type;
    void *next;
    VkBool32 bfloat, dots, matrices;
} vulkan_bfloat_features;

typedef struct vulkan_matrices {
    int arch;                 /* of weft_vulkan_archs */
    bool controls_size, asks; /* a pipeline may, must ask for the subgroups of its arch */
    vulkan_matrix_features features;
    vulkan_bfloat_features bfloat;
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT control;
    const char *extensions[3];
    uint32_t extension_count;
} vulkan_matrices;

enum { VULKAN_RING_BYTES = 8 << 20, VULKAN_COMMANDS_MAX = 512 };

typedef struct vulkan_device {
    weft_block_device gpu; /* first; a block is a VkBuffer with its VkDeviceMemory */
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
    vulkan_matrices matrices;
    VkPipelineLayout layout; /* one push constant: the address of the arguments */
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    weft_block ring;
    size_t ring_used;
    int command_count;     /* written and not submitted */
    bool keeps_subnormals; /* modules may say so, and do */
    bool open;             /* the command buffer takes commands */
    bool lost;             /* VK_ERROR_DEVICE_LOST was seen: nothing works any more */
} vulkan_device;

/* "what: VK_ERROR_...". NULL for VK_SUCCESS. */
weft_status weft_vulkan_status(vulkan_device *device, VkResult result, const char *what) WEFT_MUST_USE;

/* matrices.c: fills device->matrices. The device has the Vulkan memory model; f16 arithmetic; integers of a byte. */
void weft_vulkan_find_matrices(vulkan_device *device, bool memory_model, bool f16, bool bytes);

/* memory.c, under the lock */
/* A buffer with memory of its own; host: that the host must see. */
weft_status weft_vulkan_block_create(vulkan_device *device, uint64_t bytes, bool host,
                                     weft_block *out_block) WEFT_MUST_USE;
void weft_vulkan_block_destroy(weft_device *device, weft_block *block);
extern const weft_block_calls weft_vulkan_blocks;
static inline VkBuffer vulkan_buffer(const weft_block *block) { return (VkBuffer)(uintptr_t)block->buffer; }

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

/* module.c */
weft_status weft_vulkan_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) WEFT_MUST_USE;
void weft_vulkan_unload(weft_device *device, weft_module *module);
weft_status weft_vulkan_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;

#endif
