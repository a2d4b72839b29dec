/* A physics-informed network (Raissi, Perdikaris, Karniadakis 2019) for Burgers' equation u_t + u u_x = nu u_xx on
   x in [-1, 1], t in [0, 1] with u(x, 0) = -sin(pi x), u(+-1, t) = 0. Its derivatives in x and t are tangents of
   tangents; the loss on them is differentiated again by the weights. One program is one step of Adam on states.
   burgers [--steps N] [--points N] */
#include <math.h>
#include <string.h>
#include <time.h>

#include "common.h"
#include "weft/compile.h"
#include "weft/nn.h"
#include "weft/optim.h"
#include "weft/transform.h"

enum { LAYERS = 4, WIDTH = 64 };
static const double nu = 0.01 / 3.14159265358979323846;

typedef struct network {
    weft_value *w[LAYERS + 1], *b[LAYERS + 1];
} network;

static network declare(weft_parameters *p) {
    static const char *const names[LAYERS + 1][2] = {
        {"w0", "b0"}, {"w1", "b1"}, {"w2", "b2"}, {"w3", "b3"}, {"w4", "b4"}};
    network n;
    for (int i = 0; i <= LAYERS; i++) {
        int64_t in = i ? WIDTH : 2, out = i < LAYERS ? WIDTH : 1;
        double scale = sqrt(2.0 / (double)(in + out)); /* Glorot and Bengio 2010 */
        n.w[i] = weft_parameters_add(p, names[i][0], WEFT_INIT_NORMAL, scale, 2, (int64_t[]){out, in});
        n.b[i] = weft_parameters_add(p, names[i][1], WEFT_INIT_ZEROS, 0, 1, (int64_t[]){out});
    }
    return n;
}

/* u of points [N, 1] each. */
static weft_value *evaluate(weft_graph *g, const network *n, weft_value *x, weft_value *t) {
    weft_value *h = weft_concat(g, 1, 2, (weft_value *[]){x, t});
    for (int i = 0; i <= LAYERS; i++) {
        h = weft_nn_linear(g, h, n->w[i], n->b[i]);
        if (i < LAYERS) h = weft_tanh(g, h);
    }
    return h;
}

static weft_value *mean_square(weft_graph *g, weft_value *x) {
    return weft_reduce_mean(g, weft_square(g, x), 0, NULL, false);
}

/* How far the network is from the equation at points inside, and from `value` at points of the border. */
static weft_value *loss_of(weft_parameters *p, weft_value *const *inside, weft_value *const *border,
                           weft_value *value) {
    weft_graph *g = weft_parameters_graph(p);
    network n = declare(p);
    weft_value *x = inside[0], *t = inside[1], *u = evaluate(g, &n, x, t);
    weft_value *one = weft_full(g, WEFT_F32, 2, (weft_dim[]){weft_value_dim(x, 0), 1}, 1);
    weft_value *u_x = weft_jvp(g, u, 1, &x, &one);
    weft_value *u_t = weft_jvp(g, u, 1, &t, &one);
    weft_value *u_xx = weft_jvp(g, u_x, 1, &x, &one);
    weft_value *residual = weft_sub(g, weft_add(g, u_t, weft_mul(g, u, u_x)), weft_mul_number(g, u_xx, nu));
    weft_value *error = weft_sub(g, evaluate(g, &n, border[0], border[1]), value);
    return weft_add(g, mean_square(g, residual), mean_square(g, error));
}

/* Points in order of low discrepancy: multiples of the golden ratio's relatives, modulo 1. */
static void fill(weft_tensor *tensor, double step, double low, double high) {
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++)
        data[i] = (float)(low + (high - low) * fmod((double)(i + 1) * step, 1));
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int count, char **arguments) {
    int steps = 400, points = 1024;
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(arguments[i], "--steps")) steps = atoi(arguments[i + 1]);
        if (!strcmp(arguments[i], "--points")) points = atoi(arguments[i + 1]);
    }
    if (steps < 2 || points < 8) return fprintf(stderr, "usage: burgers [--steps N] [--points N]\n"), 2;
    static const char *const names[5] = {"x", "t", "border x", "border t", "border u"};
    weft_context *context;
    weft_graph *g;
    weft_parameters *p;
    weft_program *program;
    weft_session *session;
    weft_value *in[5];
    check(weft_context_create(NULL, &context));
    check(weft_graph_create(context, "burgers", &g));
    check(weft_parameters_create(context, g, NULL, &p));
    for (int i = 0; i < 5; i++)
        in[i] = weft_graph_input(g, names[i], WEFT_F32, 2, (weft_dim[]){i < 2 ? points : points / 4, 1});
    weft_value *loss = loss_of(p, in, in + 2, in[4]);
    weft_parameters_gradient(p, loss);
    weft_optim_options o = weft_optim_defaults(WEFT_OPTIM_ADAM);
    o.step = weft_optim_step(g);
    o.rate = weft_scalar(g, WEFT_F32, 1e-3);
    weft_optim_update(g, &o, weft_parameters_count(p), weft_parameters_list(p));
    weft_graph_output(g, "loss", loss);
    check(weft_compile(g, NULL, &program));
    check(weft_session_create(program, &session));

    weft_tensor *data[5], *out = NULL;
    for (int i = 0; i < 5; i++)
        check(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){i < 2 ? points : points / 4, 1}, &data[i]));
    fill(data[0], 0.7548776662466927, -1, 1), fill(data[1], 0.5698402909980532, 0, 1);
    fill(data[2], 0.7548776662466927, -1, 1), fill(data[3], 0.5698402909980532, 0, 1);
    float *x = weft_tensor_data(data[2]), *t = weft_tensor_data(data[3]), *u = weft_tensor_data(data[4]);
    for (int i = 0; i < points / 4; i++) { /* half of them at t = 0, the others at x = -1 or 1 */
        if (i % 2)
            t[i] = 0;
        else
            x[i] = i % 4 ? -1.0f : 1.0f;
        u[i] = i % 2 ? -sinf(3.14159265f * x[i]) : 0;
    }
    float first = 0, last = 0;
    double start = 0;
    clock_t processor = 0;
    for (int step = 0; step < steps; step++) {
        check(weft_session_call(session, 5, data, 1, &out));
        last = *(float *)weft_tensor_data(out);
        if (step == 0) first = last, start = seconds(), processor = clock();
        if (step % 100 == 0 || step + 1 == steps) printf("step %5d: loss %.5f\n", step, (double)last);
    }
    printf("loss %.5f -> %.5f, %.3f ms a step, %.3f ms of processor time\n", (double)first, (double)last,
           1e3 * (seconds() - start) / (steps - 1), 1e3 * (double)(clock() - processor) / CLOCKS_PER_SEC / (steps - 1));
    for (int i = 0; i < 5; i++) weft_tensor_release(data[i]);
    weft_tensor_release(out);
    weft_session_release(session);
    weft_program_release(program);
    weft_parameters_release(p);
    weft_graph_release(g);
    weft_context_release(context);
    return last < 0.4f * first ? 0 : 1;
}
