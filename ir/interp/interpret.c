/* Running nodes, blocks and graphs.
   Invariant: interpreter->values maps exactly the live values of the active blocks, each entry holding one reference. A
   value dies after its last use in its block (uses in nested regions count), so memory follows liveness.
   Read next: bind.c (entry), elementwise.c and its siblings (the ops). */
#include "ir/interpret.h"

#include "base/need.h"

#include <string.h>

#include "ir/build.h"
#include "ir/interp/interp.h"

/* -- one node */

#define HOOK(name)   weft_interpret_##name
#define NONE(reason) NULL
static const weft_interpret_hook hooks[WEFT_OP_COUNT] = {
#define WEFT_OP(id, class, low, high, results, flags, attributes, infer, interpret, ...) [WEFT_OP_##id] = interpret,
#include "ir/ops.def"
#undef WEFT_OP
};
#undef NONE
#undef HOOK

/* Elementwise hooks index all operands by the result's elements. */
static weft_status check_elementwise(const weft_node *node, weft_tensor *const *inputs) {
    if (!(weft_op_get(node->op)->flags & WEFT_FLAG_ELEMENTWISE)) return NULL;
    for (int i = 1; i < node->operand_count; i++)
        if (inputs[i]->element_count != inputs[0]->element_count)
            return WEFT_STATUS(WEFT_OUT_OF_RANGE, "operands of %lld and %lld elements",
                               (long long)inputs[0]->element_count, (long long)inputs[i]->element_count);
    return NULL;
}

static weft_status run_hook(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                            weft_tensor **results) {
    if (weft_op_get(node->op)->class == WEFT_CLASS_DERIVED)
        return weft_interp_derived(interpreter, node, inputs, results);
    if (!hooks[node->op]) return WEFT_STATUS(WEFT_INTERNAL, "the op cannot be interpreted by itself");
    WEFT_TRY(check_elementwise(node, inputs), "operands");
    WEFT_TRY(hooks[node->op](interpreter, node, inputs, results), "op");
    /* A data-dependent extent became known: facts about it can be checked before anybody relies on them. */
    return weft_node_string(node, WEFT_ATTR_symbol, NULL) ? weft_interp_check_guards(interpreter) : NULL;
}

weft_status weft_interpret_node(weft_interpreter *interpreter, const weft_node *node, weft_tensor *const *inputs,
                                weft_tensor **results) {
    for (int i = 0; i < node->result_count; i++) results[i] = NULL;
    weft_status status = run_hook(interpreter, node, inputs, results);
    if (!status && interpreter->observe) status = interpreter->observe(interpreter->observe_self, node, results);
    if (!status) return NULL;
    for (int i = 0; i < node->result_count; i++) {
        weft_tensor_release(results[i]);
        results[i] = NULL;
    }
    if (node->location.name)
        return weft_status_annotate(status, __FILE__, __LINE__, "interpreting %s %%%d (%s:%d)",
                                    weft_op_get(node->op)->name, node->id, node->location.name, node->location.line);
    return weft_status_annotate(status, __FILE__, __LINE__, "interpreting %s %%%d", weft_op_get(node->op)->name,
                                node->id);
}

/* -- values of a block */

static weft_status no_memory(void) { return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for interpreter values"); }

static weft_tensor *find_value(const weft_interpreter *interpreter, const weft_value *value) {
    return weft_map_find(&interpreter->values, &value, sizeof(const weft_value *));
}

/* Takes over one reference. */
static weft_status put_value(weft_interpreter *interpreter, const weft_value *value, weft_tensor *tensor) {
    if (weft_map_put(&interpreter->values, &value, sizeof(const weft_value *), tensor)) return NULL;
    weft_tensor_release(tensor);
    return no_memory();
}

static void drop_value(weft_interpreter *interpreter, const weft_value *value) {
    weft_tensor *tensor = find_value(interpreter, value);
    if (!tensor) return;
    weft_map_remove(&interpreter->values, &value, sizeof(const weft_value *));
    weft_tensor_release(tensor);
}

static bool belongs_to(const weft_value *value, const weft_block *block) {
    return value->node ? value->node->block == block : value->block == block;
}

/* Adds `change` to the remaining uses of the block's values that a node (with its regions) uses; dead values go. */
static bool change_uses(weft_interpreter *interpreter, weft_map *uses, const weft_block *block, const weft_node *node,
                        int change) {
    for (int i = 0; i < node->operand_count; i++) {
        const weft_value *value = node->operands[i];
        if (!belongs_to(value, block)) continue;
        intptr_t left = (intptr_t)weft_map_find(uses, &value, sizeof(const weft_value *)) + change;
        if (!weft_map_put(uses, &value, sizeof(const weft_value *), (void *)left)) return false;
        if (left == 0) drop_value(interpreter, value);
    }
    for (int i = 0; i < node->region_count; i++)
        for (const weft_node *inner = node->regions[i]->block->first; inner; inner = inner->next)
            if (!change_uses(interpreter, uses, block, inner, change)) return false;
    return true;
}

/* operands and results: room for this node's. */
static weft_status run_node(weft_interpreter *interpreter, weft_map *uses, const weft_node *node,
                            weft_tensor **operands, weft_tensor **results) {
    for (int i = 0; i < node->operand_count; i++) {
        operands[i] = find_value(interpreter, node->operands[i]);
        if (!operands[i])
            return WEFT_STATUS(WEFT_INTERNAL, "operand %d of %s is not computed yet", i, weft_op_get(node->op)->name);
    }
    WEFT_TRY(weft_interpret_node(interpreter, node, operands, results), "in block");
    weft_status status = NULL;
    for (int i = 0; i < node->result_count; i++) {
        const weft_value *value = &node->results[i];
        if (!status && weft_map_find(uses, &value, sizeof(const weft_value *)))
            status = put_value(interpreter, value, results[i]);
        else
            weft_tensor_release(results[i]);
    }
    return status;
}

static weft_status yield_values(const weft_interpreter *interpreter, const weft_node *yield, int result_count,
                                weft_tensor **results) {
    if (yield->operand_count != result_count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the block yields %d values, %d are asked for", yield->operand_count,
                           result_count);
    for (int i = 0; i < result_count; i++)
        if (!find_value(interpreter, yield->operands[i])) return WEFT_STATUS(WEFT_INTERNAL, "yield of a missing value");
    for (int i = 0; i < result_count; i++) {
        results[i] = find_value(interpreter, yield->operands[i]);
        weft_tensor_retain(results[i]);
    }
    return NULL;
}

static int widest(const weft_block *block) {
    int most = 1;
    for (const weft_node *node = block->first; node; node = node->next) {
        if (node->operand_count > most) most = node->operand_count;
        if (node->result_count > most) most = node->result_count;
    }
    return most;
}

static weft_status run_nodes(weft_interpreter *interpreter, weft_map *uses, const weft_block *block, int result_count,
                             weft_tensor **results, weft_tensor **scratch, int width) {
    for (const weft_node *node = block->first; node; node = node->next)
        if (!change_uses(interpreter, uses, block, node, 1)) return no_memory();
    for (const weft_node *node = block->first; node; node = node->next) {
        if (node->op == WEFT_OP_yield) return yield_values(interpreter, node, result_count, results);
        WEFT_TRY(run_node(interpreter, uses, node, scratch, scratch + width), "in block");
        if (!change_uses(interpreter, uses, block, node, -1)) return no_memory();
    }
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the block has no yield");
}

weft_status weft_interpret_block(weft_interpreter *interpreter, const weft_block *block, weft_tensor *const *arguments,
                                 int result_count, weft_tensor **results) {
    weft_status status = NULL;
    for (int i = 0; i < result_count; i++) results[i] = NULL;
    for (int i = 0; i < block->argument_count && !status; i++) {
        weft_tensor_retain(arguments[i]);
        status = put_value(interpreter, block->arguments[i], arguments[i]);
    }
    int width = widest(block);
    void *scratch = NULL;
    weft_map uses;
    weft_map_init(interpreter->graph->context->allocator, &uses);
    if (!status) status = weft_interp_scratch(interpreter, 2 * (int64_t)width, sizeof(weft_tensor *), &scratch);
    if (!status) status = run_nodes(interpreter, &uses, block, result_count, results, scratch, width);
    weft_interp_scratch_free(interpreter, 2 * (int64_t)width, sizeof(weft_tensor *), scratch);
    weft_map_deinit(&uses);
    for (int i = 0; i < block->argument_count; i++) drop_value(interpreter, block->arguments[i]);
    for (const weft_node *node = block->first; node; node = node->next)
        for (int i = 0; i < node->result_count; i++) drop_value(interpreter, &node->results[i]);
    return status;
}

/* -- graphs */

weft_status weft_interpreter_init(weft_graph *graph, weft_interpret_mode mode, weft_interpreter *out_interpreter) {
    *out_interpreter = (weft_interpreter){.graph = graph, .mode = mode};
    weft_map_init(graph->context->allocator, &out_interpreter->values);
    weft_map_init(graph->context->allocator, &out_interpreter->states);
    out_interpreter->symbol_count = weft_dim_symbol_count(graph->dims);
    void *symbols;
    WEFT_TRY(weft_interp_scratch(out_interpreter, out_interpreter->symbol_count, sizeof(int64_t), &symbols),
             "interpreter");
    out_interpreter->symbols = symbols;
    for (int i = 0; i < out_interpreter->symbol_count; i++) out_interpreter->symbols[i] = WEFT_SYMBOL_UNBOUND;
    for (size_t i = 0; i < graph->state_count; i++) {
        const weft_state_value *state = &graph->states[i];
        if (!state->initial) continue;
        if (!weft_map_put(&out_interpreter->states, state->name, strlen(state->name), state->initial)) {
            weft_interpreter_deinit(out_interpreter);
            return no_memory();
        }
        weft_tensor_retain(state->initial);
    }
    return NULL;
}

static void release_map(weft_map *map) {
    size_t cursor = 0;
    void *tensor;
    while (weft_map_next(map, &cursor, NULL, NULL, &tensor)) weft_tensor_release(tensor);
    weft_map_deinit(map);
}

void weft_interpreter_deinit(weft_interpreter *interpreter) {
    release_map(&interpreter->values);
    release_map(&interpreter->states);
    weft_interp_scratch_free(interpreter, interpreter->symbol_count, sizeof(int64_t), interpreter->symbols);
    interpreter->symbols = NULL;
}

/* A packed version of an input: itself, or a copy. */
static weft_status pack_input(const weft_interpreter *interpreter, weft_tensor *tensor, weft_tensor **out) {
    if (tensor->packed) {
        weft_tensor_retain(tensor);
        *out = tensor;
        return NULL;
    }
    WEFT_TRY(weft_tensor_create(interpreter->graph->context, tensor->dtype, tensor->rank, tensor->shape, out),
             "packing");
    weft_view from = weft_interp_view(tensor), to = weft_interp_view(*out);
    weft_interp_copy(tensor->dtype, tensor->rank, tensor->shape, tensor->data, &from, (*out)->data, &to);
    return NULL;
}

weft_status weft_interpreter_run(weft_interpreter *interpreter, int input_count, weft_tensor *const *inputs,
                                 int output_count, weft_tensor **outputs) {
    for (int i = 0; i < output_count; i++) outputs[i] = NULL;
    WEFT_TRY(weft_graph_finish(interpreter->graph), "interpreting graph %s", interpreter->graph->name);
    WEFT_TRY(weft_interp_bind(interpreter, input_count, inputs), "interpreting graph %s", interpreter->graph->name);
    void *memory;
    WEFT_TRY(weft_interp_scratch(interpreter, input_count, sizeof(weft_tensor *), &memory), "inputs");
    weft_tensor **packed = memory;
    weft_status status = NULL;
    for (int i = 0; i < input_count && !status; i++) status = pack_input(interpreter, inputs[i], &packed[i]);
    if (!status)
        status = weft_interpret_block(interpreter, interpreter->graph->body->block, packed, output_count, outputs);
    for (int i = 0; i < input_count; i++) weft_tensor_release(packed[i]);
    weft_interp_scratch_free(interpreter, input_count, sizeof(weft_tensor *), memory);
    return weft_status_annotate(status, __FILE__, __LINE__, "interpreting graph %s", interpreter->graph->name);
}

weft_status weft_interpret_observed(weft_graph *graph, weft_interpret_mode mode, int input_count,
                                    weft_tensor *const *inputs, int output_count, weft_tensor **outputs,
                                    weft_status (*observe)(void *self, const weft_node *node,
                                                           weft_tensor *const *results),
                                    void *self) {
    weft_interpreter interpreter;
    WEFT_TRY(weft_interpreter_init(graph, mode, &interpreter), "interpreting graph %s", graph->name);
    interpreter.observe = observe;
    interpreter.observe_self = self;
    weft_status status = weft_interpreter_run(&interpreter, input_count, inputs, output_count, outputs);
    weft_interpreter_deinit(&interpreter);
    return status;
}

weft_status weft_interpret(weft_graph *graph, weft_interpret_mode mode, int input_count, weft_tensor *const *inputs,
                           int output_count, weft_tensor **outputs) {
    return weft_interpret_observed(graph, mode, input_count, inputs, output_count, outputs, NULL, NULL);
}

weft_status weft_graph_interpret(weft_graph *graph, int input_count, weft_tensor *const *inputs, int output_count,
                                 weft_tensor **outputs) {
    WEFT_NEED(graph, "the graph");
    WEFT_NEED_LIST(inputs, input_count, "the list of inputs");
    WEFT_NEED_LIST(outputs, output_count, "the list of outputs");
    for (int i = 0; i < output_count; i++) outputs[i] = NULL;
    WEFT_TRY(weft_graph_verify(graph), "interpreting graph %s", graph->name);
    return weft_interpret(graph, WEFT_INTERPRET_EXACT, input_count, inputs, output_count, outputs);
}
