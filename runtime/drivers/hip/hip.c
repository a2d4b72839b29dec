/* Devices of the HIP driver. See hip.h. */
#include "runtime/drivers/hip/hip.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { PROPERTIES_BYTES = 8192, NAME_BYTES = 256, ARCH_LIMIT = 24 };

/* The architecture stands in the properties alone, whose layout changed between versions of the runtime: it is the text
   "gfx..." at some multiple of 4 bytes behind the device's name. "gfx90a:sramecc+:xnack-" -> "gfx90a". */
static weft_status read_arch(hip_device *device) {
    weft_allocator allocator = device->gpu.base.context->allocator;
    char *properties = weft_allocate(allocator, PROPERTIES_BYTES);
    if (!properties) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the properties of a device");
    weft_status status = weft_hip_status(&device->api, device->api.get_properties(properties, device->gpu.base.ordinal),
                                         "hipGetDeviceProperties");
    for (int at = NAME_BYTES; !status && !device->arch[0] && at < PROPERTIES_BYTES - ARCH_LIMIT; at += 4) {
        size_t length = strncmp(properties + at, "gfx", 3) ? 0 : strcspn(properties + at, ":");
        if (length > 3 && length < ARCH_LIMIT) memcpy(device->arch, properties + at, length);
    }
    weft_free(allocator, properties, PROPERTIES_BYTES);
    if (!status && !device->arch[0])
        status = WEFT_STATUS(WEFT_UNSUPPORTED, "the AMD runtime does not say which architecture its device has");
    return status;
}

static weft_status query(hip_device *device, int ordinal) {
    hip_api *api = &device->api;
    int count = 0;
    size_t bytes = 0;
    WEFT_TRY(weft_hip_status(api, api->hipInit(0), "hipInit"), "starting the AMD runtime");
    WEFT_TRY(weft_hip_status(api, api->hipGetDeviceCount(&count), "hipGetDeviceCount"), "counting AMD devices");
    if (ordinal >= count)
        return WEFT_STATUS(WEFT_NOT_FOUND, "there is no amdgcn:%d: the runtime shows %d devices", ordinal, count);
    WEFT_TRY(weft_gpu_enter(&device->gpu.base), "amdgcn:%d", ordinal);
    WEFT_TRY(
        weft_hip_status(api, api->hipDeviceGetName(device->name, sizeof device->name, ordinal), "hipDeviceGetName"),
        "amdgcn:%d", ordinal);
    WEFT_TRY(weft_hip_status(api, api->hipDeviceTotalMem(&bytes, ordinal), "hipDeviceTotalMem"), "amdgcn:%d", ordinal);
    device->gpu.memory_bytes = (int64_t)bytes;
    WEFT_TRY(read_arch(device), "amdgcn:%d", ordinal);
    WEFT_TRY(weft_hip_status(api, api->hipStreamCreateWithFlags(&device->stream, HIP_STREAM_NON_BLOCKING),
                             "hipStreamCreateWithFlags"),
             "amdgcn:%d", ordinal);
    weft_gpu_start(&device->gpu);
    return NULL;
}

static void hip_close(weft_device *base) {
    hip_device *device = (hip_device *)base;
    if (device->stream) {
        weft_gpu_stop(&device->gpu);
        (void)device->api.hipStreamDestroy(device->stream);
    }
    weft_gpu_deinit(&device->gpu);
    weft_free(base->context->allocator, device, sizeof *device);
}

static weft_status hip_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    hip_api api;
    WEFT_TRY(weft_hip_api_load(context->allocator, &api), "opening amdgcn:%d", ordinal);
    hip_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    device->api = api;
    weft_gpu_init(&device->gpu, context, &weft_driver_hip, ordinal, &weft_hip_calls);
    weft_status status = query(device, ordinal);
    if (status)
        hip_close(&device->gpu.base);
    else
        *out_device = &device->gpu.base;
    return status;
}

static void hip_info(const weft_device *base, weft_device_info *out_info) {
    const hip_device *device = (const hip_device *)base;
    *out_info =
        (weft_device_info){.driver = "amdgcn", .memory_bytes = device->gpu.memory_bytes, .ordinal = base->ordinal};
    snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
    snprintf(out_info->arch, sizeof out_info->arch, "%s", device->arch);
}

/* Machine code: the same architecture or none. */
static int hip_match(const weft_device *base, const char *arch) {
    return strcmp(((const hip_device *)base)->arch, arch) ? 0 : 1000;
}

const weft_driver weft_driver_hip = {.name = "amdgcn",
                                     .open = hip_open,
                                     .close = hip_close,
                                     .info = hip_info,
                                     .match = hip_match,
                                     .load = weft_hip_load,
                                     .unload = weft_hip_unload,
                                     .allocate = weft_gpu_allocate,
                                     .free = weft_gpu_free,
                                     .upload = weft_gpu_upload,
                                     .download = weft_gpu_download,
                                     .copy = weft_gpu_copy,
                                     .launch = weft_hip_launch,
                                     .synchronise = weft_gpu_synchronise,
                                     .trim = weft_gpu_trim,
                                     .record = weft_hip_record,
                                     .replay = weft_hip_replay,
                                     .forget = weft_hip_forget,
                                     .mark = weft_gpu_mark,
                                     .elapsed = weft_gpu_elapsed};
