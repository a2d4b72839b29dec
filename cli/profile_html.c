/* A profile as one page: the sentences, time by place in the source with forward and backward beside each other, memory
   over the steps, norms of gradients, all steps. Plain SVG, no scripts, nothing loaded from elsewhere. */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { WIDTH = 1080, HEIGHT = 220, LEFT = 60, PLACES_MAX = 512 };

static const char style[] =
    "<style>body{font:14px/1.5 system-ui,sans-serif;margin:28px auto;max-width:1180px;color:#223;background:#fff}"
    "h1{font-size:24px;margin:0}h2{font-size:17px;margin:30px 0 8px}p{margin:4px 0}"
    "table{border-collapse:collapse}td,th{padding:2px 16px 2px 0;text-align:left;border-bottom:1px solid #e3e5ee}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}.scroll{overflow:auto;max-height:640px}"
    "text{font:11px system-ui,sans-serif;fill:#556}</style>";

static void escape(weft_text *t, const char *text) {
    for (; *text; text++) {
        const char *as = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : *text == '"' ? "&quot;" : NULL;
        if (as)
            weft_text_append(t, "%s", as);
        else
            weft_text_append_bytes(t, text, 1);
    }
}

static void sentences(const cli_profile_data *p, weft_text *t) {
    weft_text words;
    weft_text_init(t->allocator, &words);
    cli_profile_words(p, &words);
    const char *at = weft_text_string(&words);
    for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
        weft_text_append(t, "<p>");
        escape(t, line);
        weft_text_append(t, "</p>\n");
    }
    weft_text_deinit(&words);
}

/* -- by place */

typedef struct place {
    const char *name;
    double seconds[CLI_PROFILE_PARTS], operations;
    int steps;
} place;

static double all_of(const place *x) { return x->seconds[0] + x->seconds[1] + x->seconds[2]; }

static int by_time(const void *a, const void *b) {
    double x = all_of(a), y = all_of(b);
    return (x < y) - (x > y);
}

static int gather(const cli_profile_data *p, place *places) {
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        const cli_profile_step *s = &p->steps[i];
        const char *name = s->place[0] ? s->place : s->what;
        int at = 0;
        while (at < count && strcmp(places[at].name, name) != 0) at++;
        if (at == PLACES_MAX) continue;
        if (at == count) places[count++] = (place){.name = name};
        places[at].seconds[s->part] += s->best;
        places[at].operations += s->operations;
        places[at].steps++;
    }
    qsort(places, (size_t)count, sizeof *places, by_time);
    return count;
}

static void by_place(const cli_profile_data *p, weft_text *t) {
    place *places = calloc(PLACES_MAX, sizeof *places);
    if (!places) return;
    int count = gather(p, places);
    weft_text_append(
        t, "<h2>By place</h2><div class=scroll><table><tr><th>place<th>steps<th>forward us<th>backward us<th>update "
           "us<th>share<th></tr>\n");
    for (int i = 0; i < count; i++) {
        const place *x = &places[i];
        double share = p->total > 0 ? all_of(x) / p->total : 0;
        weft_text_append(t, "<tr><td>");
        escape(t, x->name);
        weft_text_append(t, "<td class=n>%d<td class=n>%.1f<td class=n>%.1f<td class=n>%.1f<td class=n>%.1f %%",
                         x->steps, x->seconds[0] * 1e6, x->seconds[1] * 1e6, x->seconds[2] * 1e6, share * 100);
        weft_text_append(t,
                         "<td><svg width=200 height=10><rect width=\"%.1f\" height=10 fill=\"#f6c177\"/></svg></tr>\n",
                         share * 200);
    }
    weft_text_append(t, "</table></div>\n");
    free(places);
}

/* -- memory */

static void memory(const cli_profile_data *p, weft_text *t) {
    int64_t most = 1;
    double at = LEFT;
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].live > most) most = p->steps[i].live;
    weft_text_append(
        t,
        "<h2>Temporaries over a call</h2><svg width=%d height=%d><text x=0 y=14>%.2f MB</text><text x=0 y=%d>0</text>",
        WIDTH, HEIGHT + 20, (double)most * 1e-6, HEIGHT);
    for (int i = 0; i < p->count; i++) {
        const cli_profile_step *s = &p->steps[i];
        double width = p->total > 0 ? s->best / p->total * (double)(WIDTH - LEFT) : 0;
        double height = (double)s->live / (double)most * (double)(HEIGHT - 10);
        static const char *const colours[CLI_PROFILE_PARTS] = {"#9ccfd8", "#c9b1ea", "#bcdcae"};
        weft_text_append(t, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>", at,
                         (double)HEIGHT - height, width, height, colours[s->part]);
        weft_text_append(t, "step %d: ", i);
        escape(t, s->what);
        weft_text_append(t, ", %.2f MB</title></rect>", (double)s->live * 1e-6);
        at += width;
    }
    weft_text_append(t, "</svg><p>Time to the right; blue forward, violet backward, green updates.</p>\n");
}

static void norms(const cli_profile_data *p, weft_text *t) {
    if (!p->norm_count) return;
    weft_text_append(t, "<h2>Norms of gradients</h2><div class=scroll><table>\n");
    for (int i = 0; i < p->norm_count; i++) {
        double most = p->norms[0] > 0 ? p->norms[0] : 1;
        weft_text_append(t, "<tr><td>");
        escape(t, p->norm_names[i]);
        weft_text_append(
            t,
            "<td class=n>%.4g<td><svg width=200 height=10><rect width=\"%.1f\" height=10 fill=\"#f0a58f\"/></svg></tr>\n",
            p->norms[i], p->norms[i] / most * 200);
    }
    weft_text_append(t, "</table></div>\n");
}

static void steps(const cli_profile_data *p, weft_text *t) {
    static const char *const parts[CLI_PROFILE_PARTS] = {"forward", "backward", "update"};
    weft_text_append(
        t,
        "<h2>Steps</h2><div class=scroll><table><tr><th>step<th>kernel<th>node<th>part<th>us<th>share<th>GB/s<th>GFLOP/s<th>"
        "derivative of</tr>\n");
    for (int i = 0; i < p->count; i++) {
        const cli_profile_step *s = &p->steps[i];
        double seconds = s->best > 0 ? s->best : 1e-12;
        weft_text_append(t, "<tr><td class=n>%d<td>", i);
        escape(t, s->kernel);
        weft_text_append(t, "<td>");
        escape(t, s->what);
        weft_text_append(t, "<td>%s<td class=n>%.1f<td class=n>%.1f %%<td class=n>%.1f<td class=n>%.1f<td class=n>",
                         p->has_graph ? parts[s->part] : "", s->best * 1e6, p->total > 0 ? s->best / p->total * 100 : 0,
                         (double)s->bytes / seconds * 1e-9, s->operations / seconds * 1e-9);
        if (s->forward >= 0) weft_text_append(t, "%d", s->forward);
        weft_text_append(t, "</tr>\n");
    }
    weft_text_append(t, "</table></div>\n");
}

weft_status cli_profile_write_html(const cli_profile_data *p, const char *path) {
    weft_text t;
    weft_text_init(weft_allocator_system(), &t);
    weft_text_append(&t, "<!doctype html><html lang=en><meta charset=utf-8><title>profile</title>%s<h1>", style);
    escape(&t, p->frame->data->name);
    weft_text_append(&t, "</h1>\n");
    sentences(p, &t);
    by_place(p, &t);
    memory(p, &t);
    norms(p, &t);
    steps(p, &t);
    weft_text_append(&t, "</html>\n");
    weft_status status = weft_text_status(&t);
    if (!status) status = weft_file_write_all(weft_allocator_system(), path, weft_text_string(&t), t.length);
    weft_text_deinit(&t);
    return status;
}
