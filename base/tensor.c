/* Host tensors. Invariant: element_count and bytes are those of a packed row-major copy and were checked for overflow;
   packed means that strides are row-major (axes of extent 1 and empty tensors have no say). */
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/need.h"
#include "base/tensor.h"

enum { TENSOR_ALIGN = 64 };

/* Fills everything but data. */
static weft_status tensor_make(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                               const int64_t *strides, weft_tensor **out_tensor) {
    *out_tensor = NULL;
    WEFT_NEED(context, "the context");
    if (weft_dtype_bits(dtype) == 0)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "no tensors of dtype %s", weft_dtype_name(dtype));
    if (rank < 0 || rank > WEFT_MAX_RANK)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "rank %d is not in [0, %d]", rank, WEFT_MAX_RANK);
    WEFT_NEED_LIST(shape, rank, "the shape");
    int64_t count = 1, extent_product = 1; /* the latter with 0 as 1, so that strides of empty tensors are valid too */
    int64_t row_major[WEFT_MAX_RANK] = {0};
    for (int i = rank - 1; i >= 0; i--) {
        if (shape[i] < 0)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "extent %lld of axis %d is negative", (long long)shape[i], i);
        row_major[i] = extent_product;
        if (__builtin_mul_overflow(extent_product, shape[i] ? shape[i] : 1, &extent_product))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the shape has more elements than fit in 63 bits");
        count = shape[i] ? count : 0;
    }
    if (count) count = extent_product;
    size_t bytes;
    if (!weft_dtype_bytes(dtype, count, &bytes) || bytes > PTRDIFF_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the shape has more bytes than fit in 63 bits");
    weft_tensor *tensor = weft_allocate(context->allocator, sizeof *tensor);
    if (!tensor) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a tensor");
    atomic_init(&tensor->references, 1);
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->element_count = count;
    tensor->bytes = bytes;
    tensor->packed = true;
    for (int i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->strides[i] = strides ? strides[i] : row_major[i];
        if (tensor->strides[i] != row_major[i] && shape[i] > 1 && count) tensor->packed = false;
    }
    tensor->context = context;
    weft_context_retain(context);
    *out_tensor = tensor;
    return NULL;
}

weft_status weft_tensor_create_uncleared(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                         weft_tensor **out_tensor) {
    WEFT_TRY(tensor_make(context, dtype, rank, shape, NULL, out_tensor), "creating a tensor");
    weft_tensor *tensor = *out_tensor;
    size_t bytes = tensor->bytes ? tensor->bytes : 1;
    tensor->data = context->allocator.resize(context->allocator.self, NULL, 0, bytes, TENSOR_ALIGN);
    if (!tensor->data) {
        weft_tensor_release(tensor);
        *out_tensor = NULL;
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a tensor of %zu bytes", bytes);
    }
    tensor->owned_bytes = bytes;
    return NULL;
}

weft_status weft_tensor_create(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                               weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    weft_status status = weft_tensor_create_uncleared(context, dtype, rank, shape, out_tensor);
    if (!status) memset((*out_tensor)->data, 0, (*out_tensor)->owned_bytes);
    return status;
}

weft_status weft_tensor_create_copy(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                                    const void *data, weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    weft_status status = weft_tensor_create_uncleared(context, dtype, rank, shape, out_tensor);
    if (!status && (*out_tensor)->bytes && !data) {
        weft_tensor_release(*out_tensor);
        *out_tensor = NULL;
        WEFT_NEED(data, "the data");
    }
    if (!status && (*out_tensor)->bytes) memcpy((*out_tensor)->data, data, (*out_tensor)->bytes);
    return status;
}

weft_status weft_tensor_wrap(weft_context *context, weft_dtype dtype, int rank, const int64_t *shape,
                             const int64_t *strides, void *data, void (*release)(void *self, void *data), void *self,
                             weft_tensor **out_tensor) {
    WEFT_NEED(out_tensor, "out_tensor");
    *out_tensor = NULL;
    WEFT_TRY(tensor_make(context, dtype, rank, shape, strides, out_tensor), "wrapping memory as a tensor");
    weft_tensor *tensor = *out_tensor;
    if (tensor->bytes && !data) {
        weft_tensor_release(tensor);
        *out_tensor = NULL;
        WEFT_NEED(data, "the data");
    }
    if (!tensor->packed && weft_dtype_bits(dtype) < 8) {
        weft_tensor_release(tensor);
        *out_tensor = NULL;
        return WEFT_STATUS(WEFT_UNSUPPORTED, "%s tensors must be packed: an element has no address",
                           weft_dtype_name(dtype));
    }
    tensor->data = data;
    tensor->release = release;
    tensor->release_self = self;
    return NULL;
}

void weft_tensor_retain(weft_tensor *tensor) {
    if (tensor) atomic_fetch_add_explicit(&tensor->references, 1, memory_order_relaxed);
}

void weft_tensor_release(weft_tensor *tensor) {
    if (!tensor || atomic_fetch_sub_explicit(&tensor->references, 1, memory_order_acq_rel) != 1) return;
    weft_context *context = tensor->context;
    if (tensor->owned_bytes)
        context->allocator.resize(context->allocator.self, tensor->data, tensor->owned_bytes, 0, TENSOR_ALIGN);
    else if (tensor->release)
        tensor->release(tensor->release_self, tensor->data);
    weft_free(context->allocator, tensor, sizeof *tensor);
    weft_context_release(context);
}

weft_dtype weft_tensor_dtype(const weft_tensor *tensor) { return tensor ? tensor->dtype : WEFT_INVALID; }

int weft_tensor_rank(const weft_tensor *tensor) { return tensor ? tensor->rank : 0; }

const int64_t *weft_tensor_shape(const weft_tensor *tensor) { return tensor ? tensor->shape : NULL; }

const int64_t *weft_tensor_strides(const weft_tensor *tensor) { return tensor ? tensor->strides : NULL; }

int64_t weft_tensor_element_count(const weft_tensor *tensor) { return tensor ? tensor->element_count : 0; }

size_t weft_tensor_bytes(const weft_tensor *tensor) { return tensor ? tensor->bytes : 0; }

bool weft_tensor_is_packed(const weft_tensor *tensor) { return tensor && tensor->packed; }

void *weft_tensor_data(const weft_tensor *tensor) { return tensor ? tensor->data : NULL; }
