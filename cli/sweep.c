/* weft bench --dim-sweep NAME=LO..HI --specialized: what a program for all extents costs beside programs for one.

   Every size is called through the program of the sweep and through one that was compiled with NAME fixed to that size,
   in turns, so that whatever else the machine does meets both. Read next: runner.h. */
#include "cli/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, WARM = 3, SAMPLES_MAX = 4096 };
static const double round_seconds = 0.02;

typedef struct side {
    cli_arguments *arguments;
    cli_runner *runner;
    weft_tensor *outputs[CLI_VALUES_MAX];
    double samples[SAMPLES_MAX];
    int count;
} side;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls for about a fiftieth of a second, at least once. */
static weft_status run_side(side *s, weft_tensor *const *inputs) {
    double end = cli_now() + round_seconds;
    do {
        double start = cli_work_now(s->arguments);
        WEFT_TRY(cli_runner_call(s->runner, inputs, s->outputs), "calling");
        if (s->count < SAMPLES_MAX) s->samples[s->count++] = cli_work_now(s->arguments) - start;
    } while (cli_now() < end);
    return NULL;
}

static weft_status take_turns(side *sides, weft_tensor *const *inputs) {
    for (int i = 0; i < 2 * WARM; i++)
        WEFT_TRY(cli_runner_call(sides[i % 2].runner, inputs, sides[i % 2].outputs), "the first calls");
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++) WEFT_TRY(run_side(&sides[(i + round) % 2], inputs), "timing");
    for (int i = 0; i < 2; i++) qsort(sides[i].samples, (size_t)sides[i].count, sizeof(double), by_value);
    return NULL;
}

/* The same command with NAME fixed. */
static weft_status fix_extent(const cli_arguments *arguments, const char *name, const char *text, cli_arguments *out) {
    *out = *arguments;
    cli_value *dims = &out->values[cli_get(arguments, "dim") - arguments->values];
    int kept = 0;
    for (int i = 0; i < dims->count; i++) {
        bool same = !strncmp(dims->texts[i], name, strlen(name)) && dims->texts[i][strlen(name)] == '=';
        if (!same) dims->texts[kept++] = dims->texts[i];
    }
    if (kept == CLI_VALUES_MAX) return WEFT_STATUS(WEFT_OUT_OF_RANGE, "--dim is given too often");
    dims->texts[kept++] = text;
    dims->count = kept;
    return NULL;
}

static weft_status compare(cli_arguments *arguments, cli_runner *runner, const char *name, int64_t value, int count,
                           const cli_named_tensor *tensors, side *sides, double *out_ratio) {
    char text[64];
    weft_tensor *inputs[CLI_VALUES_MAX] = {0};
    cli_arguments *fixed = malloc(sizeof *fixed);
    cli_runner special = {0};
    if (!fixed) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a sweep");
    snprintf(text, sizeof text, "%s=%lld", name, (long long)value);
    memset(sides, 0, 2 * sizeof *sides);
    weft_status status = fix_extent(arguments, name, text, fixed);
    if (!status) status = cli_runner_open(fixed, count, tensors, &special);
    if (!status) status = cli_runner_inputs(arguments, runner, 0, count, tensors, name, value, inputs);
    sides[0].runner = runner, sides[1].runner = &special;
    sides[0].arguments = sides[1].arguments = arguments;
    if (!status) status = take_turns(sides, inputs);
    if (!status) {
        double general = sides[0].samples[sides[0].count / 2], special_time = sides[1].samples[sides[1].count / 2];
        double best = sides[0].samples[0] / sides[1].samples[0];
        cli_print("%s: all sizes %.4f ms, this size %.4f ms, ratio %.3f (of the fastest calls %.3f)\n", text,
                  general * 1e3, special_time * 1e3, general / special_time, best);
        *out_ratio = best;
    }
    for (int i = 0; i < 2; i++) cli_release_tensors(CLI_VALUES_MAX, sides[i].outputs);
    cli_release_tensors(runner->input_count, inputs);
    cli_runner_close(&special);
    free(fixed);
    return status;
}

/* `samples` sizes spread over the range by equal factors, both ends among them. */
static int64_t size_at(int64_t low, int64_t high, int64_t samples, int64_t i) {
    if (samples < 2 || samples > high - low) return low + i;
    double from = low > 0 ? (double)low : 1;
    int64_t size = llround(from * pow((double)high / from, (double)i / (double)(samples - 1)));
    return i == 0 ? low : i == samples - 1 ? high : size;
}

weft_status cli_sweep_specialized(cli_arguments *arguments, cli_runner *runner, const char *name, int64_t low,
                                  int64_t high, int count, const cli_named_tensor *tensors) {
    int64_t samples = cli_number(arguments, "samples", 0), worst_at = low, before = low - 1;
    if (samples < 1 || samples > high - low) samples = high - low + 1;
    side *sides = malloc(2 * sizeof *sides);
    if (!sides) return WEFT_STATUS(WEFT_OUT_OF_MEMORY, "a sweep");
    double worst = 0, sum = 0;
    int sizes = 0;
    weft_status status = NULL;
    for (int64_t i = 0; i < samples && !status; i++) {
        int64_t value = size_at(low, high, samples, i);
        double ratio = 0;
        if (value == before) continue;
        before = value;
        status = compare(arguments, runner, name, value, count, tensors, sides, &ratio);
        if (status) break;
        if (ratio > worst) worst = ratio, worst_at = value;
        sum += log(ratio), sizes++;
        fflush(stdout);
    }
    if (!status)
        cli_print("%d sizes, fastest calls: worst ratio %.3f at %s=%lld, geometric mean %.3f\n", sizes, worst, name,
                  (long long)worst_at, sizes ? exp(sum / sizes) : 0);
    free(sides);
    return status;
}
