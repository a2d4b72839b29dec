/* The code image of CUDA programs: a header, a table of parts, the parts. Read by runtime/drivers/cuda, which knows the
   layout from this comment (the runtime includes nothing of codegen):

   bytes 0..7   "WEFTCUDA"
   8..11        format, 1 (little endian, as all numbers)
   12..15       number of parts
   then per part 40 bytes: u32 kind (0 cubin, 1 PTX text), u32 first kernel, u32 kernel count, u32 0, u64 offset from
   the start of the image, u64 bytes, u64 0. Parts start at multiples of 16. Deterministic: same kernels, same bytes. */
#ifndef WEFT_CODEGEN_CUDA_IMAGE_H
#define WEFT_CODEGEN_CUDA_IMAGE_H

enum {
    WEFT_CUDA_IMAGE_FORMAT = 1,
    WEFT_CUDA_IMAGE_HEAD = 16,
    WEFT_CUDA_IMAGE_PART = 40,
    WEFT_CUDA_PART_CUBIN = 0,
    WEFT_CUDA_PART_PTX = 1
};

#endif
