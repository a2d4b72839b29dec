/* Every elementwise op on every dtype that it takes, at sizes around the vectors, with symbolic extents and specials.
 */
#include <stdio.h>

#include "ir/emit.h"
#include "tests/builders/harness.h"
#include "tests/ir/sample.h"

static weft_tolerance_class class_of(weft_op op, weft_dtype dtype) {
    if (weft_dtype_kind_of(dtype) == WEFT_KIND_COMPLEX) return WEFT_TOLERANCE_CHAIN;
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
    case WEFT_OP_compare:
    case WEFT_OP_convert:
    case WEFT_OP_bitcast:
    case WEFT_OP_is_nan:
    case WEFT_OP_is_finite: return WEFT_TOLERANCE_EXACT;
    default: return WEFT_TOLERANCE_FUNCTION;
    }
}

/* One node of the op on inputs of one shape; NULL when it does not take the dtype. */
static weft_value *make(weft_graph *g, weft_op op, weft_dtype dtype, int rank, const weft_dim *dims) {
    const weft_op_info *info = weft_op_get(op);
    weft_value *x[3];
    for (int i = 0; i < info->operands_min; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        x[i] = weft_graph_input(g, name, op == WEFT_OP_select && i == 0 ? WEFT_BOOL : dtype, rank, dims);
    }
    weft_attribute direction = weft_attr_string(WEFT_ATTR_direction, "lt");
    weft_value *y = weft_build(g, op, info->operands_min, x, op == WEFT_OP_compare, &direction);
    if (weft_value_is_poison(y)) return NULL;
    weft_graph_output(g, "y", y);
    return y;
}

static void check_op(weft_op op, weft_dtype dtype, int rank, const int64_t *shape, bool special) {
    harness h;
    harness_open(&h, "pointwise");
    char note[64];
    snprintf(note, sizeof note, "%s %s rank %d", weft_op_get(op)->name, weft_dtype_name(dtype), rank);
    h.note = note;
    h.class = class_of(op, dtype);
    h.native = harness_native(dtype);
    h.special = special && h.class != WEFT_TOLERANCE_CHAIN;
    if (h.class == WEFT_TOLERANCE_CHAIN) { /* complex: relative to the magnitude, not to each part */
        h.terms = 4;
        h.scale = 10;
    }
    if (make(h.graph, op, dtype, rank, shape)) harness_check(&h);
    harness_close(&h);
}

static bool plain_elementwise(weft_op op) {
    return (weft_op_get(op)->flags & WEFT_FLAG_ELEMENTWISE) && op != WEFT_OP_convert && op != WEFT_OP_bitcast;
}

START_TEST(all_ops_all_dtypes) {
    static const int64_t sizes[] = {37};
    for (int op = 0; op < WEFT_OP_COUNT; op++) {
        if (!plain_elementwise((weft_op)op)) continue;
        for (int d = 1; d < WEFT_DTYPE_COUNT; d++)
            if (d != WEFT_STRING) check_op((weft_op)op, (weft_dtype)d, 1, sizes, true);
    }
}
END_TEST

/* Sizes one below, at and above vectors and blocks; rank 0; empty. */
START_TEST(edges) {
    static const int64_t sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 16383, 16384, 16385};
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_U8, WEFT_I4, WEFT_U2, WEFT_F64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        check_op(WEFT_OP_add, dtypes[d], 0, NULL, false);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (sizes[i] < 1000 || d < 2) check_op(WEFT_OP_add, dtypes[d], 1, &sizes[i], false);
    }
}
END_TEST

static void check_convert(weft_dtype from, weft_dtype to, bool saturate, bool bits) {
    harness h;
    harness_open(&h, "pointwise");
    char note[64];
    snprintf(note, sizeof note, "%s %s to %s%s", bits ? "bitcast" : "convert", weft_dtype_name(from),
             weft_dtype_name(to), saturate ? " saturating" : "");
    h.note = note;
    h.native = harness_native(from) && harness_native(to);
    h.special = true;
    weft_dim dims[1] = {70};
    weft_value *x = weft_graph_input(h.graph, "x", from, 1, dims);
    weft_attribute attributes[2] = {weft_attr_dtype(WEFT_ATTR_dtype, to), weft_attr_int(WEFT_ATTR_saturate, 1)};
    weft_value *y = weft_build(h.graph, bits ? WEFT_OP_bitcast : WEFT_OP_convert, 1, &x, 1 + saturate, attributes);
    if (!weft_value_is_poison(y)) {
        weft_graph_output(h.graph, "y", y);
        harness_check(&h);
    }
    harness_close(&h);
}

START_TEST(conversions) {
    for (int from = 1; from < WEFT_DTYPE_COUNT; from++) {
        for (int to = 1; to < WEFT_DTYPE_COUNT; to++) {
            if (from == WEFT_STRING || to == WEFT_STRING) continue;
            check_convert((weft_dtype)from, (weft_dtype)to, false, false);
            if (weft_dtype_is_float((weft_dtype)to) && weft_dtype_bits((weft_dtype)to) <= 8)
                check_convert((weft_dtype)from, (weft_dtype)to, true, false);
            check_convert((weft_dtype)from, (weft_dtype)to, false, true);
        }
    }
}
END_TEST

START_TEST(symbolic) {
    for (int64_t n = 1; n < 40; n += 19) {
        for (int64_t m = 1; m < 40; m += 17) {
            harness h;
            harness_open(&h, "pointwise");
            h.class = WEFT_TOLERANCE_CHAIN;
            int64_t symbols[2] = {n, m};
            h.symbols = symbols;
            h.note = "symbolic";
            weft_dim dims[2] = {weft_graph_symbol(h.graph, "N", 0, 1000, 1),
                                weft_graph_symbol(h.graph, "M", 0, INT64_MAX, 1)};
            weft_value *x = weft_graph_input(h.graph, "x", WEFT_F32, 2, dims),
                       *b = weft_graph_input(h.graph, "b", WEFT_F32, 1, &dims[1]);
            weft_value *s = weft_graph_input(h.graph, "s", WEFT_F32, 1, dims);
            int64_t last[1] = {1}, first[1] = {0};
            weft_value *wide = weft_emit_broadcast(h.graph, b, 2, dims, last),
                       *tall = weft_emit_broadcast(h.graph, s, 2, dims, first);
            weft_value *y =
                weft_emit_binary(h.graph, WEFT_OP_add, weft_emit_binary(h.graph, WEFT_OP_mul, x, wide), tall);
            weft_graph_output(h.graph, "y", weft_emit_unary(h.graph, WEFT_OP_tanh, y));
            weft_graph_output(h.graph, "z", weft_emit_unary(h.graph, WEFT_OP_abs, y));
            harness_check(&h);
            harness_close(&h);
        }
    }
}
END_TEST

/* Results of several element counts: the blocks of one launch are dealt to them. */
START_TEST(spaces) {
    static const int64_t sizes[] = {0, 1, 5, 70};
    for (int i = 0; i < 4; i++) {
        harness h;
        harness_open(&h, "pointwise");
        h.class = WEFT_TOLERANCE_CHAIN;
        int64_t symbols[1] = {sizes[i]};
        h.symbols = symbols;
        h.note = "spaces";
        weft_dim n = weft_graph_symbol(h.graph, "N", 0, 1000, 1), wide[2] = {n, 33}, fixed[2] = {3, 1400},
                 last[1] = {5};
        weft_value *a = weft_graph_input(h.graph, "a", WEFT_F32, 2, wide),
                   *b = weft_graph_input(h.graph, "b", WEFT_F32, 2, fixed),
                   *c = weft_graph_input(h.graph, "c", WEFT_F32, 1, last),
                   *s = weft_graph_input(h.graph, "s", WEFT_F32, 0, NULL);
        weft_value *values[4] = {a, b, c, s};
        static const char *const names[4] = {"ya", "yb", "yc", "ys"};
        for (int v = 0; v < 4; v++) {
            weft_value *scale = weft_emit_broadcast(h.graph, s, values[v]->type.rank, values[v]->type.dims, NULL);
            weft_value *y = weft_emit_binary(h.graph, WEFT_OP_mul, values[v], scale);
            weft_graph_output(h.graph, names[v], weft_emit_unary(h.graph, WEFT_OP_tanh, y));
        }
        harness_check(&h);
        harness_close(&h);
    }
}
END_TEST

Suite *elementwise_suite(void) {
    Suite *suite = suite_create("elementwise");
    TCase *tests = tcase_create("elementwise");
    tcase_set_timeout(tests, 250);
    tcase_add_test(tests, all_ops_all_dtypes);
    tcase_add_test(tests, edges);
    tcase_add_test(tests, conversions);
    tcase_add_test(tests, symbolic);
    tcase_add_test(tests, spaces);
    suite_add_tcase(suite, tests);
    return suite;
}
