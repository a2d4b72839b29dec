/* Which rate to train with: a run whose rate grows from step to step, the loss smoothed, the rate where it falls
   fastest. Source: Smith 2017, section 3.3, in the form of the range test that is common now: exponential growth, an
   average with bias correction, the end where the loss is four times its least, the steepest descent over the logarithm
   of the rate. */
#include "weft/train.h"

#include "base/need.h"

#include <math.h>
#include <string.h>

enum { SKIP_FIRST = 10, SKIP_LAST = 1, OUTPUTS_MAX = 32 };
static const double smoothing = 0.98, too_much = 4;

/* Central differences, one-sided at the ends. */
static double slope(const double *losses, int64_t first, int64_t end, int64_t i) {
    int64_t low = i > first ? i - 1 : i, high = i + 1 < end ? i + 1 : i;
    return high > low ? (losses[high] - losses[low]) / (double)(high - low) : 0;
}

double weft_train_suggest_rate(int64_t count, const double *rates, const double *losses) {
    int64_t first = SKIP_FIRST, end = count - SKIP_LAST, found = -1;
    if (!rates || !losses || end - first < 2) return NAN;
    for (int64_t i = first; i < end; i++)
        if (found < 0 || slope(losses, first, end, i) < slope(losses, first, end, found)) found = i;
    return rates[found];
}

static double scalar_of(const weft_tensor *tensor) {
    const void *data = weft_tensor_data(tensor);
    return weft_tensor_dtype(tensor) == WEFT_F64 ? *(const double *)data : (double)*(const float *)data;
}

static weft_status find_rate_output(const weft_program *program, int *out_index) {
    int outputs = weft_program_output_count(program);
    *out_index = -1;
    for (int i = 0; i < outputs && i < OUTPUTS_MAX; i++) {
        weft_port_info info;
        weft_program_output(program, i, &info);
        bool fits = info.rank == 0 && (info.dtype == WEFT_F32 || info.dtype == WEFT_F64);
        if (i == 0 && !fits) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "output 0 is no loss: a scalar of f32 or f64");
        if (fits && !strcmp(info.name, "rate")) *out_index = i;
    }
    if (outputs <= OUTPUTS_MAX && *out_index > 0) return NULL;
    return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "a search for a rate needs a scalar output \"rate\" behind the loss");
}

static weft_status search(weft_program *program, weft_session *session, weft_loader *loader, int64_t steps,
                          double *rates, double *losses, weft_tensor **outputs, int64_t *out_count) {
    double average = 0, best = INFINITY;
    int rate, inputs = weft_program_input_count(program);
    WEFT_TRY(find_rate_output(program, &rate), "searching a rate");
    for (int64_t step = 0; step < steps; step++) {
        weft_tensor *const *in;
        WEFT_TRY(weft_loader_get(loader, step, &in), "step %lld", (long long)step);
        WEFT_TRY(weft_session_call(session, inputs, in, weft_program_output_count(program), outputs), "step %lld",
                 (long long)step);
        average = smoothing * average + (1 - smoothing) * scalar_of(outputs[0]);
        double smooth = average / (1 - pow(smoothing, (double)(step + 1)));
        rates[step] = scalar_of(outputs[rate]);
        losses[step] = smooth;
        *out_count = step + 1;
        if (!isfinite(smooth) || (step > 0 && smooth > too_much * best)) return NULL;
        if (smooth < best) best = smooth;
    }
    return NULL;
}

weft_status weft_train_find_rate(weft_program *program, weft_session *session, weft_loader *loader, int64_t steps,
                                 double *rates, double *losses, int64_t *out_count, double *out_rate) {
    WEFT_NEED(out_count, "out_count");
    WEFT_NEED(out_rate, "out_rate");
    *out_count = 0, *out_rate = NAN;
    WEFT_NEED(program && session && loader, "the program, the session or the loader");
    WEFT_NEED(rates && losses, "the place for rates and losses");
    weft_tensor *outputs[OUTPUTS_MAX] = {0};
    weft_status status = search(program, session, loader, steps, rates, losses, outputs, out_count);
    for (int i = 0; i < OUTPUTS_MAX; i++) weft_tensor_release(outputs[i]);
    if (!status) *out_rate = weft_train_suggest_rate(*out_count, rates, losses);
    return status;
}
