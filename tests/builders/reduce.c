/* Reductions: every kind and dtype, rows and columns, norms and softmax in one fusion, split reductions. */
#include <stdio.h>

#include "ir/decompose.h"
#include "ir/emit.h"
#include "tests/builders/harness.h"
#include "tests/ir/sample.h"

START_TEST(samples) {
    static const int64_t values[2] = {4, 7};
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
        for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
            harness h;
            harness_open(&h, "reduce");
            h.symbols = values;
            char note[64];
            snprintf(note, sizeof note, "reduce %s variant %d", weft_dtype_name((weft_dtype)d), variant);
            h.note = note;
            h.native = harness_native((weft_dtype)d);
            h.class = WEFT_TOLERANCE_SUM;
            h.terms = 12;
            h.scale = 60;
            weft_node *node = weft_sample_node(h.graph, WEFT_OP_reduce, (weft_dtype)d, variant);
            if (node) harness_check(&h);
            harness_close(&h);
            if (!node) break;
        }
    }
}
END_TEST

static void check_kind(const char *kind, weft_dtype dtype, int64_t rows, int64_t columns, int axis, bool special) {
    harness h;
    harness_open(&h, "reduce");
    char note[96];
    snprintf(note, sizeof note, "%s %s [%lld, %lld] over %d", kind, weft_dtype_name(dtype), (long long)rows,
             (long long)columns, axis);
    h.note = note;
    h.special = special;
    h.native = columns > 60;
    h.class = WEFT_TOLERANCE_SUM;
    h.terms = (double)(axis ? columns : rows);
    h.scale = 3 * h.terms;
    weft_dim dims[2] = {rows, columns};
    int64_t axes[1] = {axis};
    weft_value *x = weft_graph_input(h.graph, "x", dtype, 2, dims);
    weft_graph_output(h.graph, "y", weft_emit_reduce(h.graph, x, kind, 1, axes));
    harness_check(&h);
    harness_close(&h);
}

START_TEST(shapes) {
    static const int64_t rows[] = {1, 3, 17}, columns[] = {1, 2, 7, 8, 9, 31, 32, 33, 64, 130};
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 10; c++)
            for (int axis = 0; axis < 2; axis++) {
                check_kind("sum", WEFT_F32, rows[r], columns[c], axis, false);
                check_kind("max", WEFT_BF16, rows[r], columns[c], axis, false);
            }
    check_kind("max", WEFT_F32, 5, 67, 1, true);
    check_kind("min", WEFT_F32, 67, 5, 0, true);
    check_kind("sum", WEFT_F32, 4, 0, 1, false);
    check_kind("max", WEFT_F32, 0, 4, 0, false);
    check_kind("min", WEFT_I8, 0, 4, 0, false);
    check_kind("sum", WEFT_U8, 5, 100, 1, false);
    check_kind("and", WEFT_BOOL, 5, 100, 1, false);
    check_kind("or", WEFT_BOOL, 100, 5, 0, false);
}
END_TEST

/* Long enough for two launches. */
START_TEST(split) {
    check_kind("sum", WEFT_F32, 1, 70001, 1, false);
    check_kind("max", WEFT_F32, 2, 50000, 1, false);
    check_kind("sum", WEFT_F32, 3001, 20, 0, false);
    check_kind("max", WEFT_BF16, 900, 70, 0, false);
    check_kind("sum", WEFT_BF16, 1, 40003, 1, false);
}
END_TEST

/* A result of the operand's shape that no reduction is behind leaves with the pieces. */
static void split_with_full(int64_t rows, int64_t columns, int64_t axis) {
    harness h;
    harness_open(&h, "reduce");
    h.note = "split beside a full result";
    h.class = WEFT_TOLERANCE_SUM;
    h.terms = (double)(axis ? columns : rows);
    h.scale = 64;
    weft_graph *g = h.graph;
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, (weft_dim[]){rows, columns});
    weft_graph_place(g, weft_graph_place_end(g, g->body->block));
    weft_value *twice = weft_emit_binary(g, WEFT_OP_add, x, x);
    weft_graph_output(g, "narrow", weft_emit_convert(g, twice, WEFT_BF16));
    weft_graph_output(g, "sum", weft_emit_reduce(g, twice, "sum", 1, &axis));
    weft_graph_output(g, "squares", weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, x, x), "sum", 1, &axis));
    harness_check(&h);
    harness_close(&h);
}

START_TEST(split_full) {
    split_with_full(3001, 20, 0);
    split_with_full(2, 50001, 1);
    split_with_full(130, 768, 0);
}
END_TEST

static void derived(weft_op op, weft_dtype dtype, int64_t rows, int64_t columns, int operands, int64_t axis,
                    bool symbolic, bool prologue) {
    harness h;
    harness_open(&h, "reduce");
    char note[96];
    snprintf(note, sizeof note, "%s %s [%lld, %lld] axis %lld%s", weft_op_get(op)->name, weft_dtype_name(dtype),
             (long long)rows, (long long)columns, (long long)axis, symbolic ? " symbolic" : "");
    h.note = note;
    h.class = WEFT_TOLERANCE_CHAIN;
    h.terms = 8 + (double)(axis ? columns : rows) / 4;
    h.scale = 4;
    weft_graph *g = h.graph;
    int64_t symbols[2] = {rows, columns}, axes[1] = {axis};
    weft_dim dims[2] = {rows, columns};
    if (symbolic) {
        h.symbols = symbols;
        dims[0] = weft_graph_symbol(g, "R", 1, 1 << 20, 1);
        dims[1] = weft_graph_symbol(g, "C", 1, INT64_MAX, 1);
    }
    weft_value *x[3] = {weft_graph_input(g, "x", dtype, 2, dims)};
    for (int i = 1; i < operands; i++) x[i] = weft_graph_input(g, i == 1 ? "scale" : "bias", dtype, 1, &dims[axis]);
    if (prologue) x[0] = weft_emit_unary(g, WEFT_OP_tanh, x[0]);
    weft_attribute softmax[1] = {weft_attr_int(WEFT_ATTR_axis, axis)};
    weft_attribute norm[2] = {weft_attr_ints(WEFT_ATTR_axes, 1, axes), weft_attr_float(WEFT_ATTR_epsilon, 1e-5)};
    bool is_softmax = op == WEFT_OP_softmax || op == WEFT_OP_log_softmax;
    weft_place place = weft_graph_place_end(g, g->body->block);
    weft_graph_place(g, place);
    weft_value *whole = weft_build(g, op, operands, x, is_softmax ? 1 : 2, is_softmax ? softmax : norm);
    weft_value *y;
    weft_decompose(g, whole->node, x, &y);
    weft_node_remove(whole->node);
    weft_graph_output(g, "y", y);
    if (prologue) weft_graph_output(g, "t", x[0]);
    harness_check(&h);
    harness_close(&h);
}

START_TEST(norms) {
    static const weft_op ops[] = {WEFT_OP_softmax, WEFT_OP_log_softmax, WEFT_OP_layer_norm, WEFT_OP_rms_norm};
    static const int operands[] = {1, 1, 3, 2};
    for (int i = 0; i < 4; i++) {
        derived(ops[i], WEFT_F32, 3, 70, operands[i], 1, false, false);
        derived(ops[i], WEFT_F32, 5, 10, operands[i], 1, false, true);
        derived(ops[i], WEFT_BF16, 2, 129, operands[i], 1, false, false);
        derived(ops[i], WEFT_F32, 4, 37, operands[i], 1, true, true);
        derived(ops[i], WEFT_F32, 9, 37, operands[i], 0, false, false);
        derived(ops[i], WEFT_F32, 9, 37, operands[i], 0, true, true);
    }
}
END_TEST

/* Batch norm's statistics: x [N, C, H, W] over N, H, W, kept extents, several results. */
START_TEST(batch_statistics) {
    for (int kept_last = 0; kept_last < 2; kept_last++) {
        harness h;
        harness_open(&h, "reduce");
        h.note = kept_last ? "statistics NHWC" : "statistics NCHW";
        h.class = WEFT_TOLERANCE_CHAIN;
        h.terms = 40;
        h.scale = 12;
        weft_graph *g = h.graph;
        weft_dim nchw[4] = {3, 5, 4, 7}, nhwc[4] = {3, 4, 7, 21};
        int64_t outer[3] = {0, 2, 3}, inner[3] = {0, 1, 2};
        const int64_t *axes = kept_last ? inner : outer;
        weft_value *x = weft_graph_input(g, "x", WEFT_F32, 4, kept_last ? nhwc : nchw);
        weft_value *sum = weft_emit_reduce(g, x, "sum", 3, axes);
        weft_value *squares = weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, x, x), "sum", 3, axes);
        weft_value *centered = weft_emit_binary(
            g, WEFT_OP_sub, x, weft_emit_spread(g, weft_emit_binary_scalar(g, WEFT_OP_mul, sum, 0.01), x, 3, axes));
        weft_graph_output(g, "sum", sum);
        weft_graph_output(g, "squares", squares);
        weft_graph_output(g, "centered", centered);
        weft_dim kept[4] = {1, kept_last ? 1 : 5, 1, kept_last ? 21 : 1};
        weft_graph_output(g, "kept", weft_emit_reshape(g, squares, 4, kept));
        harness_check(&h);
        harness_close(&h);
    }
}
END_TEST

/* A norm's backward pass with sums of columns beside it: x, slope [A, B, D], scale [D]. Rows in turns where a block has
   many (2 * 880, 870), a whole block or a warp a row, vectors that end inside of a row. */
static void beside(weft_dtype dtype, int64_t a, int64_t b, int64_t d) {
    harness h;
    harness_open(&h, "reduce");
    char note[96];
    snprintf(note, sizeof note, "sums of columns beside rows, %s [%lld, %lld, %lld]", weft_dtype_name(dtype),
             (long long)a, (long long)b, (long long)d);
    h.note = note, h.launches = 2;
    h.class = WEFT_TOLERANCE_CHAIN;
    h.terms = (double)(a * b), h.scale = 40;
    weft_graph *g = h.graph;
    weft_dim dims[3] = {a, b, d};
    int64_t last[1] = {2}, others[2] = {0, 1};
    weft_value *x = weft_emit_convert(g, weft_graph_input(g, "x", dtype, 3, dims), WEFT_F32);
    weft_value *slope = weft_emit_convert(g, weft_graph_input(g, "slope", dtype, 3, dims), WEFT_F32);
    weft_value *scale = weft_graph_input(g, "scale", WEFT_F32, 1, &dims[2]);
    weft_value *scaled = weft_emit_binary(g, WEFT_OP_mul, slope, weft_emit_broadcast(g, scale, 3, dims, last));
    weft_value *mean = weft_emit_binary_scalar(g, WEFT_OP_mul, weft_emit_reduce(g, scaled, "sum", 1, last), 0.01);
    weft_value *centered = weft_emit_binary(g, WEFT_OP_sub, scaled, weft_emit_spread(g, mean, x, 1, last));
    weft_value *product = weft_emit_binary(g, WEFT_OP_mul, centered, x);
    weft_value *dots = weft_emit_binary_scalar(g, WEFT_OP_mul, weft_emit_reduce(g, product, "sum", 1, last), 0.01);
    weft_value *back = weft_emit_binary(g, WEFT_OP_sub, centered, weft_emit_spread(g, dots, x, 1, last));
    weft_value *narrow = weft_emit_convert(g, back, dtype);
    weft_value *of_scale = weft_emit_reduce(g, weft_emit_binary(g, WEFT_OP_mul, slope, x), "sum", 2, others);
    weft_value *of_bias = weft_emit_reduce(g, slope, "max", 2, others);
    /* of what is written where that is exact: a rounding that falls the other way moves a sum of 16-bit values */
    weft_value *of_back = weft_emit_reduce(g, dtype == WEFT_F32 ? narrow : back, "sum", 2, others);
    weft_graph_output(g, "back", narrow);
    weft_graph_output(g, "mean", mean);
    weft_graph_output(g, "scale", of_scale);
    weft_graph_output(g, "bias", weft_emit_binary_scalar(g, WEFT_OP_mul, of_bias, 0.5));
    weft_graph_output(g, "before", of_back);
    harness_check(&h);
    harness_close(&h);
}

START_TEST(sums_beside_rows) {
    beside(WEFT_F32, 3, 5, 64);
    beside(WEFT_BF16, 2, 880, 36);
    beside(WEFT_F32, 1, 870, 516);
    beside(WEFT_BF16, 7, 3, 768);
    beside(WEFT_F32, 1, 1, 1000);
}
END_TEST

/* Labels run from -9 to 9: inside and outside of the row. */
static weft_value *picked(weft_graph *g, weft_value *x, weft_value *labels, bool mirrored) {
    int64_t row = 0, class = 1;
    weft_value *wide = weft_emit_broadcast(g, labels, 2, x->type.dims, &row);
    weft_value *classes = weft_emit_iota(g, labels->type.dtype, 2, x->type.dims, 1);
    weft_value *equal = weft_emit_compare(g, "eq", mirrored ? classes : wide, mirrored ? wide : classes);
    weft_value *chosen = weft_emit_select(g, equal, x, weft_emit_splat_like(g, 0, x));
    return weft_emit_reduce(g, chosen, "sum", 1, &class);
}

static void check_pick(weft_dtype dtype, weft_dtype label, int64_t rows, int64_t columns, bool symbolic, int form) {
    harness h;
    harness_open(&h, "reduce");
    char note[96];
    snprintf(note, sizeof note, "pick %s by %s [%lld, %lld] form %d%s", weft_dtype_name(dtype), weft_dtype_name(label),
             (long long)rows, (long long)columns, form, symbolic ? " symbolic" : "");
    h.note = note;
    h.native = columns > 60;
    h.special = form == 0;
    h.class = form ? WEFT_TOLERANCE_CHAIN : WEFT_TOLERANCE_EXACT;
    h.terms = (double)columns, h.scale = 3;
    weft_graph *g = h.graph;
    int64_t symbols[2] = {rows, columns}, class = 1;
    weft_dim dims[2] = {rows, columns};
    if (symbolic) {
        h.symbols = symbols;
        dims[0] = weft_graph_symbol(g, "R", 1, 1 << 20, 1);
        dims[1] = weft_graph_symbol(g, "C", form == 3 ? 0 : 1, 1 << 20, 1);
    }
    weft_value *x = weft_graph_input(g, "x", dtype, 2, dims), *labels = weft_graph_input(g, "labels", label, 1, dims);
    if (form == 0) { /* nothing but the pick */
        weft_graph_output(g, "y", picked(g, x, labels, true));
    } else if (form == 1) { /* beside a sum of the same row: one level */
        weft_graph_output(g, "y", picked(g, x, labels, false));
        weft_graph_output(g, "sum", weft_emit_reduce(g, x, "sum", 1, &class));
    } else { /* cross-entropy */
        weft_value *operands[2] = {weft_emit_convert(g, x, WEFT_F32), weft_emit_convert(g, labels, WEFT_I64)};
        weft_value *whole = weft_build(g, WEFT_OP_cross_entropy, 2, operands, 0, NULL);
        weft_value *y;
        weft_decompose(g, whole->node, operands, &y);
        weft_node_remove(whole->node);
        weft_graph_output(g, "y", y);
    }
    harness_check(&h);
    harness_close(&h);
}

START_TEST(picks) {
    static const weft_dtype labels[] = {WEFT_I64, WEFT_I32, WEFT_U64, WEFT_I8};
    static const int64_t columns[] = {1, 3, 8, 70, 300};
    for (int l = 0; l < 4; l++)
        for (int c = 0; c < 5; c++)
            for (int form = 0; form < 2; form++) {
                if (labels[l] == WEFT_I8 && columns[c] > 127) continue; /* iota has no such numbers */
                check_pick(WEFT_F32, labels[l], 6, columns[c], false, form);
            }
    for (int c = 0; c < 5; c++) {
        check_pick(WEFT_BF16, WEFT_I64, 7, columns[c], false, 2);
        check_pick(WEFT_F32, WEFT_I32, 5, columns[c], true, 2);
    }
    check_pick(WEFT_F32, WEFT_I64, 7001, 40, false, 2);
    check_pick(WEFT_F64, WEFT_I64, 3, 33, true, 1);
    check_pick(WEFT_BF16, WEFT_I64, 3, 3000, false, 2);
    check_pick(WEFT_F32, WEFT_I64, 3, 20, true, 3);
}
END_TEST

/* A quotient by a number of the row, rounded to 16 bits: divisors of every size, zeros and infinities. */
START_TEST(quotients_by_row) {
    static const double sizes[] = {1, 0x1p-126, 0x1p-149, 0x1p127, 0x1p-60, 3, 0};
    for (int s = 0; s < 7; s++) {
        harness h;
        harness_open(&h, "reduce");
        char note[64];
        snprintf(note, sizeof note, "quotient by a row's maximum times %g", sizes[s]);
        h.note = note;
        h.special = true;
        h.class = WEFT_TOLERANCE_CHAIN;
        weft_graph *g = h.graph;
        weft_dim dims[2] = {9, 72};
        int64_t axis = 1;
        weft_value *x = weft_graph_input(g, "x", WEFT_F32, 2, dims);
        x = weft_emit_binary_scalar(g, WEFT_OP_mul, x, sizes[s]);
        weft_value *maximum = weft_emit_spread(g, weft_emit_reduce(g, x, "max", 1, &axis), x, 1, &axis);
        weft_graph_output(g, "y", weft_emit_convert(g, weft_emit_binary(g, WEFT_OP_div, x, maximum), WEFT_BF16));
        harness_check(&h);
        harness_close(&h);
    }
}
END_TEST

/* Cross-entropy's gradient, (exp(x - m) / sum - one at the label) / 64 as bf16, where a label is the largest of its row
   by far, one of many, and no place of it. */
START_TEST(gradient_of_cross_entropy) {
    harness h;
    harness_open(&h, "reduce");
    h.class = WEFT_TOLERANCE_CHAIN;
    h.terms = 8, h.scale = 1.0 / 64;
    weft_graph *g = h.graph;
    weft_dim dims[2] = {37, 264};
    int64_t row = 0, class = 1;
    weft_value *x = weft_emit_convert(g, weft_graph_input(g, "x", WEFT_BF16, 2, dims), WEFT_F32);
    weft_value *labels = weft_graph_input(g, "labels", WEFT_I64, 1, dims);
    weft_value *wide = weft_emit_broadcast(g, labels, 2, dims, &row);
    weft_value *is_label = weft_emit_compare(g, "eq", wide, weft_emit_iota(g, WEFT_I64, 2, dims, 1));
    weft_value *zero = weft_emit_splat_like(g, 0, x);
    x = weft_emit_select(g, weft_emit_compare(g, "eq", wide, weft_emit_splat_like(g, 3, wide)),
                         weft_emit_binary_scalar(g, WEFT_OP_mul, x, 8), x);
    weft_value *most = weft_emit_spread(g, weft_emit_reduce(g, x, "max", 1, &class), x, 1, &class);
    weft_value *e = weft_emit_unary(g, WEFT_OP_exp, weft_emit_binary(g, WEFT_OP_sub, x, most));
    weft_value *sum = weft_emit_reduce(g, e, "sum", 1, &class);
    weft_value *share = weft_emit_binary_scalar(g, WEFT_OP_div, sum, 64);
    weft_value *p = weft_emit_binary(g, WEFT_OP_div, e, weft_emit_spread(g, share, x, 1, &class));
    p = weft_emit_binary_scalar(g, WEFT_OP_mul, p, 1.0 / 4096);
    weft_value *slope =
        weft_emit_binary(g, WEFT_OP_add, weft_emit_select(g, is_label, weft_emit_splat_like(g, -1.0 / 64, x), zero), p);
    weft_graph_output(g, "slope", weft_emit_convert(g, slope, WEFT_BF16));
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *reduce_suite(void) {
    Suite *suite = suite_create("reduce");
    TCase *tests = tcase_create("reduce");
    tcase_set_timeout(tests, 250);
    tcase_add_test(tests, samples);
    tcase_add_test(tests, shapes);
    tcase_add_test(tests, split);
    tcase_add_test(tests, split_full);
    tcase_add_test(tests, norms);
    tcase_add_test(tests, batch_statistics);
    tcase_add_test(tests, sums_beside_rows);
    tcase_add_test(tests, gradient_of_cross_entropy);
    tcase_add_test(tests, picks);
    tcase_add_test(tests, quotients_by_row);
    suite_add_tcase(suite, tests);
    return suite;
}
