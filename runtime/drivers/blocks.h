/* Device memory as a table of blocks by address, for drivers whose buffers are objects (Vulkan, Metal, WebGPU):
   programs do arithmetic on addresses, the table finds the object and the offset. Freed blocks are kept for requests of
   their size. Work of a device is ordered, so a block that was freed after its last command may be given to the next
   one. A driver's own device starts with a weft_block_device, and its record names the functions at the end, which take
   the lock around the driver's calls. Read next: runtime/drivers/vulkan/memory.c. */
#ifndef WEFT_RUNTIME_DRIVERS_BLOCKS_H
#define WEFT_RUNTIME_DRIVERS_BLOCKS_H

#include <pthread.h>

#include "runtime/driver.h"

typedef struct weft_block {
    uint64_t address; /* what programs see */
    uint64_t bytes;
    uint64_t buffer, memory; /* handles of the driver */
    unsigned char *mapped;   /* NULL: the host does not see it */
    bool used;
} weft_block;

/* The device is the driver's; every call is under its lock. */
typedef struct weft_block_calls {
    weft_status (*create)(weft_device *device, uint64_t bytes, weft_block *out_block);
    void (*destroy)(weft_device *device, weft_block *block);
    weft_status (*flush)(weft_device *device);                           /* submits and waits */
    weft_status (*poison)(weft_device *device, const weft_block *block); /* fills it with 0xff */
    weft_status (*upload)(weft_device *device, void *to, const void *from, size_t bytes);
    weft_status (*download)(weft_device *device, void *to, const void *from, size_t bytes);
    weft_status (*copy)(weft_device *device, void *to, const void *from, size_t bytes);
    void *(*begin)(weft_device *device);           /* behind the lock; NULL: nothing */
    void (*end)(weft_device *device, void *begun); /* before it is given back */
} weft_block_calls;

typedef struct weft_blocks {
    const weft_block_calls *calls;
    weft_block *list; /* sorted by address */
    size_t count, capacity;
    uint64_t live_bytes;
    uint64_t limit; /* bytes of one block; 0 = none */
    bool poison;    /* WEFT_POISON: memory that is handed out is filled */
} weft_blocks;

void weft_blocks_init(weft_blocks *blocks, const weft_block_calls *calls, bool poison);
/* Destroys all blocks. */
void weft_blocks_deinit(weft_blocks *blocks, weft_device *device);
/* Out of memory: unused blocks go and the request is repeated. */
weft_status weft_blocks_allocate(weft_blocks *blocks, weft_device *device, size_t bytes,
                                 void **out_memory) WEFT_MUST_USE;
void weft_blocks_free(weft_blocks *blocks, void *memory, size_t bytes);
/* Waits for the device and gives unused blocks back. */
void weft_blocks_trim(weft_blocks *blocks, weft_device *device);
/* The block around [memory, memory + bytes), or NULL. */
const weft_block *weft_blocks_find(const weft_blocks *blocks, const void *memory, size_t bytes);
/* As above, with the offset; INVALID_ARGUMENT: no memory of the device. */
weft_status weft_blocks_locate(const weft_blocks *blocks, const weft_device *device, const void *memory, size_t bytes,
                               const weft_block **out_block, uint64_t *out_offset) WEFT_MUST_USE;

typedef struct weft_block_device {
    weft_device base; /* first */
    pthread_mutex_t lock;
    weft_blocks blocks;
} weft_block_device;

void weft_block_device_init(weft_block_device *device, weft_context *context, const weft_driver *driver, int ordinal,
                            const weft_block_calls *calls);
void weft_block_device_deinit(weft_block_device *device);
/* The lock, and begin and end inside of it. */
void *weft_block_device_enter(weft_device *device);
void weft_block_device_leave(weft_device *device, void *begun);

/* As weft_driver has them. */
weft_status weft_block_device_allocate(weft_device *device, size_t bytes, void **out_memory) WEFT_MUST_USE;
void weft_block_device_free(weft_device *device, void *memory, size_t bytes);
void weft_block_device_trim(weft_device *device);
weft_status weft_block_device_upload(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_block_device_download(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_block_device_copy(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_block_device_synchronise(weft_device *device) WEFT_MUST_USE;

#endif
