/* The table of targets: adding one is a record and a row. Read next: llvm/compile.c, cuda/target.c. */
#include "codegen/target.h"

#include <string.h>

static const weft_target *const targets[] = {
#if defined(WEFT_HAVE_LLVM)
    &weft_target_cpu,
#endif
    &weft_target_amdgcn,
    &weft_target_cuda,
    &weft_target_metal,
    &weft_target_webgpu,
#if defined(WEFT_HAVE_SPIRV)
    &weft_target_vulkan,
#endif
    NULL,
};

const weft_target *weft_target_find(const char *name) {
    for (int i = 0; targets[i]; i++)
        if (strcmp(targets[i]->name, name) == 0) return targets[i];
    return NULL;
}
