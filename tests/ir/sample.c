/* The samples of sample.h, one function per family, and the table of ops that names them. Read next: sample_derived.c.
 */
#include "tests/ir/sample_internal.h"

#include "base/tensor.h"

/* 3 variants of shape */
static weft_node *unary(sample *s, bool takes) {
    if (!takes || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    return node(s, 1, &x, 0, NULL);
}

static weft_node *binary(sample *s, bool takes) {
    if (!takes || s->variant > 2) return NULL;
    weft_value *x[2] = {usual(s, s->dtype), usual(s, s->dtype)};
    return node(s, 2, x, 0, NULL);
}

static weft_node *compare(sample *s) {
    static const char *const directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    if (s->variant > (is_complex(s->dtype) ? 1 : 5)) return NULL;
    weft_value *x[2] = {usual(s, s->dtype), usual(s, s->dtype)};
    weft_attribute direction = weft_attr_string(WEFT_ATTR_direction, directions[s->variant]);
    return node(s, 2, x, 1, &direction);
}

static weft_node *select_node(sample *s) {
    if (s->variant > 2) return NULL;
    weft_value *x[3] = {usual(s, WEFT_BOOL), usual(s, s->dtype), usual(s, s->dtype)};
    return node(s, 3, x, 0, NULL);
}

static weft_node *convert(sample *s) {
    static const weft_dtype plain[] = {WEFT_F32, WEFT_I32, WEFT_BOOL, WEFT_BF16,
                                       WEFT_F64, WEFT_U8,  WEFT_I64,  WEFT_F8E4M3FN};
    static const weft_dtype complex[] = {WEFT_C64, WEFT_C128};
    if (s->variant > (is_complex(s->dtype) ? 1 : 7)) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_dtype to = is_complex(s->dtype) ? complex[s->variant] : plain[s->variant];
    weft_attribute attributes[2] = {weft_attr_dtype(WEFT_ATTR_dtype, to), weft_attr_int(WEFT_ATTR_saturate, 1)};
    return node(s, 1, &x, to == WEFT_F8E4M3FN ? 2 : 1, attributes);
}

static weft_node *bitcast(sample *s) {
    if (is_bool(s->dtype)) return NULL;
    int left = s->variant;
    for (int d = 1; d < WEFT_DTYPE_COUNT; d++) {
        weft_dtype to = (weft_dtype)d;
        if (to == s->dtype || is_bool(to) || weft_dtype_bits(to) != weft_dtype_bits(s->dtype) || left-- > 0) continue;
        weft_value *x = usual(s, s->dtype);
        weft_attribute dtype = weft_attr_dtype(WEFT_ATTR_dtype, to);
        return s->variant > 1 ? NULL : node(s, 1, &x, 1, &dtype);
    }
    return NULL;
}

/* -- data movement */

static weft_node *constant(sample *s) {
    static const int64_t shapes[3][2] = {{3, 2}, {1, 1}, {20, 16}};
    if (s->variant > 2) return NULL;
    weft_tensor *tensor;
    weft_status status =
        weft_tensor_create(s->graph->context, s->dtype, s->variant == 1 ? 0 : 2, shapes[s->variant], &tensor);
    if (status) {
        weft_graph_problem(s->graph, "%s", weft_status_message(status));
        weft_status_release(status);
        return NULL;
    }
    weft_dtype part = s->dtype == WEFT_C64 ? WEFT_F32 : s->dtype == WEFT_C128 ? WEFT_F64 : s->dtype;
    int64_t count = tensor->element_count * (part == s->dtype ? 1 : 2);
    bool negative = weft_dtype_kind_of(part) == WEFT_KIND_SIGNED || is_float(part);
    for (int64_t i = 0; i < count; i++) {
        if (is_float(part))
            weft_element_set_double(part, tensor->data, i, (double)(i % 7) * 0.37 - 1);
        else
            weft_element_set_i64(part, tensor->data, i, i % 2 - (negative && i % 3 == 0));
    }
    weft_attribute value = weft_attr_tensor(WEFT_ATTR_value, tensor);
    weft_node *made = node(s, 0, NULL, 1, &value);
    weft_tensor_release(tensor);
    return made;
}

static weft_node *iota(sample *s) {
    if (!is_number(s->dtype) || s->variant > 2) return NULL;
    if (s->variant == 2) usual(s, WEFT_F32); /* the input that binds the symbol */
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_shape, s->rank, s->dims),
                                    weft_attr_int(WEFT_ATTR_axis, s->rank - 1),
                                    weft_attr_dtype(WEFT_ATTR_dtype, s->dtype)};
    return node(s, 0, NULL, 3, attributes);
}

static weft_node *dim(sample *s) {
    if (s->dtype != WEFT_I64 || s->variant > 2) return NULL;
    usual(s, WEFT_F32); /* the input that binds the symbol */
    weft_dim extent = weft_dim_plus(s->graph, weft_dim_times(s->graph, s->dims[0], 3), 1);
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_extent, 1, &extent);
    return node(s, 0, NULL, 1, &attribute);
}

static weft_node *reshape(sample *s) {
    if (s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_dim to[3][3] = {{2, 3, 2}, {6, 5, 0}, {weft_dim_times(s->graph, s->dims[0], 2), 2, 0}};
    weft_attribute shape = weft_attr_dims(WEFT_ATTR_shape, s->variant == 0 ? 3 : 2, to[s->variant]);
    return node(s, 1, &x, 1, &shape);
}

static weft_node *transpose(sample *s) {
    static const int64_t permutations[3][3] = {{1, 0, 0}, {2, 0, 1}, {1, 0, 0}};
    if (s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute permutation = weft_attr_ints(WEFT_ATTR_permutation, s->rank, permutations[s->variant]);
    return node(s, 1, &x, 1, &permutation);
}

static weft_node *broadcast(sample *s) {
    if (s->variant > 3) return NULL;
    weft_dim one[2] = {1, 4}, shape[3] = {2, s->dims[0], 4};
    int64_t axes[2] = {1, 2}, last[1] = {2};
    if (s->variant == 1) shape[1] = 3;
    weft_value *x = s->variant == 0   ? input(s, s->dtype, 1, &one[1])
                    : s->variant == 1 ? input(s, s->dtype, 2, one)
                    : s->variant == 2 ? usual(s, s->dtype)
                                      : input(s, s->dtype, 0, NULL);
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, 3, shape),
                                    weft_attr_ints(WEFT_ATTR_axes, x->type.rank, s->variant == 0 ? last : axes)};
    return node(s, 1, &x, 2, attributes);
}

static weft_node *slice(sample *s) {
    if (s->variant > 2) return NULL;
    weft_dim start[3][3] = {{1, 0}, {0, 1, 2}, {0, 1}};
    weft_dim limit[3][3] = {{3, 4}, {2, 3, 5}, {s->dims[0], 3}};
    int64_t stride[3][3] = {{1, 3}, {1, 1, 2}, {2, 1}};
    weft_value *x = usual(s, s->dtype);
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_start, s->rank, start[s->variant]),
                                    weft_attr_dims(WEFT_ATTR_limit, s->rank, limit[s->variant]),
                                    weft_attr_ints(WEFT_ATTR_stride, s->rank, stride[s->variant])};
    return node(s, 1, &x, 3, attributes);
}

static weft_node *reverse(sample *s) {
    static const int64_t axes[2] = {0, 1};
    if (s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute attribute = weft_attr_ints(WEFT_ATTR_axes, s->variant == 0 ? 1 : 2, axes);
    return node(s, 1, &x, 1, &attribute);
}

static weft_node *pad(sample *s) {
    static const weft_dim low[3] = {1, 0, 2}, high[3] = {0, 2, 1};
    static const int64_t interior[3][3] = {{0, 0, 0}, {0, 1, 2}, {1, 0, 0}};
    if (s->variant > 3) return NULL;
    weft_dim cut[3] = {weft_dim_number(s->graph->dims, -1), 1, weft_dim_number(s->graph->dims, -2)};
    weft_value *x[2] = {usual(s, s->dtype), input(s, s->dtype, 0, NULL)};
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_low, s->rank, s->variant == 3 ? cut : low),
                                    weft_attr_dims(WEFT_ATTR_high, s->rank, high),
                                    weft_attr_ints(WEFT_ATTR_interior, s->rank, interior[s->variant % 3])};
    return node(s, 2, x, 3, attributes);
}

static weft_node *concat(sample *s) {
    if (s->variant > 2) return NULL;
    weft_dim other[3] = {s->dims[0], s->dims[1], s->dims[2]};
    int axis = s->variant == 0 ? 0 : 1;
    other[axis] = 2;
    weft_value *x[3] = {usual(s, s->dtype), input(s, s->dtype, s->rank, other), usual(s, s->dtype)};
    weft_attribute attribute = weft_attr_int(WEFT_ATTR_axis, axis);
    return node(s, s->variant == 1 ? 2 : 3, x, 1, &attribute);
}

static weft_node *dynamic_slice(sample *s) {
    if (s->variant > 2) return NULL;
    weft_dim sizes[3] = {s->variant == 2 ? 1 : 2, 2, 3};
    weft_value *x[4] = {usual(s, s->dtype)};
    for (int i = 0; i < s->rank; i++) x[i + 1] = input(s, WEFT_I64, 0, NULL);
    weft_attribute attribute = weft_attr_dims(WEFT_ATTR_sizes, s->rank, sizes);
    return node(s, s->rank + 1, x, 1, &attribute);
}

static weft_node *dynamic_update_slice(sample *s) {
    if (s->variant > 2) return NULL;
    weft_dim sizes[3] = {s->variant == 2 ? 1 : 2, 2, 3};
    weft_value *x[5] = {usual(s, s->dtype), input(s, s->dtype, s->rank, sizes)};
    for (int i = 0; i < s->rank; i++) x[i + 2] = input(s, WEFT_I64, 0, NULL);
    return node(s, s->rank + 2, x, 0, NULL);
}

/* Rows by index, single elements by coordinate, blocks with the index axis first. */
typedef struct gather_case {
    int x_rank, index_rank, offset_count, collapsed_count, map_count;
    weft_dim x[2], index[2], sizes[2];
    int64_t offset[2], collapsed[2], map[2];
    int64_t index_axis;
} gather_case;
static const gather_case gather_cases[3] = {
    {2, 1, 1, 1, 1, {5, 4}, {3}, {1, 4}, {1}, {0}, {0}, 1},
    {2, 2, 0, 2, 2, {5, 4}, {3, 2}, {1, 1}, {0}, {0, 1}, {1, 0}, 1},
    {2, 2, 2, 0, 1, {5, 4}, {1, 3}, {2, 4}, {0, 2}, {0}, {0}, 0},
};

static weft_node *gather(sample *s) {
    if (s->variant > 2) return NULL;
    const gather_case *c = &gather_cases[s->variant];
    weft_value *x[2] = {input(s, s->dtype, c->x_rank, c->x), input(s, WEFT_I64, c->index_rank, c->index)};
    weft_attribute attributes[5] = {
        weft_attr_ints(WEFT_ATTR_offset_axes, c->offset_count, c->offset),
        weft_attr_ints(WEFT_ATTR_collapsed_axes, c->collapsed_count, c->collapsed),
        weft_attr_ints(WEFT_ATTR_index_map, c->map_count, c->map),
        weft_attr_int(WEFT_ATTR_index_axis, c->index_axis),
        weft_attr_dims(WEFT_ATTR_sizes, c->x_rank, c->sizes),
    };
    return node(s, 2, x, 5, attributes);
}

static weft_node *scatter(sample *s) {
    static const char *const kinds[] = {"set", "sum", "max", "min", "product"};
    static const weft_dim updates[3][3] = {{3, 4}, {3}, {2, 3, 4}};
    if (s->variant > 4 || (s->variant > 0 && !is_number(s->dtype))) return NULL;
    const gather_case *c = &gather_cases[s->variant % 3];
    int rank = s->variant % 3 == 1 ? 1 : s->variant % 3 == 0 ? 2 : 3;
    weft_value *x[3] = {input(s, s->dtype, c->x_rank, c->x), input(s, WEFT_I64, c->index_rank, c->index),
                        input(s, s->dtype, rank, updates[s->variant % 3])};
    weft_attribute attributes[5] = {
        weft_attr_ints(WEFT_ATTR_offset_axes, c->offset_count, c->offset),
        weft_attr_ints(WEFT_ATTR_collapsed_axes, c->collapsed_count, c->collapsed),
        weft_attr_ints(WEFT_ATTR_index_map, c->map_count, c->map),
        weft_attr_int(WEFT_ATTR_index_axis, c->index_axis),
        weft_attr_string(WEFT_ATTR_kind, kinds[s->variant]),
    };
    return node(s, 3, x, 5, attributes);
}

/* -- reductions */

/* The variant-th kind that suits the dtype; NULL past the last. */
static const char *kind(const sample *s) {
    static const char *const kinds[] = {"sum", "max", "product", "min", "and", "or"};
    int left = s->variant;
    for (int i = 0; i < 6; i++) {
        bool suits = i >= 4       ? is_bool(s->dtype) || is_integer(s->dtype)
                     : i % 2 == 0 ? is_number(s->dtype) || is_complex(s->dtype)
                                  : is_number(s->dtype);
        if (suits && left-- == 0) return kinds[i];
    }
    return NULL;
}

static weft_node *reduce(sample *s) {
    static const int64_t axes[3][2] = {{1}, {0, 2}, {0}};
    if (!kind(s)) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_axes, s->variant == 1 ? 2 : 1, axes[s->variant % 3]),
                                    weft_attr_string(WEFT_ATTR_kind, kind(s))};
    return node(s, 1, &x, 2, attributes);
}

static weft_node *arg_reduce(sample *s) {
    if (!is_number(s->dtype) || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, s->variant == 1 ? 2 : 1),
                                    weft_attr_string(WEFT_ATTR_kind, s->variant == 1 ? "min" : "max"),
                                    weft_attr_int(WEFT_ATTR_select_last, s->variant == 2)};
    return node(s, 1, &x, 3, attributes);
}

static weft_node *cumulative(sample *s) {
    if (!kind(s)) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute attributes[4] = {
        weft_attr_int(WEFT_ATTR_axis, s->variant == 1 ? 2 : 0), weft_attr_string(WEFT_ATTR_kind, kind(s)),
        weft_attr_int(WEFT_ATTR_exclusive, s->variant & 1), weft_attr_int(WEFT_ATTR_reverse, s->variant >> 1 & 1)};
    return node(s, 1, &x, 4, attributes);
}

static weft_node *reduce_window(sample *s) {
    static const int64_t window[2] = {2, 3}, stride[2] = {1, 2}, ones[2] = {1, 1}, twos[2] = {2, 1};
    static const weft_dim low[2] = {1, 0}, high[2] = {0, 1};
    if (!kind(s)) return NULL;
    weft_dim dims[2] = {s->variant == 2 ? s->dims[0] : 6, 7};
    weft_value *x = input(s, s->dtype, 2, dims);
    weft_attribute attributes[7] = {weft_attr_string(WEFT_ATTR_kind, kind(s)),
                                    weft_attr_ints(WEFT_ATTR_window, 2, window),
                                    weft_attr_ints(WEFT_ATTR_stride, 2, stride),
                                    weft_attr_ints(WEFT_ATTR_dilation, 2, s->variant == 1 ? twos : ones),
                                    weft_attr_ints(WEFT_ATTR_base_dilation, 2, s->variant == 3 ? twos : ones),
                                    weft_attr_dims(WEFT_ATTR_low, 2, low),
                                    weft_attr_dims(WEFT_ATTR_high, 2, high)};
    return node(s, 1, &x, 7, attributes);
}

static weft_node *select_and_scatter(sample *s) {
    static const int64_t window[2] = {2, 3}, stride[2] = {2, 2};
    static const weft_dim low[2] = {0, 1}, high[2] = {0, 1}, dims[2] = {6, 7}, out[2] = {3, 4};
    if (!is_number(s->dtype) || s->variant > 0) return NULL;
    weft_value *x[2] = {input(s, s->dtype, 2, dims), input(s, s->dtype, 2, out)};
    weft_attribute attributes[4] = {weft_attr_ints(WEFT_ATTR_window, 2, window),
                                    weft_attr_ints(WEFT_ATTR_stride, 2, stride), weft_attr_dims(WEFT_ATTR_low, 2, low),
                                    weft_attr_dims(WEFT_ATTR_high, 2, high)};
    return node(s, 2, x, 4, attributes);
}

/* -- order */

static weft_node *sort(sample *s) {
    if (is_complex(s->dtype) || s->variant > 2) return NULL;
    weft_value *x[2] = {usual(s, s->dtype), usual(s, WEFT_I64)};
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, 1),
                                    weft_attr_int(WEFT_ATTR_descending, s->variant & 1),
                                    weft_attr_int(WEFT_ATTR_stable, 1)};
    return node(s, s->variant == 0 ? 1 : 2, x, 3, attributes);
}

static weft_node *top_k(sample *s) {
    if (!is_number(s->dtype) || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_dim k = 2;
    weft_attribute attributes[3] = {weft_attr_int(WEFT_ATTR_axis, s->variant == 1 ? 2 : 1),
                                    weft_attr_dims(WEFT_ATTR_k, 1, &k),
                                    weft_attr_int(WEFT_ATTR_descending, s->variant != 1)};
    return node(s, 1, &x, 3, attributes);
}

static weft_node *nonzero(sample *s) {
    if (s->variant > 1) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute symbol = weft_attr_string(WEFT_ATTR_symbol, "count");
    if (s->variant == 1) weft_dim_symbol(s->graph->dims, "count", 0, 30, 1, WEFT_SYMBOL_DATA);
    return node(s, 1, &x, s->variant == 1, &symbol);
}

/* -- products */

static weft_dtype product_dtype(weft_dtype dtype) {
    if (is_complex(dtype) || weft_dtype_bits(dtype) == 64) return dtype;
    return is_integer(dtype) ? WEFT_I32 : WEFT_F32;
}

static weft_node *dot_general(sample *s) {
    if (is_bool(s->dtype) || s->variant > 3) return NULL;
    static const int64_t zero[2] = {0, 0}, one[2] = {1, 1}, two[2] = {2, 2};
    weft_dim b = s->variant == 2 ? s->dims[0] : 3;
    weft_dim lhs[3] = {b, 4, 5}, rhs[3] = {b, 5, 2};
    bool batched = s->variant == 1;
    weft_value *x[2] = {batched ? input(s, s->dtype, 3, lhs) : input(s, s->dtype, 2, lhs),
                        batched ? input(s, s->dtype, 3, rhs) : input(s, s->dtype, 2, (weft_dim[]){4, 6})};
    if (s->variant == 3) x[1] = input(s, s->dtype, 2, (weft_dim[]){6, 4});
    weft_attribute attributes[6] = {
        weft_attr_ints(WEFT_ATTR_lhs_batch, batched, zero),
        weft_attr_ints(WEFT_ATTR_rhs_batch, batched, zero),
        weft_attr_ints(WEFT_ATTR_lhs_contract, 1, batched ? two : one),
        weft_attr_ints(WEFT_ATTR_rhs_contract, 1, batched || s->variant == 3 ? one : zero),
        weft_attr_dtype(WEFT_ATTR_dtype, product_dtype(s->dtype)),
        weft_attr_dtype(WEFT_ATTR_accumulate, product_dtype(s->dtype)),
    };
    return node(s, 2, x, s->variant == 0 ? 5 : 6, attributes);
}

/* By rows with either order of the weights, and rows contracted; offsets of any value have a meaning. */
static weft_node *ragged_dot(sample *s) {
    if (!is_number(s->dtype) || s->variant > 4) return NULL;
    static const int64_t contract[5] = {1, 2, 1, 0, 0};
    bool by_rows = contract[s->variant] != 0;
    weft_dim rows = s->variant == 2 || s->variant == 4 ? weft_graph_symbol(s->graph, "M", 1, 64, 1) : 7, bounds = 4;
    weft_dim by_group[3] = {3, s->variant == 1 ? 6 : 5, s->variant == 1 ? 5 : 6};
    weft_value *x[3] = {input(s, s->dtype, 2, (weft_dim[]){rows, 5}),
                        by_rows ? input(s, s->dtype, 3, by_group) : input(s, s->dtype, 2, (weft_dim[]){rows, 6}),
                        input(s, s->variant == 1 ? WEFT_I32 : WEFT_I64, 1, &bounds)};
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_rhs_contract, 1, &contract[s->variant]),
                                    weft_attr_dtype(WEFT_ATTR_dtype, product_dtype(s->dtype))};
    return node(s, 3, x, 2, attributes);
}

/* Blocks that divide the extents; blocks that do not, in a batch; rows of a symbolic number. */
static weft_node *scaled_dot(sample *s) {
    if (!is_float(s->dtype) || weft_dtype_bits(s->dtype) > 32 || s->variant > 2) return NULL;
    static const int64_t block[3][3] = {{1, 2, 4}, {3, 4, 3}, {1, 4, 4}};
    bool batched = s->variant == 1;
    weft_dim m = s->variant == 2 ? weft_graph_symbol(s->graph, "M", 1, 64, 1) : 5, k = batched ? 7 : 8;
    weft_dim a[3] = {2, m, k}, b[3] = {2, 6, k}, scale_a[3] = {2, batched ? 2 : m, batched ? 3 : 2},
             scale_b[3] = {2, s->variant ? 2 : 3, batched ? 3 : 2};
    int rank = batched ? 3 : 2, from = batched ? 0 : 1;
    weft_value *x[4] = {input(s, s->dtype, rank, a + from), input(s, s->dtype, rank, b + from),
                        input(s, WEFT_F32, rank, scale_a + from), input(s, WEFT_F32, rank, scale_b + from)};
    weft_attribute attributes[2] = {weft_attr_ints(WEFT_ATTR_block, 3, block[s->variant]),
                                    weft_attr_dtype(WEFT_ATTR_dtype, s->variant ? WEFT_F32 : WEFT_BF16)};
    return node(s, 4, x, 2, attributes);
}

static weft_node *convolution(sample *s) {
    if (!is_number(s->dtype) || s->variant > 3) return NULL;
    static const int64_t stride[2] = {1, 2}, ones[2] = {1, 1}, twos[2] = {2, 2};
    static const weft_dim low[2] = {1, 1}, high[2] = {0, 1};
    int64_t groups = s->variant == 1 ? 2 : 1;
    weft_dim dims[4] = {2, 4, s->variant == 2 ? s->dims[0] : 5, 6}, weights[4] = {6, 4 / groups, 2, 3};
    int spatial = s->variant == 3 ? 1 : 2;
    weft_value *x[2] = {input(s, s->dtype, spatial + 2, dims), input(s, s->dtype, spatial + 2, weights)};
    weft_attribute attributes[7] = {
        weft_attr_ints(WEFT_ATTR_stride, spatial, stride),
        weft_attr_dims(WEFT_ATTR_low, spatial, low),
        weft_attr_dims(WEFT_ATTR_high, spatial, high),
        weft_attr_ints(WEFT_ATTR_dilation, spatial, s->variant == 1 ? twos : ones),
        weft_attr_ints(WEFT_ATTR_base_dilation, spatial, s->variant == 3 ? twos : ones),
        weft_attr_int(WEFT_ATTR_groups, groups),
        weft_attr_dtype(WEFT_ATTR_dtype, product_dtype(s->dtype)),
    };
    return node(s, 2, x, 7, attributes);
}

/* -- random bits, transforms, linear algebra */

static weft_node *rng_bits(sample *s) {
    if ((s->dtype != WEFT_U16 && s->dtype != WEFT_U32 && s->dtype != WEFT_U64) || s->variant > 2) return NULL;
    if (s->variant == 2) usual(s, WEFT_F32); /* binds the symbol */
    weft_value *key = input(s, WEFT_U64, 1, (weft_dim[]){2});
    weft_attribute attributes[2] = {weft_attr_dims(WEFT_ATTR_shape, s->rank, s->dims),
                                    weft_attr_dtype(WEFT_ATTR_dtype, s->dtype)};
    return node(s, 1, &key, 2, attributes);
}

static weft_node *fft(sample *s) {
    if (!is_complex(s->dtype) || s->variant > 2) return NULL;
    weft_value *x = usual(s, s->dtype);
    weft_attribute attributes[2] = {weft_attr_string(WEFT_ATTR_kind, s->variant == 1 ? "inverse" : "forward"),
                                    weft_attr_int(WEFT_ATTR_axis, 1)};
    return node(s, 1, &x, 2, attributes);
}

/* cholesky, qr, eigh: f32 and f64 matrices, the second variant with a batch; eigh of matrices that GPUs give a block
   each. */
static weft_node *matrix(sample *s) {
    if ((s->dtype != WEFT_F32 && s->dtype != WEFT_F64) || s->variant > (s->op == WEFT_OP_eigh ? 2 : 1)) return NULL;
    weft_dim dims[3] = {2, 3, 3};
    if (s->op == WEFT_OP_qr) dims[1] = 4;
    if (s->variant == 2) dims[1] = dims[2] = 9;
    weft_value *x = input(s, s->dtype, s->variant > 0 ? 3 : 2, s->variant > 0 ? dims : dims + 1);
    weft_attribute lower = weft_attr_int(WEFT_ATTR_lower, s->variant == 0);
    return node(s, 1, &x, s->op == WEFT_OP_cholesky, &lower);
}

static weft_node *triangular_solve(sample *s) {
    if ((s->dtype != WEFT_F32 && s->dtype != WEFT_F64) || s->variant > 3) return NULL;
    bool left = s->variant < 2;
    weft_value *x[2] = {input(s, s->dtype, 2, (weft_dim[]){3, 3}),
                        input(s, s->dtype, 2, left ? (weft_dim[]){3, 2} : (weft_dim[]){2, 3})};
    weft_attribute attributes[4] = {
        weft_attr_int(WEFT_ATTR_left_side, left), weft_attr_int(WEFT_ATTR_lower, s->variant & 1),
        weft_attr_int(WEFT_ATTR_transpose_a, s->variant == 2), weft_attr_int(WEFT_ATTR_unit_diagonal, s->variant == 3)};
    return node(s, 2, x, 4, attributes);
}

/* -- control flow and states */

static void yield(sample *s, int count, weft_value *const *values) {
    weft_node_create(s->graph, WEFT_OP_yield, count, values, 0, NULL, 0, NULL);
}

/* i < 3: i = i + 1, x = x + x */
static weft_node *while_node(sample *s) {
    if ((!is_number(s->dtype) && !is_complex(s->dtype)) || s->variant > 2) return NULL;
    weft_value *start[2] = {input(s, WEFT_I64, 0, NULL), usual(s, s->dtype)};
    weft_region *regions[2];
    weft_value *arguments[2][2];
    weft_place old = {s->graph->insertion, s->graph->insert_before};
    for (int r = 0; r < 2; r++) {
        regions[r] = weft_region_create(s->graph);
        if (!regions[r]) return NULL;
        for (int i = 0; i < 2; i++) arguments[r][i] = weft_block_add_argument(regions[r]->block, &start[i]->type, NULL);
    }
    weft_graph_place_end(s->graph, regions[0]->block);
    weft_value *test = weft_emit_compare(s->graph, "lt", arguments[0][0], weft_emit_scalar(s->graph, WEFT_I64, 3));
    yield(s, 1, &test);
    weft_graph_place_end(s->graph, regions[1]->block);
    weft_value *next[2] = {weft_emit_binary_scalar(s->graph, WEFT_OP_add, arguments[1][0], 1),
                           weft_emit_binary(s->graph, WEFT_OP_add, arguments[1][1], arguments[1][1])};
    yield(s, 2, next);
    weft_graph_place(s->graph, old);
    weft_attribute bound = weft_attr_int(WEFT_ATTR_bound, s->variant == 1 ? 3 : -1);
    return weft_node_create(s->graph, s->op, 2, start, 1, &bound, 2, regions);
}

static weft_node *cond(sample *s) {
    if ((!is_number(s->dtype) && !is_complex(s->dtype)) || s->variant > 2) return NULL;
    weft_value *predicate = input(s, WEFT_BOOL, 0, NULL), *x = usual(s, s->dtype);
    weft_region *regions[2] = {weft_region_create(s->graph), weft_region_create(s->graph)};
    if (!regions[0] || !regions[1]) return NULL;
    weft_place old = weft_graph_place_end(s->graph, regions[0]->block);
    weft_value *twice[2] = {weft_emit_binary(s->graph, WEFT_OP_add, x, x), x};
    yield(s, 2, twice);
    weft_graph_place_end(s->graph, regions[1]->block);
    weft_value *square[2] = {weft_emit_binary(s->graph, WEFT_OP_mul, x, x), x};
    yield(s, 2, square);
    weft_graph_place(s->graph, old);
    return weft_node_create(s->graph, s->op, 1, &predicate, 0, NULL, 2, regions);
}

/* carry = carry + slice; output = carry * slice */
static weft_node *scan(sample *s) {
    if ((!is_number(s->dtype) && !is_complex(s->dtype)) || s->variant > 2) return NULL;
    weft_value *stacked = usual(s, s->dtype);
    weft_type slice_type = {s->dtype, s->rank - 1, s->dims + 1};
    weft_value *operands[2] = {input(s, s->dtype, s->rank - 1, s->dims + 1), stacked};
    weft_region *region = weft_region_create(s->graph);
    if (!region) return NULL;
    weft_value *carry = weft_block_add_argument(region->block, &slice_type, "carry");
    weft_value *one = weft_block_add_argument(region->block, &slice_type, NULL);
    weft_place old = weft_graph_place_end(s->graph, region->block);
    weft_value *results[2] = {weft_emit_binary(s->graph, WEFT_OP_add, carry, one),
                              weft_emit_binary(s->graph, WEFT_OP_mul, carry, one)};
    yield(s, 2, results);
    weft_graph_place(s->graph, old);
    weft_dim k = 1;
    weft_attribute attributes[3] = {weft_attr_dims(WEFT_ATTR_k, 1, &k), weft_attr_dims(WEFT_ATTR_trips, 1, s->dims),
                                    weft_attr_int(WEFT_ATTR_reverse, s->variant == 1)};
    return weft_node_create(s->graph, s->op, 2, operands, 3, attributes, 1, &region);
}

/* x + y with a derivative of its own: forward (tx + ty) or reverse (c, c) */
static weft_node *custom_gradient(sample *s) {
    if (!is_float(s->dtype) || s->variant > 2) return NULL;
    weft_value *x[2] = {usual(s, s->dtype), usual(s, s->dtype)};
    weft_region *regions[2] = {weft_region_create(s->graph), weft_region_create(s->graph)};
    if (!regions[0] || !regions[1]) return NULL;
    weft_value *a[2][4];
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 2 + 2 * r; i++) a[r][i] = weft_block_add_argument(regions[r]->block, &x[0]->type, NULL);
    weft_place old = weft_graph_place_end(s->graph, regions[0]->block);
    weft_value *result = weft_emit_binary(s->graph, WEFT_OP_add, a[0][0], a[0][1]);
    yield(s, 1, &result);
    weft_graph_place_end(s->graph, regions[1]->block);
    weft_value *sum = weft_emit_binary(s->graph, WEFT_OP_add, a[1][2], a[1][3]), *both[2] = {a[1][3], a[1][3]};
    yield(s, s->variant == 1 ? 2 : 1, s->variant == 1 ? both : &sum);
    weft_graph_place(s->graph, old);
    weft_attribute kind = weft_attr_string(WEFT_ATTR_kind, s->variant == 1 ? "reverse" : "forward");
    return weft_node_create(s->graph, s->op, 2, x, 1, &kind, 2, regions);
}

static weft_node *fusion(sample *s) {
    if ((!is_number(s->dtype) && !is_complex(s->dtype)) || s->variant > 2) return NULL;
    weft_value *x[2] = {usual(s, s->dtype), usual(s, s->dtype)};
    weft_region *region = weft_region_create(s->graph);
    if (!region) return NULL;
    weft_value *a = weft_block_add_argument(region->block, &x[0]->type, NULL);
    weft_value *b = weft_block_add_argument(region->block, &x[1]->type, NULL);
    weft_place old = weft_graph_place_end(s->graph, region->block);
    weft_value *sum = weft_emit_binary(s->graph, WEFT_OP_mul, weft_emit_binary(s->graph, WEFT_OP_add, a, b), b);
    yield(s, 1, &sum);
    weft_graph_place(s->graph, old);
    weft_attribute anchor = weft_attr_string(WEFT_ATTR_anchor, "pointwise");
    return weft_node_create(s->graph, s->op, 2, x, 1, &anchor, 1, &region);
}

static weft_node *state(sample *s) {
    if (s->variant > 1) return NULL;
    weft_type type = {s->dtype, s->rank, s->dims};
    weft_graph_add_state(s->graph, s->variant ? "my state" : "w", &type, NULL);
    weft_value *x = s->op == WEFT_OP_state_update ? usual(s, s->dtype) : NULL;
    weft_attribute name = weft_attr_string(WEFT_ATTR_name, s->variant ? "my state" : "w");
    return node(s, x != NULL, &x, 1, &name);
}

/* -- the table */

static weft_node *sample_node(sample *s) {
    weft_dtype d = s->dtype;
    switch (s->op) {
    case WEFT_OP_abs:
    case WEFT_OP_sign: return unary(s, is_number(d));
    case WEFT_OP_neg: return unary(s, is_number(d) || is_complex(d));
    case WEFT_OP_ceil:
    case WEFT_OP_floor:
    case WEFT_OP_round:
    case WEFT_OP_exp:
    case WEFT_OP_expm1:
    case WEFT_OP_log:
    case WEFT_OP_log1p:
    case WEFT_OP_sqrt:
    case WEFT_OP_rsqrt:
    case WEFT_OP_sin:
    case WEFT_OP_cos:
    case WEFT_OP_tan:
    case WEFT_OP_asin:
    case WEFT_OP_acos:
    case WEFT_OP_atan:
    case WEFT_OP_sinh:
    case WEFT_OP_cosh:
    case WEFT_OP_asinh:
    case WEFT_OP_acosh:
    case WEFT_OP_atanh:
    case WEFT_OP_tanh:
    case WEFT_OP_logistic:
    case WEFT_OP_erf:
    case WEFT_OP_is_nan:
    case WEFT_OP_is_finite:
    case WEFT_OP_silu:
    case WEFT_OP_softplus: return unary(s, is_float(d));
    case WEFT_OP_not: return unary(s, is_bool(d) || is_integer(d));
    case WEFT_OP_popcount: return unary(s, is_integer(d));
    case WEFT_OP_add:
    case WEFT_OP_sub:
    case WEFT_OP_mul:
    case WEFT_OP_div: return binary(s, is_number(d) || is_complex(d));
    case WEFT_OP_rem:
    case WEFT_OP_pow:
    case WEFT_OP_max:
    case WEFT_OP_min: return binary(s, is_number(d));
    case WEFT_OP_atan2: return binary(s, is_float(d));
    case WEFT_OP_and:
    case WEFT_OP_or:
    case WEFT_OP_xor: return binary(s, is_bool(d) || is_integer(d));
    case WEFT_OP_shift_left:
    case WEFT_OP_shift_right_logical:
    case WEFT_OP_shift_right_arithmetic: return binary(s, is_integer(d));
    case WEFT_OP_compare: return compare(s);
    case WEFT_OP_select: return select_node(s);
    case WEFT_OP_convert: return convert(s);
    case WEFT_OP_bitcast: return bitcast(s);
    case WEFT_OP_constant: return constant(s);
    case WEFT_OP_iota: return iota(s);
    case WEFT_OP_dim: return dim(s);
    case WEFT_OP_reshape: return reshape(s);
    case WEFT_OP_transpose: return transpose(s);
    case WEFT_OP_broadcast: return broadcast(s);
    case WEFT_OP_slice: return slice(s);
    case WEFT_OP_reverse: return reverse(s);
    case WEFT_OP_pad: return pad(s);
    case WEFT_OP_concat: return concat(s);
    case WEFT_OP_dynamic_slice: return dynamic_slice(s);
    case WEFT_OP_dynamic_update_slice: return dynamic_update_slice(s);
    case WEFT_OP_gather: return gather(s);
    case WEFT_OP_scatter: return scatter(s);
    case WEFT_OP_reduce: return reduce(s);
    case WEFT_OP_arg_reduce: return arg_reduce(s);
    case WEFT_OP_cumulative: return cumulative(s);
    case WEFT_OP_reduce_window: return reduce_window(s);
    case WEFT_OP_select_and_scatter: return select_and_scatter(s);
    case WEFT_OP_sort: return sort(s);
    case WEFT_OP_top_k: return top_k(s);
    case WEFT_OP_nonzero: return nonzero(s);
    case WEFT_OP_dot_general: return dot_general(s);
    case WEFT_OP_ragged_dot: return ragged_dot(s);
    case WEFT_OP_scaled_dot: return scaled_dot(s);
    case WEFT_OP_convolution: return convolution(s);
    case WEFT_OP_rng_bits: return rng_bits(s);
    case WEFT_OP_complex: return binary(s, d == WEFT_F32 || d == WEFT_F64);
    case WEFT_OP_real:
    case WEFT_OP_imag: return unary(s, is_complex(d));
    case WEFT_OP_fft: return fft(s);
    case WEFT_OP_cholesky:
    case WEFT_OP_qr:
    case WEFT_OP_eigh: return matrix(s);
    case WEFT_OP_triangular_solve: return triangular_solve(s);
    case WEFT_OP_while: return while_node(s);
    case WEFT_OP_cond: return cond(s);
    case WEFT_OP_scan: return scan(s);
    case WEFT_OP_fusion: return fusion(s);
    case WEFT_OP_yield: return NULL; /* the end of every region above */
    case WEFT_OP_stop_gradient: return unary(s, true);
    case WEFT_OP_custom_gradient: return custom_gradient(s);
    case WEFT_OP_state_read:
    case WEFT_OP_state_update: return state(s);
    case WEFT_OP_optimization_barrier: return s->variant == 0 ? unary(s, true) : binary(s, true);
    case WEFT_OP_softmax:
    case WEFT_OP_log_softmax: return weft_sample_softmax(s);
    case WEFT_OP_layer_norm:
    case WEFT_OP_rms_norm: return weft_sample_norm(s);
    case WEFT_OP_gelu: return weft_sample_gelu(s);
    case WEFT_OP_attention:
    case WEFT_OP_attention_backward:
    case WEFT_OP_attention_tangent: return weft_sample_attention(s);
    case WEFT_OP_rope: return weft_sample_rope(s);
    case WEFT_OP_cross_entropy: return weft_sample_cross_entropy(s);
    case WEFT_OP_COUNT: break;
    }
    return NULL;
}

weft_node *weft_sample_node(weft_graph *graph, weft_op op, weft_dtype dtype, int variant) {
    if (dtype == WEFT_INVALID || dtype == WEFT_STRING) return NULL;
    sample s = {graph, op, dtype, variant, 2, {3, 4}};
    if (variant == 1) s = (sample){graph, op, dtype, variant, 3, {2, 3, 5}};
    if (variant == 2) s.dims[0] = weft_graph_symbol(graph, "B", 1, 64, 1);
    weft_node *made = sample_node(&s);
    for (int i = 0; made && i < made->result_count && !weft_value_is_poison(&made->results[i]); i++) {
        char name[16];
        snprintf(name, sizeof name, "y%zu", graph->output_count);
        weft_graph_output(graph, name, &made->results[i]);
    }
    return made;
}
