/* A profile in sentences: where the time goes, what bounds the longest steps, when memory is fullest, which gradients
   are large. Limits: a step is bound by memory from 60 % of the speed of a copy on, by arithmetic from 60 % of the
   fastest step's; shorter than 5 us it is mostly its launch. Read next: profile_html.c. */
#include "cli/profile.h"

#include <stdlib.h>

enum { LONGEST = 6, ALIVE = 3 };
static const double much = 0.6, shortest = 5e-6;

static double rate(double amount, const cli_profile_step *s) { return s->best > 0 ? amount / s->best : 0; }

static double fastest_arithmetic(const cli_profile_data *p) {
    double most = 0;
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].best > shortest && rate(p->steps[i].operations, &p->steps[i]) > most)
            most = rate(p->steps[i].operations, &p->steps[i]);
    return most;
}

static const char *verdict(const cli_profile_data *p, const cli_profile_step *s, double arithmetic) {
    if (s->best < shortest) return "short: its launch counts for most of it";
    if (arithmetic > 1e9 && rate(s->operations, s) >= much * arithmetic) return "bound by arithmetic";
    if (p->copy_rate > 0 && rate((double)s->bytes, s) >= much * p->copy_rate) return "bound by memory";
    if (s->blocks > 0 && s->blocks < p->threads) return "fewer blocks than threads: some of them wait";
    return "at the speed of neither memory nor arithmetic: its kernel or its layout";
}

static void parts(const cli_profile_data *p, weft_text *t) {
    double sum[CLI_PROFILE_PARTS] = {0};
    for (int i = 0; i < p->count; i++) sum[p->steps[i].part] += p->steps[i].best;
    weft_text_append(t, "A call takes %.3f ms in %d steps (the fastest time of each", p->total * 1e3, p->count);
    double all = p->total > 0 ? p->total : 1;
    if (p->has_graph && (sum[1] > 0 || sum[2] > 0))
        weft_text_append(t, "): forward %.0f %%, backward %.0f %%, updates %.0f %%.\n", sum[0] / all * 100,
                         sum[1] / all * 100, sum[2] / all * 100);
    else
        weft_text_append(t, ").\n");
}

static int longest_but(const cli_profile_data *p, const bool *taken) {
    int found = -1;
    for (int i = 0; i < p->count; i++)
        if (!taken[i] && (found < 0 || p->steps[i].best > p->steps[found].best)) found = i;
    return found;
}

static void longest(const cli_profile_data *p, weft_text *t) {
    bool *taken = calloc((size_t)p->count + 1, sizeof *taken);
    double arithmetic = fastest_arithmetic(p);
    for (int n = 0; taken && n < LONGEST && n < p->count; n++) {
        int i = longest_but(p, taken);
        const cli_profile_step *s = &p->steps[i];
        taken[i] = true;
        if (s->best < 0.02 * p->total) break;
        weft_text_append(t, "%.0f %%: step %d, %s (%s", s->best / p->total * 100, i, s->kernel, s->what);
        if (s->parameter[0]) weft_text_append(t, ", %s", s->parameter);
        weft_text_append(t, ")");
        if (s->forward >= 0) weft_text_append(t, ", derivative of step %d", s->forward);
        weft_text_append(t, ": %.1f GB/s", rate((double)s->bytes, s) * 1e-9);
        if (s->operations > 0) weft_text_append(t, ", %.1f GFLOP/s", rate(s->operations, s) * 1e-9);
        weft_text_append(t, "; %s.\n", verdict(p, s, arithmetic));
    }
    free(taken);
}

static void short_steps(const cli_profile_data *p, weft_text *t) {
    int count = 0;
    double sum = 0;
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].best < shortest) count++, sum += p->steps[i].best;
    if (count > 1)
        weft_text_append(t, "%d steps are shorter than %.0f us: together %.0f %% of the time.\n", count, shortest * 1e6,
                         p->total > 0 ? sum / p->total * 100 : 0);
}

static void memory(const cli_profile_data *p, weft_text *t) {
    const weft_program_data *data = p->frame->data;
    int peak = 0;
    for (int i = 0; i < p->count; i++)
        if (p->steps[i].live > p->steps[peak].live) peak = i;
    if (!p->count || !p->steps[peak].live) return;
    weft_text_append(t, "Temporaries are largest in step %d (%s): %.2f MB", peak, p->steps[peak].what,
                     (double)p->steps[peak].live * 1e-6);
    int64_t below = INT64_MAX;
    for (int n = 0; n < ALIVE; n++) {
        int found = -1;
        for (int b = 0; b < data->buffer_count; b++) {
            const weft_buffer *buffer = &data->buffers[b];
            bool alive = buffer->kind == WEFT_BUFFER_TEMP && buffer->first_step <= peak && peak <= buffer->last_step;
            if (alive && p->frame->sizes[b] < below && (found < 0 || p->frame->sizes[b] > p->frame->sizes[found]))
                found = b;
        }
        if (found < 0) break;
        below = p->frame->sizes[found];
        const weft_buffer *buffer = &data->buffers[found];
        weft_text_append(t, "%s %.2f MB of step %d, %s, until %d", n ? ";" : "; of these", (double)below * 1e-6,
                         buffer->first_step, p->steps[buffer->first_step].what, buffer->last_step);
    }
    weft_text_append(t, ".\n");
}

static void norms(const cli_profile_data *p, weft_text *t) {
    if (!p->norm_count) return;
    int last = p->norm_count - 1;
    weft_text_append(t, "Norms of gradients: largest %.3g (%s), smallest %.3g (%s).\n", p->norms[0], p->norm_names[0],
                     p->norms[last], p->norm_names[last]);
}

void cli_profile_words(const cli_profile_data *p, weft_text *t) {
    parts(p, t);
    if (p->copy_rate > 0) weft_text_append(t, "A copy on one thread moves %.1f GB/s here.\n", p->copy_rate * 1e-9);
    longest(p, t);
    short_steps(p, t);
    memory(p, t);
    norms(p, t);
}
