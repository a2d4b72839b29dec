/* The samples: every kind of step and of output that the lowering knows. */
#include "ir/build.h"
#include "ir/graph.h"
#include "tests/compile/testing.h"

static weft_tensor *numbers(weft_graph *g, int rank, const int64_t *shape) {
    weft_tensor *tensor;
    weft_status status = weft_tensor_create(g->context, WEFT_F32, rank, shape, &tensor);
    if (status) {
        weft_graph_report(g, status);
        return NULL;
    }
    float *data = weft_tensor_data(tensor);
    for (int64_t i = 0; i < weft_tensor_element_count(tensor); i++) data[i] = (float)((i * 29 + 11) % 17 - 8) / 16;
    return tensor;
}

static weft_value *parameter(weft_graph *g, const char *name, int rank, const int64_t *shape) {
    weft_tensor *tensor = numbers(g, rank, shape);
    if (!tensor) return weft_scalar(g, WEFT_F32, 0); /* the problem is recorded */
    weft_value *value = weft_graph_parameter(g, name, tensor);
    weft_tensor_release(tensor);
    return value;
}

static void mlp(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){3, 8});
    weft_value *h = weft_relu(g, weft_add(g, weft_matmul(g, x, parameter(g, "w", 2, (int64_t[]){8, 16})),
                                          parameter(g, "b", 1, (int64_t[]){16})));
    weft_graph_output(g, "y", weft_reduce_sum(g, weft_square(g, h), 1, (int64_t[]){1}, false));
    weft_graph_output(g, "h", h);
}

static void convolution(weft_graph *g) {
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.low = options.high = (weft_dim[]){1, 1};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 4, (weft_dim[]){1, 3, 6, 6});
    weft_value *y = weft_convolution(g, x, parameter(g, "w", 4, (int64_t[]){4, 3, 3, 3}), &options);
    weft_pool_options pool = WEFT_POOL_OPTIONS_INIT;
    pool.window = pool.stride = (int64_t[]){2, 2};
    weft_graph_output(g, "y", weft_max_pool(g, weft_tanh(g, y), &pool));
}

static void twice(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)arguments;
    results[0] = weft_mul_number(g, self, 2);
}

static void square(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)arguments;
    results[0] = weft_square(g, self);
}

static void cond(weft_graph *g) {
    weft_value *p = weft_graph_input(g, "p", WEFT_BOOL, 0, NULL),
               *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){5}), *y;
    weft_cond(g, p, twice, square, x, 1, &y);
    weft_graph_output(g, "y", weft_add(g, y, x));
}

static void below_limit(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] =
        weft_compare(g, WEFT_LT, weft_reduce_sum(g, arguments[1], 0, NULL, false), weft_scalar(g, WEFT_F32, 100));
}

static void grow(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_add(g, arguments[0], weft_scalar_integer(g, WEFT_I64, 1));
    results[1] = weft_add_number(g, weft_mul_number(g, arguments[1], 2), 1);
}

static void while_loop(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){4}), *r[2];
    weft_while(g, 2, (weft_value *[]){weft_scalar_integer(g, WEFT_I64, 0), weft_abs(g, x)}, -1, below_limit, grow, NULL,
               r);
    weft_graph_output(g, "trips", r[0]);
    weft_graph_output(g, "y", r[1]);
}

static void accumulate(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self;
    results[0] = weft_add(g, weft_mul_number(g, arguments[0], 0.5), arguments[1]);
    results[1] = weft_neg(g, results[0]);
}

static void scan(weft_graph *g) {
    weft_dim steps = weft_graph_symbol(g, "T", 1, 100, 1);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){steps, 4}), *r[2];
    weft_value *zero = weft_full(g, WEFT_F32, 1, (weft_dim[]){4}, 0);
    weft_scan(g, 1, &zero, 1, &x, steps, false, accumulate, NULL, 1, r);
    weft_graph_output(g, "last", r[0]);
    weft_graph_output(g, "all", r[1]);
}

static void symbolic(weft_graph *g) {
    weft_dim batch = weft_graph_symbol(g, "B", 1, 64, 1);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){batch, 8});
    weft_value *y = weft_softmax(g, weft_matmul(g, x, parameter(g, "w", 2, (int64_t[]){8, 5})), -1);
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "twice", weft_concat(g, 0, 2, (weft_value *[]){y, y}));
}

static void anonymous(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){WEFT_DIM_ANY, 6});
    weft_graph_output(g, "y", weft_layer_norm(g, x, NULL, NULL, 1, (int64_t[]){1}, 1e-5));
}

/* Outputs that no kernel writes, and values that leave twice. */
static void outputs(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){2, 3});
    weft_value *y = weft_exp(g, x);
    weft_graph_output(g, "input", x);
    weft_graph_output(g, "constant", parameter(g, "c", 1, (int64_t[]){5}));
    weft_graph_output(g, "y", y);
    weft_graph_output(g, "again", y);
    weft_graph_output(g, "flat", weft_reshape(g, y, 1, (weft_dim[]){6}));
    weft_graph_output(g, "flat_input", weft_reshape(g, x, 1, (weft_dim[]){6}));
    weft_graph_output(g, "input_again", x);
}

/* A constant that is a transposed view of the caller's memory. */
static void strided(weft_graph *g) {
    static float data[6] = {1, 2, 3, 4, 5, 6};
    weft_tensor *tensor;
    weft_status status =
        weft_tensor_wrap(g->context, WEFT_F32, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, data, NULL, NULL, &tensor);
    if (status) {
        weft_graph_report(g, status);
        return;
    }
    weft_value *c = weft_graph_constant(g, tensor);
    weft_tensor_release(tensor);
    weft_graph_output(g, "y", weft_add(g, weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){3, 2}), c));
    weft_graph_output(g, "c", c);
}

static void identity(weft_graph *g) {
    weft_graph_output(g, "y", weft_graph_input(g, "x", WEFT_I32, 1, (weft_dim[]){3}));
}

static void constant(weft_graph *g) { weft_graph_output(g, "y", weft_full(g, WEFT_F32, 2, (weft_dim[]){2, 2}, 1.5)); }

static void empty(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){0, 4}),
               *z = weft_graph_input(g, "z", WEFT_F32, 2, (weft_dim[]){3, 0});
    weft_graph_output(g, "y", weft_exp(g, x));
    weft_graph_output(g, "sum", weft_reduce_sum(g, z, 1, (int64_t[]){1}, false));
    weft_graph_output(g, "product", weft_matmul(g, z, weft_transpose(g, z, NULL)));
    weft_graph_output(g, "same", x);
}

/* No step is left, and values between them have no elements. */
static void no_steps(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){0, 4});
    weft_value *h = weft_softmax(g, weft_matmul(g, x, parameter(g, "w", 2, (int64_t[]){4, 5})), -1);
    weft_graph_output(g, "y", weft_matmul(g, h, parameter(g, "v", 2, (int64_t[]){5, 3})));
}

static void empty_batch(weft_graph *g) {
    weft_dim batch = weft_graph_symbol(g, "B", 0, 64, 1);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){batch, 4});
    weft_graph_output(g, "y", weft_softmax(g, weft_matmul(g, x, parameter(g, "w", 2, (int64_t[]){4, 3})), -1));
    weft_graph_output(g, "sum", weft_reduce_sum(g, x, 0, NULL, false));
}

/* counter starts at 5, 6, 7; total at zeros. */
static void state(weft_graph *g) {
    weft_tensor *initial = numbers(g, 1, (int64_t[]){3});
    if (!initial) return;
    for (int i = 0; i < 3; i++) ((float *)weft_tensor_data(initial))[i] = (float)(5 + i);
    weft_type type = weft_type_make(g, WEFT_F32, 1, (weft_dim[]){3});
    weft_graph_add_state(g, "counter", &type, initial);
    weft_graph_add_state(g, "total", &type, NULL);
    weft_tensor_release(initial);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 1, (weft_dim[]){3});
    weft_value *old = weft_state_read(g, "counter"), *next = weft_add(g, old, x);
    weft_state_update(g, "counter", next);
    weft_state_update(g, "total", weft_add(g, weft_state_read(g, "total"), next));
    weft_graph_output(g, "old", old);
    weft_graph_output(g, "next", weft_state_read(g, "counter"));
    weft_graph_output(g, "c", parameter(g, "c", 1, (int64_t[]){2}));
}

/* Pairs of groups that differ in one thing only, so that kernels shared between unlike groups give wrong numbers: an
   integer, a list, an extent, a string, the value of a constant, the order of operands, what is constant. */
static void alike(weft_graph *g) {
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){3, 3}),
               *z = weft_graph_input(g, "z", WEFT_F32, 3, (weft_dim[]){3, 3, 3}),
               *w = parameter(g, "w", 2, (int64_t[]){3, 3});
    weft_value *pairs[7][2];
    for (int i = 0; i < 2; i++) {
        weft_value *a = weft_optimization_barrier(g, x), *b = weft_optimization_barrier(g, z), *e = weft_exp(g, a);
        pairs[0][i] = weft_cumulative(g, WEFT_SUM, a, i, false, false);
        pairs[1][i] = weft_tanh(g, weft_transpose(g, b, i ? (int64_t[]){1, 0, 2} : (int64_t[]){0, 2, 1}));
        pairs[2][i] = weft_tanh(g, weft_slice_axis(g, b, 0, i, i + 2));
        pairs[3][i] = weft_reduce(g, i ? WEFT_MAX : WEFT_SUM, a, 1, (int64_t[]){1}, false);
        pairs[4][i] = weft_tanh(g, weft_mul_number(g, a, i ? 2 : 3));
        pairs[5][i] = i ? weft_sub(g, e, a) : weft_sub(g, a, e);
        pairs[6][i] = weft_matmul(g, a, i ? w : weft_tanh(g, weft_optimization_barrier(g, x)));
    }
    for (int p = 0; p < 7; p++) {
        char name[4] = {'p', (char)('0' + p), 0};
        weft_graph_output(g, name, weft_stack(g, 0, 2, pairs[p]));
    }
}

const test_sample test_samples[] = {{"mlp", mlp},
                                    {"convolution", convolution},
                                    {"cond", cond},
                                    {"while", while_loop},
                                    {"scan", scan},
                                    {"symbolic", symbolic},
                                    {"anonymous", anonymous},
                                    {"outputs", outputs},
                                    {"identity", identity},
                                    {"constant", constant},
                                    {"empty", empty},
                                    {"empty_batch", empty_batch},
                                    {"state", state},
                                    {"no_steps", no_steps},
                                    {"strided", strided},
                                    {"alike", alike},
                                    {0}};
