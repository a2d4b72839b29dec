/* Train a small network by gradient descent: the gradient is a graph like any other, compiled once and called in a
   loop. Fits y = sin(3 x) with a tanh network of 16 hidden units. */
#include <math.h>
#include <string.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/transform.h"

enum { POINTS = 64, HIDDEN = 16, PARAMETERS = 4, STEPS = 2000 };
static const float rate = 0.05f;
static const int64_t shapes[PARAMETERS][2] = {{1, HIDDEN}, {1, HIDDEN}, {HIDDEN, 1}, {1, 1}};

int main(void) {
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session;
    check(weft_context_create(NULL, &context));
    check(weft_graph_create(context, "fit", &g));
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){POINTS, 1}),
               *y = weft_graph_input(g, "y", WEFT_F32, 2, (weft_dim[]){POINTS, 1});
    weft_value *p[PARAMETERS], *gradients[PARAMETERS];
    static const char *const names[PARAMETERS] = {"w1", "b1", "w2", "b2"};
    for (int i = 0; i < PARAMETERS; i++) p[i] = weft_graph_input(g, names[i], WEFT_F32, 2, shapes[i]);
    weft_value *h = weft_tanh(g, weft_add(g, weft_matmul(g, x, p[0]), p[1]));
    weft_value *error = weft_sub(g, weft_add(g, weft_matmul(g, h, p[2]), p[3]), y);
    weft_value *loss = weft_reduce_mean(g, weft_square(g, error), 2, (int64_t[]){0, 1}, false);
    weft_gradient(g, loss, NULL, PARAMETERS, p, gradients);
    weft_graph_output(g, "loss", loss);
    for (int i = 0; i < PARAMETERS; i++)
        weft_graph_output(g, names[i], weft_sub(g, p[i], weft_mul_number(g, gradients[i], (double)rate)));
    check(weft_compile(g, NULL, &program));
    check(weft_session_create(program, &session));

    weft_tensor *in[2 + PARAMETERS], *out[1 + PARAMETERS] = {0};
    for (int i = 0; i < 2; i++) check(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){POINTS, 1}, &in[i]));
    for (int i = 0; i < POINTS; i++) {
        float at = 2 * (float)i / POINTS - 1;
        ((float *)weft_tensor_data(in[0]))[i] = at;
        ((float *)weft_tensor_data(in[1]))[i] = sinf(3 * at);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        check(weft_tensor_create(context, WEFT_F32, 2, shapes[i], &in[2 + i]));
        float *data = weft_tensor_data(in[2 + i]);
        for (int64_t e = 0; e < weft_tensor_element_count(in[2 + i]); e++)
            data[e] = 0.7f * sinf(5 * (float)e + (float)i);
    }
    float first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        check(weft_session_call(session, 2 + PARAMETERS, in, 1 + PARAMETERS, out));
        last = *(float *)weft_tensor_data(out[0]);
        if (step == 0) first = last;
        if (step % 400 == 0) printf("step %4d: loss %.6f\n", step, (double)last);
        for (int i = 0; i < PARAMETERS; i++) { /* the updated parameters are the next step's inputs */
            weft_tensor *swap = in[2 + i];
            in[2 + i] = out[1 + i], out[1 + i] = swap;
        }
    }
    printf("loss %.6f -> %.6f\n", (double)first, (double)last);
    for (int i = 0; i < 2 + PARAMETERS; i++) weft_tensor_release(in[i]);
    for (int i = 0; i < 1 + PARAMETERS; i++) weft_tensor_release(out[i]);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_context_release(context);
    return last < 0.01f ? 0 : 1;
}
