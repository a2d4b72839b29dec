/* Reductions, cumulative ops, windows, and order: along axes that are one further. */
#include "passes/batch/batch.h"

void weft_batch_reduce(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axes, -1);
    weft_batch_build(rule, rule->operands, attributes);
}

/* One attribute `axis`: arg_reduce, cumulative, top_k, fft, softmax; sort on batches of all operands. */
void weft_batch_along_axis(weft_batch_rule *rule) {
    weft_attribute *attributes = weft_batch_attributes(rule);
    weft_batch_shift(rule, attributes, WEFT_ATTR_axis, -1);
    weft_batch_build_all(rule, attributes);
}

void weft_batch_reduce_window(weft_batch_rule *rule) {
    static const weft_attribute_name ones[4] = {WEFT_ATTR_window, WEFT_ATTR_stride, WEFT_ATTR_dilation,
                                                WEFT_ATTR_base_dilation};
    weft_attribute *attributes = weft_batch_attributes(rule);
    for (int i = 0; i < 4; i++) weft_batch_prepend_int(rule, attributes, ones[i], 1);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_low, 0);
    weft_batch_prepend_dim(rule, attributes, WEFT_ATTR_high, 0);
    weft_batch_build_all(rule, attributes);
}
