/* The page of weft inspect: summary, the steps as a graph, the memory plan, the list of steps. Plain SVG, no scripts from
   elsewhere; titles (hover) carry the details. */
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

enum { NODE_WIDTH = 190, NODE_HEIGHT = 34, GAP_X = 26, GAP_Y = 34, PLAN_WIDTH = 1100, PLAN_HEIGHT = 420 };

static const char style[] =
    "<style>body{font:14px system-ui,sans-serif;margin:24px;color:#223}h1{font-size:22px}h2{font-size:17px;margin-top:32px}"
    "table{border-collapse:collapse}td,th{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid #dde}"
    "text{font:11px system-ui,sans-serif;fill:#223}.edge{stroke:#99a;fill:none}.scroll{overflow:auto;max-height:720px;border:1px solid #ccd}"
    "rect:hover{stroke:#000;stroke-width:1.5}</style>";

static void escape(weft_text *t, const char *text) {
    for (; text && *text; text++) {
        if (*text == '<') weft_text_append(t, "&lt;");
        else if (*text == '&') weft_text_append(t, "&amp;");
        else if (*text == '"') weft_text_append(t, "&quot;");
        else weft_text_append_bytes(t, text, 1);
    }
}

/* Colour by family of kernel: the anchor is part of its name. */
static const char *colour(const char *name) {
    static const struct { const char *part, *colour; } table[] = {
        {"matmul", "#f6c177"}, {"convolution", "#eb9c84"}, {"reduce", "#9ccfd8"}, {"pointwise", "#b6d7a8"},
        {"attention", "#c4a7e7"}, {"copy", "#dddddd"}, {"pool", "#a8c5e8"}, {"sort", "#e8d0a8"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strstr(name, table[i].part)) return table[i].colour;
    return "#cfd2e6";
}

static const char *step_name(const weft_program_data *p, const weft_step *step) {
    static const char *const names[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
    return step->variant_count ? p->kernels[step->variants[0].kernel].name : names[step->kind];
}

static int root_of(const weft_program_data *p, int buffer) {
    while (p->buffers[buffer].kind == WEFT_BUFFER_ALIAS) buffer = p->buffers[buffer].index;
    return buffer;
}

typedef struct layout {
    int *rank, *column, *writer; /* by step, step, buffer */
    int ranks, columns;
} layout;

/* The last buffer of a launch is what it writes; earlier ones that an earlier step wrote are what it waits for. */
static int reads_of(const weft_step *step, const int **out_buffers) {
    if (step->kind == WEFT_STEP_LAUNCH) return *out_buffers = step->variants[0].buffers, step->variants[0].buffer_count;
    *out_buffers = step->buffers;
    return step->kind == WEFT_STEP_COPY ? 2 : 0;
}

static bool arrange(const weft_program_data *p, layout *l) {
    const weft_step_list *main = &p->regions[WEFT_REGION_MAIN];
    l->rank = calloc((size_t)main->count + 1, sizeof *l->rank);
    l->column = calloc((size_t)main->count + 1, sizeof *l->column);
    l->writer = malloc(((size_t)p->buffer_count + 1) * sizeof *l->writer);
    int *used = calloc((size_t)main->count + 2, sizeof *used);
    if (!l->rank || !l->column || !l->writer || !used) return free(used), false;
    for (int i = 0; i < p->buffer_count; i++) l->writer[i] = -1;
    for (int s = 0; s < main->count; s++) {
        const int *buffers;
        int count = reads_of(&main->steps[s], &buffers);
        for (int b = 0; b < count; b++) {
            int from = l->writer[root_of(p, buffers[b])];
            if (from >= 0 && from != s && l->rank[from] + 1 > l->rank[s]) l->rank[s] = l->rank[from] + 1;
        }
        if (count) l->writer[root_of(p, buffers[count - 1])] = s;
        l->column[s] = used[l->rank[s]]++;
        if (l->rank[s] >= l->ranks) l->ranks = l->rank[s] + 1;
        if (l->column[s] >= l->columns) l->columns = l->column[s] + 1;
    }
    free(used);
    return true;
}

static void draw_graph(weft_text *t, const weft_program_data *p, layout *l) {
    const weft_step_list *main = &p->regions[WEFT_REGION_MAIN];
    int width = l->columns * (NODE_WIDTH + GAP_X) + GAP_X, height = l->ranks * (NODE_HEIGHT + GAP_Y) + GAP_Y;
    weft_text_append(t, "<div class=scroll><svg width=%d height=%d>", width, height);
    for (int i = 0; i < p->buffer_count; i++) l->writer[i] = -1;
    for (int s = 0; s < main->count; s++) {
        const weft_step *step = &main->steps[s];
        const int *buffers;
        int count = reads_of(step, &buffers), x = GAP_X + l->column[s] * (NODE_WIDTH + GAP_X), y = GAP_Y + l->rank[s] * (NODE_HEIGHT + GAP_Y);
        for (int b = 0; b < count; b++) {
            int from = l->writer[root_of(p, buffers[b])];
            if (from < 0 || from == s) continue;
            int fx = GAP_X + l->column[from] * (NODE_WIDTH + GAP_X) + NODE_WIDTH / 2, fy = GAP_Y + l->rank[from] * (NODE_HEIGHT + GAP_Y) + NODE_HEIGHT;
            weft_text_append(t, "<path class=edge d='M%d %d C%d %d %d %d %d %d'/>", fx, fy, fx, fy + 18, x + NODE_WIDTH / 2, y - 18, x + NODE_WIDTH / 2, y);
        }
        if (count) l->writer[root_of(p, buffers[count - 1])] = s;
        const char *name = step_name(p, step);
        weft_text_append(t, "<g><rect x=%d y=%d width=%d height=%d rx=5 fill='%s'><title>step %d: ", x, y, NODE_WIDTH, NODE_HEIGHT, colour(name), s);
        escape(t, step->location);
        weft_text_append(t, "</title></rect><text x=%d y=%d>%.30s</text></g>", x + 7, y + 21, name);
    }
    weft_text_append(t, "</svg></div>");
}

static void draw_plan(weft_text *t, const cli_inspection *in) {
    const weft_program_data *p = in->program;
    double steps = p->regions[WEFT_REGION_MAIN].count ? p->regions[WEFT_REGION_MAIN].count : 1, bytes = in->temporary_bytes ? (double)in->temporary_bytes : 1;
    weft_text_append(t, "<svg width=%d height=%d style='border:1px solid #ccd'>", PLAN_WIDTH, PLAN_HEIGHT);
    for (int i = 0; i < p->buffer_count; i++) {
        const weft_buffer *b = &p->buffers[i];
        int64_t size;
        if (b->kind != WEFT_BUFFER_TEMP || in->offsets[i] < 0 || !weft_dim_evaluate(p->dims, b->bytes, in->symbols, &size)) continue;
        double x = b->first_step / steps * PLAN_WIDTH, w = (b->last_step + 1 - b->first_step) / steps * PLAN_WIDTH;
        double h = (double)size / bytes * PLAN_HEIGHT, y = PLAN_HEIGHT - (double)in->offsets[i] / bytes * PLAN_HEIGHT - h;
        weft_text_append(t, "<rect x=%.1f y=%.1f width=%.1f height=%.1f fill='hsl(%d,55%%,72%%)' stroke='#fff' stroke-width='.4'><title>", x, y, w, h, i * 47 % 360);
        escape(t, b->name);
        weft_text_append(t, ": %lld bytes at %lld, steps %d to %d</title></rect>", (long long)size, (long long)in->offsets[i], b->first_step, b->last_step);
    }
    weft_text_append(t, "</svg><p>Time runs to the right (steps), addresses upwards; %lld bytes in all.</p>", (long long)in->temporary_bytes);
}

static void write_page(weft_text *t, const cli_inspection *in, layout *l) {
    const weft_program_data *p = in->program;
    weft_text_append(t, "<!doctype html><meta charset=utf-8><title>");
    escape(t, p->name);
    weft_text_append(t, "</title>%s<h1>", style);
    escape(t, p->name);
    weft_text_append(t, "</h1><p>%d kernels, %d steps, %d guards, weights %.2f MB, temporaries %.2f MB", p->kernel_count,
                     p->regions[WEFT_REGION_MAIN].count, p->guard_count, (double)p->weights_bytes / 1e6, (double)in->temporary_bytes / 1e6);
    for (int i = 0; i < in->symbol_count; i++) {
        weft_text_append(t, i ? ", " : " at ");
        escape(t, weft_dim_symbol_get(p->dims, i)->name);
        weft_text_append(t, " = %lld", (long long)in->symbols[i]);
    }
    weft_text_append(t, ".</p><h2>Steps of a call</h2>");
    draw_graph(t, p, l);
    weft_text_append(t, "<h2>Memory plan</h2>");
    draw_plan(t, in);
    weft_text_append(t, "<h2>Steps</h2><table><tr><th>#<th>kernel<th>from");
    for (int s = 0; s < p->regions[WEFT_REGION_MAIN].count; s++) {
        const weft_step *step = &p->regions[WEFT_REGION_MAIN].steps[s];
        weft_text_append(t, "<tr><td>%d<td>%s<td>", s, step_name(p, step));
        escape(t, step->location);
    }
    weft_text_append(t, "</table>\n");
}

weft_status cli_inspect_html(const cli_inspection *in, const char *path) {
    weft_text text;
    weft_text_init(weft_allocator_system(), &text);
    layout l = {0};
    weft_status status = arrange(in->program, &l) ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "drawing");
    if (!status) {
        write_page(&text, in, &l);
        status = weft_text_status(&text);
    }
    if (!status) status = weft_file_write_all(weft_allocator_system(), path, text.data, text.length);
    free(l.rank);
    free(l.column);
    free(l.writer);
    weft_text_deinit(&text);
    return status;
}
