/* A few operators of ai.onnx.ml that are numeric. */
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/import.h"

/* Columns of the last axis. */
void weft_onnx_import_array_feature_extractor(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *indices = weft_onnx_input(node, 1);
    if (weft_value_is_poison(x) || weft_value_is_poison(indices)) return;
    weft_dim all = WEFT_DIM_ANY;
    weft_onnx_output(node, 0, weft_take(g, x, weft_convert(g, weft_reshape(g, indices, 1, &all), WEFT_I64), -1));
}

void weft_onnx_import_binarizer(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    if (weft_value_is_poison(x)) return;
    weft_value *above = weft_compare(g, WEFT_GT, x, weft_onnx_scalar_like(g, x, weft_onnx_float(node, "threshold", 0)));
    weft_onnx_output(node, 0, weft_convert(g, above, x->type.dtype));
}

/* A list attribute (tensor, integers or floats) as a vector value; NULL when the node has none of them. */
static weft_value *list_of(weft_onnx_node *node, const char *tensor_name, const char *ints_name,
                           const char *floats_name) {
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, tensor_name);
    weft_context *context = node->import->context;
    weft_tensor *tensor = NULL;
    weft_status status;
    int64_t count;
    if (attribute && attribute->t)
        status = weft_onnx_tensor_create(context, attribute->t, &node->import->folder, &tensor);
    else if ((attribute = weft_onnx_attribute(node, ints_name)))
        count = (int64_t)attribute->n_ints,
        status = weft_tensor_create_copy(context, WEFT_I64, 1, &count, attribute->ints, &tensor);
    else if ((attribute = weft_onnx_attribute(node, floats_name)))
        count = (int64_t)attribute->n_floats,
        status = weft_tensor_create_copy(context, WEFT_F32, 1, &count, attribute->floats, &tensor);
    else
        return NULL;
    return weft_onnx_constant(node->import, status, tensor, NULL);
}

/* keys[i] -> values[i]; anything else -> the default. NaN keys match NaN. */
void weft_onnx_import_label_encoder(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0), *keys = list_of(node, "keys_tensor", "keys_int64s", "keys_floats"),
               *values = list_of(node, "values_tensor", "values_int64s", "values_floats");
    if (weft_value_is_poison(x) || !keys || !values || weft_value_is_poison(keys) || weft_value_is_poison(values)) {
        if (!keys || !values) weft_onnx_problem(node, "strings exist on the host only");
        return;
    }
    if (keys->type.rank != 1 || values->type.rank != 1 || keys->type.dims[0] != values->type.dims[0]) {
        weft_onnx_problem(node, "keys and values differ in number");
        return;
    }
    int64_t last = x->type.rank;
    weft_value *beside = weft_unsqueeze(g, x, 1, &last), *match = weft_compare(g, WEFT_EQ, beside, keys);
    if (weft_dtype_is_float(x->type.dtype))
        match = weft_or(g, match, weft_and(g, weft_is_nan(g, beside), weft_is_nan(g, keys)));
    weft_value *at = weft_arg_reduce(g, WEFT_MAX, weft_convert(g, match, WEFT_I32), x->type.rank, false, false);
    weft_value *any = weft_reduce(g, WEFT_OR, match, 1, &last, false);
    weft_value *fallback;
    const Onnx__AttributeProto *attribute = weft_onnx_attribute(node, "default_tensor");
    if (attribute && attribute->t) {
        weft_tensor *tensor = NULL;
        weft_status status =
            weft_onnx_tensor_create(node->import->context, attribute->t, &node->import->folder, &tensor);
        fallback = weft_reshape(g, weft_onnx_constant(node->import, status, tensor, NULL), 0, NULL);
    } else if (weft_dtype_is_float(values->type.dtype))
        fallback = weft_scalar(g, values->type.dtype, weft_onnx_float(node, "default_float", -0.0));
    else
        fallback = weft_scalar_integer(g, values->type.dtype, weft_onnx_int(node, "default_int64", -1));
    weft_onnx_output(node, 0, weft_where(g, any, weft_take(g, values, at, 0), fallback));
}

/* -- TfIdfVectorizer on integers: how often each n-gram of a pool occurs, with gaps of up to max_skip_count */

/* Occurrences of grams [G, n] in rows x [N, L] with a gap of `skip`: i64 [N, G]; NULL when no window fits. */
static weft_value *occurrences(weft_onnx_node *node, weft_value *x, const int64_t *pool, int64_t grams, int64_t n,
                               int64_t skip) {
    weft_graph *g = node->graph;
    int64_t length, shape[2] = {grams, n};
    if (!weft_onnx_dim_number(g, x->type.dims[1], &length)) {
        weft_onnx_problem(node, "rows must have a known length");
        return NULL;
    }
    int64_t windows = length - (n - 1) * (skip + 1);
    if (windows < 1) return NULL;
    weft_tensor *tensor = NULL;
    weft_status status = weft_tensor_create_copy(node->import->context, WEFT_I64, 2, shape, pool, &tensor);
    weft_value *table = weft_onnx_constant(node->import, status, tensor, NULL);
    weft_dim window_shape[2] = {windows, n};
    weft_value *step = weft_scalar_integer(g, WEFT_I64, skip + 1);
    weft_value *at = weft_add(g, weft_iota(g, WEFT_I64, 2, window_shape, 0),
                              weft_mul(g, weft_iota(g, WEFT_I64, 2, window_shape, 1), step));
    int64_t between = 2, last = 3, row = 1;
    weft_value *picked = weft_unsqueeze(g, weft_take(g, x, at, 1), 1, &between); /* [N, windows, 1, n] */
    weft_value *same = weft_reduce(g, WEFT_AND, weft_compare(g, WEFT_EQ, picked, table), 1, &last, false);
    return weft_reduce_sum(g, weft_convert(g, same, WEFT_I64), 1, &row, false);
}

/* All gaps of the n-grams of one length. */
static weft_value *count_grams(weft_onnx_node *node, weft_value *x, const int64_t *pool, int64_t grams, int64_t n) {
    weft_graph *g = node->graph;
    int64_t skips = n == 1 ? 0 : weft_onnx_int(node, "max_skip_count", 0);
    weft_dim none[2] = {x->type.dims[0], grams};
    weft_value *sum = weft_full(g, WEFT_I64, 2, none, 0);
    for (int64_t s = 0; s <= skips && s < 1000; s++) {
        weft_value *found = occurrences(node, x, pool, grams, n, s);
        if (found) sum = weft_add(g, sum, found);
    }
    return sum;
}

void weft_onnx_import_tfidf_vectorizer(weft_onnx_node *node) {
    weft_graph *g = node->graph;
    weft_value *x = weft_onnx_input(node, 0);
    int starts_count, columns_count, pool_count;
    const int64_t *starts, *columns, *pool;
    if (weft_value_is_poison(x)) return;
    if (!weft_onnx_ints(node, "ngram_counts", &starts_count, &starts) ||
        !weft_onnx_ints(node, "ngram_indexes", &columns_count, &columns) ||
        !weft_onnx_ints(node, "pool_int64s", &pool_count, &pool) || x->type.rank < 1 || x->type.rank > 2) {
        weft_onnx_problem(node, "wants ngram_counts, ngram_indexes and pool_int64s (strings exist on the host only)");
        return;
    }
    int64_t shortest = weft_onnx_int(node, "min_gram_length", 1), longest = weft_onnx_int(node, "max_gram_length", 1),
            zero = 0, width = 0;
    bool single = x->type.rank == 1;
    weft_value *rows = weft_convert(g, single ? weft_unsqueeze(g, x, 1, &zero) : x, WEFT_I64), *parts[64];
    int part_count = 0;
    int64_t gram = 0;
    for (int i = 0; i < columns_count; i++) width = columns[i] + 1 > width ? columns[i] + 1 : width;
    for (int n = 1; n <= starts_count && n <= 64; n++) {
        int64_t from = starts[n - 1], to = n < starts_count ? starts[n] : pool_count, grams = (to - from) / n;
        if (from < 0 || to < from || to > pool_count || gram + grams > columns_count) {
            weft_onnx_problem(node, "ngram_counts do not fit the pool");
            return;
        }
        if (grams > 0) {
            weft_dim none[2] = {rows->type.dims[0], grams};
            bool counted = n >= shortest && n <= longest;
            parts[part_count++] =
                counted ? count_grams(node, rows, pool + from, grams, n) : weft_full(g, WEFT_I64, 2, none, 0);
        }
        gram += grams;
    }
    if (part_count == 0 || gram != columns_count || width > 1 << 24) {
        weft_onnx_problem(node, "%d columns for %lld n-grams", columns_count, (long long)gram);
        return;
    }
    weft_value *counts = weft_convert(g, weft_concat(g, 1, part_count, parts), WEFT_F32),
               *factor = list_of(node, "", "", "weights");
    const char *mode = weft_onnx_string(node, "mode", "TF");
    if (strcmp(mode, "IDF") == 0)
        counts = weft_convert(g, weft_compare(g, WEFT_GT, counts, weft_scalar(g, WEFT_F32, 0)), WEFT_F32);
    if (strcmp(mode, "TF") != 0 && factor) counts = weft_mul(g, counts, factor);
    if (weft_value_is_poison(counts)) return;
    weft_dim wide[2] = {width, rows->type.dims[0]};
    int64_t last = 1;
    weft_value *at = weft_unsqueeze(g, weft_integers(g, columns_count, columns), 1, &last);
    weft_value *y = weft_transpose(
        g, weft_scatter_nd(g, WEFT_SUM, weft_full(g, WEFT_F32, 2, wide, 0), at, weft_transpose(g, counts, NULL)), NULL);
    weft_onnx_output(node, 0, single ? weft_squeeze(g, y, 1, &zero) : y);
}
