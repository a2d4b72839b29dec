/* Writing a graph into an artifact, and compiling an artifact again from it.
   Invariant: what is read back is checked as hostile data: keys lie inside the weights entry, the text is parsed and
   verified; no code of the file runs. Read next: compile.c. */
#include "compile/relower.h"

#include "base/file.h"
#include "base/need.h"
#include "base/tensor.h"
#include "ir/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 512 };

/* -- writing */

typedef struct writer {
    weft_constants *constants;
    bool out_of_memory;
    char key[KEY_BYTES];
} writer;

/* NULL = the text has the elements. */
static const char *put(void *self, weft_tensor *tensor) {
    writer *w = self;
    int64_t offset;
    if (!tensor->packed || tensor->device || w->out_of_memory) return NULL;
    weft_status status = weft_constants_add(w->constants, tensor->data, tensor->bytes, &offset);
    if (status) {
        weft_status_release(status);
        w->out_of_memory = true;
        return NULL;
    }
    int used = snprintf(w->key, sizeof w->key, "%s ", weft_dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->rank; i++)
        used +=
            snprintf(w->key + used, sizeof w->key - (size_t)used, "%s%lld", i ? "x" : "", (long long)tensor->shape[i]);
    snprintf(w->key + used, sizeof w->key - (size_t)used, " @%lld", (long long)offset);
    return w->key;
}

weft_status weft_graph_text_make(weft_graph *graph, weft_constants *constants, weft_text *text) {
    writer w = {.constants = constants};
    weft_tensor_source source = {.self = &w, .put = put};
    WEFT_TRY(weft_print(graph, &(weft_print_options){.tensors = &source, .locations = true}, text), "graph.wir");
    if (w.out_of_memory) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "the graph's constants");
    return NULL;
}

/* -- reading */

typedef struct reader {
    weft_context *context;
    const weft_zip_entry *weights; /* NULL = none */
} reader;

static weft_status bad_key(const char *key) {
    return WEFT_STATUS(WEFT_INVALID_DATA, "graph.wir: \"%.80s\" names no constant of the weights", key);
}

/* "DTYPE 2x3 @OFFSET" */
static bool parse_key(const char *key, weft_dtype *dtype, int *rank, int64_t *shape, uint64_t *offset) {
    char name[16];
    size_t length = strcspn(key, " ");
    if (length >= sizeof name || key[length] != ' ') return false;
    memcpy(name, key, length);
    name[length] = 0;
    *dtype = weft_dtype_find(name);
    if (*dtype == WEFT_INVALID) return false;
    const char *at = key + length + 1;
    for (*rank = 0; *at >= '0' && *at <= '9'; ++*rank) {
        char *end;
        if (*rank == WEFT_MAX_RANK) return false;
        shape[*rank] = strtoll(at, &end, 10); /* saturates; the size check then fails */
        at = *end == 'x' ? end + 1 : end;
    }
    if (at[0] != ' ' || at[1] != '@' || at[2] < '0' || at[2] > '9') return false;
    *offset = strtoull(at + 2, NULL, 10);
    return true;
}

static weft_status get(void *self, const char *key, weft_tensor **out_tensor) {
    const reader *r = self;
    weft_dtype dtype;
    int rank;
    int64_t shape[WEFT_MAX_RANK], count = 1;
    uint64_t offset, held = r->weights ? r->weights->bytes : 0;
    size_t bytes;
    if (!parse_key(key, &dtype, &rank, shape, &offset)) return bad_key(key);
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, shape[i], &count)) return bad_key(key);
    if (!weft_dtype_bytes(dtype, count, &bytes) || offset > held || bytes > held - offset) return bad_key(key);
    WEFT_TRY(weft_tensor_create_uncleared(r->context, dtype, rank, shape, out_tensor), "constant %s", key);
    if (bytes) memcpy((*out_tensor)->data, (const char *)r->weights->data + offset, bytes);
    return NULL;
}

static weft_status read_graph(weft_context *context, const weft_file *file, weft_graph **out_graph,
                              bool *out_invariant) {
    weft_arena arena;
    weft_artifact artifact;
    weft_arena_init(context->allocator, &arena);
    weft_status status = weft_artifact_open(&arena, file->data, file->bytes, &artifact);
    if (!status && !artifact.graph) status = WEFT_STATUS(WEFT_NOT_FOUND, "the file has no graph to compile");
    if (!status) status = weft_zip_check(artifact.graph);
    if (!status && artifact.weights) status = weft_zip_check(artifact.weights);
    if (!status) {
        reader r = {context, artifact.weights};
        weft_tensor_source source = {.self = &r, .get = get};
        status = weft_parse(context, artifact.graph->data, (size_t)artifact.graph->bytes, &source, out_graph);
        *out_invariant = artifact.batch_invariant;
    }
    weft_arena_deinit(&arena);
    return status;
}

static weft_status read_file(weft_context *context, const char *path, weft_graph **out_graph, bool *out_invariant) {
    weft_file file;
    *out_graph = NULL, *out_invariant = false;
    WEFT_TRY(weft_file_map(path, &file), "reading %s", path);
    weft_status status = read_graph(context, &file, out_graph, out_invariant);
    weft_file_unmap(&file);
    return status;
}

weft_status weft_graph_read_artifact(weft_context *context, const char *path, weft_graph **out_graph) {
    bool invariant;
    return read_file(context, path, out_graph, &invariant);
}

/* What the file promises about its numbers is kept, asked for or not. */
weft_status weft_compile_artifact(weft_context *context, const char *path, const weft_compile_options *options,
                                  weft_program **out_program) {
    WEFT_NEED(out_program, "out_program");
    *out_program = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_compile_options own = WEFT_COMPILE_OPTIONS_INIT;
    weft_graph *graph = NULL;
    bool invariant = false;
    weft_status status = WEFT_OPTIONS_READ(own, options, WEFT_COMPILE_OPTIONS_INIT);
    if (!status) status = read_file(context, path, &graph, &invariant);
    if (!status) {
        own.batch_invariant |= invariant;
        status = weft_compile(graph, &own, out_program);
    }
    weft_graph_release(graph);
    return weft_status_annotate(status, __FILE__, __LINE__, "compiling %s", path);
}
