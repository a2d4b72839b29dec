/* The command buffer, its encoders, and copies. The host writes and reads buffers directly, once nothing is under way.
   See metal.h. */
#include <string.h>

#include "runtime/drivers/metal/metal.h"

/* Of MTLCommandBufferStatus and MTLCommandBufferError. */
enum { COMMANDS_MAX = 1024, STATUS_COMPLETED = 4, ERROR_OUT_OF_MEMORY = 8 };

static weft_status lost(const metal_device *device) {
    return WEFT_STATUS(WEFT_UNAVAILABLE, "%s was lost; open it anew and load the program again", device->name);
}

static void end_encoder(metal_device *device) {
    if (!device->encoder) return;
    weft_metal_tell(&device->api, device->encoder, device->api.end);
    weft_metal_tell(&device->api, device->encoder, device->api.release);
    device->encoder = NULL;
}

static weft_status result_of(metal_device *device, metal_id commands) {
    const metal_api *api = &device->api;
    if (weft_metal_number(api, commands, api->status) == STATUS_COMPLETED) return NULL;
    metal_id error = weft_metal_get(api, commands, api->error);
    const char *text = weft_metal_error(api, error);
    if (error && weft_metal_number(api, error, api->code) == ERROR_OUT_OF_MEMORY)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: %.300s", device->name, text);
    device->lost = true;
    return WEFT_STATUS(
        WEFT_UNAVAILABLE,
        "%s: a command buffer failed: %.300s: the device is lost; open it anew and load the program again",
        device->name, text);
}

weft_status weft_metal_flush(metal_device *device) {
    const metal_api *api = &device->api;
    metal_id commands = device->commands;
    device->command_count = 0;
    if (device->lost) return lost(device);
    if (!commands) return NULL;
    end_encoder(device);
    device->commands = NULL;
    weft_metal_tell(api, commands, api->commit);
    weft_metal_tell(api, commands, api->wait);
    weft_status status = result_of(device, commands);
    weft_metal_tell(api, commands, api->release);
    return status;
}

weft_status weft_metal_encoder(metal_device *device, bool copying, metal_id *out_encoder) {
    const metal_api *api = &device->api;
    *out_encoder = NULL;
    if (device->lost) return lost(device);
    if (device->command_count++ >= COMMANDS_MAX) WEFT_TRY(weft_metal_flush(device), "committing commands");
    if (device->encoder && device->copying != copying) end_encoder(device);
    if (!device->commands) {
        metal_id made = weft_metal_get(api, device->queue, api->command_buffer);
        if (!made) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s gives no command buffer", device->name);
        device->commands = weft_metal_get(api, made, api->retain);
    }
    if (!device->encoder) {
        metal_id made = weft_metal_get(api, device->commands, copying ? api->copy_encoder : api->compute_encoder);
        if (!made) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s gives no command encoder", device->name);
        device->encoder = weft_metal_get(api, made, api->retain);
        device->copying = copying;
    }
    *out_encoder = device->encoder;
    return NULL;
}

static weft_status transfer(metal_device *device, void *to, const void *from, const void *ours, size_t bytes) {
    const weft_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, &device->gpu.base, ours, bytes, &block, &offset), "transfer");
    WEFT_TRY(weft_metal_flush(device), "transfer");
    memcpy(to, from, bytes);
    return NULL;
}

weft_status weft_metal_upload(weft_device *base, void *to, const void *from, size_t bytes) {
    return transfer((metal_device *)base, to, from, to, bytes);
}

weft_status weft_metal_download(weft_device *base, void *to, const void *from, size_t bytes) {
    return transfer((metal_device *)base, to, from, from, bytes);
}

/* Metal copies whole words that do not overlap; the rest is the host's. */
weft_status weft_metal_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    metal_device *device = (metal_device *)base;
    const weft_block *source = NULL, *target = NULL;
    uint64_t source_offset = 0, target_offset = 0;
    metal_id encoder;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, from, bytes, &source, &source_offset), "copy");
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, to, bytes, &target, &target_offset), "copy");
    bool apart = source != target || source_offset + bytes <= target_offset || target_offset + bytes <= source_offset;
    if ((source_offset | target_offset | bytes) % 4 || !apart) {
        WEFT_TRY(weft_metal_flush(device), "copy");
        memmove(to, from, bytes);
        return NULL;
    }
    WEFT_TRY(weft_metal_encoder(device, true, &encoder), "copy");
    METAL_SEND(&device->api, void,
               (metal_id, metal_sel, metal_id, unsigned long, metal_id, unsigned long, unsigned long), encoder, copy,
               (metal_id)(uintptr_t)source->buffer, (unsigned long)source_offset, (metal_id)(uintptr_t)target->buffer,
               (unsigned long)target_offset, (unsigned long)bytes);
    return NULL;
}
