/* The part of AMD's HIP runtime that Weft uses, found with dlopen (runtime/libraries.c, row "hip"): own declarations,
   no HIP headers. All functions exist in libamdhip64 from version 5.2 on, unchanged in 6 and 7; values of constants are
   those of hip_runtime_api.h. Immutable once loaded. Source: HIP documentation, "HIP runtime API reference". */
#ifndef WEFT_RUNTIME_DRIVERS_HIP_API_H
#define WEFT_RUNTIME_DRIVERS_HIP_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/context.h"

typedef int hip_result; /* hipError_t */
typedef struct ihipModule_t *hip_module;
typedef struct ihipModuleSymbol_t *hip_function;
typedef struct ihipStream_t *hip_stream;
typedef struct ihipEvent_t *hip_event;
typedef struct ihipGraph *hip_graph;
typedef struct hipGraphExec *hip_graph_exec;
typedef struct hipGraphNode *hip_graph_node;

enum {
    HIP_SUCCESS = 0,
    HIP_ERROR_OUT_OF_MEMORY = 2,
    HIP_ERROR_NO_DEVICE = 100,
    HIP_ERROR_INVALID_DEVICE = 101, /* what hipInit of 5.2 says where there is none */
    HIP_ERROR_INVALID_IMAGE = 200,
    HIP_ERROR_NO_BINARY_FOR_GPU = 209,
    HIP_ERROR_INVALID_KERNEL_FILE = 218,
    HIP_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
    HIP_ERROR_NOT_FOUND = 500,
    HIP_STREAM_NON_BLOCKING = 1,
    HIP_CAPTURE_THREAD_LOCAL = 1
};

#define HIP_FUNCTIONS(X)                                                                                               \
    X(hipInit, (unsigned))                                                                                             \
    X(hipGetDeviceCount, (int *))                                                                                      \
    X(hipSetDevice, (int))                                                                                             \
    X(hipDeviceGetName, (char *, int, int))                                                                            \
    X(hipDeviceTotalMem, (size_t *, int))                                                                              \
    X(hipModuleLoadData, (hip_module *, const void *))                                                                 \
    X(hipModuleUnload, (hip_module))                                                                                   \
    X(hipModuleGetFunction, (hip_function *, hip_module, const char *))                                                \
    X(hipModuleLaunchKernel, (hip_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,      \
                              hip_stream, void **, void **))                                                           \
    X(hipMalloc, (void **, size_t))                                                                                    \
    X(hipFree, (void *))                                                                                               \
    X(hipHostMalloc, (void **, size_t, unsigned))                                                                      \
    X(hipHostFree, (void *))                                                                                           \
    X(hipMemsetAsync, (void *, int, size_t, hip_stream))                                                               \
    X(hipMemcpyHtoDAsync, (void *, void *, size_t, hip_stream))                                                        \
    X(hipMemcpyDtoHAsync, (void *, void *, size_t, hip_stream))                                                        \
    X(hipMemcpyDtoDAsync, (void *, void *, size_t, hip_stream))                                                        \
    X(hipStreamCreateWithFlags, (hip_stream *, unsigned))                                                              \
    X(hipStreamDestroy, (hip_stream))                                                                                  \
    X(hipStreamSynchronize, (hip_stream))                                                                              \
    X(hipEventCreateWithFlags, (hip_event *, unsigned))                                                                \
    X(hipEventDestroy, (hip_event))                                                                                    \
    X(hipEventRecord, (hip_event, hip_stream))                                                                         \
    X(hipEventSynchronize, (hip_event))                                                                                \
    X(hipEventElapsedTime, (float *, hip_event, hip_event))                                                            \
    X(hipStreamBeginCapture, (hip_stream, int))                                                                        \
    X(hipStreamEndCapture, (hip_stream, hip_graph *))                                                                  \
    X(hipGraphInstantiate, (hip_graph_exec *, hip_graph, hip_graph_node *, char *, size_t))                            \
    X(hipGraphLaunch, (hip_graph_exec, hip_stream))                                                                    \
    X(hipGraphExecDestroy, (hip_graph_exec))                                                                           \
    X(hipGraphDestroy, (hip_graph))

typedef struct hip_api {
    void *library;
#define X(name, parameters) hip_result(*name) parameters;
    HIP_FUNCTIONS(X)
#undef X
    const char *(*hipGetErrorName)(hip_result);
    const char *(*hipGetErrorString)(hip_result);
    hip_result (*get_properties)(void *, int); /* hipGetDevicePropertiesR0600 where it exists */
} hip_api;

/* UNAVAILABLE with the remedy when there is no runtime or it is too old. */
weft_status weft_hip_api_load(weft_allocator allocator, hip_api *out_api) WEFT_MUST_USE;
/* "what: hipError... (text)". NULL for HIP_SUCCESS. */
weft_status weft_hip_status(const hip_api *api, hip_result result, const char *what) WEFT_MUST_USE;

#endif
