/* A libcuda.so.1 that has every function and no device: each answers CUDA_ERROR_NO_DEVICE. */
#include "runtime/drivers/cuda/api.h"

#define X(name, symbol, parameters)                                                                                    \
    int no_device_##name(void) __asm__(symbol);                                                                        \
    int no_device_##name(void) { return CU_ERROR_NO_DEVICE; }
CU_FUNCTIONS(X)
#undef X
