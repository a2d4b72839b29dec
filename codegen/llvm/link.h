/* From relocatable objects to one image that the CPU driver maps: the last step of CPU compilation.

   The image is an ELF64 ET_DYN file without dependencies: two page-aligned PT_LOAD segments, R (headers and constants)
   and R+X (code), address = file offset; no dynamic section, no relocations left; .symtab names the kernels, st_value
   is the address. Loaders: runtime/drivers/cpu. Source: System V ABI, AMD64 supplement. */
#ifndef WEFT_CODEGEN_LLVM_LINK_H
#define WEFT_CODEGEN_LLVM_LINK_H

#include "codegen/target.h"

typedef struct weft_link_object {
    const void *data;
    size_t bytes;
} weft_link_object;

/* Writable data, undefined symbols and relocations other than PC-relative ones give an INTERNAL status that names the
   kernel and the symbol. The same objects give the same bytes. */
weft_status weft_link(weft_allocator allocator, int object_count, const weft_link_object *objects,
                      weft_code_image *out_image) WEFT_MUST_USE;

#endif
