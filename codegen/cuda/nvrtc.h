/* NVRTC found at run time: CUDA C in, cubin and PTX out. No CUDA at build time.
   A compile fails on the log lines that mean lost speed or wrong overlap of wgmma (C7508, C7510 ... C7519); spills are
   counted in the report. Thread-safe once loaded. Source: NVRTC 13 manual. */
#ifndef WEFT_CODEGEN_CUDA_NVRTC_H
#define WEFT_CODEGEN_CUDA_NVRTC_H

#include <stdint.h>

#include "base/context.h"
#include "base/text.h"

typedef struct weft_nvrtc weft_nvrtc;

typedef struct weft_nvrtc_output {
    void *cubin, *ptx; /* from the context's allocator; ptx ends in NUL */
    size_t cubin_bytes, ptx_bytes;
    int registers; /* the largest of the kernels */
    int64_t spill_bytes, stack_bytes;
    char *log; /* NULL when empty */
    size_t log_bytes;
} weft_nvrtc_output;

/* UNAVAILABLE with the names that were tried and the remedy when there is no NVRTC. */
weft_status weft_nvrtc_open(weft_context *context, weft_nvrtc **out_nvrtc) WEFT_MUST_USE;
void weft_nvrtc_close(weft_nvrtc *nvrtc);
void weft_nvrtc_version(const weft_nvrtc *nvrtc, int *out_major, int *out_minor);
weft_status weft_nvrtc_compile(const weft_nvrtc *nvrtc, const char *source, const char *name, const char *arch,
                               weft_nvrtc_output *out_output) WEFT_MUST_USE;
void weft_nvrtc_output_deinit(const weft_nvrtc *nvrtc, weft_nvrtc_output *output);

#endif
