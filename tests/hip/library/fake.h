/* A libamdhip64 for tests: device memory is host memory, kernels run in the emulator of tests/amdgcn. Nothing runs
   before somebody waits for it: copies from the host are taken at once, all else is queued on its stream, so that a
   missing wait shows. What a test calls beside HIP itself is declared here and found with dlsym.

   Environment: WEFT_FAKE_HIP_ARCH (gfx90a), WEFT_FAKE_HIP_DEVICES (1). */
#ifndef WEFT_TESTS_HIP_FAKE_H
#define WEFT_TESTS_HIP_FAKE_H

/* The nth next call (1 = the next) of the HIP function gives this result and does nothing. */
typedef void (*fake_hip_fail_function)(const char *function, int nth, int result);
/* Blocks of memory, streams, events, modules, graphs that exist. */
typedef int (*fake_hip_live_function)(void);
/* Calls of a HIP function so far. */
typedef int (*fake_hip_calls_function)(const char *function);
/* Matrix instructions of wavefronts so far. */
typedef long (*fake_hip_matrix_function)(void);
/* Forgets a fault that made the device unusable. */
typedef void (*fake_hip_reset_function)(void);

#endif
