/* Named tensors in one file: parameters and checkpoints, in the safetensors format.

       weft_safetensors *file;
       weft_safetensors_open(context, "model.safetensors", &file);
       int index = weft_safetensors_find(file, "wte.weight");                 // -1 = missing
       weft_tensor *w;
       weft_safetensors_get(file, index, &w);                                 // a view that keeps the file open
       weft_safetensors_release(file);

   Tensors are read-only views of the mapped file (copies where the file does not align the elements).

   Dtypes without a name in the format (i4, u2, f8 fnuz, c128 ...) are kept as bytes with their type in the metadata;
   other readers see u8 tensors. Errors: a damaged or hostile file is INVALID_DATA with what is wrong; a dtype that Weft
   lacks is UNSUPPORTED when it is read. Threading: an open file is immutable. The file must not be truncated while it
   is open. Source: huggingface/safetensors, format section of the README. */
#ifndef WEFT_SAFETENSORS_H
#define WEFT_SAFETENSORS_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_safetensors weft_safetensors;

WEFT_API weft_status weft_safetensors_open(weft_context *context, const char *path,
                                           weft_safetensors **out_file) WEFT_MUST_USE;
WEFT_API void weft_safetensors_release(weft_safetensors *file);

/* Tensors are numbered in order of their names. */
WEFT_API int weft_safetensors_count(const weft_safetensors *file);
WEFT_API const char *weft_safetensors_name(const weft_safetensors *file, int index);
WEFT_API int weft_safetensors_find(const weft_safetensors *file, const char *name); /* -1 */
WEFT_API weft_status weft_safetensors_get(weft_safetensors *file, int index, weft_tensor **out_tensor) WEFT_MUST_USE;
WEFT_API const char *weft_safetensors_metadata(const weft_safetensors *file, const char *key); /* NULL */

/* Writes packed host tensors; the file appears complete or not at all. Metadata: texts by key, may be none. */
WEFT_API weft_status weft_safetensors_write(weft_context *context, const char *path, int count,
                                            const char *const *names, weft_tensor *const *tensors, int metadata_count,
                                            const char *const *keys, const char *const *texts) WEFT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
