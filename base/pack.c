/* Strided host tensors to row-major order: innermost runs are copied whole where they are dense. */
#include <string.h>

#include "base/tensor.h"

static void copy_run(char *to, const char *from, int64_t count, int64_t stride_bytes, size_t element_bytes) {
    if (stride_bytes == (int64_t)element_bytes) {
        memcpy(to, from, (size_t)count * element_bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) memcpy(to + (size_t)i * element_bytes, from + i * stride_bytes, element_bytes);
}

void weft_tensor_pack(const weft_tensor *tensor, void *to) {
    int rank = weft_tensor_rank(tensor);
    const int64_t *shape = weft_tensor_shape(tensor), *strides = weft_tensor_strides(tensor);
    size_t element_bytes =
        (size_t)weft_dtype_bits(weft_tensor_dtype(tensor)) / 8; /* packed dtypes below a byte are never strided */
    int64_t index[WEFT_MAX_RANK] = {0}, count = weft_tensor_element_count(tensor);
    const char *from = weft_tensor_data(tensor);
    char *out = to;
    if (!count) return;
    int64_t run = rank ? shape[rank - 1] : 1, step = rank ? strides[rank - 1] * (int64_t)element_bytes : 0;
    for (int64_t done = 0; done < count; done += run) {
        copy_run(out, from, run, step, element_bytes);
        out += (size_t)run * element_bytes;
        for (int axis = rank - 2; axis >= 0; axis--) {
            from += strides[axis] * (int64_t)element_bytes;
            if (++index[axis] < shape[axis]) break;
            from -= index[axis] * strides[axis] * (int64_t)element_bytes;
            index[axis] = 0;
        }
    }
}
