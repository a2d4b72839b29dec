/* Devices: "null", "cpu", "cuda:0" ... A driver that cannot be used says why and what to do. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_device weft_device;

typedef struct weft_device_info {
    char name[128];  /* "Intel(R) Xeon(R) ...", "NVIDIA H200" */
    char driver[16]; /* null cpu cuda */
    char arch[32];   /* x86-64-v4, sm_90a */
    int64_t memory_bytes;
    int ordinal;
} weft_device_info;

/* Shared by all users of one context and name. */
WEFT_API weft_status weft_device_open(weft_context *context, const char *name, weft_device **out_device) WEFT_MUST_USE;
WEFT_API void weft_device_release(weft_device *device);
WEFT_API void weft_device_get_info(const weft_device *device, weft_device_info *out_info);

/* What `weft doctor` prints: one line per driver and vendor library: found where, or missing and the remedy. */
WEFT_API weft_status weft_device_report(weft_context *context, char **out_text) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
