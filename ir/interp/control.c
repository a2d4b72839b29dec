/* Ops with regions: while, cond, scan, fusion. A region is a block run on argument tensors; values of enclosing blocks
   are found in the interpreter's value map while their block is active. */
#include <string.h>

#include "ir/interp/interp.h"

static void release_all(int count, weft_tensor **tensors) {
    for (int i = 0; i < count; i++) {
        weft_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

/* Arrays of tensor pointers, NULL-filled. */
static weft_status tensor_array(const weft_interpreter *interpreter, int count, weft_tensor ***out) {
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, count, sizeof **out, &memory), "tensor array");
    *out = memory;
    return NULL;
}

static void free_array(const weft_interpreter *interpreter, int count, weft_tensor **tensors) {
    if (tensors) release_all(count, tensors);
    weft_interp_scratch_free(interpreter, count, sizeof *tensors, tensors);
}

static weft_status run_condition(weft_interpreter *interpreter, const weft_block *block, weft_tensor *const *arguments,
                                 bool *out_value) {
    weft_tensor *predicate = NULL;
    WEFT_TRY(weft_interpret_block(interpreter, block, arguments, 1, &predicate), "loop condition");
    *out_value = weft_element_i64(WEFT_BOOL, predicate->data, 0) != 0;
    weft_tensor_release(predicate);
    return NULL;
}

/* state: the loop's values, owned; next: room for as many. */
static weft_status run_while(weft_interpreter *interpreter, const weft_node *node, weft_tensor **state,
                             weft_tensor **next) {
    int64_t bound = weft_node_int(node, WEFT_ATTR_bound, -1);
    for (int64_t trip = 0;; trip++) {
        bool more = false;
        WEFT_TRY(run_condition(interpreter, node->regions[0]->block, state, &more), "trip %lld", (long long)trip);
        if (!more) return NULL;
        if (bound >= 0 && trip >= bound)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "while runs more than its bound of %lld trips", (long long)bound);
        WEFT_TRY(weft_interpret_block(interpreter, node->regions[1]->block, state, node->operand_count, next),
                 "trip %lld", (long long)trip);
        release_all(node->operand_count, state);
        memcpy(state, next, (size_t)node->operand_count * sizeof *state);
        memset(next, 0, (size_t)node->operand_count * sizeof *next);
    }
}

weft_status weft_interpret_while(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                 weft_tensor **results) {
    int count = node->operand_count;
    weft_tensor **next = NULL;
    WEFT_TRY(tensor_array(interpreter, count, &next), "while");
    for (int i = 0; i < count; i++) {
        weft_tensor_retain(inputs[i]);
        results[i] = inputs[i];
    }
    weft_status status = run_while(interpreter, node, results, next);
    free_array(interpreter, count, next);
    return status;
}

weft_status weft_interpret_cond(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    bool yes = weft_element_i64(WEFT_BOOL, inputs[0]->data, 0) != 0;
    return weft_interpret_block(interpreter, node->regions[yes ? 0 : 1]->block, NULL, node->result_count, results);
}

weft_status weft_interpret_fusion(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                  weft_tensor **results) {
    return weft_interpret_block(interpreter, node->regions[0]->block, inputs, node->result_count, results);
}

weft_status weft_interpret_custom_gradient(weft_interpreter *interpreter, const weft_node *node,
                                           weft_tensor *const *inputs, weft_tensor **results) {
    if (node->region_count == 1)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "a function with a gradient of its own has no forward derivative");
    return weft_interpret_block(interpreter, node->regions[0]->block, inputs, node->result_count, results);
}

/* Slice `trip` of axis 0 as a tensor of its own. */
static weft_status take_slice(const weft_interpreter *interpreter, const weft_tensor *x, int64_t trip,
                              weft_tensor **out) {
    WEFT_TRY(weft_tensor_create(interpreter->graph->context, x->dtype, x->rank - 1, x->shape + 1, out), "scan slice");
    weft_view from = weft_interp_view(*out), to = from;
    from.offset = trip * x->strides[0];
    weft_interp_copy(x->dtype, x->rank - 1, x->shape + 1, x->data, &from, (*out)->data, &to);
    return NULL;
}

static weft_status put_slice(const weft_tensor *slice, int64_t trip, weft_tensor *y) {
    if (slice->rank + 1 != y->rank || memcmp(slice->shape, y->shape + 1, (size_t)slice->rank * sizeof *slice->shape))
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "scan: an output changes its shape between trips");
    weft_view from = weft_interp_view(slice), to = from;
    to.offset = trip * y->strides[0];
    weft_interp_copy(y->dtype, slice->rank, slice->shape, slice->data, &from, y->data, &to);
    return NULL;
}

/* One trip: arguments[0, k) are the carries and stay owned here; yielded values come back in next. */
static weft_status run_trip(weft_interpreter *interpreter, const weft_node *node, int carries, int64_t trip,
                            weft_tensor *const *inputs, weft_tensor **arguments, weft_tensor **next,
                            weft_tensor **results) {
    for (int i = carries; i < node->operand_count; i++)
        WEFT_TRY(take_slice(interpreter, inputs[i], trip, &arguments[i]), "trip %lld", (long long)trip);
    WEFT_TRY(weft_interpret_block(interpreter, node->regions[0]->block, arguments, node->result_count, next),
             "trip %lld", (long long)trip);
    release_all(node->operand_count, arguments);
    for (int i = 0; i < carries; i++) {
        arguments[i] = next[i];
        next[i] = NULL;
    }
    for (int i = carries; i < node->result_count; i++)
        WEFT_TRY(put_slice(next[i], trip, results[i]), "output %d of trip %lld", i, (long long)trip);
    release_all(node->result_count, next);
    return NULL;
}

static weft_status run_scan(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                            weft_tensor **arguments, weft_tensor **next, weft_tensor **results) {
    int64_t trips, k;
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_trips, &trips), "scan");
    WEFT_TRY(weft_interp_extents(interpreter, node, WEFT_ATTR_k, &k), "scan");
    int carries = (int)k;
    bool reverse = weft_node_int(node, WEFT_ATTR_reverse, 0) != 0;
    for (int i = 0; i < carries; i++) {
        weft_tensor_retain(inputs[i]);
        arguments[i] = inputs[i];
    }
    for (int i = carries; i < node->operand_count; i++)
        if (inputs[i]->shape[0] != trips)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "scan: operand %d has %lld slices for %lld trips", i,
                               (long long)inputs[i]->shape[0], (long long)trips);
    for (int i = carries; i < node->result_count; i++)
        WEFT_TRY(weft_interp_result(interpreter, node, i, &results[i]), "result of scan");
    for (int64_t n = 0; n < trips; n++)
        WEFT_TRY(run_trip(interpreter, node, carries, reverse ? trips - 1 - n : n, inputs, arguments, next, results),
                 "scan");
    for (int i = 0; i < carries; i++) {
        results[i] = arguments[i];
        arguments[i] = NULL;
    }
    return NULL;
}

weft_status weft_interpret_scan(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    weft_tensor **arguments = NULL, **next = NULL;
    weft_status status = tensor_array(interpreter, node->operand_count, &arguments);
    if (!status) status = tensor_array(interpreter, node->result_count, &next);
    if (!status) status = run_scan(interpreter, node, inputs, arguments, next, results);
    free_array(interpreter, node->operand_count, arguments);
    free_array(interpreter, node->result_count, next);
    return status;
}
