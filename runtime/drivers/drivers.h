/* The drivers that exist; vulkan only where its headers were found (WEFT_HAVE_VULKAN). */
#ifndef WEFT_RUNTIME_DRIVERS_DRIVERS_H
#define WEFT_RUNTIME_DRIVERS_DRIVERS_H

#include "runtime/driver.h"

extern const weft_driver weft_driver_null, weft_driver_cpu, weft_driver_cuda, weft_driver_hip, weft_driver_metal,
    weft_driver_vulkan, weft_driver_webgpu;

#endif
