/* The infer column of the op table. Hooks are in the file of their family. */
#include "ir/infer.h"

static const weft_infer_hook hooks[WEFT_OP_COUNT] = {
#define HOOK(name)                                                            weft_infer_##name
#define NONE(reason)                                                          NULL
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, ...) [WEFT_OP_##id] = infer,
#include "ir/ops.def"
#undef WEFT_OP
#undef NONE
#undef HOOK
};

bool weft_infer_run(weft_infer *infer) {
    infer->result_count = 0;
    return hooks[infer->node->op](infer);
}
