/* A metrics.csv as one page: a curve for each column over the steps, drawn as SVG, no scripts, nothing loaded. */
#include "weft/train.h"

#include "base/arena.h"
#include "base/context.h"
#include "base/file.h"
#include "base/need.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 240, MARGIN = 48, COLUMNS_MAX = 64 };

typedef struct table {
    const char *names[COLUMNS_MAX]; /* in the arena */
    int columns;
    int64_t rows;
    double *cells; /* rows * columns; NaN = empty */
} table;

static weft_status read_heading(weft_arena *arena, const char **at, const char *end, table *t) {
    while (*at < end && **at != '\n') {
        const char *from = *at;
        while (*at < end && **at != ',' && **at != '\n') ++*at;
        if (t->columns == COLUMNS_MAX) return WEFT_STATUS(WEFT_INVALID_DATA, "more than %d columns", COLUMNS_MAX);
        t->names[t->columns] = weft_arena_copy_string(arena, from, (size_t)(*at - from));
        if (!t->names[t->columns++]) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for a heading");
        if (*at < end && **at == ',') ++*at;
    }
    if (*at < end) ++*at;
    return t->columns > 1 ? NULL : WEFT_STATUS(WEFT_INVALID_DATA, "there are no columns");
}

static double field_value(const char *from, const char *to) {
    char text[64] = "", *rest;
    size_t length = (size_t)(to - from);
    if (!length || length >= sizeof text) return NAN;
    memcpy(text, from, length);
    double value = strtod(text, &rest);
    return *rest ? NAN : value;
}

static weft_status read_table(weft_arena *arena, const weft_file *file, table *t) {
    const char *at = file->data, *end = at ? at + file->bytes : at;
    *t = (table){0};
    WEFT_TRY(read_heading(arena, &at, end, t), "heading");
    int64_t lines = 0;
    for (const char *c = at; c < end; c++) lines += *c == '\n';
    t->cells = weft_arena_allocate_array(arena, (size_t)lines + 1, (size_t)t->columns * sizeof *t->cells);
    if (!t->cells) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "no memory for %lld rows", (long long)lines);
    for (; t->rows < lines; t->rows++) {
        for (int c = 0; c < t->columns; c++) {
            const char *from = at;
            while (*at != ',' && *at != '\n') at++;
            t->cells[t->rows * t->columns + c] = field_value(from, at);
            if (*at == ',') at++;
        }
        while (*at != '\n') at++;
        at++;
    }
    return NULL;
}

static void append_escaped(weft_text *page, const char *text) {
    for (; *text; text++) {
        if (*text == '<')
            weft_text_append(page, "&lt;");
        else if (*text == '&')
            weft_text_append(page, "&amp;");
        else
            weft_text_append_bytes(page, text, 1);
    }
}

typedef struct range {
    double low, high;
} range;

static range range_of(const table *t, int column) {
    range r = {INFINITY, -INFINITY};
    for (int64_t row = 0; row < t->rows; row++) {
        double value = t->cells[row * t->columns + column];
        if (!isfinite(value)) continue;
        r.low = fmin(r.low, value);
        r.high = fmax(r.high, value);
    }
    return r;
}

static void append_label(weft_text *page, double x, double y, const char *anchor, double value) {
    weft_text_append(page, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.4g</text>", x, y, anchor, value);
}

static void append_curve(weft_text *page, const table *t, int column) {
    range x = range_of(t, 0), y = range_of(t, column);
    if (!(y.low <= y.high)) return; /* nothing was measured */
    double width = x.high > x.low ? x.high - x.low : 1, height = y.high > y.low ? y.high - y.low : 1, last = NAN;
    weft_text_append(page, "<h2>");
    append_escaped(page, t->names[column]);
    weft_text_append(page, "</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">", WIDTH, HEIGHT);
    weft_text_append(page, "<path class=\"axis\" d=\"M%d %d V%d H%d\"/><polyline points=\"", MARGIN, MARGIN / 2,
                     HEIGHT - MARGIN / 2, WIDTH - MARGIN / 2);
    for (int64_t row = 0; row < t->rows; row++) {
        double value = t->cells[row * t->columns + column];
        if (!isfinite(value)) continue;
        double across = (t->cells[row * t->columns] - x.low) / width, up = (value - y.low) / height;
        weft_text_append(page, "%.1f,%.1f ", MARGIN + across * (WIDTH - 1.5 * MARGIN),
                         HEIGHT - MARGIN / 2 - up * (HEIGHT - MARGIN));
        last = value;
    }
    weft_text_append(page, "\"/>");
    append_label(page, MARGIN - 4, HEIGHT - MARGIN / 2, "end", y.low);
    append_label(page, MARGIN - 4, MARGIN / 2 + 4, "end", y.high);
    append_label(page, MARGIN, HEIGHT - 6, "middle", x.low);
    append_label(page, WIDTH - MARGIN / 2, HEIGHT - 6, "end", x.high);
    weft_text_append(page, "</svg>\n<p>last %.6g, lowest %.6g</p>\n", last, y.low);
}

static weft_status write_page(weft_context *context, const table *t, const char *path) {
    weft_text page;
    weft_text_init(context->allocator, &page);
    weft_text_append(&page,
                     "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Training</title>\n<style>"
                     "body{font:15px sans-serif;max-width:46em;margin:2em auto;padding:0 1em;color:#222}"
                     "svg{width:100%%;height:auto}polyline{fill:none;stroke:#06c;stroke-width:1.5}"
                     ".axis{fill:none;stroke:#888}text{font-size:11px;fill:#555}p{color:#555}</style>\n"
                     "<h1>Training</h1>\n");
    for (int c = 1; c < t->columns; c++) append_curve(&page, t, c);
    weft_text_append(&page, "</html>\n");
    weft_status status = weft_text_status(&page);
    if (!status) status = weft_file_write_all(context->allocator, path, page.data, page.length);
    weft_text_deinit(&page);
    return status;
}

weft_status weft_train_report(weft_context *context, const char *csv_path, const char *html_path) {
    weft_file file;
    weft_arena arena;
    table t;
    WEFT_NEED(context, "the context");
    WEFT_NEED(csv_path && html_path, "a path");
    WEFT_TRY(weft_file_map(csv_path, &file), "report of %s", csv_path);
    weft_arena_init(context->allocator, &arena);
    weft_status status = read_table(&arena, &file, &t);
    if (!status) status = write_page(context, &t, html_path);
    weft_arena_deinit(&arena);
    weft_file_unmap(&file);
    return weft_status_annotate(status, __FILE__, __LINE__, "report of %s", csv_path);
}
