/* weft bench --profile: which steps of a call take the time.

   Each step of the main region is timed on its own over many calls. "best" is the fastest of them, which other work on
   the machine disturbs least; shares are of the sum of the bests. Bytes count every buffer of a step once, whole: what
   would have to move if nothing stayed in a cache. Read next: runtime/frame.h. */
#include "cli/runner.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"

typedef struct row {
    int step;
    double best, sum; /* seconds */
} row;

typedef struct profile {
    const cli_arguments *arguments;
    row *rows;
    int count;
    double last; /* when the step before ended */
} profile;

static void observe(void *self, int step) {
    profile *p = self;
    double now = cli_work_now(p->arguments), took = now - p->last;
    row *r = &p->rows[step];
    if (r->best == 0 || took < r->best) r->best = took;
    r->sum += took;
    p->last = cli_work_now(p->arguments);
}

static int by_best(const void *a, const void *b) {
    const row *x = a, *y = b;
    return (x->best < y->best) - (x->best > y->best);
}

/* The kernel that a launch runs and the bytes of all its buffers. */
static const char *describe(const weft_frame *frame, const weft_resolved_step *resolved, int64_t *out_bytes) {
    static const char *const kinds[] = {"launch", "copy", "while", "cond", "read_dim", "loop"};
    const weft_step *step = resolved->step;
    *out_bytes = step->kind == WEFT_STEP_COPY ? 2 * resolved->count : 0;
    if (step->kind != WEFT_STEP_LAUNCH) return kinds[step->kind];
    for (int v = 0; v < step->variant_count; v++) {
        const weft_launch_variant *variant = &step->variants[v];
        if (variant->kernel != resolved->launch.kernel) continue;
        for (int i = 0; i < variant->buffer_count; i++) {
            bool seen = false;
            for (int j = 0; j < i; j++) seen |= variant->buffers[j] == variant->buffers[i];
            if (!seen) *out_bytes += frame->sizes[variant->buffers[i]];
        }
        break;
    }
    return frame->data->kernels[resolved->launch.kernel].name;
}

static void print(const weft_frame *frame, const profile *p, int calls) {
    const weft_resolved_region *region = &frame->regions[WEFT_REGION_MAIN];
    double total = 0;
    for (int i = 0; i < p->count; i++) total += p->rows[i].best;
    printf("%d calls; sum of the fastest times of %d steps: %.4f ms\n", calls, p->count, total * 1e3);
    printf("%8s %8s %6s %10s %7s %7s  %s\n", "best us", "mean us", "share", "KB", "GB/s", "blocks",
           "step, kernel, node");
    for (int i = 0; i < p->count; i++) {
        const row *r = &p->rows[i];
        const weft_resolved_step *resolved = &region->steps[r->step];
        int64_t bytes;
        const char *name = describe(frame, resolved, &bytes);
        bool launch = resolved->step->kind == WEFT_STEP_LAUNCH;
        printf("%8.1f %8.1f %5.1f%% %10.1f %7.1f %7lld  %d %s  %s\n", r->best * 1e6, r->sum / calls * 1e6,
               total > 0 ? r->best / total * 100 : 0, (double)bytes / 1024,
               r->best > 0 ? (double)bytes / r->best * 1e-9 : 0, launch ? (long long)resolved->launch.grid : 0LL,
               r->step, name, resolved->step->location ? resolved->step->location : "");
    }
}

weft_status cli_profile(cli_arguments *arguments, cli_runner *runner, weft_tensor *const *inputs) {
    if (!runner->session)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--profile needs an artifact: weft compile MODEL -o FILE.weft first");
    weft_frame *frame = &runner->session->frame;
    weft_tensor *outputs[CLI_VALUES_MAX] = {0};
    profile p = {.arguments = arguments, .count = frame->data->regions[WEFT_REGION_MAIN].count};
    p.rows = calloc((size_t)p.count + 1, sizeof *p.rows);
    if (!p.rows) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a profile");
    for (int i = 0; i < p.count; i++) p.rows[i].step = i;
    weft_status status = NULL;
    int calls = 0, wanted = (int)cli_number(arguments, "runs", 0);
    for (int i = 0; !status && i < 3; i++) status = cli_runner_call(runner, inputs, outputs);
    frame->observe = observe, frame->observe_self = &p;
    double end = cli_now() + 2.0;
    while (!status && (wanted > 0 ? calls < wanted : calls < 5 || cli_now() < end)) {
        p.last = cli_work_now(arguments);
        status = cli_runner_call(runner, inputs, outputs);
        calls++;
    }
    frame->observe = NULL;
    if (!status) {
        qsort(p.rows, (size_t)p.count, sizeof *p.rows, by_best);
        print(frame, &p, calls);
    }
    cli_release_tensors(CLI_VALUES_MAX, outputs);
    free(p.rows);
    return status;
}
