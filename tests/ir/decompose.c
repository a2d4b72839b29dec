/* Derived ops against their formulas, written here a second time in plain f64 loops. Inputs are f32 or bf16 samples;
   the interpreter runs the decomposition exactly, so the results agree to the rounding of the compute dtype. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/tensor.h"
#include "ir/interpret.h"
#include "tests/ir/sample.h"

enum { SYMBOL = 5, MAX_ELEMENTS = 4096 };

static weft_context *context;
static void setup(void) { ck_assert_ptr_null(weft_context_create(NULL, &context)); }
static void teardown(void) { weft_context_release(context); }

static void expect_ok(weft_status status, const char *what) {
    char text[2000] = "";
    if (status) weft_status_format(status, text, sizeof text);
    ck_assert_msg(!status, "%s: %s", what, text);
}

/* What a formula sees: operands as doubles. */
typedef struct operand {
    int rank;
    int64_t shape[WEFT_MAX_RANK];
    double data[MAX_ELEMENTS];
} operand;

enum { OPERANDS = 11, RESULTS = 4 };
static operand in[OPERANDS], want[RESULTS];
static double at4(const operand *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return x->data[((a * x->shape[1] + b) * x->shape[2] + c) * x->shape[3] + d];
}

static weft_tensor *random_tensor(const weft_type *type, uint64_t *state, operand *out) {
    out->rank = type->rank;
    for (int i = 0; i < type->rank; i++) out->shape[i] = type->dims[i] < 0 ? SYMBOL : type->dims[i];
    weft_tensor *tensor;
    expect_ok(weft_tensor_create(context, type->dtype, type->rank, out->shape, &tensor), "input");
    for (int64_t i = 0; i < tensor->element_count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        int64_t r = (int64_t)(*state >> 33) % 1000;
        if (weft_dtype_is_float(type->dtype))
            weft_element_set_double(type->dtype, tensor->data, i, (double)(r - 500) / 200);
        else
            weft_element_set_i64(type->dtype, tensor->data, i, type->dtype == WEFT_BOOL ? r % 2 : r % 7);
        out->data[i] = weft_dtype_is_float(type->dtype) ? weft_element_double(type->dtype, tensor->data, i)
                                                        : (double)weft_element_i64(type->dtype, tensor->data, i);
    }
    return tensor;
}

/* -- formulas: rows along one axis as (outer, n, inner) */

static void rows(int axis, int64_t *outer, int64_t *n, int64_t *inner) {
    *outer = *inner = 1;
    for (int i = 0; i < axis; i++) *outer *= in[0].shape[i];
    for (int i = axis + 1; i < in[0].rank; i++) *inner *= in[0].shape[i];
    *n = in[0].shape[axis];
}

static void softmax(const weft_node *node, bool log_of) {
    int64_t outer, n, inner;
    rows((int)weft_node_int(node, WEFT_ATTR_axis, 0), &outer, &n, &inner);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++) sum += exp(in[0].data[(o * n + k) * inner + i]);
            for (int64_t k = 0; k < n; k++) {
                int64_t e = (o * n + k) * inner + i;
                want[0].data[e] = log_of ? in[0].data[e] - log(sum) : exp(in[0].data[e]) / sum;
            }
        }
}

/* The samples normalise over trailing axes. */
static void norm(const weft_node *node, bool centred) {
    const weft_attribute *axes = weft_node_attribute(node, WEFT_ATTR_axes);
    int64_t n = 1, total = 1;
    for (int i = 0; i < axes->count; i++) n *= in[0].shape[axes->as.ints[i]];
    for (int i = 0; i < in[0].rank; i++) total *= in[0].shape[i];
    for (int64_t row = 0; row < total / n; row++) {
        const double *x = in[0].data + row * n;
        double mean = 0, square = 0;
        for (int64_t k = 0; k < n; k++) mean += centred ? x[k] / (double)n : 0;
        for (int64_t k = 0; k < n; k++) square += (x[k] - mean) * (x[k] - mean) / (double)n;
        for (int64_t k = 0; k < n; k++) {
            double y = (x[k] - mean) / sqrt(square + weft_node_float(node, WEFT_ATTR_epsilon, 0));
            if (node->operand_count > 1) y *= in[1].data[k];
            if (node->operand_count > 2) y += in[2].data[k];
            want[0].data[row * n + k] = y;
        }
    }
}

static void pointwise(const weft_node *node, int64_t count) {
    bool tanh_form = strcmp(weft_node_string(node, WEFT_ATTR_approximate, ""), "tanh") == 0;
    for (int64_t i = 0; i < count; i++) {
        double x = in[0].data[i], y = 0;
        if (node->op == WEFT_OP_silu) y = x / (1 + exp(-x));
        if (node->op == WEFT_OP_softplus) y = log(1 + exp(x));
        if (node->op == WEFT_OP_gelu)
            y = tanh_form ? x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
                          : x / 2 * erfc(-x / sqrt(2));
        want[0].data[i] = y;
    }
}

static bool sees(const weft_node *node, int64_t distance) {
    int64_t left = weft_node_int(node, WEFT_ATTR_window_left, -1),
            right = weft_node_int(node, WEFT_ATTR_window_right, -1);
    if (weft_node_int(node, WEFT_ATTR_causal, 0) && distance > 0) return false;
    return (right < 0 || distance <= right) && (left < 0 || distance >= -left);
}

/* The mask is the operand after the required ones, [T, S] when additive, [B, 1, T, S] when bool. */
static double mask_value(const weft_node *node, int required, int64_t b, int64_t t, int64_t s, int64_t keys) {
    if (node->operand_count == required) return 0; /* no sample has a key and no mask */
    if (node->operands[required]->type.dtype != WEFT_BOOL) return in[required].data[t * keys + s];
    return at4(&in[required], b, 0, t, s) != 0 ? 0 : -INFINITY;
}

/* Sizes of attention, and what its three formulas share. */
typedef struct heads {
    const weft_node *node;
    int required; /* operands before the mask */
    int64_t batch, heads, queries, keys, width, group, out;
    double scale, cap;
} heads;

static heads heads_of(const weft_node *node, int required) {
    heads a = {node,
               required,
               in[0].shape[0],
               in[0].shape[1],
               in[0].shape[2],
               in[1].shape[2],
               in[0].shape[3],
               in[0].shape[1] / in[1].shape[1],
               in[2].shape[3],
               weft_node_float(node, WEFT_ATTR_scale, 0),
               weft_node_float(node, WEFT_ATTR_soft_cap, 0)};
    if (a.scale == 0) a.scale = 1 / sqrt((double)a.width);
    return a;
}

static double dots(const heads *a, const operand *x, const operand *y, int64_t b, int64_t h, int64_t t, int64_t s) {
    double sum = 0;
    for (int64_t d = 0; d < x->shape[3]; d++) sum += at4(x, b, h, t, d) * at4(y, b, h / a->group, s, d);
    return sum;
}

/* The score that softmax sees, and the derivative of the cap there. */
static double score(const heads *a, int64_t b, int64_t h, int64_t t, int64_t s, double *out_slope) {
    double x = a->scale * dots(a, &in[0], &in[1], b, h, t, s);
    *out_slope = a->cap > 0 ? 1 - tanh(x / a->cap) * tanh(x / a->cap) : 1;
    if (a->cap > 0) x = a->cap * tanh(x / a->cap);
    if (!sees(a->node, s - (t + a->keys - a->queries))) return -INFINITY;
    return x + mask_value(a->node, a->required, b, t, s, a->keys);
}

/* Philox 4x32-10: 64 bits of counter {low, high} under a key. */
static uint64_t philox(uint64_t key, uint64_t low, uint64_t high) {
    uint32_t x0 = (uint32_t)low, x1 = (uint32_t)(low >> 32), x2 = (uint32_t)high, x3 = (uint32_t)(high >> 32),
             k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        uint64_t p = (uint64_t)x0 * 0xd2511f53u, q = (uint64_t)x2 * 0xcd9e8d57u;
        x0 = (uint32_t)(q >> 32) ^ x1 ^ k0, x2 = (uint32_t)(p >> 32) ^ x3 ^ k1;
        x1 = (uint32_t)q, x3 = (uint32_t)p;
    }
    return x0 | (uint64_t)x1 << 32;
}

/* What dropout multiplies weight (b, h, t, s) with: four weights 8 apart in a cell of 16 x 16 share a draw. */
static double left_of(const heads *a, int64_t b, int64_t h, int64_t t, int64_t s) {
    double rate = weft_node_float(a->node, WEFT_ATTR_dropout, 0);
    if (rate == 0) return 1;
    const double *key = in[a->required + 1].data;
    int64_t across = (a->keys + 15) / 16 * 8, down = (a->queries + 15) / 16 * 8;
    int64_t row = t / 16 * 8 + t % 8, column = s / 16 * 8 + s % 8;
    uint64_t bits =
        philox((uint64_t)key[0], (uint64_t)(((b * a->heads + h) * down + row) * across + column), (uint64_t)key[1]);
    double limit = floor(rate * 65536 + 0.5), drawn = (double)(bits >> (32 * (t / 8 % 2) + 16 * (s / 8 % 2)) & 65535);
    return drawn < limit ? 0 : 65536 / (65536 - limit);
}

static void attention(const weft_node *node) {
    heads a = heads_of(node, 3);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t t = 0; t < a.queries; t++) {
                double weight[64], sum = 0, slope;
                int64_t row = (b * a.heads + h) * a.queries + t;
                for (int64_t s = 0; s < a.keys; s++) sum += weight[s] = exp(score(&a, b, h, t, s, &slope));
                for (int64_t e = 0; e < a.out; e++) {
                    double y = 0;
                    for (int64_t s = 0; s < a.keys && sum > 0; s++)
                        y += weight[s] / sum * left_of(&a, b, h, t, s) * at4(&in[2], b, h / a.group, s, e);
                    want[0].data[row * a.out + e] = y;
                }
                want[1].data[row] = log(sum);
            }
}

/* o and the log-sum-exp are free operands here: the formula does not need them to belong to q, k and v. */
static void attention_backward(const weft_node *node) {
    heads a = heads_of(node, 6);
    for (int i = 0; i < 3; i++) memset(want[i].data, 0, sizeof want[i].data);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t t = 0; t < a.queries; t++)
                for (int64_t s = 0; s < a.keys; s++) {
                    int64_t row = (b * a.heads + h) * a.queries + t,
                            key = (b * in[1].shape[1] + h / a.group) * a.keys + s;
                    double slope, delta = 0, p = exp(score(&a, b, h, t, s, &slope) - in[4].data[row]),
                                  left = left_of(&a, b, h, t, s);
                    for (int64_t e = 0; e < a.out; e++) delta += at4(&in[3], b, h, t, e) * at4(&in[5], b, h, t, e);
                    double ds = p * (left * dots(&a, &in[5], &in[2], b, h, t, s) - delta);
                    want[3].data[row * a.keys + s] = ds;
                    ds *= a.scale * slope;
                    for (int64_t d = 0; d < a.width; d++) {
                        want[0].data[row * a.width + d] += ds * at4(&in[1], b, h / a.group, s, d);
                        want[1].data[key * a.width + d] += ds * at4(&in[0], b, h, t, d);
                    }
                    for (int64_t e = 0; e < a.out; e++)
                        want[2].data[key * a.out + e] += p * left * at4(&in[5], b, h, t, e);
                }
}

static void attention_tangent(const weft_node *node) {
    heads a = heads_of(node, 8);
    memset(want[0].data, 0, sizeof want[0].data);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t t = 0; t < a.queries; t++)
                for (int64_t s = 0; s < a.keys; s++) {
                    int64_t row = (b * a.heads + h) * a.queries + t;
                    double slope, p = exp(score(&a, b, h, t, s, &slope) - in[4].data[row]);
                    double ds = p * a.scale * slope *
                                (dots(&a, &in[5], &in[1], b, h, t, s) + dots(&a, &in[0], &in[6], b, h, t, s));
                    double left = left_of(&a, b, h, t, s);
                    if (node->operand_count == OPERANDS) ds += p * in[OPERANDS - 1].data[t * a.keys + s];
                    for (int64_t e = 0; e < a.out; e++)
                        want[0].data[row * a.out + e] +=
                            ds * (left * at4(&in[2], b, h / a.group, s, e) - at4(&in[3], b, h, t, e)) +
                            p * left * at4(&in[7], b, h / a.group, s, e);
                }
}

static void rope(const weft_node *node, int64_t count) {
    int64_t t_count = in[0].shape[2], width = in[0].shape[3], half = width / 2;
    bool interleaved = weft_node_int(node, WEFT_ATTR_interleaved, 0);
    for (int64_t row = 0; row < count / width; row++)
        for (int64_t i = 0; i < half; i++) {
            int64_t a = row * width + (interleaved ? 2 * i : i), b = interleaved ? a + 1 : a + half;
            double c = in[1].data[row % t_count * half + i], s = in[2].data[row % t_count * half + i];
            want[0].data[a] = in[0].data[a] * c - in[0].data[b] * s;
            want[0].data[b] = in[0].data[b] * c + in[0].data[a] * s;
        }
}

static void cross_entropy(void) {
    for (int64_t n = 0; n < in[0].shape[0]; n++) {
        double sum = 0;
        const double *x = in[0].data + n * in[0].shape[1];
        for (int64_t k = 0; k < in[0].shape[1]; k++) sum += exp(x[k]);
        want[0].data[n] = log(sum) - x[(int64_t)in[1].data[n]];
    }
}

static void scaled_dot(const weft_node *node) {
    const int64_t *block = weft_node_attribute(node, WEFT_ATTR_block)->as.ints;
    int r = in[0].rank;
    int64_t batch = r == 3 ? in[0].shape[0] : 1, m = in[0].shape[r - 2], n = in[1].shape[r - 2], k = in[0].shape[r - 1],
            blocks = in[2].shape[r - 1], bm = in[2].shape[r - 2], bn = in[3].shape[r - 2];
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++) {
                    int64_t at = l / block[2];
                    sum += in[0].data[(b * m + i) * k + l] * in[2].data[(b * bm + i / block[0]) * blocks + at] *
                           in[1].data[(b * n + j) * k + l] * in[3].data[(b * bn + j / block[1]) * blocks + at];
                }
                want[0].data[(b * m + i) * n + j] = sum;
            }
}

static bool formula(const weft_node *node, int64_t count) {
    switch ((int)node->op) {
    case WEFT_OP_softmax: softmax(node, false); return true;
    case WEFT_OP_log_softmax: softmax(node, true); return true;
    case WEFT_OP_layer_norm: norm(node, true); return true;
    case WEFT_OP_rms_norm: norm(node, false); return true;
    case WEFT_OP_gelu:
    case WEFT_OP_silu:
    case WEFT_OP_softplus: pointwise(node, count); return true;
    case WEFT_OP_attention: attention(node); return true;
    case WEFT_OP_attention_backward: attention_backward(node); return true;
    case WEFT_OP_attention_tangent: attention_tangent(node); return true;
    case WEFT_OP_rope: rope(node, count); return true;
    case WEFT_OP_cross_entropy: cross_entropy(); return true;
    case WEFT_OP_scaled_dot: scaled_dot(node); return true;
    default: return false;
    }
}

static void check_result(weft_op op, int variant, int r, const weft_tensor *output) {
    double tolerance = output->dtype == WEFT_BF16 ? 1.0 / 250 : 2e-5, largest = 0;
    /* a free log-sum-exp makes weights of thousands, whose sums over many queries cancel */
    bool cancels = (op == WEFT_OP_attention_backward || op == WEFT_OP_attention_tangent) && variant == 7;
    for (int64_t i = 0; i < output->element_count; i++) largest = fmax(largest, fabs(want[r].data[i]));
    for (int64_t i = 0; i < output->element_count; i++) {
        double got = weft_element_double(output->dtype, output->data, i), wanted = want[r].data[i];
        double scale = cancels ? largest : fabs(wanted);
        bool same = isinf(wanted) ? got == wanted : fabs(got - wanted) <= tolerance * (1 + scale);
        ck_assert_msg(same, "%s %s variant %d result %d [%lld]: %g, wanted %g", weft_op_get(op)->name,
                      weft_dtype_name(output->dtype), variant, r, (long long)i, got, wanted);
    }
}

/* Of the op's name: an op keeps its inputs when others are added to the table. */
static uint64_t seed_of(weft_op op, int variant) {
    uint64_t hash = 14695981039346656037u;
    for (const char *at = weft_op_get(op)->name; *at; at++) hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    return hash + (uint64_t)variant;
}

static int check_sample(weft_op op, weft_dtype dtype, int variant) {
    weft_graph *graph;
    expect_ok(weft_graph_create(context, "derived", &graph), "create");
    weft_node *node = weft_sample_node(graph, op, dtype, variant);
    expect_ok(weft_graph_verify(graph), weft_op_get(op)->name);
    if (node) {
        weft_tensor *inputs[OPERANDS], *outputs[RESULTS];
        uint64_t state = seed_of(op, variant);
        for (int i = 0; i < node->operand_count; i++)
            inputs[i] = random_tensor(weft_operand_type(node, i), &state, &in[i]);
        /* the samples declare one input for each operand, in order, though not every variant uses them all */
        int input_count = weft_graph_input_count(graph);
        operand unused;
        for (int i = node->operand_count; i < input_count; i++)
            inputs[i] = random_tensor(&weft_graph_input_value(graph, i)->type, &state, &unused);
        expect_ok(weft_interpret(graph, WEFT_INTERPRET_EXACT, input_count, inputs, node->result_count, outputs),
                  weft_op_get(op)->name);
        ck_assert_msg(formula(node, outputs[0]->element_count), "no formula for %s", weft_op_get(op)->name);
        for (int r = 0; r < node->result_count; r++) check_result(op, variant, r, outputs[r]);
        for (int i = 0; i < input_count; i++) weft_tensor_release(inputs[i]);
        for (int r = 0; r < node->result_count; r++) weft_tensor_release(outputs[r]);
    }
    weft_graph_release(graph);
    return node != NULL;
}

START_TEST(test_derived) {
    int checked = 0, derived = 0;
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        if (weft_op_get((weft_op)op)->class != WEFT_CLASS_DERIVED) continue;
        derived++;
        for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
            checked += check_sample((weft_op)op, WEFT_F32, variant);
            checked += check_sample((weft_op)op, WEFT_BF16, variant);
        }
    }
    ck_assert_int_ge(checked, 5 * derived);
}
END_TEST

Suite *decompose_suite(void) {
    Suite *suite = suite_create("decompose");
    TCase *tests = tcase_create("decompose");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_derived);
    suite_add_tcase(suite, tests);
    return suite;
}
