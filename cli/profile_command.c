/* weft profile: a model, or a training step from a configuration file. */
#include "cli/profile.h"

#include <stdlib.h>
#include <string.h>

#include "cli/runner.h"
#include "cli/train.h"

enum { ROWS = 15, NORM_STEPS = 3 };

static weft_status write_files(cli_arguments *arguments, const cli_profile_data *p) {
    const char *trace = cli_text(arguments, "trace", NULL), *dot = cli_text(arguments, "dot", NULL),
               *html = cli_text(arguments, "html", NULL);
    if (trace) WEFT_TRY(cli_profile_write_trace(p, trace), "writing the trace");
    if (dot) WEFT_TRY(cli_profile_write_dot(p, dot), "writing the graph");
    if (html) WEFT_TRY(cli_profile_write_html(p, html), "writing the page");
    return NULL;
}

static weft_status tell(cli_arguments *arguments, cli_profile_data *p) {
    weft_text words;
    WEFT_TRY(cli_profile_measure_copy(p), "profiling");
    cli_profile_print(p, ROWS);
    weft_text_init(weft_allocator_system(), &words);
    cli_profile_words(p, &words);
    weft_status status = weft_text_status(&words);
    if (!status) cli_print("\n%s", weft_text_string(&words));
    weft_text_deinit(&words);
    return status ? status : write_files(arguments, p);
}

/* -- a model */

typedef struct model_call {
    cli_runner *runner;
    weft_tensor *inputs[CLI_VALUES_MAX], *outputs[CLI_VALUES_MAX];
} model_call;

static weft_status call_model(void *self) {
    model_call *c = self;
    return cli_runner_call(c->runner, c->inputs, c->outputs);
}

static weft_status measure_model(cli_arguments *arguments, cli_runner *runner, model_call *call) {
    cli_profile_data p;
    weft_status status =
        cli_profile_measure(arguments, runner->session, call_model, call, (int)cli_number(arguments, "runs", 0), &p);
    if (!status && runner->graph) status = cli_profile_add_graph(&p, arguments->context, runner->graph);
    if (!status) status = tell(arguments, &p);
    cli_profile_release(&p);
    return status;
}

static weft_status profile_model(cli_arguments *arguments) {
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    cli_runner runner = {0};
    int count = 0;
    weft_status status = cli_read_inputs(arguments, tensors, &count);
    if (!status) status = cli_runner_open_ahead(arguments, count, tensors, &runner);
    model_call call = {.runner = &runner};
    if (!status) status = cli_runner_inputs(arguments, &runner, 0, count, tensors, NULL, 0, call.inputs);
    if (!status) status = measure_model(arguments, &runner, &call);
    cli_release_tensors(CLI_VALUES_MAX, call.inputs);
    cli_release_tensors(CLI_VALUES_MAX, call.outputs);
    cli_runner_close(&runner);
    cli_release_inputs(count, tensors);
    return status;
}

/* -- a training step */

typedef struct step_call {
    cli_train_phase *phase;
    int64_t batch;
    int output_count;
    weft_tensor **outputs;
} step_call;

static weft_status call_step(void *self) {
    step_call *c = self;
    weft_tensor *const *in;
    WEFT_TRY(weft_loader_get(c->phase->loader, c->batch++, &in), "a batch");
    return weft_session_call(c->phase->session, weft_program_input_count(c->phase->program), in, c->output_count,
                             c->outputs);
}

static weft_status begin_calls(cli_train_phase *phase, step_call *call) {
    *call = (step_call){.phase = phase, .output_count = weft_program_output_count(phase->program)};
    call->outputs = calloc((size_t)call->output_count + 1, sizeof *call->outputs);
    return call->outputs ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "outputs");
}

static void end_calls(step_call *call) {
    for (int i = 0; call->outputs && i < call->output_count; i++) weft_tensor_release(call->outputs[i]);
    free(call->outputs);
}

static void sort_norms(cli_profile_data *p) {
    for (int i = 1; i < p->norm_count; i++)
        for (int j = i; j > 0 && p->norms[j] > p->norms[j - 1]; j--) {
            double norm = p->norms[j];
            const char *name = p->norm_names[j];
            p->norms[j] = p->norms[j - 1], p->norm_names[j] = p->norm_names[j - 1];
            p->norms[j - 1] = norm, p->norm_names[j - 1] = name;
        }
}

/* The norms of the gradients in step NORM_STEPS; their names live as long as the phase. */
static weft_status read_norms(cli_train_phase *phase, cli_profile_data *p) {
    step_call call;
    weft_status status = begin_calls(phase, &call);
    for (int i = 0; !status && i < NORM_STEPS; i++) status = call_step(&call);
    for (int i = 0; !status && i < call.output_count && p->norm_count < CLI_PROFILE_NORMS_MAX; i++) {
        weft_port_info info;
        weft_program_output(phase->program, i, &info);
        if (strncmp(info.name, "norm/", 5) != 0 || info.dtype != WEFT_F32) continue;
        p->norm_names[p->norm_count] = info.name + 5;
        p->norms[p->norm_count++] = (double)*(const float *)weft_tensor_data(call.outputs[i]);
    }
    if (!status) sort_norms(p);
    end_calls(&call);
    return status;
}

static weft_status measure_step(cli_arguments *arguments, cli_train_phase *phase, cli_train_phase *norms) {
    step_call call;
    cli_profile_data p = {0};
    weft_status status = begin_calls(phase, &call);
    if (!status)
        status =
            cli_profile_measure(arguments, phase->session, call_step, &call, (int)cli_number(arguments, "runs", 0), &p);
    if (!status) status = cli_profile_add_graph(&p, arguments->context, phase->graph);
    if (!status) status = read_norms(norms, &p);
    if (!status) status = tell(arguments, &p);
    cli_profile_release(&p);
    end_calls(&call);
    return status;
}

static weft_status profile_training(cli_arguments *arguments) {
    cli_config config;
    cli_train_settings s;
    cli_train_data data = {0};
    cli_train_phase phase = {0}, norms = {0};
    WEFT_TRY(cli_config_read(arguments->positional[0], &config), "profiling");
    weft_status status = cli_train_read(&config, &s);
    if (!status) status = cli_train_open(arguments->context, &s, &data);
    if (!status) status = cli_train_begin(arguments->context, &s, &data, &phase, CLI_TRAIN_STEP);
    if (!status) status = cli_train_begin(arguments->context, &s, &data, &norms, CLI_TRAIN_NORMS);
    if (!status) status = measure_step(arguments, &phase, &norms);
    cli_train_end(&norms);
    cli_train_end(&phase);
    cli_train_close(&data);
    cli_config_release(&config);
    return status;
}

int cli_run_profile(cli_arguments *arguments) {
    if (arguments->positional_count != 1) return fprintf(stderr, "usage: weft profile MODEL|CONFIG.toml\n"), 2;
    const char *path = arguments->positional[0], *end = strrchr(path, '.');
    weft_status status = end && !strcmp(end, ".toml") ? profile_training(arguments) : profile_model(arguments);
    return status ? cli_fail(status) : 0;
}
