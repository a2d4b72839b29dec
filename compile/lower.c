/* Buffers and blocks. Read next: lower_fusion.c. */
#include "compile/lower.h"

#include <string.h>

weft_status weft_lower_extent(weft_lowering *l, weft_dim extent, weft_dim *out_extent) {
    *out_extent = weft_dim_copy(l->graph->dims, extent, l->dims);
    if (*out_extent == WEFT_DIM_INVALID) return weft_dim_invalid(l->dims, "an extent");
    return NULL;
}

/* Extents that depend on data, at their largest. */
static weft_status bound_of(weft_lowering *l, weft_dim extent, weft_dim *out_bound) {
    int count = weft_dim_symbol_count(l->dims);
    weft_dim *replacement = weft_arena_allocate_array(l->arena, (size_t)count + 1, sizeof *replacement);
    if (!replacement) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "bounding an extent");
    for (int i = 0; i < count; i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(l->dims, i);
        replacement[i] =
            symbol->origin == WEFT_SYMBOL_DATA && symbol->maximum != INT64_MAX ? symbol->maximum : WEFT_DIM_ANY;
    }
    *out_bound = weft_dim_substitute(l->dims, extent, replacement);
    return *out_bound == WEFT_DIM_INVALID ? weft_dim_invalid(l->dims, "the bound of an extent") : NULL;
}

weft_status weft_lower_bytes(weft_lowering *l, const weft_type *type, weft_dim *out_bytes) {
    weft_dim count = 1;
    for (int i = 0; i < type->rank; i++) {
        weft_dim extent;
        WEFT_TRY(weft_lower_extent(l, type->dims[i], &extent), "sizing a buffer");
        count = weft_dim_multiply(l->dims, count, extent);
    }
    int bits = weft_dtype_bits(type->dtype);
    weft_dim bytes =
        bits >= 8 ? weft_dim_multiply(l->dims, count, bits / 8) : weft_dim_divide_ceil(l->dims, count, 8 / bits);
    if (bytes == WEFT_DIM_INVALID) return weft_dim_invalid(l->dims, "the size of a value");
    return bound_of(l, bytes, out_bytes);
}

weft_status weft_lower_add_buffer(weft_lowering *l, const weft_buffer *buffer, int *out_number) {
    if (!WEFT_ARRAY_RESERVE(l->allocator, l->buffer_list, l->buffer_capacity, (size_t)l->buffer_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding a buffer");
    l->buffer_list[l->buffer_count] = *buffer;
    *out_number = l->buffer_count++;
    return NULL;
}

weft_status weft_lower_add_region(weft_lowering *l, int *out_region) {
    if (!WEFT_ARRAY_RESERVE(l->allocator, l->regions, l->region_capacity, (size_t)l->region_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding a region");
    l->regions[l->region_count] = (weft_step_buffer){0};
    *out_region = l->region_count++;
    return NULL;
}

weft_status weft_lower_add_step(weft_lowering *l, const weft_step *step) {
    weft_step_buffer *list = &l->regions[l->region];
    if (!WEFT_ARRAY_RESERVE(l->allocator, list->steps, list->capacity, (size_t)list->count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding a step");
    if (l->region == WEFT_REGION_MAIN) {
        if (!WEFT_ARRAY_RESERVE(l->allocator, l->main_nodes, l->main_node_capacity, (size_t)list->count + 1))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding a step");
        const weft_node **nodes = weft_arena_copy(l->kernel_arena, &l->node, sizeof l->node);
        if (!nodes) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "adding a step");
        l->main_nodes[list->count] = (weft_step_nodes){l->node ? 1 : 0, nodes};
    }
    list->steps[list->count++] = *step;
    return NULL;
}

void weft_lower_touch(weft_lowering *l, int number) {
    if (l->region == WEFT_REGION_LOAD) return;
    int step = l->regions[WEFT_REGION_MAIN].count;
    weft_buffer *buffer = &l->buffer_list[number];
    while (buffer->kind == WEFT_BUFFER_ALIAS) buffer = &l->buffer_list[buffer->index];
    if (buffer->first_step < 0) buffer->first_step = step;
    if (buffer->last_step < step) buffer->last_step = step;
}

weft_status weft_lower_bind(weft_lowering *l, const weft_value *value, int buffer) {
    if (!weft_map_put(&l->buffers, &value, sizeof value, (void *)((uintptr_t)buffer + 1)))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "binding a value");
    return NULL;
}

static int bound_buffer(const weft_lowering *l, const weft_value *value) {
    return (int)(uintptr_t)weft_map_find(&l->buffers, &value, sizeof value) - 1;
}

/* Of the buffer that is added next. */
static weft_status place_weight(weft_lowering *l, weft_tensor *tensor, int64_t *out_offset) {
    size_t before = l->weight_capacity;
    if (!WEFT_ARRAY_RESERVE(l->allocator, l->weights, l->weight_capacity, (size_t)l->buffer_count + 1))
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "placing a constant");
    for (size_t i = before; i < l->weight_capacity; i++) l->weights[i] = NULL;
    l->weights[l->buffer_count] = tensor;
    *out_offset = (l->weights_bytes + 63) & ~(int64_t)63;
    l->weights_bytes = *out_offset + (int64_t)weft_tensor_bytes(tensor);
    return NULL;
}

static weft_status constant_buffer(weft_lowering *l, const weft_value *value, int *out_number) {
    weft_tensor *tensor = weft_node_attribute(value->node, WEFT_ATTR_value)->as.tensor;
    int known = (int)(uintptr_t)weft_map_find(&l->constants, &tensor, sizeof tensor) - 1;
    if (known < 0) {
        weft_buffer buffer = {.kind = WEFT_BUFFER_CONSTANT, .first_step = -1, .last_step = -1};
        WEFT_TRY(weft_lower_bytes(l, &value->type, &buffer.bytes), "placing a constant");
        buffer.name = value->name ? weft_arena_copy_string(l->arena, value->name, strlen(value->name)) : "constant";
        if (!buffer.name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "placing a constant");
        WEFT_TRY(place_weight(l, tensor, &buffer.offset), "placing a constant");
        WEFT_TRY(weft_lower_add_buffer(l, &buffer, &known), "placing a constant");
        if (!weft_map_put(&l->constants, &tensor, sizeof tensor, (void *)((uintptr_t)known + 1)))
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "placing a constant");
    }
    *out_number = known;
    return weft_lower_bind(l, value, known);
}

weft_status weft_lower_buffer(weft_lowering *l, const weft_value *value, int *out_number) {
    *out_number = bound_buffer(l, value);
    if (*out_number >= 0) return NULL;
    if (value->node && value->node->op == WEFT_OP_constant) return constant_buffer(l, value, out_number);
    return WEFT_STATUS(WEFT_INTERNAL, "value %%%d of %s was not computed before its use", value->id,
                       value->node ? weft_op_get(value->node->op)->name : "a block");
}

weft_status weft_lower_result(weft_lowering *l, const weft_value *value, int *out_number) {
    *out_number = bound_buffer(l, value);
    if (*out_number >= 0) return NULL;
    weft_buffer buffer = {.kind = WEFT_BUFFER_TEMP, .first_step = -1, .last_step = -1};
    WEFT_TRY(weft_lower_bytes(l, &value->type, &buffer.bytes), "placing a result");
    buffer.name = value->name ? weft_arena_copy_string(l->arena, value->name, strlen(value->name))
                              : weft_op_get(value->node->op)->name;
    if (!buffer.name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "placing a result");
    WEFT_TRY(weft_lower_add_buffer(l, &buffer, out_number), "placing a result");
    return weft_lower_bind(l, value, *out_number);
}

weft_status weft_lower_copy(weft_lowering *l, int from, int to, const weft_type *type, const char *location) {
    if (from == to) return NULL;
    weft_step step = {.kind = WEFT_STEP_COPY, .buffers = {from, to}, .location = location};
    WEFT_TRY(weft_lower_bytes(l, type, &step.bytes), "copying a value");
    weft_lower_touch(l, from);
    weft_lower_touch(l, to);
    return weft_lower_add_step(l, &step);
}

const char *weft_lower_location(weft_lowering *l, const weft_node *node) {
    const char *op =
        node->op == WEFT_OP_fusion ? weft_node_string(node, WEFT_ATTR_anchor, "fusion") : weft_op_get(node->op)->name;
    const char *name = node->location.name;
    const char *text = !name                 ? weft_arena_format(l->arena, "%s", op) /* an anchor is the graph's */
                       : node->location.line ? weft_arena_format(l->arena, "%s at %s:%d", op, name, node->location.line)
                                             : weft_arena_format(l->arena, "%s at %s", op, name);
    return text ? text : weft_op_get(node->op)->name;
}

/* A value with the bytes of another one. When the result is bound already (a program output) the bytes are copied. */
static weft_status lower_alias(weft_lowering *l, const weft_node *node, const weft_value *operand,
                               const weft_value *result) {
    int from, bound = bound_buffer(l, result);
    WEFT_TRY(weft_lower_buffer(l, operand, &from), "viewing a value");
    if (bound >= 0) return weft_lower_copy(l, from, bound, &result->type, weft_lower_location(l, node));
    return weft_lower_bind(l, result, from);
}

/* A value that lies in the state's memory (lower_state.c) needs no copy. */
static weft_status lower_state(weft_lowering *l, const weft_node *node) {
    const char *name = weft_node_string(node, WEFT_ATTR_name, "");
    for (int i = 0; i < l->buffer_count; i++) {
        const weft_buffer *state = &l->buffer_list[i];
        if (state->kind != WEFT_BUFFER_STATE || strcmp(l->graph->states[state->index].name, name) != 0) continue;
        int other;
        if (node->op == WEFT_OP_state_read) {
            WEFT_TRY(weft_lower_result(l, &node->results[0], &other), "reading state %s", name);
            return weft_lower_copy(l, i, other, &node->results[0].type, weft_lower_location(l, node));
        }
        WEFT_TRY(weft_lower_buffer(l, node->operands[0], &other), "updating state %s", name);
        return weft_lower_copy(l, other, i, weft_operand_type(node, 0), weft_lower_location(l, node));
    }
    return WEFT_STATUS(WEFT_INTERNAL, "state %s is not declared", name);
}

static weft_status lower_node(weft_lowering *l, const weft_node *node) {
    switch ((int)node->op) {
    case WEFT_OP_constant:
    case WEFT_OP_yield: return NULL; /* constants get their place at the first use */
    case WEFT_OP_fusion: return weft_lower_fusion(l, node);
    case WEFT_OP_reshape: return lower_alias(l, node, node->operands[0], &node->results[0]);
    case WEFT_OP_stop_gradient:
    case WEFT_OP_optimization_barrier:
        for (int i = 0; i < node->operand_count; i++)
            WEFT_TRY(lower_alias(l, node, node->operands[i], &node->results[i]), "barrier");
        return NULL;
    case WEFT_OP_while: return weft_lower_while(l, node);
    case WEFT_OP_cond: return weft_lower_cond(l, node);
    case WEFT_OP_scan: return weft_lower_scan(l, node);
    case WEFT_OP_state_read:
    case WEFT_OP_state_update: return lower_state(l, node);
    default:
        return WEFT_STATUS(WEFT_UNSUPPORTED, "no builder makes %s for %s", weft_op_get(node->op)->name,
                           l->capability->target);
    }
}

weft_status weft_lower_block(weft_lowering *l, const weft_block *block) {
    for (const weft_node *node = block->first; node; node = node->next) {
        if (l->region == WEFT_REGION_MAIN) l->node = node;
        WEFT_TRY(lower_node(l, node), "lowering %s", weft_lower_location(l, node));
    }
    return NULL;
}

static weft_status make_port(weft_lowering *l, const char *name, const weft_type *type, int buffer,
                             weft_port *out_port) {
    weft_dim *dims = weft_arena_allocate_array(l->arena, (size_t)type->rank + 1, sizeof *dims);
    out_port->name = weft_arena_copy_string(l->arena, name, strlen(name));
    if (!dims || !out_port->name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "describing port %s", name);
    for (int i = 0; i < type->rank; i++)
        WEFT_TRY(weft_lower_extent(l, type->dims[i], &dims[i]), "describing port %s", name);
    out_port->dtype = type->dtype;
    out_port->rank = type->rank;
    out_port->dims = dims;
    out_port->buffer = buffer;
    return NULL;
}

/* The value whose buffer becomes the output's: behind reshapes and barriers, when a step of this graph writes it. */
static const weft_value *output_root(const weft_value *value) {
    while (value->node && value->node->op == WEFT_OP_reshape) value = value->node->operands[0];
    return value->node && value->node->op == WEFT_OP_fusion ? value : NULL;
}

static weft_status make_ports(weft_lowering *l, weft_program_data *p) {
    weft_graph *graph = l->graph;
    const weft_block *body = graph->body->block;
    weft_port *inputs = weft_arena_allocate_array(l->arena, (size_t)body->argument_count + 1, sizeof *inputs);
    weft_port *outputs = weft_arena_allocate_array(l->arena, graph->output_count + 1, sizeof *outputs);
    weft_port *states = weft_arena_allocate_array(l->arena, graph->state_count + 1, sizeof *states);
    if (!inputs || !outputs || !states) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "describing the ports");
    p->input_count = body->argument_count, p->output_count = (int)graph->output_count,
    p->state_count = (int)graph->state_count;
    p->inputs = inputs, p->outputs = outputs, p->states = states;
    for (int i = 0; i < p->input_count; i++) {
        const weft_value *value = body->arguments[i];
        weft_buffer buffer = {.kind = WEFT_BUFFER_INPUT, .index = i, .first_step = -1, .last_step = -1};
        int number;
        WEFT_TRY(weft_lower_bytes(l, &value->type, &buffer.bytes), "input %d", i);
        WEFT_TRY(weft_lower_add_buffer(l, &buffer, &number), "input %d", i);
        WEFT_TRY(weft_lower_bind(l, value, number), "input %d", i);
        WEFT_TRY(make_port(l, value->name ? value->name : "", &value->type, number, &inputs[i]), "input %d", i);
        l->buffer_list[number].name = inputs[i].name;
    }
    for (int i = 0; i < p->state_count; i++) {
        const weft_state_value *state = &graph->states[i];
        weft_buffer buffer = {
            .kind = WEFT_BUFFER_STATE, .index = i, .offset = WEFT_DIM_ANY, .first_step = -1, .last_step = -1};
        int number;
        if (state->initial) WEFT_TRY(place_weight(l, state->initial, &buffer.offset), "state %s", state->name);
        WEFT_TRY(weft_lower_bytes(l, &state->type, &buffer.bytes), "state %s", state->name);
        WEFT_TRY(weft_lower_add_buffer(l, &buffer, &number), "state %s", state->name);
        WEFT_TRY(make_port(l, state->name, &state->type, number, &states[i]), "state %s", state->name);
        l->buffer_list[number].name = states[i].name;
    }
    for (int i = 0; i < p->output_count; i++) {
        const weft_value *value = graph->outputs[i], *root = output_root(value);
        weft_buffer buffer = {.kind = WEFT_BUFFER_OUTPUT, .index = i, .first_step = -1, .last_step = -1};
        int number;
        WEFT_TRY(weft_lower_bytes(l, &value->type, &buffer.bytes), "output %s", graph->output_names[i]);
        WEFT_TRY(weft_lower_add_buffer(l, &buffer, &number), "output %s", graph->output_names[i]);
        WEFT_TRY(make_port(l, graph->output_names[i], &value->type, number, &outputs[i]), "output %s",
                 graph->output_names[i]);
        l->buffer_list[number].name = outputs[i].name;
        if (root && bound_buffer(l, root) < 0)
            WEFT_TRY(weft_lower_bind(l, root, number), "output %s", graph->output_names[i]);
    }
    return NULL;
}

static weft_status make_guards(weft_lowering *l, weft_program_data *p) {
    weft_guard *guards = weft_arena_allocate_array(l->arena, l->graph->guard_count + 1, sizeof *guards);
    if (!guards) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "collecting guards");
    for (size_t i = 0; i < l->graph->guard_count; i++) {
        const weft_guard *from = &l->graph->guards[i];
        guards[i].condition.relation = from->condition.relation;
        WEFT_TRY(weft_lower_extent(l, from->condition.lhs, &guards[i].condition.lhs), "collecting guards");
        WEFT_TRY(weft_lower_extent(l, from->condition.rhs, &guards[i].condition.rhs), "collecting guards");
        guards[i].pass = from->pass ? weft_arena_copy_string(l->arena, from->pass, strlen(from->pass)) : "build";
        guards[i].location =
            from->location ? weft_arena_copy_string(l->arena, from->location, strlen(from->location)) : "";
        if (!guards[i].pass || !guards[i].location) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "collecting guards");
    }
    p->guards = guards;
    p->guard_count = (int)l->graph->guard_count;
    return NULL;
}

/* Outputs that no kernel writes: inputs, constants, values yielded twice, results of control flow. */
static weft_status copy_outputs(weft_lowering *l, const weft_program_data *p) {
    for (int i = 0; i < p->output_count; i++) {
        int from, to = p->outputs[i].buffer;
        WEFT_TRY(weft_lower_buffer(l, l->graph->outputs[i], &from), "output %s", p->outputs[i].name);
        WEFT_TRY(weft_lower_copy(l, from, to, &l->graph->outputs[i]->type, "output"), "output %s", p->outputs[i].name);
        weft_lower_touch(l, to);
    }
    return NULL;
}

static weft_status start(weft_graph *graph, weft_arena *arena, weft_lowering *l, weft_program_data **out_program) {
    *l = (weft_lowering){.graph = graph, .arena = arena, .allocator = graph->context->allocator};
    weft_map_init(l->allocator, &l->buffers);
    weft_map_init(l->allocator, &l->plans);
    weft_map_init(l->allocator, &l->constants);
    weft_program_data *p = *out_program = weft_arena_allocate(arena, sizeof *p);
    if (!p) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering %s", graph->name);
    WEFT_TRY(weft_dim_table_create(l->allocator, &l->dims), "lowering %s", graph->name);
    p->dims = l->dims;
    for (int i = 0; i < weft_dim_symbol_count(graph->dims); i++) {
        const weft_symbol *s = weft_dim_symbol_get(graph->dims, i);
        if (weft_dim_symbol(l->dims, s->name, s->minimum, s->maximum, s->divisor, s->origin) == WEFT_DIM_INVALID)
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering %s", graph->name);
    }
    p->name = weft_arena_copy_string(arena, graph->name, strlen(graph->name));
    p->target = "";
    p->producer = "weft " WEFT_VERSION;
    if (!p->name) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering %s", graph->name);
    int load, main;
    WEFT_TRY(weft_lower_add_region(l, &load), "lowering %s", graph->name);
    WEFT_TRY(weft_lower_add_region(l, &main), "lowering %s", graph->name);
    l->region = WEFT_REGION_MAIN;
    return NULL;
}

/* Results without elements have a place but no step: behind the last one they end with it; without any step they are
   0 bytes that live with the program. */
static void end_lifetimes(weft_lowering *l) {
    int count = l->regions[WEFT_REGION_MAIN].count;
    for (int i = 0; i < l->buffer_count; i++) {
        weft_buffer *buffer = &l->buffer_list[i];
        if (buffer->kind != WEFT_BUFFER_TEMP || buffer->last_step < count) continue;
        if (!count && !buffer->bytes) buffer->kind = WEFT_BUFFER_PERSISTENT;
        buffer->last_step = count - 1;
        if (buffer->first_step > buffer->last_step) buffer->first_step = buffer->last_step;
    }
}

/* Moves the lists into the arena. */
static weft_status freeze(weft_lowering *l, weft_program_data *p) {
    weft_step_list *regions = weft_arena_allocate_array(l->arena, (size_t)l->region_count, sizeof *regions);
    if (!regions) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "finishing a program");
    for (int i = 0; i < l->region_count; i++) {
        regions[i].count = l->regions[i].count;
        regions[i].steps =
            weft_arena_copy(l->arena, l->regions[i].steps, (size_t)l->regions[i].count * sizeof(weft_step));
        if (!regions[i].steps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "finishing a program");
    }
    p->regions = regions;
    p->region_count = l->region_count;
    int last = l->regions[WEFT_REGION_MAIN].count - 1;
    for (int i = 0; i < l->buffer_count; i++) { /* a value without elements that nobody reads, behind the last step */
        weft_buffer *buffer = &l->buffer_list[i];
        if (buffer->kind == WEFT_BUFFER_TEMP && buffer->last_step > last) buffer->last_step = last;
        if (buffer->kind == WEFT_BUFFER_TEMP && buffer->first_step > last) buffer->first_step = last;
    }
    p->buffers = weft_arena_copy(l->arena, l->buffer_list, (size_t)l->buffer_count * sizeof *l->buffer_list);
    p->buffer_count = l->buffer_count;
    p->kernels = weft_arena_copy(l->arena, l->kernel_records, (size_t)l->kernel_count * sizeof *l->kernel_records);
    p->kernel_count = l->kernel_count;
    p->weights_bytes = l->weights_bytes;
    if (!p->buffers || !p->kernels) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "finishing a program");
    return NULL;
}

static void stop(weft_lowering *l, weft_status failed) {
    for (int i = 0; i < l->region_count; i++)
        weft_free(l->allocator, l->regions[i].steps, l->regions[i].capacity * sizeof(weft_step));
    weft_free(l->allocator, l->regions, l->region_capacity * sizeof *l->regions);
    weft_free(l->allocator, l->buffer_list, l->buffer_capacity * sizeof *l->buffer_list);
    weft_free(l->allocator, l->kernels, l->kernel_capacity * sizeof *l->kernels);
    weft_free(l->allocator, l->kernel_records, l->kernel_record_capacity * sizeof *l->kernel_records);
    weft_free(l->allocator, l->weights, l->weight_capacity * sizeof *l->weights);
    weft_free(l->allocator, l->main_nodes, l->main_node_capacity * sizeof *l->main_nodes);
    weft_map_deinit(&l->buffers);
    weft_map_deinit(&l->plans);
    weft_map_deinit(&l->constants);
    if (failed) weft_dim_table_release(l->dims);
}

static weft_status lower_all(weft_lowering *l, weft_program_data *p, weft_lowered *out_lowered) {
    WEFT_TRY(make_ports(l, p), "lowering %s", l->graph->name);
    WEFT_TRY(make_guards(l, p), "lowering %s", l->graph->name);
    WEFT_TRY(weft_lower_plan_states(l), "lowering %s", l->graph->name);
    WEFT_TRY(weft_lower_block(l, l->graph->body->block), "lowering %s", l->graph->name);
    WEFT_TRY(copy_outputs(l, p), "lowering %s", l->graph->name);
    if (!l->keep_launches) WEFT_TRY(weft_lower_join(l), "lowering %s", l->graph->name);
    end_lifetimes(l);
    WEFT_TRY(freeze(l, p), "lowering %s", l->graph->name);
    p->target = l->capability->target;
    size_t steps = (size_t)l->regions[WEFT_REGION_MAIN].count;
    size_t buffers = (size_t)l->buffer_count, held = l->weight_capacity < buffers ? l->weight_capacity : buffers;
    *out_lowered = (weft_lowered){
        .program = p,
        .kernels = weft_arena_copy(l->kernel_arena, l->kernels, (size_t)l->kernel_count * sizeof *l->kernels),
        .weights = weft_arena_allocate_array(l->kernel_arena, buffers + 1, sizeof *l->weights),
        .main_nodes = weft_arena_copy(l->kernel_arena, l->main_nodes, steps * sizeof *l->main_nodes)};
    if (!out_lowered->kernels || !out_lowered->weights || !out_lowered->main_nodes)
        return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "lowering %s", l->graph->name);
    if (held) memcpy(out_lowered->weights, l->weights, held * sizeof *l->weights);
    return NULL;
}

weft_status weft_lower(weft_graph *graph, const weft_capability *capability, const weft_lower_settings *settings,
                       weft_arena *arena, weft_arena *kernel_arena, weft_lowered *out_lowered) {
    weft_lowering l;
    weft_program_data *p;
    weft_status status = start(graph, arena, &l, &p);
    l.capability = capability;
    l.target = weft_target_find(capability->target);
    if (!status && !l.target)
        status = WEFT_STATUS(WEFT_UNSUPPORTED, "this build has no code generator for target %s", capability->target);
    l.thread_count = settings->thread_count;
    l.keep_launches = settings->keep_launches;
    l.kernel_arena = kernel_arena;
    if (!status) status = lower_all(&l, p, out_lowered);
    if (status && weft_status_code(status) != WEFT_OUT_OF_MEMORY && weft_dim_out_of_memory(graph->dims)) {
        weft_status_release(status); /* an extent that builders asked for: what they say then is a consequence */
        status = WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for the extents of %s", graph->name);
    }
    stop(&l, status);
    return status;
}

weft_status weft_lower_signature(weft_graph *graph, weft_arena *arena, weft_program_data **out_program) {
    weft_lowering l;
    weft_status status = start(graph, arena, &l, out_program);
    if (!status) status = make_ports(&l, *out_program);
    if (!status) status = make_guards(&l, *out_program);
    if (!status) status = freeze(&l, *out_program);
    stop(&l, status);
    return status;
}
