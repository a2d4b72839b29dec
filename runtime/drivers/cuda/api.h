/* The part of the CUDA driver API that Weft uses, found with dlopen: own declarations, no CUDA headers. Values of
   constants are those of cuda.h and fixed by NVIDIA's binary interface. Immutable once loaded. */
#ifndef WEFT_RUNTIME_DRIVERS_CUDA_API_H
#define WEFT_RUNTIME_DRIVERS_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
typedef struct CUctx_st *cu_context;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphNode_st *cu_graph_node;
typedef struct CUgraphExec_st *cu_graph_exec;
typedef uint64_t cu_condition;

/* CUDA_KERNEL_NODE_PARAMS of CUDA 12 */
typedef struct cu_kernel_node {
    cu_function function;
    unsigned grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    void *kernel;
    cu_context context;
} cu_kernel_node;

/* CUDA_MEMCPY3D */
typedef struct cu_copy {
    size_t from_x, from_y, from_z, from_level;
    int from_type;
    const void *from_host;
    cu_pointer from;
    void *from_array, *reserved_from;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_level;
    int to_type;
    void *to_host;
    cu_pointer to;
    void *to_array, *reserved_to;
    size_t to_pitch, to_height, width_bytes, height, depth;
} cu_copy;

/* CUgraphNodeParams of CUDA 12.4 and later, as a conditional node fills it */
typedef struct cu_conditional_node {
    int type, reserved[3];
    cu_condition handle;
    int kind;
    unsigned size; /* of bodies, which the driver makes and owns */
    cu_graph *bodies;
    cu_context context;
    int64_t padding[25], reserved_too;
} cu_conditional_node;

typedef struct cu_tensor_map {
    _Alignas(64) uint64_t words[16];
} cu_tensor_map;

enum {
    CU_SUCCESS = 0,
    CU_ERROR_OUT_OF_MEMORY = 2,
    CU_ERROR_NO_DEVICE = 100,
    CU_ERROR_INVALID_IMAGE = 200,
    CU_ERROR_NO_BINARY_FOR_GPU = 209,
    CU_ERROR_INVALID_PTX = 218,
    CU_ERROR_NOT_FOUND = 500,
    CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    CU_ATTRIBUTE_MAJOR = 75,
    CU_ATTRIBUTE_MINOR = 76,
    CU_FUNCTION_LOCAL_BYTES = 3,
    CU_FUNCTION_REGISTERS = 4,
    CU_FUNCTION_DYNAMIC_SHARED = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_NODE_CONDITIONAL = 13,
    CU_CONDITION_IF = 0,
    CU_CONDITION_WHILE = 1,
    CU_CONDITION_ASSIGN_DEFAULT = 1,
    CU_VERSION_WITH_CONDITIONS = 12040,
    CU_MEMORY_HOST = 1,
    CU_MEMORY_DEVICE = 2
};

#define CU_FUNCTIONS(X)                                                                                                \
    X(cuInit, "cuInit", (unsigned))                                                                                    \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *))                                                               \
    X(cuGetErrorName, "cuGetErrorName", (cu_result, const char **))                                                    \
    X(cuGetErrorString, "cuGetErrorString", (cu_result, const char **))                                                \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                                                   \
    X(cuDeviceGet, "cuDeviceGet", (cu_device *, int))                                                                  \
    X(cuDeviceGetName, "cuDeviceGetName", (char *, int, cu_device))                                                    \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, cu_device))                                           \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, cu_device))                                                  \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (cu_context *, cu_device))                                 \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (cu_device))                                          \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (cu_context))                                                                \
    X(cuModuleLoadData, "cuModuleLoadData", (cu_module *, const void *))                                               \
    X(cuModuleUnload, "cuModuleUnload", (cu_module))                                                                   \
    X(cuModuleGetFunction, "cuModuleGetFunction", (cu_function *, cu_module, const char *))                            \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", (cu_function, int, int))                                               \
    X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, int, cu_function))                                             \
    X(cuMemAlloc, "cuMemAlloc_v2", (cu_pointer *, size_t))                                                             \
    X(cuMemFree, "cuMemFree_v2", (cu_pointer))                                                                         \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                   \
    X(cuMemFreeHost, "cuMemFreeHost", (void *))                                                                        \
    X(cuMemsetD8Async, "cuMemsetD8Async", (cu_pointer, unsigned char, size_t, cu_stream))                              \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (cu_pointer, const void *, size_t, cu_stream))                        \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, cu_pointer, size_t, cu_stream))                              \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (cu_pointer, cu_pointer, size_t, cu_stream))                          \
    X(cuStreamCreate, "cuStreamCreate", (cu_stream *, unsigned))                                                       \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (cu_stream))                                                              \
    X(cuStreamSynchronize, "cuStreamSynchronize", (cu_stream))                                                         \
    X(cuEventCreate, "cuEventCreate", (cu_event *, unsigned))                                                          \
    X(cuEventDestroy, "cuEventDestroy_v2", (cu_event))                                                                 \
    X(cuEventRecord, "cuEventRecord", (cu_event, cu_stream))                                                           \
    X(cuEventSynchronize, "cuEventSynchronize", (cu_event))                                                            \
    X(cuEventElapsedTime, "cuEventElapsedTime", (float *, cu_event, cu_event))                                         \
    X(cuLaunchKernel, "cuLaunchKernel",                                                                                \
      (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cu_stream, void **,          \
       void **))

/* NULL when missing: launches then go one by one. */
#define CU_GRAPH_FUNCTIONS(X)                                                                                          \
    X(cuGraphCreate, "cuGraphCreate", (cu_graph *, unsigned))                                                          \
    X(cuGraphDestroy, "cuGraphDestroy", (cu_graph))                                                                    \
    X(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2",                                                                 \
      (cu_graph_node *, cu_graph, const cu_graph_node *, size_t, const cu_kernel_node *))                              \
    X(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                                    \
      (cu_graph_node *, cu_graph, const cu_graph_node *, size_t, const cu_copy *, cu_context))                         \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (cu_graph_exec *, cu_graph, unsigned long long))              \
    X(cuGraphLaunch, "cuGraphLaunch", (cu_graph_exec, cu_stream))                                                      \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (cu_graph_exec))

/* Loops and branches in graphs. NULL when missing: the host decides. */
#define CU_CONDITION_FUNCTIONS(X)                                                                                      \
    X(cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate",                                                \
      (cu_condition *, cu_graph, cu_context, unsigned, unsigned))                                                      \
    X(cuGraphAddNode, "cuGraphAddNode_v2",                                                                             \
      (cu_graph_node *, cu_graph, const cu_graph_node *, const void *, size_t, cu_conditional_node *))

/* Newer than CUDA 11: only Hopper code needs it; NULL when missing. */
typedef cu_result (*cu_encode_tiled)(cu_tensor_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                                     const uint32_t *, const uint32_t *, int, int, int, int);

typedef struct cu_api {
    void *library;
#define X(name, symbol, parameters) cu_result(*name) parameters;
    CU_FUNCTIONS(X)
    CU_GRAPH_FUNCTIONS(X)
    CU_CONDITION_FUNCTIONS(X)
#undef X
    int version; /* of the driver, as cuDriverGetVersion has it */
    cu_encode_tiled cuTensorMapEncodeTiled;
} cu_api;

/* UNAVAILABLE with the remedy when there is no driver or it is too old. */
weft_status weft_cuda_api_load(cu_api *out_api) WEFT_MUST_USE;
/* "what: CUDA_ERROR_... (text)". NULL for CU_SUCCESS. */
weft_status weft_cuda_status(const cu_api *api, cu_result result, const char *what) WEFT_MUST_USE;

#endif
