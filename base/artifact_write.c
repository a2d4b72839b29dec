/* Writing an artifact: manifest and graph first, then code, then the weights, the last ones aligned. */
#include <inttypes.h>
#include <string.h>

#include "base/artifact.h"
#include "base/file.h"

static const char manifest_entry[] = "manifest.json", graph_entry[] = "graph.wir", weights_entry[] = "weights.bin";

/* Printers read code names by their ending only. */
static const char *code_extension(const char *target) {
    return !strcmp(target, "cpu")     ? "elf"
           : !strcmp(target, "cuda")  ? "cubin"
           : !strcmp(target, "metal") ? "metal"
                                      : "bin";
}

static void append_code_name(weft_text *text, const weft_artifact_target *target) {
    weft_text_append(text, "kernels/%s/%s.%s", target->program->target, target->arch,
                     code_extension(target->program->target));
}

static void append_field(weft_text *text, const char *key, const char *value) {
    weft_text_append(text, "\"%s\":", key);
    if (value)
        weft_text_append_quoted(text, value, strlen(value));
    else
        weft_text_append(text, "null");
    weft_text_append(text, ",");
}

static void write_manifest(const weft_artifact_content *content, weft_text *text) {
    weft_text name;
    weft_text_init(text->allocator, &name);
    weft_text_append(text, "{\"format\":\"weft-artifact\",\"version\":%d,", WEFT_ARTIFACT_VERSION);
    append_field(text, "producer", WEFT_VERSION);
    append_field(text, "name", content->name ? content->name : "");
    append_field(text, "graph", content->graph ? graph_entry : NULL);
    append_field(text, "weights", content->weights_bytes ? weights_entry : NULL);
    if (content->batch_invariant) weft_text_append(text, "\"batch_invariant\":true,");
    weft_text_append(text, "\"weights_bytes\":%" PRIu64 ",\"targets\":[", content->weights_bytes);
    for (int i = 0; i < content->target_count; i++) {
        const weft_artifact_target *target = &content->targets[i];
        name.length = 0;
        append_code_name(&name, target);
        weft_text_append(text, i ? ",\n{" : "\n{");
        append_field(text, "target", target->program->target);
        append_field(text, "arch", target->arch);
        append_field(text, "code", weft_text_string(&name));
        weft_text_append(text, "\"program\":");
        weft_program_write(target->program, text);
        weft_text_append(text, "}");
    }
    weft_text_append(text, "]}\n");
    if (name.failed) text->failed = true;
    weft_text_deinit(&name);
}

static weft_status check_content(const weft_artifact_content *content) {
    if (content->weights_bytes > INT64_MAX || (content->weights_bytes && !content->weights))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "an artifact with %" PRIu64 " bytes of weights, but none given",
                           content->weights_bytes);
    for (int i = 0; i < content->target_count; i++) {
        const weft_artifact_target *target = &content->targets[i];
        WEFT_TRY(weft_program_check(target->program), "target %d", i);
        if (!target->arch || !target->arch[0] || strchr(target->arch, '/'))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "target %d has no architecture", i);
        if ((uint64_t)target->program->weights_bytes > content->weights_bytes)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                               "target %d wants %lld bytes of weights, the artifact has %" PRIu64, i,
                               (long long)target->program->weights_bytes, content->weights_bytes);
        for (int k = 0; k < i; k++)
            if (!strcmp(content->targets[k].arch, target->arch) &&
                !strcmp(content->targets[k].program->target, target->program->target))
                return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "target %s:%s twice", target->program->target, target->arch);
    }
    return NULL;
}

static weft_status write_entries(weft_zip_writer *zip, const weft_artifact_content *content, weft_text *text) {
    write_manifest(content, text);
    WEFT_TRY(weft_text_status(text), "manifest");
    WEFT_TRY(weft_zip_writer_add(zip, manifest_entry, text->data, text->length, 0), "manifest");
    if (content->graph)
        WEFT_TRY(weft_zip_writer_add(zip, graph_entry, content->graph, content->graph_bytes, 0), "graph");
    for (int i = 0; i < content->target_count; i++) {
        const weft_artifact_target *target = &content->targets[i];
        text->length = 0;
        append_code_name(text, target);
        WEFT_TRY(weft_text_status(text), "name of code");
        WEFT_TRY(weft_zip_writer_add(zip, text->data, target->code, target->code_bytes, WEFT_ARTIFACT_ALIGN),
                 "code for %s", target->arch);
    }
    if (content->weights_bytes)
        WEFT_TRY(weft_zip_writer_add(zip, weights_entry, content->weights, content->weights_bytes, WEFT_ARTIFACT_ALIGN),
                 "weights");
    return weft_zip_writer_finish(zip);
}

weft_status weft_artifact_write(weft_allocator allocator, const char *path, const weft_artifact_content *content) {
    weft_file_writer file;
    weft_zip_writer *zip;
    weft_text text;
    WEFT_TRY(check_content(content), "writing %s", path);
    WEFT_TRY(weft_file_writer_open(allocator, path, &file), "writing %s", path);
    weft_text_init(allocator, &text);
    weft_status status = weft_zip_writer_create(allocator, file.file, &zip);
    if (!status) status = write_entries(zip, content, &text);
    weft_zip_writer_release(zip);
    weft_text_deinit(&text);
    if (status)
        weft_file_writer_abandon(&file);
    else
        status = weft_file_writer_commit(&file);
    return weft_status_annotate(status, __FILE__, __LINE__, "writing %s", path);
}
