/* weft compile: a model to an artifact. */
#include "cli/runner.h"

#include <stdlib.h>
#include <string.h>

static void show(void *self, int done, int total, const char *what) { cli_progress_at(self, done, total, what); }

/* MODEL.onnx -> MODEL.weft */
static char *default_output(const char *path) {
    const char *dot = strrchr(path, '.');
    size_t length = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
    char *text = malloc(length + sizeof ".weft");
    if (!text) return NULL;
    memcpy(text, path, length);
    memcpy(text + length, ".weft", sizeof ".weft");
    return text;
}

int cli_run_compile(cli_arguments *arguments) {
    weft_graph *graph = NULL;
    cli_named_tensor tensors[CLI_VALUES_MAX] = {{0}};
    int count = 0;
    cli_progress progress;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = cli_text(arguments, "target", "cpu");
    options.pipeline = cli_text(arguments, "pipeline", NULL);
    options.progress = show, options.progress_self = &progress;
    char *made = default_output(arguments->positional[0]);
    const char *output = cli_text(arguments, "output", made);
    cli_progress_start(&progress, "compile");
    weft_status status = output ? NULL : WEFT_STATUS(WEFT_OUT_OF_MEMORY, "compiling");
    if (!status) status = cli_read_inputs(arguments, tensors, &count);
    if (!status) status = cli_open_graph(arguments, arguments->positional[0], count, tensors, &graph);
    if (!status) status = weft_compile_file(graph, &options, output);
    cli_progress_end(&progress);
    if (!status) printf("%s: %.2f s\n", output, cli_now() - progress.start);
    weft_graph_release(graph);
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i].tensor);
    free(made);
    return status ? cli_fail(status) : 0;
}
