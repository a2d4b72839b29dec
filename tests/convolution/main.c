/* The CPU convolution builder: compiled and run against plain loops: ranks, groups, strides, dilations, paddings,
 * symbols. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/plan_run.h"
#include "weft/ops.h"

enum { RANK_MAX = 3 };

typedef struct problem {
    int rank, batch, groups, in, out; /* channels of a group */
    int size[RANK_MAX], kernel[RANK_MAX], stride[RANK_MAX], dilation[RANK_MAX], base[RANK_MAX], low[RANK_MAX],
        high[RANK_MAX];
    bool symbolic_batch, symbolic_size, epilogue;
    weft_dtype dtype;
    const char *arch;
    int threads;
} problem;

static int output_size(const problem *p, int d) {
    int spread = p->size[d] ? (p->size[d] - 1) * p->base[d] + 1 : 0;
    return (spread + p->low[d] + p->high[d] - (p->kernel[d] - 1) * p->dilation[d] - 1) / p->stride[d] + 1;
}

static void describe(const problem *p, char *text, size_t bytes) {
    int n = snprintf(text, bytes, "batch %d groups %d channels %d -> %d %s %s%s%s", p->batch, p->groups, p->in, p->out,
                     weft_dtype_name(p->dtype), p->arch, p->symbolic_batch ? " symbolic batch" : "",
                     p->symbolic_size ? " symbolic size" : "");
    for (int d = 0; d < p->rank; d++)
        n += snprintf(text + n, bytes - (size_t)n, " [%d k%d s%d d%d b%d %d,%d]", p->size[d], p->kernel[d],
                      p->stride[d], p->dilation[d], p->base[d], p->low[d], p->high[d]);
}

static void ok(weft_status status, const problem *p) {
    char text[3000] = "", what[400];
    describe(p, what, sizeof what);
    weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s: %s", what, text);
}

static uint64_t state = 1;
static void *fill(weft_dtype t, int64_t count, double *values) {
    void *data = calloc((size_t)count + 64, 8);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double v = weft_dtype_is_float(t) ? (double)(int64_t)(state >> 40) / (1 << 23) - 1 : (double)(state >> 60) - 7;
        if (weft_dtype_is_float(t))
            weft_element_set_double(t, data, i, v);
        else
            weft_element_set_i64(t, data, i, (int64_t)v);
        values[i] = weft_dtype_is_float(t) ? weft_element_double(t, data, i) : (double)weft_element_i64(t, data, i);
    }
    return data;
}

/* One output element. */
static double at(const problem *p, const double *x, const double *w, int n, int o, const int *position,
                 double *magnitude) {
    int taps = 1, pixels = 1, g = o / p->out;
    double sum = 0;
    for (int d = 0; d < p->rank; d++) taps *= p->kernel[d], pixels *= p->size[d];
    *magnitude = 0;
    for (int c = 0; c < p->in; c++)
        for (int t = 0; t < taps; t++) {
            int rest = t, tap[RANK_MAX], index = 0;
            for (int d = p->rank - 1; d >= 0; d--) tap[d] = rest % p->kernel[d], rest /= p->kernel[d];
            bool inside = true;
            for (int d = 0; d < p->rank; d++) {
                int i = position[d] * p->stride[d] + tap[d] * p->dilation[d] - p->low[d];
                if (i < 0 || i % p->base[d] || i / p->base[d] >= p->size[d]) {
                    inside = false;
                    break;
                }
                index = index * p->size[d] + i / p->base[d];
            }
            if (!inside) continue;
            double term = x[((int64_t)n * p->groups * p->in + g * p->in + c) * pixels + index] *
                          w[((int64_t)o * p->in + c) * taps + t];
            sum += term;
            *magnitude += fabs(term);
        }
    return sum;
}

static void check(problem p) {
    if (strcmp(p.arch, "x86-64-v4") == 0 && !__builtin_cpu_supports("avx512bw")) return;
    int64_t pixels = 1, taps = 1, outputs = 1;
    for (int d = 0; d < p.rank; d++) pixels *= p.size[d], taps *= p.kernel[d], outputs *= output_size(&p, d);
    int64_t x_count = (int64_t)p.batch * p.groups * p.in * pixels, w_count = (int64_t)p.groups * p.out * p.in * taps,
            channels = p.groups * p.out, y_count = p.batch * channels * outputs;
    double *x = calloc((size_t)x_count + 1, 8), *w = calloc((size_t)w_count + 1, 8),
           *bias = calloc((size_t)channels, 8);
    void *x_data = fill(p.dtype, x_count, x), *w_data = fill(p.dtype, w_count, w),
         *bias_data = fill(p.dtype, channels, bias);
    weft_context *context;
    weft_graph *g;
    ok(weft_context_create(NULL, &context), &p);
    ok(weft_graph_create(context, "g", &g), &p);
    int64_t symbols[8] = {0}, w_shape[5] = {channels, p.in}, strides[3], dilations[3], bases[3];
    weft_dim x_dims[5] = {p.batch, p.groups * p.in}, low[3], high[3];
    int symbol = 0;
    if (p.symbolic_batch) x_dims[0] = weft_graph_symbol(g, "B", 1, 1000, 1), symbols[symbol++] = p.batch;
    for (int d = 0; d < p.rank; d++) {
        char name[2] = {(char)('P' + d), 0};
        x_dims[d + 2] = p.size[d];
        if (p.symbolic_size) x_dims[d + 2] = weft_graph_symbol(g, name, 1, 4000, 1), symbols[symbol++] = p.size[d];
        w_shape[d + 2] = p.kernel[d], strides[d] = p.stride[d], dilations[d] = p.dilation[d], bases[d] = p.base[d];
        low[d] = p.low[d] >= 0 ? p.low[d] : weft_dim_number(g->dims, p.low[d]),
        high[d] = p.high[d] >= 0 ? p.high[d] : weft_dim_number(g->dims, p.high[d]);
    }
    weft_tensor *tensor, *bias_tensor;
    ok(weft_tensor_create(context, p.dtype, p.rank + 2, w_shape, &tensor), &p);
    memcpy(weft_tensor_data(tensor), w_data, (size_t)(w_count * weft_dtype_bits(p.dtype) / 8));
    weft_convolution_options options = WEFT_CONVOLUTION_OPTIONS_INIT;
    options.stride = strides, options.dilation = dilations, options.base_dilation = bases, options.low = low,
    options.high = high, options.groups = p.groups;
    weft_value *y = weft_convolution(g, weft_graph_input(g, "x", p.dtype, p.rank + 2, x_dims),
                                     weft_graph_constant(g, tensor), &options);
    if (p.epilogue) {
        int64_t bias_shape[5] = {1, channels, 1, 1, 1};
        ok(weft_tensor_create(context, p.dtype, p.rank + 2, bias_shape, &bias_tensor), &p);
        memcpy(weft_tensor_data(bias_tensor), bias_data, (size_t)(channels * weft_dtype_bits(p.dtype) / 8));
        y = weft_relu(g, weft_add(g, y, weft_graph_constant(g, bias_tensor)));
        weft_tensor_release(bias_tensor);
    }
    weft_graph_output(g, "y", y);
    ok(weft_graph_verify(g), &p);
    const weft_capability *capability = weft_capability_find("cpu", p.arch);
    weft_node *fusion = NULL;
    plan_run run;
    ok(plan_fuse(g, capability, &fusion), &p);
    ok(plan_open(g, fusion, capability, p.threads, symbols, &run), &p);
    void *operands[4] = {0};
    for (int i = 0; i < fusion->operand_count; i++) {
        const weft_value *v = fusion->operands[i];
        operands[i] = !v->node                                                             ? x_data
                      : weft_node_attribute(v->node, WEFT_ATTR_value)->as.tensor == tensor ? w_data
                                                                                           : bias_data;
    }
    unsigned char *result = malloc((size_t)y_count * 8 + 64);
    memset(result, 0x55, (size_t)y_count * 8 + 64);
    ok(plan_execute(&run, true, symbols, operands, (void *[]){result}), &p);
    ok(plan_execute(&run, false, symbols, operands, (void *[]){result}), &p);
    char what[400];
    describe(&p, what, sizeof what);
    bool real = weft_dtype_is_float(p.dtype);
    for (int64_t i = 0; i < y_count; i++) {
        int64_t rest = i % outputs;
        int position[RANK_MAX], o = (int)(i / outputs % channels);
        for (int d = p.rank - 1; d >= 0; d--)
            position[d] = (int)(rest % output_size(&p, d)), rest /= output_size(&p, d);
        double magnitude, want = at(&p, x, w, (int)(i / outputs / channels), o, position, &magnitude);
        if (p.epilogue) want = fmax(0, want + bias[o]);
        double got = real ? weft_element_double(p.dtype, result, i) : (double)weft_element_i64(p.dtype, result, i);
        double eps = p.dtype == WEFT_BF16  ? 1.0 / 128
                     : p.dtype == WEFT_F64 ? 1e-15
                                           : 1e-7,
               bound = real ? (double)(p.in * taps + 4) * (p.dtype == WEFT_F64 ? 1e-15 : 1e-7) * magnitude +
                                  eps * (fabs(want) + 1)
                            : 0;
        ck_assert_msg(fabs(got - want) <= bound, "%s: element %lld is %g, not %g", what, (long long)i, got, want);
    }
    size_t bytes = (size_t)(y_count * weft_dtype_bits(p.dtype) / 8);
    for (size_t i = 0; i < 64; i++) ck_assert_msg(result[bytes + i] == 0x55, "%s: wrote behind the result", what);
    plan_close(&run);
    weft_tensor_release(tensor);
    weft_graph_release(g);
    weft_context_release(context);
    free(x), free(w), free(bias), free(x_data), free(w_data), free(bias_data), free(result);
}

static const char *const arches[] = {"x86-64-v4", "x86-64-v3"};

/* Every combination of a few values per axis, drawn with a fixed seed. */
START_TEST(drawn) {
    uint64_t seed = 99;
    for (int i = 0; i < 45; i++) {
        problem p = {.arch = arches[_i], .dtype = WEFT_F32};
#define DRAW(...)                                                                                                      \
    ((int[]){__VA_ARGS__}[(seed = seed * 6364136223846793005u + 1442695040888963407u,                                  \
                           (seed >> 33) % (sizeof((int[]){__VA_ARGS__}) / sizeof(int)))])
        p.rank = DRAW(1, 2, 2, 2, 3), p.batch = DRAW(1, 2), p.groups = DRAW(1, 1, 1, 2, 5), p.in = DRAW(1, 3, 8, 17),
        p.out = DRAW(1, 2, 5, 9, 19);
        for (int d = 0; d < p.rank; d++) {
            p.size[d] = DRAW(1, 5, 9, 16, 20, 35), p.kernel[d] = DRAW(1, 1, 2, 3, 3, 5), p.stride[d] = DRAW(1, 1, 2, 3),
            p.dilation[d] = DRAW(1, 1, 2);
            p.base[d] = DRAW(1, 1, 1, 2), p.low[d] = DRAW(0, 1, 2, -1), p.high[d] = DRAW(0, 1, 2, 3, -1);
            while (output_size(&p, d) < 1 ||
                   (p.size[d] - 1) * p.base[d] + 1 + p.low[d] + p.high[d] < (p.kernel[d] - 1) * p.dilation[d] + 1)
                p.size[d] += 3;
        }
        p.symbolic_batch = DRAW(0, 0, 1), p.symbolic_size = DRAW(0, 0, 1), p.epilogue = DRAW(0, 1),
        p.threads = DRAW(1, 2);
        p.dtype = (weft_dtype)DRAW(WEFT_F32, WEFT_F32, WEFT_F32, WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32);
        check(p);
    }
}
END_TEST

/* What models are made of. */
START_TEST(typical) {
    static const problem problems[] = {
        {.rank = 2,
         .batch = 1,
         .groups = 1,
         .in = 3,
         .out = 16,
         .size = {48, 80},
         .kernel = {3, 3},
         .stride = {2, 2},
         .low = {1, 1},
         .high = {1, 1}},
        {.rank = 2,
         .batch = 2,
         .groups = 24,
         .in = 1,
         .out = 1,
         .size = {12, 40},
         .kernel = {3, 3},
         .stride = {1, 1},
         .low = {1, 1},
         .high = {1, 1}},
        {.rank = 2,
         .batch = 1,
         .groups = 24,
         .in = 1,
         .out = 1,
         .size = {12, 40},
         .kernel = {5, 5},
         .stride = {2, 1},
         .low = {2, 2},
         .high = {2, 2}},
        {.rank = 2, .batch = 1, .groups = 1, .in = 40, .out = 50, .size = {10, 20}, .kernel = {1, 1}, .stride = {1, 1}},
        {.rank = 2, .batch = 1, .groups = 1, .in = 64, .out = 16, .size = {1, 1}, .kernel = {1, 1}, .stride = {1, 1}},
        {.rank = 2,
         .batch = 1,
         .groups = 1,
         .in = 16,
         .out = 32,
         .size = {7, 7},
         .kernel = {3, 3},
         .stride = {1, 1},
         .low = {1, 1},
         .high = {1, 1}},
        {.rank = 2, .batch = 1, .groups = 1, .in = 8, .out = 8, .size = {9, 33}, .kernel = {1, 1}, .stride = {2, 2}},
        {.rank = 2,
         .batch = 1,
         .groups = 1,
         .in = 3,
         .out = 24,
         .size = {28, 28},
         .kernel = {14, 14},
         .stride = {14, 14}},
        {.rank = 1,
         .batch = 1,
         .groups = 1,
         .in = 80,
         .out = 20,
         .size = {100},
         .kernel = {3},
         .stride = {1},
         .low = {1},
         .high = {1}},
        {.rank = 2,
         .batch = 1,
         .groups = 1,
         .in = 12,
         .out = 4,
         .size = {10, 17},
         .kernel = {2, 2},
         .stride = {1, 1},
         .base = {2, 2},
         .low = {1, 1},
         .high = {1, 1}},
        /* the basis of a short-time Fourier transform; long kernels with few and many phases */
        {.rank = 1, .batch = 2, .groups = 1, .in = 1, .out = 34, .size = {640}, .kernel = {256}, .stride = {128}},
        {.rank = 1,
         .batch = 1,
         .groups = 2,
         .in = 3,
         .out = 5,
         .size = {150},
         .kernel = {65},
         .stride = {3},
         .low = {7},
         .high = {40}},
        {.rank = 2,
         .batch = 1,
         .groups = 1,
         .in = 2,
         .out = 3,
         .size = {70, 90},
         .kernel = {66, 80},
         .stride = {2, 9},
         .low = {1, 5},
         .high = {3, 20}},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int variant = 0; variant < 3; variant++) {
            problem p = problems[i];
            for (int d = 0; d < p.rank; d++) p.dilation[d] = 1, p.base[d] = p.base[d] ? p.base[d] : 1;
            p.dtype = WEFT_F32, p.arch = arches[_i], p.threads = 1 + variant % 2, p.epilogue = variant > 0,
            p.symbolic_size = variant == 2;
            check(p);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("convolution");
    TCase *tests = tcase_create("convolution");
    tcase_add_loop_test(tests, drawn, 0, 2);
    tcase_add_loop_test(tests, typical, 0, 2);
    tcase_set_timeout(tests, 200);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
