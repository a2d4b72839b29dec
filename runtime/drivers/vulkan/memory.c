/* Blocks of device memory, each a buffer with an address. Memory that the host sees is preferred: with integrated and
   software devices, and where the whole card is mapped, copies need no staging. See vulkan.h. */
#include "runtime/drivers/vulkan/vulkan.h"

static bool find_type(const vulkan_device *device, uint32_t allowed, VkMemoryPropertyFlags flags, uint32_t *out_type) {
    for (uint32_t i = 0; i < device->memory.memoryTypeCount; i++)
        if ((allowed >> i & 1) && (device->memory.memoryTypes[i].propertyFlags & flags) == flags) {
            *out_type = i;
            return true;
        }
    return false;
}

static bool choose_type(const vulkan_device *device, uint32_t allowed, bool host, uint32_t *out_type) {
    const VkMemoryPropertyFlags seen = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    if (find_type(device, allowed, seen | local, out_type)) return true;
    if (host) return find_type(device, allowed, seen, out_type);
    return find_type(device, allowed, local, out_type) || find_type(device, allowed, 0, out_type);
}

static weft_status bind_memory(vulkan_device *device, bool host, weft_block *block) {
    vulkan_api *api = &device->api;
    VkMemoryRequirements needs;
    uint32_t type;
    api->GetBufferMemoryRequirements(device->device, vulkan_buffer(block), &needs);
    if (!choose_type(device, needs.memoryTypeBits, host, &type))
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s has no memory of the kind that is needed", device->name);
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = type};
    VkDeviceMemory memory = VK_NULL_HANDLE;
    WEFT_TRY(weft_vulkan_status(device, api->AllocateMemory(device->device, &info, NULL, &memory), "vkAllocateMemory"),
             "%s", device->name);
    block->memory = (uint64_t)(uintptr_t)memory;
    WEFT_TRY(weft_vulkan_status(device, api->BindBufferMemory(device->device, vulkan_buffer(block), memory, 0),
                                "vkBindBufferMemory"),
             "%s", device->name);
    if (device->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) {
        void *mapped = NULL;
        WEFT_TRY(weft_vulkan_status(device, api->MapMemory(device->device, memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                                    "vkMapMemory"),
                 "%s", device->name);
        block->mapped = mapped;
    }
    const VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                               .buffer = vulkan_buffer(block)};
    block->address = api->GetBufferDeviceAddress(device->device, &address);
    return NULL;
}

weft_status weft_vulkan_block_create(vulkan_device *device, uint64_t bytes, bool host, weft_block *out_block) {
    *out_block = (weft_block){.bytes = bytes};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = bytes,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                              VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    VkBuffer buffer = VK_NULL_HANDLE;
    WEFT_TRY(
        weft_vulkan_status(device, device->api.CreateBuffer(device->device, &info, NULL, &buffer), "vkCreateBuffer"),
        "%llu bytes on %s", (unsigned long long)bytes, device->name);
    out_block->buffer = (uint64_t)(uintptr_t)buffer;
    weft_status status = bind_memory(device, host, out_block);
    if (status) weft_vulkan_block_destroy(&device->gpu.base, out_block);
    return status;
}

void weft_vulkan_block_destroy(weft_device *base, weft_block *block) {
    vulkan_device *device = (vulkan_device *)base;
    if (block->buffer) device->api.DestroyBuffer(device->device, vulkan_buffer(block), NULL);
    if (block->memory) device->api.FreeMemory(device->device, (VkDeviceMemory)(uintptr_t)block->memory, NULL);
    *block = (weft_block){0};
}

static weft_status create(weft_device *base, uint64_t bytes, weft_block *out_block) {
    return weft_vulkan_block_create((vulkan_device *)base, bytes, false, out_block);
}

static weft_status flush(weft_device *base) { return weft_vulkan_flush((vulkan_device *)base); }

static weft_status poison(weft_device *base, const weft_block *block) {
    vulkan_device *device = (vulkan_device *)base;
    WEFT_TRY(weft_vulkan_begin(device, 0, NULL), "filling");
    device->api.CmdFillBuffer(device->commands, vulkan_buffer(block), 0, VK_WHOLE_SIZE, UINT32_MAX);
    return NULL;
}

const weft_block_calls weft_vulkan_blocks = {.create = create,
                                             .destroy = weft_vulkan_block_destroy,
                                             .flush = flush,
                                             .poison = poison,
                                             .upload = weft_vulkan_upload,
                                             .download = weft_vulkan_download,
                                             .copy = weft_vulkan_copy};
