/* The CUDA driver's device. One per card and context; all work is ordered on one stream.
   Read next: cuda.c (device, copies), memory.c (its calls for runtime/drivers/gpu.h), module.c (code, launches). */
#ifndef WEFT_RUNTIME_DRIVERS_CUDA_CUDA_H
#define WEFT_RUNTIME_DRIVERS_CUDA_CUDA_H

#include <pthread.h>
#include <stddef.h>

#include "runtime/driver.h"
#include "runtime/drivers/cuda/api.h"
#include "runtime/drivers/drivers.h"
#include "runtime/drivers/gpu.h"

enum { CUDA_MAP_CACHE = 256 };

typedef struct cuda_map_entry {
    weft_launch_map key;
    cu_tensor_map map;
    bool used;
} cuda_map_entry;

enum { CUDA_PARAMETERS_MAX = 96, CUDA_MAPS_MAX = 32 };

/* A launch with its parameters laid out for the driver; points into itself. */
typedef struct cuda_prepared {
    cu_function function;
    unsigned blocks, threads, shared_bytes;
    cu_tensor_map maps[CUDA_MAPS_MAX];
    void *parameters[CUDA_PARAMETERS_MAX], *pointers[CUDA_PARAMETERS_MAX];
    int64_t extents[CUDA_PARAMETERS_MAX];
} cuda_prepared;

typedef struct cuda_device {
    weft_gpu gpu;
    cu_api api;
    cu_device device;
    cu_context context;
    cu_stream stream, own_stream;
    int major, minor;
    char name[128], arch[16];
    pthread_mutex_t lock; /* of the maps, and of how much shared memory kernels may ask for */
    cuda_map_entry maps[CUDA_MAP_CACHE];
} cuda_device;
_Static_assert(offsetof(cuda_device, gpu) == 0, "a weft_gpu is the start of its device");

/* Work goes to this stream (of the device's primary context) until it is changed again; NULL = the device's own. For
   programs that share the card with another library. The caller keeps the stream alive. */
void weft_cuda_use_stream(weft_device *device, void *stream);

extern const weft_gpu_calls weft_cuda_calls;

weft_status weft_cuda_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                           weft_module **out_module) WEFT_MUST_USE;
void weft_cuda_unload(weft_device *device, weft_module *module);
weft_status weft_cuda_launch(weft_device *device, weft_module *module, const weft_launch *launch) WEFT_MUST_USE;
/* Checks the launch, allows its shared memory, lays out its parameters. launch->grid > 0. */
weft_status weft_cuda_prepare(cuda_device *device, weft_module *module, const weft_launch *launch,
                              cuda_prepared *out_prepared) WEFT_MUST_USE;
weft_status weft_cuda_record(weft_device *device, weft_module *module, int count, const weft_command *commands,
                             weft_recording **out_recording) WEFT_MUST_USE;
weft_status weft_cuda_replay(weft_device *device, weft_recording *recording) WEFT_MUST_USE;
void weft_cuda_forget(weft_device *device, weft_recording *recording);
/* Registers and local memory per thread as the device loaded the kernel. */
weft_status weft_cuda_kernel_info(weft_device *device, weft_module *module, int kernel, int *out_registers,
                                  int *out_local_bytes) WEFT_MUST_USE;

#endif
