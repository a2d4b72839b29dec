/* The loop: batch, step, metrics, evaluation, checkpoint. Invariant: after step n the session holds what n steps make
   of the initial states, whatever ran in how many processes. Read next: checkpoint.c, loader.c. */
#include "stdlib/train/metrics.h"

#include "base/need.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { NAMES_BYTES = 80, PORTS_MAX = WEFT_METRICS_MAX - 3 - WEFT_TRAIN_FURTHER_MAX, PATH_BYTES = 4096 };

typedef struct loop {
    weft_context *context;
    const weft_train_options *o;
    weft_metrics metrics;
    weft_tensor *outputs[PORTS_MAX];
    int output_count, further_count; /* further: outputs of evaluation behind its loss */
    char further_names[WEFT_TRAIN_FURTHER_MAX][NAMES_BYTES];
    double values[WEFT_METRICS_MAX]; /* as the columns: outputs, validation, further ones, seconds, steps per second */
    double started;
    int64_t first, best_step;
    double best;
} loop;

static double now(void) {
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double scalar_of(const weft_tensor *tensor) {
    const void *data = weft_tensor_data(tensor);
    if (weft_tensor_dtype(tensor) == WEFT_F64) return *(const double *)data;
    if (weft_tensor_dtype(tensor) == WEFT_I64) return (double)*(const int64_t *)data;
    return (double)*(const float *)data;
}

static weft_status check_outputs(const weft_program *program, int count) {
    for (int i = 0; i < count; i++) {
        weft_port_info info;
        weft_program_output(program, i, &info);
        if (info.rank != 0 || (info.dtype != WEFT_F32 && info.dtype != WEFT_F64 && info.dtype != WEFT_I64))
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output %s is no scalar of f32, f64 or i64; a step gives metrics",
                               info.name);
    }
    return NULL;
}

static weft_status check_options(const weft_train_options *o) {
    WEFT_NEED(o->program, "the program");
    WEFT_NEED(o->session, "the session");
    WEFT_NEED(o->loader, "the loader");
    if (o->steps < 0) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%lld steps", (long long)o->steps);
    int outputs = weft_program_output_count(o->program);
    if (outputs < 1 || outputs > PORTS_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a step has %d outputs; it may have 1 to %d", outputs, PORTS_MAX);
    WEFT_TRY(check_outputs(o->program, outputs), "training");
    if (!o->evaluation_program) return NULL;
    outputs = weft_program_output_count(o->evaluation_program);
    if (!o->evaluation_session || !o->evaluation_loader || outputs < 1 || outputs > 1 + WEFT_TRAIN_FURTHER_MAX)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "evaluation needs a session, a loader and a program with 1 to %d outputs",
                           1 + WEFT_TRAIN_FURTHER_MAX);
    return check_outputs(o->evaluation_program, outputs);
}

/* The names of the outputs live as long as the program. */
static weft_status open_metrics(loop *l) {
    const char *names[WEFT_METRICS_MAX];
    int count = l->output_count;
    for (int i = 0; i < count; i++) {
        weft_port_info info;
        weft_program_output(l->o->program, i, &info);
        names[i] = info.name;
    }
    names[count++] = "validation";
    for (int i = 0; i < l->further_count; i++) {
        weft_port_info info;
        weft_program_output(l->o->evaluation_program, 1 + i, &info);
        snprintf(l->further_names[i], NAMES_BYTES, "validation_%s", info.name);
        names[count++] = l->further_names[i];
    }
    names[count++] = "seconds";
    names[count++] = "steps_per_second";
    return weft_metrics_open(l->context, l->o->folder, l->first, count, names, &l->metrics);
}

static weft_status evaluate(loop *l, int64_t step) {
    const weft_train_options *o = l->o;
    int64_t batches = o->evaluation_batches > 0 ? o->evaluation_batches : 1;
    int64_t first = o->evaluate_anew ? step * batches : 0;
    int outputs = 1 + l->further_count;
    double sums[1 + WEFT_TRAIN_FURTHER_MAX] = {0};
    weft_tensor *out[1 + WEFT_TRAIN_FURTHER_MAX] = {0};
    WEFT_TRY(weft_session_copy_states(o->session, o->evaluation_session), "evaluation");
    weft_status status = NULL;
    for (int64_t i = 0; i < batches && !status; i++) {
        weft_tensor *const *in;
        status = weft_loader_get(o->evaluation_loader, first + i, &in);
        if (!status)
            status = weft_session_call(o->evaluation_session, weft_program_input_count(o->evaluation_program), in,
                                       outputs, out);
        for (int j = 0; j < outputs && !status; j++) sums[j] += scalar_of(out[j]);
    }
    for (int j = 0; j < outputs; j++) weft_tensor_release(out[j]);
    double mean = sums[0] / (double)batches;
    if (!status && !isfinite(mean))
        status = WEFT_STATUS(WEFT_OUT_OF_RANGE, "the validation loss after step %lld is %g", (long long)step, mean);
    if (!status && !(mean >= l->best)) l->best = mean, l->best_step = step; /* the first one too: best is NaN then */
    for (int j = 0; j < outputs; j++) l->values[l->output_count + j] = sums[j] / (double)batches;
    return weft_status_annotate(status, __FILE__, __LINE__, "evaluation");
}

static bool is_due(int64_t step, int64_t every, int64_t steps) {
    return step == steps || (every > 0 && step % every == 0);
}

static weft_status one_step(loop *l, int64_t step) {
    const weft_train_options *o = l->o;
    weft_tensor *const *in;
    WEFT_TRY(weft_loader_get(o->loader, step - 1, &in), "step %lld", (long long)step);
    WEFT_TRY(weft_session_call(o->session, weft_program_input_count(o->program), in, l->output_count, l->outputs),
             "step %lld", (long long)step);
    for (int i = 0; i < l->output_count; i++) l->values[i] = scalar_of(l->outputs[i]);
    if (!isfinite(l->values[0]))
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "the loss of step %lld is %g", (long long)step, l->values[0]);
    return NULL;
}

/* Evaluation has its columns in rows of steps that it followed. */
static weft_status write_row(loop *l, int64_t step, bool evaluated, const weft_train_progress *progress) {
    double values[WEFT_METRICS_MAX];
    int behind = l->output_count + 1 + l->further_count;
    for (int i = 0; i < behind; i++) values[i] = i < l->output_count || evaluated ? l->values[i] : NAN;
    values[behind] = progress->seconds;
    values[behind + 1] = progress->steps_per_second;
    return weft_metrics_write(&l->metrics, step, values);
}

/* What follows a step. *out_go: the callback wants more. */
static weft_status after_step(loop *l, int64_t step, bool *out_go) {
    const weft_train_options *o = l->o;
    double seconds = now() - l->started;
    weft_train_progress progress = {.step = step,
                                    .steps = o->steps,
                                    .loss = l->values[0],
                                    .seconds = seconds,
                                    .steps_per_second = (double)(step - l->first) / (seconds > 0 ? seconds : 1e-9)};
    bool evaluated = o->evaluation_program && is_due(step, o->evaluate_every, o->steps);
    if (evaluated) WEFT_TRY(evaluate(l, step), "step %lld", (long long)step);
    progress.validation = l->values[l->output_count];
    *out_go = !o->progress || o->progress(o->progress_self, &progress);
    if (!o->folder) return NULL;
    if (evaluated || is_due(step, o->log_every > 0 ? o->log_every : 10, o->steps)) {
        WEFT_TRY(write_row(l, step, evaluated, &progress), "step %lld", (long long)step);
    }
    if (!is_due(step, o->checkpoint_every, o->steps) && *out_go) return NULL;
    return weft_checkpoint_write(l->context, o->program, o->session, o->folder, step,
                                 o->checkpoint_keep > 0 ? o->checkpoint_keep : 3);
}

static weft_status write_report(const loop *l) {
    char csv[PATH_BYTES], html[PATH_BYTES];
    snprintf(csv, sizeof csv, "%s/metrics.csv", l->o->folder);
    snprintf(html, sizeof html, "%s/report.html", l->o->folder);
    return weft_train_report(l->context, csv, html);
}

static weft_status run(loop *l, weft_train_result *result) {
    const weft_train_options *o = l->o;
    if (o->folder && strlen(o->folder) > PATH_BYTES - 64)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "the name of the folder is too long");
    if (o->folder && o->resume)
        WEFT_TRY(weft_checkpoint_read(l->context, o->program, o->session, o->folder, &l->first), "resuming");
    if (o->folder) WEFT_TRY(open_metrics(l), "training");
    result->first_step = result->steps = l->first;
    bool go = true;
    for (int64_t step = l->first + 1; step <= o->steps && go; step++) {
        WEFT_TRY(one_step(l, step), "training");
        WEFT_TRY(after_step(l, step, &go), "training");
        result->steps = step;
    }
    return o->folder ? write_report(l) : NULL;
}

weft_status weft_train(weft_context *context, const weft_train_options *options, weft_train_result *out_result) {
    WEFT_NEED(out_result, "out_result");
    weft_train_options own = WEFT_TRAIN_OPTIONS_INIT;
    loop l = {.context = context, .o = &own, .started = now(), .best = NAN};
    *out_result = (weft_train_result){.validation = NAN, .loss = NAN, .best_validation = NAN};
    WEFT_NEED(context, "the context");
    WEFT_NEED(options, "the options");
    WEFT_TRY(WEFT_OPTIONS_READ(own, options, WEFT_TRAIN_OPTIONS_INIT), "training");
    WEFT_TRY(check_options(&own), "training");
    l.output_count = weft_program_output_count(own.program);
    if (own.evaluation_program) l.further_count = weft_program_output_count(own.evaluation_program) - 1;
    l.values[0] = NAN;
    for (int i = 0; i <= l.further_count; i++) l.values[l.output_count + i] = NAN;
    weft_status status = run(&l, out_result), closed = weft_metrics_close(&l.metrics);
    for (int i = 0; i < l.output_count; i++) weft_tensor_release(l.outputs[i]);
    out_result->loss = l.values[0];
    out_result->validation = l.values[l.output_count];
    for (int i = 0; i < WEFT_TRAIN_FURTHER_MAX; i++)
        out_result->further[i] = i < l.further_count ? l.values[l.output_count + 1 + i] : NAN;
    out_result->best_validation = l.best;
    out_result->best_step = l.best_step;
    out_result->seconds = now() - l.started;
    if (!status) return closed;
    weft_status_release(closed);
    return status;
}
