/* Devices and copies of the CUDA driver. The primary context is retained, so that other libraries of the process that
   use it (the CUDA runtime does) can pass pointers in. See cuda.h. */
#include "runtime/drivers/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

weft_status weft_cuda_enter(cuda_device *device) {
    return weft_cuda_status(&device->api, device->api.cuCtxSetCurrent(device->context),
                            "making a CUDA context current");
}

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
    static const int attributes[] = {CU_ATTRIBUTE_THREADS_PER_MULTIPROCESSOR, CU_ATTRIBUTE_SHARED_PER_MULTIPROCESSOR,
                                     CU_ATTRIBUTE_REGISTERS_PER_MULTIPROCESSOR};
    int *const facts[] = {&device->processor_threads, &device->processor_shared, &device->processor_registers};
    for (int i = 0; i < 3; i++)
        if (api->cuDeviceGetAttribute(facts[i], attributes[i], device->device)) *facts[i] = 0;
    WEFT_TRY(weft_cuda_status(api, api->cuDeviceTotalMem(&bytes, device->device), "cuDeviceTotalMem"), "cuda:%d",
             ordinal);
    device->memory_bytes = (int64_t)bytes;
    /* from 9.0 on code for exactly this architecture ("a") may use all of its instructions */
    snprintf(device->arch, sizeof device->arch, "sm_%d%d%s", device->major, device->minor,
             device->major >= 9 ? "a" : "");
    WEFT_TRY(weft_cuda_status(api, api->cuDevicePrimaryCtxRetain(&device->context, device->device),
                              "cuDevicePrimaryCtxRetain"),
             "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_enter(device), "cuda:%d", ordinal);
    WEFT_TRY(weft_cuda_status(api, api->cuStreamCreate(&device->own_stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"),
             "cuda:%d", ordinal);
    device->stream = device->own_stream;
    if (api->cuMemHostAlloc(&device->landing, CUDA_LANDING_BYTES, 0)) device->landing = NULL;
    return NULL;
}

static void cuda_close(weft_device *base) {
    cuda_device *device = (cuda_device *)base;
    if (device->context) {
        weft_status_release(weft_cuda_enter(device));
        weft_cuda_trim(base);
        for (int i = 0; i < 2; i++)
            if (device->marks[i]) (void)device->api.cuEventDestroy(device->marks[i]);
        if (device->landing) (void)device->api.cuMemFreeHost(device->landing);
        if (device->own_stream) (void)device->api.cuStreamDestroy(device->own_stream);
        (void)device->api.cuDevicePrimaryCtxRelease(device->device);
    }
    weft_allocator allocator = base->context->allocator;
    weft_free(allocator, device->cached, device->cached_capacity * sizeof *device->cached);
    (void)pthread_mutex_destroy(&device->landing_lock);
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
    device->base.context = context;
    device->base.driver = &weft_driver_cuda;
    device->base.ordinal = ordinal;
    device->api = api;
    device->poison = weft_env_get(WEFT_ENV_POISON)[0] == '1';
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->landing_lock, NULL);
    weft_status status = query(device, ordinal);
    if (status)
        cuda_close(&device->base);
    else
        *out_device = &device->base;
    return status;
}

static void cuda_info(const weft_device *base, weft_device_info *out_info) {
    const cuda_device *device = (const cuda_device *)base;
    *out_info = (weft_device_info){.driver = "cuda", .memory_bytes = device->memory_bytes, .ordinal = base->ordinal};
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

static weft_status cuda_upload(weft_device *base, void *to, const void *from, size_t bytes) {
    cuda_device *device = (cuda_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_cuda_enter(device), "upload");
    return weft_cuda_status(&device->api,
                            device->api.cuMemcpyHtoDAsync((cu_pointer)(uintptr_t)to, from, bytes, device->stream),
                            "copying to the device");
}

static weft_status cuda_synchronise(weft_device *base) {
    cuda_device *device = (cuda_device *)base;
    WEFT_TRY(weft_cuda_enter(device), "synchronise");
    return weft_cuda_status(&device->api, device->api.cuStreamSynchronize(device->stream), "waiting for the device");
}

static weft_status fetch(cuda_device *device, void *to, const void *from, size_t bytes) {
    WEFT_TRY(weft_cuda_status(&device->api,
                              device->api.cuMemcpyDtoHAsync(to, (cu_pointer)(uintptr_t)from, bytes, device->stream),
                              "copying from the device"),
             "download");
    return cuda_synchronise(&device->base);
}

/* The host may read `to` when this returns. Into pageable memory the driver waits for the stream, then copies in steps
   of its own: for small results that is most of a call, so they arrive in pinned memory. */
static weft_status cuda_download(weft_device *base, void *to, const void *from, size_t bytes) {
    cuda_device *device = (cuda_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_cuda_enter(device), "download");
    if (!device->landing || bytes > CUDA_LANDING_BYTES) return fetch(device, to, from, bytes);
    (void)pthread_mutex_lock(&device->landing_lock);
    weft_status status = fetch(device, device->landing, from, bytes);
    if (!status) memcpy(to, device->landing, bytes);
    (void)pthread_mutex_unlock(&device->landing_lock);
    return status;
}

static weft_status cuda_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    cuda_device *device = (cuda_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_cuda_enter(device), "copy");
    return weft_cuda_status(
        &device->api,
        device->api.cuMemcpyDtoDAsync((cu_pointer)(uintptr_t)to, (cu_pointer)(uintptr_t)from, bytes, device->stream),
        "copying on the device");
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
                                      .allocate = weft_cuda_allocate,
                                      .free = weft_cuda_free,
                                      .upload = cuda_upload,
                                      .download = cuda_download,
                                      .copy = cuda_copy,
                                      .launch = weft_cuda_launch,
                                      .synchronise = cuda_synchronise,
                                      .record = weft_cuda_record,
                                      .replay = weft_cuda_replay,
                                      .forget = weft_cuda_forget,
                                      .mark = weft_cuda_mark,
                                      .elapsed = weft_cuda_elapsed,
                                      .trim = weft_cuda_trim};
