/* Every dtype through the families: all pairs of small integers, conversions between all kinds, moved bits. */
#include <string.h>

#include "base/tensor.h"
#include "tests/interp/interp.h"

static bool usable(int dtype) { return dtype != WEFT_INVALID && dtype != WEFT_STRING; }

/* -- small integers: all pairs against arithmetic on int */

static int wrap(int value, int bits, bool is_signed) {
    int size = 1 << bits, low = ((value % size) + size) % size;
    return is_signed && low >= size / 2 ? low - size : low;
}

static int truncated(int a, int b) { return (a < 0) == (b < 0) ? abs(a) / abs(b) : -(abs(a) / abs(b)); }

static int reference(weft_op op, int a, int b, int bits, bool is_signed) {
    int pattern = wrap(a, bits, false), amount = wrap(b, bits, false);
    switch ((int)op) {
    case WEFT_OP_add: return a + b;
    case WEFT_OP_sub: return a - b;
    case WEFT_OP_mul: return a * b;
    case WEFT_OP_div: return b == 0 ? -1 : truncated(a, b);
    case WEFT_OP_rem: return b == 0 ? a : a - truncated(a, b) * b;
    case WEFT_OP_max: return a > b ? a : b;
    case WEFT_OP_min: return a < b ? a : b;
    case WEFT_OP_and: return pattern & amount;
    case WEFT_OP_or: return pattern | amount;
    case WEFT_OP_xor: return pattern ^ amount;
    case WEFT_OP_shift_left: return amount >= bits ? 0 : pattern * (1 << amount);
    case WEFT_OP_shift_right_logical: return amount >= bits ? 0 : pattern / (1 << amount);
    case WEFT_OP_shift_right_arithmetic: { /* floor division of the signed reading */
        int value = wrap(a, bits, true), divisor = 1 << (amount >= bits ? bits : amount);
        return value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor);
    }
    default: ck_abort_msg("no reference"); return (int)is_signed;
    }
}

static void all_pairs(weft_dtype dtype, weft_op op) {
    int bits = weft_dtype_bits(dtype), size = 1 << bits;
    bool is_signed = weft_dtype_kind_of(dtype) == WEFT_KIND_SIGNED;
    int64_t count = (int64_t)size * size, *values = malloc((size_t)count * 3 * sizeof *values);
    int64_t *a = values, *b = values + count, *want = values + 2 * count;
    for (int64_t i = 0; i < count; i++) {
        a[i] = wrap((int)(i / size), bits, is_signed);
        b[i] = wrap((int)(i % size), bits, is_signed);
        want[i] = wrap(reference(op, (int)a[i], (int)b[i], bits, is_signed), bits, is_signed);
    }
    weft_tensor *y =
        evaluate_one(apply2(op, integers_of(dtype, 1, &count, a), integers_of(dtype, 1, &count, b), NO_ATTRIBUTES));
    for (int64_t i = 0; i < count; i++)
        if (weft_element_i64(dtype, y->data, i) != want[i])
            ck_abort_msg("%s of %s: %lld, %lld gives %lld, expected %lld", weft_op_get(op)->name,
                         weft_dtype_name(dtype), (long long)a[i], (long long)b[i],
                         (long long)weft_element_i64(dtype, y->data, i), (long long)want[i]);
    weft_tensor_release(y);
    free(values);
}

START_TEST(small_integers) {
    static const weft_dtype dtypes[] = {WEFT_I2, WEFT_U2, WEFT_I4, WEFT_U4, WEFT_I8, WEFT_U8};
    static const weft_op ops[] = {WEFT_OP_add,
                                  WEFT_OP_sub,
                                  WEFT_OP_mul,
                                  WEFT_OP_div,
                                  WEFT_OP_rem,
                                  WEFT_OP_max,
                                  WEFT_OP_min,
                                  WEFT_OP_and,
                                  WEFT_OP_or,
                                  WEFT_OP_xor,
                                  WEFT_OP_shift_left,
                                  WEFT_OP_shift_right_logical,
                                  WEFT_OP_shift_right_arithmetic};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) all_pairs(dtypes[d], ops[o]);
}
END_TEST

/* -- conversions: 0, 1 and 2 survive between all real dtypes that hold them */

START_TEST(conversions_of_all) {
    static const double values[] = {0, 1, 2, 1, 0, 2, 1};
    int pairs = 0;
    for (int from = 0; from < WEFT_DTYPE_COUNT; from++) {
        for (int to = 0; to < WEFT_DTYPE_COUNT; to++) {
            bool complex_from = from == WEFT_C64 || from == WEFT_C128, complex_to = to == WEFT_C64 || to == WEFT_C128;
            if (!usable(from) || !usable(to) || complex_from != complex_to) continue;
            double in[14] = {0}, want[14] = {0};
            for (int i = 0; i < 7; i++) {
                double v = values[i];
                if (v == 0 && (from == WEFT_F8E8M0FNU || to == WEFT_F8E8M0FNU)) v = 1; /* it has no zero */
                if (v == 2 && (from == WEFT_BOOL || to == WEFT_BOOL || from == WEFT_I2 || to == WEFT_I2)) v = 1;
                in[complex_from ? 2 * i : i] = v;
                want[complex_to ? 2 * i : i] = v;
            }
            weft_value *x = constant_of((weft_dtype)from, DIMS(7), in);
            expect(apply1(WEFT_OP_convert, x, ATTRIBUTES(weft_attr_dtype(WEFT_ATTR_dtype, (weft_dtype)to))), DIMS(7),
                   want, 0);
            pairs++;
        }
    }
    ck_assert_int_eq(pairs, 23 * 23 + 2 * 2);
}
END_TEST

/* -- movement: the bits of element i are i */

static weft_value *numbered(weft_dtype dtype, int rank, const int64_t *shape) {
    weft_tensor *tensor;
    ok(weft_tensor_create(test_context, dtype, rank, shape, &tensor));
    for (int64_t i = 0; i < tensor->element_count; i++) {
        if (dtype == WEFT_C128)
            ((double *)tensor->data)[2 * i] = (double)i;
        else if (dtype == WEFT_BOOL)
            ((unsigned char *)tensor->data)[i] = (unsigned char)(i % 2);
        else
            weft_element_set_bits(dtype, tensor->data, i, (uint64_t)i & 3);
    }
    weft_value *value = weft_graph_constant(test_graph, tensor);
    weft_tensor_release(tensor);
    return value;
}

static void expect_moved(weft_dtype dtype, weft_value *value, int count, const int *from) {
    weft_tensor *y = evaluate_one(value);
    ck_assert_int_eq(y->element_count, count);
    for (int i = 0; i < count; i++) {
        uint64_t got = dtype == WEFT_C128 ? (uint64_t)((double *)y->data)[2 * i] : weft_element_bits(dtype, y->data, i);
        uint64_t want = dtype == WEFT_C128   ? (uint64_t)from[i]
                        : dtype == WEFT_BOOL ? (uint64_t)from[i] % 2
                                             : (uint64_t)from[i] & 3;
        ck_assert_msg(got == want, "%s element %d is %llu, expected %llu", weft_dtype_name(dtype), i,
                      (unsigned long long)got, (unsigned long long)want);
    }
    weft_tensor_release(y);
}

START_TEST(movement_of_all) {
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (!usable(d)) continue;
        weft_dtype t = (weft_dtype)d;
        weft_value *x = numbered(t, DIMS(3, 3));
        expect_moved(t, apply1(WEFT_OP_transpose, x, ATTRIBUTES(INTS(permutation, 1, 0))), 9,
                     (int[]){0, 3, 6, 1, 4, 7, 2, 5, 8});
        expect_moved(t, apply1(WEFT_OP_reverse, x, ATTRIBUTES(INTS(axes, 1))), 9, (int[]){2, 1, 0, 5, 4, 3, 8, 7, 6});
        expect_moved(
            t, apply1(WEFT_OP_slice, x, ATTRIBUTES(EXTENTS(start, 1, 1), EXTENTS(limit, 3, 3), INTS(stride, 1, 1))), 4,
            (int[]){4, 5, 7, 8});
        expect_moved(t, apply2(WEFT_OP_concat, x, x, ATTRIBUTES(weft_attr_int(WEFT_ATTR_axis, 0))), 18,
                     (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8});
        expect_moved(t,
                     apply1(WEFT_OP_broadcast, numbered(t, DIMS(3)), ATTRIBUTES(EXTENTS(shape, 2, 3), INTS(axes, 1))),
                     6, (int[]){0, 1, 2, 0, 1, 2});
        expect_moved(t, apply1(WEFT_OP_reshape, x, ATTRIBUTES(EXTENTS(shape, 9))), 9,
                     (int[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
        expect_moved(t,
                     apply2(WEFT_OP_pad, numbered(t, DIMS(3)), numbered(t, SCALAR),
                            ATTRIBUTES(EXTENTS(low, 1), EXTENTS(high, 0), INTS(interior, 1))),
                     6, (int[]){0, 0, 0, 1, 0, 2});
        weft_value *rows = integers_of(WEFT_I64, DIMS(2), (int64_t[]){2, 0});
        expect_moved(t,
                     apply2(WEFT_OP_gather, x, rows,
                            ATTRIBUTES(INTS(offset_axes, 1), INTS(collapsed_axes, 0), INTS(index_map, 0),
                                       weft_attr_int(WEFT_ATTR_index_axis, 1), EXTENTS(sizes, 1, 3))),
                     6, (int[]){6, 7, 8, 0, 1, 2});
    }
}
END_TEST

/* -- one value in every float dtype: sum, product and maximum of exact numbers */

START_TEST(float_reductions) {
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (!usable(d) || !weft_dtype_is_float((weft_dtype)d) || d == WEFT_F8E8M0FNU) continue;
        weft_value *x = constant_of((weft_dtype)d, DIMS(3), LIST(0.5, 1.5, 2));
        static const char *const kinds[] = {"sum", "product", "max", "min"};
        for (int k = 0; k < 4; k++)
            expect(apply1(WEFT_OP_reduce, x, ATTRIBUTES(INTS(axes, 0), weft_attr_string(WEFT_ATTR_kind, kinds[k]))),
                   SCALAR, &LIST(4, 1.5, 2, 0.5)[k], 0);
        weft_attribute dot[] = {weft_attr_ints(WEFT_ATTR_lhs_batch, 0, NULL),
                                weft_attr_ints(WEFT_ATTR_rhs_batch, 0, NULL), INTS(lhs_contract, 0),
                                INTS(rhs_contract, 0), weft_attr_dtype(WEFT_ATTR_dtype, WEFT_F64)};
        expect(apply2(WEFT_OP_dot_general, x, x, 5, dot), SCALAR, LIST(6.5), 0);
    }
}
END_TEST

Suite *dtypes_suite(void) {
    Suite *suite = suite_create("dtypes");
    TCase *tests = tcase_create("dtypes");
    tcase_add_checked_fixture(tests, graph_setup, graph_teardown);
    tcase_add_test(tests, small_integers);
    tcase_add_test(tests, conversions_of_all);
    tcase_add_test(tests, movement_of_all);
    tcase_add_test(tests, float_reductions);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return suite;
}
