/* The driver that computes nothing: the skeleton to copy for a new one, and the stand-in that lets tests see what the
   executor does. It has memory of its own (host_memory = false), so uploads, downloads and copies really happen;
   launches check their arguments and return. Outputs are therefore zeros. */
#include <string.h>

#include "runtime/drivers/drivers.h"

struct weft_module {
    int kernel_count;
};

static weft_status null_open(weft_context *context, int ordinal, weft_device **out_device) {
    *out_device = NULL;
    if (ordinal) return WEFT_STATUS(WEFT_NOT_FOUND, "there is no null:%d", ordinal);
    *out_device = weft_allocate(context->allocator, sizeof **out_device);
    return *out_device ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a device");
}

static void null_close(weft_device *device) { weft_free(device->context->allocator, device, sizeof *device); }

static void null_info(const weft_device *device, weft_device_info *out_info) {
    *out_info = (weft_device_info){.name = "no device", .driver = "null", .arch = "null", .ordinal = device->ordinal};
}

static int null_match(const weft_device *device, const char *arch) {
    (void)device;
    (void)arch;
    return 1;
}

static weft_status null_load(weft_device *device, const weft_program_data *program, const weft_binary *code,
                             weft_module **out_module) {
    (void)code;
    *out_module = weft_allocate(device->context->allocator, sizeof **out_module);
    if (!*out_module) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a module");
    (*out_module)->kernel_count = program->kernel_count;
    return NULL;
}

static void null_unload(weft_device *device, weft_module *module) {
    weft_free(device->context->allocator, module, sizeof *module);
}

static weft_status null_allocate(weft_device *device, size_t bytes, void **out_memory) {
    weft_allocator allocator = device->context->allocator;
    *out_memory = allocator.resize(allocator.self, NULL, 0, bytes ? bytes : 1, 64);
    if (!*out_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    memset(*out_memory, 0, bytes);
    return NULL;
}

static void null_free(weft_device *device, void *memory, size_t bytes) {
    weft_allocator allocator = device->context->allocator;
    if (memory) allocator.resize(allocator.self, memory, bytes ? bytes : 1, 0, 64);
}

static weft_status null_copy(weft_device *device, void *to, const void *from, size_t bytes) {
    (void)device;
    if (bytes) memmove(to, from, bytes);
    return NULL;
}

static weft_status null_launch(weft_device *device, weft_module *module, const weft_launch *launch) {
    (void)device;
    if (launch->kernel < 0 || launch->kernel >= module->kernel_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "kernel %d of %d", launch->kernel, module->kernel_count);
    if (launch->grid < 0 || launch->scratch_bytes < 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "grid %lld, scratch %lld", (long long)launch->grid,
                           (long long)launch->scratch_bytes);
    return NULL;
}

static weft_status null_synchronise(weft_device *device) {
    (void)device;
    return NULL;
}

const weft_driver weft_driver_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .match = null_match,
    .load = null_load,
    .unload = null_unload,
    .allocate = null_allocate,
    .free = null_free,
    .upload = null_copy,
    .download = null_copy,
    .copy = null_copy,
    .launch = null_launch,
    .synchronise = null_synchronise,
};
