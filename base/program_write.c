/* A program record as JSON. Extents are numbers or quoted expressions; kinds are words; fields that are zero for their
   kind are left out. Read next: program_read.c. */
#include <inttypes.h>
#include <string.h>

#include "base/program.h"
#include "base/program_schema.h"

typedef struct writer {
    const weft_program_data *program;
    weft_text *text;
    bool first; /* no comma yet in the innermost bracket */
} writer;

static void separate(writer *w) {
    if (!w->first) weft_text_append(w->text, ",");
    w->first = false;
}

static void open_bracket(writer *w, const char *bracket) {
    separate(w);
    weft_text_append(w->text, "%s", bracket);
    w->first = true;
}

static void close_bracket(writer *w, const char *bracket) {
    weft_text_append(w->text, "%s", bracket);
    w->first = false;
}

static void key(writer *w, const char *name) {
    separate(w);
    weft_text_append(w->text, "\"%s\":", name);
    w->first = true;
}

static void quoted(writer *w, const char *string) {
    separate(w);
    weft_text_append_quoted(w->text, string ? string : "", string ? strlen(string) : 0);
}

static void integer(writer *w, int64_t value) {
    separate(w);
    weft_text_append(w->text, "%" PRId64, value);
}

static void extent(writer *w, weft_dim dim) {
    if (dim >= 0) {
        integer(w, dim);
        return;
    }
    weft_text expression;
    weft_text_init(w->text->allocator, &expression);
    weft_dim_print(w->program->dims, dim, &expression);
    if (expression.failed) w->text->failed = true;
    quoted(w, weft_text_string(&expression));
    weft_text_deinit(&expression);
}

static void key_quoted(writer *w, const char *name, const char *string) {
    key(w, name);
    quoted(w, string);
}

static void key_integer(writer *w, const char *name, int64_t value) {
    key(w, name);
    integer(w, value);
}

static void key_extent(writer *w, const char *name, weft_dim dim) {
    key(w, name);
    extent(w, dim);
}

static void key_list(writer *w, const char *name) {
    key(w, name);
    open_bracket(w, "[");
}

static void write_symbols(writer *w) {
    key_list(w, "symbols");
    for (int i = 0; i < weft_dim_symbol_count(w->program->dims); i++) {
        const weft_symbol *symbol = weft_dim_symbol_get(w->program->dims, i);
        open_bracket(w, "{");
        key_quoted(w, "name", symbol->name);
        key_integer(w, "minimum", symbol->minimum);
        key_integer(w, "maximum", symbol->maximum);
        key_integer(w, "divisor", symbol->divisor);
        key_quoted(w, "origin", weft_origin_names[symbol->origin]);
        close_bracket(w, "}");
    }
    close_bracket(w, "]");
}

static void write_ports(writer *w, const char *name, const weft_port *ports, int count) {
    key_list(w, name);
    for (int i = 0; i < count; i++) {
        open_bracket(w, "{");
        key_quoted(w, "name", ports[i].name);
        key_quoted(w, "dtype", weft_dtype_name(ports[i].dtype));
        key_list(w, "shape");
        for (int k = 0; k < ports[i].rank; k++) extent(w, ports[i].dims[k]);
        close_bracket(w, "]");
        key_integer(w, "buffer", ports[i].buffer);
        close_bracket(w, "}");
    }
    close_bracket(w, "]");
}

static void write_condition(writer *w, const weft_condition *condition) {
    open_bracket(w, "[");
    extent(w, condition->lhs);
    quoted(w, weft_relation_names[condition->relation]);
    extent(w, condition->rhs);
    close_bracket(w, "]");
}

static void write_guards(writer *w) {
    key_list(w, "guards");
    for (int i = 0; i < w->program->guard_count; i++) {
        const weft_guard *guard = &w->program->guards[i];
        open_bracket(w, "{");
        key(w, "condition");
        write_condition(w, &guard->condition);
        key_quoted(w, "pass", guard->pass);
        key_quoted(w, "location", guard->location);
        close_bracket(w, "}");
    }
    close_bracket(w, "]");
}

static void write_buffers(writer *w) {
    key_list(w, "buffers");
    for (int i = 0; i < w->program->buffer_count; i++) {
        const weft_buffer *buffer = &w->program->buffers[i];
        open_bracket(w, "{");
        key_quoted(w, "kind", weft_buffer_kind_names[buffer->kind]);
        key_extent(w, "bytes", buffer->bytes);
        if (buffer->index) key_integer(w, "index", buffer->index);
        if (buffer->offset) key_extent(w, "offset", buffer->offset);
        if (buffer->kind == WEFT_BUFFER_TEMP) {
            key_integer(w, "first", buffer->first_step);
            key_integer(w, "last", buffer->last_step);
        }
        if (buffer->name) key_quoted(w, "name", buffer->name);
        close_bracket(w, "}");
    }
    close_bracket(w, "]");
}

static void write_kernels(writer *w) {
    key_list(w, "kernels");
    for (int i = 0; i < w->program->kernel_count; i++) {
        const weft_program_kernel *kernel = &w->program->kernels[i];
        open_bracket(w, "{");
        key_quoted(w, "name", kernel->name);
        key_extent(w, "scratch", kernel->scratch_bytes);
        key_integer(w, "threads", kernel->threads);
        key_integer(w, "cluster", kernel->cluster);
        key(w, "hash");
        separate(w);
        weft_text_append(w->text, "\"%016" PRIx64 "\"", kernel->hash);
        close_bracket(w, "}");
    }
    close_bracket(w, "]");
}

static void write_integers(writer *w, const char *name, const int *values, int count) {
    key_list(w, name);
    for (int i = 0; i < count; i++) integer(w, values[i]);
    close_bracket(w, "]");
}

static void write_extents(writer *w, const char *name, const weft_dim *dims, int count) {
    key_list(w, name);
    for (int i = 0; i < count; i++) extent(w, dims[i]);
    close_bracket(w, "]");
}

static void write_map(writer *w, const weft_tensor_map *map) {
    open_bracket(w, "{");
    key_integer(w, "buffer", map->buffer);
    key_quoted(w, "dtype", weft_dtype_name(map->dtype));
    write_extents(w, "extent", map->extent, map->rank);
    write_extents(w, "stride_bytes", map->stride_bytes, map->rank);
    write_integers(w, "box", map->box, map->rank);
    key_integer(w, "swizzle", map->swizzle_bytes);
    close_bracket(w, "}");
}

static void write_variant(writer *w, const weft_launch_variant *variant) {
    open_bracket(w, "{");
    if (variant->condition_count) {
        key_list(w, "when");
        for (int i = 0; i < variant->condition_count; i++) write_condition(w, &variant->conditions[i]);
        close_bracket(w, "]");
    }
    key_integer(w, "kernel", variant->kernel);
    key_extent(w, "grid", variant->grid);
    write_integers(w, "buffers", variant->buffers, variant->buffer_count);
    if (variant->read_count) write_integers(w, "reads", variant->reads, variant->read_count);
    write_extents(w, "extents", variant->extents, variant->extent_count);
    if (variant->map_count) {
        key_list(w, "maps");
        for (int i = 0; i < variant->map_count; i++) write_map(w, &variant->maps[i]);
        close_bracket(w, "]");
    }
    close_bracket(w, "}");
}

static void write_step(writer *w, const weft_step *step) {
    open_bracket(w, "{");
    key_quoted(w, "kind", weft_step_kind_names[step->kind]);
    switch (step->kind) {
    case WEFT_STEP_LAUNCH:
        key_list(w, "variants");
        for (int i = 0; i < step->variant_count; i++) write_variant(w, &step->variants[i]);
        close_bracket(w, "]");
        break;
    case WEFT_STEP_COPY:
        write_integers(w, "buffers", step->buffers, 2);
        key_extent(w, "bytes", step->bytes);
        break;
    case WEFT_STEP_WHILE:
    case WEFT_STEP_COND:
        write_integers(w, "buffers", step->buffers, 1);
        write_integers(w, "regions", step->regions, 2);
        break;
    case WEFT_STEP_READ_DIM:
        write_integers(w, "buffers", step->buffers, 1);
        key_integer(w, "symbol", step->symbol);
        break;
    case WEFT_STEP_LOOP:
        write_integers(w, "regions", step->regions, 1);
        key_extent(w, "trips", step->bytes);
        key_integer(w, "symbol", step->symbol);
        break;
    }
    if (step->location) key_quoted(w, "location", step->location);
    close_bracket(w, "}");
}

static void write_regions(writer *w) {
    key_list(w, "regions");
    for (int i = 0; i < w->program->region_count; i++) {
        open_bracket(w, "[");
        for (int k = 0; k < w->program->regions[i].count; k++) write_step(w, &w->program->regions[i].steps[k]);
        close_bracket(w, "]");
    }
    close_bracket(w, "]");
}

void weft_program_write(const weft_program_data *program, weft_text *text) {
    writer w = {program, text, true};
    open_bracket(&w, "{");
    key_integer(&w, "format", WEFT_PROGRAM_FORMAT);
    key_quoted(&w, "name", program->name);
    key_quoted(&w, "target", program->target);
    key_quoted(&w, "producer", program->producer);
    key_integer(&w, "weights_bytes", program->weights_bytes);
    write_symbols(&w);
    write_ports(&w, "inputs", program->inputs, program->input_count);
    write_ports(&w, "outputs", program->outputs, program->output_count);
    write_ports(&w, "states", program->states, program->state_count);
    write_guards(&w);
    write_buffers(&w);
    write_kernels(&w);
    write_regions(&w);
    close_bracket(&w, "}");
}
