/* What infer hooks are written with: problems that name the op, and checks that several families share.
   Every check returns false after it recorded the problem. */
#ifndef WEFT_IR_INFER_CHECK_H
#define WEFT_IR_INFER_CHECK_H

#include "base/tensor.h"
#include "ir/build.h"
#include "ir/infer.h"

/* Records "op: text"; always false. */
bool weft_infer_fail(weft_infer *infer, const char *format, ...) WEFT_PRINTF(2, 3);
/* "f32[B, 128]" in the graph's arena, for messages. */
const char *weft_infer_type_text(weft_infer *infer, const weft_type *type);
const char *weft_infer_dim_text(weft_infer *infer, weft_dim dim);

/* Appends a result. Extents are copied; invalid or surely negative ones and ranks past the limit are problems. */
bool weft_infer_emit(weft_infer *infer, weft_dtype dtype, int rank, const weft_dim *dims);
bool weft_infer_emit_type(weft_infer *infer, const weft_type *type);

/* Sets of dtypes, for weft_infer_dtype. */
enum {
    WEFT_ALLOW_BOOL = 1,
    WEFT_ALLOW_INTEGER = 2,
    WEFT_ALLOW_FLOAT = 4,
    WEFT_ALLOW_COMPLEX = 8,
    WEFT_ALLOW_NUMBER = WEFT_ALLOW_INTEGER | WEFT_ALLOW_FLOAT,
    WEFT_ALLOW_ANY = 15
};
bool weft_dtype_allowed(weft_dtype dtype, int allowed);
/* The operand's dtype is in the set. */
bool weft_infer_dtype(weft_infer *infer, int operand, int allowed);
bool weft_infer_rank(weft_infer *infer, int operand, int minimum, int maximum);
/* Shapes equal, extents that cannot be compared under a guard (weft_graph_assume_equal). */
bool weft_infer_shapes_equal(weft_infer *infer, const weft_type *a, const weft_type *b);
/* Operands with equal shapes, or equal types. */
bool weft_infer_same_shape(weft_infer *infer, int a, int b);
bool weft_infer_same_type(weft_infer *infer, int a, int b);
/* The attribute, an axis of the operand's shape: 0 <= axis < rank. */
bool weft_infer_axis(weft_infer *infer, weft_attribute_name name, int rank, int *out_axis);
/* The attribute, distinct axes below rank, strictly increasing when ordered. */
bool weft_infer_axes(weft_infer *infer, weft_attribute_name name, int rank, bool ordered);
/* An array attribute with exactly count entries. */
bool weft_infer_count(weft_infer *infer, weft_attribute_name name, int count);
/* An INTS attribute with count entries, all at least minimum. */
bool weft_infer_ints(weft_infer *infer, weft_attribute_name name, int count, int64_t minimum);
/* An INT attribute that is 0 or 1. */
bool weft_infer_flag(weft_infer *infer, weft_attribute_name name);
/* A STRING attribute that is one of the space-separated words. */
bool weft_infer_word(weft_infer *infer, weft_attribute_name name, const char *words);
/* The reduction kind suits the dtype: sum product (numbers, complex) max min (numbers) and or (bool, integers). */
bool weft_infer_reduction(weft_infer *infer, weft_dtype dtype);
/* The op has exactly count regions, each ending in yield. */
bool weft_infer_regions(weft_infer *infer, int count);

/* Extent of one windowed axis: low + dilated extent + high, windows of `window` with holes `dilation`, every stride. */
typedef struct weft_window_axis {
    weft_dim extent, low, high;
    int64_t window, stride, dilation, base_dilation;
} weft_window_axis;
weft_dim weft_window_extent(weft_graph *graph, const weft_window_axis *axis);

static inline const weft_attribute *weft_infer_attribute(const weft_infer *infer, weft_attribute_name name) {
    return weft_node_attribute(infer->node, name);
}
static inline const weft_type *weft_infer_operand(const weft_infer *infer, int index) {
    return &infer->node->operands[index]->type;
}

#endif
