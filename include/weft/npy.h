/* Tensors in .npy files (NumPy format 1.0 to 3.0): row-major, little-endian.

   Dtypes: bool, integers, f16, f32, f64, c64, c128; bf16 and 8-bit floats as the void types that ml_dtypes writes (V2,
   V1) are not read: their dtype is not in the file. Ownership: the tensor is the caller's. Errors: a damaged file is
   INVALID_DATA with what is wrong; a written file appears complete or not at all. Threading: thread-safe. */
#ifndef WEFT_NPY_H
#define WEFT_NPY_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_status weft_npy_read(weft_context *context, const char *path, weft_tensor **out_tensor) WEFT_MUST_USE;
/* bf16 and 8-bit floats are written as f32. */
WEFT_API weft_status weft_npy_write(weft_context *context, const char *path, const weft_tensor *tensor) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
