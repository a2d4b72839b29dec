/* The code image of AMD GPUs: a head, one row per part, the parts. All numbers are little-endian.

   "WEFTAMDG", u32 format, u32 parts; each row: u32 first kernel, u32 kernels, u64 position, u64 bytes. A part is a code
   object (ELF, amdhsa, code object version 4, by HIP RTC its own) whose kernels are named as in the program; parts
   start on multiples of
   16. Written by image.c for both ways to a code object (llvm/, hip/), read by runtime/drivers/hip. */
#ifndef WEFT_CODEGEN_AMDGCN_IMAGE_H
#define WEFT_CODEGEN_AMDGCN_IMAGE_H

#include "codegen/target.h"

enum { WEFT_AMDGCN_IMAGE_FORMAT = 1, WEFT_AMDGCN_IMAGE_HEAD = 16, WEFT_AMDGCN_IMAGE_PART = 24 };

/* first: the first kernel of each part, and one past the last kernel. */
weft_status weft_amdgcn_image_pack(weft_allocator allocator, int count, const int *first, const weft_code_image *parts,
                                   weft_code_image *out_image) WEFT_MUST_USE;
/* Is it an ELF file that ends where its own head says? */
bool weft_amdgcn_code_is_whole(const void *code, size_t bytes);

#endif
