/* See blocks.h. */
#include "runtime/drivers/blocks.h"

#include <string.h>

#include "base/arena.h"

void weft_blocks_init(weft_blocks *blocks, const weft_block_calls *calls, bool poison) {
    *blocks = (weft_blocks){.calls = calls, .poison = poison};
}

static void release(weft_blocks *blocks, weft_device *device, bool used_too) {
    size_t kept = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        if (used_too || !blocks->list[i].used)
            blocks->calls->destroy(device, &blocks->list[i]);
        else
            blocks->list[kept++] = blocks->list[i];
    }
    blocks->count = kept;
}

void weft_blocks_deinit(weft_blocks *blocks, weft_device *device) {
    release(blocks, device, true);
    weft_free(device->context->allocator, blocks->list, blocks->capacity * sizeof *blocks->list);
    *blocks = (weft_blocks){.calls = blocks->calls};
}

void weft_blocks_trim(weft_blocks *blocks, weft_device *device) {
    weft_status_release(blocks->calls->flush(device));
    release(blocks, device, false);
}

/* The first block that starts behind the address. */
static size_t upper_bound(const weft_blocks *blocks, uint64_t address) {
    size_t low = 0, high = blocks->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (blocks->list[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const weft_block *weft_blocks_find(const weft_blocks *blocks, const void *memory, size_t bytes) {
    uint64_t address = (uint64_t)(uintptr_t)memory;
    size_t at = upper_bound(blocks, address);
    if (at == 0) return NULL;
    const weft_block *block = &blocks->list[at - 1];
    uint64_t offset = address - block->address;
    return block->used && offset <= block->bytes && bytes <= block->bytes - offset ? block : NULL;
}

weft_status weft_blocks_locate(const weft_blocks *blocks, const weft_device *device, const void *memory, size_t bytes,
                               const weft_block **out_block, uint64_t *out_offset) {
    *out_block = weft_blocks_find(blocks, memory, bytes);
    if (!*out_block)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%zu bytes at %p are no memory of %s:%d", bytes, memory,
                           device->driver->name, device->ordinal);
    *out_offset = (uint64_t)(uintptr_t)memory - (*out_block)->address;
    return NULL;
}

/* At least one byte; small requests of similar sizes share blocks. */
static uint64_t rounded(uint64_t bytes) {
    uint64_t step = bytes < (UINT64_C(1) << 20) ? 256 : UINT64_C(1) << 16;
    return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static weft_status insert(weft_blocks *blocks, weft_device *device, uint64_t bytes, size_t *out_at) {
    weft_block block = {0};
    if (blocks->limit && bytes > blocks->limit)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "one buffer holds %llu bytes at most",
                           (unsigned long long)blocks->limit);
    if (!WEFT_ARRAY_RESERVE(device->context->allocator, blocks->list, blocks->capacity, blocks->count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the table of blocks");
    weft_status status = blocks->calls->create(device, bytes, &block);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) { /* what is kept unused may be in the way */
        weft_status_release(status);
        weft_blocks_trim(blocks, device);
        status = blocks->calls->create(device, bytes, &block);
    }
    if (status) return status;
    size_t at = upper_bound(blocks, block.address);
    memmove(blocks->list + at + 1, blocks->list + at, (blocks->count++ - at) * sizeof *blocks->list);
    block.bytes = bytes;
    blocks->list[at] = block;
    *out_at = at;
    return NULL;
}

weft_status weft_blocks_allocate(weft_blocks *blocks, weft_device *device, size_t bytes, void **out_memory) {
    uint64_t size = rounded(bytes);
    size_t at = blocks->count;
    *out_memory = NULL;
    for (size_t i = 0; i < blocks->count && at == blocks->count; i++)
        if (!blocks->list[i].used && blocks->list[i].bytes == size) at = i;
    if (at == blocks->count)
        WEFT_TRY(insert(blocks, device, size, &at), "allocating %zu bytes beside %llu in use on %s:%d", bytes,
                 (unsigned long long)blocks->live_bytes, device->driver->name, device->ordinal);
    if (blocks->poison) WEFT_TRY(blocks->calls->poison(device, &blocks->list[at]), "filling new memory");
    blocks->list[at].used = true;
    blocks->live_bytes += size;
    *out_memory = (void *)(uintptr_t)blocks->list[at].address;
    return NULL;
}

void weft_blocks_free(weft_blocks *blocks, void *memory, size_t bytes) {
    size_t at = memory ? upper_bound(blocks, (uint64_t)(uintptr_t)memory) : 0;
    if (at == 0) return;
    blocks->list[at - 1].used = false;
    blocks->live_bytes -= rounded(bytes);
}

/* -- devices */

void weft_block_device_init(weft_block_device *device, weft_context *context, const weft_driver *driver, int ordinal,
                            const weft_block_calls *calls) {
    device->base.context = context;
    device->base.driver = driver;
    device->base.ordinal = ordinal;
    weft_blocks_init(&device->blocks, calls, context->poison);
    (void)pthread_mutex_init(&device->lock, NULL);
}

void weft_block_device_deinit(weft_block_device *device) { (void)pthread_mutex_destroy(&device->lock); }

static weft_block_device *own(weft_device *device) { return (weft_block_device *)device; }

void *weft_block_device_enter(weft_device *device) {
    const weft_block_calls *calls = own(device)->blocks.calls;
    (void)pthread_mutex_lock(&own(device)->lock);
    return calls->begin ? calls->begin(device) : NULL;
}

void weft_block_device_leave(weft_device *device, void *begun) {
    const weft_block_calls *calls = own(device)->blocks.calls;
    if (calls->end) calls->end(device, begun);
    (void)pthread_mutex_unlock(&own(device)->lock);
}

weft_status weft_block_device_allocate(weft_device *device, size_t bytes, void **out_memory) {
    void *begun = weft_block_device_enter(device);
    weft_status status = weft_blocks_allocate(&own(device)->blocks, device, bytes, out_memory);
    weft_block_device_leave(device, begun);
    return status;
}

void weft_block_device_free(weft_device *device, void *memory, size_t bytes) {
    void *begun = weft_block_device_enter(device);
    weft_blocks_free(&own(device)->blocks, memory, bytes);
    weft_block_device_leave(device, begun);
}

void weft_block_device_trim(weft_device *device) {
    void *begun = weft_block_device_enter(device);
    weft_blocks_trim(&own(device)->blocks, device);
    weft_block_device_leave(device, begun);
}

static weft_status transfer(weft_device *device, weft_status (*call)(weft_device *, void *, const void *, size_t),
                            void *to, const void *from, size_t bytes) {
    if (bytes == 0) return NULL;
    void *begun = weft_block_device_enter(device);
    weft_status status = call(device, to, from, bytes);
    weft_block_device_leave(device, begun);
    return status;
}

weft_status weft_block_device_upload(weft_device *device, void *to, const void *from, size_t bytes) {
    return transfer(device, own(device)->blocks.calls->upload, to, from, bytes);
}

/* The host may read `to` when this returns. */
weft_status weft_block_device_download(weft_device *device, void *to, const void *from, size_t bytes) {
    return transfer(device, own(device)->blocks.calls->download, to, from, bytes);
}

weft_status weft_block_device_copy(weft_device *device, void *to, const void *from, size_t bytes) {
    return transfer(device, own(device)->blocks.calls->copy, to, from, bytes);
}

weft_status weft_block_device_synchronise(weft_device *device) {
    void *begun = weft_block_device_enter(device);
    weft_status status = own(device)->blocks.calls->flush(device);
    weft_block_device_leave(device, begun);
    return status;
}
