/* States in place: the values of three calls against the interpreter, and how many copies the program makes. */
#include "tests/compile/testing.h"

#include "compile/unit.h"
#include "ir/interpret.h"

#include <stdio.h>
#include <string.h>

enum { CALLS = 3, SIZE = 37 };

typedef struct state_case {
    const char *name;
    void (*build)(weft_graph *g, weft_value *x);
    int copies;   /* steps that copy, at most */
    int launches; /* and that launch; 0 = any number */
} state_case;

static weft_value *number(weft_graph *g, double value) { return weft_scalar(g, WEFT_F32, value); }

/* m = 0.9 m + x; w = w - m: both in place. */
static void momentum(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w");
    weft_value *m = weft_add(g, weft_mul(g, weft_state_read(g, "m"), number(g, 0.9)), x);
    weft_state_update(g, "m", m);
    weft_state_update(g, "w", weft_sub(g, w, m));
}

/* w and m change places, with arithmetic: one of the two must wait. */
static void swap(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *m = weft_state_read(g, "m");
    weft_state_update(g, "w", weft_add(g, m, x));
    weft_state_update(g, "m", weft_mul(g, w, x));
}

/* The new value at [i, j] needs the old one at [j, i]. */
static void transpose(weft_graph *g, weft_value *x) {
    weft_value *w = weft_add(g, weft_transpose(g, weft_state_read(g, "w"), NULL), x);
    weft_state_update(g, "w", w);
}

/* ... and here behind an elementwise op. */
static void transpose_behind(weft_graph *g, weft_value *x) {
    weft_value *w = weft_mul(g, weft_state_read(g, "w"), x);
    weft_state_update(g, "w", weft_add(g, weft_transpose(g, w, NULL), x));
}

/* The old value is read after the new one is written, and is an output. */
static void old_value(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *next = weft_add(g, w, x);
    weft_state_update(g, "w", next);
    weft_graph_output(g, "product", weft_matmul(g, next, w));
    weft_graph_output(g, "old", w);
}

/* Two updates in a call, each seen by what follows. */
static void twice(weft_graph *g, weft_value *x) {
    weft_value *first = weft_add(g, weft_state_read(g, "w"), x);
    weft_state_update(g, "w", first);
    weft_value *second = weft_matmul(g, weft_state_read(g, "w"), x);
    weft_state_update(g, "w", second);
    weft_graph_output(g, "sum", weft_add(g, first, weft_state_read(g, "w")));
}

/* A product writes its result where its operand lies: never. */
static void product(weft_graph *g, weft_value *x) {
    weft_state_update(g, "w", weft_matmul(g, weft_state_read(g, "w"), x));
}

/* One value becomes two states; a state takes another's old value. */
static void shared(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *next = weft_add(g, weft_mul(g, w, x), x);
    weft_state_update(g, "w", next);
    weft_state_update(g, "m", w);
}

static void copied(weft_graph *g, weft_value *x) {
    weft_value *next = weft_mul(g, weft_state_read(g, "w"), x);
    weft_state_update(g, "w", next);
    weft_state_update(g, "m", next);
}

/* Rows are normalised by a reduction over the old value: the group reads all of a row before it writes. */
static void reduced(weft_graph *g, weft_value *x) {
    weft_value *w = weft_add(g, weft_state_read(g, "w"), x);
    weft_value *sum = weft_reduce_sum(g, weft_square(g, w), 1, (int64_t[]){0}, true);
    weft_state_update(g, "w", weft_div(g, w, weft_sqrt(g, sum)));
}

/* Five states of different shapes, moved towards values of x: one launch in place, and none of them is lost. */
static void many(weft_graph *g, weft_value *x) {
    static const int64_t shapes[5][2] = {{5, 1}, {SIZE, 3}, {1, SIZE}, {2, 2}, {SIZE, SIZE}};
    weft_value *next[5];
    char name[16];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "state %d", i);
        weft_graph_state_zeros(g, name, WEFT_F32, 2, shapes[i]);
        weft_value *piece = weft_slice_axis(g, weft_slice_axis(g, x, 0, 0, shapes[i][0]), 1, 0, shapes[i][1]);
        weft_value *old = weft_state_read(g, name);
        next[i] = weft_add(g, weft_mul(g, old, number(g, 0.5)), weft_tanh(g, weft_sub(g, piece, old)));
    }
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "state %d", i);
        weft_state_update(g, name, next[i]);
    }
}

/* Gradient descent on a weight: the product's epilogue reads and writes it. */
static void descent(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *gradient = weft_matmul(g, weft_transpose(g, x, NULL), weft_tanh(g, x));
    weft_state_update(g, "w", weft_sub(g, w, weft_mul(g, gradient, number(g, 0.1))));
}

/* ... and on a bias, behind a sum over rows and one over columns. */
static void descent_bias(weft_graph *g, weft_value *x) {
    static const int64_t shape[1] = {SIZE};
    static const char *const names[2] = {"b", "c"}, *const moments[2] = {"b moment", "c moment"};
    for (int i = 0; i < 2; i++) {
        weft_graph_state_zeros(g, names[i], WEFT_F32, 1, shape);
        weft_value *sum = weft_reduce_sum(g, x, 1, (int64_t[]){i}, false), *old = weft_state_read(g, names[i]);
        weft_graph_state_zeros(g, moments[i], WEFT_F32, 1, shape);
        weft_value *m = weft_add(g, weft_mul(g, weft_state_read(g, moments[i]), number(g, 0.9)), sum);
        weft_state_update(g, moments[i], m);
        weft_state_update(g, names[i], weft_sub(g, old, weft_mul(g, weft_tanh(g, m), number(g, 0.1))));
    }
}

/* Two results of a product depend on the old m: it may be looked at for each, after the other is written. */
static void descent_momentum(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *m = weft_state_read(g, "m");
    weft_value *gradient = weft_matmul(g, weft_transpose(g, x, NULL), weft_tanh(g, x));
    weft_value *next = weft_add(g, weft_mul(g, m, number(g, 0.9)), gradient);
    weft_state_update(g, "m", next);
    weft_state_update(g, "w", weft_sub(g, weft_mul(g, w, number(g, 0.5)), weft_mul(g, m, next)));
}

static void branch_then(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)arguments;
    weft_state_update(g, "w", weft_mul(g, weft_state_read(g, "w"), self));
    results[0] = weft_scalar(g, WEFT_F32, 1);
}
static void branch_else(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)arguments, (void)self;
    results[0] = weft_scalar(g, WEFT_F32, 2);
}
/* Updates inside a branch. */
static void branch(weft_graph *g, weft_value *x) {
    weft_value *w = weft_state_read(g, "w"), *result;
    weft_value *positive = weft_compare(g, WEFT_LT, weft_reduce_sum(g, w, 0, NULL, false), number(g, 1e6));
    weft_cond(g, positive, branch_then, branch_else, x, 1, &result);
    weft_graph_output(g, "sum", weft_add(g, w, weft_state_read(g, "w")));
    weft_graph_output(g, "which", result);
}

static const state_case cases[] = {
    {"momentum", momentum, 0, 1},       {"swap", swap, 2, 0},           {"transpose", transpose, 1, 0},
    {"behind", transpose_behind, 1, 0}, {"old_value", old_value, 3, 0}, {"twice", twice, 3, 0},
    {"product", product, 1, 0},         {"shared", shared, 3, 0},       {"copied", copied, 1, 0},
    {"reduced", reduced, 1, 0},         {"branch", branch, 100, 0},     {"many", many, 0, 1},
    {"descent", descent, 0, 0},         {"bias", descent_bias, 0, 0},   {"both", descent_momentum, 1, 0},
};

static weft_tensor *values(weft_context *context, int seed) {
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(context, WEFT_F32, 2, (int64_t[]){SIZE, SIZE}, &tensor));
    for (int i = 0; i < SIZE * SIZE; i++)
        ((float *)weft_tensor_data(tensor))[i] = (float)((i * 7 + seed * 13) % 31 - 15) / 64;
    return tensor;
}

static void count_steps(weft_graph *graph, int *out_copies, int *out_launches) {
    const weft_capability *host;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    weft_unit *unit;
    *out_copies = *out_launches = 0;
    host = weft_capability_find("cpu", "x86-64-v3");
    assert_fine(weft_unit_compile(graph, NULL, host, &options, &unit));
    const weft_step_list *main = &unit->program->regions[WEFT_REGION_MAIN];
    for (int i = 0; i < main->count; i++) {
        *out_copies += main->steps[i].kind == WEFT_STEP_COPY;
        *out_launches += main->steps[i].kind == WEFT_STEP_LAUNCH;
    }
    weft_unit_release(unit);
}

static void close_to(const char *name, const weft_tensor *a, const weft_tensor *b) {
    const float *x = weft_tensor_data(a), *y = weft_tensor_data(b);
    for (int64_t i = 0; i < weft_tensor_element_count(a); i++) {
        float off = x[i] - y[i], scale = y[i] < 0 ? 1 - y[i] : 1 + y[i];
        ck_assert_msg(off <= 1e-5f * scale && -off <= 1e-5f * scale, "%s: element %d is %g, not %g", name, (int)i,
                      (double)x[i], (double)y[i]);
    }
}

START_TEST(test_states) {
    const state_case *c = &cases[_i];
    weft_context *context;
    weft_graph *g;
    weft_program *program;
    weft_session *session;
    weft_interpreter interpreter;
    assert_fine(test_context(NULL, NULL, "", &context));
    assert_fine(weft_graph_create(context, c->name, &g));
    static const char *const names[2] = {"w", "m"};
    for (int i = 0; i < 2; i++) {
        weft_tensor *initial = values(context, i);
        weft_graph_state(g, names[i], initial);
        weft_tensor_release(initial);
    }
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){SIZE, SIZE});
    c->build(g, x);
    assert_fine(weft_graph_verify(g));
    int copies, launches, outputs = weft_graph_output_count(g);
    count_steps(g, &copies, &launches);
    ck_assert_msg(copies <= c->copies, "%s: %d copies", c->name, copies);
    ck_assert_msg(!c->launches || launches <= c->launches, "%s: %d launches", c->name, launches);
    assert_fine(weft_compile(g, NULL, &program));
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_interpreter_init(g, WEFT_INTERPRET_EXACT, &interpreter));
    for (int call = 0; call < CALLS; call++) {
        weft_tensor *in = values(context, 5 + call), *got[TEST_PORTS] = {0}, *want[TEST_PORTS] = {0};
        assert_fine(weft_session_call(session, 1, &in, outputs, got));
        assert_fine(weft_interpreter_run(&interpreter, 1, &in, outputs, want));
        for (int i = 0; i < outputs; i++) close_to(c->name, got[i], want[i]);
        for (size_t i = 0; i < g->state_count; i++) {
            weft_tensor *state;
            assert_fine(weft_session_read_state(session, g->states[i].name, &state));
            close_to(c->name, state, weft_interpreter_state(&interpreter, g->states[i].name));
            weft_tensor_release(state);
        }
        weft_tensor_release(in);
        test_release(got);
        test_release(want);
    }
    weft_interpreter_deinit(&interpreter);
    weft_session_release(session);
    weft_program_release(program);
    weft_graph_release(g);
    weft_context_release(context);
}
END_TEST

Suite *states_suite(void) {
    Suite *suite = suite_create("states");
    TCase *group = tcase_create("in place");
    tcase_set_timeout(group, 60);
    tcase_add_loop_test(group, test_states, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, group);
    return suite;
}
