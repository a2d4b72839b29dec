/* The code image of AMD GPUs: a head, one row per part, the parts. All numbers are little-endian.

   "WEFTAMDG", u32 format, u32 parts; each row: u32 first kernel, u32 kernels, u64 position, u64 bytes. A part is a code
   object (ELF, amdhsa, code object version 4) whose kernels are named as in the program; parts start on multiples of
   16. Written by codegen/amdgcn/target.c, read by runtime/drivers/hip. */
#ifndef WEFT_CODEGEN_AMDGCN_IMAGE_H
#define WEFT_CODEGEN_AMDGCN_IMAGE_H

enum { WEFT_AMDGCN_IMAGE_FORMAT = 1, WEFT_AMDGCN_IMAGE_HEAD = 16, WEFT_AMDGCN_IMAGE_PART = 24 };

#endif
