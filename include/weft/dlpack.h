/* Tensors to and from other frameworks without a copy, through DLPack's legacy capsule (DLManagedTensor, the form that
   versions 0.x define and 1.x keep for compatibility).

   The structs below have DLPack's layout under Weft's names; a DLManagedTensor * may be cast to weft_dl_managed *.
   Ownership: to_dlpack keeps the tensor until the consumer calls `deleter`; from_dlpack takes the capsule over on
   success and calls its deleter when the last reference goes (on failure it stays the caller's). Host memory only.
   Source: dmlc/dlpack, dlpack.h (ABI of version 0.8). */
#ifndef WEFT_DLPACK_H
#define WEFT_DLPACK_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_dl_device {
    int32_t type; /* 1 = CPU, 3 = pinned host memory */
    int32_t index;
} weft_dl_device;

typedef struct weft_dl_dtype {
    uint8_t code; /* 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool; 7 ... 17 floats of 8 bits and below */
    uint8_t bits;
    uint16_t lanes;
} weft_dl_dtype;

typedef struct weft_dl_tensor {
    void *data;
    weft_dl_device device;
    int32_t rank;
    weft_dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL = row-major */
    uint64_t offset_bytes;
} weft_dl_tensor;

typedef struct weft_dl_managed {
    weft_dl_tensor tensor;
    void *manager;
    void (*deleter)(struct weft_dl_managed *self);
} weft_dl_managed;

WEFT_API weft_status weft_tensor_to_dlpack(weft_tensor *tensor, weft_dl_managed **out_managed) WEFT_MUST_USE;
WEFT_API weft_status weft_tensor_from_dlpack(weft_context *context, weft_dl_managed *managed,
                                             weft_tensor **out_tensor) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
