/* Devices and copies of the HIP driver. See hip.h. */
#include "runtime/drivers/hip/hip.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { PROPERTIES_BYTES = 8192, NAME_BYTES = 256, ARCH_LIMIT = 24 };

weft_status weft_hip_enter(hip_device *device) {
    return weft_hip_status(&device->api, device->api.hipSetDevice(device->base.ordinal), "choosing an AMD device");
}

/* The architecture stands in the properties alone, whose layout changed between versions of the runtime: it is the text
   "gfx..." at some multiple of 4 bytes behind the device's name. "gfx90a:sramecc+:xnack-" -> "gfx90a". */
static weft_status read_arch(hip_device *device) {
    weft_allocator allocator = device->base.context->allocator;
    char *properties = weft_allocate(allocator, PROPERTIES_BYTES);
    if (!properties) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the properties of a device");
    weft_status status = weft_hip_status(&device->api, device->api.get_properties(properties, device->base.ordinal),
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
    WEFT_TRY(weft_hip_enter(device), "amdgcn:%d", ordinal);
    WEFT_TRY(
        weft_hip_status(api, api->hipDeviceGetName(device->name, sizeof device->name, ordinal), "hipDeviceGetName"),
        "amdgcn:%d", ordinal);
    WEFT_TRY(weft_hip_status(api, api->hipDeviceTotalMem(&bytes, ordinal), "hipDeviceTotalMem"), "amdgcn:%d", ordinal);
    device->memory_bytes = (int64_t)bytes;
    WEFT_TRY(read_arch(device), "amdgcn:%d", ordinal);
    WEFT_TRY(weft_hip_status(api, api->hipStreamCreateWithFlags(&device->stream, HIP_STREAM_NON_BLOCKING),
                             "hipStreamCreateWithFlags"),
             "amdgcn:%d", ordinal);
    if (api->hipHostMalloc(&device->landing, HIP_LANDING_BYTES, 0)) device->landing = NULL;
    return NULL;
}

static void hip_close(weft_device *base) {
    hip_device *device = (hip_device *)base;
    if (device->stream) {
        weft_status_release(weft_hip_enter(device));
        weft_hip_trim(base);
        for (int i = 0; i < 2; i++)
            if (device->marks[i]) (void)device->api.hipEventDestroy(device->marks[i]);
        if (device->landing) (void)device->api.hipHostFree(device->landing);
        (void)device->api.hipStreamDestroy(device->stream);
    }
    weft_allocator allocator = base->context->allocator;
    weft_free(allocator, device->cached, device->cached_capacity * sizeof *device->cached);
    (void)pthread_mutex_destroy(&device->landing_lock);
    (void)pthread_mutex_destroy(&device->lock);
    weft_free(allocator, device, sizeof *device);
}

static weft_status hip_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    hip_api api;
    WEFT_TRY(weft_hip_api_load(context->allocator, &api), "opening amdgcn:%d", ordinal);
    hip_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    device->base.context = context;
    device->base.driver = &weft_driver_hip;
    device->base.ordinal = ordinal;
    device->api = api;
    device->poison = weft_env_get(WEFT_ENV_POISON)[0] == '1';
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_mutex_init(&device->landing_lock, NULL);
    weft_status status = query(device, ordinal);
    if (status)
        hip_close(&device->base);
    else
        *out_device = &device->base;
    return status;
}

static void hip_info(const weft_device *base, weft_device_info *out_info) {
    const hip_device *device = (const hip_device *)base;
    *out_info = (weft_device_info){.driver = "amdgcn", .memory_bytes = device->memory_bytes, .ordinal = base->ordinal};
    snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
    snprintf(out_info->arch, sizeof out_info->arch, "%s", device->arch);
}

/* Machine code: the same architecture or none. */
static int hip_match(const weft_device *base, const char *arch) {
    return strcmp(((const hip_device *)base)->arch, arch) ? 0 : 1000;
}

static weft_status hip_synchronise(weft_device *base) {
    hip_device *device = (hip_device *)base;
    WEFT_TRY(weft_hip_enter(device), "synchronise");
    return weft_hip_status(&device->api, device->api.hipStreamSynchronize(device->stream), "waiting for the device");
}

/* The prototypes of the runtime have no const. */
static void *writable(const void *memory) { return (void *)(uintptr_t)memory; }

static weft_status hip_upload(weft_device *base, void *to, const void *from, size_t bytes) {
    hip_device *device = (hip_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_hip_enter(device), "upload");
    return weft_hip_status(&device->api, device->api.hipMemcpyHtoDAsync(to, writable(from), bytes, device->stream),
                           "copying to the device");
}

static weft_status fetch(hip_device *device, void *to, const void *from, size_t bytes) {
    WEFT_TRY(weft_hip_status(&device->api, device->api.hipMemcpyDtoHAsync(to, writable(from), bytes, device->stream),
                             "copying from the device"),
             "download");
    return hip_synchronise(&device->base);
}

/* The host may read `to` when this returns. Small results arrive in pinned memory: one copy instead of the runtime's
   own staging. */
static weft_status hip_download(weft_device *base, void *to, const void *from, size_t bytes) {
    hip_device *device = (hip_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_hip_enter(device), "download");
    if (!device->landing || bytes > HIP_LANDING_BYTES) return fetch(device, to, from, bytes);
    (void)pthread_mutex_lock(&device->landing_lock);
    weft_status status = fetch(device, device->landing, from, bytes);
    if (!status) memcpy(to, device->landing, bytes);
    (void)pthread_mutex_unlock(&device->landing_lock);
    return status;
}

static weft_status hip_copy(weft_device *base, void *to, const void *from, size_t bytes) {
    hip_device *device = (hip_device *)base;
    if (bytes == 0) return NULL;
    WEFT_TRY(weft_hip_enter(device), "copy");
    return weft_hip_status(&device->api, device->api.hipMemcpyDtoDAsync(to, writable(from), bytes, device->stream),
                           "copying on the device");
}

const weft_driver weft_driver_hip = {.name = "amdgcn",
                                     .open = hip_open,
                                     .close = hip_close,
                                     .info = hip_info,
                                     .match = hip_match,
                                     .load = weft_hip_load,
                                     .unload = weft_hip_unload,
                                     .allocate = weft_hip_allocate,
                                     .free = weft_hip_free,
                                     .upload = hip_upload,
                                     .download = hip_download,
                                     .copy = hip_copy,
                                     .launch = weft_hip_launch,
                                     .synchronise = hip_synchronise,
                                     .trim = weft_hip_trim,
                                     .record = weft_hip_record,
                                     .replay = weft_hip_replay,
                                     .forget = weft_hip_forget,
                                     .mark = weft_hip_mark,
                                     .elapsed = weft_hip_elapsed};
