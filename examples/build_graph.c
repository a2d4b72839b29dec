/* Build a graph, compile it, run it: y = softmax(relu(x W1 + b1) W2 + b2). */
#include <math.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/ops.h"

enum { BATCH = 3, INPUTS = 8, HIDDEN = 16, CLASSES = 4 };

static weft_tensor *numbers(weft_context *context, int rank, const int64_t *shape, float scale) {
    weft_tensor *tensor;
    check(weft_tensor_create(context, WEFT_F32, rank, shape, &tensor));
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) data[i] = scale * sinf((float)i * 1.7f);
    return tensor;
}

static weft_value *parameter(weft_graph *graph, weft_context *context, const char *name, int rank,
                             const int64_t *shape) {
    weft_tensor *tensor = numbers(context, rank, shape, 0.5f);
    weft_value *value = weft_graph_parameter(graph, name, tensor);
    weft_tensor_release(tensor); /* the graph keeps its own reference */
    return value;
}

int main(void) {
    weft_context *context;
    weft_graph *g;
    check(weft_context_create(NULL, &context));
    check(weft_graph_create(context, "classifier", &g));

    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){BATCH, INPUTS});
    weft_value *w1 = parameter(g, context, "w1", 2, (int64_t[]){INPUTS, HIDDEN}),
               *b1 = parameter(g, context, "b1", 1, (int64_t[]){HIDDEN});
    weft_value *w2 = parameter(g, context, "w2", 2, (int64_t[]){HIDDEN, CLASSES}),
               *b2 = parameter(g, context, "b2", 1, (int64_t[]){CLASSES});
    weft_value *h = weft_relu(g, weft_add(g, weft_matmul(g, x, w1), b1));
    weft_value *y = weft_softmax(g, weft_add(g, weft_matmul(g, h, w2), b2), -1);
    weft_graph_output(g, "y", y);
    check(weft_graph_verify(g));

    weft_program *program;
    weft_session *session;
    check(weft_compile(g, NULL, &program));
    check(weft_session_create(program, &session));

    weft_tensor *input = numbers(context, 2, (int64_t[]){BATCH, INPUTS}, 1), *output = NULL;
    check(weft_session_call(session, 1, &input, 1, &output));
    const float *p = weft_tensor_data(output);
    for (int row = 0; row < BATCH; row++) {
        float sum = 0;
        for (int i = 0; i < CLASSES; i++) printf("%.4f ", (double)p[row * CLASSES + i]), sum += p[row * CLASSES + i];
        printf(" sum %.6f\n", (double)sum);
        if (fabsf(sum - 1) > 1e-5f) return 1;
    }

    weft_tensor_release(output);
    weft_tensor_release(input);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_context_release(context);
    return 0;
}
