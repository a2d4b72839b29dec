/* What a device driver provides. The null driver (drivers/null) is the skeleton to copy; one conformance suite
   (tests/runtime) runs all drivers.

   Buffers are driver memory; on the CPU driver they are host pointers. Launches are ordered on one stream per session;
   synchronise waits for it. Errors name kernel and step. */
#ifndef WEFT_RUNTIME_DRIVER_H
#define WEFT_RUNTIME_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/context.h"
#include "base/program.h"
#include "weft/device.h"

/* Code of one program for one target: a freestanding ELF image (cpu), cubin or PTX (cuda), SPIR-V modules (vulkan). */
typedef struct weft_binary {
    const char *arch;
    const void *data;
    size_t bytes;
} weft_binary;

typedef struct weft_module weft_module; /* loaded code */

/* A weft_tensor_map with its extents evaluated and its buffer bound; the driver encodes it. */
typedef struct weft_launch_map {
    void *memory;
    weft_dtype dtype;
    int rank;                           /* innermost dimension first */
    int64_t extent[5], stride_bytes[5]; /* strides from dimension 1 */
    int box[5];
    int swizzle_bytes;
} weft_launch_map;

/* GPU kernels take their buffers, then their extents (64-bit), then (CUDA) their tensor maps, each in argument order.
 */
typedef struct weft_launch {
    int kernel; /* index into the program's kernels */
    int64_t grid;
    int64_t scratch_bytes; /* per thread, or dynamic shared memory */
    int buffer_count, extent_count, map_count;
    void *const *buffers;
    const int64_t *extents;
    const weft_launch_map *maps;
} weft_launch;

typedef struct weft_command weft_command;
typedef struct weft_command_list {
    int count;
    const weft_command *commands;
} weft_command_list;

/* One of the commands of a recording: a launch; a copy; or, where `predicate` is not NULL, what the byte there decides
   on the device: a loop runs `body` again and again while the byte is not 0, and body's last commands write it anew;
   a branch runs `body` if it is not 0 and `other` if it is. A command may begin once those in `after` (ascending, all
   before it in its list) have ended; a driver may do more than that, up to one after the other. */
struct weft_command {
    const weft_launch *launch;
    void *to;
    const void *from;
    size_t bytes;
    bool from_host, to_host; /* copies: that side is memory from `pin` */
    const void *predicate;
    bool loop;
    weft_command_list body, other;
    int after_count;
    const int *after;
};

typedef struct weft_recording weft_recording;

typedef struct weft_driver {
    const char *name;
    weft_status (*open)(weft_context *context, int ordinal, weft_device **out_device);
    void (*close)(weft_device *device);
    void (*info)(const weft_device *device, weft_device_info *out_info);
    /* How well code for `arch` fits this device: 0 = cannot run, higher is better. */
    int (*match)(const weft_device *device, const char *arch);
    weft_status (*load)(weft_device *device, const weft_program_data *program, const weft_binary *code,
                        weft_module **out_module);
    void (*unload)(weft_device *device, weft_module *module);
    weft_status (*allocate)(weft_device *device, size_t bytes, void **out_memory); /* 64-byte aligned (GPUs: 256) */
    void (*free)(weft_device *device, void *memory, size_t bytes);
    weft_status (*upload)(weft_device *device, void *to, const void *from, size_t bytes);
    weft_status (*download)(weft_device *device, void *to, const void *from, size_t bytes);
    weft_status (*copy)(weft_device *device, void *to, const void *from, size_t bytes);
    weft_status (*launch)(weft_device *device, weft_module *module, const weft_launch *launch);
    weft_status (*synchronise)(weft_device *device);
    void (*trim)(weft_device *device); /* gives cached memory back; may be NULL */
    /* Host memory that copies of a recording may read and write. NULL: has none. */
    weft_status (*pin)(weft_device *device, size_t bytes, void **out_memory);
    void (*unpin)(weft_device *device, void *memory);
    /* Commands kept by the device and started at once, with the addresses they had. NULL: has none. */
    weft_status (*record)(weft_device *device, weft_module *module, weft_command_list list,
                          weft_recording **out_recording);
    /* Whether recordings may hold loops and branches; NULL: they may not, the host decides after each predicate. */
    bool (*records_control)(const weft_device *device);
    weft_status (*replay)(weft_device *device, weft_recording *recording);
    void (*forget)(weft_device *device, weft_recording *recording); /* after the last replay has ended; NULL is fine */
    /* What the device took from mark 0 to mark 1; elapsed waits for it. NULL: cannot tell. */
    weft_status (*mark)(weft_device *device, int which);
    weft_status (*elapsed)(weft_device *device, double *out_ns);
    /* What `weft doctor` says of this device beside its name; NULL: nothing. Borrowed. */
    const char *(*remark)(const weft_device *device);
    bool host_memory; /* buffers are host pointers: inputs and weights are used in place */
} weft_driver;

struct weft_device {
    const weft_driver *driver;
    atomic_int references;
    weft_context *context;
    int ordinal;
    struct weft_device *next; /* in context->devices */
    /* All set by weft_device_open, after the driver's open. Driver fields follow in the driver's own struct */
};

/* Registration table, NULL-terminated: drivers/drivers.c. */
extern const weft_driver *const weft_drivers[];

/* CPU kernels: buffers and extents in argument order; blocks [lo, hi); scratch is the thread's own, 64-byte aligned. */
typedef void (*weft_cpu_kernel)(void *const *buffers, const int64_t *extents, int64_t lo, int64_t hi, void *scratch);

#endif
