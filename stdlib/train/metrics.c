/* See metrics.h. Invariant: a file holds whole lines; those of a run that goes on end at its checkpoint. Read next:
   report.c. */
#include "stdlib/train/metrics.h"

#include "base/context.h"
#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* The step of a row: behind "{\"step\":" or at the start; -1 for a heading. */
static int64_t step_of(const char *line) {
    static const char key[] = "{\"step\":";
    if (!strncmp(line, key, sizeof key - 1)) line += sizeof key - 1;
    return *line >= '0' && *line <= '9' ? strtoll(line, NULL, 10) : -1;
}

/* Whole lines of steps up to last_step. A line that a crash cut short has no end and is dropped. */
static void keep_lines(const weft_file *file, int64_t last_step, weft_text *kept) {
    const char *at = file->data, *end = at ? at + file->bytes : at;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) return;
        if (step_of(at) <= last_step) weft_text_append_bytes(kept, at, (size_t)(line_end + 1 - at));
        at = line_end + 1;
    }
}

static weft_status open_rows(weft_metrics *m, const char *path, int64_t last_step, const weft_text *heading,
                             FILE **out_file) {
    weft_text kept;
    weft_file old;
    weft_text_init(m->context->allocator, &kept);
    weft_status status = last_step > 0 ? weft_file_map(path, &old) : NULL;
    if (last_step > 0 && !status) {
        keep_lines(&old, last_step, &kept);
        weft_file_unmap(&old);
    } else if (weft_status_code(status) == WEFT_NOT_FOUND) {
        weft_status_release(status);
        status = NULL;
    }
    if (!kept.length && heading) weft_text_append_bytes(&kept, heading->data, heading->length);
    if (!status) status = weft_text_status(&kept);
    if (!status) status = weft_file_write_all(m->context->allocator, path, kept.length ? kept.data : "", kept.length);
    if (!status && !(*out_file = fopen(path, "a"))) status = weft_file_error("open", path, errno);
    weft_text_deinit(&kept);
    return status;
}

weft_status weft_metrics_open(weft_context *context, const char *folder, int64_t last_step, int count,
                              const char *const *names, weft_metrics *out_metrics) {
    char path[PATH_BYTES];
    weft_text heading;
    *out_metrics = (weft_metrics){.context = context, .count = count};
    WEFT_TRY(weft_folder_create(folder), "metrics");
    weft_text_init(context->allocator, &heading);
    weft_text_append(&heading, "step");
    for (int i = 0; i < count; i++) {
        out_metrics->names[i] = names[i];
        weft_text_append(&heading, ",%s", names[i]);
    }
    weft_text_append(&heading, "\n");
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    weft_status status = weft_text_status(&heading);
    if (!status) status = open_rows(out_metrics, path, last_step, &heading, &out_metrics->csv);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    if (!status) status = open_rows(out_metrics, path, last_step, NULL, &out_metrics->jsonl);
    weft_text_deinit(&heading);
    if (!status) return NULL;
    weft_status_release(weft_metrics_close(out_metrics));
    return weft_status_annotate(status, __FILE__, __LINE__, "metrics in %s", folder);
}

static weft_status write_line(FILE *file, const weft_text *line) {
    bool written = fwrite(line->data, 1, line->length, file) == line->length && !fflush(file);
    return written ? NULL : weft_file_error("write", "metrics", errno);
}

weft_status weft_metrics_write(weft_metrics *m, int64_t step, const double *values) {
    weft_text csv, json;
    weft_text_init(m->context->allocator, &csv);
    weft_text_init(m->context->allocator, &json);
    weft_text_append(&csv, "%" PRId64, step);
    weft_text_append(&json, "{\"step\":%" PRId64, step);
    for (int i = 0; i < m->count; i++) {
        bool given = isfinite(values[i]);
        weft_text_append(&csv, given ? ",%.9g" : ",", values[i]);
        if (!given) continue;
        weft_text_append(&json, ",");
        weft_text_append_quoted(&json, m->names[i], strlen(m->names[i]));
        weft_text_append(&json, ":%.9g", values[i]);
    }
    weft_text_append(&csv, "\n");
    weft_text_append(&json, "}\n");
    weft_status status = weft_text_status(&csv);
    if (!status) status = weft_text_status(&json);
    if (!status) status = write_line(m->csv, &csv);
    if (!status) status = write_line(m->jsonl, &json);
    weft_text_deinit(&csv);
    weft_text_deinit(&json);
    return status;
}

weft_status weft_metrics_close(weft_metrics *m) {
    bool closed = true;
    if (m->csv) closed = !fclose(m->csv) && closed;
    if (m->jsonl) closed = !fclose(m->jsonl) && closed;
    m->csv = m->jsonl = NULL;
    return closed ? NULL : weft_file_error("write", "metrics", errno);
}
