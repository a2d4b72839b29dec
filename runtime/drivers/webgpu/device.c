/* Devices of the native WebGPU driver. See webgpu.h. */
#include <stdio.h>
#include <string.h>

#include "base/capability.h"
#include "runtime/drivers/webgpu/webgpu.h"
#include "runtime/libraries.h"

typedef struct answer {
    wgpu_enum status;
    wgpu_handle object;
    char message[200];
} answer;

static void keep_text(char *to, size_t bytes, wgpu_text text) {
    size_t length = !text.data ? 0 : text.length == SIZE_MAX ? strlen(text.data) : text.length;
    (void)snprintf(to, bytes, "%.*s", (int)(length < bytes ? length : bytes - 1), text.data ? text.data : "");
    for (char *at = to; *at; at++)
        if (*at == '\n') *at = ' ';
}

static void take_object(wgpu_enum status, wgpu_handle object, wgpu_text message, void *a, void *b) {
    answer *to = a;
    (void)b;
    to->status = status;
    to->object = object;
    keep_text(to->message, sizeof to->message, message);
}

/* Only the first counts: the others follow from it. */
static void take_error(const wgpu_handle *handle, wgpu_enum type, wgpu_text message, void *a, void *b) {
    webgpu_device *device = a;
    (void)handle, (void)b;
    if (device->problem[0]) return;
    device->no_memory = type == WGPU_OUT_OF_MEMORY;
    keep_text(device->problem, sizeof device->problem, message);
    if (!device->problem[0]) (void)snprintf(device->problem, sizeof device->problem, "an error without words");
}

static void take_loss(const wgpu_handle *handle, wgpu_enum reason, wgpu_text message, void *a, void *b) {
    webgpu_device *device = a;
    (void)handle, (void)reason, (void)message, (void)b;
    device->lost = true;
}

static weft_status load_functions(webgpu_device *device) {
    void *library = NULL;
    WEFT_TRY(weft_library_open(device->gpu.base.context->allocator, "webgpu", &library), "starting WebGPU");
#define X(field, result, symbol, parameters)                                                                           \
    WEFT_TRY(weft_library_symbol(library, "wgpu-native", symbol, &device->api.field), "starting WebGPU");
    WGPU_FUNCTIONS(X)
#undef X
    return NULL;
}

static weft_status open_adapter(webgpu_device *device) {
    answer found = {0};
    const wgpu_object_callback callback = {.mode = WGPU_ANY_MOMENT, .call = take_object, .a = &found};
    device->instance = device->api.create_instance(NULL);
    if (!device->instance) return WEFT_STATUS(WEFT_UNAVAILABLE, "wgpu-native gives no instance");
    (void)device->api.request_adapter(device->instance, NULL, callback);
    if (found.status != WGPU_SUCCESS || !found.object)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "WebGPU shows no adapter: %s", found.message);
    device->adapter = found.object;
    if (device->gpu.base.ordinal > 0)
        return WEFT_STATUS(WEFT_NOT_FOUND, "there is no webgpu:%d: one adapter is asked for", device->gpu.base.ordinal);
    (void)device->api.adapter_info(device->adapter, &device->info);
    keep_text(device->name, sizeof device->name, device->info.device);
    if (device->info.kind == WGPU_ADAPTER_CPU)
        weft_context_log(device->gpu.base.context, WEFT_LOG_WARNING, "webgpu:0 is %s, a device in software: slow",
                         device->name);
    (void)device->api.adapter_limits(device->adapter, &device->limits);
    device->gpu.blocks.limit = device->limits.storage_bytes < device->limits.buffer_bytes ? device->limits.storage_bytes
                                                                                          : device->limits.buffer_bytes;
    return NULL;
}

static bool ask_for(webgpu_device *device, wgpu_enum feature) {
    if (!device->api.has_feature(device->adapter, feature)) return false;
    device->features[device->feature_count++] = feature;
    return true;
}

static weft_status open_device(webgpu_device *device) {
    answer found = {0};
    device->limits.next = NULL;
    device->halves = ask_for(device, WGPU_HALVES);
    device->subgroups = ask_for(device, WGPU_SUBGROUPS) || ask_for(device, WGPU_NATIVE_SUBGROUPS);
    const wgpu_device_options options = {.feature_count = (size_t)device->feature_count,
                                         .features = device->features,
                                         .limits = &device->limits,
                                         .lost = {.mode = WGPU_ANY_MOMENT, .call = take_loss, .a = device},
                                         .error = {.call = take_error, .a = device}};
    const wgpu_object_callback callback = {.mode = WGPU_ANY_MOMENT, .call = take_object, .a = &found};
    (void)device->api.request_device(device->adapter, &options, callback);
    if (found.status != WGPU_SUCCESS || !found.object)
        return WEFT_STATUS(WEFT_UNAVAILABLE, "%s gives no device: %s", device->name, found.message);
    device->device = found.object;
    device->queue = device->api.queue_of(device->device);
    return weft_webgpu_buffer(device, WGPU_UNIFORM | WGPU_COPY_TARGET, WEBGPU_UNIFORM_BYTES, &device->uniforms);
}

/* Subgroups of one size: said by the adapter, or of a vendor that has no other and then seen in a kernel. */
static int subgroup_size(webgpu_device *device) {
    const wgpu_adapter_info *info = &device->info;
    if (!device->subgroups) return 0;
    if (info->subgroup_least > 0) return info->subgroup_least == info->subgroup_most ? (int)info->subgroup_least : 0;
    bool fixed = info->vendor_id == WGPU_NVIDIA || info->vendor_id == WGPU_APPLE || info->vendor_id == WGPU_MESA;
    return fixed ? weft_webgpu_subgroup_size(device) : 0;
}

/* The code for all that the device has, if there is a record of it; without the subgroups otherwise. */
static void choose_arch(webgpu_device *device) {
    int size = subgroup_size(device);
    device->halves = device->halves && weft_webgpu_keeps_halves(device);
    const char *halves = device->halves ? "-f16" : "";
    (void)snprintf(device->arch, sizeof device->arch, "wgsl%s-subgroups%d", halves, size);
    device->subgroups = size > 0 && weft_capability_find("webgpu", device->arch);
    if (!device->subgroups) (void)snprintf(device->arch, sizeof device->arch, "wgsl%s", halves);
}

static void webgpu_close(weft_device *base) {
    webgpu_device *device = (webgpu_device *)base;
    const wgpu_api *api = &device->api;
    weft_allocator allocator = base->context->allocator;
    if (device->device) {
        weft_status_release(weft_webgpu_flush(device));
        weft_blocks_deinit(&device->gpu.blocks, base);
        if (device->uniforms) api->release_buffer(device->uniforms);
        if (device->queue) api->release_queue(device->queue);
        api->release_device(device->device);
    }
    if (device->adapter) api->release_adapter(device->adapter);
    if (device->instance) api->release_instance(device->instance);
    weft_block_device_deinit(&device->gpu);
    weft_free(allocator, device, sizeof *device);
}

static weft_status webgpu_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    webgpu_device *device = weft_allocate(context->allocator, sizeof *device);
    if (!device) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
    weft_block_device_init(&device->gpu, context, &weft_driver_webgpu, ordinal, &weft_webgpu_blocks);
    device->next_address = UINT64_C(1) << 40;
    weft_status status = load_functions(device);
    if (!status) status = open_adapter(device);
    if (!status) status = open_device(device);
    if (!status) choose_arch(device);
    if (status)
        webgpu_close(&device->gpu.base);
    else
        *out_device = &device->gpu.base;
    return status;
}

static void webgpu_info(const weft_device *base, weft_device_info *out_info) {
    const webgpu_device *device = (const webgpu_device *)base;
    *out_info = (weft_device_info){.driver = "webgpu", .ordinal = base->ordinal};
    (void)snprintf(out_info->arch, sizeof out_info->arch, "%s", device->arch);
    (void)snprintf(out_info->name, sizeof out_info->name, "%s", device->name);
}

static int webgpu_match(const weft_device *base, const char *arch) {
    const webgpu_device *device = (const webgpu_device *)base;
    const weft_capability *code = weft_capability_find("webgpu", arch),
                          *own = weft_capability_find("webgpu", device->arch);
    if (!code || (code->native_f16 && !device->halves)) return 0;
    if (code->subgroups && (!device->subgroups || code->warp != own->warp)) return 0;
    return 1000 + 2 * code->subgroups + code->native_f16;
}

const weft_driver weft_driver_webgpu = {.name = "webgpu",
                                        .open = webgpu_open,
                                        .close = webgpu_close,
                                        .info = webgpu_info,
                                        .match = webgpu_match,
                                        .load = weft_webgpu_load,
                                        .unload = weft_webgpu_unload,
                                        .allocate = weft_block_device_allocate,
                                        .free = weft_block_device_free,
                                        .upload = weft_block_device_upload,
                                        .download = weft_block_device_download,
                                        .copy = weft_block_device_copy,
                                        .launch = weft_webgpu_launch,
                                        .synchronise = weft_block_device_synchronise,
                                        .trim = weft_block_device_trim};
