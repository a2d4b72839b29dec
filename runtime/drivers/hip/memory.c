/* Device memory with a cache of freed blocks: hipFree waits for the whole device, so blocks are kept and handed out
   again to requests of their size. All work of a device is ordered on one stream, so a block that was freed after its
   last launch may be given to the next one. When the card is full the cache is emptied and the request repeated. */
#include "base/arena.h"
#include "runtime/drivers/hip/hip.h"

enum { GRANULE = 512 };

static size_t rounded(size_t bytes) {
    size_t step = bytes < ((size_t)1 << 20) ? GRANULE : (size_t)1 << 21;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static void release_cached(hip_device *device) {
    for (size_t i = 0; i < device->cached_count; i++) (void)device->api.hipFree(device->cached[i].memory);
    device->cached_count = 0;
}

void weft_hip_trim(weft_device *base) {
    hip_device *device = (hip_device *)base;
    weft_status_release(weft_hip_enter(device));
    (void)pthread_mutex_lock(&device->lock);
    release_cached(device);
    (void)pthread_mutex_unlock(&device->lock);
}

static bool take_cached(hip_device *device, size_t bytes, void **out_memory) {
    for (size_t i = 0; i < device->cached_count; i++) {
        if (device->cached[i].bytes != bytes) continue;
        *out_memory = device->cached[i].memory;
        device->cached[i] = device->cached[--device->cached_count];
        return true;
    }
    return false;
}

weft_status weft_hip_allocate(weft_device *base, size_t bytes, void **out_memory) {
    hip_device *device = (hip_device *)base;
    *out_memory = NULL;
    size_t size = rounded(bytes);
    void *memory = NULL;
    WEFT_TRY(weft_hip_enter(device), "allocating %zu bytes", bytes);
    (void)pthread_mutex_lock(&device->lock);
    hip_result result = HIP_SUCCESS;
    if (!take_cached(device, size, &memory)) {
        result = device->api.hipMalloc(&memory, size);
        if (result == HIP_ERROR_OUT_OF_MEMORY && device->cached_count > 0) {
            release_cached(device);
            result = device->api.hipMalloc(&memory, size);
        }
    }
    if (result == HIP_SUCCESS) device->live_bytes += size;
    size_t live = device->live_bytes;
    (void)pthread_mutex_unlock(&device->lock);
    WEFT_TRY(weft_hip_status(&device->api, result, "device memory"),
             "allocating %zu bytes beside %zu in use on amdgcn:%d of %lld", bytes, live, base->ordinal,
             (long long)device->memory_bytes);
    if (device->poison) {
        weft_status status = weft_hip_status(
            &device->api, device->api.hipMemsetAsync(memory, 0xff, size, device->stream), "filling new memory");
        if (status) {
            weft_hip_free(base, memory, bytes);
            return status;
        }
    }
    *out_memory = memory;
    return NULL;
}

void weft_hip_free(weft_device *base, void *memory, size_t bytes) {
    hip_device *device = (hip_device *)base;
    if (!memory) return;
    (void)pthread_mutex_lock(&device->lock);
    size_t size = rounded(bytes);
    device->live_bytes -= size;
    if (WEFT_ARRAY_RESERVE(base->context->allocator, device->cached, device->cached_capacity,
                           device->cached_count + 1)) {
        device->cached[device->cached_count++] = (hip_block){memory, size};
    } else {
        weft_status_release(weft_hip_enter(device));
        (void)device->api.hipFree(memory);
    }
    (void)pthread_mutex_unlock(&device->lock);
}
