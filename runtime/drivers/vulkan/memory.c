/* Blocks of device memory, each a buffer with an address; freed ones are kept for requests of their size. Memory that
   the host sees is preferred: with integrated and software devices, and where the whole card is mapped, copies need no
   staging. See vulkan.h. */
#include "runtime/drivers/vulkan/vulkan.h"

#include <string.h>

#include "base/arena.h"

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

static weft_status bind_memory(vulkan_device *device, bool host, vulkan_block *block) {
    vulkan_api *api = &device->api;
    VkMemoryRequirements needs;
    uint32_t type;
    api->GetBufferMemoryRequirements(device->device, block->buffer, &needs);
    if (!choose_type(device, needs.memoryTypeBits, host, &type))
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s has no memory of the kind that is needed", device->name);
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = type};
    WEFT_TRY(weft_vulkan_status(device, api->AllocateMemory(device->device, &info, NULL, &block->memory),
                                "vkAllocateMemory"),
             "%s", device->name);
    WEFT_TRY(weft_vulkan_status(device, api->BindBufferMemory(device->device, block->buffer, block->memory, 0),
                                "vkBindBufferMemory"),
             "%s", device->name);
    if (device->memory.memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) {
        void *mapped = NULL;
        WEFT_TRY(weft_vulkan_status(device, api->MapMemory(device->device, block->memory, 0, VK_WHOLE_SIZE, 0, &mapped),
                                    "vkMapMemory"),
                 "%s", device->name);
        block->mapped = mapped;
    }
    const VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                               .buffer = block->buffer};
    block->address = api->GetBufferDeviceAddress(device->device, &address);
    return NULL;
}

weft_status weft_vulkan_block_create(vulkan_device *device, size_t bytes, bool host, vulkan_block *out_block) {
    *out_block = (vulkan_block){.bytes = bytes, .used = true};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = bytes,
                                     .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                              VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                              VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT};
    WEFT_TRY(weft_vulkan_status(device, device->api.CreateBuffer(device->device, &info, NULL, &out_block->buffer),
                                "vkCreateBuffer"),
             "%zu bytes on %s", bytes, device->name);
    weft_status status = bind_memory(device, host, out_block);
    if (status) weft_vulkan_block_destroy(device, out_block);
    return status;
}

void weft_vulkan_block_destroy(vulkan_device *device, vulkan_block *block) {
    if (block->buffer) device->api.DestroyBuffer(device->device, block->buffer, NULL);
    if (block->memory) device->api.FreeMemory(device->device, block->memory, NULL);
    *block = (vulkan_block){0};
}

/* The first block that starts behind the address. */
static size_t upper_bound(const vulkan_device *device, uint64_t address) {
    size_t low = 0, high = device->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (device->blocks[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const vulkan_block *weft_vulkan_block_find(const vulkan_device *device, const void *memory, size_t bytes) {
    uint64_t address = (uint64_t)(uintptr_t)memory;
    size_t at = upper_bound(device, address);
    if (at == 0) return NULL;
    const vulkan_block *block = &device->blocks[at - 1];
    uint64_t offset = address - block->address;
    return block->used && offset <= block->bytes && bytes <= block->bytes - offset ? block : NULL;
}

static size_t rounded(size_t bytes) {
    size_t step = bytes < ((size_t)1 << 20) ? 256 : (size_t)1 << 16;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static void remove_block(vulkan_device *device, size_t at) {
    weft_vulkan_block_destroy(device, &device->blocks[at]);
    memmove(device->blocks + at, device->blocks + at + 1, (--device->block_count - at) * sizeof *device->blocks);
}

static void release_unused(vulkan_device *device) {
    weft_status_release(weft_vulkan_flush(device));
    for (size_t i = device->block_count; i-- > 0;)
        if (!device->blocks[i].used) remove_block(device, i);
}

void weft_vulkan_trim(weft_device *base) {
    vulkan_device *device = (vulkan_device *)base;
    (void)pthread_mutex_lock(&device->lock);
    release_unused(device);
    (void)pthread_mutex_unlock(&device->lock);
}

static weft_status insert_block(vulkan_device *device, size_t size, size_t *out_at) {
    if (device->allocation_limit && size > device->allocation_limit)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "one allocation of %s holds %llu bytes at most", device->name,
                           (unsigned long long)device->allocation_limit);
    if (!WEFT_ARRAY_RESERVE(device->base.context->allocator, device->blocks, device->block_capacity,
                            device->block_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the table of blocks");
    vulkan_block block;
    weft_status status = weft_vulkan_block_create(device, size, false, &block);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) {
        weft_status_release(status);
        release_unused(device);
        status = weft_vulkan_block_create(device, size, false, &block);
    }
    if (status) return status;
    size_t at = upper_bound(device, block.address);
    memmove(device->blocks + at + 1, device->blocks + at, (device->block_count++ - at) * sizeof *device->blocks);
    device->blocks[at] = block;
    *out_at = at;
    return NULL;
}

static weft_status allocate(vulkan_device *device, size_t bytes, void **out_memory) {
    size_t size = rounded(bytes), at = device->block_count;
    for (size_t i = 0; i < device->block_count && at == device->block_count; i++)
        if (!device->blocks[i].used && device->blocks[i].bytes == size) at = i;
    if (at == device->block_count)
        WEFT_TRY(insert_block(device, size, &at), "allocating %zu bytes beside %zu in use on vulkan:%d", bytes,
                 device->live_bytes, device->base.ordinal);
    vulkan_block *block = &device->blocks[at];
    block->used = true;
    device->live_bytes += size;
    *out_memory = (void *)(uintptr_t)block->address;
    if (!device->poison) return NULL;
    WEFT_TRY(weft_vulkan_begin(device, 0, NULL), "filling new memory");
    device->api.CmdFillBuffer(device->commands, block->buffer, 0, VK_WHOLE_SIZE, UINT32_MAX);
    return NULL;
}

weft_status weft_vulkan_allocate(weft_device *base, size_t bytes, void **out_memory) {
    vulkan_device *device = (vulkan_device *)base;
    *out_memory = NULL;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = allocate(device, bytes, out_memory);
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

/* Work is ordered, so a block that was freed after its last command may be given to the next one. */
void weft_vulkan_free(weft_device *base, void *memory, size_t bytes) {
    vulkan_device *device = (vulkan_device *)base;
    if (!memory) return;
    (void)pthread_mutex_lock(&device->lock);
    size_t at = upper_bound(device, (uint64_t)(uintptr_t)memory);
    if (at > 0) {
        device->blocks[at - 1].used = false;
        device->live_bytes -= rounded(bytes);
    }
    (void)pthread_mutex_unlock(&device->lock);
}
