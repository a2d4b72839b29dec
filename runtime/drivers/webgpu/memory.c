/* Blocks of memory, commands and copies. WebGPU moves whole words between different buffers; the rest goes through a
   staging buffer or the host. See webgpu.h. */
#include <string.h>

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

static wgpu_handle buffer_of(const weft_block *block) { return (wgpu_handle)(uintptr_t)block->buffer; }

static weft_status create(weft_device *base, uint64_t bytes, weft_block *out_block) {
    webgpu_device *device = (webgpu_device *)base;
    wgpu_handle buffer;
    WEFT_TRY(weft_webgpu_buffer(device, WGPU_STORAGE | WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes, &buffer),
             "%llu bytes", (unsigned long long)bytes);
    out_block->buffer = (uint64_t)(uintptr_t)buffer;
    out_block->address = device->next_address;
    device->next_address += (bytes + GAP - 1) / GAP * GAP + GAP;
    return NULL;
}

static void destroy(weft_device *base, weft_block *block) {
    webgpu_device *device = (webgpu_device *)base;
    device->api.destroy_buffer(buffer_of(block));
    device->api.release_buffer(buffer_of(block));
}

static weft_status flush(weft_device *base) { return weft_webgpu_flush((webgpu_device *)base); }

static weft_status poison(weft_device *base, const weft_block *block) {
    webgpu_device *device = (webgpu_device *)base;
    unsigned char ones[4096];
    memset(ones, 0xff, sizeof ones);
    weft_webgpu_submit(device);
    for (uint64_t at = 0; at < block->bytes; at += sizeof ones)
        device->api.write(device->queue, buffer_of(block), at, ones,
                          block->bytes - at < sizeof ones ? (size_t)(block->bytes - at) : sizeof ones);
    return weft_webgpu_problem(device);
}

/* -- transfers */

static void take_map(wgpu_enum status, wgpu_text message, void *a, void *b) {
    (void)message, (void)b;
    *(wgpu_enum *)a = status;
}

/* Whole words from the block to the host, through a buffer that can be mapped. */
static weft_status read_words(webgpu_device *device, const weft_block *block, uint64_t from, uint64_t bytes,
                              unsigned char *to, uint64_t skip, uint64_t wanted) {
    wgpu_handle staging, encoder;
    wgpu_enum mapped = 0;
    WEFT_TRY(weft_webgpu_buffer(device, WGPU_MAP_READ | WGPU_COPY_TARGET, bytes, &staging), "download");
    weft_status status = weft_webgpu_encoder(device, &encoder);
    if (!status) {
        device->api.copy(encoder, buffer_of(block), from, staging, 0, bytes);
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

static weft_status download(weft_device *base, void *to, const void *from, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    const weft_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, from, bytes, &block, &offset), "download");
    uint64_t first = offset / 4 * 4;
    return read_words(device, block, first, words(offset + bytes) - first, to, offset - first, bytes);
}

/* Parts of words keep what is beside them. */
static weft_status upload(weft_device *base, void *to, const void *data, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    const unsigned char *from = data;
    const weft_block *block = NULL;
    uint64_t offset = 0;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, to, bytes, &block, &offset), "upload");
    weft_webgpu_submit(device); /* writes are in the order of submissions */
    uint64_t first = words(offset), last = (offset + bytes) / 4 * 4;
    if (first < last)
        device->api.write(device->queue, buffer_of(block), first, from + (first - offset), (size_t)(last - first));
    for (int end = 0; end < 2; end++) {
        uint64_t word = end ? last : offset / 4 * 4;
        bool partial = end ? last < offset + bytes : offset % 4 != 0;
        if (!partial || (end && last < first && offset % 4)) continue;
        unsigned char four[4];
        WEFT_TRY(read_words(device, block, word, 4, four, 0, 4), "upload");
        for (uint64_t i = 0; i < 4; i++)
            if (word + i >= offset && word + i < offset + bytes) four[i] = from[word + i - offset];
        device->api.write(device->queue, buffer_of(block), word, four, 4);
    }
    return weft_webgpu_problem(device);
}

static weft_status copy(weft_device *base, void *to, const void *from, size_t bytes) {
    webgpu_device *device = (webgpu_device *)base;
    const weft_block *source = NULL, *target = NULL;
    uint64_t source_offset = 0, target_offset = 0;
    weft_allocator allocator = base->context->allocator;
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, from, bytes, &source, &source_offset), "copy");
    WEFT_TRY(weft_blocks_locate(&device->gpu.blocks, base, to, bytes, &target, &target_offset), "copy");
    if ((source_offset | target_offset | bytes) % 4) {
        unsigned char *host = weft_allocate(allocator, bytes);
        if (!host) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "copying %zu bytes", bytes);
        weft_status status = download(base, host, from, bytes);
        if (!status) status = upload(base, to, host, bytes);
        weft_free(allocator, host, bytes);
        return status;
    }
    wgpu_handle encoder, between = NULL;
    if (source == target)
        WEFT_TRY(weft_webgpu_buffer(device, WGPU_COPY_SOURCE | WGPU_COPY_TARGET, bytes, &between), "copy");
    weft_status status = weft_webgpu_encoder(device, &encoder);
    if (!status && between) {
        device->api.copy(encoder, buffer_of(source), source_offset, between, 0, bytes);
        device->api.copy(encoder, between, 0, buffer_of(target), target_offset, bytes);
    } else if (!status)
        device->api.copy(encoder, buffer_of(source), source_offset, buffer_of(target), target_offset, bytes);
    if (between) device->api.release_buffer(between); /* the commands hold it */
    return status;
}

const weft_block_calls weft_webgpu_blocks = {.create = create,
                                             .destroy = destroy,
                                             .flush = flush,
                                             .poison = poison,
                                             .upload = upload,
                                             .download = download,
                                             .copy = copy};
