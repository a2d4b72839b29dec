/* Random graphs mean the same before and after passes: interpreted on random inputs, a third of them with a symbolic
   extent. Integers must agree exactly, floats up to the reordering that raise may do. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/tensor.h"
#include "ir/emit.h"
#include "ir/interpret.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "tests/ir/sample.h"

enum { MAX_POOL = 96 };

typedef struct generator {
    uint64_t state;
    weft_graph *graph;
    int count;
    weft_value *pool[MAX_POOL];
} generator;

static weft_context *context;
static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void expect_ok(weft_status status, const char *what) {
    char text[4000] = "";
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s: %s", what, text);
}

static int pick(generator *g, int below) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((g->state >> 33) % (uint64_t)below);
}

static weft_value *any(generator *g) { return g->pool[pick(g, g->count)]; }

/* Another value of the same type, or a splat of a number that rewrites look for. */
static weft_value *partner(generator *g, weft_value *x) {
    static const double numbers[] = {0, 1, 2, 0.5, 4, 3};
    for (int tries = 0; tries < 4 && pick(g, 2); tries++) {
        weft_value *y = any(g);
        if (weft_type_equal(&x->type, &y->type)) return y;
    }
    if (pick(g, 6) == 0) return x;
    return weft_emit_splat_like(g->graph, numbers[pick(g, 6)], x);
}

static bool is_float(const weft_value *x) { return weft_dtype_is_float(x->type.dtype); }

static weft_value *grow_elementwise(generator *g, weft_value *x) {
    static const weft_op floats[] = {WEFT_OP_neg, WEFT_OP_abs, WEFT_OP_tanh,     WEFT_OP_logistic,
                                     WEFT_OP_erf, WEFT_OP_sin, WEFT_OP_softplus, WEFT_OP_silu};
    static const weft_op both[] = {WEFT_OP_add, WEFT_OP_sub, WEFT_OP_mul, WEFT_OP_max,
                                   WEFT_OP_min, WEFT_OP_add, WEFT_OP_mul};
    static const weft_op integers[] = {WEFT_OP_and, WEFT_OP_or, WEFT_OP_xor};
    static const char *const directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    weft_value *y = partner(g, x);
    switch (pick(g, 7)) {
    case 0:
        return weft_emit_unary(g->graph, is_float(x) ? floats[pick(g, 8)] : pick(g, 2) ? WEFT_OP_neg : WEFT_OP_not, x);
    case 1: {
        weft_value *p = weft_emit_compare(g->graph, directions[pick(g, 6)], x, y);
        if (pick(g, 3) == 0) p = weft_emit_unary(g->graph, WEFT_OP_not, p);
        return weft_emit_select(g->graph, p, x, partner(g, x));
    }
    case 2: {
        static const weft_dtype dtypes[] = {WEFT_F32, WEFT_I32, WEFT_BF16, WEFT_F64, WEFT_I64, WEFT_I16};
        return weft_emit_convert(g->graph, weft_emit_convert(g->graph, x, dtypes[pick(g, 6)]),
                                 pick(g, 3) ? WEFT_F32 : WEFT_I32);
    }
    case 3:
        return weft_emit_binary(g->graph, is_float(x) ? WEFT_OP_div : integers[pick(g, 3)], x,
                                is_float(x) ? weft_emit_splat_like(g->graph, pick(g, 2) ? 2 : 3, x) : y);
    case 4:
        return pick(g, 2) ? weft_emit_binary(g->graph, both[pick(g, 7)], y, x)
                          : weft_emit_binary(g->graph, WEFT_OP_sub, x, x);
    default: return weft_emit_binary(g->graph, both[pick(g, 7)], x, y);
    }
}

static weft_value *grow_view(generator *g, weft_value *x) {
    int rank = x->type.rank;
    weft_dim dims[WEFT_MAX_RANK];
    int64_t axes[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = x->type.dims[i];
    for (int i = 0; i < rank; i++) axes[i] = i;
    switch (pick(g, 5)) {
    case 0: /* add or drop an axis of extent 1 */
        if (rank > 0 && pick(g, 2) && dims[rank - 1] == 1) return weft_emit_reshape(g->graph, x, rank - 1, dims);
        if (rank > 3) return x;
        dims[rank] = 1;
        return weft_emit_reshape(g->graph, x, rank + 1, dims);
    case 1: /* merge the first two */
        if (rank < 2) return x;
        dims[1] = weft_dim_times(g->graph, dims[0], dims[1]);
        return weft_emit_reshape(g->graph, x, rank - 1, dims + 1);
    case 2: {
        if (rank < 2) return x;
        int a = pick(g, rank), b = pick(g, rank);
        axes[a] = b;
        axes[b] = a;
        return weft_emit_transpose(g->graph, x, axes);
    }
    case 3: /* repeat along a new leading axis */
        if (rank > 3) return x;
        for (int i = rank; i > 0; i--) dims[i] = dims[i - 1];
        dims[0] = 1 + pick(g, 3);
        for (int i = 0; i < rank; i++) axes[i] = i + 1;
        return weft_emit_broadcast(g->graph, x, rank + 1, dims, axes);
    default: { /* stretch axes of extent 1 */
        for (int i = 0; i < rank; i++)
            if (dims[i] == 1) dims[i] = 3;
        return weft_emit_broadcast(g->graph, x, rank, dims, axes);
    }
    }
}

static weft_value *grow_movement(generator *g, weft_value *x) {
    int rank = x->type.rank;
    if (rank == 0) return x;
    int axis = pick(g, rank);
    weft_dim extent = x->type.dims[axis];
    switch (pick(g, 5)) {
    case 0: {
        if (extent < 1) return x;
        weft_dim from = pick(g, (int)extent), to = from + 1 + pick(g, (int)(extent - from));
        return weft_emit_slice_axis(g->graph, x, axis, from, to, 1 + pick(g, 2));
    }
    case 1: {
        weft_value *parts[3] = {x, partner(g, x), x};
        return weft_emit_concat(g->graph, axis, 1 + pick(g, 3), parts);
    }
    case 2: { /* halves and together again */
        if (extent < 2) return x;
        weft_value *parts[2] = {weft_emit_slice_axis(g->graph, x, axis, 0, 1, 1),
                                weft_emit_slice_axis(g->graph, x, axis, 1, extent, 1)};
        return weft_emit_concat(g->graph, axis, 2, parts);
    }
    case 3: {
        int64_t one = axis;
        weft_attribute attribute = weft_attr_ints(WEFT_ATTR_axes, 1, &one);
        return weft_build(g->graph, WEFT_OP_reverse, 1, &x, 1, &attribute);
    }
    default: {
        weft_dim low[WEFT_MAX_RANK] = {0}, high[WEFT_MAX_RANK] = {0};
        int64_t interior[WEFT_MAX_RANK] = {0};
        low[axis] = pick(g, 2);
        high[axis] = pick(g, 2);
        interior[axis] = pick(g, 2);
        weft_value *operands[2] = {x, weft_emit_scalar(g->graph, x->type.dtype, 1)};
        weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, rank, low),
                                        weft_attr_dims(WEFT_ATTR_high, rank, high),
                                        weft_attr_ints(WEFT_ATTR_interior, rank, interior)};
        return weft_build(g->graph, WEFT_OP_pad, 2, operands, 3, attributes);
    }
    }
}

static weft_value *grow_reduction(generator *g, weft_value *x) {
    static const char *const kinds[] = {"sum", "max", "min"};
    int rank = x->type.rank;
    if (rank == 0 || x->type.dims[rank - 1] == 0) return x;
    int64_t axis = pick(g, rank);
    if (is_float(x) && pick(g, 3) == 0) {
        weft_attribute attributes[2] = {weft_attr_int(WEFT_ATTR_axis, axis)};
        if (pick(g, 2)) return weft_build(g->graph, WEFT_OP_softmax, 1, &x, 1, attributes);
        attributes[0] = weft_attr_ints(WEFT_ATTR_axes, 1, &axis);
        attributes[1] = weft_attr_float(WEFT_ATTR_epsilon, 0.1);
        return weft_build(g->graph, pick(g, 2) ? WEFT_OP_layer_norm : WEFT_OP_rms_norm, 1, &x, 2, attributes);
    }
    weft_value *y = weft_emit_reduce(g->graph, x, kinds[pick(g, 3)], 1, &axis);
    return pick(g, 2) ? weft_emit_spread(g->graph, y, x, 1, &axis) : y;
}

static weft_value *grow_product(generator *g, weft_value *x) {
    if (!is_float(x) || x->type.rank != 2) return x;
    weft_value *y = any(g);
    if (y->type.dtype != x->type.dtype || y->type.rank != 2) return x;
    int64_t zero[1] = {0}, one[1] = {1};
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            if (x->type.dims[a] != y->type.dims[b]) continue;
            weft_dot_axes axes = {0, 1, NULL, NULL, a ? one : zero, b ? one : zero};
            weft_value *dot = weft_emit_dot(g->graph, x, y, &axes, x->type.dtype, WEFT_INVALID);
            return weft_emit_unary(g->graph, WEFT_OP_tanh, dot);
        }
    return x;
}

static void grow(generator *g) {
    weft_value *x = any(g), *y;
    switch (pick(g, 8)) {
    case 0:
    case 1: y = grow_view(g, x); break;
    case 2: y = grow_movement(g, x); break;
    case 3: y = grow_reduction(g, x); break;
    case 4: y = grow_product(g, x); break;
    default: y = grow_elementwise(g, x);
    }
    /* repeated broadcasts and concats must not get out of hand */
    int64_t minimum, maximum;
    weft_dim_bounds(g->graph->dims, weft_type_count(g->graph, &y->type), &minimum, &maximum);
    if (g->count < MAX_POOL && maximum <= 4096) g->pool[g->count++] = y;
}

static void generate(generator *g, bool symbolic) {
    bool square = pick(g, 4) == 0; /* axes that only a wrong rewrite confuses */
    weft_dim b = symbolic ? weft_graph_symbol(g->graph, "B", 1, 8, 1) : square ? 4 : 2;
    g->pool[g->count++] = weft_graph_input(g->graph, "x", WEFT_F32, 2, (weft_dim[]){b, 4});
    g->pool[g->count++] = weft_graph_input(g->graph, "y", WEFT_F32, 2, (weft_dim[]){4, square ? 4 : 3});
    g->pool[g->count++] = weft_graph_input(g->graph, "z", WEFT_F32, 1, (weft_dim[]){4});
    g->pool[g->count++] = weft_graph_input(g->graph, "i", WEFT_I32, 2, (weft_dim[]){b, 4});
    int nodes = 10 + pick(g, 40);
    for (int i = 0; i < nodes; i++) grow(g);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "o%d", i);
        weft_graph_output(g->graph, name, g->pool[g->count - 1 - i]);
    }
}

static weft_tensor *random_tensor(generator *g, const weft_type *type, int64_t symbol) {
    int64_t shape[WEFT_MAX_RANK];
    for (int i = 0; i < type->rank; i++) shape[i] = type->dims[i] < 0 ? symbol : type->dims[i];
    weft_tensor *tensor;
    expect_ok(weft_tensor_create(context, type->dtype, type->rank, shape, &tensor), "input");
    for (int64_t i = 0; i < tensor->element_count; i++) {
        if (type->dtype == WEFT_F32)
            ((float *)tensor->data)[i] = (float)(pick(g, 2001) - 1000) / 500;
        else
            ((int32_t *)tensor->data)[i] = pick(g, 2001) - 1000;
    }
    return tensor;
}

static bool close_enough(const weft_tensor *a, const weft_tensor *b) {
    if (a->dtype != b->dtype || a->element_count != b->element_count) return false;
    for (int64_t i = 0; i < a->element_count; i++) {
        if (!weft_dtype_is_float(a->dtype)) {
            if (weft_element_i64(a->dtype, a->data, i) != weft_element_i64(b->dtype, b->data, i)) return false;
            continue;
        }
        double x = weft_element_double(a->dtype, a->data, i), y = weft_element_double(b->dtype, b->data, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= 1e-5 * (1 + fabs(x)))) return false;
    }
    return true;
}

/* The graph's outputs before and after; on a difference both texts are shown. */
static void check_pipeline(generator *g, const char *pipeline, int seed) {
    int input_count = weft_graph_input_count(g->graph), output_count = weft_graph_output_count(g->graph);
    weft_tensor *inputs[4], *before[4], *after[4];
    int64_t symbol = 1 + pick(g, 8);
    for (int i = 0; i < input_count; i++)
        inputs[i] = random_tensor(g, &weft_graph_input_value(g->graph, i)->type, symbol);
    char *text, *changed;
    expect_ok(weft_graph_verify(g->graph), "before");
    expect_ok(weft_graph_print(g->graph, &text), "print");
    expect_ok(weft_interpret(g->graph, WEFT_INTERPRET_EXACT, input_count, inputs, output_count, before), text);
    weft_pass_context pass = {.graph = g->graph, .options = ""};
    weft_status ran = weft_pipeline_run(&pass, pipeline);
    if (strstr(pipeline, "budget") && weft_status_code(ran) == WEFT_OUT_OF_MEMORY) { /* as far as it got */
        weft_status_release(ran);
        ran = NULL;
    }
    expect_ok(ran, text);
    expect_ok(weft_graph_verify(g->graph), text);
    expect_ok(weft_graph_print(g->graph, &changed), "print");
    expect_ok(weft_interpret(g->graph, WEFT_INTERPRET_EXACT, input_count, inputs, output_count, after), changed);
    for (int i = 0; i < output_count; i++) {
        ck_assert_msg(close_enough(before[i], after[i]), "seed %d, %s, output %d differs\n%s\n%s", seed, pipeline, i,
                      text, changed);
        weft_tensor_release(before[i]);
        weft_tensor_release(after[i]);
    }
    for (int i = 0; i < input_count; i++) weft_tensor_release(inputs[i]);
    weft_string_release(context, text);
    weft_string_release(context, changed);
}

static void random_graphs(const char *pipeline, int from, int count) {
    for (int seed = from; seed < from + count; seed++) {
        generator g = {.state = (uint64_t)seed * 7919 + 1};
        expect_ok(weft_graph_create(context, "random", &g.graph), "create");
        generate(&g, seed % 3 == 0);
        check_pipeline(&g, pipeline, seed);
        weft_graph_release(g.graph);
    }
}

START_TEST(test_simplify) { random_graphs("simplify", 0, 500); }
END_TEST
START_TEST(test_decompose) { random_graphs("decompose,simplify", 1000, 300); }
END_TEST
START_TEST(test_raise) { random_graphs("decompose,simplify,raise,simplify", 2000, 300); }
END_TEST
START_TEST(test_fuse) {
    random_graphs("simplify,raise,simplify,decompose,simplify,fuse,recompute{bytes=0}", 3000, 300);
}
END_TEST
START_TEST(test_budget) {
    random_graphs("simplify,raise,simplify,decompose,simplify,fuse,recompute{bytes=0},budget{share=0.5}", 4000, 300);
}
END_TEST

Suite *random_suite(void) {
    Suite *suite = suite_create("random");
    TCase *tests = tcase_create("random");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_simplify);
    tcase_add_test(tests, test_decompose);
    tcase_add_test(tests, test_raise);
    tcase_add_test(tests, test_fuse);
    tcase_add_test(tests, test_budget);
    suite_add_tcase(suite, tests);
    return suite;
}
