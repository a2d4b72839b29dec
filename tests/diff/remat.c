/* Rematerialisation: equal bits and fewer planned bytes for each policy; a loop's body as a scope; nested scopes. */
#include "tests/diff/testing.h"

#include <string.h>

#include "weft/compile.h"

enum { LAYERS = 8, ROWS = 64, WIDTH = 32, BLOCK = 4 };

static weft_context *context;

static void set_up(void) { expect(weft_context_create(NULL, &context), "context"); }
static void tear_down(void) { weft_context_release(context); }

typedef struct trial {
    const char *name;
    const weft_remat_options *options; /* by scope of BLOCK layers */
    bool scopes, loop, nested;
} trial;

/* sin makes the residual cos(x): something that only the reverse part reads. */
static weft_value *layer(weft_graph *g, weft_value *x, weft_value *w, int number) {
    weft_value *y = weft_matmul(g, x, w);
    y = weft_save_name(g, weft_add(g, weft_sin(g, y), weft_mul_number(g, weft_square(g, y), 0.5)),
                       number % 2 ? "odd" : "even");
    return weft_add(g, x, weft_tanh(g, y));
}

static weft_value *blocks(weft_graph *g, const trial *t, weft_value *x, weft_value **w) {
    for (int i = 0; i < LAYERS; i++) {
        if (t->scopes && i % BLOCK == 0) weft_remat_begin(g, t->options);
        if (t->nested && i % 2 == 0) weft_remat_begin(g, NULL);
        x = layer(g, x, w[i], i);
        if (t->nested && i % 2 == 1) weft_remat_end(g);
        if (t->scopes && i % BLOCK == BLOCK - 1) weft_remat_end(g);
    }
    return x;
}

static void loop_body(void *self, weft_graph *g, weft_value *const *a, weft_value **results) {
    const trial *t = self;
    if (t->scopes) weft_remat_begin(g, t->options);
    weft_value *x = layer(g, layer(g, a[0], a[1], 0), a[1], 1);
    if (t->scopes) weft_remat_end(g);
    results[0] = x;
}

static weft_value *looped(weft_graph *g, const trial *t, weft_value *x, weft_value **w) {
    weft_value *result, *stacked = weft_stack(g, 0, LAYERS, w);
    trial own = *t;
    weft_scan(g, 1, &x, 1, &stacked, LAYERS, false, loop_body, &own, 0, &result);
    return result;
}

/* Outputs: loss, gradients of x and of every w. Inputs x, w... */
static weft_graph *build(const trial *t) {
    static const char *const names[LAYERS] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    static const char *const gradient_names[LAYERS + 1] = {"dx", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};
    weft_graph *g;
    weft_value *x[LAYERS + 1], *gradients[LAYERS + 1];
    expect(weft_graph_create(context, t->name, &g), t->name);
    x[0] = weft_graph_input(g, "x", WEFT_F64, 2, (weft_dim[]){ROWS, WIDTH});
    for (int i = 0; i < LAYERS; i++) x[i + 1] = weft_graph_input(g, names[i], WEFT_F64, 2, (weft_dim[]){WIDTH, WIDTH});
    weft_value *y = t->loop ? looped(g, t, x[0], x + 1) : blocks(g, t, x[0], x + 1);
    weft_value *loss = weft_reduce_sum(g, weft_square(g, y), 0, NULL, false);
    weft_gradient(g, loss, NULL, LAYERS + 1, x, gradients);
    weft_graph_output(g, "loss", loss);
    for (int i = 0; i <= LAYERS; i++) weft_graph_output(g, gradient_names[i], gradients[i]);
    expect(weft_graph_verify(g), t->name);
    return g;
}

static int64_t planned_bytes(weft_graph *g, weft_tensor *const *in, weft_tensor **out, const char *name) {
    int64_t bytes = 0, weights;
#ifdef WEFT_HAVE_LLVM
    weft_program *program;
    weft_session *session;
    const int64_t *shapes[LAYERS + 1];
    static const int64_t input_shapes[2][2] = {{ROWS, WIDTH}, {WIDTH, WIDTH}};
    for (int i = 0; i <= LAYERS; i++) shapes[i] = input_shapes[i > 0];
    expect(weft_compile(g, NULL, &program), name);
    expect(weft_program_memory(program, LAYERS + 1, shapes, &bytes, &weights), name);
    expect(weft_session_create(program, &session), name);
    expect(weft_session_call(session, LAYERS + 1, in, LAYERS + 2, out), name);
    weft_session_release(session);
    weft_program_release(program);
#else
    expect(weft_graph_interpret(g, LAYERS + 1, in, LAYERS + 2, out), name);
    (void)weights;
#endif
    return bytes;
}

/* Bytes of a trial; its outputs must be the first trial's, bit for bit. */
static int64_t measure(const trial *t, weft_tensor *const *in, weft_tensor **expected) {
    weft_tensor *out[LAYERS + 2] = {0}, *interpreted[LAYERS + 2] = {0};
    weft_graph *g = build(t);
    expect(weft_graph_interpret(g, LAYERS + 1, in, LAYERS + 2, interpreted), t->name);
    int64_t bytes = planned_bytes(g, in, out, t->name);
    for (int i = 0; i < LAYERS + 2; i++) {
        size_t size = (size_t)weft_tensor_element_count(out[i]) * sizeof(double);
        if (!expected[i]) {
            expected[i] = out[i];
            weft_tensor_retain(expected[i]);
        }
        ck_assert_msg(!memcmp(elements(out[i]), elements(expected[i]), size), "%s: output %d has other bits", t->name,
                      i);
        for (size_t e = 0; e < size / sizeof(double); e++)
            ck_assert_double_eq_tol(elements(out[i])[e], elements(interpreted[i])[e],
                                    1e-9 *
                                        (1 + (elements(interpreted[i])[e] < 0 ? -1 : 1) * elements(interpreted[i])[e]));
        weft_tensor_release(out[i]), weft_tensor_release(interpreted[i]);
    }
    weft_graph_release(g);
    return bytes;
}

static void make_inputs(weft_tensor **in) {
    for (int i = 0; i <= LAYERS; i++)
        in[i] = random_tensor(context, 2, (int64_t[]){i ? WIDTH : ROWS, WIDTH}, -0.3, 0.3);
}
static void release(int count, weft_tensor **tensors) {
    for (int i = 0; i < count; i++) weft_tensor_release(tensors[i]);
}

static const weft_remat_options everything = {sizeof everything, WEFT_SAVE_EVERYTHING, 0, NULL, 0},
                                products = {sizeof products, WEFT_SAVE_PRODUCTS, 0, NULL, 0},
                                odd = {sizeof odd, WEFT_SAVE_NAMED, 1, (const char *const[]){"odd"}, 0},
                                large = {sizeof large, WEFT_SAVE_WITHIN_BUDGET, 0, NULL, 1 << 30},
                                small = {sizeof small, WEFT_SAVE_WITHIN_BUDGET, 0, NULL, 4 * ROWS *WIDTH * 8},
                                none = {sizeof none, WEFT_SAVE_WITHIN_BUDGET, 0, NULL, 0};

START_TEST(policies) {
    static const trial trials[] = {{"plain", NULL, false, false, false},
                                   {"nothing", NULL, true, false, false},
                                   {"everything", &everything, true, false, false},
                                   {"products", &products, true, false, false},
                                   {"named", &odd, true, false, false},
                                   {"large budget", &large, true, false, false},
                                   {"small budget", &small, true, false, false},
                                   {"no budget", &none, true, false, false},
                                   {"nested", NULL, true, false, true}};
    enum { COUNT = sizeof trials / sizeof *trials };
    weft_tensor *in[LAYERS + 1], *expected[LAYERS + 2] = {0};
    int64_t bytes[COUNT];
    make_inputs(in);
    for (int i = 0; i < COUNT; i++) bytes[i] = measure(&trials[i], in, expected);
#ifdef WEFT_HAVE_LLVM
    ck_assert_msg(bytes[1] * 10 <= bytes[0] * 8, "nothing saved, %lld bytes of %lld", (long long)bytes[1],
                  (long long)bytes[0]);
    ck_assert_int_eq(bytes[2], bytes[0]);
    ck_assert_int_lt(bytes[3], bytes[0]);
    ck_assert_int_lt(bytes[4], bytes[0]);
    ck_assert_int_eq(bytes[5], bytes[0]);
    ck_assert_int_lt(bytes[6], bytes[0]);
    ck_assert_int_lt(bytes[7], bytes[0]);
    ck_assert_int_lt(bytes[8], bytes[0]);
#else
    (void)bytes;
#endif
    release(LAYERS + 1, in), release(LAYERS + 2, expected);
}
END_TEST

START_TEST(loops) {
    static const trial trials[] = {{"plain loop", NULL, false, true, false}, {"loop", NULL, true, true, false}};
    weft_tensor *in[LAYERS + 1], *expected[LAYERS + 2] = {0};
    int64_t bytes[2];
    make_inputs(in);
    for (int i = 0; i < 2; i++) bytes[i] = measure(&trials[i], in, expected);
#ifdef WEFT_HAVE_LLVM
    ck_assert_msg(bytes[1] * 10 <= bytes[0] * 7, "%lld bytes of %lld", (long long)bytes[1], (long long)bytes[0]);
#else
    (void)bytes;
#endif
    release(LAYERS + 1, in), release(LAYERS + 2, expected);
}
END_TEST

TCase *case_remat(void) {
    TCase *c = tcase_create("remat");
    tcase_set_timeout(c, 250);
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, policies);
    tcase_add_test(c, loops);
    return c;
}
