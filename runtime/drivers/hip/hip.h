/* The HIP driver's device: AMD cards. All work is ordered on one stream.

   Driver and devices are called "amdgcn", as the target whose code they run.
   Read next: hip.c (device, copies), memory.c (the caching allocator), module.c (code, launches), graph.c. */
#ifndef WEFT_RUNTIME_DRIVERS_HIP_HIP_H
#define WEFT_RUNTIME_DRIVERS_HIP_HIP_H

#include <pthread.h>

#include "runtime/driver.h"
#include "runtime/drivers/drivers.h"
#include "runtime/drivers/hip/api.h"

typedef struct hip_block {
    void *memory;
    size_t bytes;
} hip_block;

enum { HIP_LANDING_BYTES = 1 << 16, HIP_PARAMETERS_MAX = 96 };

typedef struct hip_device {
    weft_device base;
    hip_api api;
    hip_stream stream;
    hip_event marks[2];
    char name[128], arch[32]; /* arch without the features behind its colon */
    int64_t memory_bytes;
    pthread_mutex_t lock; /* of the cache */
    hip_block *cached;    /* freed blocks, kept for the next allocation of their size */
    size_t cached_count, cached_capacity, live_bytes;
    bool poison; /* new memory is filled with 0xff */
    pthread_mutex_t landing_lock;
    void *landing; /* pinned memory where small downloads arrive; NULL: there was none */
} hip_device;

/* Makes the device this thread's current one. */
weft_status weft_hip_enter(hip_device *device) WEFT_MUST_USE;

weft_status weft_hip_allocate(weft_device *device, size_t bytes, void **out_memory) WEFT_MUST_USE;
void weft_hip_free(weft_device *device, void *memory, size_t bytes);
void weft_hip_trim(weft_device *device); /* gives cached blocks back */

weft_status weft_hip_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                          weft_module **out_module) WEFT_MUST_USE;
void weft_hip_unload(weft_device *device, weft_module *module);
weft_status weft_hip_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;
/* The same on another stream. launch->grid > 0. */
weft_status weft_hip_launch_on(hip_device *device, weft_module *module, const weft_launch *launch,
                               hip_stream stream) WEFT_MUST_USE;

weft_status weft_hip_record(weft_device *device, weft_module *module, int count, const weft_command *commands,
                            weft_recording **out_recording) WEFT_MUST_USE;
weft_status weft_hip_replay(weft_device *device, weft_recording *recording) WEFT_MUST_USE;
void weft_hip_forget(weft_device *device, weft_recording *recording);
weft_status weft_hip_mark(weft_device *device, int which) WEFT_MUST_USE;
weft_status weft_hip_elapsed(weft_device *device, double *out_ns) WEFT_MUST_USE;

#endif
