/* weft fuzz --gradients: derivatives of random graphs. For random directions v and cotangents u the two numbers <u, J
   v>, by forward mode, and <J^T u, v>, by reverse mode, are one; both are interpreted and compiled. What is compared is
   divided by the sum of the absolute products (or, for second derivatives, <w, H v> and <v, H w>), and the limit
   follows the coarsest dtype of the graph. Graphs with an op that has no derivative, or with numbers that are not
   finite, are counted apart. Read next: fuzz.c. */
#include "cli/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "ir/graph.h"
#include "ir/print.h"
#include "weft/ops.h"
#include "weft/transform.h"

enum { VALUES_MAX = 32, NUMBERS = 3 };

typedef struct trial {
    weft_graph *g;
    weft_value *inputs[VALUES_MAX], *tangents[VALUES_MAX], *values[VALUES_MAX], *cotangents[VALUES_MAX];
    int input_count, value_count;
    double limit;
    weft_text text; /* the graph before derivatives */
} trial;

static weft_value *new_input(trial *t, const char *what, int number, weft_value *like) {
    char name[40];
    weft_dim shape[WEFT_MAX_RANK];
    snprintf(name, sizeof name, "%s%d", what, number);
    for (int i = 0; i < weft_value_rank(like); i++) shape[i] = weft_value_dim(like, i);
    return weft_graph_input(t->g, name, weft_value_dtype(like), weft_value_rank(like), shape);
}

/* The float inputs and outputs, each with a companion of its type. */
static bool gather(trial *t) {
    int inputs = weft_graph_input_count(t->g), outputs = weft_graph_output_count(t->g);
    if (inputs + inputs + outputs > CLI_VALUES_MAX || inputs > VALUES_MAX || outputs > VALUES_MAX) return false;
    for (int i = 0; i < inputs; i++) {
        weft_value *x = weft_graph_input_value(t->g, i);
        if (weft_dtype_is_float(weft_value_dtype(x))) t->inputs[t->input_count++] = x;
    }
    for (int i = 0; i < outputs; i++) {
        weft_value *y = weft_graph_output_value(t->g, i);
        if (weft_dtype_is_float(weft_value_dtype(y))) t->values[t->value_count++] = y;
    }
    for (int i = 0; i < t->input_count; i++) t->tangents[i] = new_input(t, "direction", i, t->inputs[i]);
    for (int i = 0; i < t->value_count; i++) t->cotangents[i] = new_input(t, "cotangent", i, t->values[i]);
    return t->input_count && t->value_count;
}

static weft_value *total(weft_graph *g, int count, weft_value *const *a, weft_value *const *b, bool absolute) {
    weft_value *sum = weft_scalar(g, WEFT_F64, 0);
    for (int i = 0; i < count; i++) {
        weft_value *product = weft_mul(g, weft_convert(g, a[i], WEFT_F64), weft_convert(g, b[i], WEFT_F64));
        if (absolute) product = weft_abs(g, product);
        sum = weft_add(g, sum, weft_reduce_sum(g, product, 0, NULL, false));
    }
    return sum;
}

/* What is left where terms cancel: roundings of the values themselves. */
static weft_value *rounding(const trial *t) {
    return weft_mul_number(t->g, total(t->g, t->value_count, t->values, t->cotangents, true), 0.01);
}

/* <w, H v> and <v, H w> of the sum of the values times the cotangents, forward over reverse. */
static void build_second(trial *t) {
    weft_value *others[VALUES_MAX], *products[2][VALUES_MAX];
    weft_graph *g = t->g;
    for (int i = 0; i < t->input_count; i++) others[i] = new_input(t, "other", i, t->inputs[i]);
    weft_value *sum = total(g, t->value_count, t->values, t->cotangents, false);
    weft_hvp(g, sum, t->input_count, t->inputs, t->tangents, products[0]);
    weft_hvp(g, sum, t->input_count, t->inputs, others, products[1]);
    weft_graph_output(g, "forward", total(g, t->input_count, others, products[0], false));
    weft_graph_output(g, "reverse", total(g, t->input_count, t->tangents, products[1], false));
    weft_value *size = weft_add(g, total(g, t->input_count, others, products[0], true),
                                total(g, t->input_count, t->tangents, products[1], true));
    weft_graph_output(g, "size", weft_add(g, size, rounding(t)));
}

static void build(trial *t) {
    weft_value *moved[VALUES_MAX], *gradients[VALUES_MAX];
    weft_graph *g = t->g;
    weft_jvp_many(g, t->value_count, t->values, t->input_count, t->inputs, t->tangents, moved);
    weft_vjp(g, t->value_count, t->values, t->cotangents, t->input_count, t->inputs, gradients);
    weft_graph_output(g, "forward", total(g, t->value_count, t->cotangents, moved, false));
    weft_graph_output(g, "reverse", total(g, t->input_count, gradients, t->tangents, false));
    weft_value *size = weft_add(g, total(g, t->value_count, t->cotangents, moved, true),
                                total(g, t->input_count, gradients, t->tangents, true));
    weft_graph_output(g, "size", weft_add(g, size, rounding(t)));
}

/* A rounding of the coarsest dtype, many of which add up. */
static double limit_of(const weft_block *block) {
    double limit = 1e-4;
    for (const weft_node *node = block->first; node; node = node->next) {
        for (int i = 0; i < node->result_count; i++) {
            weft_dtype dtype = node->results[i].type.dtype;
            if (!weft_dtype_is_float(dtype)) continue;
            int bits = weft_dtype_bits(dtype);
            double own = bits >= 32 ? 1e-4 : bits == 16 ? 0.1 : 1;
            if (own > limit) limit = own;
        }
        for (int i = 0; i < node->region_count; i++) limit = fmax(limit, limit_of(node->regions[i]->block));
    }
    return limit;
}

static double number(const weft_tensor *t) { return *(const double *)weft_tensor_data(t); }

/* The last three outputs of a run: whether they hold. */
static cli_fuzz_outcome judge(const trial *t, weft_tensor *const *numbers, unsigned long long seed, const char *who) {
    double forward = number(numbers[0]), reverse = number(numbers[1]), size = number(numbers[2]);
    if (!isfinite(forward) || !isfinite(reverse) || !isfinite(size)) return CLI_FUZZ_SKIPPED;
    if (fabs(forward - reverse) <= t->limit * (size + 1e-30)) return CLI_FUZZ_PASSED;
    printf("%sseed %llu, %s: %.9g and %.9g, sizes %.3g\n", weft_text_string(&t->text), seed, who, forward, reverse,
           size);
    return CLI_FUZZ_FAILED;
}

static weft_status run(trial *t, weft_context *context, unsigned long long seed, const char *device,
                       cli_fuzz_outcome *out_outcome) {
    weft_tensor *in[CLI_VALUES_MAX] = {0}, *out[CLI_VALUES_MAX] = {0}, *compiled[CLI_VALUES_MAX] = {0};
    int inputs = weft_graph_input_count(t->g), outputs = weft_graph_output_count(t->g);
    weft_function *function = NULL;
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = device;
    weft_status status = cli_fuzz_inputs(context, t->g, seed, 5, in);
    if (!status) status = weft_graph_interpret(t->g, inputs, in, outputs, out);
    if (!status) *out_outcome = judge(t, out + outputs - NUMBERS, seed, "interpreted");
    bool goes_on = !status && *out_outcome == CLI_FUZZ_PASSED;
    if (goes_on) status = weft_function_create(t->g, &options, &function);
    if (goes_on && !status) status = weft_function_call(function, inputs, in, outputs, compiled);
    if (goes_on && !status) {
        *out_outcome = judge(t, compiled + outputs - NUMBERS, seed, "compiled");
        double a = number(compiled[outputs - NUMBERS]), b = number(out[outputs - NUMBERS]);
        if (*out_outcome == CLI_FUZZ_PASSED && !(fabs(a - b) <= t->limit * (number(out[outputs - 1]) + 1e-30))) {
            printf("%sseed %llu: %.9g compiled, %.9g interpreted\n", weft_text_string(&t->text), seed, a, b);
            *out_outcome = CLI_FUZZ_FAILED;
        }
    }
    weft_function_release(function);
    for (int i = 0; i < CLI_VALUES_MAX; i++)
        weft_tensor_release(in[i]), weft_tensor_release(out[i]), weft_tensor_release(compiled[i]);
    return status;
}

/* Does a problem of the graph say that there is no derivative? */
static bool has_no_derivative(weft_status status) {
    static const char *const reasons[] = {"cannot be differentiated", "no transpose", "has no derivative",
                                          "needs a bound"};
    size_t length = weft_status_format(status, NULL, 0);
    char *text = malloc(length + 1);
    bool found = false;
    if (text) (void)weft_status_format(status, text, length + 1);
    for (size_t i = 0; text && i < sizeof reasons / sizeof *reasons; i++) found |= strstr(text, reasons[i]) != NULL;
    free(text);
    return found;
}

void cli_fuzz_print_status(unsigned long long seed, weft_status status) {
    size_t length = weft_status_format(status, NULL, 0);
    char *text = malloc(length + 1);
    if (text) weft_status_format(status, text, length + 1), printf("seed %llu: %s\n", seed, text);
    free(text);
}

void cli_fuzz_release(weft_tensor **tensors) {
    for (int i = 0; i < CLI_VALUES_MAX; i++) weft_tensor_release(tensors[i]), tensors[i] = NULL;
}

cli_fuzz_outcome cli_fuzz_gradients(weft_context *context, unsigned long long seed, int ops, bool second,
                                    const char *device) {
    trial t = {0};
    cli_fuzz_outcome outcome = CLI_FUZZ_FAILED;
    weft_text_init(weft_allocator_system(), &t.text);
    weft_status status = cli_fuzz_graph(context, seed, ops, &t.g);
    if (!status && !gather(&t)) {
        outcome = CLI_FUZZ_SKIPPED;
    } else if (!status) {
        t.limit = limit_of(t.g->body->block);
        weft_print_options options = {.elide_constants = true};
        status = weft_print(t.g, &options, &t.text);
    }
    if (!status && t.limit > 0) {
        if (second)
            build_second(&t);
        else
            build(&t);
        status = weft_graph_verify(t.g);
        if (status && has_no_derivative(status)) {
            weft_status_release(status);
            status = NULL;
            outcome = CLI_FUZZ_SKIPPED;
        } else if (!status) {
            status = run(&t, context, seed, device, &outcome);
        }
    }
    if (status) cli_fuzz_print_status(seed, status);
    weft_text_deinit(&t.text);
    weft_graph_release(t.g);
    if (status) outcome = CLI_FUZZ_FAILED;
    weft_status_release(status);
    return outcome;
}
