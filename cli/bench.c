/* weft bench: medians of calls, of loading, and of a sweep over one extent. */
#include "cli/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"

enum { SAMPLES_MAX = 100000 };
static const double default_seconds = 2.0;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct summary {
    int runs;
    double median, low, high; /* seconds; low and high: 10th and 90th percentile */
    double device;            /* median of what the device's steps took; 0 = not known */
} summary;

static summary summarise(double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    return (summary){count, samples[count / 2], samples[count / 10], samples[count - 1 - count / 10], 0};
}

/* Apart from the other runs: marks cost a little. */
static weft_status time_device(cli_runner *runner, weft_tensor *const *inputs, weft_tensor **outputs, double *samples,
                               double *out_median) {
    runner->session->timed = true;
    weft_status status = NULL;
    int count = 0;
    for (; !status && count < 50; count++) {
        status = cli_runner_call(runner, inputs, outputs);
        samples[count] = runner->session->device_ns / 1e9;
    }
    runner->session->timed = false;
    *out_median = status ? 0 : summarise(samples, count).median;
    return status;
}

static weft_status time_calls(cli_runner *runner, weft_tensor *const *inputs, int runs, summary *out,
                              double *out_first) {
    double *samples = malloc(SAMPLES_MAX * sizeof *samples), end = 0;
    if (!samples) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "timing");
    weft_tensor *outputs[CLI_VALUES_MAX] = {0};
    int count = 0;
    weft_status status = NULL;
    for (int i = -3; !status && (runs > 0 ? i < runs : i < 5 || cli_now() < end) && count < SAMPLES_MAX; i++) {
        double start = cli_now();
        status = cli_runner_call(runner, inputs, outputs); /* from the second call on outputs are written in place */
        double took = cli_now() - start;
        if (i == -3) *out_first = took, end = start + took + default_seconds;
        if (i >= 0) samples[count++] = took;
    }
    if (!status) *out = summarise(samples, count);
    if (!status && runner->session) status = time_device(runner, inputs, outputs, samples, &out->device);
    cli_release_tensors(CLI_VALUES_MAX, outputs);
    free(samples);
    return status;
}

static void print_summary(const cli_arguments *arguments, const char *what, summary s, double first) {
    if (cli_flag(arguments, "json"))
        printf(
            "{\"what\": \"%s\", \"runs\": %d, \"median_ms\": %.6f, \"p10_ms\": %.6f, \"p90_ms\": %.6f, \"first_ms\": %.6f, \"device_ms\": %.6f}\n",
            what, s.runs, s.median * 1e3, s.low * 1e3, s.high * 1e3, first * 1e3, s.device * 1e3);
    else
        printf("%s: median %.4f ms (p10 %.4f, p90 %.4f, %d runs), first call %.2f ms", what, s.median * 1e3,
               s.low * 1e3, s.high * 1e3, s.runs, first * 1e3);
    if (!cli_flag(arguments, "json") && s.device > 0) printf(", on the device %.4f ms", s.device * 1e3);
    if (!cli_flag(arguments, "json")) printf("\n");
}

/* NAME=LO..HI */
static weft_status parse_sweep(const char *text, char *name, size_t capacity, long long *low, long long *high) {
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= capacity || sscanf(equals + 1, "%lld..%lld", low, high) != 2 ||
        *low < 0 || *high < *low)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "\"%s\": expected NAME=LO..HI", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    return NULL;
}

static weft_status sweep(cli_arguments *arguments, cli_runner *runner, int count, const cli_named_tensor *tensors) {
    char name[32];
    long long low, high, limit = cli_number(arguments, "expect-compiles", -1);
    WEFT_TRY(parse_sweep(cli_text(arguments, "dim-sweep", ""), name, sizeof name, &low, &high), "--dim-sweep");
    bool known = false;
    for (int i = 0; i < runner->input_count; i++)
        for (int d = 0; d < runner->inputs[i].rank; d++)
            known |= runner->inputs[i].shape[d] < 0 && !strcmp(runner->inputs[i].symbols[d], name);
    if (!known)
        return WEFT_STATUS(WEFT_NOT_FOUND,
                           "no input has an extent named %s; `weft inspect --wir MODEL` shows the symbols", name);
    if (cli_flag(arguments, "specialized"))
        return cli_sweep_specialized(arguments, runner, name, low, high, count, tensors);
    cli_progress progress;
    cli_progress_start(&progress, "sweep");
    for (long long value = low; value <= high; value++) {
        weft_tensor *inputs[CLI_VALUES_MAX] = {0};
        summary s;
        double first;
        WEFT_TRY(cli_runner_inputs(arguments, runner, 0, count, tensors, name, value, inputs), "%s=%lld", name, value);
        weft_status status = time_calls(runner, inputs, (int)cli_number(arguments, "runs", 20), &s, &first);
        cli_release_tensors(runner->input_count, inputs);
        WEFT_TRY(status, "%s=%lld", name, value);
        char what[64];
        snprintf(what, sizeof what, "%s=%lld", name, value);
        cli_progress_end(&progress);
        print_summary(arguments, what, s, first);
        cli_progress_at(&progress, value - low + 1, high - low + 1, what);
    }
    cli_progress_end(&progress);
    int compiles = runner->function ? weft_function_compile_count(runner->function) : 0;
    printf("compiles: %d\n", compiles);
    if (limit >= 0 && compiles > limit)
        return WEFT_STATUS(WEFT_OUT_OF_RANGE, "the sweep compiled %d times, expected at most %lld", compiles, limit);
    return NULL;
}

/* First call of a fresh load, minus the steady median. */
static weft_status time_load(cli_arguments *arguments, int count, const cli_named_tensor *tensors) {
    enum { LOADS = 9 };
    double loads[LOADS], firsts[LOADS];
    summary steady = {0};
    for (int i = 0; i < LOADS; i++) {
        cli_runner runner = {0};
        weft_tensor *inputs[CLI_VALUES_MAX] = {0};
        double start = cli_now();
        WEFT_TRY(cli_runner_open(arguments, count, tensors, &runner), "loading");
        loads[i] = cli_now() - start;
        weft_status status = cli_runner_inputs(arguments, &runner, 0, count, tensors, NULL, 0, inputs);
        if (!status) status = time_calls(&runner, inputs, 20, &steady, &firsts[i]);
        cli_release_tensors(CLI_VALUES_MAX, inputs);
        cli_runner_close(&runner);
        WEFT_TRY(status, "calling");
    }
    print_summary(arguments, "load", summarise(loads, LOADS), 0);
    summary first = summarise(firsts, LOADS);
    print_summary(arguments, "first call", first, 0);
    first.median -= steady.median, first.low -= steady.median, first.high -= steady.median;
    print_summary(arguments, "first call minus steady median", first, 0);
    return NULL;
}

int cli_run_bench(cli_arguments *arguments) {
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    cli_runner runner = {0};
    int count = 0;
    weft_status status = cli_read_inputs(arguments, tensors, &count);
    if (!status && cli_flag(arguments, "load")) {
        status = time_load(arguments, count, tensors);
    } else if (!status) {
        status = cli_runner_open(arguments, count, tensors, &runner);
        if (!status && cli_text(arguments, "dim-sweep", NULL)) {
            status = sweep(arguments, &runner, count, tensors);
        } else if (!status) {
            summary s;
            double first;
            status = cli_runner_inputs(arguments, &runner, 0, count, tensors, NULL, 0, inputs);
            bool profile = cli_flag(arguments, "profile");
            if (!status && profile) status = cli_profile(arguments, &runner, inputs);
            if (!status && !profile)
                status = time_calls(&runner, inputs, (int)cli_number(arguments, "runs", 0), &s, &first);
            if (!status && !profile) print_summary(arguments, "call", s, first);
        }
    }
    cli_release_tensors(CLI_VALUES_MAX, inputs);
    cli_runner_close(&runner);
    cli_release_inputs(count, tensors);
    return status ? cli_fail(status) : 0;
}
