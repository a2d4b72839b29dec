/* CPU code through LLVM: the target record "cpu". Needs WEFT_HAVE_LLVM. */
#ifndef WEFT_CODEGEN_LLVM_LLVM_H
#define WEFT_CODEGEN_LLVM_LLVM_H

#include "codegen/target.h"

extern const weft_target weft_target_cpu;

#endif
