/* Dense host or device arrays with a dtype, a shape and strides.

   Ownership: reference counted; a tensor made from caller memory calls `release` when the last reference goes.
   Threading: the handle is thread-safe, the elements are not. Shapes: rank 0 to 16, extents >= 0.
   Units: strides count elements. */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/context.h"
#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_MAX_RANK 16

typedef struct weft_tensor weft_tensor;

/* A row-major tensor of zeros in host memory (64-byte aligned). */
WEFT_API weft_status weft_tensor_create(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                        weft_tensor **out_tensor) WEFT_MUST_USE;
/* The same, its elements copied from data (row-major, packed). */
WEFT_API weft_status weft_tensor_create_copy(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                             const void *data, weft_tensor **out_tensor) WEFT_MUST_USE;
/* A view on caller memory. strides NULL = row-major. release(self, data) is called once, NULL = caller keeps it. */
WEFT_API weft_status weft_tensor_wrap(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                      const int64_t *strides, void *data, void (*release)(void *self, void *data),
                                      void *self, weft_tensor **out_tensor) WEFT_MUST_USE;
WEFT_API void weft_tensor_retain(weft_tensor *tensor);
WEFT_API void weft_tensor_release(weft_tensor *tensor);

WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *tensor);
WEFT_API int weft_tensor_rank(const weft_tensor *tensor);
WEFT_API const int64_t *weft_tensor_shape(const weft_tensor *tensor);
WEFT_API const int64_t *weft_tensor_strides(const weft_tensor *tensor);
WEFT_API int64_t weft_tensor_element_count(const weft_tensor *tensor);
/* Bytes of a packed row-major copy. */
WEFT_API size_t weft_tensor_bytes(const weft_tensor *tensor);
WEFT_API bool weft_tensor_is_packed(const weft_tensor *tensor);
WEFT_API void *weft_tensor_data(const weft_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
