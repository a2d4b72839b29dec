/* weft fuzz --batches: vmap of random graphs. The function of all inputs, applied to a batch of them at once, against
   one element at a time; both interpreted. Read next: fuzz.c. */
#include "cli/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "cli/compare.h"
#include "ir/build.h"
#include "ir/graph.h"
#include "ir/print.h"
#include "weft/ops.h"
#include "weft/transform.h"

enum { VALUES_MAX = 16, BATCH = 3 };

typedef struct trial {
    weft_graph *g;
    int input_count, value_count;
    weft_value *inputs[VALUES_MAX], *batches[VALUES_MAX], *values[VALUES_MAX];
    weft_text text; /* the graph of one element */
} trial;

static bool build(trial *t) {
    weft_value *results[VALUES_MAX];
    weft_vmap_options options = WEFT_VMAP_OPTIONS_INIT;
    t->input_count = weft_graph_input_count(t->g), t->value_count = weft_graph_output_count(t->g);
    if (t->input_count > VALUES_MAX || t->value_count > VALUES_MAX || !t->input_count) return false;
    for (int i = 0; i < t->value_count; i++) t->values[i] = weft_graph_output_value(t->g, i);
    for (int i = 0; i < t->input_count; i++) {
        weft_value *x = t->inputs[i] = weft_graph_input_value(t->g, i);
        weft_dim shape[WEFT_MAX_RANK + 1] = {BATCH};
        char name[40];
        if (x->type.rank >= WEFT_MAX_RANK) return false;
        for (int d = 0; d < x->type.rank; d++) shape[d + 1] = x->type.dims[d];
        snprintf(name, sizeof name, "batch%d", i);
        t->batches[i] = weft_graph_input(t->g, name, x->type.dtype, x->type.rank + 1, shape);
    }
    options.randomness = WEFT_VMAP_SAME;
    weft_vmap_values(t->g, &options, t->value_count, t->values, t->input_count, t->inputs, t->batches, results);
    for (int i = 0; i < t->value_count; i++) {
        char name[40];
        snprintf(name, sizeof name, "batched%d", i);
        weft_graph_output(t->g, name, results[i]);
    }
    return true;
}

/* Element k of a packed batch, or of its result. */
static weft_status element(weft_context *context, const weft_tensor *batch, int k, weft_tensor **out) {
    WEFT_TRY(weft_tensor_create(context, weft_tensor_dtype(batch), weft_tensor_rank(batch) - 1,
                                weft_tensor_shape(batch) + 1, out),
             "an element");
    weft_dtype dtype = weft_tensor_dtype(batch);
    const char *from = weft_tensor_data(batch);
    int64_t count = weft_tensor_element_count(*out), bits = weft_dtype_bits(dtype);
    if (bits >= 8) {
        memcpy(weft_tensor_data(*out), from + (size_t)(k * count * (bits / 8)), (size_t)(count * (bits / 8)));
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        weft_element_set_double(dtype, weft_tensor_data(*out), i, weft_element_double(dtype, from, k * count + i));
    return NULL;
}

static weft_status compare_element(trial *t, weft_context *context, unsigned long long seed, weft_tensor **in, int k,
                                   cli_fuzz_outcome *out_outcome) {
    weft_tensor *out[2 * VALUES_MAX] = {0};
    const cli_contract contract = {WEFT_TOLERANCE_GRAPH, "cpu", 1, 1};
    weft_status status = NULL;
    for (int i = 0; !status && i < t->input_count; i++) {
        weft_tensor_release(in[i]);
        in[i] = NULL;
        status = element(context, in[t->input_count + i], k, &in[i]);
    }
    if (!status) status = weft_graph_interpret(t->g, 2 * t->input_count, in, 2 * t->value_count, out);
    for (int i = 0; !status && i < t->value_count && *out_outcome == CLI_FUZZ_PASSED; i++) {
        weft_tensor *got;
        status = element(context, out[t->value_count + i], k, &got);
        if (status) break;
        cli_difference d = cli_compare(got, out[i], &contract);
        weft_tensor_release(got);
        if (!d.differs) continue;
        printf("%sseed %llu, output %d of element %d, place %lld: got %.9g, expected %.9g\n",
               weft_text_string(&t->text), seed, i, k, (long long)d.element, d.got, d.expected);
        *out_outcome = CLI_FUZZ_FAILED;
    }
    for (int i = 0; i < 2 * VALUES_MAX; i++) weft_tensor_release(out[i]);
    return status;
}

static weft_status run(trial *t, weft_context *context, unsigned long long seed, cli_fuzz_outcome *out_outcome) {
    weft_tensor *in[CLI_VALUES_MAX] = {0};
    *out_outcome = CLI_FUZZ_PASSED;
    weft_status status = cli_fuzz_inputs(context, t->g, seed, 5, in);
    for (int k = 0; !status && k < BATCH && *out_outcome == CLI_FUZZ_PASSED; k++)
        status = compare_element(t, context, seed, in, k, out_outcome);
    cli_fuzz_release(in);
    return status;
}

cli_fuzz_outcome cli_fuzz_batches(weft_context *context, unsigned long long seed, int ops) {
    trial t = {0};
    cli_fuzz_outcome outcome = CLI_FUZZ_SKIPPED;
    weft_print_options options = {.elide_constants = true};
    weft_text_init(weft_allocator_system(), &t.text);
    weft_status status = cli_fuzz_graph(context, seed, ops, &t.g);
    if (!status) status = weft_print(t.g, &options, &t.text);
    if (!status && build(&t)) {
        status = weft_graph_verify(t.g);
        if (!status) status = run(&t, context, seed, &outcome);
    }
    if (status) {
        outcome = CLI_FUZZ_FAILED;
        printf("%s", weft_text_string(&t.text));
        cli_fuzz_print_status(seed, status);
    }
    weft_status_release(status);
    weft_text_deinit(&t.text);
    weft_graph_release(t.g);
    return outcome;
}
