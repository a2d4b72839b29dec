/* The command buffer, the ring that the host writes, and copies. See vulkan.h. */
#include "runtime/drivers/vulkan/vulkan.h"

#include <string.h>

weft_status weft_vulkan_flush(vulkan_device *device) {
    vulkan_api *api = &device->api;
    device->ring_used = 0;
    device->command_count = 0;
    if (!device->open) return NULL;
    device->open = false;
    WEFT_TRY(weft_vulkan_status(device, api->EndCommandBuffer(device->commands), "vkEndCommandBuffer"), "%s",
             device->name);
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &device->commands};
    WEFT_TRY(weft_vulkan_status(device, api->QueueSubmit(device->queue, 1, &submit, device->fence), "vkQueueSubmit"),
             "%s", device->name);
    WEFT_TRY(weft_vulkan_status(device, api->WaitForFences(device->device, 1, &device->fence, VK_TRUE, UINT64_MAX),
                                "waiting for the device"),
             "%s", device->name);
    return weft_vulkan_status(device, api->ResetFences(device->device, 1, &device->fence), "vkResetFences");
}

weft_status weft_vulkan_begin(vulkan_device *device, size_t bytes, size_t *out_offset) {
    size_t size = (bytes + 15) / 16 * 16;
    if (device->lost)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s was lost; open it anew and load the program again", device->name);
    if (device->command_count >= VULKAN_COMMANDS_MAX || size > VULKAN_RING_BYTES - device->ring_used)
        WEFT_TRY(weft_vulkan_flush(device), "submitting commands");
    if (out_offset) *out_offset = device->ring_used;
    device->ring_used += size;
    if (!device->open) {
        const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                               .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
        WEFT_TRY(
            weft_vulkan_status(device, device->api.BeginCommandBuffer(device->commands, &info), "vkBeginCommandBuffer"),
            "%s", device->name);
        device->open = true;
    }
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    if (device->command_count++ > 0)
        device->api.CmdPipelineBarrier(device->commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
    return NULL;
}

/* The command buffer is open. */
static void record_copy(vulkan_device *device, VkBuffer from, uint64_t from_offset, VkBuffer to, uint64_t to_offset,
                        uint64_t bytes) {
    const VkBufferCopy region = {from_offset, to_offset, bytes};
    device->api.CmdCopyBuffer(device->commands, from, to, 1, &region);
}

/* Through the ring, piece by piece, in order with the commands before; straight into memory the host sees when nothing
   is under way. */
weft_status weft_vulkan_upload(weft_device *base, void *to, const void *data, size_t bytes) {
    vulkan_device *device = (vulkan_device *)base;
    const unsigned char *from = data;
    const weft_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, to, bytes, &block, &offset), "upload");
    if (block->mapped && device->command_count == 0) {
        memcpy(block->mapped + offset, from, bytes);
        return NULL;
    }
    for (size_t done = 0, piece; done < bytes; done += piece) {
        size_t at = 0;
        piece = bytes - done < VULKAN_RING_BYTES / 2 ? bytes - done : VULKAN_RING_BYTES / 2;
        WEFT_TRY(weft_vulkan_begin(device, piece, &at), "upload");
        memcpy(device->ring.mapped + at, from + done, piece);
        record_copy(device, vulkan_buffer(&device->ring), at, vulkan_buffer(block), offset + done, piece);
    }
    return NULL;
}

weft_status weft_vulkan_download(weft_device *base, void *data, const void *from, size_t bytes) {
    vulkan_device *device = (vulkan_device *)base;
    unsigned char *to = data;
    const weft_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, from, bytes, &block, &offset), "download");
    if (block->mapped) {
        WEFT_TRY(weft_vulkan_flush(device), "download");
        memcpy(to, block->mapped + offset, bytes);
        return NULL;
    }
    for (size_t done = 0, piece; done < bytes; done += piece) {
        size_t at = 0;
        piece = bytes - done < VULKAN_RING_BYTES / 2 ? bytes - done : VULKAN_RING_BYTES / 2;
        WEFT_TRY(weft_vulkan_begin(device, piece, &at), "download");
        record_copy(device, vulkan_buffer(block), offset + done, vulkan_buffer(&device->ring), at, piece);
        WEFT_TRY(weft_vulkan_flush(device), "download");
        memcpy(to + done, device->ring.mapped + at, piece);
    }
    return NULL;
}

weft_status weft_vulkan_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    vulkan_device *device = (vulkan_device *)base;
    const weft_block *source = NULL, *target = NULL;
    uint64_t source_offset = 0, target_offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, from, bytes, &source, &source_offset), "copy");
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, to, bytes, &target, &target_offset), "copy");
    WEFT_TRY(weft_vulkan_begin(device, 0, NULL), "copy");
    record_copy(device, vulkan_buffer(source), source_offset, vulkan_buffer(target), target_offset, bytes);
    return NULL;
}
