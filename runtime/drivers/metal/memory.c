/* Blocks of memory, each an MTLBuffer in shared storage. See metal.h. */
#include <string.h>

#include "runtime/drivers/metal/metal.h"

static weft_status create(weft_device *base, uint64_t bytes, weft_block *out_block) {
    metal_device *device = (metal_device *)base;
    const metal_api *api = &device->api;
    if (device->lost)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s was lost; open it anew and load the program again", device->name);
    metal_id buffer =
        METAL_SEND(api, metal_id, (metal_id, metal_sel, unsigned long, unsigned long), device->device, new_buffer,
                   (unsigned long)bytes, 0UL); /* options 0: shared storage, tracked hazards */
    if (!buffer) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s has no room", device->name);
    out_block->buffer = (uint64_t)(uintptr_t)buffer;
    out_block->mapped = weft_metal_get(api, buffer, api->contents);
    out_block->address = (uint64_t)(uintptr_t)out_block->mapped;
    return NULL;
}

static void destroy(weft_device *base, weft_block *block) {
    metal_device *device = (metal_device *)base;
    weft_metal_tell(&device->api, (metal_id)(uintptr_t)block->buffer, device->api.release);
}

static weft_status flush(weft_device *base) { return weft_metal_flush((metal_device *)base); }

/* A block from before may still be in use. */
static weft_status poison(weft_device *base, const weft_block *block) {
    WEFT_TRY(weft_metal_flush((metal_device *)base), "waiting");
    memset(block->mapped, 0xff, (size_t)block->bytes);
    return NULL;
}

static void *begin(weft_device *base) {
    return ((metal_device *)base)->api.push_pool ? ((metal_device *)base)->api.push_pool() : NULL;
}

static void end(weft_device *base, void *pool) {
    if (pool) ((metal_device *)base)->api.pop_pool(pool);
}

const weft_block_calls weft_metal_blocks = {.create = create,
                                            .destroy = destroy,
                                            .flush = flush,
                                            .poison = poison,
                                            .upload = weft_metal_upload,
                                            .download = weft_metal_download,
                                            .copy = weft_metal_copy,
                                            .begin = begin,
                                            .end = end};
