/* See runner.h. */
#include "cli/runner.h"

#include <stdlib.h>
#include <string.h>

#include "base/dim.h"
#include "base/text.h"
#include "ir/graph.h"

static weft_status describe(weft_graph *graph, const char *name, const weft_value *value, cli_port *port) {
    *port = (cli_port){.name = name, .dtype = weft_value_dtype(value), .rank = weft_value_rank(value)};
    for (int i = 0; i < port->rank; i++) {
        weft_dim dim = weft_value_dim(value, i);
        port->shape[i] = weft_dim_is_number(dim) ? dim : -1;
        if (weft_dim_is_number(dim)) continue;
        weft_text text;
        weft_text_init(weft_allocator_system(), &text);
        weft_dim_print(graph->dims, dim, &text);
        snprintf(port->symbols[i], sizeof port->symbols[i], "%.31s", weft_text_string(&text));
        weft_text_deinit(&text);
    }
    return NULL;
}

static weft_status open_graph(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                              cli_runner *r) {
    WEFT_TRY(cli_open_graph(arguments, arguments->positional[0], tensor_count, tensors, &r->graph),
             "opening the model");
    r->input_count = weft_graph_input_count(r->graph);
    r->output_count = weft_graph_output_count(r->graph);
    if (r->input_count > CLI_VALUES_MAX || r->output_count > CLI_VALUES_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "the command handles %d inputs and outputs at most", CLI_VALUES_MAX);
    for (int i = 0; i < r->input_count; i++)
        WEFT_TRY(
            describe(r->graph, weft_graph_input_name(r->graph, i), weft_graph_input_value(r->graph, i), &r->inputs[i]),
            "input %d", i);
    for (int i = 0; i < r->output_count; i++)
        WEFT_TRY(describe(r->graph, weft_graph_output_name(r->graph, i), weft_graph_output_value(r->graph, i),
                          &r->outputs[i]),
                 "output %d", i);
    if (r->interpret) return NULL;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = cli_text(arguments, "device", "cpu");
    WEFT_TRY(cli_numerics(arguments, &options), "options");
    if (!r->ahead) return weft_function_create(r->graph, &options, &r->function);
    WEFT_TRY(weft_compile(r->graph, &options, &r->program), "compiling");
    return weft_session_create(r->program, &r->session);
}

weft_status cli_numerics(const cli_arguments *arguments, weft_compile_options *options) {
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {{"f32-products", WEFT_RELAX_F32_PRODUCTS},
                 {"f8-sums", WEFT_RELAX_F8_SUMS},
                 {"sum-order", WEFT_RELAX_SUM_ORDER}};
    options->relax = WEFT_RELAX_NONE;
    options->batch_invariant = cli_flag(arguments, "batch-invariant");
    for (const char *at = cli_text(arguments, "relax", ""); *at;) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < 3 && (strlen(names[i].name) != length || memcmp(names[i].name, at, length) != 0)) i++;
        if (i == 3)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--relax knows f32-products, f8-sums and sum-order, not \"%.*s\"",
                               (int)length, at);
        options->relax |= names[i].bit;
        at += length + (at[length] == ',');
    }
    return NULL;
}

static void from_info(const weft_port_info *info, cli_port *port) {
    *port = (cli_port){.name = info->name, .dtype = info->dtype, .rank = info->rank};
    for (int i = 0; i < info->rank; i++) {
        port->shape[i] = info->shape[i];
        if (info->shape[i] < 0) snprintf(port->symbols[i], sizeof port->symbols[i], "?");
    }
}

static weft_status open_artifact(cli_arguments *arguments, cli_runner *r) {
    weft_load_options options = WEFT_LOAD_OPTIONS_INIT;
    options.device = cli_text(arguments, "device", "cpu");
    const char *path = arguments->positional[0];
    weft_status status =
        cli_flag(arguments, "recompile") ? NULL : weft_program_load(arguments->context, path, &options, &r->program);
    if (weft_status_code(status) == WEFT_NOT_FOUND || cli_flag(arguments, "recompile")) { /* no code for this machine */
        weft_compile_options compile = WEFT_COMPILE_OPTIONS_INIT;
        compile.targets = options.device;
        weft_status wrong = cli_numerics(arguments, &compile);
        if (wrong) return weft_status_release(status), wrong;
        weft_status again = weft_compile_artifact(arguments->context, path, &compile, &r->program);
        if (status && again)
            weft_status_release(again); /* the first one says more */
        else
            weft_status_release(status), status = again;
    }
    if (status) return weft_status_annotate(status, __FILE__, __LINE__, "loading");
    r->input_count = weft_program_input_count(r->program);
    r->output_count = weft_program_output_count(r->program);
    if (r->input_count > CLI_VALUES_MAX || r->output_count > CLI_VALUES_MAX)
        return WEFT_STATUS(WEFT_UNSUPPORTED, "the command handles %d inputs and outputs at most", CLI_VALUES_MAX);
    weft_port_info info;
    for (int i = 0; i < r->input_count; i++) weft_program_input(r->program, i, &info), from_info(&info, &r->inputs[i]);
    for (int i = 0; i < r->output_count; i++)
        weft_program_output(r->program, i, &info), from_info(&info, &r->outputs[i]);
    return weft_session_create(r->program, &r->session);
}

/* A name that is no input is a mistake, not an input to forget. */
static weft_status check_names(const cli_arguments *arguments, const cli_runner *r, int count,
                               const cli_named_tensor *tensors) {
    for (int t = 0; t < count; t++) {
        bool known = false;
        for (int i = 0; i < r->input_count; i++) known |= !strcmp(tensors[t].name, r->inputs[i].name);
        for (int i = 0; i < arguments->constant_count; i++) known |= !strcmp(tensors[t].name, arguments->constants[i]);
        if (known) continue;
        weft_text list;
        weft_text_init(weft_allocator_system(), &list);
        for (int i = 0; i < r->input_count; i++) weft_text_append(&list, "%s%s", i ? ", " : "", r->inputs[i].name);
        weft_status status = WEFT_STATUS(WEFT_NOT_FOUND, "there is no input \"%s\"; the inputs are: %s",
                                         tensors[t].name, weft_text_string(&list));
        weft_text_deinit(&list);
        return status;
    }
    return NULL;
}

/* An option that has no say for this kind of model is a mistake, not one to ignore. */
static weft_status check_options(const cli_arguments *arguments) {
    bool artifact = cli_is_artifact(arguments->positional[0]), recompile = cli_flag(arguments, "recompile");
    const cli_value *dims = cli_get(arguments, "dim");
    if (artifact && cli_flag(arguments, "interpret"))
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--interpret takes a model (.onnx, .wir), not an artifact");
    if (!artifact && recompile)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "--recompile takes an artifact; a model is compiled anyway");
    const char *numerics = cli_text(arguments, "relax", NULL)       ? "--relax"
                           : cli_flag(arguments, "batch-invariant") ? "--batch-invariant"
                                                                    : NULL;
    if (artifact && !recompile && numerics)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%s has no say in compiled code: give it to weft compile%s", numerics,
                           cli_get(arguments, "recompile") ? " or add --recompile" : "");
    if (artifact && dims && dims->count)
        return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                           "--dim %s: the extents of an artifact come from its inputs: give them with --input",
                           dims->texts[0]);
    return NULL;
}

static weft_status open_runner(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                               cli_runner *r) {
    WEFT_TRY(check_options(arguments), "opening the model");
    weft_status status = cli_is_artifact(arguments->positional[0]) ? open_artifact(arguments, r)
                                                                   : open_graph(arguments, tensor_count, tensors, r);
    if (!status) status = check_names(arguments, r, tensor_count, tensors);
    if (status) cli_runner_close(r);
    return status;
}

weft_status cli_runner_open(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                            cli_runner *r) {
    *r = (cli_runner){.interpret = cli_flag(arguments, "interpret")};
    return open_runner(arguments, tensor_count, tensors, r);
}

weft_status cli_runner_open_ahead(cli_arguments *arguments, int tensor_count, const cli_named_tensor *tensors,
                                  cli_runner *r) {
    *r = (cli_runner){.ahead = true};
    return open_runner(arguments, tensor_count, tensors, r);
}

void cli_runner_close(cli_runner *r) {
    weft_session_release(r->session);
    weft_program_release(r->program);
    weft_function_release(r->function);
    weft_graph_release(r->graph);
    *r = (cli_runner){0};
}

weft_status cli_runner_call(cli_runner *r, weft_tensor *const *inputs, weft_tensor **outputs) {
    if (r->session) return weft_session_call(r->session, r->input_count, inputs, r->output_count, outputs);
    if (r->function) return weft_function_call(r->function, r->input_count, inputs, r->output_count, outputs);
    return weft_graph_interpret(r->graph, r->input_count, inputs, r->output_count, outputs);
}

/* The extent of a symbolic axis: the swept one, --dim NAME=N, the end of a declared range, or 1. */
static int64_t extent_for(cli_arguments *arguments, const char *symbol, const char *dim_name, int64_t dim_value) {
    if (dim_name && !strcmp(symbol, dim_name)) return dim_value;
    const cli_value *dims = cli_get(arguments, "dim");
    for (int i = 0; dims && i < dims->count; i++) {
        const char *equals = strchr(dims->texts[i], '=');
        if (!equals || strlen(symbol) != (size_t)(equals - dims->texts[i]) ||
            strncmp(symbol, dims->texts[i], strlen(symbol)) != 0)
            continue;
        const char *range = strstr(equals, "..");
        int64_t value = strtoll(range ? range + 2 : equals + 1, NULL, 10);
        return value > 0 ? value : 1;
    }
    return 1;
}

weft_status cli_runner_inputs(cli_arguments *arguments, const cli_runner *r, int call, int tensor_count,
                              const cli_named_tensor *tensors, const char *dim_name, int64_t dim_value,
                              weft_tensor **out_inputs) {
    for (int i = 0; i < r->input_count; i++) out_inputs[i] = NULL;
    for (int i = 0; i < r->input_count; i++) {
        const cli_port *port = &r->inputs[i];
        int64_t shape[WEFT_MAX_RANK];
        for (int t = 0, seen = 0; t < tensor_count && seen <= call; t++)
            if (!strcmp(tensors[t].name, port->name)) out_inputs[i] = tensors[t].tensor, seen++;
        if (out_inputs[i]) {
            weft_tensor_retain(out_inputs[i]);
            continue;
        }
        for (int d = 0; d < port->rank; d++)
            shape[d] =
                port->shape[d] >= 0 ? port->shape[d] : extent_for(arguments, port->symbols[d], dim_name, dim_value);
        weft_status status = cli_random_tensor(arguments->context, port->dtype, port->rank, shape,
                                               (unsigned long long)i + 1, &out_inputs[i]);
        if (status) {
            cli_release_tensors(i, out_inputs);
            return weft_status_annotate(status, __FILE__, __LINE__, "input %s", port->name);
        }
    }
    return NULL;
}

weft_status cli_read_inputs(cli_arguments *arguments, cli_named_tensor *out_tensors, int *out_count) {
    const cli_value *inputs = cli_get(arguments, "input");
    *out_count = 0;
    for (int i = 0; inputs && i < inputs->count; i++) {
        WEFT_TRY(cli_read_tensor(arguments->context, inputs->texts[i], &out_tensors[i]), "reading an input");
        ++*out_count;
    }
    return NULL;
}

void cli_release_inputs(int count, cli_named_tensor *tensors) {
    for (int i = 0; i < count; i++) {
        free(tensors[i].name);
        weft_tensor_release(tensors[i].tensor);
    }
}

void cli_release_tensors(int count, weft_tensor **tensors) {
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]), tensors[i] = NULL;
}
