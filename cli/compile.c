/* weft compile: a model to an artifact, or to a folder of static files for browsers. */
#include "cli/runner.h"

#include "base/context.h"
#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void show(void *self, int done, int total, const char *what) { cli_progress_at(self, done, total, what); }

/* MODEL.onnx -> MODEL.weft, MODEL-web */
static char *default_output(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    size_t length = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
    char *text = malloc(length + strlen(ending) + 1);
    if (!text) return NULL;
    memcpy(text, path, length);
    memcpy(text + length, ending, strlen(ending) + 1);
    return text;
}

static weft_status copy_labels(weft_context *context, const char *from, const char *folder) {
    weft_file file;
    weft_text path;
    WEFT_TRY(weft_file_map(from, &file), "labels");
    weft_text_init(context->allocator, &path);
    weft_text_append(&path, "%s/labels.txt", folder);
    weft_status status = weft_text_status(&path);
    if (!status) status = weft_file_write_all(context->allocator, weft_text_string(&path), file.data, file.bytes);
    weft_text_deinit(&path);
    weft_file_unmap(&file);
    return status;
}

static weft_status write_output(cli_arguments *arguments, weft_graph *graph, const weft_compile_options *options,
                                bool web, const char *output) {
    const char *labels = cli_text(arguments, "labels", NULL);
    if (!web) return weft_compile_file(graph, options, output);
    WEFT_TRY(weft_compile_web(graph, options, output), "compiling for browsers");
    return labels ? copy_labels(arguments->context, labels, output) : NULL;
}

/* 0, or the exit code of wrong usage after a message. */
static int check_emit(cli_arguments *arguments, bool *out_web) {
    const char *emit = cli_text(arguments, "emit", NULL), *target = cli_text(arguments, "target", "webgpu");
    *out_web = emit != NULL;
    if (emit && strcmp(emit, "web") != 0) return fprintf(stderr, "weft: --emit writes \"web\", not \"%s\"\n", emit), 2;
    if (emit && strcmp(target, "webgpu") != 0)
        return fprintf(stderr, "weft: --emit web is for --target webgpu, not \"%s\"\n", target), 2;
    if (!emit && cli_text(arguments, "labels", NULL))
        return fprintf(stderr, "weft: --labels goes with --emit web\n"), 2;
    return 0;
}

/* Inputs that became no constant would be ignored. */
static weft_status check_constants(const cli_arguments *arguments, int count, const cli_named_tensor *tensors) {
    for (int i = 0; i < count; i++) {
        bool used = false;
        for (int k = 0; k < arguments->constant_count; k++) used |= !strcmp(tensors[i].name, arguments->constants[k]);
        if (!used)
            return WEFT_STATUS(WEFT_INVALID_ARGUMENT,
                               "--input %s: the model has no input of that name whose value decides a shape",
                               tensors[i].name);
    }
    return NULL;
}

int cli_run_compile(cli_arguments *arguments) {
    weft_graph *graph = NULL;
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    int count = 0;
    cli_progress progress;
    bool web;
    int code = check_emit(arguments, &web);
    if (code) return code;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = cli_text(arguments, "target", "cpu");
    options.pipeline = cli_text(arguments, "pipeline", NULL);
    options.progress = show, options.progress_self = &progress;
    char *made = default_output(arguments->positional[0], web ? "-web" : ".weft");
    const char *output = cli_text(arguments, "output", made);
    cli_progress_start(&progress, "compile");
    weft_status status = output ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "compiling");
    if (!status) status = cli_numerics(arguments, &options);
    if (!status) status = cli_read_inputs(arguments, tensors, &count);
    if (!status) status = cli_open_graph(arguments, arguments->positional[0], count, tensors, &graph);
    if (!status) status = cli_check_output(arguments->positional[0], "output", output);
    if (!status) status = check_constants(arguments, count, tensors);
    if (!status) status = write_output(arguments, graph, &options, web, output);
    cli_progress_end(&progress);
    if (!status) printf("%s: %.2f s\n", output, cli_now() - progress.start);
    weft_graph_release(graph);
    cli_release_inputs(count, tensors);
    free(made);
    return status ? cli_fail(status) : 0;
}
