/* The fields behind weft_tensor. */
#ifndef WEFT_BASE_TENSOR_H
#define WEFT_BASE_TENSOR_H

#include <stdatomic.h>

#include "base/context.h"
#include "weft/tensor.h"

struct weft_tensor {
    atomic_int references;
    weft_context *context;
    weft_dtype dtype;
    int rank;
    int64_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    int64_t element_count;
    size_t bytes; /* packed */
    bool packed;
    void *data;
    size_t owned_bytes; /* > 0: data came from the context's allocator */
    void (*release)(void *self, void *data);
    void *release_self;
    struct weft_device *device; /* NULL = host */
};

/* As weft_tensor_create, but the elements are not cleared: for outputs that are written whole. */
weft_status weft_tensor_create_uncleared(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                         weft_tensor **out_tensor) WEFT_MUST_USE;
/* pack.c: the elements of a host tensor in row-major order into weft_tensor_bytes(tensor) bytes at `to`. */
void weft_tensor_pack(const weft_tensor *tensor, void *to);

#endif
