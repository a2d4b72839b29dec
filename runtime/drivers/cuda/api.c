/* See api.h. The driver library is never closed: it does not survive that. */
#include "runtime/drivers/cuda/api.h"

#include <dlfcn.h>
#include <stdbool.h>

weft_status weft_cuda_api_load(cu_api *out_api) {
    static const char *const files[] = {"libcuda.so.1", "libcuda.so", "/usr/local/nvidia/lib64/libcuda.so.1",
                                        "/usr/lib/wsl/lib/libcuda.so.1"};
    *out_api = (cu_api){0};
    for (size_t i = 0; i < sizeof files / sizeof *files && !out_api->library; i++)
        out_api->library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!out_api->library)
        return WEFT_STATUS(
            WEFT_UNAVAILABLE,
            "no NVIDIA driver: libcuda.so.1 was not found on the loader's path, in /usr/local/nvidia/lib64 or in "
            "/usr/lib/wsl/lib; install the driver of the graphics card");
#define X(name, symbol, parameters)                                                                                    \
    *(void **)&out_api->name = dlsym(out_api->library, symbol);                                                        \
    if (!out_api->name) return WEFT_STATUS(WEFT_UNAVAILABLE, "the NVIDIA driver is too old: it has no " symbol);
    CU_FUNCTIONS(X)
#undef X
#define X(name, symbol, parameters) *(void **)&out_api->name = dlsym(out_api->library, symbol);
    CU_GRAPH_FUNCTIONS(X)
    CU_CONDITION_FUNCTIONS(X)
#undef X
    if (out_api->cuDriverGetVersion(&out_api->version)) out_api->version = 0;
    *(void **)&out_api->cuTensorMapEncodeTiled = dlsym(out_api->library, "cuTensorMapEncodeTiled");
    return NULL;
}

/* Faults of kernels (cuda.h, 700 to 719 but for 701 to 709, which are refusals): "the process must be terminated and
   relaunched", CUDA driver API reference, cudaError_enum. */
static bool ends_the_process(cu_result result) { return result == 700 || (result >= 710 && result <= 719); }

/* What loading damaged code ends in: the file is wrong, not the driver. */
static bool is_bad_image(cu_result result) {
    return result == CU_ERROR_INVALID_IMAGE || result == CU_ERROR_NO_BINARY_FOR_GPU || result == CU_ERROR_INVALID_PTX ||
           result == CU_ERROR_NOT_FOUND;
}

weft_status weft_cuda_status(const cu_api *api, cu_result result, const char *what) {
    if (result == CU_SUCCESS) return NULL;
    const char *name = NULL, *text = NULL;
    if (api->cuGetErrorName(result, &name) || !name) name = "unknown CUDA error";
    if (api->cuGetErrorString(result, &text) || !text) text = "";
    weft_code code = result == CU_ERROR_OUT_OF_MEMORY ? WEFT_OUT_OF_MEMORY
                     : result == CU_ERROR_NO_DEVICE   ? WEFT_UNAVAILABLE
                     : is_bad_image(result)           ? WEFT_INVALID_DATA
                                                      : WEFT_INTERNAL;
    return WEFT_STATUS(code, "%s: %s (%d, %s)%s", what, name, result, text,
                       ends_the_process(result) ? "; CUDA does no more work in this process: start it anew" : "");
}
