/* Cross-entropy of a linear layer's logits that never exist as a whole: examples are taken in pieces, and a piece's
   logits become its loss and its gradients before the next piece begins (as Hsu et al. 2024, "Liger kernel", section
   3.2). The work is that of the plain form, three products; memory is that of one piece and of one sum of weight
   gradients. One piece is the plain form itself.

   Invariant: gradients are results of the forward part, scaled by the loss's cotangent. Without a derivative they have
   no use and are dropped. Read next: classes.c. */
#include "base/need.h"
#include "stdlib/loss/loss.h"
#include "weft/transform.h"

enum { PIECES_MAX = 64, LOGITS_OF_A_PIECE = 1 << 27 };

typedef struct head {
    const weft_cross_entropy_options *options;
    int64_t pieces;
    weft_dtype dtype; /* of the loss */
} head;

static weft_dtype loss_dtype(weft_dtype dtype) { return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32; }

static weft_value *product(weft_graph *g, weft_value *a, int64_t a_axis, weft_value *b, int64_t b_axis,
                           weft_dtype dtype) {
    weft_dot_options o = WEFT_DOT_OPTIONS_INIT;
    o.contract_count = 1, o.lhs_contract = &a_axis, o.rhs_contract = &b_axis, o.dtype = dtype;
    return weft_dot_general(g, a, b, &o);
}

/* x, which no derivative passes: a function that uses a differentiated value besides its arguments is a problem of the
   graph, while one that is never differentiated is its body. Gradients of gradients would need the logits that are
   gone. */
static void captured(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)g, (void)arguments;
    results[0] = self;
}

static void tangent(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    (void)self, (void)g;
    results[0] = arguments[1];
}

static weft_value *first_derivative_only(weft_graph *g, weft_value *x) {
    weft_dim shape[2] = {weft_value_dim(x, 0), weft_value_dim(x, 1)};
    weft_value *nothing = weft_full(g, weft_value_dtype(x), 2, shape, 0), *result = NULL;
    weft_custom_jvp(g, 1, &nothing, captured, tangent, x, 1, &result);
    return result;
}

/* Arguments: x [N, D], weight [C, D], labels [N]. Results: loss, gradient of x, gradient of weight. */
static void forward(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const head *h = self;
    weft_value *x = arguments[0], *weight = arguments[1], *labels = arguments[2];
    weft_dim examples = weft_value_dim(x, 0);
    weft_value *count = weft_loss_example_count(g, labels, h->dtype, h->options);
    weft_value *loss = NULL, *sum = NULL, *parts[PIECES_MAX];
    for (int64_t i = 0; i < h->pieces; i++) {
        weft_dim from = examples * i / h->pieces, to = examples * (i + 1) / h->pieces;
        weft_value *rows = weft_slice_axis(g, x, 0, from, to), *own = weft_slice_axis(g, labels, 0, from, to);
        weft_value *logits = product(g, rows, 1, weight, 1, weft_value_dtype(x)), *slope = NULL;
        weft_value *each = weft_loss_of_examples(g, weft_convert(g, logits, h->dtype), own, h->options);
        weft_value *part = weft_div(g, weft_loss_sum(g, each), count);
        weft_gradient(g, part, NULL, 1, &logits, &slope);
        loss = loss ? weft_add(g, loss, part) : part;
        parts[i] = product(g, slope, 1, weight, 0, weft_value_dtype(x));
        weft_value *of_weight = product(g, slope, 0, rows, 0, h->dtype);
        sum = sum ? weft_add(g, sum, of_weight) : of_weight;
    }
    results[0] = loss;
    results[1] = weft_concat(g, 0, (int)h->pieces, parts);
    results[2] = weft_convert(g, sum, weft_value_dtype(weight));
}

/* Arguments: the inputs, the results, their cotangents. */
static void backward(void *self, weft_graph *g, weft_value *const *arguments, weft_value **results) {
    const head *h = self;
    weft_value *cotangent = arguments[6];
    for (int i = 0; i < 2; i++) {
        weft_value *slope = first_derivative_only(g, arguments[4 + i]);
        weft_dtype own = weft_value_dtype(slope);
        weft_value *scaled = weft_mul(g, weft_convert(g, slope, h->dtype), cotangent);
        results[i] = weft_convert(g, scaled, own);
    }
}

/* All logits at once: any number of derivatives. */
static weft_value *whole(weft_graph *g, weft_value *rows, weft_value *weight, weft_value *labels,
                         const weft_cross_entropy_options *options) {
    weft_value *logits = product(g, rows, 1, weight, 1, weft_value_dtype(rows));
    logits = weft_convert(g, logits, loss_dtype(weft_value_dtype(rows)));
    return weft_loss_cross_entropy(g, logits, labels, options);
}

/* Pieces of about 2^27 logits, 256 MB in 16 bits: above that, logits and their gradient are a large share of what a
   step keeps (3.3 GB each of GPT-2's 17.6 at 32 times 1024 tokens), and products of so many rows lose nothing by being
   cut. */
static int64_t choose_pieces(weft_dim examples, weft_dim classes) {
    int64_t pieces = 1;
    while (pieces < PIECES_MAX && pieces < examples && examples / pieces > LOGITS_OF_A_PIECE / classes) pieces++;
    return pieces;
}

weft_value *weft_loss_linear_cross_entropy(weft_graph *g, weft_value *x, weft_value *weight, weft_value *labels,
                                           int64_t pieces, const weft_cross_entropy_options *options) {
    weft_cross_entropy_options own = WEFT_CROSS_ENTROPY_OPTIONS_INIT;
    if (weft_graph_report(g, WEFT_OPTIONS_READ(own, options, WEFT_CROSS_ENTROPY_OPTIONS_INIT))) return x;
    weft_value *rows = weft_loss_as_rows(g, x), *y = weft_reshape(g, labels, 1, (weft_dim[]){WEFT_DIM_ANY});
    weft_dim examples = weft_value_dim(rows, 0), classes = weft_value_dim(weight, 0);
    bool numbers = examples > 0 && classes > 0; /* symbolic extents are negative: one piece */
    if (pieces < 0 || pieces > PIECES_MAX || (pieces > 1 && numbers && pieces > examples)) {
        weft_graph_report(g, WEFT_STATUS(WEFT_INVALID_ARGUMENT, "%lld pieces of %lld examples", (long long)pieces,
                                         (long long)examples));
        pieces = 1;
    }
    if (!numbers) pieces = 1;
    if (pieces == 0) pieces = choose_pieces(examples, classes);
    if (pieces == 1) return whole(g, rows, weight, y, &own);
    head h = {&own, pieces, loss_dtype(weft_value_dtype(rows))};
    weft_value *inputs[3] = {rows, weight, y}, *results[3] = {NULL, NULL, NULL};
    weft_custom_vjp(g, 3, inputs, forward, backward, &h, 3, results);
    return results[0];
}
