/* The drivers that exist. */
#ifndef WEFT_RUNTIME_DRIVERS_DRIVERS_H
#define WEFT_RUNTIME_DRIVERS_DRIVERS_H

#include "runtime/driver.h"

extern const weft_driver weft_driver_null, weft_driver_cpu, weft_driver_cuda;

#endif
