/* The page of weft inspect: summary, the steps as a graph, the memory plan, the list of steps. Plain SVG, no scripts,
   nothing loaded from elsewhere; titles (hover) carry the details. Layout of the graph: a step stands one row below the
   latest step it waits for; a step that waits for none stands right above the first that waits for it, so that edges
   are short. */
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

enum { NODE_WIDTH = 236, NODE_HEIGHT = 42, GAP_X = 28, GAP_Y = 26, PLAN_WIDTH = 1080, PLAN_HEIGHT = 360, MARGIN = 70 };

static const char style[] =
    "<style>body{font:14px/1.5 system-ui,sans-serif;margin:28px auto;max-width:1180px;color:#223;background:#fff}"
    "h1{font-size:24px;margin:0}h2{font-size:17px;margin:34px 0 8px}p.note{color:#667;margin:4px 0 10px}"
    ".facts{display:flex;flex-wrap:wrap;gap:12px;margin-top:14px}.facts div{background:#f4f5fa;border-radius:8px;padding:8px 16px}"
    ".facts b{display:block;font-size:18px}.facts span{color:#667;font-size:12px}"
    "table{border-collapse:collapse}td,th{padding:3px 18px 3px 0;text-align:left;border-bottom:1px solid #e3e5ee}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin:0 5px 0 14px}"
    "text{font:12px system-ui,sans-serif;fill:#223}text.small{font-size:10.5px;fill:#556}.edge{stroke:#9aa0b8;fill:none;stroke-width:1.2}"
    ".scroll{overflow:auto;max-height:680px;border:1px solid #d8dbe8;border-radius:8px}rect:hover{stroke:#223;stroke-width:1.5}</style>";

static const struct {
    const char *part, *colour;
} families[] = {{"matmul", "#f6c177"},    {"convolution", "#f0a58f"}, {"attention", "#c9b1ea"}, {"reduce", "#9ccfd8"},
                {"pointwise", "#bcdcae"}, {"sort", "#e8d0a8"},        {"copy", "#dddddd"}};
enum { FAMILIES = sizeof families / sizeof *families };
static const char other_colour[] = "#d3d6ea";

static void escape(weft_text *t, const char *text, int most) {
    for (int i = 0; text && *text && (most < 0 || i < most); text++, i++) {
        if (*text == '<')
            weft_text_append(t, "&lt;");
        else if (*text == '&')
            weft_text_append(t, "&amp;");
        else if (*text == '"')
            weft_text_append(t, "&quot;");
        else if (*text == '\'')
            weft_text_append(t, "&#39;");
        else
            weft_text_append_bytes(t, text, 1);
    }
}

/* Colour by family of kernel: the anchor is part of its name. */
static int family(const char *name) {
    for (int i = 0; i < FAMILIES; i++)
        if (strstr(name, families[i].part)) return i;
    return FAMILIES;
}

static const char *colour(const char *name) {
    return family(name) < FAMILIES ? families[family(name)].colour : other_colour;
}

static const char *step_name(const weft_program_data *p, const weft_step *step) {
    static const char *const names[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
    return step->variant_count ? p->kernels[step->variants[0].kernel].name : names[step->kind];
}

/* "convolution at Div@0": what stands after "at". */
static const char *place_of(const weft_step *step) {
    const char *at = step->location ? strstr(step->location, " at ") : NULL;
    return at ? at + 4 : step->location ? step->location : "";
}

static int root_of(const weft_program_data *p, int buffer) {
    while (p->buffers[buffer].kind == WEFT_BUFFER_ALIAS) buffer = p->buffers[buffer].index;
    return buffer;
}

static void bytes_text(weft_text *t, double bytes) {
    if (bytes >= 1e9)
        weft_text_append(t, "%.2f GB", bytes / 1e9);
    else if (bytes >= 1e6)
        weft_text_append(t, "%.2f MB", bytes / 1e6);
    else if (bytes >= 1e3)
        weft_text_append(t, "%.1f kB", bytes / 1e3);
    else
        weft_text_append(t, "%.0f B", bytes);
}

typedef struct layout {
    int *row, *column, *first_user; /* by step */
    int rows, columns;
} layout;

static int buffers_of(const weft_step *step, const int **out_buffers) {
    if (step->kind == WEFT_STEP_LAUNCH) return *out_buffers = step->variants[0].buffers, step->variants[0].buffer_count;
    *out_buffers = step->buffers;
    return step->kind == WEFT_STEP_COPY ? 2 : 0;
}

/* Calls visit(from, to) for each edge, in order of steps: a temporary is made by the first step that has it. */
static void each_edge(const weft_program_data *p, layout *l, void (*visit)(void *self, layout *l, int from, int to),
                      void *self) {
    const weft_step_list *main = &p->regions[WEFT_REGION_MAIN];
    for (int s = 0; s < main->count; s++) {
        const int *buffers;
        int count = buffers_of(&main->steps[s], &buffers);
        for (int b = 0; b < count; b++) {
            const weft_buffer *buffer = &p->buffers[root_of(p, buffers[b])];
            if (buffer->kind == WEFT_BUFFER_TEMP && buffer->first_step >= 0 && buffer->first_step < s)
                visit(self, l, buffer->first_step, s);
        }
    }
}

static void lower_row(void *self, layout *l, int from, int to) {
    (void)self;
    if (l->row[from] + 1 > l->row[to]) l->row[to] = l->row[from] + 1;
}

static void note_user(void *self, layout *l, int from, int to) {
    (void)self;
    if (l->first_user[from] < 0 || l->row[to] < l->row[l->first_user[from]]) l->first_user[from] = to;
}

static bool arrange(const weft_program_data *p, layout *l) {
    int count = p->regions[WEFT_REGION_MAIN].count;
    l->row = calloc((size_t)count + 1, sizeof *l->row);
    l->column = calloc((size_t)count + 1, sizeof *l->column);
    l->first_user = calloc((size_t)count + 1, sizeof *l->first_user);
    int *used = calloc((size_t)count + 2, sizeof *used);
    if (!l->row || !l->column || !l->first_user || !used) return free(used), false;
    for (int s = 0; s < count; s++) l->first_user[s] = -1;
    each_edge(p, l, lower_row, NULL);
    each_edge(p, l, note_user, NULL);
    for (int pass = 0; pass < 2; pass++) /* steps that wait for something keep the left columns */
        for (int s = 0; s < count; s++) {
            bool source = l->row[s] == 0 && l->first_user[s] >= 0;
            if (source != (pass == 1)) continue;
            int row = source ? l->row[l->first_user[s]] - 1 : l->row[s];
            l->column[s] = used[row]++;
            if (source) l->first_user[s] = -2 - row; /* the row proper is set below: row 0 still marks sources */
            if (row >= l->rows) l->rows = row + 1;
            if (l->column[s] >= l->columns) l->columns = l->column[s] + 1;
        }
    for (int s = 0; s < count; s++)
        if (l->first_user[s] <= -2) l->row[s] = -2 - l->first_user[s];
    free(used);
    return true;
}

static int node_x(const layout *l, int step) { return GAP_X + l->column[step] * (NODE_WIDTH + GAP_X); }
static int node_y(const layout *l, int step) { return GAP_Y + l->row[step] * (NODE_HEIGHT + GAP_Y); }

static void draw_edge(void *self, layout *l, int from, int to) {
    weft_text *t = self;
    int fx = node_x(l, from) + NODE_WIDTH / 2, fy = node_y(l, from) + NODE_HEIGHT, tx = node_x(l, to) + NODE_WIDTH / 2,
        ty = node_y(l, to);
    if (l->row[to] - l->row[from] > 1 && l->column[to] == l->column[from]) { /* around the steps between */
        int side = node_x(l, to) - 4 - (l->row[to] - l->row[from]) % 5 * 4, left = side + 4 > 0 ? side : 2;
        weft_text_append(t, "<path class=edge d='M%d %dC%d %d %d %d %d %dL%d %dC%d %d %d %d %d %d'/>", fx - 60, fy,
                         fx - 60, fy + 14, left, fy + 6, left, fy + 22, left, ty - 22, left, ty - 6, tx - 60, ty - 14,
                         tx - 60, ty);
        return;
    }
    weft_text_append(t, "<path class=edge d='M%d %dC%d %d %d %d %d %d'/>", fx, fy, fx, fy + 16, tx, ty - 16, tx, ty);
}

static void draw_graph(weft_text *t, const weft_program_data *p, layout *l) {
    const weft_step_list *main = &p->regions[WEFT_REGION_MAIN];
    bool seen[FAMILIES + 1] = {false};
    for (int s = 0; s < main->count; s++) seen[family(step_name(p, &main->steps[s]))] = true;
    weft_text_append(t, "<p class=note>A step stands below what it waits for.");
    for (int i = 0; i <= FAMILIES; i++)
        if (seen[i])
            weft_text_append(t, "<span class=key style='background:%s'></span>%s",
                             i < FAMILIES ? families[i].colour : other_colour,
                             i < FAMILIES ? families[i].part : "other");
    weft_text_append(t, "</p><div class=scroll><svg width=%d height=%d>", l->columns * (NODE_WIDTH + GAP_X) + GAP_X,
                     l->rows * (NODE_HEIGHT + GAP_Y) + GAP_Y);
    each_edge(p, l, draw_edge, t);
    for (int s = 0; s < main->count; s++) {
        const weft_step *step = &main->steps[s];
        const char *name = step_name(p, step);
        int x = node_x(l, s), y = node_y(l, s);
        weft_text_append(t, "<g><rect x=%d y=%d width=%d height=%d rx=6 fill='%s'><title>step %d: %s, ", x, y,
                         NODE_WIDTH, NODE_HEIGHT, colour(name), s, name);
        escape(t, step->location, -1);
        weft_text_append(t, "</title></rect><text x=%d y=%d>%.34s</text><text class=small x=%d y=%d>", x + 9, y + 18,
                         name, x + 9, y + 33);
        escape(t, place_of(step), 38);
        weft_text_append(t, "</text></g>");
    }
    weft_text_append(t, "</svg></div>");
}

static void draw_axes(weft_text *t, double steps, double bytes) {
    for (int i = 0; i <= 4; i++) {
        double x = MARGIN + PLAN_WIDTH * i / 4.0, y = PLAN_HEIGHT - PLAN_HEIGHT * i / 4.0 + 10;
        weft_text_append(t, "<path d='M%d %.1fH%d' stroke='#e6e8f0'/><text class=small x=%d y=%.1f text-anchor=end>",
                         MARGIN, y, MARGIN + PLAN_WIDTH, MARGIN - 6, y + 4);
        bytes_text(t, bytes * i / 4);
        weft_text_append(t, "</text><text class=small x=%.1f y=%d text-anchor=%s>%s%.0f</text>", x, PLAN_HEIGHT + 26,
                         i == 4 ? "end"
                         : i    ? "middle"
                                : "start",
                         i ? "" : "step ", steps * i / 4);
    }
}

static void draw_plan(weft_text *t, const cli_inspection *in) {
    const weft_program_data *p = in->program;
    double steps = p->regions[WEFT_REGION_MAIN].count ? p->regions[WEFT_REGION_MAIN].count : 1,
           bytes = in->temporary_bytes ? (double)in->temporary_bytes : 1;
    weft_text_append(
        t,
        "<p class=note>Each box is one temporary: from its first step to its last, at its place in the workspace.</p>"
        "<svg width=%d height=%d>",
        PLAN_WIDTH + MARGIN + 4, PLAN_HEIGHT + 34);
    draw_axes(t, steps, bytes);
    for (int i = 0; i < p->buffer_count; i++) {
        const weft_buffer *b = &p->buffers[i];
        int64_t size;
        if (b->kind != WEFT_BUFFER_TEMP || in->offsets[i] < 0 ||
            !weft_dim_evaluate(p->dims, b->bytes, in->symbols, &size))
            continue;
        double x = MARGIN + b->first_step / steps * PLAN_WIDTH,
               w = (b->last_step + 1 - b->first_step) / steps * PLAN_WIDTH;
        double h = (double)size / bytes * PLAN_HEIGHT,
               y = PLAN_HEIGHT - (double)in->offsets[i] / bytes * PLAN_HEIGHT - h + 10;
        weft_text_append(
            t,
            "<rect x=%.1f y=%.1f width=%.1f height=%.1f rx=2 fill='hsl(%d,48%%,74%%)' stroke='#fff' stroke-width='.6'><title>",
            x, y, w, h, 190 + i * 47 % 160);
        escape(t, b->name, -1);
        weft_text_append(t, ": %lld bytes at %lld, steps %d to %d</title></rect>", (long long)size,
                         (long long)in->offsets[i], b->first_step, b->last_step);
    }
    weft_text_append(t, "</svg>");
}

static void fact(weft_text *t, const char *what, long long number) {
    weft_text_append(t, "<div><b>%lld</b><span>%s</span></div>", number, what);
}

static void fact_bytes(weft_text *t, const char *what, double bytes) {
    weft_text_append(t, "<div><b>");
    bytes_text(t, bytes);
    weft_text_append(t, "</b><span>%s</span></div>", what);
}

static void write_summary(weft_text *t, const cli_inspection *in) {
    const weft_program_data *p = in->program;
    weft_text_append(t, "<!doctype html><meta charset=utf-8><title>");
    escape(t, p->name, -1);
    weft_text_append(t, "</title>%s<h1>", style);
    escape(t, p->name, -1);
    weft_text_append(t, "</h1><div class=facts>");
    fact(t, "steps of a call", p->regions[WEFT_REGION_MAIN].count);
    fact(t, "kernels", p->kernel_count);
    fact(t, "guards", p->guard_count);
    fact_bytes(t, "weights", (double)p->weights_bytes);
    fact_bytes(t, "temporaries", (double)in->temporary_bytes);
    for (int i = 0; i < in->symbol_count; i++) {
        weft_text_append(t, "<div><b>%lld</b><span>", (long long)in->symbols[i]);
        escape(t, weft_dim_symbol_get(p->dims, i)->name, -1);
        weft_text_append(t, " in these figures</span></div>");
    }
    weft_text_append(t, "</div>");
}

static void write_page(weft_text *t, const cli_inspection *in, layout *l) {
    const weft_program_data *p = in->program;
    write_summary(t, in);
    weft_text_append(t, "<h2>Steps of a call</h2>");
    draw_graph(t, p, l);
    weft_text_append(t, "<h2>Memory plan</h2>");
    draw_plan(t, in);
    weft_text_append(t, "<h2>List of steps</h2><table><tr><th>#<th>kernel<th>made from");
    for (int s = 0; s < p->regions[WEFT_REGION_MAIN].count; s++) {
        const weft_step *step = &p->regions[WEFT_REGION_MAIN].steps[s];
        weft_text_append(t, "<tr><td class=n>%d<td>%s<td>", s, step_name(p, step));
        escape(t, step->location, -1);
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
    free(l.row);
    free(l.column);
    free(l.first_user);
    weft_text_deinit(&text);
    return status;
}
