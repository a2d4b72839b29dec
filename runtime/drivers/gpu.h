/* What drivers of graphics cards share, told of the card by a few calls: device memory with a cache of freed blocks,
   since a card's own free waits for all of its work; copies; small downloads through pinned memory; times.

   All work of a device is ordered on one stream, so a block that was freed after its last launch may be given to the
   next one. When the card is full the cache is emptied and the request repeated. A driver's own device starts with a
   weft_gpu, and its record names the functions below. Thread-safe as the record says. */
#ifndef WEFT_RUNTIME_DRIVERS_GPU_H
#define WEFT_RUNTIME_DRIVERS_GPU_H

#include <pthread.h>

#include "runtime/driver.h"

/* Results are the card's own numbers; 0 = fine. Copies and fills go to the stream. */
typedef struct weft_gpu_calls {
    int full;                          /* the result that says there is no memory */
    int (*enter)(weft_device *device); /* makes it this thread's current device */
    int (*allocate)(weft_device *device, size_t bytes, void **out_memory);
    int (*release)(weft_device *device, void *memory);
    int (*fill)(weft_device *device, void *memory, size_t bytes); /* with 0xff */
    int (*pin)(weft_device *device, size_t bytes, void **out_memory);
    int (*unpin)(weft_device *device, void *memory);
    int (*send)(weft_device *device, void *to, const void *from, size_t bytes);
    int (*fetch)(weft_device *device, void *to, const void *from, size_t bytes);
    int (*move)(weft_device *device, void *to, const void *from, size_t bytes);
    int (*wait)(weft_device *device); /* for the stream */
    int (*make_mark)(weft_device *device, void **out_mark);
    int (*drop_mark)(weft_device *device, void *mark);
    int (*set_mark)(weft_device *device, void *mark); /* on the stream */
    int (*wait_mark)(weft_device *device, void *mark);
    int (*between)(weft_device *device, void *from, void *to, float *out_ms);
    weft_status (*status)(const weft_device *device, int result, const char *what);
} weft_gpu_calls;

typedef struct weft_gpu_block {
    void *memory;
    size_t bytes;
} weft_gpu_block;

typedef struct weft_gpu {
    weft_device base;
    const weft_gpu_calls *calls;
    int64_t memory_bytes; /* of the card */
    pthread_mutex_t lock;
    weft_gpu_block *cached;
    size_t cached_count, cached_capacity, live_bytes;
    bool poison; /* WEFT_POISON: new memory is filled */
    pthread_mutex_t landing_lock;
    void *landing;  /* pinned; NULL: there was none */
    void *marks[2]; /* made when they are first set */
} weft_gpu;

void weft_gpu_init(weft_gpu *gpu, weft_context *context, const weft_driver *driver, int ordinal,
                   const weft_gpu_calls *calls);
/* Once the device can be used: pinned memory, if there is some. */
void weft_gpu_start(weft_gpu *gpu);
/* Gives back what start and allocate took, while the device can still be used. */
void weft_gpu_stop(weft_gpu *gpu);
void weft_gpu_deinit(weft_gpu *gpu);

/* As weft_driver has them. */
weft_status weft_gpu_enter(weft_device *device) WEFT_MUST_USE;
weft_status weft_gpu_allocate(weft_device *device, size_t bytes, void **out_memory) WEFT_MUST_USE;
void weft_gpu_free(weft_device *device, void *memory, size_t bytes);
void weft_gpu_trim(weft_device *device);
weft_status weft_gpu_pin(weft_device *device, size_t bytes, void **out_memory) WEFT_MUST_USE;
void weft_gpu_unpin(weft_device *device, void *memory);
weft_status weft_gpu_upload(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_gpu_download(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_gpu_copy(weft_device *device, void *to, const void *from, size_t bytes) WEFT_MUST_USE;
weft_status weft_gpu_synchronise(weft_device *device) WEFT_MUST_USE;
weft_status weft_gpu_mark(weft_device *device, int which) WEFT_MUST_USE;
weft_status weft_gpu_elapsed(weft_device *device, double *out_ns) WEFT_MUST_USE;

/* -- code images */

/* A little-endian number of 1 to 8 bytes. */
uint64_t weft_gpu_number_at(const unsigned char *at, int bytes);
/* Cards' drivers read an ELF file without being told its length: whether the tables that its header promises lie in it.
 */
bool weft_gpu_elf_is_whole(const unsigned char *file, uint64_t bytes);

#endif
