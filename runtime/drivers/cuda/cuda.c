/* Devices of the CUDA driver. The primary context is retained, so that other libraries of the process that
   use it (the CUDA runtime does) can pass pointers in. See cuda.h. */
#include "runtime/drivers/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

static weft_status query(cuda_device *device, int ordinal) {
    cu_api *api = &device->api;
    int count = 0;
    size_t bytes = 0;
    WEFT_TRY(weft_cuda_status(api, api->cuInit(0), "cuInit"), "starting the NVIDIA driver");
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceGetCount(&count), "cuDeviceGetCount"), "counting CUDA devices");
    if (ordinal >= count)
        return WEFT_STATUS(WEFT_NOT_FOUND, "there is no cuda:%d: the driver shows %d devices", ordinal, count);
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceGet(&device->device, ordinal), "cuDeviceGet"), "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceGetName(device->name, sizeof device->name, device->device),
                              "cuDeviceGetName"),
             "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceGetAttribute(&device->major, CU_ATTRIBUTE_MAJOR, device->device),
                              "cuDeviceGetAttribute"),
             "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceGetAttribute(&device->minor, CU_ATTRIBUTE_MINOR, device->device),
                              "cuDeviceGetAttribute"),
             "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceTotalMem(&bytes, device->device), "cuDeviceTotalMem"), "cuda:%d",
             ordinal);
    device->gpu.memory_bytes = (int64_t)bytes;
    /* from 9.0 on code for exactly this architecture ("a") may use all of its instructions */
    snprintf(device->arch, sizeof device->arch, "sm_%d%d%s", device->major, device->minor,
             device->major >= 9 ? "a" : "");
    WEFT_TRY(weft_cuda_status(api, api->cuDevicePrimaryCtxRetain(&device->context, device->device),
                              "cuDevicePrimaryCtxRetain"),
             "cuda:%d", ordinal);
    WEFT_TRY(weft_gpu_enter(&device->gpu.base), "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuStreamCreate(&device->own_stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"),
             "cuda:%d", ordinal);
    device->stream = device->own_stream;
    weft_gpu_start(&device->gpu);
    return NULL;
}

static void cuda_close(weft_device *base) {
    cuda_device *device = (cuda_device *)base;
    if (device->context) {
        weft_gpu_stop(&device->gpu);
        weft_cuda_drop_conditions(device);
        if (device->own_stream) (void)device->api.cuStreamDestroy(device->own_stream);
        (void)device->api.cuDevicePrimaryCtxRelease(device->device);
    }
    weft_allocator allocator = base->context->allocator;
    weft_gpu_deinit(&device->gpu);
    (void)pthread_mutex_destroy(&device->lock);
    allocator.resize(allocator.self, device, sizeof *device, 0, 64);
}

static weft_status cuda_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    cu_api api;
    WEFT_TRY(weft_cuda_api_load(&api), "opening cuda:%d", ordinal);
    weft_allocator allocator = context->allocator;
    cuda_device *device = allocator.resize(allocator.self, NULL, 0, sizeof *device, 64);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    memset(device, 0, sizeof *device);
    device->api = api;
    (void)pthread_mutex_init(&device->lock, NULL);
    weft_gpu_init(&device->gpu, context, &weft_driver_cuda, ordinal, &weft_cuda_calls);
    weft_status status = query(device, ordinal);
    if (status)
        cuda_close(&device->gpu.base);
    else
        *out_device = &device->gpu.base;
    return status;
}

static void cuda_info(const weft_device *base, weft_device_info *out_info) {
    const cuda_device *device = (const cuda_device *)base;
    *out_info =
        (weft_device_info){.driver = "cuda", .memory_bytes = device->gpu.memory_bytes, .ordinal = base->ordinal};
    snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
    snprintf(out_info->arch, sizeof out_info->arch, "%s", device->arch);
}

/* Exact code first, then cubins of the same major version with a lower minor, then anything with PTX below. */
static int cuda_match(const weft_device *base, const char *arch) {
    const cuda_device *device = (const cuda_device *)base;
    int number = 0;
    char suffix = 0;
    if (sscanf(arch, "sm_%d%c", &number, &suffix) < 1) return 0;
    int own = device->major * 10 + device->minor;
    if (suffix == 'a') return number == own ? 1000 : 0;
    if (number == own) return 900;
    if (number > own) return 0;
    return number / 10 == device->major ? 500 + number % 10 : number;
}

void weft_cuda_use_stream(weft_device *base, void *stream) {
    cuda_device *device = (cuda_device *)base;
    device->stream = stream ? stream : device->own_stream;
}

const weft_driver weft_driver_cuda = {.name = "cuda",
                                      .open = cuda_open,
                                      .close = cuda_close,
                                      .info = cuda_info,
                                      .match = cuda_match,
                                      .load = weft_cuda_load,
                                      .unload = weft_cuda_unload,
                                      .allocate = weft_gpu_allocate,
                                      .free = weft_gpu_free,
                                      .upload = weft_gpu_upload,
                                      .download = weft_gpu_download,
                                      .copy = weft_gpu_copy,
                                      .pin = weft_gpu_pin,
                                      .unpin = weft_gpu_unpin,
                                      .launch = weft_cuda_launch,
                                      .synchronise = weft_gpu_synchronise,
                                      .record = weft_cuda_record,
                                      .records_control = weft_cuda_records_control,
                                      .remark = weft_cuda_remark,
                                      .replay = weft_cuda_replay,
                                      .forget = weft_cuda_forget,
                                      .mark = weft_gpu_mark,
                                      .elapsed = weft_gpu_elapsed,
                                      .trim = weft_gpu_trim};
