/* The kernel that asks whether f16 of a device keeps its numbers: probe.c. */
#ifndef WEFT_RUNTIME_DRIVERS_WEBGPU_PROBE_H
#define WEFT_RUNTIME_DRIVERS_WEBGPU_PROBE_H

extern const char weft_webgpu_half_probe[];

#endif
