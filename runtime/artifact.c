/* Loading an artifact: the mapped file is the program's memory for code, weights and strings, and lives as long as it.
   Order: ZIP structure, manifest (CRC), choice of the best code for the device, CRC of that code and of the graph, then
   the program record. Weights are used in place; their CRC costs a pass over the file and is checked on request. */
#include <string.h>

#include "base/artifact.h"
#include "base/file.h"
#include "base/need.h"
#include "base/text.h"
#include "runtime/program.h"

typedef struct loaded_file {
    weft_context *context; /* kept: the allocator is the context's */
    weft_file file;
    weft_arena arena;
    weft_dim_table *dims;
} loaded_file;

static void loaded_file_release(void *self) {
    loaded_file *loaded = self;
    weft_context *context = loaded->context;
    weft_dim_table_release(loaded->dims);
    weft_arena_deinit(&loaded->arena);
    weft_file_unmap(&loaded->file);
    weft_free(context->allocator, loaded, sizeof *loaded);
    weft_context_release(context);
}

static weft_status read_options(const weft_load_options *options, weft_load_options *out_options) {
    *out_options = (weft_load_options)WEFT_LOAD_OPTIONS_INIT;
    WEFT_TRY(WEFT_OPTIONS_READ(*out_options, options, WEFT_LOAD_OPTIONS_INIT), "options");
    if (!out_options->device) out_options->device = "cpu";
    return NULL;
}

/* What the file has and what the device is. */
static weft_status no_match(const weft_artifact *artifact, const weft_device *device) {
    weft_text text;
    weft_device_info info;
    weft_device_get_info(device, &info);
    weft_text_init(device->context->allocator, &text);
    for (int i = 0; i < artifact->target_count; i++)
        weft_text_append(&text, "%s%s:%s", i ? ", " : "", artifact->targets[i].target, artifact->targets[i].arch);
    weft_status status = WEFT_STATUS(WEFT_NOT_FOUND, "the file has code for %s; this device is %s:%s%s",
                                     text.length ? weft_text_string(&text) : "nothing", info.driver, info.arch,
                                     artifact->graph ? "; its graph.wir can be compiled again with libweft" : "");
    weft_text_deinit(&text);
    return status;
}

static weft_status choose(const weft_artifact *artifact, const weft_device *device,
                          const weft_artifact_entry **out_entry) {
    int best = 0;
    bool any = !strcmp(device->driver->name, "null");
    *out_entry = NULL;
    for (int i = 0; i < artifact->target_count; i++) {
        const weft_artifact_entry *entry = &artifact->targets[i];
        int match =
            any || !strcmp(entry->target, device->driver->name) ? device->driver->match(device, entry->arch) : 0;
        if (match <= best) continue;
        best = match;
        *out_entry = entry;
    }
    return *out_entry ? NULL : no_match(artifact, device);
}

static weft_status read_source(loaded_file *loaded, const weft_load_options *options, const weft_device *device,
                               weft_program_source *out_source) {
    weft_artifact artifact;
    const weft_artifact_entry *entry;
    weft_program_data *data;
    WEFT_TRY(weft_artifact_open(&loaded->arena, loaded->file.data, loaded->file.bytes, &artifact), "manifest");
    if (artifact.graph) WEFT_TRY(weft_zip_check(artifact.graph), "graph.wir");
    if (options->untrusted)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "native code of an untrusted file is not executed%s",
                           artifact.graph ? ": compile its graph.wir with libweft"
                                          : ", and the file has no graph to compile");
    WEFT_TRY(choose(&artifact, device, &entry), "choosing code");
    WEFT_TRY(weft_zip_check(entry->code), "code for %s", entry->arch);
    if (options->verify && artifact.weights) WEFT_TRY(weft_zip_check(artifact.weights), "weights");
    WEFT_TRY(weft_program_read(&loaded->arena, entry->program, &data), "program for %s", entry->arch);
    loaded->dims = data->dims;
    if (strcmp(data->target, entry->target) != 0)
        return WEFT_STATUS(WEFT_INVALID_DATA, "the program for %s says it is for %s", entry->target, data->target);
    uint64_t held = artifact.weights ? artifact.weights->bytes : 0;
    if ((uint64_t)data->weights_bytes > held)
        return WEFT_STATUS(WEFT_INVALID_DATA, "the program wants %lld bytes of weights, the file has %llu",
                           (long long)data->weights_bytes, (unsigned long long)held);
    *out_source = (weft_program_source){.data = data,
                                        .weights = artifact.weights ? artifact.weights->data : NULL,
                                        .code = {entry->arch, entry->code->data, entry->code->bytes},
                                        .release = loaded_file_release,
                                        .self = loaded};
    return NULL;
}

static weft_status load(weft_context *context, const char *path, const weft_load_options *options, weft_device *device,
                        weft_program **out_program) {
    loaded_file *loaded = weft_allocate(context->allocator, sizeof *loaded);
    weft_program_source source;
    if (!loaded) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory to load a file");
    loaded->context = context;
    weft_context_retain(context);
    weft_arena_init(context->allocator, &loaded->arena);
    weft_status status = weft_file_map(path, &loaded->file);
    if (!status) status = read_source(loaded, options, device, &source);
    if (!status) return weft_program_create(context, device, &source, out_program);
    loaded_file_release(loaded);
    return status;
}

weft_status weft_program_load(weft_context *context, const char *path, const weft_load_options *options,
                              weft_program **out_program) {
    WEFT_NEED(out_program, "out_program");
    *out_program = NULL;
    WEFT_NEED(context, "the context");
    WEFT_NEED(path, "the path");
    weft_load_options chosen;
    weft_device *device;
    WEFT_TRY(read_options(options, &chosen), "loading %s", path);
    WEFT_TRY(weft_device_open(context, chosen.device, &device), "loading %s", path);
    weft_status status = load(context, path, &chosen, device, out_program);
    weft_device_release(device);
    return weft_status_annotate(status, __FILE__, __LINE__, "loading %s", path);
}
