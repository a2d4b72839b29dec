/* The gradient of attention by matrix units against plain loops in f64. What it may be off by is derived, not tuned: P
   and dS are rounded once before the products that they are operands of, results once, and delta = sum of dO O reads an
   O that was rounded twice. u: half a spacing of the type at 1. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "tests/hip/testing.h"
#include "weft/compile.h"
#include "weft/graph.h"

typedef struct attention_case {
    int batches, heads, key_heads, queries, keys, width;
    weft_dtype dtype;
    bool causal, masked;
    double cap;
    int left, right; /* -1: no window */
} attention_case;

static const attention_case cases[] = {
    {1, 4, 2, 130, 170, 64, WEFT_BF16, true, false, 0, -1, -1},
    {2, 2, 2, 33, 129, 8, WEFT_F16, false, false, 0, -1, -1},
    {1, 2, 1, 150, 133, 40, WEFT_F16, false, true, 1.5, 30, 9},
    {1, 1, 1, 257, 256, 32, WEFT_BF16, true, true, 0, 70, -1},
    {1, 2, 1, 70, 140, 128, WEFT_F16, false, false, 2, -1, -1},
};
static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "gfx1200"};
enum { ARCHS = sizeof archs / sizeof *archs, CASES = sizeof cases / sizeof *cases, INPUTS = 5, OUTPUTS = 3 };
static const double SCALE = 0.25;

static weft_program *compile(weft_context *context, const attention_case *c) {
    char text[3000], attributes[200], q[60], k[60], mask[80] = "";
    const char *name = weft_dtype_name(c->dtype), *also = c->masked ? ", %20" : "";
    snprintf(attributes, sizeof attributes,
             "scale = %g, causal = %d, soft_cap = %.2f, window_left = %d, window_right = %d", SCALE, c->causal, c->cap,
             c->left, c->right);
    snprintf(q, sizeof q, "%s[%d, %d, %d, %d]", name, c->batches, c->heads, c->queries, c->width);
    snprintf(k, sizeof k, "%s[%d, %d, %d, %d]", name, c->batches, c->key_heads, c->keys, c->width);
    if (c->masked) snprintf(mask, sizeof mask, "  input %%20 \"mask\" : f32[1, %d, 1, %d]\n", c->heads, c->keys);
    snprintf(text, sizeof text,
             "graph @g {\n  input %%0 \"q\" : %s\n  input %%1 \"k\" : %s\n  input %%2 \"v\" : %s\n"
             "  input %%3 \"do\" : %s\n%s"
             "  %%4, %%5 = attention %%0, %%1, %%2%s {%s, lse = 1} : %s, f32[%d, %d, %d]\n"
             "  %%6, %%7, %%8 = attention_backward %%0, %%1, %%2, %%4, %%5, %%3%s {%s} : %s, %s, %s\n"
             "  output \"dq\" %%6\n  output \"dk\" %%7\n  output \"dv\" %%8\n}\n",
             q, k, k, q, mask, also, attributes, q, c->batches, c->heads, c->queries, also, attributes, q, k, k);
    weft_graph *graph;
    weft_program *program;
    assert_fine(weft_graph_parse(context, text, strlen(text), &graph));
    weft_compile_options options = WEFT_COMPILE_OPTIONS_INIT;
    options.targets = "amdgcn";
    assert_fine(weft_compile(graph, &options, &program));
    weft_graph_release(graph);
    return program;
}

/* Pseudo-random in [-1, 1), as the type holds it. */
static weft_tensor *make_input(weft_context *context, const attention_case *c, int number) {
    bool query = number == 0 || number == 3, mask = number == 4;
    int64_t dims[4] = {mask ? 1 : c->batches, mask || query ? c->heads : c->key_heads,
                       mask    ? 1
                       : query ? c->queries
                               : c->keys,
                       mask ? c->keys : c->width};
    weft_dtype dtype = mask ? WEFT_F32 : c->dtype;
    weft_tensor *tensor;
    assert_fine(weft_tensor_create(context, dtype, 4, dims, &tensor));
    unsigned state = 12345u + 977u * (unsigned)number;
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2] * dims[3]; i++) {
        state = state * 1664525u + 1013904223u;
        weft_element_set_double(dtype, weft_tensor_data(tensor), i, (double)(state >> 8) / (1 << 23) - 1);
    }
    return tensor;
}

static double at(const weft_tensor *tensor, int batch, int head, int row, int column) {
    const int64_t *dims = weft_tensor_shape(tensor);
    return weft_element_double(weft_tensor_dtype(tensor), weft_tensor_data(tensor),
                               ((batch * dims[1] + head) * dims[2] + row) * dims[3] + column);
}

/* Sums in f64, and what the card's may be off by, relative to u. */
typedef struct sums {
    double *value, *bound;
} sums;

static sums make_sums(const attention_case *c, bool query) {
    size_t count = (size_t)c->batches * (size_t)(query ? c->heads : c->key_heads) *
                   (size_t)(query ? c->queries : c->keys) * (size_t)c->width;
    sums s = {calloc(count, sizeof(double)), calloc(count, sizeof(double))};
    ck_assert(s.value && s.bound);
    return s;
}

static void add(sums *s, size_t place, double value, double bound) {
    s->value[place] += value, s->bound[place] += bound;
}

/* Scores of one query: weights, and the derivative of a score by scale q k. */
static void weigh(const attention_case *c, weft_tensor *const *x, int b, int h, int i, double *p, double *slope) {
    int position = i + c->keys - c->queries, right = c->causal ? 0 : c->right;
    double most = -INFINITY, total = 0;
    for (int j = 0; j < c->keys; j++) {
        double s = 0;
        for (int d = 0; d < c->width; d++) s += at(x[0], b, h, i, d) * at(x[1], b, h * c->key_heads / c->heads, j, d);
        s *= SCALE, slope[j] = 1;
        if (c->cap > 0) s = tanh(s / c->cap), slope[j] = 1 - s * s, s *= c->cap;
        if (c->masked) s += at(x[4], 0, h, 0, j);
        if ((right >= 0 && j > position + right) || (c->left >= 0 && j < position - c->left)) s = -INFINITY;
        p[j] = s, most = fmax(most, s);
    }
    for (int j = 0; j < c->keys; j++) total += p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
    for (int j = 0; j < c->keys && total > 0; j++) p[j] /= total;
}

static void add_query(const attention_case *c, weft_tensor *const *x, int b, int h, int i, double *work, sums out[3]) {
    double *p = work, *slope = p + c->keys, *dp = slope + c->keys, delta = 0, error = 0;
    int kh = h * c->key_heads / c->heads;
    weigh(c, x, b, h, i, p, slope);
    for (int d = 0; d < c->width; d++) {
        double o = 0, size = 0, g = at(x[3], b, h, i, d);
        for (int j = 0; j < c->keys; j++) o += p[j] * at(x[2], b, kh, j, d), size += p[j] * fabs(at(x[2], b, kh, j, d));
        delta += g * o, error += fabs(g) * (fabs(o) + size);
    }
    for (int j = 0; j < c->keys; j++) {
        dp[j] = 0;
        for (int d = 0; d < c->width; d++) dp[j] += at(x[3], b, h, i, d) * at(x[2], b, kh, j, d);
    }
    for (int j = 0; j < c->keys; j++) {
        double ds = p[j] * (dp[j] - delta) * slope[j], off = fabs(ds) + p[j] * error * slope[j];
        size_t query = ((size_t)(b * c->heads + h) * (size_t)c->queries + (size_t)i) * (size_t)c->width,
               key = ((size_t)(b * c->key_heads + kh) * (size_t)c->keys + (size_t)j) * (size_t)c->width;
        for (int d = 0; d < c->width; d++) {
            double q = at(x[0], b, h, i, d), k = at(x[1], b, kh, j, d), g = at(x[3], b, h, i, d);
            add(&out[0], query + (size_t)d, SCALE * ds * k, SCALE * off * fabs(k));
            add(&out[1], key + (size_t)d, SCALE * ds * q, SCALE * off * fabs(q));
            add(&out[2], key + (size_t)d, p[j] * g, p[j] * fabs(g));
        }
    }
}

static void compare(const attention_case *c, int number, const sums *expected, const weft_tensor *y, const char *arch) {
    static const char *const names[OUTPUTS] = {"dq", "dk", "dv"};
    double u = c->dtype == WEFT_BF16 ? 0x1p-8 : 0x1p-11;
    for (int64_t i = 0; i < weft_tensor_element_count(y); i++) {
        double got = weft_element_double(c->dtype, weft_tensor_data(y), i), value = expected->value[i];
        double allowed = 1.01 * u * (expected->bound[i] + fabs(value)) + 1e-6;
        ck_assert_msg(fabs(got - value) <= allowed, "case %d on %s: %s element %lld is %g, not %g (within %g)",
                      (int)(c - cases), arch, names[number], (long long)i, got, value, allowed);
    }
}

static void run_case(weft_context *context, const attention_case *c, const char *arch) {
    weft_program *program = compile(context, c);
    weft_session *session;
    weft_tensor *x[INPUTS], *y[OUTPUTS] = {0};
    sums expected[OUTPUTS] = {make_sums(c, true), make_sums(c, false), make_sums(c, false)};
    double *work = calloc((size_t)c->keys * 3, sizeof *work);
    ck_assert(work != NULL);
    for (int i = 0; i < INPUTS; i++) x[i] = make_input(context, c, i);
    long before = hip_matrix();
    int launches = hip_calls("hipModuleLaunchKernel");
    assert_fine(weft_session_create(program, &session));
    assert_fine(weft_session_call(session, c->masked ? INPUTS : INPUTS - 1, x, OUTPUTS, y));
    ck_assert_int_gt(hip_matrix(), before);
    launches = hip_calls("hipModuleLaunchKernel") - launches;
    bool whole = c->width <= 64 || !strncmp(arch, "gfx9", 4); /* attention, then statistics, queries, keys */
    ck_assert_msg((launches == 4) == whole, "case %d on %s: %d launches", (int)(c - cases), arch, launches);
    for (int b = 0; b < c->batches; b++)
        for (int h = 0; h < c->heads; h++)
            for (int i = 0; i < c->queries; i++) add_query(c, x, b, h, i, work, expected);
    for (int i = 0; i < OUTPUTS; i++) {
        compare(c, i, &expected[i], y[i], arch);
        weft_tensor_release(y[i]);
        free(expected[i].value);
        free(expected[i].bound);
    }
    for (int i = 0; i < INPUTS; i++) weft_tensor_release(x[i]);
    free(work);
    weft_session_release(session);
    weft_program_release(program);
}

START_TEST(of_attention) {
    const char *arch = archs[_i / CASES];
    const attention_case *c = &cases[_i % CASES];
    weft_context *context;
    hip_use(arch);
    assert_fine(weft_context_create(NULL, &context));
    run_case(context, c, arch);
    weft_context_release(context);
    ck_assert_int_eq(hip_live(), 0);
}
END_TEST

Suite *suite_gradients(void) {
    Suite *suite = suite_create("gradients");
    TCase *tests = tcase_create("gradients");
    tcase_add_loop_test(tests, of_attention, 0, ARCHS * CASES);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite;
}
