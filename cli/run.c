/* weft run: one call of a model. */
#include "cli/runner.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "weft/npy.h"

static void describe_tensor(const char *name, const weft_tensor *tensor) {
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t count = weft_tensor_element_count(tensor);
    weft_dtype dtype = weft_tensor_dtype(tensor);
    for (int64_t i = 0; i < count; i++) {
        double x = weft_dtype_is_float(dtype) ? weft_element_double(dtype, weft_tensor_data(tensor), i)
                                              : (double)weft_element_i64(dtype, weft_tensor_data(tensor), i);
        low = fmin(low, x), high = fmax(high, x), sum += x;
    }
    cli_print("%s: %s[", name, weft_dtype_name(dtype));
    for (int i = 0; i < weft_tensor_rank(tensor); i++)
        cli_print("%s%lld", i ? ", " : "", (long long)weft_tensor_shape(tensor)[i]);
    cli_print("]");
    if (count) cli_print(" min %.6g max %.6g mean %.6g", low, high, sum / (double)count);
    cli_print("\n");
}

/* Number of earlier options for the same name: repeated options belong to successive calls. */
static int call_of(const cli_value *list, int at) {
    int call = 0;
    const char *equals = strchr(list->texts[at], '=');
    size_t length = equals ? (size_t)(equals - list->texts[at]) + 1 : 0;
    for (int i = 0; i < at; i++) call += length && !strncmp(list->texts[i], list->texts[at], length);
    return call;
}

static weft_status write_outputs(cli_arguments *arguments, const cli_runner *runner, int call, weft_tensor **outputs) {
    const cli_value *files = cli_get(arguments, "output");
    for (int i = 0; i < files->count; i++) {
        const char *equals = strchr(files->texts[i], '=');
        int at = 0;
        if (!equals) return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "\"%s\": expected NAME=FILE.npy", files->texts[i]);
        if (call_of(files, i) != call) continue;
        size_t length = (size_t)(equals - files->texts[i]);
        while (at < runner->output_count && (strlen(runner->outputs[at].name) != length ||
                                             strncmp(runner->outputs[at].name, files->texts[i], length) != 0))
            at++;
        if (at == runner->output_count)
            return WEFT_STATUS(WEFT_NOT_FOUND, "there is no output \"%.*s\"", (int)length, files->texts[i]);
        WEFT_TRY(weft_npy_write(arguments->context, equals + 1, outputs[at]), "writing output %s",
                 runner->outputs[at].name);
    }
    return NULL;
}

static weft_status call_once(cli_arguments *arguments, cli_runner *runner, int call, int count,
                             const cli_named_tensor *tensors) {
    weft_tensor *inputs[CLI_VALUES_MAX] = {0}, *outputs[CLI_VALUES_MAX] = {0};
    weft_status status = cli_runner_inputs(arguments, runner, call, count, tensors, NULL, 0, inputs);
    if (!status) status = cli_runner_call(runner, inputs, outputs);
    if (!status) status = write_outputs(arguments, runner, call, outputs);
    for (int i = 0; !status && i < runner->output_count; i++) describe_tensor(runner->outputs[i].name, outputs[i]);
    cli_release_tensors(CLI_VALUES_MAX, inputs);
    cli_release_tensors(CLI_VALUES_MAX, outputs);
    return status;
}

int cli_run_run(cli_arguments *arguments) {
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    cli_runner runner = {0};
    int count = 0, calls = 1;
    const cli_value *given = cli_get(arguments, "input"), *written = cli_get(arguments, "output");
    for (int i = 0; i < given->count; i++) calls = call_of(given, i) + 1 > calls ? call_of(given, i) + 1 : calls;
    weft_status status = cli_read_inputs(arguments, tensors, &count);
    if (!status) status = cli_runner_open(arguments, count, tensors, &runner);
    for (int i = 0; i < written->count && !status; i++)
        if (call_of(written, i) >= calls)
            status = WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                                 "--output %s: there is no call %d: %d made, one for each --input of a name",
                                 written->texts[i], call_of(written, i) + 1, calls);
    for (int call = 0; call < calls && !status; call++) status = call_once(arguments, &runner, call, count, tensors);
    cli_runner_close(&runner);
    cli_release_inputs(count, tensors);
    return status ? cli_fail(status) : 0;
}
