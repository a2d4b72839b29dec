/* Models and the text form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "tests/fuzz/targets.h"
#include "weft/graph.h"
#include "weft/onnx.h"

void fuzz_onnx(const uint8_t *data, size_t bytes) {
#if WEFT_HAVE_ONNX
    weft_graph *graph;
    weft_tensor *tensor;
    weft_status status = weft_onnx_import_memory(fuzz_context(), data, bytes, NULL, NULL, &graph);
    if ((status == NULL) != (graph != NULL)) abort();
    weft_status_release(status);
    weft_graph_release(graph);
    status = weft_onnx_tensor_read(fuzz_context(), data, bytes, &tensor, NULL);
    if ((status == NULL) != (tensor != NULL)) abort();
    weft_status_release(status);
    weft_tensor_release(tensor);
#else
    (void)data, (void)bytes;
#endif
}

/* What is read is printed, and what is printed is read as the same. */
void fuzz_wir(const uint8_t *data, size_t bytes) {
    weft_graph *graph, *again = NULL;
    char *text = NULL, *second = NULL;
    weft_context *context = fuzz_context();
    weft_status status = weft_graph_parse(context, (const char *)data, bytes, &graph);
    if ((status == NULL) != (graph != NULL)) abort();
    if (graph && !weft_graph_print(graph, &text)) {
        weft_status failed = weft_graph_parse(context, text, strlen(text), &again);
        if (failed || weft_graph_print(again, &second) || strcmp(text, second) != 0) abort();
    }
    weft_string_release(context, text);
    weft_string_release(context, second);
    weft_graph_release(again);
    weft_graph_release(graph);
    weft_status_release(status);
}

/* Every graph that the verifier accepts goes through the passes and is accepted again. */
void fuzz_passes(const uint8_t *data, size_t bytes) {
    weft_graph *graph;
    weft_status status = weft_graph_parse(fuzz_context(), (const char *)data, bytes, &graph);
    if (!status) status = weft_graph_verify(graph);
    if (!status) {
        weft_pass_context pass = {.graph = graph, .options = ""};
        weft_status failed = weft_pipeline_run(&pass, weft_pipeline_standard);
        if (!failed) failed = weft_graph_verify(graph);
        if (failed && weft_status_code(failed) != WEFT_OUT_OF_MEMORY && weft_status_code(failed) != WEFT_OUT_OF_RANGE)
            fprintf(stderr, "%s\n", weft_status_message(failed)), abort();
        weft_status_release(failed);
    }
    weft_graph_release(graph);
    weft_status_release(status);
}
