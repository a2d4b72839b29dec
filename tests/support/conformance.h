/* What every driver must do, as functions that return a status: shared by tests/runtime (Check, every device that the
   machine has) and bench/gpu_faults.c (on a card, without Check). */
#ifndef WEFT_TESTS_SUPPORT_CONFORMANCE_H
#define WEFT_TESTS_SUPPORT_CONFORMANCE_H

#include <string.h>

#include "runtime/driver.h"

#define CONFORMS(condition, ...)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) return WEFT_STATUS(WEFT_INTERNAL, __VA_ARGS__);                                              \
    } while (0)

/* A device has its driver's name and an architecture that it can run; one context opens it once, another anew. */
static inline weft_status conformance_identity(weft_context *context, weft_device *device, const char *name) {
    weft_device_info info;
    weft_device *again, *other;
    weft_context *second;
    weft_device_get_info(device, &info);
    size_t length = strcspn(name, ":");
    CONFORMS(strlen(info.driver) == length && !memcmp(info.driver, name, length), "driver \"%s\"", info.driver);
    CONFORMS(info.ordinal == 0, "ordinal %d", info.ordinal);
    CONFORMS(device->driver->match(device, info.arch) > 0, "code for its own %s does not match", info.arch);
    WEFT_TRY(weft_device_open(context, name, &again), "again");
    bool same = again == device;
    weft_device_release(again);
    CONFORMS(same, "a context opens a device twice");
    WEFT_TRY(weft_context_create(NULL, &second), "second context");
    weft_status status = weft_device_open(second, name, &other);
    same = !status && other == device;
    if (!status) weft_device_release(other);
    weft_context_release(second);
    WEFT_TRY(status, "in a second context");
    CONFORMS(!same, "two contexts share a device");
    return NULL;
}

/* Bytes go to the device, across it and back unchanged; blocks are aligned and do not overlap. */
static inline weft_status conformance_memory(weft_device *device) {
    static const size_t sizes[] = {0, 1, 63, 64, 4096, 1 << 20};
    static unsigned char from[1 << 20], to[1 << 20];
    const weft_driver *driver = device->driver;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *a, *b;
        size_t bytes = sizes[i];
        for (size_t k = 0; k < bytes; k++) from[k] = (unsigned char)(k * 7 + i), to[k] = 0;
        WEFT_TRY(driver->allocate(device, bytes, &a), "%zu bytes", bytes);
        WEFT_TRY(driver->allocate(device, bytes, &b), "%zu bytes", bytes);
        CONFORMS((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0, "%zu bytes at %p and %p", bytes, a, b);
        CONFORMS(bytes == 0 || (char *)a + bytes <= (char *)b || (char *)b + bytes <= (char *)a, "blocks overlap");
        WEFT_TRY(driver->upload(device, a, from, bytes), "upload of %zu bytes", bytes);
        WEFT_TRY(driver->copy(device, b, a, bytes), "copy of %zu bytes", bytes);
        WEFT_TRY(driver->download(device, to, b, bytes), "download of %zu bytes", bytes);
        WEFT_TRY(driver->synchronise(device), "waiting");
        CONFORMS(!memcmp(from, to, bytes), "%zu bytes come back changed", bytes);
        driver->free(device, a, bytes);
        driver->free(device, b, bytes);
    }
    driver->free(device, NULL, 0);
    if (driver->trim) driver->trim(device);
    return NULL;
}

/* Marks measure what lies between them: something for a megabyte's copies, and no less for more of them. */
static inline weft_status conformance_marks(weft_device *device) {
    const weft_driver *driver = device->driver;
    enum { BYTES = 1 << 20, MANY = 200 };
    double ns[2] = {0, 0};
    void *a, *b;
    if (!driver->mark) return NULL;
    WEFT_TRY(driver->allocate(device, BYTES, &a), "marks");
    WEFT_TRY(driver->allocate(device, BYTES, &b), "marks");
    for (int many = 0; many < 2; many++) {
        WEFT_TRY(driver->mark(device, 0), "mark 0");
        for (int i = 0; i < (many ? MANY : 1); i++) WEFT_TRY(driver->copy(device, b, a, BYTES), "copy %d", i);
        WEFT_TRY(driver->mark(device, 1), "mark 1");
        WEFT_TRY(driver->elapsed(device, &ns[many]), "elapsed");
    }
    driver->free(device, a, BYTES);
    driver->free(device, b, BYTES);
    CONFORMS(ns[0] > 0 && ns[1] > ns[0], "one copy %g ns, %d copies %g ns", ns[0], MANY, ns[1]);
    return NULL;
}

#undef CONFORMS
#endif
