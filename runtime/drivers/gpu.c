/* See gpu.h. */
#include "runtime/drivers/gpu.h"

#include <string.h>

#include "base/arena.h"

enum { GRANULE = 512, LANDING_BYTES = 1 << 16 };

void weft_gpu_init(weft_gpu *gpu, weft_context *context, const weft_driver *driver, int ordinal,
                   const weft_gpu_calls *calls) {
    gpu->base.context = context;
    gpu->base.driver = driver;
    gpu->base.ordinal = ordinal;
    gpu->calls = calls;
    gpu->poison = context->poison;
    (void)pthread_mutex_init(&gpu->lock, NULL);
    (void)pthread_mutex_init(&gpu->landing_lock, NULL);
}

void weft_gpu_start(weft_gpu *gpu) {
    if (gpu->calls->pin(&gpu->base, LANDING_BYTES, &gpu->landing)) gpu->landing = NULL;
}

void weft_gpu_stop(weft_gpu *gpu) {
    weft_gpu_trim(&gpu->base);
    for (int i = 0; i < 2; i++)
        if (gpu->marks[i]) (void)gpu->calls->drop_mark(&gpu->base, gpu->marks[i]);
    if (gpu->landing) (void)gpu->calls->unpin(&gpu->base, gpu->landing);
    gpu->landing = NULL;
}

void weft_gpu_deinit(weft_gpu *gpu) {
    weft_free(gpu->base.context->allocator, gpu->cached, gpu->cached_capacity * sizeof *gpu->cached);
    (void)pthread_mutex_destroy(&gpu->landing_lock);
    (void)pthread_mutex_destroy(&gpu->lock);
}

weft_status weft_gpu_enter(weft_device *base) {
    const weft_gpu *gpu = (weft_gpu *)base;
    return gpu->calls->status(base, gpu->calls->enter(base), "making the device current");
}

/* -- memory */

static size_t rounded(size_t bytes) {
    size_t step = bytes < ((size_t)1 << 20) ? GRANULE : (size_t)1 << 21;
    return bytes > SIZE_MAX - step ? bytes : (bytes + step - 1) / step * step + (bytes == 0 ? step : 0);
}

static void release_cached(weft_gpu *gpu) {
    for (size_t i = 0; i < gpu->cached_count; i++) (void)gpu->calls->release(&gpu->base, gpu->cached[i].memory);
    gpu->cached_count = 0;
}

void weft_gpu_trim(weft_device *base) {
    weft_gpu *gpu = (weft_gpu *)base;
    weft_status_release(weft_gpu_enter(base));
    (void)pthread_mutex_lock(&gpu->lock);
    release_cached(gpu);
    (void)pthread_mutex_unlock(&gpu->lock);
}

static bool take_cached(weft_gpu *gpu, size_t bytes, void **out_memory) {
    for (size_t i = 0; i < gpu->cached_count; i++) {
        if (gpu->cached[i].bytes != bytes) continue;
        *out_memory = gpu->cached[i].memory;
        gpu->cached[i] = gpu->cached[--gpu->cached_count];
        return true;
    }
    return false;
}

static int take_block(weft_gpu *gpu, size_t size, void **out_memory, size_t *out_live) {
    int result = 0;
    (void)pthread_mutex_lock(&gpu->lock);
    if (!take_cached(gpu, size, out_memory)) {
        result = gpu->calls->allocate(&gpu->base, size, out_memory);
        if (result == gpu->calls->full && gpu->cached_count > 0) {
            release_cached(gpu);
            result = gpu->calls->allocate(&gpu->base, size, out_memory);
        }
    }
    if (result == 0) gpu->live_bytes += size;
    *out_live = gpu->live_bytes;
    (void)pthread_mutex_unlock(&gpu->lock);
    return result;
}

weft_status weft_gpu_allocate(weft_device *base, size_t bytes, void **out_memory) {
    weft_gpu *gpu = (weft_gpu *)base;
    size_t size = rounded(bytes), live = 0;
    void *memory = NULL;
    *out_memory = NULL;
    WEFT_TRY(weft_gpu_enter(base), "allocating %zu bytes", bytes);
    WEFT_TRY(gpu->calls->status(base, take_block(gpu, size, &memory, &live), "device memory"),
             "allocating %zu bytes beside %zu in use on %s:%d of %lld", bytes, live, base->driver->name, base->ordinal,
             (long long)gpu->memory_bytes);
    if (gpu->poison) {
        weft_status status = gpu->calls->status(base, gpu->calls->fill(base, memory, size), "filling new memory");
        if (status) {
            weft_gpu_free(base, memory, bytes);
            return status;
        }
    }
    *out_memory = memory;
    return NULL;
}

void weft_gpu_free(weft_device *base, void *memory, size_t bytes) {
    weft_gpu *gpu = (weft_gpu *)base;
    if (!memory) return;
    (void)pthread_mutex_lock(&gpu->lock);
    size_t size = rounded(bytes);
    gpu->live_bytes -= size;
    if (WEFT_ARRAY_RESERVE(base->context->allocator, gpu->cached, gpu->cached_capacity, gpu->cached_count + 1)) {
        gpu->cached[gpu->cached_count++] = (weft_gpu_block){memory, size};
    } else {
        weft_status_release(weft_gpu_enter(base));
        (void)gpu->calls->release(base, memory);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
}

weft_status weft_gpu_pin(weft_device *base, size_t bytes, void **out_memory) {
    const weft_gpu *gpu = (weft_gpu *)base;
    *out_memory = NULL;
    WEFT_TRY(weft_gpu_enter(base), "pinning memory");
    return gpu->calls->status(base, gpu->calls->pin(base, bytes, out_memory), "pinning memory");
}

void weft_gpu_unpin(weft_device *base, void *memory) {
    const weft_gpu *gpu = (weft_gpu *)base;
    weft_status_release(weft_gpu_enter(base));
    (void)gpu->calls->unpin(base, memory);
}

/* -- copies */

weft_status weft_gpu_upload(weft_device *base, void *to, const void *from, size_t bytes) {
    const weft_gpu *gpu = (weft_gpu *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_gpu_enter(base), "upload");
    return gpu->calls->status(base, gpu->calls->send(base, to, from, bytes), "copying to the device");
}

weft_status weft_gpu_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    const weft_gpu *gpu = (weft_gpu *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_gpu_enter(base), "copy");
    return gpu->calls->status(base, gpu->calls->move(base, to, from, bytes), "copying on the device");
}

weft_status weft_gpu_synchronise(weft_device *base) {
    const weft_gpu *gpu = (weft_gpu *)base;
    WEFT_TRY(weft_gpu_enter(base), "synchronise");
    return gpu->calls->status(base, gpu->calls->wait(base), "waiting for the device");
}

static weft_status fetch(weft_gpu *gpu, void *to, const void *from, size_t bytes) {
    WEFT_TRY(gpu->calls->status(&gpu->base, gpu->calls->fetch(&gpu->base, to, from, bytes), "copying from the device"),
             "download");
    return weft_gpu_synchronise(&gpu->base);
}

/* The host may read `to` when this returns. Into pageable memory a card's driver waits for the stream, then copies in
   steps of its own: for small results that is most of a call, so they arrive in pinned memory. */
weft_status weft_gpu_download(weft_device *base, void *to, const void *from, size_t bytes) {
    weft_gpu *gpu = (weft_gpu *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_gpu_enter(base), "download");
    if (!gpu->landing || bytes > LANDING_BYTES) return fetch(gpu, to, from, bytes);
    (void)pthread_mutex_lock(&gpu->landing_lock);
    weft_status status = fetch(gpu, gpu->landing, from, bytes);
    if (!status) memcpy(to, gpu->landing, bytes);
    (void)pthread_mutex_unlock(&gpu->landing_lock);
    return status;
}

/* -- times */

weft_status weft_gpu_mark(weft_device *base, int which) {
    weft_gpu *gpu = (weft_gpu *)base;
    void **mark = &gpu->marks[which != 0];
    WEFT_TRY(weft_gpu_enter(base), "timing");
    if (!*mark) WEFT_TRY(gpu->calls->status(base, gpu->calls->make_mark(base, mark), "making a mark"), "timing");
    return gpu->calls->status(base, gpu->calls->set_mark(base, *mark), "setting a mark");
}

weft_status weft_gpu_elapsed(weft_device *base, double *out_ns) {
    const weft_gpu *gpu = (weft_gpu *)base;
    float ms = 0;
    *out_ns = 0;
    if (!gpu->marks[0] || !gpu->marks[1]) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "nothing was marked");
    WEFT_TRY(weft_gpu_enter(base), "timing");
    WEFT_TRY(gpu->calls->status(base, gpu->calls->wait_mark(base, gpu->marks[1]), "waiting for a mark"), "timing");
    WEFT_TRY(gpu->calls->status(base, gpu->calls->between(base, gpu->marks[0], gpu->marks[1], &ms),
                                "the time between marks"),
             "timing");
    *out_ns = (double)ms * 1e6;
    return NULL;
}

/* -- code images */

uint64_t weft_gpu_number_at(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Source: System V ABI, ELF-64 object file format: positions of the tables of segments and of sections, then the bytes
   and the number of their rows. */
bool weft_gpu_elf_is_whole(const unsigned char *file, uint64_t bytes) {
    if (bytes < 64 || memcmp(file, "\177ELF", 4) != 0) return false;
    static const struct {
        int position, row_bytes;
    } tables[] = {{32, 54}, {40, 58}};
    for (int i = 0; i < 2; i++) {
        uint64_t position = weft_gpu_number_at(file + tables[i].position, 8);
        uint64_t size =
            weft_gpu_number_at(file + tables[i].row_bytes, 2) * weft_gpu_number_at(file + tables[i].row_bytes + 2, 2);
        if (position > bytes || size > bytes - position) return false;
    }
    return true;
}
