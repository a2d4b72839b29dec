/* See api.h. */
#include "runtime/drivers/hip/api.h"

#include <stdbool.h>

#include "runtime/libraries.h"

weft_status weft_hip_api_load(weft_allocator allocator, hip_api *out_api) {
    static const char runtime[] = "the AMD runtime";
    *out_api = (hip_api){0};
    WEFT_TRY(weft_library_open(allocator, "hip", &out_api->library), "starting the AMD runtime");
#define X(name, parameters)                                                                                            \
    WEFT_TRY(weft_library_symbol(out_api->library, runtime, #name, &out_api->name), "starting the AMD runtime");
    HIP_FUNCTIONS(X)
#undef X
    WEFT_TRY(weft_library_symbol(out_api->library, runtime, "hipGetErrorName", &out_api->hipGetErrorName),
             "starting the AMD runtime");
    WEFT_TRY(weft_library_symbol(out_api->library, runtime, "hipGetErrorString", &out_api->hipGetErrorString),
             "starting the AMD runtime");
    /* From version 6 on the old name fills a structure of the old shape. */
    weft_status newer =
        weft_library_symbol(out_api->library, runtime, "hipGetDevicePropertiesR0600", &out_api->get_properties);
    if (!newer) return NULL;
    weft_status_release(newer);
    return weft_library_symbol(out_api->library, runtime, "hipGetDeviceProperties", &out_api->get_properties);
}

/* What loading a damaged code object ends in: the file is wrong, not the runtime. */
static bool is_bad_image(hip_result result) {
    return result == HIP_ERROR_INVALID_IMAGE || result == HIP_ERROR_NO_BINARY_FOR_GPU ||
           result == HIP_ERROR_INVALID_KERNEL_FILE || result == HIP_ERROR_SHARED_OBJECT_INIT_FAILED ||
           result == HIP_ERROR_NOT_FOUND;
}

weft_status weft_hip_status(const hip_api *api, hip_result result, const char *what) {
    if (result == HIP_SUCCESS) return NULL;
    const char *name = api->hipGetErrorName(result), *text = api->hipGetErrorString(result);
    weft_code code = result == HIP_ERROR_OUT_OF_MEMORY                                     ? WEFT_OUT_OF_MEMORY
                     : result == HIP_ERROR_NO_DEVICE || result == HIP_ERROR_INVALID_DEVICE ? WEFT_UNAVAILABLE
                     : is_bad_image(result)                                                ? WEFT_INVALID_DATA
                                                                                           : WEFT_INTERNAL;
    return WEFT_STATUS(code, "%s: %s (%d, %s)", what, name ? name : "unknown HIP error", result, text ? text : "");
}
