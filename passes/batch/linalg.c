/* Linear algebra: leading axes are a batch already. */
#include "passes/batch/batch.h"

void weft_batch_leading_axes(weft_batch_rule *rule) { weft_batch_build_all(rule, weft_batch_attributes(rule)); }
