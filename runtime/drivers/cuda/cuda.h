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
    pthread_mutex_t lock; /* of the maps, of how much shared memory kernels may ask for, and of condition_module */
    cuda_map_entry maps[CUDA_MAP_CACHE];
    cu_module condition_module; /* NULL until a graph needs it: conditions.c */
    cu_function set_condition;
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
weft_status weft_cuda_record(weft_device *device, weft_module *module, weft_command_list list,
                             weft_recording **out_recording) WEFT_MUST_USE;
weft_status weft_cuda_replay(weft_device *device, weft_recording *recording) WEFT_MUST_USE;
void weft_cuda_forget(weft_device *device, weft_recording *recording);
/* conditions.c: whether this driver's graphs have loops and branches; the same in words. */
bool weft_cuda_records_control(const weft_device *device);
const char *weft_cuda_remark(const weft_device *device);
/* A handle that the graph, or one inside it, makes a conditional node of. */
weft_status weft_cuda_make_condition(cuda_device *device, cu_graph graph, cu_condition *out_handle) WEFT_MUST_USE;
/* A node that sets the handle to whether the byte at `predicate` is not 0, or with `inverted` is. */
weft_status weft_cuda_add_setter(cuda_device *device, cu_graph graph, size_t before_count, const cu_graph_node *before,
                                 cu_condition handle, const void *predicate, bool inverted,
                                 cu_graph_node *out_node) WEFT_MUST_USE;
/* A conditional node; its body is empty and the graph's. */
weft_status weft_cuda_add_condition(cuda_device *device, cu_graph graph, size_t before_count,
                                    const cu_graph_node *before, cu_condition handle, bool loop,
                                    cu_graph_node *out_node, cu_graph *out_body) WEFT_MUST_USE;
void weft_cuda_drop_conditions(cuda_device *device);
/* Registers and local memory per thread as the device loaded the kernel. */
weft_status weft_cuda_kernel_info(weft_device *device, weft_module *module, int kernel, int *out_registers,
                                  int *out_local_bytes) WEFT_MUST_USE;

#endif
