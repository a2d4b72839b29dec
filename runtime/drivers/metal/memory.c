/* Blocks of memory, each an MTLBuffer in shared storage; freed ones are kept for requests of their size. See metal.h.
 */
#include <string.h>

#include "base/arena.h"
#include "runtime/drivers/metal/metal.h"

/* The first block that starts behind the address. */
static size_t upper_bound(const metal_device *device, const char *address) {
    size_t low = 0, high = device->block_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)device->blocks[middle].contents <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const metal_block *weft_metal_block_find(const metal_device *device, const void *memory, size_t bytes) {
    size_t at = upper_bound(device, memory);
    if (at == 0) return NULL;
    const metal_block *block = &device->blocks[at - 1];
    size_t offset = (size_t)((uintptr_t)memory - (uintptr_t)block->contents);
    return block->used && offset <= block->bytes && bytes <= block->bytes - offset ? block : NULL;
}

void weft_metal_release_blocks(metal_device *device, bool used_too) {
    size_t kept = 0;
    for (size_t i = 0; i < device->block_count; i++) {
        if (used_too || !device->blocks[i].used)
            weft_metal_tell(&device->api, device->blocks[i].buffer, device->api.release);
        else
            device->blocks[kept++] = device->blocks[i];
    }
    device->block_count = kept;
}

void weft_metal_trim(weft_device *base) {
    metal_device *device = (metal_device *)base;
    void *pool = weft_metal_enter(device);
    weft_status_release(weft_metal_flush(device));
    weft_metal_release_blocks(device, false);
    weft_metal_leave(device, pool);
}

/* At least one byte; small requests of similar sizes share blocks. */
static size_t rounded(size_t bytes) {
    size_t step = bytes < ((size_t)1 << 20) ? 256 : (size_t)1 << 16;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static metal_id new_buffer(const metal_device *device, size_t bytes) {
    return METAL_SEND(&device->api, metal_id, (metal_id, metal_sel, unsigned long, unsigned long), device->device,
                      new_buffer, (unsigned long)bytes, 0UL); /* options 0: shared storage, tracked hazards */
}

static weft_status insert_block(metal_device *device, size_t bytes, size_t *out_at) {
    if (device->buffer_limit > 0 && bytes > (size_t)device->buffer_limit)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "one buffer of %s holds %lld bytes at most", device->name,
                           (long long)device->buffer_limit);
    if (!WEFT_ARRAY_RESERVE(device->base.context->allocator, device->blocks, device->block_capacity,
                            device->block_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the table of blocks");
    metal_id buffer = new_buffer(device, bytes);
    if (!buffer) { /* what is kept unused may be in the way */
        WEFT_TRY(weft_metal_flush(device), "making room");
        weft_metal_release_blocks(device, false);
        buffer = new_buffer(device, bytes);
    }
    if (!buffer) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s has no room", device->name);
    char *contents = weft_metal_get(&device->api, buffer, device->api.contents);
    size_t at = upper_bound(device, contents);
    memmove(device->blocks + at + 1, device->blocks + at, (device->block_count++ - at) * sizeof *device->blocks);
    device->blocks[at] = (metal_block){contents, bytes, buffer, false};
    *out_at = at;
    return NULL;
}

static weft_status allocate(metal_device *device, size_t bytes, void **out_memory) {
    size_t size = rounded(bytes), at = device->block_count;
    if (device->lost)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s was lost; open it anew and load the program again", device->name);
    for (size_t i = 0; i < device->block_count && at == device->block_count; i++)
        if (!device->blocks[i].used && device->blocks[i].bytes == size) at = i;
    if (at == device->block_count)
        WEFT_TRY(insert_block(device, size, &at), "allocating %zu bytes beside %zu in use on metal:%d", bytes,
                 device->live_bytes, device->base.ordinal);
    if (device->poison) { /* a block from before may still be in use */
        WEFT_TRY(weft_metal_flush(device), "filling new memory");
        memset(device->blocks[at].contents, 0xff, size);
    }
    device->blocks[at].used = true;
    device->live_bytes += size;
    *out_memory = device->blocks[at].contents;
    return NULL;
}

weft_status weft_metal_allocate(weft_device *base, size_t bytes, void **out_memory) {
    metal_device *device = (metal_device *)base;
    *out_memory = NULL;
    void *pool = weft_metal_enter(device);
    weft_status status = allocate(device, bytes, out_memory);
    weft_metal_leave(device, pool);
    return status;
}

/* Work is ordered, so a block that was freed behind its last command may be given to the next one. */
void weft_metal_free(weft_device *base, void *memory, size_t bytes) {
    metal_device *device = (metal_device *)base;
    if (!memory) return;
    void *pool = weft_metal_enter(device);
    size_t at = upper_bound(device, memory);
    if (at > 0) {
        device->blocks[at - 1].used = false;
        device->live_bytes -= rounded(bytes);
    }
    weft_metal_leave(device, pool);
}
