/* Graphs of the list, lowered; programs run in the simulator. See faults.h. */
#include "tests/faults/faults.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tensor.h"
#include "codegen/kernel/simulate.h"
#include "codegen/kernel/verify.h"
#include "passes/pass.h"
#include "runtime/program.h"
#include "weft/ops.h"

enum { SLACK = 1 << 16, SYMBOLS = 4, BUFFERS_MAX = 64 };

/* -- graphs; no constants: everything that a kernel reads is an input or a temporary */

static weft_value *input(weft_graph *g, const char *name, weft_dim rows, weft_dim columns) {
    weft_dim dims[2] = {rows, columns};
    return columns ? weft_graph_input(g, name, WEFT_F32, 2, dims) : weft_graph_input(g, name, WEFT_F32, 1, dims);
}

static void build(weft_graph *g, fault_model model) {
    static const int64_t last[1] = {1};
    weft_value *y = NULL;
    switch (model) {
    case POINTWISE: {
        weft_value *a = input(g, "a", 5001, 0), *b = input(g, "b", 5001, 0), *c = input(g, "c", 5001, 0);
        y = weft_where(g, weft_compare(g, WEFT_LT, a, b), weft_sub(g, weft_round(g, weft_mul(g, a, c)), b),
                       weft_min(g, weft_mul(g, a, b), c));
        break;
    }
    case SOFTMAX: y = weft_softmax(g, input(g, "x", 5, 300), -1); break;
    case MATMUL: y = weft_matmul(g, input(g, "a", 37, 45), input(g, "b", 45, 51)); break;
    case MAXIMA: y = weft_reduce_max(g, input(g, "x", 5, 300), 1, last, false); break;
    case SYMBOLIC: {
        weft_value *x = input(g, "x", weft_graph_symbol(g, "N", 1, 1000, 1), 70);
        y = weft_mul(g, x, x);
        break;
    }
    case SUMS: y = weft_reduce_sum(g, input(g, "x", weft_graph_symbol(g, "N", 1, 1000, 1), 70), 1, last, false);
    }
    weft_graph_output(g, "y", y);
}

static void make_input(subject *s, const weft_type *type) {
    int64_t shape[2], count = 1;
    for (int d = 0; d < type->rank; d++) {
        shape[d] = weft_dim_is_number(type->dims[d]) ? type->dims[d] : 23;
        count *= shape[d];
    }
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(s->context, WEFT_F32, type->rank, shape, &tensor));
    float *data = weft_tensor_data(tensor);
    uint64_t state = 12345 + (uint64_t)s->input_count;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)(int)(state >> 33 & 8191) / 1024.0f - 3.97f;
    }
    s->inputs[s->input_count++] = tensor;
}

static verdict take(weft_status status, verdict worst, char *why) {
    if (!status) return RIGHT;
    (void)weft_status_format(status, why, WORDS);
    why[strcspn(why, "\n")] = '\0';
    weft_status_release(status);
    return worst;
}

static verdict make(weft_context *context, fault_model model, const weft_capability *capability, subject *out,
                    char *why) {
    *out = (subject){.context = context, .capability = capability};
    weft_graph *g;
    assert_fine(weft_graph_create(context, "subject", &g));
    build(g, model);
    assert_fine(weft_graph_verify(g));
    for (int i = 0; i < weft_graph_input_count(g); i++) make_input(out, &weft_graph_input_value(g, i)->type);
    assert_fine(weft_graph_interpret(g, out->input_count, out->inputs, 1, &out->expected));
    assert_fine(weft_graph_clone(g, NULL, &out->graph));
    weft_graph_release(g);
    assert_fine(weft_graph_finish(out->graph));
    weft_pass_context pass = {
        .graph = out->graph, .capability = capability, .options = "", .claims = weft_builder_claims};
    assert_fine(weft_pipeline_run(&pass, weft_pipeline_standard));
    weft_arena_init(context->allocator, &out->arena);
    weft_arena_init(context->allocator, &out->kernel_arena);
    return take(weft_lower(out->graph, capability, &(weft_lower_settings){.thread_count = 1}, &out->arena,
                           &out->kernel_arena, &out->lowered),
                REFUSED, why);
}

static void drop(subject *s) {
    for (int i = 0; i < s->input_count; i++) weft_tensor_release(s->inputs[i]);
    weft_tensor_release(s->expected);
    weft_arena_deinit(&s->kernel_arena);
    weft_arena_deinit(&s->arena);
    weft_graph_release(s->graph);
}

bool subject_try(weft_context *context, fault_model model, const weft_capability *capability, subject *out, char *why) {
    if (make(context, model, capability, out, why) == RIGHT) return true;
    drop(out);
    return false;
}

void subject_make(weft_context *context, fault_model model, const weft_capability *capability, subject *out) {
    char why[WORDS] = "";
    verdict v = make(context, model, capability, out, why);
    ck_assert_msg(v == RIGHT, "%s", why);
}

/* The program's table of extents goes with whoever owns the program. */
void subject_drop(subject *s) {
    weft_dim_table_release(s->lowered.program->dims);
    drop(s);
}

const char *subject_compare(const subject *s, const float *result, char *why) {
    const float *expected = weft_tensor_data(s->expected);
    for (int64_t i = 0; i < weft_tensor_element_count(s->expected); i++) {
        float a = expected[i], b = result[i];
        if (fabsf(a - b) <= 1e-4f * (1 + fabsf(a))) continue;
        snprintf(why, WORDS, "element %lld is %g, not %g", (long long)i, (double)b, (double)a);
        return why;
    }
    return NULL;
}

verdict subject_verify(const subject *s, char *why) {
    for (int i = 0; i < s->lowered.program->kernel_count; i++) {
        verdict v = take(weft_kernel_verify(s->lowered.kernels[i]), REFUSED, why);
        if (v != RIGHT) return v;
    }
    return RIGHT;
}

/* -- a program in the simulator: launches and copies of one region after the other */

typedef struct run {
    const subject *s;
    int64_t symbols[SYMBOLS];
    weft_sim_buffer buffers[BUFFERS_MAX];
    bool owned[BUFFERS_MAX];
    bool exact;
} run;

static weft_status make_buffers(run *r) {
    const weft_program_data *p = r->s->lowered.program;
    for (int b = 0; b < p->buffer_count; b++) {
        const weft_buffer *buffer = &p->buffers[b];
        int64_t bytes, offset = 0;
        if (!weft_dim_evaluate(p->dims, buffer->bytes, r->symbols, &bytes)) return WEFT_STATUS(WEFT_INTERNAL, "bytes");
        if (buffer->kind == WEFT_BUFFER_ALIAS) {
            if (!weft_dim_evaluate(p->dims, buffer->offset, r->symbols, &offset))
                return WEFT_STATUS(WEFT_INTERNAL, "offset");
            r->buffers[b] = (weft_sim_buffer){(char *)r->buffers[buffer->index].data + offset, (size_t)bytes};
            continue;
        }
        r->owned[b] = true;
        r->buffers[b].data = malloc((size_t)bytes + SLACK);
        r->buffers[b].bytes = (size_t)bytes + (r->exact ? 0 : SLACK);
        memset(r->buffers[b].data, 0xff, (size_t)bytes + SLACK);
        if (buffer->kind == WEFT_BUFFER_INPUT)
            memcpy(r->buffers[b].data, weft_tensor_data(r->s->inputs[buffer->index]), (size_t)bytes);
    }
    return NULL;
}

static weft_status simulate_launch(run *r, const weft_step *step) {
    const weft_program_data *p = r->s->lowered.program;
    const weft_launch_variant *variant = step->variants;
    for (bool holds = false; !holds; variant += !holds) {
        holds = true;
        for (int i = 0; i < variant->condition_count; i++)
            holds &= weft_condition_holds(p->dims, &variant->conditions[i], r->symbols);
    }
    const weft_kernel *kernel = r->s->lowered.kernels[variant->kernel];
    weft_sim_buffer arguments[BUFFERS_MAX] = {0};
    int next = 0;
    for (size_t a = 0; a < kernel->argument_count; a++)
        if (kernel->arguments[a].source != WEFT_ARGUMENT_EXTENT) arguments[a] = r->buffers[variant->buffers[next++]];
    return weft_kernel_simulate(kernel, r->symbols, arguments, NULL, r->s->context->allocator);
}

static weft_status simulate_regions(run *r) {
    const weft_program_data *p = r->s->lowered.program;
    for (int region = WEFT_REGION_LOAD; region <= WEFT_REGION_MAIN; region++)
        for (int i = 0; i < p->regions[region].count; i++) {
            const weft_step *step = &p->regions[region].steps[i];
            if (step->kind == WEFT_STEP_LAUNCH)
                WEFT_TRY(simulate_launch(r, step), "step %d", i);
            else if (step->kind == WEFT_STEP_COPY)
                memcpy(r->buffers[step->buffers[1]].data, r->buffers[step->buffers[0]].data,
                       r->buffers[step->buffers[1]].bytes);
            else
                return WEFT_STATUS(WEFT_UNSUPPORTED, "control flow");
        }
    return NULL;
}

verdict subject_simulate(const subject *s, bool exact, char *why) {
    const weft_program_data *p = s->lowered.program;
    run r = {.s = s, .exact = exact};
    for (int i = 0; i < SYMBOLS; i++) r.symbols[i] = 23;
    ck_assert_int_le(p->buffer_count, BUFFERS_MAX);
    verdict v = take(make_buffers(&r), REFUSED, why);
    if (v == RIGHT) v = take(simulate_regions(&r), REFUSED, why);
    if (v == RIGHT && subject_compare(s, r.buffers[p->outputs[0].buffer].data, why)) v = WRONG;
    for (int i = 0; i < BUFFERS_MAX; i++)
        if (r.owned[i]) free(r.buffers[i].data);
    return v;
}
