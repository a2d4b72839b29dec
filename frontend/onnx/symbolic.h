/* Symbolic values: see symbolic.c. */
#ifndef WEFT_FRONTEND_ONNX_SYMBOLIC_H
#define WEFT_FRONTEND_ONNX_SYMBOLIC_H

#include "frontend/onnx/import.h"

typedef enum weft_onnx_element_kind {
    WEFT_ONNX_UNKNOWN,
    WEFT_ONNX_EXTENT, /* integers and booleans: extent */
    WEFT_ONNX_RATIO,  /* floats: extent * numerator / denominator, exactly; denominator > 0 */
    WEFT_ONNX_NUMBER  /* floats: number */
} weft_onnx_element_kind;

typedef struct weft_onnx_element {
    weft_onnx_element_kind kind;
    weft_dim extent;
    int64_t numerator, denominator;
    double number;
} weft_onnx_element;

typedef struct weft_onnx_symbolic {
    int count; /* row-major elements of the value's shape, which is static */
    weft_onnx_element elements[];
} weft_onnx_symbolic;

/* NULL: too large, of unknown shape, or no element is known. */
const weft_onnx_symbolic *weft_onnx_symbolic_of(weft_onnx_import_state *import, weft_value *value);
/* The folded tensor of a value that depends on constants alone, borrowed; NULL otherwise. */
weft_tensor *weft_onnx_fold_constant(weft_onnx_import_state *import, weft_value *value);
/* A tensor when every element is a number; NULL otherwise. The caller releases. */
weft_tensor *weft_onnx_symbolic_tensor(weft_onnx_import_state *import, const weft_value *value,
                                       const weft_onnx_symbolic *symbolic);

#endif
