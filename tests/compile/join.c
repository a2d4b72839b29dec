/* Launches that share one: how many a program has, apart and joined, and the values of the joined one, for each target
   whose kernels the simulator runs. Temporaries lie where the memory plan puts them, so that a lifetime that is too
   short or an order that is wrong shows in the values; memory starts as NaN. */
#include "tests/compile/testing.h"

#include "codegen/kernel/simulate.h"
#include "compile/lower.h"
#include "ir/interpret.h"
#include "passes/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MAX = 160, SYMBOL_VALUE = 23, SYMBOLS_MAX = 4 };

static int input_number;
static weft_value *input(weft_graph *g, int64_t rows, int64_t columns) {
    char name[16];
    snprintf(name, sizeof name, "in %d", input_number++);
    return weft_graph_input(g, name, WEFT_F32, 2, (weft_dim[]){rows, columns});
}
static void output(weft_graph *g, weft_value *value) {
    char name[16];
    snprintf(name, sizeof name, "out %d", weft_graph_output_count(g));
    weft_graph_output(g, name, value);
}

/* Three projections of one value by weights of their own. */
static void projections(weft_graph *g) {
    weft_value *x = input(g, 40, 48);
    for (int i = 0; i < 3; i++) output(g, weft_matmul(g, x, input(g, 48, 24 + 8 * i)));
}

/* The low-rank pairs of two layers: two chains of two products side by side. */
static void pairs(weft_graph *g) {
    for (int i = 0; i < 2; i++) {
        weft_value *x = input(g, 33, 264), *narrow = weft_matmul(g, x, input(g, 264, 4));
        output(g, narrow);
        output(g, weft_matmul(g, narrow, input(g, 4, 264)));
    }
}

/* Norms of different shapes, each its own group of rows. */
static void norms(weft_graph *g) {
    static const int64_t shapes[4][2] = {{7, 96}, {19, 96}, {64, 96}, {3, 96}};
    for (int i = 0; i < 4; i++) output(g, weft_softmax(g, input(g, shapes[i][0], shapes[i][1]), 1));
}

/* Elementwise work of different shapes, one of them of a symbolic extent. */
static void points(weft_graph *g) {
    output(g, weft_tanh(g, input(g, 5, 61)));
    output(g, weft_sqrt(g, weft_abs(g, input(g, weft_graph_symbol(g, "N", 1, 1000, 1), 70))));
    output(g, weft_exp(g, input(g, 300, 3)));
}

/* Each product reads the one before: nothing to join. */
static void chain(weft_graph *g) {
    weft_value *x = input(g, 40, 264);
    for (int i = 0; i < 3; i++) output(g, x = weft_matmul(g, x, input(g, 264, 264)));
}

/* Two branches that meet, then two again; values of the first level are read at the third. */
static void diamond(weft_graph *g) {
    weft_value *x = input(g, 31, 40);
    weft_value *a = weft_tanh(g, weft_matmul(g, x, input(g, 40, 24)));
    weft_value *b = weft_tanh(g, weft_matmul(g, x, input(g, 40, 24)));
    weft_value *c = weft_matmul(g, a, weft_transpose(g, b, NULL));
    weft_value *d = weft_tanh(g, weft_matmul(g, c, a)), *e = weft_tanh(g, weft_matmul(g, c, b));
    output(g, weft_matmul(g, d, weft_transpose(g, e, NULL)));
}

/* A state that two products read before it is written and one reads after: their order stays. */
static void states(weft_graph *g) {
    static const int64_t shape[2] = {40, 40};
    weft_graph_state_zeros(g, "w", WEFT_F32, 2, shape);
    weft_value *x = input(g, 31, 40), *other = input(g, 40, 40), *old = weft_state_read(g, "w");
    output(g, weft_matmul(g, x, weft_add(g, old, other)));
    weft_state_update(g, "w", weft_add(g, weft_mul(g, old, other), other));
    output(g, weft_matmul(g, x, weft_state_read(g, "w")));
    output(g, weft_matmul(g, x, other));
}

/* A layer's weight and bias moved by their gradients, in place, and read after. */
static void updates(weft_graph *g) {
    static const int64_t shape[2] = {40, 24};
    weft_graph_state_zeros(g, "w", WEFT_F32, 2, shape);
    weft_graph_state_zeros(g, "b", WEFT_F32, 1, shape + 1);
    weft_graph_state_zeros(g, "m", WEFT_F32, 1, shape + 1);
    weft_value *x = input(g, 31, 40), *gradient = input(g, 31, 24), *rate = weft_scalar(g, WEFT_F32, 0.25);
    for (int i = 0; i < 2; i++) {
        weft_value *w = weft_state_read(g, "w"), *b = weft_state_read(g, "b");
        weft_value *by_w = weft_matmul(g, weft_transpose(g, x, NULL), gradient);
        weft_value *by_b = weft_reduce_sum(g, gradient, 1, (int64_t[]){0}, false);
        weft_state_update(g, "w", weft_sub(g, w, weft_mul(g, by_w, rate)));
        weft_value *m = weft_add(g, weft_mul(g, weft_state_read(g, "m"), rate), by_b);
        weft_state_update(g, "m", m);
        weft_state_update(g, "b", weft_sub(g, b, weft_mul(g, weft_tanh(g, m), rate)));
        gradient = weft_tanh(g, weft_add(g, weft_matmul(g, x, weft_state_read(g, "w")), weft_state_read(g, "b")));
        output(g, gradient);
    }
}

/* Heads with weights of their own, more of them than a recording runs side by side for nothing. */
static void heads(weft_graph *g) {
    weft_value *x = input(g, 20, 48);
    for (int i = 0; i < 5; i++) output(g, weft_matmul(g, x, input(g, 48, 16)));
}

/* Layers and their way back: one launch where there are warps (codegen/builders/network.c). */
static void network(weft_graph *g) {
    weft_value *x = input(g, 13, 5), *w[3], *h[3];
    for (int i = 0; i < 3; i++) {
        w[i] = input(g, i ? 24 : 5, i < 2 ? 24 : 3);
        h[i] = x = weft_tanh(g, weft_matmul(g, x, w[i]));
    }
    for (int i = 2; i >= 0; i--) {
        x = weft_sub(g, x, weft_mul(g, x, weft_mul(g, h[i], h[i])));
        output(g, x);
        if (i) x = weft_matmul(g, x, weft_transpose(g, w[i], NULL));
    }
}

typedef struct join_case {
    const char *name;
    void (*build)(weft_graph *g);
    int apart, joined, recorded; /* launches; joined; joined for cuda, whose recordings run branches side by side.
                                    joined 0: fewer or as many */
} join_case;

static const join_case cases[] = {
    {"projections", projections, 3, 1, 3}, {"pairs", pairs, 4, 3, 4},     {"norms", norms, 4, 1, 1},
    {"points", points, 3, 2, 3},           {"chain", chain, 3, 3, 3},     {"diamond", diamond, 6, 4, 5},
    {"states", states, 5, 0, 0},           {"updates", updates, 6, 0, 0}, {"heads", heads, 5, 1, 1},
    {"network", network, 1, 1, 1},
};
static const char *const targets[][2] = {
    {"cuda", "sm_80"}, {"cpu", "x86-64-v4"}, {"metal", "apple9"}, {"webgpu", "wgsl"}, {"amdgcn", "gfx942"}};
enum { CASES = sizeof cases / sizeof *cases, TARGETS = sizeof targets / sizeof *targets };

typedef struct subject {
    const join_case *c;
    weft_context *context;
    weft_graph *graph, *fused;
    weft_arena arena, kernel_arena;
    weft_lowered lowered;
    weft_tensor *inputs[TEST_PORTS], *outputs[TEST_PORTS];
} subject;

static void make_inputs(subject *s) {
    for (int i = 0; i < weft_graph_input_count(s->graph); i++) {
        const weft_type *type = &weft_graph_input_value(s->graph, i)->type;
        int64_t shape[2];
        for (int d = 0; d < 2; d++) shape[d] = weft_dim_is_number(type->dims[d]) ? type->dims[d] : SYMBOL_VALUE;
        assert_fine(weft_tensor_create(s->context, WEFT_F32, 2, shape, &s->inputs[i]));
        float *data = weft_tensor_data(s->inputs[i]);
        for (int64_t n = 0; n < shape[0] * shape[1]; n++) data[n] = (float)((n * 37 + i * 11) % 64 - 31) / 128;
    }
}

static int launches_of(const weft_program_data *p) {
    int count = 0;
    for (int i = 0; i < p->regions[WEFT_REGION_MAIN].count; i++)
        count += p->regions[WEFT_REGION_MAIN].steps[i].kind == WEFT_STEP_LAUNCH;
    return count;
}

static int copies_of(const weft_program_data *p) {
    int count = 0;
    for (int i = 0; i < p->regions[WEFT_REGION_MAIN].count; i++)
        count += p->regions[WEFT_REGION_MAIN].steps[i].kind == WEFT_STEP_COPY;
    return count;
}

static void lower(subject *s, const weft_capability *capability, bool keep_launches) {
    weft_lower_settings settings = {.thread_count = 2, .keep_launches = keep_launches};
    weft_pass_context pass = {.capability = capability, .options = "", .claims = weft_builder_claims};
    weft_arena_init(s->context->allocator, &s->arena);
    weft_arena_init(s->context->allocator, &s->kernel_arena);
    assert_fine(weft_graph_clone(s->graph, NULL, &s->fused));
    assert_fine(weft_graph_finish(s->fused));
    pass.graph = s->fused;
    assert_fine(weft_pipeline_run(&pass, weft_pipeline_standard));
    assert_fine(weft_lower(s->fused, capability, &settings, &s->arena, &s->kernel_arena, &s->lowered));
    assert_fine(weft_program_check(s->lowered.program));
}

static void drop_lowered(subject *s) {
    weft_dim_table_release(s->lowered.program->dims);
    weft_arena_deinit(&s->kernel_arena);
    weft_arena_deinit(&s->arena);
    weft_graph_release(s->fused);
}

static void start(subject *s, const join_case *c) {
    *s = (subject){.c = c};
    input_number = 0;
    assert_fine(test_context(NULL, NULL, "", &s->context));
    assert_fine(weft_graph_create(s->context, c->name, &s->graph));
    c->build(s->graph);
    assert_fine(weft_graph_verify(s->graph));
    make_inputs(s);
    assert_fine(weft_graph_interpret(s->graph, weft_graph_input_count(s->graph), s->inputs,
                                     weft_graph_output_count(s->graph), s->outputs));
}

static void end(subject *s) {
    test_release(s->inputs);
    test_release(s->outputs);
    weft_graph_release(s->graph);
    weft_context_release(s->context);
}

/* -- the joined program in the simulator */

static void place_buffers(const subject *s, const int64_t *symbols, char *workspace, const int64_t *offsets,
                          weft_sim_buffer *out_buffers) {
    const weft_program_data *p = s->lowered.program;
    for (int b = 0; b < p->buffer_count; b++) {
        const weft_buffer *buffer = &p->buffers[b];
        int64_t bytes;
        ck_assert(buffer->kind != WEFT_BUFFER_ALIAS);
        ck_assert(weft_dim_evaluate(p->dims, buffer->bytes, symbols, &bytes));
        out_buffers[b].bytes = (size_t)bytes;
        out_buffers[b].data = offsets[b] >= 0 ? workspace + offsets[b] : malloc((size_t)bytes + 1);
        if (offsets[b] < 0) memset(out_buffers[b].data, buffer->kind == WEFT_BUFFER_STATE ? 0 : 0xff, (size_t)bytes);
        if (buffer->kind == WEFT_BUFFER_INPUT)
            memcpy(out_buffers[b].data, weft_tensor_data(s->inputs[buffer->index]), (size_t)bytes);
    }
}

static void run(const subject *s, const int64_t *symbols, const weft_sim_buffer *buffers) {
    const weft_program_data *p = s->lowered.program;
    for (int i = 0; i < p->regions[WEFT_REGION_MAIN].count; i++) {
        const weft_step *step = &p->regions[WEFT_REGION_MAIN].steps[i];
        if (step->kind == WEFT_STEP_COPY) {
            memcpy(buffers[step->buffers[1]].data, buffers[step->buffers[0]].data, buffers[step->buffers[1]].bytes);
            continue;
        }
        ck_assert_int_eq(step->kind, WEFT_STEP_LAUNCH);
        const weft_launch_variant *variant = step->variants;
        for (bool holds = false; !holds; variant += !holds) {
            holds = true;
            for (int n = 0; n < variant->condition_count; n++)
                holds &= weft_condition_holds(p->dims, &variant->conditions[n], symbols);
        }
        const weft_kernel *kernel = s->lowered.kernels[variant->kernel];
        weft_sim_buffer arguments[BUFFERS_MAX] = {0};
        int next = 0;
        for (size_t a = 0; a < kernel->argument_count; a++)
            if (kernel->arguments[a].source != WEFT_ARGUMENT_EXTENT) arguments[a] = buffers[variant->buffers[next++]];
        assert_fine(weft_kernel_simulate(kernel, symbols, arguments, NULL, s->context->allocator));
    }
}

static void simulate(const subject *s) {
    const weft_program_data *p = s->lowered.program;
    int64_t symbols[SYMBOLS_MAX] = {SYMBOL_VALUE, SYMBOL_VALUE, SYMBOL_VALUE, SYMBOL_VALUE}, offsets[BUFFERS_MAX],
            total;
    weft_sim_buffer buffers[BUFFERS_MAX] = {0};
    ck_assert_int_le(p->buffer_count, BUFFERS_MAX);
    assert_fine(weft_memory_plan(p, symbols, s->context->allocator, offsets, &total));
    char *workspace = malloc((size_t)total + 1);
    memset(workspace, 0xff, (size_t)total);
    place_buffers(s, symbols, workspace, offsets, buffers);
    run(s, symbols, buffers);
    for (int o = 0; o < p->output_count; o++) {
        const float *want = weft_tensor_data(s->outputs[o]), *got = buffers[p->outputs[o].buffer].data;
        for (int64_t i = 0; i < weft_tensor_element_count(s->outputs[o]); i++)
            ck_assert_msg(fabsf(want[i] - got[i]) <= 1e-5f * (1 + fabsf(want[i])), "%s: output %d[%d] is %g, not %g",
                          s->c->name, o, (int)i, (double)got[i], (double)want[i]);
    }
    for (int b = 0; b < p->buffer_count; b++)
        if (offsets[b] < 0) free(buffers[b].data);
    free(workspace);
}

START_TEST(test_join) {
    const join_case *c = &cases[_i % CASES];
    const char *const *target = targets[_i / CASES];
    const weft_capability *capability = weft_capability_find(target[0], target[1]);
    subject s;
    if (!weft_target_find(target[0])) return;
    start(&s, c);
    lower(&s, capability, true);
    int apart = launches_of(s.lowered.program);
    simulate(&s);
    drop_lowered(&s);
    lower(&s, capability, false);
    int joined = launches_of(s.lowered.program);
    ck_assert_int_le(joined, apart);
    ck_assert_int_eq(copies_of(s.lowered.program), 0); /* states change in place */
    bool records = !strcmp(target[0], "cuda");
    if (records || !strcmp(target[0], "metal")) {
        int wanted = records ? c->recorded : c->joined;
        ck_assert_msg(apart == c->apart || !c->joined || records, "%s: %d launches apart", c->name, apart);
        if (c->joined) ck_assert_msg(joined == wanted, "%s: %d launches", c->name, joined);
    }
    simulate(&s);
    drop_lowered(&s);
    end(&s);
}
END_TEST

/* Equal sets of pieces have one kernel, and kernels that only pieces were made of are gone. */
START_TEST(test_kernels) {
    subject s;
    start(&s, &cases[1]);
    lower(&s, weft_capability_find("metal", "apple9"), false);
    ck_assert_int_eq(s.lowered.program->kernel_count, 2);
    drop_lowered(&s);
    end(&s);
}
END_TEST

Suite *join_suite(void) {
    Suite *suite = suite_create("join");
    TCase *group = tcase_create("launches");
    tcase_set_timeout(group, 120);
    tcase_add_loop_test(group, test_join, 0, CASES * TARGETS);
    tcase_add_test(group, test_kernels);
    suite_add_tcase(suite, group);
    return suite;
}
