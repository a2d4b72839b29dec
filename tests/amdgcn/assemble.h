/* Kernels made of single instructions, for tests: LLVM IR with inline assembly -> object (LLVM) -> code object
 * (ld.lld). */
#ifndef WEFT_TESTS_AMDGCN_ASSEMBLE_H
#define WEFT_TESTS_AMDGCN_ASSEMBLE_H

#include "base/arena.h"
#include "weft/status.h"

/* A linked code object of the text of a module for `arch`. From the allocator. UNAVAILABLE: no ld.lld here. */
weft_status amdgcn_assemble(weft_allocator allocator, const char *arch, const char *text, void **out_data,
                            size_t *out_bytes) WEFT_MUST_USE;

#endif
