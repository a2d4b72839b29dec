/* Devices of the Metal driver. Needed is an Apple7 GPU (M1, A14) or later: one memory with the host, simdgroups of 32.
   See metal.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/drivers/metal/metal.h"

enum { FAMILY_APPLE = 1000, FAMILY_LEAST = 7, FAMILY_MOST = 19 };

static bool supports(const metal_device *device, int family) {
    return METAL_SEND(&device->api, signed char, (metal_id, metal_sel, long), device->device, supports_family,
                      (long)FAMILY_APPLE + family) != 0;
}

static weft_status choose_device(metal_device *device) {
    const metal_api *api = &device->api;
    metal_id all = api->all_devices(); /* ours, as the name says */
    unsigned long count = all ? weft_metal_number(api, all, api->count) : 0;
    int ordinal = device->gpu.base.ordinal;
    if (count > (unsigned long)ordinal)
        device->device = weft_metal_get(
            api,
            METAL_SEND(api, metal_id, (metal_id, metal_sel, unsigned long), all, object_at, (unsigned long)ordinal),
            api->retain);
    if (all) weft_metal_tell(api, all, api->release);
    if (count == 0) return WEFT_STATUS(WEFT_UNAVAILABLE, "Metal shows no device");
    if (!device->device)
        return WEFT_STATUS(WEFT_NOT_FOUND, "there is no metal:%d: Metal shows %lu devices", ordinal, count);
    (void)snprintf(device->name, sizeof device->name, "%.127s",
                   weft_metal_text(api, weft_metal_get(api, device->device, api->name)));
    while (device->family < FAMILY_MOST && supports(device, device->family ? device->family + 1 : FAMILY_LEAST))
        device->family += device->family ? 1 : FAMILY_LEAST;
    if (!device->family)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s is no GPU of the family Apple7 (M1, A14) or a later one",
                           device->name);
    device->memory_bytes = (int64_t)weft_metal_number(api, device->device, api->working_set);
    device->gpu.blocks.limit = weft_metal_number(api, device->device, api->buffer_limit);
    device->queue = weft_metal_get(api, device->device, api->new_queue);
    if (!device->queue) return WEFT_STATUS(WEFT_UNAVAILABLE, "%s gives no command queue", device->name);
    return NULL;
}

static void metal_close(weft_device *base) {
    metal_device *device = (metal_device *)base;
    const metal_api *api = &device->api;
    weft_allocator allocator = base->context->allocator;
    if (device->device) {
        void *pool = weft_block_device_enter(base);
        weft_status_release(weft_metal_flush(device));
        weft_blocks_deinit(&device->gpu.blocks, base);
        if (device->queue) weft_metal_tell(api, device->queue, api->release);
        weft_metal_tell(api, device->device, api->release);
        weft_block_device_leave(base, pool);
    }
    weft_block_device_deinit(&device->gpu);
    weft_free(allocator, device, sizeof *device);
}

static weft_status metal_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    metal_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    weft_block_device_init(&device->gpu, context, &weft_driver_metal, ordinal, &weft_metal_blocks);
    weft_status status = weft_metal_api_open(context->allocator, &device->api);
    if (!status) {
        void *pool = weft_block_device_enter(&device->gpu.base);
        status = choose_device(device);
        weft_block_device_leave(&device->gpu.base, pool);
    }
    if (status)
        metal_close(&device->gpu.base);
    else
        *out_device = &device->gpu.base;
    return status;
}

static void metal_info(const weft_device *base, weft_device_info *out_info) {
    const metal_device *device = (const metal_device *)base;
    *out_info = (weft_device_info){.driver = "metal", .memory_bytes = device->memory_bytes, .ordinal = base->ordinal};
    (void)snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
    /* the newest record that is known: code for it runs on later families */
    (void)snprintf(out_info->arch, sizeof out_info->arch, "apple%d", device->family < 9 ? device->family : 9);
}

/* "apple8" runs on Apple8 and later. */
static int metal_match(const weft_device *base, const char *arch) {
    const metal_device *device = (const metal_device *)base;
    int family = 0;
    char rest = 0;
    bool read = sscanf(arch, "apple%d%c", &family, &rest) == 1;
    return read && family >= FAMILY_LEAST && family <= device->family ? family : 0;
}

const weft_driver weft_driver_metal = {.name = "metal",
                                       .open = metal_open,
                                       .close = metal_close,
                                       .info = metal_info,
                                       .match = metal_match,
                                       .load = weft_metal_load,
                                       .unload = weft_metal_unload,
                                       .allocate = weft_block_device_allocate,
                                       .free = weft_block_device_free,
                                       .upload = weft_block_device_upload,
                                       .download = weft_block_device_download,
                                       .copy = weft_block_device_copy,
                                       .launch = weft_metal_launch,
                                       .synchronise = weft_block_device_synchronise,
                                       .trim = weft_block_device_trim};
