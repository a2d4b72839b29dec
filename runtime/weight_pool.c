/* See weight_pool.h. Invariant: an entry is in the map as long as somebody has it. */
#include "runtime/weight_pool.h"

#include "base/map.h"

typedef struct pooled {
    void *address;
    size_t bytes;
    int users;
} pooled;

struct weft_weight_pool {
    atomic_int references;
    weft_context *context;
    weft_device *device;
    weft_map entries; /* host address -> pooled */
    int64_t bytes;
};

weft_status weft_weight_pool_create(weft_context *context, weft_device *device, weft_weight_pool **out_pool) {
    weft_weight_pool *pool = *out_pool = weft_allocate(context->allocator, sizeof *pool);
    if (!pool) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a pool of weights");
    atomic_init(&pool->references, 1);
    pool->context = context;
    weft_context_retain(context);
    pool->device = device;
    atomic_fetch_add(&device->references, 1);
    weft_map_init(context->allocator, &pool->entries);
    return NULL;
}

void weft_weight_pool_retain(weft_weight_pool *pool) {
    if (pool) atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
}

void weft_weight_pool_release(weft_weight_pool *pool) {
    if (!pool || atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1) return;
    weft_context *context = pool->context;
    weft_map_deinit(&pool->entries);
    weft_device_release(pool->device);
    weft_free(context->allocator, pool, sizeof *pool);
    weft_context_release(context);
}

static void drop(weft_weight_pool *pool, pooled *entry) {
    if (entry->address) pool->device->driver->free(pool->device, entry->address, entry->bytes);
    weft_free(pool->context->allocator, entry, sizeof *entry);
}

static weft_status place(weft_weight_pool *pool, const void *data, size_t bytes, pooled *entry) {
    const weft_driver *driver = pool->device->driver;
    WEFT_TRY(driver->allocate(pool->device, bytes, &entry->address), "a weight of %zu bytes", bytes);
    entry->bytes = bytes;
    WEFT_TRY(driver->upload(pool->device, entry->address, data, bytes), "a weight of %zu bytes", bytes);
    if (!weft_map_put(&pool->entries, &data, sizeof data, entry))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a pool of weights");
    return NULL;
}

weft_status weft_weight_pool_take(weft_weight_pool *pool, const void *data, size_t bytes, void **out_address) {
    pooled *entry = weft_map_find(&pool->entries, &data, sizeof data);
    *out_address = NULL;
    if (!entry) {
        entry = weft_allocate(pool->context->allocator, sizeof *entry);
        if (!entry) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a pool of weights");
        weft_status status = place(pool, data, bytes, entry);
        if (status) {
            drop(pool, entry);
            return status;
        }
        pool->bytes += (int64_t)bytes;
    }
    entry->users++;
    *out_address = entry->address;
    return NULL;
}

void weft_weight_pool_give_back(weft_weight_pool *pool, const void *data) {
    pooled *entry = weft_map_find(&pool->entries, &data, sizeof data);
    if (!entry || --entry->users > 0) return;
    weft_map_remove(&pool->entries, &data, sizeof data);
    pool->bytes -= (int64_t)entry->bytes;
    drop(pool, entry);
}

int64_t weft_weight_pool_bytes(const weft_weight_pool *pool) { return pool->bytes; }
