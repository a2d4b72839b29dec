/* The native WebGPU driver's device: wgpu-native, found when a program runs.

   Buffers have no addresses there. Memory handed out is a number in a space of its own, so that programs do arithmetic
   on it; a table of blocks finds buffer and offset. Kernels bind every buffer as read-write: one block may then be read
   and written by a dispatch at different places. Commands go into one encoder, submitted when somebody waits or it is
   long. Errors arrive late, by a callback: the next wait reports the first.
   Read next: api.h, device.c, probe.c, memory.c, module.c. */
#ifndef WEFT_RUNTIME_DRIVERS_WEBGPU_WEBGPU_H
#define WEFT_RUNTIME_DRIVERS_WEBGPU_WEBGPU_H

#include "runtime/driver.h"
#include "runtime/drivers/blocks.h"
#include "runtime/drivers/drivers.h"
#include "runtime/drivers/webgpu/api.h"

enum { WEBGPU_UNIFORM_BYTES = 256 << 10, WEBGPU_COMMANDS_MAX = 512 };

typedef struct webgpu_device {
    weft_block_device gpu; /* first; addresses are numbers that nothing lies at */
    wgpu_api api;
    wgpu_handle instance, adapter, device, queue;
    wgpu_handle encoder;  /* open, or NULL */
    wgpu_handle uniforms; /* blocks and extents of launches under way */
    uint64_t uniform_used;
    int command_count;
    char name[128], arch[32]; /* arch: the code that fits it best */
    wgpu_enum features[2];    /* that were asked for */
    int feature_count;
    bool halves, subgroups; /* f16; shuffles, and one size of subgroups */
    wgpu_adapter_info info; /* numbers only */
    wgpu_limits limits;
    bool lost;
    char problem[400]; /* the first error since the last wait; "": none */
    bool no_memory;    /* it was one of memory */
    uint64_t next_address;
} webgpu_device;

/* -- memory.c; under the lock */
/* A buffer for these uses; errors are statuses. */
weft_status weft_webgpu_buffer(webgpu_device *device, uint64_t usage, uint64_t bytes,
                               wgpu_handle *out_buffer) WEFT_MUST_USE;
/* The open encoder, with room for one more command. */
weft_status weft_webgpu_encoder(webgpu_device *device, wgpu_handle *out_encoder) WEFT_MUST_USE;
/* Submits what is encoded. */
void weft_webgpu_submit(webgpu_device *device);
/* Submits, waits, and reports what went wrong since the last time. */
weft_status weft_webgpu_flush(webgpu_device *device) WEFT_MUST_USE;
weft_status weft_webgpu_problem(webgpu_device *device) WEFT_MUST_USE;
extern const weft_block_calls weft_webgpu_blocks;

/* -- probe.c; an open device that nobody else has yet */
/* Is f16 what IEEE 754 says, below 2^-14 and beyond 65504 too? */
bool weft_webgpu_keeps_halves(webgpu_device *device);
/* Threads of a subgroup, found by running one kernel; 0: it has none, or several sizes. */
int weft_webgpu_subgroup_size(webgpu_device *device);

/* -- module.c */
weft_status weft_webgpu_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) WEFT_MUST_USE;
void weft_webgpu_unload(weft_device *device, weft_module *module);
weft_status weft_webgpu_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;

#endif
