/* Times of the steps of a call, and the table of weft bench --profile.

   Each step of the main region is timed on its own over many calls. "best" is the fastest of them, which other work on
   the machine disturbs least; shares are of the sum of the bests. Bytes count every buffer of a step once, whole: what
   would have to move if nothing stayed in a cache. Read next: runtime/frame.h, profile_cost.c. */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "cli/runner.h"

static void observe(void *self, int step) {
    cli_profile_data *p = self;
    double now = cli_work_now(p->arguments), took = now - p->last;
    cli_profile_step *s = &p->steps[step];
    if (s->best == 0 || took < s->best) s->best = took;
    s->sum += took;
    p->last = cli_work_now(p->arguments);
}

/* The kernel that a launch runs and the bytes of all its buffers. */
static void describe(const weft_frame *frame, const weft_resolved_step *resolved, cli_profile_step *s) {
    static const char *const kinds[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
    const weft_step *step = resolved->step;
    const char *at = step->location ? strstr(step->location, " at ") : NULL;
    s->what = step->location ? step->location : "";
    s->place = at ? at + 4 : "";
    s->forward = -1;
    s->origin = "";
    s->bytes = step->kind == WEFT_STEP_COPY ? 2 * resolved->count : 0;
    s->kernel = kinds[step->kind];
    if (step->kind != WEFT_STEP_LAUNCH) return;
    s->kernel = frame->data->kernels[resolved->launch.kernel].name;
    s->blocks = resolved->launch.grid;
    for (int v = 0; v < step->variant_count; v++) {
        const weft_launch_variant *variant = &step->variants[v];
        if (variant->kernel != resolved->launch.kernel) continue;
        for (int i = 0; i < variant->buffer_count; i++) {
            bool seen = false;
            for (int j = 0; j < i; j++) seen |= variant->buffers[j] == variant->buffers[i];
            if (!seen) s->bytes += frame->sizes[variant->buffers[i]];
        }
        break;
    }
}

/* Moments and other companions of a parameter, NAME/m, do not name a step. */
static const char *parameter_of(const weft_program_data *data, const weft_step *step) {
    for (int i = 0; step->kind == WEFT_STEP_LAUNCH && i < step->variants[0].buffer_count; i++) {
        int b = step->variants[0].buffers[i];
        while (data->buffers[b].kind == WEFT_BUFFER_ALIAS) b = data->buffers[b].index;
        const weft_buffer *buffer = &data->buffers[b];
        const char *name = buffer->kind == WEFT_BUFFER_STATE ? data->states[buffer->index].name
                           : buffer->kind == WEFT_BUFFER_CONSTANT && strchr(buffer->name, '.') ? buffer->name
                                                                                               : NULL;
        if (name && !strchr(name, '/')) return name;
    }
    return "";
}

static void describe_all(cli_profile_data *p) {
    const weft_program_data *data = p->frame->data;
    for (int i = 0; i < p->count; i++) {
        cli_profile_step *s = &p->steps[i];
        describe(p->frame, &p->frame->regions[WEFT_REGION_MAIN].steps[i], s);
        for (int b = 0; b < data->buffer_count; b++) {
            const weft_buffer *buffer = &data->buffers[b];
            if (buffer->kind == WEFT_BUFFER_TEMP && buffer->first_step <= i && i <= buffer->last_step)
                s->live += p->frame->sizes[b];
        }
        s->parameter = parameter_of(data, &data->regions[WEFT_REGION_MAIN].steps[i]);
        p->total += s->best;
    }
}

weft_status cli_profile_measure(const cli_arguments *arguments, weft_session *session, cli_profile_call call,
                                void *self, int runs, cli_profile_data *p) {
    weft_frame *frame = &session->frame;
    *p = (cli_profile_data){
        .arguments = arguments, .frame = frame, .count = frame->data->regions[WEFT_REGION_MAIN].count};
    p->threads = arguments->context->thread_count;
    weft_arena_init(weft_allocator_system(), &p->arena);
    p->steps = calloc((size_t)p->count + 1, sizeof *p->steps);
    if (!p->steps) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a profile");
    for (int i = 0; i < p->count; i++) p->steps[i].step = i;
    weft_status status = NULL;
    for (int i = 0; !status && i < 3; i++) status = call(self);
    frame->observe = observe, frame->observe_self = p;
    double end = cli_now() + 2.0;
    while (!status && (runs > 0 ? p->calls < runs : p->calls < 5 || cli_now() < end)) {
        p->last = cli_work_now(arguments);
        status = call(self);
        p->calls++;
    }
    frame->observe = NULL;
    if (!status) describe_all(p);
    return status;
}

void cli_profile_release(cli_profile_data *p) {
    if (p->frame) weft_arena_deinit(&p->arena);
    free(p->steps);
    *p = (cli_profile_data){0};
}

static int by_best(const void *a, const void *b) {
    const cli_profile_step *x = *(const cli_profile_step *const *)a, *y = *(const cli_profile_step *const *)b;
    return x->best == y->best ? (x->step > y->step) - (x->step < y->step) : (x->best < y->best) - (x->best > y->best);
}

static void print_step(const cli_profile_data *p, const cli_profile_step *s) {
    static const char *const parts[CLI_PROFILE_PARTS] = {"", "backward ", "update "};
    double seconds = s->best > 0 ? s->best : 1e-12;
    cli_print("%8.1f %8.1f %5.1f%% %10.1f %7.1f ", s->best * 1e6, s->sum / p->calls * 1e6,
              p->total > 0 ? s->best / p->total * 100 : 0, (double)s->bytes / 1024, (double)s->bytes / seconds * 1e-9);
    if (p->has_graph) cli_print("%8.2f ", s->operations / seconds * 1e-9);
    cli_print("%7lld  %d %s  %s%s", (long long)s->blocks, s->step, s->kernel, p->has_graph ? parts[s->part] : "",
              s->what);
    if (s->parameter[0] && s->part != CLI_PROFILE_UPDATE) cli_print(", %s", s->parameter);
    cli_print("\n");
}

void cli_profile_print(const cli_profile_data *p, int limit) {
    const cli_profile_step **order = calloc((size_t)p->count + 1, sizeof *order);
    if (!order) return;
    for (int i = 0; i < p->count; i++) order[i] = &p->steps[i];
    qsort(order, (size_t)p->count, sizeof *order, by_best);
    cli_print("%d calls; sum of the fastest times of %d steps: %.4f ms\n", p->calls, p->count, p->total * 1e3);
    cli_print("%8s %8s %6s %10s %7s %s%7s  %s\n", "best us", "mean us", "share", "KB", "GB/s",
              p->has_graph ? "GFLOP/s  " : "", "blocks", "step, kernel, node");
    for (int i = 0; i < p->count && (limit <= 0 || i < limit); i++) print_step(p, order[i]);
    free(order);
}

/* -- weft bench --profile */

typedef struct bench_call {
    cli_runner *runner;
    weft_tensor *const *inputs;
    weft_tensor *outputs[CLI_VALUES_MAX];
} bench_call;

static weft_status call_runner(void *self) {
    bench_call *c = self;
    return cli_runner_call(c->runner, c->inputs, c->outputs);
}

weft_status cli_profile(cli_arguments *arguments, cli_runner *runner, weft_tensor *const *inputs) {
    if (!runner->session)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--profile needs an artifact: weft compile MODEL -o FILE.weft first");
    bench_call call = {.runner = runner, .inputs = inputs};
    cli_profile_data p;
    weft_status status =
        cli_profile_measure(arguments, runner->session, call_runner, &call, (int)cli_number(arguments, "runs", 0), &p);
    if (!status) cli_profile_print(&p, 0);
    cli_profile_release(&p);
    cli_release_tensors(CLI_VALUES_MAX, call.outputs);
    return status;
}
