/* Ops that move elements: the samples of every dtype, and compositions that reshape, broadcast and transpose around
   arithmetic. */
#include <stdio.h>

#include "ir/emit.h"
#include "tests/builders/harness.h"
#include "tests/ir/sample.h"
#include "weft/ops.h"

/* The samples' symbol, if any, has this value. */
static void check_samples(weft_op op, const char *anchor) {
    static const int64_t values[2] = {4, 7};
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
        for (int variant = 0; variant < WEFT_SAMPLE_VARIANTS; variant++) {
            harness h;
            harness_open(&h, anchor);
            h.symbols = values;
            h.native = harness_native((weft_dtype)d);
            char note[64];
            snprintf(note, sizeof note, "%s %s variant %d", weft_op_get(op)->name, weft_dtype_name((weft_dtype)d),
                     variant);
            h.note = note;
            weft_node *node = weft_sample_node(h.graph, op, (weft_dtype)d, variant);
            bool large = op == WEFT_OP_constant && variant == 2; /* never inside a fusion */
            bool unbound = op == WEFT_OP_iota && variant == 2;   /* no input has the symbol */
            if (node && !large && !unbound) harness_check(&h);
            harness_close(&h);
            if (!node) break;
        }
    }
}

START_TEST(samples) {
    static const weft_op ops[] = {WEFT_OP_constant,  WEFT_OP_iota,      WEFT_OP_dim,           WEFT_OP_reshape,
                                  WEFT_OP_transpose, WEFT_OP_broadcast, WEFT_OP_slice,         WEFT_OP_reverse,
                                  WEFT_OP_pad,       WEFT_OP_concat,    WEFT_OP_dynamic_slice, WEFT_OP_gather};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) check_samples(ops[i], "pointwise");
    check_samples(WEFT_OP_dynamic_update_slice, "dynamic_update_slice");
    check_samples(WEFT_OP_rng_bits, "rng_bits");
}
END_TEST

/* x [N, H*W, C] as [N, H, W, C], plus a bias along C, transposed to [N, C, H, W]. */
static void check_layout(int64_t n, int64_t hh, int64_t w, int64_t c, weft_dtype dtype) {
    harness h;
    harness_open(&h, "pointwise");
    char note[64];
    snprintf(note, sizeof note, "layout %lld %lld %lld %lld", (long long)n, (long long)hh, (long long)w, (long long)c);
    h.note = note;
    h.class = WEFT_TOLERANCE_ARITHMETIC;
    weft_dim flat[3] = {n, hh * w, c}, full[4] = {n, hh, w, c};
    weft_value *x = weft_graph_input(h.graph, "x", dtype, 3, flat),
               *b = weft_graph_input(h.graph, "b", dtype, 1, &flat[2]);
    weft_value *y = weft_emit_binary(h.graph, WEFT_OP_add, weft_emit_reshape(h.graph, x, 4, full),
                                     weft_emit_broadcast_to(h.graph, b, 4, full));
    int64_t permutation[4] = {0, 3, 1, 2};
    weft_graph_output(h.graph, "y", weft_emit_transpose(h.graph, y, permutation));
    harness_check(&h);
    harness_close(&h);
    harness_open(&h, "pointwise");
    h.note = note;
    h.class = WEFT_TOLERANCE_ARITHMETIC;
    x = weft_graph_input(h.graph, "x", dtype, 3, flat);
    b = weft_graph_input(h.graph, "b", dtype, 1, &flat[2]);
    y = weft_emit_binary(h.graph, WEFT_OP_add, weft_emit_reshape(h.graph, x, 4, full),
                         weft_emit_broadcast_to(h.graph, b, 4, full));
    weft_graph_output(h.graph, "y", weft_emit_reshape(h.graph, y, 2, (weft_dim[]){n * hh, w * c}));
    harness_check(&h);
    harness_close(&h);
}

START_TEST(layouts) {
    check_layout(2, 3, 5, 16, WEFT_F32);
    check_layout(2, 3, 5, 33, WEFT_F32);
    check_layout(1, 4, 4, 3, WEFT_BF16);
    check_layout(3, 1, 1, 1, WEFT_F32);
    check_layout(1, 1, 17, 31, WEFT_F16);
}
END_TEST

/* Transposes that cross tiles, with static and symbolic extents. */
START_TEST(transposes) {
    static const int64_t shapes[3][2] = {{300, 70}, {33, 257}, {31, 600}};
    for (int i = 0; i < 6; i++) {
        harness h;
        harness_open(&h, "pointwise");
        h.note = "transpose";
        h.class = WEFT_TOLERANCE_ARITHMETIC;
        weft_dim dims[2] = {shapes[i / 2][0], shapes[i / 2][1]};
        if (i % 2) {
            h.symbols = shapes[i / 2];
            dims[0] = weft_graph_symbol(h.graph, "N", 1, 1000, 1);
            dims[1] = weft_graph_symbol(h.graph, "M", 1, 1000, 1);
        }
        int64_t permutation[2] = {1, 0};
        weft_dtype dtype = i == 2 ? WEFT_BF16 : i == 4 ? WEFT_U8 : WEFT_F32;
        weft_value *x = weft_graph_input(h.graph, "x", dtype, 2, dims),
                   *b = weft_graph_input(h.graph, "b", dtype, 1, dims);
        weft_value *y = weft_emit_transpose(h.graph, x, permutation);
        weft_graph_output(h.graph, "y",
                          weft_emit_binary(h.graph, WEFT_OP_mul, y,
                                           weft_emit_broadcast_to(h.graph, b, 2, (weft_dim[]){dims[1], dims[0]})));
        harness_check(&h);
        harness_close(&h);
    }
}
END_TEST

/* Reshapes whose groups do not agree, over symbolic extents: [B, T, 12] -> [B * T, 3, 4] -> [B, T * 3, 4]. */
START_TEST(symbolic_reshapes) {
    harness h;
    harness_open(&h, "pointwise");
    int64_t symbols[2] = {3, 5};
    h.symbols = symbols;
    h.note = "symbolic reshapes";
    weft_graph *g = h.graph;
    weft_dim b = weft_graph_symbol(g, "B", 1, 64, 1), t = weft_graph_symbol(g, "T", 1, 64, 1);
    weft_value *x = weft_graph_input(g, "x", WEFT_F32, 3, (weft_dim[]){b, t, 12});
    weft_value *y = weft_emit_reshape(g, x, 3, (weft_dim[]){weft_dim_times(g, b, t), 3, 4});
    y = weft_emit_binary(g, WEFT_OP_add, y, weft_emit_iota(g, WEFT_F32, 3, y->type.dims, 1));
    y = weft_emit_reshape(g, y, 3, (weft_dim[]){b, weft_dim_times(g, t, 3), 4});
    h.class = WEFT_TOLERANCE_ARITHMETIC;
    weft_graph_output(g, "y", y);
    harness_check(&h);
    harness_close(&h);
}
END_TEST

/* Results of different shapes in one region: a launch each. */
START_TEST(results_of_two_shapes) {
    harness h;
    harness_open(&h, "pointwise");
    h.note = "two shapes";
    h.class = WEFT_TOLERANCE_ARITHMETIC;
    weft_value *x = weft_graph_input(h.graph, "x", WEFT_F32, 2, (weft_dim[]){3, 21});
    weft_value *y = weft_emit_binary(h.graph, WEFT_OP_add, x, x);
    weft_graph_output(h.graph, "y", y);
    weft_graph_output(h.graph, "z", weft_emit_slice_axis(h.graph, y, 1, 2, 19, 3));
    weft_graph_output(h.graph, "w", weft_emit_reshape(h.graph, y, 1, (weft_dim[]){63}));
    harness_check(&h);
    harness_close(&h);
}
END_TEST

/* Rows of a table, many updates each, some outside: enough of them for several owners on a GPU. */
START_TEST(scatter_by_owners) {
    static const char *const kinds[] = {"sum", "set"};
    harness h;
    harness_open(&h, "scatter");
    h.class = WEFT_TOLERANCE_SUM, h.terms = 200, h.scale = 600;
    weft_value *x = weft_graph_input(h.graph, "x", _i ? WEFT_BF16 : WEFT_F32, 2, (weft_dim[]){5, 6});
    weft_value *rows = weft_graph_input(h.graph, "rows", WEFT_I64, 2, (weft_dim[]){500, 1});
    weft_value *updates = weft_graph_input(h.graph, "updates", _i ? WEFT_BF16 : WEFT_F32, 2, (weft_dim[]){500, 6});
    weft_attribute attributes[5] = {weft_attr_ints(WEFT_ATTR_offset_axes, 1, (int64_t[]){1}),
                                    weft_attr_ints(WEFT_ATTR_collapsed_axes, 1, (int64_t[]){0}),
                                    weft_attr_ints(WEFT_ATTR_index_map, 1, (int64_t[]){0}),
                                    weft_attr_int(WEFT_ATTR_index_axis, 1),
                                    weft_attr_string(WEFT_ATTR_kind, kinds[_i])};
    weft_graph_output(h.graph, "y",
                      weft_build(h.graph, WEFT_OP_scatter, 3, (weft_value *[]){x, rows, updates}, 5, attributes));
    harness_check(&h);
    harness_close(&h);
}
END_TEST

/* Random bits of 16: vectors whose lanes share one draw, two draws, a part of one, or begin anywhere; dropout on top.
 */
START_TEST(halves_of_a_draw) {
    static const weft_dim widths[] = {64, 24, 20, 6, 7};
    harness h;
    harness_open(&h, "pointwise");
    char note[40];
    snprintf(note, sizeof note, "halves, rows of %d", (int)widths[_i]);
    h.note = note, h.class = WEFT_TOLERANCE_EXACT, h.native = true;
    weft_graph *g = h.graph;
    weft_dim shape[2] = {5, widths[_i]};
    weft_value *key = weft_graph_input(g, "key", WEFT_U64, 1, (weft_dim[]){2});
    weft_value *bits = weft_rng_bits(g, key, WEFT_U16, 2, shape), *x = weft_graph_input(g, "x", WEFT_BF16, 2, shape);
    weft_value *kept = weft_compare(g, WEFT_GE, bits, weft_scalar_integer(g, WEFT_U16, 20000));
    weft_graph_output(g, "bits", bits);
    weft_graph_output(g, "kept", kept);
    weft_graph_output(g, "y", weft_where(g, kept, x, weft_scalar(g, WEFT_BF16, 0)));
    harness_check(&h);
    harness_close(&h);
}
END_TEST

Suite *movement_suite(void) {
    Suite *suite = suite_create("movement");
    TCase *tests = tcase_create("movement");
    tcase_set_timeout(tests, 250);
    tcase_add_test(tests, samples);
    tcase_add_test(tests, layouts);
    tcase_add_test(tests, transposes);
    tcase_add_test(tests, symbolic_reshapes);
    tcase_add_test(tests, results_of_two_shapes);
    tcase_add_loop_test(tests, scatter_by_owners, 0, 2);
    tcase_add_loop_test(tests, halves_of_a_draw, 0, 5);
    suite_add_tcase(suite, tests);
    return suite;
}
