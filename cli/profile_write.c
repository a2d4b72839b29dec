/* A profile for other programs: events as chrome://tracing and Perfetto read them (steps one after the other by their
   fastest times, arrows from a step to its derivative, temporaries as a counter), and a graph for Graphviz. Source: the
   Trace Event Format; the DOT language. */
#include "cli/profile.h"

#include <string.h>

#include "base/file.h"

static const char *const part_names[CLI_PROFILE_PARTS] = {"forward", "backward", "update"};

static weft_status write_text(weft_text *t, const char *path) {
    weft_status status = weft_text_status(t);
    if (!status) status = weft_file_write_all(weft_allocator_system(), path, weft_text_string(t), t->length);
    weft_text_deinit(t);
    return status;
}

static void quoted(weft_text *t, const char *text) { weft_text_append_quoted(t, text, strlen(text)); }

static void event_of(const cli_profile_step *s, double at_us, weft_text *t) {
    weft_text_append(t, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"cat\":\"%s\",\"name\":",
                     s->part + 1, at_us, s->best * 1e6, part_names[s->part]);
    quoted(t, s->kernel);
    weft_text_append(t, ",\"args\":{\"step\":%d,\"node\":", s->step);
    quoted(t, s->what);
    weft_text_append(t, ",\"parameter\":");
    quoted(t, s->parameter);
    weft_text_append(t, ",\"bytes\":%lld,\"operations\":%.0f,\"blocks\":%lld", (long long)s->bytes, s->operations,
                     (long long)s->blocks);
    if (s->forward >= 0) weft_text_append(t, ",\"derivative_of\":%d", s->forward);
    weft_text_append(t, "}},\n{\"ph\":\"C\",\"pid\":1,\"ts\":%.3f,\"name\":\"temporaries\",\"args\":{\"bytes\":%lld}}",
                     at_us, (long long)s->live);
}

/* When the steps before begin, in us. */
static double begin_of(const cli_profile_data *p, int step) {
    double at = 0;
    for (int i = 0; i < step; i++) at += p->steps[i].best * 1e6;
    return at;
}

static void arrow(const cli_profile_data *p, int from, int to, double at, weft_text *t) {
    const char *shared = "\"cat\":\"derivative\",\"name\":\"derivative\",\"pid\":1";
    weft_text_append(t, ",\n{\"ph\":\"s\",\"id\":%d,%s,\"tid\":1,\"ts\":%.3f}", to, shared, begin_of(p, from));
    weft_text_append(t, ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%d,%s,\"tid\":%d,\"ts\":%.3f}", to, shared,
                     p->steps[to].part + 1, at);
}

weft_status cli_profile_write_trace(const cli_profile_data *p, const char *path) {
    weft_text t;
    double at = 0;
    weft_text_init(weft_allocator_system(), &t);
    weft_text_append(
        &t,
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":");
    quoted(&t, p->frame->data->name);
    weft_text_append(&t, "}}");
    for (int i = 0; i < CLI_PROFILE_PARTS; i++)
        weft_text_append(&t,
                         ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                         i + 1, part_names[i]);
    for (int i = 0; i < p->count; i++) {
        event_of(&p->steps[i], at, &t);
        if (p->steps[i].forward >= 0) arrow(p, p->steps[i].forward, i, at, &t);
        at += p->steps[i].best * 1e6;
    }
    weft_text_append(&t, "\n]}\n");
    return write_text(&t, path);
}

static int root_of(const weft_program_data *data, int buffer) {
    while (data->buffers[buffer].kind == WEFT_BUFFER_ALIAS) buffer = data->buffers[buffer].index;
    return buffer;
}

/* Edges from the step that makes a temporary to those that have it. */
static void edges(const cli_profile_data *p, int step, weft_text *t) {
    const weft_program_data *data = p->frame->data;
    const weft_step *s = &data->regions[WEFT_REGION_MAIN].steps[step];
    bool launch = s->kind == WEFT_STEP_LAUNCH;
    const int *buffers = launch ? s->variants[0].buffers : s->buffers;
    int count = launch ? s->variants[0].buffer_count : s->kind == WEFT_STEP_COPY ? 2 : 0;
    for (int i = 0; i < count; i++) {
        const weft_buffer *buffer = &data->buffers[root_of(data, buffers[i])];
        if (buffer->kind == WEFT_BUFFER_TEMP && buffer->first_step >= 0 && buffer->first_step < step)
            weft_text_append(t, "  s%d -> s%d [label=\"%.1f KB\"];\n", buffer->first_step, step,
                             (double)p->frame->sizes[root_of(data, buffers[i])] / 1024);
    }
    if (p->steps[step].forward >= 0)
        weft_text_append(t, "  s%d -> s%d [style=dashed, color=\"#8866aa\", constraint=false];\n",
                         p->steps[step].forward, step);
}

static double norm_of(const cli_profile_data *p, const weft_step *step) {
    const weft_program_data *data = p->frame->data;
    for (int i = 0; step->kind == WEFT_STEP_LAUNCH && i < step->variants[0].buffer_count; i++) {
        const weft_buffer *buffer = &data->buffers[root_of(data, step->variants[0].buffers[i])];
        if (buffer->kind != WEFT_BUFFER_STATE) continue;
        for (int n = 0; n < p->norm_count; n++)
            if (!strcmp(p->norm_names[n], data->states[buffer->index].name)) return p->norms[n];
    }
    return -1;
}

weft_status cli_profile_write_dot(const cli_profile_data *p, const char *path) {
    weft_text t;
    weft_text_init(weft_allocator_system(), &t);
    weft_text_append(&t, "digraph profile {\n  node [shape=box, style=filled, fontsize=10];\n");
    for (int i = 0; i < p->count; i++) {
        const cli_profile_step *s = &p->steps[i];
        char label[400];
        double share = p->total > 0 ? s->best / p->total : 0, heat = share > 0.1 ? 1 : share * 10;
        double norm = norm_of(p, &p->frame->data->regions[WEFT_REGION_MAIN].steps[i]);
        int length = snprintf(label, sizeof label, "%d %.100s\n%.150s\n%.1f us, %.1f %%", i, s->kernel, s->what,
                              s->best * 1e6, share * 100);
        if (norm >= 0 && length > 0 && length < (int)sizeof label)
            snprintf(label + length, sizeof label - (size_t)length, "\ngradient %.3g", norm);
        weft_text_append(&t, "  s%d [label=", i);
        quoted(&t, label); /* \n inside is what DOT breaks lines with */
        weft_text_append(&t, ", fillcolor=\"0.08 %.3f 1.0\"];\n", heat);
        edges(p, i, &t);
    }
    weft_text_append(&t, "}\n");
    return write_text(&t, path);
}
