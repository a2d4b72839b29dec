/* See cases.h. */
#include "tests/webgpu/cases.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/emit.h"
#include "tests/ir/sample.h"
#include "weft/ops.h"

static const weft_dtype dtypes[] = {WEFT_F32, WEFT_I32, WEFT_U32,  WEFT_BOOL, WEFT_I8,  WEFT_U8,       WEFT_I16,
                                    WEFT_U16, WEFT_F16, WEFT_BF16, WEFT_I64,  WEFT_U64, WEFT_F8E4M3FN, WEFT_F8E5M2FNUZ};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static web_case *add(web_list *list, const char *format, ...) WEFT_PRINTF(2, 3);
static web_case *add(web_list *list, const char *format, ...) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 64;
        web_case *grown = realloc(list->cases, (size_t)list->capacity * sizeof *grown);
        ck_assert_ptr_nonnull(grown);
        list->cases = grown;
    }
    web_case *c = &list->cases[list->count++];
    *c = (web_case){.context = list->context, .arch = "wgsl", .terms = 1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->name, sizeof c->name, format, arguments);
    va_end(arguments);
    ck_assert_ptr_null(weft_graph_create(list->context, "test", &c->graph));
    return c;
}

static void output(web_case *c, const char *name, weft_value *value, weft_tolerance_class class) {
    ck_assert_int_lt(c->output_count, WEB_OUTPUTS_MAX);
    c->class[c->output_count++] = class;
    weft_graph_output(c->graph, name, value);
}

/* -- elementwise: the ops of one dtype, four a graph */

static weft_tolerance_class class_of(weft_op op, weft_dtype dtype) {
    if (!weft_dtype_is_float(dtype)) return WEFT_TOLERANCE_EXACT;
    switch ((int)op) {
    case WEFT_OP_add:
    case WEFT_OP_sub:
    case WEFT_OP_mul:
    case WEFT_OP_div:
    case WEFT_OP_sqrt: return WEFT_TOLERANCE_ARITHMETIC;
    case WEFT_OP_abs:
    case WEFT_OP_neg:
    case WEFT_OP_sign:
    case WEFT_OP_ceil:
    case WEFT_OP_floor:
    case WEFT_OP_round:
    case WEFT_OP_max:
    case WEFT_OP_min:
    case WEFT_OP_select:
    case WEFT_OP_is_nan:
    case WEFT_OP_is_finite: return WEFT_TOLERANCE_EXACT;
    default: return WEFT_TOLERANCE_FUNCTION;
    }
}

static weft_value *apply(weft_graph *g, weft_op op, weft_value *predicate, weft_value *const *x) {
    weft_value *operands[3] = {x[0], x[1], x[2]};
    if (op == WEFT_OP_select) operands[0] = predicate;
    return weft_build(g, op, weft_op_get(op)->operands_min, operands, 0, NULL);
}

static bool plain_elementwise(weft_op op) {
    return (weft_op_get(op)->flags & WEFT_FLAG_ELEMENTWISE) && op != WEFT_OP_convert && op != WEFT_OP_bitcast &&
           op != WEFT_OP_compare;
}

/* Is the op defined on the dtype? A graph of its own tells, since a refused op is recorded as a problem. */
static bool takes(weft_context *context, weft_op op, weft_dtype dtype) {
    weft_graph *g;
    weft_dim dims[1] = {3};
    ck_assert_ptr_null(weft_graph_create(context, "probe", &g));
    weft_value *x = weft_graph_input(g, "x", dtype, 1, dims), *three[3] = {x, x, x};
    bool fine = !weft_value_is_poison(apply(g, op, weft_graph_input(g, "p", WEFT_BOOL, 1, dims), three));
    weft_graph_release(g);
    return fine;
}

static void add_elementwise(web_list *list, weft_dtype dtype) {
    enum { PER_GRAPH = 4 };
    static const int64_t size[1] = {1030};
    web_case *c = NULL;
    weft_value *predicate = NULL, *x[3];
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        if (!plain_elementwise((weft_op)op) || !takes(list->context, (weft_op)op, dtype)) continue;
        if (!c || c->output_count == PER_GRAPH) {
            c = add(list, "elementwise %s %s", weft_dtype_name(dtype), weft_op_get((weft_op)op)->name);
            c->special = true;
            predicate = weft_graph_input(c->graph, "predicate", WEFT_BOOL, 1, size);
            for (int i = 0; i < 3; i++)
                x[i] = weft_graph_input(c->graph, i == 0 ? "a" : i == 1 ? "b" : "c", dtype, 1, size);
        }
        output(c, weft_op_get((weft_op)op)->name, apply(c->graph, (weft_op)op, predicate, x),
               class_of((weft_op)op, dtype));
    }
    c = add(list, "compare %s", weft_dtype_name(dtype));
    c->special = true;
    static const char *const directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    for (int i = 0; i < 2; i++) x[i] = weft_graph_input(c->graph, i ? "b" : "a", dtype, 1, size);
    for (int i = 0; i < 6; i++)
        output(c, directions[i], weft_emit_compare(c->graph, directions[i], x[0], x[1]), WEFT_TOLERANCE_EXACT);
}

static void add_conversions(web_list *list, weft_dtype from) {
    weft_dim size[1] = {203};
    for (int half = 0; half < 2; half++) {
        web_case *c = add(list, "convert %s %d", weft_dtype_name(from), half);
        c->special = true;
        weft_value *x = weft_graph_input(c->graph, "x", from, 1, size);
        for (int d = half * DTYPES / 2; d < (half + 1) * DTYPES / 2; d++)
            output(c, weft_dtype_name(dtypes[d]), weft_convert(c->graph, x, dtypes[d]), WEFT_TOLERANCE_EXACT);
    }
}

/* Sizes around words, vectors, blocks; rank 0; symbolic rows. */
static void add_edges(web_list *list) {
    static const int64_t sizes[] = {0, 1, 3, 4, 5, 1023, 1024, 1025};
    static const weft_dtype kinds[] = {WEFT_F32, WEFT_BOOL, WEFT_U8, WEFT_F16};
    for (int d = 0; d < 4; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            web_case *c = add(list, "edge %s %lld", weft_dtype_name(kinds[d]), (long long)sizes[i]);
            weft_value *x = weft_graph_input(c->graph, "x", kinds[d], 1, &sizes[i]);
            output(c, "y", kinds[d] == WEFT_BOOL ? weft_not(c->graph, x) : weft_abs(c->graph, x), WEFT_TOLERANCE_EXACT);
        }
    web_case *c = add(list, "symbolic rows");
    weft_graph *g = c->graph;
    c->symbols[0] = 19, c->symbols[1] = 37;
    weft_dim dims[2] = {weft_graph_symbol(g, "N", 0, 1000, 1), weft_graph_symbol(g, "M", 0, 100000, 1)};
    int64_t last[1] = {1};
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, dims), *b = weft_graph_input(g, "b", WEFT_F32, 1, &dims[1]);
    output(c, "y", weft_tanh(g, weft_add(g, x, weft_broadcast(g, b, 2, dims, last))), WEFT_TOLERANCE_CHAIN);
}

/* -- reductions and norms */

static void add_reduction(web_list *list, const char *kind, weft_dtype dtype, int64_t rows, int64_t columns, int axis) {
    web_case *c = add(list, "reduce %s %s [%lld, %lld] over %d", kind, weft_dtype_name(dtype), (long long)rows,
                      (long long)columns, axis);
    weft_dim dims[2] = {rows, columns};
    int64_t axes[1] = {axis};
    c->terms = (double)(axis ? columns : rows);
    c->scale = 3 * c->terms;
    output(c, "y", weft_emit_reduce(c->graph, weft_graph_input(c->graph, "x", dtype, 2, dims), kind, 1, axes),
           weft_dtype_is_float(dtype) ? WEFT_TOLERANCE_SUM : WEFT_TOLERANCE_EXACT);
}

static void add_norm(web_list *list, int which, weft_dtype dtype, int64_t rows, int64_t columns, bool symbolic) {
    static const char *const names[] = {"softmax", "log_softmax", "layer_norm", "rms_norm"};
    web_case *c = add(list, "%s %s [%lld, %lld]%s", names[which], weft_dtype_name(dtype), (long long)rows,
                      (long long)columns, symbolic ? " symbolic" : "");
    weft_graph *g = c->graph;
    weft_dim dims[2] = {rows, columns};
    int64_t axis[1] = {1};
    if (symbolic) {
        c->symbols[0] = rows, c->symbols[1] = columns;
        dims[0] = weft_graph_symbol(g, "R", 1, 1 << 20, 1);
        dims[1] = weft_graph_symbol(g, "C", 1, 1 << 20, 1);
    }
    weft_value *x = weft_graph_input(g, "x", dtype, 2, dims), *y;
    if (which < 2)
        y = which ? weft_log_softmax(g, x, 1) : weft_softmax(g, x, 1);
    else {
        weft_value *scale = weft_graph_input(g, "scale", dtype, 1, &dims[1]);
        y = which == 2 ? weft_layer_norm(g, x, scale, weft_graph_input(g, "bias", dtype, 1, &dims[1]), 1, axis, 1e-5)
                       : weft_rms_norm(g, x, scale, 1, axis, 1e-5);
    }
    c->terms = 8 + (double)columns / 4;
    c->scale = 4;
    output(c, "y", y, WEFT_TOLERANCE_CHAIN);
}

static void add_reductions(web_list *list) {
    static const int64_t columns[] = {1, 7, 32, 33, 130, 1000};
    static const weft_dtype kinds[] = {WEFT_I32, WEFT_U8, WEFT_F16, WEFT_I64};
    for (int i = 0; i < 6; i++) add_reduction(list, "sum", WEFT_F32, 17, columns[i], 1);
    for (int i = 0; i < 4; i++) add_reduction(list, i % 2 ? "max" : "sum", kinds[i], 5, 100, 1);
    add_reduction(list, "min", WEFT_F32, 67, 37, 0);
    add_reduction(list, "and", WEFT_BOOL, 5, 100, 1);
    add_reduction(list, "or", WEFT_BOOL, 100, 5, 0);
    add_reduction(list, "product", WEFT_F32, 5, 9, 1);
    add_reduction(list, "sum", WEFT_F32, 1, 70001, 1);
    add_reduction(list, "max", WEFT_F32, 4, 0, 0);
    for (int which = 0; which < 4; which++) {
        add_norm(list, which, WEFT_F32, 3, 257, false);
        add_norm(list, which, WEFT_F16, 5, 64, false);
        add_norm(list, which, WEFT_F32, 4, 37, true);
    }
}

/* -- products */

static void add_matmul(web_list *list, int64_t m, int64_t n, int64_t k, weft_dtype dtype, bool epilogue,
                       bool symbolic) {
    web_case *c = add(list, "matmul %s %lldx%lldx%lld%s%s", weft_dtype_name(dtype), (long long)m, (long long)n,
                      (long long)k, epilogue ? " with epilogue" : "", symbolic ? " symbolic" : "");
    weft_graph *g = c->graph;
    weft_dim rows = m, a[2] = {m, k}, b[2] = {k, n}, d[2] = {m, n};
    if (symbolic) {
        c->symbols[0] = m;
        rows = a[0] = d[0] = weft_graph_symbol(g, "M", 1, 1 << 20, 1);
    }
    weft_value *y = weft_matmul(g, weft_graph_input(g, "a", dtype, 2, a), weft_graph_input(g, "b", dtype, 2, b));
    if (epilogue) {
        int64_t first[1] = {0}, last[1] = {1};
        weft_value *scale = weft_broadcast(g, weft_graph_input(g, "scale", dtype, 1, &rows), 2, d, first);
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", dtype, 1, &d[1]), 2, d, last);
        y = weft_add(g, weft_gelu(g, weft_add(g, weft_mul(g, y, scale), bias), false),
                     weft_graph_input(g, "residual", dtype, 2, d));
    }
    c->terms = (double)k + 4;
    c->scale = 9 * (double)k * (epilogue ? 3 : 1);
    output(c, "d", y, epilogue ? WEFT_TOLERANCE_CHAIN : WEFT_TOLERANCE_SUM);
}

static void add_products(web_list *list, bool all) {
    static const int64_t edges[] = {63, 64, 65};
    /* SwiftShader compiles products for seconds: edges with WEFT_TEST_WEBGPU=all, and in the simulator (tests/cuda) */
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3 && all; j++) add_matmul(list, edges[i], edges[2 - j], 15 + i, WEFT_F32, i == j, false);
    if (all) add_matmul(list, 33, 40, 20, WEFT_F16, true, false);
    add_matmul(list, 63, 129, 40, WEFT_F32, true, true);
    add_matmul(list, 20, 30, 40, WEFT_I32, false, false);
    for (int groups = all ? 1 : 2; groups < 3; groups++) {
        web_case *c = add(list, "convolution in %d groups", groups);
        weft_graph *g = c->graph;
        weft_dim in[4] = {2, 4, 9, 11}, kernel[4] = {6, 4 / groups, 3, 3}, pad[2] = {1, 1}, channels[1] = {6};
        int64_t stride[2] = {2, 1}, axis[1] = {1};
        weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
        options.stride = stride, options.low = pad, options.high = pad, options.groups = groups;
        weft_value *y = weft_convolution(g, weft_graph_input(g, "x", WEFT_F32, 4, in),
                                         weft_graph_input(g, "w", WEFT_F32, 4, kernel), &options);
        weft_dim shape[4];
        for (int i = 0; i < 4; i++) shape[i] = weft_value_dim(y, i);
        weft_value *bias = weft_broadcast(g, weft_graph_input(g, "bias", WEFT_F32, 1, channels), 4, shape, axis);
        c->terms = 40, c->scale = 360;
        output(c, "y", weft_relu(g, weft_add(g, y, bias)), WEFT_TOLERANCE_SUM);
    }
    if (!all) return;
    web_case *c = add(list, "attention");
    weft_dim q[4] = {1, 2, 21, 16}, kv[4] = {1, 2, 33, 16};
    weft_attention_options options = WEFT_ATTENTION_OPTIONS_INIT;
    weft_value *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = weft_graph_input(c->graph, i == 0 ? "q" : i == 1 ? "k" : "v", WEFT_F32, 4, i ? kv : q);
    c->terms = 60, c->scale = 12;
    output(c, "o", weft_attention(c->graph, x[0], x[1], x[2], NULL, &options), WEFT_TOLERANCE_CHAIN);
}

/* -- one sample of every core op */

static bool add_sample(web_list *list, weft_op op, weft_dtype dtype, int variant) {
    web_case *c = add(list, "sample %s %s %d", weft_op_get(op)->name, weft_dtype_name(dtype), variant);
    weft_node *node = weft_sample_node(c->graph, op, dtype, variant);
    if (!node) {
        weft_graph_release(c->graph);
        list->count--;
        return false;
    }
    c->symbols[0] = 4, c->symbols[1] = 7;
    c->by_inputs = true;
    c->output_count = weft_graph_output_count(c->graph);
    for (int i = 0; i < c->output_count; i++) c->class[i] = WEFT_TOLERANCE_CHAIN;
    return true;
}

/* Made of products: seconds a kernel on SwiftShader. */
static bool slow(weft_op op) {
    return op == WEFT_OP_attention || op == WEFT_OP_attention_backward || op == WEFT_OP_attention_tangent ||
           op == WEFT_OP_convolution || op == WEFT_OP_dot_general;
}

static void add_samples(web_list *list, bool all) {
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        int taken = 0;
        for (int d = 0; d < DTYPES && (all || taken < 1); d++)
            for (int variant = 0; variant < (all ? WEFT_SAMPLE_VARIANTS : slow((weft_op)op) ? 1 : 3); variant++) {
                if (!add_sample(list, (weft_op)op, dtypes[d], variant)) break;
                taken++;
            }
    }
}

void web_list_fill(web_list *list, bool all) {
    for (int d = 0; d < DTYPES; d++) add_elementwise(list, dtypes[d]);
    for (int d = 0; d < DTYPES; d++) add_conversions(list, dtypes[d]);
    add_edges(list);
    add_reductions(list);
    int first = list->count;
    add_reductions(list);
    for (int i = first; i < list->count; i++) { /* SwiftShader's subgroups have four threads */
        web_case *c = &list->cases[i];
        c->arch = "wgsl-subgroups4";
        strncat(c->name, " by subgroups", sizeof c->name - strlen(c->name) - 1);
    }
    add_products(list, all);
    add_samples(list, all);
}

void web_list_clear(web_list *list) {
    for (int i = 0; i < list->count; i++) {
        web_case *c = &list->cases[i];
        for (int k = 0; k < WEB_OUTPUTS_MAX; k++) weft_tensor_release(c->expected[k]);
        weft_graph_release(c->graph);
        free(c->refusal);
    }
    free(list->cases);
}

void web_page_graph(weft_graph *g) {
    enum { CHANNELS = 5 };
    weft_tensor *weights[2];
    for (int i = 0; i < 2; i++) {
        static const int64_t shapes[2][4] = {{CHANNELS, 3, 3, 3}, {CHANNELS, 2}};
        ck_assert_ptr_null(weft_tensor_create(g->context, WEFT_F32, i ? 2 : 4, shapes[i], &weights[i]));
        float *numbers = weft_tensor_data(weights[i]);
        for (int k = 0; k < (i ? CHANNELS * 2 : CHANNELS * 27); k++) numbers[k] = (float)(k * 7 % 13) / 13 - 0.45f;
    }
    weft_dim shape[4] = {weft_graph_symbol(g, "N", 1, 4, 1), 3, 16, weft_graph_symbol(g, "W", 16, 256, 8)};
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 4, shape);
    weft_value *y = weft_relu(g, weft_convolution(g, x, weft_graph_parameter(g, "w", weights[0]), &options));
    y = weft_matmul(g, weft_reduce_mean(g, y, 2, (int64_t[]){2, 3}, false), weft_graph_parameter(g, "v", weights[1]));
    weft_graph_output(g, "y", weft_softmax(g, y, -1));
    for (int i = 0; i < 2; i++) weft_tensor_release(weights[i]);
    ck_assert_ptr_null(weft_graph_verify(g));
}
