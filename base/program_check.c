/* Validation of a program record: every count, index, kind and expression, and that lifetimes of temporaries cover
   their uses. Afterwards the executor needs no bounds checks of its own beyond evaluated sizes. Read next:
   program_read.c, which calls this for manifests. */
#include <string.h>

#include "base/dtype.h"
#include "base/program.h"

enum { REGION_DEPTH_MAX = 64 };

typedef struct checker {
    const weft_program_data *program;
    weft_allocator allocator;
    bool *bound;       /* per symbol: an input binds it, or a step sets it */
    bool *region_seen; /* per region */
    int main_step;     /* of region 1, for lifetimes; -1 in the load region */
} checker;

#define PROBLEM(...) WEFT_STATUS(WEFT_INVALID_DATA, __VA_ARGS__)

static bool symbol_is_bound(void *self, int symbol) {
    const checker *c = self;
    return c->bound[symbol];
}

static bool symbol_is_data(void *self, int symbol) {
    const checker *c = self;
    return weft_dim_symbol_get(c->program->dims, symbol)->origin == WEFT_SYMBOL_DATA;
}

static weft_status check_dim(checker *c, weft_dim dim, const char *what) {
    if (!weft_dim_is_valid(c->program->dims, dim)) return PROBLEM("%s is no valid extent", what);
    if (!weft_dim_visit_symbols(c->program->dims, dim, symbol_is_bound, c))
        return PROBLEM("%s uses a symbol that no input binds", what);
    return NULL;
}

static weft_status check_index(int index, int count, const char *what) {
    return index < 0 || index >= count ? PROBLEM("%s %d is not in [0, %d)", what, index, count) : NULL;
}

/* The buffer whose bytes these are: follows views. */
static int root_of(const weft_program_data *program, int buffer) {
    while (program->buffers[buffer].kind == WEFT_BUFFER_ALIAS) buffer = program->buffers[buffer].index;
    return buffer;
}

static weft_status check_port(checker *c, const weft_port *port, int index, weft_buffer_kind kind, bool input) {
    const weft_program_data *program = c->program;
    if (!port->name) return PROBLEM("the port has no name");
    if (!weft_dtype_bits(port->dtype)) return PROBLEM("no tensors of dtype %d", (int)port->dtype);
    if (port->rank < 0 || port->rank > WEFT_MAX_RANK)
        return PROBLEM("rank %d is not in [0, %d]", port->rank, WEFT_MAX_RANK);
    WEFT_TRY(check_index(port->buffer, program->buffer_count, "buffer"), "port %s", port->name);
    const weft_buffer *buffer = &program->buffers[port->buffer];
    if (buffer->kind != kind || buffer->index != index)
        return PROBLEM("port %s names buffer %d, which is another's", port->name, port->buffer);
    for (int i = 0; i < port->rank; i++) {
        if (!weft_dim_is_valid(program->dims, port->dims[i])) return PROBLEM("axis %d is no valid extent", i);
        weft_dim_node node = weft_dim_get(program->dims, port->dims[i]);
        if (input && node.kind == WEFT_DIM_SYMBOL) c->bound[node.a] = true;
    }
    return NULL;
}

static weft_status check_ports(checker *c, const weft_port *ports, int count, weft_buffer_kind kind, const char *what) {
    if (count < 0) return PROBLEM("%d %ss", count, what);
    for (int i = 0; i < count; i++)
        WEFT_TRY(check_port(c, &ports[i], i, kind, kind == WEFT_BUFFER_INPUT), "%s %d", what, i);
    return NULL;
}

/* Second pass, when the bound symbols are known. */
static weft_status check_port_dims(checker *c, const weft_port *ports, int count, const char *what) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < ports[i].rank; k++)
            WEFT_TRY(check_dim(c, ports[i].dims[k], "an extent"), "%s %s, axis %d", what, ports[i].name, k);
    return NULL;
}

static weft_status check_buffer(checker *c, int index) {
    const weft_program_data *program = c->program;
    const weft_buffer *buffer = &program->buffers[index];
    weft_dim offset = buffer->offset, bytes = buffer->bytes;
    WEFT_TRY(check_dim(c, bytes, "the size"), "buffer %d", index);
    bool zeros = buffer->kind == WEFT_BUFFER_STATE && offset == WEFT_DIM_ANY;
    if (!zeros) WEFT_TRY(check_dim(c, offset, "the offset"), "buffer %d", index);
    int port_counts[] = {program->input_count, program->output_count, program->state_count};
    switch (buffer->kind) {
    case WEFT_BUFFER_INPUT: return check_index(buffer->index, port_counts[0], "input");
    case WEFT_BUFFER_OUTPUT: return check_index(buffer->index, port_counts[1], "output");
    case WEFT_BUFFER_STATE:
        if (bytes < 0 || (!zeros && offset < 0)) return PROBLEM("size or offset of a state is no number");
        if (!zeros && (offset > program->weights_bytes || bytes > program->weights_bytes - offset))
            return PROBLEM("the initial value ends behind the %lld bytes of weights",
                           (long long)program->weights_bytes);
        return check_index(buffer->index, port_counts[2], "state");
    case WEFT_BUFFER_CONSTANT:
        if (bytes < 0 || offset < 0) return PROBLEM("size or offset of a constant is no number");
        if (offset > program->weights_bytes || bytes > program->weights_bytes - offset)
            return PROBLEM("the constant ends behind the %lld bytes of weights", (long long)program->weights_bytes);
        return NULL;
    case WEFT_BUFFER_PERSISTENT: return bytes < 0 ? PROBLEM("the size of a persistent buffer is no number") : NULL;
    case WEFT_BUFFER_TEMP:
        if (buffer->first_step < 0 || buffer->first_step > buffer->last_step ||
            buffer->last_step >= program->regions[WEFT_REGION_MAIN].count)
            return PROBLEM("lifetime %d to %d is none", buffer->first_step, buffer->last_step);
        return NULL;
    case WEFT_BUFFER_ALIAS: {
        int base = buffer->index, steps = 0;
        for (; steps <= program->buffer_count; steps++) {
            WEFT_TRY(check_index(base, program->buffer_count, "viewed buffer"), "view");
            if (program->buffers[base].kind != WEFT_BUFFER_ALIAS) break;
            base = program->buffers[base].index;
        }
        if (steps > program->buffer_count) return PROBLEM("a view of itself");
        weft_dim whole = program->buffers[buffer->index].bytes;
        if (offset >= 0 && bytes >= 0 && whole >= 0 && (offset > whole || bytes > whole - offset))
            return PROBLEM("the view ends behind its buffer");
        return NULL;
    }
    }
    return PROBLEM("buffer kind %d", (int)buffer->kind);
}

/* A buffer that a step names. */
static weft_status check_use(checker *c, int index, bool written) {
    const weft_program_data *program = c->program;
    WEFT_TRY(check_index(index, program->buffer_count, "buffer"), "operand");
    const weft_buffer *root = &program->buffers[root_of(program, index)];
    if (written && (root->kind == WEFT_BUFFER_CONSTANT || root->kind == WEFT_BUFFER_INPUT))
        return PROBLEM("buffer %d is written, but it is a constant or an input", index);
    if (c->main_step < 0 && root->kind != WEFT_BUFFER_CONSTANT && root->kind != WEFT_BUFFER_PERSISTENT)
        return PROBLEM("buffer %d does not exist in the load region", index);
    if (root->kind == WEFT_BUFFER_TEMP && (c->main_step < root->first_step || c->main_step > root->last_step))
        return PROBLEM("buffer %d is used in step %d, but lives from %d to %d", index, c->main_step, root->first_step,
                       root->last_step);
    return NULL;
}

static weft_status check_step_dim(checker *c, weft_dim dim, const char *what) {
    WEFT_TRY(check_dim(c, dim, what), "expression");
    if (c->main_step < 0 && !weft_dim_visit_symbols(c->program->dims, dim, symbol_is_data, c))
        return PROBLEM("%s depends on inputs in the load region", what);
    return NULL;
}

static weft_status check_map(checker *c, const weft_tensor_map *map) {
    WEFT_TRY(check_use(c, map->buffer, false), "tensor map");
    if (!weft_dtype_bits(map->dtype)) return PROBLEM("tensor map of dtype %d", (int)map->dtype);
    if (map->rank < 1 || map->rank > 5) return PROBLEM("tensor map of rank %d", map->rank);
    if (map->swizzle_bytes != 0 && map->swizzle_bytes != 32 && map->swizzle_bytes != 64 && map->swizzle_bytes != 128)
        return PROBLEM("tensor map with a swizzle of %d bytes", map->swizzle_bytes);
    for (int i = 0; i < map->rank; i++) {
        if (map->box[i] < 1 || map->box[i] > 256) return PROBLEM("tensor map with a box of %d", map->box[i]);
        WEFT_TRY(check_step_dim(c, map->extent[i], "extent"), "tensor map");
        if (i) WEFT_TRY(check_step_dim(c, map->stride_bytes[i], "stride"), "tensor map");
    }
    return NULL;
}

static weft_status check_condition(checker *c, const weft_condition *condition) {
    if (condition->relation < WEFT_RELATION_EQ || condition->relation > WEFT_RELATION_LE)
        return PROBLEM("relation %d", (int)condition->relation);
    WEFT_TRY(check_dim(c, condition->lhs, "left side"), "condition");
    WEFT_TRY(check_dim(c, condition->rhs, "right side"), "condition");
    return NULL;
}

static weft_status check_variant(checker *c, const weft_launch_variant *variant, bool last) {
    if (variant->condition_count < 0 || variant->buffer_count < 0 || variant->extent_count < 0 ||
        variant->map_count < 0 || variant->read_count < 0)
        return PROBLEM("a negative count");
    if (last && variant->condition_count) return PROBLEM("the last variant has conditions");
    for (int i = 0; i < variant->condition_count; i++)
        WEFT_TRY(check_condition(c, &variant->conditions[i]), "condition %d", i);
    WEFT_TRY(check_index(variant->kernel, c->program->kernel_count, "kernel"), "launch");
    WEFT_TRY(check_step_dim(c, variant->grid, "the grid"), "launch");
    WEFT_TRY(check_step_dim(c, c->program->kernels[variant->kernel].scratch_bytes, "scratch"), "launch");
    for (int i = 0; i < variant->buffer_count; i++)
        WEFT_TRY(check_use(c, variant->buffers[i], false), "argument %d", i);
    for (int i = 0; i < variant->read_count; i++)
        WEFT_TRY(check_index(variant->reads[i], variant->buffer_count, "argument that is read"), "launch");
    for (int i = 0; i < variant->extent_count; i++)
        WEFT_TRY(check_step_dim(c, variant->extents[i], "an extent"), "extent %d", i);
    for (int i = 0; i < variant->map_count; i++) WEFT_TRY(check_map(c, &variant->maps[i]), "tensor map %d", i);
    return NULL;
}

static weft_status check_region(checker *c, int region, int depth);

static weft_status check_bodies(checker *c, const weft_step *step, int count, int depth) {
    for (int i = 0; i < count; i++) {
        int region = step->regions[i];
        WEFT_TRY(check_index(region, c->program->region_count, "region"), "body");
        if (region <= WEFT_REGION_MAIN || c->region_seen[region])
            return PROBLEM("region %d is no body of one step", region);
        WEFT_TRY(check_region(c, region, depth + 1), "region %d", region);
    }
    return NULL;
}

static weft_status check_data_symbol(checker *c, int symbol) {
    WEFT_TRY(check_index(symbol, weft_dim_symbol_count(c->program->dims), "symbol"), "step");
    if (!symbol_is_data(c, symbol)) return PROBLEM("a step sets symbol %d, which inputs bind", symbol);
    return NULL;
}

static weft_status check_step(checker *c, const weft_step *step, int depth) {
    switch (step->kind) {
    case WEFT_STEP_LAUNCH:
        if (step->variant_count < 1) return PROBLEM("a launch without variants");
        for (int i = 0; i < step->variant_count; i++)
            WEFT_TRY(check_variant(c, &step->variants[i], i == step->variant_count - 1), "variant %d", i);
        return NULL;
    case WEFT_STEP_COPY:
        WEFT_TRY(check_use(c, step->buffers[0], false), "source");
        WEFT_TRY(check_use(c, step->buffers[1], true), "destination");
        return check_step_dim(c, step->bytes, "the size");
    case WEFT_STEP_WHILE:
    case WEFT_STEP_COND:
        WEFT_TRY(check_use(c, step->buffers[0], false), "predicate");
        return check_bodies(c, step, 2, depth);
    case WEFT_STEP_READ_DIM:
        WEFT_TRY(check_use(c, step->buffers[0], false), "value");
        WEFT_TRY(check_data_symbol(c, step->symbol), "value");
        if (weft_dim_symbol_get(c->program->dims, step->symbol)->maximum == INT64_MAX)
            return PROBLEM("symbol %d, read from the device, has no upper bound", step->symbol);
        return NULL;
    case WEFT_STEP_LOOP:
        WEFT_TRY(check_data_symbol(c, step->symbol), "trip number");
        WEFT_TRY(check_step_dim(c, step->bytes, "the trip count"), "loop");
        return check_bodies(c, step, 1, depth);
    }
    return PROBLEM("step kind %d", (int)step->kind);
}

static weft_status check_region(checker *c, int region, int depth) {
    const weft_step_list *list = &c->program->regions[region];
    if (list->count < 0) return PROBLEM("%d steps", list->count);
    if (depth > REGION_DEPTH_MAX) return PROBLEM("regions nest deeper than %d", REGION_DEPTH_MAX);
    c->region_seen[region] = true;
    for (int i = 0; i < list->count; i++) {
        if (region == WEFT_REGION_MAIN) c->main_step = i;
        const char *location = list->steps[i].location;
        WEFT_TRY(check_step(c, &list->steps[i], depth), "step %d (%s)", i, location ? location : "");
    }
    return NULL;
}

static weft_status check_kernel(checker *c, const weft_program_kernel *kernel) {
    if (!kernel->name || !kernel->name[0]) return PROBLEM("the kernel has no name");
    if (kernel->threads < 0 || kernel->cluster < 0)
        return PROBLEM("%d threads, cluster %d", kernel->threads, kernel->cluster);
    return check_dim(c, kernel->scratch_bytes, "scratch");
}

static weft_status check_counts(const weft_program_data *program) {
    if (!program->dims || !program->name || !program->target)
        return PROBLEM("name, target or table of extents is missing");
    if (program->guard_count < 0 || program->buffer_count < 0 || program->kernel_count < 0 ||
        program->weights_bytes < 0)
        return PROBLEM("a negative count");
    if (program->region_count <= WEFT_REGION_MAIN) return PROBLEM("%d regions", program->region_count);
    return NULL;
}

static weft_status check_parts(checker *c) {
    const weft_program_data *program = c->program;
    WEFT_TRY(check_ports(c, program->inputs, program->input_count, WEFT_BUFFER_INPUT, "input"), "inputs");
    WEFT_TRY(check_ports(c, program->outputs, program->output_count, WEFT_BUFFER_OUTPUT, "output"), "outputs");
    WEFT_TRY(check_ports(c, program->states, program->state_count, WEFT_BUFFER_STATE, "state"), "states");
    for (int i = 0; i < weft_dim_symbol_count(program->dims); i++) c->bound[i] |= symbol_is_data(c, i);
    WEFT_TRY(check_port_dims(c, program->inputs, program->input_count, "input"), "inputs");
    WEFT_TRY(check_port_dims(c, program->outputs, program->output_count, "output"), "outputs");
    WEFT_TRY(check_port_dims(c, program->states, program->state_count, "state"), "states");
    for (int i = 0; i < program->guard_count; i++)
        WEFT_TRY(check_condition(c, &program->guards[i].condition), "guard %d", i);
    for (int i = 0; i < program->buffer_count; i++)
        WEFT_TRY(check_buffer(c, i), "buffer %d (%s)", i, program->buffers[i].name ? program->buffers[i].name : "");
    for (int i = 0; i < program->kernel_count; i++) WEFT_TRY(check_kernel(c, &program->kernels[i]), "kernel %d", i);
    c->main_step = -1;
    WEFT_TRY(check_region(c, WEFT_REGION_LOAD, 0), "load region");
    WEFT_TRY(check_region(c, WEFT_REGION_MAIN, 0), "main region");
    for (int i = 0; i < program->region_count; i++)
        if (!c->region_seen[i]) return PROBLEM("region %d belongs to no step", i);
    return NULL;
}

weft_status weft_program_check(const weft_program_data *program) {
    WEFT_TRY(check_counts(program), "program");
    checker c = {.program = program, .allocator = weft_dim_table_allocator(program->dims)};
    size_t symbol_bytes = (size_t)weft_dim_symbol_count(program->dims) * sizeof *c.bound;
    size_t region_bytes = (size_t)program->region_count * sizeof *c.region_seen;
    c.bound = weft_allocate(c.allocator, symbol_bytes);
    c.region_seen = weft_allocate(c.allocator, region_bytes);
    weft_status status =
        c.bound && c.region_seen ? check_parts(&c) : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to check a program");
    weft_free(c.allocator, c.bound, symbol_bytes);
    weft_free(c.allocator, c.region_seen, region_bytes);
    return weft_status_annotate(status, __FILE__, __LINE__, "program %s", program->name);
}
