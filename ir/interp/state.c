/* States: tensors that outlive a run. state_read gives a copy by reference; state_update replaces the tensor, so
   earlier reads keep the old value. */
#include <string.h>

#include "ir/interp/interp.h"

weft_tensor *weft_interpreter_state(const weft_interpreter *interpreter, const char *name) {
    return weft_map_find(&interpreter->states, name, strlen(name));
}

weft_status weft_interpret_state_read(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                      weft_tensor **results) {
    (void)inputs;
    const char *name = weft_node_string(node, WEFT_ATTR_name, "");
    weft_tensor *value = weft_interpreter_state(interpreter, name);
    if (!value) { /* the first use: zeros of the node's type, whose symbols are bound by now */
        WEFT_TRY(weft_interp_result(interpreter, node, 0, &value), "state %s", name);
        if (!weft_map_put(&interpreter->states, name, strlen(name), value)) {
            weft_tensor_release(value);
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for state %s", name);
        }
    }
    weft_tensor_retain(value);
    results[0] = value;
    return NULL;
}

weft_status weft_interpret_state_update(weft_interpreter *interpreter, const weft_node *node,
                                        weft_tensor *const *inputs, weft_tensor **results) {
    (void)results;
    const char *name = weft_node_string(node, WEFT_ATTR_name, "");
    weft_tensor *old = weft_interpreter_state(interpreter, name);
    if (!weft_map_put(&interpreter->states, name, strlen(name), inputs[0]))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for state %s", name);
    weft_tensor_retain(inputs[0]);
    weft_tensor_release(old);
    return NULL;
}
