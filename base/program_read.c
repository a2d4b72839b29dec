/* A program record from JSON. Reading checks form (types, ranges of integers, spelling); weft_program_check then checks
   meaning, so a hostile manifest and a faulty compiler meet the same rules. Read next: program_check.c. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/program.h"
#include "base/program_schema.h"

typedef struct reader {
    weft_arena *arena;
    weft_program_data *program;
} reader;

#define PROBLEM(...)      WEFT_STATUS(WEFT_INVALID_DATA, __VA_ARGS__)
#define NAME_COUNT(names) (int)(sizeof(names) / sizeof *(names))

static weft_status get(const weft_json *object, const char *key, weft_json_kind kind, const weft_json **out_value) {
    static const char *const kinds[] = {"null", "a bool", "a number", "a string", "an array", "an object"};
    *out_value = object->kind == WEFT_JSON_OBJECT ? weft_json_find(object, key) : NULL;
    if (!*out_value) return PROBLEM("\"%s\" is missing", key);
    return (*out_value)->kind == kind ? NULL : PROBLEM("\"%s\" is not %s", key, kinds[kind]);
}

static weft_status get_integer(const weft_json *object, const char *key, int64_t low, int64_t high,
                               int64_t *out_value) {
    const weft_json *value;
    WEFT_TRY(get(object, key, WEFT_JSON_NUMBER, &value), "integer");
    if (!value->is_integer || value->integer < low || value->integer > high)
        return PROBLEM("\"%s\" is no integer in [%lld, %lld]", key, (long long)low, (long long)high);
    *out_value = value->integer;
    return NULL;
}

static weft_status get_int(const weft_json *object, const char *key, bool optional, int *out_value) {
    int64_t value = 0;
    if (!optional || weft_json_find(object, key))
        WEFT_TRY(get_integer(object, key, 0, INT32_MAX, &value), "count or index");
    *out_value = (int)value;
    return NULL;
}

static weft_status get_string(reader *r, const weft_json *object, const char *key, bool optional,
                              const char **out_string) {
    const weft_json *value;
    *out_string = NULL;
    if (optional && !weft_json_find(object, key)) return NULL;
    WEFT_TRY(get(object, key, WEFT_JSON_STRING, &value), "string");
    if (memchr(value->string, 0, value->length)) return PROBLEM("\"%s\" contains a zero byte", key);
    *out_string = weft_arena_copy_string(r->arena, value->string, value->length);
    return *out_string ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a string");
}

static weft_status get_word(const weft_json *object, const char *key, const char *const *names, int count,
                            int *out_index) {
    const weft_json *value;
    WEFT_TRY(get(object, key, WEFT_JSON_STRING, &value), "word");
    for (*out_index = 0; *out_index < count; ++*out_index)
        if (!strcmp(value->string, names[*out_index])) return NULL;
    return PROBLEM("\"%s\" is \"%.40s\", which is unknown", key, value->string);
}

static weft_status get_dtype(const weft_json *object, weft_dtype *out_dtype) {
    const weft_json *value;
    WEFT_TRY(get(object, "dtype", WEFT_JSON_STRING, &value), "dtype");
    *out_dtype = weft_dtype_find(value->string);
    return *out_dtype == WEFT_INVALID ? PROBLEM("dtype \"%.40s\" is unknown", value->string) : NULL;
}

/* Array `key` as count zeroed records in the arena. */
static weft_status get_array(reader *r, const weft_json *object, const char *key, bool optional, size_t record_bytes,
                             const weft_json **out_array, void *out_records, int *out_count) {
    static const weft_json empty = {.kind = WEFT_JSON_ARRAY};
    *out_array = &empty;
    if (!optional || weft_json_find(object, key)) WEFT_TRY(get(object, key, WEFT_JSON_ARRAY, out_array), "array");
    if ((*out_array)->length > INT32_MAX) return PROBLEM("\"%s\" is too long", key);
    void *records = weft_arena_allocate_array(r->arena, (*out_array)->length, record_bytes);
    if (!records) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for \"%s\"", key);
    memcpy(out_records, &records, sizeof records);
    *out_count = (int)(*out_array)->length;
    return NULL;
}

static weft_status read_dim(reader *r, const weft_json *value, weft_dim *out_dim) {
    if (value->kind == WEFT_JSON_NUMBER && value->is_integer && value->integer >= 0) {
        *out_dim = value->integer;
        return NULL;
    }
    if (value->kind != WEFT_JSON_STRING) return PROBLEM("an extent is neither an integer >= 0 nor an expression");
    return weft_dim_parse(r->program->dims, value->string, value->length, out_dim);
}

static weft_status get_dim(reader *r, const weft_json *object, const char *key, bool optional, weft_dim *out_dim) {
    const weft_json *value = object->kind == WEFT_JSON_OBJECT ? weft_json_find(object, key) : NULL;
    *out_dim = 0;
    if (!value) return optional ? NULL : PROBLEM("\"%s\" is missing", key);
    WEFT_TRY(read_dim(r, value, out_dim), "\"%s\"", key);
    return NULL;
}

static weft_status get_dims(reader *r, const weft_json *object, const char *key, const weft_dim **out_dims,
                            int *out_count) {
    const weft_json *array;
    weft_dim *dims;
    WEFT_TRY(get_array(r, object, key, false, sizeof *dims, &array, &dims, out_count), "extents");
    for (int i = 0; i < *out_count; i++) WEFT_TRY(read_dim(r, &array->children[i], &dims[i]), "\"%s\" %d", key, i);
    *out_dims = dims;
    return NULL;
}

static weft_status get_ints(reader *r, const weft_json *object, const char *key, const int **out_values,
                            int *out_count) {
    const weft_json *array;
    int *values;
    WEFT_TRY(get_array(r, object, key, false, sizeof *values, &array, &values, out_count), "integers");
    for (int i = 0; i < *out_count; i++) {
        const weft_json *value = &array->children[i];
        if (value->kind != WEFT_JSON_NUMBER || !value->is_integer || value->integer < 0 || value->integer > INT32_MAX)
            return PROBLEM("\"%s\" has an element that is no index", key);
        values[i] = (int)value->integer;
    }
    *out_values = values;
    return NULL;
}

static weft_status get_ints_fixed(reader *r, const weft_json *object, const char *key, int wanted, int *values) {
    const int *read;
    int count;
    WEFT_TRY(get_ints(r, object, key, &read, &count), "integers");
    if (count != wanted) return PROBLEM("\"%s\" has %d elements, not %d", key, count, wanted);
    memcpy(values, read, (size_t)count * sizeof *values);
    return NULL;
}

static weft_status read_symbols(reader *r, const weft_json *json) {
    const weft_json *array;
    WEFT_TRY(get(json, "symbols", WEFT_JSON_ARRAY, &array), "symbols");
    for (size_t i = 0; i < array->length; i++) {
        const weft_json *child = &array->children[i];
        const char *name;
        int64_t minimum, maximum, divisor;
        int origin;
        WEFT_TRY(get_string(r, child, "name", false, &name), "symbol %zu", i);
        WEFT_TRY(get_integer(child, "minimum", INT64_MIN, INT64_MAX, &minimum), "symbol %s", name);
        WEFT_TRY(get_integer(child, "maximum", minimum, INT64_MAX, &maximum), "symbol %s", name);
        WEFT_TRY(get_integer(child, "divisor", 1, INT64_MAX, &divisor), "symbol %s", name);
        WEFT_TRY(get_word(child, "origin", weft_origin_names, NAME_COUNT(weft_origin_names), &origin), "symbol %s",
                 name);
        if (!*name || weft_dim_symbol_find(r->program->dims, name) >= 0)
            return PROBLEM("symbol \"%s\" appears twice", name);
        if (weft_dim_symbol(r->program->dims, name, minimum, maximum, divisor, (weft_symbol_origin)origin) ==
            WEFT_DIM_INVALID)
            return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for symbol %s", name);
    }
    return NULL;
}

static weft_status read_ports(reader *r, const weft_json *json, const char *key, const weft_port **out_ports,
                              int *out_count) {
    const weft_json *array;
    weft_port *ports;
    WEFT_TRY(get_array(r, json, key, false, sizeof *ports, &array, &ports, out_count), "ports");
    for (int i = 0; i < *out_count; i++) {
        const weft_json *child = &array->children[i];
        WEFT_TRY(get_string(r, child, "name", false, &ports[i].name), "%s %d", key, i);
        WEFT_TRY(get_dtype(child, &ports[i].dtype), "%s %d", key, i);
        WEFT_TRY(get_dims(r, child, "shape", &ports[i].dims, &ports[i].rank), "%s %d", key, i);
        WEFT_TRY(get_int(child, "buffer", false, &ports[i].buffer), "%s %d", key, i);
    }
    *out_ports = ports;
    return NULL;
}

static weft_status read_condition(reader *r, const weft_json *json, weft_condition *out_condition) {
    if (json->kind != WEFT_JSON_ARRAY || json->length != 3 || json->children[1].kind != WEFT_JSON_STRING)
        return PROBLEM("a condition is not [left, relation, right]");
    WEFT_TRY(read_dim(r, &json->children[0], &out_condition->lhs), "left side");
    WEFT_TRY(read_dim(r, &json->children[2], &out_condition->rhs), "right side");
    for (int i = 0; i < NAME_COUNT(weft_relation_names); i++) {
        out_condition->relation = (weft_relation)i;
        if (!strcmp(json->children[1].string, weft_relation_names[i])) return NULL;
    }
    return PROBLEM("relation \"%.40s\" is unknown", json->children[1].string);
}

static weft_status read_guards(reader *r, const weft_json *json) {
    const weft_json *array, *condition;
    weft_guard *guards;
    WEFT_TRY(get_array(r, json, "guards", false, sizeof *guards, &array, &guards, &r->program->guard_count), "guards");
    for (int i = 0; i < r->program->guard_count; i++) {
        const weft_json *child = &array->children[i];
        WEFT_TRY(get(child, "condition", WEFT_JSON_ARRAY, &condition), "guard %d", i);
        WEFT_TRY(read_condition(r, condition, &guards[i].condition), "guard %d", i);
        WEFT_TRY(get_string(r, child, "pass", false, &guards[i].pass), "guard %d", i);
        WEFT_TRY(get_string(r, child, "location", false, &guards[i].location), "guard %d", i);
    }
    r->program->guards = guards;
    return NULL;
}

static weft_status read_buffers(reader *r, const weft_json *json) {
    const weft_json *array;
    weft_buffer *buffers;
    WEFT_TRY(get_array(r, json, "buffers", false, sizeof *buffers, &array, &buffers, &r->program->buffer_count),
             "buffers");
    for (int i = 0; i < r->program->buffer_count; i++) {
        const weft_json *child = &array->children[i];
        int kind;
        WEFT_TRY(get_word(child, "kind", weft_buffer_kind_names, NAME_COUNT(weft_buffer_kind_names), &kind),
                 "buffer %d", i);
        buffers[i].kind = (weft_buffer_kind)kind;
        bool temporary = kind == WEFT_BUFFER_TEMP;
        WEFT_TRY(get_dim(r, child, "bytes", false, &buffers[i].bytes), "buffer %d", i);
        WEFT_TRY(get_dim(r, child, "offset", true, &buffers[i].offset), "buffer %d", i);
        WEFT_TRY(get_int(child, "index", true, &buffers[i].index), "buffer %d", i);
        WEFT_TRY(get_int(child, "first", !temporary, &buffers[i].first_step), "buffer %d", i);
        WEFT_TRY(get_int(child, "last", !temporary, &buffers[i].last_step), "buffer %d", i);
        WEFT_TRY(get_string(r, child, "name", true, &buffers[i].name), "buffer %d", i);
    }
    r->program->buffers = buffers;
    return NULL;
}

static weft_status read_kernels(reader *r, const weft_json *json) {
    const weft_json *array;
    weft_program_kernel *kernels;
    WEFT_TRY(get_array(r, json, "kernels", false, sizeof *kernels, &array, &kernels, &r->program->kernel_count),
             "kernels");
    for (int i = 0; i < r->program->kernel_count; i++) {
        const weft_json *child = &array->children[i];
        const char *hash;
        WEFT_TRY(get_string(r, child, "name", false, &kernels[i].name), "kernel %d", i);
        WEFT_TRY(get_dim(r, child, "scratch", false, &kernels[i].scratch_bytes), "kernel %d", i);
        WEFT_TRY(get_int(child, "threads", false, &kernels[i].threads), "kernel %d", i);
        WEFT_TRY(get_int(child, "cluster", false, &kernels[i].cluster), "kernel %d", i);
        WEFT_TRY(get_string(r, child, "hash", false, &hash), "kernel %d", i);
        char *end;
        kernels[i].hash = strtoull(hash, &end, 16);
        if (strlen(hash) != 16 || *end) return PROBLEM("the hash of kernel %d is not 16 hexadecimal digits", i);
    }
    r->program->kernels = kernels;
    return NULL;
}

static weft_status read_map(reader *r, const weft_json *json, weft_tensor_map *out_map) {
    const weft_dim *extents, *strides;
    int stride_count;
    WEFT_TRY(get_int(json, "buffer", false, &out_map->buffer), "tensor map");
    WEFT_TRY(get_dtype(json, &out_map->dtype), "tensor map");
    WEFT_TRY(get_dims(r, json, "extent", &extents, &out_map->rank), "tensor map");
    WEFT_TRY(get_dims(r, json, "stride_bytes", &strides, &stride_count), "tensor map");
    if (out_map->rank > 5 || stride_count != out_map->rank) return PROBLEM("a tensor map of rank %d", out_map->rank);
    for (int i = 0; i < out_map->rank; i++) {
        out_map->extent[i] = extents[i];
        out_map->stride_bytes[i] = strides[i];
    }
    WEFT_TRY(get_ints_fixed(r, json, "box", out_map->rank, out_map->box), "tensor map");
    WEFT_TRY(get_int(json, "swizzle", false, &out_map->swizzle_bytes), "tensor map");
    return NULL;
}

static weft_status read_variant(reader *r, const weft_json *json, weft_launch_variant *variant) {
    const weft_json *array;
    weft_condition *conditions;
    weft_tensor_map *maps;
    WEFT_TRY(get_array(r, json, "when", true, sizeof *conditions, &array, &conditions, &variant->condition_count),
             "conditions");
    for (int i = 0; i < variant->condition_count; i++)
        WEFT_TRY(read_condition(r, &array->children[i], &conditions[i]), "condition %d", i);
    variant->conditions = conditions;
    WEFT_TRY(get_int(json, "kernel", false, &variant->kernel), "variant");
    WEFT_TRY(get_dim(r, json, "grid", false, &variant->grid), "variant");
    WEFT_TRY(get_ints(r, json, "buffers", &variant->buffers, &variant->buffer_count), "variant");
    if (weft_json_find(json, "reads"))
        WEFT_TRY(get_ints(r, json, "reads", &variant->reads, &variant->read_count), "reads");
    WEFT_TRY(get_dims(r, json, "extents", &variant->extents, &variant->extent_count), "variant");
    WEFT_TRY(get_array(r, json, "maps", true, sizeof *maps, &array, &maps, &variant->map_count), "tensor maps");
    for (int i = 0; i < variant->map_count; i++)
        WEFT_TRY(read_map(r, &array->children[i], &maps[i]), "tensor map %d", i);
    variant->maps = maps;
    return NULL;
}

static weft_status read_launch(reader *r, const weft_json *json, weft_step *step) {
    const weft_json *array;
    weft_launch_variant *variants;
    WEFT_TRY(get_array(r, json, "variants", false, sizeof *variants, &array, &variants, &step->variant_count),
             "launch");
    for (int i = 0; i < step->variant_count; i++)
        WEFT_TRY(read_variant(r, &array->children[i], &variants[i]), "variant %d", i);
    step->variants = variants;
    return NULL;
}

static weft_status read_step(reader *r, const weft_json *json, weft_step *step) {
    int kind;
    WEFT_TRY(get_word(json, "kind", weft_step_kind_names, NAME_COUNT(weft_step_kind_names), &kind), "step");
    step->kind = (weft_step_kind)kind;
    WEFT_TRY(get_string(r, json, "location", true, &step->location), "step");
    switch (step->kind) {
    case WEFT_STEP_LAUNCH: return read_launch(r, json, step);
    case WEFT_STEP_COPY:
        WEFT_TRY(get_ints_fixed(r, json, "buffers", 2, step->buffers), "copy");
        return get_dim(r, json, "bytes", false, &step->bytes);
    case WEFT_STEP_WHILE:
    case WEFT_STEP_COND:
        WEFT_TRY(get_ints_fixed(r, json, "buffers", 1, step->buffers), "%s", weft_step_kind_names[kind]);
        return get_ints_fixed(r, json, "regions", 2, step->regions);
    case WEFT_STEP_READ_DIM:
        WEFT_TRY(get_ints_fixed(r, json, "buffers", 1, step->buffers), "read_dim");
        return get_int(json, "symbol", false, &step->symbol);
    case WEFT_STEP_LOOP:
        WEFT_TRY(get_ints_fixed(r, json, "regions", 1, step->regions), "loop");
        WEFT_TRY(get_dim(r, json, "trips", false, &step->bytes), "loop");
        return get_int(json, "symbol", false, &step->symbol);
    }
    return NULL;
}

static weft_status read_regions(reader *r, const weft_json *json) {
    const weft_json *array, *steps_json;
    weft_step_list *regions;
    WEFT_TRY(get_array(r, json, "regions", false, sizeof *regions, &array, &regions, &r->program->region_count),
             "regions");
    for (int i = 0; i < r->program->region_count; i++) {
        weft_step *steps;
        steps_json = &array->children[i];
        if (steps_json->kind != WEFT_JSON_ARRAY || steps_json->length > INT32_MAX)
            return PROBLEM("region %d is no array", i);
        steps = weft_arena_allocate_array(r->arena, steps_json->length, sizeof *steps);
        if (!steps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for region %d", i);
        regions[i] = (weft_step_list){(int)steps_json->length, steps};
        for (int k = 0; k < regions[i].count; k++)
            WEFT_TRY(read_step(r, &steps_json->children[k], &steps[k]), "region %d, step %d", i, k);
    }
    r->program->regions = regions;
    return NULL;
}

static weft_status read_all(reader *r, const weft_json *json) {
    weft_program_data *program = r->program;
    int64_t format;
    WEFT_TRY(get_integer(json, "format", 0, INT32_MAX, &format), "program");
    if (format != WEFT_PROGRAM_FORMAT)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "program format %lld; this runtime reads format %d", (long long)format,
                           WEFT_PROGRAM_FORMAT);
    WEFT_TRY(get_string(r, json, "name", false, &program->name), "program");
    WEFT_TRY(get_string(r, json, "target", false, &program->target), "program");
    WEFT_TRY(get_string(r, json, "producer", false, &program->producer), "program");
    WEFT_TRY(get_integer(json, "weights_bytes", 0, INT64_MAX, &program->weights_bytes), "program");
    WEFT_TRY(read_symbols(r, json), "symbols");
    WEFT_TRY(read_ports(r, json, "inputs", &program->inputs, &program->input_count), "inputs");
    WEFT_TRY(read_ports(r, json, "outputs", &program->outputs, &program->output_count), "outputs");
    WEFT_TRY(read_ports(r, json, "states", &program->states, &program->state_count), "states");
    WEFT_TRY(read_guards(r, json), "guards");
    WEFT_TRY(read_buffers(r, json), "buffers");
    WEFT_TRY(read_kernels(r, json), "kernels");
    WEFT_TRY(read_regions(r, json), "regions");
    return weft_program_check(program);
}

weft_status weft_program_read(weft_arena *arena, const weft_json *json, weft_program_data **out_program) {
    *out_program = NULL;
    reader r = {arena, weft_arena_allocate(arena, sizeof *r.program)};
    if (!r.program) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a program");
    WEFT_TRY(weft_dim_table_create(arena->allocator, &r.program->dims), "reading a program");
    weft_status status = read_all(&r, json);
    if (status)
        weft_dim_table_release(r.program->dims);
    else
        *out_program = r.program;
    return weft_status_annotate(status, __FILE__, __LINE__, "reading a program");
}
