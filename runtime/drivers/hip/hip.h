/* The HIP driver's device: AMD cards. All work is ordered on one stream.

   Driver and devices are called "amdgcn", as the target whose code they run.
   Read next: hip.c (device, copies), memory.c (its calls for runtime/drivers/gpu.h), module.c (code, launches),
   graph.c. */
#ifndef WEFT_RUNTIME_DRIVERS_HIP_HIP_H
#define WEFT_RUNTIME_DRIVERS_HIP_HIP_H

#include <stddef.h>

#include "runtime/driver.h"
#include "runtime/drivers/drivers.h"
#include "runtime/drivers/gpu.h"
#include "runtime/drivers/hip/api.h"

enum { HIP_PARAMETERS_MAX = 96 };

typedef struct hip_device {
    weft_gpu gpu;
    hip_api api;
    hip_stream stream;
    char name[128], arch[32]; /* arch without the features behind its colon */
} hip_device;
_Static_assert(offsetof(hip_device, gpu) == 0, "a weft_gpu is the start of its device");

extern const weft_gpu_calls weft_hip_calls;

weft_status weft_hip_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                          weft_module **out_module) WEFT_MUST_USE;
void weft_hip_unload(weft_device *device, weft_module *module);
weft_status weft_hip_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;
/* The same on another stream. launch->grid > 0. */
weft_status weft_hip_launch_on(hip_device *device, weft_module *module, const weft_launch *launch,
                               hip_stream stream) WEFT_MUST_USE;

weft_status weft_hip_record(weft_device *device, weft_module *module, weft_command_list list,
                            weft_recording **out_recording) WEFT_MUST_USE;
weft_status weft_hip_replay(weft_device *device, weft_recording *recording) WEFT_MUST_USE;
void weft_hip_forget(weft_device *device, weft_recording *recording);

#endif
