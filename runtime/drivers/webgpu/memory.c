/* Blocks of memory, commands and copies. WebGPU moves whole words between different buffers; the rest goes through a
   staging buffer or the host. See webgpu.h. */
#include <string.h>

#include "base/arena.h"
#include "runtime/drivers/webgpu/webgpu.h"

enum { GAP = 1 << 16 };

static uint64_t words(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

weft_status weft_webgpu_problem(webgpu_device *device) {
    if (device->lost)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s was lost; open it anew and load the program again", device->name);
    if (!device->problem[0]) return NULL;
    weft_status status = device->no_memory ? WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s: %s", device->name, device->problem)
                                           : WEFT_STATUS(WEFT_INTERNAL, "%s: %s", device->name, device->problem);
    device->problem[0] = '\0';
    return status;
}

weft_status weft_webgpu_buffer(webgpu_device *device, uint64_t usage, uint64_t bytes, wgpu_handle *out_buffer) {
    const wgpu_buffer_options options = {.usage = usage, .size = bytes};
    *out_buffer = NULL;
    WEFT_TRY(weft_webgpu_problem(device), "before a buffer");
    if (bytes > device->limits.buffer_bytes)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "one buffer of %s holds %llu bytes at most", device->name,
                           (unsigned long long)device->limits.buffer_bytes);
    *out_buffer = device->api.create_buffer(device->device, &options);
    weft_status status = weft_webgpu_problem(device);
    if (!status && !*out_buffer) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s gives no buffer", device->name);
    if (status && *out_buffer) device->api.release_buffer(*out_buffer), *out_buffer = NULL;
    return status;
}

/* -- commands */

weft_status weft_webgpu_encoder(webgpu_device *device, wgpu_handle *out_encoder) {
    if (device->command_count >= WEBGPU_COMMANDS_MAX) WEFT_TRY(weft_webgpu_flush(device), "submitting commands");
    if (!device->encoder) device->encoder = device->api.create_encoder(device->device, NULL);
    if (!device->encoder) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "%s gives no encoder", device->name);
    device->command_count++;
    *out_encoder = device->encoder;
    return NULL;
}

void weft_webgpu_submit(webgpu_device *device) {
    if (!device->encoder) return;
    wgpu_handle commands = device->api.finish(device->encoder, NULL);
    device->api.release_encoder(device->encoder);
    device->encoder = NULL;
    if (!commands) return;
    device->api.submit(device->queue, 1, &commands);
    device->api.release_commands(commands);
}

weft_status weft_webgpu_flush(webgpu_device *device) {
    weft_webgpu_submit(device);
    if (device->command_count > 0) (void)device->api.poll(device->device, 1, NULL);
    device->command_count = 0;
    device->uniform_used = 0;
    return weft_webgpu_problem(device);
}

/* -- blocks */

static size_t upper_bound(const webgpu_device *device, uint64_t address) {
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

const webgpu_block *weft_webgpu_block_find(const webgpu_device *device, const void *memory, size_t bytes) {
    uint64_t address = (uint64_t)(uintptr_t)memory;
    size_t at = upper_bound(device, address);
    if (at == 0) return NULL;
    const webgpu_block *block = &device->blocks[at - 1];
    uint64_t offset = address - block->address;
    return block->used && offset <= block->bytes && bytes <= block->bytes - offset ? block : NULL;
}

void weft_webgpu_release_blocks(webgpu_device *device, bool used_too) {
    size_t kept = 0;
    for (size_t i = 0; i < device->block_count; i++) {
        if (used_too || !device->blocks[i].used) {
            device->api.destroy_buffer(device->blocks[i].buffer);
            device->api.release_buffer(device->blocks[i].buffer);
        } else
            device->blocks[kept++] = device->blocks[i];
    }
    device->block_count = kept;
}

static uint64_t rounded(uint64_t bytes) {
    uint64_t step = bytes < (UINT64_C(1) << 20) ? 256 : UINT64_C(1) << 16;
    return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static weft_status fill(webgpu_device *device, const webgpu_block *block) {
    unsigned char ones[4096];
    memset(ones, 0xff, sizeof ones);
    weft_webgpu_submit(device);
    for (uint64_t at = 0; at < block->bytes; at += sizeof ones)
        device->api.write(device->queue, block->buffer, at, ones,
                          block->bytes - at < sizeof ones ? (size_t)(block->bytes - at) : sizeof ones);
    return weft_webgpu_problem(device);
}

static weft_status allocate(webgpu_device *device, size_t bytes, void **out_memory) {
    uint64_t size = rounded(bytes);
    size_t at = device->block_count;
    for (size_t i = 0; i < device->block_count && at == device->block_count; i++)
        if (!device->blocks[i].used && device->blocks[i].bytes == size) at = i;
    if (at == device->block_count) {
        webgpu_block block = {.bytes = size};
        if (!WEFT_ARRAY_RESERVE(device->base.context->allocator, device->blocks, device->block_capacity, at + 1))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the table of blocks");
        if (size > device->limits.storage_bytes)
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "one buffer of %s binds %llu bytes at most", device->name,
                               (unsigned long long)device->limits.storage_bytes);
        WEFT_TRY(weft_webgpu_buffer(device, WGPU_STORAGE | WGPU_COPY_SOURCE | WGPU_COPY_TARGET, size, &block.buffer),
                 "%llu bytes", (unsigned long long)size);
        block.address = device->next_address;
        device->next_address += (size + GAP - 1) / GAP * GAP + GAP;
        device->blocks[device->block_count++] = block;
    }
    device->blocks[at].used = true;
    device->live_bytes += size;
    *out_memory = (void *)(uintptr_t)device->blocks[at].address;
    return device->poison ? fill(device, &device->blocks[at]) : NULL;
}

weft_status weft_webgpu_allocate(weft_device *base, size_t bytes, void **out_memory) {
    webgpu_device *device = (webgpu_device *)base;
    *out_memory = NULL;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = allocate(device, bytes, out_memory);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY && !*out_memory) { /* what is kept unused may be in the way */
        weft_status again = weft_webgpu_flush(device);
        weft_webgpu_release_blocks(device, false);
        if (!again) again = allocate(device, bytes, out_memory);
        weft_status_release(status);
        status = again ? weft_status_annotate(again, __FILE__, __LINE__,
                                              "allocating %zu bytes beside %llu in use on webgpu:0", bytes,
                                              (unsigned long long)device->live_bytes)
                       : NULL;
    }
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

void weft_webgpu_free(weft_device *base, void *memory, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    if (!memory) return;
    (void)pthread_mutex_lock(&device->lock);
    size_t at = upper_bound(device, (uint64_t)(uintptr_t)memory);
    if (at > 0) {
        device->blocks[at - 1].used = false;
        device->live_bytes -= rounded(bytes);
    }
    (void)pthread_mutex_unlock(&device->lock);
}

void weft_webgpu_trim(weft_device *base) {
    webgpu_device *device = (webgpu_device *)base;
    (void)pthread_mutex_lock(&device->lock);
    weft_status_release(weft_webgpu_flush(device));
    weft_webgpu_release_blocks(device, false);
    (void)pthread_mutex_unlock(&device->lock);
}

/* -- transfers */

static weft_status find(const webgpu_device *device, const void *memory, size_t bytes, const webgpu_block **out_block,
                        uint64_t *out_offset) {
    *out_block = weft_webgpu_block_find(device, memory, bytes);
    if (!*out_block)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%zu bytes at %p are no memory of webgpu:%d", bytes, memory,
                           device->base.ordinal);
    *out_offset = (uint64_t)(uintptr_t)memory - (*out_block)->address;
    return NULL;
}

static void take_map(wgpu_enum status, wgpu_text message, void *a, void *b) {
    (void)message, (void)b;
    *(wgpu_enum *)a = status;
}

/* Whole words from the block to the host, through a buffer that can be mapped. */
static weft_status read_words(webgpu_device *device, const webgpu_block *block, uint64_t from, uint64_t bytes,
                              unsigned char *to, uint64_t skip, uint64_t wanted) {
    wgpu_handle staging, encoder;
    wgpu_enum mapped = 0;
    WEFT_TRY(weft_webgpu_buffer(device, WGPU_MAP_READ | WGPU_COPY_TARGET, bytes, &staging), "download");
    weft_status status = weft_webgpu_encoder(device, &encoder);
    if (!status) {
        device->api.copy(encoder, block->buffer, from, staging, 0, bytes);
        weft_webgpu_submit(device);
        const wgpu_map_callback callback = {.mode = WGPU_ANY_MOMENT, .call = take_map, .a = &mapped};
        (void)device->api.map(staging, WGPU_MAP_READ, 0, (size_t)bytes, callback);
        status = weft_webgpu_flush(device);
        const unsigned char *data =
            !status && mapped == WGPU_SUCCESS ? device->api.mapped(staging, 0, (size_t)bytes) : NULL;
        if (data)
            memcpy(to, data + skip, (size_t)wanted);
        else if (!status)
            status = WEFT_STATUS(WEFT_UNAVAILABLE, "%s does not map a buffer", device->name);
        if (data) device->api.unmap(staging);
    }
    device->api.release_buffer(staging);
    return status;
}

static weft_status download(webgpu_device *device, void *to, const void *from, size_t bytes) {
    const webgpu_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(find(device, from, bytes, &block, &offset), "download");
    uint64_t first = offset / 4 * 4;
    return read_words(device, block, first, words(offset + bytes) - first, to, offset - first, bytes);
}

/* Parts of words keep what is beside them. */
static weft_status upload(webgpu_device *device, void *to, const unsigned char *from, size_t bytes) {
    const webgpu_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(find(device, to, bytes, &block, &offset), "upload");
    weft_webgpu_submit(device); /* writes are in the order of submissions */
    uint64_t first = words(offset), last = (offset + bytes) / 4 * 4;
    if (first < last)
        device->api.write(device->queue, block->buffer, first, from + (first - offset), (size_t)(last - first));
    for (int end = 0; end < 2; end++) {
        uint64_t word = end ? last : offset / 4 * 4;
        bool partial = end ? last < offset + bytes : offset % 4 != 0;
        if (!partial || (end && last < first && offset % 4)) continue;
        unsigned char four[4];
        WEFT_TRY(read_words(device, block, word, 4, four, 0, 4), "upload");
        for (uint64_t i = 0; i < 4; i++)
            if (word + i >= offset && word + i < offset + bytes) four[i] = from[word + i - offset];
        device->api.write(device->queue, block->buffer, word, four, 4);
    }
    return weft_webgpu_problem(device);
}

static weft_status copy(webgpu_device *device, void *to, const void *from, size_t bytes) {
    const webgpu_block *source = NULL, *target = NULL;
    uint64_t source_offset = 0, target_offset = 0;
    weft_allocator allocator = device->base.context->allocator;
    WEFT_TRY(find(device, from, bytes, &source, &source_offset), "copy");
    WEFT_TRY(find(device, to, bytes, &target, &target_offset), "copy");
    if ((source_offset | target_offset | bytes) % 4) {
        unsigned char *host = weft_allocate(allocator, bytes);
        if (!host) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "copying %zu bytes", bytes);
        weft_status status = download(device, host, from, bytes);
        if (!status) status = upload(device, to, host, bytes);
        weft_free(allocator, host, bytes);
        return status;
    }
    wgpu_handle encoder, between = NULL;
    if (source == target)
        WEFT_TRY(weft_webgpu_buffer(device, WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes, &between), "copy");
    weft_status status = weft_webgpu_encoder(device, &encoder);
    if (!status && between) {
        device->api.copy(encoder, source->buffer, source_offset, between, 0, bytes);
        device->api.copy(encoder, between, 0, target->buffer, target_offset, bytes);
    } else if (!status)
        device->api.copy(encoder, source->buffer, source_offset, target->buffer, target_offset, bytes);
    if (between) device->api.release_buffer(between); /* the commands hold it */
    return status;
}

weft_status weft_webgpu_upload(weft_device *base, void *to, const void *from, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    if (bytes == 0) return NULL;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = upload(device, to, from, bytes);
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

weft_status weft_webgpu_download(weft_device *base, void *to, const void *from, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    if (bytes == 0) return NULL;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = download(device, to, from, bytes);
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

weft_status weft_webgpu_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    if (bytes == 0) return NULL;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = copy(device, to, from, bytes);
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}

weft_status weft_webgpu_synchronise(weft_device *base) {
    webgpu_device *device = (webgpu_device *)base;
    (void)pthread_mutex_lock(&device->lock);
    weft_status status = weft_webgpu_flush(device);
    (void)pthread_mutex_unlock(&device->lock);
    return status;
}
