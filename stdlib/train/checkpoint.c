/* Checkpoints: all states of a session and the step in one safetensors file, FOLDER/step-000000123.safetensors. The
   writer below (weft_safetensors_write) syncs and renames, so a file with that name is complete. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/file.h"
#include "base/need.h"
#include "base/zip.h"
#include "weft/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static weft_status path_of(const char *folder, int64_t step, char *path) {
    int length = snprintf(path, PATH_BYTES, "%s/step-%09" PRId64 ".safetensors", folder, step);
    if (length >= 0 && length < PATH_BYTES) return NULL;
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the path of a checkpoint in %.60s... is too long", folder);
}

/* The step of a checkpoint's file name; -1 for other files. */
static int64_t step_of(const char *name) {
    int64_t step = -1;
    int end = 0;
    if (sscanf(name, "step-%" SCNd64 ".safetensors%n", &step, &end) != 1 || !end || name[end]) return -1;
    return step;
}

/* The newest step below `below`; -1 when there is none. */
static weft_status newest(const char *folder, int64_t below, int64_t *out_step) {
    *out_step = -1;
    DIR *directory = opendir(folder);
    if (!directory) return errno == ENOENT ? NULL : weft_file_error("open", folder, errno);
    for (struct dirent *entry; (entry = readdir(directory));) {
        int64_t step = step_of(entry->d_name);
        if (step < below && step > *out_step) *out_step = step;
    }
    (void)closedir(directory);
    return NULL;
}

/* Removes what a writer that was killed left of steps up to `step`: step-N.safetensors.SUFFIX. */
static weft_status remove_pieces(const char *folder, int64_t step) {
    char path[PATH_BYTES];
    DIR *directory = opendir(folder);
    if (!directory) return weft_file_error("open", folder, errno);
    for (struct dirent *entry; (entry = readdir(directory));) {
        int64_t own = -1;
        int end = 0;
        if (sscanf(entry->d_name, "step-%" SCNd64 ".safetensors.%n", &own, &end) != 1 || !end || own > step) continue;
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length > 0 && length < PATH_BYTES) (void)unlink(path); /* what stays is only unread */
    }
    (void)closedir(directory);
    return NULL;
}

/* Removes all but the newest `keep`. */
static weft_status prune(const char *folder, int keep) {
    int64_t step = INT64_MAX;
    char path[PATH_BYTES];
    for (int i = 0;; i++) {
        WEFT_TRY(newest(folder, step, &step), "removing old checkpoints");
        if (step < 0) return NULL;
        if (i < keep) continue;
        WEFT_TRY(path_of(folder, step, path), "removing old checkpoints");
        if (unlink(path) && errno != ENOENT) return weft_file_error("remove", path, errno);
    }
}

static weft_status need_all(const weft_context *context, const weft_program *program, const weft_session *session,
                            const char *folder) {
    WEFT_NEED(context, "the context");
    WEFT_NEED(program, "the program");
    WEFT_NEED(session, "the session");
    WEFT_NEED(folder, "the folder");
    return NULL;
}

/* These are added up for all states of a file, in any order: a bit that a disk has turned is noticed before it trains
   on. */
static uint32_t sum_of(const char *name, const weft_tensor *tensor) {
    return weft_crc32(weft_crc32(0, name, strlen(name)), weft_tensor_data(tensor), weft_tensor_bytes(tensor));
}

static weft_status write_states(weft_context *context, const weft_program *program, weft_session *session,
                                const char *path, int64_t step, int count, const char **names, weft_tensor **tensors) {
    char text[32], sum_text[16];
    const char *keys[2] = {"step", "crc32"}, *values[2] = {text, sum_text};
    uint32_t sum = 0;
    snprintf(text, sizeof text, "%" PRId64, step);
    for (int i = 0; i < count; i++) {
        names[i] = weft_program_state_name(program, i);
        WEFT_TRY(weft_session_read_state(session, names[i], &tensors[i]), "reading %s", names[i]);
        sum += sum_of(names[i], tensors[i]);
    }
    snprintf(sum_text, sizeof sum_text, "%08" PRIx32, sum);
    return weft_safetensors_write(context, path, count, names, tensors, 2, keys, values);
}

weft_status weft_checkpoint_write(weft_context *context, const weft_program *program, weft_session *session,
                                  const char *folder, int64_t step, int keep) {
    char path[PATH_BYTES];
    WEFT_TRY(need_all(context, program, session, folder), "writing a checkpoint");
    if (step < 0 || step == INT64_MAX) /* no reader would find it */
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a checkpoint of step %" PRId64, step);
    int count = weft_program_state_count(program);
    size_t name_bytes = (size_t)(count + 1) * sizeof(char *),
           tensor_bytes = (size_t)(count + 1) * sizeof(weft_tensor *);
    WEFT_TRY(weft_folder_create(folder), "checkpoint of step %" PRId64, step);
    WEFT_TRY(path_of(folder, step, path), "checkpoint of step %" PRId64, step);
    const char **names = weft_allocate(context->allocator, name_bytes);
    weft_tensor **tensors = weft_allocate(context->allocator, tensor_bytes);
    weft_status status = names && tensors ? write_states(context, program, session, path, step, count, names, tensors)
                                          : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %d states", count);
    for (int i = 0; tensors && i < count; i++) weft_tensor_release(tensors[i]);
    weft_free(context->allocator, tensors, tensor_bytes);
    weft_free(context->allocator, names, name_bytes);
    if (!status) status = remove_pieces(folder, step);
    if (!status && keep > 0) status = prune(folder, keep);
    return weft_status_annotate(status, __FILE__, __LINE__, "checkpoint of step %" PRId64, step);
}

/* Before any state is changed. A file without a sum is one from elsewhere. */
static weft_status check_sum(weft_safetensors *file) {
    const char *wanted = weft_safetensors_metadata(file, "crc32");
    char found[16];
    uint32_t sum = 0;
    if (!wanted) return NULL;
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        weft_tensor *tensor;
        WEFT_TRY(weft_safetensors_get(file, i, &tensor), "state %s", weft_safetensors_name(file, i));
        sum += sum_of(weft_safetensors_name(file, i), tensor);
        weft_tensor_release(tensor);
    }
    snprintf(found, sizeof found, "%08" PRIx32, sum);
    if (strcmp(wanted, found) != 0)
        return WEFT_STATUS(WEFT_INVALID_DATA,
                           "its states are damaged (crc32 %s, the file says %s); remove it to go on "
                           "from the one before",
                           found, wanted);
    return NULL;
}

/* One state: checked against the session's, or written to it. */
static weft_status take_state(weft_session *session, weft_safetensors *file, const char *name, bool write) {
    int index = weft_safetensors_find(file, name);
    weft_tensor *tensor;
    if (index < 0) return WEFT_STATUS(WEFT_INVALID_DATA, "it has no state \"%s\"", name);
    WEFT_TRY(weft_safetensors_get(file, index, &tensor), "state %s", name);
    weft_status status =
        write ? weft_session_write_state(session, name, tensor) : weft_session_check_state(session, name, tensor);
    weft_tensor_release(tensor);
    return status;
}

/* All of them, or none where one is missing or of another shape. */
static weft_status read_states(const weft_program *program, weft_session *session, weft_safetensors *file) {
    WEFT_TRY(check_sum(file), "checking states");
    for (int write = 0; write < 2; write++)
        for (int i = 0; i < weft_program_state_count(program); i++)
            WEFT_TRY(take_state(session, file, weft_program_state_name(program, i), write), "reading states");
    return NULL;
}

weft_status weft_checkpoint_read(weft_context *context, const weft_program *program, weft_session *session,
                                 const char *folder, int64_t *out_step) {
    WEFT_NEED(out_step, "out_step");
    char path[PATH_BYTES];
    int64_t step;
    *out_step = 0;
    WEFT_TRY(need_all(context, program, session, folder), "reading a checkpoint");
    WEFT_TRY(newest(folder, INT64_MAX, &step), "looking for checkpoints");
    if (step < 0) return NULL;
    WEFT_TRY(path_of(folder, step, path), "reading a checkpoint");
    weft_safetensors *file;
    WEFT_TRY(weft_safetensors_open(context, path, &file), "reading a checkpoint");
    const char *own = weft_safetensors_metadata(file, "step");
    weft_status status = own && strtoll(own, NULL, 10) == step
                             ? read_states(program, session, file)
                             : WEFT_STATUS(WEFT_INVALID_DATA, "it does not say that it is of step %" PRId64, step);
    weft_safetensors_release(file);
    if (status) return weft_status_annotate(status, __FILE__, __LINE__, "reading checkpoint %s", path);
    *out_step = step;
    return NULL;
}
