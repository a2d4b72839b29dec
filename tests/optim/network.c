/* See network.h. */
#include "tests/optim/network.h"

#include "weft/transform.h"

const char *const names[PARAMETERS] = {"w", "b"};

static void take_rows(weft_context *context, weft_tensor **t, int64_t rows) {
    weft_tensor *first;
    int64_t shape[2] = {rows, weft_tensor_shape(*t)[1]};
    require(weft_tensor_create_copy(context, weft_tensor_dtype(*t), 2, shape, weft_tensor_data(*t), &first));
    weft_tensor_release(*t);
    *t = first;
}

/* The golden network: mean((tanh(x w + b) - y)^2), parameters as states, gradients by p. */
void network_begin(fixture *f, weft_dtype dtype, bool square) {
    *f = (fixture){.dtype = dtype};
    require(weft_context_create(NULL, &f->context));
    f->file = golden_open(f->context, "optim.safetensors");
    f->x = golden_tensor(f->context, f->file, "x", dtype);
    f->y = golden_tensor(f->context, f->file, "y", dtype);
    f->initial[0] = golden_tensor(f->context, f->file, "w0", dtype);
    if (square) take_rows(f->context, &f->initial[0], 3);
    f->initial[1] = golden_tensor(f->context, f->file, "b0", dtype);
    require(weft_graph_create(f->context, "step", &f->g));
    weft_value *x = weft_graph_input(f->g, "x", dtype, 2, (weft_dim[]){8, 5}), *values[PARAMETERS],
               *gradients[PARAMETERS], *curvatures[PARAMETERS];
    f->rows = x;
    if (square) x = weft_slice_axis(f->g, x, 1, 0, 3);
    for (int i = 0; i < PARAMETERS; i++) {
        weft_graph_state(f->g, names[i], f->initial[i]);
        values[i] = weft_state_read(f->g, names[i]);
    }
    f->before = weft_add(f->g, weft_matmul(f->g, x, values[0]), values[1]);
    weft_value *h = weft_tanh(f->g, f->before);
    weft_value *error = weft_square(f->g, weft_sub(f->g, h, weft_graph_constant(f->g, f->y)));
    weft_value *loss = f->loss = weft_reduce_mean(f->g, error, 0, NULL, false);
    weft_gradient(f->g, loss, NULL, PARAMETERS, values, gradients);
    weft_value *other = weft_square(f->g, weft_add(f->g, h, weft_graph_constant(f->g, f->y)));
    weft_gradient(f->g, weft_reduce_mean(f->g, other, 0, NULL, false), NULL, PARAMETERS, values, curvatures);
    weft_graph_output(f->g, "loss", loss);
    for (int i = 0; i < PARAMETERS; i++)
        f->p[i] = (weft_parameter){.name = names[i],
                                   .initial = f->initial[i],
                                   .value = values[i],
                                   .gradient = gradients[i],
                                   .curvature = curvatures[i],
                                   .rate_scale = 1,
                                   .decay_scale = 1};
    f->step = weft_optim_step(f->g);
}

void network_end(fixture *f) {
    weft_tensor_release(f->x);
    weft_tensor_release(f->y);
    for (int i = 0; i < PARAMETERS; i++) weft_tensor_release(f->initial[i]);
    weft_graph_release(f->g);
    weft_safetensors_release(f->file);
    weft_context_release(f->context);
}

static void compare_row(fixture *f, weft_session *session, const char *state, const weft_tensor *golden, int step,
                        double tolerance) {
    weft_tensor *value, *want = tensor_row(f->context, golden, step);
    require(weft_session_read_state(session, state, &value));
    double off = distance(value, want);
    ck_assert_msg(off <= tolerance, "%s is off by %.3g after step %d", state, off, step + 1);
    weft_tensor_release(value);
    weft_tensor_release(want);
}

static void compare(fixture *f, int count, const char (*cases)[64], const char (*states)[64], double tolerance) {
    weft_program *program;
    weft_session *session;
    weft_tensor *golden[PARAMETERS];
    for (int i = 0; i < count; i++) golden[i] = golden_tensor(f->context, f->file, cases[i], WEFT_F64);
    require(weft_compile(f->g, NULL, &program));
    require(weft_session_create(program, &session));
    for (int step = 0; step < STEPS; step++) {
        weft_tensor *x = tensor_row(f->context, f->x, step), *loss = NULL;
        require(weft_session_call(session, 1, &x, 1, &loss));
        for (int i = 0; i < count; i++) compare_row(f, session, states[i], golden[i], step, tolerance);
        weft_tensor_release(x);
        weft_tensor_release(loss);
    }
    for (int i = 0; i < count; i++) weft_tensor_release(golden[i]);
    weft_session_release(session);
    weft_program_release(program);
}

void network_compare(fixture *f, const char *name, const char *suffix, double tolerance) {
    char cases[PARAMETERS][64], states[PARAMETERS][64];
    for (int i = 0; i < PARAMETERS; i++) {
        snprintf(cases[i], sizeof cases[i], "%s/%s", name, names[i]);
        snprintf(states[i], sizeof states[i], "%s%s", names[i], suffix);
    }
    compare(f, PARAMETERS, cases, states, tolerance);
}

void network_compare_state(fixture *f, const char *golden, const char *state, double tolerance) {
    char cases[1][64], states[1][64];
    snprintf(cases[0], sizeof cases[0], "%s", golden);
    snprintf(states[0], sizeof states[0], "%s", state);
    compare(f, 1, cases, states, tolerance);
}
