/* Device memory with a cache of freed blocks: cuMemFree waits for the whole device, so blocks are kept and handed out
   again to requests of about their size. All work of a device is ordered on one stream, so a block that was freed after
   its last launch may be given to the next one. When the card is full the cache is emptied and the request repeated. */
#include "runtime/drivers/cuda/cuda.h"

#include "base/arena.h"

enum { GRANULE = 512 };

static size_t rounded(size_t bytes) {
    size_t step = bytes < ((size_t)1 << 20) ? GRANULE : (size_t)1 << 21;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static void release_cached(cuda_device *device) {
    for (size_t i = 0; i < device->cached_count; i++) (void)device->api.cuMemFree(device->cached[i].memory);
    device->cached_count = device->cached_bytes = 0;
}

void weft_cuda_trim(weft_device *base) {
    cuda_device *device = (cuda_device *)base;
    weft_status_release(weft_cuda_enter(device));
    (void)pthread_mutex_lock(&device->lock);
    release_cached(device);
    (void)pthread_mutex_unlock(&device->lock);
}

/* The smallest cached block that fits and is at most a quarter too large. */
static bool take_cached(cuda_device *device, size_t bytes, cuda_block *out_block) {
    size_t best = device->cached_count;
    for (size_t i = 0; i < device->cached_count; i++) {
        size_t have = device->cached[i].bytes;
        if (have == bytes && (best == device->cached_count || have < device->cached[best].bytes)) best = i;
    }
    if (best == device->cached_count) return false;
    *out_block = device->cached[best];
    device->cached[best] = device->cached[--device->cached_count];
    device->cached_bytes -= out_block->bytes;
    return true;
}

weft_status weft_cuda_allocate(weft_device *base, size_t bytes, void **out_memory) {
    cuda_device *device = (cuda_device *)base;
    *out_memory = NULL;
    size_t size = rounded(bytes);
    cuda_block block = {0, size};
    WEFT_TRY(weft_cuda_enter(device), "allocating %zu bytes", bytes);
    (void)pthread_mutex_lock(&device->lock);
    cu_result result = CU_SUCCESS;
    if (!take_cached(device, size, &block)) {
        result = device->api.cuMemAlloc(&block.memory, size);
        if (result == CU_ERROR_OUT_OF_MEMORY && device->cached_count > 0) {
            release_cached(device);
            result = device->api.cuMemAlloc(&block.memory, size);
        }
    }
    if (result == CU_SUCCESS) device->live_bytes += size;
    size_t live = device->live_bytes;
    (void)pthread_mutex_unlock(&device->lock);
    WEFT_TRY(weft_cuda_status(&device->api, result, "device memory"),
             "allocating %zu bytes beside %zu in use on cuda:%d of %lld", bytes, live, base->ordinal,
             (long long)device->memory_bytes);
    *out_memory = (void *)(uintptr_t)block.memory;
    if (device->poison)
        return weft_cuda_status(&device->api, device->api.cuMemsetD8Async(block.memory, 0xff, size, device->stream),
                                "filling new memory");
    return NULL;
}

void weft_cuda_free(weft_device *base, void *memory, size_t bytes) {
    cuda_device *device = (cuda_device *)base;
    if (!memory) return;
    (void)pthread_mutex_lock(&device->lock);
    size_t size = rounded(bytes);
    device->live_bytes -= size;
    if (WEFT_ARRAY_RESERVE(base->context->allocator, device->cached, device->cached_capacity,
                           device->cached_count + 1)) {
        device->cached[device->cached_count++] = (cuda_block){(cu_pointer)(uintptr_t)memory, size};
        device->cached_bytes += size;
    } else {
        weft_status_release(weft_cuda_enter(device));
        (void)device->api.cuMemFree((cu_pointer)(uintptr_t)memory);
    }
    (void)pthread_mutex_unlock(&device->lock);
}
