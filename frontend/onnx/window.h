/* Windows over spatial axes as convolutions and pools describe them. */
#ifndef WEFT_FRONTEND_ONNX_WINDOW_H
#define WEFT_FRONTEND_ONNX_WINDOW_H

#include "frontend/onnx/import.h"

typedef struct weft_onnx_window {
    int spatial;
    int64_t window[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], dilation[WEFT_MAX_RANK];
    weft_dim low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
} weft_onnx_window;

/* kernel_shape (or the weights' extents), strides, dilations. false after a problem. */
bool weft_onnx_window_read(weft_onnx_node *node, int spatial, const weft_dim *kernel, weft_onnx_window *window);
/* low and high from pads or auto_pad. */
bool weft_onnx_window_pads(weft_onnx_node *node, const weft_dim *extents, weft_onnx_window *window);

#endif
