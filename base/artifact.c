/* Reading the manifest of an artifact. Programs stay JSON until one of them is chosen. Read next: artifact_write.c. */
#include "base/artifact.h"

#include <string.h>

#define PROBLEM(...) WEFT_STATUS(WEFT_INVALID_DATA, __VA_ARGS__)

static weft_status get_string(const weft_json *object, const char *key, const char **out_string) {
    const weft_json *value = object->kind == WEFT_JSON_OBJECT ? weft_json_find(object, key) : NULL;
    *out_string = value && value->kind == WEFT_JSON_STRING ? value->string : NULL;
    if (!*out_string || strlen(*out_string) != value->length)
        return PROBLEM("\"%s\" is no string of the manifest", key);
    return NULL;
}

/* The entry that manifest key `key` names; null leaves *out_entry NULL if it may be missing. */
static weft_status get_entry(const weft_zip *zip, const weft_json *object, const char *key, bool optional,
                             const weft_zip_entry **out_entry) {
    const weft_json *value = object->kind == WEFT_JSON_OBJECT ? weft_json_find(object, key) : NULL;
    const char *name;
    *out_entry = NULL;
    if (optional && value && value->kind == WEFT_JSON_NULL) return NULL;
    WEFT_TRY(get_string(object, key, &name), "manifest");
    *out_entry = weft_zip_find(zip, name);
    return *out_entry ? NULL : PROBLEM("entry %.80s, which the manifest names, is missing", name);
}

static weft_status read_targets(weft_arena *arena, const weft_zip *zip, const weft_json *manifest,
                                weft_artifact *artifact) {
    const weft_json *array = weft_json_find(manifest, "targets");
    if (!array || array->kind != WEFT_JSON_ARRAY || array->length > 4096)
        return PROBLEM("\"targets\" is no array of the manifest");
    weft_artifact_entry *targets = weft_arena_allocate_array(arena, array->length, sizeof *targets);
    if (!targets) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %zu targets", array->length);
    for (size_t i = 0; i < array->length; i++) {
        const weft_json *child = &array->children[i];
        WEFT_TRY(get_string(child, "target", &targets[i].target), "target %zu", i);
        WEFT_TRY(get_string(child, "arch", &targets[i].arch), "target %zu", i);
        WEFT_TRY(get_entry(zip, child, "code", false, &targets[i].code), "target %zu", i);
        targets[i].program = weft_json_find(child, "program");
        if (!targets[i].program || targets[i].program->kind != WEFT_JSON_OBJECT)
            return PROBLEM("target %zu has no program", i);
    }
    artifact->targets = targets;
    artifact->target_count = (int)array->length;
    return NULL;
}

static weft_status check_version(const weft_json *manifest, const char *producer) {
    const weft_json *version = weft_json_find(manifest, "version");
    const char *format;
    WEFT_TRY(get_string(manifest, "format", &format), "manifest");
    if (strcmp(format, "weft-artifact") != 0) return PROBLEM("the manifest is not one of Weft");
    if (!version || version->kind != WEFT_JSON_NUMBER || !version->is_integer)
        return PROBLEM("\"version\" is no integer of the manifest");
    if (version->integer != WEFT_ARTIFACT_VERSION)
        return WEFT_STATUS(
            WEFT_UNSUPPORTED,
            "artifact format %lld, written by Weft %.40s; this runtime (Weft %s) reads format %d: compile the file's graph.wir again",
            (long long)version->integer, producer, WEFT_VERSION, WEFT_ARTIFACT_VERSION);
    return NULL;
}

static weft_status read_manifest(weft_arena *arena, const weft_zip *zip, const weft_json *manifest,
                                 weft_artifact *artifact) {
    if (manifest->kind != WEFT_JSON_OBJECT) return PROBLEM("the manifest is no object");
    WEFT_TRY(get_string(manifest, "producer", &artifact->producer), "manifest");
    WEFT_TRY(check_version(manifest, artifact->producer), "manifest");
    WEFT_TRY(get_string(manifest, "name", &artifact->name), "manifest");
    WEFT_TRY(get_entry(zip, manifest, "graph", true, &artifact->graph), "manifest");
    WEFT_TRY(get_entry(zip, manifest, "weights", true, &artifact->weights), "manifest");
    const weft_json *bytes = weft_json_find(manifest, "weights_bytes");
    uint64_t found = artifact->weights ? artifact->weights->bytes : 0;
    if (!bytes || bytes->kind != WEFT_JSON_NUMBER || !bytes->is_integer || bytes->integer < 0 ||
        (uint64_t)bytes->integer != found)
        return PROBLEM("the manifest and the weights entry disagree about its size");
    const weft_json *invariant = weft_json_find(manifest, "batch_invariant");
    if (invariant && invariant->kind != WEFT_JSON_BOOL) return PROBLEM("\"batch_invariant\" is neither true nor false");
    artifact->batch_invariant = invariant && invariant->boolean;
    return read_targets(arena, zip, manifest, artifact);
}

weft_status weft_artifact_open(weft_arena *arena, const void *data, size_t bytes, weft_artifact *out_artifact) {
    weft_zip zip;
    weft_json *manifest;
    memset(out_artifact, 0, sizeof *out_artifact);
    WEFT_TRY(weft_zip_open(arena, data, bytes, &zip), "artifact");
    const weft_zip_entry *entry = weft_zip_find(&zip, "manifest.json");
    if (!entry) return PROBLEM("no manifest.json: this is no artifact of Weft");
    WEFT_TRY(weft_zip_check(entry), "manifest.json");
    WEFT_TRY(weft_json_parse(arena, entry->data, entry->bytes, &manifest), "manifest.json");
    WEFT_TRY(read_manifest(arena, &zip, manifest, out_artifact), "artifact");
    return NULL;
}
