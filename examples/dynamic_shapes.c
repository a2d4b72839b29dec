/* One graph, many batch sizes. The batch is not declared: the first call compiles for what it saw, the second size
   makes it symbolic, every other size runs that program. The log says which guard caused which compile. */
#include <math.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/ops.h"

enum { WIDTH = 32 };

static void print_log(void *self, weft_log_level level, const char *message) {
    (void)self, (void)level;
    printf("log: %s\n", message);
}

static float checksum(weft_function *function, weft_context *context, int64_t batch) {
    weft_tensor *input, *output = NULL;
    check(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){batch, WIDTH}, &input));
    float *data = weft_tensor_data(input), sum = 0;
    for (int64_t i = 0; i < batch * WIDTH; i++) data[i] = (float)(i % WIDTH) / WIDTH;
    check(weft_function_call(function, 1, &input, 1, &output));
    const float *y = weft_tensor_data(output);
    for (int64_t i = 0; i < weft_tensor_element_count(output); i++) sum += y[i];
    weft_tensor_release(output);
    weft_tensor_release(input);
    return sum / (float)batch; /* all rows are equal */
}

int main(void) {
    weft_context_options options = WEFT_CONTEXT_OPTIONS_INIT;
    options.log = print_log;
    weft_context *context;
    weft_graph *g;
    weft_function *function;
    check(weft_context_create(&options, &context));
    check(weft_graph_create(context, "dynamic", &g));
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){WEFT_DIM_ANY, WIDTH});
    weft_value *normed = weft_layer_norm(g, x, NULL, NULL, 1, (int64_t[]){1}, 1e-5);
    weft_graph_output(g, "y", weft_gelu(g, normed, false));
    check(weft_function_create(g, NULL, &function));

    static const int64_t batches[] = {1, 7, 64, 33};
    float first = 0;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        float sum = checksum(function, context, batches[i]);
        printf("batch %2d: %.6f, compiled %d times\n", (int)batches[i], (double)sum,
               weft_function_compile_count(function));
        if (i == 0) first = sum;
        if (fabsf(sum - first) > 1e-4f) return 1;
    }
    if (weft_function_compile_count(function) != 2) return 1;
    weft_function_release(function);
    weft_graph_release(g);
    weft_context_release(context);
    return 0;
}
