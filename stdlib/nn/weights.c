/* See weights.h. */
#include "stdlib/nn/weights.h"

#include "weft/ops.h"

weft_value *weft_nn_weight(weft_graph *g, weft_safetensors *file, const char *name) {
    weft_tensor *tensor = NULL;
    int index = weft_safetensors_find(file, name);
    weft_status status = index < 0 ? WEFT_STATUS(WEFT_NOT_FOUND, "the weights have no tensor \"%s\"", name)
                                   : weft_safetensors_get(file, index, &tensor);
    if (status) {
        weft_graph_report(g, status);
        return weft_scalar(g, WEFT_F32, 0);
    }
    weft_value *value = weft_graph_parameter(g, name, tensor);
    weft_tensor_release(tensor);
    return value;
}
