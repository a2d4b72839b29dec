/* Run an ONNX model: run_onnx model.onnx [NAME=EXTENT ...]. Inputs are random; prints the shape and range of each
 * output. */
#include <math.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/onnx.h"

enum { PORTS_MAX = 32 };

/* The extent of an axis: a number of the model, or 1 where it is symbolic (declared ones: fixed by NAME=EXTENT). */
static int64_t extent_of(weft_dim dim) { return dim >= 0 ? dim : 1; }

static weft_tensor *random_input(weft_context *context, const weft_value *value) {
    int64_t shape[WEFT_MAX_RANK];
    weft_tensor *tensor;
    for (int i = 0; i < weft_value_rank(value); i++) shape[i] = extent_of(weft_value_dim(value, i));
    check(weft_tensor_create(context, weft_value_dtype(value), weft_value_rank(value), shape, &tensor));
    if (weft_value_dtype(value) == WEFT_F32) {
        float *data = weft_tensor_data(tensor);
        for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) data[i] = sinf((float)i * 0.37f);
    }
    return tensor;
}

static void describe(const char *name, const weft_tensor *tensor) {
    printf("%s: %s[", name, weft_dtype_name(weft_tensor_dtype(tensor)));
    for (int i = 0; i < weft_tensor_rank(tensor); i++) printf("%s%d", i ? ", " : "", (int)weft_tensor_shape(tensor)[i]);
    printf("]");
    if (weft_tensor_dtype(tensor) == WEFT_F32 && weft_tensor_element_count(tensor)) {
        const float *data = weft_tensor_data(tensor);
        float low = data[0], high = data[0];
        for (int64_t i = 1; i < weft_tensor_element_count(tensor); i++)
            low = fminf(low, data[i]), high = fmaxf(high, data[i]);
        printf(" in [%g, %g]", (double)low, (double)high);
    }
    printf("\n");
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: run_onnx model.onnx [NAME=EXTENT ...]\n");
        return 2;
    }
    char dims[1000] = "";
    for (int i = 2; i < count; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%s", used ? "," : "", arguments[i]);
    }
    weft_context *context;
    weft_graph *graph;
    weft_function *function;
    weft_onnx_options options = WEFT_ONNX_OPTIONS_INIT;
    options.dims = dims;
    check(weft_context_create(NULL, &context));
    check(weft_onnx_import(context, arguments[1], &options, &graph));
    check(weft_function_create(graph, NULL, &function));

    weft_tensor *inputs[PORTS_MAX] = {0}, *outputs[PORTS_MAX] = {0};
    int input_count = weft_graph_input_count(graph), output_count = weft_graph_output_count(graph);
    if (input_count > PORTS_MAX || output_count > PORTS_MAX) return 1;
    for (int i = 0; i < input_count; i++) inputs[i] = random_input(context, weft_graph_input_value(graph, i));
    check(weft_function_call(function, input_count, inputs, output_count, outputs));
    for (int i = 0; i < output_count; i++) describe(weft_graph_output_name(graph, i), outputs[i]);

    for (int i = 0; i < input_count; i++) weft_tensor_release(inputs[i]);
    for (int i = 0; i < output_count; i++) weft_tensor_release(outputs[i]);
    weft_function_release(function);
    weft_graph_release(graph);
    weft_context_release(context);
    return 0;
}
