/* The table of drivers. A new driver is one more row. */
#include "runtime/drivers/drivers.h"

const weft_driver *const weft_drivers[] = {&weft_driver_null,   &weft_driver_cpu,
                                           &weft_driver_cuda,   &weft_driver_hip,
                                           &weft_driver_metal,
#if defined(WEFT_HAVE_VULKAN)
                                           &weft_driver_vulkan,
#endif
                                           &weft_driver_webgpu, NULL};
