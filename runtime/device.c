/* Opening devices by name, sharing them within a context, and the report of what is installed.
   Invariant: context->devices holds every open device of the context once; reference counts change under its lock. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/need.h"
#include "base/text.h"
#include "runtime/driver.h"
#include "runtime/libraries.h"

/* "cuda:1" -> driver cuda, ordinal 1; "cpu" -> ordinal 0 */
static weft_status parse_name(const char *name, const weft_driver **out_driver, int *out_ordinal) {
    const char *colon = strchr(name, ':');
    size_t length = colon ? (size_t)(colon - name) : strlen(name);
    char *end = NULL;
    long ordinal = colon ? strtol(colon + 1, &end, 10) : 0;
    *out_ordinal = (int)ordinal;
    if (colon && (end == colon + 1 || *end || ordinal < 0 || ordinal > 1 << 16))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "device \"%s\": the part behind the colon is no number", name);
    for (int i = 0; weft_drivers[i]; i++) {
        *out_driver = weft_drivers[i];
        if (strlen(weft_drivers[i]->name) == length && !strncmp(weft_drivers[i]->name, name, length)) return NULL;
    }
    return WEFT_STATUS(WEFT_NOT_FOUND, "there is no driver for device \"%s\"", name);
}

static weft_status open_new(weft_context *context, const weft_driver *driver, int ordinal, weft_device **out_device) {
    weft_device *device;
    WEFT_TRY(driver->open(context, ordinal, &device), "opening device %s:%d", driver->name, ordinal);
    device->driver = driver;
    atomic_init(&device->references, 1);
    device->context = context;
    device->ordinal = ordinal;
    device->next = context->devices;
    context->devices = device;
    weft_context_retain(context);
    *out_device = device;
    return NULL;
}

weft_status weft_device_open(weft_context *context, const char *name, weft_device **out_device) {
    WEFT_NEED(out_device, "out_device");
    *out_device = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(name, "the device's name");
    const weft_driver *driver = NULL;
    int ordinal;
    WEFT_TRY(parse_name(name, &driver, &ordinal), "opening a device");
    (void)pthread_mutex_lock(&context->device_lock);
    weft_status status = NULL;
    for (weft_device *device = context->devices; device && !*out_device; device = device->next)
        if (device->driver == driver && device->ordinal == ordinal) *out_device = device;
    if (*out_device)
        atomic_fetch_add(&(*out_device)->references, 1);
    else
        status = open_new(context, driver, ordinal, out_device);
    (void)pthread_mutex_unlock(&context->device_lock);
    return status;
}

void weft_device_release(weft_device *device) {
    if (!device) return;
    weft_context *context = device->context;
    (void)pthread_mutex_lock(&context->device_lock);
    bool last = atomic_fetch_sub(&device->references, 1) == 1;
    if (last) {
        weft_device **link = &context->devices;
        while (*link != device) link = &(*link)->next;
        *link = device->next;
    }
    (void)pthread_mutex_unlock(&context->device_lock);
    if (!last) return;
    device->driver->close(device);
    weft_context_release(context);
}

void weft_device_get_info(const weft_device *device, weft_device_info *out_info) {
    if (!out_info) return;
    memset(out_info, 0, sizeof *out_info);
    if (device) device->driver->info(device, out_info);
}

static void report_driver(weft_context *context, const weft_driver *driver, weft_text *text) {
    weft_device *device;
    weft_status status = weft_device_open(context, driver->name, &device);
    if (status) {
        weft_text_append(text, "driver  %-9s missing: %s\n", driver->name, weft_status_message(status));
        weft_status_release(status);
        return;
    }
    weft_device_info info;
    weft_device_get_info(device, &info);
    weft_text_append(text, "driver  %-9s %s, %s", driver->name, info.name, info.arch);
    if (info.memory_bytes) weft_text_append(text, ", %lld MiB", (long long)(info.memory_bytes >> 20));
    if (driver->remark) weft_text_append(text, "; %s", driver->remark(device));
    weft_text_append(text, "\n");
    weft_device_release(device);
}

static void report_library(weft_context *context, const weft_library *row, weft_text *text) {
    void *handle, *address = NULL;
    Dl_info found = {0};
    int (*get_version)(int *) = NULL;
    int version = 0;
    weft_status status = weft_library_open(context->allocator, row->name, &handle);
    if (status) {
        weft_text_append(text, "library %-9s missing: %s\n", row->name, weft_status_message(status));
        weft_status_release(status);
        return;
    }
    weft_status_release(weft_library_symbol(handle, row->what, row->symbol, &address));
    if (!dladdr(address, &found)) found.dli_fname = NULL;
    weft_text_append(text, "library %-9s %s, %s", row->name, row->what, found.dli_fname ? found.dli_fname : "loaded");
    if (row->version_symbol) {
        weft_status_release(weft_library_symbol(handle, row->what, row->version_symbol, &get_version));
        if (get_version && !get_version(&version)) weft_text_append(text, ", version %d", version);
    }
    weft_text_append(text, "\n");
}

weft_status weft_device_report(weft_context *context, char **out_text) {
    WEFT_NEED(out_text, "out_text");
    *out_text = NULL;
    WEFT_NEED(context, "the context");
    weft_text text;
    weft_text_init(context->allocator, &text);
    for (int i = 0; weft_drivers[i]; i++) report_driver(context, weft_drivers[i], &text);
    for (const weft_library *row = weft_libraries; row->name; row++) report_library(context, row, &text);
    weft_status status = weft_text_status(&text);
    if (!status) { /* weft_string_release frees strlen + 1 bytes */
        char *copy = weft_allocate(context->allocator, text.length + 1);
        if (copy) memcpy(copy, weft_text_string(&text), text.length + 1);
        if (!copy) status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the report");
        *out_text = copy;
    }
    weft_text_deinit(&text);
    return status;
}
